"""Examine a rotation: what it turns, how fast, whether logits see offsets only, and how it bears use."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.call.axes import SHOWN
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, not_checked, passed, run_checks, with_check_name, wrong
from posenc.doctor.rotation import frequencies, grid, precision, usage
from posenc.doctor.rotation.end_of_positions import limit
from posenc.doctor.rotation.fit_frequencies import CLOSE, fit
from posenc.doctor.rotation.layout import check_layout, difference, direction, origin
from posenc.doctor.rotation.measure_angles import Case, Rotation, read
from posenc.doctor.rotation.norms import linear, mirrored, norm, norm_of_keys, passing
from posenc.doctor.rotation.query_key_mixing import along, contents

TWICE = "give the attention, with its cache: one call cannot show that keys were rotated before they came in"
FIRST = ("one-for-both", "swapped", "offset-ignored", "heads-axis", "batch-axis")
MOVES = (
    "not-a-rotation",
    "layout-mixed",
    "width-wrong",
    "one-side",
    "sides-differ",
    "opposite",
    "absolute",
    "axes-swapped",
)
FOLLOWS = "after what is wrong above, logits cannot see offsets only"
REST = "repair that first, then ask again"
USAGE = (
    usage.decoding,
    usage.fewer_queries,
    usage.longer_calls,
    limit,
    usage.batched_positions,
    usage.input_kept,
    usage.gradients,
    usage.fractions,
)
EXACT = (16, 12, 24, 36, 49, 64, 100, 144, 196, 256, 400, 576, 1024, 17, 65, 197, 257)
GIVEN = "cos and sin were made by the doctor, so what makes yours is not seen: hand in that too"


def accepts(code: Code) -> bool:
    """Tell whether the code can be called as a rotation: zeros come back as zeros, one token for each."""
    if code.call.order in ("btd", "tbd"):
        code.sizes = code.sizes | {"heads": 1}
    usual = 7 if code.heads == 6 else 6  # positions that broadcast against heads by mistake shall not fit
    if code.needs("rows") or code.needs("grid"):
        code.call = code.call._replace(tokens=24)
        return _accepts(code, 24)
    told = code.takes("positions") or code.takes("offset")
    if told or not attempt(_accepts, code, usual)[1]:
        return _accepts(code, usual)
    for t in (t for t in EXACT if t != code.dim):  # code for the patches of one picture takes no other number
        code.call = code.call._replace(tokens=t)
        if attempt(_accepts, code, t)[0]:
            return True
    code.call = code.call._replace(tokens=0)
    return _accepts(code, usual)


def _accepts(code: Code, t: int) -> bool:
    rotate, zeros = Rotation(code), torch.zeros(2, code.heads, t, code.dim)
    y = rotate(zeros)
    if not isinstance(y, Tensor) or y.any(-1).shape != zeros.any(-1).shape or y.shape[-1] % code.dim:
        return False
    if rotate.told_by == "positions" and rotate(zeros, torch.arange(t)).shape != y.shape:
        return False
    one_token = zeros.index_fill(2, torch.tensor([0]), math.e)
    if not code.takes("q", "k") and (y.any() or rotate(one_token)[:, :, 1:].any()):
        return False
    same = rotate(torch.ones_like(zeros))
    if not same.any():  # such as a projection that starts at zero
        return False
    over_heads, over_tokens = (same.diff(dim=axis).any() for axis in (1, 2))
    return bool(over_tokens) or not over_heads or code.call.order is not None


def is_sound(code: Code) -> bool:
    """Tell whether lengths stay and something turns: among several forms of tables, the one that fits."""
    x = random(1, code.heads, 1, code.dim, seed=1).repeat_interleave(code.call.tokens or 6, dim=2)
    y = Rotation(code)(x)
    return relative_difference(y.norm(dim=-1), x.norm(dim=-1)) < CLOSE and bool((y.diff(dim=2).abs() > CLOSE).any())


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a rotation of heads of `dim` channels, and what was examined."""
    rotate = Rotation(code.fresh())
    reach = rotate.reach()
    about: dict[str, Any] = {"axes": SHOWN[code.call.order or "bhtd"]}
    first = run_checks((contents, along, usage.memory, usage.starts), usage.Use(code, rotate, reach))
    if any(finding.id in FIRST for finding in first):
        return [*first, Finding("everything else", "not checked", REST, None, "everything-else")], about
    reading = read(rotate, reach=reach)
    of_keys = read(rotate, reach, of_keys=True) if code.takes("q", "k") else reading
    speeds_of = reading.theta[reading.theta != 0] if reading.columns else reading.theta
    case = Case(code, code.dim, code.heads, rotate, reading, of_keys, fit(speeds_of, reading.slack), reach)
    of_matrices = run_checks(_of_matrices(case), case)
    moves = any(finding.id in MOVES for finding in of_matrices)
    shifted = [with_check_name(not_checked(FOLLOWS), "shift")] if moves else run_checks((shift,), case)
    rest = run_checks((frequencies.base, frequencies.factor, frequencies.width, *precision.CHECKS, *USAGE), case)
    twice = with_check_name(not_checked(TWICE), "rotating twice")
    return [*first, *of_matrices, *shifted, *rest, twice, *_given(case)], about | _about(case)


