"""Examine a position table, or a module that adds one to embeddings (b, t, d); or the table of a picture or volume."""

from typing import Any

from posenc.doctor.call.code import Code
from posenc.doctor.report import Finding, run_checks, stopped
from posenc.doctor.safe_call import attempt
from posenc.doctor.table import grid, precision, usage
from posenc.doctor.table.measure import Table, is_table, measure_table
from posenc.doctor.table.sinusoids import examine_sinusoids

CHECKS = (*usage.CHECKS, *precision.CHECKS, usage.limit)  # whose calls may take long


def accepts(code: Code) -> bool:
    """Return whether the code can be called as a table; raises the error of the code where no call works."""
    fits, failed = attempt(lambda: is_table(Table(code)))
    if fits or grid.accepts(code):
        return True
    # The error of the usual call says more than those of the many calls for grids.
    return bool(failed) and is_table(Table(code))


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a table, and what was examined."""
    table = Table(code)
    if not attempt(is_table, table)[0]:
        return grid.examine(code)
    record = measure_table(table)
    examined = {"axes": "(t, b, d)" if code.call.order == "tbd" else "(b, t, d)"} if table.takes_input else {}
    findings: list[Finding] = []
    for check in usage.FIRST_CHECKS:
        findings += run_checks((check,), record)
        if findings[-1].is_wrong:
            return stopped(findings), examined
    # Rows of a table that is appended begin with the embeddings, so that no sines can be read off them.
    if findings[-1].check == "sum":
        return findings, examined
    findings += run_checks((usage.check_rows,), record)
    if findings[-1].verdict == "ok":
        rounded = run_checks((precision.held,), record)
        # Numbers that were rounded are no exact sines.
        sinusoids, waves = ([], {}) if rounded else examine_sinusoids(record.rows, code)
        findings += [*rounded, *sinusoids]
        examined |= waves
    return findings + run_checks(CHECKS, record), examined
