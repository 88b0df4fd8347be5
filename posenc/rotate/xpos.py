"""xPos: rotate queries and keys as RoPE does, and let scores fade with distance, those of the fast pairs soonest.

Paper: Sun et al., 2022, "A Length-Extrapolatable Transformer", https://arxiv.org/abs/2212.10554, alg. 1.
Used:  LeX, the paper's model; an option of torchscale, flash-attn, x-transformers and rotary-embedding-torch
Cost:  nothing to learn; one table (s, 3d/2) a call, then one rotation of q and k

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, m position of a query, n of a key

    theta_i = base^(-2i/d),  zeta_i = (2i/d + 0.4) / 1.4,  i = 0 .. d/2-1,  R(angle) turns a pair
    q_i     = zeta_i^((m - center) / scale_base) R(m theta_i) q_i
    k_i     = zeta_i^((center - n) / scale_base) R(n theta_i) k_i

so a score is RoPE's with the part of pair i times zeta_i^((m - n) / scale_base): it depends on m - n alone, and the
center drops out. It fades for keys behind the query and grows for keys ahead, so attend causally. The center is a
setting, never taken from a call, so a key may be rotated once and cached. Libraries center each call on half its
length: keys that they rotated fit no later call, and rotary-embedding-torch's own cached path is wrong. Float32 and
bfloat16 hold scales and products within 32 scale_base of the center (32,768 positions in all), float16 within 4
(4,096); positions further out are refused. Channels 2i and 2i+1 turn together, as in the paper's code; layout="half"
pairs i and i + d/2, as Llama does.
"""

import contextlib
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Places = Tensor | None
Table = Tensor | tuple[Tensor, Tensor] | None


