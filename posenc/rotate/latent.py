"""Latent: rotate one slice of each head, so that a cache can hold latents in place of keys (MLA).

Paper: DeepSeek-AI, 2024, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts
       Language Model", https://arxiv.org/abs/2405.04434, sec. 2.1.3, eq. 14-18.
Used:  DeepSeek V2 to V4, Kimi K2, GLM-5, Mistral 4, LongCat, MiniCPM 3
Cost:  nothing to learn; a cache of l + r numbers a token, whatever the number of heads

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, c content, r rotary dim,
       l latent, m position of a query, n of a key

    logit = q_content . (U_h latent_n) + (R_m q_rotary) . (R_n key_n)
    logit = (U_h^T q_content) . latent_n + (R_m q_rotary) . (R_n key_n),  theta_i = base^(-2i/r)

A rotated key could not be computed from its latent any more, as R_n would come between U_h and
latent_n; so r channels beside it carry the position, and all heads share their key. The second line
is "absorbed": it uses the cache as it is. Here the last channels rotate; in the indexer of DeepSeek
V3.2 the first, layout "half"; in GLM-5's the first, interleaved. Logits are divided once by the
root of d; YaRN's factor belongs there. V4's values are keys: rotate its outputs by -positions.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def latent(
    x: ArrayLike,
    positions: ArrayLike,
    rotary_dim: int,
    start: int | None = None,
    base: float = 10_000.0,
    layout: str = "interleaved",
    theta: ArrayLike | None = None,
) -> np.ndarray:
    """Return `x` (..., t, d) in float64, the slice of `rotary_dim` channels rotated.

    Raises:
        ValueError: If `rotary_dim` is odd or below 2, or the slice lies outside d channels.
        ValueError: If `base` is not positive and finite, `layout` unknown, or `theta` not (r/2,).
    """
    x = np.asarray(x, np.float64)
    first, second = _pairs(x.shape[-1], rotary_dim, start, layout)
    theta = _frequencies(rotary_dim, base, theta)
    angle = np.asarray(positions).reshape(x.shape[-2], 1) * theta  # (t, r/2)
    cos = np.cos(angle)
    sin = np.sin(angle)
    y = x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


def absorbed_scores(
    content: Tensor, rotary: Tensor, latents: Tensor, keys: Tensor, up: Tensor
) -> Tensor:
    """Return logits (b, h, t, s), before their scale, from what a cache of latents holds.

    `content` (b, h, t, c) are the slices of queries that do not rotate, `rotary` (b, h, t, r) the
    rotated ones, `latents` (b, s, l) and rotated `keys` (b, s, r) the cache, and `up` (h, c, l)
    would make a head's keys from latents.

    Examples:
        >>> q, up, latents = torch.randn(1, 8, 5, 16), torch.randn(8, 16, 32), torch.randn(1, 9, 32)
        >>> absorbed_scores(q, torch.ones(1, 8, 5, 4), latents, torch.ones(1, 9, 4), up).shape
        torch.Size([1, 8, 5, 9])
    """
    # queries go down to the latents, rather than latents up to keys
    absorbed = torch.einsum("bhtc,hcl->bhtl", content, up)
    return absorbed @ latents.mT[:, None] + rotary @ keys.mT[:, None]  # (b, h, t, s)


class Latent(nn.Module):
    """Rotate a slice of queries and keys by their positions, with angles in float64.

    Args:
        dim: Width d of a head, of both slices together.
        rotary_dim: How many channels r rotate; even.
        start: The first of them; by default the last r channels rotate.
        base: Sets the longest wavelength, 2 pi base^(1 - 2/r) positions.
        layout: "interleaved" pairs the channels (2i, 2i + 1) of the slice, "half" (i, i + r/2).
        theta: Frequencies (r/2,) in place of those of `base`, such as YaRN's.

    Raises:
        ValueError: If `rotary_dim` is odd or below 2, or the slice lies outside `dim` channels.
        ValueError: If `base` is not positive and finite, `layout` unknown, or `theta` not (r/2,).
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> mla, q, k = Latent(192, 64), torch.randn(1, 8, 5, 192), torch.randn(1, 1, 5, 192)
        >>> rotated_q, rotated_k = mla(q, k)  # one rotary key for eight heads
    """

    def __init__(
        self,
        dim: int,
        rotary_dim: int,
        start: int | None = None,
        base: float = 10_000.0,
        layout: str = "interleaved",
        theta: ArrayLike | None = None,
    ):
        super().__init__()
        self.first, self.second = _pairs(dim, rotary_dim, start, layout)
        # a tuple, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = tuple(_frequencies(rotary_dim, base, theta).tolist())
        self.dim = dim

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
                    f"latent: positions must be given for {t} queries and {s} keys, got None; "
                    "or transpose(1, 2) if tokens come before heads"
                )
            positions = torch.arange(t, device=q.device)
        table_q = self.table(positions, q.dtype)
        table_k = table_q if key_positions is None else self.table(key_positions, k.dtype)
        return self.turn(q, table_q), self.turn(k, table_k)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Return cosines and sines (..., 1, t, r/2) for every layer; of -positions to undo it."""
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=device)
        # the same for all heads
        p = positions.to(device, torch.float64)[..., None, :, None]  # (..., 1, t, 1)
        angle = p * theta
        dtype = torch.promote_types(dtype, torch.float32)
        return angle.cos().to(positions.device, dtype), angle.sin().to(positions.device, dtype)

    def turn(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Return `x` (b, h, t, d), the slice of each token rotated by a `table`."""
        cos, sin = table
        self._check(x, cos)
        first, second = self.first, self.second
        # products in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, cos.dtype))
        # a copy, so that the channels that do not rotate stay
        y = wide.clone()  # (b, h, t, d)
        y[..., first] = wide[..., first] * cos - wide[..., second] * sin
        y[..., second] = wide[..., second] * cos + wide[..., first] * sin
        return y.to(x.dtype)

    def _check(self, x: Tensor, cos: Tensor) -> None:
        b, _, t, d = x.shape
        if d != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"latent: q or k must have shape (b, h, t, {self.dim}) and a float dtype, got {got}"
            )
        # a table of one row would broadcast over all tokens without an error
        table_shape = (*cos.shape[:-3], cos.shape[-2])
        if table_shape != (t,) and table_shape != (1, t) and table_shape != (b, t):
            raise ValueError(
                f"latent: positions or table must have shape ({t},) or ({b}, {t}), "
                f"got {table_shape}"
            )


def _frequencies(rotary_dim: int, base: float, theta: ArrayLike | None) -> np.ndarray:
    """Return theta (r/2,), in radians a position, highest first."""
    if not 0 < base < np.inf:
        raise ValueError(f"latent: base must be positive and finite, got {base}")
    if theta is None:
        theta = base ** (-np.arange(0, rotary_dim, 2) / rotary_dim)
    theta = np.asarray(theta, np.float64)
    if theta.shape != (rotary_dim // 2,):
        raise ValueError(f"latent: theta must have shape ({rotary_dim // 2},), got {theta.shape}")
    return theta


def _pairs(dim: int, rotary_dim: int, start: int | None, layout: str) -> tuple[slice, slice]:
    """Return the channels of the first and of the second members of all pairs of the slice."""
    if rotary_dim % 2 or not 0 < rotary_dim <= dim:
        raise ValueError(f"latent: rotary_dim of dim must be even, 2 to {dim}, got {rotary_dim}")
    if start is None:
        start = dim - rotary_dim
    if not 0 <= start <= dim - rotary_dim:
        raise ValueError(f"latent: start must be 0 to {dim - rotary_dim}, got {start}")
    end = start + rotary_dim
    middle = start + rotary_dim // 2
    if layout == "half":
        return slice(start, middle), slice(middle, end)
    if layout == "interleaved":
        return slice(start, end, 2), slice(start + 1, end, 2)
    raise ValueError(f"latent: layout must be 'half' or 'interleaved', got {layout!r}")
