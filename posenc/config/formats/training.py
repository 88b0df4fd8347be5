"""Training libraries' configurations in the words of transformers: those of Megatron and litgpt.

The functions return what those of makers.py do.
"""

from collections.abc import Mapping
from typing import Any

from posenc.config.formats.makers import LLAMA_3, TRAINED, Read

LITGPT = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "head_size": "head_dim",
    "block_size": "max_position_embeddings",
    "rope_base": "rope_theta",
    "rotary_percentage": "partial_rotary_factor",
    "sliding_window_size": "sliding_window",
}
LITGPT_TYPES = {  # how a model's name begins: its type in transformers
    **dict.fromkeys(
        ("llama", "meta-llama", "codellama", "tinyllama", "tiny-llama", "smollm2"), "llama"
    ),
    **dict.fromkeys(("pythia", "gpt-neox", "redpajama"), "gpt_neox"),
    "qwen2.5": "qwen2",
    "qwq": "qwen2",
    "qwen3": "qwen3",
    "mistral": "mistral",
    "phi-2": "phi",
    "phi-3": "phi3",
    "gemma-3": "gemma3_text",
    "gemma-2": "gemma2",
    "gemma": "gemma",
    "olmo-2": "olmo2",
}
MEGATRON = {
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "kv_channels": "head_dim",
    "max_position_embeddings": "max_position_embeddings",
    "rotary_percent": "partial_rotary_factor",
    "rotary_base": "rope_theta",
}
ANOTHER = {"multi_latent_attention": "its own rotation", "no_rope_freq": "layers without rotation"}


def megatron(config: Mapping[str, Any]) -> Read:
    """Read the arguments of Megatron, as its checkpoints keep them."""
    kind = _megatron_kind(config)
    said = {
        theirs: config[name] for name, theirs in MEGATRON.items() if config.get(name) is not None
    }
    said.setdefault("rope_theta", 10_000)
    if kind == "yarn":
        said["rope_scaling"] = _megatron_yarn(config)
    elif config.get("use_rope_scaling"):
        factor = float(config.get("rope_scaling_factor") or 8.0)
        said["rope_scaling"] = {**LLAMA_3, "factor": factor, TRAINED: 8192}
    elif slower := config.get("rotary_seq_len_interpolation_factor"):
        said["rope_scaling"] = {"rope_type": "linear", "factor": float(slower)}
    layout = "interleaved" if config.get("rotary_interleaved") else "half"
    assumed = () if "model_type" in config else ("model_type is not stated: taken as llama",)
    return {"model_type": "llama", **said}, layout, assumed


def _megatron_kind(config: Mapping[str, Any]) -> str:
    for name, what in ANOTHER.items():
        if config.get(name):
            raise ValueError(
                f"plan: {name} must be off, got {config[name]}; it means {what}: pass the "
                "config.json of transformers"
            )
    kind = config.get("position_embedding_type", "rope")
    if kind not in ("rope", "yarn"):
        raise ValueError(
            f"plan: position_embedding_type must be rope or yarn, got {kind!r}; with another "
            "nothing is rotated, or by several axes"
        )
    return kind


def _megatron_yarn(config: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "yarn_rotary_scaling_factor": "factor",
        "yarn_original_max_position_embeddings": TRAINED,
        "yarn_beta_fast": "beta_fast",
        "yarn_beta_slow": "beta_slow",
        "yarn_mscale": "mscale",
        "yarn_mscale_all_dim": "mscale_all_dim",
        "yarn_correction_range_round_to_int": "truncate",
    }
    found = {theirs: config[name] for name, theirs in names.items() if config.get(name) is not None}
    missing = [
        name for name in names if names[name] in ("factor", TRAINED) and names[name] not in found
    ]
    if missing:
        raise ValueError(f"plan: {missing[0]} must be stated for yarn, got None; add it")
    return {"rope_type": "yarn", **found}


def litgpt(config: Mapping[str, Any]) -> Read:
    """Read litgpt's model_config.yaml, as a dict."""
    name = str((config.get("hf_config") or {}).get("name") or config.get("name", "")).lower()
    kinds = [kind for begins, kind in LITGPT_TYPES.items() if name.startswith(begins)]
    if not kinds and "model_type" not in config:
        raise ValueError(
            f"plan: name must be of one of {', '.join(LITGPT_TYPES)}, got {name!r}; "
            "say model_type beside it"
        )
    said = {theirs: config[ours] for ours, theirs in LITGPT.items() if config.get(ours) is not None}
    said = {"rope_theta": 10_000, "partial_rotary_factor": 0.25} | said  # the defaults of its code
    if rope := _adjusted(config):
        said["rope_scaling"] = rope
    if config.get("rope_local_base_freq"):
        said["rope_local_base_freq"] = config["rope_local_base_freq"]
        local = config["rope_indices"][: config["n_layer"]]
        said["layer_types"] = ["sliding_attention" if each else "full_attention" for each in local]
    layout = "interleaved" if config.get("rope_interleave") else "half"
    return {"model_type": kinds[0] if kinds else None, **said}, layout, ()


def _adjusted(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return litgpt's rope_adjustments and rope_condense_ratio as a rope_scaling."""
    rope = dict(config.get("rope_adjustments") or {})
    factor = rope.pop("factor", config.get("rope_condense_ratio", 1))
    if not rope:
        return {"rope_type": "linear", "factor": float(factor)} if factor != 1 else {}
    if rope.keys() != {"low_freq_factor", "high_freq_factor", "original_max_seq_len"}:
        raise ValueError(
            f"plan: rope_adjustments must be a factor or Llama 3's, got {', '.join(rope)} too; "
            "litgpt's YaRN is not that of transformers: pass the config.json of the model"
        )
    return {
        "rope_type": "llama3",
        "factor": factor,
        TRAINED: rope.pop("original_max_seq_len"),
        **rope,
    }
