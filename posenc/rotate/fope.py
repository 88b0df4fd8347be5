"""FoPE: turn each pair by a sum of RoPE's frequencies; those too slow for the trained length rest.

Paper: Hua et al., 2024, "Fourier Position Embedding: Enhancing Attention's Periodic Extension for
       Length Generalization", https://arxiv.org/abs/2412.17739, the section that defines FoPE.
Used:  the authors' OLMo models of up to 1.2B parameters, Intern-S1-Pro
Cost:  2 c f^2 coefficients, learned or left as they start; one table (s, 2f), two small products

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, c sets, f frequencies

    theta_j = base^(-2j/d),  j = 0 .. f-1: those of at least 2 pi / length
    C_i(p)  = sum_j cos_coef[j, i] cos(p theta_j),  S_i(p) = sum_j sin_coef[j, i] sin(p theta_j)
    y_i     = x_i C_i - x_(i+d/2) S_i,  y_(i+d/2) = x_(i+d/2) C_i + x_i S_i;  y = x from pair f on

With one frequency a pair this is RoPE without its slow pairs. With more it is no rotation: lengths
change, and a score depends on where its tokens stand; only its mean over all places depends on the
offset alone. The authors' code, Intern-S1-Pro and vLLM before its pull request 55243 have S = 1 at
rest, which turns by 45 degrees and stretches by sqrt(2). The authors let at most d/4 pairs turn.
"""

import numpy as np
import torch
from torch import Tensor, nn


