"""Conventions of axial RoPE: the frequencies, pairs and coordinates of ten families of models.

Paper: Heo et al., 2024, "Rotary Position Embedding for Vision Transformer",
       https://arxiv.org/abs/2403.13298, sec. 3.

Used:  each as its name says; "eva-pixel" is timm's in_pixels, "per-axis" the plain form
Cost:  nothing to learn but for "rope-vit-mixed"

Key:   t tokens, d head dim, n axes, m pairs of an axis

    theta = base^(-k/m), k = 0 .. m-1, for the m = d/2n pairs of an axis, and 0 in the others
    Axial(dim, **axial_convention(dim, name)), at axial_coordinates((height, width), name)

Coordinates are whole numbers in the order of the size, (y, x); the first pairs are y's, or x's.
Exceptions stand below. V-JEPA 2 mixes two layouts: that is no rotation.
"""

import numpy as np

CONVENTIONS = {  # base, axis of the first pairs, layout
    "per-axis": (10_000.0, "y", "half"),
    "eva": (10_000.0, "y", "interleaved"),  # coordinates are scaled to a reference size
    "eva-pixel": (112.0, "y", "interleaved"),  # -1 to 1; theta pi base^(k/(m-1)): timm's in_pixels
    "dinov3": (100.0, "y", "half"),  # 2 pi times the centers of patches between -1 and 1
    "pixtral": (10_000.0, "y", "half"),  # y has k = 0, 1 .., x has k = 1/2, 3/2 ..
    "sam2": (10_000.0, "x", "interleaved"),
    "qwen-vl": (10_000.0, "y", "half"),  # tokens in blocks of merge x merge patches
    "gemma4": (100.0, "x", "blocks"),  # its vision tower
    "rope-vit": (100.0, "x", "interleaved"),
    "rope-vit-mixed": (10.0, "x", "interleaved"),  # then turned for each head and learned: heads=
}


def axial_convention(dim: int, convention="per-axis", axes: int = 2, base=None) -> dict:
    """Return the `theta` and `layout` of a convention, as `Axial` takes them.

    Examples:
        >>> axial_convention(4, "sam2")["layout"]
        'interleaved'
    """
    theta = axial_theta(dim, convention, axes, base)  # (n, d/2)
    return {"theta": theta, "layout": CONVENTIONS[convention][2]}


def axial_theta(dim: int, convention="per-axis", axes: int = 2, base=None) -> np.ndarray:
    """Return the frequencies (n, d/2) of a convention; `base` replaces its own.

    Examples:
        >>> axial_theta(8, "sam2").round(2).tolist()  # y turns the last pairs, x the first
        [[0.0, 0.0, 1.0, 0.01], [1.0, 0.01, 0.0, 0.0]]
    """
    _check(convention)
    usual, first, _ = CONVENTIONS[convention]
    base = usual if base is None else base
    if not 0 < base < float("inf"):
        raise ValueError(f"axial_convention: base must be positive and finite, got {base}")
    m = dim // axes // 2
    if m < 1 or dim != 2 * m * axes:
        raise ValueError(f"axial_convention: dim must be a multiple of {2 * axes}, got {dim}")
    k = np.arange(m) + np.zeros((axes, 1))  # (n, m)
    if convention == "pixtral":
        k += np.arange(axes)[:, None] / axes
    own = base ** (-k / m)
    if convention == "eva-pixel":
        own = np.pi * base ** np.linspace(0, 1, m)
    of_axis = np.eye(axes) if first == "y" else np.eye(axes)[::-1]
    return (of_axis[..., None] * own).reshape(axes, -1)  # (n, d/2)


def axial_coordinates(size, convention="per-axis", merge: int = 2, reference=None) -> np.ndarray:
    """Return the coordinates (t, n) of a grid of tokens, row by row, for "qwen-vl" block by block.

    `size` counts the tokens along each axis, (height, width) for an image. `reference` is the size
    of training, to which whole numbers are scaled: (16, 16) in EVA-02. `merge` is the side of a
    block of "qwen-vl".

    Examples:
        >>> axial_coordinates((2, 2), "eva", reference=(1, 1)).tolist()
        [[0.0, 0.0], [0.0, 0.5], [0.5, 0.0], [0.5, 0.5]]
    """
    _check(convention)
    if reference is not None and convention in ("dinov3", "eva-pixel"):  # these scale all sizes
        raise ValueError(f"axial_convention: reference must be None here, got {reference}")
    lines = [np.arange(n, dtype=np.float64) for n in size]
    if convention == "eva-pixel":
        lines = [np.linspace(-1, 1, n) for n in size]
    if convention == "dinov3":
        lines = [2 * np.pi * ((2 * line + 1) / len(line) - 1) for line in lines]
    if reference is not None:
        lines = [line / len(line) * n for line, n in zip(lines, reference, strict=True)]
    grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    if convention == "qwen-vl":
        height, width = size
        grid = grid.reshape(height // merge, merge, width // merge, merge, 2).swapaxes(1, 2)
    return grid.reshape(-1, len(size))  # (t, n)


def _check(convention):
    if convention not in tuple(CONVENTIONS):
        names = ", ".join(CONVENTIONS)
        raise ValueError(f"axial_convention: convention must be {names}, got {convention!r}")
