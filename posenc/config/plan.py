"""The plan of a model: for every layer the object that encodes position."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from posenc.config import other_encodings, warnings
from posenc.config.formats.detection import merged, recognized
from posenc.config.layer import Layer, Plan
from posenc.config.layer_types import layer_kinds, turning, window
from posenc.config.model_types import Config, facts, known
from posenc.config.rotation import frequencies, rope_dict
from posenc.config.rotation_objects import head, rotation
from posenc.config.scales import query_scale, softmax_scale


def plan(
    config: Any, length: int | None = None, overrides: Mapping[str, Any] | str | None = None
) -> Plan:
    """Return how position enters each layer of the model that `config` describes.

    Args:
        config: A config.json as path or dict, or an object of transformers; or of another format
            that posenc.config.formats.detection knows, such as Meta's params.json.
        length: Tokens of the text, for dynamic and longrope scaling; by default a short one.
        overrides: What `vllm serve --hf-overrides` changes in it, as dict or JSON.

    Returns:
        The plan: print it, read `layers`, `parts` and `warnings`.

    Raises:
        ValueError: If the model type is unknown or its positions are none that posenc reads.

    Examples:
        >>> config = {"model_type": "llama", "num_hidden_layers": 2, "rope_theta": 5e5}
        >>> layer = plan(config).layers[1]
        >>> layer.layout, layer.head_dim, layer.base
        ('half', 128, 500000.0)
    """
    found = recognized(loaded(config, overrides))
    kinds = facts()
    model_type = found.config.get("model_type")
    if found.layout and model_type in kinds:  # the weights beside the file pair channels otherwise
        kinds[model_type] |= {"layout": found.layout}
    with torch.random.fork_rng(devices=[]):  # tables that are learned start with random rows
        made = _plan(found.config, kinds, length)
    return replace(made, warnings=(*found.warnings, *made.warnings))


def loaded(config: Any, overrides: Mapping[str, Any] | str | None = None) -> dict[str, Any]:
    """Return what `config`, as `plan` takes it, says with its overrides."""
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    if isinstance(config, str | Path):
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        try:
            config = json.loads(path.read_text("utf-8-sig"))
        except (OSError, ValueError) as error:
            raise ValueError(
                f"plan: config must be a file of JSON, got {str(path)!r}; {error}"
            ) from error
    if not isinstance(config, Mapping):
        raise ValueError(
            f"plan: config must be a dict, a path or an object with to_dict, got {config!r}; "
            "json.load reads a file"
        )
    return merged(config, overrides or {})


def _plan(
    said: dict[str, Any], kinds: dict[str, Any], length: int | None, hint: str | None = None
) -> Plan:
    config = known(said, hint, kinds)
    if "parts" in config.kind:
        return _composite(config, kinds, length)
    return (
        _turning(config, length)
        if config.kind["encoding"] == "rope"
        else other_encodings.of(config)
    )


def _composite(config: Config, kinds: dict[str, Any], length: int | None) -> Plan:
    """Return the plans of all parts; of a part that cannot be read, the reason as a warning."""
    parts, reasons = {}, []
    named = config.kind["parts"]
    stated = {name for name in named if isinstance(config.said.get(name), Mapping)}
    for name, kind in named.items():
        said = config.said.get(name)
        if not said and name == config.kind.get("flat") and "num_hidden_layers" in config.said:
            said = {
                key: value
                for key, value in config.said.items()
                if key not in stated | {"model_type"}
            }
        if not isinstance(said, Mapping):
            continue
        try:
            parts[name] = _plan(dict(said), kinds, length, hint=kind)
        except ValueError as error:
            reasons.append(f"{name}: {str(error).removeprefix('plan: ')}")
    if not parts:
        raise ValueError(
            f"plan: config must be of parts that can be read, got {config.model_type}; "
            f"{'; '.join(reasons) or 'it has none of ' + ', '.join(named)}"
        )
    return Plan(config.model_type, parts=parts, warnings=tuple(reasons))


def _turning(config: Config, length: int | None) -> Plan:
    warnings.refuse_misspelled(config)
    words = layer_kinds(config)
    still = turning(config, words)
    layers = [
        _layer(config, index, word, reason, length)
        for index, (word, reason) in enumerate(zip(words, still, strict=True))
    ]
    trained = config.get("max_position_embeddings")
    return Plan(
        config.model_type, tuple(layers), warnings=warnings.all_of(config, layers), trained=trained
    )


def _layer(config: Config, index: int, word: str, reason: str | None, length: int | None) -> Layer:
    width, part = head(config, index, word)
    rope = None if reason else rope_dict(config, index, word)
    layer = Layer(
        index,
        word,
        None,
        width,
        slice(0, width),
        window=window(config, word),
        query_scale=query_scale(config, rope),
        softmax_scale=softmax_scale(config, rope, width),
        why=reason or f"{word} has no rotation in rope_parameters",
    )
    return layer if rope is None else _turned(config, layer, part, rope, length)


def _turned(
    config: Config, layer: Layer, part: slice, rope: dict[str, Any], length: int | None
) -> Layer:
    width = part.stop - part.start
    theta, factor, base, where = frequencies(config, rope, layer.kind, width, length)
    theta = config.kind.get("sign", 1) * theta
    stated = rope.get("mrope_section") or config.kind.get("sections")
    sections = tuple(stated) if stated else None
    encoding, part = rotation(config, part, theta, factor, sections)
    return replace(
        layer,
        encoding=encoding,
        slice=part,
        layout=config.kind["layout"],
        theta=theta,
        factor=factor,
        base=base,
        sections=sections,
        why=f"{rope.get('rope_type', 'default')} rotation, its base from {where}",
    )
