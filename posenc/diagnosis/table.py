"""Examine a position table, or a module that adds one to embeddings (b, t, d)."""

import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.diagnosis.call import Code, attempt
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, findings, note, ok, unchecked, wrong
from posenc.diagnosis.sinusoids import sinusoids

LENGTHS = (300, 128, 64, 16, 5)


class Table:
    """The table as a function of positions, whatever the code takes: rows (t, d)."""

    def __init__(self, code: Code) -> None:
        self.code, self.dim, self.adds = code, code.dim, code.takes("x")
        self.told_by = next((role for role in ("positions", "offset") if code.takes(role)), "length")

    def __call__(self, start: int, t: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return rows start .. start+t-1; those before `start` are computed too where there is no other way."""
        first = 0
        if self.told_by == "positions":
            given: dict[str, Any] = {"positions": torch.arange(start, start + t)}
        elif self.told_by == "offset":
            given = {"offset": start, "length": t}
        else:
            given, first = {} if self.adds else {"length": start + t}, start
        zeros = torch.zeros(1, first + t, self.dim, dtype=dtype)
        made = self.add(zeros, **given) if self.adds else self.code(**given)
        return made.reshape(-1, made.shape[-1])[first : first + t]

    def add(self, x: Tensor, **given: Any) -> Tensor:
        """Return the code's result for embeddings (b, t, d)."""
        swap = self.code.order == "tbd"
        result = self.code(x=x.transpose(0, 1) if swap else x, **given)
        if not isinstance(result, Tensor):
            return result
        if result.ndim < 3 or len(result) == 1 < len(x):  # the table alone
            return x + result
        return result.transpose(0, 1) if swap else result


class Case(NamedTuple):
    """What the checks share: the code and its width, the table that it is, the first rows (t, d) of it in float64."""

    code: Code
    dim: int
    table: Table
    first: Tensor


def accepts(code: Code) -> bool:
    """Tell whether the code can be called as a table: rows of `dim` channels, or embeddings with something added."""
    table = Table(code)
    if table.adds:
        y = table.add(torch.zeros(3, 5, code.dim), positions=torch.arange(5))
        return isinstance(y, Tensor) and y.ndim == 3 and y.shape[:2] == (3, 5)
    y = table(0, 5)
    return isinstance(y, Tensor) and tuple(y.shape) == (5, code.dim)


def examine(code: Code) -> list[Finding]:
    """Return the findings on a table of width `dim`."""
    table = Table(code)
    found = findings((repeatable,), table)
    if table.adds and found[0].verdict == "ok":
        found += findings((axis,), table)
    if found[-1].verdict == "wrong":
        return [*found, Finding("everything else", "not checked", "repair that first, then ask again")]
    length = next(length for length in LENGTHS if not attempt(table, 0, length)[1])
    case = Case(code, code.dim, table, table(0, length).detach().double())
    if table.adds and (width := case.first.shape[-1]) > code.dim:
        words = f"the result is {width} wide for embeddings of {code.dim}: the table is appended, not added"
        return [*found, Finding("sum", "note", words)]
    found += findings((rows,), case)
    if found[-1].verdict == "ok":
        found += sinusoids(case.first)
    return found + findings((content, decoding, rounding, limit, odd_width), case)


def repeatable(table: Table) -> Finding:
    """Check that two calls agree, so that dropout rests."""
    off = far(table(0, 5), table(0, 5))
    if off:
        return wrong("two calls of the same differ: dropout stays on in eval mode?", off)
    return ok("two calls of the same agree", 0.0)


def axis(table: Table) -> Finding:
    """Check that what is added varies along the tokens and not along the batch."""
    y = table.add(torch.zeros(3, 5, table.dim), positions=torch.arange(5))
    along_batch, along_tokens = float((y - y[:1]).abs().max()), float((y - y[:, :1]).abs().max())
    if along_batch <= 1e-6:
        return ok("the table runs along the tokens, the same for each text", along_tokens)
    if along_tokens >= 1e-6:
        return wrong("texts of a batch get different rows for the same positions", along_batch)
    return wrong(
        "each text of a batch gets one row, the same for all of its tokens: the table is added along the batch. "
        "It takes (t, b, d) and was given (b, t, d): transpose, or add table[: x.shape[1]] "
        "(if (t, b, d) is what you mean, say order='tbd')",
        along_batch,
    )


def rows(case: Case) -> Finding:
    """Check that no two rows are alike."""
    table = case.first
    same = float((table - table[:1]).abs().max())
    if same < 1e-6:
        return wrong(
            "all rows are alike: every angle is 0. An integer division in the exponent or of the position?", same
        )
    gap = torch.cdist(table, table) + 1e9 * torch.eye(len(table), dtype=torch.float64)
    nearest = float(gap.min())
    if nearest >= 1e-6:
        return ok(f"all rows differ, the nearest two by {nearest:.2g}", nearest)
    first, second = sorted(divmod(int(gap.argmin()), len(table)))
    period = second - first
    if period > 1 and torch.allclose(table[period:], table[:-period], atol=1e-6):
        return note(f"rows repeat every {period} positions: right only where positions are fractions of that", period)
    return wrong(f"positions {first} and {second} have the same row", nearest)


def content(case: Case) -> Finding | None:
    """Check what happens to the embeddings: kept, scaled, or overwritten."""
    if not case.table.adds:
        return None
    x = random(2, 5, case.dim, seed=1)
    kept = x.clone()
    y = case.table.add(x, positions=torch.arange(5))
    if not torch.equal(x, kept):
        return wrong(
            "the embeddings are written to in place (x += ...): whoever holds them sees positions added twice. "
            "Return x + table",
            far(x, kept),
        )
    through = y - case.table.add(torch.zeros_like(x), positions=torch.arange(5))
    gain = float((through * kept).sum() / (kept * kept).sum())
    if far(through, gain * kept) > 1e-3:
        return note("embeddings do not come through unchanged (a norm, a projection?)", gain)
    if abs(gain - 1) < 1e-3:
        return ok("embeddings come through as they are", gain)
    root = " (the square root of the width, as in the paper)" if abs(gain / case.dim**0.5 - 1) < 1e-3 else ""
    return note(f"embeddings are multiplied by {gain:.4g}{root}: do so in one place only", gain)


def decoding(case: Case) -> Finding:
    """Check that a token alone gets the row of its position."""
    table, last = case.table, len(case.first) - 1
    if table.told_by == "length":
        alone = "each new token of a cache gets row 0" if table.adds else "rows are those of 0 .. t-1"
        return note(f"takes neither positions nor an offset: {alone}; pass the position")
    off = max(far(table(place, 1)[0].double(), case.first[place]) for place in (0, 1, last))
    if off < 1e-4:
        return ok("a token alone gets the row of its position", off)
    return wrong(f"a token alone at its position gets another row than among others (off by {off:.2g})", off)


def rounding(case: Case) -> Finding:
    """Look at the rows of a module in bfloat16."""
    if case.code.module is None:
        return unchecked("no torch module, so there is nothing to cast")
    coarse = Table(case.code.cast(torch.bfloat16))(0, len(case.first), torch.bfloat16).double()
    off = float((coarse - case.first).abs().max() / case.first.abs().max())
    if off <= 0.03:
        return ok(f"in bfloat16 within {off:.1g} of float32: rounded once", off)
    twins = (coarse[1:] == coarse[:-1]).all(-1).nonzero().flatten().tolist()
    same = f"; positions {twins[0]} and {twins[0] + 1} get the same row" if twins else ""
    return wrong(
        f"in bfloat16 rows are off by {off:.2g}{same}: positions or frequencies are rounded before the sine. "
        "Compute the table in float32 and round it once",
        off,
    )


def limit(case: Case) -> Finding:
    """Find the first length that raises or repeats a row."""
    good, top, last = 1, 2**16, time.monotonic() + 1
    while good < top and time.monotonic() < last:
        pair, failed = attempt(case.table, 2 * good - 2, 2)
        where = f"ends between lengths {good:,} and {2 * good:,}"
        if failed:
            return note(f"{where}: {failed}", good)
        if len(pair) < 2 or torch.equal(pair[0], pair[1]):
            return wrong(f"{where}: rows repeat or are missing, without a word", good)
        good *= 2
    return ok(f"none up to length {good:,}", good)


def odd_width(case: Case) -> Finding:
    """Ask for a table of an odd width."""
    code, odd = case.code, case.dim + 1
    if code.module is not None and not isinstance(code.source, type):
        return unchecked("needs the class, to build it with an odd width")
    made, failed = attempt(lambda: Table(code.fresh(dim=odd))(0, 5))
    if failed.startswith("ValueError"):
        return ok(f"refused in words: {failed}")
    if not failed and made.shape[-1] == odd:
        return ok(f"a width of {odd} works")
    why = failed or f"the table is {made.shape[-1]} wide"
    return note(
        f"an odd width ({odd}) crashes or does not fit: {why}. "
        "Give cosines one channel fewer, cos(...)[..., : dim // 2], or refuse it in words"
    )
