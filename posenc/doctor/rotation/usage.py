"""Examine how a rotation bears use: calls in a row, decoding, long texts, batches, gradients."""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.rotation.measure_angles import Case, Rotation

SAME, ALIKE = 1e-4, 1e-3  # results, and angles alone
FORGETS = (
    "positions from 0 and from further on, asked for in a row, get the same: a cache ignores them, or they never "
    "arrive. Keep the offset in the key of the cache, or compute the table anew"
)


class Use(NamedTuple):
    """The code before anything is read: it and its rotation, and how many positions there are."""

    code: Code
    rotate: Rotation
    reach: int


def memory(use: Use) -> Finding:
    """Check that a call does not depend on the calls before it."""
    code, t = use.code, min(use.reach, 600)
    if use.rotate.told_by != "length" and _forgets(code, use.reach):
        return wrong("offset-ignored", FORGETS, 0.0)
    alone, after_bfloat16 = Rotation(code.fresh()), Rotation(code.fresh())
    x, places = random(1, code.heads, t, code.dim, seed=5), torch.arange(t)
    attempt(after_bfloat16, x.bfloat16(), places)
    off = relative_difference(after_bfloat16(x, places), alone(x, places))
    if off < SAME:
        return passed("a call does not depend on the calls before it", off)
    words = f"after one call in bfloat16, calls in float32 differ by {off:.2g}: a cached table keeps the dtype of "
    return wrong("cache-stale", f"{words}its first call. Keep it in float32 and round in each call", off)


def _forgets(code: Code, reach: int) -> bool:
    """Tell whether what turns is counted from 0, of queries and of keys, though a call starts elsewhere."""
    rotate, x = Rotation(code.fresh()), random(1, code.heads, 6, code.dim, seed=4)
    near, out = torch.arange(6), torch.arange(reach)[-6:]
    for of_keys in (False, True):
        first = rotate(x, near, of_keys)
        if torch.equal(first, x) or not torch.equal(first, rotate(x, out, of_keys)):
            return False
    return True


def starts(use: Use) -> Finding | None:
    """Check that a call from 0 is not answered with what another call, from elsewhere, has left behind."""
    if use.rotate.told_by == "length":
        return None
    late, alone = Rotation(use.code.fresh()), Rotation(use.code.fresh())
    x = random(1, use.code.heads, 6, use.code.dim, seed=4)
    late(x, torch.arange(min(use.reach, 100))[-6:])
    off = relative_difference(late(x), alone(x))
    if off < SAME:
        return None
    words = f"after a call from elsewhere, calls from 0 differ by {off:.2g}: what is cached has forgotten"
    return wrong("cache-stale", f"{words} where it starts. Keep the offset in its key", off)


def decoding(case: Case) -> Finding:
    """Compare each token alone at its position with all at once."""
    if case.rotate.told_by == "length":
        return note(
            "takes neither positions nor an offset, so a single new token is always turned as the first one: "
            "with a cache of keys, pass its position"
        )
    x = random(2, case.heads, 8, case.dim, seed=9)
    each = zip(x.split(1, dim=2), torch.arange(8).split(1), strict=True)
    one_by_one, whole = torch.cat([case.rotate(token, place) for token, place in each], dim=2), case.rotate(x)
    off = relative_difference(one_by_one, whole)
    if off < SAME:
        return passed("token by token gives what all at once gives", off)
    if relative_difference(case.turned(one_by_one), case.turned(whole)) < ALIKE:
        return note("a token alone grows otherwise than among others: scales (as in xPos) know the length", off)
    return wrong(
        "offset-ignored",
        f"a token alone at its position differs by {off:.2g} from the same token among others: "
        "positions are counted from the call, not taken as they are",
        off,
    )


def fewer_queries(case: Case) -> Finding | None:
    """Give the last queries alone beside all keys, as with keys in a cache, and tell of no positions."""
    rotate = case.rotate
    q, k = random(2, 1, case.heads, 8, case.dim, seed=20).unbind()
    of_keys = {"positions": torch.arange(8)} if case.given_angles else {}
    made, failed = attempt(lambda: rotate.pair(q[:, :, -6:], k, **of_keys))
    if failed:
        return None
    if relative_difference(case.turned(made[0]), case.turned(rotate(q)[:, :, -6:])) < ALIKE:
        return passed("fewer queries than keys are turned as the last ones")
    words = "of fewer queries than keys the last does not stand at the last key: queries count from 0"
    if rotate.told_by == "length" or case.given_angles:
        return wrong("offset-ignored", f"{words}. With keys in a cache, take the end of the table for queries")
    return note(f"{words}, unless they are told where they start")


