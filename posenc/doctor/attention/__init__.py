"""Examine an attention: order, future, decoding, what is done to values, scale, padding, grouped heads, dtype."""

import re
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.attention import cache, heads, rotation_inside, weights
from posenc.doctor.attention.causality import future, other_at, seen_by
from posenc.doctor.attention.measure import SAME, Case, T, case_of
from posenc.doctor.attention.padding import check_padding, lengths_of_texts
from posenc.doctor.call import angle_tables
from posenc.doctor.call.axes import SHOWN
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, run_checks, with_check_name, wrong

MOVED = 2e-3  # what rounded angles do not reach, also far out
FAR, SEVERAL = 5_003, 5
OTHER = 17  # tokens, where there are T heads
SHUFFLED = torch.tensor([*reversed(range(T - 1)), T - 1])  # the last token stays
PROMISES = (
    ("bias-lost", re.compile(r"alibi|linear_?bias", re.I), "ALiBi"),
    ("positions-ignored", re.compile(r"rope(?!r)|rotary", re.I), "a rotation"),
)
NO_CACHE = (
    "needs a parameter cache and a result (out, cache); keys that were rotated before they came in cannot be seen"
)
PLACED = (
    "padding on the left that is hidden changes the real tokens, while distances stay: the result hangs on places. Are "
    "queries and keys turned alike?"
)
CLOSED = (
    "takes embeddings and its projections were not found, so weights are not seen: scale, values and offsets are not "
    "examined. Name them q_proj, k_proj, v_proj and o_proj, or hand in fn(q, k, v)"
)


def accepts(code: Code) -> bool:
    """Tell whether the code can be called as an attention."""
    case = case_of(code)
    t = OTHER if case.heads == T else T  # positions that broadcast against heads by mistake shall not fit
    parts, (q, k, v) = (case.inputs(seed=0, t=t) for _ in range(2))  # twice, since code may write into its input
    made = case.attend.at(q, k, v)
    if getattr(made, "shape", None) != q.shape:
        return False
    first = torch.arange(t) < SEVERAL
    after = case.attend.at(*other_at(case, parts, first))
    return (
        relative_difference(after[:, :, ~first], made[:, :, ~first]) > SAME
    )  # an inverted mask is none of those that are tried


