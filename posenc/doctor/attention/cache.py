"""Examine how an attention decodes with a cache: its own, fn(q, k, v, cache) -> (out, cache), or one that it holds."""

import itertools
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.attention.measure import SAME, Attention, Case, naming
from posenc.doctor.attention.weights import near
from posenc.doctor.call.code import first_result
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, not_checked, passed, run_checks, wrong

T, LONG = 12, 48
BEGUN = 5  # tokens that come at once before the others follow
TINY = 1e-6
Parts = tuple[Tensor, Tensor, Tensor]  # q, k, v
Steps = tuple[Tensor, list[list[Tensor]]]  # what comes out, and what is in the cache after each call


def examine(case: Case) -> list[Finding]:
    """Return the findings on the cache: decoding against prefill, keys that change, drift after eviction."""
    (found,) = run_checks((cache,), case)
    if found.verdict != "ok" or not case.code.takes("v"):
        return [found]
    return [found, *run_checks((eviction,), case)]


def _contents(case: Case) -> Parts:
    """Return one text: of several, what is cut off one is not contiguous, and some code asks for that."""
    q, k, v = (part.sum(0, keepdim=True) for part in case.inputs(20, T))
    return q, k, v


def cache(case: Case) -> Finding:
    """Compare token by token, after a first few, with all at once."""
    parts = _contents(case)
    made, failed = attempt(_steps, case, parts, (0, *range(BEGUN, T), T))
    if failed:
        return not_checked(f"needs a result (out, cache); {failed}")
    (stepped, caches), (whole, at_once) = made, _steps(case, parts, (0, T))
    off = relative_difference(stepped[:, :, BEGUN:], whole[:, :, BEGUN:])
    if off < SAME:
        return _several(case, parts, whole) or passed("token by token with the cache gives what all at once gives", off)
    name, cause = _why(case, caches, at_once)
    return wrong(name, f"token by token differs by {off:.2g} from all at once: {cause}", off)


def _several(case: Case, parts: Parts, whole: Tensor) -> Finding | None:
    """Compare several tokens that come at once beside a cache with all at once."""
    made, failed = attempt(_steps, case, parts, (0, BEGUN, T))
    if failed or (off := relative_difference(made[0][:, :, BEGUN:], whole[:, :, BEGUN:])) < SAME:
        return None
    last = torch.tensor([T - 1])
    q, k, v = (part.index_fill(2, last, 9) for part in parts)
    other, _ = _steps(case, (q, k, v), (0, BEGUN, T))
    words = f"beside a cache several tokens at once differ by {off:.2g} from all at once"
    if relative_difference(other[:, :, :-1], made[0][:, :, :-1]) > SAME:
        words = f"{words}: each sees those ahead of it. Hide those: rows of the mask end at the last key"
        return wrong("future-seen", words, off)
    return wrong("cache-wrong", f"{words}: a query misses keys of the cache, or is placed elsewhere", off)


def _why(case: Case, caches: list[list[Tensor]], at_once: list[list[Tensor]]) -> tuple[str, str]:
    """Return the cause, and in words, of steps that differ from all at once."""
    step, _ = attempt(_first_step, case)
    if step:
        return step
    changed = [each for each in zip(*caches, strict=True) if _changes(each, at_end=False)]
    if not all(_changes(each, at_end=True) for each in changed):
        return "cache-wrong", "new keys or values stand before the old ones in the cache. Put them behind"
    if changed:
        return (
            "turned-twice",
            "keys in the cache change from step to step: they are rotated again. Cache keys rotated once and rotate "
            "only new ones, or cache them as they come and rotate all in each call",
        )
    lengths = [torch.cat([part.norm(dim=-1) for part in last]) for *_, last in (caches, at_once) if last]
    if lengths and 1e-3 < relative_difference(*lengths) < math.inf:
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
    q, k, _ = (part / 5 for part in _contents(case))  # so that no weight is tiny
    v = naming(k, case.dim)
    outs = (_steps(case, (q, k, v), bounds)[0] for bounds in ((0, T - 1, T), (0, T)))
    one, other = (out[:, :, -1].flatten(0, 1).double() for out in outs)
    seen, due = ((w > TINY).all(0) for w in (one, other))
    if not torch.equal(seen, due):
        if seen.nonzero().flatten().tolist() == [0]:
            words = "a step of decoding sees the first key only: one query is aligned with the first keys. Use the last"
            return "decode-aligned-first", words
        words = f"a step of decoding sees {int(seen.sum())} keys, the same query among all sees {int(due.sum())}"
        return "mask-off-by-one", words
    one, other = (w[:, due].log() - w[:, due].log().mean(-1, keepdim=True) for w in (one, other))
    factor = float((one * other).sum() / other.square().sum())
    if relative_difference(one, factor * other) > 1e-2 or near(factor, 1):
        return None
    words = f"in steps of decoding products are multiplied by {factor:.4g} times as much as all at once: scale alike"
    return "scale-missing" if near(factor, case.dim**0.5) else "scale-wrong", words


