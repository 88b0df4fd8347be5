"""FIRE: add to each logit a learned function of the distance, taken as a share of how far the query can look back.

Paper: Li et al., 2024, "Functional Interpolation for Relative Positions Improves Long Context Transformers",
       https://arxiv.org/abs/2310.04418, sec. 3.
Used:  studies of length extrapolation, among them DAPE's
Cost:  a small network to learn; a call runs it for every pair

Key:   b batch, h heads, t queries, s keys, u hidden units, m position of a query, n of a key

    psi(x)     = ln(|c| x + 1)
    share      = psi(|m - n|) / (psi(max(L, |m|, |n|)) + eps),  L = |multiplier| threshold
    B[i, m, n] = sum_u out_weight[i, u] relu(hidden_weight[u] share + hidden_bias[u]) + out_bias[i],  for head i

so the network meets shares from 0 to 1 at any length, and up to place L the bias depends on the distance alone. One
hidden unit for each distance makes B any bias of the distance: FIRE contains T5, ALiBi and KERPLE (theorem 3.1). For
keys at or before the query this is the paper's psi(m - n) / psi(max(L, m)). A later key is measured by its own place,
so that past and future are alike; published listings, whose mask hides it, measure it by the query's place, and give it
shares beyond 1. Positions count from 0, as in DAPE's code; the paper counts from 1: pass positions + 1. `DAPE_NAMES`
maps the parameters of DAPE.py to these; its init_L is `threshold`, of which a copy in megatron/model keeps the half.
"""

import contextlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

DAPE_NAMES = {
    "c": "c",
    "L_multiplier": "multiplier",
    "mlp.0.weight": "hidden_weight",
    "mlp.0.bias": "hidden_bias",
    "mlp.2.weight": "out_weight",
    "mlp.2.bias": "out_bias",
}


def fire(
    positions: np.ndarray,
    key_positions: np.ndarray,
    c: float,
    multiplier: float,
    hidden_weight: np.ndarray,
    hidden_bias: np.ndarray,
    out_weight: np.ndarray,
    out_bias: np.ndarray,
    threshold: float = 512.0,
    eps: float = 1e-6,
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,).

    `c` and `multiplier` are numbers, `hidden_weight` (u, 1), `hidden_bias` (u,), `out_weight` (h, u), `out_bias` (h,).
    """
    _check_settings(threshold, eps)
    m, n = _array("positions", positions, "t"), _array("key_positions", key_positions, "s")
    rate, least = np.abs(_array("c", c)), np.abs(_array("multiplier", multiplier)) * threshold
    out_weight = _array("out_weight", out_weight, "h", "u")  # (h, u)
    heads, width = out_weight.shape
    hidden_weight = _array("hidden_weight", hidden_weight, width, 1)  # (u, 1)
    hidden_bias = _array("hidden_bias", hidden_bias, width)[:, None]  # (u, 1)
    reach = np.maximum(least, np.maximum.outer(np.abs(m), np.abs(n)))  # (t, s)
    share = np.log1p(rate * np.abs(m[:, None] - n)) / (np.log1p(rate * reach) + eps)  # (t, s)
    hidden = np.maximum(hidden_weight * share.ravel() + hidden_bias, 0)
    bias = out_weight @ hidden + _array("out_bias", out_bias, heads)[:, None]
    return bias.reshape(heads, *share.shape)  # (h, t, s)


class FIRE(nn.Module):
    """Give the bias to add to the logits, from a network with one hidden layer of ReLUs.

    Learned are the network, which starts as `torch.nn.Linear` does: `hidden_weight` (u, 1), `hidden_bias` (u,),
    `out_weight` (h, u) and `out_bias` (h,); and two numbers, `c`, which starts at 0.1, and `multiplier` at 1.

    Args:
        heads: Number of query heads h.
        width: Number of hidden units u.
        threshold: L before it is learned: up to this place a query's distances are measured by one yardstick.
        eps: Added to the yardstick, which is 0 where c is.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> encoding = FIRE(heads=8, threshold=64)
        >>> bias = encoding(torch.arange(100))
        >>> bool(bias[0, 20, 10] == bias[0, 60, 50]), bool(bias[0, 20, 10] == bias[0, 99, 89])  # within L, and beyond
        (True, False)
    """

    def __init__(self, heads: int, width: int = 32, threshold: float = 512.0, eps: float = 1e-6) -> None:
        super().__init__()
        for name, count in (("heads", heads), ("width", width)):
            if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
                raise ValueError(f"fire: {name} must be a positive integer, got {count!r}; it shapes the network")
        _check_settings(threshold, eps)
        self.heads, self.width, self.threshold, self.eps = int(heads), int(width), float(threshold), float(eps)
        self.c, self.multiplier = nn.Parameter(torch.tensor(0.1)), nn.Parameter(torch.tensor(1.0))
        self.hidden_weight, self.hidden_bias = _uniform(1, self.width, 1), _uniform(1, self.width)
        self.out_weight, self.out_bias = _uniform(width, self.heads, self.width), _uniform(width, self.heads)

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s) in float32 between `positions` (t,) and `key_positions` (s,), by default the same.

        Where either has a batch, (b, t) or (b, s), the bias is (b, h, t, s). One row (1, t) serves a batch.
        """
        key_positions = positions if key_positions is None else key_positions
        _check(positions, key_positions)
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        m, n = positions.to(where, torch.float64), key_positions.to(where, torch.float64)
        near = self._psi((m[..., :, None] - n[..., None, :]).abs())  # (..., t, s)
        far = torch.maximum(self._yardstick(m)[..., :, None], self._yardstick(n)[..., None, :])  # (..., t, s)
        hidden_weight, hidden_bias, out_weight, out_bias = self._network()
        share = (near / far).to(out_bias.dtype).to(positions.device)[..., None, :, :]  # (..., 1, t, s)
        hidden = torch.relu(hidden_weight[..., None] * share + hidden_bias[:, None, None])  # (..., u, t, s)
        with _no_autocast(positions.device.type):
            bias = torch.einsum("hu,...uts->...hts", out_weight, hidden)  # (..., h, t, s)
        return (bias + out_bias[:, None, None]).float()  # (..., h, t, s)

    def score_mod(self, positions: Tensor, key_positions: Tensor | None = None) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        keys = positions if key_positions is None else key_positions
        _check(positions, keys)
        hidden_weight, hidden_bias, out_weight, out_bias = self._network()
        places = [_shared(p).contiguous() for p in (positions, keys)]  # FlexAttention's CPU kernels read no strides
        yardsticks, dtype = [self._yardstick(p.double()) for p in places], out_bias.dtype

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            m, n = (p[b, i] if p.ndim == 2 else p[i] for p, i in zip(places, (t, s), strict=True))
            far = (y[b, i] if y.ndim == 2 else y[i] for y, i in zip(yardsticks, (t, s), strict=True))
            share = self._psi((m.double() - n.double()).abs().to(dtype)) / torch.maximum(*far).to(dtype)
            bias = out_bias[h]
            for u in range(self.width):  # FlexAttention's kernels have no sum over an axis
                bias = bias + out_weight[h, u] * torch.relu(hidden_weight[u, 0] * share + hidden_bias[u])
            return score + bias.to(score.dtype)

        return _modify

    def _psi(self, x: Tensor) -> Tensor:
        return torch.log1p(self.c.to(x).abs() * x)

    def _yardstick(self, places: Tensor) -> Tensor:
        return self._psi(torch.maximum(places.abs(), self.multiplier.to(places).abs() * self.threshold)) + self.eps

    def _network(self) -> list[Tensor]:
        network = (self.hidden_weight, self.hidden_bias, self.out_weight, self.out_bias)
        return [parameter.to(torch.promote_types(parameter.dtype, torch.float32)) for parameter in network]

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"heads={self.heads}, width={self.width}, threshold={self.threshold:g}, eps={self.eps:g}"


