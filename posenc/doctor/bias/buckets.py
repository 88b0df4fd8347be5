"""Check a bias that is learned by buckets of distance, as T5's: near offsets have their own, far ones share them."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.bias.measure import BiasRecord, among_first
from posenc.doctor.call.declared import declared_flag, declared_number
from posenc.doctor.call.parameters import DEFAULTS
from posenc.doctor.numerics import not_finite, relative_difference
from posenc.doctor.report import Finding, note, passed, wrong
from posenc.doctor.safe_call import attempt

LONG, LONGEST = 400, 1536  # tokens
SHORTER = (256, 128, 64)  # where code takes fewer
LAST_RUN = 80  # neighbors that share the last number, and seem to be all that are left
FEW = 5  # numbers that are no buckets
SAME_SIDES = 1e-5  # of the largest number
DIGIT = 2**-23  # float32's last, of the largest number
LIMITS = ("max_distance", "relative_attention_max_distance", "rel_pos_max_distance", "max_rel_pos")


class Distances(NamedTuple):
    """The numbers by distance, (h, n), behind and ahead; the query's own position comes first."""

    record: BiasRecord
    behind: Tensor
    ahead: Tensor
    are_all: bool  # further distances get the last of these numbers, or none
    total: int  # of numbers on both sides
    is_symmetric: bool  # keys ahead share the numbers of keys behind
    runs: list[int]  # how many neighbors behind share a number, nearest first; the last run ends with the text


def count(line: Tensor) -> int:
    """Return how many numbers there are on a line (h, n); heads go together."""
    return len(line.T.unique(dim=0))


def runs(line: Tensor) -> list[int]:
    """Return how many neighbors on a line (h, n) share a number, run by run, nearest first."""
    return torch.unique_consecutive(line.T, dim=0, return_counts=True)[1].tolist()


def limit(record: BiasRecord) -> float | None:
    """Return the largest distance with a number of its own, if the code or the call says so."""
    if record.code.needs("limit"):
        return DEFAULTS["limit"]
    return declared_number(record.code, LIMITS)


def widen(record: BiasRecord) -> Finding | None:
    """Check that buckets widen with the distance, that each is one stretch of offsets, and that all are read."""
    if not record.code.learned_parameters and not record.bias.returns_ids:
        return None
    size = LONGEST if (limit(record) or LONG) > LONG else LONG
    bias, numbers = among_first(record.code, (size, *SHORTER, record.size))
    if finding := not_finite(numbers, f"among {numbers.shape[-1]} keys", may_hide_keys=True):
        return finding
    ahead, behind = _without_rounding(numbers[:, 0]), _without_rounding(numbers[:, -1].flip(-1))
    if relative_difference(ahead, behind) < SAME_SIDES:
        ahead = behind
    are_all = min(runs(behind)[-1], runs(ahead)[-1]) > LAST_RUN
    if not are_all:
        _, refused = attempt(bias.among, len(behind.T) + 5)
        are_all = bool(refused)
    total = count(torch.cat((behind, ahead), -1))
    if total <= FEW:
        return None
    distances = Distances(record, behind, ahead, are_all, total, torch.equal(behind, ahead), runs(behind))
    findings = [check(distances) for check in (_stretches, _sides, _rows, _end)]
    for finding in sorted(filter(None, findings), key=lambda finding: not finding.is_wrong):
        return finding  # what is wrong comes first
    return passed("each stretch of distances has a number of its own, and none is lost")


def _without_rounding(line: Tensor) -> Tensor:
    """Give neighbors one number where they differ by rounding alone: a network may round by the place in a batch."""
    largest = line.nan_to_num(0, 0, 0).abs().max()
    differ = (line.diff(dim=-1).abs() > DIGIT * largest).any(0)
    begins = torch.cat([differ.new_ones(1), differ])  # a run of equal numbers
    return line[:, begins][:, begins.cumsum(0) - 1]


