"""Read a rotation off its answers to unit vectors: which channels pair, how fast each pair turns, with what gain.

    M_p[:, j] = what the rotation makes of channel j at position p

For a rotation M_0 is the identity, each M_p mixes pairs of channels only, and the angle of a pair grows as p * theta.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc.diagnosis.call import Code, attempt
from posenc.diagnosis.frequencies import Fit

PLACES = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89)
NOTHING = torch.zeros(0)


class Rotation:
    """A rotation as a function of content (b, h, t, d) and positions, however it takes the latter."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.told_by = next((role for role in ("positions", "offset") if code.takes(role)), "length")

    def __call__(self, x: Tensor, positions: Tensor | None = None, of_keys: bool = False) -> Tensor:
        """Return `x` turned to `positions` (t,) or (b, t), by default 0 .. t-1, as queries or as keys."""
        if positions is None and self.code.needs(self.told_by):
            positions = torch.arange(x.shape[2])
        if positions is None:
            return self._call(x, of_keys)
        if self.told_by == "positions":
            return self._call(x, of_keys, positions=positions, key_positions=positions)
        if self.told_by == "offset":
            return self._from_offsets(x, positions, of_keys)
        longer = x.new_zeros(*x.shape[:2], int(positions.max()) + 1, x.shape[-1])
        longer[:, :, positions] = x
        return self._call(longer, of_keys)[:, :, positions]

    def _from_offsets(self, x: Tensor, positions: Tensor, of_keys: bool) -> Tensor:
        start, t = int(positions[0]), len(positions)
        if torch.equal(positions, torch.arange(start, start + t)):
            return self._call(x, of_keys, offset=start)
        each = [self._call(x[:, :, i : i + 1], of_keys, offset=int(p)) for i, p in enumerate(positions)]
        return torch.cat(each, dim=2)

    def _call(self, x: Tensor, of_keys: bool, **given: Tensor | int) -> Tensor:
        swap = self.code.order == "bthd"
        x = x.transpose(1, 2) if swap else x
        both = self.code.takes("q", "k")
        result = self.code(q=x, k=x.clone(), **given)[of_keys] if both else self.code(x=x, **given)
        return result.transpose(1, 2) if swap else result


class Reading(NamedTuple):
    """What was read: matrices (p, d, d) at `PLACES`, pairs and layout, signed theta, gains, angles at position 0."""

    matrices: Tensor
    pairs: list[tuple[int, int]]
    layout: str
    theta: Tensor = NOTHING
    gains: Tensor = NOTHING
    start: Tensor = NOTHING

    @property
    def sides(self) -> tuple[list[int], list[int]]:
        """The first and the second channels of the pairs."""
        return [first for first, _ in self.pairs], [second for _, second in self.pairs]

    def predicted(self, x: Tensor, positions: Tensor, theta: Tensor) -> Tensor:
        """Return `x` (..., t, d) turned in float64 by `theta` (r/2,), with the start read at 0 and the gain at 1."""
        angle = positions.double()[:, None] * theta + self.start
        first, second = self.sides
        x, cos, sin = x.double(), angle.cos(), angle.sin()
        y = x.clone()
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., second] * cos + x[..., first] * sin
        return y * self.gains[1]


class Case(NamedTuple):
    """What the checks share: the code and its sizes, its reading as queries and as keys, what fits the frequencies."""

    code: Code
    dim: int
    heads: int
    rotate: Rotation
    reading: Reading
    of_keys: Reading
    fit: Fit

    @property
    def keys_undo_lengths(self) -> bool:
        """Whether lengths change, and products of queries and keys of one position do not, as in xPos."""
        least, most = self.reading.gains.aminmax()
        product = torch.einsum("pij,pik->pjk", self.reading.matrices, self.of_keys.matrices)
        return bool(most > 1.001 * least and (product - torch.eye(self.dim)).abs().max() < 1e-3)


def read(rotate: Rotation, of_keys: bool = False) -> Reading:
    """Return what `rotate` does to unit vectors; the layout is "wide" where its result has another width."""
    dim, places = rotate.code.dim, torch.tensor(PLACES)
    unit = torch.eye(dim, dtype=torch.float64).view(dim, 1, 1, dim).repeat(1, rotate.code.heads, len(places), 1)
    y, failed = attempt(rotate, unit, places, of_keys)
    if failed:
        y = rotate(unit.float(), places, of_keys)
    if y.shape != unit.shape:
        return Reading(NOTHING, [], "wide")
    matrices = y[:, 0].detach().double().permute(1, 2, 0)
    gains = matrices.norm(dim=1)
    pairs, layout = _pairs(matrices)
    if not pairs:
        return Reading(matrices, [], layout, gains=gains)
    start = _start(matrices[0], pairs)
    step = matrices[0].T @ matrices[1] if start.any() else matrices[1]
    return Reading(matrices, pairs, layout, _angles(step, pairs), gains, start)


def _pairs(matrices: Tensor) -> tuple[list[tuple[int, int]], str]:
    """Return the pairs of channels that mix with each other and with no other, and the name of their layout."""
    crossed = (matrices - torch.diag_embed(matrices.diagonal(dim1=1, dim2=2))).abs().amax(0)
    largest, partner = crossed.max(0)
    turned = (largest > 1e-6).nonzero().flatten().tolist()
    pairs = sorted({(min(j, int(partner[j])), max(j, int(partner[j]))) for j in turned})
    channels = sorted(channel for pair in pairs for channel in pair)
    crossed[partner, torch.arange(len(partner))] = 0
    if channels != turned or (crossed > 1e-5).any():
        return [], "mixed"
    steps = {second - first for first, second in pairs}
    if steps == {1}:
        return pairs, "interleaved"
    return pairs, "half" if len(steps) == 1 else "other" if steps else "none"


def _start(matrix: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    """Return the angles at position 0, or zeros where its matrix (d, d) does not turn."""
    start = _angles(matrix, pairs)
    square = matrix.T @ matrix
    orthogonal = (square - square.diagonal().diag()).abs().max() < 1e-3
    return start if orthogonal and start.abs().max() > 1e-6 else torch.zeros_like(start)


def _angles(matrix: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    """Return the angle by which each pair turns in a matrix (d, d)."""
    first, second = (list(side) for side in zip(*pairs, strict=True))
    across = matrix[second, first] - matrix[first, second]
    return torch.atan2(across, matrix[first, first] + matrix[second, second])
