"""Examine an attention: order, future, decoding, what is done to values, scale, padding, grouped heads, dtype."""

import re
from typing import Any

import torch
from torch import Tensor

from posenc.diagnosis.attentions import caching, heads, inside, weights
from posenc.diagnosis.attentions.attend import Case, T, case_of
from posenc.diagnosis.attentions.padding import padding
from posenc.diagnosis.calling import angles
from posenc.diagnosis.calling.call import Code, attempt
from posenc.diagnosis.calling.order import SHOWN
from posenc.diagnosis.compare import far
from posenc.diagnosis.report import Finding, findings, named, note, ok, unchecked, wrong

FAR = 5_003
PROMISES = (
    ("bias-lost", re.compile(r"alibi|linear_?bias", re.I), "ALiBi"),
    ("positions-ignored", re.compile(r"rope(?!r)|rotary", re.I), "a rotation"),
)
WINDOWS = ("sliding_window", "sliding_window_size", "context")
OFF_BY = "the diagonal of the mask is off. Hide all keys with a place above the query's, tril(diagonal=s - t)"
NO_CACHE = (
    "needs a parameter cache and a result (out, cache); keys that were rotated before they came in cannot be seen"
)
CLOSED = (
    "takes embeddings and its projections were not found, so weights are not seen: scale, values and offsets are not "
    "examined. Name them q_proj, k_proj, v_proj and o_proj, or hand in fn(q, k, v)"
)


def accepts(code: Code) -> bool:
    """Tell whether the code can be called as an attention."""
    case = case_of(code)
    t = T + 1 if case.heads == T else T  # positions that broadcast against heads by mistake shall not fit
    q, k, v = case.inputs(t=t)
    made = case.attend.at(q, k, v)
    if not isinstance(made, Tensor) or made.ndim != 4 or made.shape[:3] != q.shape[:3]:
        return False
    q, k, v = (part.index_fill(2, torch.tensor([0]), 1.0) for part in (q, k, v))
    return far(case.attend.at(q, k, v)[:, :, 1:], made[:, :, 1:]) > 1e-6


