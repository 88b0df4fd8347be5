"""Attention a block of queries at a time: the scores of a block are stored, not those of all.

Paper: Rabe & Staats, 2021, "Self-attention Does Not Need O(n^2) Memory",
       https://arxiv.org/abs/2112.05682, sec. 2.

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim

For a learned bias or a score, which fused kernels do not know. What a block stored on its way is
made again for its gradients.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from posenc.attention import attention, is_in_line, places


def attention_in_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding=None,
    positions=None,
    key_positions=None,
    causal: bool = False,
    mask=None,
    scale=None,
    block: int = 256,
) -> Tensor:
    """Return what `attention` returns, (b, h, t, d), with (h, block, s) scores stored at a time.

    Examples:
        >>> q, k, v = torch.randn(3, 1, 2, 1000, 8).unbind()
        >>> made = attention_in_blocks(q, k, v, causal=True)
        >>> torch.allclose(made, attention(q, k, v, causal=True), atol=1e-6)
        True
    """
    t, s = q.shape[2], k.shape[2]
    m, n = places(q, k, positions, key_positions)
    mask = None if mask is None else torch.atleast_2d(mask).expand(*mask.shape[:-2], t, s)
    of_m, of_n = (-1 if is_in_line(p, x, encoding) else -2 for p, x in ((m, q), (n, k)))
    in_order, outs = of_m == -2 or positions is key_positions is None, []
    for start in range(0, max(t, 1), block):
        size = min(block, t - start)
        seen = s - t + start + size if causal and in_order else s  # keys that this block may see
        where = (m.narrow(of_m, start, size), n.narrow(of_n, 0, seen))
        here = None if mask is None else mask[..., start : start + size, :seen]
        rest = (k[:, :, :seen], v[:, :, :seen], encoding, *where, causal, here, scale)
        outs.append(_again(q[:, :, start : start + size], *rest))
    return torch.cat(outs, dim=2)


def _again(*given):
    """Attend; what was stored on the way is made again for gradients."""
    if torch.is_grad_enabled():
        return checkpoint(attention, *given, use_reentrant=False)
    return attention(*given)
