"""Read a rotation off its answers to unit vectors: which channels pair, how fast each pair turns, with what gain.

    M_p[:, j] = what the rotation makes of channel j at position p

For a rotation M_0 is the identity, each M_p mixes pairs of channels only, and the angle of a pair grows as p * theta.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.checkup.patient import Patient, attempt

PLACES = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89)
BASES = (10_000.0, 100.0, 1_000.0, 40_000.0, 100_000.0, 150_000.0, 500_000.0, 1_000_000.0, 5_000_000.0, 10_000_000.0)


class Turn:
    """A rotation as a function of content (b, h, t, d) and positions, however it takes the latter."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.reach = next((role for role in ("positions", "offset") if patient.takes(role)), "length")

    def __call__(self, x: Tensor, positions: Tensor | None = None, which: int = 0) -> Tensor:
        """Return `x` turned to `positions` (t,) or (b, t), by default 0 .. t-1, as queries (which=0) or as keys (1)."""
        if positions is None and self.patient.needs(self.reach):
            positions = torch.arange(x.shape[2])
        if positions is None:
            return self._call(x, {}, which)
        if self.reach == "positions":
            return self._call(x, {"positions": positions, "key_positions": positions}, which)
        if self.reach == "offset":
            start, t = int(positions[0]), len(positions)
            if torch.equal(positions, torch.arange(start, start + t)):
                return self._call(x, {"offset": start}, which)
            each = [self._call(x[:, :, i : i + 1], {"offset": int(p)}, which) for i, p in enumerate(positions)]
            return torch.cat(each, dim=2)
        longer = x.new_zeros(*x.shape[:2], int(positions.max()) + 1, x.shape[-1])
        longer[:, :, positions] = x
        return self._call(longer, {}, which)[:, :, positions]

    def _call(self, x: Tensor, given: dict, which: int) -> Tensor:
        swap = self.patient.order == "bthd"
        x = x.transpose(1, 2) if swap else x
        if self.patient.takes("q", "k"):
            result = self.patient(q=x, k=x.clone(), **given)[which]
        else:
            result = self.patient(x=x, **given)
        return result.transpose(1, 2) if swap else result


class Reading(NamedTuple):
    """What was read: matrices (p, d, d) at `PLACES`, pairs and layout, signed theta, gains, angles at position 0."""

    matrices: Tensor
    pairs: list[tuple[int, int]]
    layout: str
    theta: Tensor
    gains: Tensor
    start: Tensor

    def predicted(self, x: Tensor, positions: Tensor, theta: Tensor) -> Tensor:
        """Return `x` (..., t, d) turned in float64 by `theta` (r/2,), with the start read at 0 and the gain at 1."""
        angle = positions.double()[:, None] * theta + self.start
        first, second = (list(side) for side in zip(*self.pairs, strict=True))
        y = x.double().clone()
        cosine, sine = angle.cos(), angle.sin()
        y[..., first] = x[..., first].double() * cosine - x[..., second].double() * sine
        y[..., second] = x[..., second].double() * cosine + x[..., first].double() * sine
        return y * self.gains[1]


def read(turn: Turn, dim: int, heads: int, which: int = 0) -> Reading:
    """Return what `turn` does to unit vectors; the layout is "wide" where its result has another width."""
    places = torch.tensor(PLACES)
    unit = torch.eye(dim, dtype=torch.float64).view(dim, 1, 1, dim).repeat(1, heads, len(places), 1)
    y, failed = attempt(turn, unit, places, which)
    if failed:
        y = turn(unit.float(), places, which)
    if tuple(y.shape) != tuple(unit.shape):
        return Reading(torch.zeros(0), [], "wide", torch.zeros(0), torch.zeros(0), torch.zeros(0))
    matrices = y[:, 0].detach().double().permute(1, 2, 0)
    off = (matrices - torch.diag_embed(matrices.diagonal(dim1=1, dim2=2))).abs().amax(0)
    largest, partner = off.max(0)
    turned = [j for j in range(dim) if largest[j] > 1e-6]
    pairs = sorted({(min(j, int(partner[j])), max(j, int(partner[j]))) for j in turned})
    paired = len(pairs) * 2 == len(turned) and len({c for pair in pairs for c in pair}) == len(turned)
    lonely = off.clone()
    lonely[partner, torch.arange(dim)] = 0
    layout = _layout(pairs) if paired and not (lonely > 1e-5).any() else "mixed"
    if layout == "mixed" or not pairs:
        return Reading(matrices, [], layout, torch.zeros(0), matrices.norm(dim=1), torch.zeros(0))
    start = _angles(matrices[0], pairs)
    sound = (matrices[0].T @ matrices[0] - torch.eye(dim) * (matrices[0] ** 2).sum(0)).abs().max() < 1e-3
    start = start if sound and start.abs().max() > 1e-6 else torch.zeros_like(start)
    step = matrices[0].T @ matrices[1] if start.any() else matrices[1]
    return Reading(matrices, pairs, layout, _angles(step, pairs), matrices.norm(dim=1), start)


