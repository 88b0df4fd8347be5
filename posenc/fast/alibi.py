"""ALiBi inside queries and keys: extra channels whose products are the bias, so none is stored.

Paper: Press et al., 2021, "Train Short, Test Long: Attention with Linear Biases Enables Input
       Length Extrapolation", https://arxiv.org/abs/2108.12409, sec. 3.

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, c channels, w width d + c

    -slope (m - n) = (slope, -slope m) . (n, 1)          key n at or before query m

so attention with a causal mask over the wider queries and keys is ALiBi, on torch's fused kernels.
A key ahead gets a positive bias: hide it. In float32 a product of 1,000 costs digits of the logit
that is added to it, and positions beyond 256 are not exact in bfloat16. So each factor is split
into parts that its dtype holds exactly, and the large products come first, next to those that
cancel them. A kernel that adds in this order loses nothing. One that adds in another leaves an
error in the logits: in float32 about 10 * 2^-24 * slope * (m - the first query), as MKL's kernels
for old processors do.
"""

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from posenc.attention import default_positions
from posenc.bias import alibi

PARTS = {
    torch.float64: ([torch.float64], [torch.float64]),
    torch.float32: ([torch.bfloat16, torch.float32], [torch.float32]),
    torch.bfloat16: ([torch.bfloat16] * 3, [torch.bfloat16] * 3),
}


class ALiBi(nn.Module):
    """Give queries and keys the channels of ALiBi: called like a rotation, for causal attention.

    Raises:
        ValueError: If a slope is negative or infinite.

    Examples:
        >>> from posenc.attention import attention
        >>> q, k, v = torch.randn(3, 1, 8, 100, 64).unbind()
        >>> fast = attention(q, k, v, ALiBi(8), causal=True)
        >>> torch.allclose(fast, attention(q, k, v, alibi.ALiBi(8), causal=True), atol=1e-5)
        True
    """

    def __init__(self, heads: int, slopes: ArrayLike | None = None, alibi_bias_max: float = 8.0):
        super().__init__()
        self.bias = alibi.ALiBi(heads, slopes, alibi_bias_max=alibi_bias_max)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        scale: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, w) and `k` (b, g, s, w), to be multiplied by `scale`, 1/sqrt(d).

        Positions are as in `attention`. float16 lacks the range, and becomes float32.
        """
        m, n = default_positions(q, k, positions, key_positions)
        query_channels, key_channels = self.bias.channels(m, n)
        factor = q.shape[-1] ** -0.5 if scale is None else scale
        return with_channels(q, k, query_channels, key_channels, factor)


def with_channels(
    q: Tensor, k: Tensor, query_channels: Tensor, key_channels: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Return `q` (b, h, t, w) and `k` (b, g, s, w) behind channels, which come in float64.

    Products of the channels, times `scale`, are what they were.

    Examples:
        >>> one = torch.ones(1, 1, 1, 2, dtype=torch.float64)
        >>> q, k = with_channels(torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 1, 8), one, one, 0.5)
        >>> (q * k).sum() * 0.5
        tensor(2.)
    """
    dtype = _dtype(q)
    dtypes_q, dtypes_k = PARTS[dtype]
    parts_q = _parts(query_channels / scale, dtypes_q)
    parts_k = _parts(key_channels, dtypes_k)
    # of all products of parts, those below the last digit are left out
    pairs = [
        (a, b) for i, a in enumerate(parts_q) for j, b in enumerate(parts_k) if i + j < len(parts_q)
    ]
    all_q = torch.cat([a for a, _ in pairs], dim=-1).to(q.device, dtype)  # (..., h, t, c)
    all_k = torch.cat([b for _, b in pairs], dim=-1).to(k.device, dtype)  # (..., 1, s, c)
    q = torch.cat([all_q.expand(*q.shape[:-1], -1), q.to(dtype)], dim=-1)  # (b, h, t, w)
    k = torch.cat([all_k.expand(*k.shape[:-1], -1), k.to(dtype)], dim=-1)  # (b, g, s, w)
    return q, k


def _dtype(x: Tensor) -> torch.dtype:
    """Return the dtype that a kernel would compute in, which autocast may set."""
    dtype = x.dtype
    if torch.is_autocast_enabled(x.device.type) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(x.device.type)
    return dtype if dtype in PARTS else torch.float32


def _parts(x: Tensor, dtypes: list[torch.dtype]) -> list[Tensor]:
    """Return numbers whose sum is `x`, each of which its dtype holds exactly."""
    parts = []
    for dtype in dtypes:
        part = x.to(dtype).to(x.dtype)
        parts.append(part)
        x = x - part
    return parts
