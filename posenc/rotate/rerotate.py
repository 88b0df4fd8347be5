"""Rerotate: turn cached keys from where, and how fast, they were rotated to where and how fast they should be.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, eq. 16.
Used:  llama.cpp's context shift; StreamingLLM's sinks; caches under dynamic NTK or LongRoPE
Cost:  nothing to learn; one rotation of the keys

Key:   b batch, g key/value heads, s keys, d head dim, r rotated width

    k' = (f'/f) R(p' theta' - p theta) k,   k = f R(p theta) x

so k' = f' R(p' theta') x: the key as if rotated afresh. Rotations of one pair add up, whatever the frequencies, so a
key can move to another position (p'), to other frequencies (theta'), or both, in one turn; the old attention factor f
is divided out. The tests compare with rotating afresh, and decode under dynamic NTK and LongRoPE.

The content x is kept: after a change of frequencies, that of deeper layers still came of attention with the old ones.
Each call rounds once. In bfloat16 a chain of calls drifts: start each time from unrotated or float32 keys where you
can. Not for xPos, whose keys also grow or shrink with p, nor for values.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

LAYOUTS = ("half", "interleaved")


def rerotate(
    k: Tensor,
    positions: Tensor | None = None,
    new_positions: Tensor | None = None,
    theta: Any = None,
    new_theta: Any = None,
    base: float = 10_000.0,
    attention_factor: float = 1.0,
    new_attention_factor: float = 1.0,
    layout: str = "half",
    rotary_dim: int | None = None,
) -> Tensor:
    """Return keys that were rotated to `positions` with `theta` as if rotated to `new_positions` with `new_theta`.

    Args:
        k: Rotated keys (..., s, d), usually (b, g, s, d).
        positions: Where they are, (s,) or (b, s), integers or floats; 0 ... s-1 by default.
        new_positions: Where they go; the same by default.
        theta: Frequencies (r/2,) in float64, tensor, array or list; base^(-2i/r) by default.
        new_theta: Frequencies to come; the same by default.
        base: Of the default `theta`.
        attention_factor: What multiplied cos and sin, as `frequencies.yarn` gives it; 1 for plain RoPE.
        new_attention_factor: What is to multiply them.
        layout: "half" or "interleaved".
        rotary_dim: Channels r that are rotated, the first of each head; all by default.

    Raises:
        ValueError: If an argument is out of range or does not fit the keys.

    Examples:
        >>> import torch
        >>> k = torch.tensor([[[[1.0, 0.0]]]])  # a key at position 0, of one pair that turns 1 radian a position
        >>> rerotate(k, torch.tensor([0]), torch.tensor([2])).flatten()
        tensor([-0.4161,  0.9093])
    """
    r = _checked_width(k, layout, rotary_dim)
    _check_numbers(base=base, attention_factor=attention_factor, new_attention_factor=new_attention_factor)
    _check_positions(k, positions=positions, new_positions=new_positions)
    _check_theta(r, theta=theta, new_theta=new_theta)
    device = k.device if k.device.type != "mps" else torch.device("cpu")  # mps has no float64
    if theta is None:
        theta = float(base) ** (torch.arange(0, r, 2, dtype=torch.float64, device=device) / -r)  # (r/2,)
    if positions is None:
        positions = torch.arange(k.shape[-2], device=device)  # (s,)
    new_positions = positions if new_positions is None else new_positions
    new_theta = theta if new_theta is None else new_theta
    angle = _angle(new_positions, new_theta, device) - _angle(positions, theta, device)  # (..., s, r/2)
    return _turned(k, angle, new_attention_factor / attention_factor, layout)  # (..., s, d)


def _angle(positions: Tensor, theta: Any, device: torch.device) -> Tensor:
    theta = torch.as_tensor(theta, dtype=torch.float64, device=device)  # (r/2,)
    return positions.to(device, torch.float64)[..., None] * theta  # (..., s, r/2)


def _turned(k: Tensor, angle: Tensor, scale: float, layout: str) -> Tensor:
    dtype = torch.float64 if k.dtype == torch.float64 else torch.float32
    if angle.ndim == 3:
        angle = angle.reshape(angle.shape[0], *(1,) * (k.ndim - 3), *angle.shape[1:])
    cosine, sine = ((scale * part).to(k.device, dtype) for part in (angle.cos(), angle.sin()))  # (..., s, r/2)
    turning, rest = k.split([2 * angle.shape[-1], k.shape[-1] - 2 * angle.shape[-1]], dim=-1)
    pairs = turning.to(dtype).unflatten(-1, (2, -1) if layout == "half" else (-1, 2))
    first, second = pairs.unbind(-2 if layout == "half" else -1)  # (..., s, r/2)
    both = first * cosine - second * sine, first * sine + second * cosine
    turned = torch.stack(both, dim=-2 if layout == "half" else -1).flatten(-2)  # (..., s, r)
    return torch.cat([turned.to(k.dtype), rest], dim=-1)  # (..., s, d)


def _checked_width(k: Tensor, layout: str, rotary_dim: int | None) -> int:
    if not isinstance(k, Tensor) or not k.is_floating_point() or k.ndim < 2 or k.shape[-1] < 2:
        raise ValueError(
            f"rerotate: k must be a floating point tensor (..., s, d), got {_kind(k)}; rotate integers as floats"
        )
    width = k.shape[-1] if rotary_dim is None else rotary_dim
    if not isinstance(width, int | np.integer) or not 2 <= width <= k.shape[-1] or width % 2:
        raise ValueError(
            f"rerotate: rotary_dim must be even, from 2 to {k.shape[-1]}, got {width!r}; channels turn in pairs"
        )
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ValueError(f"rerotate: layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    return int(width)


def _check_numbers(**given: float) -> None:
    for name, value in given.items():
        if not _is_number(value) or not value > 0:
            raise ValueError(f"rerotate: {name} must be a positive number, got {value!r}; see the defaults")


def _check_positions(k: Tensor, **given: Tensor | None) -> None:
    shapes = (k.shape[-2:-1], (k.shape[0], k.shape[-2])) if k.ndim > 2 else (k.shape[-2:-1],)
    for name, where in given.items():
        number = isinstance(where, Tensor) and where.dtype != torch.bool and not where.is_complex()
        if where is not None and (not number or where.shape not in shapes):
            raise ValueError(
                f"rerotate: {name} must be a tensor of numbers (s,) or (b, s) for k {tuple(k.shape)}, "
                f"got {_kind(where)}; give each key its place, with torch.as_tensor of a list or an array"
            )


def _check_theta(r: int, **given: Any) -> None:
    for name, theta in given.items():
        if isinstance(theta, list | tuple):
            good = len(theta) == r // 2 and all(map(_is_number, theta))
        else:
            good = isinstance(theta, Tensor | np.ndarray) and tuple(theta.shape) == (r // 2,) and _is_real(theta)
        if theta is not None and not good:
            raise ValueError(
                f"rerotate: {name} must be {r // 2} numbers, one for each pair, got {_kind(theta)}; "
                "where fewer pairs turn, say so with rotary_dim"
            )


def _is_real(theta: Tensor | np.ndarray) -> bool:
    if isinstance(theta, Tensor):
        return theta.is_floating_point()
    return torch.compiler.is_compiling() or theta.dtype.kind == "f"  # a graph cannot ask an array for its dtype


def _is_number(value: Any) -> bool:
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return real and bool(abs(value) < float("inf"))


def _kind(value: Any) -> str:
    if isinstance(value, Tensor | np.ndarray):
        return f"{'numpy array ' * isinstance(value, np.ndarray)}{value.dtype} {tuple(value.shape)}"
    return f"list of length {len(value)}" if isinstance(value, list) else repr(value)[:80]
