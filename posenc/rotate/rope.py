"""RoPE: rotate each pair of channels of queries and keys by an angle proportional to position.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, eq. 15.
Used:  Llama, Mistral, Qwen, Gemma, DeepSeek; GPT-NeoX and GPT-J rotate a part of each head
Cost:  nothing to learn; one table for all layers, one pass over queries and keys

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r rotary dim,
       p position, m position of a query, n of a key

    y_first  = x_first cos(p theta_i) - x_second sin(p theta_i)
    y_second = x_second cos(p theta_i) + x_first sin(p theta_i)
    theta_i  = base^(-2i/r),  i = 0 .. r/2-1, in radians a position

so, with R_p the rotation at p, R_m q . R_n k = q . R_(n-m) k: a logit depends on the offset alone.
Norms stay, and so do the channels after r. A pair is (i, i + r/2) in Hugging Face's Llama and
GPT-NeoX ("half"), (2i, 2i + 1) in the paper, GPT-J and Meta's Llama ("interleaved").
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def rope(
    x: ArrayLike,
    positions: ArrayLike,
    base: float = 10_000.0,
    layout: str = "half",
    rotary_dim: int | None = None,
    theta: ArrayLike | None = None,
    attention_factor: float = 1.0,
) -> np.ndarray:
    """Return `x` (..., t, d) in float64, each row rotated by its position (t,).

    Raises:
        ValueError: If d or `rotary_dim` is odd, or `rotary_dim` not 2 to d.
        ValueError: If `base` is not positive and finite, `layout` unknown, or `theta` not (r/2,).
    """
    x = np.asarray(x, np.float64)
    theta = _frequencies(x.shape[-1], base, rotary_dim, theta)
    angle = np.asarray(positions).reshape(x.shape[-2], 1) * theta  # (t, r/2)
    cos = attention_factor * np.cos(angle)
    sin = attention_factor * np.sin(angle)
    first, second = _pairs(len(theta), layout)
    y = x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


class RoPE(nn.Module):
    """Rotate queries and keys by their positions. Angles are computed in float64, rounded once.

    In bfloat16 and float16 products are taken in float32; `posenc.fast.rope` is faster.

    Args:
        dim: Width d of a head.
        base: Sets the longest wavelength, 2 pi base^(1 - 2/r) positions; Llama's rope_theta.
        layout: "half" pairs the channels (i, i + r/2), "interleaved" (2i, 2i + 1).
        rotary_dim: How many channels r rotate, the first ones; all by default.
        theta: Frequencies (r/2,) in place of those of `base`, such as YaRN's.
        attention_factor: Multiplies cosine and sine, as YaRN does.

    Raises:
        ValueError: If `dim` or `rotary_dim` is odd, or `rotary_dim` not 2 to `dim`.
        ValueError: If `base` is not positive and finite, `layout` unknown, or `theta` not (r/2,).
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> rope, q, k = RoPE(64), torch.randn(1, 8, 5, 64), torch.randn(1, 2, 5, 64)
        >>> rotated_q, rotated_k = rope(q, k)  # at positions 0 to 4
        >>> new_q, new_k = rope(q[:, :, 4:], k[:, :, 4:], torch.tensor([4]))  # decoding: say where
        >>> table = rope.table(torch.arange(5))  # made once for all layers
        >>> bool((rope.turn(q, table) == rotated_q).all())
        True
    """

    def __init__(
        self,
        dim: int,
        base: float = 10_000.0,
        layout: str = "half",
        rotary_dim: int | None = None,
        theta: ArrayLike | None = None,
        attention_factor: float = 1.0,
    ):
        super().__init__()
        # a tuple, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = tuple(_frequencies(dim, base, rotary_dim, theta).tolist())
        self.dim = dim
        self.layout = layout
        self.attention_factor = attention_factor
        # refuse an unknown layout now, not in the first call
        _pairs(len(self.theta), layout)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), rotated by their positions (t,) or (b, t).

        With t = s > 1, `positions` default to 0 .. t-1; with t = s, `key_positions` default to
        `positions`.
        """
        t, s = q.shape[-2], k.shape[-2]
        if positions is None:
            # a lone token is a new one behind a cache, and its position is not 0
            if t != s or t == 1 or key_positions is not None:
                raise ValueError(
                    f"rope: positions must be given for {t} queries and {s} keys, got None; "
                    "or transpose(1, 2) if tokens come before heads"
                )
            positions = torch.arange(t, device=q.device)
        table_q = self.table(positions, q.dtype)
        table_k = table_q if key_positions is None else self.table(key_positions, k.dtype)
        return self.turn(q, table_q), self.turn(k, table_k)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Return (cos, sin) of the angles at `positions` (t,) or (b, t), for every layer.

        In float32 or finer, times `attention_factor`. "interleaved": (..., 1, t, r/2), one a pair;
        "half": (..., 1, t, r), one a channel, sin negated for the first channel of each pair, as
        `turn` expects.
        """
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=device)
        # the same for all heads
        p = positions.to(device, torch.float64)[..., None, :, None]  # (..., 1, t, 1)
        angle = p * theta  # (..., 1, t, r/2)
        cos = self.attention_factor * angle.cos()
        sin = self.attention_factor * angle.sin()
        if self.layout == "half":
            cos = torch.cat([cos, cos], dim=-1)  # (..., 1, t, r)
            sin = torch.cat([-sin, sin], dim=-1)  # (..., 1, t, r)
        dtype = torch.promote_types(dtype, torch.float32)
        return cos.to(positions.device, dtype), sin.to(positions.device, dtype)

    def turn(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Return `x` (b, h, t, d), each token rotated by its position in a `table`."""
        cos, sin = table
        self._check(x, cos)
        r = 2 * len(self.theta)
        # products in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, cos.dtype))
        rotating = wide if r == self.dim else wide[..., :r]  # (b, h, t, r)
        if self.layout == "half":
            # the other member of each pair, whose sign is that of its sine
            other = rotating.roll(r // 2, dims=-1)
            rotated = torch.addcmul(rotating * cos, other, sin)
        else:
            # the same as a product of complex numbers, far faster than with strides of two
            pairs = torch.view_as_complex(rotating.unflatten(-1, (-1, 2)))  # (b, h, t, r/2)
            rotated = torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)
        rotated = rotated.to(x.dtype)
        return rotated if r == self.dim else torch.cat([rotated, x[..., r:]], dim=-1)

    def _check(self, x: Tensor, cos: Tensor) -> None:
        if x.ndim != 4 or x.shape[-1] != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"rope: q or k must have shape (b, h, t, {self.dim}) and a float dtype, got {got}"
            )
        b, _, t, _ = x.shape
        # a table of one row would broadcast over all tokens without an error
        table_shape = (*cos.shape[:-3], cos.shape[-2])
        if table_shape != (t,) and table_shape != (1, t) and table_shape != (b, t):
            raise ValueError(
                f"rope: positions or table must have shape ({t},) or ({b}, {t}), got {table_shape}"
            )


def _frequencies(
    dim: int, base: float, rotary_dim: int | None, theta: ArrayLike | None
) -> np.ndarray:
    """Return theta (r/2,), in radians a position, highest first."""
    r = dim if rotary_dim is None else rotary_dim
    if dim % 2 or r not in range(2, dim + 1, 2):
        raise ValueError(f"rope: dim and rotary_dim must be even, 2 <= r <= d, got {dim} and {r}")
    if not 0 < base < float("inf"):
        raise ValueError(f"rope: base must be positive and finite, got {base}")
    if theta is None:
        return base ** (-np.arange(0, r, 2) / r)
    theta = np.asarray(theta, np.float64)
    if theta.shape != (r // 2,):
        raise ValueError(
            f"rope: theta must have shape ({r // 2},), got {theta.shape}; "
            "a single number belongs in base"
        )
    return theta


def _pairs(count: int, layout: str) -> tuple[slice, slice]:
    """Return the channels of the first and of the second members of `count` pairs."""
    if layout == "half":
        return slice(0, count), slice(count, 2 * count)
    if layout == "interleaved":
        return slice(0, 2 * count, 2), slice(1, 2 * count, 2)
    raise ValueError(f"rope: layout must be 'half' or 'interleaved', got {layout!r}")