def xpos(
    q: np.ndarray,
    k: np.ndarray,
    positions: np.ndarray,
    key_positions: np.ndarray,
    base: float = 10_000.0,
    scale_base: float = 512.0,
    layout: str = "interleaved",
) -> np.ndarray:
    """Return the scores (..., h, t, s), before the 1/sqrt(d), of `q` (..., h, t, d) and `k` (..., g, s, d).

    Positions, (t,) or (b, t), enter by their offsets alone. A key more than 64 `scale_base` from a query is refused.
    """
    q, k, m, n = map(_numbers, ("q", "k", "positions", "key_positions"), (q, k, positions, key_positions))
    m, n = np.atleast_1d(m), np.atleast_1d(n)
    q4, k4 = (torch.from_numpy(x[None] if x.ndim == 3 else x) for x in (q, k))
    _check(q4, k4, torch.from_numpy(m), torch.from_numpy(n), dim=q.shape[-1] if q.ndim else 0)
    theta, zeta = _theta(q.shape[-1], base, scale_base, layout)  # (d/2,)
    offset = m[..., :, None] - n[..., None, :]  # (..., t, s)
    if (np.abs(offset) > 64 * scale_base).any():
        raise ValueError(f"xpos: positions must be within 64 scale_base of the keys, got {np.abs(offset).max():g} off")
    kernel = zeta ** (offset[..., None] / scale_base) * np.exp(1j * offset[..., None] * theta)  # (..., t, s, d/2)
    k = k.repeat(q.shape[-3] // k.shape[-3], axis=-3)  # (..., h, s, d)
    (q1, q2), (k1, k2) = _pairs(q, layout), _pairs(k, layout)
    return np.einsum("...htc,...hsc,...tsc->...hts", q1 + 1j * q2, k1 - 1j * k2, kernel).real  # (..., h, t, s)


class XPos(nn.Module):
    """Rotate queries and keys, and scale them so that their products fade with distance.

    Nothing is stored: angles and scales are computed in float64 in each call, for each token from its position alone.

    Args:
        dim: Width d of a head; even.
        base: Sets the slowest turn, base^(-1 + 2/d) radians a position.
        scale_base: Positions over which pair i fades to zeta_i: 0.29 for the fastest, almost 1 for the slowest.
        layout: Which channels turn together: "interleaved" 2i and 2i+1, "half" i and i + d/2.
        center: The position left unscaled. Any gives the same scores; half the longest context reaches furthest.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> q, k, back = torch.ones(1, 1, 1, 64), torch.ones(1, 1, 3, 64), torch.tensor([0, 64, 512])
        >>> q, k = XPos(64)(q, k, positions=torch.tensor([9000]), key_positions=9000 - back)
        >>> [round(score, 1) for score in (q @ k.mT).flatten().tolist()]
        [64.0, 27.4, 12.6]
    """

    def __init__(
        self, dim: int, base: float = 1e4, scale_base: float = 512.0, layout: str = "interleaved", center: float = 0.0
    ) -> None:
        super().__init__()
        _theta(dim, base, scale_base, layout, center)
        self.dim, self.base, self.scale_base = int(dim), float(base), float(scale_base)
        self.layout, self.center = layout, float(center)

    def forward(
        self, q: Tensor, k: Tensor, positions: Places = None, key_positions: Places = None, table: Table = None
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), rotated and scaled; h is a multiple of g.

        `key_positions` (s,), (1, s) or (b, s) are those of as many queries by default, or 0 .. s-1, and `positions`,
        alike, the last t of these.
        `table`, from `table(key_positions)`, replaces both, and queries take its last t rows; or pass a pair, of
        queries and of keys. Positions out of reach are refused on the CPU. Elsewhere, or compiled, looking at them
        would wait for the device, and they give infinities.
        """
        _check(q, k, positions, key_positions, self.dim)
        t, s = q.shape[-2], k.shape[-2]
        dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        if table is None:
            key_positions = positions if key_positions is None and positions is not None and t == s else key_positions
            m = torch.arange(s - t, s, device=q.device) if positions is None else positions
            n = torch.arange(s, device=k.device) if key_positions is None else key_positions
            self._check_reach("positions", m, 4 if q.dtype == torch.float16 else 32)
            self._check_reach("key_positions", n, 4 if k.dtype == torch.float16 else 32)
            of_k = self.table(n, dtype)
            last = positions is None and key_positions is None and t <= s  # the queries' rows are among the keys'
            table = of_k if last else (of_k if m is n else self.table(m, dtype), of_k)
        of_q, of_k = _pair(table, t, s, q.shape[0], 3 * self.dim // 2, dtype)  # (..., t, 3*d/2), (..., s, 3*d/2)
        return self._turned(q, of_q, 1), self._turned(k, of_k, -1)  # (b, h, t, d), (b, g, s, d)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the table (..., t, 3d/2) of `positions` (t,) or (b, t): d/2 cosines, d/2 sines, d/2 scales of q."""
        if not _are_numbers(positions) or positions.ndim not in (1, 2):
            got = f"{_kind(positions)}; torch.as_tensor makes one"
            raise ValueError(f"xpos: positions must be a tensor of numbers (t,) or (b, t), got {got}")
        if not isinstance(dtype, torch.dtype) or dtype.itemsize < 4 or not dtype.is_floating_point:
            raise ValueError(f"xpos: dtype must be torch.float32 or torch.float64, got {dtype!r}; others are coarse")
        self._check_reach("positions", positions, 32)
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        places = positions.to(where, torch.float64)[..., None]  # (..., t, 1)
        pair = torch.arange(0, self.dim, 2, dtype=torch.float64, device=where) / self.dim  # (d/2,)
        angle = places * self.base**-pair  # (..., t, d/2)
        scale = ((pair + 0.4) / 1.4) ** ((places - self.center) / self.scale_base)  # (..., t, d/2)
        return torch.cat([angle.cos(), angle.sin(), scale], dim=-1).to(dtype).to(positions.device)  # (..., t, 3*d/2)

    def _check_reach(self, name: str, places: Tensor, reach: int) -> None:
        if places.device.type != "cpu" or torch.compiler.is_compiling():
            return
        steps = (places.to(torch.float64) - self.center).abs() / self.scale_base
        with contextlib.suppress(RuntimeError):  # under vmap there is no single answer
            if (steps > reach).any():
                raise ValueError(
                    f"xpos: {name} must be within {reach} scale_base of center {self.center:g}, got one at "
                    f"{steps.max():.3g}; the scales would overflow: set center to half the longest context"
                )

    def _turned(self, x: Tensor, table: Tensor, sense: int) -> Tensor:
        cos, sin, scale = table.to(x.device).unsqueeze(-3).chunk(3, dim=-1)  # (..., 1, t, d/2)
        cos, sin = (cos * scale, sin * scale) if sense > 0 else (cos / scale, sin / scale)
        first, second = _pairs(x.to(table.dtype), self.layout)  # (b, h, t, d/2)
        turned = first * cos - second * sin, first * sin + second * cos  # (b, h, t, d/2)
        if self.layout == "half":
            return torch.cat(turned, dim=-1).to(x.dtype)  # (b, h, t, d)
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)  # (b, h, t, d)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return ", ".join(f"{name}={vars(self)[name]!r}" for name in ("dim", "base", "scale_base", "layout", "center"))


