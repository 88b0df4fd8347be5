"""The frequencies of a layer's rotation, from its rope dict, its base, its share and its width.

The base is looked up in the rope dict, then in the configuration, then in a dict inside it (DBRX),
then it is the code's default. In a model with two bases, each type of layer reads its own key of
the configuration, and has its own default.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from posenc.config import sentences
from posenc.config.layer_types import checked_per_layer
from posenc.config.model_types import Config
from posenc.models.from_config import (
    ALIASES,
    BASE_KEYS,
    FORMULA_KEYS,
    LONGEST,
    SHARE_KEYS,
    TRAINED,
    from_config,
)

PER_LAYER = {  # a list with a value for each layer: the key that it gives a layer's rope dict
    "rope_theta": "rope_theta",
    "layer_rope_theta": "rope_theta",
    "partial_rotary_factors": "partial_rotary_factor",
}
# rope_types whose trained length, if it is missing, is taken to be the longest
FROM_TRAINED = ("yarn", "longrope", "llama3")
ROPE_DICT_KEYS = {"rope_type", "rope_theta", *FORMULA_KEYS}


class Frequencies(NamedTuple):
    """The frequencies of a layer.

    `theta` (r/2,) in radians a position; `attention_factor` multiplies cos and sin; `base`;
    `source` says where the base was stated.
    """

    theta: np.ndarray
    attention_factor: float
    base: float
    source: str


def rope_dict(config: Config, index: int, layer_type: str) -> dict[str, Any] | None:
    """Return the rope dict of one layer, None if the config says that it does not rotate.

    Raises:
        ValueError: If a list of a value for each layer has fewer than the model has layers.
    """
    rope = config.fields.get("rope_scaling") or config.fields.get("rope_parameters")
    # the code's default rope dict; models with two bases get these from `facts["bases"]` instead
    if not rope and not config.facts.get("bases"):
        rope = config.facts.get("default_rope")
    rope = rope or {}
    if any(isinstance(value, Mapping) for value in rope.values()):
        rope = rope.get(config.label(layer_type))
        if rope is None:
            return None
    elif _is_unscaled(config, layer_type):
        rope = {}
    fields: dict[str, Any] = {
        str(ALIASES.get(key, key)): value for key, value in rope.items() if value is not None
    }
    for list_key, key in PER_LAYER.items():
        values = config.fields.get(list_key)
        if isinstance(values, list) and values:
            fields[key] = checked_per_layer(config, list_key, values)[index]
    return None if fields.get("rope_theta") == 0 else fields


def _is_unscaled(config: Config, layer_type: str) -> bool:
    """Return whether the one rope dict of a model is not for this type of layer."""
    bases = config.facts.get("bases")
    if bases and not bases.get(config.label(layer_type), {}).get("scaled"):
        return True
    return layer_type in config.facts.get("unscaled_types", ())


def rope_type_of(rope: Mapping[str, Any]) -> str:
    """Return the rope_type of a rope dict, by the name that from_config has for it."""
    rope_type = rope.get("rope_type", "default")
    return "default" if rope_type == "axial" else rope_type


def base_of(config: Config, rope: Mapping[str, Any], layer_type: str) -> tuple[float, str]:
    """Return the base of a rotation and where it was stated.

    Raises:
        ValueError: If nothing states it and the code has no default.
    """
    # where there are two bases, each has a key of its own beside the rope dict
    rule = config.facts.get("bases", {}).get(config.label(layer_type))
    top_keys = (rule["key"],) if rule else BASE_KEYS
    for key in BASE_KEYS:
        if isinstance(rope.get(key), int | float):
            return float(rope[key]), sentences.FROM_ROPE_DICT
    for key in top_keys:
        if isinstance(config.fields.get(key), int | float):
            return float(config.fields[key]), sentences.FROM_CONFIG
    # DBRX's is in attn_config
    inside = config.get("rope_theta")
    is_inside = not rule and "rope_theta" in config.facts.get("inside", ())
    if is_inside and isinstance(inside, int | float):
        return float(inside), sentences.FROM_CONFIG
    if rule:
        base = rule["base"]
    else:
        base = config.facts.get("defaults", {}).get("rope_theta") or config.facts.get("base")
    if base is None:
        raise ValueError(sentences.NO_BASE.format(model_type=config.model_type))
    return float(base), sentences.FROM_CODE


def share_of(config: Config, rope: Mapping[str, Any], width: int) -> float:
    """Return the share of a head that rotates."""
    for fields in (rope, config.fields):
        for key in SHARE_KEYS:
            if isinstance(fields.get(key), int | float):
                return fields[key]
    # some configurations have a rotary_dim that their code does not read
    if "rotary_dim" not in config.facts.get("unread_keys", ()):
        rotary_dim = config.get("rotary_dim")
        if rotary_dim:
            return rotary_dim / width
    return config.facts.get("share", 1.0)


def frequencies(
    config: Config, rope: Mapping[str, Any], layer_type: str, width: int, length: int | None
) -> Frequencies:
    """Return the frequencies of `width` channels, for a text of `length` tokens.

    With `length=None` it is a short one, which dynamic and longrope scaling leave as trained.

    Raises:
        ValueError: If nothing states the base and the code has no default.
        ValueError: If the rope dict lacks a key that its rope_type needs.
    """
    rope_type = rope_type_of(rope)
    base, source = base_of(config, rope, layer_type)
    # the config wins over the code's own values
    fields = dict(config.facts.get("rope_values", {}).get(rope_type, {}))
    fields |= {key: value for key, value in rope.items() if key in ROPE_DICT_KEYS}
    fields |= {"rope_theta": base, "rope_type": rope_type}
    # a slice of a head rotates whole
    share = 1.0 if "slice" in config.facts else share_of(config, rope, width)
    fields.pop("partial_rotary_factor", None)
    if share != 1 or rope_type == "proportional":
        fields["partial_rotary_factor"] = share
    longest = config.get(LONGEST)
    trained = config.get(TRAINED) or fields.get(TRAINED) or longest
    fields |= {key: value for key, value in ((LONGEST, longest), (TRAINED, trained)) if value}
    try:
        theta, factor = from_config({"rope_parameters": fields, LONGEST: longest}, width, length)
    except KeyError as error:
        raise ValueError(
            sentences.MISSING_KEY.format(key=error.args[0], rope_type=rope_type)
        ) from error
    return Frequencies(theta, float(factor), base, source)
