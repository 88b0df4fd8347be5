"""Examine a bias on the logits, or the slopes of one: its sign, what it depends on, ALiBi's slopes, decoding, dtype."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.diagnosis.call import Code, attempt
from posenc.diagnosis.compare import far
from posenc.diagnosis.report import Finding, findings, note, ok, unchecked, wrong
from posenc.diagnosis.slopes import compared_with_alibi

SIZE = 24


class Bias:
    """The bias as a function of the queries' and keys' places: (h, t, s)."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.told_by = next((role for role in ("positions", "length") if code.takes(role)), "heads")

    def __call__(self, queries: Tensor, keys: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return the bias of `queries` (t,) to `keys` (s,), which run from 0 where lengths only can be told."""
        if self.code.takes("score"):
            return self._of_scores(queries, keys, dtype or torch.float32)
        given: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
        if self.told_by == "positions":
            made = self.code(positions=queries, key_positions=keys, **given)
        else:
            made = self.code(length=len(queries), key_length=len(keys), **given)
        made = made[0] if made.ndim == 4 else made
        made = made[None] if made.ndim == 2 else made
        return made.expand(-1, len(queries), -1)

    def _of_scores(self, queries: Tensor, keys: Tensor, dtype: torch.dtype) -> Tensor:
        heads = torch.arange(self.code.heads).view(-1, 1, 1)
        zeros = torch.zeros(len(heads), len(queries), len(keys), dtype=dtype)
        places = {"positions": queries.view(-1, 1), "key_positions": keys.view(1, -1)}
        return self.code(score=zeros, b=torch.tensor(0), h=heads, **places)

    def near(self, start: int = 0) -> Tensor:
        """Return the bias among `SIZE` tokens from place `start` on, in float64."""
        places = torch.arange(start, start + SIZE)
        return self(places, places).double()


class Case(NamedTuple):
    """What the checks share: the code, the bias that it is, its numbers (h, t, s) in float64 for the first places."""

    code: Code
    bias: Bias
    square: Tensor

    @property
    def behind(self) -> Tensor:
        """The bias of the last query by distance, (h, t): 0 is the query's own place."""
        return self.square[:, -1].flip(-1)

    @property
    def level(self) -> Tensor:
        """The numbers without a constant of each query: 0 at its own place."""
        return self.square - self.square.diagonal(dim1=1, dim2=2)[..., None]


def accepts(code: Code) -> bool:
    """Tell whether the code can be called as a bias or as slopes."""
    bias, places = Bias(code), torch.arange(6)
    if bias.told_by == "heads":
        made = code() if code.takes("heads") else None
        return isinstance(made, Tensor) and made.numel() == code.heads
    made = bias(places, places)
    return isinstance(made, Tensor) and made.ndim == 3 and made.shape[-2:] == (6, 6)


def examine(code: Code) -> list[Finding]:
    """Return the findings on a bias, or on slopes if the code takes heads only."""
    bias = Bias(code)
    if bias.told_by == "heads":
        return compared_with_alibi(
            lambda n: code.fresh(heads=n)().flatten().double(), code.heads, True, code.heads_asked
        )
    case = Case(code, bias, bias.near())
    return findings((offsets, sign, ahead, slopes, decoding, rounding, far_positions), case)


def _unevenness(square: Tensor) -> float:
    """Return how much the numbers change along diagonals, relative to the largest."""
    finite, seen = torch.where(square.isfinite(), square, 0.0), square.isfinite()
    step = (finite[:, 1:, 1:] - finite[:, :-1, :-1]) * (seen[:, 1:, 1:] & seen[:, :-1, :-1])
    return float(step.abs().max() / finite.abs().max().clamp(min=1e-9))


def offsets(case: Case) -> Finding:
    """Check that the bias depends on the offset of a key only, up to a constant of each query."""
    if not case.square.nan_to_num(0, 0, 0).any():
        return note("every number is 0: not trained yet, or no bias at all", 0.0)
    uneven = _unevenness(case.square)
    if uneven < 1e-4:
        return ok("depends on the offset of query and key only", uneven)
    if _unevenness(case.level) < 1e-4:
        return note(
            "depends on the offset and on a constant of each query, which softmax does not see "
            "(slope * key, as in BLOOM and MPT)",
            uneven,
        )
    return wrong(
        f"pairs at one offset differ by {uneven:.2g} of the largest: it depends on absolute places. "
        "Make it from key - query",
        uneven,
    )


def sign(case: Case) -> Finding:
    """Check that keys lose weight with distance."""
    steps = case.behind.diff(dim=-1)
    largest = float(steps.max())
    if (steps.nan_to_num() <= 1e-9).all() and steps.nan_to_num().any():
        return ok("the further back a key, the larger its penalty", largest)
    if not ((steps >= -1e-9).all() and steps.any()):
        return note("neither grows nor falls with distance throughout: learned, or not a decay")
    if not _linear(steps) and _sign_is_learned(case.bias):
        return note("far keys win so far, by parameters that training can turn: learned")
    return wrong(
        f"the further back a key, the larger its bonus (+{largest:.3g} a step): the sign is reversed and far keys "
        "win. Add slope * (key - query), which is negative behind, or subtract slope * distance",
        largest,
    )


def _linear(steps: Tensor) -> bool:
    return bool(steps.isfinite().all()) and far(steps, steps[:, :1].expand_as(steps)) <= 1e-3


def _sign_is_learned(bias: Bias) -> bool:
    """Tell whether negating one of the parameters makes near keys win in some head."""
    for name in bias.code.learned:
        other = Bias(bias.code.fresh())
        other.code.learned[name].neg_()
        if (other.near()[:, -1].flip(-1).diff(dim=-1) < 0).any():
            return True
    return False


def ahead(case: Case) -> Finding:
    """Say what keys ahead of the query get."""
    first = case.square[:, 0, 1:]
    if torch.isneginf(first).all():
        return ok("causal: keys ahead get -inf")
    if far(case.level, case.level.mT) < 1e-6:
        return ok("symmetric: keys ahead are treated like keys behind; hide them if the model is causal")
    if (first.diff(dim=-1) > 0).any() and (case.behind.diff(dim=-1) <= 0).all():
        return note("keys ahead get a bonus that grows: right only under a causal mask")
    return note("keys ahead and behind are treated differently; right only if that is meant, or hidden")


def slopes(case: Case) -> Finding | list[Finding]:
    """Read the slopes of a bias that falls linearly and compare them with ALiBi's."""
    steps = case.behind.diff(dim=-1)
    if not _linear(steps) or (steps[:, 0] == 0).any():
        return note("not linear in distance, so there are no slopes to compare with ALiBi's")
    code = case.code

    def measured(heads: int) -> Tensor:
        made = Bias(code.fresh(heads=heads))(torch.arange(4), torch.arange(4)).double()
        return (made[:, 3, 3] - made[:, 3, 2]).abs()

    any_number = code.takes("heads") or isinstance(code.source, type)
    return compared_with_alibi(measured, code.heads, any_number, code.heads_asked)


def decoding(case: Case) -> Finding:
    """Compare one query after its keys with the last row of all."""
    code = case.code
    if not any(code.takes(role) for role in ("score", "key_positions", "key_length")):
        return unchecked(
            "needs positions or lengths of queries and keys apart; until then take the last rows while decoding"
        )
    places = torch.arange(SIZE)
    alone = case.bias(places[-1:], places).double()[:, 0]
    first, last = case.square[:, 0], case.square[:, -1]
    if far(alone - alone[:, -1:], last - last[:, -1:]) < 1e-4 or far(alone, last) < 1e-4:
        return ok("one query after its keys gets the last row", 0.0)
    aligned = far(alone, first) < 1e-4
    why = "the first row: the query is aligned with the first key" if aligned else "another row than the last"
    return wrong(
        f"one query after {SIZE} keys gets {why}. Place queries at the last of the keys: "
        "query position = keys - queries + i",
        far(alone, last),
    )


def rounding(case: Case) -> Finding:
    """Look for neighbors that share a number in bfloat16."""
    code, places = case.code, torch.arange(512)
    if code.takes("dtype") or code.takes("score"):
        made = case.bias(places, places, torch.bfloat16)
    else:
        made = Bias(code.cast(torch.bfloat16))(places, places)
    if code.module is None and made.dtype not in (torch.bfloat16, torch.float16):
        return unchecked("needs a parameter dtype, or a module to cast")
    steps, right = (one.double()[:, -1, -32:].diff(dim=-1) for one in (made, case.bias(places, places)))
    off = float((steps - right).abs().max() / right.abs().max().clamp(min=1e-9))
    if off > 0.5:
        return wrong(
            f"in bfloat16 the step between near keys is off by {off:.2g} of itself after 500 tokens: large numbers "
            "are rounded before they are subtracted. Subtract positions first, as integers or in float32",
            off,
        )
    return ok(f"in bfloat16 the steps between near keys stay within {off:.2g}", off)


def far_positions(case: Case) -> Finding:
    """Compare the bias far out with the one near 0."""
    if case.bias.told_by != "positions":
        return unchecked("needs a parameter for positions")
    near, off = case.square - case.square[..., :1], 0.0
    largest = near.nan_to_num(0, 0, 0).abs().max().clamp(min=1e-9)
    for start in (10_000, 1_000_000, 2**25):
        made, failed = attempt(case.bias.near, start)
        if failed:
            return note(f"position {start:,} raises {failed}")
        moved = made - made[..., :1]
        off = float((moved - near).nan_to_num(0, 0, 0).abs().max() / largest)
        merged = (moved.diff(dim=-1) == 0) & (near.diff(dim=-1).nan_to_num(0, 0, 0) != 0)
        if merged.any() and start < 2**24:
            cause = "neighbors share a number: positions are rounded before they are subtracted, or clipped"
            return wrong(f"from position {start:,} on {cause}", off)
        if off > 1e-2:
            words = f"the numbers are others, by {off:.2g}: they depend on where the query is"
            return note(f"from position {start:,} on {words}", off)
    return ok("the same at 2^25 as at 0", off)
