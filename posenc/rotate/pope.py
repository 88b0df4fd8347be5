"""PoPE: turn queries and keys by their positions alone; what they hold sets magnitudes and no angle.

Paper: Gopalakrishnan, Csordás, Schmidhuber & Mozer, 2025, "Decoupling the "What" and "Where" With Polar Coordinate
       Positional Embeddings", https://arxiv.org/abs/2509.10534, eqs. 3-10.
Used:  the authors' models of up to 774M parameters; offered by PoPE-pytorch and x-transformers
Cost:  one phase per head and channel to learn; queries and keys become twice as wide, values stay

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, a axes, w channels of an axis

    theta_c = base^(-c/d),  c = 0 .. d-1                                    d frequencies, where RoPE has d/2
    s(q, k, m, n) = sum_c sp(q_c) sp(k_c) cos((n - m) theta_c + delta_c),   sp(x) = log(1 + e^x)

so with delta = 0 the score of any q and k is highest at offset 0; in RoPE what they hold moves that peak.
The paper turns keys by delta; here queries turn by -delta, which scores the same and lets heads share keys. It clamps
delta to [-2 pi, 0] and starts it at 0, by a dead zone: above 0 the gradient is exactly 0 (at 0 torch lets it pass), so
none leads back. "wrap" and "free" score alike and have no such zone. Cosines precede sines; PoPE-pytorch alternates.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Places = Tensor | None
Table = Tensor | tuple[Tensor, Tensor] | None
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
) -> np.ndarray:
    """Return the float64 scores (..., h, t, s) of `q` (..., h, t, d) and `k` (..., g, s, d), before the 1/sqrt(d).

    Positions are (t,) or (b, t); with several axes (t, a), (b, t, a) or (t,). `phase` (h, d) is delta before `bound`.
    """
    q, k, m, n = map(_numbers, ("q", "k", "positions", "key_positions"), (q, k, positions, key_positions))
    heads, dim = (1, 1, 1, *q.shape)[-3::2]
    _check_content(*(torch.from_numpy(x[None] if x.ndim == 3 else x) for x in (q, k)), heads=heads, dim=dim)
    _check_settings(dim, heads, base, axes, bound=bound)
    for name, p, x in (("positions", m, q), ("key_positions", n, k)):
        _check_places(name, torch.from_numpy(p), axes, x.shape[-2], len(x) if x.ndim == 4 else 1)
    delta = np.zeros((heads, dim)) if phase is None else _numbers("phase", phase, (heads, dim))  # (h, d)
    delta = {"clamp": np.clip(delta, -TURN, 0), "wrap": np.mod(delta, -TURN), "free": delta}[bound]  # (h, d)
    theta = float(base) ** (-np.arange(dim // axes) / (dim // axes))  # (w,)
    m, n = (p if axes > 1 and p.ndim > 1 else p[..., None] + np.zeros(axes) for p in (m, n))  # (..., t, a), (..., s, a)
    angle = (n[..., None, :, :] - m[..., None, :])[..., None] * theta  # (..., t, s, a, w)
    angle = angle.reshape(*angle.shape[:-2], dim)[..., None, :, :, :] + delta[:, None, None]  # (..., h, t, s, d)
    shared = np.logaddexp(0, k).repeat(heads // k.shape[-3], axis=-3)  # (..., h, s, d)
    return np.einsum("...htd,...hsd,...htsd->...hts", np.logaddexp(0, q), shared, np.cos(angle))  # (..., h, t, s)


class PoPE(nn.Module):
    """Return queries and keys of width 2d whose products are the scores of PoPE.

    Attention over them stays on the fused path and keeps the scale of the width before, d^(-1/2), not (2d)^(-1/2):
    `F.scaled_dot_product_attention(*encoding(q, k), v, scale=dim**-0.5)`; nothing happens to `v`.

    Args:
        dim: Width d of a head, odd or even; a multiple of `axes`.
        heads: Number of query heads h, each with phases of its own. Key heads may be fewer, g, if h is a multiple of g.
        base: Sets the slowest wavelength, 2 pi base^(1 - 1/d) positions.
        init: Of the learned `phase` (h, d): "zero", which extrapolates best in the paper, or "uniform" in [-2 pi, 0).
        bound: How delta comes from `phase`: "clamp" to [-2 pi, 0] as in the paper, "wrap" modulo 2 pi, or "free".
        axes: Coordinates of a position. Each has d/axes channels in turn, with the frequencies of a head so wide.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> q, k = PoPE(8, heads=2)(torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8))
        >>> q.shape[-1], bool(((q * k).sum(-1) > 0).all())  # no token scores 0 or less where it stands
        (16, True)
    """

    def __init__(
        self, dim: int, heads: int, base: float = 10_000.0, init: str = "zero", bound: str = "clamp", axes: int = 1
    ) -> None:
        super().__init__()
        _check_settings(dim, heads, base, axes, init=init, bound=bound)
        self.dim, self.heads, self.base, self.bound, self.axes = int(dim), int(heads), float(base), bound, int(axes)
        self.phase = nn.Parameter(torch.zeros(self.heads, self.dim))
        if init == "uniform":
            nn.init.uniform_(self.phase, -TURN, 0)

    def forward(
        self, q: Tensor, k: Tensor, positions: Places = None, key_positions: Places = None, table: Table = None
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d) turned to their positions, each in the dtype it came in.

        Positions are (t,) or (b, t); with several axes (t, a), (b, t, a), or (t,) for text, which has one number for
        all. Keys stand at 0 .. s-1 by default and queries at the last t of them. `table(positions)` of the keys, or a
        pair (of queries, of keys), replaces positions.
        """
        _check_content(q, k, self.heads, self.dim)
        for name, given, x in (("positions", positions, q), ("key_positions", key_positions, k)):
            if given is not None:
                _check_places(name, given, self.axes, x.shape[2], x.shape[0])
        queries, keys = q.shape[2], k.shape[2]
        dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        if table is None and positions is None and key_positions is None and queries <= keys:
            table = self.table(torch.arange(keys, device=k.device), dtype)  # (s, 2d)
        elif table is None:
            positions = torch.arange(keys - queries, keys, device=q.device) if positions is None else positions
            key_positions = torch.arange(keys, device=k.device) if key_positions is None else key_positions
            table = self.table(positions, dtype), self.table(key_positions, dtype)
        _check_table(table, q, k, dtype, 2 * self.dim)
        of_q, of_k = (table[..., keys - queries :, :], table) if isinstance(table, Tensor) else table
        q, k = self._turned(q, of_q.to(dtype), self.phase), self._turned(k, of_k.to(dtype))
        return q, k  # (b, h, t, 2d), (b, g, s, 2d)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return cosines, then sines (..., t, 2d) at `positions`; phases are not in it, so layers can share it."""
        _check_places("positions", positions, self.axes)
        if dtype is not torch.float32 and dtype is not torch.float64:
            raise ValueError(f"pope: dtype must be torch.float32 or torch.float64, got {dtype}; angles need the digits")
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        width = self.dim // self.axes
        theta = self.base ** (-torch.arange(width, dtype=torch.float64, device=where) / width)  # (w,)
        places = positions if self.axes > 1 and positions.ndim > 1 else positions[..., None]
        angle = places.to(where, torch.float64)[..., None] * theta
        angle = angle.expand(*angle.shape[:-2], self.axes, width).flatten(-2)  # (..., t, d)
        return torch.cat([angle.cos(), angle.sin()], dim=-1).to(positions.device, dtype)  # (..., t, 2d)

    def _turned(self, x: Tensor, table: Tensor, phase: Places = None) -> Tensor:
        cos, sin = (table if table.ndim == 2 else table[:, None]).chunk(2, dim=-1)  # (..., t, d)
        if phase is not None:
            delta = phase.to(table.dtype).clamp(-TURN, 0) if self.bound == "clamp" else phase.to(table.dtype)
            delta = delta.remainder(-TURN) if self.bound == "wrap" else delta  # (h, d)
            by_cos, by_sin = delta[:, None].cos(), delta[:, None].sin()  # (h, 1, d)
            cos, sin = cos * by_cos + sin * by_sin, sin * by_cos - cos * by_sin  # (..., h, t, d)
        magnitude = F.softplus(x.to(table.dtype), threshold=40)  # (b, h, t, d)
        return torch.cat([magnitude * cos, magnitude * sin], dim=-1).to(x.dtype)  # (b, h, t, 2d)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, heads={self.heads}, base={self.base:g}, bound={self.bound!r}, axes={self.axes}"


