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
and with r2 below 2, some constant, which softmax does not see, makes B a kernel. r1 and r2 are held
at 0.01 or more, r2 of a power at 2 or less, where they are used; the authors' code writes the bound
into the parameters at each forward pass. It calls them bias_p and bias_a, of shape (h, 1, 1): r1
and r2 of the logarithm, r2 and r1 of the power.
"""

import numpy as np
import torch
from torch import Tensor, nn

FORMS = ("log", "power")
FLOOR = 0.01


def kerple(positions, key_positions, r1, r2, form: str = "log") -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,).

    `r1` and `r2` (h,) are the rates.
    """
    m = np.asarray(positions, np.float64).reshape(len(positions), 1)  # (t, 1)
    n = np.asarray(key_positions, np.float64).reshape(1, len(key_positions))  # (1, s)
    distance = np.abs(m - n)  # (t, s)
    r1, r2 = np.asarray(r1, np.float64), np.asarray(r2, np.float64)  # (h,), (h,)
    r1 = np.maximum(r1, FLOOR)[:, None, None]  # (h, 1, 1)
    r2 = np.clip(r2, FLOOR, _most(form))[:, None, None]  # (h, 1, 1)
    if form == "log":
        return -r1 * np.log1p(r2 * distance)  # (h, t, s)
    return -r1 * distance**r2  # (h, t, s)


class KERPLE(nn.Module):
    """Give the bias to add to the logits: -r1 ln(1 + r2 distance), or -r1 distance^r2.

    Learned are `r1` and `r2` (h,). As in the authors' code the factor of the logarithm and the
    exponent of the power start uniform in [0, 2), the other rate in [0, 1). A rate beyond its bound
    counts as the bound; its gradient passes as if there were none, so that it can come back.

    Args:
        heads: Number of query heads h.
        form: "log" or "power".

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
        self.form, self.most = form, _most(form)
        end1, end2 = (2, 1) if form == "log" else (1, 2)
        self.r1 = nn.Parameter(torch.empty(heads).uniform_(0, end1))
        self.r2 = nn.Parameter(torch.empty(heads).uniform_(0, end2))

    def forward(self, positions: Tensor, key_positions=None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t,) to `key_positions` (s,).

        Keys stand where queries do by default. A batch (b, t) or (b, s) gives (b, h, t, s).
        """
        m, n = _in_float64(positions, key_positions)
        distance = (m[..., :, None] - n[..., None, :]).abs()  # (..., t, s)
        r1, r2 = _held(self.r1), _held(self.r2, self.most)
        distance = distance.to(positions.device, r1.dtype)[..., None, :, :]  # (..., 1, t, s)
        bias = self._bias(distance, r1[:, None, None], r2[:, None, None])  # (..., h, t, s)
        return bias.float()

    def score_mod(self, positions: Tensor, key_positions=None):
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = torch.atleast_2d(*_in_float64(positions, key_positions))  # one row serves each b
        r1, r2 = _held(self.r1), _held(self.r2, self.most)

        def _modify(score, b, h, t, s):
            distance = (n[b * (len(n) > 1), s] - m[b * (len(m) > 1), t]).abs()
            bias = self._bias(distance.to(r1.dtype), r1[h], r2[h])
            return score + bias.to(score.dtype)

        return _modify

    def _bias(self, distance, r1, r2):
        if self.form == "log":
            return -r1 * torch.log1p(r2 * distance)
        here = distance == 0  # the slope of a power below 1 is infinite there, its gradient a NaN
        power = distance.masked_fill(here, 1) ** r2
        return -r1 * power.masked_fill(here, 0)


def _held(rate, most=float("inf")):
    rate = rate.to(torch.promote_types(rate.dtype, torch.float32))
    within = rate.detach().clamp(FLOOR, most)  # beyond a bound clamp alone would have no gradient
    return within + (rate - rate.detach())  # (h,)


def _most(form):
    if form not in FORMS:
        raise ValueError(f"kerple: form must be one of {FORMS}, got {form!r}")
    return 2.0 if form == "power" else float("inf")


def _in_float64(positions, key_positions):
    where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
    keys = positions if key_positions is None else key_positions
    return positions.to(where, torch.float64), keys.to(where, torch.float64)
