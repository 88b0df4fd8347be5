"""Examine how far the positions of a rotation go: where they end, and whether they end in words or without."""

import time
from bisect import bisect_left

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.numerics import random
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.rotation.measure_angles import Case

SECONDS, AT_LEAST = 0.5, 8_192  # to go further: what makes its table anew in each call takes ever longer
FURTHEST = {"positions": 1_048_576, "offset": 1_048_576, "length": 65_536}
ENDS = {  # what becomes of tokens beyond the end: the words, of the last position that is turned its own way
    "clipped": "behind position {good:,} all tokens turn alike, or are not turned at all: positions are clipped or "
    "rounded, or the table ends, without a word",
    "wrapped": "position {bad:,} is turned as an earlier one is: positions start again without a word",
}


def limit(case: Case) -> Finding:
    """Find the first position that raises or is turned like the one before it."""
    if case.code.call.tokens or case.given_angles or case.reading.columns:
        return not_checked("the angles are those of the doctor, or positions those of a grid")
    if case.uneven:
        return not_checked("lengths change with the position, so far tokens vanish or overflow")
    rows = _near(case)
    if twin := _first_twin(rows):
        return wrong(
            "positions-rounded",
            f"positions {twin - 1:,} and {twin:,} turn alike, and later ones turn on: positions are rounded to a "
            "coarse dtype before they meet the frequencies. Compute positions, frequencies, cos and sin in float32",
            twin,
        )
    return _searched(case, rows)


def _searched(case: Case, rows: Tensor) -> Finding:
    """Double the position until it fails, and halve the gap."""
    place, begun = 1, time.thread_time()
    while not _end(case, place + place, rows):
        place += place
        slow = time.thread_time() - begun > SECONDS and place >= AT_LEAST
        if slow or place >= FURTHEST[case.rotate.told_by]:
            return passed(f"none up to position {place:,}", place)
    between = range(place, place + place)
    bad = place + bisect_left(between, True, key=lambda one: bool(_end(case, one, rows)))
    good, whys = bad - 1, [_end(case, one, rows) for one in (bad, bad + bad)]
    cause = next((cause for cause in ENDS if cause in whys), "")
    if not cause:
        return note(f"ends at position {good:,}: {' '.join(whys[:1])}", good)
    words = ENDS[cause].format(good=good, bad=bad)
    return wrong(cause, f"{words}. Compute the table for the positions asked for, or raise", good)


def _content(case: Case, t: int) -> Tensor:
    return random(1, case.heads, 1, case.dim, seed=11).expand(-1, -1, t, -1).contiguous()


def _near(case: Case) -> Tensor:
    """Return one token at each of the first positions, (t, h * d)."""
    count = min(4_097, case.reach)
    y, failed = attempt(case.rotate, _content(case, count), torch.arange(count))
    rows = _content(case, 0) if failed else y
    return rows.movedim(2, 0).flatten(1)


def _end(case: Case, last: int, rows: Tensor) -> str:
    """Return the error of a position, or how it is turned where that is not its own way, or ""."""
    y, failed = attempt(case.rotate, _content(case, 2), torch.arange(last + 1)[-2:])
    if failed:
        return failed
    before, there = y.movedim(2, 0).flatten(1)
    if torch.equal(before, there):
        return "clipped"
    return "wrapped" if (rows[:last] == there).all(-1).any() else ""


def _first_twin(rows: Tensor) -> int | None:
    """Return the first position to 4,096 that is turned like the one before it while later ones turn on."""
    same = (rows[1:] == rows[:-1]).all(-1)
    return int(same.long().argmax()) + 1 if same.any() and not same[-64:].all() else None
