"""The function plan: read from a configuration how position enters every layer."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from posenc.config import sentences, warnings
from posenc.config.formats.detection import merged, recognized
from posenc.config.layer import Layer, Plan
from posenc.config.layer_types import layer_types_of, unrotated_reasons, window_of
from posenc.config.model_types import Config, facts, resolve
from posenc.config.other_encodings import plan_without_rotation
from posenc.config.rotation import frequencies, rope_dict
from posenc.config.rotation_objects import head_channels, rotation
from posenc.config.scales import query_scale, softmax_scale

Facts = dict[str, dict[str, Any]]  # of every model type


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
        ValueError: If `config` is no configuration, or of a format that is not known.
        ValueError: If the model type is unknown.
        ValueError: If its positions are none that posenc reads.
        ValueError: If a key is misspelled, missing, or has a value that no layer can have.

    Examples:
        >>> config = {"model_type": "llama", "num_hidden_layers": 2, "rope_theta": 5e5}
        >>> layer = plan(config).layers[1]
        >>> layer.layout, layer.head_dim, layer.base
        ('half', 128, 500000.0)
    """
    source = recognized(loaded(config, overrides))
    all_facts = facts()
    model_type = source.config.get("model_type")
    if source.layout and model_type in all_facts:
        # the weights beside the file pair channels otherwise than those of transformers
        all_facts[model_type] |= {"layout": source.layout}
    # tables that are learned start with random rows
    with torch.random.fork_rng(devices=[]):
        result = _plan(source.config, all_facts, length)
    return replace(result, warnings=(*source.warnings, *result.warnings))


def loaded(config: Any, overrides: Mapping[str, Any] | str | None = None) -> dict[str, Any]:
    """Return what `config`, as `plan` takes it, says with its overrides.

    Raises:
        ValueError: If `config` is a path and no file of JSON is there.
        ValueError: If it is no dict, no path and no object with to_dict.
    """
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    if isinstance(config, str | Path):
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        try:
            # some editors put a byte order mark in front
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
    fields: dict[str, Any], all_facts: Facts, length: int | None, default_type: str | None = None
) -> Plan:
    """Return the plan of one model, or of a model that is a part of another."""
    config = resolve(fields, default_type, all_facts)
    if "parts" in config.facts:
        return _composite(config, all_facts, length)
    if config.facts["encoding"] == "rope":
        return _plan_with_rotation(config, length)
    return plan_without_rotation(config)


def _composite(config: Config, all_facts: Facts, length: int | None) -> Plan:
    """Return the plans of all parts; of a part that cannot be read, the reason as a warning."""
    parts: dict[str, Plan] = {}
    reasons = []
    for name, model_type in config.facts["parts"].items():
        fields = _part_fields(config, name)
        if not isinstance(fields, Mapping):
            continue
        try:
            parts[name] = _plan(dict(fields), all_facts, length, model_type)
        except ValueError as error:
            # often a tower for pictures or sound: the others are worth reading alone
            reasons.append(f"{name}: {str(error).removeprefix('plan: ')}")
    if not parts:
        missing = sentences.NO_PARTS.format(parts=", ".join(config.facts["parts"]))
        why = "; ".join(reasons) or missing
        raise ValueError(sentences.UNREAD_PARTS.format(model_type=config.model_type, why=why))
    return Plan(config.model_type, parts=parts, warnings=tuple(reasons))


def _part_fields(config: Config, name: str) -> Any:
    """Return what a configuration says of one part."""
    fields = config.fields.get(name)
    # in the first models of pictures and text, that of the text is at the top
    is_at_top = name == config.facts.get("part_at_top") and "num_hidden_layers" in config.fields
    if fields or not is_at_top:
        return fields
    stated = {
        part for part in config.facts["parts"] if isinstance(config.fields.get(part), Mapping)
    }
    return {
        key: value for key, value in config.fields.items() if key not in stated | {"model_type"}
    }


def _plan_with_rotation(config: Config, length: int | None) -> Plan:
    warnings.refuse_misspelled(config)
    layer_types = layer_types_of(config)
    reasons = unrotated_reasons(config, layer_types)
    layers = [
        _layer(config, index, layer_type, reason, length)
        for index, (layer_type, reason) in enumerate(zip(layer_types, reasons, strict=True))
    ]
    return Plan(
        config.model_type,
        tuple(layers),
        warnings=warnings.collect_warnings(config, layers),
        trained=config.get("max_position_embeddings"),
    )


def _layer(
    config: Config, index: int, layer_type: str, reason: str | None, length: int | None
) -> Layer:
    """Return one layer, which does not rotate where there is a `reason`."""
    width, part = head_channels(config, index, layer_type)
    rope = None if reason else rope_dict(config, index, layer_type)
    layer = Layer(
        index,
        layer_type,
        None,
        width,
        slice(0, width),
        window=window_of(config, layer_type),
        # Llama 4 scales queries where it does not rotate
        query_scale=query_scale(config, rope),
        softmax_scale=softmax_scale(config, rope, width),
        why=reason or sentences.NO_ROPE_DICT.format(layer_type=layer_type),
    )
    return layer if rope is None else _rotated_layer(config, layer, part, rope, length)


def _rotated_layer(
    config: Config, layer: Layer, part: slice, rope: dict[str, Any], length: int | None
) -> Layer:
    """Return a layer with the rotation that `rope` describes, of the channels `part`."""
    width = part.stop - part.start
    theta, attention_factor, base, source = frequencies(
        config, rope, layer.layer_type, width, length
    )
    # some code rotates the other way
    theta = config.facts.get("sign", 1) * theta
    stated = rope.get("mrope_section") or config.facts.get("sections")
    sections = tuple(stated) if stated else None
    encoding, part = rotation(config, part, theta, attention_factor, sections)
    return replace(
        layer,
        encoding=encoding,
        slice=part,
        layout=config.facts["layout"],
        theta=theta,
        attention_factor=attention_factor,
        base=base,
        sections=sections,
        why=sentences.ROTATES.format(rope_type=rope.get("rope_type", "default"), source=source),
    )
