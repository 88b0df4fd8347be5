"""Sinusoidal encoding: add to each token embedding a fixed bank of sines and cosines of its position.

Paper: Vaswani et al., 2017, "Attention Is All You Need", https://arxiv.org/abs/1706.03762, sec. 3.5.
Used:  the original Transformer, Marian, fairseq, Whisper's encoder, the time steps of diffusion models
Cost:  nothing to learn; one table (t, d) a call

Key:   b batch, t length, d model dim

    theta_i     = base^(-2i/d),  i = 0 .. d/2-1
    PE[p, 2i]   = sin(p * theta_i)
    PE[p, 2i+1] = cos(p * theta_i)

so PE[p + k] = M_k PE[p] for one fixed rotation M_k, and PE[p] . PE[q] = sum_i cos(theta_i (p - q)).
Sines and cosines alternate (order="interleaved"), as the paper writes them. Marian and GPT-NeoX put all sines
before all cosines ("split": the same channels, permuted). The paper's own code, and fairseq after it, also spreads
the frequencies over d/2-1 steps and ends an odd dim with a zero channel ("tensor2tensor").
"""

import numpy as np
import torch
from torch import Tensor, nn

ORDERS = ("interleaved", "split", "tensor2tensor")


def sinusoidal(positions: np.ndarray, dim: int, base: float = 10_000.0, order: str = "interleaved") -> np.ndarray:
    """Return the float64 table (..., t, d) for `positions` (..., t), integers or floats of any sign.

    Examples:
        >>> sinusoidal([0, 1], dim=4).round(4).tolist()
        [[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.01, 1.0]]
    """
    theta = _theta(dim, base, order)  # (d/2,)
    angle = _numbers("positions", positions)[..., None] * theta  # (..., t, d/2)
    sine, cosine = np.sin(angle), np.cos(angle)
    if order == "interleaved":
        return np.stack([sine, cosine], axis=-1).reshape(*angle.shape[:-1], dim)  # (..., t, d)
    unpaired = np.zeros((*angle.shape[:-1], dim % 2))
    return np.concatenate([sine, cosine, unpaired], axis=-1)  # (..., t, d)


def wavelengths(dim: int, base: float = 10_000.0, order: str = "interleaved") -> np.ndarray:
    """Return the d/2 wavelengths 2 pi / theta_i, in positions per turn, fastest first.

    Examples:
        >>> wavelengths(8).round(1).tolist()
        [6.3, 62.8, 628.3, 6283.2]
    """
    return 2 * np.pi / _theta(dim, base, order)  # (d/2,)


def kernel(distance: np.ndarray, dim: int, base: float = 10_000.0, order: str = "interleaved") -> np.ndarray:
    """Return PE[p] . PE[p + distance], which is the same at every p: the closed form sum_i cos(theta_i distance).

    Examples:
        >>> kernel([0, 1, -1, 100], dim=64).round(1).tolist()
        [32.0, 30.9, 30.9, 17.9]
    """
    angle = _numbers("distance", distance)[..., None] * _theta(dim, base, order)
    return np.cos(angle).sum(axis=-1)


def shift_matrix(k: float, dim: int, base: float = 10_000.0, order: str = "interleaved") -> np.ndarray:
    """Return the rotation M_k (d, d) with PE[p + k] = M_k PE[p] at every p; M_a M_b = M_(a+b) and M_(-k) = M_k^T.

    Examples:
        >>> here, there = sinusoidal([7, 12], dim=16)
        >>> bool(np.allclose(shift_matrix(5, dim=16) @ here, there))
        True
    """
    if np.ndim(_numbers("k", k)):
        raise ValueError(f"sinusoidal: k must be one number, got {k!r}; each shift has a matrix of its own")
    angle = float(k) * _theta(dim, base, order)  # (d/2,)
    pair = np.arange(len(angle))
    first, second = (2 * pair, 2 * pair + 1) if order == "interleaved" else (pair, pair + len(angle))
    matrix = np.eye(dim)  # (d, d)
    matrix[first, first] = matrix[second, second] = np.cos(angle)
    matrix[first, second], matrix[second, first] = np.sin(angle), -np.sin(angle)
    return matrix  # (d, d)


