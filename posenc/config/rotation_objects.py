"""The object that turns a layer's queries and keys, and the channels of a head that it is given."""

import numpy as np
from torch import nn

from posenc.config.model_types import Config
from posenc.rotate.axial import Axial
from posenc.rotate.mrope import MRoPE
from posenc.rotate.rope import RoPE


def head(config: Config, index: int, word: str) -> tuple[int, slice]:
    """Return the width of a query, and the channels of it that a rotation is given."""
    own = _of_layer(config, index, word)
    where = config.kind.get("slice")
    if where == "end":  # multi-head latent attention: a part without position, then one that turns
        turning = own.get("qk_rope_head_dim") or config.number("qk_rope_head_dim")
        width = turning + (own.get("qk_nope_head_dim") or config.number("qk_nope_head_dim"))
        return width, slice(width - turning, width)
    width = own.get("head_dim") or config.get("head_dim")
    if not width:
        width = config.number("hidden_size") // config.number("num_attention_heads")
    if where == "trailing":
        share = config.get("partial_rotary_factor") or config.kind.get("share", 1.0)
        turning = config.said.get("qk_rope_head_dim") or int(width * share)
        return width, slice(width - turning, width)
    return width, slice(0, width)


def _of_layer(config: Config, index: int, word: str) -> dict[str, int]:
    """Return what one layer has for itself, such as Gemma 4's wider heads of full attention."""
    if stated := config.said.get("per_layer_config"):
        return {int(key): found for key, found in stated.items()}.get(index, {})  # "05" or 5
    rule = config.kind.get("own", {}).get(word, {})
    return {name: config.get(key) or default for name, (key, default) in rule.items()}


def rotation(
    config: Config,
    part: slice,
    theta: np.ndarray,
    factor: float,
    sections: tuple[int, ...] | None,
) -> tuple[nn.Module, slice]:
    """Return the object for the channels `part`, and the channels that it is given at last."""
    width, layout, order = part.stop - part.start, config.kind["layout"], config.kind.get("mrope")
    turning = 2 * len(theta)
    if sections is None or order is None:
        encoding = RoPE(
            width, layout=layout, rotary_dim=turning, theta=theta, attention_factor=factor
        )
        return encoding, part
    axes = axis(order, sections, len(theta))
    if layout == "half":
        encoding = MRoPE(width, rotary_dim=turning, theta=theta, attention_factor=factor, axes=axes)
        return encoding, part
    rows = theta * (axes == np.arange(max(3, len(sections)))[:, None])
    encoding = Axial(turning, axes=len(rows), layout=layout, theta=rows)
    return encoding, slice(part.start, part.start + turning)


def axis(order: str, sections: tuple[int, ...], pairs: int) -> np.ndarray:
    """Return the axis of each pair: 0 time, 1 rows, 2 columns.

    Examples:
        >>> axis("chunked", (2, 1, 1), 4).tolist(), axis("interleaved", (2, 1, 1), 4).tolist()
        ([0, 0, 1, 2], [0, 1, 2, 0])
    """
    if order == "interleaved":
        found = np.zeros(pairs, int)
        found[1 : 3 * sections[1] : 3] = 1
        found[2 : 3 * sections[2] : 3] = 2
        return found
    if order == "alternating" and len(sections) != 3:
        raise ValueError(f"plan: mrope_section must be three numbers, got {list(sections)}")
    if sum(sections) != pairs:
        raise ValueError(f"plan: mrope_section must be {pairs} pairs in all, got {list(sections)}")
    if order == "alternating":  # Ernie and Ling: rows and columns by turns, time last
        rows, columns, time = sections
        return np.concatenate([np.arange(rows + columns) % 2 + 1, np.zeros(time, int)])
    return np.repeat(np.arange(len(sections)), sections)


def grid(order: str, width: int, base: float) -> np.ndarray:
    """Return the frequencies (2, width/2) of rows and columns in the order of a picture's model.

    Examples:
        >>> grid("columns first", 8, 100.0).round(3).tolist()
        [[0.0, 0.0, 1.0, 0.1], [1.0, 0.1, 0.0, 0.0]]
    """
    if not 0 < base < float("inf"):
        raise ValueError(f"plan: rope_theta must be positive and finite, got {base:g}")
    pairs = width // 4
    own, axes = np.tile(np.arange(pairs), 2), np.repeat([0, 1], pairs)
    if order == "columns first":
        axes = 1 - axes
    if order == "by turns":  # Kimi: column and row of one frequency stand side by side
        own, axes = np.repeat(np.arange(pairs), 2), np.tile([1, 0], pairs)
    steps = own + axes / 2 if order == "pixtral" else own
    return base ** (-steps / pairs) * (axes == np.arange(2)[:, None])
