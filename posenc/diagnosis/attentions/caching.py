"""Examine how an attention decodes with a cache: its own, fn(q, k, v, cache) -> (out, cache), or one that it holds."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from posenc.diagnosis.attentions.attend import Attention, Case
from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.call import first_of
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, findings, ok, unchecked, wrong

T, LONG = 12, 48
TINY = 1e-6


def examine(case: Case) -> list[Finding]:
    """Return the findings on the cache: decoding against prefill, keys that change, drift after eviction."""
    found = findings((cache,), case)
    return found + findings((eviction,) if found[0].verdict != "not checked" and case.code.takes("v") else (), case)


def _contents(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (part[:1] for part in case.inputs(20, T))
    return q, k, v


def cache(case: Case) -> Finding:
    """Compare token by token, after a first few, with all at once."""
    q, k, v = _contents(case)
    made, failed = attempt(_steps, case, q, k, v, 5)
    if failed:
        return unchecked(f"needs a result (out, cache); {failed}")
    stepped, caches = made
    whole, at_once = _steps(case, q, k, v, T)
    off = far(stepped[:, :, 5:], whole[:, :, 5:])
    if off < 1e-4:
        return _several(case, q, k, v) or ok("token by token with the cache gives what all at once gives", off)
    name, cause = _why(case, caches, at_once)
    return wrong(name, f"token by token differs by {off:.2g} from all at once: {cause}", off)


def _several(case: Case, q: Tensor, k: Tensor, v: Tensor) -> Finding | None:
    """Compare several tokens that come at once beside a cache with all at once."""
    made, failed = attempt(_steps, case, q, k, v, 5, 4)
    if failed or not case.causal:
        return None
    whole, _ = _steps(case, q, k, v, T)
    if (off := far(made[0][:, :, 5:9], whole[:, :, 5:9])) < 1e-4:
        return None
    last = torch.zeros(T, 1).index_fill(0, torch.tensor([8]), 1.0)
    other, _ = _steps(case, q + last if case.attend.alone else q, k + last, v + last, 5, 4)
    words = f"beside a cache several tokens at once differ by {off:.2g} from all at once"
    if far(other[:, :, 5:8], made[0][:, :, 5:8]) > 1e-5:
        words = (
            f"{words}: each sees those ahead of it, as if it were one. Hide those: rows of the mask end at the last key"
        )
        return wrong("future-seen", words, off)
    return wrong("cache-wrong", f"{words}: a query misses keys of the cache, or is placed elsewhere", off)


def _why(case: Case, caches: list[Any], at_once: list[Any]) -> tuple[str, str]:
    """Return the cause, and in words, of steps that differ from all at once."""
    step, failed = attempt(_first_step, case)
    if not failed and step:
        return step
    if _changes(caches, case, from_end=False):
        if not _changes(caches, case, from_end=True):
            return "cache-wrong", "new keys stand before the old ones in the cache. Put them behind"
        return (
            "turned-twice",
            "keys in the cache change from step to step: they are rotated again. Cache keys rotated once and rotate "
            "only new ones, or cache them as they come and rotate all in each call",
        )
    if _changes(caches, case, False, 1) and not _changes(caches, case, True, 1):
        return "cache-wrong", "new values stand before the old ones in the cache, beside other keys. Put them behind"
    lengths = [each[-1][0].norm(dim=-1) for each in (caches, at_once) if each[-1]]
    if len(lengths) == 2 and 1e-3 < far(*lengths) < math.inf:
        words = "new keys come into the cache with another length: they are not rotated, sine and cosine disagree"
        return "not-a-rotation", words
    return (
        "offset-ignored",
        "the position of a new token is counted from the call, or cached keys are rotated again. "
        "Give new tokens the number of tokens before them",
    )


def _first_step(case: Case) -> tuple[str, str] | None:
    """Compare the weights of the first step with those of the same query among all: its keys, its scale."""
    if case.shown < T or case.attend.adds:
        return None
    q, k, _ = (part / 2 for part in _contents(case))
    v = torch.eye(T, case.dim).expand(*k.shape[:2], -1, -1).contiguous()
    one, other = (_steps(case, q, k, v, first)[0][0, :, -1, :T].double() for first in (T - 1, T))
    seen, due = ((w > TINY).all(0) for w in (one, other))
    if not torch.equal(seen, due):
        if seen[0] and int(seen.sum()) == 1:
            words = "a step of decoding sees the first key only: one query is aligned with the first keys. Use the last"
            return "decode-aligned-first", words
        words = f"a step of decoding sees {int(seen.sum())} keys, the same query among all sees {int(due.sum())}"
        return "mask-off-by-one", words
    one, other = (w[:, due].log() - w[:, due].log().mean(-1, keepdim=True) for w in (one, other))
    factor = float((one * other).sum() / other.square().sum())
    if far(one, factor * other) > 1e-2 or abs(factor - 1) < 1e-2:
        return None
    missing = abs(factor / case.dim**0.5 - 1) < 1e-2
    words = (
        f"in steps of decoding products are multiplied by {factor:.4g} times as much as all at once. Scale both alike"
    )
    return "scale-missing" if missing else "scale-wrong", words


def _changes(caches: list[Any], case: Case, from_end: bool, part: int = 0) -> bool:
    """Tell whether keys (or values) in the cache change in a later step, counted from its start or from its end."""
    axis = _axis(case)
    pairs = [(old[part], new[part]) for old, new in itertools.pairwise(caches) if min(len(old), len(new)) > part]
    pairs = [pair for pair in pairs if all(isinstance(one, Tensor) and one.ndim > axis for one in pair)]
    pairs = [(old, new, new.shape[axis] - old.shape[axis] if from_end else 0) for old, new in pairs]
    return any(far(new.narrow(axis, start, old.shape[axis]), old) > 1e-5 for old, new, start in pairs if start >= 0)


def _axis(case: Case) -> int:
    """Return the axis of tokens in what is cached."""
    return 1 if case.code.way.order == "bthd" else 2


def eviction(case: Case) -> Finding:
    """Feed the same token again and again: once old keys are dropped, weights by distance must stay as they are."""
    heads = case.heads
    content = random(1, heads, 1, case.dim, seed=30).expand(-1, -1, LONG, -1).contiguous()
    v = torch.eye(LONG).expand(1, heads, -1, -1).contiguous()
    weights, caches = _steps(case, content, content, v)
    axis = _axis(case)
    kept = max((cache[0].shape[axis] for cache in caches if cache), default=LONG)
    if kept == LONG:
        return unchecked(f"drops nothing within {LONG} tokens")
    window = min(kept, int((weights[0, 0, -1] > 1e-9).sum()))
    by_distance = [weights[0, :, i, i - window + 1 : i + 1] for i in range(kept, LONG)]
    off = max(float((row - by_distance[0]).abs().max()) for row in by_distance)
    if off < 1e-4:
        return ok(f"after old keys are dropped ({window} are kept) distances stay right", off)
    return wrong(
        "kept-for-seen",
        f"once old keys are dropped ({window} are kept) the weights by distance drift, by {off:.2g}: the position of "
        "a new token is the number of keys kept, not of tokens seen. Count tokens apart",
        off,
    )


def _steps(case: Case, q: Tensor, k: Tensor, v: Tensor, first: int = 1, size: int = 1) -> tuple[Tensor, list[Any]]:
    """Return what comes out when the first tokens come at once and then `size` at a time, and the caches."""
    outs, caches, cache = [], [], None
    attend = Attention(case.code.fresh())
    for start, end in [(0, first), *((i, min(i + size, q.shape[2])) for i in range(first, q.shape[2], size))]:
        places = torch.arange(start, end)
        out, *rest = attend.part(q, k, v, start, end, cache=cache, positions=places, offset=start)
        if not rest:
            raise ValueError(f"doctor: cache must be in the result, (out, cache), got {type(out).__name__} alone")
        cache = next((part for part in reversed(rest) if part is not None and not isinstance(part, Tensor)), rest[-1])
        if cache is None or (isinstance(cache, Tensor) and cache.shape[-2:] == (end - start, end)):
            what = "nothing" if cache is None else "weights"
            raise ValueError(f"doctor: cache must be in the result, (out, cache), got {what} beside it")
        outs.append(out)
        kept = isinstance(cache, tuple) and all(isinstance(part, Tensor | int) for part in cache)
        caches.append([part.clone() if isinstance(part, Tensor) else part for part in cache] if kept else [])
    return torch.cat(outs, 2), caches


def held(case: Case) -> list[Finding]:
    """Look whether a module keeps keys from call to call, and compare token by token with all at once."""
    code = case.code
    if code.module is None or code.takes("cache") or not (code.takes("offset") or code.takes("positions")):
        return []
    return findings((own_cache,), case)


def own_cache(case: Case) -> Finding | None:
    """Compare token by token with all at once, where a call remembers the ones before it."""
    results, failed = attempt(_apart, case)
    if failed:
        return None
    made, alone, whole = results
    if far(made[:, :, -1:], alone) < 1e-6:
        return None
    off = far(made, whole)
    if off < 1e-4:
        return ok("it holds a cache: token by token gives what all at once gives", off)
    return wrong(
        "cache-wrong",
        f"it holds a cache, and token by token differs by {off:.2g} from all at once: new keys are turned as the "
        "first ones, or written to other places than they are read from",
        off,
    )


def _apart(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Return what comes out token by token, for the last token alone, and for all at once."""
    steps, last, all_of_them = [(i, i + 1) for i in range(T)], [(T - 1, T)], [(0, T)]
    made, alone, whole = (_in_turn(case, calls) for calls in (steps, last, all_of_them))
    return made, alone, whole


def _in_turn(case: Case, calls: list[tuple[int, int]]) -> Tensor:
    """Return what comes out for some tokens after others, each at its place."""
    attend, outs = Attention(case.code.fresh()), []
    q, k, v = _contents(case)
    for start, end in calls:
        places = torch.arange(start, end)
        made = attend.part(q, k, v, start, end, positions=places, key_positions=places, offset=start)
        outs.append(first_of(made))
    return torch.cat(outs, 2)
