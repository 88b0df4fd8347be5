"""Examine a bias that is learned by buckets of distance, as T5's: near offsets apart, far ones together."""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc.diagnosis.biases.asking import Bias
from posenc.diagnosis.biases.square import Case
from posenc.diagnosis.biases.window import hides
from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.parameters import FIXED
from posenc.diagnosis.calling.told import said, told
from posenc.diagnosis.report import Finding, note, ok, wrong

LONG, LONGEST = 400, 1536
LIMITS = ("max_distance", "relative_attention_max_distance", "rel_pos_max_distance", "max_rel_pos")


class Lines(NamedTuple):
    """The numbers by distance, (h, n), behind and ahead; the query's own place comes first."""

    behind: Tensor
    ahead: Tensor

    @property
    def symmetric(self) -> bool:
        """Whether keys ahead share the numbers of keys behind, and these are not all alike."""
        return torch.equal(self.behind, self.ahead) and len(runs(self.behind)) > 3

    @property
    def numbers(self) -> int:
        """How many numbers there are; heads go together, and what is hidden does not count."""
        every = torch.cat((self.behind, self.ahead), 1)
        return torch.unique(every[:, ~hides(every).any(0)], dim=1).shape[1]


def limit(case: Case) -> float | None:
    """Return the largest distance that is told apart, if the code says so or the doctor had to."""
    given = FIXED["limit"] if case.code.needs("limit") else None
    return given or told(case.code, LIMITS)


def lines(case: Case) -> Lines:
    """Return the bias by distance, from one that is long enough to see the last bucket begin."""
    size = min(LONGEST, max(LONG, int(1.5 * (limit(case) or 0))))
    shorter = (n for n in (size, 256, 128, 64) if not attempt(case.bias.near, 0, n)[1])
    square = case.bias.near(size=next(shorter, case.size))
    own = square.diagonal(dim1=1, dim2=2)[..., None]
    square = square - own if not case.bias.ids and own.isfinite().all() else square
    return Lines(square[:, -1].flip(-1), square[:, 0])


def widen(case: Case) -> Finding | list[Finding] | None:
    """Check that buckets widen with the distance, that each is one stretch of offsets, and that all are read."""
    steps = case.behind.diff(dim=-1)
    if not (steps == 0).all(0).any() and not case.code.learned and not case.bias.ids:
        return None
    both = lines(case)
    counts = []
    for name, line in zip(("behind", "ahead"), both, strict=True):
        stretches = runs(line)
        if len(stretches) > 2 and (narrowed := _narrowed(name, stretches)):
            return narrowed
        counts += [f"{len(stretches)} numbers {name}"] if len(stretches) > 2 else []
    if not counts:
        return None
    faults = (_twice, _unread, _half, _ends, _stops, _symmetric)
    found = next((finding for fault in faults if (finding := fault(case, both))), None)
    return found or ok(f"buckets widen with the distance: {', '.join(counts)} within {both.behind.shape[1]}")


def _narrowed(name: str, stretches: list[int]) -> Finding | None:
    """Return that fewer neighbors share a number further off than nearer, if so; the last run ends with the text."""
    place = next((i for i in range(1, len(stretches) - 1) if stretches[i] < stretches[i - 1] - 1), 0)
    if not place:
        return None
    words = (
        f"keys {name}: {stretches[place - 1]} neighboring distances share a number and the next ones, further off, "
        f"only {stretches[place]}. Buckets widen with the distance: exact ones first, then logarithmic"
    )
    return wrong("buckets-wrong", words, place)


def _twice(_: Case, both: Lines) -> Finding | None:
    """Return that distances share a number and those between them have others, or far keys on both sides do."""
    for name, line in zip(("behind", "ahead"), both, strict=True):
        number = torch.unique(line, dim=1, return_inverse=True)[1]
        starts = torch.cat((torch.tensor([True]), number.diff() != 0)).nonzero().flatten()
        first = next((i for i, start in enumerate(starts) if (number[:start] == number[start]).any()), 0)
        if first and not hides(line[:, starts[first]]).any():
            near, far = int((number == number[starts[first]]).nonzero()[0]), int(starts[first])
            words = f"keys {name} at distances {near} and {far} share a number, and those between have others"
            return wrong("buckets-wrong", f"{words}: far buckets start again at near ones", far)
    return _far_alike(both)


