"""M-RoPE in released models: positions of text, pictures and sound, and the axis of each pair.

Paper: Wang et al., 2024, "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at
       Any Resolution", https://arxiv.org/abs/2409.12191, sec. 2.1; with sound: Xu et al., 2025,
       "Qwen2.5-Omni Technical Report", https://arxiv.org/abs/2503.20215, sec. 2.2.
Used:  with `MRoPE`: Qwen2-VL to Qwen3.5, Qwen2.5-Omni, GLM-4.5V, Hunyuan, Ernie 4.5 VL, NeoMME

Key:   t tokens, i the number that text would take, n axes, r rotated width

Positions, by `mrope_positions`, and with sound by `tmrope_positions`:

    of text                   p = (i, i, i)
    of an image or a video    p = (i + frame, i + row, i + column)
    of a token of sound       p = (i, i, i), 40 ms: 25 numbers a second
    of a video beside sound   p = (i + floor(25 seconds), i + row, i + column)

What follows starts one past the largest number so far, as in Qwen's own code. So the j-th new token
of decoding stands at following + j on all axes, and following - t is what that code calls the
delta. transformers 5.23 goes on past the longer side of a video: text after it takes numbers of
frames again.

A video with its sound starts both at i. Every 2 seconds, its patches come first and then its sound,
so the tokens are not in the order of their numbers. Two marks open it, two close it, and a pair of
marks shares a number. transformers 5.23 starts what follows one past the largest of the last 2
seconds, which is less where a picture has more rows or columns than the sound has steps.

Axes, by `mrope_axes`, for `MRoPE(dim, axes=mrope_axes(sections, order))`:

    chunked        0 .. 0 1 .. 1 2 .. 2     Qwen2-VL, Qwen2.5-Omni, GLM-4.5V; Hunyuan's four axes
    interleaved    0 1 2 0 1 2 .. 0 0 0     Qwen3-VL, Qwen3.5
    alternating    1 2 1 2 .. 1 2 0 .. 0    Ernie 4.5 VL: row, column, and time in the slowest pairs
                   0 1 0 1 .. 0 1           NeoMME: row and column, no time

Of three axes, 0 is time, 1 the row and 2 the column, as in a position. Hunyuan's XD-RoPE has four:
place in the text, column, row, number of the image. Ernie pairs neighbors, (2i, 2i+1): convert its
weights with `convert_checkpoint(state, dim, "half")`, or take `Axial(layout="interleaved")`.

Where transformers 5.23 splits the channels for Hunyuan it doubles each section, not the list of
them, so that both channels of a pair turn with different axes: that is no rotation, and equal only
for text. Tencent's own code and vLLM keep pairs whole, as here.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def mrope_positions(
    kinds: ArrayLike,
    image_grids: Collection[ArrayLike] = (),
    video_grids: Collection[ArrayLike] = (),
    merge: int = 2,
    seconds_per_grid: Iterable[float] | None = None,
    tokens_per_second: float = 1.0,
) -> tuple[np.ndarray, int]:
    """Return the positions (t, 3) of one sequence, and the number that the following token takes.

    `MRoPE` takes torch.from_numpy(positions); for a batch, pad and stack those of its sequences.

    Args:
        kinds: Of each token (t,): 0 text, 1 image, 2 video.
        image_grids: Patches (time, height, width) of each image, in order; time is 1.
        video_grids: The same of each video. In Qwen3-VL each frame is a video, with its time as
            text before it.
        merge: Side of the square of patches that makes one token.
        seconds_per_grid: Seconds from frame to frame of each video, by default 1.
        tokens_per_second: How far a second is: 2 in Qwen2.5-VL. Frames are numbered by the
            product, rounded down.

    Examples:
        >>> mrope_positions([0, 1, 1, 1, 1, 0], image_grids=[(1, 4, 4)])[0].tolist()
        [[0, 0, 0], [1, 1, 1], [1, 1, 2], [1, 2, 1], [1, 2, 2], [3, 3, 3]]
    """
    if seconds_per_grid is None:
        seconds_per_grid = [1.0] * len(video_grids)
    images = [_grid_positions(grid, merge) for grid in image_grids]
    videos = [
        _grid_positions(grid, merge, seconds * tokens_per_second)
        for grid, seconds in zip(video_grids, seconds_per_grid, strict=True)
    ]
    kinds = np.asarray(kinds)
    for kind, blocks in ((1, images), (2, videos)):
        tokens = sum(map(len, blocks))
        count = (kinds == kind).sum()
        if tokens != count:
            raise ValueError(f"mrope_positions: kinds must be {kind} {tokens} times, got {count}")

    # text goes on token by token, a picture or a video as one block
    text = np.zeros((1, 3), dtype=np.int64)
    blocks_of_kind = {0: repeat(text), 1: iter(images), 2: iter(videos)}
    positions = [text[:0]]
    start = following = 0
    while start < len(kinds):
        block = next(blocks_of_kind[kinds[start]])
        positions.append(following + block)
        following += int(block.max()) + 1
        start += len(block)
    return np.concatenate(positions), following


def tmrope_positions(
    parts: Iterable[tuple[Any, ...]],
    merge: int = 2,
    tokens_per_second: float = 25.0,
    seconds_per_chunk: float = 2.0,
) -> tuple[np.ndarray, int]:
    """Return the positions (t, 3) of one sequence, and the number that the following token takes.

    Args:
        parts: What the sequence is made of, in order: ("text", tokens), ("audio", tokens),
            ("image", grid), ("video", grid, seconds), ("video", grid, seconds, audio tokens). A
            grid counts patches (time, height, width), seconds pass from frame to frame. A video
            with sound brings its marks, other marks are text.
        merge: Side of the square of patches that makes one token.
        tokens_per_second: How far a second is.
        seconds_per_chunk: How often sound and video take turns.

    Examples:
        >>> parts = [("text", 1), ("video", (1, 2, 4), 1.0, 2)]
        >>> positions, following = tmrope_positions(parts)
        >>> positions.tolist(), following  # a word, 2 marks, 2 patches, 2 steps of sound, 2 marks
        ([[0, 0, 0], [1, 1, 1], [1, 1, 1], [2, 2, 2], [2, 2, 3], [2, 2, 2], [3, 3, 3], [4, 4, 4], \
[4, 4, 4]], 5)
    """
    tokens_per_chunk = tokens_per_second * seconds_per_chunk
    positions = [np.zeros((0, 3), dtype=np.int64)]
    following = 0
    for kind, size, *timing in parts:
        if kind in ("text", "audio"):
            block = _line_positions(size)
        elif kind in ("image", "video"):
            block = _video_positions(size, merge, timing, tokens_per_second, tokens_per_chunk)
        else:
            kinds = "text, audio, image or video"
            raise ValueError(f"tmrope_positions: parts must be of {kinds}, got {kind!r}")
        # two marks open a video with its sound and two close it; such a pair shares a number
        marks = [np.zeros((2, 3), dtype=np.int64)] if len(timing) == 2 else []
        for piece in (*marks, block, *marks):
            positions.append(following + piece)
            following += int(piece.max(initial=-1)) + 1
    return np.concatenate(positions), following


def _line_positions(tokens: int) -> np.ndarray:
    """Return 0 .. tokens-1 on all three axes, (t, 3)."""
    return np.arange(tokens)[:, None] + np.zeros(3, dtype=np.int64)


def _video_positions(
    grid: ArrayLike,
    merge: int,
    timing: list[Any],
    tokens_per_second: float,
    tokens_per_chunk: float,
) -> np.ndarray:
    """Return the positions (t, 3) of an image, or of a video and its sound, chunk by chunk."""
    seconds, *audio_tokens = timing or [0.0]
    video = _grid_positions(grid, merge, seconds, tokens_per_second)
    block = np.concatenate([video, *map(_line_positions, audio_tokens)])
    # within a chunk of time, the patches stay before the sound
    chunk = block[:, 0] // tokens_per_chunk
    return block[np.argsort(chunk, kind="stable")]


def _grid_positions(grid: ArrayLike, merge: int, *steps: float) -> np.ndarray:
    """Return the positions (t, 3) of a grid, counted from 0; `steps` multiply its frames."""
    frames, rows, columns = np.asarray(grid).tolist()
    block = np.indices((frames, rows // merge, columns // merge)).reshape(3, -1).T  # (t, 3)
    # in float32, a factor at a time, as in training: 50 x 0.58 is 29
    time = block[:, 0].astype(np.float32)
    for step in steps:
        time *= np.float32(step)
    block[:, 0] = np.floor(time)
    return block


def mrope_axes(sections: Sequence[int], order: str = "chunked") -> np.ndarray:
    """Return the axis (r/2,) that each pair follows; `sections` (n,) count the pairs of each axis.

    Examples:
        >>> mrope_axes((2, 3, 3)), mrope_axes((4, 2, 2), "interleaved")
        (array([0, 0, 1, 1, 1, 2, 2, 2]), array([0, 1, 2, 0, 1, 2, 0, 0]))
        >>> mrope_axes((2, 3, 3), "alternating"), mrope_axes((4, 4), "alternating")
        (array([1, 2, 1, 2, 1, 2, 0, 0]), array([0, 1, 0, 1, 0, 1, 0, 1]))
    """
    n = len(sections)
    chunks = np.repeat(np.arange(n), sections)  # (r/2,)
    if order == "chunked":
        return chunks
    if order == "interleaved":
        # an axis whose section is used up leaves its turns to time
        turn, axis = np.divmod(np.arange(len(chunks)), n)
        return np.where(turn < np.take(sections, axis), axis, 0)
    # time may have no section at all
    *time, rows, columns = sections
    if order != "alternating" or rows != columns or len(time) > 1:
        orders = "chunked, interleaved, or alternating of (time, n, n) or (n, n)"
        raise ValueError(f"mrope_axes: order must be {orders}, got {order!r} of {tuple(sections)}")
    return np.append(np.tile([n - 2, n - 1], rows), chunks[: sum(time)])
