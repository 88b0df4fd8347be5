"""From config: RoPE's frequencies by the configuration of a Hugging Face model.

Paper: Wolf et al., 2019, "HuggingFace's Transformers: State-of-the-art Natural Language
       Processing", https://arxiv.org/abs/1910.03771; read here is what transformers 5.23 reads.
Used:  to run the weights of a rotary model in code of your own

Key:   d head dim, r rotated width

    (theta, attention_factor) = linear(r, factor, base), where rope_type is "linear", and so on
    r = d, or rotary_dim, or int(d partial_rotary_factor);  base = rope_theta

The formulas are those of rotate/frequencies.py. Also read: rotary_dim (MiniMax-M2, GPT-J),
rope_ratio (ChatGLM3, GLM-4), alpha (Hunyuan), long_mscale (Phi-3.5-MoE), other names of the same
(ALIASES). Unlike in transformers, yarn's truncate counts in a part of a config as well.

A config is read if it states a base, or is of a model whose code has one (BASES); if no name is
misspelled (WORDS) or another program's (FOREIGN); if its layers do rotate (ROTATING).
"""

from collections.abc import Mapping
from difflib import get_close_matches

try:
    from posenc.rotate import frequencies
except ImportError:  # copied to where posenc is not, with frequencies.py beside it
    try:
        from . import frequencies  # pyright: ignore
    except ImportError:
        import frequencies  # pyright: ignore

LONGEST, TRAINED = "max_position_embeddings", "original_max_position_embeddings"
YARN = ("beta_fast", "beta_slow", "truncate", "mscale", "mscale_all_dim")
LONGROPE = ("short_factor", "long_factor", "length", TRAINED, "factor")
KINDS = {  # rope_type: the formula, what it needs, what it may be told
    "default": (frequencies.rope_frequencies, (), ()),
    "mrope": (frequencies.rope_frequencies, (), ()),
    "linear": (frequencies.linear, ("factor",), ()),
    "dynamic": (frequencies.dynamic_ntk, ("factor", "length", LONGEST), ()),
    "yarn": (frequencies.yarn, ("factor", TRAINED), YARN),
    "longrope": (frequencies.longrope, LONGROPE, ()),
    "su": (frequencies.longrope, LONGROPE, ()),
    "llama3": (frequencies.llama3, ("factor", "low_freq_factor", "high_freq_factor", TRAINED), ()),
    "proportional": (frequencies.proportional, ("partial_rotary_factor",), ("factor",)),
}
ALIASES = {
    "type": "rope_type",
    "max_seq_len": LONGEST,  # DBRX
    "rotary_emb_base": "rope_theta",  # GPT-NeoX
    "rotary_embedding_base": "rope_theta",  # Wav2Vec2
    "rotary_base": "rope_theta",  # Megatron
    "global_rope_theta": "rope_theta",  # ModernBERT
    "rotary_pct": "partial_rotary_factor",  # GPT-NeoX
    "rotary_percent": "partial_rotary_factor",  # Megatron
    "rotary_emb_fraction": "partial_rotary_factor",  # Nomic BERT
    "rope_pct": "partial_rotary_factor",  # StableLM
    "rope_percent": "partial_rotary_factor",  # Nemotron
}
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


def from_config(config, dim: int, length=None, max_length=None):
    """Return (theta, attention_factor), for RoPE, of a config, its dict, or its rope_parameters.

    Of several parts pass one: `config["text_config"]`, or `config | {"rope_parameters":
    config["rope_parameters"][part]}`; a rope_scaling alone lacks its rope_theta. `dim` is the width
    of a head, or qk_rope_head_dim where no partial_rotary_factor takes a share (DeepSeek-V2 and V3,
    not V4); of a share, give RoPE rotary_dim=2 * len(theta). `length` counts the text so far, for
    dynamic and longrope, by default a short one; `max_length` replaces the config's longest.

    Examples:
        >>> config = {"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 2.0}}
        >>> from_config(config, dim=4)[0].round(6).tolist()
        [0.5, 0.0005]
    """
    said = _said(config, length or 1, max_length)
    kind = said.get("rope_type", None if "factor" in said else "default")
    if kind not in KINDS:
        raise ValueError(f"from_config: rope_type must be one of {', '.join(KINDS)}, got {kind!r}")
    stated = widths(said, kind) or {dim}
    if dim not in stated:
        raise ValueError(f"from_config: dim must be {stated}, as config has it, got {dim}")
    formula, needed, optional = KINDS[kind]
    if kind == "dynamic" and said.get("alpha"):  # Hunyuan's is the same at every length
        formula, needed = frequencies.ntk, ("alpha",)
    width, base = _width(said, dim, kind)
    if kind in ("yarn", "longrope", "su") and LONGEST in said:
        said.setdefault("factor", said[LONGEST] / said[TRAINED])
    options = {name: said[name] for name in optional if name in said}
    theta, factor = formula(width, *(said[name] for name in needed), base=base, **options)
    if formula in (frequencies.yarn, frequencies.longrope):
        mscale = "long_mscale" if said["length"] > said[TRAINED] else "short_mscale"
        factor = said.get("attention_factor", said.get(mscale, factor))
    return theta, factor


def _said(config, length, max_length):
    config = config.to_dict() if hasattr(config, "to_dict") else config  # an object of transformers
    if found := problem(config):
        wanted, got, remedy = found
        raise ValueError(f"from_config: config must be {wanted}, got {got}; {remedy}")
    rope = config.get("rope_scaling") or config.get("rope_parameters") or config
    said = _renamed(config) | _renamed(rope) | {"length": length}
    longest = max_length or said.get(LONGEST)
    for layer in (config.get("per_layer_config") or {}).values():  # Gemma 4's, in version 5
        said["global_head_dim"] = layer.get("head_dim", said.get("global_head_dim"))
    trained = config.get(TRAINED) or said.get(TRAINED) or longest  # outside first, as transformers
    return said | _renamed({LONGEST: longest, TRAINED: trained})


def _renamed(words):
    said = {name: value for name, value in words.items() if value is not None}
    return {ALIASES[name]: said[name] for name in said if name in ALIASES} | said


def _width(said, dim, kind):
    base = said.get("rope_theta", 10_000.0) * said.get("rope_ratio", 1)
    share = said.get("partial_rotary_factor", {"chatglm": 0.5}.get(said.get("model_type")))
    if kind == "proportional":
        said.setdefault("partial_rotary_factor", 1.0)
        return dim, base
    width = said.get("rotary_dim", dim) if share is None else int(dim * share)
    if width > dim:
        raise ValueError(f"from_config: dim must be at least {width}, which turn, got {dim}")
    if width % 2 and width < dim and kind not in ("dynamic", "yarn"):
        width, base = width + 1, base ** (1 + 1 / width)  # 21 make 11 pairs, of the same exponents
    return width, base


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