def sound(code: Code) -> bool:
    """Tell whether moving all tokens changes nothing: among several forms of tables, the one that fits."""
    case = case_of(code)
    q, k, v = case.inputs(5)
    return far(case.attend.at(q, k, v, 100), case.attend.at(q, k, v)) < 1e-3


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on an attention with heads of `dim` channels, and what was examined."""
    case = case_of(code)
    about = _about(case)
    first = findings((heads.rests,), case) or findings((heads.heads, heads.batch), case)
    if any(finding.verdict == "wrong" for finding in first):
        rest = named(unchecked("repair that first, then ask again"), "everything else")
        return [*first, rest], about
    case = case._replace(causal=not _sees_ahead(case))
    case.attend.learn_whose_positions(*case.inputs(6))
    found, inside_of = _of_weights(case)
    cached = caching.examine(case) if code.takes("cache") else [named(unchecked(NO_CACHE), "cache")]
    return [*first, *found, *caching.held(case), *cached], about | inside_of


def _about(case: Case) -> dict[str, Any]:
    code, attend = case.code, case.attend
    about = {"axes": SHOWN[code.way.order or ("bhtd" if code.takes("v") else "btd")]}
    if attend.alone:
        about["sizes"] = f"embeddings of {case.dim} channels"
    elif attend.opened or case.heads != code.heads or case.dim != code.dim:
        about["sizes"] = f"{case.heads} head{'s' * (case.heads != 1)} of {case.dim} channels"
    if attend.opened:
        about["opened"] = f"q, k and v brought in by the projections of {attend.kv_heads} heads of keys"
    if code.way.table:
        about["angles"] = f"angles of the doctor, {code.way.table}"
    return about


def _of_weights(case: Case) -> tuple[list[Finding], dict[str, Any]]:
    """Return what the result shows, and where weights can be read what they show, with the rotation inside."""
    if case.attend.alone:
        return [*findings((future, order, shift, padding, weights.half_precision), case), _closed()], {}
    decodes = () if case.code.takes("cache") or case.attend.opened else (decoding,)
    found = findings((future, order, shift, *decodes, padding, *weights.CHECKS), case)
    turned, about = inside.rotation(case)
    return [*found, *turned], about


def _closed() -> Finding:
    return named(unchecked(CLOSED), "weights")


def _before_and_after(case: Case, places: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
    """Return the result, and the one for other keys and values at some places."""
    q, k, v = case.inputs(1)
    more = torch.zeros(T, 1).index_fill(0, places, 1.0)
    other = (q + more if case.attend.alone else q, k + more, v + more)
    return case.attend.at(q, k, v, **given), case.attend.at(*other, **given)


def _sees_ahead(case: Case, **given: Any) -> bool:
    before, after = _before_and_after(case, torch.arange(T // 2, T), **given)
    return far(after[:, :, : T // 2], before[:, :, : T // 2]) > 1e-4


def _seen(case: Case, **given: Any) -> Tensor:
    """Return which keys (s) each query (t) sees."""
    pairs = [_before_and_after(case, torch.tensor([place]), **given) for place in range(T)]
    return torch.stack([(after - before).abs().nan_to_num(1).amax((0, 1, 3)) > 1e-5 for before, after in pairs], 1)


def _keys_ahead(case: Case, **given: Any) -> int:
    """Return how many keys ahead of it each query sees, if all see as many and see further back than that; else 0."""
    seen = _seen(case, **given)
    ahead = (seen * torch.arange(1, T + 1)).amax(1) - 1 - torch.arange(T)
    by, back = int(ahead[0]), T - 1 - int(seen[-1].long().argmax())
    return by if 0 < by < min(back, T // 2) and bool((ahead[: T - by] == by).all()) else 0


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
    return any(getattr(owner, name, None) is True for owner in owners for name in ("is_causal", "causal"))


def _ahead_only(case: Case) -> Finding | None:
    """Look whether keys ahead are seen where those behind are not, or not all of them."""
    if case.attend.alone:
        return None
    seen = _seen(case)
    behind, ahead = (torch.ones(T, T).tril(-1).bool(), torch.ones(T, T).triu(1).bool())
    if not seen[1 : T - 1][behind[1 : T - 1]].any() and seen[ahead].all():
        words = "each query sees the keys ahead and none behind: the mask is inverted"
        return wrong("mask-inverted", f"{words}. Fill where it says hidden, not where it says seen")
    if seen[ahead].all() and not seen[-1, : T // 4].any() and seen.diagonal().all():
        words = f"a query sees {int(seen[-1].sum()) - 1} keys behind and all ahead: the window is open to the future"
        return wrong("future-seen", f"{words}. Hide the keys ahead as well")
    return None


def _told_window(case: Case) -> int | None:
    """Return how many keys a window has, as the code or its configuration says."""
    owners = [case.code.function, *(() if case.code.module is None else case.code.module.modules())]
    owners += [owner.config for owner in owners if hasattr(owner, "config")]
    said = [getattr(owner, name, None) for owner in owners for name in WINDOWS]
    return next((one for one in said if type(one) is int and one > 1), None)


def _itself(case: Case) -> Finding:
    seen = _seen(case)
    if not case.attend.alone and not seen.diagonal()[1:].any() and seen.any():
        return wrong("self-hidden", "causal, and a query does not see its own key: the mask hides one key too many")
    if not seen.any():
        return note("no query sees any key's content change: nothing to see order by")
    window = int(seen[-1].sum())
    if window < T and seen[-1, -window:].all() and window - 1 == _told_window(case):
        words = f"a query sees {window} keys, itself among them, where the window is said to have {window - 1}"
        return wrong("mask-off-by-one", words, window)
    near = f", a window of {window} keys" if window < T and seen[-1, -window:].all() else ""
    return ok(f"causal: no query sees keys ahead{near}")


def _heeds_causal(case: Case) -> Finding:
    if _sees_ahead(case, causal=True):
        by = _keys_ahead(case, causal=True)
        how = f", {by} of them: {OFF_BY}" if by else ""
        words = f"with causal=True a query still sees keys ahead of it{how}: training leaks the answer"
        return wrong("future-seen", words, by)
    if not _seen(case, causal=True).diagonal()[1:].any():
        return wrong("self-hidden", "with causal=True a query does not see its own key: one key too many is hidden")
    if _sees_ahead(case, causal=False):
        return ok("causal=True hides the keys ahead")
    return note("causal=True hides the keys ahead, and so does causal=False")


def order(case: Case) -> Finding:
    """Say whether the order of the keys matters to the last query."""
    q, k, v = case.inputs(2)
    mixed = torch.tensor([*reversed(range(T - 1)), T - 1])
    if case.attend.alone:
        before, after = case.attend.at(q, k, v), case.attend.at(q[:, :, mixed], k[:, :, mixed], v[:, :, mixed])
    else:
        q = q if case.causal or case.attend.opened else q[:, :, -1:]
        before, after = case.attend.at(q, k, v), case.attend.at(q, k[:, :, mixed], v[:, :, mixed])
    off = far(after[:, :, -1:], before[:, :, -1:])
    if off > 1e-4:
        return ok("sees the order of the keys", off)
    turns = getattr(case.code.function, "turns", case.code.needs("positions") or case.code.way.table is not None)
    if turns and case.code.takes("positions") and _unmoved(case):
        words = "positions are taken and change nothing, and shuffled keys give the same: they do not arrive"
        return wrong("positions-ignored", words, off)
    for cause, named_so, what in PROMISES:
        if named_so.search(_names(case)):
            words = f"shuffled keys give the same, while the code speaks of {what}: nothing of it reaches the weights"
            return wrong(cause, words, off)
    hint = "; the causal mask alone tells order to a deep stack" if case.causal else ""
    return note(
        "blind to order: shuffled keys give the same, so position has to come from outside "
        f"(an added table, or q and k already rotated){hint}",
        off,
    )


def _names(case: Case) -> str:
    """Return the names that the code gives to what it makes itself: its classes, parts, buffers and variables."""
    code, inner = case.code, getattr(case.code.function, "__code__", None)
    given = {*code.roles.values()} if code.takes("positions") or {*angles.ROLES} & {*code.roles} else set()
    names = [*(inner.co_names + inner.co_varnames if inner else ())]
    for part in () if code.module is None else code.module.modules():
        names += [type(part).__name__, *part._modules, *part._buffers, *part._parameters]
    return " ".join(names) if not given else ""


def _unmoved(case: Case) -> bool:
    """Tell whether positions in another order give the same."""
    q, k, v = case.inputs(2)
    keys = torch.tensor([*reversed(range(T - 1)), T - 1])
    made, failed = attempt(case.attend, q, k, v, positions=keys, key_positions=keys)
    return not failed and far(made, case.attend.at(q, k, v)) < 1e-4


def shift(case: Case) -> Finding:
    """Check that moving all tokens together changes nothing."""
    if not case.attend.placed:
        return unchecked("needs parameters for positions and key_positions")
    q, k, v = case.inputs(5)
    before = case.attend.at(q, k, v)
    off = far(case.attend.at(q, k, v, 100), before)
    if off >= 1e-3 and case.attend.opened and not case.code.way.table and _told_apart(case):
        words = f"moving all tokens together changes the result by {off:.2g}, and at one position they are told apart"
        return wrong("sides-differ", f"{words}: given positions reach queries only, or keys only", off)
    if off >= 1e-3:
        return wrong(
            "absolute",
            f"moving all tokens together changes the result by {off:.2g}: something absolute is in it. "
            "A learned or added table left in beside the rotation?",
            off,
        )
    made, failed = attempt(case.attend.at, q, k, v, FAR)
    if not failed and (further := far(made, before)) > 1e-2:
        return wrong(
            "clipped",
            f"moving all tokens by 100 changes nothing, by {FAR:,} it changes the result by {further:.2g}: "
            "positions are clipped, or rounded to a coarse dtype",
            further,
        )
    return ok("moving all tokens together changes nothing", off)


def _told_apart(case: Case) -> bool:
    """Tell whether the order of keys matters where all tokens are given one position."""
    q, k, v = case.inputs(5)
    places, mixed = torch.full((T,), 7), torch.tensor([*reversed(range(T - 1)), T - 1])
    before, after = (
        case.attend(q, keys, values, positions=places, key_positions=places)
        for keys, values in ((k, v), (k[:, :, mixed], v[:, :, mixed]))
    )
    return far(after[:, :, -1], before[:, :, -1]) > 1e-3


def decoding(case: Case) -> Finding:
    """Compare the last query alone, and the last three, with the last of all."""
    q, k, v = case.inputs(6)
    whole = case.attend.at(q, k, v)
    alone, three = (case.attend.at(q[:, :, -n:], k, v) for n in (1, 3))
    off_alone = far(alone, whole[:, :, -1:])
    off = max(off_alone, far(three, whole[:, :, -3:]))
    if off < 1e-4 or (not case.causal and off_alone < 1e-4):
        return ok("the last query alone gets what it gets among all", off)
    if far(alone, v[:, :, :1]) < 1e-4:
        return wrong(
            "decode-aligned-first",
            f"one query after {T} keys sees the first key only: queries are aligned with the first keys, as "
            "is_causal=True of scaled_dot_product_attention does. Align them with the last, or leave the mask out "
            "for one query",
            off,
        )
    if not case.causal and not any(case.code.takes(role) for role in ("causal", "offset", "positions")):
        return note(f"a query alone is taken for the first token (by {off:.2g}): right for an encoder only")
    return wrong(
        "offset-ignored",
        f"the last query alone, after all {T} keys, differs by {off:.2g} from the last of all: it is taken for the "
        "first token. Place queries at the last of the keys",
        off,
    )
