"""PoPE: turn queries and keys by their positions alone; what they hold sets magnitudes and no angle.

Paper: Gopalakrishnan, Csordás, Schmidhuber & Mozer, 2025, "Decoupling the "What" and "Where" With Polar Coordinate
       Positional Embeddings", https://arxiv.org/abs/2509.10534, eqs. 3-10.
Used:  the authors' models of up to 774M parameters; offered by PoPE-pytorch and x-transformers
Cost:  one phase per head and channel to learn; queries and keys become twice as wide, values stay

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r rotary dim, o width d+r, a axes,
       m position of a query, n of a key

    theta_c = base^(-c/r),  c = 0 .. r-1                                    r frequencies, where RoPE has r/2
    s(q, k, m, n) = sum_c sp(q_c) sp(k_c) cos((n - m) theta_c + delta_c),   sp(x) = log(1 + e^x)

so with delta = 0 the score of any q and k is highest at offset 0; in RoPE what they hold moves that peak. Channels
after r, if any, stay as they are and add q_c k_c. Several axes share the r channels, or mix in each as theta says. The
paper turns keys by delta; here queries turn by -delta, which scores the same and lets heads share keys. It clamps delta
to [-2 pi, 0] and starts it at 0, the edge of a dead zone: a delta that a step takes above 0 gets no gradient, and stays
there. "wrap" and "free" score alike and have no such zone. Cosines precede sines; PoPE-pytorch alternates.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Places = Tensor | None
Table = Tensor | tuple[Tensor, Tensor] | None
GRID = "a row for each token, as of grid_positions(height, width) or axial_coordinates((height, width))"
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WORDS, TURN = {"init": ("zero", "uniform"), "bound": ("clamp", "wrap", "free")}, 2 * np.pi


def pope(
    q: np.ndarray,
    k: np.ndarray,
    positions: np.ndarray,
    key_positions: np.ndarray,
    base: float = 10_000.0,
    phase: np.ndarray | None = None,
    bound: str = "clamp",
    axes: int = 1,
    rotary_dim: int | None = None,
    theta: Any = None,
) -> np.ndarray:
    """Return the float64 scores (..., h, t, s) of `q` (..., h, t, d) and `k` (..., g, s, d), before the 1/sqrt(d).

    Positions are (t,) or (b, t); with several axes (t, a) or (b, t, a). `phase` (h, r) is delta before `bound`.
    """
    q, k, m, n = map(_numbers, ("q", "k", "positions", "key_positions"), (q, k, positions, key_positions))
    heads, dim = (1, 1, 1, *q.shape)[-3::2]
    _check_content(*(torch.from_numpy(x[None] if x.ndim == 3 else x) for x in (q, k)), heads=heads, dim=dim)
    theta, r = _theta(dim, heads, base, axes, rotary_dim, theta, bound=bound)
    for name, p, x in (("positions", m, q), ("key_positions", n, k)):
        _check_places(name, torch.from_numpy(p), axes, x.shape[-2], len(x) if x.ndim == 4 else 1)
    delta = np.zeros((heads, r)) if phase is None else _numbers("phase", phase, (heads, r))  # (h, r)
    delta = {"clamp": np.clip(delta, -TURN, 0), "wrap": np.mod(delta, -TURN), "free": delta}[bound]  # (h, r)
    m, n = (p if axes > 1 else p[..., None] for p in (m, n))  # (..., t, a), (..., s, a)
    angle = ((n[..., None, :, :] - m[..., None, :]) @ theta)[..., None, :, :, :] + delta[:, None, None]
    k = k.repeat(heads // k.shape[-3], axis=-3)  # (..., h, s, d)
    turned = np.logaddexp(0, q[..., :r]), np.logaddexp(0, k[..., :r]), np.cos(angle)
    return np.einsum("...htr,...hsr,...htsr->...hts", *turned) + q[..., r:] @ k[..., r:].swapaxes(-1, -2)


class PoPE(nn.Module):
    """Return queries and keys of width d+r, 2d where all channels turn, whose products are the scores of PoPE.

    Attention over them stays on the fused path and keeps the scale of the width before, d^(-1/2), not (d+r)^(-1/2):
    `F.scaled_dot_product_attention(*encoding(q, k), v, scale=dim**-0.5)`; nothing happens to `v`.

    Args:
        dim: Width d of a head, odd or even.
        heads: Number of query heads h, each with phases of its own. Key heads may be fewer, g, if h is a multiple of g.
        base: Sets the slowest wavelength, 2 pi base^(1 - 1/d) positions.
        init: Of the learned `phase` (h, r): "zero", which extrapolates best in the paper, or "uniform" in [-2 pi, 0).
        bound: How delta comes from `phase`: "clamp" to [-2 pi, 0] as in the paper, "wrap" modulo 2 pi, or "free".
        axes: Coordinates a of a position. Each has r/a channels in turn, with the frequencies of a head so wide.
        rotary_dim: How many channels r turn, the first ones; all by default. Without `theta` a multiple of `axes`.
        theta: Frequencies (r,), or (a, r) with a row for each axis, in place of those of `base`, in any shares.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> q, k = PoPE(8, heads=2)(torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8))
        >>> q.shape[-1], bool(((q * k).sum(-1) > 0).all())  # no token scores 0 or less where it stands
        (16, True)
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        base: float = 10_000.0,
        init: str = "zero",
        bound: str = "clamp",
        axes: int = 1,
        rotary_dim: int | None = None,
        theta: Any = None,
    ) -> None:
        super().__init__()
        rows, r = _theta(dim, heads, base, axes, rotary_dim, theta, init=init, bound=bound)
        self.dim, self.heads, self.base, self.bound, self.axes = int(dim), int(heads), float(base), bound, int(axes)
        self.rotary_dim, self.theta = r, tuple(map(tuple, rows.tolist()))
        self.phase = nn.Parameter(torch.zeros(self.heads, self.rotary_dim))  # (h, r)
        if init == "uniform":
            nn.init.uniform_(self.phase, -TURN, 0)

    def forward(
        self, q: Tensor, k: Tensor, positions: Places = None, key_positions: Places = None, table: Table = None
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d) turned to their positions, each in the dtype it came in.

        Positions are (t,), (1, t) or (b, t). Keys stand at 0 .. s-1 by default, or where as many queries are said to,
        and queries at the last t of them. With several axes they are (t, a), (1, t, a) or (b, t, a), and queries have
        no default, which would be a diagonal. `table(positions)` of the keys, or a pair (of queries, of keys), replaces
        positions.
        """
        _check_content(q, k, self.heads, self.dim)
        queries, keys = q.shape[2], k.shape[2]
        if key_positions is None and positions is not None and queries == keys:
            key_positions = positions
        for name, given, x in (("positions", positions, q), ("key_positions", key_positions, k)):
            if given is not None or (self.axes > 1 and table is None):
                _check_places(name, given, self.axes, x.shape[2], x.shape[0])
        dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        if table is None:
            m = torch.arange(keys - queries, keys, device=q.device) if positions is None else positions
            n = torch.arange(keys, device=k.device) if key_positions is None else key_positions
            of_k = self.table(n, dtype)
            same = positions is key_positions and queries <= keys  # all None: queries take the last rows
            table = of_k if same else (self.table(m, dtype), of_k)
        _check_table(table, q, k, dtype, 2 * self.rotary_dim)
        of_q, of_k = (table[..., keys - queries :, :], table) if isinstance(table, Tensor) else table
        q, k = self._turned(q, of_q.to(dtype), self.phase), self._turned(k, of_k.to(dtype))
        return q, k  # (b, h, t, o), (b, g, s, o)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return cosines, then sines (..., t, 2r) at `positions`; phases are not in it, so layers can share it."""
        _check_places("positions", positions, self.axes)
        if dtype is not torch.float32 and dtype is not torch.float64:
            raise ValueError(f"pope: dtype must be torch.float32 or torch.float64, got {dtype}; angles need the digits")
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where)  # (a, r)
        places = (positions if self.axes > 1 else positions[..., None]).to(where, torch.float64)  # (..., t, a)
        angle = (places[..., None] * theta).sum(dim=-2)  # (..., t, r)
        return torch.cat([angle.cos(), angle.sin()], dim=-1).to(positions.device, dtype)  # (..., t, 2r)

    def _turned(self, x: Tensor, table: Tensor, phase: Places = None) -> Tensor:
        cos, sin = (table if table.ndim == 2 else table[:, None]).chunk(2, dim=-1)  # (..., t, r)
        if phase is not None:
            delta = phase.to(table.dtype).clamp(-TURN, 0) if self.bound == "clamp" else phase.to(table.dtype)
            delta = delta.remainder(-TURN) if self.bound == "wrap" else delta  # (h, r)
            by_cos, by_sin = delta[:, None].cos(), delta[:, None].sin()  # (h, 1, r)
            cos, sin = cos * by_cos + sin * by_sin, sin * by_cos - cos * by_sin  # (..., h, t, r)
        magnitude = F.softplus(x.to(table.dtype), threshold=40)[..., : self.rotary_dim]  # (b, h, t, r)
        turned = torch.cat([magnitude * cos, magnitude * sin], dim=-1).to(x.dtype)  # (b, h, t, 2r)
        return turned if self.rotary_dim == self.dim else torch.cat([turned, x[..., self.rotary_dim :]], dim=-1)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        said = f"dim={self.dim}, heads={self.heads}, base={self.base:g}, bound={self.bound!r}, axes={self.axes}"
        return said + f", rotary_dim={self.rotary_dim}" * (self.rotary_dim != self.dim)