def fope(x, positions, length, base=10_000.0, cos_coef=None, sin_coef=None) -> np.ndarray:
    """Return `x` (..., h, t, d) in float64, each row turned to its position (t,).

    Coefficients are (c, f, f), a set for h/c heads; without them pair i turns by theta_i alone.
    """
    x = np.asarray(x, np.float64)
    heads, t, dim = x.shape[-3:]
    theta = _theta(dim, length, base)  # (f,)
    angle = np.asarray(positions).reshape(t, 1) * theta  # (t, f)
    if cos_coef is None:
        cos_coef = sin_coef = np.eye(len(theta))[None]  # (1, f, f)
    cos = np.cos(angle) @ cos_coef  # (c, t, f)
    sin = np.sin(angle) @ sin_coef  # (c, t, f)
    cos = np.repeat(cos, heads // len(cos), axis=0)  # (h, t, f)
    sin = np.repeat(sin, heads // len(sin), axis=0)  # (h, t, f)

    first = slice(0, len(theta))
    second = slice(dim // 2, dim // 2 + len(theta))
    y = x.copy()  # (..., h, t, d)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


class FoPE(nn.Module):
    """Turn queries and keys by sums of those frequencies of RoPE that fit into the trained length.

    `cos_coef` and `sin_coef` (c, f, f) start as the authors': the identity, plus normal noise of
    standard deviation gain sqrt(2 / (f (c + f))). They leave them so: requires_grad_(False).

    Args:
        dim: Width d of a head; even.
        heads: Sets of coefficients c: as many as key/value heads, or a divisor of that.
        length: Tokens of a sequence in training; what turns less than once in them is dropped. The
            authors' rope_floor_freq_ratio r is a length r times as short, and Intern-S1-Pro's
            num_inv_freq n one of 2 pi base^((2n-1)/d).
        base: Sets the frequencies, base^(-2j/d).
        gain: Size of the noise, 0.3 to 0.6 in the authors' models, 0.5 in Intern-S1-Pro; 0 is RoPE.

    Examples:
        >>> q, k = torch.ones(1, 1, 9, 64), torch.ones(1, 1, 9, 64)
        >>> turned_q, turned_k = FoPE(64, heads=1, length=512)(q, k)
        >>> int((turned_q[0, 0, 8] == 1).sum())  # channels of less than one turn in 512 tokens
        32
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        length: float,
        base: float = 10_000.0,
        gain: float = 0.3,
    ):
        super().__init__()
        self.theta = tuple(_theta(dim, length, base).tolist())  # no buffer: it stays exact
        self.dim, self.heads = dim, heads
        f = len(self.theta)
        noise = [nn.init.xavier_normal_(torch.empty(heads, f, f), gain) for _ in range(2)]
        self.cos_coef = nn.Parameter(torch.eye(f) + noise[0])  # (c, f, f)
        self.sin_coef = nn.Parameter(torch.eye(f) + noise[1])  # (c, f, f)

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, table=None):
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned to positions (t,) or (b, t).

        By default keys stand at 0 .. s-1, or where as many queries do, and queries where the last
        t keys do. A `table(key_positions)` replaces both.
        """
        t, s = q.shape[-2], k.shape[-2]
        if positions is key_positions is table is None and (t > s or s == 1):
            got = "None; or transpose(1, 2) if tokens come before heads"
            raise ValueError(f"fope: positions must be given for {t} queries, {s} keys, got {got}")
        if key_positions is None:
            key_positions = torch.arange(s, device=k.device)
            if positions is not None and t == s:
                key_positions = positions
        dtype = torch.promote_types(q.dtype, torch.float32)
        of_k = self.table(key_positions, dtype) if table is None else table
        of_q = of_k[..., s - t :, :] if positions is None else self.table(positions, dtype)
        return self.turn(q, of_q), self.turn(k, of_k)  # (b, h, t, d), (b, g, s, d)

    def turn(self, x: Tensor, table: Tensor) -> Tensor:
        """Return `x` (b, h, t, d) turned by the `table` of its positions."""
        if x.ndim != 4 or x.shape[-1] != self.dim or not x.is_floating_point():
            raise ValueError(
                f"fope: q or k must be floats (b, h, t, {self.dim}), got {x.dtype} {tuple(x.shape)}"
            )
        b, _, t, _ = x.shape
        rows = tuple(table.shape[:-1])
        if rows not in ((t,), (1, t), (b, t)):
            raise ValueError(f"fope: positions or table must be ({t},) or ({b}, {t}), got {rows}")

        wide = torch.float32 if table.device.type == "mps" else torch.float64  # autocast spares it
        cos, sin = table.to(wide).unsqueeze(-3).chunk(2, dim=-1)  # (..., 1, t, f)
        cos = (cos @ self.cos_coef.to(wide)).unsqueeze(-3)  # (..., c, 1, t, f)
        sin = (sin @ self.sin_coef.to(wide)).unsqueeze(-3)  # (..., c, 1, t, f)
        cos, sin = cos.to(table.dtype), sin.to(table.dtype)

        y = x.to(torch.promote_types(x.dtype, table.dtype))
        y = y.unflatten(1, (self.heads, -1))  # (b, c, h/c, t, d)
        f = len(self.theta)
        rest = self.dim // 2 - f
        first, still, second, too = y.split([f, rest, f, rest], dim=-1)
        turned_first = first * cos - second * sin  # (b, c, h/c, t, f)
        turned_second = second * cos + first * sin  # (b, c, h/c, t, f)
        turned = torch.cat([turned_first, still, turned_second, too], dim=-1)
        return turned.flatten(1, 2).to(x.dtype)  # (b, h, t, d)

    def table(self, positions: Tensor, dtype=torch.float32) -> Tensor:
        """Return cosines, then sines (..., t, 2f): made once, they serve every layer."""
        where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where)  # (f,)
        angle = positions.to(where, torch.float64)[..., None] * theta  # (..., t, f)
        made = torch.cat([angle.cos(), angle.sin()], dim=-1)  # (..., t, 2f)
        return made.to(positions.device, dtype)


def _theta(dim, length, base):
    if dim % 2 or dim < 2:
        raise ValueError(f"fope: dim must be even and at least 2, got {dim}")
    if not 0 < base < float("inf"):
        raise ValueError(f"fope: base must be positive and finite, got {base}")
    if not length > 2 * np.pi:
        raise ValueError(f"fope: length must be above 2 pi, got {length}; no pair would turn")
    theta = base ** (-np.arange(0, dim, 2) / dim)  # (d/2,)
    return theta[theta >= 2 * np.pi / length]  # (f,)
