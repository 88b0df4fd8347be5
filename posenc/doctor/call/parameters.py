"""What the parameters of unknown code mean: each role has many spellings, and a class is built from a few of them.

What has a default is left alone unless a check needs it. A class gets dim, heads, a length of 4,096 and no dropout
where it asks for them.
"""

import ast
import inspect
import itertools
import re
from typing import Any

import torch
from torch import nn

LONGEST = 4096
DOCUMENTED_CALL = re.compile(r"\s*\w+\((.*?)\)", re.S)
# A name has one role here, whatever else it may mean; roles() looks at what stands beside it.
SPELLINGS = {
    "x": """x xs input inputs inp input_ids ids token_ids input_tensor patches pixel_values imgs img images hidden
        hidden_states hidden_state tensor u emb embedding embeddings embedded src t x_btd x_bthd token_embeddings
        token_embedding scores attn attention_scores attn_scores dots sim embeds inputs_embeds emb_x sequence seq
        input_embeds features logits attn_logits attention_logits attn_weights qk_dots qk_dot""",
    "q": "q query queries xq q_embed query_states query_layer q_heads query_bthd",
    "k": "k key keys xk k_embed key_states key_layer k_heads",
    "v": "v value values xv value_states value_layer",
    "positions": """positions position pos position_ids pos_ids position_id token_positions input_pos q_positions
        query_positions positions_q q_pos cache_position pos_id coords coords_input coordinates position_index timesteps
        timestep offsets indices seq_id query_id pos_i""",
    "key_positions": "key_positions k_positions kv_positions positions_k key_pos k_pos kv_pos kv_id key_id pos_j",
    "offset": """offset start start_pos start_position start_index seqlen_offset past_length past_len
        past_key_values_length past_kv_length past_seen_tokens past_kv_len step pos_offset position_offset start_idx
        index_offset seq_offset seq_pos_offset cache_len""",
    "length": """length seq_len seqlen seq_length sequence_length max_length max_len max_seq_len n_positions n_position
        num_positions max_position_embeddings query_length q_len qlen query_len n l i tokens num_patches max_seq_length
        max_sequence_length n_ctx max_seqlen end max_position num_embeddings n_pos query_seq_length query_seq_len
        q_seq_len q_seqlen max_positions""",
    "relative": "relative_position relative_positions rel_pos rel_positions distance distances relative_distance",
    "key_length": """key_length k_len klen kv_len kv_length key_len s j n_keys src_len key_value_length
        sequence_length_with_past key_seq_length key_seq_len k_seq_len k_seqlen""",
    "dim": """dim d d_model dmodel model_dim embed_dim embedding_dim emb_dim emb_size d_emb d_hid hidden_size hidden_dim
        head_dim d_head channels n_embd d_k d_hidden attention_head_size rotary_dim n_elem num_channels hidden_channels
        out_channels features_dim dim_head feature_dim num_pos_feats pos_dim""",
    "heads": """heads h n_head n_heads nhead nheads num_heads num_attention_heads n_attention_heads num_alibi_heads
        attn_heads total_num_heads number_of_heads attention_heads""",
    "buckets": "num_buckets n_buckets bucket_size relative_positions_buckets relative_attention_num_buckets",
    "limit": "max_distance max_relative_positions max_relative_position relative_attention_max_distance",
    "kv_heads": "kv_heads num_kv_heads n_kv_heads kv_n_heads num_key_value_heads n_kv_head",
    "shape": "shape",
    "grid": "size grid_size grid grid_shape feat_shape image_size input_size window_size win_size",
    "depth": "depth frames num_frames n_frames temporal_size",
    "rows": "height win_h h_patches n_rows grid_h grid_height rows num_rows",
    "columns": "width win_w width_patches w_patches n_cols grid_w grid_width cols columns num_cols",
    "boxes": "bbox bboxes boxes box",
    "row_table": "rel_pos_h rel_pos_height rel_h",
    "column_table": "rel_pos_w rel_pos_width rel_w",
    "q_grid": "q_size q_shape q_hw",
    "k_grid": "k_size k_shape k_hw",
    "base": "base theta rope_theta rope_base rotary_base temperature max_period theta_base max_timescale",
    "factor": """scaling_factor linear_factor interpolation_factor interpolate_factor condense_ratio
        seq_len_interpolation_factor""",
    "causal": "causal is_causal use_causal_mask",
    "mask": "mask attn_mask attention_mask key_padding_mask padding_mask pixel_mask attn_bias",
    "lengths": "valid_lens seq_lens key_lengths lengths",
    "dtype": "dtype",
    "device": "device",
    "like": "like",
    "batch": "batch_size bsz batch b",
    "cache": "cache past kv_cache past_kv past_key_value past_key_values layer_past past_state cache_params",
    "returns_cache": "use_cache return_cache return_kv_cache",
    "state": "incremental_state",
    "score": "score",
    "cos": "cos cosine freqs_cos rope_cos cos_cached cos_emb rotary_cos cosines freqs_cis_real freqs_real",
    "sin": "sin sine freqs_sin rope_sin sin_cached sin_emb rotary_sin sines freqs_cis_imag freqs_imag",
    "angles": """freqs_cis freq_cis freqs_complex angles freqs rotary_emb rotary_pos_emb pos_emb rope rope_cache
        sinusoidal_pos rotary_embedding theta_positions sincos frequencies rotary_embed pos_enc freqs_cis_q freqs_ci
        sinu_pos sinusoids pos_embs rel_pos_emb""",
    "tables": "position_embeddings rotary_embeddings rope_emb image_rotary_emb cos_sin position_embedding rotary_table",
}
ROLE = {name: role for role, names in SPELLINGS.items() for name in names.split()}
# Pieces of names that are in no list: seq_positions. A name with pieces of two roles, such as q_pos, tells nothing.
PIECES = {
    "positions": "pos position positions",
    "q": "q query queries",
    "k": "k key keys",
    "v": "v value values",
    "cos": "cos cosine cosines",
    "sin": "sin sine sines",
}
MEANINGLESS = {"h", "x", "seq", "in", "input", "tensor", "states", "state", "heads", "vec", "t", "b", "layer", "tok"}
# Names that models of transformers have for positions (b, t).
BATCHED_NAMES = ("position_ids", "pos_ids", "position_id", "input_pos")
SCORE_NAMES = "logits attn_logits attention_logits qk_dots qk_dot attention_scores attn_scores dots"
BASES = (*SPELLINGS["base"].split(),)
FACTORS = (*SPELLINGS["factor"].split(), "scale_factor")
# What keys and values are made of in cross-attention, where x makes the queries.
CONTEXTS = ("c", "context", "y")
# A bool under such a name, such as length=True, turns something on.
SIZES = ("rows", "columns", "length", "dim", "heads", "depth")
FLAGS = "interleave interleaved inverse training is_neox_style conjugate is_decoder bidirectional"
# What the doctor passes for parameters that have no default of their own: what changes least.
DEFAULTS: dict[str, Any] = {
    "flag": False,
    "device": torch.device("cpu"),
    "dtype": torch.float32,
    "batch": 1,
    "like": torch.zeros(1),
    "base": 10_000.0,
    "buckets": 32,
    "limit": 128,
    "causal": True,
    "factor": 1.0,
}
UNDERSTOOD = (
    "fn(x), fn(x, positions), fn(x, offset), fn(q, k), fn(q, k, positions, key_positions), fn(q, k, cos, sin), "
    "fn(x, freqs_cis) for a rotation; "
    "module(x), fn(positions, dim), fn(length, dim), fn(dim, height, width) for a table; "
    "fn(heads), fn(heads, length), fn(heads, t, s), fn(positions, key_positions), "
    "fn(score, b, h, q_idx, kv_idx), fn(attention_scores), fn(window_size), fn(bbox) for a bias; "
    "fn(q, k, v) or module(x), with or without positions, key_positions, causal, mask, cache, for an attention; "
    "model(input_ids) for a whole model"
)