def _kind(x: object) -> str:
    size = f"of length {len(x)}" if isinstance(x, list | tuple) else tuple(getattr(x, "shape", ()))
    return f"{'numpy array ' * isinstance(x, np.ndarray)}{getattr(x, 'dtype', type(x).__name__)} {size}"


def _check_table(table: object, q: Tensor, k: Tensor, dtype: torch.dtype, width: int) -> None:
    pair: Any = table if isinstance(table, tuple | list) and len(table) == 2 else (table, table)
    for rows, x in zip(pair, (k, k) if isinstance(table, Tensor) and q.shape[2] <= k.shape[2] else (q, k), strict=True):
        fits = isinstance(rows, Tensor) and rows.dtype in (dtype, torch.float64) and rows.ndim in (2, 3)
        fits = fits and rows.shape[-1] == width and rows.shape[-2] == x.shape[2]  # compiled, `in` may miss equal sizes
        if not fits or (rows.ndim == 3 and rows.shape[0] != 1 and rows.shape[0] != x.shape[0]):
            form = f"{dtype} {(x.shape[2], width)}"
            raise ValueError(f"pope: table must be {form} or a pair of such, got {_kind(rows)}")


def _theta(
    dim: int, heads: int, base: float, axes: int, rotary_dim: int | None, theta: Any, **words: str
) -> tuple[np.ndarray, int]:
    for name, value in (("dim", dim), ("heads", heads), ("axes", axes)):
        if not _is_count(value):
            raise ValueError(f"pope: {name} must be a positive integer, got {value!r}")
    r = dim if rotary_dim is None else rotary_dim
    if not _is_count(r) or r > dim:
        raise ValueError(
            f"pope: rotary_dim must be a positive integer, {dim} at most, got {r!r}; as many channels turn"
        )
    if theta is None and r % axes:
        raise ValueError(f"pope: axes must be a divisor of {r} channels, got {axes}; theta may share them otherwise")
    if not isinstance(base, int | float | np.integer) or isinstance(base, bool) or not 1e-300 < base < 1e300:
        raise ValueError(f"pope: base must be positive and finite, got {base!r}; the paper takes 10,000")
    for name, value in words.items():
        if not isinstance(value, str) or value not in WORDS[name]:
            raise ValueError(f"pope: {name} must be one of {', '.join(WORDS[name])}, got {value!r}")
    width = max(1, r // axes)
    own = float(base) ** (-np.arange(width) / width)
    rows = np.kron(np.eye(axes), own) if theta is None else np.atleast_2d(_numbers("theta", theta))  # (a, r)
    if rows.shape != (axes, r):
        raise ValueError(f"pope: theta must be {(axes, r)}, a row for each axis, got {rows.shape}")
    return rows, int(r)


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value > 0)


