"""RoPE: turn each pair of channels of queries and keys by an angle that grows with position.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, eq. 15.
Used:  Llama, Mistral, Qwen, Gemma, DeepSeek; GPT-NeoX and GPT-J turn a part of each head
Cost:  nothing to learn; one table for all layers, one pass over queries and keys

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, r rotary dim

    y_first  = x_first cos(p theta_i) - x_second sin(p theta_i),    theta_i = base^(-2i/r)
    y_second = x_second cos(p theta_i) + x_first sin(p theta_i),    i = 0 .. r/2-1

so R_m q . R_n k = q . R_(n-m) k: a logit sees the offset alone. Norms stay, and so do the channels
after r. A pair is (i, i + r/2) in Hugging Face's Llama and GPT-NeoX ("half"), (2i, 2i + 1) in the
paper, GPT-J and Meta's Llama ("interleaved").
"""

import numpy as np
import torch
from torch import Tensor, nn


def rope(x, positions, base=1e4, layout="half", rotary_dim=None, theta=None, attention_factor=1.0):
    """Return `x` (..., t, d) in float64, each row turned to its position (t,)."""
    x = np.asarray(x, np.float64)
    theta = _theta(x.shape[-1], base, layout, rotary_dim, theta)  # (r/2,)
    angle = np.asarray(positions).reshape(x.shape[-2], 1) * theta  # (t, r/2)
    cos, sin = attention_factor * np.cos(angle), attention_factor * np.sin(angle)
    channel = np.arange(2 * len(theta))
    first, second = channel.reshape(2, -1) if layout == "half" else channel.reshape(-1, 2).T
    y = x.copy()  # (..., t, d)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


class RoPE(nn.Module):
    """Turn queries and keys to their positions, by float64 angles that no cast of the model rounds.

    Args:
        dim: Width d of a head.
        base: Sets the slowest wavelength, 2 pi base^(1 - 2/r) positions; Llama's rope_theta.
        layout: "half" pairs the channels (i, i + r/2), "interleaved" (2i, 2i + 1).
        rotary_dim: How many channels r turn, the first ones; all by default.
        theta: Frequencies (r/2,) in place of those of `base`, such as YaRN's.
        attention_factor: Multiplies cosine and sine, as YaRN does.
        tokens: Axis of the tokens: -2 in (b, h, t, d), -3 in (b, t, h, d).

    Examples:
        >>> rope, q, k = RoPE(64), torch.randn(1, 8, 5, 64), torch.randn(1, 2, 5, 64)
        >>> turned_q, turned_k = rope(q, k)  # at positions 0 to 4
        >>> turned_q, turned_k = rope(q, k, table=rope.table(torch.arange(5)))  # shared by layers
    """

    def __init__(
        self,
        dim: int,
        base: float = 1e4,
        layout: str = "half",
        rotary_dim: int | None = None,
        theta=None,
        attention_factor: float = 1.0,
        tokens: int = -2,
    ):
        super().__init__()
        if tokens not in (-2, -3):
            raise ValueError(f"rope: tokens must be -2 or -3, an axis from the end, got {tokens!r}")
        self.theta = tuple(_theta(dim, base, layout, rotary_dim, theta).tolist())
        self.dim, self.layout, self.tokens = dim, layout, tokens
        self.attention_factor = attention_factor

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, table=None):
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned to positions (t,) or (b, t).

        By default keys stand at 0 .. s-1, or where as many queries do, and queries where the last
        t keys do. To cache turned keys, say where the new tokens stand. `table(key_positions)`
        replaces both.
        """
        t, s = q.shape[self.tokens], k.shape[self.tokens]
        if table is None:
            if positions is key_positions is None and (t > s or s == 1):
                raise ValueError(
                    f"rope: positions must be given for {t} queries, {s} keys, got None; "
                    "or tokens=-3, where tokens come before heads"
                )
            if key_positions is None and t == s:
                key_positions, positions = positions, None  # one table for both
            if key_positions is None:
                key_positions = torch.arange(s, device=k.device)
            table = self.table(key_positions, q.dtype)
        of_q = of_k = self._turns(table, k)
        if positions is not None:
            of_q = self._turns(self.table(positions, q.dtype), q)
        elif t != s:
            of_q = self._turns(table[..., s - t :, :], q)
        return self._turned(q, of_q), self._turned(k, of_k)

    def turn(self, x: Tensor, positions=None, table=None) -> Tensor:
        """Return `x` (b, h, t, d) turned to `positions`, 0 .. t-1 by default, or by a `table`."""
        if table is None:
            places = torch.arange(x.shape[self.tokens], device=x.device)
            table = self.table(places if positions is None else positions, x.dtype)
        return self._turned(x, self._turns(table, x))

    def table(self, positions, dtype=torch.float32) -> Tensor:
        """Return what a call needs of positions, in float32 or finer: it serves every layer."""
        where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where)  # (r/2,)
        angle = positions.to(where, torch.float64)[..., None] * theta  # (..., t, r/2)
        dtype = torch.promote_types(dtype, torch.float32)
        cos = (self.attention_factor * angle.cos()).to(positions.device, dtype)
        sin = (self.attention_factor * angle.sin()).to(positions.device, dtype)
        if self.layout == "half":
            return torch.cat([cos, cos, -sin, sin], dim=-1)  # (..., t, 2r)
        return torch.complex(cos, sin)  # (..., t, r/2)

    def _turns(self, table, x):
        b, t, rows = x.shape[0], x.shape[self.tokens], tuple(table.shape[:-1])
        if rows not in ((t,), (1, t), (b, t)):
            raise ValueError(f"rope: positions or table must be ({t},) or ({b}, {t}), got {rows}")
        table = table.unsqueeze(-3 if self.tokens == -2 else -2)  # to broadcast over heads
        return table.chunk(2, dim=-1) if self.layout == "half" else table

    def _turned(self, x, turns):
        if x.ndim != 4 or x.shape[-1] != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(f"rope: q or k must be floats (b, h, t, {self.dim}), got {got}")
        r = 2 * len(self.theta)
        y = x if r == self.dim else x[..., :r]  # (b, h, t, r)
        y = y.to(torch.promote_types(x.dtype, torch.float32))
        if self.layout == "half":
            cos, sin = turns
            turned = torch.addcmul(y * cos, y.roll(r // 2, dims=-1), sin)
        else:
            pairs = torch.view_as_complex(y.unflatten(-1, (-1, 2)))
            turned = torch.view_as_real(pairs * turns).flatten(-2)
        turned = turned.to(x.dtype)
        return turned if r == self.dim else torch.cat([turned, x[..., r:]], dim=-1)


def _theta(dim, base, layout, rotary_dim, theta):
    r = dim if rotary_dim is None else rotary_dim
    if dim % 2 or r not in range(2, dim + 1, 2):
        raise ValueError(f"rope: dim and rotary_dim must be even, 2 <= r <= d, got {dim} and {r}")
    if layout not in ("half", "interleaved"):
        raise ValueError(f"rope: layout must be 'half' or 'interleaved', got {layout!r}")
    if not 0 < base < float("inf"):
        raise ValueError(f"rope: base must be positive and finite, got {base}")
    theta = base ** (-np.arange(0, r, 2) / r) if theta is None else np.asarray(theta, np.float64)
    if theta.shape != (r // 2,):
        raise ValueError(f"rope: theta must be {r // 2} numbers, got {theta.shape}; one is a base")
    return theta  # (r/2,)
