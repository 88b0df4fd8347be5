"""Examine whether queries and keys keep to themselves: each comes out of its own content, in its own place."""

from typing import Any

import torch

from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, ok, wrong


def contents(use: Any) -> Finding | None:
    """Change the queries alone, then the keys alone, and see which result moves."""
    code, rotate = use.code, use.rotate
    if not code.takes("q", "k"):
        return None
    t = min(8, use.reach)
    q, k, other = (random(1, code.heads, t, code.dim, seed=60 + i) for i in range(3))
    given = {"positions": torch.arange(t), "key_positions": torch.arange(t)} if code.takes("positions") else {}
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
