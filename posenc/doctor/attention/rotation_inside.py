"""Read the rotation inside an attention off its weights, and examine it as one that is handed in alone.

A query at place p is a unit vector a, the key at place 0 a unit vector b, and all other keys are 0, so that their
logits are known. What the weights then say of the key at 0 is a . R_p^T R_0 b, the rotation of queries. With keys b at
all places, the last query shows that of keys. A bias is there without a or without b too, and is taken away.
"""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.attention.measure import Attention, Case, T
from posenc.doctor.numerics import random, relative_difference, wrap_angle
from posenc.doctor.report import Finding, note, run_checks, with_check_name, wrong
from posenc.doctor.rotation import frequencies
from posenc.doctor.rotation.fit_frequencies import fit
from posenc.doctor.rotation.layout import check_layout, difference, direction
from posenc.doctor.rotation.measure_angles import Case as Turned
from posenc.doctor.rotation.measure_angles import Reading, Rotation, angles_of, pairs_of
from posenc.doctor.rotation.norms import norm

SIZE = 2.5  # of unit vectors: products that weights show well
WIDEST = 64
NEARLY = 1e-5
UNEVEN = 1e-2
ALIKE = 1e-3
DECAYS = 0.05  # by how much a length may change as in xPos


def rotation(case: Case) -> tuple[list[Finding], dict[str, Any]]:
    """Return what is said of the rotation inside and what it is, if there is one that differs from place to place."""
    if case.shown < T or case.dim > WIDEST:
        return [], {}
    ways = ((torch.float64, WIDEST), (torch.float32, WIDEST), (torch.float32, 1))  # one may hold room for few texts
    tried = (attempt(_matrices, case, dtype, batch) for dtype, batch in ways)
    sides = next((made for made, failed in tried if not failed), None)
    if sides is None or all(map(_still, sides)):
        return [], {}
    readings = queries, keys = [_reading(side) for side in sides]
    found = Turned(case.code, case.dim, case.heads, Rotation(case.code), queries, keys, fit(queries.theta))
    if broken := _broken(found):
        return [broken], {}
    if any(map(_uneven, sides, readings)):
        return [_of_uneven(*sides)], {}
    told = [one for one in run_checks(_checks(found), found) if one.verdict != "not checked"]
    told = [one for one in told if (one.check, one.verdict) != ("norm", "wrong")]  # said above, where it is sure
    return [one._replace(check=f"rotation inside, {one.check}") for one in told], _about(found)


def _broken(found: Turned) -> Finding | None:
    """Say why one of the sides is no rotation at all, so that its speeds mean nothing."""
    both = (found, found._replace(reading=found.of_keys, of_keys=found.reading))
    sure = [side for side in both if "none" not in _layouts(found) and _sure(side)]
    said = (one for side in sure for one in run_checks((norm,), side) if one.verdict == "wrong")
    return next((one._replace(check="rotation inside, norm") for one in said), None)


def _sure(found: Turned) -> bool:
    """Tell whether lengths are 1, or far from it: between may be a decay, as in xPos."""
    off = float((found.reading.gains - 1).abs().max())
    return not ALIKE < off < DECAYS


def _layouts(found: Turned) -> tuple[str, str]:
    return found.reading.layout, found.of_keys.layout


def _about(found: Turned) -> dict[str, Any]:
    base = f", base {found.fit.base:,.6g}" if found.fit.name == "regular" else ""
    turning = f"{2 * len(found.reading.pairs)} of {found.dim} channels turn inside"
    return {"layout": f"{turning}, {found.reading.layout} layout{base}"}


def _still(matrices: Tensor) -> bool:
    return relative_difference(matrices, matrices[:1].expand_as(matrices)) < ALIKE


def _uneven(matrices: Tensor, reading: Reading) -> bool:
    """Tell whether angles do not grow by as much from each place to the next, as along the rows of a grid."""
    if not reading.pairs:
        return False
    off = angles_of(matrices, reading.pairs) - torch.arange(len(matrices))[:, None] * reading.theta
    return bool(wrap_angle(off).abs().max() > UNEVEN)


