"""TMRoPE's positions: M-RoPE's, with sound in steps of 40 ms and in a video's own order of time.

Paper: Xu et al., 2025, "Qwen2.5-Omni Technical Report", https://arxiv.org/abs/2503.20215, sec. 2.2.
Used:  Qwen2.5-Omni; before `MRoPE`
Cost:  counting, once for a prompt

Key:   t tokens, i the number that text would take

    of text and sound  p = (i, i, i),        a token of sound is 40 ms: 25 numbers a second
    of an image        p = (i, i + row, i + column)
    of a video         p = (i + floor(25 seconds), i + row, i + column)

A video with its sound starts both at i. Every 2 seconds, its patches come first and then its sound,
so the tokens are not in the order of their numbers. Two marks open it, two close it, and a pair of
marks shares a number. What follows starts one past the largest number so far. transformers 5.23
starts it one past the largest of the last 2 seconds, which is less where a picture has more rows or
columns than the sound has steps.
"""

import numpy as np


def tmrope_positions(
    parts, merge: int = 2, tokens_per_second: float = 25.0, seconds_per_chunk: float = 2.0
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
    placed, following = [np.zeros((0, 3), dtype=np.int64)], 0
    for kind, size, *told in parts:
        marks = 2 * (len(told) == 2)
        if kind in ("text", "audio"):
            block = _line(size)
        elif kind in ("image", "video"):
            seconds, *sound = told or [0.0]
            block = _frames(size, merge, seconds, tokens_per_second)
            block = np.concatenate([block, *map(_line, sound)])
            chunk = block[:, 0] // (tokens_per_second * seconds_per_chunk)
            block = block[np.argsort(chunk, kind="stable")]
        else:
            kinds = "text, audio, image or video"
            raise ValueError(f"tmrope_positions: parts must be of {kinds}, got {kind!r}")
        inner = following + (marks > 0)
        after = inner + 1 + block.max(initial=-1)
        mark = np.ones((marks, 3), dtype=np.int64)
        placed += [following * mark, inner + block, after * mark]
        following = int(after) + (marks > 0)
    return np.concatenate(placed), following


def _line(tokens):
    return np.arange(tokens)[:, None] + np.zeros(3, dtype=np.int64)


def _frames(grid, merge, seconds, tokens_per_second):
    frames, rows, columns = np.asarray(grid).tolist()
    block = np.indices((frames, rows // merge, columns // merge)).reshape(3, -1).T  # (t, 3)
    # in float32, a factor at a time, as in training
    at = block[:, 0].astype(np.float32) * np.float32(seconds)
    block[:, 0] = np.floor(at * np.float32(tokens_per_second))
    return block
