"""Examine how far the positions of a rotation go: where they end, and whether they end in words or without."""

import time

import torch
from torch import Tensor

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.compare import random
from posenc.diagnosis.report import Finding, note, ok, unchecked, wrong
from posenc.diagnosis.rotations.read import Case

SECONDS = 0.5  # to go further: what makes its table anew in each call takes ever longer
FAR = {"positions": 2**20, "offset": 2**20, "length": 2**16}
ENDS = {  # what becomes of tokens beyond the end: the cause and the words
    "clipped": (
        "clipped",
        "from position {good:,} on all tokens turn alike: positions are clipped or rounded without a word. "
        "Compute the table for the positions asked for, or raise",
    ),
    "still": (
        "clipped",
        "from position {bad:,} on tokens are not turned at all: the table ends without a word. "
        "Compute the table for the positions asked for, or raise",
    ),
    "wrapped": (
        "wrapped",
        "position {bad:,} is turned as position {back:,} is: positions start again without a word. "
        "Compute the table for the positions asked for, or raise",
    ),
}


def limit(case: Case) -> Finding:
    """Find the first position that raises or is turned like the one before it."""
    if case.code.way.exact:
        return unchecked(f"takes {case.reach} tokens and no other number")
    if case.given_angles or case.reading.columns:
        return unchecked("the angles are those of the doctor" if case.given_angles else "positions are those of a grid")
    if case.uneven:
        return unchecked("lengths change with the position, so far tokens vanish or overflow")
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
    top, begun = FAR[case.rotate.told_by], time.thread_time()
    good, bad, slow = 1, 2, False
    while bad <= top and not slow and not _end(case, bad, rows):
        good, bad, slow = bad, 2 * bad, time.thread_time() - begun > SECONDS and bad >= 8_192
    if bad > top or slow:
        return ok(f"none up to position {good:,}", good)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if _end(case, middle, rows) else (middle, bad)
    why = _end(case, bad, rows)
    if why not in ENDS:
        return note(f"ends at position {good:,}: {why}", good)
    cause, words = ENDS[why]
    return wrong(cause, words.format(good=good, bad=bad, back=_as_earlier(case, bad, rows)), good)


def _content(case: Case, t: int) -> Tensor:
    return random(1, case.heads, 1, case.dim, seed=11).repeat(1, 1, t, 1)


def _near(case: Case) -> Tensor:
    """Return one token at each of the first positions, (t, h * d)."""
    count = min(4_097, case.reach)
    y, failed = attempt(case.rotate, _content(case, count), torch.arange(count))
    rows = _content(case, 0) if failed else y
    return rows[0].transpose(0, 1).flatten(1)


def _end(case: Case, last: int, rows: Tensor) -> str:
    """Return the error of a position, or how it is turned where that is not its own way, or ""."""
    x = _content(case, 2)
    y, failed = attempt(case.rotate, x, torch.tensor([last - 1, last]))
    if failed:
        return failed
    if torch.equal(y[:, :, 0], y[:, :, 1]):
        return "still" if torch.equal(y, x.to(y.dtype)) else "clipped"
    if last > 64 and torch.equal(y[:, :, 1], x[:, :, 1].to(y.dtype)):
        beyond, failed = attempt(case.rotate, x, torch.tensor([last, last + 1]))
        return "still" if not failed and torch.equal(beyond, x.to(beyond.dtype)) else "wrapped"
    return "wrapped" if last > 64 and _same(y[:, :, 1], rows[:last]) >= 0 else ""


def _as_earlier(case: Case, last: int, rows: Tensor) -> int:
    """Return the position among the first ones that a far one is turned like, or -1."""
    y = case.rotate(_content(case, 2), torch.tensor([last - 1, last]))
    return _same(y[:, :, 1], rows[:last])


def _same(y: Tensor, rows: Tensor) -> int:
    """Return which of the rows a token (1, h, d) is, or -1."""
    same = (rows == y.flatten()).all(-1)
    return int(same.long().argmax()) if same.any() else -1


def _first_twin(rows: Tensor) -> int:
    """Return the first position to 4,096 that is turned like the one before it while later ones turn on, or 0."""
    same = (rows[1:] == rows[:-1]).all(-1)
    return int(same.long().argmax()) + 1 if same.any() and not same[-64:].all() else 0
