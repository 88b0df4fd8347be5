"""The orders in which sines and cosines stand, and what rows are that stand in none of them."""

import torch
from torch import Tensor

from posenc.doctor.report import Finding, note, with_check_name, wrong
from posenc.doctor.table.row_distance import ALIKE, straight

FEW = 32  # rows that show waves
SPREAD = (
    "interleaved (sin cos sin cos, as in the paper)",
    "split (all sines, then all cosines)",
    "interleaved, cosines first",
    "split, cosines first",
)


def short(order: str) -> str:
    """Return the name of an order without the explanation."""
    return order.partition(" (")[0]


def orders(dim: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the channels of sines and of cosines in each usual order, as many of both."""
    beside, halves = torch.arange(dim // 2 * 2).view(-1, 2).T, torch.arange(dim // 2 * 2).view(2, -1)
    sides = ((beside[0], beside[1]), (halves[0], halves[1]), (beside[1], beside[0]), (halves[1], halves[0]))
    return dict(zip(SPREAD, sides, strict=True))


def twice(table: Tensor) -> Finding | None:
    """Look whether the two channels of each pair are the same, in some order; plain angles may be so."""
    if straight(table):
        return None
    for order, (one, other) in orders(table.shape[1]).items():
        if (table[:, one] - table[:, other]).abs().max() < ALIKE:
            words = f"both channels of each pair ({short(order).partition(',')[0]}) hold the same numbers"
            return with_check_name(
                wrong("order-broken", f"{words}: sine and cosine should differ by a quarter turn"), "order"
            )
    return None


def unordered(table: Tensor) -> Finding:
    """Say what rows are that do not begin with 0 in sines and 1 in cosines."""
    table = table[:FEW]
    cosines = speeds(table)
    if cosines is not None:
        zero, one = (int(((table[0] - number).abs() < ALIKE).sum()) for number in (0, 1))
        if zero + one == len(cosines):
            words = f"{zero} sines and {one} cosines: one of the two is missing, or they stand neither beside"
            return with_check_name(wrong("order-broken", f"{words} each other nor in two halves", zero), "order")
        if found := _unpaired(table, cosines):
            return with_check_name(found, "order")
    words = "row 0 is not 0 in sines and 1 in cosines: a learned table, or another encoding; speeds are not read"
    return with_check_name(note(words), "waves")


def speeds(table: Tensor) -> Tensor | None:
    """Return the cosine of the speed of each channel if all are waves, else None.

    Of a wave, the sum of two neighbors is a fixed multiple of the number between.
    """
    middle, around = table[1:-1], table[2:] + table[:-2]
    twofold = (around * middle).sum(0) / (middle * middle).sum(0).clamp(min=1e-12)
    if (around - twofold * middle).abs().max() > 1e-3 or twofold.abs().max() > 2 + 1e-6 or straight(table):
        return None
    return (twofold / 2).clamp(-1, 1)


def _unpaired(table: Tensor, cosines: Tensor) -> Finding | None:
    """Say what is wrong with waves of which no two make up a circle, where their speeds are no random ones."""
    angle, sides = torch.acos(cosines), orders(table.shape[1])
    for one, other in sides.values():
        if ((table[:, one] ** 2 + table[:, other] ** 2) - 1).abs().max() < 1e-3:
            return None
    for order, (one, other) in sides.items():
        if (angle[one] - angle[other]).abs().max() < 1e-2 < 0.1 < float(angle.max() - angle.min()):
            words = f"the channels of a pair ({short(order).partition(',')[0]}) share a speed"
            return wrong("order-broken", f"{words} and are no sine and cosine of one angle: rows or halves are mixed")
    if (angle[:6].diff() < -1e-3 * angle[0]).all():
        words = "every channel has a speed of its own, and they fall from one to the next: sine and cosine of a pair"
        return wrong("crossed", f"{words} share one exponent, 2i/d for both. Floor the channel's number, 2 * (i // 2)")
    return None
