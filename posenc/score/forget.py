"""Forget: lower each logit by what the tokens since the key have made the head forget.

Paper: Lin et al., 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate",
       https://arxiv.org/abs/2503.02130, sec. 3.
Used:  FoX, PaTH-FoX; x-transformers (as data-dependent ALiBi) and flash-linear-attention offer it
Cost:  heads x (dim + 1) learned numbers, or none where the caller computes the gates; a call sums s gates a head

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim

    f(l)          = weight . k_l + bias for each head, or the `gates` given
    F(x)          = sum of ln sigmoid(f(l)) over the tokens l at positions <= x
    s(q, k, m, n) = F(m) - F(n), the sum over the tokens after the key up to the query

so with one gate for all tokens it is causal ALiBi of slope -ln sigmoid(f), and a token that shuts its gate hides all
before it. A key ahead of the query scores 0: causal attention is meant. F grows with the text, so it is of float64.
Tokens that `mask` hides forget nothing. That matters only where they stand between tokens that are seen, as in packed
documents whose positions restart; padding at either end never does.

The paper reads the gates from the tokens x, not from the keys: pass x W + b as `gates`. Its code starts the bias at 0,
x-transformers at 5.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn


def forget(
    q: np.ndarray,
    k: np.ndarray,
    positions: np.ndarray,
    key_positions: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    gates: np.ndarray | None = None,
    mask: np.ndarray | None = None,
) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d) at `positions` (t,), `key_positions` (s,).

    The logits of the gates are `gates` (h, s), or read from the keys with `weight` (h, d) and `bias` (h,). `mask`,
    true where a query may look, is broadcast to (h, t, s).
    """
    q, k, m, n = (np.asarray(x) for x in (q, k, positions, key_positions))
    gates, mask = (None if x is None else np.asarray(x) for x in (gates, mask))
    _check(None, None, q, k, m, n, gates, mask, kind=np.ndarray)
    if gates is None:
        weight, bias = np.asarray(weight), np.asarray(bias)
        if (*weight.shape, *bias.shape) != (len(q), q.shape[-1], len(q)):
            raise ValueError(f"forget: weight and bias must be (h, d) and (h,), got {weight.shape} and {bias.shape}")
        keys = np.repeat(k, len(q) // len(k), axis=0).astype(np.float64)  # (h, s, d)
        gates = np.einsum("hsd,hd->hs", keys, weight) + bias[:, None]  # (h, s)
    fade = -np.logaddexp(0, -np.asarray(gates, np.float64))[:, None]  # (h, 1, s)
    fade = np.where(mask, fade, 0) if mask is not None else fade  # (..., s)
    between = (n[:, None] < n) & (n <= m[:, None, None])  # (t, s, s)
    return np.einsum("htl,tsl->hts", np.broadcast_to(fade, (len(q), len(m), len(n))), between)  # (h, t, s)


class Forget(nn.Module):
    """Score each key by the forget gates of the tokens after it, up to the query.

    `weight` (heads, dim) and `bias` (heads,) read the gates' logits from the keys; of grouped heads, each query head
    reads its own from their key head. `weight` starts normal with standard deviation 0.02, `bias` at `initial`.

    Args:
        dim: Width d of a head.
        heads: Query heads h.
        initial: Logit of every gate at the start; at 0 a token halves the weight of those before it.
        readout: Learn to read the gates from the keys. False learns nothing; each call must be given `gates`.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Example:
        >>> import torch
        >>> q, k, gates = torch.zeros(1, 1, 3, 8), torch.zeros(1, 1, 3, 8), torch.zeros(1, 1, 3)
        >>> Forget(8, heads=1, readout=False)(q, k, gates=gates).exp()[0, 0]  # what is left of each key
        tensor([[1.0000, 1.0000, 1.0000],
                [0.5000, 1.0000, 1.0000],
                [0.2500, 0.5000, 1.0000]])
    """

    def __init__(self, dim: int, heads: int, initial: float = 0.0, readout: bool = True) -> None:
        super().__init__()
        for name, number in (("dim", dim), ("heads", heads)):
            if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
                raise ValueError(f"forget: {name} must be a positive integer, got {number!r}; they shape the read-out")
        if not isinstance(initial, int | float | np.number) or isinstance(initial, bool) or not np.isfinite(initial):
            raise ValueError(f"forget: initial must be a finite number, got {initial!r}; it is a logit")
        if not isinstance(readout, bool):
            raise ValueError(f"forget: readout must be True or False, got {readout!r}; False awaits gates in each call")
        self.dim, self.heads, self.initial, self.readout = int(dim), int(heads), float(initial), readout
        if readout:
            self.weight = nn.Parameter(0.02 * torch.randn(self.heads, self.dim))
            self.bias = nn.Parameter(torch.full((self.heads,), self.initial))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        gates: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) and `k` (b, g, s, d), h a multiple of g, in q's dtype.

        `positions` (t,) or (b, t) default to the last t of 0 .. s-1, `key_positions` (s,) or (b, s), in any order, to
        0 .. s-1. `gates` (b, h, s) are finite logits, one a key, in place of those read from the keys. `mask`, true
        where a query may look, is broadcast to (b, h, t, s); hidden tokens forget nothing.

        Raises:
            ValueError: If an argument does not fit; the message says what to pass instead.
        """
        at_queries, at_keys = self._sums(q, k, positions, key_positions, gates, mask)
        return (at_queries - at_keys).clamp(max=0).to(q)  # (b, h, t, s)

    def score_mod(self, q, k, positions=None, key_positions=None, gates=None, mask=None) -> Callable[..., Tensor]:
        """Return FlexAttention's `score_mod` with the arguments of a call; `mask` must have one row for all queries."""
        shape = tuple(getattr(mask, "shape", ()))
        if shape[-2:-1] not in ((), (1,)):
            raise ValueError(f"forget: mask must be one row for all queries in a score_mod, got {shape}")
        m, n = (x.flatten(2) for x in self._sums(q, k, positions, key_positions, gates, mask))  # (b, h, t), (b, h, s)
        m_rest, n_rest = (m - m.float()).float(), (n - n.float()).float()  # (b, h, t), (b, h, s)
        m, n = m.float(), n.float()  # (b, h, t), (b, h, s)  kernels take no float64; with its rest each is as exact

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            return score + (m[b, h, t] - n[b, h, s] + (m_rest[b, h, t] - n_rest[b, h, s])).clamp(max=0)

        return _modify

    def _sums(self, q, k, positions, key_positions, gates, mask) -> tuple[Tensor, Tensor]:
        """Return F at the queries (b, h, t, 1) and the keys (b, h, 1, s), or (b, h, t, s) if the mask's rows differ."""
        _check(self.dim, self.heads, q, k, positions, key_positions, gates, mask)
        if gates is None and not self.readout:
            raise ValueError(f"forget: gates must be given to a module without read-out, got {gates}")
        m, n = _places(positions, q, k.shape[-2]), _places(key_positions, k, k.shape[-2])
        logits = self._read(k.to(n)) if gates is None else gates.to(n)  # (b, h, s)
        fade = nn.functional.logsigmoid(logits)[:, :, None]  # (b, h, 1, s)
        fade = fade if mask is None else torch.where(mask.to(n.device), fade, 0)  # (..., s)
        ordered, order = n.sort(dim=-1)  # (..., s)
        m, n, order = (torch.atleast_2d(i)[:, None, None] for i in (_upto(ordered, m), _upto(ordered, n), order))
        sums = nn.functional.pad(fade.gather(-1, order.expand_as(fade)).cumsum(-1), (1, 0))
        at_keys = sums.gather(-1, n.expand(*sums.shape[:-1], -1))
        if sums.shape[-2] == 1:
            return sums.gather(-1, m.expand(*sums.shape[:-1], -1)).mT, at_keys  # (b, h, t, 1), (b, h, 1, s)
        return sums.gather(-1, m.mT.expand(*sums.shape[:-1], -1)), at_keys  # (b, h, t, 1), (b, h, t, s)

    def _read(self, k: Tensor) -> Tensor:
        weight = self.weight.to(k).unflatten(0, (k.shape[1], -1))  # (g, h/g, d)
        return torch.einsum("bgsd,grd->bgrs", k, weight).flatten(1, 2) + self.bias.to(k)[:, None]  # (b, h, s)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, heads={self.heads}, initial={self.initial:g}, readout={self.readout}"


