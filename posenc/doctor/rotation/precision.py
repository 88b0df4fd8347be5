"""Check a rotation in low precision: half-precision input, and a module that was cast."""

import torch
from torch import Tensor, nn

from posenc.doctor.numerics import HALF_PRECISION, not_finite, random, token_differences, worst
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.rotation.measure import Rotation, RotationRecord
from posenc.doctor.safe_call import attempt

# Of the length of a token: more than the rounding of the result, less than that of the angle at some position.
TOLERANCE = 0.03
FIRST_ROUNDED = {"bfloat16": 257, "float16": 2049}  # the first integer that the dtype does not hold


def half_precision(record: RotationRecord) -> Finding:
    """Check that float32 input is not rounded, and compare bfloat16 and float16 input with it."""
    # The difference from float32 cannot show this: float32 has the same rounded numbers.
    if record.reading.rounded_to:
        sentence = f"cosines and sines, or the result, are rounded to {record.reading.rounded_to} whatever the input"
        remedy = "Keep the table in float32 and round it to the dtype of the input in each call"
        return wrong("angles-rounded", f"{sentence}, so float32 loses digits. {remedy}")
    x, positions, expected = record.rotate.prefill
    largest = 0.0
    # Where queries decay, as in xPos, keys grow until they overflow.
    if record.gains_vary:
        expected = expected[:1]
    if finding := not_finite(expected, "in float32"):
        return finding
    for name, dtype in HALF_PRECISION.items():
        # A fresh copy: a cache that was filled in float32 would hide what is computed in the dtype of the input.
        results, failed = attempt(record.rotate.fresh().sides, x.to(dtype), positions)
        if failed:
            return not_checked(f"{name} input raises {failed}")
        if finding := not_finite(results[: len(expected)], f"in {name}"):
            return finding
        sides = zip(results, expected, strict=False)
        differences = torch.stack([token_differences(result, right) for result, right in sides]).amax(0)  # (t,)
        largest = worst(largest, differences)
        if largest > TOLERANCE:
            return _rounded(record, name, differences)
    return passed(f"bfloat16 and float16 input: within {largest:.1g} of float32 up to {len(positions):,}", largest)


def _rounded(record: RotationRecord, name: str, differences: Tensor) -> Finding:
    """Tell rounded positions from rounded angles: the first integer that is rounded rotates as the one before it."""
    largest = worst(differences)
    position = int(differences.argmax())
    sentence = f"with {name} input the result is off by {largest:.2g} of its length at position {position:,}"
    remedy = "Compute positions, frequencies, cos and sin in float32, then round"
    x = random(1, record.heads, 1, record.dim, seed=7, dtype=HALF_PRECISION[name])
    x = x.repeat_interleave(2, dim=2)  # (1, h, 2, d)
    first = FIRST_ROUNDED[name]
    result, failed = attempt(record.rotate.fresh(), x, torch.tensor([first - 1, first]))
    if not failed and torch.equal(*result.unbind(2)):
        sentence += f", and positions {first - 1} and {first} rotate alike: positions are rounded"
        return wrong("positions-rounded", f"{sentence}. {remedy}", largest)
    return wrong("angles-rounded", f"{sentence}: angles are computed in its dtype. {remedy}", largest)


def module_cast(record: RotationRecord) -> Finding:
    """Compare the module cast to bfloat16 with itself in float32, on float32 input."""
    module = record.code.module
    if module is None:
        return not_checked("no torch module, so there is nothing to cast")
    x, positions, expected = record.rotate.prefill
    # Some modules that were cast take input of their own dtype alone.
    for content in (x.clone(), x.bfloat16()):
        result, failed = attempt(Rotation(record.code.cast(torch.bfloat16)), content, positions)
        if not failed:
            break
    if failed:
        return not_checked(f"after .bfloat16() it raises {failed}")
    if finding := not_finite(result, "a module that was cast to bfloat16"):
        return finding
    difference = worst(token_differences(result, expected[0]))
    if difference <= TOLERANCE:
        return passed(f"after module.bfloat16() still within {difference:.1g}", difference)
    return _rounded_by_cast(record, module, difference)


def _rounded_by_cast(record: RotationRecord, module: nn.Module, difference: float) -> Finding:
    """Say what a cast rounds: learned parameters, buffers of a module inside, or its own buffers."""
    sentence = f"after module.bfloat16() the result is off by {difference:.2g} of its length"
    # Only buffers can be kept out of a cast: parameters are rounded in any model in bfloat16.
    buffers = ", ".join(name for name, buffer in module.named_buffers() if buffer.is_floating_point())
    if not buffers:
        return note(f"{sentence}: learned parameters are rounded, and angles with them", difference)
    # Code that only uses the module may be no part of the model that is cast.
    if not isinstance(getattr(record.code.function, "__self__", record.code.function), nn.Module):
        return note(f"{sentence}, if the module inside is cast: its buffers ({buffers}) are rounded", difference)
    remedy = "Recompute them in float32 in the call, or keep them out of the cast (plain attributes)"
    return wrong("buffers-rounded", f"{sentence}: the buffers ({buffers}) are rounded. {remedy}", difference)


CHECKS = (half_precision, module_cast)
