"""M-RoPE in released models: positions of text, images and sound, and the axis of each pair.

Paper: Wang et al., 2024, "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at
       Any Resolution", https://arxiv.org/abs/2409.12191, sec. 2.1; with sound: Xu et al., 2025,
       "Qwen2.5-Omni Technical Report", https://arxiv.org/abs/2503.20215, sec. 2.2.
Used:  with `MRoPE`: Qwen2-VL to Qwen3.5, Qwen2.5-Omni, GLM-4.5V, Hunyuan, Ernie 4.5 VL, NeoMME

Key:   t tokens, i the position that text would have, n axes, r rotary dim

The rotation itself is `posenc.rotate.mrope`. Positions, by `mrope_positions`, and with sound by
`tmrope_positions`:

    of text                   p = (i, i, i)
    of an image or a video    p = (i + frame, i + row, i + column)
    of a token of sound       p = (i, i, i)
    of a video beside sound   p = (i + floor(25 seconds), i + row, i + column)

A token of sound is 40 ms long and takes one position, so a second has 25; a frame of a video beside
it has the position that the sound has reached by then.

What follows starts one past the largest position so far, as in Qwen's own code. So the j-th new
token of decoding has position following + j on all axes, and following - t is what that code calls
the delta. transformers 5.23 starts it max(rows, columns) past the start of a video: after a long
one, text has positions of its frames again.

A video with its sound starts both at i. Every 2 seconds, its patches come first and then its sound,
so the tokens are not in the order of their positions. Two marks open it, two close it, and a pair
of marks shares a position. transformers 5.23 starts what follows one past the largest of the last 2
seconds, which is less where a picture has more rows or columns than the sound has steps.

Axes, by `mrope_axes`, for `MRoPE(dim, axes=mrope_axes(sections, order))`:

    chunked        0 .. 0 1 .. 1 2 .. 2     Qwen2-VL, Qwen2.5-Omni, GLM-4.5V; Hunyuan's four axes
    interleaved    0 1 2 0 1 2 .. 0 0 0     Qwen3-VL, Qwen3.5
    alternating    1 2 1 2 .. 1 2 0 .. 0    Ernie 4.5 VL: row, column, and time in the last pairs
                   0 1 0 1 .. 0 1           NeoMME: row and column, no time

Of three axes, 0 is time, 1 the row and 2 the column, as in a position. Hunyuan's XD-RoPE has four:
position in the text, column, row, number of the image. Ernie pairs neighbors, (2i, 2i+1): convert
its weights with `convert_checkpoint(state, dim, "half")`, or take `Axial(layout="interleaved")`.

Where transformers 5.23 splits the channels for Hunyuan it doubles each section, not the list of
them, so that the two channels of a pair get different axes: that is no rotation, and equal only for
text. Tencent's own code and vLLM keep pairs whole, as here.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

# the forms of a part, by its name
PART_FORMS = {
    "text": "('text', tokens)",
    "audio": "('audio', tokens)",
    "image": "('image', grid)",
    "video": "('video', grid, seconds) or ('video', grid, seconds, audio tokens)",
}
PART_LENGTHS = {"text": (2,), "audio": (2,), "image": (2,), "video": (3, 4)}


def mrope_positions(
    kinds: ArrayLike,
    image_grids: Collection[ArrayLike] = (),
    video_grids: Collection[ArrayLike] = (),
    merge: int = 2,
    seconds_per_grid: Iterable[float] | None = None,
    tokens_per_second: float = 1.0,
) -> tuple[np.ndarray, int]:
    """Return the positions (t, 3) of one sequence, and that of the token that follows.

    `MRoPE` takes torch.from_numpy(positions); for a batch, pad and stack those of its sequences.

    Args:
        kinds: Of each token (t,): 0 text, 1 image, 2 video; `mm_token_type_ids` of transformers.
        image_grids: Patches (time, height, width) of each image, in order; time is 1.
        video_grids: The same of each video. In Qwen3-VL each frame is a video, with its time as
            text before it.
        merge: Side of the square of patches that makes one token, `spatial_merge_size`.
        seconds_per_grid: Seconds from frame to frame of each video, by default 1.
        tokens_per_second: How many positions a second of video is long: 2 in Qwen2.5-VL. A frame's
            position is its second times this, rounded down.

    Raises:
        ValueError: If `kinds` has a number that is no kind of token.
        ValueError: If `kinds` has more or fewer tokens of images or videos than their grids.
        ValueError: If other tokens cut the run of an image or a video.
        ValueError: If `seconds_per_grid` has not one number for each video.
        ValueError: If a grid is not of whole tokens.

    Examples:
        >>> mrope_positions([0, 1, 1, 1, 1, 0], image_grids=[(1, 4, 4)])[0].tolist()
        [[0, 0, 0], [1, 1, 1], [1, 1, 2], [1, 2, 1], [1, 2, 2], [3, 3, 3]]
    """
    seconds = [1.0] * len(video_grids) if seconds_per_grid is None else list(seconds_per_grid)
    if len(seconds) != len(video_grids):
        raise ValueError(
            f"mrope_positions: seconds_per_grid must have {len(video_grids)} values, one for each "
            f"video, got {len(seconds)}; None is 1 second each"
        )
    images = [_grid_positions(grid, merge) for grid in image_grids]
    videos = [
        _grid_positions(grid, merge, seconds_per_frame * tokens_per_second)
        for grid, seconds_per_frame in zip(video_grids, seconds, strict=True)
    ]
    kinds = np.asarray(kinds)
    _check_kinds(kinds, images, videos)
    positions = [np.zeros((0, 3), dtype=np.int64)]
    following = 0
    for block in _blocks(kinds, images, videos):
        positions.append(following + block)
        following += int(block.max()) + 1
    return np.concatenate(positions), following


def _check_kinds(kinds: np.ndarray, images: list[np.ndarray], videos: list[np.ndarray]) -> None:
    """Refuse other kinds than 0, 1 and 2, and other counts of tokens than those of the grids."""
    for kind in kinds.tolist():
        if kind not in (0, 1, 2):
            raise ValueError(
                f"mrope_positions: kinds must be 0 (text), 1 (image) or 2 (video), got {kind}; "
                "tmrope_positions has sound besides"
            )
    for kind, blocks in ((1, images), (2, videos)):
        tokens = sum(map(len, blocks))
        count = (kinds == kind).sum()
        if tokens != count:
            raise ValueError(
                f"mrope_positions: kinds must be {kind} {tokens} times, as the grids have tokens, "
                f"got {count}; merge counts too"
            )


def _blocks(
    kinds: np.ndarray, images: list[np.ndarray], videos: list[np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield positions counted from 0: text token by token, an image or a video as one block."""
    text = np.zeros((1, 3), dtype=np.int64)
    blocks_of_kind = {1: iter(images), 2: iter(videos)}
    start = 0
    while start < len(kinds):
        kind = kinds[start]
        block = next(blocks_of_kind[kind]) if kind else text
        run = kinds[start : start + len(block)].tolist()
        if set(run) != {kind}:
            raise ValueError(
                f"mrope_positions: kinds must be {kind} for {len(block)} tokens on end from token "
                f"{start}, as their grid has them, got {run}; no other token may stand between"
            )
        yield block
        start += len(block)


