"""Sinusoidal encoding: add to each token embedding the sines and cosines of its position.

Paper: Vaswani et al., 2017, "Attention Is All You Need",
       https://arxiv.org/abs/1706.03762, sec. 3.5.
Used:  the original Transformer, Marian, fairseq, Whisper's encoder, time steps of diffusion models
Cost:  nothing to learn; one table (t, d) a call

Key:   b batch, t length, d model dim

    theta_i     = base^(-2i/d),  i = 0 .. d/2-1
    PE[p, 2i]   = sin(p * theta_i)
    PE[p, 2i+1] = cos(p * theta_i)

so PE[p + k] = M_k PE[p] for one fixed rotation M_k, and PE[p] . PE[q] = sum_i cos(theta_i (p - q)).
Sines and cosines alternate ("interleaved"), as the paper writes them. Marian and GPT-NeoX put all
sines before all cosines ("split": the same channels, permuted). The paper's own code, and fairseq
after it, also spreads the frequencies over d/2-1 steps and ends an odd d with a zero channel
("tensor2tensor").
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

ORDERS = ("interleaved", "split", "tensor2tensor")


def sinusoidal(
    positions: ArrayLike,
    dim: int,
    base: float = 10_000.0,
    order: str = "interleaved",
) -> np.ndarray:
    """Return the table (..., t, d) in float64 for `positions` (..., t), any real numbers.

    Raises:
        ValueError: If `dim` is odd or below 2; of "tensor2tensor", if it is below 4.
        ValueError: If `base` is not positive and finite, or `order` unknown.
    """
    theta = _frequencies(dim, base, order)  # (d/2,)
    angle = np.asarray(positions, np.float64)[..., None] * theta  # (..., t, d/2)
    sine, cosine = _channels(dim, order)
    # zeros, of which the last channel of an odd d stays one
    table = np.zeros((*angle.shape[:-1], dim))  # (..., t, d)
    table[..., sine] = np.sin(angle)
    table[..., cosine] = np.cos(angle)
    return table


class Sinusoidal(nn.Module):
    """Add the sinusoidal table to embeddings: dropout(x + PE). Angles are float64, rounded once.

    Args:
        dim: Width d of the embeddings; even, unless `order` is "tensor2tensor".
        base: Sets the longest wavelength, 2 pi base^(1 - 2/d) positions.
        order: "interleaved", "split" or "tensor2tensor" (see the module).
        scale: Multiply the embeddings by sqrt(d) first, as the paper does (sec. 3.4).
        dropout: Probability of zeroing an element of the sum while training.

    Raises:
        ValueError: If `dim` is odd or below 2; of "tensor2tensor", if it is below 4.
        ValueError: If `base` is not positive and finite, or `order` unknown.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> encode, x = Sinusoidal(64), torch.randn(2, 10, 64)
        >>> encoded = encode(x)  # at positions 0 to 9
        >>> encoded = encode(x[:, 9:], torch.tensor([9]))  # decoding: say where
        >>> table = encode.table(torch.arange(10))  # made once, for many calls: x + table.to(x)
    """

    def __init__(
        self,
        dim: int,
        base: float = 10_000.0,
        order: str = "interleaved",
        scale: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        # a tuple, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = tuple(_frequencies(dim, base, order).tolist())
        self.dim = dim
        self.order = order
        self.scale = scale
        self.dropout = dropout

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) plus the table of its `positions` (t,) or (b, t).

        With t > 1, `positions` default to 0 .. t-1; a lone token, as in decoding, must be given its
        own.
        """
        self._check(x, positions)
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        if self.scale:
            x = x * self.dim**0.5
        encoded = x + self.table(positions).to(x)
        return nn.functional.dropout(encoded, self.dropout, self.training)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the table (..., t, d) in float64 for `positions` (..., t)."""
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=device)  # (d/2,)
        angle = positions.to(device, torch.float64)[..., None] * theta  # (..., t, d/2)
        if self.order == "interleaved":
            return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)  # (..., t, d)
        split = torch.cat([angle.sin(), angle.cos()], dim=-1)
        # an odd d ends with a zero channel
        return nn.functional.pad(split, (0, self.dim % 2))  # (..., t, d)

    def _check(self, x: Tensor, positions: Tensor | None) -> None:
        *batch, t, dim = x.shape
        if dim != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"sinusoidal: x must have shape (b, t, {self.dim}) and a float dtype, got {got}"
            )
        if positions is None:
            # a lone token is a new one behind a cache, and its position is not 0
            if t == 1:
                raise ValueError(
                    "sinusoidal: positions must be given for a lone token, got None; "
                    "torch.tensor([s]) behind a cache of s tokens"
                )
            return
        # one position would broadcast over all tokens without an error
        shape = tuple(positions.shape)
        misfit = shape != (t,) and shape != (1, t) and shape != (*batch, t)
        if misfit or len(shape) >= x.ndim:
            fitting = f"({t},) or {(*batch, t)}"
            raise ValueError(f"sinusoidal: positions must have shape {fitting}, got {shape}")


def wavelengths(dim: int, base: float = 10_000.0, order: str = "interleaved") -> np.ndarray:
    """Return the d/2 wavelengths 2 pi / theta_i, in positions per period, shortest first.

    Examples:
        >>> wavelengths(8).round(1).tolist()
        [6.3, 62.8, 628.3, 6283.2]
    """
    return 2 * np.pi / _frequencies(dim, base, order)  # (d/2,)


def kernel(
    distance: ArrayLike,
    dim: int,
    base: float = 10_000.0,
    order: str = "interleaved",
) -> np.ndarray:
    """Return PE[p] . PE[p + distance], the same at every p: sum_i cos(theta_i distance).

    Examples:
        >>> kernel([0, 1, -1, 100], dim=64).round(1).tolist()
        [32.0, 30.9, 30.9, 17.9]
    """
    angle = np.asarray(distance, np.float64)[..., None] * _frequencies(dim, base, order)
    return np.cos(angle).sum(axis=-1)


def shift_matrix(
    k: float,
    dim: int,
    base: float = 10_000.0,
    order: str = "interleaved",
) -> np.ndarray:
    """Return the rotation M_k (d, d) with PE[p + k] = M_k PE[p] at every p.

    Examples:
        >>> here, there = sinusoidal([7, 12], dim=16)
        >>> bool(np.allclose(shift_matrix(5, dim=16) @ here, there))
        True
    """
    angle = float(k) * _frequencies(dim, base, order)  # (d/2,)
    sine, cosine = _channels(dim, order)
    # the identity, which the zero channel of an odd d keeps
    matrix = np.eye(dim)  # (d, d)
    matrix[sine, sine] = np.cos(angle)
    matrix[sine, cosine] = np.sin(angle)
    matrix[cosine, sine] = -np.sin(angle)
    matrix[cosine, cosine] = np.cos(angle)
    return matrix


def _frequencies(dim: int, base: float, order: str) -> np.ndarray:
    """Return theta (d/2,), in radians a position, highest first."""
    if order not in ORDERS:
        raise ValueError(f"sinusoidal: order must be one of {', '.join(ORDERS)}, got {order!r}")
    if order == "tensor2tensor" and dim < 4:
        raise ValueError(f"sinusoidal: dim must be at least 4, got {dim}")
    if order != "tensor2tensor" and (dim < 2 or dim % 2):
        raise ValueError(f"sinusoidal: dim must be even and positive, got {dim}")
    if not 0 < base < float("inf"):
        raise ValueError(f"sinusoidal: base must be positive and finite, got {base}")
    # from 1 to 1/base in tensor2tensor, else without this last one
    steps = dim // 2 - 1 if order == "tensor2tensor" else dim // 2
    return base ** (-np.arange(dim // 2) / steps)  # (d/2,)


def _channels(dim: int, order: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the channels (d/2,) of the sines and those of the cosines."""
    i = np.arange(dim // 2)
    if order == "interleaved":
        return 2 * i, 2 * i + 1
    return i, dim // 2 + i