def _about(case: Case) -> dict[str, Any]:
    reading, known = case.reading, getattr(case.code.source, "layout_known", True)
    if not reading.pairs:
        return {"layout": "no pairs of channels to read"}
    name = f"{reading.layout} layout" if known and reading.layout != "other" else "layout of its own"
    said = {"layout": name, "width": f"{2 * len(reading.pairs)} of {case.dim} channels turn"}
    if reading.columns:
        said["grid"] = f"on a grid of rows of {reading.columns}"
    if case.given_angles:
        return said | {"angles": f"angles of the doctor, {case.code.call.table_form}"}
    base = f"base {case.fit.base:,.6g}" if case.fit.name in ("regular", "linear", "by parts") else "no base that fits"
    scaled = {"linear": f"positions divided by {case.fit.factor:.4g}", "by parts": "scaled by parts"}
    return said | {"base": base, "scaling": scaled.get(case.fit.name, "")}


def _given(case: Case) -> list[Finding]:
    return [with_check_name(not_checked(GIVEN), "frequencies")] if case.given_angles else []


def _of_matrices(case: Case) -> tuple[Callable[[Case], Finding | list[Finding] | None], ...]:
    """Return the checks of what was read that have something to say."""
    reading, of_frequencies = case.reading, () if case.given_angles else (frequencies.frequencies,)
    if passing(case):
        return (passing, *of_frequencies) if reading.pairs else (passing,)
    if reading.layout == "wide":
        return (norm,)
    if mirrored(case):
        return mirrored, *of_frequencies
    if "none" in (reading.layout, case.of_keys.layout) and difference(case):
        return (check_layout, *of_frequencies) if reading.pairs else (check_layout,)
    if (reading.matrices - torch.eye(case.dim)).abs().max() < 1e-7:
        return (frequencies.frequencies,)
    if norm(case).id == "layout-mixed":  # angles of two pairs each, so there is no speed to read
        return linear, norm, norm_of_keys, check_layout
    if reading.pairs:
        return linear, norm, norm_of_keys, check_layout, direction, origin, *of_frequencies, grid.grid, grid.each_axis
    return linear, norm, norm_of_keys, check_layout


def shift(case: Case) -> Finding:
    """Check that logits see the offset of a query and a key, not where the two stand."""
    if case.reading.columns:
        return grid.shift(case)
    furthest = min(100 if case.rotate.told_by == "length" else 1000, case.reach - 8)
    q, k = random(1, case.heads, 8, case.dim, seed=2), random(1, case.heads, 8, case.dim, seed=3)
    if furthest < 1:
        return not_checked(f"only {case.reach} positions, too few to move 8 tokens")
    places, offs = torch.arange(8), []
    for step in (min(17, furthest), furthest):
        before, after = (_logits(case, q, k, p) for p in (places, places + step))
        offs.append(relative_difference(after, before))
    off = max(offs)
    if off < case.reading.slack:
        return passed("logits see offsets only: moving queries and keys together changes nothing", off)
    return wrong(
        "absolute",
        f"moving queries and keys together changes the logits by {off:.2g} of the largest: they do not see offsets "
        "only. Something absolute is in it, or pairs do not rotate",
        off,
    )


def _logits(case: Case, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
    q, k = case.rotate(q, positions), case.rotate(k, positions, of_keys=True)
    one_sided = case.fades and not case.code.takes("q", "k")
    return case.turned(q) @ case.turned(k).mT if one_sided else q @ k.mT
