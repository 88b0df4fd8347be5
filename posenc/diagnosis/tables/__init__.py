"""Examine a position table, or a module that adds one to embeddings (b, t, d)."""

import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.call import Code
from posenc.diagnosis.calling.told import with_base
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, findings, named, note, ok, unchecked, wrong
from posenc.diagnosis.tables import grid, texts, usage
from posenc.diagnosis.tables.rounding import half_input, held, rounding
from posenc.diagnosis.tables.rows import CODEBOOKS, Table
from posenc.diagnosis.tables.sinusoids import sinusoids

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
    if not table.adds:
        if code.needs("x") and not table.places[1]:
            code(x=torch.zeros(3, 5, code.dim), positions=torch.arange(5))  # may raise an error of its own
            return False
        y = table(0, 5)
        return isinstance(y, Tensor) and tuple(y.shape) == (5, code.dim) and y.is_floating_point()
    y = table.add(torch.zeros(3, 5, code.dim), positions=torch.arange(5))
    first = (y[:, 0] if y.shape[1] == 1 else y[0])[:3].double()
    if len(first) > 2 and not first[0].any() and far(first[2], 2 * first[1]) < 1e-4:
        return None  # plain angles, for a rotation
    if y.shape[1] == 1:
        return bool((y - y[:1]).any())  # a row for each text; what is alike for all is no table
    return table.of_ids or not _more_than_a_table(table, y)


