"""Call an attention of any signature on queries, keys and values (b, h, t, d) at known places."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc.diagnosis.attentions import latent
from posenc.diagnosis.attentions.projections import Layer, Projections, found
from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.call import Code, first_of
from posenc.diagnosis.calling.order import EMBEDDED, FOR_EMBEDDINGS
from posenc.diagnosis.compare import crossed, far, of_its_own, random

T = 16
OPENS = 4  # tokens that show whether projections are the ones they are taken for
NEAR = 2e-2
OWN_HEADS = "heads n_heads num_heads n_head nhead num_attention_heads n_local_heads num_key_value_heads h"


class Attention:
    """An attention as a function of q, k, v (b, h, t, d), or of x (b, t, d) alone.

    `opened` is how q, k and v are brought into code that takes x and projects it itself.
    """

    def __init__(self, code: Code) -> None:
        joined = code.module if code.way.order in ("btd", "tbd") and code.takes("v") else None
        self.alone = not code.takes("v") or joined is not None
        self.of_keys = False
        probe = code.fresh() if self.alone else code  # so that what is not opened keeps its weights
        self.opened, self.strange = _opened(probe) if self.alone else (None, "")
        self.code, self.adds = probe if self.opened else code, self.strange == "added"
        self.dim, self.heads, self.kv_heads = code.dim, code.heads, code.heads
        if self.opened:
            self.alone = False
            self.dim, self.heads, self.kv_heads = self.opened.dim, self.opened.heads, self.opened.kv_heads
        elif joined is not None and not [*joined.parameters()]:
            self.alone = False
            self.heads = self.kv_heads = 1
        elif joined is not None:
            self.alone = not (_made_plain(joined) and _comes_plain(code))
            self.dim = code.dim if self.alone else code.dim // code.heads

    @property
    def placed(self) -> bool:
        """Whether positions of both queries and keys can be told."""
        both = self.alone or self.opened or self.of_keys or self.code.takes("key_positions")
        return self.code.takes("positions") and bool(both)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        """Return the result (b, h, t, d) for arguments by role."""
        return first_of(self.whole(q, k, v, **given))

    def whole(self, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Any:
        """Return all that comes back, the result (b, h, t, d) first."""
        if self.opened:
            return self._joined(self.opened.set(q, k, v), q.shape[1], self.opened.shown, given)
        if self.alone:
            return self._joined(q.transpose(1, 2).flatten(2), q.shape[1], q.shape[3], given)
        return self.code.on(q=q, k=k, v=v, heads=q.shape[1], **given)

    def part(self, q: Tensor, k: Tensor, v: Tensor, start: int, end: int, **given: Any) -> Any:
        """Return all that comes back for some of the tokens, with projections for all: a cache may rely on them."""
        if not self.opened:
            return self.whole(*(part[:, :, start:end] for part in (q, k, v)), **given)
        return self._joined(self.opened.set(q, k, v)[:, start:end], q.shape[1], self.opened.shown, given)

    def _joined(self, x: Tensor, heads: int, dim: int, given: dict[str, Any]) -> Any:
        """Call with embeddings (b, t, D) and split the heads of the result."""
        laid, back = _laid(self.code)
        given = {"texts": len(x), "positions": torch.arange(x.shape[1])} | given if self.code.way.table else given
        like = laid(x)
        made = self.code(**_embedded(self.code, like), **given)
        out, rest = first_of(made), made[1:] if isinstance(made, tuple) else ()
        if not isinstance(out, Tensor) or out.ndim != like.ndim:
            return out
        out = back(out)[..., : heads * dim].unflatten(-1, (heads, -1)).transpose(1, 2)
        missing = self.opened.dim - dim if self.opened else 0
        return torch.nn.functional.pad(out, (0, missing)), *rest

    def at(self, q: Tensor, k: Tensor, v: Tensor, start: int = 0, **given: Any) -> Tensor:
        """Return the result for keys from place `start` on and queries at the last, where places can be told."""
        keys = start + torch.arange(k.shape[2])
        queries = keys[k.shape[2] - q.shape[2] :]
        positions = keys if self.of_keys else queries
        return self(q, k, v, positions=positions, key_positions=keys, offset=int(queries[0]), **given)

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the weights (b, h, t, s), read off by values that name their key."""
        s = k.shape[2]
        v = torch.eye(s, self.dim, dtype=k.dtype).expand(*k.shape[:2], -1, -1).contiguous()
        made = self.at(q, k, v)
        return (made - self.at(q, k, torch.zeros_like(v)) if self.adds else made)[..., :s].double()

    def learn_whose_positions(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        """Find out whether positions are those of the queries or of all keys, where the code takes one for both."""
        if self.alone or self.opened or not self.code.takes("positions") or self.code.takes("key_positions"):
            return
        whole = self.at(q, k, v)[:, :, -3:]
        for self.of_keys in (False, True):
            made, failed = attempt(self.at, q[:, :, -3:], k, v)
            if not failed and far(made, whole) < 1e-4:
                return
        self.of_keys = False


def _laid(code: Code) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Return how embeddings (b, t, D) are laid as the code takes them, and back."""
    return EMBEDDED.get(code.way.order or "btd", EMBEDDED["btd"])


def _embedded(code: Code, x: Tensor) -> dict[str, Tensor]:
    """Return embeddings by role: once, or for each of queries, keys and values, or for queries and all else."""
    return dict.fromkeys("qkv", x) if code.takes("v") else {"x": x, "other": x}


def _opened(code: Code) -> tuple[Projections | latent.Latent | None, str]:
    """Return the projections of a module if values that are set come out of their own heads, else how they do."""
    module, strange = code.module, ""
    if module is not None and any(nn.parameter.is_lazy(p) for p in module.parameters()):
        x = torch.zeros(1, OPENS, code.dim)  # what is lazy takes its width from the first call
        attempt(code, **_embedded(code, x), positions=torch.arange(OPENS))
    for place, heads in enumerate(_heads(code)):
        for one in () if module is None else itertools.chain(found(module, heads), latent.found(module, heads)):
            if one.width < 2 * T:
                return None, ""
            comes = _comes_out(code, one)
            if comes in ("right", "added"):
                return one, comes
            strange = strange or comes
        if strange and place == 0:  # half as many heads, twice as wide, could seem right
            break
    return None, strange


def _comes_out(code: Code, one: Projections | latent.Latent) -> str:
    """Tell how values come out: "right", "added" (with more than values), "tiled", "mixed", or "" otherwise."""
    v = random(2, one.kv_heads, OPENS, one.dim, seed=3)
    v[..., one.shown :] = 0
    (made, failed), (empty, _) = (attempt(_shown, code, one, part) for part in (v, torch.zeros_like(v)))
    if failed or made is None or not (made - empty).isfinite().all():
        return ""
    share = one.heads // one.kv_heads
    out, v = made - empty, v[..., : one.shown]
    each = v.repeat_interleave(share, 1)
    if of_its_own(out, each):
        return "right" if far(empty, torch.zeros_like(empty)) < 1e-4 else "added"
    if of_its_own(out, v.repeat(1, share, 1, 1)):
        return "tiled"
    ways = [crossed(out), *([out.mT.reshape(out.shape)] if code.way.order == "bdt" else [])]
    if any(of_its_own(one, each) for one in ways) or of_its_own(out, crossed(v).repeat_interleave(share, 1)):
        return "mixed"
    if far(out[:, :, 0], each[:, :, 0]) < NEAR:
        return "right"  # the first sees itself alone, the others moved
    alone, failed = attempt(_shown, code, one, v * (torch.arange(OPENS) == 0)[:, None])  # at place 0 nothing moves
    return "right" if not failed and alone is not None and of_its_own(alone - empty, each) else ""


def _shown(code: Code, one: Projections | latent.Latent, v: Tensor) -> Tensor | None:
    """Return what comes out (b, h, t, d) for values, where all queries and keys are 0."""
    q, k = torch.zeros(2, one.heads, OPENS, one.dim), torch.zeros(2, one.kv_heads, OPENS, one.dim)
    x, (laid, back) = one.set(q, k, v), _laid(code)
    like = laid(x.repeat(1, T // OPENS, 1) if code.way.order in FOR_EMBEDDINGS[1:] else x)
    out = first_of(
        code.fresh()(**_embedded(code, like), positions=torch.arange(OPENS), texts=2)
    )  # no cache of 4 tokens
    if not isinstance(out, Tensor) or out.ndim != like.ndim or back(out).shape[-1] < one.heads * one.shown:
        return None
    return back(out)[:, :OPENS, : one.heads * one.shown].unflatten(-1, (one.heads, -1)).transpose(1, 2).detach()


def _heads(code: Code) -> list[int]:
    """Return how many heads the module may have, as it says itself."""
    module = code.module
    places = (module, getattr(module, "config", None))
    said = [getattr(place, name, None) for place in places for name in OWN_HEADS.split()]
    return list(dict.fromkeys([*(one for one in said if type(one) is int and one > 0), code.heads]))


def _made_plain(module: nn.Module) -> bool:
    """Let the projections of a module that takes q, k and v (b, t, h * d) hand them through; tell whether they do."""
    made = False
    joined = getattr(module, "in_proj_weight", None)
    if isinstance(joined, nn.Parameter) and joined.shape[0] == 3 * joined.shape[1]:
        joined.data, made = torch.eye(joined.shape[1], dtype=joined.dtype).repeat(3, 1), True
    for _, part in module.named_modules():
        weight = getattr(part, "weight", None)
        if isinstance(part, nn.Linear) and part.in_features != part.out_features:
            return False
        if isinstance(weight, Tensor) and weight.ndim == 2 and weight.shape[0] == weight.shape[1]:
            Layer([part]).set(torch.eye(len(weight)))
            made = True
    return made


def _comes_plain(code: Code) -> bool:
    """Tell whether values that are handed in come out of their own heads, and do not with other values alone."""
    v = random(2, code.heads, OPENS, code.dim // code.heads, seed=3)
    out, failed = attempt(lambda: first_of(code.on(q=torch.zeros_like(v), k=torch.zeros_like(v), v=v)))
    return not failed and isinstance(out, Tensor) and out.shape == v.shape and of_its_own(out, v)


class Case(NamedTuple):
    """What the checks share: the code and its sizes, the attention that it is, whether that is causal."""

    code: Code
    dim: int
    heads: int
    attend: Attention
    causal: bool = False

    @property
    def shown(self) -> int:
        """How many channels of a head come out."""
        return self.attend.opened.shown if self.attend.opened else self.dim

    def inputs(self, seed: int = 0, t: int = T, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
        """Return random q, k, v."""
        if self.attend.alone:
            x = random(2, self.heads, t, self.dim // self.heads, seed=seed, dtype=dtype)
            return x, x, x
        counts = (self.heads, self.attend.kv_heads, self.attend.kv_heads)
        q, k, v = (random(2, h, t, self.dim, seed=3 * seed + i, dtype=dtype) for i, h in enumerate(counts))
        v[..., self.shown :] = 0  # what does not come out
        return q, k, v


def case_of(code: Code) -> Case:
    """Return the case of an attention that is called afresh."""
    attend = Attention(code.fresh())
    return Case(code, attend.dim, attend.heads, attend)
