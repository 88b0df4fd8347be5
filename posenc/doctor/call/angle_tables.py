"""Make the tables that a rotation takes as an argument: cos and sin, complex numbers or angles, in each usual form.

Functions such as apply_rotary_pos_emb(q, k, cos, sin) rotate by tables that are made elsewhere. The doctor makes these
itself, base 10,000, and tries the forms that libraries use until one fits.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

ROLES = ("cos", "sin", "angles", "tables")
# How the n angles of a row fill its w channels: each pair of channels shares one angle.
SPREAD = {
    "half": lambda x: torch.cat((x, x), -1),
    "interleaved": lambda x: x.repeat_interleave(2, -1),
    "once": lambda x: x,
}
# As Transformer-XL takes them, from the farthest key behind the query to the farthest ahead.
OFFSETS = "sines and cosines of offsets"
# How tables (b, t, w) are shaped; b is 1 where all texts have the same positions.
AXES = {
    "(t, w)": lambda x: x[0],  # of the first row
    "(b, t, w)": lambda x: x,
    "(b, 1, t, w)": lambda x: x[:, None],
    "(b, t, 1, w)": lambda x: x[:, :, None],
    "(t, 1, w)": lambda x: x[0, :, None],
    "(t, b, 1, w)": lambda x: x.transpose(0, 1)[:, :, None],
    "(1, 2t - 1, w)": lambda x: x,
}


def _cos_sin(angle: Tensor) -> tuple[Tensor, Tensor]:
    return angle.cos().float(), angle.sin().float()


# What holds cos and sin. They are float32 as in models, made of angles in float64.
PACKED: dict[str, Callable[[Tensor], Any]] = {
    "pair": _cos_sin,
    "complex": lambda angle: torch.complex(*_cos_sin(angle)),
    "angles": lambda angle: angle.float(),
    "cos and sin stacked last": lambda angle: torch.stack(_cos_sin(angle), -1),
    "sin, then cos": lambda angle: torch.cat((angle.sin(), angle.cos()), -1).float(),
    "cos, then sin": lambda angle: torch.cat((angle.cos(), angle.sin()), -1).float(),
    OFFSETS: lambda angle: torch.stack((angle.sin(), angle.cos()), -1).flatten(-2).float(),
}


class TableForm(NamedTuple):
    """The form of a table: what holds cos and sin, how each angle is spread over its pair of channels, its axes."""

    packed: str
    spread: str
    axes: str

    def __str__(self) -> str:
        held = "cos and sin" if self.packed == "pair" else self.packed
        spread = {"half": ", repeated as halves", "interleaved": ", repeated as neighbors", "once": ""}[self.spread]
        return f"{held} {self.axes}{spread}"

    @property
    def is_shared_by_batch(self) -> bool:
        """Whether the table has no axis for the rows of a batch."""
        return "b" not in self.axes

    def __call__(self, positions: Tensor, width: int) -> Any:
        """Return the table for positions (t,) or (b, t), one value or a pair of them."""
        theta = 10_000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)  # (n,)
        if self.packed == OFFSETS:
            t = positions.shape[-1]
            positions = torch.arange(t - 1, -t, -1)
        rows = positions if positions.ndim == 2 else positions[None]  # (b, t)
        angle = rows.double()[..., None] * theta  # (b, t, n)
        return PACKED[self.packed](AXES[self.axes](SPREAD[self.spread](angle)))


# The axes with which a table broadcasts against content in each order of axes, the most usual first.
AXES_FOR_ORDER = {
    "bhtd": ("(t, w)", "(b, t, w)", "(b, 1, t, w)"),
    "bthd": ("(t, w)", "(b, t, w)", "(b, t, 1, w)", "(t, 1, w)"),
    "tbhd": ("(t, b, 1, w)", "(t, 1, w)", "(t, w)"),
    "btd": ("(t, w)", "(b, t, w)", "(b, 1, t, w)", "(b, t, 1, w)"),
    "tbd": ("(t, w)", "(t, b, 1, w)"),
    "thd": ("(t, w)", "(t, 1, w)"),
    "htd": ("(t, w)",),
}


def forms(roles: dict[str, str], order: str) -> Iterator[TableForm]:
    """Yield the forms that the parameters allow, likeliest first; nothing where no table is asked for."""

    def each(packed: str, *spreads: str) -> list[TableForm]:
        return [TableForm(packed, spread, axes) for spread in spreads for axes in AXES_FOR_ORDER.get(order, ())]

    # Code may run with a form that is not its own: what most libraries use comes first.
    takes_pair = bool({"cos", "tables"} & roles.keys())
    if takes_pair:
        yield from each("pair", *SPREAD)
    if "angles" in roles and order in ("btd", "tbd"):
        yield TableForm(OFFSETS, "once", "(1, 2t - 1, w)")
    if {"angles", "tables"} & roles.keys():
        yield from each("complex", "once", "half", "interleaved")
        yield from each("cos and sin stacked last", "once")
        yield from each("angles", *SPREAD)
        yield from each("sin, then cos", "once", "interleaved", "half")
        yield from each("cos, then sin", "once", "interleaved", "half")
        if not takes_pair:
            yield from each("pair", *SPREAD)


def arguments(form: TableForm, roles: dict[str, str], positions: Tensor, width: int, indexed: bool) -> dict[str, Any]:
    """Return the tables by role; where positions are asked for besides (`indexed`), whole tables that these index."""
    table = form(torch.arange(int(positions.max()) + 1) if indexed else positions, width)
    if "cos" in roles:
        cos, sin = table
        return {"cos": cos, "sin": sin}
    return {"angles": table, "tables": table}
