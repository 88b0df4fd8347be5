"""Scaled dot-product attention, the place where position enters or does not.

Paper: Vaswani et al., 2017, "Attention Is All You Need", https://arxiv.org/abs/1706.03762, eq. 1.

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim

    attention(q, k, v) = softmax(q k^T / sqrt(d)) v

so permuting the tokens permutes the outputs and changes nothing else, unless a mask or a position breaks the symmetry.
Keys stand at 0 .. s-1 and queries at the last t of them by default, so one new query after a cache of keys is right
without being told; `F.scaled_dot_product_attention(is_causal=True)` aligns queries with the first keys instead.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the attention output (b, h, t, d) of `q` (b, h, t, d) over `k` and `v` (b, g, s, d), h a multiple of g.

    Args:
        q: Queries (b, h, t, d).
        k: Keys (b, g, s, d).
        v: Values (b, g, s, d).
        positions: Of the queries, (t,) or (b, t); by default the last t of the keys' places.
        key_positions: Of the keys, (s,) or (b, s); by default 0 .. s-1.
        causal: Let a query see the keys at its own position and before.
        mask: Boolean, true where a query may look, broadcastable to (b, h, t, s).

    Raises:
        ValueError: If shapes do not fit or the mask is not boolean; the message says what to pass instead.
    """
    _check(q, k, positions, key_positions, mask)
    if v.ndim != 4 or v.shape[:-1] != k.shape[:-1]:
        raise ValueError(
            f"attention: v must be (b, g, s, d) with k's first three axes {tuple(k.shape[:-1])}, got {tuple(v.shape)}; "
            "give each key one value"
        )
    grouped = k.shape[1] != q.shape[1]
    aligned = positions is None and key_positions is None and q.shape[-2] == k.shape[-2]
    if causal and mask is None and aligned:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
    seen = _visible(q, k, positions, key_positions, causal, mask)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=grouped)  # (b, h, t, d)


def attention_weights(
    q: Tensor,
    k: Tensor,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the softmax weights (b, h, t, s) of `attention`: for looking, not for speed."""
    _check(q, k, positions, key_positions, mask)
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)  # (b, h, s, d)
    logits = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5  # (b, h, t, s)
    seen = _visible(q, k, positions, key_positions, causal, mask)
    if seen is None:
        return logits.softmax(dim=-1)  # (b, h, t, s)
    weights = logits.masked_fill(~seen, float("-inf")).softmax(dim=-1)  # (b, h, t, s)
    return weights.nan_to_num()  # (b, h, t, s)  a query that sees no key gives no weight


def _check(
    q: Tensor,
    k: Tensor,
    positions: Tensor | None,
    key_positions: Tensor | None,
    mask: Tensor | None,
) -> None:
    paired = q.ndim == k.ndim == 4 and q.shape[0] == k.shape[0] and q.shape[-1] == k.shape[-1]
    if not paired or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"attention: q and k must be (b, h, t, d) and (b, g, s, d) with h a multiple of g, "
            f"got {tuple(q.shape)} and {tuple(k.shape)}; split the width into heads first"
        )
    for name, given, x in (("positions", positions, q), ("key_positions", key_positions, k)):
        if given is not None and given.shape not in (x.shape[-2:-1], (x.shape[0], x.shape[-2])):
            raise ValueError(
                f"attention: {name} must be ({x.shape[-2]},) or {(x.shape[0], x.shape[-2])}, got {tuple(given.shape)}; "
                "give each token its position"
            )
    if mask is not None:
        _check_mask(mask, (*q.shape[:-1], k.shape[-2]))


def _check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    if mask.dtype != torch.bool:
        raise ValueError(f"attention: mask must be boolean, true where a query may look, got {mask.dtype}")
    sizes = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.ndim > len(shape) or any(size not in (1, full) for size, full in sizes):
        raise ValueError(f"attention: mask must be broadcastable to (b, h, t, s) = {shape}, got {tuple(mask.shape)}")


def _visible(
    q: Tensor,
    k: Tensor,
    positions: Tensor | None,
    key_positions: Tensor | None,
    causal: bool,
    mask: Tensor | None,
) -> Tensor | None:
    if mask is not None:
        mask = torch.atleast_2d(mask)
    if not causal:
        return mask
    queries, keys = q.shape[-2], k.shape[-2]
    if key_positions is None:
        key_positions = torch.arange(keys, device=k.device)  # (s,)
    if positions is None:
        positions = torch.arange(keys - queries, keys, device=q.device)  # (t,)
    past = positions[..., :, None] >= key_positions[..., None, :]  # (..., t, s)
    if past.ndim == 3:
        past = past[:, None]  # (b, 1, t, s)
    return past if mask is None else past & mask
