"""LieRE: turn queries and keys by a dense rotation that is learned, the exponential of one generator per coordinate.

Paper: Ostmeier et al., 2024, "LieRE: Lie Rotational Positional Encodings", https://arxiv.org/abs/2406.10322, the
       section that defines LieRE.
Used:  the authors' vision transformers for images and videos
Cost:  a c d (w-1)/2 numbers to learn; c exponentials (w, w) per token and block a call, then a product of its size

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, a axes, w width of a block, n blocks,
       c sets of generators

    A_a  = U_a - U_a^T,  U_a the part of generators[a] above its diagonal, of each set and block
    R(p) = exp(sum_a p_a A_a),    y = R(p) x in each block

so R(p) is orthogonal: it keeps lengths. A score is q . R(m)^T R(n) k, and R(m)^T R(n) = R(n - m) only where generators
commute: on one axis, or in blocks of width 2, where this is RoPE with learned frequencies and, for some generators,
RoPE itself, axial or mixed. Elsewhere a score depends on where its tokens stand.
By default the heads share one set of generators, as in the authors' code, whose published settings have one for each
head and layer: its generator_raw_params[:, layer], unflattened to (a, h, n, w, w), are `generators` here. That code
scales positions to [0, 1] across an image of the trained size, for which the start is made: pass positions so, or
choose a smaller `init`. It is for images and videos alone: the paper gives text no coordinates, so on several axes
positions (t,) are refused, and none are the default.
"""

import contextlib
import math

import numpy as np
import torch
from torch import Tensor, nn

