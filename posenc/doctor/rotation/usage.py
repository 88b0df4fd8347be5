"""Check a rotation in use: calls in a row, decoding, longer calls, batched positions, gradients, the last position."""

import time
from bisect import bisect_left

import torch
from torch import Tensor

from posenc.doctor.numerics import is_finite, not_finite, random, relative_difference, worst
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.rotation.measure import Rotation, RotationRecord
from posenc.doctor.safe_call import attempt

TOLERANCE, DIRECTION_TOLERANCE = 1e-4, 1e-3  # of results, and of angles alone
SECONDS, AT_LEAST = 0.5, 8_192  # for the search of the last position: a table made in each call takes ever longer
LAST = {"positions": 1_048_576, "offset": 1_048_576, "length": 65_536}
FIRST_POSITIONS = 4_097
END_FAULTS = {  # what becomes of the positions after `last`, the last that works
    "clipped": "positions after {last:,} rotate alike, or not at all: they are clipped or rounded, or the table ends",
    "wrapped": "positions after {last:,} rotate as earlier ones do: positions start again",
    "not-finite": "the results at positions after {last:,} hold NaN or infinity",
}


def memory(rotate: Rotation) -> Finding | list[Finding]:
    """Check that a call does not depend on the calls before it, at other positions or in another dtype."""
    checks = (_positions_from_0, _after_bfloat16, _after_later_positions)
    findings = [finding for finding in (check(rotate) for check in checks) if finding]
    return findings or passed("a call does not depend on the calls before it")


def _positions_from_0(rotate: Rotation) -> Finding | None:
    if rotate.position_argument == "length" or not _ignores_positions(rotate.fresh(), rotate.max_length):
        return None
    sentence = "calls in a row, from 0 and from later positions, have equal results: positions are not used"
    return wrong("offset-ignored", f"{sentence}. Make the offset part of the cache's key, if there is one", 0.0)


def _after_bfloat16(rotate: Rotation) -> Finding | None:
    x = random(1, rotate.code.heads, min(rotate.max_length, 600), rotate.code.dim, seed=5)
    change = _change_after(rotate, x.bfloat16(), torch.arange(x.shape[2]), x)
    if change < TOLERANCE:
        return None
    sentence = f"after a call in bfloat16, results in float32 differ by {change:.2g}: a cache keeps the first dtype"
    return wrong("cache-stale", f"{sentence}. Cache in float32, round in each call", change)


def _after_later_positions(rotate: Rotation) -> Finding | None:
    if rotate.position_argument == "length":
        return None
    x, later = random(1, rotate.code.heads, 6, rotate.code.dim, seed=4), torch.arange(min(rotate.max_length, 100))
    change = _change_after(rotate, x, later[-6:], x)
    if change < TOLERANCE:
        return None
    sentence = f"after a call at later positions, results from 0 on differ by {change:.2g}: a cache ignores the start"
    return wrong("cache-stale", f"{sentence}. Make the offset part of its key", change)


def _change_after(rotate: Rotation, before: Tensor, at_before: Tensor, x: Tensor) -> float:
    """Return by how much an earlier call changes the result for `x` at positions 0, 1, 2 ..."""
    alone, after = rotate.fresh(), rotate.fresh()
    attempt(after, before, at_before)
    positions = torch.arange(x.shape[2])
    return relative_difference(after(x, positions), alone(x, positions))


def _ignores_positions(rotate: Rotation, max_length: int) -> bool:
    """Tell whether something rotates, of queries and of keys, and does so from 0 though a call starts elsewhere."""
    x = random(1, rotate.code.heads, 6, rotate.code.dim, seed=4)
    for of_keys in (False, True):
        from_0 = rotate(x, torch.arange(6), of_keys)
        if torch.equal(from_0, x) or not torch.equal(from_0, rotate(x, torch.arange(max_length)[-6:], of_keys)):
            return False
    return True


def decoding(record: RotationRecord) -> list[Finding]:
    """Compare single tokens at their positions, and fewer queries than keys, with all tokens in one call."""
    return [finding for finding in (_single_tokens(record), _fewer_queries(record)) if finding]


def _single_tokens(record: RotationRecord) -> Finding:
    if record.rotate.position_argument == "length":
        return note("takes neither positions nor an offset, so a single new token gets position 0: pass its position")
    x = random(2, record.heads, 8, record.dim, seed=9)
    steps = [record.rotate(token, torch.tensor([t])) for t, token in enumerate(x.split(1, dim=2))]
    decoded, prefill = torch.cat(steps, dim=2), record.rotate(x)
    change = relative_difference(decoded, prefill)
    if change < TOLERANCE:
        return passed("decoding token by token gives what one call gives", change)
    if _same_directions(record, decoded, prefill):
        return note("the length of a token depends on the number of tokens in the call (scales as in xPos)", change)
    sentence = f"a token alone at its position differs by {change:.2g} from the same token among others"
    return wrong("offset-ignored", f"{sentence}: positions are counted in each call. Use those that are passed", change)


