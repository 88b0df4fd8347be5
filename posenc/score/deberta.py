"""DeBERTa: match contents with positions both ways, in buckets of the offset, and let all matches share one scale.

Paper: He et al., 2021, "DeBERTa: Decoding-enhanced BERT with Disentangled Attention",
       https://arxiv.org/abs/2006.03654, eq. 3-4.
Used:  DeBERTa (max_distance=None); DeBERTa v2 and v3, mDeBERTa (buckets that widen)
Cost:  two tables (h, 2B, d) to learn; a call makes q k, (b, h, t, 2B) and (b, h, s, 2B) and looks the latter up

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r rows 2B, m position of a query, n of a key

    row(m, n)     = clip(bucket(m - n) + B, 0, 2B - 1)
    s(q, k, m, n) = (q . k + q . key_table[row(m, n)] + k . query_table[row(m, n)]) / sqrt(3d) - q . k / sqrt(d)

so q k / sqrt(d) plus the score is what softmax gets, and moving all tokens by one offset changes nothing. 3 counts the
matches; with one table it is 2. The offset is query minus key: row 0 is a key far ahead. bucket(o) is o up to B/2, then
grows with log o until max_distance - 1. Both tables are read at one row, as in the authors' code and transformers,
hence in every checkpoint; eq. 4 reads query_table with m and n exchanged, which a table learned backwards undoes.
transformers fails where queries are fewer than keys: it exchanges B and max_distance, then adds (s, s) to (t, s).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

TERMS = ("c2p+p2c", "c2p", "p2c")
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def deberta(
    q: np.ndarray,
    k: np.ndarray,
    positions: np.ndarray,
    key_positions: np.ndarray,
    key_table: np.ndarray | None = None,
    query_table: np.ndarray | None = None,
    max_distance: int | None = 512,
) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d) at the integers (t,) and (s,).

    The learned `key_table` and `query_table` are (h, 2B, d); the match of a table that is left out is not made.
    """
    q, k = _numbers("q", q, "h", "t", "d"), _numbers("k", k, "g", "s", "d")
    _check(q, k, q.shape[-1], len(q), np.ndarray)
    m = _numbers("positions", positions, q.shape[1], whole=True)
    n = _numbers("key_positions", key_positions, k.shape[1], whole=True)
    k = np.repeat(k, len(q) // len(k), axis=0)  # (h, s, d)
    product = q @ k.swapaxes(1, 2)  # (h, t, s)
    matches = [product]
    for name, table, x in (("key_table", key_table, q[:, :, None]), ("query_table", query_table, k[:, None])):
        if table is not None:
            table = _numbers(name, table, len(q), "2B", q.shape[-1])  # (h, r, d)
            if table.shape[1] % 4:
                raise ValueError(f"deberta: {name} must be of 2B rows, B even, got {table.shape[1]}; B a side")
            row = _row(m[:, None] - n, table.shape[1] // 2, max_distance)  # (t, s)
            matches.append((x * table[:, row]).sum(axis=-1))
    return sum(matches) / (len(matches) * q.shape[-1]) ** 0.5 - product / q.shape[-1] ** 0.5  # (h, t, s)


def deberta_bucket(offset: Any, buckets: int = 256, max_distance: int | None = 512) -> Any:
    """Return the bucket of `offset`, query minus key: int64, an array, or a tensor for a tensor.

    It is the offset up to buckets / 2, everywhere if `max_distance` is None, then grows with its logarithm to
    buckets - 1 at max_distance - 1. Add `buckets` and clip to 0 .. 2 buckets - 1 for the row of a table.

    Raises:
        ValueError: If `offset` is not whole, `buckets` not even or `max_distance` below buckets / 2 + 2.

    Examples:
        >>> deberta_bucket([1, 2, 3, 4, 8, 16, 31, -31], buckets=8, max_distance=32).tolist()
        [1, 2, 3, 4, 6, 7, 7, -7]
    """
    _check_buckets(buckets, max_distance)
    if isinstance(offset, Tensor) and offset.dtype not in INTEGERS:
        raise ValueError(f"deberta: offset must be whole numbers, got {_kind(offset)}; a tensor of integers")
    xp: Any = torch if isinstance(offset, Tensor) else np
    offset = offset.double() if isinstance(offset, Tensor) else _numbers("offset", offset, whole=True)
    if max_distance is not None:
        middle = buckets // 2
        size = xp.clip(xp.abs(offset), middle, None)
        grown = xp.log(size / middle) / math.log((max_distance - 1) / middle) * (middle - 1)
        # rounded first: where the logarithm is whole, its last digit must not choose the bucket
        grown = middle + xp.ceil(xp.round(grown, decimals=9))
        offset = xp.where(size > middle, xp.sign(offset) * grown, offset)
    return offset.long() if isinstance(offset, Tensor) else offset.astype(np.int64)


class DeBERTa(nn.Module):
    """Score queries against positions (c2p) and keys against positions (p2c), and rescale q k to match.

    `key_table` and `query_table` (heads, 2 buckets, dim) are learned, or the one that `terms` asks for. They start
    normal with standard deviation 0.02. Checkpoints project one table, `rows = encoder.get_rel_embedding()`:
    `key_table = pos_key_proj(rows).unflatten(-1, (heads, dim)).transpose(0, 1)`, and query_table so by pos_query_proj;
    with share_att_key by key_proj and query_proj, in v1 by pos_proj and pos_q_proj.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h; key heads may be fewer.
        buckets: Buckets B on each side, even; half of them hold one offset each.
        max_distance: Offsets of this size and more share one row; None for one offset each, as in v1 (buckets=512).
        terms: "c2p+p2c", "c2p" or "p2c".

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encoding = DeBERTa(dim=1, heads=1, buckets=4, max_distance=8, terms="c2p")
        >>> encoding.key_table.data[0, :, 0] = 1.415 * torch.arange(-4, 4)  # so that the score is the bucket
        >>> encoding(torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 10, 1)).flatten().int().tolist()  # offsets 9 .. 0
        [3, 3, 3, 3, 3, 3, 3, 2, 1, 0]
    """

    def __init__(
        self, dim: int, heads: int, buckets: int = 256, max_distance: int | None = 512, terms: str = "c2p+p2c"
    ) -> None:
        super().__init__()
        _check_buckets(buckets, max_distance, dim=dim, heads=heads)
        if not isinstance(terms, str) or terms not in TERMS:
            raise ValueError(f"deberta: terms must be one of {', '.join(TERMS)}, got {terms!r}")
        self.dim, self.heads, self.buckets, self.terms = int(dim), int(heads), int(buckets), terms
        self.max_distance = None if max_distance is None else int(max_distance)
        self.reach = self.max_distance or self.buckets  # no offset beyond it has another row
        self._count = 1 + len(terms.split("+"))
        shape = (self.heads, 2 * self.buckets, self.dim)
        self.key_table = nn.Parameter(0.02 * torch.randn(shape)) if "c2p" in terms else None
        self.query_table = nn.Parameter(0.02 * torch.randn(shape)) if "p2c" in terms else None

    def forward(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) and `k` (b, g, s, d), in the dtype of `q`.

        `positions` (t,) or (b, t) and `key_positions` (s,) or (b, s) are integers; one row (1, t) serves a batch. By
        default keys stand at 0 .. s-1, or where as many queries are said to, and queries at the last t of them.

        Raises:
            ValueError: If an argument does not fit; the message says what to pass instead.
        """
        m, n, x, y, by_query, by_key = self._prepare(q, k, positions, key_positions)
        offset = (m[..., :, None] - n[..., None, :]).clamp(-self.reach, self.reach) + self.reach  # (..., t, s)
        row = self._row_of_offset(m.device)[offset].unsqueeze(-3)  # (..., t, s)
        total = product = x @ y.mT  # (b, h, t, s)
        if by_query is not None:
            total = total + by_query.gather(-1, row.expand(product.shape))  # (b, h, t, s)
        if by_key is not None:
            total = total + by_key.gather(-1, row.mT.expand(product.mT.shape)).mT  # (b, h, t, s)
        return (total / (self._count * self.dim) ** 0.5 - product / self.dim**0.5).to(q.dtype)  # (b, h, t, s)

    def score_mod(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair; it keeps (b, h, t + s, r) matches with the rows of the tables.

        The score that it is given must be q k / sqrt(d): it is rescaled, as the terms of the paper share one scale.
        """
        m, n, _, _, by_query, by_key = self._prepare(q, k, positions, key_positions)
        rows, scale = self._row_of_offset(m.device), (self._count * self.dim) ** -0.5

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            here, there = m[b, t] if m.ndim == 2 else m[t], n[b, s] if n.ndim == 2 else n[s]
            row = rows[(here - there).clamp(-self.reach, self.reach) + self.reach]
            score = score * self._count**-0.5
            if by_query is not None:
                score = score + scale * by_query[b, h, t, row]
            return score if by_key is None else score + scale * by_key[b, h, s, row]

        return _modify

    def _prepare(self, q: Tensor, k: Tensor, *places: Tensor | None) -> tuple[Any, ...]:
        """Return the places of q and k, both as they are multiplied, and their matches with the rows of the tables."""
        _check(q, k, self.dim, self.heads)
        m, n = _places(q, k.shape[-2], *places)
        exact = torch.promote_types(q.dtype, torch.float32)
        x = q.to(exact).contiguous()  # (b, h, t, d)  or strides would decide the last digit
        y = k.to(exact).repeat_interleave(self.heads // k.shape[1], dim=1)  # (b, h, s, d)
        by_query = None if self.key_table is None else x @ self.key_table.to(exact).mT
        return m, n, x, y, by_query, None if self.query_table is None else y @ self.query_table.to(exact).mT

    def _row_of_offset(self, device: torch.device) -> Tensor:
        where = "cpu" if device.type == "mps" else device  # mps has no float64
        return _row(torch.arange(-self.reach, self.reach + 1, device=where), self.buckets, self.max_distance).to(device)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        sizes = f"dim={self.dim}, heads={self.heads}, buckets={self.buckets}"
        return f"{sizes}, max_distance={self.max_distance}, terms={self.terms!r}"


def _row(offset: Any, buckets: int, max_distance: int | None) -> Any:
    return (deberta_bucket(offset, buckets, max_distance) + buckets).clip(0, 2 * buckets - 1)


def _places(x: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None) -> tuple[Tensor, Tensor]:
    b, _, t, _ = x.shape
    for name, given, size in (("positions", positions, t), ("key_positions", key_positions, s)):
        fit = ((size,), (b, size), (1, size))
        if given is not None and not (isinstance(given, Tensor) and given.dtype in INTEGERS and given.shape in fit):
            got = _kind(given) if isinstance(given, Tensor) else f"{_kind(given)}; take torch.as_tensor of it"
            raise ValueError(f"deberta: {name} must be an integer tensor {fit[0]} or {fit[1]}, got {got}")
    key_positions = positions if key_positions is None and positions is not None and t == s else key_positions
    m = torch.arange(s - t, s, device=x.device) if positions is None else positions.long()
    n = torch.arange(s, device=x.device) if key_positions is None else key_positions.long()
    m, n = (p[0] if p.ndim == 2 and len(p) == 1 else p for p in (m, n))  # one row serves a batch
    return m.contiguous(), n.contiguous()  # FlexAttention's CPU kernels read no strides


def _check_buckets(buckets: int, max_distance: int | None, **sizes: int) -> None:
    sizes |= {"buckets": buckets, "max_distance": 1 if max_distance is None else max_distance}
    for name, number in sizes.items():
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
            raise ValueError(f"deberta: {name} must be a positive integer, got {number!r}")
    if buckets % 2:
        raise ValueError(f"deberta: buckets must be even, got {buckets}; half of them hold one offset each")
    if max_distance is not None and max_distance < buckets // 2 + 2:
        raise ValueError(f"deberta: max_distance must be at least {buckets // 2 + 2}, got {max_distance}; or None")


def _numbers(name: str, given: Any, *axes: Any, whole: bool = False) -> np.ndarray:
    """Return float64 numbers of the sizes `axes`, where a letter stands for any size; by default of any shape."""
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        array = np.asarray(None)
    array = array[0] if axes and whole and array.ndim == 2 and len(array) == 1 else array  # positions of one row
    sizes = tuple(size if isinstance(axis, str) else axis for axis, size in zip(axes, array.shape, strict=False))
    if array.dtype.kind not in "iuf" or (axes and (len(axes) != array.ndim or sizes != array.shape)):
        got = f"{_kind(given)}; no batch, and of a tensor give {name}.detach().cpu().double()"
        raise ValueError(f"deberta: {name} must be numbers ({', '.join(map(str, axes))}), got {got}")
    if whole and not ((np.abs(array) <= 2.0**53) & (array == np.floor(array))).all():
        raise ValueError(f"deberta: {name} must be whole numbers, got {array}; buckets hold whole offsets")
    return array.astype(np.float64)


def _check(q: Any, k: Any, dim: int, heads: int, kind: type = Tensor) -> None:
    """Check tensors, or the function's arrays, which have no batch."""
    b, what = ("b, ", "a floating point tensor") if kind is Tensor else ("", "numbers")
    for name, x, axes in (("q", q, f"{b}{heads}, t, {dim}"), ("k", k, f"{b}g, s, {dim}")):
        real = isinstance(x, kind) and (kind is np.ndarray or (x.is_floating_point() and x.ndim == 4))
        if not real or x.shape[-1] != dim or (name == "q" and heads != x.shape[-3]):
            raise ValueError(f"deberta: {name} must be {what} ({axes}), got {_kind(x)}; split off the heads")
    if q.shape[:-3] != k.shape[:-3] or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(f"deberta: k must be of q's batch with g dividing h, got {_kind(k)} for q {_kind(q)}")


def _kind(given: object) -> str:
    size = f"of length {len(given)}" if isinstance(given, list | tuple) else tuple(getattr(given, "shape", ()))
    return f"{'numpy array ' * isinstance(given, np.ndarray)}{getattr(given, 'dtype', type(given).__name__)} {size}"
