"""Examine a position table, or a module that adds one to embeddings (b, t, d)."""

import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import Code
from posenc.doctor.call.declared import rebuilt_with
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, run_checks, with_check_name, wrong
from posenc.doctor.table import batches, grid, usage
from posenc.doctor.table.rounding import check_rounding, half_input, held
from posenc.doctor.table.row_distance import ALIKE, alike, straight, twins
from posenc.doctor.table.rows import CODEBOOKS, B, T, Table
from posenc.doctor.table.sinusoids import check_sinusoids

LENGTHS = (300, 128, 64, 16, 5)
QUICK = 0.1  # seconds


class Case(NamedTuple):
    """What the checks share: the code and its width, the table that it is, the first rows (t, d) of it in float64."""

    code: Code
    dim: int
    table: Table
    first: Tensor


def accepts(code: Code) -> bool:
    """Tell whether the code can be called as a table: rows of `dim` channels, or embeddings with something added."""
    fits, failed = attempt(_accepts, code)
    if not failed and fits is not False:
        return bool(fits)
    return grid.accepts(code) or (bool(_accepts(code)) if failed else False)


def _accepts(code: Code) -> bool | None:
    table = Table(code)
    if table.adds:
        return _adds(table)
    if code.needs("x") and not table.places:
        code(x=table.zeros(), positions=torch.arange(T))  # may raise an error of its own
        return False
    y = table(T)
    return tuple(y.shape) == (T, code.dim) and y.is_floating_point()


def _adds(table: Table) -> bool | None:
    """Tell whether rows are added to embeddings, and nothing else is done to them; None for plain angles."""
    y = table.add(table.zeros(), positions=torch.arange(T))
    if any(straight(rows) and not rows[0].any() for rows in (y, y.transpose(0, 1))):
        return None
    if y.shape[1] == 1:
        return not alike(y)  # a row for each text; what is the same for all is no table
    return table.of_ids or not _mixes_tokens(table)


