"""Axial RoPE in released models: their frequencies, pairs and coordinates.

Paper: Heo et al., 2024, "Rotary Position Embedding for Vision Transformer",
       https://arxiv.org/abs/2403.13298, sec. 3.
Used:  with `Axial`; each name of CONVENTIONS and PRESETS says by which models

Key:   t tokens, d head dim, n axes, m pairs of an axis, w = 2m channels of an axis

    theta = base^(-k/m), k = 0 .. m-1, for the m pairs of an axis, and 0 in the others

Models share this formula and differ in base, in the order of axes and pairs, and in coordinates.

A convention is that of an encoder of pictures:

    Axial(d, **axial_convention(d, name)), at axial_coordinates((height, width), name)

Its coordinates are whole numbers in the order of the size, (y, x), and the first pairs are y's, or
x's. "per-axis" is the plain form, "eva-pixel" is timm's in_pixels. V-JEPA 2 mixes two layouts: that
is no rotation.

A preset is that of a generator of pictures or videos:

    Axial(d, **axial_preset(name, d)), at preset_coordinates((frames, height, width), name)

Its axes are (frame, row, column), in Flux 2 also the position in a text; the first channels are
those of frames. A size counts tokens, which are patches of the latent picture. Cosmos changes the
base of an axis by `scale`, as NTK scaling does. Text that attends together with the picture has the
positions of `preset_text`; at 0 it is not rotated. Wan and Cosmos reach text by cross-attention,
which rotates neither side.
"""

from collections.abc import Sequence
from typing import Any

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
    "rope-vit-mixed": (10.0, "x", "interleaved"),  # then rotated for each head and learned: heads=
}


def axial_convention(
    dim: int, convention: str = "per-axis", axes: int = 2, base: float | None = None
) -> dict[str, Any]:
    """Return the `theta` and `layout` of a convention, as `Axial` takes them.

    Raises:
        ValueError: If there is no such convention.
        ValueError: If `base` is not positive and finite.
        ValueError: If `dim` is not of whole pairs of each axis.

    Examples:
        >>> axial_convention(4, "sam2")["layout"]
        'interleaved'
    """
    theta = axial_theta(dim, convention, axes, base)  # (n, d/2)
    return {"theta": theta, "layout": CONVENTIONS[convention][2]}


def axial_theta(
    dim: int, convention: str = "per-axis", axes: int = 2, base: float | None = None
) -> np.ndarray:
    """Return the frequencies (n, d/2) of a convention; `base` replaces its own.

    Raises:
        ValueError: If there is no such convention.
        ValueError: If `base` is not positive and finite.
        ValueError: If `dim` is not of whole pairs of each axis.

    Examples:
        >>> axial_theta(8, "sam2").round(2).tolist()  # y rotates the last pairs, x the first
        [[0.0, 0.0, 1.0, 0.01], [1.0, 0.01, 0.0, 0.0]]
    """
    _check_convention(convention)
    default_base, first_axis, _ = CONVENTIONS[convention]
    base = default_base if base is None else base
    if not 0 < base < float("inf"):
        raise ValueError(f"axial_convention: base must be positive and finite, got {base}")
    m = dim // axes // 2
    if m < 1 or dim != 2 * m * axes:
        raise ValueError(f"axial_convention: dim must be a multiple of {2 * axes}, got {dim}")
    k = np.arange(m) + np.zeros((axes, 1))  # (n, m)
    if convention == "pixtral":
        # the axes share one sequence of frequencies, of which each takes every n-th
        k += np.arange(axes)[:, None] / axes
    theta = base ** (-k / m)  # (n, m)
    if convention == "eva-pixel":
        theta = np.pi * base ** np.linspace(0, 1, m)
    # each axis has one block of pairs to itself, and is 0 in the others
    block_of_axis = np.eye(axes)
    if first_axis == "x":
        block_of_axis = block_of_axis[::-1]
    return (block_of_axis[..., None] * theta).reshape(axes, -1)  # (n, d/2)


