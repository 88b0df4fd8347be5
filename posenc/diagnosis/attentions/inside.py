"""Read the rotation inside an attention off its weights, and examine it as one that is handed in alone.

A query at place p is a unit vector a, the key at place 0 a unit vector b, and all other keys are 0, so that their
logits are known. What the weights then say of the key at 0 is a . R_p^T R_0 b, the rotation of queries. With keys b at
all places, the last query shows that of keys. A bias is there without a or without b too, and is taken away.
"""

import math
from typing import Any

import torch
from torch import Tensor

from posenc.diagnosis.attentions.attend import Attention, Case, T
from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.compare import far, random, wrapped
from posenc.diagnosis.report import Finding, findings, named, note, wrong
from posenc.diagnosis.rotations import speeds
from posenc.diagnosis.rotations.frequencies import fit
from posenc.diagnosis.rotations.layout import difference, direction, layout
from posenc.diagnosis.rotations.lengths import norm
from posenc.diagnosis.rotations.read import Case as Turned
from posenc.diagnosis.rotations.read import Reading, Rotation, angles_of, pairs_of

SIZE = 2.0  # of unit vectors: products that weights show well
WIDEST = 64
NEARLY = 1e-5
UNEVEN = 1e-2
EXACT, DECAYS = 1e-3, 0.05


def rotation(case: Case) -> tuple[list[Finding], dict[str, Any]]:
    """Return what is said of the rotation inside and what it is, if there is one that differs from place to place."""
    if case.shown < T or case.dim > WIDEST:
        return [], {}
    sides, failed = None, "not tried"
    for dtype, batch in ((torch.float64, WIDEST), (torch.float32, WIDEST), (torch.float32, 1)):
        if failed:  # by its dtype, or since it holds room for few texts
            sides, failed = attempt(_matrices, case, dtype, batch)
    if failed or sides is None or all(_still(side) for side in sides):
        return [], {}
    queries, keys = (_reading(side) for side in sides)
    found = Turned(case.code, case.dim, case.heads, Rotation(case.code), queries, keys, fit(queries.theta))
    if broken := _broken(found):
        return [broken], {}
    if _uneven(sides[0], queries) or _uneven(sides[1], keys):
        return [_of_uneven(*sides)], {}
    told = [one for one in findings(_checks(found), found) if one.verdict != "not checked"]
    told = [one for one in told if (one.check, one.verdict) != ("norm", "wrong")]  # said above, where it is sure
    return [one._replace(check=f"rotation inside, {one.check}") for one in told], _about(found)


def _broken(found: Turned) -> Finding | None:
    """Say why one of the sides is no rotation at all, so that its speeds mean nothing."""
    sides = (found, found._replace(reading=found.of_keys, of_keys=found.reading))
    said = [one for side in sides if _sure(side) for one in findings((norm,), side) if one.verdict == "wrong"]
    return named(said[0]._replace(check=""), "rotation inside, norm") if said and not _rests(found) else None


def _sure(found: Turned) -> bool:
    """Tell whether lengths are exactly 1, or far from it: between may be a decay, as in xPos."""
    off = float((found.reading.gains - 1).abs().max())
    return off < EXACT or off > DECAYS


def _rests(found: Turned) -> bool:
    return "none" in (found.reading.layout, found.of_keys.layout)


def _about(found: Turned) -> dict[str, Any]:
    if not found.reading.pairs:
        return {}
    base = f", base {found.fit.base:,.6g}" if found.fit.name == "regular" else ""
    turning = f"{2 * len(found.reading.pairs)} of {found.dim} channels turn inside"
    return {"layout": f"{turning}, {found.reading.layout} layout{base}"}


def _still(matrices: Tensor) -> bool:
    return far(matrices, matrices[:1].expand_as(matrices)) < 1e-3


def _uneven(matrices: Tensor, reading: Reading) -> bool:
    """Tell whether angles do not grow by as much from each place to the next, as along the rows of a grid."""
    if not reading.pairs:
        return False
    off = angles_of(matrices, reading.pairs) - torch.arange(len(matrices))[:, None] * reading.theta
    return bool(wrapped(off).abs().max() > UNEVEN)


def _of_uneven(queries: Tensor, keys: Tensor) -> Finding:
    off = far(queries, keys)
    name = "rotation inside, layout"
    if off < UNEVEN:
        words = "angles do not grow evenly from token to token (a grid?), alike in queries and keys: no speeds to read"
        return named(note(words, off), name)
    words = f"queries and keys at one place are turned by different angles (off by {off:.2g}): count both alike"
    return named(wrong("sides-differ", words, off), name)


def _checks(found: Turned) -> tuple[Any, ...]:
    if "none" in (found.reading.layout, found.of_keys.layout) and difference(found):
        return (layout,)
    if found.reading.pairs and not found.code.way.table:
        return norm, layout, direction, speeds.frequencies
    return (norm, layout, direction) if found.reading.pairs else (norm, layout)


