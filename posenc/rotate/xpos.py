"""xPos: rotate queries and keys as RoPE does, and let logits decay with distance.

Paper: Sun et al., 2022, "A Length-Extrapolatable Transformer", https://arxiv.org/abs/2212.10554,
       alg. 1.
Used:  LeX; an option of torchscale, flash-attn, x-transformers and rotary-embedding-torch
Cost:  nothing to learn; one table for all layers, one pass over queries and keys

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim,
       m position of a query, n of a key

    q_i = zeta_i^((m - center) / scale_base) R(m theta_i) q_i,    theta_i = base^(-2i/d)
    k_i = zeta_i^((center - n) / scale_base) R(n theta_i) k_i,    zeta_i = (2i/d + 0.4) / 1.4

where R(angle) rotates channels 2i and 2i + 1. A logit is RoPE's, the part of pair i times
zeta_i^((m - n) / scale_base): high-frequency pairs decay soonest. That factor grows for keys ahead,
so attend causally. The center drops out, so keys can be cached; libraries center each call on half
its length, and their keys fit no later call. Float32 and bfloat16 reach 32 scale_base from the
center, float16 4; beyond, keys become infinite.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

Table = tuple[Tensor, Tensor, Tensor]  # cosines, sines and scales of a query


def xpos(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    base: float = 10_000.0,
    scale_base: float = 512.0,
) -> np.ndarray:
    """Return float64 logits (..., h, t, s) of q (..., h, t, d) and k (..., g, s, d), unscaled.

    Raises:
        ValueError: If d is odd or below 2, or `base` not positive and finite.
        ValueError: If a query and a key are more than 64 `scale_base` apart.
    """
    theta, zeta = _frequencies(np.shape(q)[-1], base)
    # two neighboring channels are one complex number
    q = np.ascontiguousarray(q, np.float64).view(np.complex128)  # (..., h, t, d/2)
    k = np.ascontiguousarray(k, np.float64).view(np.complex128)  # (..., g, s, d/2)
    h, t, _ = q.shape[-3:]
    g, s, _ = k.shape[-3:]
    m = np.asarray(positions, np.float64).reshape(t, 1, 1)
    n = np.asarray(key_positions, np.float64).reshape(s, 1)
    steps = (m - n) / scale_base  # (t, s, 1)
    furthest = abs(steps).max(initial=0)
    if furthest > 64:
        raise ValueError(f"xpos: positions must be within 64 scale_base, got {furthest:g} apart")
    kernel = zeta**steps * np.exp(1j * (m - n) * theta)  # (t, s, d/2)
    k = k.conj().repeat(h // g, axis=-3)  # (..., h, s, d/2)
    return np.einsum("...htc,...hsc,tsc->...hts", q, k, kernel).real


class XPos(nn.Module):
    """Rotate queries and keys, and scale them so that their products decay with distance.

    Args:
        dim: Width d of a head; even.
        base: Sets the lowest frequency, base^(-1 + 2/d) radians a position.
        scale_base: Positions over which pair i decays to zeta_i: 0.29 first, almost 1 last.
        center: The position left unscaled; half the longest context reaches furthest.

    Raises:
        ValueError: If `dim` is odd or below 2, or `base` not positive and finite.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> xpos, k, back = XPos(64), torch.ones(1, 1, 3, 64), torch.tensor([0, 64, 512])
        >>> q, k = xpos(k[:, :, :1], k, torch.tensor([9000]), 9000 - back)
        >>> [round(logit, 1) for logit in (q @ k.mT).flatten().tolist()]
        [64.0, 27.4, 12.6]
    """

    def __init__(
        self,
        dim: int,
        base: float = 10_000.0,
        scale_base: float = 512.0,
        center: float = 0.0,
    ):
        super().__init__()
        self.dim = dim
        theta, zeta = _frequencies(dim, base)
        # tuples, not buffers: model.to(torch.bfloat16) would round them
        self.theta = tuple(theta.tolist())
        self.zeta = tuple(zeta.tolist())
        self.scale_base = scale_base
        self.center = center

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), rotated and scaled for (t,) or (b, t).

        With t = s > 1, `positions` default to 0 .. t-1; with t = s, `key_positions` default to
        `positions`.
        """
        t, s = q.shape[-2], k.shape[-2]
        if positions is None:
            # a lone token is a new one behind a cache, and its position is not 0
            if t != s or t == 1 or key_positions is not None:
                raise ValueError(
                    f"xpos: positions must be given for {t} queries and {s} keys, got None; "
                    "or transpose(1, 2) if tokens come before heads"
                )
            positions = torch.arange(t, device=q.device)
        table_q = self.table(positions, q.dtype)
        table_k = table_q if key_positions is None else self.table(key_positions, k.dtype)
        return self.turn_q(q, table_q), self.turn_k(k, table_k)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Table:
        """Return cosines, sines and scales (..., 1, t, d/2) for every layer, float32 or finer."""
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=device)  # (d/2,)
        zeta = torch.tensor(self.zeta, dtype=torch.float64, device=device)  # (d/2,)
        # the same for all heads
        p = positions.to(device, torch.float64)[..., None, :, None]  # (..., 1, t, 1)
        angle = p * theta  # (..., 1, t, d/2)
        scale = zeta ** ((p - self.center) / self.scale_base)  # (..., 1, t, d/2)
        to = positions.device, torch.promote_types(dtype, torch.float32)
        return angle.cos().to(*to), angle.sin().to(*to), scale.to(*to)

    def turn_q(self, q: Tensor, table: Table) -> Tensor:
        """Return queries (b, h, t, d), rotated and scaled by a `table`."""
        cos, sin, scale = table
        return self._rotate(q, cos * scale, sin * scale)  # (b, h, t, d)

    def turn_k(self, k: Tensor, table: Table) -> Tensor:
        """Return keys (b, g, s, d), rotated as queries are and scaled the other way."""
        cos, sin, scale = table
        return self._rotate(k, cos / scale, sin / scale)  # (b, g, s, d)

    def _rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[-1] != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"xpos: q or k must have shape (b, h, t, {self.dim}) and a float dtype, got {got}"
            )
        b, _, t, _ = x.shape
        # a table of one row would broadcast over all tokens without an error
        table_shape = (*cos.shape[:-3], cos.shape[-2])
        if table_shape != (t,) and table_shape != (1, t) and table_shape != (b, t):
            raise ValueError(
                f"xpos: positions or table must have shape ({t},) or ({b}, {t}), got {table_shape}"
            )
        # products in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, cos.dtype))
        first, second = wide.unflatten(-1, (-1, 2)).unbind(-1)  # (b, h, t, d/2), (b, h, t, d/2)
        rotated = torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1)
        return rotated.flatten(-2).to(x.dtype)  # (b, h, t, d)


def _frequencies(dim: int, base: float) -> tuple[np.ndarray, np.ndarray]:
    """Return theta and zeta (d/2,): the frequency and the decay of each pair."""
    if dim % 2 or dim < 2:
        raise ValueError(f"xpos: dim of q and k must be even and at least 2, got {dim}")
    if not 0 < base < np.inf:
        raise ValueError(f"xpos: base must be positive and finite, got {base}")
    share = np.arange(0, dim, 2) / dim  # (d/2,)
    return base**-share, (share + 0.4) / 1.4
