"""Forget: lower each logit by what the tokens since the key have made the head forget.

Paper: Lin et al., 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate",
       https://arxiv.org/abs/2503.02130, sec. 3.
Used:  FoX, PaTH-FoX; x-transformers (as data-dependent ALiBi) and flash-linear-attention offer it
Cost:  heads x (dim + 1) learned numbers, or none where the caller computes the gates; a call sums s gates a head

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, m position of a query, n of a key

    f(l)          = weight . k_l + bias for each head, or the `gates` given
    F(x)          = sum of ln sigmoid(f(l)) over the tokens l at positions <= x
    s(q, k, m, n) = F(m) - F(n), the sum over the tokens after the key up to the query

so with one gate for all tokens it is causal ALiBi of slope -ln sigmoid(f), and a token that shuts its gate hides all
before it. A key ahead of the query scores 0: causal attention is meant. F grows with the text, so it is of float64.
Tokens that `mask` hides forget nothing. This changes scores where hidden tokens lie between tokens that are seen, as in
packed documents whose positions restart; padding at either end changes none.

The paper reads the gates from the tokens x, not from the keys: pass x W + b as `gates`. Its code starts the bias at 0,
x-transformers at 5.
"""

from collections.abc import Callable
from typing import Any

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
    q, k = _array("q", q, 3), _array("k", k, 3)
    m, n = _array("positions", positions, 1, 2), _array("key_positions", key_positions, 1, 2)
    gates = None if gates is None else _array("gates", gates, 2)
    _check(q, k, q.shape[-1], len(q), np.ndarray)
    _check_rest(q, k, m, n, gates, mask)
    if gates is None:
        weight, bias = _array("weight", weight, 2), _array("bias", bias, 1)
        if (*weight.shape, *bias.shape) != (len(q), q.shape[-1], len(q)):
            raise ValueError(f"forget: weight and bias must be (h, d) and (h,), got {weight.shape} and {bias.shape}")
        keys = np.repeat(k, len(q) // len(k), axis=0)  # (h, s, d)
        gates = np.einsum("hsd,hd->hs", keys, weight) + bias[:, None]  # (h, s)
    fade = -np.logaddexp(0, -np.asarray(gates))[:, None]  # (h, 1, s)
    fade = fade if mask is None else np.where(mask, fade, 0)  # (..., s)
    between = (n.reshape(-1, 1) < n) & (n <= m.reshape(-1, 1, 1))  # (t, s, s)
    return np.einsum("htl,tsl->hts", np.broadcast_to(fade, (*q.shape[:2], k.shape[1])), between)  # (h, t, s)


class Forget(nn.Module):
    """Score each key by the forget gates of the tokens after it, up to the query.

    `weight` (heads, dim) and `bias` (heads,) read the gates' logits from the keys; of grouped heads, each query head
    reads its own from their key head. `weight` starts normal with standard deviation 0.02, `bias` at `initial`.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h, each with gates of its own; key heads may be fewer.
        initial: Logit of every gate at the start; at 0 a token halves the weight of those before it.
        readout: Learn to read the gates from the keys. False learns nothing; each call must be given `gates`.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
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
        those of as many queries, or 0 .. s-1; one row (1, t) serves a batch. `gates` (b, h, s) are finite logits, one a
        key, in place of those read from the keys. `mask`, true where a query may look, is broadcast to (b, h, t, s);
        hidden tokens forget nothing.

        Raises:
            ValueError: If an argument does not fit; the message says what to pass instead.
        """
        at_queries, at_keys = self._sums(q, k, positions, key_positions, gates, mask)
        return (at_queries - at_keys).clamp(max=0).to(q)  # (b, h, t, s)

    def score_mod(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        gates: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same scores, where `mask` has one row for all queries."""
        shape = tuple(getattr(mask, "shape", ()))
        if shape[-2:-1] not in ((), (1,)):
            raise ValueError(
                f"forget: mask must be one row for all queries in a score_mod, got {shape}; or call forward"
            )
        m, n = (x.flatten(2) for x in self._sums(q, k, positions, key_positions, gates, mask))  # (b, h, t), (b, h, s)
        m_rest, n_rest = (m - m.float()).float(), (n - n.float()).float()  # (b, h, t), (b, h, s)
        m, n = m.float(), n.float()  # (b, h, t), (b, h, s)  kernels take no float64; with its rest each is as exact

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            return score + (m[b, h, t] - n[b, h, s] + (m_rest[b, h, t] - n_rest[b, h, s])).clamp(max=0)

        return _modify

    def _sums(
        self, q: Tensor, k: Tensor, positions: Any, key_positions: Any, gates: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return F at the queries (b, h, t, 1) and the keys (b, h, 1, s), or (b, h, t, s) if the mask's rows differ."""
        _check(q, k, self.dim, self.heads)
        _check_rest(q, k, positions, key_positions, gates, mask)
        if key_positions is None and positions is not None and q.shape[2] == k.shape[2]:
            key_positions = positions
        if gates is None and not self.readout:
            raise ValueError(f"forget: gates must be given to a module without read-out, got {gates}")
        m, n = _places(positions, q, k.shape[-2]), _places(key_positions, k, k.shape[-2])
        logits = self._read(k.to(n)) if gates is None else gates.to(n)  # (b, h, s)
        fade = nn.functional.logsigmoid(logits)[:, :, None]  # (b, h, 1, s)
        fade = fade if mask is None else torch.where(mask.to(n.device), fade, 0)  # (..., s)
        ordered, order = n.sort(dim=-1)  # (..., s)
        counts = (_upto(ordered, m), _upto(ordered, n), order)
        to_query, to_key, order = (torch.atleast_2d(i)[:, None, None] for i in counts)  # (..., t), (..., s), (..., s)
        sums = nn.functional.pad(fade.gather(-1, order.expand_as(fade)).cumsum(-1), (1, 0))
        rows = sums.shape[:-1]  # one for all queries, or one a query
        at_keys = sums.gather(-1, to_key.expand(*rows, -1))
        if rows[-1] == 1:
            return sums.gather(-1, to_query.expand(*rows, -1)).mT, at_keys  # (b, h, t, 1), (b, h, 1, s)
        return sums.gather(-1, to_query.mT.expand(*rows, -1)), at_keys  # (b, h, t, 1), (b, h, t, s)

    def _read(self, k: Tensor) -> Tensor:
        weight = self.weight.to(k).unflatten(0, (k.shape[1], -1))  # (g, h/g, d)
        return torch.einsum("bgsd,grd->bgrs", k, weight).flatten(1, 2) + self.bias.to(k)[:, None]  # (b, h, s)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, heads={self.heads}, initial={self.initial:g}, readout={self.readout}"


def _places(positions: Tensor | None, x: Tensor, keys: int) -> Tensor:
    positions = torch.arange(keys - x.shape[-2], keys, device=x.device) if positions is None else positions
    positions = positions[0] if positions.ndim == 2 and len(positions) == 1 else positions  # one row serves a batch
    return positions.to("cpu" if x.device.type == "mps" else x.device, torch.float64)  # mps has no float64


def _upto(ordered: Tensor, places: Tensor) -> Tensor:
    """Count the keys at or before each of `places`."""
    places = places.expand(len(ordered), -1) if ordered.ndim > places.ndim else places
    return torch.searchsorted(ordered, places.contiguous(), right=True)


def _array(name: str, given: object, *axes: int) -> np.ndarray:
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or array.ndim not in axes:
        got = f"{_kind(given)}; of a tensor give {name}.detach().cpu().double()"
        raise ValueError(f"forget: {name} must be numbers in {' or '.join(map(str, axes))} axes, got {got}")
    return array.astype(np.float64)


def _kind(given: object) -> str:
    size = f"of length {len(given)}" if isinstance(given, list | tuple) else tuple(getattr(given, "shape", ()))
    return f"{'numpy array ' * isinstance(given, np.ndarray)}{getattr(given, 'dtype', type(given).__name__)} {size}"


def _check(q: Any, k: Any, dim: int, heads: int, kind: type = Tensor) -> None:
    """Check tensors, or the function's arrays, which have no batch."""
    b, what = ("b, ", "a floating point tensor") if kind is Tensor else ("", "numbers")
    for name, x, axes in (("q", q, f"{b}{heads}, t, {dim}"), ("k", k, f"{b}g, s, {dim}")):
        real = isinstance(x, kind) and (kind is np.ndarray or (x.is_floating_point() and x.ndim == 4))
        if not real or x.shape[-1] != dim or (name == "q" and heads != x.shape[-3]):
            raise ValueError(f"forget: {name} must be {what} ({axes}), got {_kind(x)}; split off the heads")
    if q.shape[:-3] != k.shape[:-3] or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(f"forget: k must be of q's batch with g dividing h, got {_kind(k)} for q {_kind(q)}")


def _check_rest(q: Any, k: Any, positions: Any, key_positions: Any, gates: Any, mask: Any) -> None:
    """Check what goes with queries and keys, tensors or arrays as they are."""
    batch, h, t, s = q.shape[:-3], q.shape[-3], q.shape[-2], k.shape[-2]
    for name, given, *fit in (
        ("positions", positions, (t,), (*batch, t), (1, t)),
        ("key_positions", key_positions, (s,), (*batch, s), (1, s)),
        ("gates", gates, (*batch, h, s)),
    ):
        number = _holds(given, q, "float") or (name != "gates" and _holds(given, q, "int"))
        if given is not None and not (number and given.shape in fit):
            form = f"{'a tensor' if isinstance(q, Tensor) else 'numbers'} {' or '.join(map(str, fit[:2]))}"
            other = isinstance(q, Tensor) and not isinstance(given, Tensor)
            remedy = "take torch.as_tensor of it" if other else "one a token"
            raise ValueError(f"forget: {name} must be {form}, got {_kind(given)}; {remedy}")
    _check_mask(mask, q, k)


def _check_mask(mask: Any, q: Any, k: Any) -> None:
    if mask is None:
        return
    mask = np.asarray(mask) if isinstance(q, np.ndarray) else mask
    whole = (*q.shape[:-1], k.shape[-2])
    sizes = zip(getattr(mask, "shape", ())[::-1], whole[::-1], strict=False)
    if not _holds(mask, q, "bool") or mask.ndim > q.ndim or any(size != 1 and size != full for size, full in sizes):
        got = f"{_kind(mask)}; false hides a token"
        raise ValueError(f"forget: mask must be boolean, broadcastable to {whole}, got {got}")


def _holds(given: Any, like: Any, *words: str) -> bool:
    """Say whether `given` is an array or a tensor, as `like` is, with a dtype of which one of `words` is a part."""
    kind = Tensor if isinstance(like, Tensor) else np.ndarray
    return isinstance(given, kind) and any(word in str(given.dtype) for word in words)
