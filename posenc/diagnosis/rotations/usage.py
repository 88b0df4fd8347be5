"""Examine how a rotation bears use: calls in a row, decoding, long texts, batches, gradients."""

from typing import NamedTuple

import torch

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.call import Code
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, note, ok, unchecked, wrong
from posenc.diagnosis.rotations.read import Case, Rotation

LENGTHS = (1_024, 8_192, 16_384)
FORGETS = (
    "positions from 0 and from 100, asked for in a row, get the same: a cache ignores them, or they never arrive. "
    "Keep the offset in the key of the cache, or compute the table anew"
)


class Use(NamedTuple):
    """The code before anything is read: it and its rotation, and how many positions there are."""

    code: Code
    rotate: Rotation
    reach: int


def memory(use: Use) -> Finding:
    """Check that a call does not depend on the calls before it."""
    code, reach = use.code, min(use.reach, 600)
    if forgets := _forgets(code, reach):
        return forgets
    alone, after_bfloat16 = Rotation(code.fresh()), Rotation(code.fresh())
    long = random(1, code.heads, reach - reach // 60, code.dim, seed=5)
    places = torch.arange(long.shape[2])
    attempt(after_bfloat16, random(1, code.heads, reach, code.dim, dtype=torch.bfloat16), torch.arange(reach))
    after, before = after_bfloat16(long, places), attempt(alone, long, places)[0]
    off = far(after, before)
    if off > 1e-4:
        return wrong(
            "cache-stale",
            f"after one call in bfloat16, calls in float32 differ by {off:.2g}: a cached table keeps the dtype of "
            "its first call. Keep it in float32 and round in each call",
            off,
        )
    return ok("a call does not depend on the calls before it", off)


def _forgets(code: Code, reach: int) -> Finding | None:
    """Call from 0 and from elsewhere: are both counted from 0?"""
    rotate, other = Rotation(code.fresh()), Rotation(code.fresh())
    if rotate.told_by == "length" or reach <= 8:
        return None
    x, start = random(1, code.heads, 4, code.dim, seed=4), min(100, reach - 4)
    near, out = torch.arange(4), torch.arange(start, start + 4)
    first, second = rotate(x, near), rotate(x, out)
    if not torch.equal(first, second):
        return None
    if code.takes("q", "k") and not torch.equal(rotate(x, near, True), rotate(x, out, True)):
        return wrong("sides-differ", "queries count from 0 in each call, keys do not: hand positions to both")
    turns = not torch.equal(other(x, out), x) or not torch.equal(first[:, :, 3:], x[:, :, 3:])
    return wrong("offset-ignored", FORGETS, 0.0) if turns else None


def starts(use: Use) -> Finding | None:
    """Check that a call from 0 is not answered with what another call, from elsewhere, has left behind."""
    if use.rotate.told_by == "length" or use.reach <= 8:
        return None
    start = min(100, use.reach - 4)
    x, late = random(1, use.code.heads, 4, use.code.dim, seed=4), Rotation(use.code.fresh())
    late(x, torch.arange(start, start + 4))
    off = far(late(x, torch.arange(4)), Rotation(use.code.fresh())(x, torch.arange(4)))
    if off <= 1e-4:
        return None
    words = f"after a call from position {start} on, calls from 0 differ by {off:.2g}: what is cached has forgotten"
    return wrong("cache-stale", f"{words} where it starts. Keep the offset in its key", off)


def decoding(case: Case) -> Finding:
    """Compare each token alone at its position with all at once."""
    if case.rotate.told_by == "length":
        return note(
            "takes neither positions nor an offset, so a single new token is always turned as the first one: "
            "with a cache of keys, pass its position"
        )
    t = min(12, case.reach)
    x = random(2, case.heads, t, case.dim, seed=9)
    whole = case.rotate(x, torch.arange(t))
    each = [case.rotate(x[:, :, i : i + 1], torch.tensor([i])) for i in range(t)]
    off = far(torch.cat(each, dim=2), whole)
    if off < 1e-4:
        return ok("token by token gives what all at once gives", off)
    alike = case.reading.pairs and far(case.turned(torch.cat(each, dim=2)), case.turned(whole)) < 1e-3
    if case.uneven or alike:
        return note("a token alone grows otherwise than among others: scales (as in xPos) know the length", off)
    return wrong(
        "offset-ignored",
        f"a token alone at its position differs by {off:.2g} from the same token among others: "
        "positions are counted from the call, not taken as they are",
        off,
    )


def fewer_queries(case: Case) -> Finding | None:
    """Give the last queries alone beside all keys, as with keys in a cache."""
    code, rotate = case.code, case.rotate
    if not code.takes("q", "k") or code.needs("positions") or code.way.exact:
        return None
    q, k = (random(1, case.heads, 8, case.dim, seed=seed) for seed in (20, 21))
    of_keys = {"positions": torch.arange(8)} if case.given_angles else {}
    made, failed = attempt(lambda: rotate.pair(q[:, :, -2:], k, **of_keys))
    if failed or made[0].shape[2] != 2:
        return None
    last, first = rotate.pair(q, k)[0][:, :, -2:], rotate.pair(q[:, :, -2:], k[:, :, -2:])[0]
    made, last, first = (case.turned(y) if case.reading.pairs else y for y in (made[0], last, first))
    if far(made, last) < 1e-3:
        return ok("fewer queries than keys are turned as the last ones")
    if far(made, first) > 1e-3:
        return None
    words = "of fewer queries than keys the last does not stand at the last key: queries count from 0"
    if rotate.told_by == "length" or case.given_angles:
        return wrong("offset-ignored", f"{words}. With keys in a cache, take the end of the table for queries")
    return note(f"{words}, unless they are told where they start")


def longer_calls(case: Case) -> Finding:
    """Compare the first tokens of a short call with those of a long one."""
    off, last = 0.0, 64
    for length in (length for length in LENGTHS if not case.code.way.exact and length <= max(case.reach, LENGTHS[0])):
        x = random(1, case.heads, 64, case.dim, seed=10).repeat(1, 1, length // 64, 1)
        long, failed = attempt(Rotation(case.code.fresh()), x)
        if failed:
            return note(f"{length:,} tokens raise {failed}")
        short, last = Rotation(case.code.fresh())(x[:, :, :64]), length
        off = far(short, long[:, :, :64])
        alike = case.reading.pairs and far(case.turned(short), case.turned(long[:, :, :64])) < 1e-3
        if off > 1e-3 and (case.uneven or alike):
            return note(
                f"the first tokens grow otherwise in a call of {length:,}: scales (as in xPos) know the length", off
            )
        if off > 1e-3:
            return wrong(
                "length-dependent",
                f"the first tokens turn differently (by {off:.2g}) in a call of {length:,}: frequencies or scales "
                "depend on the length (dynamic NTK, LongRoPE). Rotated keys in a cache then belong to other "
                "frequencies: cache keys unrotated, or fix the frequencies for a text",
                off,
            )
    if last == 64:
        return unchecked(f"takes {case.reach} tokens and no other number")
    return ok(f"the first tokens turn alike in calls up to {last:,}", off)


def batched_positions(case: Case) -> Finding:
    """Give each row of a batch its own positions, as left padding and packing need."""
    if case.rotate.told_by != "positions" or (case.code.way.table and case.code.way.table.rows_are_lost):
        return unchecked("needs a parameter for positions, as left padding and packed rows do")
    x, places = random(2, case.heads, 6, case.dim, seed=12), torch.tensor([[0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3]])
    y, failed = attempt(case.rotate, x, places)
    if failed:
        return note(f"(b, t) raises {failed}; left padding needs a row of positions for each text")
    off = far(y, torch.cat([case.rotate(x[i : i + 1], places[i]) for i in range(2)]))
    if case.code.takes("q", "k"):
        each = [case.rotate(x[i : i + 1], places[i], of_keys=True) for i in range(2)]
        off = max(off, far(case.rotate(x, places, of_keys=True), torch.cat(each)))
    if off < 1e-4:
        return ok("each row of (b, t) is turned to its own positions", off)
    return wrong(
        "rows-mixed",
        f"positions (b, t) do not arrive row by row (off by {off:.2g}): with left padding, texts get the positions "
        "of another. Insert the axis of heads: angles[:, None]",
        off,
    )


def input_kept(case: Case) -> Finding:
    """Check that the input is not written to."""
    t = case.code.way.exact or min(6, case.reach)
    x = random(1, case.heads, t, case.dim, seed=13)
    kept = x.clone()
    case.rotate(x, None if case.code.way.exact else torch.arange(t))
    if torch.equal(x, kept):
        return ok("the input is not changed")
    words = "the call changes its input in place: calling it twice turns twice. Write to a new tensor"
    return wrong("in-place", words, far(x, kept))


def gradients(case: Case) -> Finding:
    """Check that gradients arrive at the input and at what is learned."""
    rotate, places = Rotation(case.code.fresh()), torch.arange(min(6, case.reach))
    attempt(rotate, random(1, case.heads, len(places), case.dim, seed=14), places)
    if rotate.code.numpy:
        return unchecked("NumPy has no gradients")
    for of_keys in (False, True)[: 1 + case.code.takes("q", "k")]:
        x = random(1, case.heads, len(places), case.dim, seed=14).requires_grad_()
        with torch.enable_grad():
            y, failed = attempt(rotate, x, places, of_keys)
            if not failed:
                _, failed = attempt(lambda y=y: (y * random(*y.shape, seed=16)).sum().backward())
        of = " at the keys" if of_keys else ""
        if failed:
            return wrong("no-gradient", f"no gradient{of}: {failed}")
        if x.grad is None or not x.grad.isfinite().all() or not x.grad.any():
            return wrong("no-gradient", f"no gradient, or one that is not finite, arrives{of or ' at the input'}")
        if (off := _off(rotate, x, places, of_keys)) > 1e-3:
            words = f"the gradient{of or ' at the input'} is off by {off:.2g}: the backward pass has to turn back"
            return wrong("gradient-wrong", words, off)
    dead = [name for name, p in rotate.code.learned.items() if p.grad is None or not p.grad.any()]
    if dead:
        where = ", ".join(dead)
        return note(f"no gradient arrives at {where}: it stays as it is (a clamp that starts outside its range?)")
    return ok("gradients arrive")


def _off(rotate: Rotation, x: torch.Tensor, places: torch.Tensor, of_keys: bool) -> float:
    """Return how far a gradient is from what a step of the input changes, of code that is linear; else 0."""
    step, still = random(*x.shape, seed=22), torch.zeros_like(x)
    y, moved, of_step, of_nothing = (rotate(z.detach().clone(), places, of_keys) for z in (x, x + step, step, still))
    if x.grad is None or far(moved - y, of_step - of_nothing) > 1e-4:
        return 0.0
    due = float(((moved - y) * random(*y.shape, seed=16)).sum())
    return abs(float((x.grad * step).sum()) - due) / max(abs(due), 1.0)


def fractions(case: Case) -> Finding:
    """Check whether positions between integers mean anything."""
    if case.rotate.told_by != "positions" or case.given_angles:
        return unchecked("needs a parameter for positions")
    x = random(1, case.heads, 1, case.dim, seed=15).repeat(1, 1, 2, 1)
    y, failed = attempt(case.rotate, x, torch.tensor([1.0, 1.5]))
    if failed:
        return note("takes integers only: interpolated positions raise an error")
    if torch.equal(y[:, :, 0], y[:, :, 1]):
        return note("1.5 is turned as 1: interpolated positions are truncated", 0.0)
    return ok("positions between integers are turned as such")