def longer_calls(case: Case) -> Finding:
    """Compare the first tokens of a short call with those of a long one."""
    if case.code.call.tokens:
        return not_checked(f"takes {case.reach} tokens and no other number")
    x = random(1, case.heads, 8, case.dim, seed=10).repeat(1, 1, case.reach // 8, 1)
    long, failed = attempt(Rotation(case.code.fresh()), x)
    if failed:
        return note(f"{case.reach:,} tokens raise {failed}")
    short, long = Rotation(case.code.fresh())(x[:, :, :8]), long[:, :, :8]
    off = relative_difference(short, long)
    if off < ALIKE:
        return passed(f"the first tokens turn alike in calls up to {case.reach:,}", off)
    if case.uneven or relative_difference(case.turned(short), case.turned(long)) < ALIKE:
        words = f"the first tokens grow otherwise in a call of {case.reach:,}: scales (as in xPos) know the length"
        return note(words, off)
    return wrong(
        "length-dependent",
        f"the first tokens turn differently (by {off:.2g}) in a call of {case.reach:,}: frequencies or scales "
        "depend on the length (dynamic NTK, LongRoPE). Rotated keys in a cache then belong to other "
        "frequencies: cache keys unrotated, or fix the frequencies for a text",
        off,
    )


def batched_positions(case: Case) -> Finding:
    """Give each row of a batch its own positions, as left padding and packing need."""
    if case.rotate.told_by != "positions" or (
        case.code.call.table_form and case.code.call.table_form.is_shared_by_batch
    ):
        return not_checked("needs a parameter for positions, as left padding and packed rows do")
    x, off = random(2, case.heads, 6, case.dim, seed=12), 0.0
    places = torch.stack((torch.arange(6), torch.arange(8)[-6:]))
    for of_keys in (False, True):
        y, failed = attempt(case.rotate, x, places, of_keys)
        if failed:
            return note(f"(b, t) raises {failed}; left padding needs a row of positions for each text")
        each = [case.rotate(text, row, of_keys) for text, row in zip(x.split(1), places, strict=True)]
        off = max(off, relative_difference(y, torch.cat(each)))
    if off < SAME:
        return passed("each row of (b, t) is turned to its own positions", off)
    return wrong(
        "rows-mixed",
        f"positions (b, t) do not arrive row by row (off by {off:.2g}): with left padding, texts get the positions "
        "of another. Insert the axis of heads: angles[:, None]",
        off,
    )


def input_kept(case: Case) -> Finding:
    """Check that the input is not written to."""
    x = random(1, case.heads, case.code.call.tokens or 6, case.dim, seed=13)
    kept = x.clone()
    case.rotate(x)
    if torch.equal(x, kept):
        return passed("the input is not changed")
    words = "the call changes its input in place: calling it twice turns twice. Write to a new tensor"
    return wrong("in-place", words, relative_difference(x, kept))


def gradients(case: Case) -> Finding:
    """Check that gradients arrive at the input and at what is learned."""
    if case.rotate.code.returns_numpy:
        return not_checked("NumPy has no gradients")
    rotate = Rotation(case.code.fresh())
    x, step = random(2, 1, case.heads, case.code.call.tokens or 6, case.dim, seed=14).unbind()
    for of_keys in (False, True):
        x, side = x.clone().requires_grad_(), "keys" if of_keys else "input"
        _, failed = attempt(_back, rotate, x, of_keys)
        if failed:
            return wrong("no-gradient", f"no gradient at the {side}: {failed}")
        off = _off(rotate, x, step, of_keys)
        if not off <= ALIKE:  # NaN is in no order
            words = f"the gradient at the {side} is off by {off:.2g}: the backward pass has to turn back"
            return wrong("gradient-wrong", words, off)
    dead = [name for name, p in rotate.code.learned_parameters.items() if p.grad is None or not p.grad.any()]
    if dead:
        where = ", ".join(dead)
        return note(f"no gradient arrives at {where}: it stays as it is (a clamp that starts outside its range?)")
    return passed("gradients arrive")


def _back(rotate: Rotation, x: Tensor, of_keys: bool) -> None:
    """Send noise back."""
    with torch.enable_grad():
        y = rotate(x, of_keys=of_keys)
        (y * random(*y.shape, seed=16)).sum().backward()


def _off(rotate: Rotation, x: Tensor, step: Tensor, of_keys: bool) -> float:
    """Return how far a gradient is from what a step of the input changes, of code that is linear; else 0."""
    with torch.no_grad():
        y, moved, of_step = (rotate(z, of_keys=of_keys) for z in (x.clone(), x + step, step.clone()))
    if relative_difference(moved - y, of_step) > SAME:
        return 0.0
    due = float((of_step * random(*y.shape, seed=16)).sum())
    arrived = torch.zeros(()) if x.grad is None else (x.grad * step).sum()
    return abs(float(arrived) - due)


def fractions(case: Case) -> Finding:
    """Check whether positions between integers mean anything."""
    if case.rotate.told_by != "positions" or case.given_angles:
        return not_checked("needs a parameter for positions")
    x = random(1, case.heads, 1, case.dim, seed=15)
    y, failed = attempt(case.rotate, torch.cat((x, x), dim=2), torch.tensor([1.0, 1.5]))
    if failed:
        return note("takes integers only: interpolated positions raise an error")
    if torch.equal(*y.unbind(2)):
        return note("1.5 is turned as 1: interpolated positions are truncated", 0.0)
    return passed("positions between integers are turned as such")