def _angles(matrix: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    """Return the angle by which each pair turns in a matrix (d, d)."""
    first, second = (list(side) for side in zip(*pairs, strict=True))
    across = matrix[second, first] - matrix[first, second]
    return torch.atan2(across, matrix[first, first] + matrix[second, second])


def _layout(pairs: list[tuple[int, int]]) -> str:
    steps = {second - first for first, second in pairs}
    if steps == {1}:
        return "interleaved"
    return "half" if len(steps) == 1 else "other" if steps else "none"


class Speeds(NamedTuple):
    """What the frequencies are: a name, the base, the factor of a scaling, and exact values where they are known."""

    name: str
    base: float
    factor: float = 1.0
    exact: Tensor | None = None


def speeds(theta: Tensor) -> Speeds:
    """Name the frequencies (n,), radians a position as seen modulo a turn, first pair first."""
    w, n = theta.abs().double(), len(theta)
    steps = torch.arange(n, dtype=torch.float64) / n
    for base in BASES:
        angle = base**steps
        if n > 2 and (angle.cos() - theta.cos()).abs().max() < 5e-3 and (angle[: n // 2] > 1.5).any():
            return Speeds("inverted", base)
    if not n or w.max() < 1e-9:
        return Speeds("none", math.nan)
    if n == 1:
        return Speeds("single", math.nan)
    if w[1] > 1.001 * w[0] or w.max() > 1.001:
        return Speeds("rising" if w[1] > 1.001 * w[0] else "fast", math.nan)
    live = w > 1e-7
    m = int(live.sum())
    base = float((w[0] / w[m - 1]) ** (n / (m - 1))) if m > 1 else math.inf
    ideal = w[0] * base ** (-steps)
    if m > 1 and ((w[:m] / ideal[:m]) - 1).abs().max() < 2e-3:
        return _regular(w, steps, base, float(theta[0].sign()))
    return _by_parts(w, steps, n)


def _regular(w: Tensor, steps: Tensor, base: float, sign: float) -> Speeds:
    known = min(BASES, key=lambda b: abs(math.log(b / base)))
    near = abs(known / base - 1) < 1e-3
    base, ratio, factor = (known if near else base), float(w[0] / w[1]), float(1 / w[0])
    if factor < 1.001:
        return Speeds("regular", base, 1.0, sign * base ** (-steps) if near else None)
    if abs(factor / ratio - 1) < 1e-3:
        return Speeds("late", base)
    return Speeds("linear", base, factor, sign * base ** (-steps) / round(factor, 3) if near else None)


def _by_parts(w: Tensor, steps: Tensor, n: int) -> Speeds:
    if not w[1]:
        return Speeds("irregular", math.nan)
    guess = float((w[0] / w[1]) ** n)
    known = min(BASES, key=lambda b: abs(math.log(b / guess)))
    if abs(known / guess - 1) > 0.01 or abs(w[0] - 1) > 1e-3:
        return Speeds("irregular", math.nan)
    slowed = known ** (-steps) / w.clamp(min=1e-30)
    monotone = (slowed.diff() > -1e-3 * slowed[:-1]).all() and 1.001 < slowed[-1] < 1e4
    return Speeds("by parts" if monotone else "irregular", known, float(slowed[-1]))