def roles(function: Any) -> tuple[dict[str, str], dict[str, inspect.Parameter]]:
    """Return the name of the parameter of each role, and all parameters.

    Raises:
        ValueError: If a parameter without a default has no known role.
    """
    parameters = _parameters(function)
    if getattr(type(function), "forward", None) is nn.Embedding.forward:
        return {"positions": "input"}, parameters  # a learned table: its input picks rows
    # FlexAttention calls a score_mod by place, so that its names may be any.
    if len(parameters) == 5 and next(iter(parameters)) == "score":
        return dict(zip(("score", "b", "h", "positions", "key_positions"), parameters, strict=True)), parameters
    roles_present = {ROLE.get(name.lower().strip("_")) for name in parameters if name != "t"}
    names: dict[str, str] = {}  # by role
    for place, (name, parameter) in enumerate(parameters.items()):
        role = _role_by_default(_role(name, place, roles_present, {*parameters}), name, parameter)
        # Beside x, a name such as context or y is what keys and values are made of.
        if "x" in names and name in CONTEXTS:
            role = "other"
        # The lengths of a bias: queries come first.
        if role == "length" and "length" in names:
            role = "key_length"
        if role is not None and role not in names:
            names[role] = name
        elif parameter.default is parameter.empty:
            reason = f"{name}, which is not known: {wrapper(parameters, function)}. Understood are {UNDERSTOOD}"
            raise ValueError(f"doctor: function must be one whose parameters have known names, got {reason}")
    return _by_context(names, next(iter(parameters), "")), parameters


def _by_context(names: dict[str, str], first: str) -> dict[str, str]:
    """Return the names by role, where the other parameters say what a name means."""
    if names.get("x") == "t" and names.get("positions") == first:
        names["angles"] = names.pop("positions")  # f(pos, t): what comes before the content is what it rotates by
    # Code that takes queries alone or keys alone is called with any content.
    content = {*names} & {"x", "q", "k", "v"}
    if content in ({"q"}, {"k"}):
        names["x"] = names.pop(*content)
    return names


