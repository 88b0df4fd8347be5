"""Convert vendors' configurations, Meta, Mistral, DeepSeek, gpt-oss, to the keys of transformers.

Each function returns the configuration, the layout where the weights beside the file pair channels
otherwise than those that transformers has, and what its code assumes and the file does not say.
"""

from collections.abc import Mapping
from typing import Any

from posenc.config.model_types import MOST_LAYERS
from posenc.models.from_config import TRAINED

# the configuration, the layout of the weights, warnings
Conversion = tuple[dict[str, Any], str | None, tuple[str, ...]]

SIZE_KEYS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
}
LLAMA_3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def meta(config: Mapping[str, Any]) -> Conversion:
    """Read Meta's params.json, of Llama 1 to 4.

    Raises:
        ValueError: If a Llama 4 has more layers than any model.
    """
    fields = {standard: config[key] for key, standard in SIZE_KEYS.items()}
    fields |= {key: config[key] for key in ("head_dim", "rope_theta") if config.get(key)}
    warnings = []
    if "rope_theta" not in fields:
        fields["rope_theta"] = 10_000.0
        warnings.append("rope_theta is not stated: 10,000 as in the code of Llama 1 and 2")
    if "nope_layer_interval" in config or "moe_args" in config:
        return _llama_4(config, fields, warnings)
    if config.get("use_scaled_rope"):
        # the file is a switch alone: models are distinguished by their size
        is_small = (config["dim"], config["n_layers"]) in ((2048, 16), (3072, 28))
        factor = 32.0 if is_small else 8.0
        model = "Llama 3.2 of 1B and 3B" if is_small else "Llama 3.1"
        fields["rope_scaling"] = {**LLAMA_3, "factor": factor, TRAINED: 8192}
        fields["max_position_embeddings"] = 131_072
        warnings.append(
            f"use_scaled_rope states no factor: {factor:g} as in the published config of {model}"
        )
    return {"model_type": "llama", **fields}, "interleaved", tuple(warnings)


def _llama_4(config: Mapping[str, Any], fields: dict[str, Any], warnings: list[str]) -> Conversion:
    """Read what Llama 4 has beside what all have, which is in `fields`."""
    count = fields["num_hidden_layers"]
    # before a list is made of so many
    if count > MOST_LAYERS:
        raise ValueError(f"plan: n_layers must be at most {MOST_LAYERS:,}, got {count}; correct it")
    # the last layer of each interval does not rotate; 1 in this list means that one does
    interval = config.get("nope_layer_interval")
    fields["no_rope_layers"] = [
        int(interval is None or bool((index + 1) % interval)) for index in range(count)
    ]
    keys = ("attention_chunk_size", "attn_temperature_tuning", "floor_scale", "attn_scale")
    fields |= {key: config[key] for key in keys if key in config}
    if config.get("use_scaled_rope"):
        fields["rope_scaling"] = {
            **LLAMA_3,
            "factor": config.get("rope_scaling_factor") or 16.0,
            "high_freq_factor": config.get("rope_high_freq_factor") or 1.0,
            TRAINED: 8192,
        }
        if not config.get("rope_scaling_factor"):
            warnings.append(
                "use_scaled_rope states no factor: 16 as in Meta's code for Llama 4 Scout"
            )
    return {"model_type": "llama4_text", **fields}, None, tuple(warnings)


def mistral(config: Mapping[str, Any]) -> Conversion:
    """Read Mistral's params.json.

    Raises:
        ValueError: If its attention is latent.
        ValueError: If it states no base.
    """
    if config.get("qk_nope_head_dim"):
        raise ValueError(
            "plan: config must be of Mistral's models without latent attention, got "
            f"qk_nope_head_dim {config['qk_nope_head_dim']}; pass the config.json of transformers"
        )
    if not config.get("rope_theta"):
        raise ValueError(
            f"plan: rope_theta must be stated, got {config.get('rope_theta')}; add it: Mistral's "
            "code has had 10,000 and 1,000,000"
        )
    fields = {standard: config[key] for key, standard in SIZE_KEYS.items()}
    keys = ("head_dim", "rope_theta", "sliding_window", "max_position_embeddings")
    fields |= {key: config[key] for key in keys if config.get(key)}
    model_type = "mixtral" if config.get("moe") else "mistral"
    if config.get("yarn"):
        fields["rope_parameters"] = _mistral_yarn(config["yarn"], fields.pop("rope_theta"))
        # Ministral 3, in whose code queries grow with their position
        if config.get("llama_4_scaling"):
            model_type = "ministral3"
            fields["rope_parameters"]["llama_4_scaling_beta"] = config["llama_4_scaling"]["beta"]
    return {"model_type": model_type, **fields}, "interleaved", ()


def _mistral_yarn(yarn: Mapping[str, Any], base: float) -> dict[str, Any]:
    rope = {
        "rope_type": "yarn",
        "rope_theta": base,
        "mscale_all_dim": 1,
        "factor": float(yarn["factor"]),
        TRAINED: yarn[TRAINED],
        "beta_fast": float(yarn.get("beta", 32)),
        "beta_slow": float(yarn.get("alpha", 1)),
    }
    # apply_scale is the growth of the attention factor
    if not yarn.get("apply_scale", True):
        rope["attention_factor"] = 1.0
    return rope


def deepseek(config: Mapping[str, Any]) -> Conversion:
    """Read what DeepSeek's inference code reads, of V2 to V3.2."""
    model_type = "deepseek_v3" if config.get("score_func") == "sigmoid" else "deepseek_v2"
    if "index_n_heads" in config:
        model_type = "deepseek_v32"
    fields = {standard: config[key] for key, standard in SIZE_KEYS.items()}
    keys = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    # a rank of 0 is none
    fields |= {key: config[key] or None for key in keys if key in config}
    trained = config.get("original_seq_len", 4096)
    factor = config.get("rope_factor", 40)
    mscale = config.get("mscale", 1.0)
    fields["rope_theta"] = config.get("rope_theta", 10_000.0)
    fields["max_position_embeddings"] = trained * factor
    fields["rope_scaling"] = {
        "type": "yarn",
        "factor": factor,
        TRAINED: trained,
        "beta_fast": config.get("beta_fast", 32),
        "beta_slow": config.get("beta_slow", 1),
        "mscale": mscale,
        "mscale_all_dim": mscale,
    }
    keys = ("rope_theta", "rope_factor", "original_seq_len")
    missing = ", ".join(key for key in keys if key not in config)
    warnings = (f"{missing} not stated: as in DeepSeek's inference code",) if missing else ()
    return {"model_type": model_type, **fields}, None, warnings


def gpt_oss(config: Mapping[str, Any]) -> Conversion:
    """Read the config.json in the folder original of gpt-oss."""
    keys = (
        "num_hidden_layers",
        "hidden_size",
        "head_dim",
        "num_attention_heads",
        "sliding_window",
    )
    fields = {key: config[key] for key in keys if key in config}
    trained = config["initial_context_length"]
    factor = config["rope_scaling_factor"]
    rope = {
        "rope_type": "yarn",
        "factor": float(factor),
        TRAINED: trained,
        # its code does not round the ramp to whole pairs
        "truncate": False,
        "beta_slow": float(config["rope_ntk_alpha"]),
        "beta_fast": float(config["rope_ntk_beta"]),
    }
    fields |= {"rope_theta": config["rope_theta"], "rope_scaling": rope}
    fields["max_position_embeddings"] = int(trained * factor)
    return {"model_type": "gpt_oss", **fields}, None, ()
