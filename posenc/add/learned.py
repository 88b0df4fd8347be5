"""Learned encoding: add to each token embedding a trained row of a table, one row a position.

Paper: Gehring et al., 2017, "Convolutional Sequence to Sequence Learning", https://arxiv.org/abs/1705.03122, sec. 3.1.
Used:  BERT, GPT-2, OPT, RoBERTa, CLIP, ViT
Cost:  n d parameters; one look-up a token

Key:   b batch, t length, d model dim, n rows, o new rows, p prefix rows, r rows of the grid, s new rows of the grid

    PE[m] = weight[m + offset]

so a position beyond the table has no row: there is an error, never a wrapped or a repeated row. OPT counts from
offset 2 and RoBERTa from its padding index + 1. Rows start as N(0, std^2) with std 0.02, as in BERT; GPT-2 has
0.01. A table can be stretched afterwards: `resize` for text, `resize_grid` for the patches of an image.
"""

import numpy as np
import torch
from torch import Tensor, nn

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def learned(positions: np.ndarray, weight: np.ndarray, offset: int = 0) -> np.ndarray:
    """Return the rows (..., t, d) of `weight` (n, d) at `positions` (..., t), integers in [0, n - offset)."""
    weight, positions = _numbers("weight", weight), _numbers("positions", positions)  # (n, d), (..., t)
    _check_integer("offset", offset, 0)
    if weight.ndim != 2:
        raise ValueError(f"learned: weight must be a table (n, d), got {weight.shape}; a row a position")
    last = len(weight) - offset - 1
    if (positions % 1 != 0).any() or (positions < 0).any() or (positions > last).any():
        raise ValueError(f"learned: positions must be integers in [0, {last}], got {positions}; resize gives more rows")
    return weight[positions.astype(int) + offset]  # (..., t, d)


def row_statistics(weight: Tensor) -> dict[str, np.ndarray]:
    """Return what to look at first in a table (n, d): each row's norm, its cosine and distance to the next row.

    Rows that never met a token keep the norm of their start, near std sqrt(d), and a cosine near 0 with their
    neighbors; trained rows of a smooth table have cosines near 1.

    Examples:
        >>> import torch
        >>> row_statistics(torch.tensor([[3.0, 4.0], [4.0, 3.0]]))
        {'norm': array([5., 5.]), 'cosine': array([0.96]), 'step': array([1.41421356])}
    """
    _check_weight(weight, axes=2)
    rows = weight.detach().double().cpu().numpy()  # (n, d)
    norm = np.linalg.norm(rows, axis=-1)  # (n,)
    scale = np.maximum(norm[1:] * norm[:-1], np.finfo(np.float64).tiny)  # (n-1,)
    cosine = (rows[1:] * rows[:-1]).sum(axis=-1) / scale  # (n-1,)
    return {"norm": norm, "cosine": cosine, "step": np.linalg.norm(np.diff(rows, axis=0), axis=-1)}


def resize(weight: Tensor, length: int, mode: str = "linear") -> Tensor:
    """Return a text table (n, d) stretched or shrunk to `length` rows (o, d), new and of the same dtype.

    A longer table keeps its first and last row and interpolates between them; a row of a shorter one averages the
    rows that it covers. `mode` is "linear" or "cubic". A shorter context needs no resizing: use the first rows.
    Rows before an `offset` are no positions: resize the rest. Gradients flow back to `weight`.

    Examples:
        >>> import torch
        >>> short, long = Learned(dim=8, length=3), Learned(dim=8, length=5)
        >>> _ = long.load_state_dict({"weight": resize(short.weight, 5)})
        >>> long.weight[::2].equal(short.weight)  # and a new row between each two
        True
    """
    _check_weight(weight, axes=2)
    _check_integer("length", length, 1)
    shrinks = length < len(weight)
    image = weight.T[None, :, None]  # (1, d, 1, n)
    return _interpolated(image, (1, length), mode, not shrinks, shrinks)[0, :, 0].T.to(weight.dtype)  # (o, d)


