"""T5: add to each logit a learned number for the bucket of the offset, one table for each head.

Paper: Raffel et al., 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
       https://arxiv.org/abs/1910.10683, sec. 2.1.
Used:  T5, mT5, FLAN-T5, UL2, LongT5, MPNet; one table serves all layers of a stack, none the cross-attention
Cost:  buckets x h numbers to learn; a call looks them up for each diagonal, or each pair where positions do not count

Key:   b batch, h heads, t queries, s keys, r buckets, a of one side, e exact, w max distance, u offsets of t
       queries to s keys, z start of the last bucket, m position of a query, n of a key

    B[i, m, n] = weight[bucket(n - m), i]                               for head i
    bucket     = distance                                               distance < e
               = min(e + floor((a-e) ln(distance/e) / ln(w/e)), a-1)    otherwise,  e = floor(a/2)
    both ways:   distance = |n - m|, a = floor(r/2); keys ahead of the query have their bucket plus a
    one way:     distance = m - n, or 0 for keys ahead, a = r

so near offsets have a bucket each, far ones share buckets that widen in proportion, and all from w on share the last.
Each bucket starts at a whole distance, found in whole numbers: a logarithm can round to the wrong side of an edge. T5's
own, in float32, does in few settings (48 buckets for one direction up to 81), and in none that the tests try of powers
of two. A fractional offset counts as the whole one toward 0. The offset is key - query. The bias is not divided by
sqrt(d), here as in T5. T5 does not divide q . k either: for its checkpoints give `attention` scale=1.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn


def t5_bucket(offset: np.ndarray, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> np.ndarray:
    """Return the bucket, an int64 of the shape of `offset`, of each offset key - query.

    Examples:
        >>> t5_bucket([-200, -8, -1, 0, 1, 200])
        array([15,  8,  1,  0, 17, 31])
    """
    starts = _starts(buckets, max_distance, bidirectional)
    offset = np.trunc(_array("offset", offset))
    distance = np.abs(offset) if bidirectional else np.maximum(-offset, 0)
    ahead = (offset > 0) * (buckets // 2) if bidirectional else 0
    return np.searchsorted(starts, distance, side="right") + ahead


def t5(
    positions: np.ndarray,
    key_positions: np.ndarray,
    weight: np.ndarray,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,), for `weight` (r, h)."""
    weight = _array("weight", weight, "a table (r, h)", 2)  # (r, h)
    sides = 2 if bidirectional is True else 1
    if len(weight) < 2 * sides or len(weight) % sides:
        raise ValueError(
            f"t5: weight must be (r, h) with at least 2 rows a direction, got {weight.shape}; r is even for 2"
        )
    m = _array("positions", positions, "one row of finite numbers", 1)  # (t,)
    n = _array("key_positions", key_positions, "one row of finite numbers", 1)  # (s,)
    offset = n - m[:, None]  # (t, s)
    bucket = t5_bucket(offset, len(weight), max_distance, bidirectional)  # (t, s)
    return weight[bucket].transpose(2, 0, 1)  # (h, t, s)


