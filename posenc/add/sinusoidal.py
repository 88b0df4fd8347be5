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
from torch import Tensor, nn

ORDERS = ("interleaved", "split", "tensor2tensor")


def sinusoidal(positions, dim, base=10_000.0, order="interleaved") -> np.ndarray:
    """Return the table (..., t, d) in float64 for `positions` (..., t), any real numbers."""
    theta = _theta(dim, base, order)  # (d/2,)
    angle = np.asarray(positions, np.float64)[..., None] * theta  # (..., t, d/2)
    sine, cosine = _channels(dim, order)
    table = np.zeros((*angle.shape[:-1], dim))  # (..., t, d)
    table[..., sine] = np.sin(angle)
    table[..., cosine] = np.cos(angle)
    return table


class Sinusoidal(nn.Module):
    """Add the sinusoidal table to embeddings: dropout(x + PE). Angles are float64, rounded once.

    Args:
        dim: Width d of the embeddings; even, unless `order` is "tensor2tensor".
        base: Sets the slowest wavelength, 2 pi base^(1 - 2/d) positions.
        order: "interleaved", "split" or "tensor2tensor" (see the module).
        scale: Multiply the embeddings by sqrt(d) first, as the paper does (sec. 3.4).
        dropout: Probability of zeroing an element of the sum while training.

    Examples:
        >>> encode, x = Sinusoidal(64), torch.randn(2, 10, 64)
        >>> encoded = encode(x)  # at positions 0 to 9
        >>> encoded = encode(x[:, 9:], torch.tensor([9]))  # the last token alone: say where
        >>> encoded = encode(x, table=encode.table(torch.arange(10)))  # made once, for many calls
    """

    def __init__(self, dim: int, base=10_000.0, order="interleaved", scale=False, dropout=0.0):
        super().__init__()
        self.theta = tuple(_theta(dim, base, order).tolist())  # a buffer would be cast to bfloat16
        self.dim, self.order = dim, order
        self.scale, self.dropout = scale, dropout

    def forward(self, x: Tensor, positions=None, table=None) -> Tensor:
        """Return `x` (b, t, d) plus a table, by default that of `positions` (t,) or (b, t).

        They count from 0 by default; to decode with a cache, say where the new tokens stand.
        """
        shape = tuple(x.shape)
        if shape[-1] != self.dim or not x.is_floating_point():
            raise ValueError(
                f"sinusoidal: x must be floats (b, t, {self.dim}), got {x.dtype} {shape}"
            )
        if table is None:
            if positions is None:
                positions = torch.arange(shape[-2], device=x.device)
            table = self.table(positions)
        t, of_x = shape[-2], shape[:-1]
        rows = tuple(table.shape[:-1])
        if rows not in ((t,), (1, t), of_x) or table.ndim > x.ndim:
            raise ValueError(f"sinusoidal: positions or table must be ({t},) or {of_x}, got {rows}")
        if self.scale:
            x = x * self.dim**0.5
        return nn.functional.dropout(x + table.to(x), self.dropout, self.training)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the table (..., t, d) in float64 for `positions` (..., t)."""
        where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where)  # (d/2,)
        angle = positions.to(where, torch.float64)[..., None] * theta  # (..., t, d/2)
        waves = [angle.sin(), angle.cos()]
        if self.order == "interleaved":
            return torch.stack(waves, dim=-1).flatten(-2)  # (..., t, d)
        return nn.functional.pad(torch.cat(waves, dim=-1), (0, self.dim % 2))  # (..., t, d)


def wavelengths(dim, base=10_000.0, order="interleaved") -> np.ndarray:
    """Return the d/2 wavelengths 2 pi / theta_i, in positions per turn, fastest first.

    Examples:
        >>> wavelengths(8).round(1).tolist()
        [6.3, 62.8, 628.3, 6283.2]
    """
    return 2 * np.pi / _theta(dim, base, order)  # (d/2,)


def kernel(distance, dim, base=10_000.0, order="interleaved") -> np.ndarray:
    """Return PE[p] . PE[p + distance], the same at every p: sum_i cos(theta_i distance).

    Examples:
        >>> kernel([0, 1, -1, 100], dim=64).round(1).tolist()
        [32.0, 30.9, 30.9, 17.9]
    """
    angle = np.asarray(distance, np.float64)[..., None] * _theta(dim, base, order)
    return np.cos(angle).sum(axis=-1)


def shift_matrix(k: float, dim, base=10_000.0, order="interleaved") -> np.ndarray:
    """Return the rotation M_k (d, d) with PE[p + k] = M_k PE[p] at every p.

    Examples:
        >>> here, there = sinusoidal([7, 12], dim=16)
        >>> bool(np.allclose(shift_matrix(5, dim=16) @ here, there))
        True
    """
    angle = float(k) * _theta(dim, base, order)  # (d/2,)
    sine, cosine = _channels(dim, order)
    matrix = np.eye(dim)  # (d, d)
    matrix[sine, sine] = np.cos(angle)
    matrix[sine, cosine] = np.sin(angle)
    matrix[cosine, sine] = -np.sin(angle)
    matrix[cosine, cosine] = np.cos(angle)
    return matrix


def _theta(dim, base, order):
    if order not in ORDERS:
        raise ValueError(f"sinusoidal: order must be one of {', '.join(ORDERS)}, got {order!r}")
    if order == "tensor2tensor":
        fits, wanted, steps = dim >= 4, "at least 4", dim // 2 - 1
    else:
        fits, wanted, steps = dim >= 2 and dim % 2 == 0, "even and positive", dim / 2
    if not fits:
        raise ValueError(f"sinusoidal: dim must be {wanted}, got {dim}")
    if not 0 < base < float("inf"):
        raise ValueError(f"sinusoidal: base must be positive and finite, got {base}")
    return base ** (-np.arange(dim // 2) / steps)  # (d/2,)


def _channels(dim, order):
    pair = np.arange(dim // 2)  # (d/2,)
    return (2 * pair, 2 * pair + 1) if order == "interleaved" else (pair, pair + len(pair))
