"""LeRoPE: rotate queries and keys as RoPE does, by frequencies that are learned.

Paper: Mistral AI and Hugging Face, 2026, "Mistral Large 4, the model of transformers",
       https://huggingface.co/docs/transformers/model_doc/mistral_large4, its rotary embedding.
Used:  Mistral Large 4, on YaRN's frequencies; rotary-embedding-torch learns them as they are
Cost:  d/2 numbers to learn; one table for all layers, one pass over queries and keys

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, p position

    y_first  = x_first cos(p theta_i) - x_second sin(p theta_i)
    y_second = x_second cos(p theta_i) + x_first sin(p theta_i),    i = 0 .. d/2-1
    theta_i  = base^(-2i/d) e^(alpha_i),  or `theta` of another recipe for the power of the base

With alpha = 0, where it starts, this is RoPE. A step of alpha changes a frequency by a share of it,
high or low, and never its sign. Far tokens move most: the angle of a token at p changes by p
theta_i times the step, so alpha is of float32 at least, and needs a small learning rate.

A pair is (i, i + d/2), "half", or (2i, 2i + 1), "interleaved", as in Mistral Large 4; transformers
gives its rotated channels in another order, the same for queries and keys, so logits are equal.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def lerope(
    x: ArrayLike,
    positions: ArrayLike,
    alpha: ArrayLike,
    base: float = 10_000.0,
    layout: str = "half",
    theta: ArrayLike | None = None,
    attention_factor: float = 1.0,
) -> np.ndarray:
    """Return `x` (..., t, d) in float64, each row rotated by its position (t,).

    Raises:
        ValueError: If d is odd or below 2, or `theta` not (d/2,).
        ValueError: If `base` is not positive and finite, or `layout` unknown.
    """
    x = np.asarray(x, np.float64)
    theta = _frequencies(x.shape[-1], base, theta) * np.exp(alpha)  # (d/2,)
    angle = np.asarray(positions).reshape(x.shape[-2], 1) * theta  # (t, d/2)
    cos = attention_factor * np.cos(angle)
    sin = attention_factor * np.sin(angle)
    first, second = _pairs(len(theta), layout)
    y = np.empty_like(x)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


class LeRoPE(nn.Module):
    """Rotate queries and keys by their positions, at learned multiples of RoPE's frequencies.

    `alpha` (d/2,) starts at zero; transformers stores that of Mistral Large 4 as
    model.language_model.rotary_emb.alpha, one for all layers.

    Args:
        dim: Width d of a head, or of the part of it that rotates.
        base: Sets the frequencies at the start, base^(-2i/d).
        layout: "half" pairs the channels (i, i + d/2), "interleaved" (2i, 2i + 1).
        theta: Frequencies (d/2,) at the start in place of those of `base`, such as YaRN's.
        attention_factor: Multiplies cosine and sine, as YaRN does.

    Raises:
        ValueError: If `dim` is odd or below 2, or `theta` not (d/2,).
        ValueError: If `base` is not positive and finite, or `layout` unknown.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> lerope, q, k = LeRoPE(64), torch.randn(1, 8, 5, 64), torch.randn(1, 2, 5, 64)
        >>> table = lerope.table(torch.arange(5))  # shared by layers
        >>> rotated_q, rotated_k = lerope.turn(q, table), lerope.turn(k, table)
        >>> rotated_k.square().sum().backward()  # reaches lerope.alpha
    """

    def __init__(
        self,
        dim: int,
        base: float = 10_000.0,
        layout: str = "half",
        theta: ArrayLike | None = None,
        attention_factor: float = 1.0,
    ):
        super().__init__()
        # a tuple, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = tuple(_frequencies(dim, base, theta).tolist())
        self.dim = dim
        self.layout = layout
        self.attention_factor = attention_factor
        self.alpha = nn.Parameter(torch.zeros(dim // 2, dtype=torch.float32))  # (d/2,)
        # refuse an unknown layout now, not in the first call
        _pairs(len(self.theta), layout)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), rotated by positions (t,) or (b, t).

        With t = s > 1, `positions` default to 0 .. t-1; with t = s, `key_positions` default to
        `positions`.
        """
        t, s = q.shape[-2], k.shape[-2]
        if positions is None:
            # a lone token is a new one behind a cache, and its position is not 0
            if t != s or t == 1 or key_positions is not None:
                raise ValueError(
                    f"lerope: positions must be given for {t} queries and {s} keys, got None; "
                    "or transpose(1, 2) if tokens come before heads"
                )
            positions = torch.arange(t, device=q.device)
        table_q = self.table(positions, q.dtype)
        table_k = table_q if key_positions is None else self.table(key_positions, k.dtype)
        return self.turn(q, table_q), self.turn(k, table_k)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Return cosines and sines (..., 1, t, d/2) for every layer, in float32 or finer."""
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=device)  # (d/2,)
        theta = theta * self.alpha.to(theta).exp()
        # the same for all heads
        p = positions.to(device, torch.float64)[..., None, :, None]  # (..., 1, t, 1)
        angle = p * theta  # (..., 1, t, d/2)
        cos = self.attention_factor * angle.cos()
        sin = self.attention_factor * angle.sin()
        dtype = torch.promote_types(dtype, torch.float32)
        return cos.to(positions.device, dtype), sin.to(positions.device, dtype)

    def turn(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Return `x` (b, h, t, d), each token rotated by its position in a `table`."""
        cos, sin = table
        self._check(x, cos)
        # products in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, cos.dtype))
        first, second = _pairs(len(self.theta), self.layout)
        x_first, x_second = wide[..., first], wide[..., second]  # (b, h, t, d/2), (b, h, t, d/2)
        rotated_first = x_first * cos - x_second * sin
        rotated_second = x_second * cos + x_first * sin
        if self.layout == "half":
            rotated = torch.cat([rotated_first, rotated_second], dim=-1)
        else:
            rotated = torch.stack([rotated_first, rotated_second], dim=-1).flatten(-2)
        return rotated.to(x.dtype)  # (b, h, t, d)

    def _check(self, x: Tensor, cos: Tensor) -> None:
        b, _, t, d = x.shape
        if d != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"lerope: q or k must have shape (b, h, t, {self.dim}) and a float dtype, got {got}"
            )
        # a table of one row would broadcast over all tokens without an error
        table_shape = (*cos.shape[:-3], cos.shape[-2])
        if table_shape != (t,) and table_shape != (1, t) and table_shape != (b, t):
            raise ValueError(
                f"lerope: positions or table must have shape ({t},) or ({b}, {t}), "
                f"got {table_shape}"
            )


def _frequencies(dim: int, base: float, theta: ArrayLike | None) -> np.ndarray:
    """Return theta (d/2,) at the start, in radians a position, highest first."""
    if dim % 2 or dim < 2:
        raise ValueError(f"lerope: dim must be even and at least 2, got {dim}")
    if not 0 < base < float("inf"):
        raise ValueError(f"lerope: base must be positive and finite, got {base}")
    if theta is None:
        theta = base ** (-np.arange(0, dim, 2) / dim)
    theta = np.asarray(theta, np.float64)
    if theta.shape != (dim // 2,):
        raise ValueError(f"lerope: theta must have shape ({dim // 2},), got {theta.shape}")
    return theta


def _pairs(count: int, layout: str) -> tuple[slice, slice]:
    """Return the channels of the first and of the second members of `count` pairs."""
    if layout == "half":
        return slice(0, count), slice(count, 2 * count)
    if layout == "interleaved":
        return slice(0, 2 * count, 2), slice(1, 2 * count, 2)
    raise ValueError(f"lerope: layout must be 'half' or 'interleaved', got {layout!r}")
