"""Measure the rotation inside an attention from its weights, and examine it as one that is passed alone.

A query at position p is a unit vector a, the key at position 0 a unit vector b, and all other keys are 0, so that their
logits are known. The weights then give, for the key at 0, a . R_p^T R_0 b, the rotation of queries. With keys b at
all positions, the last query shows that of keys. A bias is there without a or without b too, and is subtracted.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.attention.measure import Attention, AttentionRecord, T
from posenc.doctor.numerics import is_finite, random, relative_difference, wrap_angle
from posenc.doctor.report import Finding, note, run_checks, with_check_name, wrong
from posenc.doctor.rotation.fit_frequencies import fit
from posenc.doctor.rotation.frequencies import frequencies
from posenc.doctor.rotation.layout import check_layout, difference, direction, norm
from posenc.doctor.rotation.measure import MeasuredPairs, Rotation, RotationRecord, angles_of, pairs_of
from posenc.doctor.safe_call import attempt

SIZE = 2.5  # of unit vectors: products that weights show well
WIDEST = 64  # channels
CALLS = ((torch.float64, WIDEST), (torch.float32, WIDEST), (torch.float32, 1))  # dtype and texts: some take few texts
TINY = 1e-5
CHANGE = 1e-3  # of matrices and lengths
ANGLE_TOLERANCE = 1e-2
DECAY = 0.05  # the most that norms change in xPos
GRID = "angles do not grow evenly from token to token (a grid?), alike in queries and keys: no frequencies are read"


def examine(record: AttentionRecord) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on the rotation inside, and its layout, if there is one that depends on the position."""
    attention = record.attention
    # Weights are read off values with a channel for each key; for wide heads that would take too long.
    if attention.output_dim < T or attention.dim > WIDEST:
        return [], {}
    matrices = _matrices(record)
    if matrices is None or not any(map(_depends_on_position, matrices)):
        return [], {}
    queries, keys = map(_measured_pairs, matrices)
    rotate = Rotation(record.code)
    inside = RotationRecord(record.code, attention.dim, attention.heads, rotate, queries, keys, fit(queries.theta))
    findings = _faults_of_norm(inside)
    if findings:
        return findings, {}
    # Frequencies mean something only where angles grow linearly.
    if not all(map(_grows_evenly, (queries, keys))):
        return [_uneven_angles(*matrices)], {}
    for finding in run_checks(_checks(inside), inside):
        # A small change of lengths may be a decay, as in xPos, so it is no fault here.
        is_unsure_norm = finding.check == "norm" and finding.is_wrong
        if finding.verdict != "not checked" and not is_unsure_norm:
            findings.append(_named(finding))
    base = f", base {inside.fit.base:,.6g}" if inside.fit.name == "regular" else ""
    channels = f"{2 * len(queries.pairs)} of {attention.dim} channels are rotated inside"
    return findings, {"layout": f"{channels}, {queries.layout} layout{base}"}


def _named(finding: Finding) -> Finding:
    return finding._replace(check=f"rotation inside, {finding.check}")


def _checks(inside: RotationRecord) -> tuple[Callable[[RotationRecord], Finding | None], ...]:
    """Return the checks of a rotation that can be made of matrices alone."""
    # Where one side alone is rotated, that is the fault, and its direction and frequencies are no further ones.
    if "none" in (inside.reading.layout, inside.of_keys.layout) and difference(inside):
        return (check_layout,)
    return (norm, check_layout, direction, frequencies) if inside.reading.pairs else (norm, check_layout)


def _faults_of_norm(inside: RotationRecord) -> list[Finding]:
    """Say why one of the sides is no rotation at all, so that its frequencies mean nothing."""
    if "none" in (inside.reading.layout, inside.of_keys.layout):
        return []
    for side in (inside, inside._replace(reading=inside.of_keys, of_keys=inside.reading)):
        # A small change may be a decay, as in xPos.
        change = float((side.reading.gains - 1).abs().max())
        if CHANGE < change < DECAY:
            continue
        findings = [_named(finding) for finding in run_checks((norm,), side) if finding.is_wrong]
        if findings:
            return findings
    return []


def _depends_on_position(matrices: Tensor) -> bool:
    return relative_difference(matrices, matrices[:1].expand_as(matrices)) >= CHANGE


def _grows_evenly(pairs: MeasuredPairs) -> bool:
    """Return whether angles grow by the same from each position to the next, unlike along the rows of a grid."""
    if not pairs.pairs:
        return True
    expected = torch.arange(len(pairs.matrices))[:, None] * pairs.theta  # (t, r/2)
    angles = angles_of(pairs.matrices, pairs.pairs)  # (t, r/2)
    return bool(wrap_angle(angles - expected).abs().max() <= ANGLE_TOLERANCE)


def _uneven_angles(queries: Tensor, keys: Tensor) -> Finding:
    # Equal on both sides, angles may be those of a grid, whose rows are not known here.
    change = relative_difference(queries, keys)
    if change < ANGLE_TOLERANCE:
        return with_check_name(note(GRID, change), "rotation inside, layout")
    message = f"at one position queries and keys are rotated by different angles (the matrices differ by {change:.2g})"
    return with_check_name(wrong("sides-differ", message, change), "rotation inside, layout")


