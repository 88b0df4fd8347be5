"""Examine a bias on the logits, or the slopes of one: its sign, what it depends on, ALiBi's slopes, decoding, dtype."""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc.checkup.patient import Patient, attempt, far
from posenc.checkup.report import Finding, findings
from posenc.checkup.slopes import slopes

SIZE = 24
MERGED = "neighbors share a number: positions are rounded before they are subtracted, or clipped"


class Bias:
    """The bias as a function of the queries' and keys' places: (h, t, s)."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.reach = "positions" if patient.takes("positions") else "length" if patient.takes("length") else "heads"

    def __call__(self, queries: Tensor, keys: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return the bias of `queries` (t,) to `keys` (s,), which run from 0 where lengths only can be told."""
        given: dict = {} if dtype is None else {"dtype": dtype}
        if self.patient.takes("score"):
            heads = torch.arange(self.patient.settings["heads"]).view(-1, 1, 1)
            zeros = torch.zeros(len(heads), len(queries), len(keys), dtype=dtype or torch.float32)
            places = {"positions": queries.view(-1, 1), "key_positions": keys.view(1, -1)}
            return self.patient(score=zeros, b=torch.tensor(0), h=heads, **places)
        if self.reach == "positions":
            made = self.patient(positions=queries, key_positions=keys, **given)
        else:
            made = self.patient(length=len(queries), key_length=len(keys), **given)
        made = made[0] if made.ndim == 4 else made
        made = made[None] if made.ndim == 2 else made
        return made.expand(-1, len(queries), -1)

    @property
    def pairs(self) -> bool:
        """Whether queries and keys can be told apart."""
        return self.patient.takes("score") or any(self.patient.takes(role) for role in ("key_positions", "key_length"))


class Case(NamedTuple):
    """What the checks share: the bias, its numbers (h, t, s) in float64 on equal places, heads."""

    bias: Bias
    square: Tensor
    heads: int

    def behind(self) -> Tensor:
        """Return the bias of the last query by distance, (h, t): 0 is the query's own place."""
        return self.square[:, -1].flip(-1)


def accepts(patient: Patient, dim: int, heads: int) -> bool:
    """Tell whether the code can be called as a bias or as slopes."""
    bias, places = Bias(patient), torch.arange(6)
    if bias.reach == "heads":
        made = patient() if patient.takes("heads") else None
        return isinstance(made, Tensor) and made.numel() == heads
    made = bias(places, places)
    return isinstance(made, Tensor) and made.ndim == 3 and made.shape[-2:] == (6, 6)


def examine(patient: Patient, dim: int, heads: int) -> list[Finding]:
    """Return the findings on a bias, or on slopes if the code takes heads only."""
    bias = Bias(patient)
    if bias.reach == "heads":
        return slopes(lambda n: patient.fresh({"heads": n})().flatten().double(), heads, True, patient.heads_asked)
    places = torch.arange(SIZE)
    case = Case(bias, bias(places, places).double(), heads)
    return findings((offsets, sign, ahead, read_slopes, decoding, rounding, far_positions), case)


def _toeplitz(square: Tensor) -> float:
    finite = torch.where(square.isfinite(), square, 0.0)
    one, other = finite[:, 1:, 1:], finite[:, :-1, :-1]
    seen = square.isfinite()[:, 1:, 1:] & square.isfinite()[:, :-1, :-1]
    return float(((one - other) * seen).abs().max() / finite.abs().max().clamp(min=1e-9))


def offsets(case: Case) -> Finding:
    """Check that the bias depends on the offset of a key only, up to a constant of each query."""
    if not case.square.nan_to_num(0, 0, 0).any():
        return Finding("offsets", "note", "every number is 0: not trained yet, or no bias at all", 0.0)
    uneven = _toeplitz(case.square)
    if uneven < 1e-4:
        return Finding("offsets", "ok", "depends on the offset of query and key only", uneven)
    level = case.square - case.square.diagonal(dim1=1, dim2=2)[..., None]
    if _toeplitz(level) < 1e-4:
        return Finding(
            "offsets",
            "note",
            "depends on the offset and on a constant of each query, which softmax does not see "
            "(slope * key, as in BLOOM and MPT)",
            uneven,
        )
    return Finding(
        "offsets",
        "wrong",
        f"pairs at one offset differ by {uneven:.2g} of the largest: it depends on absolute "
        "places. Make it from key - query",
        uneven,
    )


def sign(case: Case) -> Finding:
    """Check that keys lose weight with distance."""
    falls = case.behind().diff(dim=-1)
    falls = falls[:, : SIZE - 1]
    if (falls.nan_to_num() <= 1e-9).all() and falls.nan_to_num().any():
        return Finding("sign", "ok", "the further back a key, the larger its penalty", float(falls.max()))
    if (falls >= -1e-9).all() and falls.any():
        if not _linear(falls) and _turned_by_a_parameter(case.bias):
            return Finding("sign", "note", "far keys win so far, by parameters that training can turn: learned")
        return Finding(
            "sign",
            "wrong",
            f"the further back a key, the larger its bonus (+{float(falls.max()):.3g} a step): the "
            "sign is reversed and far keys win. Add slope * (key - query), which is negative behind, or subtract "
            "slope * distance",
            float(falls.max()),
        )
    return Finding("sign", "note", "neither grows nor falls with distance throughout: learned, or not a decay")


def _linear(falls: Tensor) -> bool:
    return bool(falls.isfinite().all()) and far(falls, falls[:, :1].expand_as(falls)) <= 1e-3


