"""M-RoPE: rotate some pairs of queries and keys by the time of a token, some by its row, some by its column.

Paper: Wang et al., 2024, "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any Resolution",
       https://arxiv.org/abs/2409.12191, sec. 2.1.
Used:  Qwen2-VL, Qwen2.5-VL (chunked); Qwen3-VL, Qwen3.5 (interleaved, arXiv 2511.21631); GenLIP, by timm's mrope
Cost:  nothing to learn; one table (s, r) a call, one rotation of q and k

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r rotary dim

    theta_i  = base^(-2i/r),  angle_i = p[axis_i] theta_i,  p = (time, row, column),  i = 0 .. r/2-1
    (x_i, x_j) -> (x_i cos angle_i - x_j sin angle_i, x_i sin angle_i + x_j cos angle_i)

so text, with three equal numbers, turns as by RoPE, and scores depend on differences of coordinates only. Sections
(T, R, C) count the pairs of an axis. Chunked, the first T turn with time, the next with the row, the last, which are
slowest, with the column. Interleaved, R pairs 1, 4, 7 .. turn with the row, C pairs 2, 5, 8 .. with the column, or as
many as there are, others with time: (8, 12, 12) is (11, 11, 10), as in transformers and timm. Channel j is i + r/2;
layout="interleaved" pairs 2i, 2i+1. Channels after r stay. `mrope_positions` goes on from the largest number so far, as
Qwen's own code. transformers 5.23 goes on past the longer side of a video: text after it takes numbers of frames again.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Places = Tensor | None
NO_NUMBERS = (torch.bool, torch.complex32, torch.complex64, torch.complex128)
Table = Tensor | tuple[Tensor, Tensor] | None
LAYOUTS = {"half": ((2, -1), -2), "interleaved": ((-1, 2), -1)}  # how channels split, and which axis is that of pairs


def mrope(
    x: np.ndarray,
    positions: np.ndarray,
    sections: tuple[int, int, int] | None = None,
    interleaved: bool = False,
    base: float = 1_000_000.0,
    layout: str = "half",
    rotary_dim: int | None = None,
    theta: Any = None,
    attention_factor: float = 1.0,
) -> np.ndarray:
    """Return `x` (..., t, d) rotated to `positions` (t, 3) of time, row and column, or (t,) of text."""
    x, places = _numbers("x", x), _numbers("positions", positions)
    dim = x.shape[-1] if x.ndim > 1 else 0
    theta, axis = _settings(dim, sections, interleaved, base, layout, rotary_dim, theta, attention_factor)
    fits = places.shape in (x.shape[-2:-1], (x.shape[-2], 3))
    _require(fits, "positions", f"(t, 3), not (3, t), or (t,) for x of {x.shape}", places)
    angle, r = (places[:, axis] if places.ndim == 2 else places[:, None]) * theta, 2 * len(theta)
    cos, sin = float(attention_factor) * np.cos(angle), float(attention_factor) * np.sin(angle)  # (t, r/2)
    first, second = (x[..., : r // 2], x[..., r // 2 : r]) if layout == "half" else (x[..., :r:2], x[..., 1:r:2])
    turned = np.stack([first * cos - second * sin, first * sin + second * cos], axis=LAYOUTS[layout][1])
    return np.concatenate([turned.reshape(*x.shape[:-1], r), x[..., r:]], axis=-1)  # (..., t, d)


def mrope_positions(
    kinds: np.ndarray,
    image_grids: Any = (),
    video_grids: Any = (),
    merge: int = 2,
    seconds_per_grid: Any = None,
    tokens_per_second: float = 1.0,
) -> tuple[np.ndarray, int]:
    """Return the positions (t, 3) of one sequence of text, images and videos, and the number that the next token takes.

    Text counts on by one. An image or a video starts where text would, and adds frame, row and column; what follows
    starts one past the largest number so far. So the j-th new token of decoding stands at next + j on all axes, and
    next - t is what Qwen's code calls the delta. Grids that the tokens contradict are refused with a ValueError.
    `MRoPE` takes torch.from_numpy(positions); for a batch, pad and stack what its sequences give.

    Args:
        kinds: Of each token (t,): 0 text, 1 image, 2 video.
        image_grids: Patches (time, height, width) of each image, in order; time is 1.
        video_grids: The same of each video. In Qwen3-VL each frame is a video, with its time as text before it.
        merge: Side of the square of patches that makes one token.
        seconds_per_grid: Seconds from frame to frame of each video, by default 1.
        tokens_per_second: How far a second is: 2 in Qwen2.5-VL. Frames are numbered by the product, rounded down.

    Examples:
        >>> mrope_positions([0, 1, 1, 1, 1, 0], image_grids=[(1, 4, 4)])[0].tolist()
        [[0, 0, 0], [1, 1, 1], [1, 1, 2], [1, 2, 1], [1, 2, 2], [3, 3, 3]]
    """
    kinds = _numbers("kinds", kinds)
    _require(kinds.ndim == 1 and np.isin(kinds, (0, 1, 2)).all(), "kinds", "0, 1 or 2 for each token (t,)", kinds)
    images = iter(_blocks("image_grids", image_grids, merge, None, 1.0))
    videos = iter(_blocks("video_grids", video_grids, merge, seconds_per_grid, tokens_per_second))
    placed, start, at = [np.zeros((0, 3), dtype=np.int64)], 0, 0
    while at < len(kinds):
        text = np.append(np.flatnonzero(kinds[at:]), len(kinds) - at)[0]  # tokens of text from here
        block = np.tile(np.arange(text), (3, 1)).T if text else next(images if kinds[at] == 1 else videos, None)
        if block is None or (kinds[at : at + len(block)] == kinds[at]).sum() < len(block):
            raise ValueError(f"mrope: kinds must be those of the grids, got {kinds[at]:.0f} at {at} where no grid fits")
        placed.append(start + block)
        start, at = start + int(block.max()) + 1, at + len(block)
    _require(not [*images, *videos], "kinds", "those of the grids", "none for the last of them")
    return np.concatenate(placed), start


class MRoPE(nn.Module):
    """Rotate queries and keys by time, row and column. Angles are computed in float64 in each call, and rounded once.

    Args:
        dim: Width d of a head; even.
        sections: Pairs of time, row and column: (16, 24, 24) of d = 128, or in proportion; interleaved (24, 20, 20).
        interleaved: Give every third pair to the row and every third to the column, as Qwen3-VL does.
        base: Sets the slowest turn, base^(-1 + 2/r) radians a position: 1,000,000 in Qwen2-VL, 5,000,000 in Qwen3-VL.
        layout: Which channels turn together: "half" i and i + r/2, "interleaved" 2i and 2i+1.
        rotary_dim: How many channels r turn, the first ones; all by default, 64 of 256 in Qwen3.5.
        theta: Frequencies (r/2,) in place of those of `base`, such as yarn's of Qwen2.5-VL.
        attention_factor: Multiplies cosine and sine, as YaRN does.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> MRoPE(128).sections, MRoPE(256, interleaved=True, rotary_dim=64).sections
        ((16, 24, 24), (12, 10, 10))
    """

    def __init__(
        self,
        dim: int,
        sections: Any = None,
        interleaved: bool = False,
        base: float = 1_000_000.0,
        layout: str = "half",
        rotary_dim: int | None = None,
        theta: Any = None,
        attention_factor: float = 1.0,
    ) -> None:
        super().__init__()
        theta, axis = _settings(dim, sections, interleaved, base, layout, rotary_dim, theta, attention_factor)
        self.dim, self.base, self.layout, self.interleaved, self.axes = int(dim), float(base), layout, interleaved, 3
        self.rotary_dim, self.attention_factor = 2 * len(theta), float(attention_factor)
        self.theta, self.axis = tuple(theta.tolist()), tuple(axis.tolist())
        self.sections = tuple(np.bincount(axis, minlength=3).tolist())

    def forward(
        self, q: Tensor, k: Tensor, positions: Places = None, key_positions: Places = None, table: Table = None
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d) rotated to their positions; h is a multiple of g.

        `positions` are (t, 3), (b, t, 3), (1, t, 3), or (t,) of text, one number for all axes; so `key_positions`,
        by default those of as many queries. Else the default is text at 0 .. s-1, of which queries are the last t.
        `table`, from `table(key_positions)`, replaces both, and queries take its last t rows; or pass a pair, of
        queries and of keys.
        """
        t, s, dtype = self._check(q, k, positions, key_positions, table)
        if table is None:
            key_positions = positions if key_positions is None and positions is not None and t == s else key_positions
            m = torch.arange(s - t, s, device=q.device) if positions is None else positions
            n = torch.arange(s, device=k.device) if key_positions is None else key_positions
            of_k = self.table(n, dtype)
            table = (of_k if m is n else self.table(m, dtype)), of_k
        elif isinstance(table, Tensor):
            table = table[..., s - t :, :], table
        return self._rotated(q, table[0]), self._rotated(k, table[1])  # (b, h, t, d), (b, g, s, d)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the table (..., t, r) of `positions` (..., t, 3) or (t,): cos and sin in the places of a pair."""
        fits = isinstance(positions, Tensor) and positions.dtype not in NO_NUMBERS and positions.ndim
        _require(
            fits and positions.shape[1:][-1:] in ((), (3,)), "positions", "a tensor (..., t, 3) or (t,)", positions
        )
        _require(dtype is torch.float32 or dtype is torch.float64, "dtype", "torch.float32 or torch.float64", dtype)
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        places, axis = positions.to(where, torch.float64), torch.tensor(self.axis, device="cpu")
        places = places[:, None] if positions.ndim == 1 else places.index_select(-1, axis.to(where, non_blocking=True))
        angle = places * torch.tensor(self.theta, dtype=torch.float64, device=where)  # (..., t, r/2)
        turn = self.attention_factor * torch.stack((angle.cos(), angle.sin()), LAYOUTS[self.layout][1]).flatten(-2)
        return turn.to(dtype).to(positions.device)  # (..., t, r)

    def _rotated(self, x: Tensor, table: Tensor) -> Tensor:
        r, (split, axis) = self.rotary_dim, LAYOUTS[self.layout]
        cos, sin = table.to(x.device).unsqueeze(-3).unflatten(-1, split).unbind(axis)
        first, second = x[..., :r].to(table.dtype).unflatten(-1, split).unbind(axis)  # (b, h, t, r/2)
        turned = torch.stack((first * cos - second * sin, first * sin + second * cos), axis).flatten(-2).to(x.dtype)
        return turned if r == self.dim else torch.cat([turned, x[..., r:]], dim=-1)  # (b, h, t, d)

    def _check(self, q: Tensor, k: Tensor, positions: Any, key_positions: Any, table: Any) -> tuple:
        for name, x in (("q", q), ("k", k)):
            fits = isinstance(x, Tensor) and x.is_floating_point() and x.ndim == 4 and x.shape[3] == self.dim
            _require(fits, name, f"floating point (b, h, t, {self.dim})", x)
        (b, h, t, _), (_, g, s, _), r = q.shape, k.shape, self.rotary_dim
        _require(len(k) == b and g and h % g == 0, "q and k", "one batch, h a multiple of g", (q.shape, k.shape))
        for name, given, n in (("positions", positions, t), ("key_positions", key_positions, s)):
            fits = isinstance(given, Tensor) and given.dtype not in NO_NUMBERS
            fits = given is None or (fits and given.shape in ((n,), (n, 3), (1, n, 3), (b, n, 3)))
            form = f"a tensor (t,), (t, 3) or (b, t, 3) = {(b, n, 3)}, which movedim(0, -1) makes of Qwen's (3, b, t)"
            _require(fits, name, form, given)
        dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        pair: Any = table if isinstance(table, tuple) and len(table) == 2 else (table, table)
        for given, rows in ((pair[0], t if pair is table else s), (pair[1], s)) if table is not None else ():
            fits = isinstance(given, Tensor) and given.dtype in (dtype, torch.float64) and (pair is table or t <= s)
            fits = fits and given.shape in ((rows, r), (1, rows, r), (b, rows, r))
            form = f"table(positions) in {dtype}, {(s, r)} or {(b, s, r)}, or a pair, for {t} queries and {s} keys"
            _require(fits, "table", form, given)
        return t, s, dtype

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        names = ("dim", "sections", "interleaved", "base", "layout", "rotary_dim", "attention_factor")
        return ", ".join(f"{name}={vars(self)[name]!r}" for name in names)


