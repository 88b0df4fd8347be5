"""Music Transformer: add to each logit the match of the query with a vector of the distance, put in place by skewing.

Paper: Huang et al., 2019, "Music Transformer", https://arxiv.org/abs/1809.04281, sec. 3.4.
Used:  Music Transformer, tensor2tensor's "relative v2" attention; Transformer-XL and XLNet shift in the same way
Cost:  one table (r, d) a head to learn; a call makes (b, h, t, r) products and slides them into place, never (t, s, d)

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r rows, w columns, L length,
       m position of a query, n of a key

    row(m, n)     = clip(n - m, 1 - L, 0) + L - 1      where causal, r = L
                    clip(n - m, 1 - L, L - 1) + L - 1  otherwise, r = 2L - 1
    s(q, k, m, n) = q_m . weight[row(m, n)] / sqrt(d), and 0 where causal and n > m

so where the queries stand at the last t of s keys, query i takes the product of key j from column j - i + t - 1: pad,
reshape and slice (`skew`) do that without an index for each pair. Other positions are looked up; the results are equal.
Rows go from the far past to the query's own place, row L - 1, as in the paper and in Transformer-XL. Keys beyond the
table take its furthest row, as with Shaw; in tensor2tensor they score 0. For keys ahead of a causal query both those
codes leave products of the next query, which the mask must hide; here such keys score 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def music(
    q: np.ndarray,
    k: np.ndarray,
    positions: np.ndarray,
    key_positions: np.ndarray,
    weight: np.ndarray,
    causal: bool = True,
) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d) at the integers (t,) and (s,).

    The learned `weight` is (h, r, d), or (r, d) where all heads share it; r is odd if not `causal`.
    """
    q, k, weight = _array("q", q, 3), _array("k", k, 3), _array("weight", weight, 2, 3)
    _check(q, k, weight.shape[-1], None if weight.ndim == 2 else len(weight), np.ndarray)
    if not isinstance(causal, bool):
        raise ValueError(f"music: causal must be True or False, got {causal!r}; False learns the future too")
    if not (causal and weight.shape[-2]) and weight.shape[-2] % 2 == 0:
        raise ValueError(f"music: weight must be of length rows, 2 length - 1 if not causal, got {weight.shape}")
    m, n = _wholes("positions", positions, q.shape[1]), _wholes("key_positions", key_positions, k.shape[1])
    furthest = weight.shape[-2] - 1 if causal else weight.shape[-2] // 2
    offset = n - m[:, None]  # (t, s)
    row = np.clip(offset, -furthest, 0 if causal else furthest).astype(int) + furthest  # (t, s)
    vector = np.broadcast_to(weight, (len(q), *weight.shape[-2:]))[:, row]  # (h, t, s, d)
    scores = np.einsum("htd,htsd->hts", q, vector) / q.shape[-1] ** 0.5  # (h, t, s)
    return np.where(offset > 0, 0, scores) if causal else scores  # (h, t, s)


