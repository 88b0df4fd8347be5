"""CoPE: count the tokens back to a key that the query finds relevant, and score the query with a vector of the count.

Paper: Golovneva et al., 2024, "Contextual Position Encoding: Learning to Count What's Important",
       https://arxiv.org/abs/2405.18719, sec. 4 and app. B.
Used:  research models up to GPT-2's size; x-transformers offers it
Cost:  length x dim learned numbers, shared by the heads; a call makes (b, h, t, s) gates, so no fused attention

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r rows of the table,
       m position of a query, n of a key

    gate(m, l)    = sigmoid(q_m . k_l / sqrt(d))
    count(m, n)   = sum of gate(m, l) over the tokens l with n <= position of l <= m, at most r - 1
    s(q, k, m, n) = q_m . e[count(m, n)],  e = weight, interpolated between its two nearest rows

so where every gate is 1 it is a table of relative positions read at m - n + 1: the key counts too. The fraction of a
count passes gradients to the gates. A key ahead of the query scores 0: causal attention is meant. Tokens that `mask`
hides are not counted. This changes counts where hidden tokens lie between tokens that are seen or share a position with
them: in packed documents whose positions restart, or with padding at position 0. There is no score_mod: FlexAttention
shows one pair at a time, and a count sums over all keys between.

Here q . k is divided by sqrt(d) and q . e is not, as in the paper's listing and x-transformers. The authors' training
code divides both unless told otherwise (scale=True).
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def cope(
    q: np.ndarray,
    k: np.ndarray,
    positions: np.ndarray,
    key_positions: np.ndarray,
    weight: np.ndarray,
    mask: np.ndarray | None = None,
    scale: bool = False,
) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d), with the table `weight` (r, d).

    `positions` are (t,) and `key_positions` (s,); `mask`, true where a query may look, is broadcast to (h, t, s).
    """
    q, k, weight = _array("q", q, 3), _array("k", k, 3), _array("weight", weight, 2)
    m, n = _array("positions", positions, 1), _array("key_positions", key_positions, 1)
    _check_table(len(weight), scale)
    _check(q, k, weight.shape[-1], np.ndarray)
    _check_rest(q, k, m, n, mask)
    k = np.repeat(k, len(q) // len(k), axis=0)  # (h, s, d)
    past = n <= m[:, None]  # (t, s)
    gate = np.exp(-np.logaddexp(0, -q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5))  # (h, t, s)
    gate = np.where(past if mask is None else past & mask, gate, 0)  # (h, t, s)
    count = np.minimum(gate @ (n[:, None] >= n), len(weight) - 1)  # (h, t, s)
    low = count.astype(int)  # (h, t, s)
    logits = q @ weight.T / (q.shape[-1] ** 0.5 if scale else 1)  # (h, t, r)
    below = np.take_along_axis(logits, low, -1)  # (h, t, s)
    above = np.take_along_axis(logits, np.minimum(low + 1, len(weight) - 1), -1)  # (h, t, s)
    return np.where(past, below + (above - below) * (count - low), 0)  # (h, t, s)


class CoPE(nn.Module):
    """Score each key by the number of relevant tokens between it and the query.

    `weight` (length, dim) is learned. It starts at zero, as in the paper's listing, so the scores start at 0.

    Args:
        dim: Width d of a head.
        length: Rows of the table; counts past length - 1 share the last one.
        scale: Divide q . e by sqrt(d), as the logits are.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encoding = CoPE(dim=1, length=5)
        >>> encoding.weight.data[:, 0] = torch.arange(5)  # so that the score is the count
        >>> k = torch.tensor([50.0, -50.0, 50.0, -50.0]).view(1, 1, 4, 1)  # the first and the third key are relevant
        >>> encoding(torch.ones(1, 1, 4, 1), k)[0, 0, -1].round().tolist()
        [2.0, 1.0, 1.0, 0.0]
    """

    def __init__(self, dim: int, length: int = 64, scale: bool = False) -> None:
        super().__init__()
        for name, number in (("dim", dim), ("length", length)):
            if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
                raise ValueError(f"cope: {name} must be a positive integer, got {number!r}; the table is (length, dim)")
        _check_table(length, scale)
        self.dim, self.length, self.scale = int(dim), int(length), scale
        self.weight = nn.Parameter(torch.zeros(self.length, self.dim))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) and `k` (b, g, s, d), in the dtype of `q`.

        Args:
            q: Queries, h a multiple of g.
            k: Keys.
            positions: Of the queries, (t,), (b, t) or (1, t); by default the last t of 0 .. s-1.
            key_positions: Of the keys, (s,), (b, s) or (1, s), in any order; by default those of as many queries, or
                0 .. s-1.
            mask: Boolean, true where a query may look, broadcastable to (b, h, t, s); hidden tokens are not counted.

        Raises:
            ValueError: If an argument does not fit; the message says what to pass instead.
        """
        _check(q, k, self.dim)
        _check_rest(q, k, positions, key_positions, mask)
        if key_positions is None and positions is not None and q.shape[2] == k.shape[2]:
            key_positions = positions
        x, y = (content.to(torch.promote_types(content.dtype, torch.float32)) for content in (q, k))
        m, n = _places(positions, q, k.shape[-2]), _places(key_positions, k, k.shape[-2])
        past = (m[..., :, None] >= n[..., None, :]).to(q.device)  # (..., t, s)
        past = past[:, None] if past.ndim == 3 else past  # (..., t, s)
        logits = (x.unflatten(1, (k.shape[1], -1)) @ y[:, :, None].mT).flatten(1, 2) / self.dim**0.5  # (b, h, t, s)
        gate = torch.where(past if mask is None else past & mask, logits.to(x.dtype).sigmoid(), 0)  # (b, h, t, s)
        count = _sums_from_each_key(gate, None if key_positions is None else n)  # (b, h, t, s)
        return torch.where(past, self._read(x, count.clamp(max=self.length - 1)), 0).to(q)  # (b, h, t, s)

    def _read(self, q: Tensor, count: Tensor) -> Tensor:
        logits = q @ self.weight.to(q.dtype).T / (self.dim**0.5 if self.scale else 1)  # (b, h, t, r)
        low = count.detach().long().clamp(0, self.length - 1)  # (b, h, t, s)  of a NaN too
        below = logits.gather(-1, low)  # (b, h, t, s)
        above = logits.gather(-1, (low + 1).clamp(max=self.length - 1))  # (b, h, t, s)
        return below + (above - below) * (count - low)  # (b, h, t, s)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, length={self.length}, scale={self.scale}"


def _places(positions: Tensor | None, x: Tensor, keys: int) -> Tensor:
    where = "cpu" if x.device.type == "mps" else x.device  # mps has no float64
    if positions is None:
        return torch.arange(keys - x.shape[-2], keys, dtype=torch.float64, device=where)
    return positions.to(where, torch.float64)


def _sums_from_each_key(gate: Tensor, places: Tensor | None) -> Tensor:
    """Return, for each key, the sum of `gate` (b, h, t, s) over the keys at its place and after it."""
    if places is None:
        return gate.flip(-1).cumsum(-1).flip(-1)  # (b, h, t, s)
    ordered, order = places.sort(dim=-1)  # (..., s)
    first = torch.searchsorted(ordered, places.contiguous())  # (..., s)
    order, first = (torch.atleast_2d(index)[:, None, None].expand_as(gate).to(gate.device) for index in (order, first))
    sums = gate.gather(-1, order).flip(-1).cumsum(-1).flip(-1)  # (b, h, t, s)
    return sums.gather(-1, first)  # (b, h, t, s)


def _array(name: str, given: object, axes: int) -> np.ndarray:
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or array.ndim != axes:
        raise ValueError(f"cope: {name} must be numbers in {axes} axes, got {_kind(given)}")
    return array.astype(np.float64)


def _kind(given: object) -> str:
    return f"{getattr(given, 'dtype', type(given).__name__)} {tuple(getattr(given, 'shape', ()))}"


def _check_table(rows: int, scale: object) -> None:
    if rows < 1:
        raise ValueError(f"cope: weight must be of one row or more, got {rows}; a row for each count")
    if not isinstance(scale, bool):
        raise ValueError(f"cope: scale must be True or False, got {scale!r}; True divides q . e by sqrt(dim)")


def _check(q: Any, k: Any, dim: int, kind: type = Tensor) -> None:
    """Check tensors, or the function's arrays, which have no batch."""
    b, what = ("b, ", "a floating point tensor") if kind is Tensor else ("", "numbers")
    for name, x, axes in (("q", q, f"{b}h, t, {dim}"), ("k", k, f"{b}g, s, {dim}")):
        real = isinstance(x, kind) and (kind is np.ndarray or (x.is_floating_point() and x.ndim == 4))
        if not real or x.shape[-1] != dim:
            raise ValueError(f"cope: {name} must be {what} ({axes}), got {_kind(x)}; split off the heads")
    if q.shape[:-3] != k.shape[:-3] or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(f"cope: k must be of q's batch with g dividing h, got {_kind(k)} for q {_kind(q)}")