def _theta(dim: int, base: float, scale_base: float, layout: str, center: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(dim, int | np.integer) or isinstance(dim, bool) or dim < 2 or dim % 2:
        raise ValueError(f"xpos: dim of q and k must be an even integer of at least 2, got {dim!r}; they turn in pairs")
    for name, value, least in (("base", base, 0), ("scale_base", scale_base, 0), ("center", center, -np.inf)):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not least < value < np.inf:
            raise ValueError(f"xpos: {name} must be a finite number above {least}, got {value!r}")
    if not isinstance(layout, str) or layout not in ("interleaved", "half"):
        raise ValueError(f"xpos: layout must be interleaved or half, got {layout!r}; see the top of the file")
    pair = 2 * np.arange(dim // 2) / dim
    return float(base) ** -pair, (pair + 0.4) / 1.4


def _check(q: Tensor, k: Tensor, positions: Places, key_positions: Places, dim: int) -> None:
    for name, x, of, places in (("q", q, "positions", positions), ("k", k, "key_positions", key_positions)):
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim != 4 or x.shape[-1] != dim:
            raise ValueError(f"xpos: {name} must be floating point (b, h, t, {dim}), got {_kind(x)}; split heads first")
        if places is not None and not (_are_numbers(places) and _fits(places, x.shape[0], x.shape[2])):
            form = f"a tensor of numbers (t,) or (b, t) for {name} {_kind(x)}"
            raise ValueError(f"xpos: {of} must be {form}, got {_kind(places)}; torch.as_tensor makes one")
    if q.shape[0] != k.shape[0] or not k.shape[1] or q.shape[1] % k.shape[1]:
        raise ValueError(f"xpos: q and k must be one batch, h a multiple of g, got {tuple(q.shape)}, {tuple(k.shape)}")


def _pair(table: Any, t: int, s: int, batch: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    pair: Any = (table[..., s - t :, :], table) if isinstance(table, Tensor) and table.ndim > 1 else table
    fits = isinstance(pair, tuple) and len(pair) == 2
    for given, rows in zip(pair, (t, s), strict=True) if fits else ():
        fits = fits and _are_numbers(given) and given.dtype in (dtype, torch.float64)
        fits = fits and _fits(given, batch, rows, width)
    if not fits:
        raise ValueError(
            f"xpos: table must be {dtype} (s, {width}) or (b, s, {width}), or a pair, of q and of k, for {t} queries "
            f"and {s} keys, got {_kind(table)}; make it with table(positions, {dtype})"
        )
    return pair


def _fits(given: Tensor, batch: int, *rows: int) -> bool:
    return given.shape in (rows, (1, *rows), (batch, *rows))  # a batch of one serves all


def _numbers(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # ragged, or a tensor that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"xpos: {name} must be finite numbers, got {_kind(value)}")
    return array.astype(np.float64)


def _pairs(x: Any, layout: str) -> tuple[Any, Any]:
    half = x.shape[-1] // 2
    return (x[..., :half], x[..., half:]) if layout == "half" else (x[..., 0::2], x[..., 1::2])


def _are_numbers(value: object) -> bool:
    return isinstance(value, Tensor) and value.dtype != torch.bool and not value.is_complex()


def _kind(value: object) -> str:
    array = "numpy array " * isinstance(value, np.ndarray)
    return f"{array}{getattr(value, 'dtype', type(value).__name__)} {tuple(getattr(value, 'shape', ()))}"