def _of_uneven(queries: Tensor, keys: Tensor) -> Finding:
    off = relative_difference(queries, keys)
    name = "rotation inside, layout"
    if off < UNEVEN:
        words = "angles do not grow evenly from token to token (a grid?), alike in queries and keys: no speeds to read"
        return with_check_name(note(words, off), name)
    words = f"queries and keys at one place are turned by different angles (off by {off:.2g}): count both alike"
    return with_check_name(wrong("sides-differ", words, off), name)


def _checks(found: Turned) -> tuple[Any, ...]:
    if "none" in _layouts(found) and difference(found):
        return (check_layout,)
    return (norm, check_layout, direction, frequencies.frequencies) if found.reading.pairs else (norm, check_layout)


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
    if not of_keys.isfinite().all() or not _bilinear(case, attend, of_queries, dtype):
        return None
    first, second = of_queries[:2].norm(dim=1)
    gain = float((first**2 / second).nanmedian())  # at place 0, where lengths decay too
    identity = torch.eye(case.dim, dtype=torch.float64)
    *queries, last = identity, *(of_queries.mT / gain)
    return torch.stack(queries), torch.linalg.pinv(last.mT) @ of_keys / gain


def _products(case: Case, attend: Attention, dtype: torch.dtype, of_keys: bool, batch: int) -> Tensor:
    """Return a . R^T R b for all unit vectors a, b: (places, d, d)."""
    d, h = case.dim, case.heads
    unit, none = torch.eye(d, dtype=dtype) * SIZE, torch.zeros(h, d, dtype=dtype)
    parts = unit.split(min(batch, attend.opened.width // T if attend.opened else d))
    of_b = [_logits(attend, none, b, of_keys) for b in parts]
    empty, rows = _logits(attend, none, none[:1], of_keys), []
    for part in unit.split(h):
        a = torch.cat((part, none))[:h]
        of_a = _logits(attend, a, none[:1], of_keys) - empty
        each = zip(parts, of_b, strict=True)
        rows.append(torch.cat([_logits(attend, a, b, of_keys) - of_a - own for b, own in each]))
    return torch.cat(rows, 1)[:, :d].permute(2, 1, 0) / SIZE**2


def _bilinear(case: Case, attend: Attention, of_queries: Tensor, dtype: torch.dtype) -> bool:
    """Tell whether products of other vectors are what those of unit vectors say: norms or softplus are no rotation."""
    a, b = random(2, case.dim, seed=17).to(dtype)
    of_a = a.expand(case.heads, -1)
    pairs = itertools.product((of_a, torch.zeros_like(of_a)), (b[None], torch.zeros_like(b)[None]))
    both, first, second, neither = (_logits(attend, *pair, False) for pair in pairs)
    due = torch.einsum("i,pij,j->p", a.double(), of_queries, b.double())
    return bool((both - first - second + neither - due).abs().max() < UNEVEN * due.abs().max())


def _logits(attend: Attention, a: Tensor, b: Tensor, of_keys: bool) -> Tensor:
    """Return logits (n, h, T - 1) for queries a (h, d) and keys b (n, d), against a key that is 0.

    They are those of the key at 0 for the queries from 1 on, or of all keys but the last for the last query.
    """
    q = a[:, None].expand(len(b), -1, T, -1).contiguous()
    k = b[:, None, None].expand(-1, attend.kv_heads, T, -1) * _given(of_keys)
    w = attend.weights(q, k).log()
    if of_keys:
        return w[:, :, -1, :-1] - w[:, :, -1, -1:]
    return (w[:, :, :, 0] - w.diagonal(dim1=2, dim2=3))[:, :, 1:]


def _given(of_keys: bool) -> Tensor:
    """Return 1 for the keys (T, 1) that are given, and 0 for the others."""
    one = torch.eye(T, dtype=torch.long)
    return 1 - one[:, -1:] if of_keys else one[:, :1]
