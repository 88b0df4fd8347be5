"""Examine what a rotation loses to coarse numbers: half-precision input, a module that was cast, far positions."""

import time

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.numerics import random
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.rotation.measure_angles import Case, Rotation

LONG = 4096
COARSE = 0.03  # of the length of a token: more than a last rounding to a half precision
SECONDS = 0.1  # for the first of two far positions, where the second needs ten times as much


def half_precision(case: Case) -> Finding:
    """Compare bfloat16 and float16 input with float32."""
    worst = 0.0
    for dtype in (torch.bfloat16, torch.float16):
        x, places = _long(case, dtype)
        coarse, failed = attempt(Rotation(case.code.fresh()), x, places)
        if failed:
            return not_checked(f"{dtype} input raises {failed}")
        off = _by_token(coarse, Rotation(case.code.fresh())(x.float(), places))
        worst = max(worst, float(off.max()))
        if worst > COARSE:
            return _coarse(case, dtype, off)
    return passed(f"bfloat16 and float16 input: within {worst:.1g} of float32 up to {min(LONG, case.reach):,}", worst)


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
    lengths = other.double().norm(dim=-1).clamp(min=torch.finfo(torch.float64).eps)
    return ((one.double() - other.double()).norm(dim=-1) / lengths).flatten(0, 1).amax(0)


def _coarse(case: Case, dtype: torch.dtype, off: Tensor) -> Finding:
    x = random(1, case.heads, 1, case.dim, seed=7, dtype=dtype).repeat_interleave(2, dim=2)
    place = 256 if dtype == torch.bfloat16 else 2048  # the next integer has no number of its own
    two, failed = attempt(Rotation(case.code.fresh()), x, torch.tensor([place, place + 1]))
    rounded_places = not failed and torch.equal(*two.unbind(2))
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
        return not_checked("no torch module, so there is nothing to cast")
    x, places = _long(case, torch.float32)
    right = Rotation(case.code.fresh())(x, places)
    coarse, failed = attempt(Rotation(case.code.cast(torch.bfloat16)), x, places)
    if failed:
        coarse, failed = attempt(Rotation(case.code.cast(torch.bfloat16)), x.bfloat16(), places)
    if failed:
        return not_checked(f"after .bfloat16() it raises {failed}")
    off = float(_by_token(coarse, right).max())
    if off < COARSE:
        return passed(f"after module.bfloat16() still within {off:.1g}", off)
    return _of_buffers(case, case.code.module, off)


def _of_buffers(case: Case, module: torch.nn.Module, off: float) -> Finding:
    """Say what is rounded in a module that was cast: what it learned, its own buffers, or those of one inside."""
    words = (
        f"after module.bfloat16() the result is off by {off:.2g} of its length below position {min(LONG, case.reach):,}"
    )
    owner = getattr(case.code.function, "__self__", case.code.function)
    held = ", ".join(name for name, buffer in module.named_buffers() if buffer.is_floating_point())
    if not held:
        return note(f"{words}: what is learned is rounded, and angles with it", off)
    if not isinstance(owner, torch.nn.Module):
        return note(f"{words}, if the module inside is cast: its buffers ({held}) are rounded", off)
    remedy = "Recompute them in float32 in the call, or keep them out of the cast (plain attributes)"
    return wrong("buffers-rounded", f"{words}: the buffers ({held}) are rounded. {remedy}", off)


def far_positions(case: Case) -> Finding:
    """Compare with angles in float64 at 10^5 and 10^6."""
    exact, by_length = case.fit.exact, case.rotate.told_by == "length"
    if exact is None or by_length or case.given_angles:
        frequencies = "the angles are those of the doctor" if case.given_angles else "needs frequencies of a known base"
        return not_checked("needs a parameter for positions or an offset" if by_length else frequencies)
    if case.uneven:
        return note("scales of queries and keys (as in xPos) leave float32 far from where they are 1")
    errors, failed = _errors_far_off(case, exact)
    if failed:
        return note(failed)
    told = " and ".join(f"{error:.1g} at 10^{power}" for power, error in errors.items())
    words, nearer, furthest = f"off by {told}, against angles in float64", errors[5], max(errors.values())
    if nearer > 0.05:
        return wrong(
            "angles-rounded",
            f"{words}: coarser than angles in float32, which lose some 0.01 and 0.1. "
            "Are positions, frequencies or the table of a lower precision, or positions clipped?",
            nearer,
        )
    if furthest > 1e-4:
        return note(f"{words}: angles in float32. Compute them in float64 if texts are that long", furthest)
    return passed(words, furthest)


def _errors_far_off(case: Case, exact: Tensor) -> tuple[dict[int, float], str]:
    """Return the errors at 10^5 and 10^6 as far as time allows, or what was raised."""
    errors, begun = {}, time.thread_time()
    for power in (5, 6):
        if time.thread_time() - begun > SECONDS:
            break
        x, places = random(1, case.heads, 4, case.dim, seed=8), 10**power + torch.arange(4)
        y, failed = attempt(Rotation(case.code.fresh()), x, places)
        if failed:
            return errors, f"position {10**power:,} raises {failed}"
        errors[power] = float(_by_token(y, case.reading.predicted(x, places, exact)).max())
    return errors, ""


CHECKS = (rounded_table, half_precision, module_cast, far_positions)
