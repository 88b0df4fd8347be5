"""Examine how an attention decodes with a cache of its own: fn(q, k, v, cache) -> (out, cache)."""

import itertools
from typing import Any

import torch
from torch import Tensor

from posenc.diagnosis.call import Code, attempt
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, findings, ok, unchecked, wrong

T, LONG = 12, 48


def examine(code: Code) -> list[Finding]:
    """Return the findings on the cache: decoding against prefill, keys that change, drift after eviction."""
    found = findings((cache,), code)
    return found if found[0].verdict == "not checked" else found + findings((eviction,), code)


def cache(code: Code) -> Finding:
    """Compare token by token, after a first few, with all at once."""
    q, k, v = (random(1, code.heads, T, code.dim, seed=20 + i) for i in range(3))
    made, failed = attempt(_steps, code, q, k, v, 5)
    if failed:
        return unchecked(f"needs a result (out, cache); {failed}")
    stepped, caches = made
    whole, _ = _steps(code, q, k, v, T)
    off = far(stepped[:, :, 5:], whole[:, :, 5:])
    if off < 1e-4:
        return ok("token by token with the cache gives what all at once gives", off)
    cause = (
        "the position of a new token is counted from the call, or cached keys are rotated again before use. "
        "Give new tokens the number of tokens before them"
    )
    if _changes(caches, code):
        cause = (
            "keys in the cache change from step to step: they are rotated again. Cache keys rotated once and rotate "
            "only new ones, or cache them as they come and rotate all in each call"
        )
    return wrong(f"token by token differs by {off:.2g} from all at once: {cause}", off)


def _changes(caches: list[Any], code: Code) -> bool:
    """Tell whether keys that are in the cache already change in a later step."""
    axis = 1 if code.order == "bthd" else 2
    pairs = [(old[0], new[0]) for old, new in itertools.pairwise(caches) if old and new]
    return any(far(new.narrow(axis, 0, old.shape[axis]), old) > 1e-5 for old, new in pairs)


def eviction(code: Code) -> Finding:
    """Feed the same token again and again: once old keys are dropped, weights by distance must stay as they are."""
    if code.dim < 4:
        return unchecked("needs heads of at least 4 channels")
    content = random(1, code.heads, 1, code.dim, seed=30).expand(-1, -1, LONG, -1).contiguous()
    v = torch.eye(LONG).expand(1, code.heads, -1, -1).contiguous()
    weights, caches = _steps(code, content, content, v)
    axis = 1 if code.order == "bthd" else 2
    kept = max((cache[0].shape[axis] for cache in caches if cache), default=LONG)
    if kept >= LONG - 4:
        return unchecked(f"drops nothing within {LONG} tokens")
    window = min(kept, int((weights[0, 0, -1] > 1e-9).sum()))
    by_distance = [weights[0, :, i, i - window + 1 : i + 1] for i in range(kept, LONG)]
    off = max(float((row - by_distance[0]).abs().max()) for row in by_distance)
    if off < 1e-4:
        return ok(f"after old keys are dropped ({window} are kept) distances stay right", off)
    return wrong(
        f"once old keys are dropped ({window} are kept) the weights by distance drift, by {off:.2g}: the position of "
        "a new token is the number of keys kept, not of tokens seen. Count tokens apart",
        off,
    )


def _steps(code: Code, q: Tensor, k: Tensor, v: Tensor, first: int = 1) -> tuple[Tensor, list[Any]]:
    """Return what comes out when the first tokens come at once and then one at a time, and the caches."""
    swap = code.order == "bthd"
    outs, caches, cache = [], [], None
    for start, end in [(0, first), *((i, i + 1) for i in range(first, q.shape[2]))]:
        parts = [part[:, :, start:end] for part in (q, k, v)]
        parts = [part.transpose(1, 2) if swap else part for part in parts]
        out, cache = code(q=parts[0], k=parts[1], v=parts[2], cache=cache, positions=torch.arange(start, end))
        outs.append(out.transpose(1, 2) if swap else out)
        caches.append([part.clone() for part in cache] if isinstance(cache, tuple) else [])
    return torch.cat(outs, 2), caches