def _reading(matrices: Tensor) -> Reading:
    """Return the reading of matrices at places 0, 1, 2 ..., of which the first is taken for the identity."""
    gains, places = matrices.norm(dim=1), torch.arange(len(matrices))
    matrices = torch.where(matrices.abs() < NEARLY, 0.0, matrices)
    pairs, name = pairs_of(matrices)
    if not pairs:
        return Reading(matrices, [], name, places, gains=gains)
    near, last = (angles_of(matrices[place], pairs) for place in (1, -1))
    steps = len(matrices) - 1
    turns = torch.round((steps * near - last) / (2 * math.pi))
    theta = (last + 2 * math.pi * turns) / steps
    return Reading(matrices, pairs, name, places, theta, gains, torch.zeros_like(theta))


def _matrices(case: Case, dtype: torch.dtype, batch: int) -> tuple[Tensor, Tensor] | None:
    """Return the rotations of queries and of keys at places 0 .. T - 2, without the softmax scale."""
    attend = Attention(case.code.cast(dtype))
    of_queries, of_keys = (_products(case, attend, dtype, side, batch) for side in (False, True))
    first, second = of_queries[:2].norm(dim=1)
    gain = float((first**2 / second).nanmedian())  # at place 0, where lengths decay too
    read = gain > 1e-4 and torch.stack((of_queries, of_keys)).isfinite().all()
    if not read or not _bilinear(case, attend, of_queries, dtype):
        return None
    identity = torch.eye(case.dim, dtype=torch.float64)[None]
    queries = torch.cat((identity, of_queries.mT / gain))
    return queries[:-1], torch.linalg.pinv(queries[-1].mT) @ of_keys / gain


def _products(case: Case, attend: Attention, dtype: torch.dtype, of_keys: bool, batch: int) -> Tensor:
    """Return a . R^T R b for all unit vectors a, b: (places, d, d)."""
    d, h = case.dim, case.heads
    batch = min(batch, attend.opened.width // T if attend.opened else d)
    made = torch.zeros(T - 1, d, d, dtype=torch.float64)
    nothing, none = torch.zeros(1, h, d, dtype=dtype), torch.zeros(1, d, dtype=dtype)
    unit = torch.eye(d, dtype=dtype) * SIZE
    parts = {start: unit[start : start + batch] for start in range(0, d, batch)}
    of_b = {start: _logits(case, attend, nothing.expand(len(b), -1, -1), b, of_keys) for start, b in parts.items()}
    empty = _logits(case, attend, nothing, none, of_keys)
    for first in range(0, d, h):
        heads = [min(first + i, d - 1) for i in range(h)]
        of_a = _logits(case, attend, unit[heads][None], none, of_keys) - empty
        for start, b in parts.items():
            logits = _logits(case, attend, unit[heads].expand(len(b), -1, -1), b, of_keys) - of_a - of_b[start]
            made[:, heads, start : start + len(b)] = logits.permute(2, 1, 0) / SIZE**2
    return made


def _bilinear(case: Case, attend: Attention, of_queries: Tensor, dtype: torch.dtype) -> bool:
    """Tell whether products of other vectors are what those of unit vectors say: norms or softplus are no rotation."""
    a, b = (random(1, case.dim, seed=17 + side).to(dtype) / case.dim**0.5 for side in (0, 1))
    each, nothing = a[:, None].expand(-1, case.heads, -1), torch.zeros(1, case.dim, dtype=dtype)
    none = nothing[:, None].expand_as(each)
    pairs = ((each, b), (each, nothing), (none, b), (none, nothing))
    both, of_a, of_b, empty = (_logits(case, attend, *pair, False)[0, 0] for pair in pairs)
    due = torch.einsum("i,pij,j->p", a[0].double(), of_queries, b[0].double())
    return far(both - of_a - of_b + empty, due) < 1e-2 * float(of_queries.abs().max())


def _logits(case: Case, attend: Attention, a: Tensor, b: Tensor, of_keys: bool) -> Tensor:
    """Return logits (n, h, T - 1) for queries a (n, h, d) and keys b (n, d), against a key that is 0.

    They are those of the key at 0 for the queries from 1 on, or of all keys but the last for the last query.
    """
    n, h, d = a.shape
    q = a[:, :, None].expand(n, h, T, d).contiguous()
    k = torch.zeros(n, attend.kv_heads, T, d, dtype=b.dtype)
    k[:, :, : T - 1 if of_keys else 1] = b[:, None, None]
    w = attend.weights(q, k).log()
    if of_keys:
        return w[:, :, -1, :-1] - w[:, :, -1, -1:]
    return (w[:, :, :, 0] - w.diagonal(dim1=2, dim2=3))[:, :, 1:]