def _mixes_tokens(table: Table) -> bool:
    """Tell whether what a token gets depends on the others."""
    x, other = random(B, T, table.dim, seed=1), random(B, T, table.dim, seed=2)
    other[-1, -1] = x[-1, -1]
    one, same, two = (table.add(part.clone(), positions=torch.arange(T))[-1, -1] for part in (x, x, other))
    return relative_difference(one, two) > 1e-5 > relative_difference(one, same)


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a table of width `dim`, and what was examined."""
    if not attempt(_accepts, code)[0]:
        return grid.examine(code)
    table = Table(code)
    about = {"axes": "(t, b, d)" if code.call.order == "tbd" else "(b, t, d)"} if table.adds else {}
    found = []
    for check in (repeatable, axis):
        found += run_checks((check,), table)
        if found[-1].verdict == "wrong":
            return [*found, with_check_name(not_checked("repair that first, then ask again"), "everything else")], about
    length = next(length for length in LENGTHS if _bears(table, length))
    case = Case(code, code.dim, table, table(length).detach().double())
    if table.adds and (width := case.first.shape[-1]) > code.dim:
        words = f"the result is {width} wide for embeddings of {code.dim}: the table is appended, not added"
        return [*found, with_check_name(note(words), "sum")], about
    found += run_checks((check_rows,), case)
    if found[-1].verdict == "ok":
        found += run_checks((held,), case) or _of_waves(case, about)
    checks = (content, *batches.CHECKS, *usage.CHECKS, base, half_input, check_rounding, usage.limit, usage.odd_width)
    return found + run_checks(checks, case), about


def _bears(table: Table, length: int) -> bool:
    """Tell whether the table has so many rows, and gives them in no time."""
    begun = time.thread_time()
    _, failed = attempt(table, length)
    return not failed and (time.thread_time() - begun < QUICK or length < 20)


def _of_waves(case: Case, about: dict[str, Any]) -> list[Finding]:
    found, read = check_sinusoids(case.first, case.code)
    about |= read
    return [with_check_name(finding, finding.check) for finding in found]


def repeatable(table: Table) -> Finding:
    """Check that two calls agree, so that dropout rests."""
    off = relative_difference(table(T), table(T))
    if off:
        return wrong("dropout-on", "two calls of the same differ: dropout stays on in eval mode?", off)
    return passed("two calls of the same agree", 0.0)


def axis(table: Table) -> Finding | None:
    """Check that what is added varies along the tokens and not along the batch, with positions and without."""
    if not table.adds:
        return None
    told = _axis(table, {"positions": torch.arange(T)})
    untold, failed = attempt(_axis, table, {})
    return told if failed or told.verdict == "wrong" else untold


def _axis(table: Table, given: dict[str, Tensor]) -> Finding:
    y = table.add(table.zeros(), **given)
    if y.shape[:2] == (T, B):
        return wrong("batch-axis", "for embeddings (b, t, d) rows come back as (t, b, d): the axes are exchanged")
    if y.shape[1] == 1:
        words = "for embeddings (b, t, d) a row for each text comes back, not one for each token: cut by the batch"
        return wrong("batch-axis", f"{words}. Take table[: x.shape[1]] (for (t, b, d) say order='tbd')")
    if y.shape[1] != T:
        return wrong("batch-axis", f"for {CODEBOOKS} codebooks of {T} tokens {y.shape[1]} rows come back, not {T}")
    if alike(y):
        return passed("the table runs along the tokens, the same for each text", float((y - y[:, :1]).abs().max()))
    if not alike(y.transpose(0, 1)):
        return wrong("rows-mixed", "texts of a batch get different rows for the same positions")
    return wrong(
        "batch-axis",
        "each text of a batch gets one row, the same for all of its tokens: the table is added along the batch. "
        "It takes (t, b, d) and was given (b, t, d): transpose, or add table[: x.shape[1]] "
        "(if (t, b, d) is what you mean, say order='tbd')",
    )


def check_rows(case: Case) -> Finding:
    """Check that no two rows are alike."""
    if alike(case.first):
        words = "all rows are alike: every angle is 0. An integer division in the exponent or of the position?"
        return wrong("rows-alike", words)
    nearest, first, second = twins(case.first)
    if nearest >= ALIKE:
        return passed(f"all rows differ, the nearest two by {nearest:.2g}", nearest)
    return _of_twins(case, first, second)


def _of_twins(case: Case, first: int, second: int) -> Finding:
    """Say why two positions share a row."""
    table, period = case.first, second - first
    at = torch.arange(len(table))
    repeats = relative_difference(table[at % period], table) < ALIKE
    if repeats and not case.code.learned_parameters:
        return note(f"rows repeat every {period} positions: right only where positions are fractions of that", period)
    block = int(((table - table[:1]).abs().amax(1) > ALIKE).int().argmax())  # the first row that is not as row 0
    if repeats or (block > 1 and relative_difference(table[at // block * block], table) < ALIKE):
        words = f"rows repeat every {period} positions" if repeats else f"rows change every {block} positions only"
        return wrong("axis-lost", f"{words}: of a grid one axis is lost, or positions are divided by its side", block)
    words = f"positions {first} and {second} have the same row"
    if first >= 256 and period == 1:
        words = f"{words}, and those before differ: positions are counted in bfloat16. Count them in float32"
        return wrong("positions-rounded", words, first)
    return wrong("rows-alike", words, 0.0)


def base(case: Case) -> Finding | None:
    """Ask for another base, and see whether the rows follow."""
    code = rebuilt_with(case.code, "base", 500)
    if code is None:
        return None
    if relative_difference(case.table.of(code)(len(case.first)), case.first) < ALIKE:
        return wrong("base-ignored", "asked for base 500, it gives the same rows: the base does not arrive", 500.0)
    return passed("asked for base 500, it gives other rows")


def content(case: Case) -> Finding | None:
    """Check what happens to the embeddings: kept, scaled, or overwritten."""
    if not case.table.adds or case.table.of_ids:
        return None
    x = random(B, T, case.dim, seed=1)
    kept = x.clone()
    y = case.table.add(x, positions=torch.arange(T))
    if not torch.equal(x, kept):
        return wrong(
            "in-place",
            "the embeddings are written to in place (x += ...): whoever holds them sees positions added twice. "
            "Return x + table",
            relative_difference(x, kept),
        )
    if case.table.alone:
        return _of_gain(case, 0.0)
    through = y - case.table.add(torch.zeros_like(x), positions=torch.arange(T))
    gain = float((through * kept).sum() / (kept * kept).sum())
    if relative_difference(through, gain * kept) > 1e-3:
        return note("embeddings do not come through unchanged (a norm, a projection?)", gain)
    return _of_gain(case, gain)


def _of_gain(case: Case, gain: float) -> Finding:
    if abs(gain - 1) < 1e-3:
        return passed("embeddings come through as they are", gain)
    if abs(gain) < 1e-3:
        return note("embeddings do not come through: the result is the table alone, to be added by the caller", gain)
    for power, cause in ((1.0, "the width"), (-0.5, "1 over the root of the width"), (-1.0, "1 over the width")):
        if abs(gain / case.dim**power - 1) < 1e-3:
            words = f"embeddings are multiplied by {gain:.4g}, {cause}: the paper multiplies by its square root, once"
            return wrong("scale-twice", words, gain)
    root = " (the square root of the width, as in the paper)" if abs(gain / case.dim**0.5 - 1) < 1e-3 else ""
    return note(f"embeddings are multiplied by {gain:.4g}{root}: do so in one place only", gain)
