"""Swin: index and resize tables of relative position biases, as checkpoints of Swin and BEiT have.

Paper: Liu et al., 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows",
       https://arxiv.org/abs/2103.14030, eq. 4.
Used:  to read checkpoints of Swin and BEiT, or to give them another window
Cost:  one new table for each layer, once

Key:   h heads, t tokens, a axes, r rows of a table, H rows of a window, W columns

    row(m, n) = (dy + H - 1)(2W - 1) + dx + W - 1,  (dy, dx) = cell of token m - cell of n

so a table (r, h) has a row for each offset of two tokens in a window, (2H-1)(2W-1), as the weight
of `posenc/bias/window.py`. BEiT's class token has no cell: three more rows end its table, for this
token with patches, for patches with it, and for it with itself.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def relative_index(window: Sequence[int], class_token: bool = False) -> np.ndarray:
    """Return the row of the table for each pair of a window's tokens, (t, t).

    The tokens run row by row; a `class_token` comes before them.

    Examples:
        >>> relative_index((1, 3))  # three tokens in a row have five offsets
        array([[2, 1, 0],
               [3, 2, 1],
               [4, 3, 2]])
    """
    tokens = int(np.prod(window))
    index = np.zeros((tokens, tokens), int)  # (t, t)
    # axis by axis, as the digits of a number, so that windows may have three axes as well
    for size, coordinate in zip(window, np.indices(window), strict=True):
        coordinate = coordinate.ravel()  # (t,)
        offset = coordinate[:, None] - coordinate  # (t, t)
        index = index * (2 * size - 1) + offset + size - 1  # (t, t)
    if class_token:
        rows = index.max() + 1
        index = np.pad(index, (1, 0))
        index[0] = rows
        index[:, 0] = rows + 1
        index[0, 0] = rows + 2
    return index


def resize_window(
    weight: Tensor, window: Sequence[int], new_window: Sequence[int], mode: str = "cubic"
) -> Tensor:
    """Return the table `weight` (r, h) of a `window` (H, W) for a `new_window`.

    `mode` is "cubic", as in Swin, or "linear", as in transformers' BEiT; PyTorch calls them bicubic
    and bilinear. The three rows of a class token stay.

    Raises:
        ValueError: If `weight` is not of floats, or has not a row for each offset of the window.

    Examples:
        >>> resize_window(torch.zeros(13 * 13, 3), (7, 7), (12, 12)).shape  # 3 heads
        torch.Size([529, 3])
    """
    old_size = [2 * size - 1 for size in window]
    new_size = [2 * size - 1 for size in new_window]
    rows = old_size[0] * old_size[1]
    if len(weight) not in (rows, rows + 3) or not weight.is_floating_point():
        raise ValueError(
            f"swin: weight must be floats of {rows} or {rows + 3} rows, "
            f"got {weight.dtype} {tuple(weight.shape)}"
        )
    # sums in half precision would lose digits
    table = weight.to(torch.promote_types(weight.dtype, torch.float32)).T  # (h, r)
    # a picture of offsets, with heads as its channels
    image = table[None, :, :rows].unflatten(2, old_size)
    image = F.interpolate(image, new_size, mode=f"bi{mode}", align_corners=False)
    resized = torch.cat([image[0].flatten(1), table[:, rows:]], dim=1).T
    return resized.to(weight.dtype)
