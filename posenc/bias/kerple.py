"""KERPLE: add to each logit a bias that falls with the logarithm or a power of the distance.

Paper: Chi et al., 2022, "KERPLE: Kernelized Relative Positional Embedding for Length
       Extrapolation", https://arxiv.org/abs/2205.09921, sec. 4.
Used:  the authors' GPT-NeoX models, DAPE's baselines, an option of NVIDIA NeMo
Cost:  two numbers a head to learn; a logarithm or a power for each pair and head

Key:   b batch, h heads, t queries, s keys, m position of a query, n of a key

    B[i, m, n] = -r1[i] ln(1 + r2[i] |m - n|)        form="log":   r1, r2 > 0, for head i
    B[i, m, n] = -r1[i] |m - n|^r2[i]                form="power": r1 > 0, 0 < r2 <= 2

so the logarithm multiplies a key's weight by (1 + r2 |m - n|)^-r1, a power law; ALiBi, the power
with r2 = 1, multiplies it by an exponential. Past and future are alike. Both forms are
conditionally positive definite: c^T B c >= 0 for any c that sums to 0, so that on a finite text,
and with r2 below 2, some constant, which softmax cancels, makes B a kernel. r1 and r2 are held at
0.01 or more, r2 of a power at 2 or less, where they are used; the authors' code writes the bound
into the parameters at each forward pass. It calls them bias_p and bias_a, of shape (h, 1, 1): r1
and r2 of the logarithm, r2 and r1 of the power.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

FORMS = ("log", "power")
FLOOR = 0.01


def kerple(
    positions: ArrayLike,
    key_positions: ArrayLike,
    r1: ArrayLike,
    r2: ArrayLike,
    form: str = "log",
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,).

    `r1` and `r2` (h,) are the parameters of the heads.

    Raises:
        ValueError: If `form` is unknown.
        ValueError: If positions are not (t,) and (s,).
    """
    m = np.asarray(positions, np.float64)
    n = np.asarray(key_positions, np.float64)
    # reshape refuses a batch (b, t); m[:, None] would broadcast it silently
    distance = np.abs(m.reshape(len(m), 1) - n.reshape(1, len(n)))  # (t, s)
    r1 = np.maximum(np.asarray(r1, np.float64), FLOOR)[:, None, None]  # (h, 1, 1)
    r2 = np.clip(np.asarray(r2, np.float64), FLOOR, _ceiling(form))[:, None, None]  # (h, 1, 1)
    if form == "log":
        return -r1 * np.log1p(r2 * distance)  # (h, t, s)
    return -r1 * distance**r2  # (h, t, s)


class KERPLE(nn.Module):
    """Give the bias to add to the logits: -r1 ln(1 + r2 distance), or -r1 distance^r2.

    Learned are `r1` and `r2` (h,). As in the authors' code the factor of the logarithm and the
    exponent of the power start uniform in [0, 2), the other parameter in [0, 1). One beyond its
    bound counts as the bound; its gradient passes as if there were none, so that it can come back.

    Args:
        heads: Number of query heads h.
        form: "log" or "power".

    Raises:
        ValueError: If `heads` is below 1, or `form` unknown.
        ValueError: In a call, if a lone query has no `key_positions`.

    Examples:
        >>> encoding = KERPLE(heads=1)
        >>> _ = encoding.load_state_dict({"r1": torch.ones(1), "r2": torch.ones(1)})
        >>> encoding(torch.arange(4)).detach()[0, 3].exp()  # 1 / (1 + distance)
        tensor([0.2500, 0.3333, 0.5000, 1.0000])
    """

    def __init__(self, heads: int, form: str = "log"):
        super().__init__()
        if heads < 1:
            raise ValueError(f"kerple: heads must be 1 or more, got {heads}")
        self.form = form
        self.ceiling = _ceiling(form)
        self.r1 = nn.Parameter(torch.empty(heads).uniform_(0, 2 if form == "log" else 1))
        self.r2 = nn.Parameter(torch.empty(heads).uniform_(0, 1 if form == "log" else 2))

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t,) to `key_positions` (s,).

        `key_positions` default to `positions`; a lone query must be given them. A batch (b, t) or
        (b, s) gives (b, h, t, s).
        """
        m, n = _positions(positions, key_positions)
        distance = (m[..., :, None] - n[..., None, :]).abs()  # (..., t, s)
        r1 = _bounded(self.r1)[:, None, None]  # (h, 1, 1)
        r2 = _bounded(self.r2, self.ceiling)[:, None, None]  # (h, 1, 1)
        # rounded only here: float32 holds the distances of far tokens, not their positions
        distance = distance.to(positions.device, r1.dtype).unsqueeze(-3)  # (..., 1, t, s)
        return self._bias(distance, r1, r2).float()  # (..., h, t, s)

    def score_mod(
        self, positions: Tensor, key_positions: Tensor | None = None
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = torch.atleast_2d(*_positions(positions, key_positions))
        r1 = _bounded(self.r1)  # (h,)
        r2 = _bounded(self.r2, self.ceiling)  # (h,)

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            distance = (_at(m, b, q_idx) - _at(n, b, kv_idx)).abs()
            bias = self._bias(distance.to(r1.dtype), r1[h], r2[h])
            return score + bias.to(score.dtype)

        return _modify

    def _bias(self, distance: Tensor, r1: Tensor, r2: Tensor) -> Tensor:
        if self.form == "log":
            return -r1 * torch.log1p(r2 * distance)
        # a power below 1 has an infinite slope at distance 0, and its gradient would be NaN
        at_zero = distance == 0
        power = distance.masked_fill(at_zero, 1) ** r2
        return -r1 * power.masked_fill(at_zero, 0)


def _bounded(rate: Tensor, ceiling: float = float("inf")) -> Tensor:
    """Return a parameter (h,) within its bounds, in float32 or finer."""
    rate = rate.to(torch.promote_types(rate.dtype, torch.float32))
    bounded = rate.detach().clamp(FLOOR, ceiling)
    # beyond a bound clamp alone would have no gradient; what is added is 0, with a gradient of 1
    return bounded + (rate - rate.detach())  # (h,)


def _ceiling(form: str) -> float:
    """Return the largest r2: with a larger power the bias would be no kernel."""
    if form not in FORMS:
        raise ValueError(f"kerple: form must be one of {FORMS}, got {form!r}")
    return 2.0 if form == "power" else float("inf")


def _positions(positions: Tensor, key_positions: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the positions of queries and keys in float64."""
    if key_positions is None:
        # a lone query has a cache of keys, over which its bias (h, 1, 1) would broadcast
        if positions.shape[-1] == 1:
            raise ValueError(
                "kerple: key_positions must be given for a lone query, got None; "
                "torch.arange(s) for a cache of s keys"
            )
        key_positions = positions
    device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
    return positions.to(device, torch.float64), key_positions.to(device, torch.float64)


def _at(positions: Tensor, b: Tensor, i: Tensor) -> Tensor:
    """Return the position of token i of sequence b, of (b, t) or (1, t)."""
    # one row serves every sequence
    row = 0 * b if len(positions) == 1 else b
    return positions[row, i]
