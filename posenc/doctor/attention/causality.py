"""Examine which keys a query sees: those ahead, its own, those of a window, under a mask that may be inverted."""

import inspect
import re
from typing import Any

import torch
from torch import Tensor, nn

from posenc.doctor.attempt import attempt
from posenc.doctor.attention.measure import NOTICED, Attention, Case, T, looks_ahead
from posenc.doctor.report import Finding, note, passed, wrong

OFF_BY = "the diagonal of the mask is off. Hide all keys with a place above the query's, tril(diagonal=s - t)"
NAMED = re.compile(r"(?<![Nn]on)(?<!^B[iI])(Causal|Autoregressive)(?!Conv)")
ALIKE = 0.9  # of the queries: the last of a block may see none ahead
WIDE, FIRST = 8, 5  # keys
WINDOWS = ("sliding_window", "sliding_window_size", "context")


def other_at(case: Case, parts: tuple[Tensor, Tensor, Tensor], places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same with other keys and values where `places` (t,) is true; of embeddings, all is other."""
    new = case.inputs(seed=14, t=len(places))
    q, k, v = (torch.where(places[:, None], other, one) for other, one in zip(new, parts, strict=True))
    same, *_ = parts
    return (q if case.attend.alone else same), k, v


def seen_by(case: Case, **given: Any) -> Tensor:
    """Return which keys (s) each query (t) sees."""
    parts = case.inputs(seed=1)
    before = case.attend.at(*parts, **given)
    after = [case.attend.at(*other_at(case, parts, one), **given) for one in torch.eye(T).bool()]
    return torch.stack([(each - before).abs().nan_to_num().amax((0, 1, 3)) > NOTICED for each in after], 1)


def _keys_ahead(seen: Tensor) -> int:
    """Return how many keys ahead of it a query sees, if nearly all see as many and see further back; else 0."""
    ahead, behind = seen.triu(1).sum(1), seen.tril(-1).sum(1)
    (by, *_), (*_, back) = ahead.tolist(), behind.tolist()
    alike = (ahead == torch.tensor([*reversed(range(T))]).clamp(max=by)).float()
    return by if by < min(back, WIDE) and alike.mean() > ALIKE else 0


def future(case: Case) -> Finding:
    """Say whether a query sees keys ahead of it, and whether `causal` is heeded."""
    if case.code.takes("causal"):
        return _heeds_causal(case)
    if by := _keys_ahead(case.seen):
        words = f"each query sees all keys behind it and {by} ahead, so training leaks the answer: {OFF_BY}"
        return wrong("future-seen", words, by)
    if case.causal:
        return _itself(case)
    if odd := _ahead_only(case):
        return odd
    if _says_causal(case):
        words = "every query sees every key, and the module says that it is causal: training leaks the answer"
        return wrong("future-seen", words)
    return note("every query sees every key: right for an encoder only")


def _says_causal(case: Case) -> bool:
    """Tell whether the code, or the one attention that it calls, names itself causal."""
    captured = [*getattr(case.code.function, "captured", ())]
    owners = (case.code.function, *(captured if len(captured) == 1 else ()))
    said = [getattr(owner, name, None) for owner in owners for name in ("is_causal", "causal")]
    return any(one is True for one in [*said, *map(_named_causal, owners)])


def _named_causal(owner: Any) -> bool:
    """Tell whether a module is causal by name, and not by a mask that comes from outside."""
    if not isinstance(owner, nn.Module) or not NAMED.search(type(owner).__name__):
        return False
    return not any("mask" in name or "bias" in name for name in inspect.signature(owner.forward).parameters)


def _ahead_only(case: Case) -> Finding | None:
    """Look whether keys ahead are seen where those behind are not, or not all of them."""
    if case.attend.alone:
        return None
    _, *itself_or_ahead = case.seen.triu().any(1).tolist()
    if not any(itself_or_ahead):
        words = "a query does not see its own key, and the first, which has no other, sees all: one key less to hide"
        return wrong("self-hidden", words)
    _, *behind, _ = case.seen.tril(-1).any(1).tolist()  # the last, which has none ahead, may see all
    if not any(behind):
        words = "each query sees the keys ahead and none behind: the mask is inverted"
        return wrong("mask-inverted", f"{words}. Fill where it says hidden, not where it says seen")
    first, *_, last = case.seen
    if first.all() and not last[:FIRST].any():
        words = f"a query sees {int(last.sum()) - 1} keys behind and all ahead: the window is open to the future"
        return wrong("future-seen", f"{words}. Hide the keys ahead as well")
    return None


def _told_windows(case: Case) -> list[int]:
    """Return how many keys a window has, as the code or its configuration says."""
    owners = [case.code.function, *case.code.modules]
    owners += [owner.config for owner in owners if hasattr(owner, "config")]
    said = [getattr(owner, name, None) for owner in owners for name in WINDOWS]
    return [one for one in said if type(one) is int]


def _itself(case: Case) -> Finding:
    if _hides_itself(case.seen):
        return wrong("self-hidden", "causal, and a query does not see its own key: the mask hides one key too many")
    *_, last = case.seen
    window = int(last.sum())
    if window == T or not last[-window:].all():
        return passed("causal: no query sees keys ahead")
    if window - 1 in _told_windows(case):
        words = f"a query sees {window} keys, itself among them, where the window is said to have {window - 1}"
        return wrong("mask-off-by-one", words, window)
    return passed(f"causal: no query sees keys ahead, a window of {window} keys")


def _hides_itself(seen: Tensor) -> bool:
    """Tell whether no query sees its own key; the first, which may have no other, is not asked."""
    _, *itself = seen.diagonal().tolist()
    return not any(itself)


def _heeds_causal(case: Case) -> Finding:
    seen = seen_by(case, causal=True)
    if looks_ahead(seen):
        if _is_hint(case):
            return note("causal=True alone hides nothing; training refuses it: it hints at a mask. Give that as well")
        by = _keys_ahead(seen)
        how = f", {by} of them: {OFF_BY}" if by else ""
        words = f"with causal=True a query still sees keys ahead of it{how}: training leaks the answer"
        return wrong("future-seen", words, by)
    if _hides_itself(seen):
        return wrong("self-hidden", "with causal=True a query does not see its own key: one key too many is hidden")
    if looks_ahead(seen_by(case, causal=False)):
        return passed("causal=True hides the keys ahead")
    return note("causal=True hides the keys ahead, and so does causal=False")


def _is_hint(case: Case) -> bool:
    """Tell whether a module that trains refuses `causal` alone, as torch's does: there it hints at a mask."""
    attend = Attention(case.code.fresh())
    if attend.code.module is not None:
        attend.code.module.train()
    _, refused = attempt(attend.at, *case.inputs(seed=1), causal=True)
    return bool(refused)