def axial_coordinates(
    size: Sequence[int],
    convention: str = "per-axis",
    merge: int = 2,
    reference: Sequence[int] | None = None,
) -> np.ndarray:
    """Return the coordinates (t, n) of a grid of tokens, row by row, for "qwen-vl" block by block.

    `size` counts the tokens along each axis, (height, width) for an image. `reference` is the size
    of training, to which whole numbers are scaled: (16, 16) in EVA-02. `merge` is the side of a
    block of "qwen-vl".

    Raises:
        ValueError: If there is no such convention.
        ValueError: If there is a `reference` for a convention that scales every size by itself.

    Examples:
        >>> axial_coordinates((2, 2), "eva", reference=(1, 1)).tolist()
        [[0.0, 0.0], [0.0, 0.5], [0.5, 0.0], [0.5, 0.5]]
    """
    _check_convention(convention)
    # these two scale every size by themselves
    if reference is not None and convention in ("dinov3", "eva-pixel"):
        raise ValueError(f"axial_convention: reference must be None here, got {reference}")
    lines = [np.arange(count, dtype=np.float64) for count in size]
    if convention == "eva-pixel":
        lines = [np.linspace(-1, 1, count) for count in size]
    if convention == "dinov3":
        lines = [2 * np.pi * ((2 * line + 1) / len(line) - 1) for line in lines]
    if reference is not None:
        lines = [line / len(line) * n for line, n in zip(lines, reference, strict=True)]
    grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    if convention == "qwen-vl":
        # the patches that are merged into one token later follow one another
        height, width = size
        grid = grid.reshape(height // merge, merge, width // merge, merge, 2).swapaxes(1, 2)
    return grid.reshape(-1, len(size))  # (t, n)


def _check_convention(convention: str) -> None:
    # in a tuple: a dict raises a TypeError of its own for what it cannot hash, such as a list
    if convention not in tuple(CONVENTIONS):
        names = ", ".join(CONVENTIONS)
        raise ValueError(f"axial_convention: convention must be {names}, got {convention!r}")


PRESETS = {  # base, shares of the axes, layout
    "flux": (10_000.0, (2, 7, 7), "interleaved"),  # frame 0; in Kontext 1 for the given picture
    "flux2": (2_000.0, (1, 1, 1, 1), "interleaved"),  # given pictures at the frames 10, 20 ..
    "qwen-image": (10_000.0, (2, 7, 7), "interleaved"),  # given pictures at the frames 1, 2 ..
    "wan": (10_000.0, None, "interleaved"),  # a third each, rounded down for rows and columns
    "hunyuan-video": (256.0, (2, 7, 7), "interleaved"),
    "cogvideox": (10_000.0, (2, 3, 3), "interleaved"),
    "cosmos": (10_000.0, None, "half"),  # frames at 24 a second; time scaled by 2
}


def axial_preset(name: str, dim: int = 128, scale: Sequence[float] | None = None) -> dict[str, Any]:
    """Return `axes`, `theta` (n, d/2) and `layout` of a model, as `Axial` takes them.

    `scale` (n,) is the NTK factor of each axis, (2, 1, 1) in the first Cosmos.

    Raises:
        ValueError: If there is no such preset.
        ValueError: If `dim` cannot be divided among the axes of the preset.

    Examples:
        >>> preset = axial_preset("cogvideox", 16)
        >>> preset["axes"], preset["layout"], preset["theta"].round(2).tolist()[1]
        (3, 'interleaved', [0.0, 0.0, 1.0, 0.05, 0.0, 0.0, 0.0, 0.0])
    """
    _check_preset(name)
    base, _, layout = PRESETS[name]
    widths = _widths(name, dim)
    n = len(widths)
    if not scale:
        scale = (2, 1, 1) if name == "cosmos" else [1] * n
    thetas = []
    for w, stretch in zip(widths, scale, strict=True):
        # so that the lowest frequency is divided by the factor, and the highest stays
        stretched_base = base * stretch ** (w / max(w - 2, 1))
        thetas.append(stretched_base ** (-np.arange(0, w, 2) / w))
    # each axis has one block of pairs to itself, and is 0 in the others
    axis = np.repeat(np.arange(n), [len(theta) for theta in thetas])  # (d/2,)
    theta = np.where(axis == np.arange(n)[:, None], np.concatenate(thetas), 0.0)  # (n, d/2)
    return {"axes": n, "theta": theta, "layout": layout}


def _widths(name: str, dim: int) -> list[int]:
    """Return the channels w of each axis, which add up to `dim`."""
    _, shares, _ = PRESETS[name]
    if shares is None:
        if dim < 6 or dim % 2:
            raise ValueError(f"axial_preset: dim must be even, 6 or more, got {dim}")
        side = dim // 6 * 2
        return [dim - 2 * side, side, side]
    unit = dim // sum(shares)
    if unit % 2 or dim != unit * sum(shares):
        raise ValueError(f"axial_preset: dim must be a multiple of {2 * sum(shares)}, got {dim}")
    return [unit * share for share in shares]


def preset_coordinates(
    size: Sequence[int],
    name: str,
    frame: int = 0,
    fps: float | None = None,
    reference: Sequence[int] | None = None,
) -> np.ndarray:
    """Return the coordinates (t, n) of a picture or video of `size` (frames, height, width).

    `frame` is the number of the first frame, which distinguishes several pictures. `fps` is for
    videos of Cosmos. `reference` (height, width) is for CogVideoX of the first version: the grid of
    its training, into which another is fitted.

    Raises:
        ValueError: If there is no such preset.

    Examples:
        >>> preset_coordinates((1, 2, 3), "qwen-image")[:3].tolist()  # from the center
        [[0.0, -1.0, -2.0], [0.0, -1.0, -1.0], [0.0, -1.0, 0.0]]
    """
    _check_preset(name)
    _, height, width = size
    lines = [np.arange(count, dtype=np.float64) for count in size]
    lines[0] += frame
    if fps is not None:
        # a step in time is a 24th of a second, whatever the video
        lines[0] *= 24 / fps
    if name == "qwen-image":
        lines[1] -= height - height // 2
        lines[2] -= width - width // 2
    if reference is not None:
        lines[1:] = _fitted(height, width, reference)
    if name == "flux2":
        # the position in a text, which a picture does not have
        lines.append(np.zeros(1))
    grid = np.meshgrid(*lines, indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, len(lines))  # (t, n)


def _fitted(height: int, width: int, reference: Sequence[int]) -> list[np.ndarray]:
    """Return rows and columns that fill the middle of a `reference` grid, as far as they fit."""
    ratio = min(reference[0] / height, reference[1] / width)
    lines = []
    for count, whole in ((height, reference[0]), (width, reference[1])):
        kept = round(ratio * count)
        start = round((whole - kept) / 2)
        # the last token is a step before the end, as in np.arange
        end = (start + kept) * (count - 1) / count
        lines.append(np.linspace(start, end, count))
    return lines


def preset_text(length: int, size: Sequence[int], name: str) -> np.ndarray:
    """Return the coordinates (t, n) of `length` tokens of text beside a picture of `size`.

    Raises:
        ValueError: If there is no such preset.

    Examples:
        >>> preset_text(2, (1, 4, 6), "qwen-image").tolist()  # on the diagonal, past the picture
        [[3.0, 3.0, 3.0], [4.0, 4.0, 4.0]]
    """
    _check_preset(name)
    place = np.arange(length, dtype=np.float64)[:, None]
    if name == "qwen-image":
        height, width = size[1], size[2]
        return place + np.full(3, max(height // 2, width // 2))  # (t, 3)
    if name == "flux2":
        # text has an axis of its own
        return place * [0, 0, 0, 1]  # (t, 4)
    return place * [0, 0, 0]  # (t, 3)


def _check_preset(name: str) -> None:
    # in a tuple, as for conventions
    if name not in tuple(PRESETS):
        raise ValueError(f"axial_preset: name must be {', '.join(PRESETS)}, got {name!r}")
