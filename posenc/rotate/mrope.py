"""M-RoPE: rotate some pairs of queries and keys by the time of a token, some by its row, some by its column.

Paper: Wang et al., 2024, "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any Resolution",
       https://arxiv.org/abs/2409.12191, sec. 2.1.
Used:  Qwen2-VL, Qwen2.5-VL (chunked); Qwen3-VL, Qwen3.5 (interleaved, arXiv 2511.21631)
Cost:  nothing to learn; one table (s, d) a call, one rotation of q and k

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim

    theta_i  = base^(-2i/d),  angle_i = p[axis_i] theta_i,  p = (time, row, column),  i = 0 .. d/2-1
    (x_i, x_j) -> (x_i cos angle_i - x_j sin angle_i, x_i sin angle_i + x_j cos angle_i)

so text, whose three numbers are equal, is rotated as by RoPE, and scores depend on differences of coordinates only.
Sections (T, R, C) count the pairs of an axis. Chunked, the first T turn with time, the next with the row, the last,
which are slowest, with the column. Interleaved, R pairs 1, 4, 7 .. turn with the row, C pairs 2, 5, 8 .. with the
column, and all others with time. Channel j is i + d/2, as in these models; layout="interleaved" pairs 2i, 2i+1.
`mrope_positions` goes on from the largest number used so far, as Qwen's own code does. transformers 5.23 goes on past
the longer side of a video, so text after it takes the numbers of frames again.
"""

from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

Places = Tensor | None
Table = Tensor | tuple[Tensor, Tensor] | None


def mrope(
    x: np.ndarray,
    positions: np.ndarray,
    sections: tuple[int, int, int] | None = None,
    interleaved: bool = False,
    base: float = 1_000_000.0,
    layout: str = "half",
) -> np.ndarray:
    """Return `x` (..., t, d) rotated to `positions` (t, 3) of time, row and column, or (t,) of text."""
    x, places = _numbers("x", x), _numbers("positions", positions)
    axis = _axes(x.shape[-1] if x.ndim > 1 else 0, sections, interleaved, base, layout)
    if places.shape not in (x.shape[-2:-1], (x.shape[-2], 3)):
        raise ValueError(f"mrope: positions must be (t, 3), not (3, t), or (t,) for x of {x.shape}, got {places.shape}")
    theta = float(base) ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])  # (d/2,)
    angle = (places[:, axis] if places.ndim == 2 else places[:, None]) * theta  # (t, d/2)
    (first, second), cos, sin = _split(x, layout), np.cos(angle), np.sin(angle)
    return _joined(first * cos - second * sin, first * sin + second * cos, layout)  # (..., t, d)


def mrope_positions(
    kinds: np.ndarray,
    image_grids: Any = (),
    video_grids: Any = (),
    merge: int = 2,
    seconds_per_grid: Any = None,
    tokens_per_second: float = 1.0,
) -> tuple[np.ndarray, int]:
    """Return the positions (t, 3) of a sequence of text, images and videos, and the number that the next token takes.

    Text counts on by one. An image or a video starts where text would, and adds frame, row and column; what follows
    starts one past the largest number so far. So the j-th new token of decoding stands at next + j on all axes, and
    next - t is what Qwen's code calls the delta. Grids that the tokens contradict are refused with a ValueError.

    Args:
        kinds: Of each token (t,): 0 text, 1 image, 2 video.
        image_grids: Patches (time, height, width) of each image, in order; time is 1.
        video_grids: The same of each video. In Qwen3-VL each frame is a video, with its time as text before it.
        merge: Side of the square of patches that makes one token.
        seconds_per_grid: Seconds from frame to frame of each video, by default 1.
        tokens_per_second: How far a second is: 2 in Qwen2.5-VL. Frames are numbered by the product, rounded down.
    """
    kinds = _numbers("kinds", kinds)
    if kinds.ndim != 1 or not np.isin(kinds, (0, 1, 2)).all():
        raise ValueError(f"mrope: kinds must be 0, 1 or 2 for each token (t,), got {kinds.tolist()}")
    images = _blocks("image_grids", image_grids, merge, None, 1.0)
    videos = _blocks("video_grids", video_grids, merge, seconds_per_grid, tokens_per_second)
    placed, start, at = [np.zeros((0, 3), dtype=np.int64)], 0, 0
    while at < len(kinds):
        text = np.append(np.flatnonzero(kinds[at:]), len(kinds) - at)[0]  # tokens of text from here
        grids = images if kinds[at] == 1 else videos
        block = np.arange(text)[:, None].repeat(3, axis=1) if text else grids.pop(0) if grids else None
        if block is None or not np.array_equal(kinds[at : at + len(block)], [kinds[at]] * len(block)):
            raise ValueError(f"mrope: kinds must be those of the grids, got {kinds[at]:.0f} at {at} where no grid fits")
        placed.append(start + block)
        start, at = start + int(block.max()) + 1, at + len(block)
    if images or videos:
        raise ValueError(f"mrope: kinds must be those of the grids, got none for the last {len(images) + len(videos)}")
    return np.concatenate(placed), start