Places = Tensor | None
Table = Tensor | tuple[Tensor, Tensor] | None
REMEDY = "a row of coordinates a token: posenc.positions.grid_positions(height, width)"
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def liere(x: np.ndarray, positions: np.ndarray, generators: np.ndarray) -> np.ndarray:
    """Return the float64 `x` (..., h, t, d), queries or keys, turned to `positions`.

    `generators` are (a, c, n, w, w) with n w = d, a set for h/c heads in turn; or (a, n, w, w), one set for all, which
    takes `x` (t, d) too. `positions` are (t, a), or (t,) on one axis.
    """
    x, p, raw = map(_numbers, ("x", "positions", "generators"), (x, positions, generators))
    raw = raw[:, None] if raw.ndim == 4 else raw  # (a, c, n, w, w)
    sets, *blocks, width = raw.shape[1:] if raw.ndim == 5 and raw.size else (1, 0, 0, 1)
    heads = x.shape[-3] if x.ndim > 2 else 1
    if width != blocks[1] or x.ndim < 2 or x.shape[-1] != blocks[0] * width or heads % sets:
        form = "(..., h, t, n w) and (a, c, n, w, w) or (a, n, w, w), h a multiple of c"
        raise ValueError(f"liere: x and generators must be {form}, got {x.shape} and {raw.shape}")
    axes, length = len(raw), x.shape[-2]
    if p.shape != (length, axes) and (axes > 1 or p.shape != (length,)):
        raise ValueError(f"liere: positions must be ({length}, {axes}), got {p.shape}; {REMEDY}")
    places = p.reshape(length, axes)  # (t, a)
    upper = np.triu(raw, 1)  # (a, c, n, w, w)
    algebra = np.einsum("ta,acnij->ctnij", places, upper - upper.swapaxes(-2, -1))  # (c, t, n, w, w)
    turns, basis = np.linalg.eigh(1j * algebra)  # i A is Hermitian, so exp(A) = V exp(-i turns) V^H
    rotation = np.einsum("...ik,...k,...jk->...ij", basis, np.exp(-1j * turns), basis.conj()).real  # (c, t, n, w, w)
    split = x.reshape(*x.shape[:-3], sets, heads // sets, length, *blocks)  # (..., c, h/c, t, n, w)
    return np.einsum("ctnij,...chtnj->...chtni", rotation, split).reshape(x.shape)  # (..., h, t, d)


class LieRE(nn.Module):
    """Turn queries and keys by learned rotations of their positions on one axis or several.

    `generators` (a, c, d/w, w, w) start uniform in [0, init); what stands above each diagonal is used. Exponentials are
    taken in float64 and err by about 2e-16 times the angle: at position 10^7 still less than float32 rounds.

    Args:
        dim: Width d of a head.
        axes: Coordinates a of a position, 2 in an image.
        block: Width w of the blocks that turn apart, a divisor of `dim`; by default one block, all of it.
        init: Upper end of the generators at the start; the authors' 2 pi is for positions within [0, 1].
        heads: Sets of generators c: 1 for all heads, or as many as key/value heads, or a divisor of that.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encoding, x = LieRE(8), torch.randn(1, 1, 4, 8)
        >>> q, k = encoding(x, x, *[torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]) / 2] * 2)
        >>> torch.allclose(q.norm(dim=-1), x.norm(dim=-1)), torch.allclose(q[0, 0, 0], x[0, 0, 0])
        (True, True)
    """

    def __init__(
        self, dim: int, axes: int = 2, block: int | None = None, init: float = 2 * math.pi, heads: int = 1
    ) -> None:
        super().__init__()
        block = dim if block is None else block
        for name, value, least in (("dim", dim, 2), ("axes", axes, 1), ("block", block, 2), ("heads", heads, 1)):
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
                raise ValueError(f"liere: {name} must be an integer of at least {least}, got {value!r}")
        if dim % block:
            raise ValueError(f"liere: block must be a divisor of dim, {dim}, got {block}")
        if not isinstance(init, int | float) or isinstance(init, bool) or not 0 <= init < 1e30:
            raise ValueError(f"liere: init must be a number of at least 0, got {init!r}")
        self.dim, self.axes, self.block, self.heads = int(dim), int(axes), int(block), int(heads)
        # float32 whatever the default dtype: a generator in half precision would turn far tokens elsewhere
        shape = (self.axes, self.heads, self.dim // self.block, self.block, self.block)
        start = torch.empty(shape, dtype=torch.float32)
        self.generators = nn.Parameter(nn.init.uniform_(start, 0, init))  # (a, c, n, w, w)

    def forward(
        self, q: Tensor, k: Tensor, positions: Places = None, key_positions: Places = None, table: Table = None
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d) turned to their positions, each in the dtype it came in.

        Positions are (t, a) or (b, t, a), b may be 1. On one axis they are (t,) or (b, t), and by default keys stand at
        0 .. s-1 and queries at the last t of them. As many keys as queries stand where these are said to.
        `table(positions)` of the keys, or a pair (of queries, of keys), replaces positions.
        """
        _check_content(q, k, self.heads, self.dim)
        queries, keys = q.shape[2], k.shape[2]
        if key_positions is None and positions is not None and queries == keys:
            key_positions = positions
        for name, given, x in (("positions", positions, q), ("key_positions", key_positions, k)):
            if given is not None or (table is None and self.axes > 1):
                _check_places(name, given, self.axes, x.shape[::2])
        dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        if table is None:
            m = torch.arange(keys - queries, keys, device=q.device) if positions is None else positions
            n = torch.arange(keys, device=k.device) if key_positions is None else key_positions
            of_k = self.table(n, dtype)
            same = positions is key_positions and queries <= keys  # all None: queries take the last rows
            table = of_k if same else (self.table(m, dtype), of_k)
        _check_table(table, q, k, dtype, self.generators.shape)
        of_q, of_k = (table[..., keys - queries :, :, :], table) if isinstance(table, Tensor) else table
        return self._turned(q, of_q.to(dtype)), self._turned(k, of_k.to(dtype))  # (b, h, t, d), (b, g, s, d)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the rows of R (..., c, t, d, w) at `positions`, each within its block; with one block R itself."""
        _check_places("positions", positions, self.axes)
        if dtype is not torch.float32 and dtype is not torch.float64:
            raise ValueError(f"liere: dtype must be torch.float32 or torch.float64, got {dtype}; half is too coarse")
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        upper = self.generators.to(where, torch.float64).triu(1)  # (a, c, n, w, w)
        places = positions.to(where, torch.float64)
        places = places[..., None] if self.axes == 1 else places
        algebra = torch.einsum("...ta,acnij->...ctnij", places, upper - upper.mT)  # (..., c, t, n, w, w)
        algebra = algebra.contiguous()  # matrix_exp takes no other strides
        return torch.matrix_exp(algebra).flatten(-3, -2).to(positions.device, dtype)  # (..., c, t, d, w)

    def _turned(self, x: Tensor, table: Tensor) -> Tensor:
        grouped = x.to(table.dtype).unflatten(1, (self.heads, x.shape[1] // self.heads))  # (b, c, h/c, t, d)
        split = grouped.unflatten(-1, (-1, self.block))  # (b, c, h/c, t, n, w)
        rotation = table.unflatten(-2, (-1, self.block))  # (..., c, t, n, w, w)
        rule = "ctnij,bchtnj->bchtni" if rotation.ndim == 5 else "bctnij,bchtnj->bchtni"
        device = x.device.type  # products of content must not be rounded to half by autocast
        with torch.autocast(device, enabled=False) if device != "meta" else contextlib.nullcontext():
            return torch.einsum(rule, rotation, split).flatten(-2).flatten(1, 2).to(x.dtype)  # (b, h, t, d)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, axes={self.axes}, block={self.block}, heads={self.heads}"


def _kind(x: object) -> str:
    array = "numpy array " * isinstance(x, np.ndarray)
    return f"{array}{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor | np.ndarray) else type(x).__name__


def _check_content(q: Tensor, k: Tensor, sets: int, dim: int) -> None:
    fit = all(isinstance(x, Tensor) and x.dtype in FLOATS and x.ndim == 4 and x.shape[3] == dim for x in (q, k))
    if not fit or k.shape[0] != q.shape[0] or not k.shape[1] or k.shape[1] % sets or q.shape[1] % k.shape[1]:
        form = f"(b, h, t, {dim}) and (b, g, s, {dim}) with h a multiple of g" + f" and g of heads, {sets}" * (sets > 1)
        raise ValueError(f"liere: q and k must be floating point {form}, got {_kind(q)} and {_kind(k)}")


def _check_places(name: str, places: object, axes: int, rows: torch.Size | None = None) -> None:
    tail = () if axes == 1 else (axes,)
    remedy = REMEDY if axes > 1 and (places is None or isinstance(places, Tensor)) else "torch.as_tensor makes one"
    form = f"a tensor of integers or floats {'(t,) or (b, t)' if axes == 1 else f'(t, {axes}) or (b, t, {axes})'}"
    if not isinstance(places, Tensor) or places.dtype == torch.bool or places.is_complex() or not places.ndim:
        raise ValueError(f"liere: {name} must be {form}, got {_kind(places)}; {remedy}")
    own = places.shape[: -len(tail)] if tail else places.shape
    batch, length = (own[0], own[-1]) if rows is None and own else rows or (0, 0)
    if places.shape not in ((length, *tail), (1, length, *tail), (batch, length, *tail)):
        raise ValueError(f"liere: {name} must be {form} for b, t = {batch}, {length}, got {_kind(places)}; {remedy}")


def _check_table(table: object, q: Tensor, k: Tensor, dtype: torch.dtype, raw: torch.Size) -> None:
    pair = table if isinstance(table, tuple | list) and len(table) == 2 else (table, table)
    for rows, x in zip(pair, (k, k) if isinstance(table, Tensor) and q.shape[2] <= k.shape[2] else (q, k), strict=True):
        shape = raw[1], x.shape[2], raw[2] * raw[3], raw[4]
        shapes = (shape, (1, *shape), (x.shape[0], *shape))
        if not isinstance(rows, Tensor) or rows.dtype not in (dtype, torch.float64) or rows.shape not in shapes:
            raise ValueError(f"liere: table must be {dtype} {shapes[0]} or a pair of such, got {_kind(rows)}")


def _numbers(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"liere: {name} must be an array of finite numbers, got {type(value).__name__}")
    return array.astype(np.float64)
