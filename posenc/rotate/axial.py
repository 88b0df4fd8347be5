"""Axial RoPE: rotate queries and keys by two or more coordinates, such as the row and the column of a patch.

Paper: Heo et al., 2024, "Rotary Position Embedding for Vision Transformer", https://arxiv.org/abs/2403.13298, sec. 3.
Used:  EVA-02, DINOv3, Pixtral, SAM 2, the vision towers of Qwen2-VL to Qwen3-VL and of Gemma 4, RoPE-ViT
Cost:  nothing to learn, or n d/2 numbers a head (rope-vit-mixed); one table (s, d) a call, one rotation of q and k

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, n axes

    angle[i]     = sum_a p[a] theta[a, i],  a = 0 .. n-1,  i = 0 .. d/2-1
    (x[i], x[j]) -> (x[i] cos angle[i] - x[j] sin angle[i], x[i] sin angle[i] + x[j] cos angle[i])

so norms stay, and scores see differences of coordinates alone. A convention chooses theta, coordinates and layout: i
and j are neighbors ("interleaved"), or halves of the head ("half") or of the d/n channels of an axis ("blocks"). Each
axis has m = d/2n pairs, of w_k = base^(-k/m) unless `CONVENTIONS` says otherwise, and theta 0 in the other pairs.
Coordinates come in the order of the size, (y, x); the first pairs are y's, or by convention x's. Class tokens stay at
0. V-JEPA 2 mixes layouts: that is no rotation.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Places = Tensor | None
Table = Tensor | tuple[Tensor, Tensor] | None
NO_NUMBERS = (torch.bool, torch.complex32, torch.complex64, torch.complex128)
GRID = "a row for each token, as of grid_positions(height, width) or axial_coordinates((height, width))"
CONVENTIONS = {  # base, axis of the first pairs, layout; coordinates, if not whole numbers
    "per-axis": (10_000.0, "y", "half"),
    "eva": (10_000.0, "y", "interleaved"),  # scaled to the reference size
    "eva-pixel": (112.0, "y", "interleaved"),  # -1 to 1, and w_k = pi base^(k/(m-1)): timm's in_pixels
    "dinov3": (100.0, "y", "half"),  # 2 pi times the centers of patches between -1 and 1
    "pixtral": (10_000.0, "y", "half"),  # y has w_0, w_1 .., x has w_(1/2), w_(3/2) ..
    "sam2": (10_000.0, "x", "interleaved"),
    "qwen-vl": (10_000.0, "y", "half"),  # tokens in blocks of merge x merge patches
    "gemma4": (100.0, "x", "blocks"),  # its vision tower
    "rope-vit": (100.0, "x", "interleaved"),
    "rope-vit-mixed": (10.0, "x", "interleaved"),  # then turned at random for each head, and learned
}
PLANAR = ("pixtral", "qwen-vl", "rope-vit-mixed")  # two axes; others any number, the first instead of y, the last of x


def axial(
    x: np.ndarray, positions: np.ndarray, convention: str = "per-axis", axes: int = 2, theta: np.ndarray | None = None
) -> np.ndarray:
    """Return `x` (..., h, t, d) rotated to `positions` (t, n); `theta` (n, d/2), or (g, n, d/2) by head, if given."""
    x, places = _numbers("x", x), _numbers("positions", positions)
    theta, blocks = _theta(theta, x.shape[-1] if x.ndim > 1 else 0, convention, axes)
    _require(places.shape == (x.shape[-2], axes), "positions", f"(t, {axes}) for x of {x.shape}", places.shape, GRID)
    angle = places @ theta  # (..., t, d/2)
    grouped = theta.ndim == 2 or (x.ndim > 2 and x.shape[-3] % len(theta) == 0)
    _require(grouped, "x", f"(h, t, d), h a multiple of the {len(theta)} of theta", x.shape)
    angle = angle.repeat(x.shape[-3] // len(theta), axis=0) if theta.ndim == 3 else angle  # (..., t, d/2)
    (first, second), cos, sin = _split(x, blocks), np.cos(angle), np.sin(angle)
    return _joined(first * cos - second * sin, first * sin + second * cos, blocks)  # (..., t, d)


def axial_theta(dim: int, convention: str = "per-axis", axes: int = 2, base: float | None = None) -> np.ndarray:
    """Return the frequencies (n, d/2) of a convention; `base` replaces its own.

    Examples:
        >>> axial_theta(8, "sam2").round(2).tolist()  # y turns the last pairs, x the first
        [[0.0, 0.0, 1.0, 0.01], [1.0, 0.01, 0.0, 0.0]]
    """
    _check_settings(dim, convention, axes)
    usual, first, _ = CONVENTIONS[convention]
    m, base = dim // axes // 2, usual if base is None else base
    number = isinstance(base, int | float | np.number) and not isinstance(base, bool)
    _require(number and 0 < base < np.inf, "base", "positive and finite", base, f"{convention} takes {usual:g}")
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
    _check_settings(4, convention, 2)
    for name, value in (("size", size), ("reference", size if reference is None else reference)):
        fits = _are_counts(value) and len(value) == len(size) and (len(value) == 2 or convention not in PLANAR)
        _require(fits, name, "positive integers, one for each axis", value, "an image has 2")
    fits = _are_counts((merge,)) and (convention != "qwen-vl" or not any(length % merge for length in size))
    _require(fits, "merge", f"a positive divisor of the size {size}", merge)
    free = reference is None or convention not in ("dinov3", "eva-pixel")  # these scale every size alike
    _require(free, "reference", f"None for {convention}", reference)
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
        dim: Width d of a head; a multiple of 2n, or with `theta` any even number.
        convention: Whose frequencies and layout: "per-axis", "eva", "eva-pixel", "dinov3", "pixtral", "sam2",
            "qwen-vl", "gemma4", "rope-vit" or "rope-vit-mixed".
        axes: Coordinates n of a position: 2, or 3 for video, where Wan needs a `theta` of 22, 21, 21 pairs.
        theta: Frequencies (n, d/2), or (g, n, d/2) for each key/value head, of any axis in any pair; the layout stays.
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
        (start, self.blocks), mixed = _theta(theta, dim, convention, axes), convention == "rope-vit-mixed"
        given = len(start) if start.ndim == 3 else None
        fits = _are_counts((heads,)) and given is None if mixed else heads is None
        _require(fits, "heads", "positive for rope-vit-mixed, None for others", heads)
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

        Positions are (t, n), (1, t, n) or (b, t, n), without a default, which would be a diagonal; as many keys stand
        where the queries do, unless `key_positions` says otherwise. `table`, from `table(key_positions)`, replaces
        them: queries take its last t rows; or pass two, of queries and of keys.
        """
        t, s, key_positions, dtype = self._check(q, k, positions, key_positions, table)
        if positions is not None and key_positions is not None and table is None:
            of_k = self.table(key_positions, dtype)
            table = (of_k if positions is key_positions else self.table(positions, dtype)), of_k
        of_q, of_k = (table[..., s - t :, :], table) if isinstance(table, Tensor) else table or (q, k)
        return self._rotated(q, of_q), self._rotated(k, of_k)  # (b, h, t, d), (b, g, s, d)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the table (..., t, d), or (..., g, t, d), of `positions`: cos and sin in the places of a pair."""
        fits = isinstance(positions, Tensor) and positions.dtype not in NO_NUMBERS
        positions = positions[:, None] if fits and positions.ndim == self.axes == 1 else positions  # a line
        fits = fits and positions.shape[1:][-1:] == (self.axes,)
        _require(fits, "positions", f"a tensor of numbers (..., t, {self.axes})", positions, GRID)
        _require(dtype is torch.float32 or dtype is torch.float64, "dtype", "torch.float32 or torch.float64", dtype)
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        places = (positions if self.heads is None else positions.unsqueeze(-3)).to(where, torch.float64)
        own = torch.tensor(self.theta, dtype=torch.float64, device="cpu") if type(self.theta) is list else self.theta
        theta = own.to(where, torch.float64, non_blocking=True)  # (..., n, d/2)
        angle = (places[..., None] * theta.unsqueeze(-3)).sum(dim=-2)  # (..., t, d/2)
        return _joined(angle.cos(), angle.sin(), self.blocks).to(dtype).to(positions.device)  # (..., t, d)

    def _rotated(self, x: Tensor, table: Tensor) -> Tensor:
        table = table.unsqueeze(-3) if self.heads is None else table.repeat_interleave(x.shape[1] // self.heads, dim=-3)
        (left, right), (cos, sin) = (_split(y, self.blocks) for y in (x.to(table.dtype), table.to(x.device)))
        return _joined(left * cos - right * sin, left * sin + right * cos, self.blocks).to(x.dtype)  # (b, h, t, d)

    def _check(self, q: Tensor, k: Tensor, positions: Any, key_positions: Any, table: Any) -> tuple:
        for name, x in (("q", q), ("k", k)):
            fits = isinstance(x, Tensor) and x.is_floating_point() and x.ndim == 4 and x.shape[-1] == self.dim
            _require(fits, name, f"a floating point tensor (b, h, t, {self.dim})", x)
        (b, h, t, d), (_, g, s, _), n, c = q.shape, k.shape, self.axes, self.heads or 1
        fits = k.shape[0] == b and g and h % g == 0 and g % c == 0
        _require(fits, "q and k", f"one batch, h a multiple of g, g of {c}", (q.shape, k.shape))
        given: Any
        key_positions = positions if key_positions is None and positions is not None and t == s else key_positions
        for name, given, rows in (("positions", positions, t), ("key_positions", key_positions, s)):
            fits = isinstance(given, Tensor) and given.dtype not in NO_NUMBERS
            where = given[:, None] if fits and given.ndim == n == 1 else given
            fits = fits and where.ndim in (2, 3) and where.shape[-1] == n and where.shape[-2] == rows
            fits = fits and (where.ndim == 2 or where.shape[0] == 1 or where.shape[0] == b)  # `in` may miss equal sizes
            fits = fits or (given is None and table is not None)
            _require(fits, name, f"a tensor of numbers (t, {n}), (1, t, {n}) or (b, t, {n})", given, GRID)
        dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.float32)
        pair: Any = table if isinstance(table, tuple) and len(table) == 2 else (table, table)
        of = () if self.heads is None else (self.heads,)
        for given, rows in ((pair[0], t if pair is table else s), (pair[1], s)) if table is not None else ():
            fits = isinstance(given, Tensor) and given.dtype in (dtype, torch.float64) and (pair is table or t <= s)
            fits = fits and given.shape in ((*of, rows, d), (1, *of, rows, d), (b, *of, rows, d))
            _require(fits, "table", f"{dtype} table(positions) of at least as many keys as queries, or a pair", given)
        return t, s, key_positions, dtype

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return ", ".join(f"{name}={vars(self)[name]!r}" for name in ("dim", "convention", "axes", "heads"))


