"""Convert the metadata of a GGUF file to the keys of transformers.

Keys are those of gguf-py, `<architecture>.rope.freq_base` and so on. Frequencies that a file keeps
as a tensor (rope_freqs.weight, rope_factors_long.weight) are not in its metadata.
"""

import math
from collections.abc import Mapping
from typing import Any

from posenc.config.formats.vendors import TRAINED, Conversion

# an architecture's name there: here, where it differs
TYPES = {
    "gptneox": "gpt_neox",
    "gpt-oss": "gpt_oss",
    "phi2": "phi",
    "command-r": "cohere",
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "gemma3": "gemma3_text",
    "mistral3": "ministral3",
    "granitemoe": "granitemoe",
    "glm4moe": "glm4_moe",
}
SAME = (
    "llama",
    "qwen2",
    "qwen3",
    "gemma",
    "gemma2",
    "phi3",
    "falcon",
    "stablelm",
    "starcoder2",
    "cohere2",
    "olmo",
    "olmo2",
    "granite",
    "smollm3",
    "arcee",
    "glm4",
    "exaone",
    "bloom",
    "mpt",
    "gpt2",
    "deepseek2",
)
# the rows of their queries and keys are reordered there
INTERLEAVED = (
    "llama",
    "granite",
    "granitemoe",
    "smollm3",
    "arcee",
    "mistral3",
    "olmo",
)
SIZE_KEYS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "context_length": "max_position_embeddings",
    "attention.sliding_window": "sliding_window",
}
YARN_KEYS = {
    "rope.scaling.yarn_beta_fast": "beta_fast",
    "rope.scaling.yarn_beta_slow": "beta_slow",
}


def gguf(config: Mapping[str, Any]) -> Conversion:
    """Read the metadata of a GGUF file, as gguf-py or llama.cpp print it.

    Raises:
        ValueError: If posenc does not read its architecture.
        ValueError: If its scaling lies in tensors, not in the metadata.
    """
    architecture = _architecture(config)
    metadata = {key.removeprefix(f"{architecture}."): value for key, value in config.items()}
    base = metadata.get("rope.freq_base", 10_000.0)
    fields = {key: metadata[name] for name, key in SIZE_KEYS.items() if name in metadata}
    fields["model_type"] = TYPES.get(architecture, architecture)
    fields["rope_theta"] = base
    fields |= _latent(metadata) if architecture == "deepseek2" else _share(metadata, fields)
    if architecture == "gemma3":
        fields["rope_local_base_freq"] = metadata.get("rope.freq_base_swa", 10_000.0)
    rope = _scaling(metadata, fields.get("max_position_embeddings"), architecture)
    if rope:
        fields["rope_scaling"] = rope
    warnings = []
    if "rope.freq_base" not in metadata:
        warnings.append("rope.freq_base is missing: 10,000 as in llama.cpp")
    # Llama 3 has this base, 3.1 scaling besides
    if architecture == "llama" and base >= 500_000 and not rope:
        warnings.append(
            "a Llama 3.1 keeps its scaling in the tensor rope_freqs.weight, not in the metadata"
        )
    layout = "interleaved" if architecture in INTERLEAVED else None
    return fields, layout, tuple(warnings)


def _architecture(config: Mapping[str, Any]) -> str:
    prefixes = (key.partition(".")[0] for key in config if key.endswith(".block_count"))
    architecture = config.get("general.architecture") or next(prefixes)
    if architecture not in (*TYPES, *SAME):
        raise ValueError(
            f"plan: architecture must be one of {', '.join((*TYPES, *SAME))}, "
            f"got {architecture!r}; pass the config.json of the model"
        )
    return architecture


def _share(metadata: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what share of a head rotates, where the metadata count the channels."""
    heads = fields.get("num_attention_heads")
    width = fields.get("head_dim")
    # some have a number of heads for each layer
    if not width:
        width = fields["hidden_size"] // heads if isinstance(heads, int) else None
    rotary_dim = metadata.get("rope.dimension_count", width)
    if width is None or rotary_dim == width:
        return {}
    return {"partial_rotary_factor": rotary_dim / width}


def _latent(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a head of DeepSeek's latent attention: the type by its scoring."""
    rotary_dim = metadata["rope.dimension_count"]
    width = metadata.get("attention.key_length_mla", metadata.get("attention.key_length"))
    # llama.cpp numbers how experts are scored: 2 is the sigmoid
    is_sigmoid = metadata.get("expert_gating_func") == 2
    return {
        "model_type": "deepseek_v3" if is_sigmoid else "deepseek_v2",
        "qk_rope_head_dim": rotary_dim,
        "qk_nope_head_dim": width - rotary_dim,
        "head_dim": rotary_dim,
    }


def _scaling(metadata: Mapping[str, Any], longest: int | None, architecture: str) -> dict[str, Any]:
    """Return the scaling as a rope_scaling, empty where there is none."""
    scaling_type = metadata.get("rope.scaling.type", "none")
    factor = metadata.get("rope.scaling.factor", 1.0)
    if scaling_type not in ("none", "linear", "yarn"):
        raise ValueError(
            f"plan: scaling type must be none, linear or yarn, got {scaling_type!r}; the factors "
            "of another lie in tensors: pass the config.json of the model"
        )
    if scaling_type == "none" or factor == 1:
        return {}
    if scaling_type == "linear":
        return {"rope_type": "linear", "factor": float(factor)}
    trained = metadata.get("rope.scaling.original_context_length", longest)
    rope = {"rope_type": "yarn", "factor": float(factor), TRAINED: trained}
    rope |= {key: metadata[name] for name, key in YARN_KEYS.items() if name in metadata}
    rope |= _yarn_factor(metadata, factor)
    if architecture == "gpt-oss":
        rope["truncate"] = False
    return rope


def _yarn_factor(metadata: Mapping[str, Any], factor: float) -> dict[str, float]:
    """Return what makes the attention factor, where the metadata state it."""
    result = {}
    scale = metadata.get("rope.scaling.attn_factor")
    scale = metadata.get("rope.scaling.yarn_attn_factor", scale)
    if scale:
        # ggml multiplies YaRN's own factor by it
        result["attention_factor"] = scale * (0.1 * math.log(factor) + 1)
    multiplier = metadata.get("rope.scaling.yarn_log_multiplier")
    if multiplier:
        # DeepSeek's mscale, with the 0.1 of its formula
        result |= {"mscale": 10 * multiplier, "mscale_all_dim": 10 * multiplier}
    return result
