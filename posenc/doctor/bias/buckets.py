"""Check a bias that is learned by buckets of distance, as T5's: near offsets have their own, far ones share them."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.bias.measure import BiasRecord, among_first
from posenc.doctor.call.declared import declared_flag, declared_number
from posenc.doctor.call.parameters import DEFAULTS
from posenc.doctor.numerics import not_finite, relative_difference
from posenc.doctor.report import VERDICTS, Finding, note, passed, wrong
from posenc.doctor.safe_call import attempt

LONG, LONGEST = 400, 1536  # tokens
SHORTER = (256, 128, 64)  # where code takes fewer
LAST_RUN = 80  # neighbors that share the last number, and seem to be all that are left
FEW = 5  # numbers that are no buckets
LIMITS = ("max_distance", "relative_attention_max_distance", "rel_pos_max_distance", "max_rel_pos")


class Distances(NamedTuple):
    """The numbers by distance, (h, n), behind and ahead; the query's own position comes first."""

    record: BiasRecord
    behind: Tensor
    ahead: Tensor
    are_all: bool  # further distances get the last of these numbers, or none
    total: int  # of numbers on both sides
    is_symmetric: bool  # whether keys ahead share the numbers of keys behind
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
    # The first query has all keys ahead, the last one all keys behind.
    ahead, behind = _without_rounding(numbers[:, 0]), _without_rounding(numbers[:, -1].flip(-1))  # (h, n)
    if relative_difference(ahead, behind) < 1e-5:
        ahead = behind  # one function of the distance, rounded
    # All distances are known where a long last run shows that no number follows, or where code takes no more tokens.
    are_all = min(runs(behind)[-1], runs(ahead)[-1]) > LAST_RUN
    if not are_all:
        _, refused = attempt(bias.among, numbers.shape[-1] + 5)
        are_all = bool(refused)
    total = count(torch.cat((behind, ahead), -1))
    if total <= FEW:
        return None
    distances = Distances(record, behind, ahead, are_all, total, torch.equal(behind, ahead), runs(behind))
    findings = [finding for check in (_stretches, _sides, _rows, _end) if (finding := check(distances))]
    findings.append(passed("each range of distances has a number of its own, and none is lost"))
    return min(findings, key=lambda finding: VERDICTS.index(finding.verdict))


def _without_rounding(line: Tensor) -> Tensor:
    """Give neighbors one number where they differ by rounding alone: a network may round by the place in a batch."""
    digit = 2**-23 * line.nan_to_num(0, 0, 0).abs().max()  # the last one of float32
    begins = torch.ones(line.shape[1], dtype=torch.bool)  # (n,)
    begins[1:] = (line.diff(dim=-1).abs() > digit).any(0)
    # Each distance gets the number with which its run of equal ones begins.
    return line[:, begins][:, begins.cumsum(0) - 1]  # (h, n)


def _stretches(distances: Distances) -> Finding | None:
    """Return that a bucket is no stretch of distances, or that it holds fewer than a nearer one."""
    for name, line in (("behind", distances.behind), ("ahead", distances.ahead)):
        *full, _ = lengths = runs(line)  # the last run ends with the text
        for near, further in pairwise(full):
            if further < near - 1:  # by one where a logarithm is rounded
                sentence = f"keys {name}: {near} neighboring distances share a number and the next ones, further off"
                remedy = "Buckets widen with the distance: exact ones first, then logarithmic"
                return wrong("buckets-wrong", f"{sentence}, only {further}. {remedy}", further)
        # Fewer numbers than runs: a number comes again after others.
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
    has_lost_a_side = distances.is_symmetric or min(behind, ahead) == 1
    # A symmetric function of the distance, as by a network, is no table: it has no end, so that are_all is false.
    if has_lost_a_side and distances.are_all and (is_bidirectional or is_causal is False):
        sentence = "keys on one side have no numbers of their own"
        return wrong("one-direction-lost", f"{sentence}, and the code says that both directions are distinguished")
    if distances.is_symmetric:
        return note("keys ahead share the numbers of keys behind: right where the direction is hidden anyhow")
    return None


def _rows(distances: Distances) -> Finding | None:
    """Return that a part of the learned rows, or of the ids that were asked for, belongs to no offset."""
    if not distances.are_all:
        return None
    rows = _count_rows(distances.record)
    unread = rows - distances.total
    # A few may be unread: T5's keys ahead have no bucket 0, and a logarithm may skip some.
    if unread < rows / 5 or not rows:
        return None
    sentence = f"offsets get {distances.total} numbers, and there are {rows}"
    if distances.is_symmetric:
        sentence += ": keys ahead share those of keys behind, and the other half is never read"
        return wrong("one-direction-lost", sentence, unread)
    # Where each distance has its own number, the other rows may be those of longer texts, or of a class token.
    if {*distances.runs[:-1]} == {1} and unread > distances.total:
        return note(f"{sentence}: each offset in reach has its own, and the others are for something else", unread)
    return wrong("buckets-wrong", f"{sentence}: the others are never read, whatever the distance", unread)


def _count_rows(record: BiasRecord) -> int:
    """Return how many rows the learned table has that offsets look up, or how many ids were asked for."""
    if record.bias.returns_ids:
        return DEFAULTS["buckets"] if record.code.needs("buckets") else 0
    for name, table in record.code.learned_parameters.items():
        for axis in (0, 1) if table.ndim == 2 else ():
            # Every fifth row is negated: this is the axis of rows where some offsets follow, and not all.
            changed = record.code.fresh()
            changed.learned_parameters[name].movedim(axis, 0)[::5].neg_()
            differ = (record.of_code(changed).numbers != record.numbers)[:, -1, :-1].any(0)  # (s-1,)
            if differ.any() and not differ.all():
                return table.shape[axis]
    return 0


def _end(distances: Distances) -> Finding | None:
    """Compare where the last bucket begins with the distance that the code names; a function of distance has no end."""
    record = distances.record
    begins, expected = sum(distances.runs[:-1]), limit(record)
    # The last bucket begins before the limit, which it holds: the last of T5's decoder at 113 of 128.
    if expected and (begins > expected or (distances.are_all and begins < expected / 2)):
        sentence = f"the last bucket begins at distance {begins}, not at {expected:,.0f} as the code says"
        return wrong("buckets-wrong", f"{sentence}: another logarithm", begins)
    may_be_cut = distances.are_all and not expected and not record.bias.returns_ids and {*distances.runs[:-1]} == {1}
    if may_be_cut and not _count_rows(record):
        return wrong("clipped", f"from distance {begins} on all keys get one number: distances are clipped", begins)
    return None
