"""Examine whether queries and keys keep to themselves: each comes out of its own content, in its own place."""

from typing import Any

import torch

from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, passed, wrong


def along(use: Any) -> Finding | None:
    """Give all tokens, heads and texts one content: what comes out may differ from token to token only."""
    code = use.code
    x = random(1, 1, 1, code.dim, seed=59).expand(5, code.heads, code.call.tokens or 8, -1).contiguous()
    y = use.rotate(x)
    of_texts, of_heads, of_tokens = (relative_difference(y, y.flip(axis)) > 1e-6 for axis in range(3))
    if of_tokens:
        return None
    for differ, cause, axis in ((of_heads, "heads-axis", "heads"), (of_texts, "batch-axis", "texts of the batch")):
        if differ:
            words = f"what comes out differs from one to the next of the {axis} and not from token to token: it turns"
            remedy = "Say order='bthd' or 'tbhd' if that is yours, else take positions along the tokens"
            return wrong(cause, f"{words} along them. {remedy}")
    return None


def contents(use: Any) -> Finding | None:
    """Change the queries alone, then the keys alone, and see which result moves."""
    code, rotate = use.code, use.rotate
    if not code.takes("q", "k"):
        return None
    t = code.call.tokens or 8
    q, k, other = random(3, 1, code.heads, t, code.dim, seed=60).unbind()
    before, *after = (rotate.pair(*two, **rotate.told(torch.arange(t))) for two in ((q, k), (other, k), (q, other)))
    moved = [[not torch.equal(*sides) for sides in zip(made, before, strict=True)] for made in after]
    if moved == [[True, False], [False, True]]:
        return passed("queries come of queries and keys of keys")
    if moved == [[False, True], [True, False]]:
        return wrong("swapped", "keys come out first and queries second: return them in the order they came in")
    return wrong("one-for-both", "what comes out is not made of queries and keys, each of its own: turn each by itself")