class MRoPE(nn.Module):
    """Rotate queries and keys by time, row and column. Angles are computed in float64 in each call, and rounded once.

    Args:
        dim: Width d of a head; even.
        sections: Pairs of time, row and column: (16, 24, 24) of d = 128, or in proportion; interleaved (24, 20, 20).
        interleaved: Give every third pair to the row and every third to the column, as Qwen3-VL does.
        base: Sets the slowest turn, base^(-1 + 2/d) radians a position: 1,000,000 in Qwen2-VL, 5,000,000 in Qwen3-VL.
        layout: Which channels turn together: "half" i and i + d/2, "interleaved" 2i and 2i+1.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> positions, following = mrope_positions([0, 1, 1, 1, 1, 0], image_grids=[(1, 4, 4)])
        >>> positions.tolist(), following
        ([[0, 0, 0], [1, 1, 1], [1, 1, 2], [1, 2, 1], [1, 2, 2], [3, 3, 3]], 4)
        >>> MRoPE(128)
        MRoPE(dim=128, sections=(16, 24, 24), interleaved=False, base=1000000.0, layout='half')
    """

    def __init__(
        self, dim: int, sections: Any = None, interleaved: bool = False, base: float = 1e6, layout: str = "half"
    ) -> None:
        super().__init__()
        axis = _axes(dim, sections, interleaved, base, layout)
        self.dim, self.base, self.layout, self.interleaved = int(dim), float(base), layout, interleaved
        self.axes, self.axis, self.sections = 3, tuple(axis.tolist()), tuple(np.bincount(axis, minlength=3).tolist())

    def forward(
        self, q: Tensor, k: Tensor, positions: Places = None, key_positions: Places = None, table: Table = None
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d) rotated to their positions; h is a multiple of g.

        `positions` are (t, 3), (b, t, 3) or (1, t, 3), or (t,) of text, one number for all axes; so `key_positions`. By
        default keys are text at 0 .. s-1, and queries the last t of these. `table`, from `table(key_positions)`,
        replaces both, and queries take its last t rows; or pass a pair, of queries and of keys.
        """
        t, s, dtype = self._check(q, k, positions, key_positions, table)
        if table is None:
            m = torch.arange(s - t, s, device=q.device) if positions is None else positions
            n = torch.arange(s, device=k.device) if key_positions is None else key_positions
            of_k = self.table(n, dtype)
            table = (of_k if m is n else self.table(m, dtype)), of_k
        elif isinstance(table, Tensor):
            table = table[..., s - t :, :], table
        return self._rotated(q, table[0]), self._rotated(k, table[1])  # (b, h, t, d), (b, g, s, d)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the table (..., t, d) of `positions` (..., t, 3) or (t,): cos and sin in the places of a pair."""
        if not _are_numbers(positions) or not positions.ndim or positions.shape[1:][-1:] not in ((), (3,)):
            raise ValueError(f"mrope: positions must be (..., t, 3) or (t,), got {_kind(positions)}")
        if not isinstance(dtype, torch.dtype) or dtype.itemsize < 4 or not dtype.is_floating_point:
            raise ValueError(f"mrope: dtype must be torch.float32 or torch.float64, got {dtype!r}; others are coarse")
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        places, axis = positions.to(where, torch.float64), torch.tensor(self.axis, device="cpu")
        places = places[:, None] if positions.ndim == 1 else places.index_select(-1, axis.to(where, non_blocking=True))
        pair = torch.arange(0, self.dim, 2, dtype=torch.float64, device=where) / self.dim  # (d/2,)
        angle = places * self.base**-pair  # (..., t, d/2)
        return _joined(angle.cos(), angle.sin(), self.layout).to(dtype).to(positions.device)  # (..., t, d)

    def _rotated(self, x: Tensor, table: Tensor) -> Tensor:
        cos, sin = _split(table.to(x.device).unsqueeze(-3), self.layout)
        first, second = _split(x.to(table.dtype), self.layout)  # (b, h, t, d/2)
        return _joined(first * cos - second * sin, first * sin + second * cos, self.layout).to(x.dtype)  # (b, h, t, d)

    def _check(self, q: Tensor, k: Tensor, positions: Any, key_positions: Any, table: Any) -> tuple:
        for name, x in (("q", q), ("k", k)):
            if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim != 4 or x.shape[-1] != self.dim:
                raise ValueError(f"mrope: {name} must be floating point (b, h, t, {self.dim}), got {_kind(x)}")
        (b, h, t, d), (_, g, s, _) = q.shape, k.shape
        if k.shape[0] != b or not g or h % g:
            raise ValueError(f"mrope: q and k must be one batch, h a multiple of g, got {q.shape} and {k.shape}")
        for name, given, n in (("positions", positions, t), ("key_positions", key_positions, s)):
            if given is not None and not (_are_numbers(given) and given.shape in ((n,), (n, 3), (1, n, 3), (b, n, 3))):
                form = f"(t,), (t, 3) or (b, t, 3) = {(b, n, 3)}, which movedim(0, -1) makes of Qwen's (3, b, t)"
                raise ValueError(f"mrope: {name} must be {form}, got {_kind(given)}")
        dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        paired = isinstance(table, tuple) and len(table) == 2
        pair: Any = table if paired else (table, table)
        for given, rows in ((pair[0], t if paired else s), (pair[1], s)) if table is not None else ():
            exact = _are_numbers(given) and given.dtype in (dtype, torch.float64) and (paired or t <= s)
            if not exact or given.shape not in ((rows, d), (1, rows, d), (b, rows, d)):
                form = f"{dtype} {(s, d)} or {(b, s, d)}, or a pair, for {t} queries and {s} keys"
                raise ValueError(f"mrope: table must be {form}, got {_kind(table)}; make it with table(positions)")
        return t, s, dtype

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return ", ".join(f"{n}={vars(self)[n]!r}" for n in ("dim", "sections", "interleaved", "base", "layout"))


