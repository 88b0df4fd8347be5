"""Examine a position table, or a module that adds one to embeddings (b, t, d); or the table of a picture or volume."""

from typing import Any

from posenc.doctor.call.code import Code
from posenc.doctor.report import EVERYTHING_ELSE, Finding, run_checks
from posenc.doctor.safe_call import attempt
from posenc.doctor.table import grid, precision, usage
from posenc.doctor.table.measure import Table, is_table, measure_table
from posenc.doctor.table.sinusoids import examine_sinusoids
from posenc.doctor.table.usage import check_rows

FIRST_CHECKS = (usage.finite, usage.repeatable, usage.axis, usage.check_sum)
CHECKS = (
    usage.content,
    usage.padding,
    usage.words,
    usage.batch,
    usage.decoding,
    usage.shorter,
    usage.memory,
    usage.base,
    precision.half_input,
    precision.rounding,
    usage.limit,
)


def accepts(code: Code) -> bool:
    """Tell whether the code can be called as a table; raises the error of the code where no call works."""
    fits, failed = attempt(lambda: is_table(Table(code)))
    if fits or grid.accepts(code):
        return True
    return bool(failed) and is_table(Table(code))


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a table, and what was examined."""
    table = Table(code)
    if not attempt(is_table, table)[0]:
        return grid.examine(code)
    record = measure_table(table)
    examined = {"axes": "(t, b, d)" if code.call.order == "tbd" else "(b, t, d)"} if table.takes_input else {}
    findings = usage.run_until_wrong(FIRST_CHECKS, record)
    if findings[-1].check in (EVERYTHING_ELSE, "sum"):
        return findings, examined
    findings += run_checks((check_rows,), record)
    if findings[-1].verdict == "ok":
        rounded = run_checks((precision.held,), record)
        # Numbers that were rounded are no exact sines.
        sinusoids, waves = ([], {}) if rounded else examine_sinusoids(record.rows, code)
        findings += [*rounded, *sinusoids]
        examined |= waves
    return findings + run_checks(CHECKS, record), examined
