"""Check what a bias depends on: offsets only, its sign, keys ahead, a mask in it, and ALiBi's slopes."""

import re

import torch
from torch import Tensor

from posenc.bias.alibi import alibi_slopes
from posenc.doctor.bias.measure import SAME_NUMBERS, BiasRecord, change_at_one_offset, measure_bias, names_of, record_of
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import not_finite, relative_difference
from posenc.doctor.report import Finding, note, passed, wrong
from posenc.doctor.safe_call import attempt

HEAD_COUNTS = (4, 8, 12)  # to compare slopes for; 12 is no power of two, for which ALiBi has another rule
ROUNDED = 2e-3  # of the largest slope: bfloat16 rounds a slope by up to 2^-9 of itself


def offsets(record: BiasRecord) -> Finding:
    """Check that the bias depends on the offset of a key only, up to a constant of each query."""
    numbers = record.numbers
    if not numbers[numbers.isfinite()].any():
        return note("every number is 0: the bias is not trained yet, or adds nothing", 0.0)
    # In a window, offsets are those of rows and columns: neighbors in the order of tokens may lie in two rows.
    if record.grid:
        token = ", after one token of another kind" if record.grid.lead else ""
        return passed(f"depends on the offset in rows and columns only, in rows of {record.grid.columns}{token}")
    change = change_at_one_offset(numbers)
    if change < SAME_NUMBERS:
        return passed("depends on the offset of query and key only", change)
    if not record.relative.any():
        return wrong("absolute", "all keys of a query get the same number, which softmax cancels: it does nothing", 0.0)
    if change_at_one_offset(record.relative) < SAME_NUMBERS:
        sentence = "depends on the offset and on a constant of each query, which softmax cancels"
        return note(f"{sentence} (slope * key position, as in BLOOM and MPT)", change)
    # A reshape in place of a permutation gives numbers that look absolute: the cause is the order of axes.
    if _is_sound_with_heads_last(record):
        sentence = "heads and positions are mixed: numbers (t, s, h) were reshaped to (h, t, s). Permute the axes"
        return wrong("heads-mixed", sentence, change)
    sentence = f"numbers of one offset differ by {change:.2g} of the largest: it depends on absolute positions"
    return wrong("absolute", f"{sentence}. Compute it from key position - query position", change)


def _is_sound_with_heads_last(record: BiasRecord) -> bool:
    """Return whether numbers, or those of keys alone, depend on offsets once they are read with the heads last."""
    # Numbers by key alone, as BLOOM's, may have been reshaped before they were repeated for each query.
    h, t, s = record.numbers.shape
    pairs = record.numbers.reshape(t, s, h).permute(2, 0, 1)  # (h, t, s)
    keys = record.numbers.mean(1).reshape(s, h).T[:, None].expand(h, t, s)  # (h, t, s)
    for numbers in (pairs, keys) if h > 1 else ():
        with_heads_last = record_of(record.code, record.bias, numbers)
        if change_at_one_offset(with_heads_last.relative) < SAME_NUMBERS or with_heads_last.grid:
            return True
    return False


def sign(record: BiasRecord) -> Finding:
    """Check that keys lose weight with distance."""
    # A step to a hidden key is infinite, and tells nothing of the sign.
    steps = torch.where(record.steps.isfinite(), record.steps, 0.0)  # (h, s-1)
    largest = float(steps.max())
    falls, grows = _never_falls(-steps), _never_falls(steps)
    # Both hold where all keys get one number, neither where a head favors some distance in between.
    if falls == grows:
        return note("neither grows nor falls with distance throughout: learned, or not a decay")
    if falls:
        return passed("the further behind a key, the larger its penalty", largest)
    # A linear bias is ALiBi's: it must begin as a penalty, even where its slopes are learned.
    if not record.is_linear and _sign_is_learned(record):
        return note("the further behind a key, the larger its number, by parameters that training can reverse: learned")
    sentence = f"the further behind a key, the larger its bias (+{largest:.3g} a step): the sign is reversed"
    remedy = "Add slope * (key - query), which is negative for keys behind, or subtract slope * distance"
    return wrong("sign-reversed", f"{sentence}. {remedy}", largest)


def _never_falls(steps: Tensor) -> bool:
    return float(steps.min()) >= -1e-9  # rounding in float64 parts equal neighbors


def _sign_is_learned(record: BiasRecord) -> bool:
    """Return whether negating one of the parameters makes keys lose weight with distance in some head."""
    for name in record.code.learned_parameters:
        negated = record.code.fresh()
        negated.learned_parameters[name].neg_()
        if not _never_falls(record.of_code(negated).steps):
            return True
    return False


