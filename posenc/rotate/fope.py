"""FoPE: turn each pair by a sum of RoPE's frequencies, and leave at rest those too slow for the trained length.

Paper: Hua et al., 2024, "Fourier Position Embedding: Enhancing Attention's Periodic Extension for Length
       Generalization", https://arxiv.org/abs/2412.17739, the section that defines FoPE.
Used:  the authors' OLMo models of up to 1.2B parameters, Intern-S1-Pro
Cost:  2 c f o coefficients, learned or left as they start; one table (s, 2f) a call, and two small products

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, c sets of coefficients, f frequencies kept,
       o pairs that turn

    theta_j = base^(-2j/d),  j = 0 .. f-1: those of at least 2 pi / length, or the first `terms`
    C_i(p)  = sum_j cos_coef[j, i] cos(p theta_j),  S_i(p) = sum_j sin_coef[j, i] sin(p theta_j),  i = 0 .. o-1
    y_i     = x_i C_i - x_(i+d/2) S_i,  y_(i+d/2) = x_(i+d/2) C_i + x_i S_i;  pairs i >= o rest: C = 1, S = 0

With one frequency a pair this is RoPE without its slow pairs. With more it is no rotation: lengths change, and a score
depends on where its tokens stand; only its mean over all places depends on the offset alone.
The authors' code, Intern-S1-Pro and vLLM before its pull request 55243 have S = 1 there, which turns every resting pair
by 45 degrees and stretches it by sqrt(2): its share of each score doubles. The authors' code also lets at most d/4
pairs turn, as pairs=d/4 does here; o = f by default. Its fourier_dim, finer steps between frequencies than RoPE's, no
published model sets, nor sums divided by their coefficients, nor one set for cosines and sines.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Places = Tensor | None
Table = Tensor | tuple[Tensor, Tensor] | None
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def fope(
    x: np.ndarray,
    positions: np.ndarray,
    length: int,
    base: float = 10_000.0,
    layout: str = "half",
    cos_coef: np.ndarray | None = None,
    sin_coef: np.ndarray | None = None,
    terms: int | None = None,
    pairs: int | None = None,
) -> np.ndarray:
    """Return the float64 `x` (..., h, t, d), queries or keys, turned to `positions` (t,).

    Coefficients are (c, f, o), and a set serves h/c heads in turn; without them each pair has one frequency, its own
    where o = f.
    """
    x, p = _numbers("x", x), _numbers("positions", positions)
    if x.ndim < 3 or p.shape != x.shape[-2:-1]:
        raise ValueError(f"fope: x and positions must be (..., h, t, d) and (t,), got {x.shape} and {p.shape}")
    heads, dim = x.shape[-3::2]
    theta, start = _theta(dim, length, base, layout, terms=terms, pairs=pairs)  # (f,), (f, o)
    by_cos, by_sin = _sets("cos_coef", cos_coef, heads, start), _sets("sin_coef", sin_coef, heads, start)  # (h, f, o)
    angle, rest = p[:, None] * theta, ((0, 0), (0, 0), (0, dim // 2 - start.shape[1]))
    cos = np.pad(np.cos(angle) @ by_cos, rest, constant_values=1)  # (h, t, d/2)
    sin = np.pad(np.sin(angle) @ by_sin, rest)  # (h, t, d/2)
    first, second = np.split(x, 2, axis=-1) if layout == "half" else (x[..., ::2], x[..., 1::2])  # (..., h, t, d/2)
    turned = first * cos - second * sin, second * cos + first * sin  # (..., h, t, d/2)
    return np.concatenate(turned, axis=-1) if layout == "half" else np.stack(turned, axis=-1).reshape(x.shape)


class FoPE(nn.Module):
    """Turn queries and keys by sums of those frequencies of RoPE that fit into the trained length.

    `cos_coef` and `sin_coef` (c, f, o) start as the authors': frequency i s of pair i, s = ceil(f / o), plus normal
    noise of standard deviation gain sqrt(2 / (o (c + f))). The authors leave them so: `encoding.requires_grad_(False)`.

    Args:
        dim: Width d of a head; even.
        heads: Sets of coefficients c: as many as key/value heads, or a divisor of that; 1 is one set for all.
        length: Tokens of a sequence in training; what turns more slowly than once in them is dropped. The authors'
            rope_floor_freq_ratio r is a length r times as short.
        base: Sets the frequencies, base^(-2j/d).
        layout: Which channels turn together: "half" i and i + d/2, "interleaved" 2i and 2i + 1.
        gain: Size of the noise, 0.3 to 0.6 in the authors' models, 0.5 in Intern-S1-Pro; 0 gives RoPE.
        terms: How many frequencies to keep, the fastest, whatever the length: Intern-S1-Pro's num_inv_freq.
        pairs: How many pairs turn at most; by default one a frequency kept.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> q, k = FoPE(64, heads=1, length=512)(torch.ones(1, 1, 9, 64), torch.ones(1, 1, 9, 64))
        >>> int((q[0, 0, 8] == 1).sum())  # half of the channels rest: they would turn less than once in 512 tokens
        32
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        length: int,
        base: float = 10_000.0,
        layout: str = "half",
        gain: float = 0.3,
        terms: int | None = None,
        pairs: int | None = None,
    ) -> None:
        super().__init__()
        start = torch.tensor(_theta(dim, length, base, layout, heads, terms, pairs)[1], dtype=torch.float32)  # (f, o)
        self.kept, self.turning = start.shape
        if not isinstance(gain, int | float) or isinstance(gain, bool) or not 0 <= gain < 1e30:
            raise ValueError(f"fope: gain must be a number of at least 0, got {gain!r}; 0 gives RoPE")
        self.dim, self.heads, self.length = int(dim), int(heads), int(length)
        self.base, self.layout = float(base), layout
        noise = (nn.init.xavier_normal_(torch.empty(self.heads, *start.shape), gain) for _ in range(2))
        self.cos_coef, self.sin_coef = (nn.Parameter(start.to(each) + each) for each in noise)  # (c, f, o)

    def forward(
        self, q: Tensor, k: Tensor, positions: Places = None, key_positions: Places = None, table: Table = None
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d) turned to their positions, each in the dtype it came in.

        Positions are (t,), (b, t) or (1, t); keys stand at 0 .. s-1 by default, or where as many queries are said to,
        and queries at the last t of them. `table(positions)` of the keys, or a pair (of queries, of keys), replaces
        positions.
        """
        _check_content(q, k, self.heads, self.dim)
        queries, keys = q.shape[2], k.shape[2]
        if key_positions is None and positions is not None and queries == keys:
            key_positions = positions
        for name, given, x in (("positions", positions, q), ("key_positions", key_positions, k)):
            if given is not None:
                _check_places(name, given, x.shape[::2])
        dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        if table is None:
            m = torch.arange(keys - queries, keys, device=q.device) if positions is None else positions
            n = torch.arange(keys, device=k.device) if key_positions is None else key_positions
            of_k = self.table(n, dtype)
            same = positions is key_positions and queries <= keys  # all None: queries take the last rows
            table = of_k if same else (self.table(m, dtype), of_k)
        _check_table(table, q, k, dtype, 2 * self.kept)
        waves = [self._waves(rows.to(dtype)) for rows in ((table,) if isinstance(table, Tensor) else table)]
        of_q = waves[0][..., waves[0].shape[-2] - queries :, :]  # (..., c, t, d)
        return self._turned(q, of_q), self._turned(k, waves[-1])  # (b, h, t, d), (b, g, s, d)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return cosines, then sines (..., t, 2f) of the kept frequencies; layers with other coefficients share it."""
        _check_places("positions", positions)
        if dtype is not torch.float32 and dtype is not torch.float64:
            raise ValueError(f"fope: dtype must be torch.float32 or torch.float64, got {dtype}; angles need the digits")
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        index = torch.arange(self.kept, dtype=torch.float64, device=where)  # (f,)
        angle = positions.to(where, torch.float64)[..., None] * self.base ** (-2 * index / self.dim)  # (..., t, f)
        return torch.cat([angle.cos(), angle.sin()], dim=-1).to(positions.device, dtype)  # (..., t, 2f)

    def _waves(self, table: Tensor) -> Tensor:
        wide = torch.float64 if table.device.type != "mps" else torch.float32  # autocast leaves float64 alone
        cos, sin = table.to(wide).unsqueeze(-3).chunk(2, dim=-1)  # (..., 1, t, f)
        cos, sin = cos @ self.cos_coef.to(wide), sin @ self.sin_coef.to(wide)  # (..., c, t, o)
        rest = (0, self.dim // 2 - self.turning)
        return torch.cat([F.pad(cos, rest, value=1.0), F.pad(sin, rest)], dim=-1).to(table.dtype)  # (..., c, t, d)

    def _turned(self, x: Tensor, waves: Tensor) -> Tensor:
        split = x.to(waves.dtype).unflatten(1, (self.heads, x.shape[1] // self.heads))  # (b, c, h/c, t, d)
        halves = split.chunk(2, dim=-1) if self.layout == "half" else (split[..., ::2], split[..., 1::2])
        (first, second), (cos, sin) = halves, waves.unsqueeze(-3).chunk(2, dim=-1)
        turned = first * cos - second * sin, second * cos + first * sin  # (b, c, h/c, t, d/2)
        joined = torch.cat(turned, dim=-1) if self.layout == "half" else torch.stack(turned, dim=-1).flatten(-2)
        return joined.flatten(1, 2).to(x.dtype)  # (b, h, t, d)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        sizes = f"dim={self.dim}, heads={self.heads}, length={self.length}, base={self.base:g}"
        return f"{sizes}, layout={self.layout!r}, terms={self.kept}, pairs={self.turning}"


def _kind(x: object) -> str:
    array = "numpy array " * isinstance(x, np.ndarray)
    return f"{array}{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor | np.ndarray) else type(x).__name__


def _theta(
    dim: int, length: int, base: float, layout: str, heads: int = 1, terms: Any = None, pairs: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the frequencies kept and the coefficients without noise."""
    kinds = (("dim", dim, 2, "an even integer"), ("length", length, 7, "an integer"), ("heads", heads, 1, "an integer"))
    for name, value, least, kind in kinds:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least or (name == "dim" and value % 2):
            raise ValueError(f"fope: {name} must be {kind} of at least {least}, got {value!r}")
    if not isinstance(base, int | float | np.integer) or isinstance(base, bool) or not 1e-300 < base < 1e300:
        raise ValueError(f"fope: base must be positive and finite, got {base!r}; the paper takes 10,000")
    if not isinstance(layout, str) or layout not in ("half", "interleaved"):
        raise ValueError(f"fope: layout must be one of half, interleaved, got {layout!r}")
    for name, value in (("terms", terms), ("pairs", pairs)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if value is not None and not (whole and 1 <= value <= dim // 2):
            raise ValueError(f"fope: {name} must be None or an integer from 1 to dim/2, {dim // 2}, got {value!r}")
    theta = float(base) ** (-2 * np.arange(dim // 2) / dim)  # (d/2,)
    theta = theta[:terms] if terms is not None else theta[theta >= 2 * np.pi / min(length, 1e300)]  # (f,)
    turning = min(len(theta), pairs or dim // 2)
    step = -(-len(theta) // turning)
    return theta, np.eye(step * turning)[: len(theta), ::step]  # (f,), (f, o)


def _sets(name: str, coef: np.ndarray | None, heads: int, start: np.ndarray) -> np.ndarray:
    coef = start[None] if coef is None else _numbers(name, coef)  # (c, f, o)
    if coef.ndim != 3 or coef.shape[1:] != start.shape or not len(coef) or heads % len(coef):
        form = "(c, f, o) = (c, {}, {})".format(*start.shape)
        raise ValueError(f"fope: {name} must be {form}, c a divisor of {heads}, got {coef.shape}")
    return coef.repeat(heads // len(coef), axis=0)  # (h, f, o)


def _check_content(q: Tensor, k: Tensor, sets: int, dim: int) -> None:
    fit = all(isinstance(x, Tensor) and x.dtype in FLOATS and x.ndim == 4 and x.shape[3] == dim for x in (q, k))
    if not fit or k.shape[0] != q.shape[0] or not k.shape[1] or k.shape[1] % sets or q.shape[1] % k.shape[1]:
        form = f"(b, h, t, {dim}) and (b, g, s, {dim}) with h a multiple of g and g of heads, {sets}"
        raise ValueError(f"fope: q and k must be floating point {form}, got {_kind(q)} and {_kind(k)}")


def _check_places(name: str, places: Tensor, rows: torch.Size | None = None) -> None:
    number = isinstance(places, Tensor) and places.dtype != torch.bool and not places.is_complex()
    if (
        not number
        or places.ndim not in (1, 2)
        or (rows is not None and places.shape not in (rows[1:], (1, *rows[1:]), rows))
    ):
        form = f"(t,) or (b, t){'' if rows is None else f' for b, t = {rows[0]}, {rows[1]}'}"
        got = f"{_kind(places)}; torch.as_tensor makes one"
        raise ValueError(f"fope: {name} must be a tensor of integers or floats {form}, got {got}")


def _check_table(table: object, q: Tensor, k: Tensor, dtype: torch.dtype, width: int) -> None:
    pair = table if isinstance(table, tuple | list) and len(table) == 2 else (table, table)
    for rows, x in zip(pair, (k, k) if isinstance(table, Tensor) and q.shape[2] <= k.shape[2] else (q, k), strict=True):
        shapes = ((x.shape[2], width), (1, x.shape[2], width), (x.shape[0], x.shape[2], width))
        if not isinstance(rows, Tensor) or rows.dtype not in (dtype, torch.float64) or rows.shape not in shapes:
            raise ValueError(f"fope: table must be {dtype} {shapes[0]} or a pair of such, got {_kind(rows)}")


def _numbers(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"fope: {name} must be an array of finite numbers, got {type(value).__name__}")
    return array.astype(np.float64)
