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
END_FAULTS = {  # what becomes of the positions after `last`, the last that works
    "clipped": "positions after {last:,} rotate alike, or not at all: they are clipped or rounded, or the table ends",
    "wrapped": "positions after {last:,} rotate as earlier ones do: positions start again",
    "not-finite": "the results at positions after {last:,} hold NaN or infinity",
}


def memory(rotate: Rotation) -> Finding | list[Finding]:
    """Check that a call does not depend on the calls before it, at other positions or in another dtype."""
    # 600 positions: bfloat16 holds integers up to 256 only, so that a table in it differs at later ones.
    x = random(1, rotate.code.heads, min(rotate.max_length, 600), rotate.code.dim, seed=5)  # (1, h, t, d)
    tokens = random(1, rotate.code.heads, 6, rotate.code.dim, seed=4)  # (1, h, 6, d)
    positions = torch.arange(rotate.max_length)
    in_bfloat16 = "in bfloat16: a cache keeps the first dtype. Cache in float32, round in each call"
    at_later = "at later positions: a cache ignores the start. Make the offset part of its key"
    # Code that takes no positions can start nowhere but at 0.
    takes_positions = rotate.position_argument != "length"
    findings = [_positions_ignored(rotate.fresh(), tokens, positions[-6:])] if takes_positions else []
    findings.append(_after(rotate, x, (x.bfloat16(), positions[:600]), in_bfloat16))
    if takes_positions:
        findings.append(_after(rotate, tokens, (tokens, positions[:100][-6:]), at_later))
    return [finding for finding in findings if finding] or passed("a call does not depend on the calls before it")


def _positions_ignored(rotate: Rotation, x: Tensor, last: Tensor) -> Finding | None:
    for of_keys in (False, True):
        from_0 = rotate(x, torch.arange(6), of_keys)
        # Nothing rotates, or it does by positions; exactly equal, for a slow rotation changes results by little.
        if torch.equal(from_0, x) or not torch.equal(from_0, rotate(x, last, of_keys)):
            return None
    sentence = "calls in a row, from 0 and from later positions, have equal results: positions are not used"
    return wrong("offset-ignored", f"{sentence}. Make the offset part of the cache's key, if there is one", 0.0)


def _after(rotate: Rotation, x: Tensor, earlier: tuple[Tensor, Tensor], message: str) -> Finding | None:
    """Return by how much an earlier call, of content at positions, changes the result for `x` at 0, 1, 2 ..."""
    alone, after = rotate.fresh(), rotate.fresh()
    # An error is no fault here: code that raises has filled no cache.
    attempt(after, *earlier)
    positions = torch.arange(x.shape[2])
    change = relative_difference(after(x, positions), alone(x, positions))
    if change < TOLERANCE:
        return None
    return wrong("cache-stale", f"results from position 0 on differ by {change:.2g} after a call {message}", change)


def decoding(record: RotationRecord) -> list[Finding]:
    """Compare single tokens at their positions, and fewer queries than keys, with all tokens in one call."""
    return [finding for finding in (_single_tokens(record), _fewer_queries(record)) if finding]


def _single_tokens(record: RotationRecord) -> Finding:
    if record.rotate.position_argument == "length":
        return note("takes neither positions nor an offset, so a single new token gets position 0: pass its position")
    x = random(2, record.heads, 8, record.dim, seed=9)  # (2, h, 8, d)
    steps = [record.rotate(token, torch.tensor([t])) for t, token in enumerate(x.split(1, dim=2))]
    decoded, prefill = torch.cat(steps, dim=2), record.rotate(x)
    change = relative_difference(decoded, prefill)
    if change < TOLERANCE:
        return passed("decoding token by token gives what one call gives", change)
    # The angles decide: a factor by the length of the call is a choice, an angle by it is a fault.
    if _same_directions(record, decoded, prefill):
        return note("the length of a token depends on the number of tokens in the call (scales as in xPos)", change)
    sentence = f"a token alone at its position differs by {change:.2g} from the same token among others"
    return wrong("offset-ignored", f"{sentence}: positions are counted in each call. Use those that are passed", change)


