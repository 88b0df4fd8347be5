"""FlexAttention: the bias of each pair of tokens is computed in the kernel, so none is stored.

Paper: Dong et al., 2024, "Flex Attention: A Programming Model for Generating Optimized Attention
       Kernels", https://arxiv.org/abs/2412.05496.

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim

Compiled once for each kind of call; on a CPU, where it has no gradients, for each shape.
`torch._dynamo.config.recompile_limit` bounds their number.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from posenc.attention import default_positions, encoded, is_scalar_per_token, takes_content


def attention_by_flex(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Callable[..., Any] | None = None,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    causal: bool = False,
    documents: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Return what `attention` returns, (b, h, t, d), for a rotation or what has a `score_mod`.

    `documents` are ids of the keys, (s,) or (b, s): a query, one of the last t, attends to keys of
    its own document only.

    Raises:
        ValueError: If gradients are recorded on a CPU.
        ValueError: If `encoding` is no rotation and has no `score_mod`.
    """
    if q.device.type == "cpu" and torch.is_grad_enabled():
        remedy = "call it under torch.no_grad(), or take posenc.fast.attention_in_blocks"
        raise ValueError(
            f"flex: device must be a GPU to record gradients, got {q.device}; {remedy}"
        )
    m, n = default_positions(q, k, positions, key_positions)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    block_mask = _block_mask(q, k, encoding, m, n, causal, documents)
    q, k, modify = _encoded(q, k, encoding, m, n)
    # on a CPU, code for sizes that vary may fail
    dynamic = False if q.device.type == "cpu" else None
    flex = torch.compile(flex_attention, fullgraph=True, dynamic=dynamic)
    return flex(q, k, v, modify, block_mask, factor, k.shape[1] != q.shape[1])


def _encoded(
    q: Tensor, k: Tensor, encoding: Any, m: Tensor, n: Tensor
) -> tuple[Tensor, Tensor, Callable[..., Tensor] | None]:
    """Return q and k, rotated or not, and what changes the logit of a pair, or None."""
    if hasattr(encoding, "score_mod"):
        if takes_content(encoding.score_mod) is False:
            return q, k, encoding.score_mod(m, n)
        return q, k, encoding.score_mod(q, k, m, n)
    q, k, added = encoded(q, k, encoding, m, n)
    if added is not None:
        got = f"{type(encoding).__name__}; posenc.fast.attention_in_blocks takes any bias or score"
        raise ValueError(f"flex: encoding must be a rotation or have a score_mod, got {got}")
    return q, k, None


def _block_mask(
    q: Tensor,
    k: Tensor,
    encoding: Any,
    m: Tensor,
    n: Tensor,
    causal: bool,
    documents: Tensor | None,
) -> Any:
    """Return which blocks of pairs are computed: those where a query attends to a key."""
    t, s = q.shape[2], k.shape[2]
    if not (is_scalar_per_token(m, q, encoding) and is_scalar_per_token(n, k, encoding)):
        # on a grid the order is that of the sequence
        m, n = default_positions(q, k)

    def _sees(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        sees = q_idx >= 0
        if causal:
            sees = sees & (_at(m, b, q_idx) >= _at(n, b, kv_idx))
        if documents is not None:
            sees = sees & (_at(documents, b, q_idx + s - t) == _at(documents, b, kv_idx))
        return sees

    batched = any(x is not None and x.ndim > 1 for x in (m, n, documents))
    return create_block_mask(_sees, len(q) if batched else None, None, t, s, device=q.device)


def _at(rows: Tensor, b: Tensor, i: Tensor) -> Tensor:
    return rows[b, i] if rows.ndim == 2 else rows[i]