def resize_grid(
    weight: Tensor,
    size: tuple[int, int],
    new_size: tuple[int, int],
    prefix: int = 0,
    mode: str = "cubic",
    antialias: bool = True,
) -> Tensor:
    """Return a table (..., p + r, d) of image patches resampled to another grid; the p `prefix` rows stay.

    `size` and `new_size` are (height, width) in patches: a square is never guessed. Patches are in raster order,
    row by row, after class and register tokens. `mode` is "linear" or "cubic", which PyTorch and timm call bilinear and
    bicubic. Antialiasing averages old patches where the grid shrinks; it also changes the cubic kernel everywhere, from
    a = -3/4 to -1/2, the only one of the two that keeps a ramp straight. Gradients flow back to `weight`.

    Examples:
        >>> import torch
        >>> small = Learned(dim=8, length=1 + 14 * 14).weight  # a class token and the patches
        >>> large = Learned(dim=8, length=1 + 16 * 24)
        >>> large.load_state_dict({"weight": resize_grid(small, (14, 14), (16, 24), prefix=1)})
        <All keys matched successfully>
    """
    _check_weight(weight)
    _check_integer("prefix", prefix, 0)
    if not isinstance(antialias, bool):
        raise ValueError(f"learned: antialias must be True or False, got {antialias!r}; False is sharper and aliases")
    _check_size("size", size)
    _check_size("new_size", new_size)
    rows = weight.shape[-2]
    if prefix + size[0] * size[1] != rows:
        raise ValueError(
            f"learned: size must be of {rows - prefix} patches, as the table has {rows} rows and a prefix of {prefix}, "
            f"got {tuple(size)}; prefix counts class and register tokens"
        )
    patches = weight[..., prefix:, :].reshape(-1, *size, weight.shape[-1]).movedim(-1, 1)
    grid = _interpolated(patches, (new_size[0], new_size[1]), mode, align_corners=False, antialias=antialias)
    patches = grid.movedim(1, -1).reshape(*weight.shape[:-2], -1, weight.shape[-1])  # (..., s, d)
    return torch.cat([weight[..., :prefix, :], patches.to(weight.dtype)], dim=-2)  # (..., p+s, d)