def skew(x: Tensor, keys: int) -> Tensor:
    """Return (..., t, s) with the element [i, j] of `x` (..., t, w) from its column j - i + t - 1, and 0 past the last.

    Column c of `x` belongs to the offset c - (s - 1), for s = `keys` and queries at the last t of them. The offsets up
    to 0, w = s, serve a causal query; all of them are w = t + s - 1. Where there is a column this is Transformer-XL's
    `_rel_shift(x)`; XLNet's `rel_shift_bnij(x, s)`, which starts one offset earlier, is `skew(x[..., 1:], s)`.

    Raises:
        ValueError: If `x` has less than two axes, or fewer columns than there are keys.

    Examples:
        >>> import torch
        >>> skew(torch.tensor([[-2, -1, 0, 1], [-2, -1, 0, 1]]), keys=3)  # queries at 1 and 2
        tensor([[-1,  0,  1],
                [-2, -1,  0]])
    """
    if not isinstance(x, Tensor) or x.ndim < 2:
        raise ValueError(f"music: x must be a tensor (..., t, w), got {_kind(x)}; w are the offsets of each query")
    t, w = x.shape[-2:]
    if not isinstance(keys, int | np.integer | torch.SymInt) or isinstance(keys, bool) or not 0 <= keys <= w:
        raise ValueError(f"music: keys must be an integer of at most {w}, got {keys!r}; x has a column for each offset")
    padded = nn.functional.pad(x, (1, 0))  # (..., t, w+1)
    slid = padded.reshape(*x.shape[:-2], w + 1, t)[..., 1:, :].reshape(x.shape)[..., :keys]  # (..., t, s)
    if w >= t + keys - 1:
        return slid  # (..., t, s)
    i, j = torch.arange(t, device=x.device), torch.arange(keys, device=x.device)  # (t,), (s,)
    return slid.masked_fill(j - i[:, None] + t - 1 >= w, 0)  # (..., t, s)


