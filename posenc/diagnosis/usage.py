"""Examine how a rotation bears use: calls in a row, decoding, long texts, batches, gradients."""

import torch

from posenc.diagnosis.call import Code, attempt
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.read import Case, Rotation
from posenc.diagnosis.report import Finding, note, ok, unchecked, wrong

LENGTHS = (1_024, 8_192, 16_384)
FORGETS = (
    "positions from 0 and from 100, asked for in a row, get the same: a cache ignores them, or they never arrive. "
    "Keep the offset in the key of the cache, or compute the table anew"
)


def memory(code: Code) -> Finding:
    """Check that a call does not depend on the calls before it."""
    rotate, other, alone, after_bfloat16 = (Rotation(code.fresh()) for _ in range(4))
    x, long = random(1, code.heads, 8, code.dim, seed=4), random(1, code.heads, 590, code.dim, seed=5)
    attempt(after_bfloat16, random(1, code.heads, 600, code.dim, dtype=torch.bfloat16))
    after, before = after_bfloat16(long), attempt(alone, long)[0]
    if rotate.told_by != "length":
        first, second = rotate(x, torch.arange(8)), rotate(x, torch.arange(100, 108))
        if torch.equal(first, second) and not torch.equal(other(x, torch.arange(100, 108)), x):
            return wrong(FORGETS, 0.0)
    off = far(after, before)
    if off > 1e-4:
        return wrong(
            f"after one call in bfloat16, calls in float32 differ by {off:.2g}: a cached table keeps the dtype of "
            "its first call. Keep it in float32 and round in each call",
            off,
        )
    return ok("a call does not depend on the calls before it", off)


def decoding(case: Case) -> Finding:
    """Compare each token alone at its position with all at once."""
    if case.rotate.told_by == "length":
        return note(
            "takes neither positions nor an offset, so a single new token is always turned as the first one: "
            "with a cache of keys, pass its position"
        )
    x = random(2, case.heads, 12, case.dim, seed=9)
    whole = case.rotate(x, torch.arange(12))
    each = [case.rotate(x[:, :, i : i + 1], torch.tensor([i])) for i in range(12)]
    off = far(torch.cat(each, dim=2), whole)
    if off < 1e-4:
        return ok("token by token gives what all at once gives", off)
    return wrong(
        f"a token alone at its position differs by {off:.2g} from the same token among others: "
        "positions are counted from the call, not taken as they are",
        off,
    )


