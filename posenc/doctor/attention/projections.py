"""Set the projections of an attention that takes embeddings, so that queries, keys and values are those of a check.

Embeddings are one-hot, a channel for each token. Column n of the query projection is then the query of token n, and
likewise for keys and values; the output projection passes the heads on. So every check of fn(q, k, v) applies.

In latent attention (MLA) queries, and keys with values, go through a narrow layer first. The narrow layers pass the
one-hot embeddings on, so the wide layers after them are set as plain projections are.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc.doctor.call.axes import EMBEDDED
from posenc.doctor.call.code import Code, first_result
from posenc.doctor.numerics import is_finite, random, relative_difference
from posenc.doctor.safe_call import attempt

TOKENS = 4  # that show whether projections are what their names say
TOLERANCE = 1e-4  # of what is added to values, where nothing is
MIX_TOLERANCE = 2e-2  # of results against the nearest mixture of values
HEAD_COUNTS = "heads n_heads num_heads n_head nhead num_attention_heads n_local_heads num_key_value_heads h"
NAMES = {  # of layers by role, without FILLERS
    "q": "q query queries wq qlinear",
    "k": "k key keys wk klinear",
    "v": "v value values wv vlinear",
    "kv": "kv wkv",
    "qkv": "qkv c_attn query_key_value wqkv att attn in pack qkv_mlp",
    "out": "o out wo dense c output attn_out wout resid combine_heads final proj outs dense_out",
}
LATENT_NAMES = {
    "q_a": "q_a wq_a q_down",
    "q": f"q_b wq_b q_up {NAMES['q']}",
    "kv_a": "kv_a_proj_with_mqa kv_a wkv_a kv_down",
    "kv_b": "kv_b wkv_b kv_up",
    "out": NAMES["out"],
}
FILLERS = {"proj", "projs", "projection", "to", "lin", "linear", "w", "fc", "net", "layer", "conv"}


class Layer(NamedTuple):
    """A linear layer whose weight can be set, or several side by side, such as one a head."""

    modules: list[Any]
    is_transposed: bool = False  # weight (in, out), as Conv1D of transformers
    name: str = "weight"  # or that of a bare weight, such as in_proj_weight

    @property
    def weights(self) -> list[nn.Parameter]:
        """The weights themselves."""
        return [getattr(module, self.name) for module in self.modules]

    @property
    def matrix(self) -> Tensor:
        """The weights as one matrix, (out, in)."""
        # The weight of a convolution of single tokens is a matrix with a third axis of one number.
        weights = [weight.flatten(1) for weight in self.weights]
        return torch.cat([weight.T if self.is_transposed else weight for weight in weights])

    @property
    def in_features(self) -> int:
        """The width of the input."""
        return self.matrix.shape[1]

    @property
    def out_features(self) -> int:
        """The width of the output."""
        return len(self.matrix)

    def set(self, rows: Tensor) -> None:
        """Let the layer map one-hot input n to row n of `rows` (n, out)."""
        for module, old, part in zip(self.modules, self.weights, rows.chunk(len(self.modules), -1), strict=True):
            weight = torch.zeros_like(old.flatten(1))
            # A view with a row for each input: what is written to it is in the weight.
            by_input = weight if self.is_transposed else weight.T
            by_input[: len(part)] = part.to(weight.dtype)
            old.data = weight.view_as(old)
            bias = getattr(module, self.name.replace("weight", "bias"), None)
            if bias is not None:
                bias.data.zero_()


class Projections(NamedTuple):
    """The layers of an attention by role, its sizes, and how a fused layer orders queries, keys and values."""

    layers: dict[str, Layer]
    heads: int
    kv_heads: int
    dim: int
    output_dim: int  # how many channels of each head come out
    packing: str = ""
    rotary_dim: int = 0  # of a latent attention: the width of the part of a head whose keys all heads share

    @property
    def width(self) -> int:
        """How many tokens the embeddings, or the narrowest layer that passes them on, can tell apart."""
        roles = {"q", "qkv", "kv_a", "kv_b"} & self.layers.keys()
        return min(self.layers[role].in_features for role in roles)

    def set(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Set the weights for q (b, h, t, d), k and v (b, g, t, d); return the embeddings (b, t, D) to pass."""
        b, _, t, _ = q.shape
        # A row for each token of each text.
        q, k, v = (part.transpose(1, 2).flatten(0, 1) for part in (q, k, v))  # (n, h, d), (n, g, d), (n, g, d)
        rows = {"q": q, "k": k, "v": v, "kv": torch.cat((k, v), 1)}
        if "qkv" in self.layers:
            rows = {"qkv": self._packed(q, k, v)}
        if self.rotary_dim:
            rows |= self._latent_rows(k, v)
        if "out" in self.layers:
            # The output projection passes on each head, without the channels that no embedding has room for.
            width = self.layers["out"].in_features // self.heads
            heads = torch.kron(torch.eye(self.heads), torch.eye(width, self.output_dim))
            rows["out"] = torch.nn.functional.pad(heads, (0, self.layers["out"].out_features - heads.shape[1]))
        for role in rows.keys() & self.layers.keys():
            self.layers[role].set(rows[role].flatten(1))
        first = next(self.layers[role] for role in ("kv_a", "q", "qkv") if role in self.layers)
        return torch.eye(b * t, first.in_features, dtype=first.matrix.dtype).view(b, t, -1)

    def of(self, code: Code) -> "Projections":
        """Return the same projections of a copy of the module, whose norms are removed."""
        layers = _open(code, LATENT_NAMES if self.rotary_dim else NAMES)
        return self._replace(layers={role: layers[role] for role in self.layers})

    def _packed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the output of the fused layer (n, ...) for q (n, h, d), k and v (n, g, d)."""
        if self.packing == "chunks":
            return torch.cat((q, k, v), 1)
        if self.packing == "by channel":
            return torch.stack((q, k, v), 1).permute(0, 3, 1, 2)  # (n, d, 3, h)
        # As in GPT-NeoX and Falcon: the queries of a group, then its key, then its value.
        groups = q.unflatten(1, (self.kv_heads, -1))  # (n, g, h/g, d)
        return torch.cat((groups, k[:, :, None], v[:, :, None]), 2)  # (n, g, h/g+2, d)

    def _latent_rows(self, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Return what the layers of a latent attention give for k and v (n, h, d), with the shared part of one key."""
        own_dim = self.dim - self.rotary_dim
        n = len(k)
        # The narrow layer passes the one-hot input on, beside the rotated part of the key, which all heads share.
        return {
            "q_a": torch.eye(n, self.layers["q"].in_features),
            "kv_a": torch.cat((torch.eye(n, self.layers["kv_b"].in_features).to(k), k[:, 0, own_dim:]), -1),
            "kv_b": torch.cat((k[..., :own_dim], v[..., : self.output_dim]), -1),
        }


