"""Examine how a table bears use: decoding, rows of a batch, long texts, odd widths."""

import time
from typing import Any

import torch

from posenc.diagnosis.calling.call import attempt
from posenc.diagnosis.compare import far
from posenc.diagnosis.report import Finding, note, ok, unchecked, wrong
from posenc.diagnosis.tables.rows import Table


def decoding(case: Any) -> Finding:
    """Check that a token alone gets the row of its position."""
    table, last = case.table, len(case.first) - 1
    if table.told_by == "length":
        alone = "each new token of a cache gets row 0" if table.adds else "rows are those of 0 .. t-1"
        return note(f"takes neither positions nor an offset: {alone}; pass the position")
    off = max(far(table(place, 1)[0].double(), case.first[place]) for place in (0, 1, last))
    if off < 1e-4:
        return ok("a token alone gets the row of its position", off)
    words = f"a token alone at its position gets another row than among others (off by {off:.2g})"
    return wrong("offset-ignored", words, off)


def shorter(case: Any) -> Finding | None:
    """Compare the rows of a short table with those of a long one."""
    short = case.table(0, 5).double()
    off = far(short, case.first[:5])
    if off < 1e-4:
        return ok("a short table is the beginning of a long one", off)
    words = f"the first rows of a table of {len(case.first)} are others than those of a table of 5 (by {off:.2g})"
    return wrong("length-dependent", f"{words}: angles depend on the length", off)


def memory(case: Any) -> Finding | None:
    """Check that a call does not depend on a longer one before it, nor on one in bfloat16."""
    if not case.table.adds:
        return None
    other = Table(case.code.fresh())
    attempt(other, 0, len(case.first), torch.bfloat16)
    after, failed = attempt(other, 0, 5)
    if failed:
        return unchecked(f"after a call in bfloat16: {failed}")
    off = far(after.double(), case.first[:5])
    if off < 1e-3:
        return ok("a call does not depend on the calls before it", off)
    return wrong("cache-stale", f"after one call in bfloat16, rows differ by {off:.2g}: a cached table stays", off)


def limit(case: Any) -> Finding:
    """Find the first length that raises or repeats a row."""
    good, top, last = 1, 2**16, time.thread_time() + 1
    while good < top and time.thread_time() < last:
        pair, failed = attempt(case.table, 2 * good - 2, 2)
        where = f"ends between lengths {good:,} and {2 * good:,}"
        if failed:
            return note(f"{where}: {failed}", good)
        if len(pair) < 2:
            return note(f"{where}: fewer rows come back than there are tokens", good)
        if torch.equal(pair[0], pair[1]):
            return wrong("clipped", f"{where}: rows repeat, without a word", good)
        wraps = good > 1 and (case.first[: good // 2 + 1] == pair[0].double()).all(-1).any()
        if wraps:
            return wrong("wrapped", f"{where}: rows start again without a word", good)
        good *= 2
    return ok(f"none up to length {good:,}", good)


def odd_width(case: Any) -> Finding:
    """Ask for a table of an odd width."""
    code, odd = case.code, case.dim + 1
    if code.module is not None and not isinstance(code.source, type):
        return unchecked("needs the class, to build it with an odd width")
    made, failed = attempt(lambda: Table(code.fresh(dim=odd))(0, 5))
    if failed.startswith(("ValueError", "AssertionError")):
        return ok(f"refused in words: {failed}")
    if not failed and made.shape[-1] == odd:
        return ok(f"a width of {odd} works")
    why = failed or f"the table is {made.shape[-1]} wide"
    return note(
        f"an odd width ({odd}) crashes or does not fit: {why}. "
        "Give cosines one channel fewer, cos(...)[..., : dim // 2], or refuse it in words"
    )


CHECKS = (decoding, shorter, memory)
