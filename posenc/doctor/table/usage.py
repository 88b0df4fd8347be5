"""Check how a table is used: its axes, its rows, embeddings, batches, decoding, caching, another base, its end."""

import time
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from posenc.doctor.call.code import first_result
from posenc.doctor.call.declared import rebuilt_with
from posenc.doctor.numerics import not_finite, random, relative_difference, worst
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.safe_call import attempt
from posenc.doctor.table.measure import EQUAL, INPUT_FORMS, TOKEN_ID, B, T, Table, TableRecord, are_equal, nearest_rows

if TYPE_CHECKING:  # which imports this file
    from posenc.doctor.table.grid import GridRecord

ROUNDING = 1e-4  # how far equal rows may differ that were computed in another way
PADS = 2
FIRST_COARSE = 256  # from here on bfloat16 cannot tell a position from the next
# Positions at which the end of a table is looked for, and how many seconds may be spent before. Most tables have a
# power of two of rows, of which the two from 2^n - 2 on are the last.
POSITIONS = {2**n - 2: 0.3 for n in range(2, 17)} | dict.fromkeys((100_000, 1_000_000), 0.1)


def finite(record: "TableRecord | GridRecord") -> Finding:
    """Check that the measured rows hold neither NaN nor infinity."""
    return not_finite(record.rows, "the measured rows") or passed("the measured rows are finite")


def repeatable(record: TableRecord) -> Finding:
    """Check that two calls agree, so that dropout rests."""
    difference = relative_difference(record.table(T), record.table(T))
    # The same operations on the same numbers round alike: no tolerance.
    if difference == 0:
        return passed("two equal calls return equal rows")
    return wrong("dropout-on", "two equal calls return different rows: dropout stays on in eval mode?", difference)


def axis(record: TableRecord) -> Finding | None:
    """Check that rows run along the tokens and not along the batch, with positions and without."""
    if not record.table.takes_input:
        return None
    finding = _axis(record.table, {"positions": torch.arange(T)})
    if finding.is_wrong:
        return finding
    # Where positions are optional, the code may cut its table by another axis when it counts them itself.
    without_positions, _ = attempt(_axis, record.table, {})
    return without_positions or finding


def _axis(table: Table, arguments: dict[str, Tensor]) -> Finding:
    # Of zeros the table remains: (b, t, d), (1, t, d) or (b, 1, d).
    result = table.on(torch.zeros(B, T, table.dim), arguments)
    if finding := not_finite(result, f"for {B} texts"):
        return finding
    # A batch of another size than the text tells which of the two axes the table was cut by.
    if result.shape[1] == T:
        if are_equal(result):
            difference = worst((result - result[:, :1]).abs())
            return passed("the table runs along the tokens and is the same for each text", difference)
        if not are_equal(result.transpose(0, 1)):
            return wrong("rows-mixed", "texts of a batch get different rows for the same positions")
    message = f"for embeddings (b, t, d) = ({B}, {T}, {table.dim}) rows run along the batch, not along the tokens"
    return wrong("batch-axis", f"{message}: add table[: x.shape[1]] (if the code takes (t, b, d), say order='tbd')")


def check_rows(record: TableRecord) -> Finding:
    """Check that no two rows are equal."""
    if are_equal(record.rows):
        return wrong("rows-alike", "all rows are equal: every angle is 0. Is there an integer division in it?")
    distance, first, second = nearest_rows(record.rows)
    if distance >= EQUAL:
        return passed(f"all rows differ, the nearest two by {distance:.2g}", distance)
    return _equal_rows(record, first, second)