def _measured_pairs(matrices: Tensor) -> MeasuredPairs:
    """Return the pairs of matrices at positions 0, 1, 2 ..., of which the first is taken for the identity."""
    gains = matrices.norm(dim=1)  # (t, d)
    positions = torch.arange(len(matrices))  # (t,)
    # What rounding leaves of zeros would count as channels that mix.
    matrices = torch.where(matrices.abs() < TINY, 0.0, matrices)  # (t, d, d)
    pairs, layout = pairs_of(matrices)
    if not pairs:
        return MeasuredPairs(matrices, [], layout, positions, gains=gains)
    # The last angle is the most exact, once its whole turns are known from the first.
    first, last = angles_of(matrices[1], pairs), angles_of(matrices[-1], pairs)  # (n,), (n,)
    steps = len(matrices) - 1
    turns = torch.round((steps * first - last) / (2 * math.pi))  # (n,)
    theta = (last + 2 * math.pi * turns) / steps  # (n,)
    return MeasuredPairs(matrices, pairs, layout, positions, theta, gains, torch.zeros_like(theta))


def _matrices(record: AttentionRecord) -> tuple[Tensor, Tensor] | None:
    """Return the rotations of queries and of keys (t - 1, d, d), by the first way to call that raises nothing."""
    for dtype, texts in CALLS:
        matrices, failed = attempt(_matrices_in, record, dtype, texts)
        if not failed:
            return matrices
    return None


def _matrices_in(record: AttentionRecord, dtype: torch.dtype, texts: int) -> tuple[Tensor, Tensor] | None:
    """Return the rotations of queries and of keys at positions 0 .. t - 2, without the softmax scale."""
    attention = record.attention.of(record.code.cast(dtype))
    of_queries, of_keys = (_products(attention, dtype, side, texts) for side in ("queries", "keys"))
    if not is_finite((of_queries, of_keys)) or not _is_bilinear(attention, of_queries, dtype):
        return None
    # A rotation keeps lengths, so those of the columns are the softmax scale. Where they decay by a constant factor a
    # position, the scale is that at position 0, from positions 1 and 2.
    first, second = of_queries[:2].norm(dim=1)
    scale = float((first**2 / second).nanmedian())
    identity = torch.eye(attention.dim, dtype=torch.float64)[None]
    queries = torch.cat((identity, of_queries.mT / scale))  # (t, d, d)
    # For the last query the products are R_q^T R_k, of which R_q is known.
    return queries[:-1], torch.linalg.pinv(queries[-1].mT) @ of_keys / scale  # (t-1, d, d), (t-1, d, d)


def _products(attention: Attention, dtype: torch.dtype, side: str, texts: int) -> Tensor:
    """Return a . R^T R b for all unit vectors a, b: (positions, d, d)."""
    d, h = attention.dim, attention.heads
    unit = torch.eye(d, dtype=dtype) * SIZE  # (d, d)
    zeros = torch.zeros(h, d, dtype=dtype)  # (h, d)
    # Each token of each text needs a channel of the embeddings.
    most = attention.projections.width // T if attention.projections else d
    parts = unit.split(min(texts, most))
    keys_alone = [_logits(attention, zeros, b, side) for b in parts]
    neither = _logits(attention, zeros, zeros[:1], side)
    rows = []
    # One call measures a query for each head: all heads are rotated alike.
    for part in unit.split(h):
        a = torch.cat((part, zeros))[:h]  # (h, d)
        # What comes of a or of b alone, or of neither, is a bias, not a product.
        query_alone = _logits(attention, a, zeros[:1], side) - neither
        both = [_logits(attention, a, b, side) for b in parts]
        rows.append(torch.cat([each - query_alone - alone for each, alone in zip(both, keys_alone, strict=True)]))
    return torch.cat(rows, 1)[:, :d].permute(2, 1, 0) / SIZE**2  # (m, d, d)


def _is_bilinear(attention: Attention, of_queries: Tensor, dtype: torch.dtype) -> bool:
    """Return whether other vectors have the products that unit vectors predict: with norms or softplus they do not."""
    a, b = random(2, attention.dim, seed=17).to(dtype)
    a = a.expand(attention.heads, -1)  # (h, d)
    b = b[None]  # (1, d)
    pairs = itertools.product((a, torch.zeros_like(a)), (b, torch.zeros_like(b)))
    both, query_alone, key_alone, neither = (_logits(attention, *pair, "queries") for pair in pairs)
    expected = torch.einsum("i,pij,j->p", a[0].double(), of_queries, b[0].double())  # (m,)
    result = both - query_alone - key_alone + neither  # (1, h, m)
    return relative_difference(result, expected.expand_as(result)) < ANGLE_TOLERANCE


def _logits(attention: Attention, a: Tensor, b: Tensor, side: str) -> Tensor:
    """Return logits (n, h, t - 1) for queries a (h, d) and keys b (n, d), against a key that is 0.

    For the rotation of queries they are those of the key at 0 for the queries from 1 on, for that of keys those of all
    keys but the last for the last query.
    """
    positions = torch.arange(T)[:, None]  # (t, 1)
    has_key = positions < T - 1 if side == "keys" else positions == 0  # (t, 1)
    q = a[:, None].expand(len(b), -1, T, -1).contiguous()  # (n, h, t, d)
    k = b[:, None, None].expand(-1, attention.kv_heads, T, -1) * has_key  # (n, g, t, d)
    # The logarithm of a weight is the logit less a number of its row, which the difference to a key of 0 cancels.
    logits = attention.weights(q, k).log()  # (n, h, t, t)
    if side == "keys":
        return logits[:, :, -1, :-1] - logits[:, :, -1, -1:]  # (n, h, t-1)
    return (logits[:, :, :, 0] - logits.diagonal(dim1=2, dim2=3))[:, :, 1:]  # (n, h, t-1)
