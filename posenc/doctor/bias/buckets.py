"""Examine a bias that is learned by buckets of distance, as T5's: near offsets apart, far ones together."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.bias.bias_matrix import Case
from posenc.doctor.call.declared import declared_flag, declared_number
from posenc.doctor.call.parameters import DEFAULTS
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, note, passed, wrong

LONG, LONGEST = 400, 1536
REST = 80  # neighbors that share the last number, and seem to be all that are left
SHORTER = (256, 128, 64)
FEWEST = 5
ROUNDING = 1e-5  # of the largest number
DIGIT = 2**-23  # float32's last, of the largest number
LIMITS = ("max_distance", "relative_attention_max_distance", "rel_pos_max_distance", "max_rel_pos")


class Lines(NamedTuple):
    """The numbers by distance, (h, n), behind and ahead; the query's own place comes first."""

    behind: Tensor
    ahead: Tensor
    ended: bool
    """Whether further distances get the last of these numbers, or none."""

    @property
    def sides(self) -> dict[str, Tensor]:
        """Both sides by name."""
        return {"behind": self.behind, "ahead": self.ahead}

    @property
    def symmetric(self) -> bool:
        """Whether keys ahead share the numbers of keys behind."""
        return torch.equal(self.behind, self.ahead)

    @property
    def numbers(self) -> int:
        """How many numbers there are; heads go together."""
        return count(torch.cat([*self.sides.values()], -1))


def count(line: Tensor) -> int:
    """Return how many numbers there are on a line (h, n); heads go together."""
    return len(line.T.unique(dim=0))


def runs(line: Tensor) -> list[int]:
    """Return how many neighbors share a number, run by run, nearest first."""
    _, lengths = torch.unique_consecutive(line.T, dim=0, return_counts=True)
    return lengths.tolist()


def steady(line: Tensor) -> Tensor:
    """Give neighbors one number where they differ by rounding alone: a network may round by the place in a batch."""
    largest = line.nan_to_num(0, 0, 0).abs().max()
    apart = (line.diff(dim=-1).abs() > DIGIT * largest).any(0)
    first = torch.cat([apart.new_ones(1), apart])  # the first of each run
    return line[:, first][:, first.cumsum(0) - 1]


def limit(case: Case) -> float | None:
    """Return the largest distance that is told apart, if the code says so or the doctor had to."""
    given = DEFAULTS["limit"] if case.code.needs("limit") else None
    return given or declared_number(case.code, LIMITS)


def lines(case: Case) -> Lines:
    """Return the bias by distance, from one that is long enough to see the last bucket begin."""
    size = LONGEST if (limit(case) or LONG) > LONG else LONG
    square = case.bias.among(size, *SHORTER, case.size)
    ahead, *_, behind = square.unbind(1)
    ahead, behind = steady(ahead), steady(behind.flip(-1))
    if relative_difference(ahead, behind) < ROUNDING:
        ahead = behind
    rest = min(length for line in (behind, ahead) for *_, length in [runs(line)])
    refused = attempt(case.bias.near, len(behind.T) + 5)[1]
    return Lines(behind, ahead, rest > REST or bool(refused))


def widen(case: Case) -> Finding | None:
    """Check that buckets widen with the distance, that each is one stretch of offsets, and that all are read."""
    if not case.code.learned_parameters and not case.bias.ids:
        return None
    both = lines(case)
    if both.numbers <= FEWEST:
        return None
    faults = (_narrowed, _twice, _far_alike, _unread, _ends, _stops, _symmetric)
    found = next((finding for fault in faults if (finding := fault(case, both))), None)
    return found or passed("each stretch of distances has a number of its own, and none is lost")


def _narrowed(_case: Case, both: Lines) -> Finding | None:
    """Return that fewer neighbors share a number further off than nearer, if so; the last run ends with the text."""
    for name, line in both.sides.items():
        *full, _ = runs(line)
        for near, further in pairwise(full):
            if further < near - 1:  # by one where a logarithm is rounded
                words = (
                    f"keys {name}: {near} neighboring distances share a number and the next ones, further off, only "
                    f"{further}. Buckets widen with the distance: exact ones first, then logarithmic"
                )
                return wrong("buckets-wrong", words, further)
    return None


def _twice(_case: Case, both: Lines) -> Finding | None:
    """Return that distances share a number and those between them have others."""
    for name, line in both.sides.items():
        if count(line) < len(runs(line)):
            words = f"distances to keys {name} share a number, and those between have others"
            return wrong("buckets-wrong", f"{words}: far buckets start again at near ones")
    return None


def _far_alike(_case: Case, both: Lines) -> Finding | None:
    """Return that some distances share a number with those on the other side, beside 0 and the furthest."""
    shared = count(both.behind) + count(both.ahead) - both.numbers
    if both.symmetric or shared <= FEWEST:
        return None
    words = f"keys behind and ahead share {shared} numbers, and have others of their own: the sign is lost"
    return wrong("one-direction-lost", words, shared)


def _unread(case: Case, both: Lines) -> Finding | None:
    """Return that a part of the learned rows, or of the ids that were asked for, belongs to no offset."""
    rows = _rows(case)
    unread = rows - both.numbers
    if not both.ended or unread < rows / 5:
        return None
    words = f"offsets get {both.numbers} numbers, and there are {rows}"
    if both.symmetric:
        words += ": keys ahead share those of keys behind, and the other half is never read"
        return wrong("one-direction-lost", words, unread)
    return wrong("buckets-wrong", f"{words}: the others are never read, whatever the distance", unread)


def _rows(case: Case) -> int:
    """Return how many rows the learned table has that offsets look up, or how many ids were asked for."""
    if case.bias.ids:
        return DEFAULTS["buckets"] * case.code.needs("buckets")
    for name, table in case.code.learned_parameters.items():
        for axis in (0, 1) if table.ndim == 2 else ():
            other = case.code.fresh()
            other.learned_parameters[name].movedim(axis, 0)[::5].neg_()
            _, *moved = (case.again(other).behind != case.behind).any(0).tolist()  # distance 0 may be a factor
            if any(moved) and not all(moved):
                return table.shape[axis]
    return 0


def _ends(case: Case, both: Lines) -> Finding | None:
    """Compare where the last bucket begins with the distance that the code names."""
    due = limit(case)
    *before, _ = runs(both.behind)
    begins = sum(before)
    if due is None or not (begins > due or (both.ended and begins < due / 2)):
        return None
    words = f"the last bucket begins at distance {begins}, not at {due:,.0f} as the code says: another logarithm"
    return wrong("buckets-wrong", words, begins)


def _stops(case: Case, both: Lines) -> Finding | None:
    """Return that a learned function of the distance, not a table, is the same from a distance on."""
    *before, _ = runs(both.behind)
    if {*before} != {1} or not both.ended or case.bias.ids or limit(case) or _rows(case):
        return None
    begins = len(before)
    return wrong("clipped", f"from distance {begins} on all keys get one number: distances are clipped", begins)


def _symmetric(case: Case, both: Lines) -> Finding | None:
    alike = min(map(count, both.sides.values())) == 1
    told_apart = declared_flag(case.code, ("is_decoder", "causal")) is False or declared_flag(
        case.code, ("bidirectional",)
    )
    if told_apart and both.ended and (alike or both.symmetric):
        words = "all keys on one side share a number" if alike else "keys ahead share the numbers of keys behind"
        return wrong("one-direction-lost", f"{words}, and the code says that both directions are told apart")
    words = "keys ahead share the numbers of keys behind: right where the direction is hidden anyhow"
    return note(words) if both.symmetric else None


CHECKS = (widen,)
