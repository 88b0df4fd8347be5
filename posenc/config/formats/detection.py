"""Detect which program a configuration is of, and convert it to the keys of transformers.

Known are those of FORMATS, and vLLM's keys inside transformers' own. What a program's code assumes
and the file does not say is said in `warnings`; `layout` is set where the weights beside the file
pair channels otherwise than those that transformers has of the same model.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from posenc.config import sentences
from posenc.config.formats import training, vendors
from posenc.config.formats.gguf import gguf
from posenc.config.formats.vendors import Conversion
from posenc.models.from_config import FOREIGN

VLLM_KEYS = ("attn_factor", "apply_yarn_scaling", "extrapolation_factor")
VLLM_ROPE_TYPES = {"deepseek_yarn": "yarn"}  # vLLM's name of the same formula

# The keys of each format: all of "all", one of "any", none of "none", one that ends like "ending".
# In this order: those whose keys are of no other first.
FORMATS: dict[str, dict[str, tuple[str, ...]]] = {
    "GGUF": {"ending": (".block_count",)},
    "gpt-oss": {"all": ("initial_context_length", "rope_ntk_alpha", "rope_scaling_factor")},
    "DeepSeek": {"all": ("dim", "n_heads", "inter_dim", "qk_rope_head_dim")},
    "litgpt": {
        "all": ("n_embd", "n_layer"),
        "any": ("rope_base", "rotary_percentage", "rope_adjustments", "n_query_groups"),
    },
    "Megatron": {
        "all": ("num_layers",),
        "any": (
            "rotary_base",
            "use_rope_scaling",
            "rotary_interleaved",
            "rotary_seq_len_interpolation_factor",
        ),
    },
    "Meta": {
        "all": ("dim", "n_layers", "n_heads"),
        "any": ("multiple_of", "ffn_dim_multiplier", "use_scaled_rope", "nope_layer_interval"),
    },
    # DistilBERT has these keys too, and a model type
    "Mistral": {"all": ("dim", "n_layers", "n_heads", "hidden_dim"), "none": ("model_type",)},
}
READERS: dict[str, Callable[[Mapping[str, Any]], Conversion]] = {
    "GGUF": gguf,
    "gpt-oss": vendors.gpt_oss,
    "DeepSeek": vendors.deepseek,
    "litgpt": training.litgpt,
    "Megatron": training.megatron,
    "Meta": vendors.meta,
    "Mistral": vendors.mistral,
}


class Detection(NamedTuple):
    """A configuration in the keys of transformers, and what it was."""

    format: str
    config: dict[str, Any]
    layout: str | None = None
    warnings: tuple[str, ...] = ()


def to_transformers(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration in the keys of transformers; one that has them stays as it is.

    Raises:
        ValueError: If it is of another format that is not known.
        ValueError: If it states what transformers has no key for.
    """
    return recognized(config).config


def recognized(config: Mapping[str, Any]) -> Detection:
    """Return a configuration in the keys of transformers, its format and what it leaves open.

    Raises:
        ValueError: If it is of another format that is not known.
        ValueError: If it states what transformers has no key for.
    """
    name = format_of(config)
    if name is not None:
        fields, layout, warnings = READERS[name](config)
        # a model type that someone has added is the better guess
        if "model_type" in config:
            fields = fields | {"model_type": config["model_type"]}
        return Detection(name, fields, layout, warnings)
    foreign = [key for key in config if key in FOREIGN and config[key] not in (None, False)]
    if foreign and "model_type" not in config:
        raise ValueError(
            sentences.OTHER_FORMAT.format(formats=", ".join(FORMATS), keys=", ".join(foreign))
        )
    return Detection("transformers", _without_vllm(config))


def format_of(config: Mapping[str, Any]) -> str | None:
    """Return the name of the format whose keys a configuration has, None for transformers' own.

    Examples:
        >>> format_of({"dim": 64, "n_layers": 2, "n_heads": 4, "multiple_of": 256})
        'Meta'
    """
    for name, keys in FORMATS.items():
        has_any = "any" not in keys or any(key in config for key in keys["any"])
        has_all = all(key in config for key in keys.get("all", ()))
        has_other = any(key in config for key in keys.get("none", ()))
        has_ending = "ending" not in keys or any(key.endswith(keys["ending"]) for key in config)
        if has_all and has_any and has_ending and not has_other:
            return name
    return None


def merged(config: Mapping[str, Any], overrides: Mapping[str, Any] | str) -> dict[str, Any]:
    """Return a configuration as `vllm serve --hf-overrides` changes it, by a dict or its JSON.

    Examples:
        >>> merged({"rope_theta": 1e6}, '{"rope_scaling": {"rope_type": "linear", "factor": 2.0}}')
        {'rope_theta': 1000000.0, 'rope_scaling': {'rope_type': 'linear', 'factor': 2.0}}
    """
    changes = json.loads(overrides) if isinstance(overrides, str) else dict(overrides)
    result = dict(config)
    rope_keys = changes.keys() & {"rope_scaling", "rope_parameters"}
    if rope_keys:
        # one replaces the other, and the base stays unless it is stated again
        scaling = result.pop("rope_scaling", None) or {}
        parameters = result.pop("rope_parameters", None) or {}
        base = {**scaling, **parameters}.get("rope_theta", result.get("rope_theta"))
        is_new = any("rope_theta" in (changes[key] or {}) for key in rope_keys)
        if base is not None and not is_new:
            result["rope_theta"] = base
    for key, value in changes.items():
        are_dicts = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        # a rope dict is replaced whole
        if are_dicts and key not in rope_keys:
            value = merged(result[key], value)
        result[key] = value
    return result


def _without_vllm(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with vLLM's keys of YaRN as the attention_factor that they give."""
    fields = dict(config)
    for name in ("rope_scaling", "rope_parameters"):
        rope = dict(fields.get(name) or {})
        rope_type = rope.get("rope_type", rope.get("type"))
        if rope_type in VLLM_ROPE_TYPES:
            rope["rope_type"] = VLLM_ROPE_TYPES[rope_type]
        options = {key: rope.pop(key) for key in VLLM_KEYS if key in rope}
        if options:
            _check_vllm(options, rope)
            rope |= _attention_factor(options, rope)
        if rope:
            fields[name] = rope
    return fields


def _check_vllm(options: Mapping[str, Any], rope: Mapping[str, Any]) -> None:
    extrapolation = options.get("extrapolation_factor", 1)
    if extrapolation != 1:
        raise ValueError(sentences.EXTRAPOLATION.format(factor=extrapolation))
    if "attention_factor" in rope:
        raise ValueError(sentences.TWO_FACTORS.format(keys=", ".join(options)))


def _attention_factor(options: Mapping[str, Any], rope: Mapping[str, Any]) -> dict[str, float]:
    """Return the attention_factor that vLLM makes of its own options, empty where it has none."""
    if not options.keys() & {"attn_factor", "apply_yarn_scaling"}:
        return {}
    factor = 1.0
    if options.get("apply_yarn_scaling", True):
        factor = 0.1 * math.log(max(rope.get("factor") or 1.0, 1.0)) + 1
    return {"attention_factor": factor * options.get("attn_factor", 1.0)}
