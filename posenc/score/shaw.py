"""Shaw: add to each logit the match of the query with a vector learned for the clipped offset of the key.

Paper: Shaw et al., 2018, "Self-Attention with Relative Position Representations",
       https://arxiv.org/abs/1803.02155, eq. 3-4, sec. 3.2.
Used:  tensor2tensor's relative Transformers, wav2vec2-BERT, the speech encoder of SeamlessM4T v2
Cost:  one table (2c+1, d) to learn, with on_values a second; a call makes (b, h, t, 2c+1) products and looks scores up

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, c clip, m position of a query, n of a key

    bucket(m, n)  = clip(n - m, -c, c) + c
    s(q, k, m, n) = q_m . key_table[bucket(m, n)] / sqrt(d)
    z_m           = sum_n alpha(m, n) (v_n + value_table[bucket(m, n)])

so moving all tokens by one offset changes nothing, and keys at least c away on one side share one vector. The offset is
key minus query: row 0 is the far past, row c the query's own place. Offsets are whole, so positions must be integers.
One table serves all heads, as in tensor2tensor and the paper's big model (c = 8); its base model (c = 16) has one for
each head, as heads= gives. wav2vec2-BERT has no value table, clips the past at 64 and the future at 8, and lets queries
stand at 0, not last, where keys outnumber them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def shaw(
    q: np.ndarray, k: np.ndarray, positions: np.ndarray, key_positions: np.ndarray, key_table: np.ndarray
) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d) at the integers (t,) and (s,).

    The learned `key_table` is (2c+1, d), or (h, 2c+1, d) where each head has its own.
    """
    q, k = _array("q", q, 3), _array("k", k, 3)
    _check(q, k, q.shape[-1], len(q), np.ndarray)
    shape = (*q.shape[:2], k.shape[1], q.shape[2])
    vector = _vectors(positions, key_positions, shape, "key_table", key_table)  # (h, t, s, d)
    return np.einsum("htd,htsd->hts", q, vector) / q.shape[-1] ** 0.5  # (h, t, s)


def shaw_values(
    weights: np.ndarray, positions: np.ndarray, key_positions: np.ndarray, value_table: np.ndarray
) -> np.ndarray:
    """Return what attention `weights` (h, t, s) add to the output (h, t, d) through `value_table`, shaped as keys'.

    Examples:
        >>> table = [[-1.0], [0.0], [1.0]]  # each vector is the offset: the output is its mean
        >>> shaw_values([[[0.25, 0.75]]], positions=[1], key_positions=[0, 1], value_table=table)
        array([[[-0.25]]])
    """
    weights = _array("weights", weights, 3)
    vector = _vectors(positions, key_positions, weights.shape, "value_table", value_table)  # (h, t, s, d)
    return np.einsum("hts,htsd->htd", weights, vector)  # (h, t, d)