def _kind(x: object) -> str:
    size = f"of length {len(x)}" if isinstance(x, list | tuple) else tuple(getattr(x, "shape", ()))
    return f"{'numpy array ' * isinstance(x, np.ndarray)}{getattr(x, 'dtype', type(x).__name__)} {size}"


def _check_table(table: object, q: Tensor, k: Tensor, dtype: torch.dtype, width: int) -> None:
    pair = table if isinstance(table, tuple | list) and len(table) == 2 else (table, table)
    for rows, x in zip(pair, (k, k) if isinstance(table, Tensor) and q.shape[2] <= k.shape[2] else (q, k), strict=True):
        shapes = ((x.shape[2], width), (x.shape[0], x.shape[2], width))
        if not isinstance(rows, Tensor) or rows.dtype not in (dtype, torch.float64) or rows.shape not in shapes:
            raise ValueError(f"pope: table must be {dtype} {shapes[0]} or a pair of such, got {_kind(rows)}")


def _check_settings(dim: int, heads: int, base: float, axes: int, **words: str) -> None:
    for name, value in (("dim", dim), ("heads", heads), ("axes", axes)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise ValueError(f"pope: {name} must be a positive integer, got {value!r}")
    if dim % axes:
        raise ValueError(f"pope: axes must be a divisor of dim {dim}, got {axes}; each takes as many channels")
    if not isinstance(base, int | float | np.integer) or isinstance(base, bool) or not 1e-300 < base < 1e300:
        raise ValueError(f"pope: base must be positive and finite, got {base!r}; the paper takes 10,000")
    for name, value in words.items():
        if not isinstance(value, str) or value not in WORDS[name]:
            raise ValueError(f"pope: {name} must be one of {', '.join(WORDS[name])}, got {value!r}")


def _check_content(q: Tensor, k: Tensor, heads: int, dim: int) -> None:
    fit = all(isinstance(x, Tensor) and x.dtype in FLOATS and x.ndim == 4 and x.shape[3] == dim for x in (q, k))
    if not fit or k.shape[0] != q.shape[0] or q.shape[1] != heads or not k.shape[1] or heads % k.shape[1]:
        form = f"(b, {heads}, t, {dim}) and (b, g, s, {dim}) with {heads} a multiple of g"
        raise ValueError(f"pope: q and k must be floating point {form}, got {_kind(q)} and {_kind(k)}")


def _check_places(name: str, places: object, axes: int, length: int | None = None, batch: int = 1) -> None:
    if not isinstance(places, Tensor) or places.dtype == torch.bool or places.is_complex() or not places.ndim:
        got = f"{_kind(places)}; torch.as_tensor makes one of a list or an array"
        raise ValueError(f"pope: {name} must be a tensor of integers or floats, got {got}")
    rows = places.shape[:-1] if axes > 1 and places.ndim > 1 else places.shape
    length, batch = (rows[-1], rows[0]) if length is None else (length, batch)
    tail = () if axes == 1 else (axes,)
    if places.shape not in ((length,), (length, *tail), (batch, length, *tail)):
        forms = "(t,) or (b, t)" if axes == 1 else f"(t, {axes}), (b, t, {axes}) or (t,)"
        raise ValueError(f"pope: {name} must be {forms} for b = {batch} and t = {length}, got {tuple(places.shape)}")


def _numbers(name: str, value: object, shape: tuple[int, ...] | None = None) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or shape not in (None, array.shape) or not np.isfinite(array).all():
        got = f"{type(value).__name__} {array.shape}; of a tensor give {name}.detach().cpu().double()"
        raise ValueError(f"pope: {name} must be finite numbers {shape or ''}, got {got}")
    return array.astype(np.float64)
