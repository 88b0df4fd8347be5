"""Examine a bias on the logits, or the slopes of one: its sign, what it depends on, ALiBi's slopes, decoding, dtype."""

from typing import Any

import torch
from torch import Tensor

from posenc.diagnosis.biases import boxes, buckets, usage, window
from posenc.diagnosis.biases.asking import Bias, is_square, names_of, numbers
from posenc.diagnosis.biases.slopes import compared_with_alibi
from posenc.diagnosis.biases.square import Case, filled, unevenness
from posenc.diagnosis.biases.window import hides
from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.call import Code
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, findings, note, ok, wrong

SIZES = (24, 16, 12, 8, 6)
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
    made, failed = attempt(bias, torch.arange(t), torch.arange(6))
    if not failed and is_square(made, t, 6):
        return _of_places(code, bias)
    if bias.told_by in FIXED:
        made = bias.whole()
        return made.ndim == 3 and made.shape[1] == made.shape[2] > 1
    bias(torch.arange(t), torch.arange(6))  # raises why it cannot be called
    return False


def _of_places(code: Code, bias: Bias) -> bool:
    """Tell whether numbers for scores or contents are those of places: scores may have them added, not changed."""
    if bias.told_by == "q":
        shape = (1, code.heads, 6, code.dim)
        made = [code(q=random(*shape, seed=seed), k=random(*shape, seed=seed)) for seed in (1, 2)]
        one, other = map(numbers, made)
        return torch.equal(one, other)
    return bias.told_by != "x" or bias.form != "scores" or bias.adds(bias.near(size=6).float(), 6)


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a bias, or on slopes if the code takes heads only, and what was examined."""
    if code.takes("boxes") and (page := boxes.page(code)):
        return findings(boxes.CHECKS, page), {"size": f"boxes on a page {page.width:g} wide"}
    bias = Bias(code.fresh())
    if bias.told_by == "heads":
        found = compared_with_alibi(
            lambda n: code.fresh(heads=n)().flatten().double(), code.heads, True, code.heads_asked, named_alibi(code)
        )
        return found, {"what": "slopes alone"}
    fixed = bias.told_by in FIXED and bool(attempt(Bias(code.fresh()).near, 0, 6)[1])
    square = bias.whole() if fixed else _near(bias)
    case = Case(code, bias, square, fixed)
    if not square.nan_to_num(0, 0, 0).any() and code.learned:
        case = _filled(code, fixed)
    about = {"sizes": f"{len(square)} heads", "size": f"{square.shape[1]} by {square.shape[2]} places"}
    if window.is_mask(case):
        return findings((window.parts,), case), about | {"what": "a mask"}
    if columns := window.columns(case.square):
        about |= {"grid": f"a window of rows of {columns}"}
        return findings((*window.CHECKS, usage.factor, usage.queries), case), about
    if fixed:
        return findings((offsets, window.shape, usage.queries), case), about
    of_numbers = () if case.bias.ids else (sign, slopes)
    checks = (offsets, *of_numbers, ahead, own_place, *buckets.CHECKS, *usage.CHECKS)
    return findings(checks, case), about


def _near(bias: Bias) -> Tensor:
    """Return the numbers among as many places as the code takes."""
    sizes = (size for size in SIZES if not attempt(Bias(bias.code.fresh()).near, 0, size)[1])
    return bias.near(size=next(sizes, SIZES[-1]))


def _filled(code: Code, fixed: bool) -> Case:
    """Return the case with parameters that are random in place of 0."""
    other = filled(code)
    bias = Bias(other.fresh())
    return Case(other, bias, bias.whole() if fixed else _near(bias), fixed)


def offsets(case: Case) -> Finding:
    """Check that the bias depends on the offset of a key only, up to a constant of each query."""
    if not case.square.nan_to_num(0, 0, 0).any():
        return note("every number is 0: not trained yet, or no bias at all", 0.0)
    uneven = unevenness(case.square)
    if uneven < 1e-4:
        return ok("depends on the offset of query and key only", uneven)
    if case.level.isfinite().all() and case.level.abs().max() < 1e-6:
        words = "every key of a query gets the same number, which softmax does not see: the bias does nothing"
        return wrong("absolute", words, 0.0)
    if unevenness(case.level) < 1e-4:
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
    """Tell whether the numbers depend on offsets once they are read with the heads last."""
    square = square[:, :1] if torch.equal(square, square[:, :1].expand_as(square)) else square
    h, t, s = square.shape
    other = square.reshape(t, s, h).permute(2, 0, 1).expand(h, s, s)
    other = other - other.diagonal(dim1=1, dim2=2)[..., None] if t == 1 else other
    return h > 1 and bool(other.any()) and (unevenness(other) < 1e-4 or bool(window.columns(other)))


def sign(case: Case) -> Finding:
    """Check that keys lose weight with distance."""
    steps = case.behind.diff(dim=-1)
    largest = float(steps.max())
    if (steps.nan_to_num() <= 1e-9).all() and steps.nan_to_num().any():
        return ok("the further back a key, the larger its penalty", largest)
    if not ((steps >= -1e-9).all() and steps.any()):
        return note("neither grows nor falls with distance throughout: learned, or not a decay")
    if not _linear(steps) and (_sign_is_learned(case.bias) or _repeats(steps)):
        return note("far keys win so far, by parameters that training can turn: learned")
    return wrong(
        "sign-reversed",
        f"the further back a key, the larger its bonus (+{largest:.3g} a step): the sign is reversed and far keys "
        "win. Add slope * (key - query), which is negative behind, or subtract slope * distance",
        largest,
    )


def _linear(steps: Tensor) -> bool:
    return bool(steps.isfinite().all()) and far(steps, steps[:, :1].expand_as(steps)) <= 1e-3


def _repeats(steps: Tensor) -> bool:
    """Tell whether neighbors share numbers, as the indices of buckets do."""
    return bool((steps == 0).any())


def _sign_is_learned(bias: Bias) -> bool:
    """Tell whether negating one of the parameters makes near keys win in some head."""
    for name in bias.code.learned:
        other = Bias(bias.code.fresh())
        other.code.learned[name].neg_()
        if (_near(other)[:, -1].flip(-1).diff(dim=-1) < 0).any():
            return True
    return False


def ahead(case: Case) -> Finding:
    """Say what keys ahead of the query get."""
    hidden = hides(case.square)
    first = case.square[:, 0, 1:]
    if hidden[:, 0, 1:].all():
        return ok("causal: keys ahead get -inf")
    if hidden[:, 0, 2:].all() and not hidden[:, 0, 1].any():
        return wrong("mask-off-by-one", "one key ahead of each query is seen, the next ones are not: tril(diagonal=0)")
    if far(case.level, case.level.mT) < 1e-6:
        return ok("symmetric: keys ahead are treated like keys behind; hide them if the model is causal")
    level = case.level
    behind, others = level.tril(-1), level.triu(1)
    if not behind.abs().max() and others.abs().max():
        return wrong("transposed", "keys behind all get one number and keys ahead differ: query and key are exchanged")
    if (first.diff(dim=-1) > 0).any() and (case.behind.diff(dim=-1) <= 0).all():
        return note("keys ahead get a bonus that grows: right only under a causal mask")
    return note("keys ahead and behind are treated differently; right only if that is meant, or hidden")


def own_place(case: Case) -> Finding | None:
    """Check that a mask in the bias leaves each query its own key, and all before it."""
    hidden = hides(case.square)
    if not hidden.any():
        return None
    if hidden.diagonal(dim1=1, dim2=2).any():
        return wrong("mask-off-by-one", "a query does not see its own key: the mask hides one key too many")
    if not hidden.triu(1).any():
        return wrong("transposed", "the mask hides keys behind and shows those ahead: query and key are exchanged")
    return None


def slopes(case: Case) -> Finding | list[Finding]:
    """Read the slopes of a bias that falls linearly and compare them with ALiBi's."""
    steps = case.behind.diff(dim=-1)
    if not _linear(steps) or (steps[:, 0] == 0).any():
        return note("not linear in distance, so there are no slopes to compare with ALiBi's")
    code = case.code

    def measured(heads: int) -> Tensor:
        made = Bias(code.fresh(heads=heads)).near(size=heads + 3)  # another number, so that axes are told apart
        return (made[:, -1, -1] - made[:, -1, -2]).abs()

    of_scores = case.bias.form == "scores" and code.module is None
    any_number = of_scores or code.takes("heads") or isinstance(code.source, type)
    named_so = named_alibi(code) and case.bias.form not in ("heads", "embeddings")  # contents may choose the slopes
    return compared_with_alibi(measured, code.heads, any_number, code.heads_asked, named_so)


def named_alibi(code: Code) -> bool:
    """Tell whether the name of the code says that it is ALiBi's."""
    names = names_of(code)
    return "alibi" in names or "linearbias" in names.replace("_", "")
