"""Examine how a bias bears use: decoding, long texts, half precision, positions far out."""

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.bias.bias_matrix import Case, even, level, linear
from posenc.doctor.bias.buckets import FEWEST, limit, runs
from posenc.doctor.bias.call_bias import Bias
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, wrong

MANY, LONG, NEAR = 512, 1024, 32
SAME = 1e-4
FAR_OUT = (10_000, 1_000_000)
FACTORS = ("scale", "bias_gain", "gain", "scaling_factor")


def decoding(case: Case) -> Finding:
    """Compare one query after its keys, and a few, with the last rows of all."""
    if not _tells_keys_apart(case):
        return not_checked(
            "needs positions or lengths of queries and keys apart; until then take the last rows while decoding"
        )
    for queries, name in ((1, "one query"), (5, "five queries")):
        made, failed = attempt(Bias(case.code.fresh()).last, queries, case.size)
        words = f"{name} after {case.size} keys"
        due = case.square[:, -queries:]
        if failed:
            return note(f"{words} raises {failed}; take the last rows while decoding")
        if not made.any() and due.any() and not case.bias.ids:
            return note(f"{words} gets no bias at all; take the last rows while decoding")
        if not (torch.equal(made, due) if case.bias.ids else _alike(made, due)):
            words += " gets another row than the last: is it aligned with the first key? Place queries at the last of "
            words += "the keys: query position = keys - queries + i"
            return wrong("decode-aligned-first", words, relative_difference(made, due))
    return passed("one query after its keys gets the last row", 0.0)


def _tells_keys_apart(case: Case) -> bool:
    roles = ("score", "key_positions", "key_length", "k")
    return case.bias.form == "scores" or any(map(case.code.takes, roles))


def _alike(made: Tensor, due: Tensor) -> bool:
    """Tell whether rows are the same, up to a constant of each that softmax does not see."""
    one, other = (rows - rows.amax(-1, True) for rows in (made, due))
    return relative_difference(one, other) < SAME


def kept(case: Case) -> Finding | None:
    """Ask again after other calls: what was kept from these must not show."""
    if case.bias.told_by in ("relative", "positions") or case.code.module is None:
        return None

    def one(bias: Bias) -> Tensor:
        return bias.last(1, case.size)

    def every(bias: Bias) -> Tensor:
        return bias.near(case.size)

    asked = [one, every] if _tells_keys_apart(case) else [every]
    alone = [attempt(ask, Bias(case.code.fresh())) for ask in asked]
    bias = Bias(case.code.fresh())
    for (made, failed), (again, raised) in zip(alone * 2, [attempt(ask, bias) for ask in asked * 2], strict=True):
        if raised and not failed:
            return wrong("cache-stale", f"asked again after another call it raises {raised}")
        if failed or relative_difference(again, made) <= SAME:
            continue
        words = "what one call made is kept and cut wrongly for the next: asked in turn, it gives other numbers"
        first = _alike(again, case.square[:, :1])
        return wrong("decode-aligned-first" if first else "cache-stale", words)
    return None


def longer(case: Case) -> Finding:
    """Ask for many keys: the first ones keep their numbers, and offsets still tell all."""
    made, failed = attempt(case.bias.near, MANY)
    if failed:
        return note(f"{MANY} keys raise {failed}")
    first = level(made)[:, : case.size, : case.size]
    off = relative_difference(first, case.level)
    if off > 1e-3:
        words = f"among {MANY} keys the first {case.size} get other numbers than alone (by {off:.2g})"
        return wrong("length-dependent", words, off)
    if even(case.level) and not even(level(made)):
        return wrong("absolute", f"from {case.size} to {MANY} keys it depends on places, not on offsets only")
    *before, last = runs(case._replace(square=level(made)).behind)
    begins = sum(before)
    if linear(case.steps) and last > FEWEST and begins != limit(case):
        return wrong("clipped", f"from distance {begins} on all keys get one number: distances are clipped", begins)
    return passed(f"the same among {MANY} keys")


def rounding(case: Case) -> Finding:
    """Compare the steps between near keys in bfloat16 with those in float32."""
    code, places = case.code, torch.arange(LONG)
    if code.takes("dtype") or code.takes("score"):
        made, failed = attempt(case.bias, places, places, torch.bfloat16)
    else:
        made, failed = attempt(lambda: Bias(code.cast(torch.bfloat16))(places, places))
    if failed:
        return not_checked(f"in bfloat16, among {LONG} keys: {failed}")
    if code.module is None and made.dtype not in (torch.bfloat16, torch.float16):
        return not_checked("needs a parameter dtype, or a module to cast")
    squares = (made.double(), case.bias(places, places).double())
    off = relative_difference(*(case._replace(square=square).steps[:, :NEAR] for square in squares))
    if off > 0.5:
        return wrong(
            "bias-rounded",
            f"in bfloat16 the step between near keys is off by {off:.2g} of itself after {LONG} tokens: large numbers "
            "are rounded before they are subtracted. Subtract positions first, as integers or in float32",
            off,
        )
    return passed(f"in bfloat16 the steps between near keys stay within {off:.2g}", off)


def far_positions(case: Case) -> Finding:
    """Compare the bias far out with the one near 0."""
    if case.bias.told_by != "positions":
        return not_checked("needs a parameter for positions")
    for start in FAR_OUT:
        places = torch.arange(start, start + case.size)
        made, failed = attempt(case.bias, places, places)
        if failed:
            return note(f"position {start:,} raises {failed}")
        moved = level(made.double())
        off = relative_difference(moved, case.level)
        if torch.logical_and(moved.diff(dim=-1) == 0, case.level.diff(dim=-1) != 0).any():
            cause = "neighbors share a number: positions are rounded before they are subtracted, or clipped"
            return wrong("bias-rounded", f"from position {start:,} on {cause}", off)
        if off > 1e-2:
            words = f"the numbers are others, by {off:.2g}: they depend on where the query is"
            return note(f"from position {start:,} on {words}", off)
    return passed(f"the same at {FAR_OUT[-1]:,} as at 0")


def queries(case: Case) -> Finding | None:
    """Change the content of one query, and see whose numbers follow: a bias made of contents reads its own query."""
    if case.bias.form not in ("heads", "embeddings"):
        return None
    n, place = case.size, case.size // 2
    x = random(*case.bias.shaped(case.bias.form, n, n).shape, seed=3)
    other = x.clone()
    other[..., place, :].neg_()
    one, two = (case.bias.laid(case.code.fresh()(x=content), n, n).unbind(1) for content in (x, other))
    rows = [row for row in range(n) if relative_difference(one[row], two[row]) > 1e-6]
    if rows in ([], [place]):
        return passed("each query's numbers are made of its own content")
    others = ", ".join(str(row) for row in rows if row != place)
    return wrong("queries-mixed", f"the content of query {place} changes the numbers of query {others}")


def factor(case: Case) -> Finding | None:
    """Negate the factor that a module keeps for the bias, and see whether the bias follows."""
    if hasattr(case.code.function, "__self__"):
        return None
    for place, part in enumerate(case.code.modules):
        for name in FACTORS:
            value = getattr(part, name, 1)
            if type(value) not in (int, float) or value in (0, 1):
                continue
            other = case.code.fresh()
            setattr(other.modules[place], name, -value)
            made, failed = attempt(case.again, other)
            if not failed and relative_difference(made.square, case.square) < 1e-6:
                words = f"the module's {name} is {value:.4g}, and the bias does not follow it"
                return wrong("scaled-wrong", words, value)
    return None


CHECKS = (decoding, kept, longer, rounding, far_positions, factor, queries)