def _more_than_a_table(table: Table, y: Tensor) -> bool:
    """Tell whether the code does more to embeddings than to add to them: 0 stays 0, or a token changes the others."""
    x = random(3, 5, table.dim, seed=1)
    if not y.any() and far(table.add(x.clone(), positions=torch.arange(5)), x) > 1e-6:
        return True
    other = torch.cat((x[:, :1] + 1, x[:, 1:]), 1)
    if y.shape[:2] != (3, 5):
        return False
    one, same, two = (table.add(part.clone(), positions=torch.arange(5))[:, 1:] for part in (x, x, other))
    return far(one, two) > 1e-5 > far(one, same)


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a table of width `dim`, and what was examined."""
    if not attempt(_accepts, code)[0]:
        return grid.examine(code)
    table = Table(code)
    about = {"axes": "(t, b, d)" if code.way.order == "tbd" else "(b, t, d)"} if table.adds else {}
    found = findings((repeatable,), table)
    if table.adds and found[0].verdict == "ok":
        found += findings((axis,), table)
    if found[-1].verdict == "wrong":
        rest = named(unchecked("repair that first, then ask again"), "everything else")
        return [*found, rest], about
    length = next(length for length in LENGTHS if _bears(table, length))
    case = Case(code, code.dim, table, table(0, length).detach().double())
    if table.adds and (width := case.first.shape[-1]) > code.dim:
        words = f"the result is {width} wide for embeddings of {code.dim}: the table is appended, not added"
        return [*found, named(note(words), "sum")], about
    found += findings((rows,), case)
    if found[-1].verdict == "ok":
        coarse = findings((held,), case)
        found += coarse or (_of_waves(case, about) if case.first.shape[1] > 1 else [])
    checks = (content, *texts.CHECKS, *usage.CHECKS, base, half_input, rounding, usage.limit, usage.odd_width)
    return found + findings(checks, case), about


def _bears(table: Table, length: int) -> bool:
    """Tell whether the table has so many rows, and gives them in no time."""
    begun = time.thread_time()
    _, failed = attempt(table, 0, length)
    return not failed and (time.thread_time() - begun < QUICK or length < 20)


def _of_waves(case: Case, about: dict[str, Any]) -> list[Finding]:
    found, read = sinusoids(case.first, case.code)
    about |= read
    return [named(finding, finding.check) for finding in found]


def repeatable(table: Table) -> Finding:
    """Check that two calls agree, so that dropout rests."""
    off = far(table(0, 5), table(0, 5))
    if off:
        return wrong("dropout-on", "two calls of the same differ: dropout stays on in eval mode?", off)
    return ok("two calls of the same agree", 0.0)


def axis(table: Table) -> Finding:
    """Check that what is added varies along the tokens and not along the batch, with positions and without."""
    found = _axis(table, {"positions": torch.arange(5)})
    if found.verdict != "ok" or table.code.needs("positions") or "positions" not in table.told:
        return found
    other, failed = attempt(_axis, table, {})
    return found if failed or other.verdict == "ok" else other


def _axis(table: Table, given: dict[str, Tensor]) -> Finding:
    y = table.add(torch.zeros(3, 5, table.dim), **given)
    if y.shape[:2] == (5, 3):
        return wrong("batch-axis", "for embeddings (b, t, d) rows come back as (t, b, d): the axes are exchanged")
    if y.shape[1] == 1:
        words = "for embeddings (b, t, d) a row for each text comes back, not one for each token: cut by the batch"
        return wrong("batch-axis", f"{words}. Take table[: x.shape[1]] (for (t, b, d) say order='tbd')")
    if y.shape[1] != 5:
        return wrong("batch-axis", f"for {CODEBOOKS} codebooks of 5 tokens {y.shape[1]} rows come back, not 5")
    along_batch, along_tokens = float((y - y[:1]).abs().max()), float((y - y[:, :1]).abs().max())
    if along_batch <= 1e-6:
        return ok("the table runs along the tokens, the same for each text", along_tokens)
    if along_tokens >= 1e-6:
        return wrong("rows-mixed", "texts of a batch get different rows for the same positions", along_batch)
    return wrong(
        "batch-axis",
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
        words = "all rows are alike: every angle is 0. An integer division in the exponent or of the position?"
        return wrong("rows-alike", words, same)
    gap = torch.cdist(table, table) + 1e9 * torch.eye(len(table), dtype=torch.float64)
    nearest = float(gap.min())
    if nearest >= 1e-6:
        return ok(f"all rows differ, the nearest two by {nearest:.2g}", nearest)
    return _of_twins(case, *sorted(divmod(int(gap.argmin()), len(table))))


def _of_twins(case: Case, first: int, second: int) -> Finding:
    """Say why two positions share a row."""
    table, period = case.first, second - first
    repeats = period > 1 and torch.allclose(table[period:], table[:-period], atol=1e-6)
    if repeats and not case.code.learned:
        return note(f"rows repeat every {period} positions: right only where positions are fractions of that", period)
    new = [0, *((table[1:] - table[:-1]).abs().amax(1) > 1e-6).nonzero().flatten().add(1).tolist()]
    block = new[1] if len(new) > 1 else 1
    if repeats or (block > 1 and new == [*range(0, len(table), block)]):
        words = f"rows repeat every {period} positions" if repeats else f"rows change every {block} positions only"
        return wrong("axis-lost", f"{words}: of a grid one axis is lost, or positions are divided by its side", block)
    words = f"positions {first} and {second} have the same row"
    if first >= 256 and period == 1:
        words = f"{words}, and those before differ: positions are counted in bfloat16. Count them in float32"
        return wrong("positions-rounded", words, first)
    return wrong("rows-alike", words, 0.0)


def base(case: Case) -> Finding | None:
    """Ask for another base, and see whether the rows follow."""
    code = with_base(case.code, 500.0)
    if code is None:
        return None
    if far(case.table.of(code)(0, len(case.first)), case.first) < 1e-6:
        return wrong("base-ignored", "asked for base 500, it gives the same rows: the base does not arrive", 500.0)
    return ok("asked for base 500, it gives other rows")


def content(case: Case) -> Finding | None:
    """Check what happens to the embeddings: kept, scaled, or overwritten."""
    if not case.table.adds or case.table.of_ids:
        return None
    x = random(2, 5, case.dim, seed=1)
    kept = x.clone()
    y = case.table.add(x, positions=torch.arange(5))
    if not torch.equal(x, kept):
        return wrong(
            "in-place",
            "the embeddings are written to in place (x += ...): whoever holds them sees positions added twice. "
            "Return x + table",
            far(x, kept),
        )
    if case.table.alone:
        return note("embeddings do not come through: the result is the table alone, to be added by the caller", 0.0)
    through = y - case.table.add(torch.zeros_like(x), positions=torch.arange(5))
    gain = float((through * kept).sum() / (kept * kept).sum())
    if far(through, gain * kept) > 1e-3:
        return note("embeddings do not come through unchanged (a norm, a projection?)", gain)
    return _of_gain(case, gain)


def _of_gain(case: Case, gain: float) -> Finding:
    if abs(gain - 1) < 1e-3:
        return ok("embeddings come through as they are", gain)
    if abs(gain) < 1e-3:
        return note("embeddings do not come through: the result is the table alone, to be added by the caller", gain)
    for power, cause in ((1.0, "the width"), (-0.5, "1 over the root of the width"), (-1.0, "1 over the width")):
        if abs(gain / case.dim**power - 1) < 1e-3 and case.dim > 1:
            words = f"embeddings are multiplied by {gain:.4g}, {cause}: the paper multiplies by its square root, once"
            return wrong("scale-twice", words, gain)
    root = " (the square root of the width, as in the paper)" if abs(gain / case.dim**0.5 - 1) < 1e-3 else ""
    return note(f"embeddings are multiplied by {gain:.4g}{root}: do so in one place only", gain)
