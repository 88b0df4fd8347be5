"""Build the encoding object of a layer, and choose the channels of a head that it rotates."""

import numpy as np
from torch import nn

from posenc.config import sentences
from posenc.config.model_types import Config
from posenc.models.mrope import mrope_axes
from posenc.rotate.axial import Axial
from posenc.rotate.mrope import MRoPE
from posenc.rotate.rope import RoPE


def head_channels(config: Config, index: int, layer_type: str) -> tuple[int, slice]:
    """Return the width of a query, and the channels of it that a rotation is given.

    Raises:
        ValueError: If a size that makes them is missing.
    """
    sizes = _layer_sizes(config, index, layer_type)
    part = config.facts.get("slice")
    if part == "end":
        # multi-head latent attention: a part without position, then one that rotates
        rotated = sizes.get("qk_rope_head_dim") or config.number("qk_rope_head_dim")
        unrotated = sizes.get("qk_nope_head_dim") or config.number("qk_nope_head_dim")
        return rotated + unrotated, slice(unrotated, rotated + unrotated)
    width = sizes.get("head_dim") or config.get("head_dim")
    if not width:
        width = config.number("hidden_size") // config.number("num_attention_heads")
    if part == "trailing":
        share = config.get("partial_rotary_factor") or config.facts.get("share", 1.0)
        rotated = config.fields.get("qk_rope_head_dim") or int(width * share)
        return width, slice(width - rotated, width)
    return width, slice(0, width)


def _layer_sizes(config: Config, index: int, layer_type: str) -> dict[str, int]:
    """Return what one layer has for itself, such as Gemma 4's wider heads of full attention."""
    stated = config.fields.get("per_layer_config")
    if stated:
        # JSON has its numbers as text, "05" or "5"
        sizes = {int(key): layer for key, layer in stated.items()}
        return sizes.get(index, {})
    rule = config.facts.get("layer_sizes", {}).get(layer_type, {})
    return {name: config.get(key) or default for name, (key, default) in rule.items()}


def rotation(
    config: Config,
    part: slice,
    theta: np.ndarray,
    attention_factor: float,
    sections: tuple[int, ...] | None,
) -> tuple[nn.Module, slice]:
    """Return the object for the channels `part`, and the channels that it is given at last.

    Raises:
        ValueError: If `sections` do not fit the order of the axes, or the number of pairs.
    """
    width = part.stop - part.start
    rotary_dim = 2 * len(theta)
    layout = config.facts["layout"]
    order = config.facts.get("mrope")
    settings = {"rotary_dim": rotary_dim, "theta": theta, "attention_factor": attention_factor}
    if sections is None or order is None:
        return RoPE(width, layout=layout, **settings), part
    axes = axis_of_pairs(order, sections, len(theta))
    if layout == "half":
        return MRoPE(width, axes=axes, **settings), part
    # MRoPE pairs halves alone, and Axial rotates all that it is given
    n = max(3, len(sections))
    theta_of_axis = np.where(axes == np.arange(n)[:, None], theta, 0.0)
    axial = Axial(rotary_dim, axes=n, layout=layout, theta=theta_of_axis)
    return axial, slice(part.start, part.start + rotary_dim)


def axis_of_pairs(order: str, sections: tuple[int, ...], pairs: int) -> np.ndarray:
    """Return the axis of each pair, as `mrope_axes`, by `sections` as a configuration has them.

    Raises:
        ValueError: If the order is "alternating" and the sections are not [n, n, time].
        ValueError: If the sections are not of so many pairs.

    Examples:
        >>> axis_of_pairs("chunked", (2, 1, 1), 4).tolist()
        [0, 0, 1, 2]
        >>> axis_of_pairs("alternating", (1, 1, 2), 4).tolist()
        [1, 2, 0, 0]
    """
    if order == "interleaved":
        # time has what rows and columns leave, whatever its own section says
        return mrope_axes((pairs, *sections[1:]), order)[:pairs]
    if order == "alternating" and (len(sections) != 3 or sections[0] != sections[1]):
        raise ValueError(sentences.UNEQUAL_SECTIONS.format(sections=list(sections)))
    if sum(sections) != pairs:
        raise ValueError(sentences.SUM_OF_SECTIONS.format(pairs=pairs, sections=list(sections)))
    if order == "alternating":
        # Ernie's sections have time last
        rows, columns, time = sections
        sections = (time, rows, columns)
    return mrope_axes(sections, order)


def grid_frequencies(order: str, width: int, base: float) -> np.ndarray:
    """Return the frequencies (2, width/2) of rows and columns in the order of a picture's model.

    Raises:
        ValueError: If the base is not positive and finite.

    Examples:
        >>> grid_frequencies("columns first", 8, 100.0).round(3).tolist()
        [[0.0, 0.0, 1.0, 0.1], [1.0, 0.1, 0.0, 0.0]]
    """
    if not 0 < base < float("inf"):
        raise ValueError(sentences.BASE_OF_GRID.format(base=base))
    pairs = width // 4
    k = np.tile(np.arange(pairs), 2)
    axes = np.repeat([0, 1], pairs)
    if order == "columns first":
        axes = 1 - axes
    if order == "alternating":
        # Kimi: column and row of one frequency are neighbors
        k = np.repeat(np.arange(pairs), 2)
        axes = np.tile([1, 0], pairs)
    if order == "pixtral":
        # rows have k = 0, 1 .., columns k = 1/2, 3/2 ..
        k = k + axes / 2
    theta = base ** (-k / pairs)
    return np.where(axes == np.arange(2)[:, None], theta, 0.0)