def longer_calls(case: Case) -> Finding:
    """Compare the first tokens of a short call with those of a long one."""
    off = 0.0
    for length in LENGTHS:
        x = random(1, case.heads, 64, case.dim, seed=10).repeat(1, 1, length // 64, 1)
        long, failed = attempt(Rotation(case.code.fresh()), x)
        if failed:
            return note(f"{length:,} tokens raise {failed}")
        off = far(Rotation(case.code.fresh())(x[:, :, :64]), long[:, :, :64])
        if off > 1e-3:
            return wrong(
                f"the first tokens turn differently (by {off:.2g}) in a call of {length:,}: frequencies or scales "
                "depend on the length (dynamic NTK, LongRoPE). Rotated keys in a cache then belong to other "
                "frequencies: cache keys unrotated, or fix the frequencies for a text",
                off,
            )
    return ok(f"the first tokens turn alike in calls up to {LENGTHS[-1]:,}", off)


def limit(case: Case) -> Finding:
    """Find the first position that raises or is turned like the one before it."""
    top = 2**16 if case.rotate.told_by == "length" else 2**20
    if twin := _first_twin(case):
        return wrong(
            f"positions {twin - 1:,} and {twin:,} turn alike, and later ones turn on: positions are rounded to a "
            "coarse dtype before they meet the frequencies. Compute positions, frequencies, cos and sin in float32",
            twin,
        )
    good, bad = 1, 2
    while bad <= top and not _fails(case, bad):
        good, bad = bad, 2 * bad
    if bad > top:
        return ok(f"none up to position {good:,}", good)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if _fails(case, middle) else (middle, bad)
    why = _fails(case, bad)
    if why != "clipped":
        return note(f"ends at position {good:,}: {why}", good)
    return wrong(
        f"from position {good:,} on all tokens turn alike: positions are clipped or rounded without a word. "
        "Compute the table for the positions asked for, or raise",
        good,
    )


def _fails(case: Case, last: int) -> str:
    """Return the error of a position, or "clipped" where it is turned like the one before it, or ""."""
    x = random(1, case.heads, 2, case.dim, seed=11)[:, :, :1].repeat(1, 1, 2, 1)
    y, failed = attempt(case.rotate, x, torch.tensor([last - 1, last]))
    return failed or ("clipped" if torch.equal(y[:, :, 0], y[:, :, 1]) else "")


def _first_twin(case: Case) -> int:
    """Return the first position to 4,096 that is turned like the one before it while later ones turn on, or 0."""
    x = random(1, case.heads, 1, case.dim, seed=11).repeat(1, 1, 4_097, 1)
    y, failed = attempt(case.rotate, x, torch.arange(4_097))
    if failed:
        return 0
    same = (y[:, :, 1:] == y[:, :, :-1]).all(-1).all(0).all(0)
    return int(same.long().argmax()) + 1 if same.any() and not same[-64:].all() else 0


def batched_positions(case: Case) -> Finding:
    """Give each row of a batch its own positions, as left padding and packing need."""
    if case.rotate.told_by != "positions":
        return unchecked("needs a parameter for positions, as left padding and packed rows do")
    x, places = random(2, case.heads, 6, case.dim, seed=12), torch.tensor([[0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3]])
    y, failed = attempt(case.rotate, x, places)
    if failed:
        return note(f"(b, t) raises {failed}; left padding needs a row of positions for each text")
    off = far(y, torch.cat([case.rotate(x[i : i + 1], places[i]) for i in range(2)]))
    if off < 1e-4:
        return ok("each row of (b, t) is turned to its own positions", off)
    return wrong(
        f"positions (b, t) do not arrive row by row (off by {off:.2g}): with left padding, texts get the positions "
        "of another. Insert the axis of heads: angles[:, None]",
        off,
    )


def input_kept(case: Case) -> Finding:
    """Check that the input is not written to."""
    x = random(1, case.heads, 6, case.dim, seed=13)
    kept = x.clone()
    case.rotate(x, torch.arange(6))
    if torch.equal(x, kept):
        return ok("the input is not changed")
    words = "the call changes its input in place: calling it twice turns twice. Write to a new tensor"
    return wrong(words, far(x, kept))


def gradients(case: Case) -> Finding:
    """Check that gradients arrive at the input and at what is learned."""
    rotate = Rotation(case.code.fresh())
    x = random(1, case.heads, 6, case.dim, seed=14).requires_grad_()
    attempt(rotate, x.detach(), torch.arange(6))
    if rotate.code.numpy:
        return unchecked("NumPy has no gradients")
    with torch.enable_grad():
        y, failed = attempt(rotate, x, torch.arange(6))
        if not failed:
            _, failed = attempt(lambda: (y * random(*y.shape, seed=16)).sum().backward())
    if failed:
        return wrong(f"no gradient: {failed}")
    if x.grad is None or not x.grad.isfinite().all() or not x.grad.any():
        return wrong("no gradient, or one that is not finite, arrives at the input")
    dead = [name for name, p in rotate.code.learned.items() if p.grad is None or not p.grad.any()]
    if dead:
        where = ", ".join(dead)
        return note(f"no gradient arrives at {where}: it stays as it is (a clamp that starts outside its range?)")
    return ok("gradients arrive")


def fractions(case: Case) -> Finding:
    """Check whether positions between integers mean anything."""
    if case.rotate.told_by != "positions":
        return unchecked("needs a parameter for positions")
    x = random(1, case.heads, 1, case.dim, seed=15).repeat(1, 1, 2, 1)
    y, failed = attempt(case.rotate, x, torch.tensor([1.0, 1.5]))
    if failed:
        return note("takes integers only: interpolated positions raise an error")
    if torch.equal(y[:, :, 0], y[:, :, 1]):
        return note("1.5 is turned as 1: interpolated positions are truncated", 0.0)
    return ok("positions between integers are turned as such")


CHECKS = (decoding, longer_calls, limit, batched_positions, input_kept, gradients, fractions)
