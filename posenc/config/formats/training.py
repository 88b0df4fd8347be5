"""Convert configurations of training libraries, Megatron and litgpt, to the keys of transformers.

The functions return what those of vendors.py do.
"""

from collections.abc import Mapping
from typing import Any

from posenc.config.formats.vendors import LLAMA_3, TRAINED, Conversion

MEGATRON_KEYS = {
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "kv_channels": "head_dim",
    "max_position_embeddings": "max_position_embeddings",
    "rotary_percent": "partial_rotary_factor",
    "rotary_base": "rope_theta",
}
MEGATRON_YARN_KEYS = {
    "yarn_rotary_scaling_factor": "factor",
    "yarn_original_max_position_embeddings": TRAINED,
    "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow",
    "yarn_mscale": "mscale",
    "yarn_mscale_all_dim": "mscale_all_dim",
    "yarn_correction_range_round_to_int": "truncate",
}
# arguments that must be off, and what they mean
MEGATRON_REFUSED = {
    "multi_latent_attention": "its own rotation",
    "no_rope_freq": "layers without rotation",
}
LITGPT_KEYS = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "head_size": "head_dim",
    "block_size": "max_position_embeddings",
    "rope_base": "rope_theta",
    "rotary_percentage": "partial_rotary_factor",
    "sliding_window_size": "sliding_window",
}
# how a model's name begins: its type in transformers; the first that fits counts
LITGPT_TYPES = {
    "llama": "llama",
    "meta-llama": "llama",
    "codellama": "llama",
    "tinyllama": "llama",
    "tiny-llama": "llama",
    "smollm2": "llama",
    "pythia": "gpt_neox",
    "gpt-neox": "gpt_neox",
    "redpajama": "gpt_neox",
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


def megatron(config: Mapping[str, Any]) -> Conversion:
    """Read the arguments of Megatron, as its checkpoints keep them.

    Raises:
        ValueError: If attention is latent, or layers do not rotate.
        ValueError: If position enters in another way than by RoPE.
        ValueError: If an argument that yarn needs is missing.
    """
    encoding = _megatron_encoding(config)
    fields = _renamed(config, MEGATRON_KEYS)
    fields.setdefault("rope_theta", 10_000)
    stretch = config.get("rotary_seq_len_interpolation_factor")
    if encoding == "yarn":
        fields["rope_scaling"] = _megatron_yarn(config)
    elif config.get("use_rope_scaling"):
        # that of Llama 3.1
        factor = float(config.get("rope_scaling_factor") or 8.0)
        fields["rope_scaling"] = {**LLAMA_3, "factor": factor, TRAINED: 8192}
    elif stretch:
        fields["rope_scaling"] = {"rope_type": "linear", "factor": float(stretch)}
    layout = "interleaved" if config.get("rotary_interleaved") else "half"
    warnings = () if "model_type" in config else ("model_type is not stated: taken as llama",)
    return {"model_type": "llama", **fields}, layout, warnings


def _renamed(config: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Return what is stated under these keys, under their names in transformers."""
    return {standard: config[key] for key, standard in keys.items() if config.get(key) is not None}


def _megatron_encoding(config: Mapping[str, Any]) -> str:
    """Return how Megatron encodes position, or refuse what is not RoPE of a whole head."""
    for key, meaning in MEGATRON_REFUSED.items():
        if config.get(key):
            raise ValueError(
                f"plan: {key} must be off, got {config[key]}; it means {meaning}: pass the "
                "config.json of transformers"
            )
    encoding = config.get("position_embedding_type", "rope")
    if encoding not in ("rope", "yarn"):
        raise ValueError(
            f"plan: position_embedding_type must be rope or yarn, got {encoding!r}; with another "
            "nothing is rotated, or by several axes"
        )
    return encoding


def _megatron_yarn(config: Mapping[str, Any]) -> dict[str, Any]:
    rope = _renamed(config, MEGATRON_YARN_KEYS)
    # the two that have no default
    for key, standard in MEGATRON_YARN_KEYS.items():
        if standard in ("factor", TRAINED) and standard not in rope:
            raise ValueError(f"plan: {key} must be stated for yarn, got {config.get(key)}; add it")
    return {"rope_type": "yarn", **rope}


def litgpt(config: Mapping[str, Any]) -> Conversion:
    """Read litgpt's model_config.yaml, as a dict.

    Raises:
        ValueError: If neither its name nor `model_type` says which model it is.
        ValueError: If its scaling is not one of transformers.
    """
    name = str((config.get("hf_config") or {}).get("name") or config.get("name", "")).lower()
    model_types = [
        model_type for prefix, model_type in LITGPT_TYPES.items() if name.startswith(prefix)
    ]
    if not model_types and "model_type" not in config:
        raise ValueError(
            f"plan: name must be of one of {', '.join(LITGPT_TYPES)}, got {name!r}; "
            "say model_type beside it"
        )
    # the defaults of its code
    fields = {"rope_theta": 10_000, "partial_rotary_factor": 0.25}
    fields |= _renamed(config, LITGPT_KEYS)
    rope = _litgpt_scaling(config)
    if rope:
        fields["rope_scaling"] = rope
    if config.get("rope_local_base_freq"):
        # Gemma 3: layers with a window have a base of their own
        fields["rope_local_base_freq"] = config["rope_local_base_freq"]
        fields["layer_types"] = [
            "sliding_attention" if is_local else "full_attention"
            for is_local in config["rope_indices"][: config["n_layer"]]
        ]
    layout = "interleaved" if config.get("rope_interleave") else "half"
    return {"model_type": model_types[0] if model_types else None, **fields}, layout, ()


def _litgpt_scaling(config: Mapping[str, Any]) -> dict[str, Any]:
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
    trained = rope.pop("original_max_seq_len")
    return {"rope_type": "llama3", "factor": factor, TRAINED: trained, **rope}
