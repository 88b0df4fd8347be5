"""Check how a bias is used: decoding, calls in turn, long texts, half precision, far positions, factor, content."""

import torch
from torch import Tensor

from posenc.doctor.bias.buckets import FEW, limit, runs
from posenc.doctor.bias.measure import Bias, BiasRecord, change_at_one_offset, less_constant, relative_to_own_position
from posenc.doctor.numerics import HALF_PRECISION, not_finite, random, relative_difference
from posenc.doctor.report import VERDICTS, Finding, not_checked, note, passed, wrong
from posenc.doctor.safe_call import attempt

MANY = 512  # keys of a long text
BEYOND_HALF, FEWER = 2_112, 1_024  # keys: float16 rounds integers from 2,048 on
NEAR = 32  # keys whose steps are compared in half precision
SAME = 1e-4
FAR_POSITIONS = (10_000, 1_000_000)
FACTORS = ("scale", "bias_gain", "gain", "scaling_factor")
TAKE_LAST_ROWS = "take the last rows while decoding"
NO_DTYPE = "needs a parameter dtype that the result follows, or a module to cast"


def decoding(record: BiasRecord) -> Finding:
    """Compare one query after its keys, and a few, with the last rows of all."""
    if not record.bias.tells_queries_from_keys:
        return not_checked(f"needs positions or lengths of queries and keys apart; until then {TAKE_LAST_ROWS}")
    # T5's encoder counts queries from the first key; code that takes the number of past tokens serves a decoder too.
    is_encoder = any(getattr(part, "is_decoder", None) is False for part in record.code.modules)
    if is_encoder and not record.code.takes("offset"):
        return not_checked("is_decoder is False: an encoder never decodes")
    # Several queries, too: code may hide no keys from a single query, and place its mask wrongly for several.
    for queries, name in ((1, "one query"), (5, "five queries")):
        numbers, failed = attempt(Bias(record.code.fresh()).among, record.size, queries)
        expected = record.numbers[:, -queries:]
        call = f"{name} after {record.size} keys"
        if failed:
            return note(f"{call} raises {failed}; {TAKE_LAST_ROWS}")
        if finding := not_finite(numbers, call, may_hide_keys=True):
            return finding
        if not numbers.any() and expected.any() and not record.bias.returns_ids:
            return note(f"{call} gets no bias at all; {TAKE_LAST_ROWS}")
        if not _are_equal_rows(record, numbers, expected):
            sentence = f"{call} gets another row than the last: is it aligned with the first key? Place queries at the"
            sentence += " last of the keys: query position = keys - queries + i"
            return wrong("decode-aligned-first", sentence, relative_difference(numbers, expected))
    return passed("one query after its keys gets the last row", 0.0)


def _are_equal_rows(record: BiasRecord, rows: Tensor, expected: Tensor) -> bool:
    """Return whether rows are equal; those of a bias up to a constant of each, which softmax cancels."""
    if record.bias.returns_ids:
        return torch.equal(rows, expected)
    rows, expected = (less_constant(part, part.amax(-1, True)) for part in (rows, expected))
    return relative_difference(rows, expected) < SAME


def kept(record: BiasRecord) -> Finding | None:
    """Call again after other calls: what these kept must not show."""
    # Positions that are passed choose the numbers themselves; lengths and content may be answered from a cache.
    if record.bias.position_argument in ("relative", "positions") or record.code.module is None:
        return None
    n = record.size
    counts = [1, n] if record.bias.tells_queries_from_keys else [n]  # of queries
    # What each call gives alone is compared with what it gives after the others, twice.
    alone = [attempt(Bias(record.code.fresh()).among, n, t) for t in counts]
    bias = Bias(record.code.fresh())
    in_turn = [attempt(bias.among, n, t) for t in counts * 2]
    for (expected, failed), (numbers, failed_in_turn) in zip(alone * 2, in_turn, strict=True):
        if failed_in_turn and not failed:
            return wrong("cache-stale", f"called again after another call it raises {failed_in_turn}")
        if failed or relative_difference(numbers, expected) <= SAME:
            continue
        sentence = "what one call made is kept and cut wrongly for the next: called in turn, it gives other numbers"
        is_first_row = _are_equal_rows(record, numbers, record.numbers[:, :1])
        return wrong("decode-aligned-first" if is_first_row else "cache-stale", sentence)
    return None


