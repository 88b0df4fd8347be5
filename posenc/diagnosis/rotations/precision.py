"""Examine what a rotation loses to coarse numbers: half-precision input, a module that was cast, far positions."""

import time

import torch
from torch import Tensor

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.compare import random
from posenc.diagnosis.report import Finding, note, ok, unchecked, wrong
from posenc.diagnosis.rotations.read import Case, Rotation

LONG = 4096
SECONDS = 0.1  # for the first of two far positions, where the second needs ten times as much


def half_precision(case: Case) -> Finding:
    """Compare bfloat16 and float16 input with float32."""
    worst = 0.0
    for dtype in (torch.bfloat16, torch.float16):
        x, places = _long(case, dtype)
        coarse, failed = attempt(Rotation(case.code.fresh()), x, places)
        if failed:
            return unchecked(f"{dtype} input raises {failed}")
        off = _by_token(coarse, Rotation(case.code.fresh())(x.float(), places))
        worst = max(worst, float(off.max()))
        if worst > 0.03:
            return _coarse(case, dtype, off)
    return ok(f"bfloat16 and float16 input: within {worst:.1g} of float32 up to {min(LONG, case.reach):,}", worst)


def rounded_table(case: Case) -> Finding | None:
    """Look for cosines and sines that are rounded whatever the input."""
    dtype = case.reading.coarse
    if not dtype:
        return None
    return wrong(
        "angles-rounded",
        f"each cosine and sine has no more digits than {dtype} holds, whatever the input: float32 is off by "
        f"{'0.2 %' if dtype == 'bfloat16' else '0.03 %'}. Keep the table in float32 and round it to the dtype of the "
        "input in each call",
    )


def _long(case: Case, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    t = min(LONG, case.reach)
    return random(1, case.heads, t, case.dim, seed=6).to(dtype), torch.arange(t)


def _by_token(one: Tensor, other: Tensor) -> Tensor:
    """Return the largest difference of each token, relative to its length: (t,)."""
    gap = (one.double() - other.double()).norm(dim=-1) / other.double().norm(dim=-1).clamp(min=1e-9)
    return gap.amax(dim=(0, 1))


def _coarse(case: Case, dtype: torch.dtype, off: Tensor) -> Finding:
    x = random(1, case.heads, 1, case.dim, seed=7, dtype=dtype).expand(-1, -1, 2, -1).contiguous()
    place = 256 if dtype == torch.bfloat16 else 2048  # the next integer has no number of its own
    two, failed = attempt(Rotation(case.code.fresh()), x, torch.tensor([place, place + 1]))
    rounded_places = not failed and torch.equal(two[:, :, 0], two[:, :, 1])
    rounded = f"; positions {place} and {place + 1} turn alike, so positions are rounded"
    return wrong(
        "positions-rounded" if rounded_places else "angles-rounded",
        f"with {str(dtype).removeprefix('torch.')} input the result is off by {float(off.max()):.2g} of its length "
        f"at position {int(off.argmax())}{rounded if rounded_places else ''}: the angles are computed "
        "in its dtype. Compute positions, frequencies, cos and sin in float32, then round",
        float(off.max()),
    )


def module_cast(case: Case) -> Finding:
    """Compare the module cast to bfloat16 with itself in float32, on float32 input."""
    if case.code.module is None:
        return unchecked("no torch module, so there is nothing to cast")
    x, places = _long(case, torch.float32)
    right = Rotation(case.code.fresh())(x, places)
    coarse, failed = attempt(Rotation(case.code.cast(torch.bfloat16)), x, places)
    if failed:
        coarse, failed = attempt(Rotation(case.code.cast(torch.bfloat16)), x.bfloat16(), places)
    if failed:
        return unchecked(f"after .bfloat16() it raises {failed}")
    off = float(_by_token(coarse, right).max())
    if off <= 0.03:
        return ok(f"after module.bfloat16() still within {off:.1g}", off)
    return _of_buffers(case, off, len(places))


def _of_buffers(case: Case, off: float, length: int) -> Finding:
    """Say what is rounded in a module that was cast: what it learned, its own buffers, or those of one inside."""
    words = f"after module.bfloat16() the result is off by {off:.2g} of its length below position {length:,}"
    owner = getattr(case.code.function, "__self__", case.code.function)
    buffers = () if case.code.module is None else case.code.module.named_buffers()
    held = ", ".join(name for name, buffer in buffers if buffer.is_floating_point())
    if not held:
        return note(f"{words}: what is learned is rounded, and angles with it", off)
    if not isinstance(owner, torch.nn.Module):
        return note(f"{words}, if the module inside is cast: its buffers ({held}) are rounded", off)
    remedy = "Recompute them in float32 in the call, or keep them out of the cast (plain attributes)"
    return wrong("buffers-rounded", f"{words}: the buffers ({held}) are rounded. {remedy}", off)


def _unfit(case: Case) -> str:
    """Return why there are no angles in float64 to compare with, or ""."""
    if case.rotate.told_by == "length":
        return "needs a parameter for positions or an offset"
    return "the angles are those of the doctor" if case.given_angles else ""


def far_positions(case: Case) -> Finding:
    """Compare with angles in float64 at 10^5 and 10^6."""
    exact = case.fit.exact
    if exact is None or _unfit(case):
        return unchecked(_unfit(case) or "needs frequencies of a known base")
    if case.uneven:
        return note("scales of queries and keys (as in xPos) leave float32 far from where they are 1")
    errors, failed = _errors_far_off(case, exact)
    if failed:
        return note(failed)
    further = f" and {errors[1]:.1g} at 10^6" if len(errors) > 1 else ""
    words = f"off by {errors[0]:.1g} at 10^5{further}, against angles in float64"
    if errors[0] > 0.05:
        return wrong(
            "angles-rounded",
            f"{words}: coarser than angles in float32, which lose some 0.01 and 0.1. "
            "Are positions, frequencies or the table of a lower precision, or positions clipped?",
            errors[0],
        )
    if errors[-1] > 1e-4:
        return note(f"{words}: angles in float32. Compute them in float64 if texts are that long", errors[-1])
    return ok(words, errors[-1])


def _errors_far_off(case: Case, exact: Tensor) -> tuple[list[float], str]:
    """Return the errors at 10^5 and 10^6 as far as time allows, or what was raised."""
    errors, begun = [], time.thread_time()
    for place in (100_000, 1_000_000):
        if time.thread_time() - begun > SECONDS:
            break
        x, places = random(1, case.heads, 4, case.dim, seed=8), place + torch.arange(4)
        y, failed = attempt(Rotation(case.code.fresh()), x, places)
        if failed:
            return errors, f"position {place:,} raises {failed}"
        errors.append(float(_by_token(y, case.reading.predicted(x, places, exact)).max()))
    return errors, ""


CHECKS = (rounded_table, half_precision, module_cast, far_positions)