def open_projections(code: Code, least_width: int) -> tuple[Projections | None, str]:
    """Find the projections of a module by name, and check with a call that values come out as they should.

    Returns:
        The projections, and "own heads", or "added" where something is added to the values; else None, and "tiled" or
        "mixed" where values come out in other heads or tokens, or "".
    """
    module = code.module
    if module is None:
        return None, ""
    # A declared number of heads is likelier than that of the call, which may be a default.
    owners = (module, getattr(module, "config", None))
    declared = [getattr(owner, name, None) for owner in owners for name in HEAD_COUNTS.split()]
    for heads in dict.fromkeys([*(count for count in declared if type(count) is int and count), code.heads]):
        outcomes = []
        for projections in _candidates(code, heads):
            # Narrower embeddings lack a channel for each token.
            if projections.width < least_width:
                return None, ""
            outcome, _ = attempt(_outcome_of_values, code, projections)
            if outcome in ("own heads", "added"):
                return projections, outcome
            outcomes.append(outcome)
        # No other number of heads is tried after these faults: half as many heads, twice as wide, could seem right.
        for fault in ("tiled", "mixed"):
            if fault in outcomes:
                return None, fault
    return None, ""


def _open(code: Code, names: dict[str, str]) -> dict[str, Layer]:
    """Return the layers of a module by role; norms are removed, for they change the queries and keys that are set."""
    module = code.module
    if module is None:
        return {}
    if any(nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
        # Lazy layers take their width from the first call.
        x = torch.zeros(TOKENS, TOKENS, code.dim)  # (b, t, d)
        attempt(code, **embeddings_by_role(code, x), positions=torch.arange(TOKENS))
    layers = _layers_named(module, names)
    for name, part in [*module.named_modules()]:
        if name and type(part).__name__.lower().endswith("norm"):
            owner, _, last = name.rpartition(".")
            setattr(module.get_submodule(owner), last, _NoNorm())
    return layers


def _candidates(code: Code, heads: int) -> list[Projections]:
    """Return what the layers of a module may be, likeliest first."""
    layers = _open(code, NAMES)
    if not _make_queries_keys_values(layers):
        return _latent_candidates(code, heads)
    if "q" in layers:
        layers.pop("qkv", None)
        dim = layers["q"].out_features // heads
        kv_heads = (layers["k"].out_features if "k" in layers else layers["kv"].out_features // 2) // dim
        packings = ("",)
    else:
        # The parts of a fused layer have no sizes of their own: the output projection tells the width of a head.
        width = layers["qkv"].out_features
        dim = (layers["out"].in_features if "out" in layers else width // 3) // heads
        kv_heads = (width // dim - heads) // 2
        packings = ("chunks", "by group", "by channel")
    output_dim = min(dim, layers["out"].out_features // heads) if "out" in layers else dim
    return [Projections(layers, heads, kv_heads, dim, output_dim, packing) for packing in packings]


def _latent_candidates(code: Code, heads: int) -> list[Projections]:
    layers = _open(code, LATENT_NAMES)
    if not {"q", "kv_a", "kv_b", "out"} <= layers.keys():
        return []
    dim, output_dim = layers["q"].out_features // heads, layers["out"].in_features // heads
    rotary_dim = layers["kv_a"].out_features - layers["kv_b"].in_features
    # The wide layer makes the part of keys that is not rotated, and the values.
    if layers["kv_b"].out_features != heads * (dim - rotary_dim + output_dim):
        return []
    return [Projections(layers, heads, heads, dim, output_dim, rotary_dim=rotary_dim)]


def _outcome_of_values(code: Code, projections: Projections) -> str:
    """Tell how values come out: in their "own heads", "added" to something, "tiled", "mixed", or "" elsewhere."""
    groups = projections.heads // projections.kv_heads
    v = random(2, projections.kv_heads, TOKENS, projections.output_dim, seed=3)  # (b, g, t, d)
    added = _result_of_values(code, projections, torch.zeros_like(v))  # (b, h, t, d)
    result = _result_of_values(code, projections, v) - added
    expected = v.repeat_interleave(groups, 1)  # (b, h, t, d)
    if _mixes_own_values_only(result, expected):
        return "own heads" if added.abs().max() < TOLERANCE else "added"
    if _mixes_own_values_only(result, v.repeat(1, groups, 1, 1)):
        return "tiled"
    # Heads joined in the wrong order, channels before tokens, heads split off in the wrong order.
    mixed = (
        (_with_heads_and_tokens_swapped(result), expected),
        (result.mT.reshape(result.shape), expected),
        (result, _with_heads_and_tokens_swapped(v).repeat_interleave(groups, 1)),
    )
    if any(_mixes_own_values_only(*pair) for pair in mixed):
        return "mixed"
    # Values that are rotated, which another check finds, are as they were at position 0.
    first = _result_of_values(code, projections, v * (torch.arange(TOKENS) == 0)[:, None])  # (b, h, t, d)
    return "own heads" if _mixes_own_values_only((first - added)[:, :, :1], expected) else ""


def _result_of_values(code: Code, projections: Projections, v: Tensor) -> Tensor:
    """Return the result (b, h, t, d) for values, where all queries and keys are 0."""
    v = torch.nn.functional.pad(v, (0, projections.dim - projections.output_dim))  # (b, g, t, d)
    q = torch.zeros(len(v), projections.heads, TOKENS, projections.dim)  # (b, h, t, d)
    x = projections.set(q, torch.zeros_like(v), v)  # (b, t, n)
    # A grid of 4 tokens, a single column, may be too small.
    if "r" in str(code.call.order):
        x = torch.cat((x, x, x, x), 1)  # (b, 4t, n)
    to_order, from_order = embedding_axes(code)
    # A fresh copy is called, for this one shall not cache 4 tokens.
    result = code.fresh()(**embeddings_by_role(code, to_order(x)), positions=torch.arange(TOKENS))
    out = from_order(first_result(result))[:, :TOKENS, : projections.heads * projections.output_dim]
    return out.unflatten(-1, (projections.heads, -1)).transpose(1, 2).detach()


def set_identities(code: Code) -> None:
    """Let the square layers of a module that takes q, k, v (b, t, h * d) pass these through."""
    for part in code.modules:
        if isinstance(part, nn.Linear) and part.in_features == part.out_features:
            Layer([part]).set(torch.eye(part.out_features))


def passes_values_through(code: Code) -> bool:
    """Return whether values come out of a module that takes q, k, v (b, t, h * d)."""
    # Values that are equal at all tokens come out unchanged by whatever weights.
    v = random(2, code.heads, 1, code.dim // code.heads, seed=3).expand(-1, -1, TOKENS, -1)  # (b, h, t, d)
    zeros = torch.zeros_like(v)
    passes, _ = attempt(lambda: _mixes_own_values_only(first_result(code.apply(q=zeros, k=zeros, v=v)), v))
    return bool(passes)


def _with_heads_and_tokens_swapped(x: Tensor) -> Tensor:
    """Return (b, h, t, d) as if its numbers had been stored as (b, t, h, d), or the other way round."""
    return x.transpose(1, 2).reshape(x.shape)


def _mixes_own_values_only(result: Tensor, v: Tensor) -> bool:
    """Return whether each head of the result is a sum of its own values, by whatever weights, and none is 0."""
    if not is_finite(result):
        return False
    # Least squares finds the weights, so neither a mask nor a bias has to be known.
    weights = torch.linalg.lstsq(v.mT.double(), result.mT.double()).solution  # (b, h, s, t)
    none_is_zero = bool(torch.linalg.matrix_norm(result).all())
    return none_is_zero and relative_difference(v.mT.double() @ weights, result.mT.double()) < MIX_TOLERANCE


def embedding_axes(code: Code) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Return how embeddings (b, t, D) get the axes that the code takes, and back."""
    return EMBEDDED.get(str(code.call.order), EMBEDDED["btd"])


def embeddings_by_role(code: Code, x: Tensor) -> dict[str, Tensor]:
    """Return embeddings by role: once, or for each of queries, keys and values, or for queries and all else."""
    return dict.fromkeys("qkv", x) if code.takes("v") else {"x": x, "other": x}


def projects(module: nn.Module | None) -> bool:
    """Return whether a module has layers that make queries, keys and values, by their names."""
    return module is not None and _make_queries_keys_values(_layers_named(module, NAMES))


def _make_queries_keys_values(layers: dict[str, Layer]) -> bool:
    return any(needed <= layers.keys() for needed in ({"qkv"}, {"q", "kv"}, {"q", "k", "v"}))


def _layers_named(module: nn.Module, names: dict[str, str]) -> dict[str, Layer]:
    layers = {role: _layer_named(module, known.split()) for role, known in names.items()}
    return {role: layer for role, layer in layers.items() if layer}


def _layer_named(module: nn.Module, names: list[str]) -> Layer | None:
    """Return the linear layer, or bare weight, that has one of the names; names that differ in a number go together."""
    names = [_core(name) for name in names]
    groups: dict[Any, list[Any]] = {}
    for name, part in module.named_modules():
        pieces = [piece for piece in name.lower().split(".") if not piece.isdigit()]
        if pieces and _core(pieces[-1]) in names and _is_matrix(getattr(part, "weight", None)):
            groups.setdefault((*pieces, type(part)), []).append(part)
    # The first in the order of the module; Conv1D of transformers, which has `nf`, keeps its weight as (in, out).
    for layers in groups.values():
        return Layer(layers, any(hasattr(layer, "nf") for layer in layers))
    for name, weight in module.named_parameters():
        owner, _, last = name.rpartition(".")
        if last.endswith("_weight") and _core(last.removesuffix("_weight")) in names and _is_matrix(weight):
            return Layer([module.get_submodule(owner)], name=last)
    return None


def _core(name: str) -> str:
    """Return what a name says of a layer: "q" of to_q, q_proj or linear_q."""
    return "_".join(piece for piece in name.split("_") if piece not in FILLERS)


def _is_matrix(weight: Any) -> bool:
    return isinstance(weight, Tensor) and weight.data.squeeze().ndim == 2


class _NoNorm(nn.Module):
    """A norm that returns its input, whatever else it is called with."""

    def forward(self, x: Any, *_: Any, **__: Any) -> Any:
        return x
