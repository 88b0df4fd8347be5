"""Examine an attention: causality, order, decoding, values, scale, padding, grouped heads, half precision, rotation."""

from typing import Any

import torch

from posenc.doctor.attention import basics, cache, causality, padding, rotation_inside, weights
from posenc.doctor.attention.measure import TOLERANCE, Attention, AttentionRecord, T, measure_attention, replaced
from posenc.doctor.call.axes import SHOWN
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, not_checked, run_checks, stopped, with_check_name

OTHER_T = 17  # tokens, where there are T heads
NOT_OPENED = (
    "takes embeddings and its projections were not found, so scale, values and offsets cannot be read off the weights. "
    "Name them q_proj, k_proj, v_proj and o_proj, or pass fn(q, k, v)"
)
POSITION_CHECKS = (causality.future, causality.order, causality.shift, causality.decoding, padding.padding)
WEIGHT_CHECKS = (
    weights.contents,
    weights.values,
    weights.offsets,
    weights.lengths,
    weights.unused,
    weights.decay,
    weights.scale,
    basics.grouped_heads,
    basics.half_precision,
)


def accepts(code: Code) -> bool:
    """Return whether the code can be called as an attention."""
    attention = Attention(code.fresh())
    # Positions (t,) that broadcast against heads by mistake would fit if there were as many tokens as heads.
    t = OTHER_T if attention.heads == T else T
    q, k, v = attention.inputs(t=t)
    result = attention.at(q, k, v)
    if getattr(result, "shape", None) != q.shape:
        return False
    # Other keys change what later queries get, unless an inverted mask hides all: it is none of those that are tried.
    is_first = torch.arange(t) < 5  # (t,)
    changed = attention.at(*replaced(attention, is_first))  # (b, h, t, d)
    return relative_difference(changed[:, :, ~is_first], result[:, :, ~is_first]) > TOLERANCE


def is_sound(code: Code) -> bool:
    """Return whether moving all tokens changes nothing: among several forms of tables, the one that fits."""
    attention = Attention(code.fresh())
    result = attention.at(*attention.inputs())
    return causality.moved_difference(attention, result) < causality.ANGLE_TOLERANCE


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on an attention, and what was examined."""
    record = measure_attention(code)
    examined = _examined(record)
    # NaN, dropout, mixed heads or mixed texts would show in every other check too, under a wrong name.
    first = run_checks((basics.finite,), record) or run_checks((basics.heads, basics.batch), record)
    if any(finding.is_wrong for finding in first):
        return stopped(first), examined
    findings = run_checks(POSITION_CHECKS, record)
    if record.attention.takes_embeddings_only:
        findings += run_checks((basics.half_precision,), record)
        findings.append(with_check_name(not_checked(NOT_OPENED), "weights"))
    else:
        inside, layout = rotation_inside.examine(record)
        findings += [*run_checks(WEIGHT_CHECKS, record), *inside]
        examined |= layout
    # Padding can only be judged when all faults that change the real tokens as well are known.
    findings = padding.explain_padding(findings, record)
    return [*first, *findings, *run_checks((cache.cache,), record)], examined


def _examined(record: AttentionRecord) -> dict[str, Any]:
    code, attention = record.code, record.attention
    examined = {"axes": SHOWN[code.call.order or ("bhtd" if code.takes("v") else "btd")]}
    if attention.takes_embeddings_only:
        examined["sizes"] = f"embeddings of {attention.dim} channels"
    elif attention.projections or (attention.heads, attention.dim) != (code.heads, code.dim):
        heads = "1 head" if attention.heads == 1 else f"{attention.heads} heads"
        examined["sizes"] = f"{heads} of {attention.dim} channels"
    if attention.projections:
        examined["opened"] = f"q, k and v brought in by the projections of {attention.kv_heads} heads of keys"
    if code.call.table_form:
        examined["angles"] = f"angles of the doctor, {code.call.table_form}"
    return examined