def _check_rest(q: Any, k: Any, positions: Any, key_positions: Any, mask: Any) -> None:
    """Check what goes with queries and keys, tensors or arrays as they are."""
    batch, t, s = q.shape[:-3], q.shape[-2], k.shape[-2]
    for name, given, *fit in (
        ("positions", positions, (t,), (*batch, t), (1, t)),
        ("key_positions", key_positions, (s,), (*batch, s), (1, s)),
    ):
        if given is not None and not (_holds(given, q, "int", "float") and given.shape in fit):
            raise ValueError(f"cope: {name} must be numbers {fit[0]} or {fit[1]}, got {_kind(given)}; one a token")
    _check_mask(mask, q, k)


def _check_mask(mask: Any, q: Any, k: Any) -> None:
    if mask is None:
        return
    mask = np.asarray(mask) if isinstance(q, np.ndarray) else mask
    whole = (*q.shape[:-1], k.shape[-2])
    sizes = zip(getattr(mask, "shape", ())[::-1], whole[::-1], strict=False)
    if not _holds(mask, q, "bool") or mask.ndim > q.ndim or any(size not in (1, full) for size, full in sizes):
        raise ValueError(
            f"cope: mask must be boolean, broadcastable to {whole}, got {_kind(mask)}; false hides a token"
        )


def _holds(given: Any, like: Any, *words: str) -> bool:
    """Say whether `given` is an array or a tensor, as `like` is, with a dtype of which one of `words` is a part."""
    kind = Tensor if isinstance(like, Tensor) else np.ndarray
    return isinstance(given, kind) and any(word in str(given.dtype) for word in words)
