"""The orders in which sines and cosines stand, and what rows are that stand in none of them."""

import torch
from torch import Tensor

from posenc.diagnosis.report import Finding, named, note, wrong

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


def alike(table: Tensor) -> Finding | None:
    """Look whether the two channels of each pair are the same, in some order; plain angles may be so."""
    if len(table) > 2 and float((table[2] - 2 * table[1] + table[0]).abs().max()) < 1e-4:
        return None
    for order, (one, other) in orders(table.shape[-1]).items():
        if (table[:, one] - table[:, other]).abs().max() < 1e-6 and _many(table[:, one]):
            words = f"both channels of each pair ({short(order).partition(',')[0]}) hold the same numbers"
            return named(wrong("order-broken", f"{words}: sine and cosine should differ by a quarter turn"), "order")
    return None


def _many(part: Tensor) -> bool:
    """Tell whether the channels are not all one and the same."""
    return part.shape[1] > 1 and bool((part - part[:, :1]).abs().max() > 1e-6)


def unordered(table: Tensor) -> Finding:
    """Say what rows are that do not begin with 0 in sines and 1 in cosines."""
    table = table[:FEW]
    first = table[0]
    cosines = speeds(table) if bool((table.abs() <= 1 + 1e-6).all()) else None
    for number, there, missing in ((0.0, "sines", "cosines"), (1.0, "cosines", "sines")):
        if cosines is not None and (first - number).abs().max() < 1e-6:
            words = f"row 0 is {number:g} in every channel: all of them are {there} and the {missing} are missing"
            return named(wrong("order-broken", words, number), "order")
    zero, one = int((first.abs() < 1e-6).sum()), int(((first - 1).abs() < 1e-6).sum())
    if cosines is not None and zero + one == len(first):
        words = f"{zero} sines and {one} cosines, in another order than beside each other or in two halves"
        return named(wrong("order-broken", words, zero), "order")
    if cosines is not None and (found := _unpaired(table, cosines)):
        return named(found, "order")
    words = "row 0 is not 0 in sines and 1 in cosines: a learned table, or another encoding; speeds are not read"
    return named(note(words), "waves")


def speeds(table: Tensor) -> Tensor | None:
    """Return the cosine of the speed of each channel if all are waves, else None.

    Of a wave, the sum of two neighbors is a fixed multiple of the number between.
    """
    middle, around = table[1:-1], table[2:] + table[:-2]
    times = (around * middle).sum(0) / (middle * middle).sum(0).clamp(min=1e-12)
    even = len(middle) > 1 and bool((around - times * middle).abs().max() < 1e-3)
    return (times / 2).clamp(-1, 1) if even and bool((times.abs() < 2 + 1e-6).all()) else None


def _unpaired(table: Tensor, cosines: Tensor) -> Finding | None:
    """Say what is wrong with waves of which no two make up a circle, where their speeds are no random ones."""
    angle, sides = torch.acos(cosines), orders(table.shape[-1])
    for one, other in sides.values():
        if ((table[:, one] ** 2 + table[:, other] ** 2) - 1).abs().max() < 1e-3:
            return None
    falls = len(angle) > 6 and bool((angle[1:6] < 0.999 * angle[:5]).all())
    if falls and angle[len(angle) // 2] < 0.9 * angle[0]:
        words = "every channel has a speed of its own, and they fall from one to the next: sine and cosine of a pair"
        return wrong("crossed", f"{words} share one exponent, 2i/d for both. Floor the channel's number, 2 * (i // 2)")
    for order, (one, other) in sides.items():
        same = len(one) > 2 and (angle[one] - angle[other]).abs().max() < 1e-2
        if same and float(angle.max() - angle.min()) > 0.1:
            words = f"the channels of a pair ({short(order).partition(',')[0]}) share a speed"
            return wrong("order-broken", f"{words} and are no sine and cosine of one angle: rows or halves are mixed")
    return None
