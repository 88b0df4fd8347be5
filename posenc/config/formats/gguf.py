"""The metadata of a GGUF file in the words of transformers.

Keys are those of gguf-py, `<architecture>.rope.freq_base` and so on. Frequencies that a file keeps
as a tensor (rope_freqs.weight, rope_factors_long.weight) are not in its metadata.
"""

import math
from collections.abc import Mapping
from typing import Any

from posenc.config.formats.makers import TRAINED, Read

TYPES = {  # an architecture's name there: here, where it differs
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
)
SAME += (
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
INTERLEAVED = (
    "llama",
    "granite",
    "granitemoe",
    "smollm3",
    "arcee",
    "mistral3",
    "olmo",
)  # rows reordered there
NUMBERS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "context_length": "max_position_embeddings",
    "attention.sliding_window": "sliding_window",
}
YARN = {
    "rope.scaling.yarn_beta_fast": "beta_fast",
    "rope.scaling.yarn_beta_slow": "beta_slow",
}


def gguf(config: Mapping[str, Any]) -> Read:
    """Read the metadata of a GGUF file, as gguf-py or llama.cpp print it."""
    arch = _arch(config)
    said = {name.removeprefix(f"{arch}."): value for name, value in config.items()}
    found = {theirs: said[name] for name, theirs in NUMBERS.items() if name in said}
    base = said.get("rope.freq_base", 10_000.0)
    found |= {"model_type": TYPES.get(arch, arch), "rope_theta": base}
    found |= _latent(said) if arch == "deepseek2" else _share(said, found)
    if arch == "gemma3":
        found["rope_local_base_freq"] = said.get("rope.freq_base_swa", 10_000.0)
    if rope := _scaling(said, found, arch):
        found["rope_scaling"] = rope
    warnings = []
    if "rope.freq_base" not in said:
        warnings.append("rope.freq_base is missing: 10,000 as in llama.cpp")
    if arch == "llama" and base >= 500_000 and not rope:
        words = "a Llama 3.1 keeps its scaling in the tensor rope_freqs.weight, not in the metadata"
        warnings.append(words)
    return found, "interleaved" if arch in INTERLEAVED else None, tuple(warnings)


def _arch(config: Mapping[str, Any]) -> str:
    own = (name.partition(".")[0] for name in config if name.endswith(".block_count"))
    arch = config.get("general.architecture") or next(own)
    if arch not in (*TYPES, *SAME):
        raise ValueError(
            f"plan: architecture must be one of {', '.join((*TYPES, *SAME))}, "
            f"got {arch!r}; pass the config.json of the model"
        )
    return arch


def _share(said: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what share of a head turns, where the metadata count the channels."""
    heads = found.get("num_attention_heads")
    width = found.get("head_dim") or (
        found["hidden_size"] // heads if isinstance(heads, int) else None
    )
    turning = said.get("rope.dimension_count", width)
    return {} if turning == width or width is None else {"partial_rotary_factor": turning / width}


def _latent(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a head of DeepSeek's latent attention: the type by its scoring."""
    turning = said["rope.dimension_count"]
    whole = said.get("attention.key_length_mla", said.get("attention.key_length"))
    kind = "deepseek_v3" if said.get("expert_gating_func") == 2 else "deepseek_v2"
    return {
        "model_type": kind,
        "qk_rope_head_dim": turning,
        "qk_nope_head_dim": whole - turning,
        "head_dim": turning,
    }


def _scaling(said: Mapping[str, Any], found: Mapping[str, Any], arch: str) -> dict[str, Any]:
    kind = said.get("rope.scaling.type", "none")
    factor = said.get("rope.scaling.factor", 1.0)
    if kind not in ("none", "linear", "yarn"):
        raise ValueError(
            f"plan: scaling type must be none, linear or yarn, got {kind!r}; the factors of "
            "another lie in tensors: pass the config.json of the model"
        )
    if kind == "none" or factor == 1:
        return {}
    if kind == "linear":
        return {"rope_type": "linear", "factor": float(factor)}
    trained = said.get("rope.scaling.original_context_length", found.get("max_position_embeddings"))
    rope = {"rope_type": "yarn", "factor": float(factor), TRAINED: trained}
    rope |= {theirs: said[name] for name, theirs in YARN.items() if name in said}
    if sharper := said.get("rope.scaling.yarn_attn_factor", said.get("rope.scaling.attn_factor")):
        rope["attention_factor"] = sharper * (0.1 * math.log(factor) + 1)  # ggml multiplies the two
    if multiplier := said.get("rope.scaling.yarn_log_multiplier"):
        rope |= {"mscale": 10 * multiplier, "mscale_all_dim": 10 * multiplier}
    return rope | ({"truncate": False} if arch == "gpt-oss" else {})
