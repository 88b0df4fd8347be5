"""Cached keys: move rotated keys to other positions or frequencies by one more rotation.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, eq. 16.
Used:  llama.cpp's context shift; StreamingLLM's sinks; caches under dynamic NTK or LongRoPE
Cost:  nothing to learn; one rotation of the keys

Key:   b batch, g key/value heads, s keys, d head dim, r rotated width

    k' = (f'/f) R(p' theta' - p theta) k,   k = f R(p theta) x

so k' = f' R(p' theta') x: the key as if it had been rotated so from the start. Angles of one pair
add up, whatever the frequencies, so a key can move to another position (p'), to other frequencies
(theta'), or both, in one rotation; the old attention factor f is divided out.

The content x is kept: after a change of frequencies, that of deeper layers was still computed by
attention with the old ones. Each call rounds once. In bfloat16 a chain of calls drifts: start each
time from unrotated or float32 keys where you can. Not for xPos, whose keys also grow or shrink with
p, nor for values.
"""

import torch
from numpy.typing import ArrayLike
from torch import Tensor


def rerotate(
    k: Tensor,
    positions: Tensor | None = None,
    new_positions: Tensor | None = None,
    theta: Tensor | ArrayLike | None = None,
    new_theta: Tensor | ArrayLike | None = None,
    base: float = 10_000.0,
    attention_factor: float = 1.0,
    new_attention_factor: float = 1.0,
    layout: str = "half",
    rotary_dim: int | None = None,
) -> Tensor:
    """Return keys rotated by `positions` and `theta` as if by `new_positions` and `new_theta`.

    Args:
        k: Rotated keys (b, g, s, d).
        positions: Of the keys as they are, (s,) or (b, s); 0 .. s-1 by default.
        new_positions: Those that they get; the same by default.
        theta: Frequencies (r/2,) in float64, tensor, array or list; base^(-2i/r) by default.
        new_theta: Frequencies to come; the same by default.
        base: Of the default `theta`.
        attention_factor: What multiplied cos and sin, as `frequencies.yarn` gives it.
        new_attention_factor: What is to multiply them.
        layout: "half" pairs the channels (i, i + r/2), "interleaved" (2i, 2i + 1).
        rotary_dim: How many channels r rotate, the first of each head; all by default.

    Raises:
        ValueError: If `base` is not positive and finite.
        ValueError: If positions or frequencies have another shape than the keys need.
        ValueError: If `k` is not of floats (b, g, s, d).
        ValueError: If `layout` is none of the two.

    Examples:
        >>> k = torch.tensor([[[[1.0, 0.0]]]])  # one pair, of 1 radian a position
        >>> rerotate(k, torch.tensor([0]), torch.tensor([2])).flatten()
        tensor([-0.4161,  0.9093])
    """
    r = k.shape[-1] if rotary_dim is None else rotary_dim
    # a whole cache, from its first key on
    if positions is None:
        positions = torch.arange(k.shape[-2], device=k.device)
    if new_positions is None:
        new_positions = positions
    if theta is None:
        theta = _frequencies(k, r, base)
    if new_theta is None:
        new_theta = theta
    old = _angle(k, r, positions, theta)
    new = _angle(k, r, new_positions, new_theta)
    # in float64: the difference of two large angles would lose digits
    return _rotate(k, new - old, new_attention_factor / attention_factor, layout)  # (b, g, s, d)


def _frequencies(k: Tensor, r: int, base: float) -> Tensor:
    if not 0 < base < float("inf"):
        raise ValueError(f"rerotate: base must be positive and finite, got {base}")
    device = "cpu" if k.device.type == "mps" else k.device  # mps lacks float64
    return base ** (torch.arange(0, r, 2, dtype=torch.float64, device=device) / -r)  # (r/2,)


def _angle(k: Tensor, r: int, positions: Tensor, theta: Tensor | ArrayLike) -> Tensor:
    """Return the angle p theta of each token and pair, with an axis of 1 for the heads."""
    device = "cpu" if k.device.type == "mps" else k.device  # mps lacks float64
    positions = positions.to(device, torch.float64)
    theta = torch.as_tensor(theta, dtype=torch.float64, device=device)  # (r/2,)
    angle = positions[..., None] * theta  # (..., s, r/2)
    b, s = k.shape[0], k.shape[-2]
    # one position for all keys, or one frequency for all pairs, would broadcast
    if angle.shape not in ((s, r // 2), (1, s, r // 2), (b, s, r // 2)):
        raise ValueError(
            f"rerotate: positions and theta must be ({s},) or ({b}, {s}) and ({r // 2},), "
            f"got {tuple(positions.shape)} and {tuple(theta.shape)}"
        )
    # the same for all heads
    return angle.unsqueeze(-3)


def _rotate(k: Tensor, angle: Tensor, scale: float, layout: str) -> Tensor:
    """Return `k` (b, g, s, d), its first r channels rotated by `angle` and times `scale`."""
    if k.ndim != 4 or not k.is_floating_point():
        raise ValueError(f"rerotate: k must be floats (b, g, s, d), got {k.dtype} {tuple(k.shape)}")
    if layout not in ("half", "interleaved"):
        raise ValueError(f"rerotate: layout must be 'half' or 'interleaved', got {layout!r}")
    # half precision would lose digits; torch does not promote the eight bits of some caches
    dtype = torch.float64 if k.dtype == torch.float64 else torch.float32
    cos = (scale * angle.cos()).to(k.device, dtype)
    sin = (scale * angle.sin()).to(k.device, dtype)
    r = 2 * angle.shape[-1]
    rotating, rest = k.split([r, k.shape[-1] - r], dim=-1)
    rotating = rotating.to(dtype)
    if layout == "half":
        first, second = rotating.chunk(2, dim=-1)  # (b, g, s, r/2), (b, g, s, r/2)
        rotated = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    else:
        first, second = rotating.unflatten(-1, (-1, 2)).unbind(-1)
        rotated = torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1)
        rotated = rotated.flatten(-2)  # (b, g, s, r)
    return torch.cat([rotated.to(k.dtype), rest], dim=-1)  # (b, g, s, d)