def _fewer_queries(record: RotationRecord) -> Finding | None:
    """Check that fewer queries than keys, as with keys in a cache, get the last positions where none are passed."""
    rotate = record.rotate
    q, k = random(2, 1, record.heads, 8, record.dim, seed=20).unbind()  # (1, h, 8, d), (1, h, 8, d)
    # Tables of cos and sin have a row for each key, as a layer passes them where keys are in a cache.
    positions = {"positions": torch.arange(8)} if record.angles_by_doctor else {}
    results, failed = attempt(rotate.pair, q[:, :, -6:], k, **positions)
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
    # The same content again and again: only the number of tokens differs from the short call.
    x = random(1, record.heads, 8, record.dim, seed=10).repeat(1, 1, length // 8, 1)
    long, failed = attempt(record.rotate.fresh(), x)
    if failed:
        return note(f"{length:,} tokens raise {failed}")
    finding = not_finite(long, f"a call of {length:,} tokens")
    # Where lengths grow, as those of keys in xPos, they overflow far out.
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
    x = random(2, record.heads, 6, record.dim, seed=12)  # (2, h, 6, d)
    change = 0.0
    positions = torch.stack((torch.arange(6), torch.arange(2, 8)))  # (2, 6)
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
    # A fresh copy: gradients would stay in the parameters of the code that later checks call.
    rotate = record.rotate.fresh()
    x, step = random(2, 1, record.heads, record.code.call.tokens or 6, record.dim, seed=14).unbind()
    for of_keys in (False, True):
        side = "keys" if of_keys else "input"
        error, failed = attempt(_gradient_error, rotate, x.clone().requires_grad_(), step, of_keys)
        if failed:
            return wrong("no-gradient", f"no gradient reaches the {side}: {failed}")
        if not error <= DIRECTION_TOLERANCE:  # or it is NaN
            sentence = f"the gradient of the {side} is off by {error:.2g}"
            return wrong("gradient-wrong", f"{sentence}: the backward pass has to rotate by the negative angles", error)
    # Both sides have been called by now: parameters have the gradients of queries and of keys.
    learned = rotate.code.learned_parameters
    broken = [name for name, parameter in learned.items() if not is_finite(parameter.grad)]
    if broken:
        return wrong("gradient-wrong", f"the gradient of {', '.join(broken)} holds NaN or infinity")
    without = [name for name, parameter in learned.items() if parameter.grad is None or not parameter.grad.any()]
    if without:
        return note(f"no gradient reaches {', '.join(without)}: it is never trained (a clamp that cuts its start off?)")
    return passed("gradients reach the input and all that is learned")


def _gradient_error(rotate: Rotation, x: Tensor, step: Tensor, of_keys: bool) -> float:
    """Return how far the gradient is from the change by a step of the input, of code that is linear; else 0."""
    with torch.enable_grad():
        y = rotate(x, of_keys=of_keys)
        weights = random(*y.shape, seed=16)
        (y * weights).sum().backward()
    gradient = torch.zeros_like(x) if x.grad is None else x.grad  # (1, h, t, d)
    with torch.no_grad():
        moved, of_step = (rotate(z, of_keys=of_keys) for z in (x + step, step.clone()))
        # Code that is not linear, such as one with a norm, does not change by what it makes of the step.
        if is_finite(gradient) and relative_difference(moved - y, of_step) > TOLERANCE:
            return 0.0
    return abs(float((gradient * step).sum()) - float((of_step * weights).sum()))


def limit(record: RotationRecord) -> Finding:
    """Find the first position that raises, is not finite, or rotates like an earlier one."""
    if record.code.call.tokens or record.angles_by_doctor or record.reading.columns:
        return not_checked("needs positions in one line, and angles that the code computes")
    if record.gains_vary:
        return not_checked("norms change with the position, so far tokens underflow or overflow")
    # The same token at each position: equal rows are equal rotations. Many tables end at 4,096.
    t = min(4_097, record.rotate.max_length)
    result, failed = attempt(record.rotate, _equal_tokens(record, t), torch.arange(t))
    result = _equal_tokens(record, 0) if failed else result
    if finding := not_finite(result, f"a call of {t:,} tokens"):
        return finding
    rows = result.movedim(2, 0).flatten(1)
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
    # Code that takes no positions computes all tokens before the last.
    furthest = 65_536 if record.rotate.position_argument == "length" else 1_048_576
    start = time.thread_time()
    while not _fault(record, 2 * last, rows):
        last *= 2
        # A table that is made in each call takes ever longer: stop where it is slow, but not among usual lengths.
        is_slow = time.thread_time() - start > SECONDS and last >= AT_LEAST
        if is_slow or last >= furthest:
            return passed(f"none up to position {last:,}", last)
    # All positions after the first fault fail too, as bisection needs: a table ends once.
    first = last + bisect_left(range(last, 2 * last), True, key=lambda position: bool(_fault(record, position, rows)))
    # Where all later positions get position 0, the first of them looks wrapped: compare two further ones too.
    faults = [_fault(record, position, rows) for position in (first, 2 * first)]
    for cause, sentence in END_FAULTS.items():
        if cause in faults:
            remedy = "Compute the table for the positions that are passed, or raise"
            return wrong(cause, f"{sentence.format(last=first - 1)}. {remedy}", first - 1)
    return note(f"ends at position {first - 1:,}: {faults[0]}", first - 1)


def _fault(record: RotationRecord, position: int, rows: Tensor) -> str:
    """Return the error that a position raises, a key of END_FAULTS, or ""."""
    # Two tokens: a single one could be broadcast from the last row of a table.
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
    return random(1, record.heads, 1, record.dim, seed=11).expand(-1, -1, t, -1).contiguous()  # (1, h, t, d)


CHECKS = (decoding, longer_calls, limit, batched_positions, input_kept, gradients)
