"""Examine which keys a query sees: those ahead, its own, those of a window, under a mask that may be inverted."""

import inspect
import re
from typing import Any

import torch
from torch import Tensor, nn

from posenc.diagnosis.attentions.attend import Attention, Case, T
from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.compare import far
from posenc.diagnosis.report import Finding, note, ok, wrong

OFF_BY = "the diagonal of the mask is off. Hide all keys with a place above the query's, tril(diagonal=s - t)"
NAMED = re.compile(r"(?<![Nn]on)(?<!^B[iI])(Causal|Autoregressive)(?!Conv)")
ALIKE = 0.9  # of the queries: the last of a block may see none ahead
WINDOWS = ("sliding_window", "sliding_window_size", "context")


def _before_and_after(case: Case, places: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
    """Return the result, and the one for other keys and values at some places."""
    q, k, v = case.inputs(1)
    more = torch.zeros(T, 1).index_fill(0, places, 1.0) * torch.linspace(-1, 1, q.shape[3])  # what no norm takes away
    other = (q + more if case.attend.alone else q, k + more, v + more)
    return case.attend.at(q, k, v, **given), case.attend.at(*other, **given)


def sees_ahead(case: Case, **given: Any) -> bool:
    """Tell whether the first tokens hang on the last, parted at two places: one may lie between blocks."""
    for start in (T // 2, T // 2 - 3):
        before, after = _before_and_after(case, torch.arange(start, T), **given)
        if far(after[:, :, :start], before[:, :, :start]) > 1e-4:
            return True
    return False


def _seen(case: Case, **given: Any) -> Tensor:
    """Return which keys (s) each query (t) sees."""
    pairs = [_before_and_after(case, torch.tensor([place]), **given) for place in range(T)]
    return torch.stack([(after - before).abs().nan_to_num(1).amax((0, 1, 3)) > 1e-5 for before, after in pairs], 1)


def _keys_ahead(case: Case, **given: Any) -> int:
    """Return how many keys ahead of it a query sees, if nearly all see as many and see further back; else 0."""
    seen = _seen(case, **given)
    ahead = (seen * torch.arange(1, T + 1)).amax(1) - 1 - torch.arange(T)
    by, back = int(ahead[0]), T - 1 - int(seen[-1].long().argmax())
    return by if 0 < by < min(back, T // 2) and float((ahead[: T - by] == by).float().mean()) > ALIKE else 0


def future(case: Case) -> Finding:
    """Say whether a query sees keys ahead of it, and whether `causal` is heeded."""
    if case.code.takes("causal"):
        return _heeds_causal(case)
    if by := _keys_ahead(case):
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
    if any(getattr(owner, name, None) is True for owner in owners for name in ("is_causal", "causal")):
        return True
    return any(_named_causal(owner) for owner in owners)


def _named_causal(owner: Any) -> bool:
    """Tell whether a module is causal by name, and not by a mask that comes from outside."""
    if not isinstance(owner, nn.Module) or not NAMED.search(type(owner).__name__):
        return False
    return not any("mask" in name or "bias" in name for name in inspect.signature(owner.forward).parameters)


def _ahead_only(case: Case) -> Finding | None:
    """Look whether keys ahead are seen where those behind are not, or not all of them."""
    if case.attend.alone:
        return None
    seen = _seen(case)
    behind, ahead = (torch.ones(T, T).tril(-1).bool(), torch.ones(T, T).triu(1).bool())
    if not seen[1:].triu(1).any():
        words = "a query does not see its own key, and the first, which has no other, sees all: one key less to hide"
        return wrong("self-hidden", words)
    if not seen[1 : T - 1][behind[1 : T - 1]].any() and seen[ahead].all():
        words = "each query sees the keys ahead and none behind: the mask is inverted"
        return wrong("mask-inverted", f"{words}. Fill where it says hidden, not where it says seen")
    if seen[ahead].all() and not seen[-1, : T // 4].any() and seen.diagonal().all():
        words = f"a query sees {int(seen[-1].sum()) - 1} keys behind and all ahead: the window is open to the future"
        return wrong("future-seen", f"{words}. Hide the keys ahead as well")
    return None


def _told_window(case: Case) -> int | None:
    """Return how many keys a window has, as the code or its configuration says."""
    owners = [case.code.function, *case.code.parts]
    owners += [owner.config for owner in owners if hasattr(owner, "config")]
    said = [getattr(owner, name, None) for owner in owners for name in WINDOWS]
    return next((one for one in said if type(one) is int and one > 1), None)


def _itself(case: Case) -> Finding:
    seen = _seen(case)
    if not case.attend.alone and not seen.diagonal()[1:].any():
        return wrong("self-hidden", "causal, and a query does not see its own key: the mask hides one key too many")
    window = int(seen[-1].sum())
    if window < T and seen[-1, -window:].all() and window - 1 == _told_window(case):
        words = f"a query sees {window} keys, itself among them, where the window is said to have {window - 1}"
        return wrong("mask-off-by-one", words, window)
    near = f", a window of {window} keys" if window < T and seen[-1, -window:].all() else ""
    return ok(f"causal: no query sees keys ahead{near}")


def _heeds_causal(case: Case) -> Finding:
    if sees_ahead(case, causal=True):
        if _is_hint(case):
            return note("causal=True alone hides nothing; training refuses it: it hints at a mask. Give that as well")
        by = _keys_ahead(case, causal=True)
        how = f", {by} of them: {OFF_BY}" if by else ""
        words = f"with causal=True a query still sees keys ahead of it{how}: training leaks the answer"
        return wrong("future-seen", words, by)
    if not _seen(case, causal=True).diagonal()[1:].any():
        return wrong("self-hidden", "with causal=True a query does not see its own key: one key too many is hidden")
    if sees_ahead(case, causal=False):
        return ok("causal=True hides the keys ahead")
    return note("causal=True hides the keys ahead, and so does causal=False")


def _is_hint(case: Case) -> bool:
    """Tell whether a module that trains refuses `causal` alone, as torch's does: there it hints at a mask."""
    attend = Attention(case.code.fresh())
    if attend.code.module is None:
        return False
    attend.code.module.train()
    _, refused = attempt(attend.at, *case.inputs(1), causal=True)
    return bool(refused)