def _uniform(inputs: int, *shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape).uniform_(-(inputs**-0.5), inputs**-0.5))


def _no_autocast(kind: str) -> contextlib.AbstractContextManager:
    # Autocast would compute the network's sums, and with them the bias, in half precision.
    known = torch.amp.is_autocast_available(kind)
    return torch.autocast(kind, enabled=False) if known else contextlib.nullcontext()


def _check_settings(threshold: float, eps: float) -> None:
    for name, setting, usual in (("threshold", threshold, 512), ("eps", eps, 1e-6)):
        is_number = isinstance(setting, int | float | np.integer | np.floating) and not isinstance(setting, bool)
        if not is_number or not 0 < setting < float("inf"):
            raise ValueError(f"fire: {name} must be positive and finite, got {setting!r}; DAPE takes {usual:g}")


def _array(name: str, given: object, *shape: int | str) -> np.ndarray:
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        array = np.array(None)
    array = array[None] if len(shape) == 1 and array.ndim == 0 else array
    array = array[0] if shape in (("t",), ("s",)) and array.ndim == 2 and len(array) == 1 else array
    fits = len(shape) == array.ndim and all(
        isinstance(a, str) or a == b for a, b in zip(shape, array.shape, strict=True)
    )
    if array.dtype.kind not in "iuf" or not fits or not np.isfinite(array).all():
        wanted, got = ", ".join(map(str, shape)), f"{type(given).__name__} {array.dtype} {array.shape}"
        raise ValueError(
            f"fire: {name} must be finite numbers ({wanted}), got {got}; a batch goes row by row, a tensor detached"
        )
    return array.astype(np.float64)


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
                f"fire: {name} must be a tensor of integers or floats (t,) or (b, t), got {_kind(given)}; "
                "take torch.arange(t), or torch.as_tensor of a list or an array"
            )
    batch, other = (len(p) if p.ndim == 2 else 1 for p in (positions, key_positions))
    if batch != other and batch != 1 and other != 1:
        got = f"{tuple(positions.shape)} and {tuple(key_positions.shape)}"
        raise ValueError(f"fire: positions and key_positions must be of one batch, got {got}; or leave it out of one")
