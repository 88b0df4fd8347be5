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

# By what was measured; a check that concerns several stands with each of them.
CHECKS = {
    "boxes": window.CHECKS_OF_BOXES,
    "slopes": (offsets.slopes,),
    "mask": (window.parts,),
    # Offsets in a window have two axes, so no sign and no slope; other checks need calls of several sizes.
    "fixed size": (offsets.offsets, *window.CHECKS, usage.factor, usage.queries),
    "ids": (offsets.offsets, offsets.ahead, buckets.widen, *usage.CHECKS),
    "numbers": (offsets.offsets, offsets.sign, offsets.slopes, offsets.ahead, buckets.widen, *usage.CHECKS),
}


def accepts(code: Code) -> bool:
    """Return whether the code can be called as a bias or as slopes."""
    if window.measure_boxes(code):
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
    record = window.measure_boxes(code) or measure.measure_bias(code)
    what, examined = _measured(record)
    # What is not finite makes every comparison fail, so that nothing else is checked; -inf may hide keys.
    finding = not_finite(record.numbers, "the first call", may_hide_keys=True)
    if finding:
        return stopped([with_check_name(finding, "finite")]), examined
    return run_checks(CHECKS[what], record), examined


def _measured(record: window.BoxesRecord | BiasRecord) -> tuple[str, dict[str, Any]]:
    """Return what was measured, a key of CHECKS, and what is said of it."""
    if isinstance(record, window.BoxesRecord):
        return "boxes", {"size": f"boxes on a page {record.width:g} wide"}
    if record.bias.position_argument == "heads":
        return "slopes", {"what": "slopes alone"}
    h, t, s = record.numbers.shape
    examined = {"sizes": f"{h} heads", "size": f"{t} queries by {s} keys"}
    hides_keys = record.bias.position_argument == "nothing" and record.hidden.any()
    if hides_keys and not record.numbers[~record.hidden].any():
        return "mask", examined | {"what": "a mask"}
    if record.grid:
        examined["grid"] = f"a window of rows of {record.grid.columns}"
    if record.grid or record.has_fixed_size:
        return "fixed size", examined
    return "ids" if record.bias.returns_ids else "numbers", examined
