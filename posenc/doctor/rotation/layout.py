"""Check the pairs of a rotation: lengths, layout, direction, axes, queries against keys, logits by offset."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from posenc.doctor.call.code import POSITION_AXES
from posenc.doctor.numerics import not_finite, random, relative_difference, worst, wrap_angle
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.rotation import measure
from posenc.doctor.rotation.fit_frequencies import near, yarn_factor
from posenc.doctor.rotation.measure import ROWS, TOLERANCE, MeasuredPairs, Rotation, RotationRecord
from posenc.doctor.safe_call import attempt

GAIN_TOLERANCE = 3e-3
OWN_PAIRS = "Give each axis pairs of its own"
LAYOUTS = {
    "half": "half layout, pairs (i, i + {distance}), as in GPT-NeoX and the Llama of transformers",
    "interleaved": "interleaved layout, pairs (2i, 2i + 1), as in GPT-J and Meta's Llama",
}
REPEATED = {  # the layout of the pairs: that of their angles, and how to repeat these instead
    "half": ("interleaved", "torch.cat((angles, angles), -1)"),
    "interleaved": ("half", "angles.repeat_interleave(2, -1)"),
}


def finite(rotate: Rotation) -> Finding | None:
    """Check that results in float32 hold neither NaN nor infinity."""
    # Few positions: keys in xPos grow with the position until they overflow, which is no fault.
    positions = torch.arange(min(600, rotate.max_length))
    x = random(1, rotate.code.heads, len(positions), rotate.code.dim, seed=5)  # (1, h, t, d)
    results, failed = attempt(rotate.fresh().sides, x, positions)
    return None if failed else not_finite(results, "in float32")


def contents(rotate: Rotation) -> Finding | None:
    """Check that queries come of queries and keys of keys: change each alone and see which result changes."""
    code = rotate.code
    if not code.takes("q", "k"):
        return None
    t = code.call.tokens or 8
    positions = rotate.position_arguments(torch.arange(t))
    q, k, other = random(3, 1, code.heads, t, code.dim, seed=60).unbind()
    before = rotate.pair(q, k, **positions)
    by_q = [not torch.equal(*results) for results in zip(rotate.pair(other, k, **positions), before, strict=True)]
    by_k = [not torch.equal(*results) for results in zip(rotate.pair(q, other, **positions), before, strict=True)]
    if by_q == [True, False] and by_k == [False, True]:
        return passed("queries come of queries and keys of keys: changing one leaves the other as it is")
    if by_q == [False, True] and by_k == [True, False]:
        return wrong("swapped", "keys are returned first and queries second: return them in the order of the arguments")
    return wrong("one-for-both", "each result must depend on its own input alone, queries on q and keys on k")


def along(rotate: Rotation) -> Finding | None:
    """Check the axis: with one content for all tokens, heads and texts, results may differ between tokens only."""
    code = rotate.code
    t = code.call.tokens or 8
    x = random(1, 1, 1, code.dim, seed=59).expand(5, code.heads, t, -1).contiguous()  # (5, h, t, d)
    y = rotate(x)
    # Reversed along an axis, a result that changes along it differs from itself.
    over_batch, over_heads, over_tokens = (relative_difference(y, y.flip(axis)) > 1e-6 for axis in range(3))
    remedy = "not along the tokens. Say order='bthd' or 'tbhd' if these are your axes"
    if over_heads and not over_tokens:
        return wrong("heads-axis", f"angles grow along the heads, {remedy}")
    if over_batch and not over_tokens:
        return wrong("batch-axis", f"angles grow along the texts of the batch, {remedy}")
    return None


def passing(record: RotationRecord) -> Finding | None:
    """Check that no channel of the input is lost."""
    # Logits need queries and keys of one width.
    wide = [pairs.layout == "wide" for pairs in (record.reading, record.of_keys)]
    if all(wide):
        return None
    if any(wide):
        return wrong("width-wrong", "the results of queries and keys differ in width: pass what does not rotate once")
    for side, pairs in (("", record.reading), (" of keys", record.of_keys)):
        # The result for a unit vector is 0 at each position: nothing of its channel comes through.
        lost = (pairs.gains.amax(0) < 1e-9).nonzero().flatten().tolist()
        if lost:
            remedy = "pass what does not rotate as it is, x[..., r:] after the r channels that rotate"
            return wrong("width-wrong", f"channels {lost[0]} to {lost[-1]}{side} are lost: {remedy}", len(lost))
    return None


def mirrored(record: RotationRecord) -> Finding | None:
    """Check that no side reflects all pairs in place of rotating them."""
    for side, measured in (("queries", record.reading), ("keys", record.of_keys)):
        pairs = torch.tensor(measured.pairs)
        # The determinant of a pair is +1 for a rotation and -1 for a reflection.
        if len(pairs) and torch.linalg.det(measured.matrices[:, pairs[:, :, None], pairs[:, None]]).signbit().all():
            remedy = "one of the four signs is wrong, (x1 cos - x2 sin, x2 cos + x1 sin) is right"
            return wrong("not-a-rotation", f"pairs of {side} are reflected, not rotated: {remedy}")
    return None


def linear(record: RotationRecord) -> Finding | None:
    """Check that the result is a linear map of the input, the same in each head."""
    positions = record.reading.positions
    x = random(2, record.heads, len(positions), record.dim, seed=1)  # (2, h, m, d)
    # Computed first, for code may write into x.
    expected = torch.einsum("pij,bhpj->bhpi", record.reading.matrices, x.double())  # (2, h, m, d)
    error = relative_difference(record.rotate(x, positions), expected)
    if error <= TOLERANCE:
        return None
    return note(f"the map is not linear, or heads differ (by {error:.2g}); the first head was measured", error)


def check_norm(record: RotationRecord) -> Finding:
    """Check that norms stay, of queries and of keys."""
    finding = norm(record)
    of_keys = norm(record._replace(reading=record.of_keys, of_keys=record.reading))
    if of_keys.is_wrong and not finding.is_wrong:
        return of_keys._replace(words=f"of keys: {of_keys.words}")
    return finding


def norm(record: RotationRecord) -> Finding:
    """Check that norms of one side stay: a gain of 1, or one factor for all, or gains that the other side cancels."""
    reading = record.reading
    if reading.layout == "wide":
        return note("the result is wider than the input (as in PoPE), so no pairs are measured")
    least, most = map(float, reading.gains.aminmax())
    if reading.pairs_disagree and reading.layout in REPEATED:
        other, right = REPEATED[reading.layout]
        sentence = f"norms change, {least:.3g} to {most:.3g} times: pairs of the {reading.layout} layout meet angles"
        return wrong("layout-mixed", f"{sentence} that are repeated for the {other} one. Repeat them as {right}", most)
    identity = torch.eye(record.dim)  # (d, d)
    # Orthogonal but for the gains: one factor for all channels is an attention factor, not a fault.
    unit = reading.matrices / reading.gains[:, None]  # (m, d, d)
    is_orthogonal = worst((unit.mT @ unit - identity).abs()) < reading.tolerance
    if is_orthogonal and near(least, most, reading.tolerance) and not reading.pairs_disagree:
        return passed("vectors keep their norm", least) if near(least, 1, reading.tolerance) else _factor(record)
    # In xPos a logit has the product of both gains, which is 1 for a query and a key at one position.
    products = reading.matrices.mT @ record.of_keys.matrices
    if record.gains_vary and worst((products - identity).abs()) < TOLERANCE:
        return note("queries grow as keys shrink (as in xPos): only their product keeps its size")
    if not record.decays:
        return _stretched(record)
    if not record.code.takes("q", "k"):
        return note("pairs grow or decay with the position (as in xPos): keys need the inverse, so pass q and k")
    sentence = "queries and keys both grow or decay with the position (as in xPos), so logits depend on it"
    return wrong("absolute", f"{sentence}. Scale keys by the inverse of the factor for queries")


def _factor(record: RotationRecord) -> Finding:
    gain, factor = float(record.reading.gains.mean()), yarn_factor(record.fit.factor)
    sentence = f"every channel is multiplied by {gain:.4f}, so logits by {gain * gain:.4f}"
    if record.fit.name == "by parts" and near(gain, factor, GAIN_TOLERANCE):
        return passed(f"{sentence}: YaRN's factor for a scaling by {record.fit.factor:.3g}", gain)
    if record.fit.name == "by parts" and near(gain, factor**2, GAIN_TOLERANCE):
        return wrong("factor-twice", f"{sentence}: YaRN's factor {factor:.4f} is applied twice. Apply it once", gain)
    return note(f"{sentence}: an attention factor. Apply it once, here or in the softmax scale", gain)


def _stretched(record: RotationRecord) -> Finding:
    gains = record.reading.gains  # (m, d)
    most = float(gains.max())
    cause = "cosine and sine of a pair have different angles, or their signs do not make a rotation"
    changed = ((gains - 1).abs().amax(0) > TOLERANCE).nonzero().flatten().tolist()
    if not changed:
        return wrong("not-a-rotation", f"pairs of channels are mixed, not rotated: {cause}", most)
    sentence = f"the length of channels {', '.join(map(str, changed[:8]))} changes, up to {most:.4g} times"
    # Cosine 1 and sine 1 at each position, 0 too: the length is that of the diagonal of a square.
    is_constant = record.reading.matrices.std(0)[:, changed].max() < TOLERANCE
    if is_constant and near(most, math.sqrt(2), GAIN_TOLERANCE):
        remedy = "pad sines with 0 and cosines with 1 where the frequency is 0: a sine of 1 gives a length of 1.414"
        return wrong("padded-with-one", f"{sentence}, at position 0 too: {remedy}", most)
    return wrong("not-a-rotation", f"{sentence}: {cause}", most)


def check_layout(record: RotationRecord) -> Finding:
    """Name the pairs of channels, unless queries and keys differ in them."""
    if finding := difference(record):
        return finding
    reading = record.reading
    width = 2 * len(reading.pairs)
    if not reading.pairs:
        return note("more than two channels mix: neither layout nor frequencies can be measured")
    part = "all channels rotate" if width == record.dim else f"{width} of {record.dim} channels rotate"
    if reading.layout not in LAYOUTS:
        return note(f"pairs are neither half nor interleaved (several axes?); {part}", width)
    layout = LAYOUTS[reading.layout].format(distance=reading.distance)
    if reading.is_padded:
        part += f", the other pairs (i, i + {reading.distance}) have frequency 0"
    return passed(f"{layout}; {part}. Weights for the other layout run without an error and are wrong", width)


def short_name(measured: MeasuredPairs) -> str:
    """Return the layout in two words, with its pairs where these are not (i, i + r/2) of the r channels that rotate."""
    if measured.layout not in LAYOUTS:
        return "layout of its own"
    pairs = f" of pairs (i, i + {measured.distance})" if measured.is_padded else ""
    return f"{measured.layout} layout{pairs}"


def difference(record: RotationRecord) -> Finding | None:
    """Compare the pairs, frequencies and angles at 0 of queries with those of keys."""
    of_q, of_k = record.reading, record.of_keys
    if of_q.layout != of_k.layout:
        return _different_layouts(record)
    if len(of_q.pairs) != len(of_k.pairs):
        sentence = f"{2 * len(of_q.pairs)} channels of queries rotate and {2 * len(of_k.pairs)} of keys"
        return wrong("sides-differ", f"{sentence}: give both one rotary width", 2 * len(of_k.pairs))
    # Signs are left to the check of the direction.
    if not (of_q.theta.abs() - of_k.theta.abs()).norm() <= TOLERANCE * of_q.theta.norm():
        return wrong("sides-differ", "queries and keys have different frequencies: give both one base and one scaling")
    if not (of_q.angle_at_0 - of_k.angle_at_0).norm() <= TOLERANCE:
        sentence = "queries and keys at one position have different angles, so a token has not the offset 0 to itself"
        return wrong("sides-differ", f"{sentence}. Count positions of both from the same start")
    return None


def _different_layouts(record: RotationRecord) -> Finding:
    """Tell a side that never rotates from one that counts from 0 in each call, as single tokens do not show."""
    of_q, of_k = record.reading.layout, record.of_keys.layout
    sentence = "so logits do not depend on offsets only. Rotate both alike"
    if "none" not in (of_q, of_k):
        return wrong("sides-differ", f"queries have pairs of the layout {of_q!r}, keys of {of_k!r}, {sentence}")
    # Attentions, which take v, are measured by their weights, at the positions of one call.
    if record.code.takes("q", "k") and not record.code.takes("v"):
        x = random(1, record.heads, 8, record.dim, seed=18)
        if not relative_difference(record.rotate(x, of_keys=of_k == "none"), x) < TOLERANCE:
            sentence = "one of queries and keys counts from 0 in each call, the other from the offset"
            return wrong("sides-differ", f"{sentence}: pass the offset to both")
    side = "queries rotate and keys do not" if of_k == "none" else "keys rotate and queries do not"
    return wrong("one-side", f"{side}, {sentence}")


def direction(record: RotationRecord) -> Finding | None:
    """Check the sign of the angles, of queries against keys first."""
    of_q, of_k = record.reading.theta.sign(), record.of_keys.theta.sign()
    if of_q.any() and torch.equal(of_q, -of_k):
        sentence = "queries and keys rotate in opposite directions, so logits depend on the sum of their positions"
        return wrong("opposite", f"{sentence}. Use the same sign of the sine for both", -1.0)
    if (of_q < 0).all():
        sentence = "rotates by negative angles, (x1, x2) -> (x1 cos + x2 sin, x2 cos - x1 sin)"
        return note(f"{sentence}: weights that were trained with the usual sign do not fit", -1.0)
    return None


def origin(record: RotationRecord) -> Finding | None:
    """Note an angle at position 0 that is not 0, and of which position it is."""
    start, theta, tolerance = record.reading.angle_at_0, record.reading.theta, record.reading.tolerance
    # Counting from 1 is the usual cause, a few more may be an offset that was left in the code.
    equal = [position for position in range(-8, 9) if wrap_angle(start - position * theta).abs().max() < tolerance]
    if 0 in equal:
        return None
    angle = f"the angle of position {equal[-1]}" if equal else "an angle other than 0"
    sentence = f"position 0 gets {angle}: harmless while queries and keys agree, wrong where a cache counts one from 0"
    return note(sentence, equal[-1] if equal else None)


def grid(record: RotationRecord) -> Finding | None:
    """Check that some pairs rotate along the rows of a grid and some from row to row."""
    reading, code = record.reading, record.code
    columns = code.call.tokens // ROWS
    if columns not in (0, ROWS) and code.takes("rows", "columns"):
        # Pairs that count along rows as long as there are rows take one number for the other.
        matrices = measure.matrices_of(record.rotate, torch.arange(record.rotate.max_length))  # (t, d, d)
        angle = measure.angles_of(matrices, reading.pairs)  # (t, n)
        count = [measure.row_length(of_pair[:, None]) for of_pair in angle.T].count(ROWS)
        if count:
            sentence = f"with {ROWS} rows of {columns} tokens, {count} of {len(reading.pairs)} pairs count in rows"
            return wrong("axes-swapped", f"{sentence} of {ROWS}: divide by the number of columns, not of rows", count)
    if not reading.columns:
        return None
    along, down = (int(theta.round(decimals=6).count_nonzero()) for theta in (reading.theta, reading.theta_down))
    sentence = f"rows of {reading.columns}: {along} pairs rotate along a row, {down} from row to row"
    return passed(sentence, along) if along and down else wrong("axis-lost", f"{sentence}. {OWN_PAIRS}")


def each_axis(record: RotationRecord) -> Finding | None:
    """Check that each axis of positions has pairs that rotate when it alone moves."""
    if record.rotate.position_argument != "positions" or record.angles_by_doctor:
        return None
    form = record.code.call.positions_form
    form = form if form in POSITION_AXES else "3bt"
    x = random(2, record.heads, 6, record.dim, seed=19)  # (2, h, 6, d)
    positions = torch.arange(6)
    result, failed = attempt(_along(record, form), x, positions)
    # Code of one axis raises, or adds all three up.
    if failed or relative_difference(result, record.rotate(x, positions)) > TOLERANCE:
        return None
    rotations = [_along(record, form, axis) for axis in range(POSITION_AXES[form])]
    counts = [len(measure.measure_pairs(rotate, record.rotate.max_length).pairs) for rotate in rotations]
    sentence = f"along {len(counts)} axes {', '.join(map(str, counts))} pairs rotate"
    return passed(sentence) if all(counts) else wrong("axis-lost", f"{sentence}. {OWN_PAIRS}")


def _along(record: RotationRecord, form: str, axis: int | None = None) -> Rotation:
    """Return the rotation by positions of several axes, of which one moves alone or all move alike."""
    code = record.code.fresh()
    code.axis = axis
    code.call = code.call._replace(positions_form=form)
    return Rotation(code)


def shift(record: RotationRecord) -> Finding:
    """Check that logits depend on the offset of query and key only: they stay when both move together."""
    moves = _moves(record)
    changes = []
    if not moves:
        return not_checked(f"only {record.rotate.max_length} positions, too few to move 8 tokens")
    t = len(moves[0][0])
    q, k = random(1, record.heads, t, record.dim, seed=2), random(1, record.heads, t, record.dim, seed=3)
    for before, after in moves:
        logits = _logits(record, q, k, before)
        changes.append(relative_difference(_logits(record, q, k, after), logits))
    change = worst(*changes)
    if change < record.reading.tolerance:
        return passed("logits depend on offsets only: moving queries and keys together changes nothing", change)
    sentence = f"moving queries and keys together changes the logits by {change:.2g} of the largest"
    return wrong("absolute", f"{sentence}: they do not depend on offsets only. Add nothing absolute", change)


def _moves(record: RotationRecord) -> list[tuple[Tensor, Tensor]]:
    """Return positions before and after a move; on a grid, from row to row and along a row."""
    columns = record.reading.columns
    # On a grid two tokens of a row move to the next row, and two of a column to the next column: offsets stay.
    if columns:
        square = record.reading.cells[[0, 1, columns, columns + 1]].view(2, 2)
        return [(square[0], square[1]), (square[:, 0], square[:, 1])]
    # A rotation without a parameter for positions computes all tokens before them, so it is moved less.
    furthest = min(100 if record.rotate.position_argument == "length" else 1000, record.rotate.max_length - 8)
    steps = (min(17, furthest), furthest) if furthest > 0 else ()
    return [(torch.arange(8), torch.arange(8) + step) for step in steps]


def _logits(record: RotationRecord, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
    """Return the logits; of angles alone, where the code does not show the decay of keys."""
    q, k = record.rotate(q, positions), record.rotate(k, positions, of_keys=True)
    if record.decays and not record.code.takes("q", "k"):
        q, k = record.directions(q), record.directions(k)
    return q @ k.mT  # (1, h, t, t)


def checks_of_pairs(record: RotationRecord) -> tuple[Callable[[RotationRecord], Finding | None], ...]:
    """Return the checks of pairs that mean something: some faults leave nothing else to measure."""
    reading = record.reading
    for check in (passing, mirrored):
        if check(record):
            return (check,)
    if reading.layout == "wide":
        return (check_norm,)
    if "none" in (reading.layout, record.of_keys.layout) and difference(record):
        return (check_layout,)
    # That nothing rotates is a finding on frequencies.
    if reading.is_identity:
        return ()
    checks = (linear, check_norm, check_layout)
    # The angle of a pair has a meaning only where both of its channels rotate by it.
    if reading.pairs and not reading.pairs_disagree:
        return (*checks, direction, origin, grid, each_axis)
    return checks
