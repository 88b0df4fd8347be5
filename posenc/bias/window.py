"""Window: add to each logit a learned number for the offset, in rows and columns, of two tokens in a window.

Paper: Liu et al., 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows",
       https://arxiv.org/abs/2103.14030, eq. 4; the continuous one: https://arxiv.org/abs/2111.09883, sec. 3.3.
Used:  Swin, BEiT, MaxViT, CoAtNet; Swin V2 (continuous); Video Swin (three axes)
Cost:  (2H-1)(2W-1) numbers a head to learn, or a network that makes them; a call looks them up for every pair

Key:   b batch, h heads, t queries, s keys, a axes, H rows of a window, W columns, r rows of the table, u hidden units,
       m position of a query, n of a key

    B[i, m, n] = weight[(dy + H - 1)(2W - 1) + dx + W - 1, i],  (dy, dx) = query m - key n, clipped to the window
    continuous:  weight = 16 sigmoid(out_weight relu(hidden_weight x + hidden_bias)),
                 x = sign(z) log2(1 + |z|) / log2(8),  z = 8 (dy, dx) / (pretrained window - 1)

so the bias depends on the offset alone, and what is learned serves every window; the continuous one, of every size.
Places are whole rows and columns (t, 2), as `window_positions` lists them; an offset beyond the window counts as its
edge. The 16 sigmoid and the log2(8) are those of Swin V2's code. It divides by 0 on an axis of one token; here, as in
timm, by 1. BEiT's class token has no place: its three rows end a table, `relative_index` finds and `resize_window`
keeps them. Swin calls the network cpb_mlp. A number alone is no place but in a window of one axis: patch i would stand
at (i, i), so positions (t,) are refused.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def window(
    positions: np.ndarray,
    key_positions: np.ndarray,
    weight: np.ndarray | None = None,
    hidden_weight: np.ndarray | None = None,
    hidden_bias: np.ndarray | None = None,
    out_weight: np.ndarray | None = None,
    window: tuple = (7, 7),
    pretrained_window: tuple | None = None,
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t, a) and `key_positions` (s, a); on one axis (t,), (s,).

    It takes `weight` (r, h), or what makes it: `hidden_weight` (u, a), `hidden_bias` (u,) and `out_weight` (h, u).
    """
    axes = len(_size("window", window))
    x = log_coordinates(window, pretrained_window).reshape(-1, axes)  # (r, a)
    m, n = _places("positions", positions, axes), _places("key_positions", key_positions, axes)  # (t, a), (s, a)
    if weight is None and hidden_weight is None:
        raise ValueError(f"window: weight must be given, or what makes it, hidden_weight and the rest, got {weight}")
    if weight is not None and pretrained_window is not None:
        raise ValueError(f"window: pretrained_window must be None for a table of weight, got {pretrained_window!r}")
    if weight is None:
        hidden_weight = _array("hidden_weight", hidden_weight, "u", axes)  # (u, a)
        hidden = x @ hidden_weight.T + _array("hidden_bias", hidden_bias, len(hidden_weight))  # (r, u)
        out_weight = _array("out_weight", out_weight, "h", len(hidden_weight))  # (h, u)
        weight = 16 / (1 + np.exp(-np.maximum(hidden, 0) @ out_weight.T))  # (r, h)
    table = _array("weight", weight, len(x), "h")  # (r, h)
    row = _row(m.T[:, :, None], n.T[:, None], window).astype(int)  # (t, s)
    return table.T[:, row]  # (h, t, s)


