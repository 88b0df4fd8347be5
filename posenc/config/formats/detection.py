"""Other programs' configurations in the words of transformers, told apart by keys of their own.

Known are those of FORMATS, and vLLM's words inside transformers' own. What a program's code assumes
and the file does not say is said in `warnings`; `layout` is set where the weights beside the file
pair channels otherwise than those that transformers has of the same model.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from posenc.config.formats import training, vendors
from posenc.config.formats.gguf import gguf
from posenc.config.formats.vendors import Conversion
from posenc.models.from_config import FOREIGN

VLLM_KEYS = ("attn_factor", "apply_yarn_scaling", "extrapolation_factor")

Test = Callable[[Mapping[str, Any]], bool]
Reader = Callable[[Mapping[str, Any]], Conversion]


class Detection(NamedTuple):
    """A configuration in the words of transformers, and what it was."""

    format: str
    config: dict[str, Any]
    layout: str | None = None
    warnings: tuple[str, ...] = ()


def to_transformers(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration in the words of transformers; one that is in them stays as it is.

    Raises:
        ValueError: If it is of another format that is not known.
        ValueError: If it says what has no words in transformers.
    """
    return recognized(config).config


def recognized(config: Mapping[str, Any]) -> Detection:
    """Return a configuration in the words of transformers, its format and what it leaves open.

    Raises:
        ValueError: If it is of another format that is not known.
        ValueError: If it says what has no words in transformers.
    """
    for name, (fits, read) in FORMATS.items():
        if fits(config):
            fields, layout, warnings = read(config)
            # a model type that someone has added is the better guess
            if "model_type" in config:
                fields = fields | {"model_type": config["model_type"]}
            return Detection(name, fields, layout, warnings)
    foreign = [key for key in config if key in FOREIGN and config[key] not in (None, False)]
    if foreign and "model_type" not in config:
        raise ValueError(
            f"plan: config must be of one of {', '.join(FORMATS)}, got keys such as "
            f"{', '.join(foreign)} without those that tell which; add model_type"
        )
    return Detection("transformers", _without_vllm(config))


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
        # one takes the place of the other, and the base stays unless it is said anew
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
    """Return a configuration with vLLM's words of YaRN as the attention_factor that they make."""
    fields = dict(config)
    for name in ("rope_scaling", "rope_parameters"):
        rope = dict(fields.get(name) or {})
        # the name in vLLM of the same formula
        if rope.get("rope_type", rope.get("type")) == "deepseek_yarn":
            rope["rope_type"] = "yarn"
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
        raise ValueError(
            f"plan: extrapolation_factor must be 1, got {extrapolation}; transformers has no word "
            "for another"
        )
    if "attention_factor" in rope:
        raise ValueError(
            f"plan: attention_factor must be alone, got {', '.join(options)} beside it; vLLM "
            "reads one and transformers the other"
        )


def _attention_factor(options: Mapping[str, Any], rope: Mapping[str, Any]) -> dict[str, float]:
    """Return the attention_factor that vLLM makes of its own options, empty where it has none."""
    if not options.keys() & {"attn_factor", "apply_yarn_scaling"}:
        return {}
    factor = 1.0
    if options.get("apply_yarn_scaling", True):
        factor = 0.1 * math.log(max(rope.get("factor") or 1.0, 1.0)) + 1
    return {"attention_factor": factor * options.get("attn_factor", 1.0)}


def _has(*keys: str) -> Test:
    return lambda config: all(key in config for key in keys)


def _is_gguf(config: Mapping[str, Any]) -> bool:
    return any(key.endswith(".block_count") for key in config)


def _is_meta(config: Mapping[str, Any]) -> bool:
    own = {"multiple_of", "ffn_dim_multiplier", "use_scaled_rope", "nope_layer_interval"}
    return {"dim", "n_layers", "n_heads"} <= config.keys() and bool(own & config.keys())


def _is_litgpt(config: Mapping[str, Any]) -> bool:
    own = {"rope_base", "rotary_percentage", "rope_adjustments", "n_query_groups"}
    return {"n_embd", "n_layer"} <= config.keys() and bool(own & config.keys())


def _is_megatron(config: Mapping[str, Any]) -> bool:
    own = {
        "rotary_base",
        "use_rope_scaling",
        "rotary_interleaved",
        "rotary_seq_len_interpolation_factor",
    }
    return "num_layers" in config and bool(own & config.keys())


def _is_mistral(config: Mapping[str, Any]) -> bool:
    # DistilBERT has these keys too, and a model type
    return {"dim", "n_layers", "n_heads", "hidden_dim"} <= config.keys() and (
        "model_type" not in config
    )


# in this order: those whose keys are of no other first
FORMATS: dict[str, tuple[Test, Reader]] = {
    "GGUF": (_is_gguf, gguf),
    "gpt-oss": (
        _has("initial_context_length", "rope_ntk_alpha", "rope_scaling_factor"),
        vendors.gpt_oss,
    ),
    "DeepSeek": (_has("dim", "n_heads", "inter_dim", "qk_rope_head_dim"), vendors.deepseek),
    "litgpt": (_is_litgpt, training.litgpt),
    "Megatron": (_is_megatron, training.megatron),
    "Meta": (_is_meta, vendors.meta),
    "Mistral": (_is_mistral, vendors.mistral),
}
