"""The positions of M-RoPE: time, row and column of each token of text with images and videos.

Paper: Wang et al., 2024, "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at
       Any Resolution", https://arxiv.org/abs/2409.12191, sec. 2.1.
Used:  Qwen2-VL to Qwen3.5; before `MRoPE`
Cost:  counting, once for a prompt

Key:   t tokens, i the number that text would take

    of text  p = (i, i, i),    of an image or a video  p = (i + frame, i + row, i + column)

What follows starts one past the largest number so far, as in Qwen's own code. So the j-th new token
of decoding stands at following + j on all axes, and following - t is what that code calls the
delta. transformers 5.23 goes on past the longer side of a video: text after it takes numbers of
frames again.
"""

from itertools import repeat

import numpy as np


def mrope_positions(
    kinds, image_grids=(), video_grids=(), merge=2, seconds_per_grid=None, tokens_per_second=1.0
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
    images = [_block(grid, merge) for grid in image_grids]
    videos = [
        _block(grid, merge, seconds * tokens_per_second)
        for grid, seconds in zip(video_grids, seconds_per_grid, strict=True)
    ]
    kinds = np.asarray(kinds)
    for kind, blocks in ((1, images), (2, videos)):
        wanted, found = sum(map(len, blocks)), (kinds == kind).sum()
        if wanted != found:
            raise ValueError(f"mrope_positions: kinds must be {kind} {wanted} times, got {found}")

    word = np.zeros((1, 3), dtype=np.int64)
    waiting = {0: repeat(word), 1: iter(images), 2: iter(videos)}
    placed, following, at = [word[:0]], 0, 0
    while at < len(kinds):
        block = next(waiting[kinds[at]])
        placed.append(following + block)
        following += int(block.max()) + 1
        at += len(block)
    return np.concatenate(placed), following


def _block(grid, merge, step=1.0):
    frames, rows, columns = np.asarray(grid).tolist()
    block = np.indices((frames, rows // merge, columns // merge)).reshape(3, -1).T  # (t, 3)
    # in float32 as in training: 50 x 0.58 is 29
    block[:, 0] = np.floor(block[:, 0].astype(np.float32) * np.float32(step))
    return block
