"""Call an attention of any signature on queries, keys and values (b, h, t, d) at known positions, and record it."""

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.doctor.attention.projections import (
    Projections,
    embedding_axes,
    embeddings_by_role,
    open_projections,
    passes_values_through,
    set_identities,
)
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.safe_call import attempt

T = 16  # tokens
LAST = 5  # queries at the end
TOLERANCE = 1e-4  # of results that should be equal
CHANGE = 1e-5  # of a result, by which it depends on something
Parts = tuple[Tensor, Tensor, Tensor]  # q (b, h, t, d), k and v (b, g, s, d) with g heads of keys


class Attention:
    """An attention as a function of q, k, v (b, h, t, d), or of embeddings (b, t, D) alone, passed as q of one head.

    `projections` are those of code that takes embeddings and was opened; `value_outcome` is how values come out.
    """

    def __init__(self, code: Code) -> None:
        self.code = code
        self.dim = self.output_dim = code.dim  # of a head, and how many of its channels come out
        self.heads = self.kv_heads = code.heads
        self.projections: Projections | None = None
        self.value_outcome = ""
        self.takes_embeddings_only = self.has_identities = False
        self.positions_of_keys: bool | None = None  # whether positions are those of all keys, where that is known
        # A module that takes q, k and v with joined heads may still project each, as nn.MultiheadAttention does.
        takes_joined_heads = code.module is not None and code.takes("v") and code.call.order in ("btd", "tbd")
        if takes_joined_heads or not code.takes("v"):
            self._open(takes_joined_heads)

    def _open(self, takes_joined_heads: bool) -> None:
        """Find the projections, or pass embeddings as they are."""
        opened = self.code.fresh()  # so that code which cannot be opened keeps its weights
        self.projections, self.value_outcome = open_projections(opened, least_width=2 * T)
        if self.projections:
            self.code = opened
            self.dim, self.output_dim = self.projections.dim, self.projections.output_dim
            self.heads, self.kv_heads = self.projections.heads, self.projections.kv_heads
            return
        learns = bool(self.code.learned_parameters)
        # Layers whose names are not known may be projections too: where identities bring the values out, they are.
        if takes_joined_heads and learns:
            opened = self.code.fresh()
            set_identities(opened)
            if passes_values_through(opened):
                self.has_identities = True
                self.dim = self.output_dim = self.code.dim // self.code.heads
                self.code = opened
                return
        self.heads = self.kv_heads = 1
        self.takes_embeddings_only = learns or not takes_joined_heads

    def of(self, code: Code) -> "Attention":
        """Return the same attention of a copy of the code, cast or not; its projections need not be found again."""
        attention = copy.copy(self)
        attention.code = code
        if self.projections:
            attention.projections = self.projections.of(code)
        if self.has_identities:
            set_identities(code)
        return attention

    @property
    def groups(self) -> int:
        """How many heads of queries share one of keys."""
        return self.heads // self.kv_heads

    @property
    def takes_both_positions(self) -> bool:
        """Whether positions of both queries and keys can be passed."""
        # Queries and keys of the same embeddings share one argument.
        is_one_argument = self.takes_embeddings_only or self.projections or self.positions_of_keys
        return self.code.takes("positions") and bool(is_one_argument or self.code.takes("key_positions"))

    def inputs(self, seed: int = 0, t: int = T, dtype: torch.dtype = torch.float32) -> Parts:
        """Return random q, k, v (b, h, t, d)."""
        if self.takes_embeddings_only:
            x = random(2, self.heads, t, self.dim, seed=seed, dtype=dtype)  # (b, h, t, d)
            return x, x, x
        # Three seeds for each that is asked for, so that q, k and v differ.
        counts = (self.heads, self.kv_heads, self.kv_heads)
        q, k, v = (random(2, h, t, self.dim, seed=3 * seed + i, dtype=dtype) for i, h in enumerate(counts))
        # In latent attention values are narrower than keys: what does not come out is 0.
        v[..., self.output_dim :] = 0
        return q, k, v

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **arguments: Any) -> Tensor:
        """Return the result (b, h, t, d) for arguments by role."""
        return self.call_slice(q, k, v, slice(None), **arguments)[0]

    def call_slice(self, q: Tensor, k: Tensor, v: Tensor, tokens: slice, **arguments: Any) -> tuple[Any, ...]:
        """Return all that comes back for some of the tokens, with projections set for all: a cache may rely on them."""
        if self.projections:
            return self._call_embeddings(self.projections.set(q, k, v)[:, tokens], arguments)
        q, k, v = q[:, :, tokens], k[:, :, tokens], v[:, :, tokens]
        if self.takes_embeddings_only:
            return self._call_embeddings(q.transpose(1, 2).flatten(2), arguments)
        result = self.code.apply(q=q, k=k, v=v, heads=self.heads, **arguments)
        return result if isinstance(result, tuple) else (result,)

    def _call_embeddings(self, x: Tensor, arguments: dict[str, Any]) -> tuple[Any, ...]:
        """Call with embeddings (b, t, D), and split the heads of the result, padded to the width of a head."""
        to_order, from_order = embedding_axes(self.code)
        result = self.code(**embeddings_by_role(self.code, to_order(x)), **arguments)
        out, *others = result if isinstance(result, tuple) else (result,)
        out = from_order(out)[..., : self.heads * self.output_dim]
        out = out.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (b, h, t, n)
        return torch.nn.functional.pad(out, (0, self.dim - out.shape[-1])), *others

    def at(self, q: Tensor, k: Tensor, v: Tensor, start: int = 0, **arguments: Any) -> Tensor:
        """Return the result for keys from position `start` on and queries at the last of them."""
        # As in decoding: fewer queries than keys are the last tokens.
        keys = start + torch.arange(k.shape[2])  # (s,)
        queries = keys[-q.shape[2] :]  # (t,)
        positions = keys if self.positions_of_keys else queries
        return self(q, k, v, positions=positions, key_positions=keys, offset=int(queries[0]), **arguments)

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the weights (b, h, t, s), read off one-hot values, each of which names its key."""
        v = one_hot_values(k, self.dim)  # (b, g, s, d)
        result = self.at(q, k, v)  # (b, h, t, d)
        # Shaw's positions of values are added whatever the values, so values of 0 show them alone.
        if self.value_outcome == "added":
            result = result - self.at(q, k, torch.zeros_like(v))
        return result[..., : k.shape[2]].double()  # (b, h, t, s)

    def find_positions_of_keys(self, result: Tensor) -> None:
        """Find out whether positions are those of queries or of all keys, where the code takes one for both."""
        if not self.code.takes("positions") or self.takes_both_positions:
            return
        q, k, v = self.inputs()
        # The last queries alone get what they get among all only where positions reach the side they are meant for.
        for of_keys in (True, False):
            self.positions_of_keys = of_keys
            last, failed = attempt(self.at, q[:, :, -LAST:], k, v)
            if not failed and relative_difference(last, result[:, :, -LAST:]) < TOLERANCE:
                return
        self.positions_of_keys = None


class AttentionRecord(NamedTuple):
    """What the checks share: the code, the attention that it is, and what was measured on its `inputs()`."""

    code: Code
    attention: Attention
    result: Tensor  # of shape (b, h, t, d), at positions 0 .. t - 1
    visible: Tensor  # which keys each query sees, of shape (t, s)

    @property
    def is_causal(self) -> bool:
        """Whether no query sees keys ahead of it."""
        return not self.visible.triu(1).any()


def measure_attention(code: Code) -> AttentionRecord:
    """Call the attention on random tokens, and with other keys and values at one token after the other."""
    attention = Attention(code.fresh())
    torch.manual_seed(0)  # what dropout draws
    # Code may write into its result in a later call, so it is copied.
    result = attention.at(*attention.inputs()).detach().clone()  # (b, h, t, d)
    record = AttentionRecord(code, attention, result, visible_keys(attention, result))
    attention.find_positions_of_keys(result)
    return record


def result_in(dtype: torch.dtype, record: AttentionRecord, parts: Parts, start: int) -> Tensor:
    """Return the result of the code and its inputs cast to a dtype, for positions from `start` on."""
    cast = record.attention.of(record.code.cast(dtype))
    q, k, v = (part.to(dtype) for part in parts)
    return cast.at(q, k, v, start=start)


def visible_keys(attention: Attention, result: Tensor, **arguments: Any) -> Tensor:
    """Return which keys (s) each query (t) sees, by what changes in the result of the inputs."""
    columns = []
    for token in torch.eye(T, dtype=torch.bool):
        after = attention.at(*replaced(attention, token), **arguments)  # (b, h, t, d)
        columns.append(changed(after, result).any((0, 1, 3)))
    return torch.stack(columns, 1)  # (t, s)


def replaced(attention: Attention, tokens: Tensor) -> Parts:
    """Return the inputs with other keys and values where `tokens` (t,) is true; of embeddings, all is other."""
    parts, others = attention.inputs(t=len(tokens)), attention.inputs(seed=14, t=len(tokens))
    q, k, v = (torch.where(tokens[:, None], other, part) for part, other in zip(parts, others, strict=True))
    return q if attention.takes_embeddings_only else parts[0], k, v


def changed(result: Tensor, expected: Tensor) -> Tensor:
    """Tell which entries differ, or are finite in one of the two only."""
    # A row that goes from hidden keys alone (NaN) to a number has changed, which a difference of NaN would not show.
    return ((result - expected).abs() > CHANGE) | (result.isfinite() != expected.isfinite())


def one_hot_values(k: Tensor, dim: int) -> Tensor:
    """Return values (b, h, s, d), each of which names its key by a channel of its own."""
    return torch.eye(k.shape[2], dim, dtype=k.dtype).expand(*k.shape[:2], -1, -1).contiguous()
