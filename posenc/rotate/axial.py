"""Axial RoPE: rotate queries and keys by two or more coordinates, such as the row and the column of a patch.

Paper: Heo et al., 2024, "Rotary Position Embedding for Vision Transformer", https://arxiv.org/abs/2403.13298, sec. 3.
Used:  EVA-02, DINOv3, Pixtral, SAM 2, the vision towers of Qwen2-VL to Qwen3-VL, RoPE-ViT
Cost:  nothing to learn, or n d/2 numbers a head (rope-vit-mixed); one table (s, d) a call, one rotation of q and k

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, n axes

    angle[i]     = sum_a p[a] theta[a, i],  a = 0 .. n-1,  i = 0 .. d/2-1
    (x[i], x[j]) -> (x[i] cos angle[i] - x[j] sin angle[i], x[i] sin angle[i] + x[j] cos angle[i])

so norms stay, and scores see only differences of coordinates. A convention chooses theta, coordinates and layout:
j = i + d/2 ("half"), or pairs 2i, 2i+1 ("interleaved"). Each axis has m = d/2n pairs of its own, which turn at
w_k = base^(-k/m) unless said below; its theta is 0 elsewhere. Coordinates go as the size, (y, x), and theta says where
x has the first pairs. Class and register tokens stay at 0. V-JEPA 2, Meta's code too, mixes layouts: no rotation.
"""

from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

Places = Tensor | None
Table = Tensor | tuple[Tensor, Tensor] | None

CONVENTIONS = {  # base, axis of the first pairs, layout; coordinates, if not whole numbers
    "per-axis": (10_000.0, "y", "half"),  # any number of axes
    "eva": (10_000.0, "y", "interleaved"),  # scaled to the reference size
    "eva-pixel": (112.0, "y", "interleaved"),  # -1 to 1, and w_k = pi base^(k/(m-1)): timm's in_pixels
    "dinov3": (100.0, "y", "half"),  # 2 pi times the centers of patches between -1 and 1
    "pixtral": (10_000.0, "y", "half"),  # y has w_0, w_1 .., x has w_(1/2), w_(3/2) ..
    "sam2": (10_000.0, "x", "interleaved"),
    "qwen-vl": (10_000.0, "y", "half"),  # tokens in blocks of merge x merge patches
    "rope-vit": (100.0, "x", "interleaved"),
    "rope-vit-mixed": (10.0, "x", "interleaved"),  # then turned at random for each head, and learned
}


