"""Examine a bias on the logits, or the slopes of one: its sign, what it depends on, ALiBi's slopes, decoding, dtype."""

from typing import Any

import torch
from torch import Tensor

from posenc.doctor.bias import buckets, measure, offsets, usage, window
from posenc.doctor.bias.measure import Bias, BiasRecord
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import not_finite
from posenc.doctor.report import Finding, run_checks, stopped, with_check_name
from posenc.doctor.safe_call import attempt

OF_FIXED_SIZE = (offsets.offsets, *window.CHECKS, usage.factor, usage.queries)
OF_IDS = (offsets.offsets, offsets.ahead, buckets.widen, *usage.CHECKS)
CHECKS = (offsets.offsets, offsets.sign, offsets.slopes, offsets.ahead, buckets.widen, *usage.CHECKS)


def accepts(code: Code) -> bool:
    """Tell whether the code can be called as a bias or as slopes."""
    if window.page_of(code):
        return True
    bias = Bias(code)
    if bias.position_argument == "heads":
        slopes = code()
        return isinstance(slopes, Tensor) and slopes.numel() == code.heads
    # Where both are passed, fewer queries than keys tell the two axes of the result apart.
    t = 5 if bias.position_argument == "q" else 6
    numbers, _ = attempt(bias, torch.arange(t), torch.arange(6))
    if measure.has_shape(numbers, t, 6):
        return not measure.depends_on_content(bias)
    if bias.position_argument in measure.MAY_HAVE_FIXED_SIZE:
        _, t, s = bias.of_fixed_size().shape
        return t == s and t > 1
    bias(torch.arange(t), torch.arange(6))  # raises why it cannot be called
    return False


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a bias, or on slopes if the code takes heads only, and what was examined."""
    record = window.page_of(code) or measure.measure_bias(code)
    checks, examined = _plan(record)
    # What is not finite makes every comparison fail, so that nothing else is checked; -inf may hide keys.
    finding = not_finite(record.numbers, "the first call", may_hide_keys=True)
    if finding:
        return stopped([with_check_name(finding, "finite")]), examined
    return run_checks(checks, record), examined


def _plan(record: window.PageRecord | BiasRecord) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the checks for a record, and what is said of it."""
    if isinstance(record, window.PageRecord):
        return window.PAGE_CHECKS, {"size": f"boxes on a page {record.width:g} wide"}
    if record.bias.position_argument == "heads":
        return (offsets.slopes,), {"what": "slopes alone"}
    h, t, s = record.numbers.shape
    examined = {"sizes": f"{h} heads", "size": f"{t} queries by {s} keys"}
    is_mask = record.bias.position_argument == "nothing" and record.hidden.any()
    if is_mask and not record.numbers[~record.hidden].any():
        return (window.parts,), examined | {"what": "a mask"}
    if record.grid:
        examined["grid"] = f"a window of rows of {record.grid.columns}"
    # Offsets in a window have two axes, so no sign and no slope; the other checks need calls of several sizes.
    if record.grid or record.has_fixed_size:
        return OF_FIXED_SIZE, examined
    return OF_IDS if record.bias.returns_ids else CHECKS, examined
