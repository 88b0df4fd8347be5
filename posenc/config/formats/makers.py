"""The makers' own configurations in the words of transformers: of Meta, Mistral, DeepSeek, gpt-oss.

Each function returns the configuration, the layout where the weights beside the file pair channels
otherwise than those that transformers has, and what its code assumes and the file does not say.
"""

from collections.abc import Mapping
from typing import Any

from posenc.config.model_types import MOST_LAYERS
from posenc.models.from_config import TRAINED

Read = tuple[dict[str, Any], str | None, tuple[str, ...]]
HEADS = {"dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads"}
LLAMA_3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def meta(config: Mapping[str, Any]) -> Read:
    """Read Meta's params.json, of Llama 1 to 4."""
    said = {theirs: config[name] for name, theirs in HEADS.items()}
    said |= {name: config[name] for name in ("head_dim", "rope_theta") if config.get(name)}
    warnings = []
    if "rope_theta" not in said:
        said["rope_theta"] = 10_000.0
        warnings.append("rope_theta is not stated: 10,000 as in the code of Llama 1 and 2")
    if "nope_layer_interval" in config or "moe_args" in config:
        return _llama_4(config, said, warnings)
    if config.get("use_scaled_rope"):
        small = (config["dim"], config["n_layers"]) in ((2048, 16), (3072, 28))
        factor = 32.0 if small else 8.0
        said["rope_scaling"] = {**LLAMA_3, "factor": factor, TRAINED: 8192}
        said["max_position_embeddings"] = 131_072
        of = "Llama 3.2 of 1B and 3B" if small else "Llama 3.1"
        warnings.append(
            f"use_scaled_rope states no factor: {factor:g} as in the published config of {of}"
        )
    return {"model_type": "llama", **said}, "interleaved", tuple(warnings)


def _llama_4(config: Mapping[str, Any], said: dict[str, Any], warnings: list[str]) -> Read:
    each = config.get("nope_layer_interval")
    if said["num_hidden_layers"] > MOST_LAYERS:
        got = said["num_hidden_layers"]
        raise ValueError(f"plan: n_layers must be at most {MOST_LAYERS:,}, got {got}")
    layers = range(said["num_hidden_layers"])
    said["no_rope_layers"] = [int(bool(each is None or (index + 1) % each)) for index in layers]
    names = ("attention_chunk_size", "attn_temperature_tuning", "floor_scale", "attn_scale")
    said |= {name: config[name] for name in names if name in config}
    if config.get("use_scaled_rope"):
        scaling = {**LLAMA_3, "factor": config.get("rope_scaling_factor") or 16.0, TRAINED: 8192}
        said["rope_scaling"] = scaling | {
            "high_freq_factor": config.get("rope_high_freq_factor") or 1.0
        }
        if not config.get("rope_scaling_factor"):
            warnings.append(
                "use_scaled_rope states no factor: 16 as in Meta's code for Llama 4 Scout"
            )
    return {"model_type": "llama4_text", **said}, None, tuple(warnings)


def mistral(config: Mapping[str, Any]) -> Read:
    """Read Mistral's params.json."""
    if config.get("qk_nope_head_dim"):
        raise ValueError(
            "plan: config must be of Mistral's models without latent attention, got "
            f"qk_nope_head_dim {config['qk_nope_head_dim']}; pass the config.json of transformers"
        )
    if not config.get("rope_theta"):
        raise ValueError(
            f"plan: rope_theta must be stated, got {config.get('rope_theta')}; Mistral's code "
            "has had 10,000 and 1,000,000"
        )
    said = {theirs: config[name] for name, theirs in HEADS.items()}
    names = ("head_dim", "rope_theta", "sliding_window", "max_position_embeddings")
    said |= {name: config[name] for name in names if config.get(name)}
    kind = "mixtral" if config.get("moe") else "mistral"
    if yarn := config.get("yarn"):
        rope = {"rope_type": "yarn", "rope_theta": said.pop("rope_theta"), "mscale_all_dim": 1}
        rope |= {"factor": float(yarn["factor"]), TRAINED: yarn[TRAINED]}
        rope |= {"beta_fast": float(yarn.get("beta", 32)), "beta_slow": float(yarn.get("alpha", 1))}
        rope |= {} if yarn.get("apply_scale", True) else {"attention_factor": 1.0}
        said["rope_parameters"] = rope
        if scale := config.get("llama_4_scaling"):
            kind = "ministral3"
            rope["llama_4_scaling_beta"] = scale["beta"]
    return {"model_type": kind, **said}, "interleaved", ()


def deepseek(config: Mapping[str, Any]) -> Read:
    """Read what DeepSeek's inference code reads, of V2 to V3.2."""
    kind = "deepseek_v3" if config.get("score_func") == "sigmoid" else "deepseek_v2"
    kind = "deepseek_v32" if "index_n_heads" in config else kind
    said = {theirs: config[name] for name, theirs in HEADS.items()}
    names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    said |= {name: config[name] or None for name in names if name in config}
    trained, factor = config.get("original_seq_len", 4096), config.get("rope_factor", 40)
    mscale = config.get("mscale", 1.0)
    said |= {
        "rope_theta": config.get("rope_theta", 10_000.0),
        "max_position_embeddings": trained * factor,
    }
    said["rope_scaling"] = {"type": "yarn", "factor": factor, TRAINED: trained}
    said["rope_scaling"] |= {
        name: config.get(name, value) for name, value in (("beta_fast", 32), ("beta_slow", 1))
    }
    said["rope_scaling"] |= {"mscale": mscale, "mscale_all_dim": mscale}
    missing = [
        name for name in ("rope_theta", "rope_factor", "original_seq_len") if name not in config
    ]
    words = f"{', '.join(missing)} not stated: as in DeepSeek's inference code" if missing else ""
    return {"model_type": kind, **said}, None, (words,) if words else ()


def gpt_oss(config: Mapping[str, Any]) -> Read:
    """Read the config.json in the folder original of gpt-oss."""
    names = (
        "num_hidden_layers",
        "hidden_size",
        "head_dim",
        "num_attention_heads",
        "sliding_window",
    )
    said = {name: config[name] for name in names if name in config}
    trained, factor = config["initial_context_length"], config["rope_scaling_factor"]
    rope = {"rope_type": "yarn", "factor": float(factor), TRAINED: trained, "truncate": False}
    rope |= {
        "beta_slow": float(config["rope_ntk_alpha"]),
        "beta_fast": float(config["rope_ntk_beta"]),
    }
    said |= {"rope_theta": config["rope_theta"], "rope_scaling": rope}
    said["max_position_embeddings"] = int(trained * factor)
    return {"model_type": "gpt_oss", **said}, None, ()
