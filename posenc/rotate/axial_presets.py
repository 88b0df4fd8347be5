"""Presets of axial RoPE: Flux, Qwen-Image and the video models Wan, Hunyuan, CogVideoX and Cosmos.

Paper: Heo et al., 2024, "Rotary Position Embedding for Vision Transformer",
       https://arxiv.org/abs/2403.13298, sec. 3.
Used:  each as its name says; before `Axial`
Cost:  nothing to learn; made once

Key:   d head dim, n axes, t tokens, w channels of an axis

    theta = base^(-2k/w), k = 0 .. w/2-1, for the pairs of an axis, and 0 in the others
    Axial(d, **axial_preset(name, d)), at preset_coordinates((frames, height, width), name)

Axes are (frame, row, column), in Flux 2 also the place in a text; the first channels are those of
frames. A size counts tokens, which are patches of the latent picture. Cosmos stretches the base of
an axis by `scale`, as NTK scaling does. Text that attends together with the picture stands where
`preset_text` says; with 0 it does not turn. Wan and Cosmos reach text by cross-attention, which
turns neither side.
"""

import numpy as np

PRESETS = {  # base, shares of the axes, layout
    "flux": (10_000.0, (2, 7, 7), "interleaved"),  # frame 0; in Kontext 1 for the given picture
    "flux2": (2_000.0, (1, 1, 1, 1), "interleaved"),  # given pictures at the frames 10, 20 ..
    "qwen-image": (10_000.0, (2, 7, 7), "interleaved"),  # given pictures at the frames 1, 2 ..
    "wan": (10_000.0, None, "interleaved"),  # a third each, rounded down for rows and columns
    "hunyuan-video": (256.0, (2, 7, 7), "interleaved"),
    "cogvideox": (10_000.0, (2, 3, 3), "interleaved"),
    "cosmos": (10_000.0, None, "half"),  # frames at 24 a second; time stretched by 2
}


def axial_preset(name: str, dim: int = 128, scale=None) -> dict:
    """Return `axes`, `theta` (n, d/2) and `layout` of a model, as `Axial` takes them.

    `scale` (n,) stretches each axis, (2, 1, 1) in the first Cosmos.

    Examples:
        >>> made = axial_preset("cogvideox", 16)
        >>> made["axes"], made["layout"], made["theta"].round(2).tolist()[1]
        (3, 'interleaved', [0.0, 0.0, 1.0, 0.05, 0.0, 0.0, 0.0, 0.0])
    """
    _check(name)
    base, _, layout = PRESETS[name]
    widths = _widths(name, dim)
    scale = scale or ((2, 1, 1) if name == "cosmos" else [1] * len(widths))
    rows = []
    for w, stretch in zip(widths, scale, strict=True):
        own = base * stretch ** (w / max(w - 2, 1))
        rows.append(own ** (-np.arange(0, w, 2) / w))
    n = len(widths)
    axis = np.repeat(np.arange(n), [len(row) for row in rows])  # (d/2,)
    theta = np.concatenate(rows) * (axis == np.arange(n)[:, None])  # (n, d/2)
    return {"axes": n, "theta": theta, "layout": layout}


def preset_coordinates(size, name: str, frame: int = 0, fps=None, reference=None) -> np.ndarray:
    """Return the coordinates (t, n) of a picture or video of `size` (frames, height, width).

    `frame` is the number of the first frame, which tells given pictures apart. `fps` is for videos
    of Cosmos. `reference` (height, width) is for CogVideoX of the first version: the grid of its
    training, into which another is fitted.

    Examples:
        >>> preset_coordinates((1, 2, 3), "qwen-image")[:3].tolist()  # from the center
        [[0.0, -1.0, -2.0], [0.0, -1.0, -1.0], [0.0, -1.0, 0.0]]
    """
    _check(name)
    _, height, width = size
    lines = [np.arange(cells, dtype=np.float64) for cells in size]
    lines[0] += frame
    if fps is not None:
        lines[0] *= 24 / fps
    if name == "qwen-image":
        lines[1] -= height - height // 2
        lines[2] -= width - width // 2
    if reference is not None:
        ratio = min(reference[0] / height, reference[1] / width)
        for axis, cells, whole in ((1, height, reference[0]), (2, width, reference[1])):
            kept = round(ratio * cells)
            start = round((whole - kept) / 2)
            end = (start + kept) * (cells - 1) / cells
            lines[axis] = np.linspace(start, end, cells)
    if name == "flux2":
        lines.append(np.zeros(1))
    grid = np.meshgrid(*lines, indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, len(lines))  # (t, n)


def preset_text(length: int, size, name: str) -> np.ndarray:
    """Return the coordinates (t, n) of `length` tokens of text beside a picture of `size`.

    Examples:
        >>> preset_text(2, (1, 4, 6), "qwen-image").tolist()  # on the diagonal, past the picture
        [[3.0, 3.0, 3.0], [4.0, 4.0, 4.0]]
    """
    _check(name)
    place = np.arange(length, dtype=np.float64)[:, None]
    if name == "qwen-image":
        return place + np.full(3, max(size[1] // 2, size[2] // 2))  # (t, 3)
    if name == "flux2":
        return place * [0, 0, 0, 1]  # (t, 4)
    return place * [0, 0, 0]  # (t, 3)


def _check(name):
    if name not in tuple(PRESETS):
        raise ValueError(f"axial_presets: name must be {', '.join(PRESETS)}, got {name!r}")


def _widths(name, dim):
    shares = PRESETS[name][1]
    if shares is None:
        side = dim // 6 * 2
        return [dim - 2 * side, side, side]
    unit = dim // sum(shares)
    if unit % 2 or dim != unit * sum(shares):
        raise ValueError(f"axial_presets: dim must be a multiple of {2 * sum(shares)}, got {dim}")
    return [unit * share for share in shares]
