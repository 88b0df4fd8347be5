"""Check a model: what a token sees, positions, the batch and padding, decoding with the cache, long texts, dtypes."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from posenc.doctor.model.measure import CLOSE, LAST, MIDDLE, SAME, TOKENS, Model, ModelRecord
from posenc.doctor.numerics import HALF_PRECISION, not_finite, relative_difference, worst
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.safe_call import attempt

FIRST = 5  # tokens, before the others come one at a time
PAD = 5  # tokens of padding
MOST_ROWS = 4_096  # of a table, for a text of more tokens
SHIFT, BEYOND_HALF, FAR = 17, 2_100, 1_000_000  # how far all positions are moved together
ANGLES = ("freq", "theta", "cos", "sin", "rot")  # in the names of buffers
NO_POSITIONS, NO_MASK = "needs a parameter for position_ids", "needs a parameter for an attention mask"


def _unchanged(difference: float, tolerance: float, sentence: str, cause: str, fault: str) -> Finding:
    """Return that a difference is small, or what is wrong, with the difference in braces."""
    if difference < tolerance:
        return passed(sentence, difference)
    return wrong(cause, fault.format(f"{difference:.2g}"), difference)


def finite(record: ModelRecord) -> Finding | None:
    """Check that all logits are finite."""
    return not_finite(record.logits, "logits of the first call")


def repeatable(record: ModelRecord) -> Finding:
    """Check that two calls agree."""
    difference = relative_difference(record.model(record.ids), record.logits)
    fault = "two calls of the same differ by {}: is dropout active in eval mode?"
    return _unchanged(difference, SAME, "two calls of the same agree", "dropout-on", fault)


def future(record: ModelRecord) -> Finding:
    """Change the last token: the logits before it must stay."""
    changes = record.changes(LAST)
    largest = worst(changes)
    if largest < SAME:
        return passed("causal: no token sees those ahead")
    # An encoder may see all tokens. What decodes with a cache may not: while it decodes, no later token exists.
    _, failed = attempt(_in_pieces, record, MIDDLE)
    if failed and float(changes.min()) > SAME:
        return note("every token sees every other: right for an encoder only; in a decoder training leaks")
    effect = "training leaks the answer" if failed else "what is decoded with the cache is something else"
    return wrong("future-seen", f"the last token changes the logits before it by {largest:.2g}, so {effect}", largest)


def order(record: ModelRecord) -> Finding:
    """Shuffle the tokens before the last one: its logits must change."""
    # Without positions, attention sees a set of tokens, whose sum does not depend on their order.
    shuffled = torch.cat((record.ids[:, :LAST].flip(1), record.ids[:, LAST:]), 1)  # (b, t)
    difference = relative_difference(record.model(shuffled)[:, LAST], record.logits[:, LAST])
    if SAME < difference < math.inf:
        return passed("the order of the tokens matters", difference)
    return wrong("positions-ignored", "shuffled tokens give the same logits at the end: positions have no effect")


def batch(record: ModelRecord) -> Finding:
    """Compare a text alone with the same text beside another."""
    difference = relative_difference(record.model(record.ids[:1]), record.logits[:1])
    sentence = "a text does not depend on the other texts of the batch"
    fault = "a text alone differs by {} from the same text beside another"
    return _unchanged(difference, SAME, sentence, "batch-mixed", fault)


def shift(record: ModelRecord) -> Finding:
    """Move all positions together."""
    model, ids, positions = record.model, record.ids, record.positions
    if not model.takes("positions"):
        return not_checked(NO_POSITIONS)
    # First the default positions, so that the shift below changes the positions and nothing else.
    difference = relative_difference(model(ids, positions=positions), record.logits)
    if not difference <= SAME:
        sentence = f"position_ids of 0, 1, 2 ... change the logits by {difference:.2g}: by default they count otherwise"
        return wrong("positions-shifted", sentence, difference)
    moved, failed = attempt(model, ids, positions=positions + SHIFT)
    if failed:
        return note(f"positions from {SHIFT} on raise {failed}")
    if finding := not_finite(moved, f"logits from position {SHIFT} on"):
        return finding
    difference = relative_difference(moved, record.logits)
    sentence = f"moving all positions together changes the logits by {difference:.2g}"
    # A learned table has a row for each position, so that logits may follow; rotations and biases know offsets only.
    if model.adds_positions:
        return passed(f"{sentence}: it adds rows of positions", difference)
    # Far out, a power of the position may overflow. Of a copy, since code may keep a table for as many positions.
    far, _ = attempt(Model(model.module), ids, positions=positions + FAR)
    if finding := not_finite(far, f"logits from position {FAR:,} on"):
        return finding
    if difference < SAME:
        return passed("moving all positions together changes nothing: logits depend on offsets only", difference)
    cause = "there is no table of positions: queries and keys are rotated to different positions"
    return wrong("absolute", f"{sentence}, and {cause}", difference)


def decoding(record: ModelRecord) -> Finding:
    """Pass a few tokens, then one at a time with the cache."""
    lengths = [FIRST, *[1] * (TOKENS - FIRST)]
    logits, failed = attempt(_in_pieces, record, lengths)
    if failed:
        return not_checked(f"with the cache: {failed}")
    difference = relative_difference(logits, record.logits)
    if difference < CLOSE:
        return passed("token by token with the cache gives what all at once gives", difference)
    sentence = f"token by token with the cache differs by {difference:.2g} from all at once"
    # Where passed positions repair it, the cache and the mask are right, and the default positions are not.
    with_positions, _ = attempt(_in_pieces, record, lengths, passes_positions=True)
    if relative_difference(with_positions, record.logits) < CLOSE:
        cause = "right only where position_ids are passed: by default each call counts from 0"
        return wrong("offset-ignored", f"{sentence}, {cause}", difference)
    cause = "new tokens have other positions, cached keys are rotated again, or the mask is aligned with the first keys"
    return wrong("cache-wrong", f"{sentence}: {cause}", difference)


def pieces(record: ModelRecord) -> Finding:
    """Pass the text in two pieces with the cache."""
    # A single new token sees all keys, whatever the mask; several must not see one another's future.
    logits, failed = attempt(_in_pieces, record, MIDDLE)
    if failed:
        return not_checked(f"several tokens after a cache: {failed}")
    difference = relative_difference(logits, record.logits)
    sentence = "two pieces with the cache give what all at once gives"
    fault = "two pieces differ by {} from all at once: the second's mask or positions do not count the first"
    return _unchanged(difference, CLOSE, sentence, "cache-wrong", fault)


def _in_pieces(record: ModelRecord, lengths: int | list[int], passes_positions: bool = False) -> Tensor:
    """Return the logits of the text passed piece by piece with the cache; raise if no cache goes in or comes back."""
    cache = None
    parts: list[Tensor] = []
    for ids, positions in zip(record.ids.split(lengths, 1), record.positions.split(lengths, 1), strict=True):
        arguments = {"positions": positions} if passes_positions else {}
        logits, cache = record.model.with_cache(ids, cache=cache, use_cache=True, **arguments)
        if cache is None or not record.model.takes("cache"):
            raise ValueError(f"doctor: cache must be taken and in the result, got {type(cache).__name__} beside logits")
        parts.append(logits)
    return torch.cat(parts, 1)


def right_padding(record: ModelRecord) -> Finding:
    """Pad on the right, hidden by the mask."""
    if not record.model.takes("mask"):
        return not_checked(NO_MASK)
    ids, mask = _padded(record, record.ids.min(), 0, PAD)
    difference = relative_difference(record.model(ids, mask=mask)[:, :TOKENS], record.logits)
    sentence = "hidden padding on the right leaves the real tokens alone"
    fault = "padding on the right, hidden by the mask, changes the real tokens by {}"
    return _unchanged(difference, CLOSE, sentence, "mask-ignored", fault)


def left_padding(record: ModelRecord) -> Finding:
    """Pad on the left, hidden by the mask: with positions that are passed, and without."""
    if not record.model.takes("mask"):
        return not_checked(NO_MASK)
    # Padding of two tokens has the same positions, so that logits that differ by it show a mask that is not used.
    (ids, mask), (others, _) = (_padded(record, token, PAD, 0) for token in (record.ids.min(), record.ids.max()))
    logits = record.model(ids, mask=mask)[:, PAD:]  # (b, t, v)
    leak = relative_difference(record.model(others, mask=mask)[:, PAD:], logits)
    if not leak <= CLOSE:
        return wrong("mask-ignored", f"tokens that the mask hides change the real tokens by {leak:.2g}", leak)
    difference = relative_difference(logits, record.logits)
    remedy = "mask.cumsum(-1) - 1"
    if record.model.takes("positions") and not difference < CLOSE:
        positions = (mask.cumsum(1) - 1).clamp(min=0)  # (b, n)
        with_positions = record.model(ids, mask=mask, positions=positions)[:, PAD:]
        if relative_difference(with_positions, record.logits) < CLOSE:
            return note(f"hidden padding on the left moves the real tokens unless position_ids are given: {remedy}")
    sentence = "hidden padding on the left leaves the real tokens alone"
    fault = "hidden padding on the left changes the real tokens by {}: positions count it. Count real tokens, " + remedy
    return _unchanged(difference, CLOSE, sentence, "padding-counted", fault)


def _padded(record: ModelRecord, token: Tensor, before: int, after: int) -> tuple[Tensor, Tensor]:
    """Return the ids and the mask (b, t) of the text with a token for padding."""
    pads = (before, after)
    return F.pad(record.ids, pads, value=int(token)), F.pad(torch.ones_like(record.ids), pads)


def packed(record: ModelRecord) -> Finding:
    """Put two documents into one row, with positions that start again and a mask of two blocks."""
    if not record.model.takes("positions"):
        return not_checked(NO_POSITIONS)
    ids, positions, expected = (part.flatten(0, 1)[None] for part in (record.ids, record.positions, record.logits))
    # Some models part documents wherever positions start again; others need a mask, of bools or of numbers to add.
    if relative_difference(record.model(ids, positions=positions), expected) < CLOSE:
        return passed("documents packed in one row, with positions that start again, do not see each other")
    blocks = torch.block_diag(*torch.ones(len(record.ids), TOKENS, TOKENS).tril())[None, None]  # (1, 1, n, n)
    for mask in (blocks.bool(), blocks.log()):
        logits, _ = attempt(record.model, ids, positions=positions, mask=mask)
        if relative_difference(logits, expected) < CLOSE:
            return passed("documents packed in one row do not see each other under a mask of blocks (b, 1, t, t)")
    return note("documents packed in one row see each other, and no mask of blocks (b, 1, t, t) parts them")


def longer(record: ModelRecord) -> Finding:
    """Compare the first logits of a long text with those of a short one."""
    model, longest = record.model, record.model.longest
    if not worst(record.changes(LAST)) <= SAME:
        return not_checked("tokens see those ahead, so a longer text is another one")
    # Beyond the declared length first: dynamic scalings change frequencies there, and cached keys keep the old ones.
    ids = model.random_ids(longest + 64)  # (b, n)
    logits, failed = attempt(model, ids)
    if failed:
        logits, failed = attempt(model, ids[:, :longest])
    if failed:
        return note(f"{longest:,} tokens raise {failed}")
    length = f"{logits.shape[1]:,} tokens"
    if finding := not_finite(logits, f"logits in a text of {length}"):
        return finding
    difference = relative_difference(logits[:, :TOKENS], record.logits)
    cause = "frequencies depend on the length (dynamic NTK, LongRoPE), and cached keys were rotated by other ones"
    fault = f"the first logits change by {{}} in a text of {length}: {cause}"
    sentence = f"the first logits of {length} are those of a short text"
    return _unchanged(difference, CLOSE, sentence, "length-dependent", fault)


def limit(record: ModelRecord) -> Finding:
    """Ask for more tokens than there are positions."""
    model, rows = record.model, record.model.table_rows
    if not rows:
        return passed("no learned table, so no row where it ends")
    if rows > MOST_ROWS:
        return not_checked(f"the table has {rows:,} rows: too long a text to try")
    # An error is right here: rows that are clipped or taken again give far tokens wrong positions without one.
    _, failed = attempt(model, model.random_ids(rows + TOKENS))
    if failed:
        return passed(f"more tokens than {rows:,} are refused: {failed}", rows)
    if model.takes("positions"):
        beyond = torch.full_like(record.ids, rows)  # (b, t)
        at_limit, after = (model(record.ids, positions=places) for places in (beyond, beyond + record.positions))
        if relative_difference(at_limit, after) < SAME < relative_difference(at_limit, record.logits):
            return wrong("clipped", f"from position {rows:,} on all tokens get one row, without an error", rows)
    return note(f"takes more tokens than the {rows:,} rows of its table: where do the others come from?", rows)


def half_precision(record: ModelRecord) -> Finding:
    """Cast the model to bfloat16 and float16: are logits finite, and which buffers of angles are rounded with it?"""
    failures: list[str] = []
    differences: dict[str, float] = {}
    for name, dtype in HALF_PRECISION.items():
        model = Model(record.model.module)
        model.module.to(dtype)
        logits, failed = attempt(model, record.ids)
        # Half precision rounds integers from 2,048 on (bfloat16 from 256), positions of a rotation for instance.
        far = None
        if model.takes("positions") and not model.table_rows:
            far, _ = attempt(model, record.ids, positions=record.positions + BEYOND_HALF)
        for result, where in ((logits, ""), (far, f" from position {BEYOND_HALF:,} on")):
            if finding := not_finite(result, f"logits in {name}{where}"):
                return finding._replace(id="precision-lost")
        if failed:
            failures.append(f"{name} raises {failed}")
        else:
            differences[name] = relative_difference(logits, record.logits)
    if not differences:
        return not_checked(failures[0])
    largest = worst(*differences.values())
    # A cast of all buffers rounds the frequencies, by an error that grows with the position.
    for name, buffer in record.model.module.named_buffers():
        if buffer.is_floating_point() and any(piece in name.lower() for piece in ANGLES):
            fault = f"after model.bfloat16() buffers of angles ({name}, ...) are rounded: far tokens get other angles"
            remedy = "Load in bfloat16 by the library's own setting, or cast parameters only"
            return note(f"{fault}. {remedy}", largest)
    return passed(f"{' and '.join(differences)} within {largest:.1g} of float32", largest)


OF_POSITIONS = (repeatable, future, order, batch, shift)
OF_CALLS = (decoding, pieces, right_padding, left_padding, packed)
CHECKS = (*OF_POSITIONS, *OF_CALLS, longer, limit, half_precision)
