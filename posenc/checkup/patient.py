"""How the doctor calls code that it has never seen: parameters are known by their names, each way to spell one.

    x, q k v                     content: (b, h, t, d) for a rotation or an attention, (b, t, d) for a table
    positions, key_positions     of queries and keys, tensors of integers
    offset                       the position of the first token, a number
    length, key_length           how many queries and keys
    dim, heads, causal, mask, dtype, cache

What has a default is left alone unless a check needs it. A class is built first, with dim, heads and a length of 4,096
where it asks for them. A result that is no tensor (an array, a list) becomes one.
"""

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

SPELLINGS = {
    "x": "x xs input inputs inp hidden hidden_states tensor u emb embedding embeddings embedded src",
    "q": "q query queries xq",
    "k": "k key keys xk",
    "v": "v value values xv",
    "positions": "positions position pos position_ids pos_ids position_id token_positions input_pos q_positions"
    " query_positions positions_q q_pos",
    "key_positions": "key_positions k_positions kv_positions positions_k key_pos k_pos kv_pos",
    "offset": "offset start start_pos start_position start_index seqlen_offset past_length past_len"
    " past_key_values_length",
    "length": "length seq_len seqlen seq_length sequence_length max_length max_len max_seq_len n_positions n_position"
    " num_positions max_position_embeddings query_length q_len qlen query_len n t l tokens",
    "key_length": "key_length k_len klen kv_len kv_length key_len s n_keys src_len",
    "dim": "dim d d_model dmodel model_dim embed_dim embedding_dim emb_dim emb_size d_emb d_hid hidden_size hidden_dim"
    " head_dim d_head channels width",
    "heads": "heads h n_head n_heads nhead nheads num_heads num_attention_heads n_attention_heads",
    "causal": "causal is_causal",
    "mask": "mask attn_mask attention_mask",
    "dtype": "dtype",
    "cache": "cache past kv_cache past_kv past_key_value past_key_values layer_past",
    "score": "score",
}
ROLE = {name: role for role, names in SPELLINGS.items() for name in names.split()}
UNDERSTOOD = (
    "fn(x), fn(x, positions), fn(x, offset), fn(q, k), fn(q, k, positions, key_positions) for a rotation; "
    "module(x), fn(positions, dim), fn(length, dim) for a table; "
    "fn(heads), fn(heads, length), fn(heads, t, s), fn(positions, key_positions), fn(score, b, h, q_idx, kv_idx) for a "
    "bias; fn(q, k, v) with or without positions, key_positions, causal, mask, cache for an attention"
)


class Patient:
    """Somebody's code with its parameters by role; `settings` (dim, heads) fill in what it asks for."""

    def __init__(self, function: Any, settings: dict[str, Any], order: str | None = None) -> None:
        self.source, self.settings, self.order = function, settings, order
        self.function = _built(function, settings) if inspect.isclass(function) else _copied(function)
        self.numpy = False
        if self.module is not None:
            self.module.eval()
        self.roles, self.parameters = roles(self.function)

    @property
    def module(self) -> nn.Module | None:
        """The torch module, if it is one or a method of one."""
        owner = getattr(self.function, "__self__", self.function)
        return owner if isinstance(owner, nn.Module) else None

    def takes(self, *wanted: str) -> bool:
        """Tell whether there is a parameter for each role."""
        return all(role in self.roles for role in wanted)

    def needs(self, role: str) -> bool:
        """Tell whether there is a parameter for the role, without a default."""
        return role in self.roles and self.parameters[self.roles[role]].default is inspect.Parameter.empty

    def fresh(self, settings: dict[str, Any] | None = None) -> "Patient":
        """Return a copy that shares no memory, as far as that can be; with other settings, a class is built anew."""
        if settings is not None and inspect.isclass(self.source):
            return Patient(self.source, self.settings | settings, self.order)
        return Patient(self.function, self.settings | (settings or {}), self.order)

    def cast(self, dtype: torch.dtype) -> "Patient":
        """Return a copy of a module with parameters and buffers in another dtype."""
        other = self.fresh()
        if other.module is not None:
            other.module.to(dtype)
        return other

    def learned(self) -> list[str]:
        """Return the names of what a module learns."""
        return [] if self.module is None else [n for n, p in self.module.named_parameters() if p.requires_grad]

    @torch.no_grad()
    def with_negated(self, name: str) -> "Patient":
        """Return a copy in which the parameter `name` has the other sign."""
        other = self.fresh()
        if other.module is not None:
            other.module.get_parameter(name).neg_()
        return other

    def __call__(self, **given: Any) -> Any:
        """Call with arguments by role; those without a parameter are left out, the settings asked for are added."""
        arguments, named = [], {}
        given = {role: self.settings[role] for role in ("dim", "heads") if role in self.roles} | given
        for role, name in self.roles.items():
            parameter = self.parameters[name]
            if role not in given:
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY:
                arguments.append(given[role])
            else:
                named[name] = given[role]
        result = self.function(*arguments, **named)
        self.numpy = isinstance(result, np.ndarray)
        return as_tensors(result)


