"""What patients are made of, each as it should be: frequencies, rotations, sinusoids, slopes, offsets, masks.

The doctor reads names of functions and classes too (rope, rotary, alibi, causal, bias ...), so these have none of them.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def noise(*shape: int) -> Tensor:
    """Return normal random numbers, the same in each run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


# Rotations


def frequencies(dim: int, base: float = 10_000.0) -> Tensor:
    """Return RoPE's frequencies base^(-2i/dim)."""
    return base ** (-torch.arange(0, dim, 2).float() / dim)


def rotate_by(x: Tensor, angles: Tensor, factor: float = 1.0) -> Tensor:
    """Rotate the pairs (i, i + d/2) of x (b, h, t, d) by angles (t, d/2) or (b, 1, t, d/2), the half layout."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = factor * angles.cos(), factor * angles.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def rotate(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """Rotate x (b, h, t, d) by positions (t,) or (b, t), the half layout."""
    angles = positions[..., None].float() * frequencies(x.shape[-1], base)
    return rotate_by(x, angles[:, None] if angles.ndim == 3 else angles)


def rotate_interleaved(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """Rotate the pairs (2i, 2i + 1) of x (b, h, t, d) by positions (t,)."""
    angles = positions[:, None] * frequencies(x.shape[-1], base)
    first, second = x[..., 0::2], x[..., 1::2]
    pairs = (first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin())
    return torch.stack(pairs, dim=-1).flatten(-2)


def rotate_pair(q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys alike."""
    return rotate(q, positions), rotate(k, positions)


def rotate_at_end(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate keys by 0, 1, 2 ... and queries by the last of these positions."""
    positions = torch.arange(k.shape[-2])
    return rotate(q, positions[len(positions) - q.shape[-2] :]), rotate(k, positions)


# Tables


def interleave(angles: Tensor) -> Tensor:
    """Return the sine and the cosine of each angle beside each other."""
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def sinusoids(length: int, dim: int) -> Tensor:
    """Return the sinusoidal table of the Transformer."""
    return interleave(torch.arange(length)[:, None] * frequencies(dim))


def sinusoids_in_halves(positions: Tensor, dim: int, base: float = 10_000.0) -> Tensor:
    """Return sines before cosines, rows of any positions."""
    angles = positions[..., None] * frequencies(dim, base)
    return torch.cat((angles.sin(), angles.cos()), -1)


# Biases


def slopes(heads: int) -> Tensor:
    """Return ALiBi's slopes, for numbers of heads that are no power of two as its authors make them."""
    power = 2 ** int(math.log2(heads))
    plain = [2 ** (-8 * (k + 1) / power) for k in range(power)]
    between = [2 ** (-4 * (k + 1) / power) for k in range(0, 2 * (heads - power), 2)]
    return torch.tensor(plain + between)


def offsets(queries: int, keys: int) -> Tensor:
    """Return key position minus query position (t, s), the last query at the last key."""
    return torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]


def penalty(heads: int, queries: int, keys: int) -> Tensor:
    """Return the bias of ALiBi, symmetric: minus slope times distance (h, t, s)."""
    return -slopes(heads)[:, None, None] * offsets(queries, keys).abs()


# Attentions


def below(queries: int, keys: int, ahead: int = 0) -> Tensor:
    """Return the causal mask (t, s), true where a key is seen, the last query at the last key."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries + ahead)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the attention that sees what the mask shows, by default all."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def attend_behind(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return causal attention, the last query at the last key."""
    return attend(q, k, v, below(q.shape[2], k.shape[2]))


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Return (b, h, t, d) of (b, t, h * d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """Return (b, t, h * d) of (b, h, t, d)."""
    return x.transpose(1, 2).flatten(2)
