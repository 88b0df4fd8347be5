"""Examine a bias that is learned by buckets of distance, as T5's: near offsets apart, far ones together."""

import torch
from torch import Tensor

from posenc.diagnosis.biases.square import Case
from posenc.diagnosis.calling.told import told
from posenc.diagnosis.report import Finding, note, ok, wrong

LONG = 400


def widen(case: Case) -> Finding | None:
    """Check that buckets widen with the distance, on both sides."""
    steps = case.behind.diff(dim=-1)
    if not (steps == 0).all(0).any() and not case.code.learned:
        return None
    places = torch.arange(LONG)
    square = case.bias(places, places).double()
    sides = {"behind": square[:, -1].flip(-1), "ahead": square[:, 0]}
    counts = []
    for name, line in sides.items():
        runs = _runs(line)
        if len(runs) > 2 and (narrowed := _narrowed(name, runs)):
            return narrowed
        counts += [f"{len(runs)} numbers {name}"] if len(runs) > 2 else []
    if not counts:
        return None
    words = f"buckets widen with the distance: {', '.join(counts)} within {LONG}"
    return _symmetric(case, sides) or _ends(case, sides) or ok(words)


def _narrowed(name: str, runs: list[int]) -> Finding | None:
    """Return that fewer neighbors share a number further off than nearer, if so; the last run ends with the text."""
    place = next((i for i in range(1, len(runs) - 1) if runs[i] < runs[i - 1] - 1), 0)
    if not place:
        return None
    words = (
        f"keys {name}: {runs[place - 1]} neighboring distances share a number and the next ones, further off, only "
        f"{runs[place]}. Buckets widen with the distance: exact ones first, then logarithmic"
    )
    return wrong("buckets-wrong", words, place)


def _ends(case: Case, sides: dict[str, Tensor]) -> Finding | None:
    """Compare where the last bucket begins with the distance that the code names."""
    said = told(case.code, ("max_distance", "relative_attention_max_distance", "rel_pos_max_distance"))
    runs = _runs(sides["behind"])
    begins = sum(runs[:-1])
    if said is None or said > LONG or said / 2 <= begins <= said:
        return None
    words = (
        f"the last bucket begins at distance {begins}, and the code says {said:,.0f}: the logarithm has another scale"
    )
    return wrong("buckets-wrong", words, begins)


def _symmetric(case: Case, sides: dict[str, Tensor]) -> Finding | None:
    behind, ahead = sides["behind"][:, 1:], sides["ahead"][:, 1:]
    if behind.abs().max() and torch.equal(behind, ahead) and len(_runs(behind)) > 3:
        owner = getattr(case.code.function, "__self__", case.code.function)
        if getattr(owner, "is_decoder", None) is False or getattr(owner, "bidirectional", False):
            words = "keys ahead share the numbers of keys behind, and the code says that both directions are told apart"
            return wrong("one-direction-lost", words)
        return note("keys ahead share the numbers of keys behind: right where the direction is hidden anyhow")
    return None


def _runs(line: Tensor) -> list[int]:
    """Return how many neighbors share a number, run by run, nearest first."""
    changes = (line[:, 1:] != line[:, :-1]).any(0).nonzero().flatten() + 1
    ends = torch.cat((changes, torch.tensor([line.shape[1]])))
    return ends.diff(prepend=torch.tensor([0])).tolist()


CHECKS = (widen,)