class Shaw(nn.Module):
    """Score queries against learned vectors of clipped offsets; with `on_values`, sum such vectors for the output too.

    `key_table` and, with `on_values`, `value_table` are learned, (2 clip + 1, dim) or (heads, 2 clip + 1, dim). They
    start normal with standard deviation dim^(-1/2). In the paper's ablation scores alone do as well as both.

    Args:
        dim: Width d of a head.
        clip: Offsets beyond it count as `clip`; the paper takes 16.
        heads: Number of query heads h, to give each a table of its own; by default all share one.
        on_values: Learn the table of `values()` too.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encoding = Shaw(dim=1, clip=2)
        >>> encoding.key_table.data[:, 0] = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0])  # so that the score is the offset
        >>> encoding(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 5, 1)).flatten().tolist()  # the query stands at 4
        [-2.0, -2.0, -2.0, -1.0, 0.0]
    """

    def __init__(self, dim: int, clip: int = 16, heads: int | None = None, on_values: bool = False) -> None:
        super().__init__()
        for name, number in (("dim", dim), ("clip", clip), ("heads", 1 if heads is None else heads)):
            if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
                raise ValueError(f"shaw: {name} must be a positive integer, got {number!r}; tables are (2clip+1, dim)")
        if not isinstance(on_values, bool):
            raise ValueError(f"shaw: on_values must be True or False, got {on_values!r}; True learns a second table")
        self.dim, self.clip, self.heads, self.on_values = int(dim), int(clip), heads and int(heads), on_values
        shape = (*([self.heads] if self.heads else []), 2 * self.clip + 1, self.dim)
        self.key_table = nn.Parameter(torch.randn(shape) / self.dim**0.5)
        self.value_table = nn.Parameter(torch.randn(shape) / self.dim**0.5) if on_values else None

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
        bucket = _bucket(m[..., :, None], n[..., None, :], self.clip).unsqueeze(-3)  # (..., t, s)
        return logits.gather(-1, bucket.expand(*q.shape[:-1], k.shape[-2])).to(q.dtype)  # (b, h, t, s)

    def values(self, weights: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None) -> Tensor:
        """Return what attention `weights` (b, h, t, s) add to the output (b, h, t, d): the sum of the values' vectors.

        The weights of a bucket are summed first, so no (t, s, d) is made. Give the positions of the scores.

        Raises:
            ValueError: If an argument does not fit or `on_values` is off; the message says what to pass instead.
        """
        if self.value_table is None:
            raise ValueError(f"shaw: weights must be for a module with on_values=True, got on_values={self.on_values}")
        real = isinstance(weights, Tensor) and weights.is_floating_point() and weights.ndim == 4
        if not real or (self.heads is not None and self.heads != weights.shape[1]):
            raise ValueError(f"shaw: weights must be floats (b, {self.heads or 'h'}, t, s), got {_kind(weights)}")
        m, n = _places(weights, weights.shape[-1], positions, key_positions)
        bucket = _bucket(m[..., :, None], n[..., None, :], self.clip).unsqueeze(-3)  # (..., t, s)
        table = self.value_table.to(torch.promote_types(weights.dtype, torch.float32))  # (..., 2c+1, d)
        shares = table.new_zeros(*weights.shape[:-1], table.shape[-2])  # (b, h, t, 2c+1)
        shares = shares.scatter_add(-1, bucket.expand(weights.shape), weights.to(table.dtype))  # (b, h, t, 2c+1)
        return (shares @ table).to(weights.dtype)  # (b, h, t, d)

    def score_mod(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same scores, looked up in one (b, h, t, 2c+1)."""
        logits, *places = self._prepare(q, k, positions, key_positions)

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            m, n = (p[b, i] if p.ndim == 2 else p[i] for p, i in zip(places, (t, s), strict=True))
            return score + logits[b, h, t, _bucket(m, n, self.clip)]

        return _modify

    def _prepare(self, q: Tensor, k: Tensor, *places: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        _check(q, k, self.dim, self.heads)
        m, n = _places(q, k.shape[-2], *places)
        x = q.to(torch.promote_types(q.dtype, torch.float32))  # (b, h, t, d)
        return x @ self.key_table.to(x.dtype).mT / self.dim**0.5, m, n  # (b, h, t, 2c+1), (..., t), (..., s)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, clip={self.clip}, heads={self.heads}, on_values={self.on_values}"


def _places(x: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None) -> tuple[Tensor, Tensor]:
    b, _, t, _ = x.shape
    for name, given, size in (("positions", positions, t), ("key_positions", key_positions, s)):
        fit = ((size,), (b, size), (1, size))
        if given is not None and not (isinstance(given, Tensor) and given.dtype in INTEGERS and given.shape in fit):
            got = _kind(given) if isinstance(given, Tensor) else f"{_kind(given)}; take torch.as_tensor of it"
            raise ValueError(f"shaw: {name} must be an integer tensor {fit[0]} or {fit[1]}, got {got}")
    key_positions = positions if key_positions is None and positions is not None and t == s else key_positions
    m = torch.arange(s - t, s, device=x.device) if positions is None else positions.long()
    n = torch.arange(s, device=x.device) if key_positions is None else key_positions.long()
    m, n = (p[0] if p.ndim == 2 and len(p) == 1 else p for p in (m, n))  # one row serves a batch
    return m.contiguous(), n.contiguous()  # FlexAttention's CPU kernels read no strides


def _vectors(
    positions: np.ndarray, key_positions: np.ndarray, shape: tuple[int, ...], name: str, table: np.ndarray
) -> np.ndarray:
    """Return the vector of each pair (h, t, s, d) in the table called `name`; `shape` is (h, t, s), then d if known."""
    table = _array(name, table, 2, 3)
    if table.shape[-2] % 2 == 0 or table.shape[:-2] not in ((), shape[:1]) or shape[3:] not in ((), table.shape[-1:]):
        raise ValueError(f"shaw: {name} must be (2c+1, d) or (h, 2c+1, d), got {table.shape} for (h, t, s, d) {shape}")
    m, n = _wholes("positions", positions, shape[1]), _wholes("key_positions", key_positions, shape[2])
    bucket = _bucket(m[:, None], n, table.shape[-2] // 2).astype(int)  # (t, s)
    return np.broadcast_to(table, (shape[0], *table.shape[-2:]))[:, bucket]  # (h, t, s, d)


def _wholes(name: str, given: object, length: int) -> np.ndarray:
    row = _array(name, given, 1, 2)
    if row.shape not in ((length,), (1, length)) or not (np.isfinite(row) & (row == np.floor(row))).all():
        raise ValueError(f"shaw: {name} must be {length} whole numbers, got {row}; offsets index the table")
    return row.ravel()


def _bucket(m: Any, n: Any, clip: int) -> Any:
    return (n - m).clip(-clip, clip) + clip


def _array(name: str, given: object, *axes: int) -> np.ndarray:
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or array.ndim not in axes:
        got = f"{_kind(given)}; of a tensor give {name}.detach().cpu().double()"
        raise ValueError(f"shaw: {name} must be numbers in {' or '.join(map(str, axes))} axes, got {got}")
    return array.astype(np.float64)


def _check(q: Any, k: Any, dim: int, heads: int | None, kind: type = Tensor) -> None:
    """Check tensors, or the function's arrays, which have no batch."""
    b, what = ("b, ", "a floating point tensor") if kind is Tensor else ("", "numbers")
    for name, x, axes in (("q", q, f"{b}{heads or 'h'}, t, {dim}"), ("k", k, f"{b}g, s, {dim}")):
        real = isinstance(x, kind) and (kind is np.ndarray or (x.is_floating_point() and x.ndim == 4))
        if not real or x.shape[-1] != dim or (name == "q" and heads is not None and heads != x.shape[-3]):
            raise ValueError(f"shaw: {name} must be {what} ({axes}), got {_kind(x)}; split off the heads")
    if q.shape[:-3] != k.shape[:-3] or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(f"shaw: k must be of q's batch with g dividing h, got {_kind(k)} for q {_kind(q)}")


def _kind(given: object) -> str:
    size = f"of length {len(given)}" if isinstance(given, list | tuple) else tuple(getattr(given, "shape", ()))
    return f"{'numpy array ' * isinstance(given, np.ndarray)}{getattr(given, 'dtype', type(given).__name__)} {size}"
