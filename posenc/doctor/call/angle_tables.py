"""Make the angles that code wants to be given: cos and sin, complex numbers or plain angles, in each usual form.

Functions such as apply_rotary_pos_emb(q, k, cos, sin) turn by tables that are made elsewhere. The doctor makes these
itself, base 10,000, and tries the forms that libraries use until one fits.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

BASE = 10_000
ROLES = ("cos", "sin", "angles", "tables")
SPREAD = {  # how a pair's angle fills the width of the table
    "half": lambda x: torch.cat((x, x), -1),
    "interleaved": lambda x: x.repeat_interleave(2, -1),
    "once": lambda x: x,
}
OFFSETS = "sines and cosines of offsets"  # as Transformer-XL takes them, from the farthest key behind to that ahead
AXES = {  # how tables (b, t, w) are shaped; b is 1 where rows do not differ
    "(t, w)": lambda x: x[0],  # of the first row
    "(b, t, w)": lambda x: x,
    "(b, 1, t, w)": lambda x: x[:, None],
    "(b, t, 1, w)": lambda x: x[:, :, None],
    "(t, 1, w)": lambda x: x[0, :, None],
    "(t, b, 1, w)": lambda x: x.transpose(0, 1)[:, :, None],
    "(1, 2t - 1, w)": lambda x: x,
}


def _waves(angle: Tensor) -> tuple[Tensor, Tensor]:
    return angle.cos().float(), angle.sin().float()


PACKED: dict[str, Callable[[Tensor], Any]] = {  # what holds cos and sin
    "pair": _waves,
    "complex": lambda angle: torch.complex(*_waves(angle)),
    "angles": lambda angle: angle.float(),
    "cos and sin stacked last": lambda angle: torch.stack(_waves(angle), -1),
    "sin, then cos": lambda angle: torch.cat((*reversed(_waves(angle)),), -1),
    "cos, then sin": lambda angle: torch.cat(_waves(angle), -1),
    OFFSETS: lambda angle: torch.stack((*reversed(_waves(angle)),), -1).flatten(-2),
}


class TableForm(NamedTuple):
    """How a table is told: what holds it, how each angle is spread over its pair, its axes."""

    packed: str
    spread: str
    axes: str

    def __str__(self) -> str:
        held = "cos and sin" if self.packed == "pair" else self.packed
        spread = {"half": ", repeated as halves", "interleaved": ", repeated as neighbors", "once": ""}[self.spread]
        return f"{held} {self.axes}{spread}"

    @property
    def rows_are_lost(self) -> bool:
        """Whether the table has no axis for the rows of a batch."""
        return "b" not in self.axes

    def __call__(self, positions: Tensor, width: int) -> Any:
        """Return the table for positions (t,) or (b, t), one value or a pair of them."""
        theta = BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        if self.packed == OFFSETS:
            t = positions.shape[-1]
            positions = torch.arange(t - 1, -t, -1)
        rows = positions if positions.ndim == 2 else positions[None]
        angle = rows.double()[..., None] * theta
        return PACKED[self.packed](AXES[self.axes](SPREAD[self.spread](angle)))


FITTING = {  # the axes of a table that go with an order of axes of the content
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
    shapes, pair = FITTING.get(order, ()), bool({"cos", "tables"} & roles.keys())
    pairs = [TableForm("pair", spread, axes) for spread in SPREAD for axes in shapes]
    yield from pairs if pair else ()
    if "angles" in roles and order in ("btd", "tbd"):
        yield TableForm(OFFSETS, "once", "(1, 2t - 1, w)")
    if {"angles", "tables"} & roles.keys():
        yield from (TableForm("complex", spread, axes) for spread in ("once", "half", "interleaved") for axes in shapes)
        yield from (TableForm("cos and sin stacked last", "once", axes) for axes in shapes)
        yield from (TableForm("angles", spread, axes) for spread in SPREAD for axes in shapes)
        for packed in ("sin, then cos", "cos, then sin"):
            yield from (TableForm(packed, spread, axes) for spread in ("once", "interleaved", "half") for axes in shapes)
        yield from () if pair else pairs


def arguments(form: TableForm, roles: dict[str, str], positions: Tensor, width: int, indexed: bool) -> dict[str, Any]:
    """Return the tables by role; where positions are asked for besides (`indexed`), whole tables that these index."""
    places = torch.arange(int(positions.max()) + 1) if indexed else positions
    made = form(places, width)
    if "cos" in roles:
        return dict(zip(("cos", "sin"), made, strict=True))
    return dict.fromkeys(("angles", "tables"), made)
