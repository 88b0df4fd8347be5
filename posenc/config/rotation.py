"""How fast each pair of a layer turns: the rope dict that is its own, its base, share and width."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc.config.layer_types import one_each
from posenc.config.model_types import Config
from posenc.models.from_config import ALIASES, BASE, KINDS, LONGEST, TRAINED, from_config

CODE = "the code"
LISTS = {  # a number for each layer
    "rope_theta": "rope_theta",
    "layer_rope_theta": "rope_theta",
    "partial_rotary_factors": "partial_rotary_factor",
}
SHARES = (
    "partial_rotary_factor",
    "rotary_pct",
    "rotary_percent",
    "rotary_emb_fraction",
    "rope_pct",
    "rope_percent",
)
READ = {name for _, needed, optional in KINDS.values() for name in (*needed, *optional)}
READ -= {"length"}  # of the text, not of the config
READ |= {
    "rope_type",
    "rope_theta",
    "attention_factor",
    "alpha",
    "short_mscale",
    "long_mscale",
    "rope_ratio",
}


def rope_dict(config: Config, index: int, word: str) -> dict[str, Any] | None:
    """Return what a configuration says of the rotation of one layer, None where it says: none."""
    legacy = config.kind.get("bases")
    rope = config.said.get("rope_scaling") or config.said.get("rope_parameters")
    rope = rope or (not legacy and config.kind.get("rope")) or {}
    label = config.kind.get("labels", {}).get(word, word)
    if any(isinstance(value, Mapping) for value in rope.values()):
        rope = rope.get(label)
        if rope is None:
            return None
    elif (legacy and not legacy.get(label, {}).get("scaled")) or word in config.kind.get(
        "plain", ()
    ):
        rope = {}
    said: dict[str, Any] = {}
    for name, value in rope.items():
        if value is not None:
            said[str(ALIASES.get(name, name))] = value
    for own, name in LISTS.items():
        stated = config.said.get(own)
        if isinstance(stated, list) and stated:
            said[name] = one_each(config, own, stated)[index]
    return None if said.get("rope_theta") == 0 else said


def rope_kind(config: Config, rope: Mapping[str, Any]) -> str:
    """Return the kind of a rotation, by the name that from_config has for it."""
    kind = rope.get("rope_type", "default")
    return {"axial": "default", **config.kind.get("types", {})}.get(kind, kind)


def base_of(config: Config, rope: Mapping[str, Any], word: str) -> tuple[float, str]:
    """Return the base of a rotation and where it stands."""
    legacy = config.kind.get("bases", {}).get(config.kind.get("labels", {}).get(word, word))
    names = (legacy["key"],) if legacy else BASE
    for where, said in (("rope_parameters", rope), ("the config", config.said)):
        for name in BASE if said is rope else names:
            if isinstance(said.get(name), int | float):
                return float(said[name]), where
    found = (
        legacy["base"]
        if legacy
        else config.kind.get("defaults", {}).get("rope_theta") or config.kind.get("base")
    )
    inside = config.get("rope_theta")  # such as DBRX's, in attn_config
    if (
        not legacy
        and isinstance(inside, int | float)
        and "rope_theta" in config.kind.get("inside", ())
    ):
        return float(inside), "the config"
    if found is None:
        raise ValueError(
            f"plan: rope_theta must be in the config of {config.model_type}, got None; its code "
            "has no default"
        )
    return float(found), CODE


def share_of(config: Config, rope: Mapping[str, Any], width: int) -> float:
    """Return the share of a head that turns."""
    for said in (rope, config.said):
        for name in SHARES:
            if isinstance(said.get(name), int | float):
                return said[name]
    turning = None if "rotary_dim" in config.kind.get("unread", ()) else config.get("rotary_dim")
    return turning / width if turning else config.kind.get("share", 1.0)


def frequencies(
    config: Config, rope: Mapping[str, Any], word: str, width: int, length: int | None
) -> tuple[np.ndarray, float, float, str]:
    """Return (theta, factor, base, where the base stands) of `width` channels."""
    kind = rope_kind(config, rope)
    base, where = base_of(config, rope, word)
    said = {name: value for name, value in rope.items() if name in READ} | {"rope_theta": base}
    said = config.kind.get("with", {}).get(kind, {}) | said | {"rope_type": kind}
    share = 1.0 if "slice" in config.kind else share_of(config, rope, width)
    said.pop("partial_rotary_factor", None)
    if share != 1 or kind == "proportional":
        said["partial_rotary_factor"] = share
    longest = config.get(LONGEST)
    trained = config.get(TRAINED) or said.get(TRAINED) or longest
    said |= {name: value for name, value in ((LONGEST, longest), (TRAINED, trained)) if value}
    try:
        theta, factor = from_config({"rope_parameters": said, LONGEST: longest}, width, length)
    except KeyError as error:
        missing = error.args[0]
        raise ValueError(f"plan: {missing} must be stated for {kind}, got None; add it") from error
    return theta, float(factor), base, where
