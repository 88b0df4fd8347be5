"""Examine what a rotation loses to coarse numbers: half-precision input, a module that was cast, far positions."""

import torch
from torch import Tensor

from posenc.checkup.pairs import Case
from posenc.checkup.patient import attempt, random
from posenc.checkup.reading import Turn
from posenc.checkup.report import Finding

LONG = 4096
COARSER = (
    "coarser than angles in float32, which lose some 0.01 and 0.1. Are positions, frequencies or the table of a lower "
    "precision, or positions clipped?"
)
KEEP = "Recompute them in float32 in the call, or keep them out of the cast (plain attributes)"
SINGLE = "angles in float32. Compute them in float64 if texts are that long"


def per_token(one: Tensor, other: Tensor) -> Tensor:
    """Return the largest difference of each token, relative to its length: (t,)."""
    gap = (one.double() - other.double()).norm(dim=-1) / other.double().norm(dim=-1).clamp(min=1e-9)
    return gap.amax(dim=(0, 1))


def _long(case: Case, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return random(1, case.heads, LONG, case.dim, seed=6).to(dtype), torch.arange(LONG)


def half_precision(case: Case) -> list[Finding] | Finding:
    """Compare bfloat16 and float16 input with float32."""
    worst = 0.0
    for dtype in (torch.bfloat16, torch.float16):
        x, places = _long(case, dtype)
        coarse, failed = attempt(Turn(case.patient.fresh()), x, places)
        if failed:
            return Finding("half precision", "not checked", f"{dtype} input raises {failed}")
        off = per_token(coarse, case.turn(x.float(), places))
        worst = max(worst, float(off.max()))
        if worst > 0.03:
            return Finding("half precision", "wrong", _coarse(dtype, off, case), worst)
    return Finding(
        "half precision", "ok", f"bfloat16 and float16 input: within {worst:.1g} of float32 up to {LONG:,}", worst
    )


def _coarse(dtype: torch.dtype, off: Tensor, case: Case) -> str:
    x = random(1, case.heads, 1, case.dim, seed=7, dtype=dtype).expand(-1, -1, 2, -1).contiguous()
    name, at = str(dtype).removeprefix("torch."), int(off.argmax())
    place = 256 if dtype == torch.bfloat16 else 2048
    pair = Turn(case.patient.fresh())(x, torch.tensor([place, place + 1]))
    alike = torch.equal(*pair.unbind(2))
    why = f"; positions {place} and {place + 1} turn alike, so positions are rounded" if alike else ""
    return (
        f"with {name} input the result is off by {float(off.max()):.2g} of its length at position {at}{why}: the "
        f"angles "
        "are computed in its dtype. Compute positions, frequencies, cos and sin in float32, then round"
    )


def module_cast(case: Case) -> Finding:
    """Compare the module cast to bfloat16 with itself in float32, on float32 input."""
    if case.patient.module is None:
        return Finding("module cast", "not checked", "no torch module, so there is nothing to cast")
    tensors = [name for name, buffer in case.patient.module.named_buffers() if buffer.is_floating_point()]
    x, places = _long(case, torch.float32)
    right = case.turn(x, places)
    coarse, failed = attempt(Turn(case.patient.cast(torch.bfloat16)), x, places)
    if failed:
        coarse, failed = attempt(Turn(case.patient.cast(torch.bfloat16)), x.bfloat16(), places)
    if failed:
        return Finding("module cast", "not checked", f"after .bfloat16() it raises {failed}")
    off = float(per_token(coarse, right).max())
    words = f"after module.bfloat16() the result is off by {off:.2g} of its length below position {LONG:,}"
    if off > 0.03 and not tensors:
        return Finding("module cast", "note", f"{words}: what is learned is rounded, and angles with it", off)
    if off > 0.03:
        held = ", ".join(tensors)
        return Finding("module cast", "wrong", f"{words}: the buffers ({held}) are rounded. {KEEP}", off)
    return Finding("module cast", "ok", f"after module.bfloat16() still within {off:.1g}", off)


def far_positions(case: Case) -> Finding:
    """Compare with angles in float64 at 10^5 and 10^6."""
    exact, check = case.speeds.exact, "far positions"
    if case.turn.reach == "length":
        return Finding(check, "not checked", "needs a parameter for positions or an offset")
    if exact is None:
        return Finding(check, "not checked", "needs frequencies of a known base")
    errors = []
    for place in (100_000, 1_000_000):
        x, places = random(1, case.heads, 4, case.dim, seed=8), place + torch.arange(4)
        y, failed = attempt(case.turn, x, places)
        if failed:
            return Finding(check, "note", f"position {place:,} raises {failed}")
        errors.append(float(per_token(y, case.reading.predicted(x, places, exact)).max()))
    words = f"off by {errors[0]:.1g} at 10^5 and {errors[1]:.1g} at 10^6, against angles in float64"
    if errors[0] > 0.05:
        return Finding(check, "wrong", f"{words}: {COARSER}", errors[0])
    if errors[1] > 1e-4:
        return Finding(check, "note", f"{words}: {SINGLE}", errors[1])
    return Finding(check, "ok", words, errors[1])


CHECKS = (half_precision, module_cast, far_positions)