def _changes(kept: Iterable[Tensor], at_end: bool) -> bool:
    """Tell whether keys (or values) in the cache (t, b, h, d) change, counted from its start or from its end."""
    pairs = itertools.pairwise(part.flip(0) if at_end else part for part in kept)
    return any(relative_difference(new[: len(old)], old) > SAME for old, new in pairs)


def eviction(case: Case) -> Finding:
    """Feed the same token again and again: once old keys are dropped, weights by distance must stay as they are."""
    content = random(1, case.heads, 1, case.dim, seed=30).expand(-1, -1, LONG, -1).contiguous()
    v = torch.eye(LONG).expand(1, case.heads, -1, -1).contiguous()
    weights, caches = _steps(case, (content, content, v), (*range(LONG), LONG))
    kept = max((len(part) for cache in caches for part in cache), default=LONG)
    if kept == LONG:
        return not_checked(f"drops nothing within {LONG} tokens")
    off = relative_difference(weights[:, :, kept + 1 :, 1:], weights[:, :, kept:-1, :-1])
    if off < SAME:
        return passed(f"after old keys are dropped ({kept} are kept) distances stay right", off)
    return wrong(
        "kept-for-seen",
        f"once old keys are dropped ({kept} are kept) the weights by distance drift, by {off:.2g}: the position "
        "of a new token is the number of keys kept, not of tokens seen. Count tokens apart",
        off,
    )


def _steps(case: Case, parts: Parts, bounds: Iterable[int]) -> Steps:
    """Return what comes out when the tokens between two bounds come at once, and what is cached, tokens first."""
    attend, outs, caches, cache = Attention(case.code.fresh()), [], [], None
    for start, end in itertools.pairwise(bounds):
        given = {"positions": torch.arange(start, end), "offset": start, "cache": cache}
        out, *rest = attend.part(*parts, start, end, **given)
        cache = _cache_among(rest, (end - start, end))
        outs.append(out)
        whole = [part.clone() for part in cache if _is_kept(part)] if isinstance(cache, tuple) else []
        caches.append([part.movedim(1 if case.code.call.order == "bthd" else 2, 0) for part in whole])
    return torch.cat(outs, 2), caches


def _is_kept(part: Any) -> bool:
    return isinstance(part, Tensor) and part.ndim == 4


def _cache_among(rest: list[Any], of_weights: tuple[int, int]) -> Any:
    """Return the cache among what comes beside the result: a tensor only where there is nothing else, no weights."""
    told = [part for part in rest if part is not None and getattr(part, "shape", ())[-2:] != of_weights]
    if not told:
        beside = ", ".join(type(part).__name__ for part in rest) or "nothing"
        raise ValueError(f"doctor: cache must be in the result, (out, cache), got {beside} beside it")
    return min(told, key=lambda part: isinstance(part, Tensor))


def held(case: Case) -> list[Finding]:
    """Look whether a module keeps keys from call to call, and compare token by token with all at once."""
    told = case.code.takes("offset") or case.code.takes("positions")
    return run_checks((own_cache,), case) if told else []


def own_cache(case: Case) -> Finding | None:
    """Compare token by token with all at once, where a call remembers the ones before it."""
    results, failed = attempt(_apart, case)
    if failed:
        return None
    made, alone, whole = results
    if relative_difference(made[:, :, -1:], alone) < TINY:
        return None
    off = relative_difference(made, whole)
    if off < SAME:
        return passed("it holds a cache: token by token gives what all at once gives", off)
    return wrong(
        "cache-wrong",
        f"it holds a cache, and token by token differs by {off:.2g} from all at once: new keys are turned as the "
        "first ones, or written to other places than they are read from",
        off,
    )


def _apart(case: Case) -> list[Tensor]:
    """Return what comes out token by token, for the last token alone, and for all at once."""
    return [_in_turn(case, bounds) for bounds in ((*range(T), T), (T - 1, T), (0, T))]


def _in_turn(case: Case, bounds: Iterable[int]) -> Tensor:
    """Return what comes out for the tokens between two bounds, after those before, each at its place."""
    attend, parts, outs = Attention(case.code.fresh()), _contents(case), []
    for start, end in itertools.pairwise(bounds):
        places = torch.arange(start, end)
        given = {"positions": places, "key_positions": places, "offset": start}
        outs.append(first_result(attend.part(*parts, start, end, **given)))
    return torch.cat(outs, 2)
