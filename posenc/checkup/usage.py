"""Examine how a rotation bears use: calls in a row, other dtypes, far positions, decoding, batches, gradients."""

import torch
from torch import Tensor

from posenc.checkup.patient import attempt, far, random
from posenc.checkup.reading import Turn
from posenc.checkup.report import Finding

LONG = 4096


def memory(turn: Turn, dim: int, heads: int) -> Finding:
    """Check that a call does not depend on the calls before it."""
    x = random(1, heads, 8, dim, seed=4)
    first = turn(x, torch.arange(8))
    if turn.reach != "length":
        later = torch.arange(100, 108)
        second = turn(x, later)
        if torch.equal(first, second) and not torch.equal(turn.on(turn.patient.fresh())(x, later), x):
            alone = turn(x[:, :, :3], later[:3])
            what = (
                "a cache whose key leaves out"
                if far(alone, second[:, :, :3]) > 1e-4
                else "a cache that ignores, or code that never uses,"
            )
            return Finding(
                "memory",
                "wrong",
                f"positions 0 and 100, called in a row, give the same result: {what} the "
                "positions. Keep the offset in the key of the cache, or compute the table anew",
                0.0,
            )
    before = attempt(Turn(turn.patient.fresh()), random(1, heads, 61, dim, seed=5))[0]
    poisoned = Turn(turn.patient.fresh())
    attempt(poisoned, random(1, heads, 67, dim, dtype=torch.bfloat16), None)
    after = poisoned(random(1, heads, 61, dim, seed=5))
    off = far(after, before)
    if off > 1e-4:
        return Finding(
            "memory",
            "wrong",
            f"after one call in bfloat16, calls in float32 differ by {off:.2g}: the cached "
            "table keeps the dtype of its first call. Keep it in float32 and round per call",
            off,
        )
    return Finding("memory", "ok", "a call does not depend on the calls before it", off)


def per_token(one: Tensor, other: Tensor) -> Tensor:
    """Return the largest difference of each token, relative to its length: (t,)."""
    gap = (one.double() - other.double()).norm(dim=-1) / other.double().norm(dim=-1).clamp(min=1e-9)
    return gap.amax(dim=(0, 1))