def ahead(record: BiasRecord) -> Finding:
    """Check what keys ahead of the query get, and that a mask in the bias leaves each query its own key."""
    hidden, relative = record.hidden, record.relative
    # Faults of the mask first: where keys ahead are hidden, the comparisons with those behind say nothing.
    if hidden.tril(-1).any() and not hidden.triu(2).any():
        return wrong("transposed", "keys behind are hidden and keys ahead are seen: query and key are exchanged")
    if hidden.diagonal(dim1=1, dim2=2).any():
        return wrong("mask-off-by-one", "a query does not see its own key: the mask hides one key too many")
    if hidden[:, 0, 1:].all():
        return passed("causal: keys ahead get -inf")
    if hidden[:, 0, 2:].all():
        return wrong("mask-off-by-one", "each query sees one key ahead and no further one: use tril(diagonal=0)")
    if relative_difference(relative, relative.mT) < 1e-6:
        return passed("symmetric: keys ahead get what keys behind get; hide them if the model is causal")
    if not relative.tril().any():
        return wrong("transposed", "all keys behind get one number and keys ahead differ: query and key are exchanged")
    return note("keys ahead and behind get different numbers: right if that is meant, or where keys ahead are hidden")


def slopes(record: BiasRecord) -> Finding | list[Finding]:
    """Compare the slopes of a linear bias, or slopes alone, with ALiBi's, for several numbers of heads."""
    code, form = record.code, record.bias.content_form
    if record.bias.position_argument != "heads" and not record.is_linear:
        return note("not linear in distance, so there are no slopes to compare with ALiBi's")
    takes_any_heads = code.takes("heads") or isinstance(code.source, type) or (form == "scores" and code.module is None)
    is_alibi = re.search("alibi|linear_?bias", names_of(code)) is not None
    is_alibi = is_alibi and form not in ("heads", "embeddings")  # content may choose the slopes
    # A number of heads that was asked for comes first, or the only one that works.
    counts = (code.heads,) if code.heads_requested or not takes_any_heads else HEAD_COUNTS[:2]
    finding = _compared_with_alibi(code, counts, is_alibi)
    if finding.verdict != "ok" or not takes_any_heads:
        return finding
    others = _compared_with_alibi(code, tuple(n for n in HEAD_COUNTS if n not in counts), is_alibi)
    # Other slopes for a number that was not asked for are wrong under ALiBi's name alone.
    if others.id == "slopes-wrong" and code.heads_requested and not is_alibi:
        others = others._replace(verdict="note")
    return [finding._replace(check="slopes"), others._replace(check="other heads")]


def _compared_with_alibi(code: Code, counts: tuple[int, ...], is_alibi: bool) -> Finding:
    """Compare slopes for several numbers of heads with ALiBi's, which code must have that calls itself ALiBi."""
    first = 0.0
    for heads in counts:
        result, failed = attempt(_slopes, code, heads)
        if failed:
            return note(f"{heads} heads raise {failed}")
        if result.numel() != heads:
            return wrong("slopes-wrong", f"{heads} heads get {result.numel()} slopes", result.numel())
        if finding := not_finite(result, f"with {heads} heads"):
            return finding
        first, expected = float(result[0]), torch.from_numpy(alibi_slopes(heads))
        if relative_difference(result.abs(), expected) <= ROUNDED:
            continue
        fault = _known_fault(result.abs(), expected)
        other = f"are not ALiBi's: {_first(result.abs())} and not {_first(expected)}"
        sentence = f"with {heads} heads the slopes {fault or other}"
        return wrong("slopes-wrong", sentence, first) if fault or is_alibi else note(sentence, first)
    sentence = f"those of ALiBi's authors for {' and '.join(map(str, counts))} heads"
    if first < 0:
        sentence += " with the sign of a penalty: add slope * distance, do not subtract it"
    return passed(sentence, first)


def _slopes(code: Code, heads: int) -> Tensor:
    """Return slopes (h,), as code returns them, or as steps of a bias."""
    record = measure_bias(code.fresh(heads=heads))
    if record.bias.position_argument == "heads":
        return record.numbers.flatten()
    return record.steps.mean(-1).abs()


def _known_fault(result: Tensor, expected: Tensor) -> str:
    """Return how slopes (h,) came to be other than ALiBi's, "" where that is not known."""
    heads = len(result)
    # The rule for powers of two with heads counted from 0; ALiBi counts from 1.
    from_zero = 2 ** (-8 * torch.arange(heads, dtype=torch.float64) / heads)
    if relative_difference(result, from_zero) < ROUNDED:
        start = f"start at {_first(result[:1])} where ALiBi's start at {_first(expected[:1])}"
        return f"{start}: off by one. Head k = 0, 1, ... has 2^(-8 (k+1) / heads)"
    if relative_difference(result, from_zero * 2 ** (-8 / heads)) < ROUNDED:
        rule = f"are 2^(-8 (k+1) / {heads}), the rule for powers of two"
        authors = "ALiBi's authors take those of the power below, then every other one of its double"
        return f"{rule}; {authors}. Weights trained with theirs do not fit"
    if relative_difference(result.sort().values, expected.sort().values) < ROUNDED:
        return "are ALiBi's in another order, so weights trained with its order do not fit"
    return ""


def _first(numbers: Tensor) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers[:5].tolist())