def _axes(dim: int, sections: Any, interleaved: bool, base: float, layout: str) -> np.ndarray:
    if not isinstance(dim, int | np.integer) or isinstance(dim, bool) or dim < 2 or dim % 2:
        raise ValueError(f"mrope: dim of x must be an even integer of at least 2, got {dim!r}; channels turn in pairs")
    if not isinstance(interleaved, bool | np.bool_):
        raise ValueError(f"mrope: interleaved must be True or False, got {interleaved!r}")
    if isinstance(base, bool) or not isinstance(base, int | float | np.number) or not 0 < base < np.inf:
        raise ValueError(f"mrope: base must be positive and finite, got {base!r}; Qwen2-VL takes 1,000,000")
    if not isinstance(layout, str) or layout not in ("half", "interleaved"):
        raise ValueError(f"mrope: layout must be half or interleaved, got {layout!r}")
    pairs, share = dim // 2, 5 * dim // 32 if interleaved else 3 * dim // 16
    parts = (pairs - 2 * share, share, share) if sections is None else sections
    most = ((pairs + 1) // 3, pairs // 3) if interleaved else (pairs, pairs)  # every third pair, from 1 and from 2
    whole = isinstance(parts, tuple | list) and all(isinstance(n, int | np.integer) and n >= 0 for n in parts)
    if not whole or len(parts) != 3 or sum(parts) != pairs or np.greater(parts[1:], most).any():
        raise ValueError(f"mrope: sections must be 3 integers, {pairs} in all, last two <= {most}, got {sections!r}")
    axis = np.repeat((0, 1, 2), parts)
    if interleaved:
        axis = np.zeros(pairs, dtype=np.int64)
        axis[1 : 3 * parts[1] : 3], axis[2 : 3 * parts[2] : 3] = 1, 2
    return axis


def _blocks(name: str, grids: Any, merge: int, seconds: Any, rate: Any) -> list[np.ndarray]:
    if not isinstance(merge, int | np.integer) or isinstance(merge, bool) or merge < 1:
        raise ValueError(f"mrope: merge must be a positive integer, got {merge!r}")
    grids, sides = _numbers(name, grids), np.array([1, merge, merge])
    if grids.size and (grids.shape[1:] != (3,) or (grids < 1).any() or (grids % sides).any()):
        raise ValueError(f"mrope: {name} must be (n, 3), positive multiples of {sides.tolist()}, got {grids.tolist()}")
    seconds = np.ones(grids.size // 3) if seconds is None else _numbers("seconds_per_grid", seconds)
    rate = _numbers("tokens_per_second", rate)
    if rate.ndim or seconds.shape != (grids.size // 3,) or not ((seconds * rate > 0) & (seconds * rate < 2**31)).all():
        numbers = f"positive, one for each of {grids.size // 3} videos and one for all"
        raise ValueError(f"mrope: seconds_per_grid and tokens_per_second must be {numbers}, got {seconds}, {rate}")
    blocks = []
    for (frames, rows, columns), step in zip(grids.reshape(-1, 3).astype(int) // sides, seconds * rate, strict=True):
        time = np.floor(np.arange(frames, dtype=np.float32) * np.float32(step))  # as in training: 50 x 0.58 is 29
        block = np.stack(np.meshgrid(time, np.arange(rows), np.arange(columns), indexing="ij"), axis=-1)
        blocks.append(block.reshape(-1, 3).astype(np.int64))
    return blocks


def _split(x: Any, layout: str) -> tuple[Any, Any]:
    half = x.shape[-1] // 2
    return (x[..., :half], x[..., half:]) if layout == "half" else (x[..., 0::2], x[..., 1::2])


def _joined(first: Any, second: Any, layout: str) -> Any:
    library: Any = torch if isinstance(first, Tensor) else np
    pair = library.stack([first, second], -2 if layout == "half" else -1)
    return pair.reshape(*first.shape[:-1], 2 * first.shape[-1])


def _are_numbers(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.dtype != torch.bool and not value.is_complex()


def _numbers(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # ragged, or a tensor that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"mrope: {name} must be finite numbers, got {_kind(value)}")
    return array.astype(np.float64)


def _kind(value: object) -> str:
    return f"{getattr(value, 'dtype', type(value).__name__)} {tuple(getattr(value, 'shape', ()))}"
