"""Code that makes what a rotation turns by, and turns nothing itself: cos and sin, complex numbers, or plain angles.

    LlamaRotaryEmbedding(config)(x, position_ids) -> cos, sin        precompute_freqs_cis(dim, length) -> complex

The doctor reads the angles off the result and turns with them; layouts are those of the table, where it shows them.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc.doctor.attempt import attempt
from posenc.doctor.call.axes import ROWS
from posenc.doctor.call.code import AXES, Code, as_tensors, first_result, positions_in_form

T = 7  # tokens of the first call: a size that nothing else has
PLACED = ("t", "seq", "ids")  # names of positions where nothing else is content
COLUMNS = 6  # of a picture
NEEDS = ("q", "k", "v", "mask", "cos", "angles", "tables", "score", "heads", "key_length")
PARTS: dict[str, Callable[[Any], Any]] = {  # how a result holds cos and sin
    "two": lambda made: made,
    "complex": lambda made: (made.real, made.imag),
    "last axis": lambda made: made.unbind(-1),
    "cos, then sin": lambda made: made.chunk(2, -1),
    "sin, then cos": lambda made: reversed(made.chunk(2, -1)),
    "angles": lambda made: (first_result(made).cos(), first_result(made).sin()),
}
EVEN, FEW, GROWS = 1.01, 0.1, 1e-3  # how far lengths differ, what is little for a sine, how straight angles grow


class Held(NamedTuple):
    """How a result holds its table: the form of positions that it is made of, the parts, the axis of tokens."""

    form: str
    part: str
    axis: int

    def read(self, made: Any) -> tuple[Tensor, Tensor]:
        """Return cos and sin (b, 1, t, w)."""
        cos, sin = PARTS[self.part](made)
        return self._flat(cos), self._flat(sin)

    def _flat(self, table: Tensor) -> Tensor:
        tokens_last = table.flatten(0, -2) if self.form == "picture" else table.movedim(self.axis, -2)
        return tokens_last.reshape(-1, 1, *tokens_last.shape[-2:])


class RotationByTables(nn.Module):
    """The rotation of content (b, h, t, d) by the table that the code makes, of which `cos` (t, w) shows the layout."""

    def __init__(self, code: Code, held: Held, cos: Tensor) -> None:
        super().__init__()
        self.module, self.code, self.held, self.cos = code.module, code, held, cos
        half, neighbors = torch.equal(*cos.chunk(2, -1)), torch.equal(cos[:, ::2], cos[:, 1::2])
        self.layout_known, width = half or neighbors, cos.shape[-1]
        self.dim = width if self.layout_known else 2 * width
        channels = torch.arange(self.dim)
        self.pairs = channels.view(2, -1) if half or not neighbors else channels.view(-1, 2).T
        self.__qualname__ = getattr(code.source, "__qualname__", type(code.source).__qualname__)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return `x` turned to `positions`."""
        one, other = self.pairs
        cos, sin = (part.to(x.dtype) for part in self.table(x, positions))
        if self.layout_known:
            cos, sin = cos[..., one], sin[..., one]
        first, second = x[..., one], x[..., other]
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
        return turned[..., self.pairs.flatten().argsort()]

    def of(self, code: Code) -> "RotationByTables":
        """Return the rotation of the same layout by what other code makes."""
        return RotationByTables(code, self.held, self.cos)

    def table(self, x: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        """Return cos and sin, (b, 1, t, w), or (t, w) where the code is told no positions."""
        if isinstance(self.code.function, nn.Module):
            self.code.function = self.module  # the one that is cast with this module
        made = self.held.read(_called(self.code, self.held.form, x, positions))
        return made if _told_places(self.code) else tuple(one.squeeze((0, 1))[positions] for one in made)


def rotation_by_tables(code: Code) -> RotationByTables | None:
    """Return the rotation that the code makes tables for; None if it makes none."""
    if any(code.needs(role) for role in NEEDS):
        return None
    x, places = torch.zeros(1, code.heads, T, code.dim), torch.arange(T)
    for form in ("t", "1t", "bt", "t2", "t3", "picture") if _told_places(code) else ("t", "picture"):
        # axes stand apart, for alike they look like halves
        at = positions_in_form(places, form, 1, None).cumsum(-1) if form in AXES else places
        made, failed = attempt(_called, code, form, x, at)
        for part in () if failed else PARTS:
            for axis in (-2, -3, -4):
                found, _ = attempt(_cosine, made, Held(form, part, axis))
                if found is not None:
                    return RotationByTables(code, Held(form, part, axis), found)
    return None


def returns_tables_only(code: Code) -> bool:
    """Tell whether what looks like a table holds plain angles, which grow with the position."""
    found, _ = attempt(rotation_by_tables, code)
    return found is not None and found.held.part == "angles"


def _cosine(made: Any, held: Held) -> Tensor | None:
    """Return the cosines (t, w) of the first row if the result holds cos and sin so, else None."""
    cos, sin = torch.stack(held.read(made)).double().squeeze((1, 2))
    lengths, (start, *_), (t, _) = torch.hypot(cos, sin), cos, cos.shape
    if t < T or lengths.max() > EVEN * lengths.min() or start.min() < FEW or sin.abs().max() < FEW:
        return None
    if held.part == "angles":
        angle = held._flat(first_result(made)).squeeze((0, 1))[:T].double()
        if (angle - torch.arange(T)[:, None] * angle[1]).abs().max() > GROWS:
            return None
    return cos


def _told_places(code: Code) -> bool:
    return code.takes("positions") or code.roles.get("x") in PLACED


def several(function: Any) -> bool:
    """Tell whether a function takes any number of arguments, the lengths of the axes, and needs nothing else."""
    said, failed = attempt(inspect.signature, function)
    parameters = () if failed else said.parameters.values()
    needed = [p for p in parameters if p.default is p.empty]
    return [p.kind for p in needed] == [inspect.Parameter.VAR_POSITIONAL]


def _called(code: Code, form: str, x: Tensor, positions: Tensor) -> Any:
    """Return what the code makes for content (b, h, t, d) at positions (t,) or (b, t)."""
    if form == "picture":
        if several(code.function):
            return as_tensors(code.function(ROWS, COLUMNS))
        picture, size = x.new_zeros(1, x.shape[-1], ROWS, COLUMNS), (ROWS, COLUMNS)
        return code(x=picture, rows=ROWS, columns=COLUMNS, grid=size, shape=size)
    if form in AXES and positions.ndim != 2:
        raise ValueError(f"doctor: positions must be {AXES[form]} numbers each, got {tuple(positions.shape)}")
    at = positions if form in AXES else positions_in_form(positions, form, len(x), None)
    if code.roles.get("x") in PLACED:
        return code(x=at)
    length = int(positions.max()) + 1
    told = _told_places(code)
    given = {"length": length} if code.needs("length") or not told else {}
    return code(positions=at, x=x.new_zeros(len(x), x.shape[2] if told else length, x.shape[-1]), **given)