def tmrope_positions(
    parts: Iterable[tuple[Any, ...]],
    merge: int = 2,
    tokens_per_second: float = 25.0,
    seconds_per_chunk: float = 2.0,
) -> tuple[np.ndarray, int]:
    """Return the positions (t, 3) of one sequence, and that of the token that follows.

    Args:
        parts: What the sequence is made of, in order: ("text", tokens), ("audio", tokens),
            ("image", grid), ("video", grid, seconds), ("video", grid, seconds, audio tokens). A
            grid counts patches (time, height, width), seconds pass from frame to frame. A video
            with sound brings its marks, other marks are text.
        merge: Side of the square of patches that makes one token.
        tokens_per_second: How many positions a second of video is long: as many as a second of
            sound has tokens, 25 of 40 ms in Qwen2.5-Omni.
        seconds_per_chunk: How many seconds of video and of sound alternate.

    Raises:
        ValueError: If a part begins with another name than these.
        ValueError: If a part has another form than its name requires.
        ValueError: If a grid is not of whole tokens.

    Examples:
        >>> parts = [("text", 1), ("video", (1, 2, 4), 1.0, 2)]
        >>> positions, following = tmrope_positions(parts)
        >>> positions.tolist(), following  # a token, 2 marks, 2 patches, 2 steps of sound, 2 marks
        ([[0, 0, 0], [1, 1, 1], [1, 1, 1], [2, 2, 2], [2, 2, 3], [2, 2, 2], [3, 3, 3], [4, 4, 4], \
[4, 4, 4]], 5)
    """
    tokens_per_chunk = tokens_per_second * seconds_per_chunk
    positions = [np.zeros((0, 3), dtype=np.int64)]
    following = 0
    for part in parts:
        _check_part(part)
        kind, size, *timing = part
        if kind in ("text", "audio"):
            block = _line_positions(size)
        else:
            block = _video_positions(size, merge, timing, tokens_per_second, tokens_per_chunk)
        # two marks open a video with its sound and two close it; such a pair shares a position
        marks = [np.zeros((2, 3), dtype=np.int64)] if len(timing) == 2 else []
        for piece in (*marks, block, *marks):
            positions.append(following + piece)
            following += int(piece.max(initial=-1)) + 1
    return np.concatenate(positions), following