class Learned(nn.Module):
    """Add learned rows to embeddings: dropout(x + weight[positions + offset]).

    Args:
        dim: Width d of the embeddings.
        length: How many positions the table holds; a later one is refused.
        offset: Rows before that of position 0: 2 for OPT, padding index + 1 for RoBERTa.
        std: Standard deviation of the normal distribution that `weight` (n, d), n = length + offset, starts from.
        dropout: Probability of zeroing an element of the sum while training.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encode = Learned(dim=64, length=512)
        >>> encode(torch.zeros(1, 10, 64)).shape, sum(p.numel() for p in encode.parameters())
        (torch.Size([1, 10, 64]), 32768)
    """

    def __init__(self, dim: int, length: int, offset: int = 0, std: float = 0.02, dropout: float = 0.0) -> None:
        super().__init__()
        _check_integer("dim", dim, 1)
        _check_integer("length", length, 1)
        _check_integer("offset", offset, 0)
        if not _is_number(std) or not 0 <= std < float("inf"):
            raise ValueError(f"learned: std must be at least 0 and finite, got {std!r}; BERT takes 0.02")
        if not _is_number(dropout) or not 0 <= dropout < 1:
            raise ValueError(f"learned: dropout must be in [0, 1), got {dropout!r}; it is a probability")
        self.dim, self.length, self.offset = int(dim), int(length), int(offset)
        self.std, self.dropout = float(std), float(dropout)
        self.weight = nn.Parameter(torch.empty(self.length + self.offset, self.dim))  # (n, d)
        nn.init.normal_(self.weight, std=self.std)

    def forward(self, x: Tensor, positions: Tensor | None = None, table: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) plus the rows at integer `positions` (t,), (1, t) or (b, t), by default from 0.

        While decoding with a cache, pass the position of each new token. `table`, from `table(positions)`, replaces
        `positions`.
        """
        self._check(x, positions, table)
        if table is None:
            if positions is None:
                positions = torch.arange(x.shape[-2], device=x.device)  # (t,)
            table = self.table(positions)
        return nn.functional.dropout(x + table.to(x), self.dropout, self.training)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the rows (..., t, d) at integer `positions` (..., t)."""
        if not isinstance(positions, Tensor) or positions.dtype not in INTEGERS:
            raise ValueError(
                f"learned: positions must be a tensor of integers, got {_kind(positions)}; a table has whole rows, "
                "and torch.as_tensor makes a tensor of a list or an array"
            )
        rows = torch.where(positions < 0, -1, positions.long() + self.offset)  # (..., t)
        try:
            return nn.functional.embedding(rows, self.weight)  # (..., t, d)
        except IndexError as error:
            raise ValueError(
                f"learned: positions must be in [0, {self.length}), got {positions.min()} to {positions.max()}; "
                "resize the table, or build it with a larger length"
            ) from error

    def _check(self, x: Tensor, positions: Tensor | None, table: Tensor | None) -> None:
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim < 2 or x.shape[-1] != self.dim:
            raise ValueError(
                f"learned: x must be floating point (b, t, {self.dim}), got {_kind(x)}; "
                "look the tokens up in an embedding of this width first"
            )
        shape, one = getattr(positions, "shape", None), (1,) * (x.ndim - 2)  # a row for all sequences
        if positions is not None and shape not in (x.shape[-2:-1], (*one, x.shape[-2]), x.shape[:-1]):
            raise ValueError(
                f"learned: positions must be a tensor (t,), (1, t) or (b, t) for x (b, t, d) of {tuple(x.shape)}, "
                f"got {_kind(positions)}; give each token its position, with torch.as_tensor of a list or an array"
            )
        if table is not None and getattr(table, "shape", None) not in (x.shape[-2:], (*one, *x.shape[-2:]), x.shape):
            raise ValueError(
                f"learned: table must be (t, d), (1, t, d) or (b, t, d) for x (b, t, d) of {tuple(x.shape)}, "
                f"got {_kind(table)}; make it with table(positions)"
            )
        if positions is None and table is None and x.shape[-2] > self.length:
            raise ValueError(
                f"learned: x must be of at most {self.length} tokens, got {x.shape[-2]}; the table has no more rows: "
                "resize it, or build it with a larger length"
            )

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, length={self.length}, offset={self.offset}, std={self.std}, dropout={self.dropout:g}"


def _interpolated(image: Tensor, size: tuple[int, int], mode: str, align_corners: bool, antialias: bool) -> Tensor:
    if not isinstance(mode, str) or mode not in ("linear", "cubic"):
        raise ValueError(f"learned: mode must be linear or cubic, got {mode!r}; torch says bilinear, bicubic")
    kind, exact = f"bi{mode}", torch.promote_types(image.dtype, torch.float32)
    return nn.functional.interpolate(image.to(exact), size, mode=kind, align_corners=align_corners, antialias=antialias)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _check_size(name: str, pair: object) -> None:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"learned: {name} must be a pair (height, width), got {pair!r}; count in patches")
    for side in pair:
        _check_integer(name, side, 1)


def _check_integer(name: str, value: object, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"learned: {name} must be an integer of at least {least}, got {value!r}")


def _check_weight(weight: Tensor, axes: int | None = None) -> None:
    table = isinstance(weight, Tensor) and weight.is_floating_point() and weight.ndim >= 2 and 0 not in weight.shape
    if not table or (axes and weight.ndim != axes):
        raise ValueError(f"learned: weight must be a floating point table (n, d), got {_kind(weight)}")


def _kind(value: object) -> str:
    size = f"of length {len(value)}" if isinstance(value, list | tuple) else tuple(getattr(value, "shape", ()))
    return f"{'numpy array ' * isinstance(value, np.ndarray)}{getattr(value, 'dtype', type(value).__name__)} {size}"


def _numbers(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # ragged, or a tensor that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        unread = isinstance(value, Tensor) and array.dtype == object
        remedy = f"; NumPy reads {name}.detach().cpu().double()" if unread else ""
        raise ValueError(f"learned: {name} must be finite numbers, got {value!r}{remedy}")
    return array.astype(np.float64)
