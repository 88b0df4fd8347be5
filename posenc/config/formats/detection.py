"""Other programs' configurations in the words of transformers, told by keys of their own.

Known are those of FORMATS, and vLLM's words inside transformers' own. What a program's code assumes
and the file does not say is said in `warnings`; `layout` is set where the weights beside the file
pair channels otherwise than those that transformers has of the same model.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc.config.formats import makers, training
from posenc.config.formats.gguf import gguf
from posenc.models.from_config import FOREIGN

VLLM = ("attn_factor", "apply_yarn_scaling", "extrapolation_factor")


class Found(NamedTuple):
    """A configuration in the words of transformers, and what it was."""

    format: str
    config: dict[str, Any]
    layout: str | None = None
    warnings: tuple[str, ...] = ()


def to_transformers(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration in the words of transformers; one that is in them stays as it is.

    Raises:
        ValueError: If it is of another format that is not known, or says what cannot be said there.
    """
    return recognized(config).config


def recognized(config: Mapping[str, Any]) -> Found:
    """Return a configuration in the words of transformers, its format and what it leaves open."""
    for name, (own, read) in FORMATS.items():
        if own(config):
            said, layout, warnings = read(config)
            kind = {"model_type": config["model_type"]} if "model_type" in config else {}
            return Found(name, said | kind, layout, warnings)
    strange = [name for name in config if name in FOREIGN and config[name] not in (None, False)]
    if strange and "model_type" not in config:
        raise ValueError(
            f"plan: config must be of one of {', '.join(FORMATS)}, got keys such as "
            f"{', '.join(strange)} without those that tell which; add model_type"
        )
    return Found("transformers", _without_vllm(config))


def merged(config: Mapping[str, Any], overrides: Mapping[str, Any] | str) -> dict[str, Any]:
    """Return a configuration as `vllm serve --hf-overrides` changes it, by a dict or its JSON.

    Examples:
        >>> merged({"rope_theta": 1e6}, '{"rope_scaling": {"rope_type": "linear", "factor": 2.0}}')
        {'rope_theta': 1000000.0, 'rope_scaling': {'rope_type': 'linear', 'factor': 2.0}}
    """
    changes = json.loads(overrides) if isinstance(overrides, str) else dict(overrides)
    changed = dict(config)
    rope = changes.keys() & {"rope_scaling", "rope_parameters"}
    if rope:  # one takes the place of the other, and the base stays unless it is said anew
        before = {
            **(changed.pop("rope_scaling", None) or {}),
            **(changed.pop("rope_parameters", None) or {}),
        }
        base = before.get("rope_theta", changed.get("rope_theta"))
        if base is not None and not any("rope_theta" in (changes[name] or {}) for name in rope):
            changed["rope_theta"] = base
    for name, value in changes.items():
        inner = (
            isinstance(value, Mapping)
            and isinstance(changed.get(name), Mapping)
            and name not in rope
        )
        changed[name] = merged(changed[name], value) if inner else value
    return changed


def _without_vllm(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with vLLM's words of YaRN as the attention_factor that they make."""
    said = dict(config)
    for name in ("rope_scaling", "rope_parameters"):
        rope = dict(said.get(name) or {})
        if rope.get("rope_type", rope.get("type")) == "deepseek_yarn":
            rope["rope_type"] = "yarn"
        words = {key: rope.pop(key) for key in VLLM if key in rope}
        if words:
            _check_vllm(words, rope)
            rope |= _attention_factor(words, rope)
        if rope:
            said[name] = rope
    return said


def _check_vllm(words: Mapping[str, Any], rope: Mapping[str, Any]) -> None:
    mixed = words.get("extrapolation_factor", 1)
    if mixed != 1:
        raise ValueError(
            f"plan: extrapolation_factor must be 1, got {mixed}; transformers has no word for "
            "another"
        )
    if "attention_factor" in rope:
        raise ValueError(
            f"plan: attention_factor must be alone, got {', '.join(words)} beside it; vLLM "
            "reads one and transformers the other"
        )


def _attention_factor(words: Mapping[str, Any], rope: Mapping[str, Any]) -> dict[str, float]:
    if not words.keys() & {"attn_factor", "apply_yarn_scaling"}:
        return {}
    grows = words.get("apply_yarn_scaling", True)
    grown = 0.1 * math.log(max(rope.get("factor") or 1.0, 1.0)) + 1 if grows else 1.0
    return {"attention_factor": grown * words.get("attn_factor", 1.0)}


def _has(*names: str):
    return lambda config: all(name in config for name in names)


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
    own = {"dim", "n_layers", "n_heads", "hidden_dim"}
    return own <= config.keys() and "model_type" not in config  # DistilBERT has these names too


FORMATS = {  # in this order: those whose keys are of no other first
    "GGUF": (lambda config: any(name.endswith(".block_count") for name in config), gguf),
    "gpt-oss": (
        _has("initial_context_length", "rope_ntk_alpha", "rope_scaling_factor"),
        makers.gpt_oss,
    ),
    "DeepSeek": (_has("dim", "n_heads", "inter_dim", "qk_rope_head_dim"), makers.deepseek),
    "litgpt": (_is_litgpt, training.litgpt),
    "Megatron": (_is_megatron, training.megatron),
    "Meta": (_is_meta, makers.meta),
    "Mistral": (_is_mistral, makers.mistral),
}