def _check_part(part: tuple[Any, ...]) -> None:
    """Refuse a part of none of the forms that are documented."""
    kind = part[0] if part else None
    # in a tuple: a dict raises a TypeError of its own for what it cannot hash, such as a list
    if kind not in tuple(PART_FORMS):
        kinds = "text, audio, image or video"
        raise ValueError(
            f"tmrope_positions: parts must be of {kinds}, got {kind!r}; marks are text"
        )
    if len(part) not in PART_LENGTHS[kind]:
        raise ValueError(
            f"tmrope_positions: parts of {kind} must be {PART_FORMS[kind]}, got {part!r}; a grid "
            "is (time, height, width), seconds pass from frame to frame"
        )


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


def _grid_positions(grid: ArrayLike, merge: int, *factors: float) -> np.ndarray:
    """Return the positions (t, 3) of a grid, counted from 0; `factors` multiply its frames."""
    counts = np.asarray(grid).tolist()
    if np.shape(counts) != (3,) or min(counts) < 1 or counts[1] % merge or counts[2] % merge:
        raise ValueError(
            f"mrope: grids must be (time, height, width), with height and width multiples of "
            f"{merge}, got {counts}; they count patches, of which merge x merge make a token"
        )
    frames, rows, columns = counts
    block = np.indices((frames, rows // merge, columns // merge)).reshape(3, -1).T  # (t, 3)
    # in float32, a factor at a time, as in training: 50 x 0.58 is 29
    time = block[:, 0].astype(np.float32)
    for factor in factors:
        time *= np.float32(factor)
    block[:, 0] = np.floor(time)
    return block


def mrope_axes(sections: Sequence[int], order: str = "chunked") -> np.ndarray:
    """Return the axis (r/2,) that each pair follows.

    Args:
        sections: How many pairs each axis has, (n,), in the order of the axes: (time, rows,
            columns). Ernie's configuration has time last: its [22, 22, 20] is (20, 22, 22) here.
        order: How the axes share the pairs, from the highest frequency to the lowest. "chunked":
            the first axis all its pairs, then the next. "interleaved": the axes alternate; where an
            axis has no pairs left, time takes its turn. "alternating": rows and columns alternate,
            and time, if it has a section, has the last pairs.

    Raises:
        ValueError: If `order` is none of these.
        ValueError: If "alternating" is not of as many rows as columns, with at most one axis more.

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
        # an axis whose section is used up leaves further pairs to time
        period, axis = np.divmod(np.arange(len(chunks)), n)
        return np.where(period < np.take(sections, axis), axis, 0)
    # time may have no section at all
    *time, rows, columns = sections
    if order != "alternating" or rows != columns or len(time) > 1:
        orders = "chunked, interleaved, or alternating of (time, n, n) or (n, n)"
        raise ValueError(
            f"mrope_axes: order must be {orders}, got {order!r} of {tuple(sections)}; sections "
            "are in the order time, rows, columns"
        )
    return np.append(np.tile([n - 2, n - 1], rows), chunks[: sum(time)])