class T5(nn.Module):
    """Give the bias to add to the logits, from the learned `weight` (buckets, heads), which starts at zero.

    transformers starts it normal, with a standard deviation of 1 / sqrt(width of the model).

    Args:
        heads: Number of heads h.
        buckets: Rows of the table; even and at least 4 if `bidirectional`, else at least 2.
        max_distance: From this distance on all keys share a bucket; more than the buckets of single distances.
        bidirectional: Tell the keys ahead apart; if not, they share bucket 0 with the query itself (decoders).

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encoding = T5(heads=1)
        >>> encoding.weight.data[:, 0] = torch.arange(32)  # so that the bias is the bucket
        >>> encoding(torch.tensor([100]), torch.tensor([0, 50, 90, 99, 100, 101, 300])).tolist()
        [[[15.0, 13.0, 8.0, 1.0, 0.0, 17.0, 31.0]]]
    """

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        super().__init__()
        if not isinstance(heads, int | np.integer) or isinstance(heads, bool) or heads < 1:
            raise ValueError(f"t5: heads must be a positive integer, got {heads!r}; each head has its own numbers")
        self.starts = _starts(buckets, max_distance, bidirectional)
        self.heads, self.buckets, self.max_distance = int(heads), int(buckets), int(max_distance)
        self.bidirectional = bidirectional
        self.weight = nn.Parameter(torch.zeros(self.buckets, self.heads))

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s) in float32 between `positions` (t,) and `key_positions` (s,), by default the same.

        Where either has a batch, (b, t) or (b, s), the bias is (b, h, t, s). One row (1, t) serves a batch. On a CPU,
        whole positions without a batch that go up by 1 are seen to be such, unless compiled: as fast as `toeplitz`.
        """
        keys = positions if key_positions is None else key_positions
        _check(positions, keys)
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        m, n = (_stored(p.to(where, torch.float64).nan_to_num()) for p in (positions, keys))
        if positions.device.type == self.weight.device.type == "cpu" and _count_by_one(m, n):
            return self._diagonals(int((n[-1] - m[0]).clamp(-(2**40), 2**40)), len(m), len(n))  # (h, t, s)
        row = self._row(n[..., None, :] - m[..., :, None]).to(positions.device)  # (..., t, s)
        bias = self._look_up(row.flatten()).unflatten(1, row.shape)
        return bias if row.ndim == 2 else bias.transpose(0, 1)  # (..., h, t, s)

    def _look_up(self, row: Tensor) -> Tensor:
        """Return the columns `row` of the table, a row of indices, for each head."""
        table = self._table()  # (h, 2z+1)
        if not torch.compiler.is_dynamo_compiling():
            return table.index_select(1, row)
        row = _stored(row.to(torch.int16) if table.shape[1] < 2**15 else row)
        return _stored(table).gather(1, row.long().expand(self.heads, -1))

    def toeplitz(self, t: int, s: int) -> Tensor:
        """Return the bias (h, t, s) of keys 0 .. s-1 and queries at the last t of them, as fast as filling it.

        The same as `forward(torch.arange(s - t, s), torch.arange(s))`. Each diagonal holds one offset, so each offset
        is looked up once.
        """
        if not all(isinstance(size, int | torch.SymInt) and size >= 0 for size in (t, s)):
            raise ValueError(f"t5: t and s must be numbers of queries and keys, got {t!r} and {s!r}; none is negative")
        return self._diagonals(t - 1, t, s)  # (h, t, s)

    def _diagonals(self, largest: int, t: int, s: int) -> Tensor:
        offset = largest - torch.arange(t + s, device=self.weight.device)  # (u,)
        falling = self._table().index_select(1, self._row(offset))  # (h, u)
        # Row i is the window that starts at i, turned round. A compiler stores what is strided. Else, to turn rows that
        # are longer than there are rows is slow, and to put the rows of a table turned round in order is not.
        if torch.compiler.is_compiling():
            return falling.as_strided((self.heads, t, s), (t + s, 1, 1)).flip(2).contiguous()
        falling = falling[:, : max(t, 1) + s - 1]
        if t >= s:
            return falling.unfold(1, s, 1)[:, :t].flip(2)  # (h, t, s)
        return falling.flip(1).unfold(1, s, 1)[:, torch.arange(t - 1, -1, -1, device=offset.device)]  # (h, t, s)

    def score_mod(self, positions: Tensor, key_positions: Tensor | None = None) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        keys = positions if key_positions is None else key_positions
        _check(positions, keys)
        m, n = (_shared(p) for p in (positions, keys))
        m, n = (p.double().nan_to_num() if p.is_floating_point() else p.long() for p in (m, n))
        table = self._table()

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            offset = (n[b, s] if n.ndim == 2 else n[s]) - (m[b, t] if m.ndim == 2 else m[t])
            return score + table[h, self._row(offset)].to(score.dtype)

        return _modify

    def _table(self) -> Tensor:
        """Return the bias (h, 2z+1) at the offsets -z .. z, beyond which nothing changes."""
        reach, where = self.starts[-1], self.weight.device
        offset = torch.arange(-reach, reach + 1, device=where)  # (2z+1,)
        distance = offset.abs() if self.bidirectional else -offset.clamp(max=0)
        bucket = torch.bucketize(distance, torch.tensor(self.starts, device=where), right=True)  # (2z+1,)
        bucket = bucket + (offset > 0) * (self.buckets // 2) if self.bidirectional else bucket  # (2z+1,)
        return self.weight.float().T.index_select(1, bucket)  # (h, 2z+1)

    def _row(self, offset: Tensor) -> Tensor:
        reach = self.starts[-1]
        return offset.clamp(-reach, reach).int() + reach

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return (
            f"heads={self.heads}, buckets={self.buckets}, max_distance={self.max_distance}, "
            f"bidirectional={self.bidirectional}"
        )


def _starts(buckets: int, max_distance: int, bidirectional: bool) -> tuple[int, ...]:
    """Return the distances at which the buckets 1, 2, .. of one direction start."""
    if not isinstance(bidirectional, bool):
        raise ValueError(f"t5: bidirectional must be True or False, got {bidirectional!r}; decoders take False")
    sides = 2 if bidirectional else 1
    for name, count in (("buckets", buckets), ("max_distance", max_distance)):
        if not isinstance(count, int | np.integer) or isinstance(count, bool):
            raise ValueError(f"t5: {name} must be an integer, got {count!r}; T5 takes 32 buckets up to distance 128")
    if buckets < 2 * sides or buckets % sides:
        raise ValueError(
            f"t5: buckets must be at least 2 for each of {sides} directions, got {buckets}; as many for each"
        )
    rows, w = int(buckets) // sides, int(max_distance)
    exact = rows // 2
    if w <= exact:
        raise ValueError(f"t5: max_distance must be more than {exact}, got {w}; so far each distance has a bucket")
    starts = list(range(1, exact + 1))
    for k in range(1, rows - exact):
        start = int(exact * (w / exact) ** (k / (rows - exact)))
        while start ** (rows - exact) < w**k * exact ** (rows - exact - k):
            start += 1
        starts.append(start)
    return tuple(starts)


def _array(name: str, given: object, kind: str = "integers or floats", axes: int | None = None) -> np.ndarray:
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        array = np.array(None)
    array = np.atleast_1d(array) if axes == 1 else array
    fits = array.dtype.kind in "iuf" and axes in (None, array.ndim)
    if not fits or (axes == 1 and not np.isfinite(array).all()):
        raise ValueError(f"t5: {name} must be {kind}, got {given!r}; a batch goes row by row")
    return array.astype(np.float64)


def _shared(positions: Tensor) -> Tensor:
    """Return a batch of one row as that row, which serves every batch."""
    return positions[0] if positions.ndim == 2 and positions.shape[0] == 1 else positions


def _check(positions: Tensor, key_positions: Tensor) -> None:
    for name, given in (("positions", positions), ("key_positions", key_positions)):
        is_number = isinstance(given, Tensor) and given.dtype != torch.bool and not given.is_complex()
        if not is_number or given.ndim not in (1, 2):
            got = f"{given.dtype} {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
            raise ValueError(
                f"t5: {name} must be a tensor of integers or floats (t,) or (b, t), got {got}; take torch.arange(t)"
            )
    b, c = (p.shape[0] if p.ndim == 2 else 1 for p in (positions, key_positions))
    if b != c and b != 1 and c != 1:
        got = f"{tuple(positions.shape)} and {tuple(key_positions.shape)}"
        raise ValueError(f"t5: positions and key_positions must be of one batch, got {got}; or leave it out of one")


def _stored(x: Tensor) -> Tensor:
    """Return `x` so that a compiler stores it, as it does what is strided, in place of working it out for each pair."""
    return x.as_strided(x.shape, x.stride()) if torch.compiler.is_dynamo_compiling() else x


def _count_by_one(m: Tensor, n: Tensor) -> bool:
    """Tell whether both rows are whole numbers that go up by 1, if that can be told here and now."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return False
    if m.ndim != 1 or n.ndim != 1 or not m.numel() * n.numel():
        return False
    steps = torch.cat([m[:1].frac() + 1, m.diff(), n[:1].frac() + 1, n.diff()])
    try:
        return bool((steps == 1).all())
    except RuntimeError:  # under vmap, and of tensors without numbers
        return False
