"""Examine the matrices of a rotation: lengths, layout, sense and frequencies."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.checkup.patient import Patient, far, random
from posenc.checkup.reading import PLACES, Reading, Speeds, Turn
from posenc.checkup.report import Finding

REPEATED = {
    "half": ("interleaved", "torch.cat((angles, angles), -1)"),
    "interleaved": ("half", "angles.repeat_interleave(2, -1)"),
}
TURNS = {
    "half": "in halves, pairs (i, i + r/2)",
    "interleaved": "in neighbors, pairs (2i, 2i + 1)",
    "none": "not at all",
}


class Case(NamedTuple):
    """What the checks share: the rotation, what was read off queries and keys, its frequencies, the sizes."""

    turn: Turn
    reading: Reading
    of_keys: Reading
    speeds: Speeds
    dim: int
    heads: int

    @property
    def patient(self) -> Patient:
        """The code itself."""
        return self.turn.patient


def shape(case: Case) -> list[Finding]:
    """Check what the matrices show."""
    reading = case.reading
    if reading.layout == "wide":
        return [Finding("norm", "note", "the result has another width than the input (as in PoPE): pairs are not read")]
    unlike = mismatch(case)
    if unlike and "none" in (reading.layout, case.of_keys.layout):
        return [unlike]
    still = float((reading.matrices - torch.eye(case.dim)).abs().amax())
    if still < 1e-7:
        return [
            Finding(
                "frequencies",
                "wrong",
                "nothing turns at any position: all angles are 0. Integer division in "
                "the exponent, or positions that never arrive",
                0.0,
            )
        ]
    found = [linear(case), norm(case), unlike or layout(case)]
    if reading.pairs:
        found += [direction(case), origin(case)]
    return [finding for finding in found if finding]


def linear(case: Case) -> Finding | None:
    """Check that the result is a linear map of the input, the same in each head."""
    x = random(2, case.heads, len(case.reading.matrices), case.dim, seed=1)
    places = torch.tensor(PLACES)
    expected = torch.einsum("pij,bhpj->bhpi", case.reading.matrices, x.double())
    off = far(case.turn(x, places), expected)
    if off > 1e-3:
        return Finding(
            "linear", "note", f"heads differ, or the map is not linear (by {off:.2g}): one head was read", off
        )
    return None


def norm(case: Case) -> Finding:
    """Check that lengths stay: a gain of 1, or one factor for all, or gains that queries and keys cancel."""
    reading, (least, most) = case.reading, case.reading.gains.aminmax()
    even, unlike = bool(most / least < 1.001), _unlike(reading) > 1e-3
    if even and not unlike and _crossed(reading) < 1e-3:
        if abs(least - 1) < 1e-3:
            return Finding("norm", "ok", "lengths stay the same", float(least))
        return _factor(case, float(reading.gains.mean()))
    if unlike and reading.layout in REPEATED:
        other, right = REPEATED[reading.layout]
        words = f"channels pair as in the {reading.layout} layout while the table of angles is repeated for the {other}"
        words = f"lengths change ({least:.3g} to {most:.3g} times): {words} one, so the two of a pair turn by different"
        return Finding("norm", "wrong", f"{words} angles. Repeat it as {right}", float(most))
    product = torch.einsum("pij,pik->pjk", reading.matrices, case.of_keys.matrices)
    if (product - torch.eye(case.dim)).abs().max() < 1e-3:
        return Finding("norm", "note", "queries grow as keys shrink (as in xPos): only their product keeps its size")
    return _stretched(case, reading.gains)


def _factor(case: Case, gain: float) -> Finding:
    words = f"every channel is multiplied by {gain:.4f}, so logits by {gain * gain:.4f}"
    if case.speeds.name == "by parts":
        right = 0.1 * math.log(case.speeds.factor) + 1
        if abs(gain - right) < 2e-3:
            return Finding("norm", "ok", f"{words}: YaRN's factor for a scaling by {case.speeds.factor:.3g}", gain)
        if abs(gain - right * right) < 4e-3:
            return Finding(
                "norm",
                "wrong",
                f"{words}: YaRN's factor {right:.4f} is applied twice, in the table and once more. Keep one of the two",
                gain,
            )
    return Finding("norm", "note", f"{words}: an attention factor. Apply it once, here or in the softmax scale", gain)


def _stretched(case: Case, gains: Tensor) -> Finding:
    odd = [j for j in range(case.dim) if (gains[:, j] - 1).abs().max() > 1e-3]
    some = f"{odd[0]} to {odd[-1]}" if len(odd) > 3 and odd[-1] - odd[0] == len(odd) - 1 else str(odd[:8])[1:-1]
    most = float(gains.max())
    start = (case.reading.matrices[0] - torch.eye(case.dim)).abs().max()
    cause = (
        "at position 0 too, where nothing should turn: a table padded with sin = 1 where the frequency is 0 gives "
        "a length of 1.414; pad sines with 0 and cosines with 1"
        if start > 1e-3 and abs(most - 2**0.5) < 0.01
        else "so cosine and sine of a pair do not belong to one angle, or their signs do not make a rotation"
    )
    return Finding("norm", "wrong", f"the length of channels {some} changes, up to {most:.4g} times, {cause}", most)


def _crossed(reading: Reading) -> float:
    """Return how far columns are from being orthogonal, and the two of a pair from turning alike."""
    scale = reading.gains.max() ** 2
    square = torch.einsum("pij,pik->pjk", reading.matrices, reading.matrices)
    off = square - torch.diag_embed(square.diagonal(dim1=1, dim2=2))
    return max(float(off.abs().max() / scale), _unlike(reading))


def _unlike(reading: Reading) -> float:
    if not reading.pairs:
        return 0.0
    first, second = (list(side) for side in zip(*reading.pairs, strict=True))
    diagonal = reading.matrices.diagonal(dim1=1, dim2=2)
    return float((diagonal[:, first] - diagonal[:, second]).abs().max())


def layout(case: Case) -> Finding:
    """Name the pairs of channels."""
    reading, width = case.reading, 2 * len(case.reading.pairs)
    part = "all channels turn" if width == case.dim else f"{width} of {case.dim} channels turn"
    pairs = {
        "half": "half layout, pairs (i, i + r/2), as in Llama of transformers and GPT-NeoX",
        "interleaved": "interleaved layout, pairs (2i, 2i + 1), as in GPT-J and Meta's Llama",
    }
    if reading.layout in pairs:
        return Finding(
            "layout",
            "ok",
            f"{pairs[reading.layout]}; {part}. Weights for the other layout run without an error and are wrong",
            width,
        )
    if reading.layout == "other":
        return Finding(
            "layout",
            "note",
            f"pairs {str(reading.pairs[:3])[1:-1]} ... are neither half nor interleaved (several axes?); {part}",
            width,
        )
    return Finding("layout", "note", "channels mix in more than pairs: no layout, no frequencies to read")


def mismatch(case: Case) -> Finding | None:
    """Compare the pairs and speeds of queries with those of keys."""
    read = (case.reading, case.of_keys)
    widths = [2 * len(reading.pairs) for reading in read]
    if read[0].layout != read[1].layout:
        one, other = (TURNS.get(reading.layout, "otherwise") for reading in read)
        words = f"queries turn {one}, keys {other}"
        return Finding("layout", "wrong", f"{words}, so logits do not see offsets. Turn both in one way")
    if widths[0] != widths[1]:
        words = f"{widths[0]} channels of queries turn and {widths[1]} of keys: give both one rotary width"
        return Finding("layout", "wrong", words, widths[1])
    speeds = [reading.theta.abs() for reading in read]
    if read[0].pairs and (speeds[0] - speeds[1]).abs().max() > 1e-3 * speeds[0].max():
        fastest, of_keys = (float(speed.max()) for speed in speeds)
        words = f"queries and keys turn at different speeds, the fastest pair by {fastest:.3g} and by {of_keys:.3g} rad"
        return Finding("layout", "wrong", f"{words} a token: give both one base and one scaling", of_keys)
    starts = [reading.start for reading in read]
    if read[0].pairs and (starts[0] - starts[1]).abs().max() > 1e-3:
        words = "queries and keys at one position are turned by different angles, so a token does not stand at itself"
        return Finding("layout", "wrong", f"{words}: one of the two counts from another start. Count both alike")
    return None


def origin(case: Case) -> Finding | None:
    """Say where position 0 stands."""
    start, theta = case.reading.start, case.reading.theta
    if not start.any():
        return None
    slowest = int(theta.abs().argmin())
    by = float(start[slowest] / theta[slowest]) if theta[slowest] else 0.0
    away = torch.remainder(start - round(by) * theta + math.pi, 2 * math.pi) - math.pi
    place = f"as position {round(by):,} should be" if away.abs().max() < 1e-3 else "too"
    words = f"position 0 is turned {place}: harmless while queries and keys agree, wrong once one of them is counted"
    return Finding("origin", "note", f"{words} from 0 elsewhere (a cache, another framework). Count from 0", by)


def direction(case: Case) -> Finding | None:
    """Check the sense of rotation, of queries against keys first."""
    signs, keys = case.reading.theta.sign(), case.of_keys.theta.sign()
    if signs.shape == keys.shape and (signs == -keys).all():
        return Finding(
            "direction",
            "wrong",
            "queries turn one way and keys the other, so logits see the sum of "
            "positions. Use the same sign of the sine for both",
            -1.0,
        )
    if (signs < 0).all():
        return Finding(
            "direction",
            "note",
            "turns backwards, (x1, x2) -> (x1 cos + x2 sin, x2 cos - x1 sin): logits are "
            "those of the usual sense mirrored, so weights trained with the other sense do not fit",
            -1.0,
        )
    return None
