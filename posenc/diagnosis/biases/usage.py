"""Examine how a bias bears use: decoding, long texts, half precision, positions far out."""

import torch

from posenc.diagnosis.biases.asking import Bias
from posenc.diagnosis.biases.buckets import limit
from posenc.diagnosis.biases.square import Case, unevenness
from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, note, ok, unchecked, wrong

LONG, NEAR = 1024, 32
FACTORS = ("scale", "bias_gain", "gain", "scaling_factor")


def decoding(case: Case) -> Finding:
    """Compare one query after its keys with the last row of all."""
    bias = Bias(case.code.fresh())
    if not _tells_keys_apart(case):
        return unchecked(
            "needs positions or lengths of queries and keys apart; until then take the last rows while decoding"
        )
    made, failed = attempt(_alone, bias, case.size)
    if failed:
        return note(f"one query after {case.size} keys raises {failed}; take the last rows while decoding")
    if not made.any() and case.square[:, -1].any() and not case.bias.ids:
        return note(f"one query after {case.size} keys gets no bias at all; take the last rows while decoding")
    same = _is_row if not case.bias.ids else torch.equal
    if same(made, case.square[:, -1]):
        return _of_two(case, bias) or ok("one query after its keys gets the last row", 0.0)
    aligned = same(made, case.square[:, 0])
    why = "the first row: the query is aligned with the first key" if aligned else "another row than the last"
    return wrong(
        "decode-aligned-first",
        f"one query after {case.size} keys gets {why}. Place queries at the last of the keys: "
        "query position = keys - queries + i",
        far(made, case.square[:, -1]),
    )


def _of_two(case: Case, bias: Bias) -> Finding | None:
    """Return that two queries after their keys get other rows than the last two, where one gets the last."""
    places = torch.arange(case.size)
    made, failed = (None, "") if bias.steps else attempt(bias, places[-2:], places)
    if failed or made is None or made.shape[1] != 2 or _is_row(made.double()[:, 0], case.square[:, -2]):
        return None
    words = "two queries after their keys get other rows than the last two, though one query gets the last"
    return wrong("decode-aligned-first", f"{words}: place queries at the last of the keys, however many")


def _tells_keys_apart(case: Case) -> bool:
    code = case.code
    if case.bias.told_by == "x":
        return case.bias.form == "scores"
    roles = ("score", "key_positions", "key_length", "k")
    return case.bias.steps or (case.bias.told_by != "relative" and any(code.takes(role) for role in roles))


def _alone(bias: Bias, size: int) -> torch.Tensor:
    """Return the bias (h, s) of one query after its keys; a flag `cache` may be the way to ask for that."""
    places = torch.arange(size)
    made = bias.step(size) if bias.steps else bias(places[-1:], places)
    if made.shape[1] != 1:
        raise ValueError(f"doctor: the bias of one query must be one row, got {made.shape[1]}")
    return made.double()[:, 0]


def _is_row(made: torch.Tensor, row: torch.Tensor) -> bool:
    """Tell whether two rows are the same, up to a constant that softmax does not see."""
    return far(made - made.amax(-1, True), row - row.amax(-1, True)) < 1e-4 or far(made, row) < 1e-4


def kept(case: Case) -> Finding | None:
    """Ask again after other calls: what was kept from these must not show."""
    if case.bias.told_by in ("relative", "positions") or case.code.module is None:
        return None
    bias = Bias(case.code.fresh())
    alone, failed = attempt(_alone, bias, case.size) if _tells_keys_apart(case) else (None, "")
    again, raised = attempt(bias.near, 0, case.size)
    after, raises = attempt(_alone, bias, case.size) if _tells_keys_apart(case) else (None, "")
    if raised or (raises and not failed):
        return wrong("cache-stale", f"asked again after another call it raises {raised or raises}")
    if alone is None or after is None:
        return None
    if far(again, case.square) <= 1e-4 and far(after, alone) <= 1e-4:
        return None
    words = f"one query and {case.size} by {case.size}, asked in turn, get other numbers than asked alone"
    if _is_row(after, case.square[:, 0]) and not _is_row(alone, case.square[:, 0]):
        return wrong("decode-aligned-first", f"{words}: what is kept is cut at its first rows, not at its last")
    return wrong("cache-stale", f"{words}: what one call made is kept and cut wrongly for the next")