def _check_content(q: Tensor, k: Tensor, heads: int, dim: int) -> None:
    fit = all(isinstance(x, Tensor) and x.dtype in FLOATS and x.ndim == 4 and x.shape[3] == dim for x in (q, k))
    if not fit or k.shape[0] != q.shape[0] or q.shape[1] != heads or not k.shape[1] or heads % k.shape[1]:
        form = f"(b, {heads}, t, {dim}) and (b, g, s, {dim}) with {heads} a multiple of g"
        raise ValueError(f"pope: q and k must be floating point {form}, got {_kind(q)} and {_kind(k)}")


def _check_places(name: str, places: object, axes: int, length: int | None = None, batch: int = 1) -> None:
    tail = () if axes == 1 else (axes,)
    forms = "(t,), (1, t) or (b, t)" if axes == 1 else f"(t, {axes}), (1, t, {axes}) or (b, t, {axes})"
    remedy = "torch.as_tensor makes one of a list or an array" if places is not None else GRID
    if not isinstance(places, Tensor) or places.dtype == torch.bool or places.is_complex() or not places.ndim:
        raise ValueError(f"pope: {name} must be a tensor of integers or floats, {forms}, got {_kind(places)}; {remedy}")
    rows = places.shape[: places.ndim - len(tail)]
    length, batch = (rows[-1] if rows else 0, rows[0] if rows else 0) if length is None else (length, batch)
    if not rows or places.shape[len(rows) :] != tail or rows[-1] != length or rows[:-1] not in ((), (1,), (batch,)):
        remedy = GRID if tail else "give each token its position"
        forms = f"{forms} for b = {batch} and t = {length}"
        raise ValueError(f"pope: {name} must be {forms}, got {tuple(places.shape)}; {remedy}")


def _numbers(name: str, value: object, shape: tuple[int, ...] | None = None) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or shape not in (None, array.shape) or not np.isfinite(array).all():
        got = f"{type(value).__name__} {array.shape}; of a tensor give {name}.detach().cpu().double()"
        raise ValueError(f"pope: {name} must be finite numbers {shape or ''}, got {got}")
    return array.astype(np.float64)
