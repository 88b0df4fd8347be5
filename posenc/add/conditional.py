"""Conditional: add to each patch a small convolution over the patches around it.

Paper: Chu et al., 2021, "Conditional Positional Encodings for Vision Transformers",
       https://arxiv.org/abs/2102.10882, sec. 4.
Used:  CPVT, Twins; SegFormer and PVT v2 have the filter in each MLP, without the sum
Cost:  d (k^2 + 1) numbers to learn; k^2 d products a patch, after the first block or in each stage

Key:   b batch, t tokens, s the same tokens, d model dim, k side of the filter, c taps k^2

    y(r, c) = x(r, c) + bias + sum_ij weight[i, j] x(r + i - k//2, c + j - k//2)

channel by channel, where x is 0 outside the image, and a sum where patches share a position. So a
patch inside an image is filtered with all its neighbors, and one at the border with zeros for those
that are missing: from these zeros the model learns positions, further inward with each layer.
Nothing in it depends on a position itself, so it fits images of any size.

A patch alone has no neighbors: encoding patches one by one is not encoding them together, and a
class token, which has no position in the image, must be left out. Positions are rows and columns
(t, 2), as those of `posenc.positions.grid_positions`; for a whole image in order `on_grid` is
torch's convolution.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def conditional(
    x: ArrayLike,
    positions: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike,
    kernel: int = 3,
) -> np.ndarray:
    """Return what is added to `x` (t, d) in float64, for filters `weight` (d, k, k).

    Raises:
        ValueError: If `positions` are not (t, 2).
    """
    x = np.asarray(x, np.float64)
    weight = np.asarray(weight, np.float64)
    bias = np.asarray(bias, np.float64)
    t, d = x.shape
    p = np.reshape(positions, (t, 2)).astype(np.float64)
    offset = p - p[:, None]  # (t, s, 2)
    steps = np.arange(kernel) - kernel // 2
    y = np.zeros((t, d))
    for i, down in enumerate(steps):
        for j, right in enumerate(steps):
            # the sum over patches at a position, 0 where there is none
            at_tap = (offset == (down, right)).all(axis=-1)  # (t, s)
            y += at_tap @ x * weight[:, i, j]
    return y + bias  # (t, d)


class Conditional(nn.Module):
    """Add a depthwise convolution of the patches around: one filter a channel.

    `weight` (dim, kernel, kernel) starts normal with standard deviation 1/kernel and `bias` (dim,)
    at zero.

    Args:
        dim: Width d of the model.
        kernel: Side k of the filter, which must be odd.

    Raises:
        ValueError: If `dim` is below 1, or `kernel` even.
        ValueError: In a call, if `positions` are missing, or a shape or dtype does not fit.

    Examples:
        >>> encoding = Conditional(dim=1)
        >>> encoding.weight.data[:] = 1.0
        >>> image = torch.ones(1, 9, 1)  # 3 x 3 equal patches
        >>> encoding.on_grid(image, 3, 3).flatten().tolist()  # each, with how many are around it
        [5.0, 7.0, 5.0, 7.0, 10.0, 7.0, 5.0, 7.0, 5.0]
    """

    # a position is a row and a column
    axes = 2

    def __init__(self, dim: int, kernel: int = 3):
        super().__init__()
        if dim < 1:
            raise ValueError(f"conditional: dim must be 1 or more, got {dim}")
        if kernel % 2 == 0:
            raise ValueError(f"conditional: kernel must be odd, got {kernel}; it has a middle")
        self.dim = dim
        self.kernel = kernel
        self.weight = nn.Parameter(torch.randn(dim, kernel, kernel) / kernel)
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) with what its neighbors add, at positions (t, 2) or (b, t, 2).

        They have no default: in a text a patch would lack its neighbors above and below.
        """
        wide = self._wide(x)
        near = self._neighbors(wide, positions)  # (b, c, t, d)
        weight = self.weight.to(wide).flatten(1).T.unsqueeze(1)  # (c, 1, d)
        y = (near * weight).sum(1) + self.bias.to(wide)
        return (wide + y).to(x.dtype)  # (b, t, d)

    def on_grid(self, x: Tensor, height: int, width: int) -> Tensor:
        """Return the same of `x` (b, t, d), an image read row by row."""
        wide = self._wide(x)
        image = wide.mT.unflatten(-1, (height, width))
        weight = self.weight.to(wide).unsqueeze(1)
        bias = self.bias.to(wide)
        # zeros around the image: positions are learned from its border
        half = self.kernel // 2
        y = nn.functional.conv2d(image, weight, bias, padding=half, groups=self.dim)
        return (wide + y.flatten(2).mT).to(x.dtype)  # (b, t, d)

    def _wide(self, x: Tensor) -> Tensor:
        """Return x in float32 or finer, since sums in half precision would lose digits."""
        if x.shape[-1] != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"conditional: x must have shape (b, t, {self.dim}) and a float dtype, got {got}"
            )
        return x.to(torch.promote_types(x.dtype, torch.float32))

    def _neighbors(self, x: Tensor, positions: Tensor | None) -> Tensor:
        """Return for each tap of the filter the patch that it meets, (b, c, t, d)."""
        b, t, _ = x.shape
        # one position would broadcast over all patches without an error
        got = None if positions is None else tuple(positions.shape)
        misfit = got != (t, 2) and got != (1, t, 2) and got != (b, t, 2)
        if positions is None or misfit:
            raise ValueError(
                f"conditional: positions must have shape ({t}, 2) or ({b}, {t}, 2), got {got}; "
                "rows and columns of patches are grid_positions(height, width)"
            )
        device = "cpu" if x.device.type == "mps" else x.device  # mps lacks float64
        p = positions.to(device, torch.float64)
        offset = p.unsqueeze(-3) - p.unsqueeze(-2)  # (..., t, s, 2)
        steps = torch.arange(self.kernel, device=device) - self.kernel // 2
        taps = torch.cartesian_prod(steps, steps).unsqueeze(1)  # (c, 1, 2)
        # a product with ones and zeros sums the patches at a position, 0 where there is none
        at_tap = (offset.unsqueeze(-4) == taps.unsqueeze(-2)).all(-1)  # (..., c, t, s)
        return at_tap.to(x) @ x.unsqueeze(-3)  # (b, c, t, d)
