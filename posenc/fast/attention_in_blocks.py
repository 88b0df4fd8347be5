"""Attention a block of queries at a time: the logits of one block are stored, not those of all.

Paper: Rabe & Staats, 2021, "Self-attention Does Not Need O(n^2) Memory",
       https://arxiv.org/abs/2112.05682, sec. 2.

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim

For a learned bias or a score, which fused kernels do not support. What is stored for a block is
computed again for its gradients.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from posenc.attention import attention, default_positions, is_scalar_per_token


def attention_in_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Callable[..., Any] | None = None,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    scale: float | None = None,
    block: int = 256,
) -> Tensor:
    """Return what `attention` returns, (b, h, t, d), with (h, block, s) logits stored at a time.

    Examples:
        >>> q, k, v = torch.randn(3, 1, 2, 1000, 8).unbind()
        >>> output = attention_in_blocks(q, k, v, causal=True)
        >>> torch.allclose(output, attention(q, k, v, causal=True), atol=1e-6)
        True
    """
    t, s = q.shape[2], k.shape[2]
    m, n = default_positions(q, k, positions, key_positions)
    if mask is not None:
        mask = torch.atleast_2d(mask).expand(*mask.shape[:-2], t, s)
    # the axis of tokens, which coordinates come after
    axis_m = -1 if is_scalar_per_token(m, q, encoding) else -2
    axis_n = -1 if is_scalar_per_token(n, k, encoding) else -2
    # where tokens are in order, a block sees no key behind its last query
    in_order = axis_m == -2 or (positions is None and key_positions is None)
    outputs = []
    for start in range(0, max(t, 1), block):
        size = min(block, t - start)
        keys = s - t + start + size if causal and in_order else s
        rows = slice(start, start + size)
        content = (q[:, :, rows], k[:, :, :keys], v[:, :, :keys])
        tokens = (m.narrow(axis_m, start, size), n.narrow(axis_n, 0, keys))
        block_mask = None if mask is None else mask[..., rows, :keys]
        outputs.append(_attention(*content, encoding, *tokens, causal, block_mask, scale))
    return torch.cat(outputs, dim=2)


def _attention(*arguments: Any) -> Tensor:
    """Attend; intermediate results are computed again for gradients."""
    if torch.is_grad_enabled():
        return checkpoint(attention, *arguments, use_reentrant=False)
    return attention(*arguments)