def _equal_rows(record: TableRecord, first: int, second: int) -> Finding:
    """Tell why two positions share a row."""
    rows = record.rows  # (t, d)
    period = second - first
    position = torch.arange(len(rows))  # (t,)
    repeats = relative_difference(rows[position % period], rows) < EQUAL
    # Angles that are whole turns after some positions are meant so; learned rows have no reason to repeat.
    if repeats and not record.code.learned_parameters:
        return note(f"rows repeat every {period} positions: right only where positions are fractions of that", period)
    # On a grid in one line, columns alone repeat, and rows alone change every `block` positions.
    block = int(((rows - rows[:1]).abs().amax(1) > EQUAL).int().argmax())
    if repeats or (block > 1 and relative_difference(rows[position // block * block], rows) < EQUAL):
        message = f"rows repeat every {period} positions" if repeats else f"rows change every {block} positions only"
        return wrong("axis-lost", f"{message}: an axis of a grid is lost, or positions are divided by its side", block)
    message = f"positions {first} and {second} have the same row"
    if first >= FIRST_COARSE and period == 1:
        return wrong("positions-rounded", f"{message}, counted in bfloat16: count positions in float32", first)
    return wrong("rows-alike", message, 0.0)


def check_sum(record: TableRecord) -> Finding | None:
    """Check that a table is added to embeddings, not appended."""
    width = record.rows.shape[-1]
    dim = record.code.dim
    if width <= dim or not record.table.takes_input:
        return None
    return note(f"the result is {width} wide for embeddings of {dim}: the table is appended, not added")


def content(record: TableRecord) -> Finding | None:
    """Check what happens to the embeddings: kept, scaled, or overwritten."""
    table = record.table
    if not table.takes_input or table.takes_ids:
        return None
    x = random(B, T, table.dim, seed=1)  # (b, t, d)
    original = x.clone()
    result = table.on(x, {"positions": torch.arange(T)})
    if finding := written_in_place(x, original) or not_finite(result, "for random embeddings"):
        return finding
    # For embeddings of zeros the table comes back; without it the embeddings remain, times a number: their gain.
    kept = result - table.on(torch.zeros_like(x), {"positions": torch.arange(T)})
    # Where the table comes back alone, it has no axis for texts.
    kept = kept.expand(x.shape)  # (b, t, d)
    gain = float((kept * x).sum() / (x * x).sum())
    if relative_difference(kept, gain * x) <= 1e-3:
        return _gain(gain, table.dim)
    return note("embeddings do not come through unchanged (a norm, a projection?)", gain)


def written_in_place(x: Tensor, original: Tensor) -> Finding | None:
    """Check that what was passed to a call is as before."""
    if torch.equal(x, original):
        return None
    message = "the input is written to in place (x += ..., x[...] /= ...): the caller's tensor changes"
    return wrong("in-place", f"{message}. Return x + table, or work on a copy", relative_difference(x, original))


def _gain(gain: float, dim: int) -> Finding:
    """Judge the number by which embeddings are multiplied."""
    if abs(gain - 1) < 1e-3:
        return passed("embeddings come through as they are", gain)
    if abs(gain) < 1e-3:
        return note("embeddings do not come through: the result is the table alone, to be added by the caller", gain)
    for power, factor in ((1.0, "the width"), (-0.5, "1 over the root of the width"), (-1.0, "1 over the width")):
        if abs(gain / dim**power - 1) < 1e-3:
            message = f"embeddings are multiplied by {gain:.4g}, {factor}, in place of the square root of the width"
            return wrong("scale-twice", message, gain)
    root = f"the square root of the width, as in the paper, is {dim**0.5:.4g}"
    return note(f"embeddings are multiplied by {gain:.4g} ({root}): do so in one place only", gain)


def padding(record: TableRecord) -> Finding | None:
    """Check that padding on the left, marked by its own id or by the mask, does not move tokens to other rows."""
    form = record.table.input_form
    pad_id = 0 if form == "mask" else getattr(record.code.module, "padding_idx", None)
    if form not in ("ids", "mask") or type(pad_id) is not int:
        return None
    tokens = INPUT_FORMS[form](torch.zeros(1, PADS + T, record.code.dim))  # (1, t)
    padded = tokens.clone()
    padded[:, :PADS] = pad_id
    rows, expected = _rows_of(record, padded), _rows_of(record, tokens[:, PADS:])
    difference = relative_difference(rows[:, PADS:], expected)
    if difference < ROUNDING:
        return passed("padding on the left is not counted", difference)
    message = "padding on the left moves the tokens after it to other rows"
    # Code that gives padding one row of its own knows of it: with padding after the tokens its counts are right.
    if form == "ids" and relative_difference(rows[:, 0], rows[:, 1]) < EQUAL:
        return note(f"{message}, though it has a row of its own: right with padding on the right only", difference)
    return wrong("padding-counted", f"{message}: count with cumsum over the tokens that the mask shows", difference)


def _rows_of(record: TableRecord, tokens: Tensor) -> Tensor:
    """Return the result for token ids, or a mask, of a copy that was not called before."""
    return first_result(record.code.fresh()(**{record.table.input_role: tokens}))


def words(record: TableRecord) -> Finding | None:
    """Check that a module that embeds words returns other rows for other words."""
    modules = record.code.module.named_modules() if record.code.module is not None else ()
    names = [name.lower() for name, part in modules if isinstance(part, nn.Embedding)]
    # token_type_embeddings embed segments of a text, not its words.
    embeds_words = any(("tok" in name or "word" in name) and "type" not in name for name in names)
    if record.table.input_form != "ids" or not embeds_words:
        return None
    ids = torch.full((1, T), TOKEN_ID)  # (1, t)
    changed = _rows_of(record, ids + 1)
    if finding := not_finite(changed, f"for token id {TOKEN_ID + 1}"):
        return finding
    difference = relative_difference(changed, _rows_of(record, ids))
    if difference > EQUAL:
        return passed("other token ids get other rows", difference)
    return wrong("embeddings-lost", "other token ids get the same rows: the token embeddings are lost", difference)


def batch(record: TableRecord) -> Finding | None:
    """Check the rows where each of two texts has positions of its own."""
    table = record.table
    if table.takes_input or table.position_argument != "positions" or record.code.needs("x"):
        return None
    positions = torch.stack((torch.arange(T), torch.arange(2, T + 2)))  # (b, t)
    result, _ = attempt(lambda: first_result(record.code(positions=positions)))
    # Much code is written for positions (t,) alone, which is no fault.
    if not isinstance(result, Tensor) or result.ndim != 3:
        return not_checked("positions (b, t) raise, or give another form")
    expected = record.rows[positions]  # (b, t, d)
    if relative_difference(result, expected) < ROUNDING:
        return passed("each text of a batch gets the rows of its own positions")
    if relative_difference(result.transpose(0, 1), expected) < ROUNDING:
        return wrong("batch-axis", "for positions (b, t) the result is (t, b, d): transpose it back")
    finding = not_finite(result, "for positions (b, t)")
    return finding or wrong("rows-mixed", "texts with positions of their own get the rows of other positions")


def decoding(record: TableRecord) -> Finding:
    """Check that a token alone gets the row of its position."""
    table = record.table
    rows = record.rows  # (t, d)
    position = len(rows) // 2
    if not table.position_arguments:
        result = "each token that is decoded with a cache gets row 0" if table.takes_input else "rows are 0 .. t-1"
        return note(f"takes neither positions nor an offset: {result}; pass the position")
    difference = 0.0
    for argument in table.position_arguments:
        # With a state, each argument has to be passed to count at all.
        expected = rows if table.has_state else table(len(rows), argument=argument).double()
        alone = table(1, position, argument=argument).squeeze(0)
        difference = relative_difference(alone, expected[position])
        if difference <= ROUNDING:
            continue
        finding = not_finite(alone, f"a token alone at its {argument}")
        return finding or _row_of_another(alone, expected, position, argument, difference)
    return passed("a token alone gets the row of its position", difference)


def _row_of_another(alone: Tensor, rows: Tensor, position: int, argument: str, difference: float) -> Finding:
    # Off by one where the cache counts the token already, or not yet; by -2 where the two rows before position 0 are
    # forgotten that BART and OPT have.
    for lag in (-1, 1, -2):
        if relative_difference(alone, rows[position + lag]) < ROUNDING:
            message = f"a token alone at its {argument} gets the row of the position {lag:+d} from its own"
            return wrong("positions-shifted", message, lag)
    message = f"a token alone at its {argument} gets another row than among others, off by {difference:.2g}"
    return wrong("offset-ignored", message, difference)


def shorter(record: TableRecord) -> Finding:
    """Compare the rows of a short table with those of a long one."""
    difference = relative_difference(record.table(T), record.rows[:T])
    if difference < ROUNDING:
        return passed("a short table is the beginning of a long one", difference)
    message = f"the first rows of a table of {len(record.rows)} and of a table of {T} differ by {difference:.2g}"
    return wrong("length-dependent", f"{message}: angles depend on the length", difference)


def memory(record: TableRecord) -> Finding | None:
    """Check that a call does not depend on a longer one before it, nor on one in bfloat16."""
    if not record.table.takes_input:
        return None
    used = record.table.of(record.code.fresh())
    # Mixed precision is the usual way in which a cache gets rows of another dtype; code may refuse it.
    attempt(used, len(record.rows), dtype=torch.bfloat16)
    return cached(relative_difference(used(T), record.rows[:T]), "one call in bfloat16")


def cached(difference: float, condition: str) -> Finding:
    """Judge by how much a call differs after another one."""
    if difference < 1e-3:
        return passed("a call does not depend on the calls before it", difference)
    message = f"after {condition} numbers differ by {difference:.2g}: a cached table stays"
    return wrong("cache-stale", f"{message}. Keep it in float32, and for the call that it was made for", difference)


def base(record: "TableRecord | GridRecord") -> Finding | None:
    """Compare the rows with those of the same code with another base, where it takes one."""
    rebuilt = rebuilt_with(record.code, "base", 500)
    changed = None if rebuilt is None else record.of(rebuilt)
    if changed is None:
        return None
    if finding := not_finite(changed, "for base 500"):
        return finding
    if relative_difference(changed, record.rows) < EQUAL:
        return wrong("base-ignored", "for base 500 the rows are the same: the base argument is not used", 500.0)
    return passed("the base argument is used: for base 500 the rows change")


def limit(record: TableRecord) -> Finding:
    """Look for the first position at which the table raises or repeats a row, and for numbers that are not finite."""
    last = 1
    start = time.thread_time()
    for position, seconds in POSITIONS.items():
        # By its length alone code computes all rows before the two.
        is_large = record.table.position_argument == "length" and position * record.code.dim > 10**7
        if is_large or time.thread_time() - start > seconds:
            break
        where = f"ends between lengths {last + 1:,} and {position + 2:,}"
        pair, failed = attempt(record.table, 2, position)
        if failed or len(pair) < 2:
            return note(f"{where}: {failed or 'fewer rows come back than there are tokens'}", position)
        if finding := not_finite(pair, f"positions {position:,} and {position + 1:,}"):
            return finding
        if torch.equal(*pair):
            return _repeated_row(record, position, where)
        # Exactly equal: sinusoids come close to an earlier row, and reach none.
        if (record.rows[:position] == pair[0].double()).all(-1).any():
            return wrong("wrapped", f"{where}: rows start again without an error", position)
        last = position + 1
    return passed(f"none up to length {last + 1:,}", last + 1)


def _repeated_row(record: TableRecord, position: int, where: str) -> Finding:
    """Tell rows that stay the same from positions that are rounded to the same."""
    measured = record.rows[position : position + 2]
    if len(measured) == 2 and torch.equal(measured[0], measured[1]):
        return not_checked("rows near the start are equal already")
    # bfloat16 tells positions that are 16 apart from each other up to 4,096; clipped ones stay equal.
    further, failed = attempt(record.table, 16, position)
    if failed or torch.equal(further[0], further[-1]):
        return wrong("clipped", f"{where}: rows repeat without an error", position)
    message = f"positions {position:,} and {position + 1:,} get the same row, and later ones another"
    return wrong("positions-rounded", f"{message}: positions are rounded. Count them in float32", position)


# After what is wrong in one of these, nothing else can be judged.
FIRST_CHECKS = (finite, repeatable, axis, check_sum)
CHECKS = (content, padding, words, batch, decoding, shorter, memory, base)
