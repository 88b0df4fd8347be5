"""Examine the matrices of a rotation: is it linear, do lengths stay, and if they do not, what changes them."""

import math

import torch

from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, note, ok, wrong
from posenc.diagnosis.rotations.read import Case, Reading

REPEATED = {  # the layout of the pairs: that of their angles, and how to repeat these instead
    "half": ("interleaved", "torch.cat((angles, angles), -1)"),
    "interleaved": ("half", "angles.repeat_interleave(2, -1)"),
}


def passing(case: Case) -> Finding | None:
    """Check that no channel of the input is lost on the way."""
    if [case.reading.layout, case.of_keys.layout].count("wide") == 1:
        return wrong(
            "width-wrong", "queries and keys come out of different widths: what does not turn has to pass once"
        )
    for reading, name in ((case.reading, ""), (case.of_keys, " of the keys")):
        lost = (reading.gains.amax(0) < 1e-9).nonzero().flatten().tolist() if len(reading.gains) else []
        if lost and len(lost) < case.dim:
            words = (
                f"channels {lost[0]} to {lost[-1]}{name} do not come out: what does not turn has to pass as it is, "
                "x[..., r:] behind the r channels that turn"
            )
            return wrong("width-wrong", words, len(lost))
    return None


def mirrored(case: Case) -> Finding | None:
    """Check that pairs are turned, of queries and of keys, and not mirrored."""
    for reading, name in ((case.reading, "queries"), (case.of_keys, "keys")):
        if not reading.pairs or reading.layout == "none":
            continue
        (first, second), m = reading.sides, reading.matrices
        area = m[:, first, first] * m[:, second, second] - m[:, first, second] * m[:, second, first]
        if (area / reading.gains[:, first].clamp(min=1e-30) ** 2 < -0.5).all():
            words = f"pairs of {name} are mirrored, not turned: one of the four signs is wrong"
            return wrong("not-a-rotation", f"{words}, (x1 cos - x2 sin, x2 cos + x1 sin) is right")
    return None


def norm_of_keys(case: Case) -> Finding | None:
    """Check that lengths of keys stay, where those of queries do."""
    if not case.code.takes("q", "k") or norm(case).verdict == "wrong":
        return None
    found = norm(case._replace(reading=case.of_keys, of_keys=case.reading))
    return found._replace(words=f"of keys: {found.words}") if found.verdict == "wrong" else None


def linear(case: Case) -> Finding | None:
    """Check that the result is a linear map of the input, the same in each head."""
    places = case.reading.places
    x = random(2, case.heads, len(places), case.dim, seed=1)
    expected = torch.einsum("pij,bhpj->bhpi", case.reading.matrices, x.double())
    y = case.rotate(x, places)
    off = far(y, expected)
    if off <= 1e-3:
        return None
    if far(y[:, :1], expected[:, :1]) <= 1e-3:
        return note(f"heads differ (by {off:.2g}): the first one was read", off)
    return note(f"heads differ, or the map is not linear (by {off:.2g}): one head was read", off)


def norm(case: Case) -> Finding:
    """Check that lengths stay: a gain of 1, or one factor for all, or gains that queries and keys cancel."""
    reading = case.reading
    if reading.layout == "wide":
        return note("the result has another width than the input (as in PoPE): pairs are not read")
    least, most = map(float, reading.gains.aminmax())
    unlike, slack = _unlike(reading) > 1e-3, reading.slack
    if most < (1 + slack) * least and not unlike and _skewed(reading) < slack:
        return ok("lengths stay the same", least) if abs(least - 1) < slack else _factor(case)
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
        right = 0.1 * math.log(case.fit.factor) + 1
        if abs(gain - right) < 2e-3:
            return ok(f"{words}: YaRN's factor for a scaling by {case.fit.factor:.3g}", gain)
        if abs(gain - right * right) < 4e-3:
            twice = f"YaRN's factor {right:.4f} is applied twice, in the table and once more. Keep one of the two"
            return wrong("factor-twice", f"{words}: {twice}", gain)
    return note(f"{words}: an attention factor. Apply it once, here or in the softmax scale", gain)


def _stretched(case: Case) -> Finding:
    gains, most = case.reading.gains, float(case.reading.gains.max())
    cause = "cosine and sine of a pair do not belong to one angle, or their signs do not make a rotation"
    odd = ((gains - 1).abs().amax(0) > 1e-3).nonzero().flatten().tolist()
    if not odd:
        return wrong("not-a-rotation", f"pairs of channels are mixed, not turned: {cause}", most)
    start = (case.reading.matrices[0] - torch.eye(case.dim)).abs().max()
    where, name = f"so {cause}", "not-a-rotation"
    rests = (case.reading.matrices[:, :, odd] - case.reading.matrices[:1, :, odd]).abs().max() < 1e-3
    if start > 1e-3 and rests and abs(most - 2**0.5) < 0.01:
        name = "padded-with-one"
        where = (
            "at position 0 too, where nothing should turn: a table padded with sin = 1 where the frequency is 0 "
            "gives a length of 1.414; pad sines with 0 and cosines with 1"
        )
    in_a_row = len(odd) > 3 and odd[-1] - odd[0] == len(odd) - 1
    some = f"{odd[0]} to {odd[-1]}" if in_a_row else ", ".join(map(str, odd[:8]))
    return wrong(name, f"the length of channels {some} changes, up to {most:.4g} times, {where}", most)


def _skewed(reading: Reading) -> float:
    """Return how far columns are from being orthogonal, relative to their length."""
    square = torch.einsum("pij,pik->pjk", reading.matrices, reading.matrices)
    skew = square - torch.diag_embed(square.diagonal(dim1=1, dim2=2))
    return float(skew.abs().max() / reading.gains.max() ** 2)


def _unlike(reading: Reading) -> float:
    """Return how far the two of a pair are from turning alike."""
    if not reading.pairs:
        return 0.0
    first, second = reading.sides
    diagonal = reading.matrices.diagonal(dim1=1, dim2=2)
    return float((diagonal[:, first] - diagonal[:, second]).abs().max())