def window_positions(window: tuple) -> np.ndarray:
    """Return the places (t, a) of a window's tokens, row by row: (0, 0), (0, 1) ... (H-1, W-1).

    Examples:
        >>> window_positions((2, 2)).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return np.array(list(np.ndindex(*_size("window", window))))  # (t, a)


def relative_index(window: tuple, class_token: bool = False) -> np.ndarray:
    """Return the row of the table for each pair of a window's tokens, (t, t); a `class_token` stands before them.

    Examples:
        >>> relative_index((1, 3))  # three tokens in a row have five offsets
        array([[2, 1, 0],
               [3, 2, 1],
               [4, 3, 2]])
    """
    if not isinstance(class_token, bool):
        raise ValueError(f"window: class_token must be True or False, got {class_token!r}; True adds BEiT's three rows")
    m = window_positions(window).T  # (a, t)
    index = _row(m[:, :, None], m[:, None], window)  # (t, t)
    if class_token:
        index, rows = np.pad(index, ((1, 0), (1, 0))), index.max() + 1
        index[0], index[:, 0], index[0, 0] = rows, rows + 1, rows + 2
    return index


def log_coordinates(window: tuple, pretrained_window: tuple | None = None) -> np.ndarray:
    """Return what Swin V2's network is given for each offset, (2H-1, 2W-1, 2), measured by `pretrained_window`.

    Examples:
        >>> log_coordinates((3, 3))[:, 0, 0].round(3).tolist()  # the rows, from two up to two down
        [-1.057, -0.774, 0.0, 0.774, 1.057]
    """
    window = _size("window", window)
    trained = window if pretrained_window is None else _size("pretrained_window", pretrained_window, len(window))
    steps = [8 * np.arange(1 - size, size) / max(w - 1, 1) for size, w in zip(window, trained, strict=True)]
    z = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1)  # (..., a)
    return np.sign(z) * np.log2(1 + np.abs(z)) / 3  # (..., a)


def resize_window(weight: Tensor, window: tuple, new_window: tuple, mode: str = "cubic") -> Tensor:
    """Return the table `weight` (r, h) of a `window` of two axes for a `new_window`; a class token's three rows stay.

    `mode` is "cubic", as in Swin, or "linear", as in transformers' BEiT; PyTorch calls them bicubic and bilinear.

    Examples:
        >>> resize_window(torch.zeros(13 * 13, 3), (7, 7), (12, 12)).shape  # 3 heads
        torch.Size([529, 3])
    """
    old = [2 * size - 1 for size in _size("window", window, 2)]
    new = [2 * size - 1 for size in _size("new_window", new_window, 2)]
    rows = old[0] * old[1]
    table = isinstance(weight, Tensor) and weight.is_floating_point() and weight.ndim == 2
    if not table or len(weight) not in (rows, rows + 3):
        form = f"{rows} rows, one an offset, or {rows + 3} with BEiT's three of a class token"
        raise ValueError(f"window: weight must be a tensor of floats (r, h) of {form}, got {_kind(weight)}")
    if not isinstance(mode, str) or mode not in ("linear", "cubic"):
        raise ValueError(f"window: mode must be linear or cubic, got {mode!r}; torch says bilinear, bicubic")
    table = weight.to(torch.promote_types(weight.dtype, torch.float32)).mT  # (h, r)
    image = table[None, :, :rows].unflatten(-1, old)
    resized = nn.functional.interpolate(image, size=new, mode=f"bi{mode}", align_corners=False)[0].flatten(1)
    return torch.cat([resized, table[:, rows:]], dim=1).mT.to(weight.dtype)


class Window(nn.Module):
    """Give the bias (h, t, s), or (b, h, t, s) for places (b, t, a), from a table or, if `continuous`, from a network.

    Learned is `weight` (r, h), which starts normal with deviation 0.02; or `hidden_weight` (512, a) and `out_weight`
    (h, 512), which start so, and `hidden_bias` (512,), at 0: a bias near 8 for all, which softmax ignores.

    Args:
        heads: Number of heads h.
        window: Rows and columns of a window, or the sizes of as many axes as it has.
        continuous: Make the table as Swin V2 does.
        pretrained_window: The window that the network was trained with, where it is another; a table has none.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> Window(heads=3, window=(2, 2))(torch.from_numpy(window_positions((2, 2)))).shape
        torch.Size([3, 4, 4])
    """

    def __init__(
        self, heads: int, window: tuple = (7, 7), continuous: bool = False, pretrained_window: tuple | None = None
    ) -> None:
        super().__init__()
        if not isinstance(heads, int | np.integer) or isinstance(heads, bool) or heads < 1:
            raise ValueError(f"window: heads must be a positive integer, got {heads!r}; each head has its own numbers")
        if not isinstance(continuous, bool):
            raise ValueError(f"window: continuous must be True or False, got {continuous!r}; True is Swin V2's network")
        self.heads, self.window, self.continuous = int(heads), _size("window", window), continuous
        self.axes = len(self.window)
        if pretrained_window is not None and not continuous:
            remedy = "a table is learned without it: pass None, and resize_window for a table of another window"
            raise ValueError(f"window: pretrained_window must be for continuous, got {pretrained_window!r}; {remedy}")
        trained = self.window if pretrained_window is None else pretrained_window
        self.pretrained_window = _size("pretrained_window", trained, self.axes)
        if continuous:
            self.hidden_weight = nn.Parameter(0.02 * torch.randn(512, self.axes))
            self.hidden_bias = nn.Parameter(torch.zeros(512))
            self.out_weight = nn.Parameter(0.02 * torch.randn(self.heads, 512))
        else:
            self.weight = nn.Parameter(0.02 * torch.randn(log_coordinates(window)[..., 0].size, self.heads))

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s) in float32 between integers `positions` (t, a) and `key_positions` (s, a)."""
        m, n = self._axes(positions, key_positions)
        row = _row([p[..., :, None] for p in m], [p[..., None, :] for p in n], self.window)  # (..., t, s)
        return self._table().mT[:, row].movedim(0, -3)  # (..., h, t, s)

    def score_mod(self, positions: Tensor, key_positions: Tensor | None = None) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = self._axes(positions, key_positions)
        m, n = ([p[0] if p.shape[:-1] == (1,) else p for p in axes] for axes in (m, n))  # one row for the whole batch
        m, n = [p.contiguous() for p in m], [p.contiguous() for p in n]  # FlexAttention's CPU kernels read no strides
        table = self._table()

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            here = [p[b, t] if p.ndim == 2 else p[t] for p in m]
            there = [p[b, s] if p.ndim == 2 else p[s] for p in n]
            return score + table[_row(here, there, self.window), h].to(score.dtype)

        return _modify

    def _table(self) -> Tensor:
        if not self.continuous:
            return self.weight.float()  # (r, h)
        device = self.out_weight.device
        exact = torch.float64 if device.type != "mps" else torch.float32  # mps has no float64
        pairs = zip(self.window, self.pretrained_window, strict=True)
        steps = [torch.arange(1 - size, size, dtype=exact, device=device) * 8 / max(w - 1, 1) for size, w in pairs]
        z = torch.stack(torch.meshgrid(*steps, indexing="ij"), dim=-1).flatten(0, -2)  # (r, a)
        x = z.sign() * torch.log2(1 + z.abs()) / 3  # (r, a)
        hidden = torch.relu(x @ self.hidden_weight.to(x).mT + self.hidden_bias.to(x))  # (r, u)
        return (16 * torch.sigmoid(hidden @ self.out_weight.to(x).mT)).float()  # (r, h)

    def _axes(self, positions: Tensor, key_positions: Tensor | None) -> list[tuple[Tensor, ...]]:
        """Return the coordinates (t,) or (b, t) on each axis, of the queries and of the keys."""
        keys, axes = positions if key_positions is None else key_positions, self.axes
        for name, given in (("positions", positions), ("key_positions", keys)):
            whole = isinstance(given, Tensor) and given.dtype in INTEGERS
            if not whole or not (given.ndim == axes == 1 or (given.ndim in (2, 3) and given.shape[-1] == axes)):
                form = f"a tensor of integers {'(t,), ' * (axes == 1)}(t, {axes}) or (b, t, {axes})"
                got = f"{'numpy array ' * isinstance(given, np.ndarray)}{_kind(given)}"
                remedy = f"torch.from_numpy(window_positions({self.window}))"
                raise ValueError(f"window: {name} must be {form}, got {got}; {remedy}")
        if positions.ndim == keys.ndim == 3 and len(positions) != len(keys) and 1 not in (len(positions), len(keys)):
            got = f"{tuple(positions.shape)} and {tuple(keys.shape)}"
            raise ValueError(f"window: positions and key_positions must be of one batch, got {got}; or one has none")
        return [(p if p.ndim > 1 else p[:, None]).long().unbind(-1) for p in (positions, keys)]

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        trained = f", pretrained_window={self.pretrained_window}" if self.continuous else ""
        return f"heads={self.heads}, window={self.window}, continuous={self.continuous}{trained}"