def _fewer_queries(record: RotationRecord) -> Finding | None:
    """Check that fewer queries than keys, as with keys in a cache, get the last positions where none are passed."""
    rotate = record.rotate
    q, k = random(2, 1, record.heads, 8, record.dim, seed=20).unbind()
    positions = {"positions": torch.arange(8)} if record.angles_by_doctor else {}
    results, failed = attempt(lambda: rotate.pair(q[:, :, -6:], k, **positions))
    if failed or _same_directions(record, results[0], rotate(q)[:, :, -6:]):
        return None
    sentence = "of fewer queries than keys the last has another position than the last key: queries count from 0"
    if rotate.position_argument == "length" or record.angles_by_doctor:
        return wrong("offset-ignored", f"{sentence}. With keys in a cache, take the end of the table for queries")
    return note(f"{sentence}, unless positions are passed")


def _same_directions(record: RotationRecord, result: Tensor, expected: Tensor) -> bool:
    return relative_difference(record.directions(result), record.directions(expected)) < DIRECTION_TOLERANCE


def longer_calls(record: RotationRecord) -> Finding:
    """Compare the first tokens of a short call with those of a long one."""
    length = record.rotate.max_length
    if record.code.call.tokens:
        return not_checked(f"takes {length} tokens and no other number")
    x = random(1, record.heads, 8, record.dim, seed=10).repeat(1, 1, length // 8, 1)
    long, failed = attempt(record.rotate.fresh(), x)
    if failed:
        return note(f"{length:,} tokens raise {failed}")
    finding = not_finite(long, f"a call of {length:,} tokens")
    if finding and not record.gains_vary:
        return finding
    short = record.rotate.fresh()(x[:, :, :8])
    long = long[:, :, :8]
    change = relative_difference(short, long)
    if change < DIRECTION_TOLERANCE:
        return passed(f"the first tokens rotate alike in calls of up to {length:,}", change)
    if record.gains_vary or _same_directions(record, short, long):
        return note(f"the lengths of the first tokens differ in a call of {length:,} (as in xPos)", change)
    sentence = f"in a call of {length:,} the first tokens rotate otherwise (by {change:.2g}): frequencies depend on its"
    remedy = "length (dynamic NTK, LongRoPE), and rotated keys in a cache keep the old ones. Cache keys unrotated"
    return wrong("length-dependent", f"{sentence} {remedy}, or fix the frequencies for a text", change)


def batched_positions(record: RotationRecord) -> Finding:
    """Check that each row of a batch gets its own positions (b, t), as left padding and packing need."""
    table_form = record.code.call.table_form
    if record.rotate.position_argument != "positions" or (table_form and table_form.is_shared_by_batch):
        return not_checked("needs a parameter for positions, as left padding and packed rows do")
    x = random(2, record.heads, 6, record.dim, seed=12)
    change = 0.0
    positions = torch.stack((torch.arange(6), torch.arange(2, 8)))
    for of_keys in (False, True):
        result, failed = attempt(record.rotate, x, positions, of_keys)
        if failed:
            return note(f"positions (b, t) raise {failed}; left padding needs a row of positions for each text")
        rows = zip(x.split(1), positions, strict=True)
        expected = torch.cat([record.rotate(text, row, of_keys) for text, row in rows])
        change = worst(change, relative_difference(result, expected))
    if change < TOLERANCE:
        return passed("each row of (b, t) rotates by its own positions", change)
    sentence = f"rows of positions (b, t) do not reach their texts (off by {change:.2g}), as left padding needs"
    return wrong("rows-mixed", f"{sentence}. Insert the axis of heads: angles[:, None]", change)


def input_kept(record: RotationRecord) -> Finding:
    """Check that the input is not written to."""
    x = random(1, record.heads, record.code.call.tokens or 6, record.dim, seed=13)
    before = x.clone()
    record.rotate(x)
    if torch.equal(x, before):
        return passed("the input is not changed")
    return wrong("in-place", "the call changes its input, so a second call rotates twice. Write to a new tensor")


def gradients(record: RotationRecord) -> Finding:
    """Check that gradients reach the input and the learned parameters."""
    if record.rotate.code.returns_numpy:
        return not_checked("NumPy has no gradients")
    rotate = record.rotate.fresh()
    content, step = random(2, 1, record.heads, record.code.call.tokens or 6, record.dim, seed=14).unbind()
    for of_keys in (False, True):
        x = content.clone().requires_grad_()
        side = "keys" if of_keys else "input"
        _, failed = attempt(_backward, rotate, x, of_keys)
        if failed:
            return wrong("no-gradient", f"no gradient reaches the {side}: {failed}")
        error = _gradient_error(rotate, x, step, of_keys)
        if not error <= DIRECTION_TOLERANCE:  # or it is NaN
            sentence = f"the gradient of the {side} is off by {error:.2g}"
            return wrong("gradient-wrong", f"{sentence}: the backward pass has to rotate by the negative angles", error)
    learned = rotate.code.learned_parameters
    broken = [name for name, parameter in learned.items() if not is_finite(parameter.grad)]
    if broken:
        return wrong("gradient-wrong", f"the gradient of {', '.join(broken)} holds NaN or infinity")
    without = [name for name, parameter in learned.items() if parameter.grad is None or not parameter.grad.any()]
    if without:
        return note(f"no gradient reaches {', '.join(without)}: it is never trained (a clamp that cuts its start off?)")
    return passed("gradients reach the input and all that is learned")


def _backward(rotate: Rotation, x: Tensor, of_keys: bool) -> None:
    with torch.enable_grad():
        y = rotate(x, of_keys=of_keys)
        (y * random(*y.shape, seed=16)).sum().backward()


def _gradient_error(rotate: Rotation, x: Tensor, step: Tensor, of_keys: bool) -> float:
    """Return how far the gradient is from the change by a step of the input, of code that is linear; else 0."""
    gradient = torch.zeros_like(x) if x.grad is None else x.grad
    with torch.no_grad():
        y, moved, of_step = (rotate(z, of_keys=of_keys) for z in (x.clone(), x + step, step.clone()))
    if is_finite(gradient) and relative_difference(moved - y, of_step) > TOLERANCE:
        return 0.0
    expected = (of_step * random(*y.shape, seed=16)).sum()
    return abs(float((gradient * step).sum()) - float(expected))


def limit(record: RotationRecord) -> Finding:
    """Find the first position that raises, is not finite, or rotates like an earlier one."""
    if record.code.call.tokens or record.angles_by_doctor or record.reading.columns:
        return not_checked("needs positions in one line, and angles that the code computes")
    if record.gains_vary:
        return not_checked("lengths change with the position, so far tokens underflow or overflow")
    t = min(FIRST_POSITIONS, record.rotate.max_length)
    result, failed = attempt(record.rotate, _equal_tokens(record, t), torch.arange(t))
    result = _equal_tokens(record, 0) if failed else result
    finding = not_finite(result, f"a call of {t:,} tokens")
    if finding:
        return finding
    rows = result.movedim(2, 0).flatten(1)  # (t, h * d)
    is_repeated = (rows[1:] == rows[:-1]).all(-1)
    # Where the last ones are equal too, the table may end.
    if is_repeated.any() and not is_repeated[-64:].all():
        first = int(is_repeated.int().argmax()) + 1
        sentence = f"positions {first - 1:,} and {first:,} rotate alike, and later ones do not: positions are rounded"
        remedy = "Compute positions, frequencies, cos and sin in float32"
        return wrong("positions-rounded", f"{sentence} to a half precision. {remedy}", first)
    return _search(record, rows)


def _search(record: RotationRecord, rows: Tensor) -> Finding:
    """Double the position until it fails, and halve the gap."""
    last = 1
    start = time.thread_time()
    while not _fault(record, 2 * last, rows):
        last *= 2
        is_slow = time.thread_time() - start > SECONDS and last >= AT_LEAST
        if is_slow or last >= LAST[record.rotate.position_argument]:
            return passed(f"none up to position {last:,}", last)
    first = last + bisect_left(range(last, 2 * last), True, key=lambda position: bool(_fault(record, position, rows)))
    faults = [_fault(record, position, rows) for position in (first, 2 * first)]
    for cause, sentence in END_FAULTS.items():
        if cause in faults:
            remedy = "Compute the table for the positions that are passed, or raise"
            return wrong(cause, f"{sentence.format(last=first - 1)}. {remedy}", first - 1)
    return note(f"ends at position {first - 1:,}: {faults[0]}", first - 1)


def _fault(record: RotationRecord, position: int, rows: Tensor) -> str:
    """Return the error that a position raises, a key of END_FAULTS, or ""."""
    result, failed = attempt(record.rotate, _equal_tokens(record, 2), torch.arange(position + 1)[-2:])
    if failed:
        return failed
    if not is_finite(result):
        return "not-finite"
    before, at_position = result.movedim(2, 0).flatten(1)
    if torch.equal(before, at_position):
        return "clipped"
    return "wrapped" if (rows[:position] == at_position).all(-1).any() else ""


def _equal_tokens(record: RotationRecord, t: int) -> Tensor:
    """Return one random token `t` times, (1, h, t, d)."""
    return random(1, record.heads, 1, record.dim, seed=11).expand(-1, -1, t, -1).contiguous()


CHECKS = (decoding, longer_calls, limit, batched_positions, input_kept, gradients)