class Music(nn.Module):
    """Score queries against learned vectors of the distance to each key, a table a head.

    `weight` (heads, length, dim) is learned, or (heads, 2 length - 1, dim) if not `causal`. It starts normal with
    standard deviation dim^(-1/2), as in tensor2tensor.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h, each with its table; None for one table (rows, dim) that all share.
        length: Distances 0 .. length - 1 that have a row of their own; further keys share the last.
        causal: Learn the past only and let the future score 0.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encoding = Music(dim=1, heads=1, length=3)
        >>> encoding.weight.data[0, :, 0] = torch.tensor([2.0, 1.0, 0.0])  # so that the score is the distance
        >>> encoding(torch.ones(1, 1, 2, 1), torch.ones(1, 1, 5, 1))[0, 0].tolist()  # the queries stand at 3 and 4
        [[2.0, 2.0, 1.0, 0.0, 0.0], [2.0, 2.0, 2.0, 1.0, 0.0]]
    """

    def __init__(self, dim: int, heads: int | None, length: int, causal: bool = True) -> None:
        super().__init__()
        for name, number in (("dim", dim), ("heads", 1 if heads is None else heads), ("length", length)):
            if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
                raise ValueError(f"music: {name} must be a positive integer, got {number!r}; tables are (length, dim)")
        if not isinstance(causal, bool):
            raise ValueError(f"music: causal must be True or False, got {causal!r}; False learns the future too")
        self.dim, self.heads, self.length, self.causal = int(dim), heads and int(heads), int(length), causal
        rows = self.length if causal else 2 * self.length - 1
        self.weight = nn.Parameter(torch.randn(*([self.heads] if self.heads else []), rows, self.dim) / self.dim**0.5)

    def forward(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) for the s keys of `k` (b, g, s, d), in the dtype of `q`.

        `positions` (t,) or (b, t) and `key_positions` (s,) or (b, s) are integers; one row (1, t) serves a batch. By
        default keys stand at 0 .. s-1, or where as many queries are said to, and queries at the last t of them.

        Raises:
            ValueError: If an argument does not fit; the message says what to pass instead.
        """
        logits, m, n = self._prepare(q, k, positions, key_positions)
        t, s = q.shape[-2], k.shape[-2]
        if positions is None and key_positions is None:
            offset = torch.arange(1 - s, 1 if self.causal else t + 1, device=q.device)  # (w,)
            return skew(logits[..., self._row(offset)], s).to(q.dtype)  # (b, h, t, s)
        offset = (n[..., None, :] - m[..., :, None]).unsqueeze(-3)  # (..., t, s)
        scores = logits.gather(-1, self._row(offset).expand(*q.shape[:-1], s))  # (b, h, t, s)
        return (scores.masked_fill(offset > 0, 0) if self.causal else scores).to(q.dtype)  # (b, h, t, s)

    def score_mod(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same scores, looked up in one (b, h, t, r)."""
        logits, *places = self._prepare(q, k, positions, key_positions)

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            m, n = (p[b, i] if p.ndim == 2 else p[i] for p, i in zip(places, (t, s), strict=True))
            added = score + logits[b, h, t, self._row(n - m)]
            return torch.where(n > m, score, added) if self.causal else added

        return _modify

    def _prepare(self, q: Tensor, k: Tensor, *places: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        _check(q, k, self.dim, self.heads)
        m, n = _places(q, k.shape[-2], *places)
        x = q.to(torch.promote_types(q.dtype, torch.float32))  # (b, h, t, d)
        return x @ self.weight.to(x.dtype).mT / self.dim**0.5, m, n  # (b, h, t, r), (..., t), (..., s)

    def _row(self, offset: Tensor) -> Tensor:
        return offset.clamp(1 - self.length, 0 if self.causal else self.length - 1) + self.length - 1

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, heads={self.heads}, length={self.length}, causal={self.causal}"


def _places(x: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None) -> tuple[Tensor, Tensor]:
    b, _, t, _ = x.shape
    for name, given, size in (("positions", positions, t), ("key_positions", key_positions, s)):
        fit = ((size,), (b, size), (1, size))
        if given is not None and not (isinstance(given, Tensor) and given.dtype in INTEGERS and given.shape in fit):
            got = _kind(given) if isinstance(given, Tensor) else f"{_kind(given)}; take torch.as_tensor of it"
            raise ValueError(f"music: {name} must be an integer tensor {fit[0]} or {fit[1]}, got {got}")
    key_positions = positions if key_positions is None and positions is not None and t == s else key_positions
    m = torch.arange(s - t, s, device=x.device) if positions is None else positions.long()
    n = torch.arange(s, device=x.device) if key_positions is None else key_positions.long()
    m, n = (p[0] if p.ndim == 2 and len(p) == 1 else p for p in (m, n))  # one row serves a batch
    return m.contiguous(), n.contiguous()  # FlexAttention's CPU kernels read no strides


def _wholes(name: str, given: object, length: int) -> np.ndarray:
    row = _array(name, given, 1, 2)
    if row.shape not in ((length,), (1, length)) or not (np.isfinite(row) & (row == np.floor(row))).all():
        raise ValueError(f"music: {name} must be {length} whole numbers, got {row}; offsets index the table")
    return row.ravel()


def _array(name: str, given: object, *axes: int) -> np.ndarray:
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or array.ndim not in axes:
        got = f"{_kind(given)}; of a tensor give {name}.detach().cpu().double()"
        raise ValueError(f"music: {name} must be numbers in {' or '.join(map(str, axes))} axes, got {got}")
    return array.astype(np.float64)


def _check(q: Any, k: Any, dim: int, heads: int | None, kind: type = Tensor) -> None:
    """Check tensors, or the function's arrays, which have no batch."""
    b, what = ("b, ", "a floating point tensor") if kind is Tensor else ("", "numbers")
    for name, x, axes in (("q", q, f"{b}{heads or 'h'}, t, {dim}"), ("k", k, f"{b}g, s, {dim}")):
        real = isinstance(x, kind) and (kind is np.ndarray or (x.is_floating_point() and x.ndim == 4))
        if not real or x.shape[-1] != dim or (name == "q" and heads is not None and heads != x.shape[-3]):
            raise ValueError(f"music: {name} must be {what} ({axes}), got {_kind(x)}; split off the heads")
    if q.shape[:-3] != k.shape[:-3] or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(f"music: k must be of q's batch with g dividing h, got {_kind(k)} for q {_kind(q)}")


def _kind(given: object) -> str:
    size = f"of length {len(given)}" if isinstance(given, list | tuple) else tuple(getattr(given, "shape", ()))
    return f"{'numpy array ' * isinstance(given, np.ndarray)}{getattr(given, 'dtype', type(given).__name__)} {size}"
