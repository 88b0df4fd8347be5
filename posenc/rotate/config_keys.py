"""Config keys: tell of a config whether its rotation can be read, before any of it is.

Paper: Wolf et al., 2019, "HuggingFace's Transformers: State-of-the-art Natural Language
       Processing", https://arxiv.org/abs/1910.03771; names are those of transformers 5.23.
Used:  by from_config, which refuses what it would misread
Cost:  nothing to learn; a look at the names

Key:   d head dim

    a config is read if it states a base, or is of a model whose code has one (BASES); if no name
    is misspelled (WORDS) or another program's (FOREIGN); if its layers do rotate (ROTATING)
"""

from collections.abc import Mapping
from difflib import get_close_matches

BASE = "rope_theta", "rotary_emb_base", "rotary_embedding_base", "rotary_base", "global_rope_theta"
READ = {*BASE, "partial_rotary_factor", "rotary_pct", "rotary_percent", "rotary_emb_fraction"}
READ |= {"rope_pct", "rope_percent", "rotary_dim", "rope_ratio", "rope_type", "type", "factor"}
READ |= {"max_position_embeddings", "original_max_position_embeddings", "max_seq_len", "alpha"}
READ |= {"beta_fast", "beta_slow", "truncate", "attention_factor", "mscale", "mscale_all_dim"}
READ |= {"short_mscale", "long_mscale", "short_factor", "long_factor", "low_freq_factor"}
READ |= {"high_freq_factor", "mrope_section"}
BESIDE = {"mrope_interleaved", "llama_4_scaling_beta", "finetuned"}  # these leave theta alone
STATES = {*BASE, "rope_type", "rope_parameters", "rope_scaling"}
WORDS = READ | BESIDE
LISTS = ("layer_rope_theta", "partial_rotary_factors")  # a value for each layer
AROUND = {"rope_parameters", "rope_scaling", "qk_rope_head_dim", "qk_nope_head_dim"}
AROUND |= {*LISTS, "rope_interleave", "max_2d_position_embeddings", "t2u_max_position_embeddings"}
KNOWN = {name.replace("_", ""): name for name in WORDS | AROUND}
FOREIGN = {  # name: whose it is
    "use_scaled_rope": "Meta's",
    "use_rope_scaling": "Megatron's",
    "rope_scaling_factor": "gpt-oss's own, Megatron's or Meta's",
    "rope_ntk_alpha": "gpt-oss's own",
    "initial_context_length": "gpt-oss's own",
    "rope_factor": "DeepSeek's own",
    "original_seq_len": "DeepSeek's own",
    "rope_base": "litgpt's",
    "rope_adjustments": "litgpt's",
    "rotary_scaling_factor": "Nomic's own",
    "attn_factor": "vLLM's",
    "apply_yarn_scaling": "vLLM's",
    "yarn": "Mistral's own",
    "freq_base": "GGUF's",  # behind "llama.rope."
    "block_count": "GGUF's",
}
NOTHING = {"apply_yarn_scaling": True, "attn_factor": 1}  # what changes nothing, if not False
MODEL = {"model_type", "architectures", "hidden_size", "num_hidden_layers", "num_attention_heads"}
MODEL |= {"n_layers", "n_layer", "n_heads", "n_head", "n_embd", "d_model", "vocab_size"}
BASES = {"llama", "chatglm", "codegen", "falcon", "gpt_neox", "gptj", "roformer"}  # all 10,000
HEAD = ("head_dim", "global_head_dim", "swa_head_dim", "kv_channels")
GLOBAL = {"proportional": ("global_head_dim",)}
HEADS = (("hidden_size", "num_attention_heads"), ("n_embd", "n_head"), ("d_model", "n_heads"))
HEADS += (("dim", "n_heads"),)
TWO_AXES = {"dinov3_vit", "eomt_dinov3", "llama4_vision_model", "sapiens2"}
ROTATING = {
    "position_embedding_type": ("rope", "rotary", "absolute"),  # so ModernBERT, which rotates
    "position_embeddings_type": ("rotary",),
    "alibi": (False, None),
    "use_mem_rope": (True,),
}


def problem(config):
    """Return what a config must be, what it is, and the remedy, in words; None if it can be read.

    Examples:
        >>> problem({"model_type": "gpt2", "n_positions": 1024})[1]
        'a gpt2 without'
    """
    inside = config.get("rope_scaling") or config.get("rope_parameters") or {}
    said = {**config, **inside}
    if found := _foreign(said) or misspelled(config, inside) or _still(config):
        return found
    if several := [*parts(inside or config), *(name for name in LISTS if config.get(name))]:
        return "of one kind of layer", str(several), "pick one"
    return _baseless(config, said)


def parts(config):
    """Return where in a config rotations are stated, by the names that lead there.

    Examples:
        >>> parts({"vlm_config": {"text_config": {"rope_theta": 1e6}, "vision_config": {}}})
        ['vlm_config.text_config']
    """
    inner = {name: part for name, part in config.items() if isinstance(part, Mapping)}
    found = []
    for name, part in inner.items():
        found += [name] if STATES & {*part} else [f"{name}.{deeper}" for deeper in parts(part)]
    return found


def widths(config, kind="default"):
    """Return the widths that what turns can have by a config, a set; empty where it does not say.

    Examples:
        >>> widths({"hidden_size": 4096, "num_attention_heads": 32})
        {128}
    """
    said = {name: value for name, value in config.items() if isinstance(value, int) and value}
    if "qk_rope_head_dim" in said and not config.get("partial_rotary_factor"):
        return {said["qk_rope_head_dim"]}
    stated = {said[name] for name in GLOBAL.get(kind, HEAD) if name in said}
    divided = {said[whole] // said[heads] for whole, heads in HEADS if {whole, heads} <= {*said}}
    axes = 1 + (config.get("model_type") in TWO_AXES)  # each has that part of a head
    return {width // axes for width in stated or divided}


def misspelled(config, inside):
    """Return the same of a name that is nearly known, or unknown inside rope_parameters.

    Examples:
        >>> misspelled({"rope_thet": 1e6}, {})[1:]
        ('rope_thet', 'did you mean rope_theta?')
    """
    for name in sorted({*config, *inside} - WORDS - AROUND):
        plain = name.lower().replace("_", "").replace("-", "")
        if near := get_close_matches(plain, KNOWN, n=1, cutoff=(0.93, 0.8)[name in inside]):
            return "spelled in known words", name, f"did you mean {KNOWN[near[0]]}?"
        if not isinstance(inside.get(name), Mapping | None):
            return "spelled in known words", name, "what it would do is not known"
    return None


def _foreign(said):
    for name, value in said.items():
        last = name.rpartition(".")[2]
        if last in FOREIGN and value not in (None, NOTHING.get(last, False)):
            whose = f"{name}, {FOREIGN[last]} word"
            return "in the words of transformers", whose, "posenc.plan reads other formats"
    return None


def _still(config):
    for name, rotating in ROTATING.items():
        value = config.get(name, rotating[0])
        if value not in rotating:
            return "of layers that rotate", f"{name} = {value!r}", "there is nothing to turn"
    return None


def _baseless(config, said):
    stated = {name for name in BASE if said.get(name) is not None}
    if stated or config.get("model_type") in BASES or not MODEL & {*config}:  # a part alone
        return None
    without = f"a {config.get('model_type', 'model')} without"
    remedy = "where nothing rotates there is none; else add the base of its code as rope_theta"
    return "one that states its base, by a key such as rope_theta", without, remedy