def _far_alike(both: Lines) -> Finding | None:
    same = (both.behind == both.ahead).all(0)
    same[0] = True
    apart = ~same & ~hides(both.behind).any(0) & ~hides(both.ahead).any(0)
    start = int(same.long().flip(0).cumprod(0).sum())
    far = both.behind[:, len(same) - start :]
    if not apart.any() or start == len(same) or len(runs(far)) < 3:
        return None
    first = len(same) - start
    words = f"keys behind and ahead share numbers from distance {first} on, and nearer ones do not: the sign is lost"
    return wrong("one-direction-lost", words, first)


def _unread(case: Case, both: Lines) -> Finding | None:
    """Return that a part of the learned rows, or of the ids that were asked for, belongs to no offset."""
    rows, length = _rows(case), both.behind.shape[1]
    settled = all(runs(line)[-1] >= length // 5 for line in both)
    unread = rows - both.numbers
    if not settled or unread <= max(2, 0.15 * rows) or both.numbers < 3:
        return None
    words = f"offsets get {both.numbers} numbers, and there are {rows}"
    if both.symmetric:
        words += ": keys ahead share those of keys behind, and the other half is never read"
        return wrong("one-direction-lost", words, unread)
    return wrong("buckets-wrong", f"{words}: the others are never read, whatever the distance", unread)


def _half(case: Case, both: Lines) -> Finding | None:
    """Return that keys ahead share the numbers of keys behind, of a learned table that has rows for both."""
    rows = _rows(case) if both.symmetric and not case.bias.ids else 0
    most = (rows + 1) // 2
    if rows % 2 == 0 or attempt(case.bias.near, 0, most)[1] or not attempt(case.bias.near, 0, most + 1)[1]:
        return None
    words = f"keys ahead share the numbers of keys behind, and {rows} rows are learned for {most} tokens, one an offset"
    return wrong("one-direction-lost", f"{words}: the other half is never read", most - 1)


def _rows(case: Case) -> int:
    """Return how many rows the learned table has that offsets look up, or how many ids were asked for."""
    if case.bias.ids:
        return FIXED["buckets"] if case.code.needs("buckets") else 0
    other = case.code.fresh()
    for table in other.learned.values():
        for axis in (0, 1) if table.ndim == 2 and table.shape[0] == case.heads else (0,) * (table.ndim == 2):
            every_other = table.movedim(axis, 0)[::2]
            every_other += 1.0
            change = (Bias(other).near(size=case.size) - case.square).abs().amax(0)
            moved = change[1:, 0] > 1e-6  # without the distance 0, which may be a factor
            every_other -= 1.0
            if moved.any() and not moved.all():
                return table.shape[axis]
    return 0


def _ends(case: Case, both: Lines) -> Finding | None:
    """Compare where the last bucket begins with the distance that the code names."""
    due = limit(case)
    begins = sum(runs(both.behind)[:-1])
    if due is None or due > both.behind.shape[1] or due / 2 <= begins <= due:
        return None
    words = f"the last bucket begins at distance {begins}, not at {due:,.0f} as the code says: another logarithm"
    return wrong("buckets-wrong", words, begins)


def _symmetric(case: Case, both: Lines) -> Finding | None:
    alike = len(runs(both.ahead)) == 1 or len(runs(both.behind)) == 1
    if not both.symmetric and not alike:
        return None
    of_buckets = max(runs(both.behind) + runs(both.ahead)) > 1
    told_apart = said(case.code, ("is_decoder", "causal")) is False or said(case.code, ("bidirectional",))
    if told_apart and of_buckets:
        words = "all keys on one side share a number" if alike else "keys ahead share the numbers of keys behind"
        return wrong("one-direction-lost", f"{words}, and the code says that both directions are told apart")
    words = "keys ahead share the numbers of keys behind: right where the direction is hidden anyhow"
    return None if alike else note(words)


def _stops(case: Case, both: Lines) -> Finding | None:
    """Return that a learned function of the distance, not a table, is the same from a distance on."""
    *before, _ = runs(both.behind)
    begins = sum(before)
    of_buckets = not case.code.learned or max(before, default=2) > 1 or limit(case) or _rows(case)
    if of_buckets or begins > both.behind.shape[1] // 2:
        return None
    return wrong("clipped", f"from distance {begins} on all keys get one number: distances are clipped", begins)


def runs(line: Tensor) -> list[int]:
    """Return how many neighbors share a number, run by run, nearest first."""
    changes = (line[:, 1:] != line[:, :-1]).any(0).nonzero().flatten() + 1
    ends = torch.cat((changes, torch.tensor([line.shape[1]])))
    return ends.diff(prepend=torch.tensor([0])).tolist()


CHECKS = (widen,)
