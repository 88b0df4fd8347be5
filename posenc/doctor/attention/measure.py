"""Call an attention of any signature on queries, keys and values (b, h, t, d) at known places."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc.doctor.attempt import attempt
from posenc.doctor.attention import latent
from posenc.doctor.attention.projections import Layer, Projections, found
from posenc.doctor.call.axes import EMBEDDED
from posenc.doctor.call.code import Code, first_result
from posenc.doctor.numerics import random, relative_difference

T = 16
OPENS = 4  # tokens that show whether projections are the ones they are taken for
LAST = 5
SAME, NOTICED = 1e-4, 1e-5
OWN_HEADS = "heads n_heads num_heads n_head nhead num_attention_heads n_local_heads num_key_value_heads h"


class Attention:
    """An attention as a function of q, k, v (b, h, t, d), or of x (b, t, d) alone.

    `opened` is how q, k and v are brought into code that takes x and projects it itself.
    """

    def __init__(self, code: Code) -> None:
        joined = code.module if code.call.order in ("btd", "tbd") and code.takes("v") else None
        alone = not code.takes("v") or joined is not None
        self.of_keys: bool | None = None  # whether positions are those of all keys, where that is known
        probe = code.fresh() if alone else code  # so that what is not opened keeps its weights
        self.opened, self.strange = _opened(probe) if alone else (None, "")
        self.code, self.adds = probe if self.opened else code, self.strange == "added"
        self.dim, self.heads, self.kv_heads = code.dim, code.heads, code.heads
        self.alone = False
        if self.opened:
            self.dim, self.heads, self.kv_heads = self.opened.dim, self.opened.heads, self.opened.kv_heads
        elif joined is not None and code.learned_parameters and _comes_plain(code, joined):
            self.dim = code.dim // code.heads
        elif alone:
            self.heads = self.kv_heads = 1
            self.alone = joined is None or bool(code.learned_parameters)

    @property
    def placed(self) -> bool:
        """Whether positions of both queries and keys can be told."""
        both = any((self.alone, self.opened, self.of_keys, self.code.takes("key_positions")))
        return both and self.code.takes("positions")

    @property
    def places_queries(self) -> bool:
        """Whether a lone query can be told where it stands, or that keys are behind it."""
        return self.placed or self.of_keys is not None or any(map(self.code.takes, ("causal", "offset")))

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        """Return the result (b, h, t, d) for arguments by role."""
        return first_result(self.whole(q, k, v, **given))

    def whole(self, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Any:
        """Return all that comes back, the result (b, h, t, d) first."""
        return self.part(q, k, v, None, None, **given)

    def part(self, q: Tensor, k: Tensor, v: Tensor, start: int | None, end: int | None, **given: Any) -> Any:
        """Return all that comes back for some of the tokens, with projections for all: a cache may rely on them."""
        *_, dim = q.shape
        if self.opened:
            return self._joined(self.opened.set(q, k, v)[:, start:end], dim, given)
        q, k, v = (part[:, :, start:end] for part in (q, k, v))
        if self.alone:
            return self._joined(q.transpose(1, 2).flatten(2), dim, given)
        return self.code.apply(q=q, k=k, v=v, heads=self.heads, **given)

    def _joined(self, x: Tensor, dim: int, given: dict[str, Any]) -> Any:
        """Call with embeddings (b, t, D) and split the heads of the result, as wide as those of queries."""
        laid, back = _laid(self.code)
        made = self.code(**_embedded(self.code, laid(x)), **given)
        out, *rest = made if isinstance(made, tuple) else (made,)
        shown = self.opened.shown if self.opened else dim
        out = back(out)[..., : self.heads * shown].unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return torch.nn.functional.pad(out, (0, dim - out.shape[-1])), *rest

    def at(self, q: Tensor, k: Tensor, v: Tensor, start: int = 0, **given: Any) -> Tensor:
        """Return the result for keys from place `start` on and queries at the last, where places can be told."""
        keys = start + torch.arange(k.shape[2])
        queries = keys[-q.shape[2] :]
        first, *_ = queries.tolist()
        positions = keys if self.of_keys else queries
        return self(q, k, v, positions=positions, key_positions=keys, offset=first, **given)

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the weights (b, h, t, s), read off by values that name their key."""
        v = naming(k, self.dim)
        made = self.at(q, k, v)
        return (made - self.at(q, k, torch.zeros_like(v)) if self.adds else made)[..., : k.shape[2]].double()

    def learn_whose_positions(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        """Find out whether positions are those of the queries or of all keys, where the code takes one for both."""
        if not self.code.takes("positions") or self.placed:
            return
        whole = self.at(q, k, v)[:, :, -LAST:]
        for self.of_keys in (True, False):
            made, failed = attempt(self.at, q[:, :, -LAST:], k, v)
            if not failed and relative_difference(made, whole) < SAME:
                return
        self.of_keys = None


def _laid(code: Code) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Return how embeddings (b, t, D) are laid as the code takes them, and back."""
    return EMBEDDED.get(str(code.call.order), EMBEDDED["btd"])


def _embedded(code: Code, x: Tensor) -> dict[str, Tensor]:
    """Return embeddings by role: once, or for each of queries, keys and values, or for queries and all else."""
    return dict.fromkeys("qkv", x) if code.takes("v") else {"x": x, "other": x}


def _opened(code: Code) -> tuple[Projections | latent.Latent | None, str]:
    """Return the projections of a module if values that are set come out of their own heads, else how they do."""
    module, strange = code.module, ""
    if module is None:
        return None, ""
    if any(nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
        x = torch.zeros(OPENS, OPENS, code.dim)  # what is lazy takes its width from the first call
        attempt(code, **_embedded(code, x), positions=torch.arange(OPENS))
    for heads in _heads(code):
        for one in (*found(module, heads), *latent.found(module, heads)):
            if one.width < 2 * T:
                return None, ""
            comes, _ = attempt(_comes_out, code, one)
            if comes in ("right", "added"):
                return one, comes
            strange = max(strange, comes or "")
        if strange:  # half as many heads, twice as wide, could seem right
            break
    return None, strange


def _comes_out(code: Code, one: Projections | latent.Latent) -> str:
    """Tell how values come out: "right", "added" (with more than values), "tiled", "mixed", or "" otherwise."""
    v, share = random(2, one.kv_heads, OPENS, one.shown, seed=3), one.heads // one.kv_heads
    empty = _shown(code, one, torch.zeros_like(v))
    out, each = _shown(code, one, v) - empty, v.repeat_interleave(share, 1)
    if mixes_own_values_only(out, each):
        return "right" if empty.abs().max() < SAME else "added"
    if mixes_own_values_only(out, torch.cat([v] * share, 1)):
        return "tiled"
    pairs = (
        (with_heads_and_tokens_swapped(out), each),
        (out.mT.reshape(out.shape), each),
        (out, with_heads_and_tokens_swapped(v).repeat_interleave(share, 1)),
    )
    if any(mixes_own_values_only(*pair) for pair in pairs):
        return "mixed"
    first = _shown(code, one, v * (torch.arange(OPENS) == 0)[:, None])  # at place 0 nothing moves
    return "right" if mixes_own_values_only((first - empty)[:, :, :1], each) else ""


def _shown(code: Code, one: Projections | latent.Latent, v: Tensor) -> Tensor:
    """Return what comes out (b, h, t, d) for values, where all queries and keys are 0."""
    v = torch.nn.functional.pad(v, (0, one.dim - one.shown))
    q, k = torch.zeros(len(v), one.heads, OPENS, one.dim), torch.zeros_like(v)
    x, (laid, back) = one.set(q, k, v), _laid(code)
    if "r" in str(code.call.order):  # a grid of 4 tokens may be too small
        x = torch.cat((x, x, x, x), 1)
    made = code.fresh()(**_embedded(code, laid(x)), positions=torch.arange(OPENS))  # afresh: no cache of 4 tokens
    out = back(first_result(made))[:, :OPENS, : one.heads * one.shown]
    return out.unflatten(-1, (one.heads, -1)).transpose(1, 2).detach()


def _heads(code: Code) -> list[int]:
    """Return how many heads the module may have, as it says itself."""
    module = code.module
    places = (module, getattr(module, "config", None))
    said = [getattr(place, name, None) for place in places for name in OWN_HEADS.split()]
    return list(dict.fromkeys([*(one for one in said if type(one) is int and one), code.heads]))


def _comes_plain(code: Code, module: nn.Module) -> bool:
    """Let the layers of a module that takes q, k and v (b, t, h * d) hand them through; tell whether they do."""
    for part in module.modules():
        if isinstance(part, nn.Linear) and part.in_features == part.out_features:
            Layer([part]).set(torch.eye(part.out_features))
    v = random(2, code.heads, 1, code.dim // code.heads, seed=3).expand(-1, -1, OPENS, -1)
    none = torch.zeros_like(v)
    comes, _ = attempt(lambda: mixes_own_values_only(first_result(code.apply(q=none, k=none, v=v)), v))
    return bool(comes)


def naming(k: Tensor, dim: int) -> Tensor:
    """Return values (b, h, s, d) of which each names its key, by a channel of its own."""
    return torch.eye(k.shape[2], dim, dtype=k.dtype).expand(*k.shape[:2], -1, -1).contiguous()


class Case(NamedTuple):
    """What the checks share: the code and its sizes, the attention that it is, which keys each query (t) sees (s)."""

    code: Code
    dim: int
    heads: int
    attend: Attention
    seen: Tensor = torch.ones(T, T)

    @property
    def causal(self) -> bool:
        """Whether no query sees keys ahead of it."""
        return not looks_ahead(self.seen)

    @property
    def shown(self) -> int:
        """How many channels of a head come out."""
        return self.attend.opened.shown if self.attend.opened else self.dim

    def inputs(self, seed: int, t: int = T, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
        """Return random q, k, v."""
        if self.attend.alone:
            x = random(2, self.heads, t, self.dim, seed=seed, dtype=dtype)
            return x, x, x
        counts = (self.heads, self.attend.kv_heads, self.attend.kv_heads)
        q, k, v = (random(2, h, t, self.dim, seed=3 * seed + i, dtype=dtype) for i, h in enumerate(counts))
        v[..., self.shown :] = 0  # what does not come out
        return q, k, v


def looks_ahead(seen: Tensor) -> bool:
    """Tell whether a query sees a key ahead of it, by which keys (s) each query (t) sees."""
    return bool(seen.triu(1).any())


def case_of(code: Code) -> Case:
    """Return the case of an attention that is called afresh."""
    attend = Attention(code.fresh())
    return Case(code, attend.dim, attend.heads, attend)


def with_heads_and_tokens_swapped(x: Tensor) -> Tensor:
    """Return (b, h, t, d) as if its numbers had been laid out as (b, t, h, d), or the other way round."""
    return x.transpose(1, 2).reshape(x.shape)


def mixes_own_values_only(result: Tensor, v: Tensor) -> bool:
    """Tell whether each head of the result is a sum of its own values, by whatever weights, and none is 0."""
    weights = torch.linalg.lstsq(v.mT.double(), result.mT.double()).solution
    none_is_zero = bool(torch.linalg.matrix_norm(result).all())
    return none_is_zero and relative_difference(v.mT.double() @ weights, result.mT.double()) < 2e-2