def _row(m: Any, n: Any, window: tuple) -> Any:
    """Return the row of the table for queries and keys at `m` and `n`, arrays or tensors, one an axis."""
    row = 0
    for here, there, size in zip(m, n, window, strict=True):
        step = (here - there).clip(1 - size, size - 1) + size - 1  # 0 .. 2 size - 2
        row = row * (2 * size - 1) + step
    return row


def _size(name: str, window: Any, axes: int | None = None) -> tuple[int, ...]:
    """Check the size of a window, of so many axes; by default of one or more."""
    listed = list(window) if isinstance(window, tuple | list) else []
    whole = all(isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0 for size in listed)
    if not listed or not whole or axes not in (None, len(listed)):
        some = f"{axes} positive integers" if axes else "positive integers, one an axis"
        also = "; for Swin V2's 0 pass None" if name == "pretrained_window" else "; such as (7, 7)"
        raise ValueError(f"window: {name} must be a tuple of {some}, got {window!r}{also}")
    return tuple(int(size) for size in listed)


def _places(name: str, given: Any, axes: int) -> np.ndarray:
    """Return whole coordinates (t, a)."""
    places = _array(name, given)
    if places.ndim == 1 and axes > 1:
        raise ValueError(f"window: {name} must be rows (t, {axes}), got {_kind(places)}; window_positions lists them")
    places = _array(name, places[:, None] if places.ndim == 1 else places, "t", axes)
    if (places % 1).any():
        raise ValueError(f"window: {name} must be whole numbers, got {given!r}; offsets index the table")
    return places


def _array(name: str, given: Any, *shape: Any) -> np.ndarray:
    """Return float64 numbers of `shape`, where a letter stands for any size; by default of any shape."""
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        array = np.array(None)
    sizes = tuple(size if isinstance(letter, str) else letter for letter, size in zip(shape, array.shape, strict=False))
    fits = not shape or (len(shape) == array.ndim and sizes == array.shape)
    if not fits or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        wanted = f"finite numbers ({', '.join(map(str, shape))})" if shape else "finite numbers"
        raise ValueError(f"window: {name} must be {wanted}, got {_kind(array)}; a batch goes window by window")
    return array.astype(np.float64)


def _kind(value: object) -> str:
    return f"{getattr(value, 'dtype', type(value).__name__)} {tuple(getattr(value, 'shape', ()))}"