def roles(function: Any) -> tuple[dict[str, str], dict[str, inspect.Parameter]]:
    """Return the name of the parameter of each role, and all parameters.

    Raises:
        ValueError: If a parameter without a default has no known role.
    """
    try:
        signature = inspect.signature(function.forward if isinstance(function, nn.Module) else function)
    except (TypeError, ValueError):
        raise ValueError(f"doctor: function must be one of {UNDERSTOOD}, got {said(function)}") from None
    parameters = {n: p for n, p in signature.parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    found: dict[str, str] = {}
    if len(parameters) == 5 and next(iter(parameters)) == "score":
        return dict(zip(("score", "b", "h", "positions", "key_positions"), parameters, strict=True)), parameters
    known = {ROLE.get(name.lower()) for name in parameters if name != "t"}
    for place, (name, parameter) in enumerate(parameters.items()):
        role = ROLE.get(name.lower())
        if name == "t" and place == 0 and not known & {"dim", "heads", "key_length"}:
            role = "x"
        if role == "length" and "length" in found and "key_length" not in found:
            role = "key_length"
        if role is not None and role not in found:
            found[role] = name
        elif parameter.default is parameter.empty:
            raise ValueError(
                f"doctor: function must be one of {UNDERSTOOD}, got a parameter {name} that is none of these; wrap "
                f"it in a function that is"
            )
    return found, parameters


def _copied(function: Any) -> Any:
    try:
        return copy.deepcopy(function)
    except Exception:  # an object that does not copy is examined itself
        return function


def _built(cls: type, settings: dict[str, Any]) -> Any:
    given = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        role = ROLE.get(name.lower())
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if role in ("dim", "heads"):
            given[name] = settings[role]
        elif parameter.default is parameter.empty:
            if role != "length":
                raise ValueError(
                    f"doctor: function must be a class of dim, heads and a length, got one that asks for {name}"
                )
            given[name] = 4096
    try:
        return cls(**given)
    except Exception:  # heads may not go with the other settings
        needed = inspect.signature(cls).parameters
        return cls(
            **{
                n: v
                for n, v in given.items()
                if ROLE.get(n.lower()) != "heads" or needed[n].default is inspect.Parameter.empty
            }
        )


def as_tensors(result: Any) -> Any:
    """Return tensors for arrays and lists of numbers; the parts of a tuple or list of tensors stay apart."""
    if isinstance(result, Tensor) or result is None:
        return result
    if isinstance(result, tuple | list) and any(not isinstance(part, int | float) for part in result):
        return tuple(as_tensors(part) for part in result)
    try:
        return torch.as_tensor(result)
    except Exception:  # an object of their own
        return result


def attempt(call: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[Any, str]:
    """Return the result and "", or None and the error in one line: their code may raise anything."""
    try:
        return call(*arguments, **named), ""
    except Exception as error:
        line = (str(error).strip().splitlines() or [""])[0]
        return None, f"{type(error).__name__}: {line if line.startswith('doctor: ') else line[:120]}"


def said(function: Any) -> str:
    """Return the name of a function, class or module."""
    return getattr(function, "__qualname__", type(function).__qualname__)


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return normal random numbers, the same in each run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def far(one: Any, other: Any) -> float:
    """Return the largest difference, relative to the largest number of `other`; inf if shapes or NaNs differ."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor) or one.shape != other.shape:
        return float("inf")
    one, other = one.detach().double(), other.detach().double()
    if not torch.equal(one.isfinite(), other.isfinite()):
        return float("inf")
    one, other = one[one.isfinite()], other[other.isfinite()]
    return float((one - other).abs().max() / other.abs().max().clamp(min=1e-30)) if one.numel() else 0.0
