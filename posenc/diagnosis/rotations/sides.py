"""Examine whether queries and keys keep to themselves: each comes out of its own content, in its own place."""

from typing import Any

import torch

from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, ok, wrong


def along(use: Any) -> Finding | None:
    """Give all tokens, heads and texts one content: what comes out may differ from token to token only."""
    code, rotate = use.code, use.rotate
    t = code.way.exact or min(8, use.reach)
    x = random(1, 1, 1, code.dim, seed=59).expand(2, code.heads, t, -1).contiguous()
    y = rotate(x, None if code.way.exact else torch.arange(t))
    of_texts, of_heads, of_tokens = (far(y, y.narrow(axis, 0, 1).expand_as(y)) > 1e-6 for axis in range(3))
    if of_tokens or not (of_texts or of_heads):
        return None
    axis, cause = ("heads", "heads-axis") if of_heads else ("texts of the batch", "batch-axis")
    words = (
        f"what comes out differs from one to the next of the {axis} and not from token to token: it turns along them"
    )
    return wrong(cause, f"{words}. Say order='bthd' or 'tbhd' if that is yours, else take positions along the tokens")


def contents(use: Any) -> Finding | None:
    """Change the queries alone, then the keys alone, and see which result moves."""
    code, rotate = use.code, use.rotate
    if not code.takes("q", "k"):
        return None
    t = code.way.exact or min(8, use.reach)
    q, k, other = (random(1, code.heads, t, code.dim, seed=60 + i) for i in range(3))
    given = {"positions": torch.arange(t), "key_positions": torch.arange(t)} if code.takes("positions") else {}
    given |= {"offset": 0} if code.needs("offset") else {}
    before, of_q, of_k = (rotate.pair(*parts, **given) for parts in ((q, k), (other, k), (q, other)))
    moved = [[far(after[side], before[side]) > 1e-6 for after in (of_q, of_k)] for side in (0, 1)]
    if moved == [[True, False], [False, True]]:
        return ok("queries come of queries and keys of keys")
    if moved == [[False, True], [True, False]]:
        return wrong("swapped", "keys come out first and queries second: return them in the order they came in")
    for side, name, source in ((0, "queries", "keys"), (1, "keys", "queries")):
        if not moved[side][side] and moved[side][1 - side]:
            return wrong("one-for-both", f"the {name} that come out are made of the {source}: each of its own")
    return wrong("one-for-both", "what comes out does not follow what goes in: turn queries and keys each by itself")
