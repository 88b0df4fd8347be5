"""Examine how an attention decodes with a cache: its own, fn(q, k, v, cache) -> (out, cache), or one that it holds."""

import itertools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.doctor.attention.measure import TOLERANCE, Attention, AttentionRecord, Parts, one_hot_values
from posenc.doctor.attention.weights import SCALE_TOLERANCE
from posenc.doctor.numerics import not_finite, random, relative_difference
from posenc.doctor.report import Finding, not_checked, passed, run_checks, wrong
from posenc.doctor.rotation.fit_frequencies import near
from posenc.doctor.safe_call import attempt

TOKENS, MANY_TOKENS = 12, 48
PREFILL = 5  # tokens of the first call, before the others follow
STEP_BY_STEP, AT_ONCE = (0, *range(PREFILL, TOKENS), TOKENS), (0, TOKENS)  # bounds of the calls
TINY = 1e-6  # of weights of hidden keys, and of results that are equal but for rounding
LENGTH_CHANGE = 1e-3  # of keys in the cache
NO_CACHE = "needs a parameter cache and a result (out, cache); keys rotated before they are passed cannot be seen"


class Decoded(NamedTuple):
    """The result (b, h, t, d) of several calls, and what was in the cache after each, tensors (t, b, h, d)."""

    result: Tensor
    caches: list[list[Tensor]]


def cache(record: AttentionRecord) -> Finding | list[Finding]:
    """Compare decoding token by token, after a first few, with all tokens at once; then look what eviction does."""
    if not record.code.takes("cache"):
        return _held_cache(record) or not_checked(NO_CACHE)
    parts = _one_text(record.attention)
    steps, failed = attempt(_decode, record, parts, STEP_BY_STEP)
    if failed:
        return not_checked(f"needs a result (out, cache); {failed}")
    if finding := not_finite(steps.result, "token by token with the cache"):
        return finding
    whole = _decode(record, parts, AT_ONCE)
    difference = _difference_of_steps(steps, whole)
    if difference >= TOLERANCE:
        cause, message = _cause(record, steps, whole)
        return wrong(cause, f"token by token differs by {difference:.2g} from all at once: {message}", difference)
    if finding := _several_at_once(record, parts, whole):
        return finding
    finding = passed("token by token with the cache gives the same as all at once", difference)
    return [finding, *run_checks((eviction,), record)] if record.code.takes("v") else finding


def _one_text(attention: Attention) -> Parts:
    # A slice of several texts would not be contiguous, and some code needs that: texts are summed.
    q, k, v = (part.sum(0, keepdim=True) for part in attention.inputs(20, TOKENS))
    return q, k, v


def _difference_of_steps(steps: Decoded, whole: Decoded) -> float:
    """Compare the tokens after the first call, which has no cache behind it."""
    return relative_difference(steps.result[:, :, PREFILL:], whole.result[:, :, PREFILL:])


def _several_at_once(record: AttentionRecord, parts: Parts, whole: Decoded) -> Finding | None:
    """Compare several tokens in one call with a cache with all at once."""
    bounds = (0, PREFILL, TOKENS)
    steps, failed = attempt(_decode, record, parts, bounds)
    difference = 0.0 if failed else _difference_of_steps(steps, whole)
    if difference < TOLERANCE:
        return None
    # Whether tokens before the last see it tells a mask that is open from a position that is wrong.
    q, k, v = (part.index_fill(2, torch.tensor([TOKENS - 1]), 9) for part in parts)
    changed_last = _decode(record, (q, k, v), bounds)
    message = f"with a cache several tokens in one call differ by {difference:.2g} from all at once"
    if relative_difference(changed_last.result[:, :, :-1], steps.result[:, :, :-1]) > TOLERANCE:
        message = f"{message}: each sees those ahead of it. Hide those: rows of the mask end at the last key"
        return wrong("future-seen", message, difference)
    return wrong("cache-wrong", f"{message}: a query misses keys of the cache, or has another position", difference)


