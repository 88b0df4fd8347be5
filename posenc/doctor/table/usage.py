"""Examine how a table bears use: decoding, rows of a batch, long texts, odd widths."""

import time
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.table.rows import T, Table


def decoding(case: Any) -> Finding:
    """Check that a token alone gets the row of its position."""
    table, place = case.table, len(case.first) // 2
    if not table.told:
        alone = "each new token of a cache gets row 0" if table.adds else "rows are those of 0 .. t-1"
        return note(f"takes neither positions nor an offset: {alone}; pass the position")
    off = 0.0
    for told_by in table.told:
        whole = case.first if table.state else table(len(case.first), told_by=told_by).double()
        alone = table(1, place, told_by=told_by).double().squeeze(0)
        off = relative_difference(alone, whole[place])
        if off > 1e-4:
            return _elsewhere(alone, whole, place, told_by, off)
    return passed("a token alone gets the row of its position", off)


def _elsewhere(alone: Tensor, whole: Tensor, place: int, told_by: str, off: float) -> Finding:
    """Say whose row a token gets that does not get its own."""
    for lag in (-1, 1, -2):
        if relative_difference(alone, whole[place + lag]) < 1e-4:
            words = f"a token alone gets the row of the position {lag:+d} from its own: one is added or left out there"
            return wrong("positions-shifted", words, lag)
    words = f"a token alone at its {told_by} gets another row than among others (off by {off:.2g})"
    return wrong("offset-ignored", words, off)


def shorter(case: Any) -> Finding | None:
    """Compare the rows of a short table with those of a long one."""
    short = case.table(T).double()
    off = relative_difference(short, case.first[:T])
    if off < 1e-4:
        return passed("a short table is the beginning of a long one", off)
    words = f"the first rows of a table of {len(case.first)} are others than those of a table of {T} (by {off:.2g})"
    return wrong("length-dependent", f"{words}: angles depend on the length", off)


def memory(case: Any) -> Finding | None:
    """Check that a call does not depend on a longer one before it, nor on one in bfloat16."""
    if not case.table.adds:
        return None
    other = case.table.of(case.code.fresh())
    attempt(other, len(case.first), dtype=torch.bfloat16)
    off = relative_difference(other(T), case.first[:T])
    if off < 1e-3:
        return passed("a call does not depend on the calls before it", off)
    return wrong("cache-stale", f"after one call in bfloat16, rows differ by {off:.2g}: a cached table stays", off)


def limit(case: Any) -> Finding:
    """Find the first length that raises or repeats a row."""
    good, top, last = 2, 2**16, time.thread_time() + 0.3  # a call may take twice as long as the one before
    while good < top and time.thread_time() < last:
        place, where = 2 * good - 2, f"ends between lengths {good:,} and {2 * good:,}"
        pair, failed = attempt(case.table, 2, place)
        if failed:
            return note(f"{where}: {failed}", good)
        if len(pair) < 2:
            return note(f"{where}: fewer rows come back than there are tokens", good)
        if torch.equal(*pair):
            return _repeating(case, place, where)
        if (case.first[:good] == pair[0].double()).all(-1).any():
            return wrong("wrapped", f"{where}: rows start again without a word", good)
        good *= 2
    return passed(f"none up to length {good:,}", good)


def _repeating(case: Any, place: int, where: str) -> Finding:
    """Tell rows that stay the same from positions that are rounded to the same."""
    near = case.first[place : place + 2]
    if len(near) == 2 and torch.equal(near[0], near[1]):
        return not_checked("rows near the start are alike already")
    further, failed = attempt(case.table, 16, place)
    if failed or torch.equal(further[0], further[-1]):
        return wrong("clipped", f"{where}: rows repeat, without a word", place)
    words = f"positions {place:,} and {place + 1:,} get the same row, and later ones another: positions are rounded"
    return wrong("positions-rounded", f"{words}. Count them in float32", place)


def odd_width(case: Any) -> Finding:
    """Ask for a table of an odd width."""
    code, odd = case.code, case.dim + 1
    if code.module is not None and not isinstance(code.source, type):
        return not_checked("needs the class, to build it with an odd width")
    made, failed = attempt(lambda: Table(code.fresh(dim=odd))(T))
    if failed.startswith(("ValueError", "AssertionError")):
        return passed(f"refused in words: {failed}")
    if not failed and made.shape[-1] == odd:
        return passed(f"a width of {odd} works")
    why = failed or f"the table is {made.shape[-1]} wide"
    return note(
        f"an odd width ({odd}) crashes or does not fit: {why}. "
        "Give cosines one channel fewer, cos(...)[..., : dim // 2], or refuse it in words"
    )


CHECKS = (decoding, shorter, memory)
