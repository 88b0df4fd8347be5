"""FoPE: rotate pairs by sums of RoPE's frequencies, without those too low for the training length.

Paper: Hua et al., 2024, "Fourier Position Embedding: Enhancing Attention's Periodic Extension for
       Length Generalization", https://arxiv.org/abs/2412.17739, the section that defines FoPE.
Used:  the authors' OLMo models of up to 1.2B parameters, Intern-S1-Pro
Cost:  2 c f^2 coefficients, learned or left as they start; one table (s, 2f), two small products

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, c sets, f frequencies,
       p position

    theta_j = base^(-2j/d),  j = 0 .. f-1: those of at least 2 pi / length
    C_i(p)  = sum_j cos_coef[j, i] cos(p theta_j),  S_i(p) = sum_j sin_coef[j, i] sin(p theta_j)
    y_i     = x_i C_i - x_(i+d/2) S_i,  y_(i+d/2) = x_(i+d/2) C_i + x_i S_i;  y = x from pair f on

With one frequency a pair this is RoPE without its low-frequency pairs, whose period is longer than
the training length. With more it is no rotation: norms change, and a logit depends on the positions
of its two tokens; only its mean over all positions depends on the offset alone. The authors' code,
Intern-S1-Pro and vLLM before its pull request 55243 have S = 1 in the pairs that should stay as
they are, which rotates them by 45 degrees and multiplies them by sqrt(2). The authors let at most
d/4 pairs rotate.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def fope(
    x: ArrayLike,
    positions: ArrayLike,
    length: float,
    base: float = 10_000.0,
    cos_coef: ArrayLike | None = None,
    sin_coef: ArrayLike | None = None,
) -> np.ndarray:
    """Return `x` (..., h, t, d) in float64, each row rotated by its position (t,).

    Coefficients are (c, f, f), a set for h/c heads; without them pair i has theta_i alone.

    Raises:
        ValueError: If d is odd or below 2, or `length` 2 pi or less.
        ValueError: If `base` is not positive and finite.
    """
    x = np.asarray(x, np.float64)
    heads, t, dim = x.shape[-3:]
    theta = _frequencies(dim, length, base)  # (f,)
    angle = np.asarray(positions).reshape(t, 1) * theta  # (t, f)
    one_frequency = np.eye(len(theta))[None]  # (1, f, f)
    cos = np.cos(angle) @ (one_frequency if cos_coef is None else cos_coef)  # (c, t, f)
    sin = np.sin(angle) @ (one_frequency if sin_coef is None else sin_coef)  # (c, t, f)
    cos = np.repeat(cos, heads // len(cos), axis=0)  # (h, t, f)
    sin = np.repeat(sin, heads // len(sin), axis=0)  # (h, t, f)

    first = slice(0, len(theta))
    second = slice(dim // 2, dim // 2 + len(theta))
    y = x.copy()  # (..., h, t, d)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


class FoPE(nn.Module):
    """Rotate queries and keys by sums of RoPE's frequencies of at least one period in training.

    `cos_coef` and `sin_coef` (c, f, f) start as the authors': the identity, plus normal noise of
    standard deviation gain sqrt(2 / (f (c + f))). They leave them so: requires_grad_(False).

    Args:
        dim: Width d of a head; even.
        heads: Sets of coefficients c: as many as key/value heads, or a divisor of that.
        length: Tokens of a sequence in training; pairs of a longer period are not rotated. The
            authors' rope_floor_freq_ratio r is a length r times as short, and Intern-S1-Pro's
            num_inv_freq n one of 2 pi base^((2n-1)/d).
        base: Sets the frequencies, base^(-2j/d).
        gain: Size of the noise, 0.3 to 0.6 in the authors' models, 0.5 in Intern-S1-Pro; 0 is RoPE.

    Raises:
        ValueError: If `dim` is odd or below 2, or `length` 2 pi or less.
        ValueError: If `base` is not positive and finite.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> q, k = torch.ones(1, 1, 9, 64), torch.ones(1, 1, 9, 64)
        >>> rotated_q, rotated_k = FoPE(64, heads=1, length=512)(q, k)
        >>> int((rotated_q[0, 0, 8] == 1).sum())  # channels of a period above 512 tokens
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
        # a tuple, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = tuple(_frequencies(dim, length, base).tolist())
        self.dim = dim
        self.heads = heads
        f = len(self.theta)
        noise = [nn.init.xavier_normal_(torch.empty(heads, f, f), gain) for _ in range(2)]
        self.cos_coef = nn.Parameter(torch.eye(f) + noise[0])  # (c, f, f)
        self.sin_coef = nn.Parameter(torch.eye(f) + noise[1])  # (c, f, f)

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
                    f"fope: positions must be given for {t} queries and {s} keys, got None; "
                    "or transpose(1, 2) if tokens come before heads"
                )
            positions = torch.arange(t, device=q.device)
        table_q = self.table(positions, q.dtype)
        table_k = table_q if key_positions is None else self.table(key_positions, k.dtype)
        return self.turn(q, table_q), self.turn(k, table_k)  # (b, h, t, d), (b, g, s, d)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Return cosines and sines (..., 1, t, f) for every layer, in float32 or finer."""
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=device)  # (f,)
        # the same for all heads
        p = positions.to(device, torch.float64)[..., None, :, None]  # (..., 1, t, 1)
        angle = p * theta  # (..., 1, t, f)
        dtype = torch.promote_types(dtype, torch.float32)
        return angle.cos().to(positions.device, dtype), angle.sin().to(positions.device, dtype)

    def turn(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Return `x` (b, h, t, d), each token rotated by its position in a `table`."""
        self._check(x, table[0])
        # products in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, table[0].dtype))
        # heads of a set lie together
        wide = wide.unflatten(1, (self.heads, -1))  # (b, c, h/c, t, d)
        cos = self._mixed(table[0], self.cos_coef)  # (..., c, 1, t, f)
        sin = self._mixed(table[1], self.sin_coef)  # (..., c, 1, t, f)
        f = len(self.theta)
        rest = self.dim // 2 - f
        first, rest_1, second, rest_2 = wide.split([f, rest, f, rest], dim=-1)
        rotated_first = first * cos - second * sin  # (b, c, h/c, t, f)
        rotated_second = second * cos + first * sin  # (b, c, h/c, t, f)
        rotated = torch.cat([rotated_first, rest_1, rotated_second, rest_2], dim=-1)
        return rotated.flatten(1, 2).to(x.dtype)  # (b, h, t, d)

    def _mixed(self, waves: Tensor, coefficients: Tensor) -> Tensor:
        """Return sums of waves (..., 1, t, f) by the coefficients (c, f, f) of each set."""
        # in float64, which autocast leaves alone
        fine = torch.float32 if waves.device.type == "mps" else torch.float64
        sums = waves.to(fine) @ coefficients.to(fine)  # (..., c, t, f)
        return sums.unsqueeze(-3).to(waves.dtype)

    def _check(self, x: Tensor, cos: Tensor) -> None:
        if x.ndim != 4 or x.shape[-1] != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"fope: q or k must have shape (b, h, t, {self.dim}) and a float dtype, got {got}"
            )
        b, _, t, _ = x.shape
        # a table of one row would broadcast over all tokens without an error
        table_shape = (*cos.shape[:-3], cos.shape[-2])
        if table_shape != (t,) and table_shape != (1, t) and table_shape != (b, t):
            raise ValueError(
                f"fope: positions or table must have shape ({t},) or ({b}, {t}), got {table_shape}"
            )


def _frequencies(dim, length, base):
    if dim % 2 or dim < 2:
        raise ValueError(f"fope: dim must be even and at least 2, got {dim}")
    if not 0 < base < float("inf"):
        raise ValueError(f"fope: base must be positive and finite, got {base}")
    if not length > 2 * np.pi:
        raise ValueError(f"fope: length must be above 2 pi, got {length}; no pair would rotate")
    theta = base ** (-np.arange(0, dim, 2) / dim)  # (d/2,)
    return theta[theta >= 2 * np.pi / length]  # (f,)
