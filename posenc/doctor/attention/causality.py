"""Examine which keys a query sees, and what positions do: masks, windows, order, moved tokens, one query alone."""

import inspect
import math
import re
import time

import torch
from torch import Tensor, nn

from posenc.doctor.attention.measure import LAST, TOLERANCE, Attention, AttentionRecord, T, result_in, visible_keys
from posenc.doctor.call import angle_tables
from posenc.doctor.numerics import is_finite, not_finite, relative_difference, worst
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.safe_call import attempt

DIAGONAL = "the diagonal of the mask is off. Hide all keys with a position above the query's, tril(diagonal=s - t)"
ONE_TOO_MANY = "does not see its own key: the mask hides one key too many"
CAUSAL_NAME = re.compile(r"(?<![Nn]on)(?<!^B[iI])(Causal|Autoregressive)(?!Conv)")  # not NonCausal, BiCausal
WINDOW_NAMES = ("sliding_window", "sliding_window_size", "context")
FEW_AHEAD, FIRST_KEYS = 8, 5
MOVE, FAR = 100, 5_003  # FAR is no multiple of the usual lengths of tables
VERY_FAR = (20_000, 100_000, 1_000_000)
SLOW = 0.03  # s of a call, after which none is made farther out
ANGLE_TOLERANCE = 2e-3  # more than the rounding of angles changes, also at FAR
SHUFFLED = torch.tensor([*reversed(range(T - 1)), T - 1])  # the last token stays
PROMISES = (  # by names in the code: the cause if it does not arrive, and what was promised
    ("bias-lost", re.compile(r"alibi|linear_?bias", re.I), "ALiBi"),
    ("positions-ignored", re.compile(r"rope(?!r)|rotary", re.I), "a rotation"),
)


def future(record: AttentionRecord) -> Finding:
    """Check whether a query sees keys ahead of it, and whether the argument `causal` is heeded."""
    if record.code.takes("causal"):
        return _causal_argument(record)
    # A few keys ahead are a mask that is off; all of them are an encoder's, unless its name says causal.
    ahead = _keys_ahead(record.visible)
    if ahead:
        return wrong("future-seen", f"each query sees {ahead} of the keys ahead, so training leaks: {DIAGONAL}", ahead)
    if record.is_causal:
        return _own_key_and_window(record)
    # Where embeddings alone can be changed, a token always seems to see itself: by its query, or by a residual.
    finding = None if record.attention.takes_embeddings_only else _fault_of_mask(record.visible)
    if finding:
        return finding
    if _declares_causal(record):
        return wrong("future-seen", "every query sees every key in a module that is named causal: training leaks")
    return note("every query sees every key: right for an encoder only")


def _causal_argument(record: AttentionRecord) -> Finding:
    visible = _visible_if(record.attention, causal=True)  # (t, s)
    if visible.triu(1).any():
        if _needs_mask_too(record):
            return note("causal=True alone hides nothing, and training refuses it: it hints at a mask. Pass that too")
        ahead = _keys_ahead(visible)
        detail = f", {ahead} of them: {DIAGONAL}" if ahead else ""
        return wrong("future-seen", f"with causal=True a query sees keys ahead of it{detail}: training leaks", ahead)
    if _hides_own_key(visible):
        return wrong("self-hidden", f"with causal=True a query {ONE_TOO_MANY}")
    if _visible_if(record.attention, causal=False).triu(1).any():
        return passed("causal=True hides the keys ahead")
    return note("causal=True hides the keys ahead, and so does causal=False")


def _visible_if(attention: Attention, causal: bool) -> Tensor:
    return visible_keys(attention, attention.at(*attention.inputs(), causal=causal), causal=causal)


def _needs_mask_too(record: AttentionRecord) -> bool:
    """Return whether a module in training refuses `causal` alone, as torch's does: there it hints at a mask."""
    attention = record.attention.of(record.code.fresh())
    if attention.code.module is not None:
        attention.code.module.train()
    _, failed = attempt(attention.at, *attention.inputs(), causal=True)
    return bool(failed)


def _keys_ahead(visible: Tensor) -> int:
    """Return how many keys ahead of it a query sees, if nearly all see as many and see further back; else 0."""
    ahead, behind = visible.triu(1).sum(1), visible.tril(-1).sum(1)  # (t,), (t,)
    count = int(ahead[0])
    # The last queries have fewer keys ahead.
    expected = torch.arange(T).flip(0).clamp(max=count)  # (t,)
    # In attention by blocks the last query of a block may see none.
    is_same_for_most = (ahead == expected).double().mean() > 0.9
    return count if count < min(int(behind[-1]), FEW_AHEAD) and is_same_for_most else 0


