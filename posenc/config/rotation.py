"""How fast each pair of a layer turns: the rope dict that is its own, its base, share and width."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from posenc.config.layer_types import per_layer
from posenc.config.model_types import Config
from posenc.models.from_config import ALIASES, BASE_KEYS, KINDS, LONGEST, TRAINED, from_config

CODE = "the code"
PER_LAYER = {  # lists with a value for each layer: the key of one
    "rope_theta": "rope_theta",
    "layer_rope_theta": "rope_theta",
    "partial_rotary_factors": "partial_rotary_factor",
}
SHARE_KEYS = (
    "partial_rotary_factor",
    "rotary_pct",
    "rotary_percent",
    "rotary_emb_fraction",
    "rope_pct",
    "rope_percent",
)
FORMULA_KEYS = {key for _, needed, optional in KINDS.values() for key in (*needed, *optional)}
# the length is of the text, not of the config
READ_KEYS = (FORMULA_KEYS - {"length"}) | {
    "rope_type",
    "rope_theta",
    "rope_ratio",
    "alpha",
    "attention_factor",
    "short_mscale",
    "long_mscale",
}


class Frequencies(NamedTuple):
    """The frequencies of a layer, what multiplies cos and sin, the base, and where that stands."""

    theta: np.ndarray
    factor: float
    base: float
    source: str


def rope_dict(config: Config, index: int, layer_type: str) -> dict[str, Any] | None:
    """Return what a configuration says of the rotation of one layer, None where it says: none."""
    rope = config.fields.get("rope_scaling") or config.fields.get("rope_parameters")
    # what a model's code scales by itself has keys of its own where there are two bases
    if not rope and not config.facts.get("bases"):
        rope = config.facts.get("rope")
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
            fields[key] = per_layer(config, list_key, values)[index]
    return None if fields.get("rope_theta") == 0 else fields


def _is_unscaled(config: Config, layer_type: str) -> bool:
    """Return whether the one rope dict of a model is not for this type of layer."""
    bases = config.facts.get("bases")
    if bases and not bases.get(config.label(layer_type), {}).get("scaled"):
        return True
    return layer_type in config.facts.get("plain", ())


def rope_kind(config: Config, rope: Mapping[str, Any]) -> str:
    """Return the kind of a rotation, by the name that from_config has for it."""
    kind = rope.get("rope_type", "default")
    renamed = {"axial": "default", **config.facts.get("types", {})}
    return renamed.get(kind, kind)


def base_of(config: Config, rope: Mapping[str, Any], layer_type: str) -> tuple[float, str]:
    """Return the base of a rotation and where it stands."""
    # where there are two bases, each has a key of its own beside the rope dict
    rule = config.facts.get("bases", {}).get(config.label(layer_type))
    top_keys = (rule["key"],) if rule else BASE_KEYS
    for key in BASE_KEYS:
        if isinstance(rope.get(key), int | float):
            return float(rope[key]), "rope_parameters"
    for key in top_keys:
        if isinstance(config.fields.get(key), int | float):
            return float(config.fields[key]), "the config"
    # DBRX's stands in attn_config
    inside = config.get("rope_theta")
    is_inside = not rule and "rope_theta" in config.facts.get("inside", ())
    if is_inside and isinstance(inside, int | float):
        return float(inside), "the config"
    if rule:
        base = rule["base"]
    else:
        base = config.facts.get("defaults", {}).get("rope_theta") or config.facts.get("base")
    if base is None:
        raise ValueError(
            f"plan: rope_theta must be in the config of {config.model_type}, got None; its code "
            "has no default"
        )
    return float(base), CODE


def share_of(config: Config, rope: Mapping[str, Any], width: int) -> float:
    """Return the share of a head that turns."""
    for fields in (rope, config.fields):
        for key in SHARE_KEYS:
            if isinstance(fields.get(key), int | float):
                return fields[key]
    # some configurations have a rotary_dim that their code does not read
    if "rotary_dim" not in config.facts.get("unread", ()):
        rotary_dim = config.get("rotary_dim")
        if rotary_dim:
            return rotary_dim / width
    return config.facts.get("share", 1.0)


def frequencies(
    config: Config, rope: Mapping[str, Any], layer_type: str, width: int, length: int | None
) -> Frequencies:
    """Return the frequencies of `width` channels, for a text of `length` tokens."""
    kind = rope_kind(config, rope)
    base, source = base_of(config, rope, layer_type)
    # the code's own values of this kind stand below what the configuration says
    fields = dict(config.facts.get("with", {}).get(kind, {}))
    fields |= {key: value for key, value in rope.items() if key in READ_KEYS}
    fields |= {"rope_theta": base, "rope_type": kind}
    # a slice of a head turns whole
    share = 1.0 if "slice" in config.facts else share_of(config, rope, width)
    fields.pop("partial_rotary_factor", None)
    if share != 1 or kind == "proportional":
        fields["partial_rotary_factor"] = share
    longest = config.get(LONGEST)
    trained = config.get(TRAINED) or fields.get(TRAINED) or longest
    fields |= {key: value for key, value in ((LONGEST, longest), (TRAINED, trained)) if value}
    try:
        theta, factor = from_config({"rope_parameters": fields, LONGEST: longest}, width, length)
    except KeyError as error:
        missing = error.args[0]
        raise ValueError(f"plan: {missing} must be stated for {kind}, got None; add it") from error
    return Frequencies(theta, float(factor), base, source)
