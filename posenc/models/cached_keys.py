"""Cached keys: turn them from their positions and frequencies to other ones, in one rotation.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, eq. 16.
Used:  llama.cpp's context shift; StreamingLLM's sinks; caches under dynamic NTK or LongRoPE
Cost:  nothing to learn; one rotation of the keys

Key:   b batch, g key/value heads, s keys, d head dim, r rotated width

    k' = (f'/f) R(p' theta' - p theta) k,   k = f R(p theta) x

so k' = f' R(p' theta') x: the key as if turned afresh. Rotations of one pair add up, whatever the
frequencies, so a key can move to another position (p'), to other frequencies (theta'), or both, in
one turn; the old attention factor f is divided out.

The content x is kept: after a change of frequencies, that of deeper layers still came of attention
with the old ones. Each call rounds once. In bfloat16 a chain of calls drifts: start each time from
unrotated or float32 keys where you can. Not for xPos, whose keys also grow or shrink with p, nor
for values.
"""

import torch
from torch import Tensor


def rerotate(
    k: Tensor,
    positions=None,
    new_positions=None,
    theta=None,
    new_theta=None,
    base: float = 10_000.0,
    attention_factor: float = 1.0,
    new_attention_factor: float = 1.0,
    layout: str = "half",
    rotary_dim: int | None = None,
    tokens: int = -2,
) -> Tensor:
    """Return keys turned to `positions` with `theta` as if to `new_positions` with `new_theta`.

    Args:
        k: Rotated keys (b, g, s, d).
        positions: Where they stand, (s,) or (b, s); 0 .. s-1 by default.
        new_positions: Where they go; the same by default.
        theta: Frequencies (r/2,) in float64, tensor, array or list; base^(-2i/r) by default.
        new_theta: Frequencies to come; the same by default.
        base: Of the default `theta`.
        attention_factor: What multiplied cos and sin, as `frequencies.yarn` gives it.
        new_attention_factor: What is to multiply them.
        layout: "half" pairs the channels (i, i + r/2), "interleaved" (2i, 2i + 1).
        rotary_dim: How many channels r turn, the first of each head; all by default.
        tokens: Axis of the tokens: -2 in (b, g, s, d), -3 in (b, s, g, d).

    Examples:
        >>> k = torch.tensor([[[[1.0, 0.0]]]])  # one pair, which turns 1 radian a position
        >>> rerotate(k, torch.tensor([0]), torch.tensor([2])).flatten()
        tensor([-0.4161,  0.9093])
    """
    if tokens not in (-2, -3):
        raise ValueError(f"rerotate: tokens must be -2 or -3, an axis from the end, got {tokens!r}")
    r = k.shape[-1] if rotary_dim is None else rotary_dim
    positions = torch.arange(k.shape[tokens], device=k.device) if positions is None else positions
    new_positions = positions if new_positions is None else new_positions
    theta = _theta(k, r, base) if theta is None else theta
    new_theta = theta if new_theta is None else new_theta
    old = _angle(k, r, tokens, positions, theta)
    new = _angle(k, r, tokens, new_positions, new_theta)
    return _turned(k, new - old, new_attention_factor / attention_factor, layout)  # (b, g, s, d)


def _theta(k, r, base):
    if not 0 < base < float("inf"):
        raise ValueError(f"rerotate: base must be positive and finite, got {base}")
    return base ** (torch.arange(0, r, 2, dtype=torch.float64, device=_where(k)) / -r)  # (r/2,)


def _where(k):
    return "cpu" if k.device.type == "mps" else k.device  # mps lacks float64


def _angle(k, r, tokens, positions, theta):
    positions = positions.to(_where(k), torch.float64)
    theta = torch.as_tensor(theta, dtype=torch.float64, device=_where(k))  # (r/2,)
    angle = positions[..., None] * theta  # (..., s, r/2)
    b, s = k.shape[0], k.shape[tokens]
    if angle.shape not in ((s, r // 2), (1, s, r // 2), (b, s, r // 2)):
        wanted = f"({s},) or ({b}, {s}) and ({r // 2},)"
        got = f"{tuple(positions.shape)} and {tuple(theta.shape)}"
        raise ValueError(f"rerotate: positions and theta must be {wanted}, got {got}")
    return angle.unsqueeze(-3 if tokens == -2 else -2)


def _turned(k, angle, scale, layout):
    if k.ndim != 4 or not k.is_floating_point():
        raise ValueError(f"rerotate: k must be floats (b, g, s, d), got {k.dtype} {tuple(k.shape)}")
    if layout not in ("half", "interleaved"):
        raise ValueError(f"rerotate: layout must be 'half' or 'interleaved', got {layout!r}")
    dtype = torch.float64 if k.dtype == torch.float64 else torch.float32
    cos = (scale * angle.cos()).to(k.device, dtype)
    sin = (scale * angle.sin()).to(k.device, dtype)
    r = 2 * angle.shape[-1]
    turning, rest = k.split([r, k.shape[-1] - r], dim=-1)
    sizes, axis = ((2, -1), -2) if layout == "half" else ((-1, 2), -1)
    first, second = turning.to(dtype).unflatten(-1, sizes).unbind(axis)  # (b, g, s, r/2)
    pairs = first * cos - second * sin, second * cos + first * sin
    turned = torch.stack(pairs, dim=axis).flatten(-2)  # (b, g, s, r)
    return torch.cat([turned.to(k.dtype), rest], dim=-1)  # (b, g, s, d)
