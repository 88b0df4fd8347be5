"""Examine a bias on the logits, or the slopes of one: its sign, what it depends on, ALiBi's slopes, decoding, dtype."""

from typing import Any

import torch
from torch import Tensor

from posenc.doctor.bias import buckets, offsets, usage, window
from posenc.doctor.bias.measure import (
    MAY_HAVE_FIXED_SIZE,
    Bias,
    BiasRecord,
    depends_on_content,
    has_shape,
    measure_bias,
)
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
    t = 5 if bias.position_argument == "q" else 6
    numbers, _ = attempt(bias, torch.arange(t), torch.arange(6))
    if has_shape(numbers, t, 6):
        return not depends_on_content(bias)
    if bias.position_argument in MAY_HAVE_FIXED_SIZE:
        _, t, s = bias.of_fixed_size().shape
        return t == s and t > 1
    bias(torch.arange(t), torch.arange(6))  # raises why it cannot be called
    return False


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a bias, or on slopes if the code takes heads only, and what was examined."""
    page = window.page_of(code)
    if page:
        return _findings(window.PAGE_CHECKS, page), {"size": f"boxes on a page {page.width:g} wide"}
    record = measure_bias(code)
    if record.bias.position_argument == "heads":
        return _findings((offsets.slopes,), record), {"what": "slopes alone"}
    h, t, s = record.numbers.shape
    examined = {"sizes": f"{h} heads", "size": f"{t} queries by {s} keys"}
    if record.is_mask:
        return _findings((window.parts,), record), examined | {"what": "a mask"}
    if record.grid:
        examined["grid"] = f"a window of rows of {record.grid.columns}"
    if record.grid or record.has_fixed_size:
        return _findings(OF_FIXED_SIZE, record), examined
    return _findings(OF_IDS if record.bias.returns_ids else CHECKS, record), examined


def _findings(checks: tuple[Any, ...], record: BiasRecord | window.PageRecord) -> list[Finding]:
    """Return the findings of the checks, unless numbers are not finite: then nothing else can be compared."""
    finding = not_finite(record.numbers, "the first call", may_hide_keys=True)
    if finding:
        return stopped([with_check_name(finding, "finite")])
    return run_checks(checks, record)
