"""Examine a bias on the logits, or the slopes of one: its sign, what it depends on, ALiBi's slopes, decoding, dtype."""

import re
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.bias import boxes, buckets, usage, window
from posenc.doctor.bias.bias_matrix import Case, even, filled, hides, level, linear, unevenness
from posenc.doctor.bias.call_bias import Bias, is_square, names_of, numbers
from posenc.doctor.bias.slopes import compared_with_alibi
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, note, passed, run_checks, wrong

SIZES = (24, 16, 12, 8, 6)
FLAT = 1e-9
FIXED = ("nothing", "window", "x")  # what may be of one size only


def accepts(code: Code) -> bool:
    """Tell whether the code can be called as a bias or as slopes."""
    if code.takes("boxes") and boxes.page(code):
        return True
    bias = Bias(code)
    if bias.told_by == "heads":
        made = code()
        return isinstance(made, Tensor) and made.numel() == code.heads
    t = 5 if bias.told_by == "q" else 6
    made, _ = attempt(bias, torch.arange(t), torch.arange(6))
    if is_square(made, t, 6):
        return _of_places(code, bias)
    if bias.told_by in FIXED:
        *_, t, s = bias.whole().shape
        return t == s > 1
    bias(torch.arange(t), torch.arange(6))  # raises why it cannot be called
    return False