def _places(positions: Tensor | None, x: Tensor, keys: int) -> Tensor:
    positions = torch.arange(keys - x.shape[-2], keys, device=x.device) if positions is None else positions
    return positions.to("cpu" if x.device.type == "mps" else x.device, torch.float64)  # mps has no float64


def _upto(ordered: Tensor, places: Tensor) -> Tensor:
    """Count the keys at or before each of `places`."""
    places = places.expand(len(ordered), -1) if ordered.ndim > places.ndim else places
    return torch.searchsorted(ordered, places.contiguous(), right=True)


def _said(given: object) -> str:
    return f"{getattr(given, 'dtype', type(given).__name__)} {tuple(getattr(given, 'shape', ()))}"


def _is(given, kind: type, dtypes: str) -> bool:
    return isinstance(given, kind) and any(word in str(given.dtype) for word in dtypes.split(" or "))


def _check(dim, heads, q, k, positions, key_positions, gates, mask, kind: type = Tensor) -> None:
    """Check tensors, or the function's arrays, which have no batch and may hold integers."""
    b, numbers = ("b, ", "float") if kind is Tensor else ("", "float or int")
    for name, x, axes in (("q", q, f"{b}{heads or 'h'}, t, {dim or 'd'}"), ("k", k, f"{b}g, s, {dim or 'd'}")):
        right = _is(x, kind, numbers) and x.ndim == (4 if b else 3) and x.shape[-1] == (dim or q.shape[-1])
        if not right or (name == "q" and heads and x.shape[-3] != heads):
            raise ValueError(
                f"forget: {name} must be {numbers} ({axes}), got {_said(x)}; split the width into heads first"
            )
    if q.shape[:-3] != k.shape[:-3] or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(f"forget: k must be of q's batch, with g dividing h, got {_said(k)} for q {_said(q)}")
    *lead, h, t, s = *q.shape[:-1], k.shape[-2]
    shapes = {"positions": [(t,), (*lead, t)], "key_positions": [(s,), (*lead, s)], "gates": [(*lead, h, s)]}
    for name, given in (("positions", positions), ("key_positions", key_positions), ("gates", gates)):
        right = _is(given, kind, numbers if name == "gates" else "float or int")
        if given is not None and not (right and tuple(given.shape) in shapes[name]):
            raise ValueError(
                f"forget: {name} must be numbers {' or '.join(map(str, shapes[name]))}, got {_said(given)}"
            )
    sizes = zip(getattr(mask, "shape", ())[::-1], (s, t, h, *lead), strict=False)
    fits = _is(mask, kind, "bool") and mask.ndim <= q.ndim and all(size in (1, whole) for size, whole in sizes)
    if mask is not None and not fits:
        raise ValueError(f"forget: mask must be boolean, broadcastable to {(*lead, h, t, s)}, got {_said(mask)}")