def _long(case, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return random(1, case.heads, LONG, case.dim, seed=6).to(dtype), torch.arange(LONG)


def half_precision(case) -> list[Finding] | Finding:
    """Compare bfloat16 and float16 input with float32."""
    worst = 0.0
    for dtype in (torch.bfloat16, torch.float16):
        x, places = _long(case, dtype)
        coarse, failed = attempt(case.turn, x, places)
        if failed:
            return Finding("half precision", "not checked", f"{dtype} input raises {failed}")
        off = per_token(coarse, case.turn(x.float(), places))
        worst = max(worst, float(off.max()))
        if worst > 0.03:
            return Finding("half precision", "wrong", _coarse(case.turn, dtype, off, case), worst)
    return Finding(
        "half precision", "ok", f"bfloat16 and float16 input: within {worst:.1g} of float32 up to {LONG:,}", worst
    )


def _coarse(turn: Turn, dtype: torch.dtype, off: Tensor, case) -> str:
    x = random(1, case.heads, 1, case.dim, seed=7, dtype=dtype).expand(-1, -1, 2, -1).contiguous()
    name, at = str(dtype).removeprefix("torch."), int(off.argmax())
    place = 256 if dtype == torch.bfloat16 else 2048
    pair = turn(x, torch.tensor([place, place + 1]))
    why = (
        f"; positions {place} and {place + 1} turn alike, so positions are rounded"
        if torch.equal(*pair.unbind(2))
        else ""
    )
    return (
        f"with {name} input the result is off by {float(off.max()):.2g} of its length at position {at}{why}: the angles "
        "are computed in the input's dtype. Compute positions, frequencies, cos and sin in float32, then round"
    )


def module_cast(case) -> Finding:
    """Compare the module cast to bfloat16 with itself in float32, on float32 input."""
    if case.patient.module is None:
        return Finding("module cast", "not checked", "no torch module, so there is nothing to cast")
    tensors = [n for n, b in case.patient.module.named_buffers() if b.is_floating_point()]
    x, places = _long(case, torch.float32)
    right = case.turn(x, places)
    coarse, failed = attempt(Turn(case.patient.cast(torch.bfloat16)), x, places)
    if failed:
        coarse, failed = attempt(Turn(case.patient.cast(torch.bfloat16)), x.bfloat16(), places)
    if failed:
        return Finding("module cast", "not checked", f"after .bfloat16() it raises {failed}")
    off = float(per_token(coarse, right).max())
    if off > 0.03:
        held = f" ({', '.join(tensors)})" if tensors else ""
        return Finding(
            "module cast",
            "wrong",
            f"after module.bfloat16() the result is off by {off:.2g} of its length below "
            f"position {LONG:,}: the buffers{held} are rounded. Recompute them in float32 in the call, or keep "
            "them out of the cast (plain attributes)",
            off,
        )
    return Finding("module cast", "ok", f"after module.bfloat16() still within {off:.1g}", off)


def far_positions(case) -> Finding:
    """Compare with angles in float64 at 10^5 and 10^6."""
    exact, check = case.speeds.exact, "far positions"
    if exact is None or case.turn.reach == "length":
        need = (
            "frequencies of a known base" if case.turn.reach != "length" else "a parameter for positions or an offset"
        )
        return Finding(check, "not checked", f"needs {need}")
    errors = []
    for place in (100_000, 1_000_000):
        x, places = random(1, case.heads, 4, case.dim, seed=8), place + torch.arange(4)
        y, failed = attempt(case.turn, x, places)
        if failed:
            return Finding(check, "note", f"position {place:,} raises {failed}")
        errors.append(float(per_token(y, case.reading.predicted(x, places, exact)).max()))
    words = f"off by {errors[0]:.1g} at 10^5 and {errors[1]:.1g} at 10^6, against angles in float64"
    if errors[0] > 0.05:
        return Finding(
            check,
            "wrong",
            f"{words}: coarser than float32 angles, which lose 0.01 and 0.1. Are positions, "
            "frequencies or the table of a lower precision, or positions clipped?",
            errors[0],
        )
    if errors[1] > 1e-4:
        return Finding(
            check, "note", f"{words}: float32 angles. Compute them in float64 if texts are that long", errors[1]
        )
    return Finding(check, "ok", words, errors[1])


def decoding(case) -> Finding:
    """Compare each token alone at its position with all at once."""
    if case.turn.reach == "length":
        return Finding(
            "decoding",
            "note",
            "takes neither positions nor an offset, so a single new token is always turned "
            "as the first one: with a cache of keys, pass its position",
        )
    x = random(2, case.heads, 12, case.dim, seed=9)
    whole = case.turn(x, torch.arange(12))
    each = [case.turn(x[:, :, i : i + 1], torch.tensor([i])) for i in range(12)]
    off = far(torch.cat(each, dim=2), whole)
    if off < 1e-4:
        return Finding("decoding", "ok", "token by token gives what all at once gives", off)
    return Finding(
        "decoding",
        "wrong",
        f"a token alone at its position differs by {off:.2g} from the same token among "
        "others: positions are counted from the call, not taken as they are",
        off,
    )


def longer_calls(case) -> Finding:
    """Compare the first tokens of a short call with those of a long one."""
    for length in (1024, 2 * LONG, 8 * LONG):
        x = random(1, case.heads, length, case.dim, seed=10)
        long, failed = attempt(Turn(case.patient.fresh()), x)
        if failed:
            return Finding("longer calls", "note", f"{length:,} tokens raise {failed}")
        short = Turn(case.patient.fresh())(x[:, :, :64])
        off = far(short, long[:, :, :64])
        if off > 1e-3:
            return Finding(
                "longer calls",
                "wrong",
                f"the first tokens turn differently (by {off:.2g}) in a call of {length:,}: "
                "frequencies depend on the length (dynamic NTK, LongRoPE). Rotated keys in a cache then belong to "
                "other frequencies: cache keys unrotated, or fix the frequencies for a text",
                off,
            )
    return Finding("longer calls", "ok", f"the first tokens turn alike in calls up to {8 * LONG:,}", off)


def limit(case) -> Finding:
    """Find the first position that raises or is turned like the one before it."""
    top = 2**16 if case.turn.reach == "length" else 2**20
    x = random(1, case.heads, 2, case.dim, seed=11)[:, :, :1].repeat(1, 1, 2, 1)

    def fails(last: int) -> str:
        y, failed = attempt(case.turn, x, torch.tensor([last - 1, last]))
        return failed or ("clipped" if torch.equal(y[:, :, 0], y[:, :, 1]) else "")

    good, bad = 1, 2
    while bad <= top and not fails(bad):
        good, bad = bad, 2 * bad
    if bad > top:
        return Finding("limit", "ok", f"none up to position {good:,}", good)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if fails(middle) else (middle, bad)
    if fails(bad) == "clipped":
        return Finding(
            "limit",
            "wrong",
            f"from position {good:,} on all tokens turn alike: positions are clipped or rounded "
            "without a word. Compute the table for the positions asked for, or raise",
            good,
        )
    return Finding("limit", "note", f"ends at position {good:,}: {fails(bad)}", good)


def batched_positions(case) -> Finding:
    """Give each row of a batch its own positions, as left padding and packing need."""
    check = "batched positions"
    if case.turn.reach != "positions":
        return Finding(
            check,
            "not checked",
            "needs a parameter for positions: without it, left padding and packed rows cannot be told",
        )
    x, places = (
        random(2, case.heads, 6, case.dim, seed=12),
        torch.stack([torch.arange(6), torch.tensor([0, 0, 0, 1, 2, 3])]),
    )
    y, failed = attempt(case.turn, x, places)
    if failed:
        return Finding(check, "note", f"(b, t) raises {failed}; left padding needs a row of positions for each text")
    right = torch.cat([case.turn(x[i : i + 1], places[i]) for i in range(2)])
    off = far(y, right)
    if off < 1e-4:
        return Finding(check, "ok", "each row of (b, t) is turned to its own positions", off)
    return Finding(
        check,
        "wrong",
        f"positions (b, t) do not arrive row by row (off by {off:.2g}): with left padding, texts "
        "get the positions of another. Insert the axis of heads: angles[:, None]",
        off,
    )


def input_kept(case) -> Finding:
    """Check that the input is not written to."""
    x = random(1, case.heads, 6, case.dim, seed=13)
    kept = x.clone()
    case.turn(x, torch.arange(6))
    if torch.equal(x, kept):
        return Finding("input kept", "ok", "the input is not changed")
    return Finding(
        "input kept",
        "wrong",
        "the call changes its input in place: calling it twice turns twice. Write to a new tensor",
        far(x, kept),
    )


def gradients(case) -> Finding:
    """Check that gradients arrive at the input."""
    x = random(1, case.heads, 6, case.dim, seed=14).requires_grad_()
    with torch.enable_grad():
        y, failed = attempt(case.turn, x, torch.arange(6))
        if not failed:
            _, failed = attempt(lambda: (y * y).sum().backward())
    if failed:
        return Finding("gradients", "wrong", f"no gradient: {failed}")
    if x.grad is None or not x.grad.isfinite().all() or not x.grad.abs().sum():
        return Finding("gradients", "wrong", "no gradient, or one that is not finite, arrives at the input")
    return Finding("gradients", "ok", "gradients arrive")


def fractions(case) -> Finding:
    """Check whether positions between integers mean anything."""
    if case.turn.reach != "positions":
        return Finding("fractions", "not checked", "needs a parameter for positions")
    x = random(1, case.heads, 1, case.dim, seed=15).repeat(1, 1, 2, 1)
    y, failed = attempt(case.turn, x, torch.tensor([1.0, 1.5]))
    if failed:
        return Finding("fractions", "note", "takes integers only: interpolated positions raise an error")
    if torch.equal(y[:, :, 0], y[:, :, 1]):
        return Finding("fractions", "note", "1.5 is turned as 1: interpolated positions are truncated", 0.0)
    return Finding("fractions", "ok", "positions between integers are turned as such")


CHECKS = (
    half_precision,
    module_cast,
    far_positions,
    decoding,
    longer_calls,
    limit,
    batched_positions,
    input_kept,
    gradients,
    fractions,
)