def _role_by_default(role: str | None, name: str, parameter: inspect.Parameter) -> str | None:
    """Return the role that goes with the default: what has none is guessed at, a small width is an axis."""
    default = parameter.default
    if role is None and default is parameter.empty:
        return _role_of_pieces(name)
    if role in SIZES and isinstance(default, bool):
        return "flag"
    # dim=-1 is an axis, and no width.
    return None if role == "dim" and default in range(-5, 5) else role


def _role(name: str, place: int, present: set[str | None], names: set[str]) -> str | None:
    """Return the role of a parameter; t is content where it comes first and there is no size beside it."""
    if name == "t":
        is_alone = not present & {"x", "q", "dim", "heads", "key_length"}
        is_content = place == 0 or present & {"positions", "angles", "cos", "tables"}
        return "x" if is_alone and is_content else "length"
    if name == "width" and "rows" not in present:
        return "dim"
    # h and w are height and width beside each other or beside a grid; h alone is heads.
    if name in ("h", "w") and (present & {"columns", "rows"} or {"h", "w"} <= names):
        return "rows" if name == "h" else "columns"
    return "flag" if name in FLAGS.split() else ROLE.get(name.lower().strip("_"))


def _role_of_pieces(name: str) -> str | None:
    """Return the role that one piece of a name tells, if no other piece may mean something else."""
    pieces = set(name.lower().strip("_").split("_")) - MEANINGLESS
    for role, names in PIECES.items():
        if pieces and pieces <= {*names.split()}:
            return role
    return None


def wrapper(parameters: dict[str, inspect.Parameter], function: Any) -> str:
    """Return the function to write around code whose parameters are not known."""
    names = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    known = [name for name in names if ROLE.get(name.lower())]
    # What stands behind the first keyword has to be a keyword too.
    positional = [*itertools.takewhile(lambda name: name in known, names)]
    keywords = [f"{name}={name}" if name in known else f"{name}=..." for name in names[len(positional) :]]
    call = f"{name_of(function)}({', '.join(positional + keywords)})"
    return f"wrap it, def wrapped({', '.join(known or ['x', 'positions'])}): return {call}"


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters that have a name."""
    try:
        signature = inspect.signature(function.forward if isinstance(function, nn.Module) else function)
    except (TypeError, ValueError):
        if documented := _documented_parameters(function):
            return documented
        reason = f"{name_of(function)}, whose parameters cannot be read. Understood are {UNDERSTOOD}"
        raise ValueError(f"doctor: function must be one with named parameters, got {reason}") from None
    return {n: p for n, p in signature.parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def _documented_parameters(function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of compiled code, such as torch's attention, whose documentation begins with a call."""
    call = DOCUMENTED_CALL.match(getattr(function, "__doc__", None) or "")
    if call is None:
        return {}
    try:
        tree = ast.parse(f"(lambda {call[1]}: 0)", mode="eval")  # in brackets: the call may run over lines
        arguments = tree.body.args  # type: ignore[attr-defined]
        defaults = [ast.literal_eval(default) for default in arguments.defaults]
    except (SyntaxError, ValueError):  # a sentence in brackets
        return {}
    defaults = [inspect.Parameter.empty] * (len(arguments.args) - len(defaults)) + defaults
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    named = zip((argument.arg for argument in arguments.args), defaults, strict=True)
    return {name: inspect.Parameter(name, kind, default=default) for name, default in named}


def construct(cls: type, sizes: dict[str, int], **keywords: Any) -> Any:
    """Return an instance of a class; `keywords` go to parameters of these names.

    Raises:
        ValueError: If it asks for something else than dim, heads, a length and dropout.
    """
    values: dict[str | None, Any] = {**sizes, "length": LONGEST, "base": DEFAULTS["base"], "dropout": 0.0}
    arguments = {}
    parameters = _parameters(cls)
    for name, parameter in parameters.items():
        role = "dropout" if name == "p" or "drop" in name.lower() else ROLE.get(name.lower())
        is_needed = parameter.default is parameter.empty
        # The sizes to examine hold whatever the class has by default; all else keeps its default.
        if role in sizes or (is_needed and role in values):
            arguments[name] = values[role]
        elif is_needed and name not in keywords:
            reason = f"{name_of(cls)}, which asks for {name} too: build it yourself and pass the instance instead"
            raise ValueError(f"doctor: function must be a class of dim, heads, a length and dropout, got {reason}")
    arguments |= keywords
    try:
        return cls(**arguments)
    except Exception:
        # The number of heads may not go with the other settings; its default does.
        optional = {n for n, p in parameters.items() if ROLE.get(n.lower()) == "heads" and p.default is not p.empty}
        return cls(**{name: value for name, value in arguments.items() if name not in optional})


def name_of(function: Any) -> str:
    """Return the name of a function, class or module."""
    return getattr(function, "__qualname__", type(function).__qualname__)
