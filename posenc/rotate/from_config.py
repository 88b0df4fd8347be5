"""From config: read how fast each pair turns from the configuration of a Hugging Face model.

Paper: Wolf et al., 2019, "HuggingFace's Transformers: State-of-the-art Natural Language
       Processing", https://arxiv.org/abs/1910.03771; read here is what transformers 5.23 reads.
Used:  to run the weights of a rotary model in code of your own
Cost:  nothing to learn; d/2 numbers, computed once

Key:   d head dim, r rotated width

    (theta, attention_factor) = linear(r, factor, base), where rope_type is "linear", and so on
    r = d, or rotary_dim, or int(d partial_rotary_factor);  base = rope_theta

The formulas are those of frequencies.py. Also read: rotary_dim (MiniMax-M2, GPT-J), rope_ratio
(ChatGLM3, GLM-4), alpha (Hunyuan), long_mscale (Phi-3.5-MoE), other names of the same (ALIASES).
Unlike in transformers, yarn's truncate counts in a part of a config as well.
"""

try:
    from . import config_keys, frequencies
except ImportError:  # copied to where no package is
    import config_keys
    import frequencies

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
    stated = config_keys.widths(said, kind) or {dim}
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
    if found := config_keys.problem(config):
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
