"""Convolution: add to each token a wide, learned convolution over the tokens around it.

Paper: Baevski et al., 2020, "wav2vec 2.0: A Framework for Self-Supervised Learning of Speech
       Representations", https://arxiv.org/abs/2006.11477, sec. 2.
Used:  wav2vec 2.0, HuBERT, WavLM, UniSpeech, SEW, SpeechT5 as written; data2vec stacks five
Cost:  (d, d/g, c) numbers to learn; d c d/g products a token, before the first layer only

Key:   b batch, t tokens, s the same tokens, d model dim, c taps of the filter, g groups, i inputs

    y(p) = x(p) + gelu(bias + sum_j weight[..., j] x(p + j - c//2)),    j = 0 .. c-1

where x is 0 at a position without a token, and a sum where tokens share one. So the result depends
on which tokens are near on which side, and near a border on the distance to it, since the sum has
fewer terms there. Nothing depends on a position itself: shifting all tokens changes nothing, and no
length is out of distribution.

A token alone has no neighbors, and half of them come later: it is for encoders. Decoding token by
token is not prefill, and what lies in padding or in another document of a row must be 0, or be
convolved apart. The weight norm of wav2vec 2.0 is folded: its `conv.weight` is this weight.
"""

import math

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

# which NumPy lacks
_erf = np.vectorize(math.erf, otypes=[float])


def convolution(
    x: ArrayLike,
    positions: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike,
    kernel: int = 128,
    groups: int = 16,
) -> np.ndarray:
    """Return what is added to `x` (t, d) in float64, for a filter `weight` (d, d/g, c).

    Raises:
        ValueError: If `positions` are not (t,).
    """
    x = np.asarray(x, np.float64)
    t, d = x.shape
    p = np.reshape(positions, t).astype(np.float64)
    taps = np.arange(kernel) - kernel // 2  # (c,)
    # the sum over tokens at a position, 0 where there is none
    at_tap = p == (p[:, None] + taps)[..., None]  # (t, c, s)
    near = (at_tap @ x).reshape(t, kernel, groups, -1)  # (t, c, g, i)
    filters = np.asarray(weight, np.float64).reshape(groups, -1, d // groups, kernel)
    y = np.einsum("tcgi,goic->tgo", near, filters).reshape(t, d) + bias
    return y * (1 + _erf(y / 2**0.5)) / 2  # (t, d)


class Convolution(nn.Module):
    """Add a convolution over the neighbors, after GELU.

    `weight` (dim, dim/groups, kernel) starts normal with standard deviation 2/sqrt(kernel dim), as
    in wav2vec 2.0, and `bias` (dim,) at zero.

    Args:
        dim: Width d of the model.
        kernel: Positions c that the filter covers, c//2 of them before the token.
        groups: Groups g of channels that are filtered apart.

    Raises:
        ValueError: If `dim` is not a positive multiple of `groups`.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> encoding = Convolution(dim=1, kernel=3, groups=1)
        >>> encoding.weight.data[0, 0] = torch.tensor([100.0, 0.0, 0.0])  # of the token before
        >>> encoding(torch.tensor([1.0, 2.0, 3.0])[None, :, None])[0, :, 0].tolist()
        [1.0, 102.0, 203.0]
    """

    def __init__(self, dim: int, kernel: int = 128, groups: int = 16):
        super().__init__()
        if dim % groups or dim < 1:
            raise ValueError(f"convolution: dim must be a multiple of {groups} groups, got {dim}")
        self.dim = dim
        self.kernel = kernel
        self.groups = groups
        deviation = 2 / (kernel * dim) ** 0.5
        self.weight = nn.Parameter(deviation * torch.randn(dim, dim // groups, kernel))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) with what its neighbors add.

        Neighbors are those at neighboring positions, numbers (t,) or (b, t), in any order. With
        t > 1, `positions` default to 0 .. t-1, as in speech, for which torch's own convolution is
        taken; a lone token, which may have neighbors elsewhere, must be given its own.
        """
        self._check(x, positions)
        # sums in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        if positions is None:
            y = self._in_line(wide)
        else:
            y = self._by_position(wide, positions)
        return (wide + nn.functional.gelu(y)).to(x.dtype)  # (b, t, d)

    def _in_line(self, x: Tensor) -> Tensor:
        """Return the filtered x (b, t, d) of tokens at 0 .. t-1."""
        c = self.kernel
        # an even filter reaches one further back than ahead
        padded = nn.functional.pad(x.mT, (c // 2, (c - 1) // 2))
        weight, bias = self.weight.to(x), self.bias.to(x)  # (d, i, c), (d,)
        return nn.functional.conv1d(padded, weight, bias, groups=self.groups).mT  # (b, t, d)

    def _by_position(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return the filtered x (b, t, d) of tokens at `positions` (t,) or (b, t)."""
        b, t, _ = x.shape
        device = "cpu" if x.device.type == "mps" else x.device  # mps lacks float64
        p = positions.to(device, torch.float64)
        taps = torch.arange(self.kernel, device=device) - self.kernel // 2  # (c,)
        reached = (p[..., None] + taps).flatten(-2)  # (..., t*c)
        # a product with ones and zeros sums the tokens at a position, 0 where there is none
        at_tap = reached.unsqueeze(-1) == p.unsqueeze(-2)  # (..., t*c, s)
        near = at_tap.to(x) @ x  # (b, t*c, d)
        near = near.view(b, t, self.kernel, self.groups, -1)  # (b, t, c, g, i)
        filters = self.weight.to(x).unflatten(0, (self.groups, -1))
        y = torch.einsum("btcgi,goic->btgo", near, filters)
        return y.flatten(2) + self.bias.to(x)  # (b, t, d)

    def _check(self, x: Tensor, positions: Tensor | None) -> None:
        *batch, t, dim = x.shape
        if dim != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"convolution: x must have shape (b, t, {self.dim}) and a float dtype, got {got}"
            )
        if positions is None:
            # a lone token is one of a text that is not here, and lacks its neighbors
            if t == 1:
                raise ValueError(
                    "convolution: positions must be given for a lone token, got None; "
                    "torch.tensor([0]) if it has no neighbors"
                )
            return
        # one position would broadcast over all tokens without an error
        shape = tuple(positions.shape)
        if shape != (t,) and shape != (1, t) and shape != (*batch, t):
            fitting = f"({t},) or {(*batch, t)}"
            raise ValueError(f"convolution: positions must have shape {fitting}, got {shape}")
