"""What the parameters of unknown code mean: each role has many spellings, and a class is built from a few of them.

What has a default is left alone unless a check needs it. A class gets dim, heads, a length of 4,096 and no dropout
where it asks for them.
"""

import inspect
from typing import Any

from torch import nn

SPELLINGS = {
    "x": "x xs input inputs inp hidden hidden_states tensor u emb embedding embeddings embedded src",
    "q": "q query queries xq",
    "k": "k key keys xk",
    "v": "v value values xv",
    "positions": """positions position pos position_ids pos_ids position_id token_positions input_pos
        q_positions query_positions positions_q q_pos""",
    "key_positions": "key_positions k_positions kv_positions positions_k key_pos k_pos kv_pos",
    "offset": """offset start start_pos start_position start_index seqlen_offset past_length past_len
        past_key_values_length""",
    "length": """length seq_len seqlen seq_length sequence_length max_length max_len max_seq_len n_positions
        n_position num_positions max_position_embeddings query_length q_len qlen query_len n t l tokens""",
    "key_length": "key_length k_len klen kv_len kv_length key_len s n_keys src_len",
    "dim": """dim d d_model dmodel model_dim embed_dim embedding_dim emb_dim emb_size d_emb d_hid hidden_size
        hidden_dim head_dim d_head channels width""",
    "heads": "heads h n_head n_heads nhead nheads num_heads num_attention_heads n_attention_heads",
    "causal": "causal is_causal",
    "mask": "mask attn_mask attention_mask",
    "dtype": "dtype",
    "cache": "cache past kv_cache past_kv past_key_value past_key_values layer_past",
    "score": "score",
}
ROLE = {name: role for role, names in SPELLINGS.items() for name in names.split()}
ROWS = ("position_ids", "pos_ids", "position_id", "input_pos")
UNDERSTOOD = (
    "fn(x), fn(x, positions), fn(x, offset), fn(q, k), fn(q, k, positions, key_positions) for a rotation; "
    "module(x), fn(positions, dim), fn(length, dim) for a table; "
    "fn(heads), fn(heads, length), fn(heads, t, s), fn(positions, key_positions), "
    "fn(score, b, h, q_idx, kv_idx) for a bias; "
    "fn(q, k, v) with or without positions, key_positions, causal, mask, cache for an attention"
)


def roles(function: Any) -> tuple[dict[str, str], dict[str, inspect.Parameter]]:
    """Return the name of the parameter of each role, and all parameters.

    Raises:
        ValueError: If a parameter without a default has no known role.
    """
    parameters = _parameters(function)
    if len(parameters) == 5 and next(iter(parameters)) == "score":
        return dict(zip(("score", "b", "h", "positions", "key_positions"), parameters, strict=True)), parameters
    found: dict[str, str] = {}
    known = {ROLE.get(name.lower()) for name in parameters if name != "t"}
    for place, (name, parameter) in enumerate(parameters.items()):
        role = ROLE.get(name.lower())
        if name == "t" and place == 0 and not known & {"dim", "heads", "key_length"}:
            role = "x"
        if role == "length" and "length" in found:
            role = "key_length"
        if role is not None and role not in found:
            found[role] = name
        elif parameter.default is parameter.empty:
            why = f"{name}, which is not known: wrap it in a function without it. Understood are {UNDERSTOOD}"
            raise ValueError(f"doctor: function must be one whose parameters have known names, got {why}")
    if "q" in found and not found.keys() & {"k", "v", "x"}:
        found["x"] = found.pop("q")
    return found, parameters


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters that have a name."""
    try:
        signature = inspect.signature(function.forward if isinstance(function, nn.Module) else function)
    except (TypeError, ValueError):
        why = f"{name_of(function)}, whose parameters cannot be read. Understood are {UNDERSTOOD}"
        raise ValueError(f"doctor: function must be one with named parameters, got {why}") from None
    return {n: p for n, p in signature.parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def built(cls: type, sizes: dict[str, int]) -> Any:
    """Return an instance of a class.

    Raises:
        ValueError: If it asks for something else than dim, heads, a length and dropout.
    """
    given, parameters = {}, _parameters(cls)
    for name, parameter in parameters.items():
        role, needed = ROLE.get(name.lower()), parameter.default is parameter.empty
        if role in ("dim", "heads"):
            given[name] = sizes[role]
        elif needed and role == "length":
            given[name] = 4096
        elif needed and (name == "p" or "drop" in name.lower()):
            given[name] = 0.0
        elif needed:
            why = f"{name_of(cls)}, which asks for {name} too: build it yourself and pass the instance instead"
            raise ValueError(f"doctor: function must be a class of dim, heads, a length and dropout, got {why}")
    try:
        return cls(**given)
    except Exception:  # heads may not go with the other settings
        free = {n for n, p in parameters.items() if ROLE.get(n.lower()) == "heads" and p.default is not p.empty}
        return cls(**{name: value for name, value in given.items() if name not in free})


def name_of(function: Any) -> str:
    """Return the name of a function, class or module."""
    return getattr(function, "__qualname__", type(function).__qualname__)
