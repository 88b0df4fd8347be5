"""Read a rotation off its answers to unit vectors: which channels pair, how fast each pair turns, with what gain.

    M_p[:, j] = what the rotation makes of channel j at position p

For a rotation M_0 is the identity, each M_p mixes pairs of channels only, and the angle of a pair grows as p * theta.
"""

import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import POSITION_AXES, Code
from posenc.doctor.numerics import random, repeated_random, wrap_angle
from posenc.doctor.rotation.fit_frequencies import Fit
from posenc.doctor.rotation.pairs import angles_of, pairs_of, rows_of

PLACES = (0, 1, 5, 8, 13, 21, 34, 55, 89)
REACHES = (16_384, 8_192, 4_096, 2_048, 1_024, 512, 256, 128, 64, 32, 16, 8)
NEAR, QUICK = 1_024, 100_000_000  # code that takes more than so many ns for so many positions is not asked for more
SLIGHT, CLOSE = 1e-3, 1e-2  # what lengths and angles may be off by, in float32 and in half precision
FLAT = 1e-6  # of what grows one way
NOTHING = torch.zeros(0)
ROWS = 4  # of a picture


class Rotation:
    """A rotation as a function of content (b, h, t, d) and positions, however it takes the latter."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.told_by = next((role for role in ("positions", "offset") if code.takes(role)), "length")
        if code.call.tokens:
            self.told_by = "length"

    def __call__(self, x: Tensor, positions: Tensor | None = None, of_keys: bool = False) -> Tensor:
        """Return `x` turned to `positions` (t,) or (b, t), by default 0 .. t-1, as queries or as keys."""
        if self.told_by == "length":
            return self._call(x, of_keys) if positions is None else self._within(x, positions, of_keys)
        places = torch.arange(x.shape[2]) if positions is None else positions
        if self.told_by == "offset" and (places.diff() != 1).any():
            each = zip(x.split(1, dim=2), places.split(1), strict=True)
            return torch.cat([self(token, place, of_keys) for token, place in each], dim=2)
        return self._call(x, of_keys, **self.told(places))

    def told(self, positions: Tensor) -> dict[str, Any]:
        """Return the arguments that tell of positions in a row."""
        if self.told_by == "positions":
            return {"positions": positions, "key_positions": positions}
        return {"offset": int(positions[0])} if self.told_by == "offset" else {}

    def _within(self, x: Tensor, positions: Tensor, of_keys: bool) -> Tensor:
        """Give tokens their positions among others that are zeros."""
        longer = x.new_zeros(*x.shape[:2], self.code.call.tokens or int(positions.max()) + 1, x.shape[-1])
        longer[:, :, positions] = x
        return self._call(longer, of_keys)[:, :, positions]

    def _call(self, x: Tensor, of_keys: bool, **given: Any) -> Tensor:
        if not self.code.takes("q", "k"):
            return self.code.apply(x=x, **self._sizes(), **given)
        q, k = (
            self.pair(repeated_random(x, 77), x, **given) if of_keys else self.pair(x, repeated_random(x, 78), **given)
        )
        return k if of_keys else q

    def pair(self, q: Tensor, k: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
        """Return queries and keys as they come out."""
        q, k, *_ = self.code.apply(q=q, k=k, **self._sizes(), **given)
        return q, k

    def _sizes(self) -> dict[str, Any]:
        """Return the rows and columns of a picture, for those who ask."""
        columns = self.code.call.tokens // ROWS
        return {"rows": ROWS, "columns": columns, "grid": (ROWS, columns)} if columns else {}

    def reach(self) -> int:
        """Return how many positions there are, as far as the checks go."""
        if self.code.call.tokens:
            return self.code.call.tokens
        begun = time.thread_time_ns()
        self._bears(NEAR)
        quick = time.thread_time_ns() - begun < QUICK
        return next((n for n in REACHES if (quick or n <= NEAR) and self._bears(n)), min(REACHES))

    def _bears(self, n: int) -> bool:
        """Tell whether the last two of n positions raise nothing; one alone could be broadcast."""
        return not attempt(self, random(1, self.code.heads, 2, self.code.dim), torch.arange(n)[-2:])[1]


class Reading(NamedTuple):
    """What was read: matrices (p, d, d) at `places`, pairs and layout, signed theta, gains, angles at position 0.

    On a grid theta is for a step along a row, `down` for one to the next row, `columns` how long a row is, and `cells`
    are the tokens of the grid: all but that of the class.
    """

    matrices: Tensor
    pairs: list[tuple[int, int]]
    layout: str
    places: Tensor = NOTHING
    theta: Tensor = NOTHING
    gains: Tensor = NOTHING
    start: Tensor = NOTHING
    columns: int = 0
    down: Tensor = NOTHING
    cells: Tensor = NOTHING

    @property
    def coarse(self) -> str:
        """To which half precision each cosine and sine was rounded before it met an input in float32, or ""."""
        if not self.matrices.frac().any():
            return ""
        halves = (torch.bfloat16, torch.float16)
        rounded = (str(half) for half in halves if torch.equal(self.matrices.to(half).double(), self.matrices))
        return next(rounded, "").removeprefix("torch.")

    @property
    def slack(self) -> float:
        """By how much lengths and angles may be off."""
        return CLOSE if self.coarse else SLIGHT

    @property
    def sides(self) -> tuple[list[int], list[int]]:
        """The first and the second channels of the pairs."""
        return [first for first, _ in self.pairs], [second for _, second in self.pairs]

    def predicted(self, x: Tensor, positions: Tensor, theta: Tensor) -> Tensor:
        """Return `x` (..., t, d) turned in float64 by `theta` (r/2,), with the start and the gain that were read."""
        angle = positions.double()[:, None] * theta + self.start
        first, second = self.sides
        x, cos, sin = x.double(), angle.cos(), angle.sin()
        y = x.clone()
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., second] * cos + x[..., first] * sin
        return y * self.gains.mean(0)


class Case(NamedTuple):
    """What the checks share: the code and its sizes, its reading as queries and as keys, what fits the frequencies."""

    code: Code
    dim: int
    heads: int
    rotate: Rotation
    reading: Reading
    of_keys: Reading
    fit: Fit
    reach: int = max(REACHES)

    @property
    def uneven(self) -> bool:
        """Whether lengths change with the position."""
        gains = self.reading.gains
        return bool((gains.amax(0) > (1 + self.reading.slack) * gains.amin(0)).any())

    @property
    def fades(self) -> bool:
        """Whether each pair turns and grows, or fades, from position to position, as in xPos."""
        growth = self.reading.gains.log().diff(dim=0)
        first, second = (growth[:, side] for side in self.reading.sides)
        one_way = (growth.amin(0) * growth.amax(0) > -FLAT).all()
        return bool(self.reading.pairs and self.uneven and one_way and torch.allclose(first, second, atol=SLIGHT))

    def turned(self, y: Tensor) -> Tensor:
        """Return the pairs of what came out, each of length 1, so that only their angles are compared."""
        if not self.reading.pairs:
            return y
        first, second = (y.double()[..., side] for side in self.reading.sides)
        angle = torch.atan2(second, first)
        return torch.cat((angle.cos(), angle.sin()), -1)

    @property
    def keys_undo_lengths(self) -> bool:
        """Whether lengths change, and products of queries and keys of one position do not, as in xPos."""
        product = torch.einsum("pij,pik->pjk", self.reading.matrices, self.of_keys.matrices)
        return self.uneven and bool((product - torch.eye(self.dim)).abs().max() < SLIGHT)

    @property
    def of_axes(self) -> bool:
        """Whether there are several axes: a grid, or positions of several numbers."""
        return bool(self.reading.columns) or self.code.call.positions_form in POSITION_AXES

    @property
    def given_angles(self) -> bool:
        """Whether the doctor made the angles."""
        return self.code.call.table_form is not None


def read(rotate: Rotation, reach: int, of_keys: bool = False) -> Reading:
    """Return what `rotate` does to unit vectors; the layout is "wide" where its result has another width."""
    places = torch.tensor([place for place in PLACES if place < reach])
    matrices = matrices_of(rotate, places, of_keys)
    gains = matrices.norm(dim=1)
    if matrices.shape[1] != matrices.shape[2]:
        return Reading(NOTHING, [], "wide", gains=gains)
    pairs, layout = pairs_of(matrices)
    if not pairs:
        return Reading(matrices, [], layout, places, gains=gains)
    angle = angles_of(matrices, pairs)
    start, theta = angle[0], wrap_angle(angle[1] - angle[0])
    found = Reading(matrices, pairs, layout, places, theta, gains, start)
    off = wrap_angle(angle - start - places[:, None] * theta).abs().max()
    return found if off < CLOSE else _on_grid(rotate, of_keys, reach, found)


def matrices_of(rotate: Rotation, places: Tensor, of_keys: bool = False) -> Tensor:
    """Return what becomes of each channel of the first head alone, in columns, at each place: (p, d, d)."""
    dim = rotate.code.dim
    unit = torch.eye(dim, dtype=torch.float64).view(dim, 1, 1, dim).repeat(1, rotate.code.heads, len(places), 1)
    y, failed = attempt(rotate, unit, places, of_keys)
    y = rotate(unit.float(), places, of_keys) if failed else y
    return y[:, 0].detach().double().permute(1, 2, 0)


def _on_grid(rotate: Rotation, of_keys: bool, reach: int, found: Reading) -> Reading:
    """Return the reading with the length of a row, if angles grow along rows and from row to row."""
    places = torch.arange(min(reach, 256))
    angle = angles_of(matrices_of(rotate, places, of_keys), found.pairs)
    for cells in (places, places[:-1], places[1:]):
        if grid := rows_of(angle[cells]):
            of_grid = {"theta": grid.along, "start": grid.start, "columns": grid.columns, "down": grid.down}
            return found._replace(**of_grid, cells=cells)
    return found
