"""Warnings about a configuration: traps, contradictions and consequences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from posenc.config import sentences
from posenc.config.layer import Layer
from posenc.config.model_types import Config
from posenc.config.rotation import FROM_TRAINED
from posenc.models.from_config import LONGEST, TRAINED, misspelled, problem


def collect_warnings(config: Config, layers: Sequence[Layer]) -> tuple[str, ...]:
    """Return the warnings, each a sentence with the numbers of this configuration."""
    rotating = [layer for layer in layers if layer.theta is not None]
    result = [*_unrotated(config, layers), *_bases(config, rotating), *_widths(config, rotating)]
    for name, rope in _rope_dicts(config):
        result += [*_unread(name, rope), *_lengths(config, name, rope)]
    result += _slow_pairs(config, rotating)
    # layers of one type say the same
    return tuple(dict.fromkeys(result))


def refuse_misspelled(config: Config) -> None:
    """Refuse what would be left out without an error.

    Raises:
        ValueError: If a key at the top or in a rope dict is nearly one that is read.
    """
    reason = misspelled(config.fields, {})
    if reason:
        condition, value, remedy = reason
        raise ValueError(
            sentences.MISSPELLED.format(condition=condition, value=value, remedy=remedy)
        )
    for name, rope in _rope_dicts(config):
        for key, remedy in _unread_keys(rope):
            # others are warned of: they may be of code that posenc does not know
            if remedy.startswith("did you mean"):
                raise ValueError(
                    sentences.MISSPELLED_INSIDE.format(name=name, key=key, remedy=remedy)
                )


def _rope_dicts(config: Config) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what the configuration says of rotations, part by part, under its name."""
    flat: list[tuple[str, Mapping[str, Any]]] = []
    for name in ("rope_scaling", "rope_parameters"):
        rope = config.fields.get(name)
        if rope:
            # there may be one for each type of layer
            parts = {key: part for key, part in rope.items() if isinstance(part, Mapping)}
            flat += [(f"{name}[{key!r}]", part) for key, part in parts.items()] or [(name, rope)]
    return flat


def _unrotated(config: Config, layers: Sequence[Layer]) -> Iterator[str]:
    """Yield what is worth a warning where layers do not rotate."""
    rule = config.facts.get("nope", {})
    count = sum(layer.theta is not None for layer in layers)
    if "by_list" in rule:
        # the name no_rope_layers suggests the opposite of what it states
        yield sentences.MARKS.format(by_list=rule["by_list"], rotating=count, layers=len(layers))
    elif count == 0:
        yield sentences.NO_LAYER_ROTATES


def _bases(config: Config, rotating: Sequence[Layer]) -> Iterator[str]:
    """Yield which base counts where a configuration states none, or two."""
    defaults = {
        layer.base for layer in rotating if layer.base and layer.why.endswith(sentences.FROM_CODE)
    }
    if defaults:
        bases = " and ".join(f"{base:,.0f}" for base in sorted(defaults))
        yield sentences.BASE_FROM_CODE.format(bases=bases)
    rope = config.fields.get("rope_parameters") or {}
    inside = rope.get("rope_theta")
    outside = config.fields.get("rope_theta")
    are_numbers = isinstance(inside, int | float) and isinstance(outside, int | float)
    if are_numbers and inside != outside:
        yield sentences.TWO_BASES.format(outside=outside, inside=inside)
    scaling = config.fields.get("rope_scaling")
    if scaling and rope and rope != scaling:
        yield sentences.TWO_DICTS


def _widths(config: Config, rotating: Sequence[Layer]) -> Iterator[str]:
    """Yield where heads, or their rotated part, are of another width than one might compute."""
    hidden = config.get("hidden_size")
    heads = config.get("num_attention_heads")
    # of a head in two parts head_dim is another thing
    stated = None if "slice" in config.facts else config.get("head_dim")
    if stated and hidden and heads and hidden // heads != stated:
        yield sentences.OTHER_WIDTH.format(stated=stated, divided=hidden // heads)
    for layer in rotating:
        width = layer.slice.stop - layer.slice.start
        if stated and layer.head_dim != stated:
            yield sentences.OTHER_WIDTH_OF_TYPE.format(
                layer_type=layer.layer_type, width=layer.head_dim, stated=stated
            )
        rotated = 2 * np.asarray(layer.theta).size
        if rotated < width:
            yield sentences.PART_ROTATES.format(
                rotated=rotated, width=width, layer_type=layer.layer_type
            )


def _unread(name: str, rope: Mapping[str, Any]) -> Iterator[str]:
    for key, remedy in _unread_keys(rope):
        yield sentences.UNREAD_KEY.format(name=name, key=key, remedy=remedy)


def _unread_keys(rope: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a rope dict that are not read, each with what may help."""
    rest = dict(rope)
    # from_config names the first problem alone
    while reason := problem({"rope_parameters": rest}):
        _, key, remedy = reason
        yield key, remedy
        if key not in rest:
            return
        del rest[key]


def _lengths(config: Config, name: str, rope: Mapping[str, Any]) -> Iterator[str]:
    """Yield where the trained length is missing, or does not fit the factor."""
    rope_type = rope.get("rope_type", rope.get("type"))
    longest = config.get(LONGEST)
    trained = config.fields.get(TRAINED) or rope.get(TRAINED)
    if rope_type in FROM_TRAINED and not trained and longest:
        yield sentences.NO_TRAINED_LENGTH.format(name=name, rope_type=rope_type, longest=longest)
    factor = rope.get("factor")
    if rope_type != "yarn" or not (trained and longest and factor):
        return
    # the longest may be that of training, as in Qwen, or after context extension
    if longest not in (trained, factor * trained):
        yield sentences.OTHER_LENGTH.format(
            name=name, factor=factor, trained=trained, extended=factor * trained, longest=longest
        )


def _slow_pairs(config: Config, rotating: Sequence[Layer]) -> Iterator[str]:
    """Yield how many pairs of a layer complete no rotation within its window."""
    trained = config.get(LONGEST)
    for layer in rotating:
        reach = min(filter(None, (trained, layer.window)), default=None)
        if not reach:
            continue
        slow = np.abs(np.asarray(layer.theta)) * reach < 2 * np.pi
        if slow.any():
            yield sentences.SLOW_PAIRS.format(
                slow=slow.sum(),
                pairs=len(slow),
                limit="window" if layer.window and reach == layer.window else "length",
                reach=reach,
                layer_type=layer.layer_type,
            )
