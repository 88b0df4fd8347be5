"""Examine a position table, or a module that adds one to embeddings (b, t, d)."""

import time
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.checkup.patient import Patient, attempt, far, random
from posenc.checkup.report import Finding, findings
from posenc.checkup.waves import speeds_of_table

ROWS = 300


class Rows:
    """The table as a function of positions, whatever the code takes: rows (t, d)."""

    def __init__(self, patient: Patient, dim: int) -> None:
        self.patient, self.dim = patient, dim
        self.adds = patient.takes("x")
        reach = [role for role in ("positions", "offset", "length") if patient.takes(role)]
        self.reach = reach[0] if reach else "length"

    def __call__(self, start: int, t: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return rows start .. start+t-1; those before `start` are computed too where there is no other way."""
        places = torch.arange(start, start + t)
        if self.reach == "length":
            given, first = {"length": start + t}, start
        else:
            given, first = {"positions": places} if self.reach == "positions" else {"offset": start, "length": t}, 0
        if self.adds:
            made = self.add(torch.zeros(1, t + first, self.dim, dtype=dtype), **given)
        else:
            made = self.patient(**given)
        return made.reshape(-1, made.shape[-1])[first : first + t]

    def add(self, x: Tensor, **given: object) -> Tensor:
        """Return the code's result for embeddings (b, t, d)."""
        swap = self.patient.order == "tbd"
        given = {} if self.reach == "length" else given
        result = self.patient(x=x.transpose(0, 1) if swap else x, **given)
        if not isinstance(result, Tensor):
            return result
        if result.ndim < 3 or len(result) == 1 < len(x):  # the table alone
            return x + result
        return result.transpose(0, 1) if swap else result


class Case(NamedTuple):
    """What the checks share: the table as a function, its first rows in float64, the width."""

    rows: Rows
    first: Tensor
    dim: int


def accepts(patient: Patient, dim: int, heads: int) -> bool:
    """Tell whether the code can be called as a table: rows of `dim` channels, or embeddings with something added."""
    rows = Rows(patient, dim)
    if rows.adds:
        y = rows.add(torch.zeros(3, 5, dim), positions=torch.arange(5))
        return isinstance(y, Tensor) and y.ndim == 3 and y.shape[:2] == (3, 5)
    y = rows(0, 5)
    return isinstance(y, Tensor) and tuple(y.shape) == (5, dim)


def examine(patient: Patient, dim: int, heads: int) -> list[Finding]:
    """Return the findings on a table of width `dim`."""
    rows = Rows(patient, dim)
    found = [repeatable(rows)]
    if rows.adds and found[0].verdict == "ok":
        found.append(axis(rows))
    if found[-1].verdict == "wrong":
        return [*found, Finding("everything else", "not checked", "repair that first, then ask again")]
    length = next(n for n in (ROWS, 128, 64, 16, 5) if not attempt(rows, 0, n)[1])
    case = Case(rows, rows(0, length).detach().double(), dim)
    if case.first.shape[-1] > dim and rows.adds:
        words = f"the result is {case.first.shape[-1]} wide for embeddings of {dim}: the table is appended, not added"
        return [*found, Finding("sum", "note", words)]
    found += [distinct(case)]
    if found[-1].verdict == "ok":
        found += speeds_of_table(case.first)
    return found + findings((content, decoding, rounding, limit, odd_width), case)


def axis(rows: Rows) -> Finding:
    """Check that what is added varies along the tokens and not along the batch."""
    x = torch.zeros(3, 5, rows.dim)
    y = rows.add(x, positions=torch.arange(5))
    along_batch, along_tokens = float((y - y[:1]).abs().max()), float((y - y[:, :1]).abs().max())
    if along_batch > 1e-6 and along_tokens < 1e-6:
        return Finding(
            "axis",
            "wrong",
            "each text of a batch gets one row, the same for all of its tokens: the table is "
            "added along the batch. It takes (t, b, d) and was given (b, t, d): transpose, or add "
            "table[: x.shape[1]] (if (t, b, d) is what you mean, say order='tbd')",
            along_batch,
        )
    if along_batch > 1e-6:
        return Finding("axis", "wrong", "texts of a batch get different rows for the same positions", along_batch)
    return Finding("axis", "ok", "the table runs along the tokens, the same for each text", along_tokens)


def distinct(case: Case) -> Finding:
    """Check that no two rows are alike."""
    table = case.first
    same = float((table - table[:1]).abs().max())
    if same < 1e-6:
        return Finding(
            "rows",
            "wrong",
            "all rows are alike: every angle is 0. An integer division in the exponent or of the position?",
            same,
        )
    gap = torch.cdist(table, table) + 1e9 * torch.eye(len(table), dtype=torch.float64)
    nearest, at = gap.flatten().min(0)
    i, j = divmod(int(at), len(table))
    if (
        torch.allclose(table[abs(i - j) :], table[: len(table) - abs(i - j)], atol=1e-6)
        and nearest < 1e-6
        and abs(i - j) > 1
    ):
        words = f"rows repeat every {abs(i - j)} positions: right only where positions are fractions of that"
        return Finding("rows", "note", words, abs(i - j))
    if nearest < 1e-6:
        return Finding("rows", "wrong", f"positions {min(i, j)} and {max(i, j)} have the same row", float(nearest))
    return Finding("rows", "ok", f"all rows differ, the nearest two by {float(nearest):.2g}", float(nearest))


def content(case: Case) -> Finding | None:
    """Check what happens to the embeddings: kept, scaled, or overwritten."""
    if not case.rows.adds:
        return None
    x = random(2, 5, case.dim, seed=1)
    kept = x.clone()
    y = case.rows.add(x, positions=torch.arange(5))
    if not torch.equal(x, kept):
        return Finding(
            "content",
            "wrong",
            "the embeddings are written to in place (x += ...): whoever holds them sees "
            "positions added twice. Return x + table",
            far(x, kept),
        )
    added = y - case.rows.add(torch.zeros_like(x), positions=torch.arange(5))
    gain = float((added * kept).sum() / (kept * kept).sum())
    if far(added, gain * kept) > 1e-3:
        return Finding("content", "note", "embeddings do not come through unchanged (a norm, a projection?)", gain)
    if abs(gain - 1) < 1e-3:
        return Finding("content", "ok", "embeddings come through as they are", gain)
    root = " (the square root of the width, as in the paper)" if abs(gain / case.dim**0.5 - 1) < 1e-3 else ""
    return Finding("content", "note", f"embeddings are multiplied by {gain:.4g}{root}: do so in one place only", gain)


def decoding(case: Case) -> Finding:
    """Check that a token alone gets the row of its position."""
    if case.rows.reach == "length":
        alone = "each new token of a cache gets row 0" if case.rows.adds else "rows are those of 0 .. t-1"
        return Finding("decoding", "note", f"takes neither positions nor an offset: {alone}; pass the position")
    off = max(far(case.rows(place, 1)[0].double(), case.first[place]) for place in (0, 1, len(case.first) - 1))
    if off < 1e-4:
        return Finding("decoding", "ok", "a token alone gets the row of its position", off)
    return Finding(
        "decoding", "wrong", f"a token alone at its position gets another row than among others (off by {off:.2g})", off
    )


def rounding(case: Case) -> Finding:
    """Look at the rows of a module in bfloat16."""
    if case.rows.patient.module is None:
        return Finding("rounding", "not checked", "no torch module, so there is nothing to cast")
    coarse = Rows(case.rows.patient.cast(torch.bfloat16), case.dim)(0, len(case.first), torch.bfloat16).double()
    off = float((coarse - case.first).abs().max() / case.first.abs().max())
    if off > 0.03:
        twins = (coarse[1:] == coarse[:-1]).all(-1).nonzero().flatten().tolist()
        same = f"; positions {twins[0]} and {twins[0] + 1} get the same row" if twins else ""
        return Finding(
            "rounding",
            "wrong",
            f"in bfloat16 rows are off by {off:.2g}{same}: positions or frequencies are "
            "rounded before the sine. Compute the table in float32 and round it once",
            off,
        )
    return Finding("rounding", "ok", f"in bfloat16 within {off:.1g} of float32: rounded once", off)


def limit(case: Case) -> Finding:
    """Find the first length that raises or repeats a row."""
    good, top, last = 1, 2**16, time.monotonic() + 1
    while good < top and time.monotonic() < last:
        rows, failed = attempt(case.rows, 2 * good - 2, 2)
        if failed or len(rows) < 2 or torch.equal(rows[0], rows[1]):
            why = failed or "rows repeat or are missing, without a word"
            verdict = "note" if failed else "wrong"
            return Finding("limit", verdict, f"ends between lengths {good:,} and {2 * good:,}: {why}", good)
        good *= 2
    return Finding("limit", "ok", f"none up to length {good:,}", good)


def odd_width(case: Case) -> Finding:
    """Ask for a table of an odd width."""
    patient, odd = case.rows.patient, case.dim + 1
    rows, failed = attempt(lambda: Rows(patient.fresh({"dim": odd}), odd)(0, 5))
    if patient.module is not None and not isinstance(patient.source, type):
        return Finding("odd width", "not checked", "needs the class, to build it with an odd width")
    if failed.startswith("ValueError"):
        return Finding("odd width", "ok", f"refused in words: {failed}")
    if failed or rows.shape[-1] != odd:
        said = failed or f"the table is {rows.shape[-1]} wide"
        return Finding(
            "odd width",
            "note",
            f"an odd width ({odd}) crashes or does not fit: {said}. Give cosines one channel "
            "fewer, cos(...)[..., : dim // 2], or refuse it in words",
        )
    return Finding("odd width", "ok", f"a width of {odd} works")


def repeatable(rows: Rows) -> Finding:
    """Check that two calls agree, so that dropout rests."""
    off = far(rows(0, 5), rows(0, 5))
    if off:
        return Finding("repeatable", "wrong", "two calls of the same differ: dropout stays on in eval mode?", off)
    return Finding("repeatable", "ok", "two calls of the same agree", 0.0)
