"""Compare the slopes of a linear bias with those of ALiBi's authors, and name the usual ways to miss them."""

from collections.abc import Callable

import torch
from torch import Tensor

from posenc.bias.alibi import alibi_slopes
from posenc.checkup.patient import attempt, far
from posenc.checkup.report import Finding

COUNTS = (4, 8, 12)
OTHERWISE = (
    "ALiBi's authors take those of the power below, then every other one of its double. Weights trained with theirs do "
    "not fit"
)


def slopes(measured: Callable[[int], Tensor], heads: int, many: bool, asked: bool = False) -> list[Finding]:
    """Compare slopes with those of ALiBi for `heads` if asked or if no other number works, else for 4, 8 and 12.

    Where `heads` was asked for, what is found for another number is a note.
    """
    if not asked or not many:
        return [_compared(measured, COUNTS if many else (heads,))]
    found = _compared(measured, (heads,))
    if found.verdict != "ok":
        return [found]
    others = _compared(measured, tuple(count for count in COUNTS if count != heads))
    return [found] if others.verdict == "ok" else [found, others._replace(verdict="note")]


def _compared(measured: Callable[[int], Tensor], counts: tuple[int, ...]) -> Finding:
    first = 0.0
    for count in counts:
        got, failed = attempt(measured, count)
        if failed:
            return Finding("slopes", "note", f"{count} heads raise {failed}")
        if got.numel() != count:
            return Finding("slopes", "wrong", f"{count} heads get {got.numel()} slopes", got.numel())
        right, first = torch.from_numpy(alibi_slopes(count)), float(got[0])
        if far(got.abs(), right) > 2e-3:
            verdict, words = _difference(count, got.abs(), right)
            return Finding("slopes", verdict, f"with {count} heads the slopes {words}", first)
    asked = ", ".join(map(str, counts))
    sign = " with the sign of a penalty: add slope * distance, do not subtract it" if first < 0 else ""
    return Finding("slopes", "ok", f"those of ALiBi's authors for {asked} heads{sign}", first)


def _difference(count: int, got: Tensor, right: Tensor) -> tuple[str, str]:
    steps, start, due = torch.arange(count, dtype=torch.float64), float(got[0]), float(right[0])
    if far(got, 2 ** (-8 * steps / count)) < 2e-3:
        rule = "Head k = 0, 1, ... has 2^(-8 (k+1) / heads)"
        return "wrong", f"start at {start:.4g} where ALiBi's start at {due:.4g}: off by one. {rule}"
    if count & (count - 1) and far(got, 2 ** (-8 * (steps + 1) / count)) < 2e-3:
        return "wrong", f"are 2^(-8 (k+1) / {count}), the rule for powers of two; {OTHERWISE}"
    if far(got.sort().values, right.sort().values) < 2e-3:
        return "wrong", "are ALiBi's in another order, so weights trained with its order do not fit"
    ratio, due_ratio = got[1:] / got[:-1], float(right[1] / right[0])
    if got.min() > 0 and far(ratio, ratio[:1].expand_as(ratio)) < 1e-3:
        series = f"from {start:.4g} by {float(ratio[0]):.4g}, not ALiBi's (from {due:.4g} by {due_ratio:.4g})"
        return "note", f"are a geometric series {series}"
    return "note", f"are not ALiBi's: {_few(got)} and not {_few(right)}"


def _few(numbers: Tensor) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers[:4].tolist()) + (" ..." if len(numbers) > 4 else "")