def _hides_own_key(visible: Tensor) -> bool:
    # The first query may have no other key: with all keys hidden its weights may be NaN, or all equal.
    return not visible.diagonal()[1:].any()


def _own_key_and_window(record: AttentionRecord) -> Finding:
    if _hides_own_key(record.visible):
        return wrong("self-hidden", f"causal, and a query {ONE_TOO_MANY}")
    last = record.visible[-1]  # (s,)
    window = int(last.sum())
    # Gaps between the keys that are visible are no window, but a pattern such as strides.
    if window == T or not last[-window:].all():
        return passed("causal: no query sees keys ahead")
    # A declared window counts the query's own key: one more is `<=` in place of `<`.
    owners = [record.code.function, *record.code.modules]
    owners += [owner.config for owner in owners if hasattr(owner, "config")]
    declared = [getattr(owner, name, None) for owner in owners for name in WINDOW_NAMES]
    if window - 1 in declared:
        return wrong("mask-off-by-one", f"a query sees {window} keys, the declared window has {window - 1}", window)
    return passed(f"causal: no query sees keys ahead, a window of {window} keys")


def _fault_of_mask(visible: Tensor) -> Finding | None:
    """Look whether keys ahead are seen where those behind are not, or not all of them."""
    # A query with all keys hidden may get equal weights: the first one here, the last under an inverted mask.
    if not visible.triu()[1:].any():
        return wrong("self-hidden", f"a query {ONE_TOO_MANY}")
    if not visible.tril(-1)[1:-1].any():
        return wrong("mask-inverted", "each query sees the keys ahead and none behind. Fill hidden keys with -inf")
    first, last = visible[0], visible[-1]  # (s,), (s,)
    if first.all() and not last[:FIRST_KEYS].any():
        behind = int(last.sum()) - 1
        return wrong("future-seen", f"a query sees {behind} keys behind and all ahead. Hide the keys ahead as well")
    return None


def _declares_causal(record: AttentionRecord) -> bool:
    """Return whether the code, or the one attention that it calls, is causal by an attribute or its name."""
    captured = [*getattr(record.code.function, "captured", ())]
    for owner in (record.code.function, *(captured if len(captured) == 1 else ())):
        if getattr(owner, "is_causal", None) is True or getattr(owner, "causal", None) is True:
            return True
        if isinstance(owner, nn.Module) and CAUSAL_NAME.search(type(owner).__name__):
            # Where a mask may come from outside, the module need not make one.
            names = " ".join(inspect.signature(owner.forward).parameters)
            if "mask" not in names and "bias" not in names:
                return True
    return False


def order(record: AttentionRecord) -> Finding:
    """Check whether the order of the tokens before it matters to the last query."""
    attention = record.attention
    q, k, v = (part[:, :, SHUFFLED] for part in attention.inputs())
    shuffled = attention.at(q, k, v)  # (b, h, t, d)
    if finding := not_finite(shuffled, "with the keys in another order"):
        return finding
    difference = relative_difference(shuffled[:, :, -1], record.result[:, :, -1])
    if difference > TOLERANCE:
        return passed("the order of the keys changes the result", difference)
    # A set of keys and values has no order of its own: the same result means that no position reaches the weights.
    takes_positions = record.code.needs("positions") or record.code.call.table_form is not None
    if takes_positions and moved_difference(attention, record.result) < TOLERANCE:
        message = "positions are an argument, and neither they nor the order of the keys change the result"
        return wrong("positions-ignored", message, difference)
    if promise := promised_encoding(record):
        message = f"shuffled keys give the same, while names in the code promise {promise[1]}: the weights have none"
        return wrong(promise[0], message, difference)
    hint = "; in a deep stack the causal mask alone gives order" if record.is_causal else ""
    message = "shuffled keys give the same: position has to come from outside, by an added table or rotated q and k"
    return note(f"{message}{hint}", difference)


def promised_encoding(record: AttentionRecord) -> tuple[str, str] | None:
    """Return the encoding that the code makes itself, by the names of its parts and variables, after its cause."""
    code = record.code
    # What comes as an argument is not made by the code.
    if {"positions", *angle_tables.ROLES} & {*code.roles}:
        return None
    compiled = getattr(code.function, "__code__", None)
    names = [*compiled.co_names, *compiled.co_varnames] if compiled else []
    for part in code.modules:
        names += [type(part).__name__, *part._modules, *part._buffers, *part._parameters]
    for cause, pattern, encoding in PROMISES:
        if pattern.search(" ".join(names)):
            return cause, encoding
    return None