def _of_places(code: Code, bias: Bias) -> bool:
    """Tell whether numbers for scores or contents are those of places: scores may have them added, not changed."""
    if bias.told_by == "q":
        content = bias.shaped("heads", 6, 6)
        one, other = (numbers(code(q=x, k=x)) for x in (content, content.exp()))
        return torch.equal(one, other)
    return bias.told_by != "x" or bool(bias.form)


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a bias, or on slopes if the code takes heads only, and what was examined."""
    if code.takes("boxes") and (page := boxes.page(code)):
        return run_checks(boxes.CHECKS, page), {"size": f"boxes on a page {page.width:g} wide"}
    bias = Bias(code.fresh())
    if bias.told_by == "heads":
        found = compared_with_alibi(
            lambda n: code.fresh(heads=n)().flatten().double(),
            code.heads,
            True,
            code.heads_requested,
            named_alibi(code),
        )
        return found, {"what": "slopes alone"}
    case = _case(filled(code))
    h, t, s = case.square.shape
    about = {"sizes": f"{h} heads", "size": f"{t} by {s} places"}
    if window.is_mask(case):
        return run_checks((window.parts,), case), about | {"what": "a mask"}
    if grid := window.grid(case.square):
        about |= {"grid": f"a window of rows of {grid.columns}"}
        found = run_checks(window.CHECKS, window.Window(case, grid))
        return found + run_checks((window.shape, usage.factor, usage.queries), case), about
    if case.whole:
        return run_checks((offsets, window.shape, usage.queries), case), about
    of_numbers = () if case.bias.ids else (sign, check_slopes)
    checks = (offsets, *of_numbers, ahead, own_place, *buckets.CHECKS, *usage.CHECKS)
    return run_checks(checks, case), about


def _case(code: Code) -> Case:
    bias = Bias(code.fresh())
    fixed = bias.told_by in FIXED and bool(attempt(Bias(code.fresh()).near, 6)[1])
    return Case(code, bias, bias.whole() if fixed else bias.among(*SIZES), fixed)


def offsets(case: Case) -> Finding:
    """Check that the bias depends on the offset of a key only, up to a constant of each query."""
    if case.silent:
        return note("every number is 0: not trained yet, or no bias at all", 0.0)
    uneven = unevenness(case.square)
    if even(case.square):
        return passed("depends on the offset of query and key only", uneven)
    if not case.level.any():
        words = "every key of a query gets the same number, which softmax does not see: the bias does nothing"
        return wrong("absolute", words, 0.0)
    if even(case.level):
        return note(
            "depends on the offset and on a constant of each query, which softmax does not see "
            "(slope * key, as in BLOOM and MPT)",
            uneven,
        )
    if _sound_unmixed(case.square):
        words = "heads and places are mixed: numbers (t, s, h) were reshaped to (h, t, s). Permute the axes"
        return wrong("heads-mixed", words, uneven)
    return wrong(
        "absolute",
        f"pairs at one offset differ by {uneven:.2g} of the largest: it depends on absolute places. "
        "Make it from key - query",
        uneven,
    )


def _sound_unmixed(square: Tensor) -> bool:
    """Tell whether numbers, or those of keys alone, depend on offsets once they are read with the heads last."""
    h, t, s = square.shape
    pairs = square.reshape(t, s, h).permute(2, 0, 1)
    keys = square.mean(1).reshape(s, h).T[:, None].expand_as(square)
    return h > 1 and any(even(level(other)) or window.grid(other) for other in (pairs, keys))


def sign(case: Case) -> Finding:
    """Check that keys lose weight with distance."""
    steps = torch.where(case.steps.isfinite(), case.steps, 0.0)
    largest = float(steps.max())
    falls, grows = _grows(-steps), _grows(steps)
    if falls == grows:
        return note("neither grows nor falls with distance throughout: learned, or not a decay")
    if falls:
        return passed("the further back a key, the larger its penalty", largest)
    if not linear(steps) and _sign_is_learned(case):
        return note("far keys win so far, by parameters that training can turn: learned")
    return wrong(
        "sign-reversed",
        f"the further back a key, the larger its bonus (+{largest:.3g} a step): the sign is reversed and far keys "
        "win. Add slope * (key - query), which is negative behind, or subtract slope * distance",
        largest,
    )


def _grows(steps: Tensor) -> bool:
    return float(-steps.min()) <= FLAT


def _sign_is_learned(case: Case) -> bool:
    """Tell whether negating one of the parameters makes near keys win in some head."""
    for name in case.code.learned_parameters:
        other = case.code.fresh()
        other.learned_parameters[name].neg_()
        if not _grows(case.again(other).steps):
            return True
    return False


def ahead(case: Case) -> Finding:
    """Say what keys ahead of the query get."""
    hidden = hides(case.square)[:, 0]
    if hidden[:, 2:].all():
        if hidden[:, 1].all():
            return passed("causal: keys ahead get -inf")
        return wrong("mask-off-by-one", "one key ahead of each query is seen, the next ones are not: tril(diagonal=0)")
    if relative_difference(case.level, case.level.mT) < 1e-6:
        return passed("symmetric: keys ahead are treated like keys behind; hide them if the model is causal")
    if not case.level.tril().any():
        return wrong("transposed", "keys behind all get one number and keys ahead differ: query and key are exchanged")
    return note("keys ahead and behind are treated differently: right if that is meant, or where they are hidden")


def own_place(case: Case) -> Finding | None:
    """Check that a mask in the bias leaves each query its own key, and all before it."""
    hidden = hides(case.square)
    if not hidden.any():
        return None
    if hidden.diagonal(dim1=1, dim2=2).any():
        return wrong("mask-off-by-one", "a query does not see its own key: the mask hides one key too many")
    if not hidden.triu().any():
        return wrong("transposed", "the mask hides keys behind and shows those ahead: query and key are exchanged")
    return None


def check_slopes(case: Case) -> Finding | list[Finding]:
    """Read the slopes of a bias that falls linearly and compare them with ALiBi's."""
    if not linear(case.steps):
        return note("not linear in distance, so there are no slopes to compare with ALiBi's")
    code = case.code

    def measured(heads: int) -> Tensor:
        other = case._replace(square=Bias(code.fresh(heads=heads)).among(*SIZES))
        return other.steps.mean(-1).abs()

    of_scores = case.bias.form == "scores" and code.module is None
    any_number = of_scores or code.takes("heads") or isinstance(code.source, type)
    named_so = named_alibi(code) and case.bias.form not in ("heads", "embeddings")  # contents may choose the slopes
    return compared_with_alibi(measured, code.heads, any_number, code.heads_requested, named_so)


def named_alibi(code: Code) -> bool:
    """Tell whether the name of the code says that it is ALiBi's."""
    return re.search("alibi|linear_?bias", names_of(code)) is not None
