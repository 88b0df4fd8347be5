"""What a reader of a configuration should be told: traps, contradictions, and what follows."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from posenc.config.layer import Layer
from posenc.config.model_types import Config
from posenc.config.rotation import CODE
from posenc.models.from_config import LONGEST, TRAINED, misspelled, problem


def all_of(config: Config, layers: list[Layer]) -> tuple[str, ...]:
    """Return the warnings, each a sentence with the numbers of this configuration."""
    turning = [layer for layer in layers if layer.theta is not None]
    found = [*_still(config, layers), *_bases(config, turning), *_widths(config, turning)]
    for name, rope in _dicts(config):
        found += [*_words(name, rope), *_lengths(config, name, rope)]
    found += _slow(config, turning)
    return tuple(dict.fromkeys(found))


def refuse_misspelled(config: Config) -> None:
    """Refuse what would be left out without an error.

    Raises:
        ValueError: If a word at the top or in a rope dict is nearly one that is read.
    """
    if found := misspelled(config.said, {}):
        raise ValueError(f"plan: config must be {found[0]}, got {found[1]}; {found[2]}")
    for name, rope in _dicts(config):
        for word, remedy in _unknown(rope):
            if remedy.startswith("did you mean"):
                raise ValueError(
                    f"plan: {name} must be of words that are read, got {word}; {remedy}"
                )


def _dicts(config: Config) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what the configuration says of rotations, part by part, under its name."""
    stated = [
        (name, config.said[name])
        for name in ("rope_scaling", "rope_parameters")
        if config.said.get(name)
    ]
    flat = []
    for name, rope in stated:
        parts = [
            (f"{name}[{key!r}]", part) for key, part in rope.items() if isinstance(part, Mapping)
        ]
        flat += parts or [(name, rope)]
    return flat


def _still(config: Config, layers: list[Layer]) -> Iterator[str]:
    rule = config.kind.get("nope", {})
    turning = sum(layer.theta is not None for layer in layers)
    if "by_list" in rule:
        yield (
            f"{rule['by_list']}: 1 means that a layer rotates, 0 that it does not; "
            f"{turning} of {len(layers)} do"
        )
    elif turning == 0:
        yield "no layer rotates; a rope_theta in this config has no effect"


def _bases(config: Config, turning: list[Layer]) -> Iterator[str]:
    defaults = {
        layer.base for layer in turning if layer.base and layer.why.endswith(f"from {CODE}")
    }
    if defaults:
        bases = " and ".join(f"{base:,.0f}" for base in sorted(defaults))
        yield f"rope_theta is not in the config: the code takes {bases}"
    rope = config.said.get("rope_parameters") or {}
    inside, outside = rope.get("rope_theta"), config.said.get("rope_theta")
    numbers = isinstance(inside, int | float) and isinstance(outside, int | float)
    if numbers and inside != outside:
        inside, outside = f"{inside:,.10g}", f"{outside:,.10g}"
        yield f"rope_theta is {outside} at the top, {inside} in rope_parameters, which counts"
    if config.said.get("rope_scaling") and rope and rope != config.said["rope_scaling"]:
        yield "rope_scaling and rope_parameters differ; rope_scaling counts"


def _widths(config: Config, turning: list[Layer]) -> Iterator[str]:
    hidden, heads, stated = (
        config.get(name) for name in ("hidden_size", "num_attention_heads", "head_dim")
    )
    if stated and "slice" not in config.kind and hidden and heads and hidden // heads != stated:
        yield (
            f"heads are {stated} wide by head_dim, not hidden_size / num_attention_heads = "
            f"{hidden // heads}"
        )
    for layer in turning:
        width = layer.slice.stop - layer.slice.start
        if stated and "slice" not in config.kind and layer.head_dim != stated:
            yield f"heads of {layer.kind} are {layer.head_dim} wide, not head_dim = {stated}"
        turned = 2 * np.asarray(layer.theta).size
        if turned < width:
            yield f"{turned} of {width} channels turn in {layer.kind}"


def _words(name: str, rope: Mapping[str, Any]) -> Iterator[str]:
    for word, remedy in _unknown(rope):
        yield f"{name}: {word} is not read; {remedy}"


def _unknown(rope: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the words of a rope dict that are not read, each with what may help."""
    rest = dict(rope)
    while found := problem({"rope_parameters": rest}):
        _, word, remedy = found
        yield word, remedy
        if word not in rest:
            return
        del rest[word]


def _lengths(config: Config, name: str, rope: Mapping[str, Any]) -> Iterator[str]:
    kind = rope.get("rope_type", rope.get("type"))
    longest = config.get(LONGEST)
    trained = config.said.get(TRAINED) or rope.get(TRAINED)
    if kind in ("yarn", "llama3", "longrope") and not trained and longest:
        yield f"{name}: {kind} without {TRAINED}; {LONGEST}, {longest:,}, is taken for it"
    factor = rope.get("factor")
    if kind == "yarn" and trained and longest and factor and factor * trained != longest != trained:
        stretched = f"factor {factor:g} times {trained:,} is {factor * trained:,.0f}"
        yield f"{name}: {stretched}, {LONGEST} is {longest:,}"


def _slow(config: Config, turning: list[Layer]) -> Iterator[str]:
    trained = config.get(LONGEST)
    for layer in turning:
        seen = min(filter(None, (trained, layer.window)), default=None)
        slow = np.abs(np.asarray(layer.theta)) * (seen or np.inf) < 2 * np.pi
        if seen and slow.any():
            where = "window" if layer.window and seen == layer.window else "length"
            yield (
                f"{slow.sum()} of {len(slow)} pairs never turn once within the {where} of {seen:,} "
                f"in {layer.kind}"
            )