def _stretches(distances: Distances) -> Finding | None:
    """Return that a bucket is no stretch of distances, or that it holds fewer than a nearer one."""
    for name, line in (("behind", distances.behind), ("ahead", distances.ahead)):
        *full, _ = lengths = runs(line)  # the last run ends with the text
        for near, further in pairwise(full):
            if further < near - 1:  # by one where a logarithm is rounded
                sentence = f"keys {name}: {near} neighboring distances share a number and the next ones, further off"
                remedy = "Buckets widen with the distance: exact ones first, then logarithmic"
                return wrong("buckets-wrong", f"{sentence}, only {further}. {remedy}", further)
        if count(line) < len(lengths):
            sentence = f"distances to keys {name} share a number, and those between have others"
            return wrong("buckets-wrong", f"{sentence}: far buckets start again at near ones")
    return None


def _sides(distances: Distances) -> Finding | None:
    """Return that the sign of the offset is lost: for some distances, or for all where the code tells sides apart."""
    behind, ahead = count(distances.behind), count(distances.ahead)
    shared = behind + ahead - distances.total
    if not distances.is_symmetric and shared > FEW:  # beside 0 and the furthest
        sentence = f"keys behind and ahead share {shared} numbers, and have others of their own: the sign is lost"
        return wrong("one-direction-lost", sentence, shared)
    is_bidirectional = declared_flag(distances.record.code, ("bidirectional",))
    is_causal = declared_flag(distances.record.code, ("is_decoder", "causal"))
    sentence = "keys ahead share the numbers of keys behind"
    if (is_bidirectional or is_causal is False) and distances.are_all:
        if min(behind, ahead) == 1:
            sentence = "all keys on one side share a number"
        if distances.is_symmetric or min(behind, ahead) == 1:
            return wrong("one-direction-lost", f"{sentence}, and the code says that both directions are told apart")
    return note(f"{sentence}: right where the direction is hidden anyhow") if distances.is_symmetric else None


def _rows(distances: Distances) -> Finding | None:
    """Return that a part of the learned rows, or of the ids that were asked for, belongs to no offset."""
    if not distances.are_all:
        return None
    rows = _count_rows(distances.record)
    unread = rows - distances.total
    if unread < rows / 5 or not rows:
        return None
    sentence = f"offsets get {distances.total} numbers, and there are {rows}"
    if distances.is_symmetric:
        sentence += ": keys ahead share those of keys behind, and the other half is never read"
        return wrong("one-direction-lost", sentence, unread)
    if {*distances.runs[:-1]} == {1} and unread > distances.total:
        return note(f"{sentence}: each offset in reach has its own, and the others are for something else", unread)
    return wrong("buckets-wrong", f"{sentence}: the others are never read, whatever the distance", unread)


def _count_rows(record: BiasRecord) -> int:
    """Return how many rows the learned table has that offsets look up, or how many ids were asked for."""
    if record.bias.returns_ids:
        return DEFAULTS["buckets"] if record.code.needs("buckets") else 0
    for name, table in record.code.learned_parameters.items():
        for axis in (0, 1) if table.ndim == 2 else ():
            changed = record.code.fresh()
            changed.learned_parameters[name].movedim(axis, 0)[::5].neg_()
            differ = record.of_code(changed).by_distance != record.by_distance
            _, *differ_at = differ.any(0).tolist()  # distance 0 may be a factor
            if any(differ_at) and not all(differ_at):
                return table.shape[axis]
    return 0


def _end(distances: Distances) -> Finding | None:
    """Compare where the last bucket begins with the distance that the code names; a function of distance has no end."""
    record = distances.record
    begins, expected = sum(distances.runs[:-1]), limit(record)
    if expected and (begins > expected or (distances.are_all and begins < expected / 2)):
        sentence = f"the last bucket begins at distance {begins}, not at {expected:,.0f} as the code says"
        return wrong("buckets-wrong", f"{sentence}: another logarithm", begins)
    may_be_cut = distances.are_all and not expected and not record.bias.returns_ids and {*distances.runs[:-1]} == {1}
    if may_be_cut and not _count_rows(record):
        return wrong("clipped", f"from distance {begins} on all keys get one number: distances are clipped", begins)
    return None
