"""Read a rotation off its answers to unit vectors: which channels pair, how fast each pair turns, with what gain.

    M_p[:, j] = what the rotation makes of channel j at position p

For a rotation M_0 is the identity, each M_p mixes pairs of channels only, and the angle of a pair grows as p * theta.
"""

import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.call import AXES, Code
from posenc.diagnosis.compare import noise, wrapped
from posenc.diagnosis.rotations.frequencies import Fit
from posenc.diagnosis.rotations.pairs import angles_of, pairs_of, start_of

PLACES = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89)
REACHES = (16_384, 8_192, 4_096, 2_048, 1_024, 512, 256, 128, 64, 32, 16, 8)
NEAR, QUICK = 1_024, 0.1  # code that takes more than so many seconds for so many positions is not asked for more
NOTHING = torch.zeros(0)
ROWS = 4  # of a picture


class Rotation:
    """A rotation as a function of content (b, h, t, d) and positions, however it takes the latter."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.told_by = next((role for role in ("positions", "offset") if code.takes(role)), "length")
        if code.way.exact:
            self.told_by = "length"

    def __call__(self, x: Tensor, positions: Tensor | None = None, of_keys: bool = False) -> Tensor:
        """Return `x` turned to `positions` (t,) or (b, t), by default 0 .. t-1, as queries or as keys."""
        if positions is None and (self.code.needs(self.told_by) or self.code.way.table or self.code.way.exact):
            positions = torch.arange(x.shape[2])
        if positions is None:
            return self._call(x, of_keys)
        if self.told_by == "positions":
            return self._call(x, of_keys, positions=positions, key_positions=positions)
        if self.told_by == "offset":
            return self._from_offsets(x, positions, of_keys)
        longer = x.new_zeros(*x.shape[:2], self.code.way.exact or int(positions.max()) + 1, x.shape[-1])
        longer[:, :, positions] = x
        return self._call(longer, of_keys)[:, :, positions]

    def _from_offsets(self, x: Tensor, positions: Tensor, of_keys: bool) -> Tensor:
        start, t = int(positions[0]), len(positions)
        if torch.equal(positions, torch.arange(start, start + t)):
            return self._call(x, of_keys, offset=start)
        each = [self._call(x[:, :, i : i + 1], of_keys, offset=int(p)) for i, p in enumerate(positions)]
        return torch.cat(each, dim=2)

    def _call(self, x: Tensor, of_keys: bool, **given: Any) -> Tensor:
        if not self.code.takes("q", "k"):
            return self.code.on(x=x, **self._sizes(x), **given)
        q, k = self.pair(noise(x, 77), x, **given) if of_keys else self.pair(x, None, **given)
        return k if of_keys else q

    def pair(self, q: Tensor, k: Tensor | None = None, **given: Any) -> tuple[Tensor, Tensor]:
        """Return queries and keys as they come out; keys are noise by default, so that no mix-up stays unseen."""
        k = noise(q, 78) if k is None else k
        made = self.code.on(q=q, k=k, **self._sizes(q), **given)
        return made[0], made[1]

    def _sizes(self, x: Tensor) -> dict[str, Any]:
        """Return the rows and columns of a picture where they are asked for."""
        if not self.code.way.exact or not (self.code.takes("rows", "columns") or self.code.takes("grid")):
            return {}
        columns = x.shape[2] // ROWS
        return {"rows": ROWS, "columns": columns, "grid": (ROWS, columns)}

    def reach(self) -> int:
        """Return how many positions there are, as far as the checks go."""
        if self.code.way.exact:
            return self.code.way.exact
        x, begun = torch.zeros(1, self.code.heads, 2, self.code.dim), time.thread_time()
        attempt(self, x, torch.tensor([NEAR - 2, NEAR - 1]))
        tried = REACHES if time.thread_time() - begun < QUICK else REACHES[REACHES.index(NEAR) :]
        return next((n for n in tried if not attempt(self, x, torch.tensor([n - 2, n - 1]))[1]), REACHES[-1])


class Reading(NamedTuple):
    """What was read: matrices (p, d, d) at `places`, pairs and layout, signed theta, gains, angles at position 0.

    On a grid theta is for a step along a row, `down` for one to the next row, and `columns` how long a row is; its
    first token is `corner`, 1 where a token of the class stands before it.
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
    corner: int = 0

    @property
    def coarse(self) -> str:
        """To which half precision each cosine and sine was rounded before it met an input in float32, or ""."""
        told = self.matrices[(self.matrices.abs() > 1e-3) & ((self.matrices.abs() - 1).abs() > 1e-3)]
        halves = (torch.bfloat16, torch.float16)
        rounded = (str(half) for half in halves if len(told) > 32 and torch.equal(told.to(half).double(), told))
        return next(rounded, "").removeprefix("torch.")

    @property
    def slack(self) -> float:
        """By how much lengths and angles may be off."""
        return 1e-2 if self.coarse else 1e-3

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
    reach: int = REACHES[0]

    @property
    def uneven(self) -> bool:
        """Whether lengths change with the position."""
        gains = self.reading.gains
        return bool(len(gains)) and bool((gains.amax(0) > (1 + self.reading.slack) * gains.amin(0)).any())

    @property
    def fades(self) -> bool:
        """Whether each pair turns and grows, or fades, from position to position, as in xPos."""
        matrices, gains = self.reading.matrices, self.reading.gains
        if not self.reading.pairs or float(gains.min()) < 1e-30:
            return False
        grown, (first, second) = (gains / gains[0]).log(), self.reading.sides
        unit = matrices / gains[:, None]
        skewed = torch.einsum("pij,pij->pj", unit[..., first], unit[..., second]).abs().max() > 1e-3
        unlike = (grown[:, first] - grown[:, second]).abs().max() > 1e-3
        steps = grown.diff(dim=0)
        one_way = ((steps > -1e-5).all(0) | (steps < 1e-5).all(0)).all()
        return bool(one_way and not skewed and not unlike and grown.abs().max() > 1e-3)

    def turned(self, y: Tensor) -> Tensor:
        """Return the pairs of what came out, each of length 1, so that only their angles are compared."""
        first, second = (y.double()[..., side] for side in self.reading.sides)
        return torch.cat((first, second), -1) / torch.hypot(first, second).repeat(*[1] * (y.ndim - 1), 2)

    @property
    def keys_undo_lengths(self) -> bool:
        """Whether lengths change, and products of queries and keys of one position do not, as in xPos."""
        least, most = self.reading.gains.aminmax()
        product = torch.einsum("pij,pik->pjk", self.reading.matrices, self.of_keys.matrices)
        return bool(most > 1.001 * least and (product - torch.eye(self.dim)).abs().max() < 1e-3)

    @property
    def of_axes(self) -> bool:
        """Whether there are several axes: a grid, or positions of several numbers."""
        return bool(self.reading.columns) or self.code.way.form in AXES

    @property
    def given_angles(self) -> bool:
        """Whether the doctor made the angles."""
        return self.code.way.table is not None