def _cause(record: AttentionRecord, steps: Decoded, whole: Decoded) -> tuple[str, str]:
    first_step, _ = attempt(_fault_of_one_step, record)
    if first_step:
        return first_step
    # What stands in the cache for a token may not change once it is there: neither by place nor by another rotation.
    changing = [history for history in zip(*steps.caches, strict=True) if _changes(history)]
    if any(not _changes([part.flip(0) for part in history]) for history in changing):
        return "cache-wrong", "new keys or values are put before the old ones in the cache. Append them"
    if changing:
        return "turned-twice", "cached keys change from step to step. Rotate only new ones, or cache keys unrotated"
    # A rotation keeps lengths; keys that differ in direction only were rotated by another position.
    lengths = [torch.cat([part.norm(dim=-1) for part in run.caches[-1]]) for run in (steps, whole) if run.caches[-1]]
    if lengths and LENGTH_CHANGE < relative_difference(*lengths) < math.inf:
        return "not-a-rotation", "new keys get another length in the cache: their sine and cosine disagree"
    message = "the position of a new token is counted from the call, or cached keys are rotated again"
    return "offset-ignored", f"{message}. Add the number of tokens before it to the position of a new token"


def _fault_of_one_step(record: AttentionRecord) -> tuple[str, str] | None:
    """Compare the weights of the last token in a step of its own with those among all: its keys, its scale."""
    attention = record.attention
    if attention.output_dim < TOKENS or attention.value_outcome == "added":
        return None
    # Short queries and keys, so that no visible weight is tiny.
    q, k, _ = (part / 5 for part in _one_text(attention))
    parts = q, k, one_hot_values(k, attention.dim)
    step, expected = (_decode(record, parts, bounds) for bounds in ((0, TOKENS - 1, TOKENS), AT_ONCE))
    step, expected = (run.result[:, :, -1].flatten(0, 1).double() for run in (step, expected))  # (h, d), (h, d)
    visible, expected_visible = (step > TINY).all(0), (expected > TINY).all(0)  # (d,), (d,)
    if not torch.equal(visible, expected_visible):
        if visible[0] and visible.sum() == 1:
            return "decode-aligned-first", "a step of decoding sees the first key only. Align it with the last key"
        message = f"a step of decoding sees {int(visible.sum())} keys, not {int(expected_visible.sum())} as among all"
        return "mask-off-by-one", message
    # The softmax ignores what is added to all logits of a row: without their mean they are comparable.
    logits, expected_logits = (weights[:, visible].log() for weights in (step, expected))  # (h, s), (h, s)
    logits, expected_logits = (each - each.mean(-1, keepdim=True) for each in (logits, expected_logits))
    factor = float((logits * expected_logits).sum() / expected_logits.square().sum())
    if relative_difference(logits, factor * expected_logits) > 1e-2 or near(factor, 1, SCALE_TOLERANCE):
        return None
    message = f"in steps of decoding logits are multiplied by {factor:.4g} times as much as all at once"
    cause = "scale-missing" if near(factor, attention.dim**0.5, SCALE_TOLERANCE) else "scale-wrong"
    return cause, f"{message}. Use one scale for both"


def _changes(history: Iterable[Tensor]) -> bool:
    """Return whether keys (or values) in the cache (t, b, h, d) change from call to call, counted from the first."""
    return any(relative_difference(new[: len(old)], old) > TOLERANCE for old, new in itertools.pairwise(history))