def _theta(theta: Any, dim: int, convention: str, axes: int) -> tuple[np.ndarray, int]:
    _check_settings(dim, convention, axes, theta is not None)
    blocks = {"half": 1, "blocks": int(axes), "interleaved": int(dim) // 2}[CONVENTIONS[convention][2]]
    given = axial_theta(dim, convention, axes) if theta is None else _numbers("theta", theta)
    fits = given.shape[-2:] == (axes, dim // 2) and given.ndim < 4 and len(given)
    _require(fits, "theta", f"{(axes, dim // 2)} or (g, {axes}, {dim // 2})", given.shape)
    return given, blocks


def _check_settings(dim: int, convention: str, axes: int, given: bool = False) -> None:
    names = ", ".join(CONVENTIONS)
    _require(isinstance(convention, str) and convention in CONVENTIONS, "convention", f"one of {names}", convention)
    fits = _are_counts((axes,)) and (axes == 2 or convention not in (PLANAR[-1:] if given else PLANAR))
    _require(fits, "axes", f"a positive integer, 2 for {', '.join(PLANAR)}", axes)
    step = 2 if given and CONVENTIONS[convention][2] != "blocks" else 2 * axes
    equal = "each axis has as many pairs, unless theta shares them otherwise"
    _require(_are_counts((dim,)) and dim % step == 0, "dim of x", f"a positive multiple of {step}", dim, equal)


def _split(x: Any, blocks: int) -> Any:
    pairs = x.reshape(*x.shape[:-1], blocks, 2, x.shape[-1] // (2 * blocks))
    return tuple(pairs[..., i, :].reshape(*x.shape[:-1], x.shape[-1] // 2) for i in (0, 1))


def _joined(first: Any, second: Any, blocks: int) -> Any:
    library, (*lead, half) = torch if isinstance(first, Tensor) else np, first.shape
    both = [part.reshape(*lead, blocks, half // blocks) for part in (first, second)]
    return library.stack(both, -2).reshape(*lead, 2 * half)


def _numbers(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # ragged, or a tensor that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"axial: {name} must be finite numbers, got {type(value).__name__}; a tensor needs detach()")
    return array.astype(np.float64)


def _are_counts(values: Any) -> bool:
    counts = isinstance(values, tuple | list) and [isinstance(n, int | np.integer) and n > 0 for n in values]
    return bool(counts) and all(counts) and not any(isinstance(n, bool) for n in values)


def _require(fits: object, name: str, condition: str, got: Any, remedy: str = "") -> None:
    if not fits:
        remedy = "take torch.as_tensor(...)" if "tensor" in condition and isinstance(got, list | np.ndarray) else remedy
        got = f"{got.dtype} {tuple(got.shape)}" if isinstance(got, Tensor | np.ndarray) else f"{got!r:.90}"
        raise ValueError(f"axial: {name} must be {condition}, got {got}{'; ' * bool(remedy)}{remedy}")