def longer(record: BiasRecord) -> Finding:
    """Ask for many keys: the first ones keep their numbers, and these still depend on offsets only."""
    numbers, failed = attempt(record.bias.among, MANY)
    if failed:
        return note(f"{MANY} keys raise {failed}")
    if finding := not_finite(numbers, f"among {MANY} keys", may_hide_keys=True):
        return finding
    # Softmax cancels a constant of each query.
    relative = relative_to_own_position(numbers)  # (h, n, n)
    difference = relative_difference(relative[:, : record.size, : record.size], record.relative)
    if not difference <= 1e-3:
        sentence = f"among {MANY} keys the first {record.size} get other numbers than alone (by {difference:.2g})"
        return wrong("length-dependent", sentence, difference)
    # Queries beyond the first ones may have other numbers, as where positions are clipped at the end of a table.
    if change_at_one_offset(record.relative) < SAME <= change_at_one_offset(relative):
        return wrong("absolute", f"from {record.size} to {MANY} keys it depends on absolute positions")
    # A linear bias goes on without end, unless the code says where it stops.
    last = runs(numbers[:, -1].flip(-1))[-1]
    begins = MANY - last
    if record.is_linear and last > FEW and begins != limit(record):
        return wrong("clipped", f"from distance {begins} on all keys get one number: distances are clipped", begins)
    return passed(f"the same among {MANY} keys")


def rounding(record: BiasRecord) -> Finding:
    """Compare the steps between near keys in bfloat16 and float16 with those in float32, among many keys."""
    code = record.code
    follows_content = record.bias.position_argument in ("q", "x") and not record.bias.returns_ids
    takes_dtype = code.takes("dtype") or code.takes("score")  # the result follows the dtype of the score
    if not takes_dtype and not code.module and not follows_content:
        return not_checked(NO_DTYPE)
    queries, keys = _many_keys(record)
    expected = _near_steps(Bias(code.fresh())(queries, keys))
    findings = []
    for name, dtype in HALF_PRECISION.items():
        bias = Bias(code.fresh() if takes_dtype else code.cast(dtype))
        numbers, failed = attempt(bias, queries, keys, dtype)
        where = f"in {name}, among {len(keys):,} keys"
        if failed:
            findings.append(not_checked(f"{where} raises {failed}"))
        elif finding := not_finite(numbers, where, may_hide_keys=True):
            return finding
        elif not code.module and numbers.dtype != dtype:
            return not_checked(NO_DTYPE)  # a dtype that is not used, or content whose values are not
        else:
            findings.append(_of_steps(_near_steps(numbers), expected, where))
    # Where one of the dtypes raises an error, the verdict on the other counts.
    return min(findings, key=lambda finding: VERDICTS.index(finding.verdict))


def _of_steps(steps: Tensor, expected: Tensor, where: str) -> Finding:
    """Return whether steps (h, n) in half precision are those in float32."""
    difference = relative_difference(steps, expected)
    # A number that is rounded once, after the subtraction, moves steps this near by less than half of the largest.
    if difference <= 0.5:
        return passed(f"{where} the steps between near keys stay within {difference:.2g}", difference)
    sentence = f"{where} the step between near keys is off by {difference:.2g} of itself: large numbers are rounded"
    remedy = "before they are subtracted. Subtract positions first, as integers or in float32"
    return wrong("bias-rounded", f"{sentence} {remedy}", difference)


