"""What the list of published models says of each: base, frequencies of the rotated pairs, context extension."""

import json
from pathlib import Path

import numpy as np

from posenc.models.from_config import from_config

PLACE = Path("docs/assets/data/models.json")


def entries() -> list[dict]:
    """Return all entries of the list, in its order."""
    return json.loads(PLACE.read_text(encoding="utf-8"))["models"]


def has_base(model: dict) -> bool:
    """Return whether a model has RoPE, and a configuration that says its base."""
    return model["encoding"] == "rope" and "config" in model


def base_of(model: dict) -> float:
    """Return the base of RoPE, `rope_theta`, wherever the configuration says it."""
    config = model["config"] | model["config"].get("rope_parameters", {})
    return config.get("rope_theta", config.get("rotary_emb_base", 10_000))


def frequencies(model: dict, extended: bool = False) -> np.ndarray:
    """Return the frequencies of the pairs that rotate (≤ d/2,), as trained or with context extension."""
    config = dict(model["config"])
    if extended:
        config |= model.get("longer", {})
    else:
        config.pop("rope_scaling", None)
    theta, _ = from_config(config, config.get("qk_rope_head_dim", model["head"]), length=model.get("claimed"))
    return theta[theta > 0]


def rotated_channels(model: dict) -> int | None:
    """Return how many channels of each head are rotated, where it is known."""
    if "turning" in model or not has_base(model):
        return model.get("turning")
    return 2 * len(frequencies(model))


def scaling(model: dict) -> str:
    """Return how the context was extended, with the factor, such as "yarn × 4"; "" where it was not."""
    config = model.get("config", {})
    if "rope_parameters" in config:
        return "p-RoPE"
    stated = config.get("rope_scaling") or model.get("longer", {}).get("rope_scaling")
    if not stated:
        return ""
    kind = stated.get("rope_type", stated.get("type"))
    return kind + (f" × {stated['factor']:g}" if "factor" in stated else "")
