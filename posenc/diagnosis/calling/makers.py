"""Code that makes what a rotation turns by, and turns nothing itself: cos and sin, complex numbers, or plain angles.

    LlamaRotaryEmbedding(config)(x, position_ids) -> cos, sin        precompute_freqs_cis(dim, length) -> complex

The doctor reads the angles off the result and turns with them; layouts are those of the table, where it shows them.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.call import AXES, Code, as_tensors, formed

T = 7  # tokens of the first call: a size that nothing else has
FORMS = ("t", "1t", "bt")
PLACED = ("t", "seq", "ids")  # names of positions where nothing else is content
ROWS, COLUMNS = 4, 6  # of a picture
NEEDS = ("q", "k", "v", "mask", "cos", "angles", "tables", "score", "heads", "key_length")
PARTS: dict[str, Callable[[Any], tuple[Tensor, Tensor]]] = {  # how a result holds cos and sin
    "two": lambda made: (made[0], made[1]),
    "complex": lambda made: (made.real, made.imag),
    "last axis": lambda made: made.unbind(-1),
    "first axis": lambda made: made.unbind(0),
    "cos, then sin": lambda made: made.chunk(2, -1),
    "sin, then cos": lambda made: made.chunk(2, -1)[::-1],
    "angles": lambda made: (made.cos(), made.sin()),
    "angles first": lambda made: (made[0].cos(), made[0].sin()),
}


class Turning(nn.Module):
    """The rotation of content (b, h, t, d) by the table that the code makes."""

    def __init__(self, code: Code, form: str, part: str, axis: int) -> None:
        super().__init__()
        self.module = code.module
        self.code, self.form, self.part, self.axis = code, form, part, axis
        self.dim, self.layout, self.layout_known = 0, "half", False
        self.__qualname__ = getattr(code.source, "__qualname__", type(code.source).__qualname__)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return `x` turned to `positions`."""
        cos, sin = (part.to(x.dtype) for part in self.table(x, positions))
        turning, rest = x[..., : self.dim], x[..., self.dim :]
        if cos.shape[-1] < self.dim:
            cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
        if self.layout == "half":
            first, second = turning.chunk(2, -1)
            crossed = torch.cat((-second, first), -1)
        else:
            crossed = torch.stack((-turning[..., 1::2], turning[..., ::2]), -1).flatten(-2)
        return torch.cat((turning * cos + crossed * sin, rest), -1)

    def of(self, code: Code) -> "Turning":
        """Return the rotation of the same layout by what other code makes."""
        other = Turning(code, self.form, self.part, self.axis)
        other.dim, other.layout, other.layout_known = self.dim, self.layout, self.layout_known
        return other

    def table(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin (t, w) or (b, 1, t, w)."""
        if self.module is not None and isinstance(self.code.function, nn.Module):
            self.code.function = self.module  # the one that is cast with this module
        made = _called(self.code, self.form, x, positions)
        cos, sin = (_flat(part, self.axis, self.form) for part in PARTS[self.part](made))
        return (
            (cos, sin)
            if _told_places(self.code) and self.form != "picture"
            else (cos[..., positions, :], sin[..., positions, :])
        )


def turning(code: Code) -> Turning | None:
    """Return the rotation that the code makes tables for; None if it makes none."""
    if any(code.needs(role) for role in NEEDS):
        return None
    x, places = torch.zeros(1, code.heads, T, code.dim), torch.arange(T)
    for form in (*_forms(code), "picture"):
        at = formed(places, form, 1, None) * torch.arange(1, AXES[form] + 1) if form in AXES else places
        made, failed = attempt(_called, code, form, x, at)  # axes apart, for alike they look like halves
        for part in () if failed else PARTS:
            for axis in (-2, -3, -4):
                found, _ = attempt(_pair, made, part, axis, form)
                if found:
                    return _laid(Turning(code, form, part, axis), found[0])
    return None


def of_angles(code: Code) -> bool:
    """Tell whether what looks like a table holds plain angles, which grow with the position."""
    found, _ = attempt(turning, code)
    return found is not None and found.part in ("angles", "angles first")


def _forms(code: Code) -> tuple[str, ...]:
    if code.takes("positions"):
        return FORMS
    return ("t", "t2", "t3") if code.roles.get("x") in PLACED else ("t",)


def _pair(made: Any, part: str, axis: int, form: str) -> tuple[Tensor, Tensor] | None:
    """Return cos and sin (t, w) if the result holds them so, else None."""
    if isinstance(made, Tensor) == (part in ("two", "angles first")):
        return None
    cos, sin = (_flat(one, axis, form) for one in PARTS[part](made))
    if cos.shape != sin.shape or cos.ndim != 2 or not len(cos) >= T or cos.shape[-1] < 2 or cos.is_complex():
        return None
    if part in ("angles", "angles first"):
        angle = _flat(made[0] if part == "angles first" else made, axis, form).double()
        grows = (angle[2] - 2 * angle[1]).abs().max() < 1e-3 and angle[1].abs().max() > 1e-6
        return (cos, sin) if grows and angle[0].abs().max() < 1e-6 else None
    size = cos.double() ** 2 + sin.double() ** 2
    even = (size / size.mean() - 1).abs().max() < 2e-2
    return (cos, sin) if even and (cos[0] > 0.3).all() and sin[:T].abs().max() > 0.1 else None


def _laid(turning: Turning, cos: Tensor) -> Turning:
    """Set the layout and the width that a table (t, w) shows."""
    width = cos.shape[-1]
    half = width > 2 and torch.equal(cos[:, : width // 2], cos[:, width // 2 :])
    neighbors = width > 2 and torch.equal(cos[:, ::2], cos[:, 1::2])
    turning.layout_known = half or neighbors
    turning.layout = "interleaved" if neighbors and not half else "half"
    turning.dim = width if turning.layout_known else 2 * width
    return turning


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
    last = int(positions.max()) + 1
    if form == "picture":
        if several(code.function):
            return as_tensors(code.function(ROWS, COLUMNS))
        picture, size = x.new_zeros(1, x.shape[-1], ROWS, COLUMNS), (ROWS, COLUMNS)
        return code(x=picture, rows=ROWS, columns=COLUMNS, grid=size, shape=size)
    if form in AXES and positions.shape != (len(positions), AXES[form]):
        raise ValueError(f"doctor: positions must be {AXES[form]} numbers each, got {tuple(positions.shape)}")
    given: dict[str, Any] = {"x": x.new_zeros(len(x), last, x.shape[-1])}
    if code.needs("length") or not _told_places(code):
        given["length"] = last
    if code.roles.get("x") in PLACED:
        given["x"] = positions
    elif _told_places(code):
        given["x"] = x[:, 0]
    one_row = positions.ndim == 2 or form not in ("1t", "bt")
    return code(positions=positions if one_row else positions.repeat(len(x) if form == "bt" else 1, 1), **given)


def _flat(table: Tensor, axis: int, form: str) -> Tensor:
    """Return a table with tokens at an axis as (t, w), or as (b, 1, t, w) where rows differ."""
    if form == "picture" and axis == -2:
        return table.flatten(0, -2)
    moved = table.movedim(axis, -2)
    return moved.reshape(*moved.shape[-2:]) if moved.shape[:-2].numel() == 1 else moved.flatten(0, -3)[:, None]