def longer(case: Case) -> Finding:
    """Ask for many keys: the first ones keep their numbers, and offsets still tell all."""
    made, failed = attempt(case.bias.near, 0, LONG // 2)
    if failed:
        return note(f"{LONG // 2} keys raise {failed}")
    level = made - made.diagonal(dim1=1, dim2=2)[..., None]
    first = level[:, : case.size, : case.size]
    off = far(first, case.level)
    if off > 1e-3:
        words = f"among {LONG // 2} keys the first {case.size} get other numbers than alone (by {off:.2g})"
        return wrong("length-dependent", words, off)
    if unevenness(case.level) < 1e-4 <= unevenness(level):
        return wrong("absolute", f"from {case.size} to {LONG // 2} keys it depends on places, not on offsets only")
    return _to_the_end(case, level)


def _to_the_end(case: Case, level: torch.Tensor) -> Finding:
    steps, near = level[:, -1].flip(-1).diff(dim=-1), case.behind.diff(dim=-1)
    linear = near.isfinite().all() and far(near, near[:, :1].expand_as(near)) <= 1e-3 and near.any()
    place = int((steps[0] == 0).long().argmax())
    if linear and (steps[:, -1] == 0).all() and place != limit(case):
        return wrong("clipped", f"from distance {place} on all keys get one number: distances are clipped", place)
    return ok(f"the same among {LONG // 2} keys")


def rounding(case: Case) -> Finding:
    """Look for neighbors that share a number in bfloat16."""
    code, places = case.code, torch.arange(LONG)
    if code.takes("dtype") or code.takes("score"):
        made, failed = attempt(case.bias, places, places, torch.bfloat16)
    else:
        made, failed = attempt(lambda: Bias(code.cast(torch.bfloat16))(places, places))
    if failed:
        return unchecked(f"in bfloat16, among {LONG} keys: {failed}")
    if code.module is None and made.dtype not in (torch.bfloat16, torch.float16):
        return unchecked("needs a parameter dtype, or a module to cast")
    steps, right = (one.double()[:, -1].diff(dim=-1) for one in (made, case.bias(places, places)))
    alike = int(((steps == 0) & (right != 0)).all(0).sum())
    near, exact = steps[:, -NEAR:], right[:, -NEAR:]
    off = float((near - exact).nan_to_num(0, 0, 0).abs().max() / exact.nan_to_num(0, 0, 0).abs().max().clamp(min=1e-9))
    if off > 0.5:
        return wrong(
            "bias-rounded",
            f"in bfloat16 the step between near keys is off by {off:.2g} of itself after {LONG} tokens, and {alike} of "
            f"{LONG - 1} neighbors share a number at every head: large numbers "
            "are rounded before they are subtracted. Subtract positions first, as integers or in float32",
            off,
        )
    return ok(f"in bfloat16 the steps between near keys stay within {off:.2g}", off)


def far_positions(case: Case) -> Finding:
    """Compare the bias far out with the one near 0."""
    if case.bias.told_by != "positions":
        return unchecked("needs a parameter for positions")
    near, off = case.square - case.square[..., :1], 0.0
    largest = near.nan_to_num(0, 0, 0).abs().max().clamp(min=1e-9)
    for start in (10_000, 1_000_000, 2**25):
        made, failed = attempt(case.bias.near, start, case.size)
        if failed:
            return note(f"position {start:,} raises {failed}")
        moved = made - made[..., :1]
        off = float((moved - near).nan_to_num(0, 0, 0).abs().max() / largest)
        merged = (moved.diff(dim=-1) == 0) & (near.diff(dim=-1).nan_to_num(0, 0, 0) != 0)
        if merged.any() and start < 2**24:
            cause = "neighbors share a number: positions are rounded before they are subtracted, or clipped"
            return wrong("bias-rounded", f"from position {start:,} on {cause}", off)
        if off > 1e-2:
            words = f"the numbers are others, by {off:.2g}: they depend on where the query is"
            return note(f"from position {start:,} on {words}", off)
    return ok("the same at 2^25 as at 0", off)


def queries(case: Case) -> Finding | None:
    """Change the content of one query, and see whose numbers follow: a bias made of contents reads its own query."""
    if case.bias.form not in ("heads", "embeddings"):
        return None
    n, place = case.square.shape[1], case.square.shape[1] // 2
    heads = (case.code.heads,) if case.bias.form == "heads" else ()
    x = random(1, *heads, n, case.code.dim, seed=3)
    other = x.clone()
    other[..., place, :] += 1.0
    one, two = (case.bias.laid(case.code.fresh()(x=content), n, n) for content in (x, other))
    rows = ((one - two).abs().amax((0, 2)) > 1e-6).nonzero().flatten().tolist()
    if rows in ([], [place]):
        return ok("each query's numbers are made of its own content")
    others = ", ".join(str(row) for row in rows if row != place)
    return wrong("queries-mixed", f"the content of query {place} changes the numbers of query {others}")


def factor(case: Case) -> Finding | None:
    """Double the factor that a module keeps for the bias, and see whether the bias follows."""
    if hasattr(case.code.function, "__self__"):
        return None
    for place, part in enumerate(case.code.parts):
        for name in FACTORS:
            value = getattr(part, name, None)
            if not isinstance(value, int | float) or isinstance(value, bool) or value in (0, 1):
                continue
            other = case.code.fresh()
            setattr(other.parts[place], name, 2 * value)
            made, failed = attempt(case.again, other)
            if not failed and far(made, case.square) < 1e-6:
                words = f"the module's {name} is {value:.4g}, and the bias does not follow it"
                return wrong("scaled-wrong", words, value)
    return None


CHECKS = (decoding, kept, longer, rounding, far_positions, factor, queries)
