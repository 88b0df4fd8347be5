"""Examine the matrices of a rotation: is it linear, do lengths stay, and if they do not, what changes them."""

import math

import torch

from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, note, passed, wrong
from posenc.doctor.rotation.fit_frequencies import CLOSE, near
from posenc.doctor.rotation.measure_angles import Case, Reading

NEARLY = 3e-3

REPEATED = {  # the layout of the pairs: that of their angles, and how to repeat these instead
    "half": ("interleaved", "torch.cat((angles, angles), -1)"),
    "interleaved": ("half", "angles.repeat_interleave(2, -1)"),
}


def passing(case: Case) -> Finding | None:
    """Check that no channel of the input is lost on the way."""
    wide = [reading.layout == "wide" for reading in (case.reading, case.of_keys)]
    if any(wide):
        words = "queries and keys come out of different widths: what does not turn has to pass once"
        return None if all(wide) else wrong("width-wrong", words)
    for reading, name in ((case.reading, ""), (case.of_keys, " of the keys")):
        lost = (reading.gains.amax(0) < 1e-9).nonzero().flatten().tolist()
        if lost:
            words = (
                f"channels {lost[0]} to {lost[-1]}{name} do not come out: what does not turn has to pass as it is, "
                "x[..., r:] behind the r channels that turn"
            )
            return wrong("width-wrong", words, len(lost))
    return None


def mirrored(case: Case) -> Finding | None:
    """Check that pairs are turned, of queries and of keys, and not mirrored."""
    for reading, name in ((case.reading, "queries"), (case.of_keys, "keys")):
        pairs = torch.tensor(reading.pairs)
        if len(pairs) and torch.linalg.det(reading.matrices[:, pairs[:, :, None], pairs[:, None]]).signbit().all():
            words = f"pairs of {name} are mirrored, not turned: one of the four signs is wrong"
            return wrong("not-a-rotation", f"{words}, (x1 cos - x2 sin, x2 cos + x1 sin) is right")
    return None


def norm_of_keys(case: Case) -> Finding | None:
    """Check that lengths of keys stay, where those of queries do."""
    found = norm(case._replace(reading=case.of_keys, of_keys=case.reading))
    if found.verdict == "wrong" != norm(case).verdict:
        return found._replace(words=f"of keys: {found.words}")
    return None


def linear(case: Case) -> Finding | None:
    """Check that the result is a linear map of the input, the same in each head."""
    places = case.reading.places
    x = random(2, case.heads, len(places), case.dim, seed=1)
    expected = torch.einsum("pij,bhpj->bhpi", case.reading.matrices, x.double())  # before code can write into x
    off = relative_difference(case.rotate(x, places), expected)
    words = f"heads differ, or the map is not linear (by {off:.2g}): one head was read"
    return note(words, off) if off > 1e-3 else None


def norm(case: Case) -> Finding:
    """Check that lengths stay: a gain of 1, or one factor for all, or gains that queries and keys cancel."""
    reading = case.reading
    if reading.layout == "wide":
        return note("the result has another width than the input (as in PoPE): pairs are not read")
    (least, most), unlike = map(float, reading.gains.aminmax()), _unlike(reading)
    if near(least, most, reading.slack) and not unlike and _skewed(case) < reading.slack:
        return passed("lengths stay the same", least) if near(least, 1, reading.slack) else _factor(case)
    if unlike and reading.layout in REPEATED:
        other, right = REPEATED[reading.layout]
        return wrong(
            "layout-mixed",
            f"lengths change ({least:.3g} to {most:.3g} times): channels pair as in the {reading.layout} layout "
            f"while the table of angles is repeated for the {other} one, so the two of a pair turn by different "
            f"angles. Repeat it as {right}",
            most,
        )
    if case.keys_undo_lengths:
        return note("queries grow as keys shrink (as in xPos): only their product keeps its size")
    return _faded(case) if case.fades else _stretched(case)


def _faded(case: Case) -> Finding:
    if not case.code.takes("q", "k"):
        return note("pairs grow or fade with their position (as in xPos): keys have to do the inverse, give q and k")
    words = "queries and keys both grow or fade with their position (as in xPos), so logits see the sum of the two"
    return wrong("absolute", f"{words}. Scale keys by the inverse of what scales queries")


def _factor(case: Case) -> Finding:
    gain = float(case.reading.gains.mean())
    words = f"every channel is multiplied by {gain:.4f}, so logits by {gain * gain:.4f}"
    if case.fit.name == "by parts":
        right = case.fit.yarn
        if near(gain, right, NEARLY):
            return passed(f"{words}: YaRN's factor for a scaling by {case.fit.factor:.3g}", gain)
        if near(gain, right**2, NEARLY):
            twice = f"YaRN's factor {right:.4f} is applied twice, in the table and once more. Keep one of the two"
            return wrong("factor-twice", f"{words}: {twice}", gain)
    return note(f"{words}: an attention factor. Apply it once, here or in the softmax scale", gain)


def _stretched(case: Case) -> Finding:
    gains, most = case.reading.gains, float(case.reading.gains.max())
    cause = "cosine and sine of a pair do not belong to one angle, or their signs do not make a rotation"
    odd = ((gains - 1).abs().amax(0) > CLOSE).nonzero().flatten().tolist()
    if not odd:
        return wrong("not-a-rotation", f"pairs of channels are mixed, not turned: {cause}", most)
    words = f"the length of channels {', '.join(map(str, odd[:8]))} changes, up to {most:.4g} times"
    at_rest = case.reading.matrices.std(0)[:, odd].max() < CLOSE
    if at_rest and near(most, math.sqrt(2), NEARLY):
        padded = (
            "at position 0 too, where nothing should turn: a table padded with sin = 1 where the frequency is 0 "
            "gives a length of 1.414; pad sines with 0 and cosines with 1"
        )
        return wrong("padded-with-one", f"{words}, {padded}", most)
    return wrong("not-a-rotation", f"{words}, so {cause}", most)


def _skewed(case: Case) -> float:
    """Return how far columns are from being orthogonal."""
    unit = case.reading.matrices / case.reading.gains[:, None]
    return float((torch.einsum("pij,pik->pjk", unit, unit) - torch.eye(case.dim)).abs().max())


def _unlike(reading: Reading) -> bool:
    """Tell whether the two of a pair turn otherwise than each other."""
    (first, second), m = reading.sides, reading.matrices
    return bool(((m[:, first, first] - m[:, second, second]).abs() > CLOSE).any())