def _many_keys(record: BiasRecord) -> tuple[Tensor, Tensor]:
    """Return the queries and keys of a long text: the last query alone, where code places it at the last key."""
    keys = torch.arange(BEYOND_HALF)  # (s,)
    if record.bias.tells_queries_from_keys:
        row, failed = attempt(Bias(record.code.fresh()).among, record.size, 1)
        if not failed and _are_equal_rows(record, row, record.numbers[:, -1:]):
            return keys[-1:], keys
    # A square of as many queries may need more memory than there is, or more rows than a table has.
    _, failed = attempt(Bias(record.code.fresh()), keys, keys)
    keys = keys[:FEWER] if failed else keys
    return keys, keys


def _near_steps(numbers: Tensor) -> Tensor:
    """Return the steps of the last query between near keys, (h, n); 0 beside hidden ones."""
    steps = numbers[:, -1].flip(-1)[:, : NEAR + 1].double().diff(dim=-1)  # (h, n)
    return torch.where(steps.isfinite(), steps, 0.0)


def far_positions(record: BiasRecord) -> Finding:
    """Compare the bias at far positions with the one near 0."""
    if record.bias.position_argument != "positions":
        return not_checked("needs a parameter for positions")
    for start in FAR_POSITIONS:
        positions = torch.arange(start, start + record.size)  # (t,)
        numbers, failed = attempt(record.bias, positions, positions)
        if failed:
            return note(f"position {start:,} raises {failed}")
        if finding := not_finite(numbers, f"from position {start:,} on", may_hide_keys=True):
            return finding
        numbers = relative_to_own_position(numbers.double())  # (h, t, t)
        difference = relative_difference(numbers, record.relative)
        # Before the size of the difference: neighbors that differ near 0 and are equal far out tell the cause.
        if torch.logical_and(numbers.diff(dim=-1) == 0, record.relative.diff(dim=-1) != 0).any():
            cause = "neighbors share a number: positions are rounded before they are subtracted, or clipped"
            return wrong("bias-rounded", f"from position {start:,} on {cause}", difference)
        if not difference <= 1e-2:
            sentence = f"from position {start:,} on the numbers are others, by {difference:.2g}"
            return note(f"{sentence}: they depend on the position of the query", difference)
    return passed(f"the same at {FAR_POSITIONS[-1]:,} as at 0")


def factor(record: BiasRecord) -> Finding | None:
    """Negate the factor that a module keeps for the bias: the bias must follow."""
    # A method is one of an attention, for instance, whose scale is not that of its bias.
    if hasattr(record.code.function, "__self__"):
        return None
    for index, part in enumerate(record.code.modules):
        for name in FACTORS:
            value = getattr(part, name, 1)
            if type(value) not in (int, float) or value in (0, 1):
                continue
            code = record.code.fresh()
            setattr(code.modules[index], name, -value)  # what is multiplied by it changes its sign
            negated, failed = attempt(record.of_code, code)
            if not failed and relative_difference(negated.numbers, record.numbers) < 1e-6:
                return wrong("scaled-wrong", f"the bias does not follow the module's {name}, {value:.4g}", value)
    return None


def queries(record: BiasRecord) -> Finding | None:
    """Change the content of one query: only its own numbers may follow, where a bias is made of content."""
    bias, n = record.bias, record.size
    changed = n // 2
    if bias.content_form not in ("heads", "embeddings"):
        return None
    # Other checks pass the same content for each token, which hides that queries are mixed.
    content = random(*bias.content(bias.content_form, n, n).shape, seed=3)  # (..., n, d)
    negated = content.clone()  # (..., n, d)
    negated[..., changed, :].neg_()
    before, after = (bias.as_numbers(record.code.fresh()(x=x), n, n).unbind(1) for x in (content, negated))
    rows = [row for row in range(n) if relative_difference(before[row], after[row]) > 1e-6]
    if rows in ([], [changed]):
        return passed("each query's numbers are made of its own content")
    others = ", ".join(str(row) for row in rows if row != changed)
    return wrong("queries-mixed", f"the content of query {changed} changes the numbers of query {others}")


CHECKS = (decoding, kept, longer, rounding, far_positions, factor, queries)