def _turned_by_a_parameter(bias: Bias) -> bool:
    """Tell whether the sign is learned: negating one of the parameters makes near keys win in some head."""
    places = torch.arange(SIZE)
    for name in bias.patient.learned():
        other = Bias(bias.patient.with_negated(name))
        if (other(places, places)[:, -1].flip(-1).diff(dim=-1) < 0).any():
            return True
    return False


def ahead(case: Case) -> Finding:
    """Say what keys ahead of the query get."""
    first = case.square[:, 0, 1:]
    if torch.isneginf(first).all():
        return Finding("ahead", "ok", "causal: keys ahead get -inf")
    level = case.square - case.square.diagonal(dim1=1, dim2=2)[..., None]
    if far(level, level.mT) < 1e-6:
        return Finding(
            "ahead", "ok", "symmetric: keys ahead are treated like keys behind; hide them if the model is causal"
        )
    if (first.diff(dim=-1) > 0).any() and (case.behind().diff(dim=-1) <= 0).all():
        return Finding("ahead", "note", "keys ahead get a bonus that grows: right only under a causal mask")
    return Finding(
        "ahead", "note", "keys ahead and behind are treated differently; right only if that is meant, or hidden"
    )


def read_slopes(case: Case) -> Finding | list[Finding]:
    """Read the slopes of a bias that falls linearly and compare them with ALiBi's."""
    falls = -case.behind().diff(dim=-1)
    if not _linear(falls) or (falls[:, 0] == 0).any():
        return Finding("slopes", "note", "not linear in distance, so there are no slopes to compare with ALiBi's")
    patient = case.bias.patient
    many = patient.takes("heads") or isinstance(patient.source, type)

    def measured(heads: int) -> Tensor:
        made = Bias(patient.fresh({"heads": heads}))(torch.arange(4), torch.arange(4)).double()
        return (made[:, 3, 3] - made[:, 3, 2]).abs()

    return slopes(measured, case.heads, many, patient.heads_asked)


def decoding(case: Case) -> Finding:
    """Compare one query after its keys with the last row of all."""
    if not case.bias.pairs:
        return Finding(
            "decoding",
            "not checked",
            "needs positions or lengths of queries and keys apart; until then take the last rows while decoding",
        )
    places = torch.arange(SIZE)
    alone, level = case.bias(places[-1:], places).double(), case.square - case.square[..., -1:]
    moved = alone - alone[..., -1:]
    if far(moved[:, 0], level[:, -1]) < 1e-4 or far(alone[:, 0], case.square[:, -1]) < 1e-4:
        return Finding("decoding", "ok", "one query after its keys gets the last row", 0.0)
    first = far(alone[:, 0], case.square[:, 0]) < 1e-4
    why = "the first row: the query is aligned with the first key" if first else "another row than the last"
    return Finding(
        "decoding",
        "wrong",
        f"one query after {SIZE} keys gets {why}. Place queries at the last of the keys: "
        "query position = keys - queries + i",
        far(alone[:, 0], case.square[:, -1]),
    )


def rounding(case: Case) -> Finding:
    """Look for neighbors that share a number in bfloat16."""
    patient = case.bias.patient
    places = torch.arange(512)
    right = case.bias(places, places).double()[:, -1, -32:].diff(dim=-1)
    if patient.takes("dtype") or patient.takes("score"):
        made = case.bias(places, places, torch.bfloat16)
    elif patient.module is not None:
        made = Bias(patient.cast(torch.bfloat16))(places, places)
    else:
        made = case.bias(places, places)
    if made.dtype not in (torch.bfloat16, torch.float16) and patient.module is None:
        return Finding("rounding", "not checked", "needs a parameter dtype, or a module to cast")
    off = float((made.double()[:, -1, -32:].diff(dim=-1) - right).abs().max() / right.abs().max().clamp(min=1e-9))
    if off > 0.5:
        return Finding(
            "rounding",
            "wrong",
            f"in bfloat16 the step between near keys is off by {off:.2g} of itself after 500 "
            "tokens: large numbers are rounded before they are subtracted. Subtract positions first, as integers "
            "or in float32",
            off,
        )
    return Finding("rounding", "ok", f"in bfloat16 the steps between near keys stay within {off:.2g}", off)


def far_positions(case: Case) -> Finding:
    """Compare the bias far out with the one near 0."""
    if case.bias.reach != "positions":
        return Finding("far positions", "not checked", "needs a parameter for positions")
    places = torch.arange(SIZE)
    near = case.square - case.square[..., :1]
    for start in (10_000, 1_000_000, 2**25):
        made, failed = attempt(case.bias, places + start, places + start)
        if failed:
            return Finding("far positions", "note", f"position {start:,} raises {failed}")
        moved = made.double() - made.double()[..., :1]
        off = float(
            (moved - near).nan_to_num(0, 0, 0).abs().max() / near.nan_to_num(0, 0, 0).abs().max().clamp(min=1e-9)
        )
        merged = ((moved.diff(dim=-1) == 0) & (near.diff(dim=-1).nan_to_num(0, 0, 0) != 0)).any()
        if merged and start < 2**24:
            return Finding("far positions", "wrong", f"from position {start:,} on {MERGED}", off)
        if off > 1e-2:
            words = (
                f"from position {start:,} on the numbers are others, by {off:.2g}: they depend on where the query is"
            )
            return Finding("far positions", "note", words, off)
    return Finding("far positions", "ok", "the same at 2^25 as at 0", off)