def axial(
    x: np.ndarray, positions: np.ndarray, convention: str = "per-axis", axes: int = 2, theta: np.ndarray | None = None
) -> np.ndarray:
    """Return `x` (..., h, t, d) rotated to `positions` (t, n), or (t,) of text: one number for all axes.

    `theta` (n, d/2), or (g, n, d/2) for heads in g groups, replaces the frequencies of the convention.
    """
    x, places = _numbers("x", x), _numbers("positions", positions)
    theta = _theta(theta, x.shape[-1] if x.ndim > 1 else 0, convention, axes)
    if places.shape not in (x.shape[-2:-1], (x.shape[-2], axes)):
        raise ValueError(f"axial: positions must be (t, {axes}) or (t,) for x of {x.shape}, got {places.shape}")
    angle = (places if places.ndim == 2 else places[:, None].repeat(axes, axis=1)) @ theta  # (..., t, d/2)
    if theta.ndim == 3 and (x.ndim < 3 or x.shape[-3] % len(theta)):
        raise ValueError(f"axial: x must be (h, t, d), h a multiple of the {len(theta)} of theta, got {x.shape}")
    angle = angle.repeat(x.shape[-3] // len(theta), axis=0) if theta.ndim == 3 else angle  # (..., t, d/2)
    (first, second), cos, sin = _split(x, convention), np.cos(angle), np.sin(angle)
    return _joined(first * cos - second * sin, first * sin + second * cos, convention)  # (..., t, d)


def axial_theta(dim: int, convention: str = "per-axis", axes: int = 2, base: float | None = None) -> np.ndarray:
    """Return the frequencies (n, d/2) of a convention; `base` replaces its own.

    Examples:
        >>> axial_theta(8, "sam2").round(2).tolist()  # y turns the last pairs, x the first
        [[0.0, 0.0, 1.0, 0.01], [1.0, 0.01, 0.0, 0.0]]
    """
    if not isinstance(convention, str) or convention not in CONVENTIONS:
        raise ValueError(f"axial: convention must be one of {', '.join(CONVENTIONS)}, got {convention!r}")
    if not _are_counts((axes,)) or (axes != 2 and convention != "per-axis"):
        raise ValueError(f"axial: axes must be 2, or any positive integer for per-axis, got {axes!r}")
    if not _are_counts((dim,)) or dim % (2 * axes):
        raise ValueError(f"axial: dim of x must be a positive multiple of {2 * axes}, got {dim!r}; each axis has pairs")
    usual, first, _ = CONVENTIONS[convention]
    base = usual if base is None else base
    if isinstance(base, bool) or not isinstance(base, int | float | np.number) or not 0 < base < np.inf:
        raise ValueError(f"axial: base must be positive and finite, got {base!r}; {convention} takes {usual:g}")
    m = dim // axes // 2
    k = np.arange(m) + np.arange(axes)[:, None] * (0.5 if convention == "pixtral" else 0)
    w = np.pi * float(base) ** np.linspace(0, 1, m) if convention == "eva-pixel" else float(base) ** (-k / m)
    return (np.eye(axes)[:: 1 if first == "y" else -1, :, None] * w).reshape(axes, -1)  # (n, d/2)


def axial_coordinates(
    size: tuple[int, ...], convention: str = "per-axis", merge: int = 2, reference: tuple[int, ...] | None = None
) -> np.ndarray:
    """Return the coordinates (t, n) of the tokens of a grid, in their order: row by row, but for "qwen-vl".

    `size` counts the tokens along each axis, (height, width) for an image. `reference` is the size of training, to
    which whole numbers are scaled: (16, 16) in EVA-02. `merge` is the side of a block of patches of "qwen-vl".

    Examples:
        >>> axial_coordinates((2, 2), "eva", reference=(1, 1)).tolist()
        [[0.0, 0.0], [0.0, 0.5], [0.5, 0.0], [0.5, 0.5]]
    """
    axial_theta(4, convention)
    for name, value in (("size", size), ("reference", size if reference is None else reference)):
        if not _are_counts(value) or len(value) != len(size) or (len(value) != 2 and convention != "per-axis"):
            raise ValueError(f"axial: {name} must be positive integers, one for each axis, 2 for most, got {value!r}")
    if not _are_counts((merge,)) or (convention == "qwen-vl" and any(length % merge for length in size)):
        raise ValueError(f"axial: merge must be a positive divisor of the size {size}, got {merge!r}")
    if reference is not None and convention in ("dinov3", "eva-pixel"):
        raise ValueError(f"axial: reference must be None for {convention}, got {reference}; each size is scaled alike")
    lines = [np.linspace(-1, 1, n) if convention == "eva-pixel" else np.arange(float(n)) for n in size]
    lines = [2 * np.pi * ((2 * n + 1) / len(n) - 1) for n in lines] if convention == "dinov3" else lines
    lines = [line / len(line) * n for line, n in zip(lines, reference, strict=True)] if reference else lines
    grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    if convention == "qwen-vl":
        grid = grid.reshape(size[0] // merge, merge, size[1] // merge, merge, 2).swapaxes(1, 2)
    return grid.reshape(-1, len(size))  # (t, n)


class Axial(nn.Module):
    """Rotate queries and keys by their coordinates. Angles are computed in float64 in each call, and rounded once.

    Args:
        dim: Width d of a head; a multiple of 2n.
        convention: Whose frequencies and layout, one of `CONVENTIONS`.
        axes: Coordinates n of a position: 2, or any number for "per-axis".
        theta: Frequencies (n, d/2), or (g, n, d/2) for each key/value head, instead of those of the convention.
        heads: For "rope-vit-mixed", how many `theta` (n, d/2) to learn: the key heads g, not the query heads, or a
            divisor of g. As in the paper each starts as the convention's, or the given one, turned by a random angle.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> grid, patches = torch.from_numpy(axial_coordinates((2, 3))), torch.ones(1, 1, 6, 16)
        >>> q, k = Axial(16)(patches, patches, positions=grid, key_positions=grid)
        >>> [round(score, 1) for score in (q @ k.mT)[0, 0, 0].tolist()]  # from the first patch to all
        [16.0, 15.1, 13.1, 15.1, 14.1, 12.2]
    """

    def __init__(
        self, dim: int, convention: str = "per-axis", axes: int = 2, theta: Any = None, heads: int | None = None
    ) -> None:
        super().__init__()
        start, mixed = _theta(theta, dim, convention, axes), convention == "rope-vit-mixed"
        given = len(start) if start.ndim == 3 else None
        if not (_are_counts((heads,)) and given is None if mixed else heads is None):
            raise ValueError(f"axial: heads must be positive for rope-vit-mixed, None for others, got {heads!r}")
        self.dim, self.convention, self.axes, self.heads = int(dim), convention, int(axes), int(heads or 0) or given
        self.theta: Any = start.tolist()
        if mixed:
            (y, x), turn = torch.tensor(start), 2 * np.pi * torch.rand(self.heads or 1, 1, dtype=torch.float64)
            turned = torch.stack([y * turn.cos() + x * turn.sin(), x * turn.cos() - y * turn.sin()], dim=1)
            self.theta = nn.Parameter(turned.float())  # (g, n, d/2)

    def forward(
        self, q: Tensor, k: Tensor, positions: Places = None, key_positions: Places = None, table: Table = None
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d) rotated to their positions; h is a multiple of g.

        `positions` are (t, n) or (b, t, n), or (t,) of text: one number for all axes; so are `key_positions`. By
        default keys are text at 0 .. s-1, and queries the last t of these. `table`, from `table(key_positions)`,
        replaces both, and queries take its last t rows; or pass a pair, of queries and of keys.
        """
        t, s, dtype = self._check(q, k, positions, key_positions, table)
        if table is None:
            m = torch.arange(s - t, s, device=q.device) if positions is None else positions
            n = torch.arange(s, device=k.device) if key_positions is None else key_positions
            of_k = self.table(n, dtype)
            table = (of_k if m is n else self.table(m, dtype)), of_k
        elif isinstance(table, Tensor):
            table = table[..., s - t :, :], table
        return self._rotated(q, table[0]), self._rotated(k, table[1])  # (b, h, t, d), (b, g, s, d)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the table (..., t, d), or (..., g, t, d), of `positions`: cos and sin in the places of a pair."""
        if not _are_numbers(positions) or not positions.ndim or positions.shape[1:][-1:] not in ((), (self.axes,)):
            raise ValueError(f"axial: positions must be a tensor (..., t, {self.axes}) or (t,), got {_kind(positions)}")
        if not isinstance(dtype, torch.dtype) or dtype.itemsize < 4 or not dtype.is_floating_point:
            raise ValueError(f"axial: dtype must be torch.float32 or torch.float64, got {dtype!r}; others are coarse")
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        places = positions[:, None].expand(-1, self.axes) if positions.ndim == 1 else positions  # (..., t, n)
        places = (places if self.heads is None else places.unsqueeze(-3)).to(where, torch.float64)
        own = torch.tensor(self.theta, dtype=torch.float64, device="cpu") if type(self.theta) is list else self.theta
        theta = own.to(where, torch.float64, non_blocking=True)  # (..., n, d/2)
        angle = (places[..., None] * theta.unsqueeze(-3)).sum(dim=-2)  # (..., t, d/2)
        return _joined(angle.cos(), angle.sin(), self.convention).to(dtype).to(positions.device)  # (..., t, d)

    def _rotated(self, x: Tensor, table: Tensor) -> Tensor:
        table = table.unsqueeze(-3) if self.heads is None else table.repeat_interleave(x.shape[1] // self.heads, dim=-3)
        (left, right), (cos, sin) = (_split(y, self.convention) for y in (x.to(table.dtype), table.to(x.device)))
        return _joined(left * cos - right * sin, left * sin + right * cos, self.convention).to(x.dtype)  # (b, h, t, d)

    def _check(self, q: Tensor, k: Tensor, positions: Any, key_positions: Any, table: Any) -> tuple:
        for name, x in (("q", q), ("k", k)):
            if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim != 4 or x.shape[-1] != self.dim:
                raise ValueError(f"axial: {name} must be floating point (b, h, t, {self.dim}), got {_kind(x)}")
        (b, h, t, d), (_, g, s, _), n, c = q.shape, k.shape, self.axes, self.heads or 1
        if k.shape[0] != b or not g or h % g or g % c:
            raise ValueError(f"axial: q and k must be one batch, h a multiple of g, g of {c}, got {q.shape} {k.shape}")
        for name, given, rows in (("positions", positions, t), ("key_positions", key_positions, s)):
            if given is not None and not (_are_numbers(given) and given.shape in ((rows,), (rows, n), (b, rows, n))):
                raise ValueError(f"axial: {name} must be a tensor (t,), (t, n) or {(b, rows, n)}, got {_kind(given)}")
        dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        pair: Any = table if isinstance(table, tuple) and len(table) == 2 else (table, table)
        of = () if self.heads is None else (self.heads,)
        for given, rows in ((pair[0], t if pair is table else s), (pair[1], s)) if table is not None else ():
            exact = _are_numbers(given) and given.dtype in (dtype, torch.float64) and (pair is table or t <= s)
            if not exact or given.shape not in ((*of, rows, d), (b, *of, rows, d)):
                form = f"{dtype} {(*of, s, d)} or {(b, *of, s, d)}, or a pair, for {t} queries and {s} keys"
                raise ValueError(f"axial: table must be {form}, got {_kind(given)}; make it with table(positions)")
        return t, s, dtype

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return ", ".join(f"{name}={vars(self)[name]!r}" for name in ("dim", "convention", "axes", "heads"))


def _theta(theta: Any, dim: int, convention: str, axes: int) -> np.ndarray:
    usual = axial_theta(dim, convention, axes)
    given = usual if theta is None else _numbers("theta", theta)
    if given.shape[-2:] != usual.shape or given.ndim > 3 or not len(given):
        raise ValueError(f"axial: theta must be {usual.shape} or (g, {axes}, {dim // 2}), got {given.shape}")
    return given


def _are_numbers(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.dtype != torch.bool and not value.is_complex()


def _split(x: Any, convention: str) -> tuple[Any, Any]:
    half = x.shape[-1] // 2
    return (x[..., :half], x[..., half:]) if CONVENTIONS[convention][2] == "half" else (x[..., 0::2], x[..., 1::2])


def _joined(first: Any, second: Any, convention: str) -> Any:
    library: Any = torch if isinstance(first, Tensor) else np
    order = -2 if CONVENTIONS[convention][2] == "half" else -1
    return library.stack([first, second], order).reshape(*first.shape[:-1], 2 * first.shape[-1])


def _numbers(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # ragged, or a tensor that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"axial: {name} must be finite numbers, got {type(value).__name__}; a tensor needs detach()")
    return array.astype(np.float64)


def _are_counts(values: Any) -> bool:
    integers = isinstance(values, tuple | list) and not any(isinstance(value, bool) for value in values)
    return integers and len(values) > 0 and all(isinstance(value, int | np.integer) and value > 0 for value in values)


def _kind(x: object) -> str:
    return f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else f"{type(x).__name__}; take torch.as_tensor(...)"