def is_sound(code: Code) -> bool:
    """Tell whether moving all tokens changes nothing: among several forms of tables, the one that fits."""
    return _moved_by(case_of(code), 100) < MOVED


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on an attention with heads of `dim` channels, and what was examined."""
    case = case_of(code)
    about = _about(case)
    first = run_checks((heads.finite, heads.rests), case) or run_checks((heads.heads, heads.batch), case)
    if any(finding.verdict == "wrong" for finding in first):
        rest = with_check_name(not_checked("repair that first, then ask again"), "everything else")
        return [*first, rest], about
    case = case._replace(seen=seen_by(case))
    case.attend.learn_whose_positions(*case.inputs(seed=6))
    found, inside_of = _of_weights(case)
    cached = cache.examine(case) if code.takes("cache") else [with_check_name(not_checked(NO_CACHE), "cache")]
    return [*first, *found, *cache.held(case), *cached], about | inside_of


def _about(case: Case) -> dict[str, Any]:
    code, attend = case.code, case.attend
    about = {"axes": SHOWN[code.call.order or ("bhtd" if code.takes("v") else "btd")]}
    if attend.alone:
        about["sizes"] = f"embeddings of {case.dim} channels"
    elif (bool(attend.opened), case.heads, case.dim) != (False, code.heads, code.dim):
        about["sizes"] = f"{case.heads} head{'s' * (case.heads != 1)} of {case.dim} channels"
    if attend.opened:
        about["opened"] = f"q, k and v brought in by the projections of {attend.kv_heads} heads of keys"
    if code.call.table_form:
        about["angles"] = f"angles of the doctor, {code.call.table_form}"
    return about


def _of_weights(case: Case) -> tuple[list[Finding], dict[str, Any]]:
    """Return what the result shows, and where weights can be read what they show, with the rotation inside."""
    if case.attend.alone:
        found = run_checks((future, order, shift, check_padding, lengths_of_texts, weights.half_precision), case)
        return [*_explained(found, case), with_check_name(not_checked(CLOSED), "weights")], {}
    decodes = () if case.code.takes("cache") or case.attend.opened else (decoding,)
    found = run_checks((future, order, shift, *decodes, check_padding, lengths_of_texts, *weights.CHECKS), case)
    turned, about = rotation_inside.rotation(case)
    return _explained([*found, *turned], case), about


def _explained(found: list[Finding], case: Case) -> list[Finding]:
    """Return the findings, and of padding that moves the tokens after it whether another fault alone may do so."""
    moved = next((one for one in found if one.id == "padding-counted"), None)
    if moved is None:
        return found
    later = not_checked("padding that is hidden moves the tokens after it: repair the rest first, then ask again")
    if not any(one.verdict == "wrong" and one is not moved for one in found):
        if not any(named_so.search(_names(case)) for _, named_so, _ in PROMISES):
            return found
        later = wrong("absolute", PLACED, moved.number)
    return [with_check_name(later, "padding") if one is moved else one for one in found]


def order(case: Case) -> Finding:
    """Say whether the order of the tokens before it matters to the last query."""
    parts = case.inputs(seed=2)
    q, k, v = (part[:, :, SHUFFLED] for part in parts)
    off = relative_difference(_of_last(case.attend.at(q, k, v)), _of_last(case.attend.at(*parts)))
    if off > SAME:
        return passed("sees the order of the keys", off)
    due = any((case.code.needs("positions"), case.code.call.table_form))
    if getattr(case.code.function, "turns", due) and _moved_by(case, 100) < SAME:
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


def _of_last(made: Tensor) -> Tensor:
    """Return the result (b, h, d) of the last query."""
    *_, last = made.unbind(2)
    return last


def _names(case: Case) -> str:
    """Return the names that the code gives to what it makes itself: its classes, parts, buffers and variables."""
    code, inner = case.code, getattr(case.code.function, "__code__", None)
    if {"positions", *angle_tables.ROLES} & {*code.roles}:
        return ""
    names = [*(inner.co_names + inner.co_varnames if inner else ())]
    for part in code.modules:
        names += [type(part).__name__, *part._modules, *part._buffers, *part._parameters]
    return " ".join(names)


def _moved_by(case: Case, start: int) -> float:
    """Return how much changes where all tokens are moved together."""
    parts = case.inputs(seed=5)
    return relative_difference(case.attend.at(*parts, start=start), case.attend.at(*parts))


def shift(case: Case) -> Finding:
    """Check that moving all tokens together changes nothing."""
    if not case.attend.placed:
        return not_checked("needs parameters for positions and key_positions")
    off = _moved_by(case, 100)
    if off >= MOVED and _told_apart(case):
        words = f"moving all tokens together changes the result by {off:.2g}, and at one position they are told apart"
        return wrong("sides-differ", f"{words}: given positions reach queries only, or keys only", off)
    if off >= MOVED:
        return wrong(
            "absolute",
            f"moving all tokens together changes the result by {off:.2g}: something absolute is in it. "
            "A learned or added table left in beside the rotation?",
            off,
        )
    further, failed = attempt(_moved_by, case, FAR)
    if not failed and further > MOVED:
        return wrong(
            "clipped",
            f"moving all tokens by 100 changes nothing, by {FAR:,} it changes the result by {further:.2g}: "
            "positions are clipped, or rounded to a coarse dtype",
            further,
        )
    return passed("moving all tokens together changes nothing", off)


def _told_apart(case: Case) -> bool:
    """Tell whether the order of keys matters where all tokens are given one position."""
    q, k, v = case.inputs(seed=5)
    places = torch.full((T,), 7)
    before, after = (
        case.attend(q, *others, positions=places, key_positions=places)
        for others in ((k, v), (k[:, :, SHUFFLED], v[:, :, SHUFFLED]))
    )
    return relative_difference(_of_last(after), _of_last(before)) > MOVED


def decoding(case: Case) -> Finding:
    """Compare the last query alone, and where they see nothing ahead the last several, with the last of all."""
    q, k, v = case.inputs(seed=6)
    whole, alone = case.attend.at(q, k, v), case.attend.at(q[:, :, -1:], k, v)
    off = relative_difference(alone, whole[:, :, -1:])
    if case.causal:
        off = max(off, relative_difference(case.attend.at(q[:, :, -SEVERAL:], k, v), whole[:, :, -SEVERAL:]))
    if off < SAME:
        return passed("the last query alone gets what it gets among all", off)
    if relative_difference(alone, v[:, :, :1]) < SAME:
        return wrong(
            "decode-aligned-first",
            f"one query after {T} keys sees the first key only: queries are aligned with the first keys, as "
            "is_causal=True of scaled_dot_product_attention does. Align them with the last, or leave the mask out "
            "for one query",
            off,
        )
    if not case.causal and not case.attend.places_queries:
        return note(f"a query alone is taken for the first token (by {off:.2g}): right for an encoder only")
    return wrong(
        "offset-ignored",
        f"the last query alone, after all {T} keys, differs by {off:.2g} from the last of all: it is taken for the "
        "first token. Place queries at the last of the keys",
        off,
    )