def eviction(record: AttentionRecord) -> Finding:
    """Pass the same token again and again: once old keys are dropped, weights by distance must stay as they are."""
    attention = record.attention
    token = random(1, attention.heads, 1, attention.dim, seed=30).expand(-1, -1, MANY_TOKENS, -1).contiguous()
    v = torch.eye(MANY_TOKENS).expand(1, attention.heads, -1, -1).contiguous()  # (b, h, s, s)
    steps = _decode(record, (token, token, v), (*range(MANY_TOKENS), MANY_TOKENS))
    kept = max((len(part) for parts in steps.caches for part in parts), default=MANY_TOKENS)
    if kept == MANY_TOKENS:
        return not_checked(f"drops nothing within {MANY_TOKENS} tokens")
    # Values that name their keys make the result the weights: a row later, each is one key farther on.
    weights = steps.result  # (b, h, s, s)
    difference = relative_difference(weights[:, :, kept + 1 :, 1:], weights[:, :, kept:-1, :-1])
    if difference < TOLERANCE:
        return passed(f"after old keys are dropped ({kept} are kept) distances stay right", difference)
    message = f"once old keys are dropped ({kept} are kept) the weights by distance drift, by {difference:.2g}"
    return wrong("kept-for-seen", f"{message}: new positions count the keys kept. Count the tokens seen", difference)


def _decode(record: AttentionRecord, parts: Parts, bounds: Iterable[int], holds_cache: bool = False) -> Decoded:
    """Call with the tokens between each two bounds, with the cache of the calls before unless the module holds it."""
    # A copy, for a module may hold a cache of the calls before.
    attention = record.attention.of(record.code.fresh())
    cache = None
    order = record.code.call.order or "bhtd"
    token_axis = order.index("t") if len(order) == 4 else 2  # where heads have no axis, caches are (b, h, t, d)
    results, caches = [], []
    for start, end in itertools.pairwise(bounds):
        positions = torch.arange(start, end)
        arguments = {"key_positions": positions} if holds_cache else {"cache": cache}
        tokens = slice(start, end)
        result, *others = attention.call_slice(*parts, tokens, positions=positions, offset=start, **arguments)
        results.append(result)
        if not holds_cache:
            cache = _cache_among(others, weights_shape=(end - start, end))
        # Code may write into its cache in the next call, so what is there now is copied.
        tensors = cache if isinstance(cache, tuple) else ()
        keys_or_values = [part.clone() for part in tensors if isinstance(part, Tensor) and part.ndim == 4]
        caches.append([part.movedim(token_axis, 0) for part in keys_or_values])
    return Decoded(torch.cat(results, 2), caches)


def _cache_among(others: list[Any], weights_shape: tuple[int, int]) -> Any:
    """Return the cache among what comes with the result: no weights, and a tensor only where there is nothing else."""
    candidates = [part for part in others if part is not None and getattr(part, "shape", ())[-2:] != weights_shape]
    if not candidates:
        types = ", ".join(type(part).__name__ for part in others) or "nothing"
        raise ValueError(f"doctor: cache must be in the result, (out, cache), got {types} beside it")
    return min(candidates, key=lambda part: isinstance(part, Tensor))


def _held_cache(record: AttentionRecord) -> Finding | None:
    """Compare token by token with all at once, where a module holds keys from call to call."""
    # Without a position for each call, calls in a row cannot be told from new texts.
    if not (record.code.takes("offset") or record.code.takes("positions")):
        return None
    parts = _one_text(record.attention)
    bounds = (range(TOKENS + 1), (TOKENS - 1, TOKENS), AT_ONCE)
    runs, failed = attempt(lambda: [_decode(record, parts, each, holds_cache=True).result for each in bounds])
    if failed:
        return None
    steps, last_alone, whole = runs
    # Where nothing is held, the last token gets the same after the others as alone.
    if relative_difference(steps[:, :, -1:], last_alone) < TINY:
        return None
    difference = relative_difference(steps, whole)
    if difference < TOLERANCE:
        return passed("it holds a cache: token by token gives the same as all at once", difference)
    message = f"it holds a cache, and token by token differs by {difference:.2g} from all at once: new keys are rotated"
    return wrong("cache-wrong", f"{message} as the first ones, or read from other places than written to", difference)