def _settings(dim: Any, parts: Any, interleaved: Any, base: Any, layout: Any, r: Any, theta: Any, factor: Any) -> tuple:
    r = dim if r is None else r
    for name, n in (("dim of x", dim), ("rotary_dim", r)):
        _require(isinstance(n, int | np.integer) and 2 <= n <= dim and n % 2 == 0, name, "even, from 2 to d", n)
    for name, n in (("base", base), ("attention_factor", factor)):
        _require(isinstance(n, int | float | np.number) and n is not True and 0 < n < np.inf, name, "in (0, inf)", n)
    _require(isinstance(layout, str) and layout in LAYOUTS, "layout", "half or interleaved", layout)
    _require(isinstance(interleaved, bool | np.bool_), "interleaved", "True or False", interleaved)
    made = float(base) ** (-np.arange(0, r, 2) / r) if theta is None else _numbers("theta", theta)  # (r/2,)
    _require(made.shape == (r // 2,), "theta", f"{r // 2} frequencies, one for each pair", theta)
    parts = (r // 2 - 2 * (n := (5 if interleaved else 6) * r // 32), n, n) if parts is None else parts
    fits = isinstance(parts, tuple | list) and all(isinstance(n, int | np.integer) and n >= 0 for n in parts)
    _require(fits and len(parts) == 3 and sum(parts) == r // 2, "sections", f"3 integers, {r // 2} in all", parts)
    axis = np.repeat((0, 1, 2), parts)  # (r/2,)
    if interleaved:
        axis[:], axis[1 : 3 * parts[1] : 3], axis[2 : 3 * parts[2] : 3] = 0, 1, 2
    return made, axis


def _blocks(name: str, grids: Any, merge: int, seconds: Any, rate: Any) -> list[np.ndarray]:
    _require(isinstance(merge, int | np.integer) and merge is not True and merge > 0, "merge", "at least 1", merge)
    grids, sides = _numbers(name, grids), np.array([1, merge, merge])
    fits = not grids.size or (grids.shape[1:] == (3,) and (grids > 0).all() and not (grids % sides).any())
    _require(fits, name, f"(n, 3), positive multiples of {sides.tolist()}", grids.tolist())
    seconds = np.ones(grids.size // 3) if seconds is None else _numbers("seconds_per_grid", seconds)
    rate, n = _numbers("tokens_per_second", rate), grids.size // 3
    fits = not rate.ndim and seconds.shape == (n,) and ((seconds * rate > 0) & (seconds * rate < 2**31)).all()
    _require(fits, "seconds_per_grid and tokens_per_second", f"positive, {n} for videos and 1", (seconds, rate))
    blocks = [np.indices(size).reshape(3, -1).T for size in grids.reshape(-1, 3).astype(int) // sides]
    for block, step in zip(blocks, seconds * rate, strict=True):
        block[:, 0] = np.floor(block[:, 0].astype(np.float32) * np.float32(step))  # as in training: 50 x 0.58 is 29
    return blocks


def _numbers(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # ragged, or a tensor that NumPy cannot read
        array = np.asarray(None)
    _require(array.dtype.kind in "iuf" and np.isfinite(array).all(), name, "finite numbers", value)
    return array.astype(np.float64)


def _require(fits: Any, name: str, condition: str, got: Any) -> None:
    if not fits:
        got = f"{type(got).__name__} {got.dtype} {tuple(got.shape)}" if hasattr(got, "dtype") else repr(got)
        remedy = "; torch.from_numpy makes one of an array" if "tensor" in condition else ""
        raise ValueError(f"mrope: {name} must be {condition}, got {got}{remedy}")