def moved_difference(attention: Attention, result: Tensor) -> float:
    """Return how much the result of the inputs changes where all tokens are moved together."""
    return relative_difference(attention.at(*attention.inputs(), start=MOVE), result)


def shift(record: AttentionRecord) -> Finding:
    """Check that moving all tokens together changes nothing."""
    attention = record.attention
    if not attention.takes_both_positions:
        return not_checked("needs parameters for positions and key_positions")
    difference = moved_difference(attention, record.result)
    if math.isinf(difference):
        return wrong("not-finite", f"at positions from {MOVE} the result holds NaN or infinity", MOVE)
    if difference < ANGLE_TOLERANCE:
        return _far_shift(record, difference)
    message = f"moving all tokens together changes the result by {difference:.2g}"
    # At one position for all, an encoding by offsets is the same for each key; a count of its own is not.
    if _order_matters_at_one_position(attention):
        return wrong("sides-differ", f"{message}: passed positions reach only queries, or only keys", difference)
    return wrong("absolute", f"{message}: is a learned or added table left beside the rotation?", difference)


def _far_shift(record: AttentionRecord, difference: float) -> Finding:
    """Check that nothing changes at a far position either, and that the result is finite however far it is."""
    attention = record.attention
    message = "moving all tokens together changes nothing"
    for start in (FAR, *VERY_FAR):
        begin = time.thread_time()
        moved, failed = attempt(attention.at, *attention.inputs(), start=start)
        if failed:  # a table has fewer positions
            break
        if finding := not_finite(moved, f"at positions from {start:,} on"):
            # In xPos queries grow as keys shrink, beyond what float32 holds.
            exact, _ = attempt(result_in, torch.float64, record, attention.inputs(), start)
            if exact is not None and is_finite(exact):
                return passed(f"{message}; from {start:,} on float32 overflows, and float64 does not", difference)
            return finding
        far_difference = relative_difference(moved, record.result)
        # Farther out, angles in float32 are rounded to more than the tolerance in sound code too.
        if start == FAR and far_difference > ANGLE_TOLERANCE:
            message = f"moving all tokens by {FAR:,} changes the result by {far_difference:.2g}, by {MOVE} it does not"
            return wrong("clipped", f"{message}: positions are clipped, or rounded to a coarse dtype", far_difference)
        # The code may make tables up to there.
        if time.thread_time() - begin > SLOW:
            break
    return passed(message, difference)


def _order_matters_at_one_position(attention: Attention) -> bool:
    q, k, v = attention.inputs()
    positions = torch.full((T,), 7)  # (t,)
    before = attention(q, k, v, positions=positions, key_positions=positions)  # (b, h, t, d)
    after = attention(q, k[:, :, SHUFFLED], v[:, :, SHUFFLED], positions=positions, key_positions=positions)
    return relative_difference(after[:, :, -1], before[:, :, -1]) > ANGLE_TOLERANCE


def decoding(record: AttentionRecord) -> Finding | None:
    """Compare the last query alone, and if they see nothing ahead the last several, with the last of all."""
    attention = record.attention
    if record.code.takes("cache") or attention.projections or attention.takes_embeddings_only:
        return None
    q, k, v = attention.inputs()
    alone = attention.at(q[:, :, -1:], k, v)  # (b, h, 1, d)
    if finding := not_finite(alone, "one query after all keys"):
        return finding
    difference = relative_difference(alone, record.result[:, :, -1:])
    # Several queries must be aligned with the last keys too: a query alone is often a case of its own in the code.
    if record.is_causal:
        several = attention.at(q[:, :, -LAST:], k, v)
        difference = worst(difference, relative_difference(several, record.result[:, :, -LAST:]))
    if difference < TOLERANCE:
        return passed("the last query alone gets what it gets among all", difference)
    # The weights of one key alone are 1, so its value comes out as it is.
    if relative_difference(alone, v[:, :, :1]) < TOLERANCE:
        message = f"one query after {T} keys sees the first only (is_causal=True does so). Align it with the last key"
        return wrong("decode-aligned-first", message, difference)
    has_query_position = attention.takes_both_positions or attention.positions_of_keys is not None
    if not (record.is_causal or has_query_position or record.code.takes("causal") or record.code.takes("offset")):
        return note(f"a query alone is taken for the first token (by {difference:.2g}): right for an encoder only")
    message = f"the last query alone differs by {difference:.2g} from the last of all: it is taken for the first token"
    return wrong("offset-ignored", f"{message}. Give queries the positions of the last keys", difference)
