"""Sandwich: add to each logit the inner product of two sinusoidal encodings, which falls with the distance.

Paper: Chi et al., 2023, "Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis",
       https://arxiv.org/abs/2212.10356, the section on Sandwich.
Used:  its authors' language models; an option of NVIDIA NeMo
Cost:  nothing to learn; one matrix product of sinusoids for all heads

Key:   b batch, h heads, t queries, s keys, d width of the sinusoids, m position of a query, n of a key

    theta_k    = base^(-2k/d),  k = 1 .. d/2
    B[i, m, n] = h / (8 i) (sum_k cos((m - n) theta_k) - d/2),  i = 1 .. h

so the sum is PE(m) . PE(n), and B is 0 at distance 0, never positive and the same for past and future. Up to a distance
of `base` it falls about as the logarithm, with ripples: by h/(8i) d/8 for each factor of ten. The first head is the
steepest. The width d is no width of a head: the paper takes 128 for all its models, NeMo what it is given. k counts
from 1, as in the paper's equation and NeMo; Vaswani et al. count from 0. NeMo computes in float32, this file in
float64.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn


def sandwich(
    positions: np.ndarray, key_positions: np.ndarray, heads: int, dim: int = 128, base: float = 10_000.0
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,)."""
    _check_settings(heads, dim, base)
    offset = _row("positions", positions)[:, None] - _row("key_positions", key_positions)  # (t, s)
    theta = float(base) ** (-2 * np.arange(1, dim // 2 + 1) / dim)  # (d/2,)
    total = sum(np.cos(offset * rate) for rate in theta) - dim / 2  # (t, s)
    return heads / (8 * np.arange(1.0, heads + 1))[:, None, None] * total  # (h, t, s)


class Sandwich(nn.Module):
    """Give the bias to add to the logits; nothing is learned or stored.

    Args:
        heads: Number of query heads h.
        dim: Width d of the sinusoids, even; 128 whatever the width of the model.
        base: Sets the slowest wavelength, 2 pi base positions.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> Sandwich(heads=8)(torch.tensor([0]), torch.tensor([0, 1, 10, 100, 1000]))[0, 0]
        tensor([  0.0000,  -1.4466, -19.3409, -33.3189, -53.3896])
    """

    def __init__(self, heads: int, dim: int = 128, base: float = 10_000.0) -> None:
        super().__init__()
        _check_settings(heads, dim, base)
        self.heads, self.dim, self.base = int(heads), int(dim), float(base)

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s) in float32 between `positions` (t,) and `key_positions` (s,), by default the same.

        Where either has a batch, (b, t) or (b, s), the bias is (b, h, t, s). One row (1, t) serves a batch.
        """
        key_positions = positions if key_positions is None else key_positions
        _check(positions, key_positions)
        # cos(a - b) = cos a cos b + sin a sin b: a product of two tables in place of d/2 cosines for each pair
        total = self._sinusoids(positions) @ self._sinusoids(key_positions).mT - self.dim / 2  # (..., t, s)
        slopes = self.heads / torch.arange(8, 8 * self.heads + 1, 8, dtype=torch.float64, device=total.device)  # (h,)
        return (slopes[:, None, None] * total[..., None, :, :]).float().to(positions.device)  # (..., h, t, s)

    def score_mod(self, positions: Tensor, key_positions: Tensor | None = None) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, d/2 cosines in float64 for one number."""
        keys = positions if key_positions is None else key_positions
        _check(positions, keys)
        places = [_shared(p).contiguous() for p in (positions, keys)]  # FlexAttention's CPU kernels read no strides

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            m, n = (p[b, i] if p.ndim == 2 else p[i] for p, i in zip(places, (t, s), strict=True))
            offset = m.double() - n.double()
            total = -self.dim / 2
            for k in range(1, self.dim // 2 + 1):  # FlexAttention's kernels have no sum over an axis
                total = total + torch.cos(offset * self.base ** (-2 * k / self.dim))
            return score + (self.heads / (8 * (h + 1)) * total).to(score.dtype)

        return _modify

    def _sinusoids(self, positions: Tensor) -> Tensor:
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        index = torch.arange(1, self.dim // 2 + 1, dtype=torch.float64, device=where)  # (d/2,)
        theta = self.base ** (-2 * index / self.dim)  # (d/2,)
        angle = positions.to(where, torch.float64)[..., None] * theta  # (..., t, d/2)
        return torch.cat([angle.cos(), angle.sin()], dim=-1)  # (..., t, d)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"heads={self.heads}, dim={self.dim}, base={self.base:g}"


def _check_settings(heads: int, dim: int, base: float) -> None:
    if not isinstance(heads, int | np.integer) or isinstance(heads, bool) or heads < 1:
        raise ValueError(f"sandwich: heads must be a positive integer, got {heads!r}; each head has its own slope")
    if not isinstance(dim, int | np.integer) or isinstance(dim, bool) or dim < 2 or dim % 2:
        raise ValueError(f"sandwich: dim must be an even integer of at least 2, got {dim!r}; the paper takes 128")
    is_number = isinstance(base, int | float | np.integer | np.floating) and not isinstance(base, bool)
    if not is_number or not 0 < base < float("inf"):
        raise ValueError(f"sandwich: base must be positive and finite, got {base!r}; the paper takes 10,000")


def _row(name: str, given: object) -> np.ndarray:
    try:
        row = np.atleast_1d(np.asarray(given))
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        row = np.array([None])
    row = row[0] if row.ndim == 2 and len(row) == 1 else row
    if row.dtype.kind not in "iuf" or row.ndim != 1 or not np.isfinite(row).all():
        got = f"{type(given).__name__} {row.dtype} {row.shape}"
        raise ValueError(
            f"sandwich: {name} must be one row of finite numbers, got {got}; a batch goes row by row, a tensor detached"
        )
    return row.astype(np.float64)


def _kind(given: object) -> str:
    size = f"of length {len(given)}" if isinstance(given, list | tuple) else tuple(getattr(given, "shape", ()))
    return f"{'numpy array ' * isinstance(given, np.ndarray)}{getattr(given, 'dtype', type(given).__name__)} {size}"


def _shared(positions: Tensor) -> Tensor:
    """Return a batch of one row as that row, which serves every batch."""
    return positions[0] if positions.ndim == 2 and len(positions) == 1 else positions


def _check(positions: Tensor, key_positions: Tensor) -> None:
    for name, given in (("positions", positions), ("key_positions", key_positions)):
        is_number = isinstance(given, Tensor) and given.dtype != torch.bool and not given.is_complex()
        if not is_number or given.ndim not in (1, 2):
            raise ValueError(
                f"sandwich: {name} must be a tensor of integers or floats (t,) or (b, t), got {_kind(given)}; "
                "take torch.arange(t), or torch.as_tensor of a list or an array"
            )
    batch, other = (len(p) if p.ndim == 2 else 1 for p in (positions, key_positions))
    if batch != other and batch != 1 and other != 1:
        got = f"{tuple(positions.shape)} and {tuple(key_positions.shape)}"
        raise ValueError(
            f"sandwich: positions and key_positions must be of one batch, got {got}; or leave it out of one"
        )
