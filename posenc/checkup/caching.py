"""Examine how an attention decodes with a cache of its own: fn(q, k, v, cache) -> (out, cache)."""

import itertools
from typing import Any

import torch
from torch import Tensor

from posenc.checkup.patient import Patient, attempt, far, random
from posenc.checkup.report import Finding

T, LONG = 12, 48
TURNED_AGAIN = (
    "keys in the cache change from step to step: they are rotated again. Cache keys rotated once and rotate only new "
    "ones, "
    "or cache them as they come and rotate all in each call"
)
COUNTED_ANEW = (
    "the position of a new token is counted from the call, or cached keys are rotated again before use. Give new "
    "tokens the "
    "number of tokens before them"
)


def examine(patient: Patient, dim: int, heads: int) -> list[Finding]:
    """Return the findings on the cache: decoding against prefill, keys that change, drift after eviction."""
    found, failed = attempt(_examine, patient, dim, heads)
    return found or [Finding("cache", "not checked", f"needs a result (out, cache); {failed}")]


def _examine(patient: Patient, dim: int, heads: int) -> list[Finding]:
    return [stepwise(patient, dim, heads), eviction(patient, dim, heads)]


def _steps(patient: Patient, q: Tensor, k: Tensor, v: Tensor, first: int = 1) -> tuple[Tensor, list[Any]]:
    """Return what comes out when the first tokens come at once and then one at a time, and the caches."""
    swap = patient.order == "bthd"
    outs, caches, cache = [], [], None
    for start, end in [(0, first), *((i, i + 1) for i in range(first, q.shape[2]))]:
        parts = [part[:, :, start:end] for part in (q, k, v)]
        parts = [part.transpose(1, 2) if swap else part for part in parts]
        given = {"positions": torch.arange(start, end)} if patient.takes("positions") else {}
        out, cache = patient(q=parts[0], k=parts[1], v=parts[2], cache=cache, **given)
        outs.append(out.transpose(1, 2) if swap else out)
        caches.append([part.clone() for part in cache] if isinstance(cache, tuple) else [])
    return torch.cat(outs, 2), caches


def stepwise(patient: Patient, dim: int, heads: int) -> Finding:
    """Compare token by token, after a first few, with all at once."""
    q, k, v = (random(1, heads, T, dim, seed=20 + i) for i in range(3))
    stepped, caches = _steps(patient, q, k, v, 5)
    whole, _ = _steps(patient, q, k, v, T)
    off = far(stepped[:, :, 5:], whole[:, :, 5:])
    if off < 1e-4:
        return Finding("cache", "ok", "token by token with the cache gives what all at once gives", off)
    return Finding(
        "cache", "wrong", f"token by token differs by {off:.2g} from all at once: {_cause(caches, patient)}", off
    )


def _cause(caches: list[Any], patient: Patient) -> str:
    axis = 1 if patient.order == "bthd" else 2
    for old, new in itertools.pairwise(caches):
        if old and new and far(new[0].narrow(axis, 0, old[0].shape[axis]), old[0]) > 1e-5:
            return TURNED_AGAIN
    return COUNTED_ANEW


def eviction(patient: Patient, dim: int, heads: int) -> Finding:
    """Feed the same token again and again: once old keys are dropped, weights by distance must stay as they are."""
    if dim < 4:
        return Finding("eviction", "not checked", "needs heads of at least 4 channels")
    content = random(1, heads, 1, dim, seed=30).expand(-1, -1, LONG, -1).contiguous()
    v = torch.eye(LONG, LONG)[None, None].expand(1, heads, -1, -1).contiguous()
    weights, caches = _steps(patient, content, content, v)
    axis = 1 if patient.order == "bthd" else 2
    kept = [cache[0].shape[axis] for cache in caches if cache]
    if not kept or max(kept) >= LONG - 4:
        return Finding("eviction", "not checked", f"drops nothing within {LONG} tokens")
    window = min(max(kept), int((weights[0, 0, -1] > 1e-9).sum()))
    by_distance = [weights[0, :, i, i - window + 1 : i + 1] for i in range(max(kept), LONG)]
    off = max(float((row - by_distance[0]).abs().max()) for row in by_distance)
    if off < 1e-4:
        return Finding("eviction", "ok", f"after old keys are dropped ({window} are kept) distances stay right", off)
    return Finding(
        "eviction",
        "wrong",
        f"once old keys are dropped ({window} are kept) the weights by distance drift, by {off:.2g}: "
        "the position of a new token is the number of keys kept, not of tokens seen. Count tokens apart",
        off,
    )
