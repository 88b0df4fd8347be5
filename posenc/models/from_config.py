"""From config: RoPE's frequencies from the configuration of a Hugging Face model.

Paper: Wolf et al., 2019, "HuggingFace's Transformers: State-of-the-art Natural Language
       Processing", https://arxiv.org/abs/1910.03771; keys are read as by transformers 5.23.
Used:  to run the weights of a rotary model in code of your own

Key:   d head dim, r rotated width

    (theta, attention_factor) = linear(r, factor, base), where rope_type is "linear", and so on
    r = d, or rotary_dim, or int(d partial_rotary_factor);  base = rope_theta

The formulas are those of rotate/frequencies.py; ROPE_TYPES has the keys that each of them takes.
Also read: rotary_dim (MiniMax-M2, GPT-J), rope_ratio (ChatGLM3, GLM-4), alpha (Hunyuan),
long_mscale (Phi-3.5-MoE), other names of the same (ALIASES). Unlike in transformers, yarn's
truncate counts in a part of a config as well.

Nothing is guessed. A config is refused, with a reason, unless it states a base or is of a model
whose code has one (DEFAULT_BASE_TYPES); if a key is misspelled (ROPE_KEYS has those that are known)
or another program's (FOREIGN); if its layers do not rotate (ROTATING); if it has several rotations.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np

try:
    from posenc.rotate import frequencies
except ImportError:  # copied to where posenc is not, with frequencies.py beside it
    try:
        from . import frequencies  # pyright: ignore
    except ImportError:
        import frequencies  # pyright: ignore

Formula = Callable[..., tuple[np.ndarray, float]]
Problem = tuple[str, str, str]  # what a config must be, what it is, the remedy

# What is read

LONGEST = "max_position_embeddings"
TRAINED = "original_max_position_embeddings"
YARN = ("beta_fast", "beta_slow", "truncate", "mscale", "mscale_all_dim")
LONGROPE = ("short_factor", "long_factor", "length", TRAINED, "factor")
ROPE_TYPES: dict[str, tuple[Formula, tuple[str, ...], tuple[str, ...]]] = {
    # rope_type: the formula, the keys that it needs, those that it may have besides
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
BASE_KEYS = ("rope_theta", *(key for key, usual in ALIASES.items() if usual == "rope_theta"))
SHARE_KEYS = (
    "partial_rotary_factor",
    *(key for key, usual in ALIASES.items() if usual == "partial_rotary_factor"),
)
# what a formula takes, beside the base; the length is of the text, not of the config
FORMULA_KEYS = {
    *(key for _, needed, optional in ROPE_TYPES.values() for key in (*needed, *optional)),
    "rope_ratio",
    "alpha",
    "attention_factor",
    "short_mscale",
    "long_mscale",
} - {"length"}
# model types whose code has the base 10,000, so that their configs need not state it
DEFAULT_BASE_TYPES = {"llama", "chatglm", "codegen", "falcon", "gpt_neox", "gptj", "roformer"}
DEFAULT_SHARES = {"chatglm": 0.5}  # of a head, by the code of a model type
HEAD_DIM_KEYS = ("head_dim", "global_head_dim", "swa_head_dim", "kv_channels")
# in Gemma 4 the layers of this rope_type have wider heads
HEAD_DIM_KEYS_BY_ROPE_TYPE = {"proportional": ("global_head_dim",)}
# a width and the number of heads that divide it
WIDTH_KEYS = (
    ("hidden_size", "num_attention_heads"),
    ("n_embd", "n_head"),
    ("d_model", "n_heads"),
    ("dim", "n_heads"),
)
# model types with two coordinates, each of which rotates half of a head
TWO_AXES = {"dinov3_vit", "eomt_dinov3", "llama4_vision_model", "sapiens2"}

# What is known, so that another key can be called misspelled

READ_KEYS = {*ALIASES, *ALIASES.values(), *FORMULA_KEYS, "rotary_dim", "mrope_section"}
IGNORED_KEYS = {"mrope_interleaved", "llama_4_scaling_beta", "finetuned"}  # theta is without them
ROPE_KEYS = READ_KEYS | IGNORED_KEYS
PER_LAYER_KEYS = ("layer_rope_theta", "partial_rotary_factors")
TOP_KEYS = {
    *PER_LAYER_KEYS,
    "rope_parameters",
    "rope_scaling",
    "rope_interleave",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "max_2d_position_embeddings",
    "t2u_max_position_embeddings",
}
SPELLINGS = {key.replace("_", ""): key for key in ROPE_KEYS | TOP_KEYS}
# how much alike a misspelled key is to one that is known; outside a rope dict stand a model's many
# other keys, some of which look like one of these
ALIKE = 0.93
ALIKE_INSIDE = 0.8
# a dict with one of these states a rotation
ROTATION_KEYS = {*BASE_KEYS, "rope_type", "rope_parameters", "rope_scaling"}
# a dict with one of these is of a whole model, no rope_parameters alone
MODEL_KEYS = {
    "model_type",
    "architectures",
    "vocab_size",
    "hidden_size",
    "n_embd",
    "d_model",
    "num_hidden_layers",
    "n_layers",
    "n_layer",
    "num_attention_heads",
    "n_heads",
    "n_head",
}

# What is refused

FOREIGN = {  # a key: whose it is
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
NEUTRAL = {"apply_yarn_scaling": True, "attn_factor": 1}  # with this value, else False, no effect
ROTATING = {  # a key: the values with which layers rotate, the default first
    "position_embedding_type": ("rope", "rotary", "absolute"),  # so ModernBERT, which rotates
    "position_embeddings_type": ("rotary",),
    "alibi": (False, None),
    "use_mem_rope": (True,),
}


class _HasToDict(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def from_config(
    config: Mapping[str, Any] | _HasToDict,
    dim: int,
    length: int | None = None,
    max_length: int | None = None,
) -> tuple[np.ndarray, float]:
    """Return (theta, attention_factor), for RoPE, of a config, its dict, or its rope_parameters.

    Of several parts pass one: `config["text_config"]`, or `config | {"rope_parameters":
    config["rope_parameters"][part]}`; a rope_scaling alone lacks its rope_theta. `dim` is the width
    of a head, or qk_rope_head_dim where no partial_rotary_factor takes a share (DeepSeek-V2 and V3,
    not V4); of a share, give RoPE rotary_dim=2 * len(theta). `length` counts the text so far, for
    dynamic and longrope, by default a short one; `max_length` replaces the config's longest.

    Raises:
        ValueError: If the config has a key that is misspelled or another program's.
        ValueError: If its layers do not rotate, or it states several rotations.
        ValueError: If it states no base and the code of its model has none.
        ValueError: If its rope_type has no formula here.
        ValueError: If `dim` is not the width that the config states, or below the rotated width.
        KeyError: If it lacks a key that the formula of its rope_type needs.

    Examples:
        >>> config = {"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 2.0}}
        >>> from_config(config, dim=4)[0].round(6).tolist()
        [0.5, 0.0005]
    """
    fields = _fields(config, length or 1, max_length)
    # a factor without a type would be dropped without an error
    rope_type = fields.get("rope_type", None if "factor" in fields else "default")
    if rope_type not in ROPE_TYPES:
        raise ValueError(
            f"from_config: rope_type must be one of {', '.join(ROPE_TYPES)}, got {rope_type!r}"
        )
    head_dims = widths(fields, rope_type) or {dim}
    if dim not in head_dims:
        raise ValueError(f"from_config: dim must be {head_dims}, as config has it, got {dim}")
    formula, needed, optional = ROPE_TYPES[rope_type]
    if rope_type == "dynamic" and fields.get("alpha"):
        # Hunyuan's is the same at every length
        formula = frequencies.ntk
        needed = ("alpha",)
    r, base = _width_and_base(fields, dim, rope_type)
    fields = _with_defaults(fields, rope_type)
    options = {name: fields[name] for name in optional if name in fields}
    theta, factor = formula(r, *(fields[name] for name in needed), base=base, **options)
    if formula in (frequencies.yarn, frequencies.longrope):
        # a config may state the factor itself, Phi-3.5-MoE one for short texts and one for long
        mscale = "long_mscale" if fields["length"] > fields[TRAINED] else "short_mscale"
        factor = fields.get("attention_factor", fields.get(mscale, factor))
    return theta, factor


def _fields(config: Any, length: int, max_length: int | None) -> dict[str, Any]:
    """Return what a config says of its rotation, under the keys of transformers 5."""
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    reason = problem(config)
    if reason:
        condition, value, remedy = reason
        raise ValueError(f"from_config: config must be {condition}, got {value}; {remedy}")
    rope = config.get("rope_scaling") or config.get("rope_parameters") or config
    # what stands inside comes first
    fields = _renamed(config) | _renamed(rope) | {"length": length}
    longest = max_length or fields.get(LONGEST)
    # the wider heads of Gemma 4's full attention, as version 5 writes them
    for layer in (config.get("per_layer_config") or {}).values():
        fields["global_head_dim"] = layer.get("head_dim", fields.get("global_head_dim"))
    # of this key alone what stands outside comes first, as in transformers
    trained = config.get(TRAINED) or fields.get(TRAINED) or longest
    return fields | _renamed({LONGEST: longest, TRAINED: trained})


def _renamed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None, also under the usual names of their aliases."""
    stated = {name: value for name, value in fields.items() if value is not None}
    usual = {ALIASES[name]: value for name, value in stated.items() if name in ALIASES}
    return usual | stated


def _with_defaults(fields: dict[str, Any], rope_type: str) -> dict[str, Any]:
    """Return the fields with what a formula needs and a config may leave out."""
    if rope_type == "proportional":
        return {"partial_rotary_factor": 1.0} | fields
    if rope_type in ("yarn", "longrope", "su") and LONGEST in fields:
        return {"factor": fields[LONGEST] / fields[TRAINED]} | fields
    return fields


def _width_and_base(fields: Mapping[str, Any], dim: int, rope_type: str) -> tuple[int, float]:
    """Return how many channels r of a head rotate, and the base of their frequencies."""
    base = fields.get("rope_theta", 10_000.0) * fields.get("rope_ratio", 1)
    share = fields.get("partial_rotary_factor", DEFAULT_SHARES.get(fields.get("model_type", "")))
    if rope_type == "proportional":
        # its formula takes the share by itself, of all pairs
        return dim, base
    r = fields.get("rotary_dim", dim) if share is None else int(dim * share)
    if r > dim:
        raise ValueError(f"from_config: dim must be at least {r}, which rotate, got {dim}")
    if r % 2 and r < dim and rope_type not in ("dynamic", "yarn"):
        # 21 channels make 11 pairs in transformers, with the exponents -2i/21
        return r + 1, base ** (1 + 1 / r)
    return r, base


def widths(config: Mapping[str, Any], rope_type: str = "default") -> set[int]:
    """Return the rotated widths that a config allows, a set; empty where it does not say.

    Examples:
        >>> widths({"hidden_size": 4096, "num_attention_heads": 32})
        {128}
    """
    sizes = {name: value for name, value in config.items() if isinstance(value, int) and value}
    # a head of latent attention rotates in this part of it alone
    if "qk_rope_head_dim" in sizes and not config.get("partial_rotary_factor"):
        return {sizes["qk_rope_head_dim"]}
    keys = HEAD_DIM_KEYS_BY_ROPE_TYPE.get(rope_type, HEAD_DIM_KEYS)
    stated = {sizes[key] for key in keys if key in sizes}
    divided = {
        sizes[width] // sizes[heads]
        for width, heads in WIDTH_KEYS
        if width in sizes and heads in sizes
    }
    axes = 2 if config.get("model_type") in TWO_AXES else 1
    return {width // axes for width in stated or divided}


def problem(config: Mapping[str, Any]) -> Problem | None:
    """Return what a config must be, what it is, and the remedy, in words; None if it can be read.

    Examples:
        >>> problem({"model_type": "gpt2", "n_positions": 1024})[1]
        'a gpt2 without'
    """
    inside = config.get("rope_scaling") or config.get("rope_parameters") or {}
    fields = {**config, **inside}
    reason = _foreign(fields) or misspelled(config, inside) or _not_rotating(config)
    if reason:
        return reason
    several = [*parts(inside or config), *(key for key in PER_LAYER_KEYS if config.get(key))]
    if several:
        return "of one type of layer", str(several), "pick one"
    return _without_base(config, fields)


def _foreign(fields: Mapping[str, Any]) -> Problem | None:
    """Return the problem of a key of another program, unless its value has no effect."""
    for name, value in fields.items():
        # those of GGUF start with the architecture, as in llama.rope.freq_base
        key = name.rpartition(".")[2]
        if key in FOREIGN and value not in (None, NEUTRAL.get(key, False)):
            owner = f"{name}, {FOREIGN[key]} key"
            return "in the keys of transformers", owner, "posenc.plan reads other formats"
    return None


def misspelled(config: Mapping[str, Any], inside: Mapping[str, Any]) -> Problem | None:
    """Return the same of a name that is nearly known, or unknown inside rope_parameters.

    Examples:
        >>> misspelled({"rope_thet": 1e6}, {})[1:]
        ('rope_thet', 'did you mean rope_theta?')
    """
    for name in sorted({*config, *inside} - ROPE_KEYS - TOP_KEYS):
        plain = name.lower().replace("_", "").replace("-", "")
        cutoff = ALIKE_INSIDE if name in inside else ALIKE
        near = get_close_matches(plain, SPELLINGS, n=1, cutoff=cutoff)
        if near:
            return "of known keys", name, f"did you mean {SPELLINGS[near[0]]}?"
        # a dict inside is the rotation of a type of layer, under its name
        if not isinstance(inside.get(name), Mapping | None):
            return "of known keys", name, "what it would do is not known"
    return None


def _not_rotating(config: Mapping[str, Any]) -> Problem | None:
    """Return the problem of a switch by which no layer rotates."""
    for name, rotating in ROTATING.items():
        value = config.get(name, rotating[0])
        if value not in rotating:
            return "of layers that rotate", f"{name} = {value!r}", "there is nothing to rotate"
    return None


def parts(config: Mapping[str, Any]) -> list[str]:
    """Return where in a config rotations are stated, by the names that lead there.

    Examples:
        >>> parts({"vlm_config": {"text_config": {"rope_theta": 1e6}, "vision_config": {}}})
        ['vlm_config.text_config']
    """
    paths = []
    for name, part in config.items():
        if not isinstance(part, Mapping):
            continue
        if ROTATION_KEYS & {*part}:
            paths.append(name)
        else:
            paths += [f"{name}.{path}" for path in parts(part)]
    return paths


def _without_base(config: Mapping[str, Any], fields: Mapping[str, Any]) -> Problem | None:
    """Return the problem of a model that states no base and has none in its code."""
    stated = any(fields.get(key) is not None for key in BASE_KEYS)
    # rope_parameters alone need not state it: they are of no model that may not rotate
    if stated or config.get("model_type") in DEFAULT_BASE_TYPES or not MODEL_KEYS & {*config}:
        return None
    model = f"a {config.get('model_type', 'model')} without"
    remedy = "where nothing rotates there is none; else add the base of its code as rope_theta"
    return "one that states its base, by a key such as rope_theta", model, remedy
