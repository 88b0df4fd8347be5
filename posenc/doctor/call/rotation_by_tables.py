"""Code that computes the tables of a rotation and rotates nothing: cos and sin, complex numbers, or plain angles.

    LlamaRotaryEmbedding(config)(x, position_ids) -> cos, sin        precompute_freqs_cis(dim, length) -> complex

The doctor reads the angles off the result and rotates by them; the layout is that of the table, where it shows one.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc.doctor.call.axes import GRID_ROWS
from posenc.doctor.call.code import POSITION_AXES, Code, as_tensors, first_result, positions_in_form
from posenc.doctor.call.parameters import name_of
from posenc.doctor.safe_call import attempt

T = 7  # tokens of the first call: a size that nothing else has
GRID_COLUMNS = 6
NAMES_OF_POSITIONS = ("t", "seq", "ids")  # where nothing else is content
# Code that needs one of these rotates itself, or is of another kind.
CONTENT_ROLES = ("q", "k", "v", "mask", "cos", "angles", "tables", "score", "heads", "key_length")
# How a result holds cos and sin. Plain angles come last, for the cosines and sines of any table lie on a circle.
PACKED: dict[str, Callable[[Any], Any]] = {
    "two": lambda result: result,
    "complex": lambda result: (result.real, result.imag),
    "last axis": lambda result: result.unbind(-1),
    "cos, then sin": lambda result: result.chunk(2, -1),
    "sin, then cos": lambda result: reversed(result.chunk(2, -1)),
    "angles": lambda result: (first_result(result).cos(), first_result(result).sin()),
}
EQUAL_LENGTHS = 1.01  # by how much lengths of (cos, sin) may differ: half precision rounds them
SMALL_SINE = 0.1
LINEAR = 1e-3  # how far angles may be from growing with the position


class TableLayout(NamedTuple):
    """How a result holds its table: the form of positions that it is made of, what holds cos and sin, token axis."""

    positions_form: str
    packed: str
    token_axis: int

    def cos_sin(self, result: Any) -> tuple[Tensor, Tensor]:
        """Return cos and sin (b, 1, t, w)."""
        cos, sin = PACKED[self.packed](result)
        return self.flat(cos), self.flat(sin)  # (b, 1, t, w)

    def flat(self, table: Tensor) -> Tensor:
        """Return a table as (b, 1, t, w)."""
        is_picture = self.positions_form == "picture"
        rows = table.flatten(0, -2) if is_picture else table.movedim(self.token_axis, -2)  # (..., t, w)
        return rows.reshape(-1, 1, *rows.shape[-2:])  # (b, 1, t, w)


class RotationByTables(nn.Module):
    """The rotation of content (b, h, t, d) by the table that the code makes, of which `cos` (t, w) shows the layout."""

    def __init__(self, code: Code, table_layout: TableLayout, cos: Tensor) -> None:
        super().__init__()
        self.module = code.module
        self.code = code
        self.table_layout = table_layout
        self.cos = cos
        # The two channels of a pair have the same angle: equal columns show which channels are a pair.
        is_half, is_interleaved = torch.equal(*cos.chunk(2, -1)), torch.equal(cos[:, ::2], cos[:, 1::2])
        self.layout_known = is_half or is_interleaved
        # Without equal columns there is one for each pair: any layout serves, so the doctor takes that of halves.
        width = cos.shape[-1]
        self.dim = width if self.layout_known else 2 * width
        channels = torch.arange(self.dim)
        self.pairs = channels.view(2, -1) if is_half or not is_interleaved else channels.view(-1, 2).T  # (2, n)
        self.__qualname__ = name_of(code.source)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return `x` rotated to `positions`."""
        first_channels, second_channels = self.pairs
        cos, sin = (part.to(x.dtype) for part in self.table(x, positions))
        # One column for each pair, where the table repeats it.
        if self.layout_known:
            cos, sin = cos[..., first_channels], sin[..., first_channels]
        first, second = x[..., first_channels], x[..., second_channels]
        rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)  # (b, h, t, d)
        # Back from the order of pairs to that of channels.
        return rotated[..., self.pairs.flatten().argsort()]  # (b, h, t, d)

    def of(self, code: Code) -> "RotationByTables":
        """Return the rotation of the same layout by what other code makes."""
        return RotationByTables(code, self.table_layout, self.cos)

    def table(self, x: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        """Return cos and sin, (b, 1, t, w), or (t, w) where the code takes no positions."""
        if isinstance(self.code.function, nn.Module):
            self.code.function = self.module  # the one that is cast with this module
        result = _call(self.code, self.table_layout.positions_form, x, positions)
        cos, sin = self.table_layout.cos_sin(result)
        if _takes_positions(self.code):
            return cos, sin
        # All rows from 0 on came back.
        return cos.squeeze((0, 1))[positions], sin.squeeze((0, 1))[positions]


def rotation_by_tables(code: Code) -> RotationByTables | None:
    """Return the rotation that the code makes tables for; None if it makes none."""
    if any(code.needs(role) for role in CONTENT_ROLES):
        return None
    x, positions = torch.zeros(1, code.heads, T, code.dim), torch.arange(T)
    for form in ("t", "1t", "bt", "t2", "t3", "picture") if _takes_positions(code) else ("t", "picture"):
        at = positions
        if form in POSITION_AXES:
            # Each axis has other positions, for equal columns would look like the layout of halves.
            at = positions_in_form(positions, form, 1, None).cumsum(-1)
        result, failed = attempt(_call, code, form, x, at)
        if failed:
            continue
        # The result itself shows how it holds cos and sin, and which axis has the tokens.
        for packed in PACKED:
            for axis in (-2, -3, -4):
                table_layout = TableLayout(form, packed, axis)
                cos, _ = attempt(_cosines, result, table_layout)
                if cos is not None:
                    return RotationByTables(code, table_layout, cos)
    return None


def returns_plain_angles(code: Code) -> bool:
    """Return whether what looks like a table holds plain angles, which grow with the position."""
    rotation, _ = attempt(rotation_by_tables, code)
    return rotation is not None and rotation.table_layout.packed == "angles"


def _cosines(result: Any, table_layout: TableLayout) -> Tensor | None:
    """Return the cosines (t, w) of the first row if the result holds cos and sin in this layout, else None."""
    cos, sin = torch.stack(table_layout.cos_sin(result)).double().squeeze((1, 2))
    t, _ = cos.shape
    lengths = torch.hypot(cos, sin)  # (t, w)
    # cos² + sin² is the same for all, though perhaps not 1: YaRN multiplies both by a factor.
    if t < T or not lengths.max() <= EQUAL_LENGTHS * lengths.min():
        return None
    # At the first position angles are small, so that cos is no sine; later, something has to rotate.
    if cos[0].min() < SMALL_SINE or sin.abs().max() < SMALL_SINE:
        return None
    if table_layout.packed == "angles":
        # Any numbers have a cosine and a sine; angles grow linearly with the position, from 0.
        angle = table_layout.flat(first_result(result)).squeeze((0, 1))[:T].double()  # (n, w)
        if (angle - torch.arange(T)[:, None] * angle[1]).abs().max() > LINEAR:
            return None
    return cos


def _takes_positions(code: Code) -> bool:
    return code.takes("positions") or code.roles.get("x") in NAMES_OF_POSITIONS


def takes_any_lengths(function: Any) -> bool:
    """Return whether a function takes any number of arguments, the lengths of the axes, and needs nothing else."""
    signature, _ = attempt(inspect.signature, function)
    parameters = signature.parameters.values() if signature else ()
    needed = [parameter.kind for parameter in parameters if parameter.default is parameter.empty]
    return needed == [inspect.Parameter.VAR_POSITIONAL]


def _call(code: Code, form: str, x: Tensor, positions: Tensor) -> Any:
    """Return what the code makes for content (b, h, t, d) at positions (t,) or (b, t)."""
    if form == "picture":
        if takes_any_lengths(code.function):
            return as_tensors(code.function(GRID_ROWS, GRID_COLUMNS))
        picture = x.new_zeros(1, x.shape[-1], GRID_ROWS, GRID_COLUMNS)
        size = (GRID_ROWS, GRID_COLUMNS)
        return code(x=picture, rows=GRID_ROWS, columns=GRID_COLUMNS, grid=size, shape=size)
    if form in POSITION_AXES and positions.ndim != 2:
        raise ValueError(f"doctor: positions must be {POSITION_AXES[form]} numbers each, got {tuple(positions.shape)}")
    at = positions if form in POSITION_AXES else positions_in_form(positions, form, len(x), None)
    if code.roles.get("x") in NAMES_OF_POSITIONS:
        return code(x=at)
    # Code that takes no positions makes the rows of all, from 0 on.
    length = int(positions.max()) + 1
    t = x.shape[2] if _takes_positions(code) else length
    arguments = {"length": length} if code.needs("length") or not _takes_positions(code) else {}
    return code(positions=at, x=x.new_zeros(len(x), t, x.shape[-1]), **arguments)
