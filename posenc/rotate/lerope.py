"""LeRoPE: turn queries and keys as RoPE does, by frequencies that training moves.

Paper: Mistral AI and Hugging Face, 2026, "Mistral Large 4, the model of transformers",
       https://huggingface.co/docs/transformers/model_doc/mistral_large4, its rotary embedding.
Used:  Mistral Large 4, on YaRN's frequencies; rotary-embedding-torch learns them as they are
Cost:  d/2 numbers to learn; one table for all layers, one pass over queries and keys

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim

    y_first  = x_first cos(p theta_i) - x_second sin(p theta_i)
    y_second = x_second cos(p theta_i) + x_first sin(p theta_i),    i = 0 .. d/2-1
    theta_i  = base^(-2i/d) e^(alpha_i),  or `theta` of another recipe for the power of the base

With alpha = 0, where it starts, this is RoPE. A step of alpha changes a frequency by a share of it,
slow or fast, and never its sign. Far tokens move most: the angle of a token at p changes by
p theta_i times the step, so alpha is of float32 at least, and wants a small rate.

A pair is (i, i + d/2), "half", or (2i, 2i + 1), "interleaved", as in Mistral Large 4; transformers
gives its turned channels in another order, the same for queries and keys, so scores are equal.
"""

import numpy as np
import torch
from torch import Tensor, nn


def lerope(x, positions, alpha, base=1e4, layout="half", theta=None, attention_factor=1.0):
    """Return `x` (..., t, d) in float64, each row turned to its position (t,)."""
    x = np.asarray(x, np.float64)
    theta = _theta(x.shape[-1], base, layout, theta) * np.exp(alpha)  # (d/2,)
    angle = np.asarray(positions).reshape(-1, 1) * theta  # (t, d/2)
    turn = attention_factor * np.exp(1j * angle)  # (t, d/2)
    first = np.arange(len(theta)) * (1 if layout == "half" else 2)
    second = first + (len(theta) if layout == "half" else 1)
    turned = (x[..., first] + 1j * x[..., second]) * turn  # (..., t, d/2)
    y = np.empty_like(x)  # (..., t, d)
    y[..., first] = turned.real
    y[..., second] = turned.imag
    return y


class LeRoPE(nn.Module):
    """Turn queries and keys to their positions, by frequencies learned as multiples of RoPE's.

    `alpha` (d/2,) starts at zero; transformers stores that of Mistral Large 4 as
    model.language_model.rotary_emb.alpha, one for all layers.

    Args:
        dim: Width d of a head, or of the part of it that turns.
        base: Sets the frequencies at the start, base^(-2i/d).
        layout: "half" pairs the channels (i, i + d/2), "interleaved" (2i, 2i + 1).
        theta: Frequencies (d/2,) at the start in place of those of `base`, such as YaRN's.
        attention_factor: Multiplies cosine and sine, as YaRN does.

    Examples:
        >>> lerope, q, k = LeRoPE(64), torch.randn(1, 8, 5, 64), torch.randn(1, 2, 5, 64)
        >>> table = lerope.table(torch.arange(5))  # shared by layers
        >>> turned_q, turned_k = lerope(q, k, table=table)
        >>> turned_k.square().sum().backward()  # reaches lerope.alpha
    """

    def __init__(
        self, dim: int, base: float = 1e4, layout: str = "half", theta=None, attention_factor=1.0
    ):
        super().__init__()
        self.theta = tuple(_theta(dim, base, layout, theta).tolist())
        self.dim, self.layout = dim, layout
        self.attention_factor = attention_factor
        self.alpha = nn.Parameter(torch.zeros(dim // 2, dtype=torch.float32))  # (d/2,)

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, table=None):
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned to positions (t,) or (b, t).

        By default keys stand at 0 .. s-1, or where as many queries do, and queries where the last
        t keys do. A `table(key_positions)` replaces both.
        """
        t, s = q.shape[2], k.shape[2]
        if positions is key_positions is table is None and (t > s or s == 1):
            got = "None; or transpose(1, 2) if tokens come before heads"
            raise ValueError(
                f"lerope: positions must be given for {t} queries, {s} keys, got {got}"
            )
        if key_positions is None:
            key_positions = torch.arange(s, device=k.device)
            if positions is not None and t == s:
                key_positions = positions
        if table is None:
            table = self.table(key_positions, q.dtype)
        of_q = table[..., s - t :, :]
        if positions is not None:
            of_q = self.table(positions, q.dtype)
        return self.turn(q, of_q), self.turn(k, table)

    def table(self, positions: Tensor, dtype=torch.float32) -> Tensor:
        """Return cosines, then sines (..., t, d) at `positions`, in float32 or finer."""
        where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where)  # (d/2,)
        theta = theta * self.alpha.to(theta).exp()
        angle = positions.to(where, torch.float64)[..., None] * theta  # (..., t, d/2)
        made = torch.cat([angle.cos(), angle.sin()], dim=-1)
        made = self.attention_factor * made  # (..., t, d)
        dtype = torch.promote_types(dtype, torch.float32)
        return made.to(positions.device, dtype)

    def turn(self, x: Tensor, table: Tensor) -> Tensor:
        """Return `x` (b, h, t, d) turned by the `table` of its positions."""
        b, _, t, d = x.shape
        if d != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(f"lerope: q or k must be floats (b, h, t, {self.dim}), got {got}")
        rows = tuple(table.shape[:-1])
        if rows not in ((t,), (1, t), (b, t)):
            raise ValueError(f"lerope: positions or table must be ({t},) or ({b}, {t}), got {rows}")
        cos, sin = table.unsqueeze(-3).chunk(2, dim=-1)  # (..., 1, t, d/2), (..., 1, t, d/2)
        y = x.to(torch.promote_types(x.dtype, table.dtype))
        sizes, axis = ((2, -1), -2) if self.layout == "half" else ((-1, 2), -1)
        first, second = y.unflatten(-1, sizes).unbind(axis)
        turned_first = first * cos - second * sin
        turned_second = second * cos + first * sin
        turned = torch.stack([turned_first, turned_second], dim=axis)
        return turned.flatten(-2).to(x.dtype)  # (b, h, t, d)


def _theta(dim, base, layout, theta):
    if dim % 2 or dim < 2:
        raise ValueError(f"lerope: dim must be even and at least 2, got {dim}")
    if layout not in ("half", "interleaved"):
        raise ValueError(f"lerope: layout must be 'half' or 'interleaved', got {layout!r}")
    if not 0 < base < float("inf"):
        raise ValueError(f"lerope: base must be positive and finite, got {base}")
    theta = base ** (-np.arange(0, dim, 2) / dim) if theta is None else theta
    return np.asarray(theta, np.float64).reshape(dim // 2)  # (d/2,)