class Sinusoidal(nn.Module):
    """Add the sinusoidal table to embeddings: dropout(x + PE), or dropout(sqrt(d) x + PE) with `scale`.

    Nothing is learned, stored or cached: the table is computed for the positions of each call, with angles in
    float64, so no cast of the module can coarsen it and no length is too long.

    Args:
        dim: Width d of the embeddings; even, unless `order` is "tensor2tensor".
        base: Sets the slowest wavelength, 2 pi base^(1 - 2/d) positions.
        order: "interleaved" sin cos sin cos, "split" all sines then all cosines, or "tensor2tensor" (see the module).
        scale: Multiply the embeddings by sqrt(d) before adding, as the paper does (sec. 3.4).
        dropout: Probability of zeroing an element of the sum while training.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encode = Sinusoidal(dim=64)
        >>> x = encode(torch.zeros(1, 10, 64))  # positions 0 to 9
        >>> bool((encode(torch.zeros(1, 1, 64), torch.tensor([9])) == x[:, 9:]).all())  # decoding: say where
        True
    """

    def __init__(
        self,
        dim: int,
        base: float = 10_000.0,
        order: str = "interleaved",
        scale: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _theta(dim, base, order)
        if not isinstance(scale, bool):
            raise ValueError(
                f"sinusoidal: scale must be True or False, got {scale!r}; True multiplies the embeddings by sqrt(d)"
            )
        if not _is_number(dropout) or not 0 <= dropout < 1:
            raise ValueError(f"sinusoidal: dropout must be in [0, 1), got {dropout!r}; it is a probability")
        self.dim, self.base, self.order = int(dim), float(base), order
        self.scale, self.dropout = scale, float(dropout)

    def forward(self, x: Tensor, positions: Tensor | None = None, table: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) plus the table at `positions` (t,), (1, t) or (b, t), which count from 0 by default.

        While decoding with a cache, pass the absolute position of each new token. `table`, from
        `table(positions)`, replaces `positions` where one table serves several calls.
        """
        self._check(x, positions, table)
        if table is None:
            if positions is None:
                positions = torch.arange(x.shape[-2], device=x.device)  # (t,)
            table = self.table(positions)
        summed = (x * self.dim**0.5 if self.scale else x) + table.to(x)  # (b, t, d)
        return nn.functional.dropout(summed, self.dropout, self.training)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the float64 table (..., t, d) for `positions` (..., t)."""
        _check_places(positions)
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        index = torch.arange(self.dim // 2, dtype=torch.float64, device=where)  # (d/2,)
        theta = self.base ** (-index / _steps(self.dim, self.order))  # (d/2,)
        angle = positions.to(where, torch.float64)[..., None] * theta  # (..., t, d/2)
        if self.order == "interleaved":
            return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)  # (..., t, d)
        return nn.functional.pad(torch.cat([angle.sin(), angle.cos()], dim=-1), (0, self.dim % 2))  # (..., t, d)

    def _check(self, x: Tensor, positions: Tensor | None, table: Tensor | None) -> None:
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim < 2 or x.shape[-1] != self.dim:
            raise ValueError(
                f"sinusoidal: x must be floating point (b, t, {self.dim}), got {_kind(x)}; "
                "look the tokens up in an embedding of this width first"
            )
        if positions is not None:
            _check_places(positions)
        one = (1,) * (x.ndim - 2)  # a row for all sequences
        if positions is not None and positions.shape not in (x.shape[-2:-1], (*one, x.shape[-2]), x.shape[:-1]):
            raise ValueError(
                f"sinusoidal: positions must be (t,), (1, t) or (b, t) for x (b, t, d) of {tuple(x.shape)}, "
                f"got {tuple(positions.shape)}; give each token its position"
            )
        if table is not None and getattr(table, "shape", None) not in (x.shape[-2:], (*one, *x.shape[-2:]), x.shape):
            raise ValueError(
                f"sinusoidal: table must be (t, d), (1, t, d) or (b, t, d) for x (b, t, d) of {tuple(x.shape)}, "
                f"got {_kind(table)}; make it with table(positions)"
            )

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, base={self.base:g}, order={self.order!r}, scale={self.scale}, dropout={self.dropout:g}"


def _theta(dim: int, base: float, order: str) -> np.ndarray:
    if not isinstance(order, str) or order not in ORDERS:
        raise ValueError(f"sinusoidal: order must be one of {', '.join(ORDERS)}, got {order!r}")
    if (
        not isinstance(dim, int | np.integer)
        or isinstance(dim, bool)
        or dim < 2
        or (dim % 2 and order != "tensor2tensor")
    ):
        raise ValueError(
            f"sinusoidal: dim must be an even integer of at least 2, got {dim!r}; each frequency needs a sine and "
            "a cosine: for an odd width take dim + 1 and drop the last channel"
        )
    if order == "tensor2tensor" and dim < 4:
        raise ValueError(f"sinusoidal: dim must be at least 4 in tensor2tensor order, got {dim}; it divides by d/2 - 1")
    if not _is_number(base) or not 0 < base < float("inf"):
        raise ValueError(f"sinusoidal: base must be positive and finite, got {base!r}; the paper takes 10,000")
    return float(base) ** (-np.arange(dim // 2) / _steps(dim, order))


def _steps(dim: int, order: str) -> float:
    return dim // 2 - 1 if order == "tensor2tensor" else dim / 2


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _check_places(positions: Tensor) -> None:
    if not isinstance(positions, Tensor) or positions.dtype == torch.bool or positions.is_complex():
        raise ValueError(
            f"sinusoidal: positions must be a tensor of integers or floats, got {_kind(positions)}; "
            "torch.as_tensor makes one of a list or an array"
        )


def _numbers(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # ragged, or a tensor that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        unread = isinstance(value, Tensor) and array.dtype == object
        remedy = f"; NumPy reads {name}.detach().cpu().double()" if unread else ""
        raise ValueError(f"sinusoidal: {name} must be finite numbers, got {value!r}{remedy}")
    return array.astype(np.float64)


def _kind(value: object) -> str:
    size = f"of length {len(value)}" if isinstance(value, list | tuple) else tuple(getattr(value, "shape", ()))
    return f"{'numpy array ' * isinstance(value, np.ndarray)}{getattr(value, 'dtype', type(value).__name__)} {size}"
