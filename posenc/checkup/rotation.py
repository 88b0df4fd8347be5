"""Examine a rotation: what it turns, how fast, and whether logits see offsets only; `usage` looks at how it is called."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.checkup import usage
from posenc.checkup.patient import Patient, attempt, far, random
from posenc.checkup.reading import PLACES, Reading, Speeds, Turn, read, speeds
from posenc.checkup.report import Finding


class Case(NamedTuple):
    """What the checks share: the rotation, what was read off queries and keys, its frequencies, the sizes."""

    turn: Turn
    reading: Reading | None
    of_keys: Reading | None
    speeds: Speeds
    dim: int
    heads: int

    @property
    def patient(self) -> Patient:
        """The code itself."""
        return self.turn.patient


def accepts(patient: Patient, dim: int, heads: int) -> bool:
    """Tell whether the code can be called as a rotation: zeros come back as zeros, one token for each."""
    turn, zeros = Turn(patient), torch.zeros(2, heads, 6, dim)
    y = turn(zeros)
    return isinstance(y, Tensor) and y.shape[:3] == zeros.shape[:3] and y.shape[-1] % dim == 0 and not y.any()


def examine(patient: Patient, dim: int, heads: int) -> list[Finding]:
    """Return the findings on a rotation of heads of `dim` channels."""
    turn = Turn(patient.fresh())
    remembers = usage.memory(turn, dim, heads)
    if remembers.verdict == "wrong":
        rest = "the answers of a call depend on the calls before it; repair that first, then ask again"
        return [remembers, Finding("everything else", "not checked", rest)]
    turn = Turn(patient.fresh())
    reading = read(turn, dim, heads)
    keys = read(turn, dim, heads, 1) if patient.takes("q", "k") else reading
    known = speeds(reading.theta) if reading else Speeds("none", math.nan)
    case = Case(turn, reading, keys, known, dim, heads)
    found = [remembers, *shape(case), shift(case)]
    for check in usage.CHECKS:
        result, failed = attempt(check, case)
        found.append(Finding(check.__name__.replace("_", " "), "not checked", failed) if failed else result)
    found.append(
        Finding(
            "rotating twice",
            "not checked",
            "give the attention, with its cache: one call cannot show that keys were rotated before they came in",
        )
    )
    return found


def shape(case: Case) -> list[Finding]:
    """Check what the matrices show."""
    reading = case.reading
    if reading is None:
        return [Finding("norm", "note", "the result has another width than the input (as in PoPE): pairs are not read")]
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
    found = [linear(case), norm(case), layout(case)]
    if reading.pairs:
        found += [direction(case), frequencies(case)]
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
    gains, (least, most) = case.reading.gains, case.reading.gains.aminmax()
    product = torch.einsum("pij,pik->pjk", case.reading.matrices, case.of_keys.matrices)
    if most / least < 1.001 and (twisted := _crossed(case.reading)) < 1e-3:
        if abs(least - 1) < 1e-3:
            return Finding("norm", "ok", "lengths stay the same", float(least))
        return _factor(case, float(gains.mean()))
    if (
        _crossed(case.reading) > 1e-3
        and case.reading.layout in ("half", "interleaved")
        and (_unlike(case.reading) > 1e-3)
    ):
        other = {"half": "interleaved", "interleaved": "half"}[case.reading.layout]
        repeat = {"half": "torch.cat((angles, angles), -1)", "interleaved": "angles.repeat_interleave(2, -1)"}
        return Finding(
            "norm",
            "wrong",
            f"lengths change ({least:.3g} to {most:.3g} times): channels pair as in the "
            f"{case.reading.layout} layout while the table of angles is repeated for the {other} one, so the "
            f"two of a pair turn by different angles. Repeat it as {repeat[case.reading.layout]}",
            float(most),
        )
    if (product - torch.eye(case.dim)).abs().max() < 1e-3:
        return Finding("norm", "note", "queries grow as keys shrink (as in xPos): only their product keeps its size")
    return _stretched(case, gains)


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
        if start > 1e-3
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


def frequencies(case: Case) -> Finding:
    """Name the frequencies."""
    name, base, factor, _ = case.speeds
    w = case.reading.theta.abs()
    n, fastest = len(w), float(w.max())
    root = next((b for b in (10_000, 500_000) if abs(base / b**0.5 - 1) < 1e-3), None)
    if name == "inverted":
        top = base ** ((n - 1) / n)
        return Finding(
            "frequencies",
            "wrong",
            f"pair i turns by {base:g}^(+2i/r), up to {top:,.0f} rad a token in place of "
            "at most 1: the exponent is inverted. Multiply positions by base^(-2i/r), do not divide",
            top,
        )
    if name in ("rising", "fast"):
        return Finding(
            "frequencies",
            "wrong",
            f"pairs turn by up to {fastest:.3g} rad a token and do not slow down from 1 "
            "as base^(-2i/r): look at the sign and the brackets of the exponent",
            fastest,
        )
    if name == "late":
        return Finding(
            "frequencies",
            "note",
            f"base {base:g}, but the first pair turns by {fastest:.4g}, not 1: the "
            "exponents start at 2/r, so the index counts from 1",
            fastest,
        )
    if name == "linear":
        return Finding("frequencies", "ok", f"base {base:g}, positions divided by {factor:.4g} (linear scaling)", base)
    if name == "by parts":
        return Finding(
            "frequencies",
            "ok",
            f"base {base:g}, slow pairs slowed {factor:.4g} times and fast ones not (YaRN "
            "or Llama 3)" + _unfactored(case),
            base,
        )
    if name in ("irregular", "single", "none"):
        return Finding(
            "frequencies",
            "note",
            f"{n} frequencies from {fastest:.3g} down to {float(w.min()):.3g} rad a token; no base fits",
            fastest,
        )
    if base > 1e12 or base < 10 or root:
        why = f"the square root of {root:,}: an exponent of i/r in place of 2i/r?" if root else "check the exponent"
        return Finding("frequencies", "note", f"base {base:.4g} fits; {why}", base)
    return Finding(
        "frequencies", "ok", f"base {base:,.6g}, from {fastest:.3g} to {float(w.min()):.3g} rad a token", base
    )


def _unfactored(case: Case) -> str:
    right = 0.1 * math.log(case.speeds.factor) + 1
    plain = abs(float(case.reading.gains[1].mean()) - 1) < 1e-3
    return f"; if this is YaRN, its factor {right:.4f} is missing" if plain else ""


def shift(case: Case) -> Finding:
    """Check that logits see the offset of a query and a key, not where the two stand."""
    moved = 100 if case.turn.reach == "length" else 1000
    q, k = random(1, case.heads, 8, case.dim, seed=2), random(1, case.heads, 8, case.dim, seed=3)
    places = torch.arange(8)
    worst = 0.0
    for step in (1, 17, moved):
        before, after = (case.turn(q, p) @ case.turn(k, p, 1).mT for p in (places, places + step))
        worst = max(worst, far(after, before))
    if worst < 2e-3:
        return Finding(
            "shift", "ok", "logits see offsets only: moving queries and keys together changes nothing", worst
        )
    return Finding(
        "shift",
        "wrong",
        f"moving queries and keys together changes the logits by {worst:.2g} of the largest: "
        "they do not see offsets only. Something absolute is in it, or pairs do not rotate",
        worst,
    )
