"""Which axis each pair of M-RoPE follows, in the orders of released models.

Paper: Wang et al., 2024, "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at
       Any Resolution", https://arxiv.org/abs/2409.12191, sec. 2.1.
Used:  each as its name says: `MRoPE(dim, axes=mrope_axes(sections, order))`
Cost:  nothing; made once

Key:   p pairs, n axes

    chunked        0 .. 0 1 .. 1 2 .. 2     Qwen2-VL, Qwen2.5-Omni, GLM-4.5V; Hunyuan's four axes
    interleaved    0 1 2 0 1 2 .. 0 0 0     Qwen3-VL, Qwen3.5
    alternating    1 2 1 2 .. 1 2 0 .. 0    Ernie 4.5 VL: row, column, and time in the slowest pairs
                   0 1 0 1 .. 0 1           NeoMME: row and column, no time

Axes are counted as coordinates are: of three, time, row and column. Hunyuan's XD-RoPE has four:
place in the text, column, row, number of the image. Ernie pairs neighbors, (2i, 2i+1): convert its
weights with `convert_checkpoint(state, dim, "half")`, or take `Axial(layout="interleaved")`.

Where transformers 5.23 splits the channels for Hunyuan it doubles each section, not the list of
them, so that both channels of a pair turn with different axes: that is no rotation, and equal only
for text. Tencent's own code and vLLM keep pairs whole, as here.
"""

import numpy as np


def mrope_axes(sections, order: str = "chunked") -> np.ndarray:
    """Return the axis (p,) that each pair follows; `sections` (n,) count the pairs of each axis.

    Examples:
        >>> mrope_axes((2, 3, 3)), mrope_axes((4, 2, 2), "interleaved")
        (array([0, 0, 1, 1, 1, 2, 2, 2]), array([0, 1, 2, 0, 1, 2, 0, 0]))
        >>> mrope_axes((2, 3, 3), "alternating"), mrope_axes((4, 4), "alternating")
        (array([1, 2, 1, 2, 1, 2, 0, 0]), array([0, 1, 0, 1, 0, 1, 0, 1]))
    """
    n = len(sections)
    chunks = np.repeat(np.arange(n), sections)  # (p,)
    if order == "chunked":
        return chunks
    if order == "interleaved":
        own = np.arange(len(chunks)) % n
        seen = np.arange(len(chunks)) // n
        return np.where(seen < np.take(sections, own), own, 0)
    *first, rows, columns = sections
    if order != "alternating" or rows != columns or len(first) > 1:
        orders = "chunked, interleaved, or alternating of (time, n, n) or (n, n)"
        raise ValueError(f"mrope_axes: order must be {orders}, got {order!r} of {tuple(sections)}")
    return np.append(np.tile([n - 2, n - 1], rows), chunks[: sum(first)])
