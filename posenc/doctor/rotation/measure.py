"""Measure a rotation by its results for unit vectors: which channels pair, the frequency of each pair, the gain.

    M_p[:, j] = the result at position p for a token that is 1 in channel j and 0 elsewhere

For a rotation M_0 is the identity, each M_p mixes pairs of channels only, and the angle of a pair is p * theta.
"""

import math
import time
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from posenc.doctor.call.code import Code
from posenc.doctor.numerics import HALF_PRECISION, is_finite, random, repeated_random, wrap_angle
from posenc.doctor.rotation.fit_frequencies import Fit, fit
from posenc.doctor.safe_call import attempt

MEASURED_POSITIONS = (0, 1, 5, 8, 13, 21, 34, 55, 89)
MAX_LENGTHS = (16_384, 8_192, 4_096, 2_048, 1_024, 512, 256, 128, 64, 32, 16, 8)
QUICK_LENGTH, QUICK = 1_024, 100_000_000  # code that takes more ns for so many positions is asked for no more
TOLERANCE, ROUNDED_TOLERANCE = 1e-3, 1e-2  # of gains and angles, in float32 and rounded to a half precision
GRID_TOLERANCE = 1e-2  # of angles
EMPTY = torch.zeros(0)
ROWS = 4  # of a picture
# Code for the patches of one picture takes so many tokens and no other number.
FIXED_TOKENS = (16, 12, 24, 36, 49, 64, 100, 144, 196, 256, 400, 576, 1024, 17, 65, 197, 257)