def read(rotate: Rotation, of_keys: bool = False, reach: int = REACHES[0]) -> Reading:
    """Return what `rotate` does to unit vectors; the layout is "wide" where its result has another width."""
    places = torch.tensor([place for place in PLACES if place < reach])
    matrices = matrices_of(rotate, places, of_keys)
    if matrices.shape[1] != matrices.shape[2]:
        return Reading(NOTHING, [], "wide")
    gains = matrices.norm(dim=1)
    pairs, layout = pairs_of(matrices)
    if not pairs:
        return Reading(matrices, [], layout, places, gains=gains)
    start = start_of(matrices[0], pairs)
    step = matrices[0].T @ matrices[1] if start.any() else matrices[1]
    found = Reading(matrices, pairs, layout, places, angles_of(step, pairs), gains, start)
    return found if _grows(found) else _on_grid(rotate, of_keys, reach, found)


def matrices_of(rotate: Rotation, places: Tensor, of_keys: bool, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return what becomes of each channel of the first head alone, in columns, at each place: (p, d, d)."""
    dim = rotate.code.dim
    unit = torch.eye(dim, dtype=dtype).view(dim, 1, 1, dim).repeat(1, rotate.code.heads, len(places), 1)
    y, failed = attempt(rotate, unit, places, of_keys)
    y = rotate(unit.float(), places, of_keys) if failed else y
    return y[:, 0].detach().double().permute(1, 2, 0)


def _grows(reading: Reading) -> bool:
    """Tell whether the angle of each pair is its speed times the position."""
    angle = angles_of(reading.matrices, reading.pairs)
    off = angle - reading.start - reading.places[:, None] * reading.theta
    return bool(wrapped(off).abs().max() < 1e-2)


def _on_grid(rotate: Rotation, of_keys: bool, reach: int, found: Reading) -> Reading:
    """Return the reading with the length of a row, if angles grow along rows and from row to row."""
    places = torch.arange(min(reach, 256))
    y = matrices_of(rotate, places, of_keys, torch.float32)
    pairs, layout = pairs_of(y)
    if not pairs:
        return found
    angle, exact = angles_of(y, pairs), rotate.code.way.exact
    few = [int(place) for place in found.places]
    for corner, end in ((0, len(places)), *(((0, -1), (1, len(places))) if exact else ())):
        cells = angle[corner:end]
        for columns in range(2, len(cells) // 2 + 1):
            if not (exact and len(cells) % columns) and (steps := steps_of(cells, columns)):
                start, along, down = steps
                of_grid = (along, y.norm(dim=1)[few], start, columns, down, corner)
                return Reading(y[few], pairs, layout, found.places, *of_grid)
    return found


def steps_of(angle: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the angles (n,) at the corner, of a step along a row and of one to the next, if (t, n) are of such."""
    places, start = torch.arange(len(angle)), angle[0]
    along, down = angle[1] - start, angle[columns] - start
    expected = start + (places % columns)[:, None] * along + (places // columns)[:, None] * down
    fits = wrapped(angle - expected).abs().max() < 1e-2
    return (start, along, down) if fits else None
