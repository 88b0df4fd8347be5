"""KERPLE: add to each logit a bias that falls with the logarithm or a power of the distance, at learned rates.

Paper: Chi et al., 2022, "KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation",
       https://arxiv.org/abs/2205.09921, sec. 4.
Used:  the authors' GPT-NeoX models, DAPE's baselines, an option of NVIDIA NeMo
Cost:  two numbers a head to learn; a logarithm or a power for each pair and head

Key:   b batch, h heads, t queries, s keys, m position of a query, n of a key

    B[i, m, n] = -r1[i] ln(1 + r2[i] |m - n|)        form="log":   r1, r2 > 0, for head i
    B[i, m, n] = -r1[i] |m - n|^r2[i]                form="power": r1 > 0, 0 < r2 <= 2; ALiBi where r2 = 1

so the logarithm multiplies a key's weight by (1 + r2 |m - n|)^-r1, a power law; ALiBi multiplies it by an exponential.
Both are conditionally positive definite: c^T B c >= 0 for any c that sums to 0, so that on a finite text, and with r2
below 2, some constant, which softmax does not see, makes B a kernel. Only the distance counts: the past and the future
are alike. r1 and r2 are the values themselves, held at 0.01 or more (r2 of a power at 2 or less) where they are used.
The authors' code writes the bound into the parameters at each forward pass instead. It calls them bias_p and bias_a, of
shape (h, 1, 1): r1 and r2 of the logarithm, r2 and r1 of the power.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

FORMS = ("log", "power")
FLOOR = 0.01


def kerple(
    positions: np.ndarray, key_positions: np.ndarray, r1: np.ndarray, r2: np.ndarray, form: str = "log"
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,), for `r1` and `r2` (h,)."""
    if not isinstance(form, str) or form not in FORMS:
        raise ValueError(f"kerple: form must be one of {', '.join(FORMS)}, got {form!r}")
    m, n = _row("positions", positions), _row("key_positions", key_positions)
    r1, r2 = _row("r1", r1), _row("r2", r2)
    if r1.shape != r2.shape:
        raise ValueError(f"kerple: r2 must be (h,) like r1 {r1.shape}, got {r2.shape}; each head has one of each")
    r1 = np.maximum(r1, FLOOR)[:, None, None]  # (h, 1, 1)
    r2 = np.clip(r2, FLOOR, _ceiling(form))[:, None, None]  # (h, 1, 1)
    distance = np.abs(m[:, None] - n)  # (t, s)
    return -r1 * (np.log1p(r2 * distance) if form == "log" else distance**r2)  # (h, t, s)


class KERPLE(nn.Module):
    """Give the bias to add to the logits: -r1 ln(1 + r2 distance), or -r1 distance^r2 with form="power".

    Learned are `r1` and `r2` (h,). As in the authors' code the factor of the logarithm and the exponent of the power
    start uniform in [0, 2), the scale inside the logarithm and the factor of the power uniform in [0, 1). A value
    beyond its bound counts as the bound, and its gradient passes as if there were none, so that it can come back.

    Args:
        heads: Number of query heads h.
        form: "log" or "power".

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encoding = KERPLE(heads=1)
        >>> _ = encoding.load_state_dict({"r1": torch.tensor([1.0]), "r2": torch.tensor([1.0])})
        >>> encoding(torch.arange(4)).detach()[0, 3].exp()  # 1 / (1 + distance)
        tensor([0.2500, 0.3333, 0.5000, 1.0000])
    """

    def __init__(self, heads: int, form: str = "log") -> None:
        super().__init__()
        if not isinstance(heads, int | np.integer) or isinstance(heads, bool) or heads < 1:
            raise ValueError(f"kerple: heads must be a positive integer, got {heads!r}; each head has its own curve")
        if not isinstance(form, str) or form not in FORMS:
            raise ValueError(f"kerple: form must be one of {', '.join(FORMS)}, got {form!r}")
        self.heads, self.form = int(heads), form
        self.r1, self.r2 = nn.Parameter(torch.empty(self.heads)), nn.Parameter(torch.empty(self.heads))
        nn.init.uniform_(self.r1, 0, 2 if form == "log" else 1)
        nn.init.uniform_(self.r2, 0, 1 if form == "log" else 2)

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s) in float32 between `positions` (t,) and `key_positions` (s,), by default the same.

        Where either has a batch, (b, t) or (b, s), the bias is (b, h, t, s). One row (1, t) serves a batch.
        """
        key_positions = positions if key_positions is None else key_positions
        _check(positions, key_positions)
        r1, r2 = (rate[:, None, None] for rate in self._rates())
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        m, n = positions.to(where, torch.float64), key_positions.to(where, torch.float64)
        distance = (m[..., :, None] - n[..., None, :]).abs()  # (..., t, s)
        distance = distance.to(r1.dtype).to(positions.device)[..., None, :, :]  # (..., 1, t, s)
        return self._curve(distance, r1, r2).float()  # (..., h, t, s)

    def score_mod(self, positions: Tensor, key_positions: Tensor | None = None) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        keys = positions if key_positions is None else key_positions
        _check(positions, keys)
        places = [_shared(p).contiguous() for p in (positions, keys)]  # FlexAttention's CPU kernels read no strides
        r1, r2 = self._rates()

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            m, n = (p[b, i] if p.ndim == 2 else p[i] for p, i in zip(places, (t, s), strict=True))
            distance = (m.double() - n.double()).abs().to(r1.dtype)
            return score + self._curve(distance, r1[h], r2[h]).to(score.dtype)

        return _modify

    def _rates(self) -> tuple[Tensor, Tensor]:
        # The bound is a value here, not an operation: beyond it clamp() has no gradient, and a rate would stay there.
        r1, r2 = (r.to(torch.promote_types(r.dtype, torch.float32)) for r in (self.r1, self.r2))
        held = (r1.detach().clamp(min=FLOOR), r2.detach().clamp(FLOOR, _ceiling(self.form)))
        return held[0] + (r1 - r1.detach()), held[1] + (r2 - r2.detach())  # (h,)

    def _curve(self, distance: Tensor, r1: Tensor, r2: Tensor) -> Tensor:
        if self.form == "log":
            return -r1 * torch.log1p(r2 * distance)
        here = distance == 0  # where the slope of a power below 1 is infinite, and the gradient would be a NaN
        return (-r1 * distance.masked_fill(here, 1) ** r2).masked_fill(here, 0)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"heads={self.heads}, form={self.form!r}"


def _ceiling(form: str) -> float:
    return 2.0 if form == "power" else float("inf")


def _row(name: str, given: object) -> np.ndarray:
    try:
        row = np.atleast_1d(np.asarray(given))
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        row = np.array([None])
    row = row[0] if row.ndim == 2 and len(row) == 1 else row
    if row.dtype.kind not in "iuf" or row.ndim != 1 or not np.isfinite(row).all():
        got = f"{type(given).__name__} {row.dtype} {row.shape}"
        raise ValueError(
            f"kerple: {name} must be one row of finite numbers, got {got}; a batch goes row by row, a tensor detached"
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
                f"kerple: {name} must be a tensor of integers or floats (t,) or (b, t), got {_kind(given)}; "
                "take torch.arange(t), or torch.as_tensor of a list or an array"
            )
    batch, other = (len(p) if p.ndim == 2 else 1 for p in (positions, key_positions))
    if batch != other and batch != 1 and other != 1:
        got = f"{tuple(positions.shape)} and {tuple(key_positions.shape)}"
        raise ValueError(f"kerple: positions and key_positions must be of one batch, got {got}; or leave it out of one")