class Rotation:
    """A rotation as a function of content (b, h, t, d) and positions, however the code takes the latter."""

    def __init__(self, code: Code, uncalled: Code | None = None) -> None:
        # Copies are made of code that has filled no cache.
        self.code = code
        self.uncalled = uncalled or code
        self.position_argument = "length"  # the code counts the tokens of each call from 0
        for role in ("offset", "positions"):
            if code.takes(role) and not code.call.tokens:
                self.position_argument = role

    def __call__(self, x: Tensor, positions: Tensor | None = None, of_keys: bool = False) -> Tensor:
        """Return `x` rotated to `positions` (t,) or (b, t), by default 0 .. t-1, as queries or as keys."""
        if self.position_argument == "length":
            return self._call(x, of_keys) if positions is None else self._among_zeros(x, positions, of_keys)
        at = torch.arange(x.shape[2]) if positions is None else positions
        # An offset stands for consecutive positions only: any others are computed in one call for each token.
        if self.position_argument == "offset" and (at.diff() != 1).any():
            tokens = zip(x.split(1, dim=2), at.split(1), strict=True)
            return torch.cat([self(token, position, of_keys) for token, position in tokens], dim=2)
        return self._call(x, of_keys, **self.position_arguments(at))

    def fresh(self) -> "Rotation":
        """Return the rotation by a copy of the code that has not been called."""
        return Rotation(self.uncalled.fresh(), self.uncalled)

    def position_arguments(self, positions: Tensor) -> dict[str, Any]:
        """Return the arguments, by role, for positions in a row."""
        if self.position_argument == "positions":
            return {"positions": positions, "key_positions": positions}
        return {"offset": int(positions[0])} if self.position_argument == "offset" else {}

    def pair(self, q: Tensor, k: Tensor, **arguments: Any) -> tuple[Tensor, Tensor]:
        """Return the results for queries and keys of code that takes both."""
        # Some code returns more than both, such as values.
        q, k, *_ = self.code.apply(q=q, k=k, **self._picture_size(), **arguments)
        return q, k

    def sides(self, x: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        """Return `x` at positions 0, 1, 2 ... as queries, and as keys where the code tells them apart."""
        if not self.code.takes("q", "k"):
            return (self(x, positions),)
        return self.pair(x, x.clone(), **self.position_arguments(positions))

    def _call(self, x: Tensor, of_keys: bool, **arguments: Any) -> Tensor:
        if not self.code.takes("q", "k"):
            return self.code.apply(x=x, **self._picture_size(), **arguments)
        # The other side is random, not a copy: keys that are computed from queries shall not look right.
        if of_keys:
            return self.pair(repeated_random(x, 77), x, **arguments)[1]
        return self.pair(x, repeated_random(x, 78), **arguments)[0]

    def _among_zeros(self, x: Tensor, positions: Tensor, of_keys: bool) -> Tensor:
        """Return tokens at their positions in a sequence that is 0 elsewhere."""
        longer = x.new_zeros(*x.shape[:2], self.code.call.tokens or int(positions.max()) + 1, x.shape[-1])
        longer[:, :, positions] = x
        return self._call(longer, of_keys)[:, :, positions]

    def _picture_size(self) -> dict[str, Any]:
        columns = self.code.call.tokens // ROWS
        return {"rows": ROWS, "columns": columns, "grid": (ROWS, columns)} if columns else {}

    @cached_property
    def max_length(self) -> int:
        """How many positions there are, as far as the checks go."""
        if self.code.call.tokens:
            return self.code.call.tokens
        # Code with a Python loop over positions would take minutes for the longest: time a short call first.
        start = time.thread_time_ns()
        self._takes_length(QUICK_LENGTH)
        is_quick = time.thread_time_ns() - start < QUICK
        for length in MAX_LENGTHS:
            if (is_quick or length <= QUICK_LENGTH) and self._takes_length(length):
                return length
        return min(MAX_LENGTHS)

    def _takes_length(self, length: int) -> bool:
        """Return whether the last two of so many positions raise nothing; one alone could be broadcast."""
        _, failed = attempt(self, random(1, self.code.heads, 2, self.code.dim), torch.arange(length)[-2:])
        return not failed

    @cached_property
    def prefill(self) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Random content, the first positions, and the results in float32 of queries and of keys, to compare with."""
        positions = torch.arange(min(4_096, self.max_length))  # (t,)
        shape = (1, self.code.heads, len(positions), self.code.dim)
        # Numbers that half precisions hold, so that the input itself is the same in each precision.
        x = random(*shape, seed=6, dtype=torch.bfloat16).float()  # (1, h, t, d)
        return x, positions, self.fresh().sides(x.clone(), positions)


class MeasuredPairs(NamedTuple):
    """The matrices (m, d, d) at `positions`, pairs of channels, layout, signed theta (n,), gains (m, d), and angles.

    `angle_at_0` (n,) is 0 for a rotation that counts from 0. On a grid theta is for a step along a row, `theta_down`
    for one to the next row, `columns` the length of a row, and `cells` are the tokens of the grid: all but that of the
    class. The layout is "half", "interleaved", "other", "none" where nothing rotates, "mixed" where more than two
    channels mix, "wide" where the result has another width than the input.
    """

    matrices: Tensor
    pairs: list[tuple[int, int]]
    layout: str
    positions: Tensor = EMPTY
    theta: Tensor = EMPTY
    gains: Tensor = EMPTY
    angle_at_0: Tensor = EMPTY
    columns: int = 0
    theta_down: Tensor = EMPTY
    cells: Tensor = EMPTY

    @property
    def rounded_to(self) -> str:
        """The half precision to which each cosine and sine is rounded, whatever the input, or ""."""
        for name, dtype in HALF_PRECISION.items():
            # Zeros and ones alone, as where nothing rotates, are exact in any precision.
            if self.matrices.frac().any() and torch.equal(self.matrices.to(dtype).double(), self.matrices):
                return name
        return ""

    @property
    def tolerance(self) -> float:
        """By how much gains and angles may be off."""
        return ROUNDED_TOLERANCE if self.rounded_to else TOLERANCE

    @property
    def is_identity(self) -> bool:
        """Whether nothing changes at any position."""
        return self.layout == "none" and bool((self.matrices - torch.eye(self.matrices.shape[-1])).abs().max() < 1e-7)

    @property
    def pairs_disagree(self) -> bool:
        """Whether the two channels of a pair rotate by different angles."""
        # A rotation has the same cosine twice on the diagonal of a pair.
        first, second = self.channels
        return bool(((self.matrices[:, first, first] - self.matrices[:, second, second]).abs() > TOLERANCE).any())

    @property
    def is_padded(self) -> bool:
        """Whether pairs (i, i + n) of a half layout are fewer than n: the others have frequency 0."""
        return self.layout == "half" and self.distance > len(self.pairs)

    @property
    def distance(self) -> int:
        """From the first to the second channel of the first pair: r/2 in a half layout of r channels."""
        return self.pairs[0][1] - self.pairs[0][0]

    @property
    def channels(self) -> tuple[list[int], list[int]]:
        """The first and the second channels of the pairs."""
        return [first for first, _ in self.pairs], [second for _, second in self.pairs]


class RotationRecord(NamedTuple):
    """What the checks share: the code and its sizes, the pairs of queries and of keys, the rule of the frequencies."""

    code: Code
    dim: int
    heads: int
    rotate: Rotation
    reading: MeasuredPairs  # of queries
    of_keys: MeasuredPairs
    fit: Fit

    @property
    def gains_vary(self) -> bool:
        """Whether norms change with the position."""
        gains = self.reading.gains
        return bool((gains.amax(0) > (1 + self.reading.tolerance) * gains.amin(0)).any())

    @property
    def decays(self) -> bool:
        """Whether each pair grows, or decays, from position to position, as in xPos."""
        if not self.reading.pairs or not self.gains_vary:
            return False
        growth = self.reading.gains.log().diff(dim=0)  # (m-1, d)
        first, second = (growth[:, side] for side in self.reading.channels)
        # Channels that only grow, or only decay, have no two steps of opposite sign, up to rounding.
        is_monotonic = (growth.amin(0) * growth.amax(0) > -1e-6).all()
        return bool(is_monotonic) and torch.allclose(first, second, atol=TOLERANCE)

    @property
    def angles_by_doctor(self) -> bool:
        """Whether the code takes cosines and sines, which the doctor computes."""
        return self.code.call.table_form is not None

    def directions(self, y: Tensor) -> Tensor:
        """Return the pairs of a result (..., d), each of length 1, (..., r), so that only angles are compared."""
        if not self.reading.pairs:
            return y
        first, second = (y.double()[..., side] for side in self.reading.channels)
        angle = torch.atan2(second, first)  # (..., n)
        return torch.cat((angle.cos(), angle.sin()), -1)  # (..., 2n)


def measure_rotation(rotate: Rotation) -> RotationRecord:
    """Return the record of a rotation."""
    code = rotate.uncalled
    reading = measure_pairs(rotate, rotate.max_length)
    of_keys = measure_pairs(rotate, rotate.max_length, of_keys=True) if code.takes("q", "k") else reading
    # On a grid the other pairs rotate from row to row.
    theta = reading.theta[reading.theta != 0] if reading.columns else reading.theta
    return RotationRecord(code, code.dim, code.heads, rotate, reading, of_keys, fit(theta, reading.tolerance))


def measure_pairs(rotate: Rotation, max_length: int, of_keys: bool = False) -> MeasuredPairs:
    """Return what `rotate` does to the pairs of queries or of keys."""
    positions = torch.tensor([position for position in MEASURED_POSITIONS if position < max_length])  # (m,)
    matrices = matrices_of(rotate, positions, of_keys)
    gains = matrices.norm(dim=1)  # (m, d)
    if matrices.shape[1] != matrices.shape[2]:
        return MeasuredPairs(EMPTY, [], "wide", gains=gains)
    pairs, layout = pairs_of(matrices)
    if not pairs:
        return MeasuredPairs(matrices, [], layout, positions, gains=gains)
    # The step from 0 to 1 gives the frequency: it is below half a turn unless exponents are inverted.
    angle = angles_of(matrices, pairs)  # (m, n)
    theta = wrap_angle(angle[1] - angle[0])  # (n,)
    measured = MeasuredPairs(matrices, pairs, layout, positions, theta, gains, angle[0])
    # The rounding of the first step counts once for each position.
    steps = 1 + positions[:, None] if measured.rounded_to else 1
    if (wrap_angle(angle - angle[0] - positions[:, None] * theta).abs() < GRID_TOLERANCE * steps).all():
        return measured
    return _on_grid(rotate, of_keys, max_length, measured)


def matrices_of(rotate: Rotation, positions: Tensor, of_keys: bool = False) -> Tensor:
    """Return the results (m, w, d) for each channel of the first head alone, in columns; mostly w = d."""
    dim = rotate.code.dim
    # Each unit vector is a text of its own, so that one call measures all channels at all positions.
    unit = torch.eye(dim, dtype=torch.float64).view(dim, 1, 1, dim)
    unit = unit.repeat(1, rotate.code.heads, len(positions), 1)  # (d, h, m, d)
    y, failed = attempt(rotate, unit, positions, of_keys)
    if failed:  # it takes no float64
        y = rotate(unit.float(), positions, of_keys)
    return y[:, 0].detach().double().permute(1, 2, 0)  # (m, w, d)


def pairs_of(matrices: Tensor) -> tuple[list[tuple[int, int]], str]:
    """Return the pairs of channels that mix with each other and with no other, and the name of their layout."""
    # How much of channel j comes out in channel i, at the position where it is most: angles of 0 hide a pair.
    mixing = F.normalize(matrices, dim=1).abs().amax(0)  # (d, d)
    mixing = mixing - mixing.diag().diag()
    largest, partner = mixing.topk(2, dim=0)  # (2, d)
    rotated, partners = (largest[0] > 1e-6).nonzero().flatten().tolist(), partner[0].tolist()
    pairs = sorted({(min(j, partners[j]), max(j, partners[j])) for j in rotated})
    # In pairs each channel occurs once, and a second partner gets nothing but rounding.
    if sorted(channel for pair in pairs for channel in pair) != rotated or (largest[1] > 1e-5).any():
        return [], "mixed"
    distances = {second - first for first, second in pairs}
    if not distances:
        return [], "none"
    if len(distances) > 1:
        return pairs, "other"
    return pairs, "interleaved" if 1 in distances else "half"


def angles_of(matrix: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    """Return the angle of each pair, (..., n), in matrices (..., d, d)."""
    first, second = (list(side) for side in zip(*pairs, strict=True))
    # Sums of both entries of cosine and of sine: a factor on the pair cancels, and roundings are averaged.
    sine = matrix[..., second, first] - matrix[..., first, second]
    return torch.atan2(sine, matrix[..., first, first] + matrix[..., second, second])  # (..., n)


def row_length(angle: Tensor) -> int:
    """Return the columns of the grid on which angles (t, n) grow along rows and from row to row, 0 for no grid."""
    positions = torch.arange(len(angle))[:, None]  # (t, 1)
    corner = angle[0]
    along = angle[1] - corner  # (n,)
    # The first token off the line of the first row begins the second row.
    breaks = (wrap_angle(angle - corner - positions * along).abs() > GRID_TOLERANCE).any(1)  # (t,)
    columns = int(breaks.int().argmax()) or 2  # in a single line rows may have any length
    expected = corner + positions % columns * along + positions // columns * (angle[columns] - corner)  # (t, n)
    return columns if wrap_angle(angle - expected).abs().max() < GRID_TOLERANCE else 0


def _on_grid(rotate: Rotation, of_keys: bool, max_length: int, measured: MeasuredPairs) -> MeasuredPairs:
    """Return the pairs with the length of a row, if angles grow along rows and from row to row."""
    # Consecutive positions, for the measured ones skip the end of the first row.
    positions = torch.arange(min(max_length, 256))
    angles = angles_of(matrices_of(rotate, positions, of_keys), measured.pairs)  # (t, n)
    # The token of the class may come last or first.
    for cells in (positions, positions[:-1], positions[1:]):
        angle = angles[cells]
        columns = row_length(angle)
        if columns:
            along = angle[1] - angle[0]
            down = angle[columns] - angle[0]
            return measured._replace(theta=along, angle_at_0=angle[0], columns=columns, theta_down=down, cells=cells)
    return measured


def rotates_tokens(code: Code, t: int) -> bool:
    """Return whether zeros come back as zeros, one token for each of `t`, and tokens are told apart."""
    rotate = Rotation(code)
    zeros = torch.zeros(2, code.heads, t, code.dim)  # (2, h, t, d)
    y = rotate(zeros)
    # Some results are wider: PoPE returns a cosine and a sine for each channel.
    if not isinstance(y, Tensor) or y.shape[:-1] != zeros.shape[:-1] or y.shape[-1] % code.dim:
        return False
    if not is_finite(y) and not is_finite(rotate(random(*zeros.shape, seed=1))):
        return True  # a rotation of which the first check says that its results are not finite
    # A bias or a position table adds to zeros, and an attention mixes one token into others.
    one_token = zeros.index_fill(2, torch.tensor([0]), math.e)
    if not code.takes("q", "k") and (y.any() or rotate(one_token)[:, :, 1:].any()):
        return False
    y = rotate(torch.ones_like(zeros))
    if not y.any():  # such as a projection that starts at zero
        return False
    # Equal tokens differ after a rotation. Where heads do instead, (t, h) and (h, t) are exchanged: try another order.
    over_heads, over_tokens = (y.diff(dim=axis).any() for axis in (1, 2))
    return bool(over_tokens) or not over_heads or code.call.order is not None


def rotates_fixed_tokens(code: Code) -> bool:
    """Return whether the code rotates one number of tokens, as those of one picture, and write it into `code.call`."""
    for t in FIXED_TOKENS:
        code.call = code.call._replace(tokens=t)
        rotates, _ = attempt(rotates_tokens, code, t)
        # As many tokens as channels would hide that the two axes are exchanged.
        if rotates and t != code.dim:
            return True
    code.call = code.call._replace(tokens=0)
    return False
