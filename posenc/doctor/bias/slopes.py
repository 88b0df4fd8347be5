"""Compare the slopes of a linear bias with those of ALiBi's authors, and name the usual ways to miss them."""

from collections.abc import Callable

import torch
from torch import Tensor

from posenc.bias.alibi import alibi_slopes
from posenc.doctor.attempt import attempt
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, note, passed, with_check_name, wrong

COUNTS = (4, 8, 12)
OTHERS = "other heads"
ROUNDED = 2e-3


def compared_with_alibi(
    measured: Callable[[int], Tensor], heads: int, any_number: bool, asked: bool, named_so: bool
) -> list[Finding]:
    """Compare slopes with ALiBi's for `heads` if that was asked for or nothing else works, else for 4, 8 and 12.

    Where `heads` was asked for, what is found for another number is a note; code that calls itself ALiBi
    (`named_so`) has to have ALiBi's.
    """
    first = (heads,) if asked or not any_number else COUNTS[:2]
    judged = _compared(measured, first)
    found = [judged]
    if any_number and judged.verdict == "ok":
        others = _compared(measured, tuple(count for count in COUNTS if count not in first))
        if others.verdict != "ok":
            found.append(others._replace(check=OTHERS, verdict="note" if asked else others.verdict))
        elif not asked:
            found = [_compared(measured, COUNTS)]
    if named_so:
        found = [wrong("slopes-wrong", f.words, f.number)._replace(check=f.check) if _off(f) else f for f in found]
    return [with_check_name(finding, "slopes") for finding in found]


def _off(finding: Finding) -> bool:
    return finding.verdict == "note" and "raise" not in finding.words


def _compared(measured: Callable[[int], Tensor], counts: tuple[int, ...]) -> Finding:
    first = 0.0
    for count in counts:
        got, failed = attempt(measured, count)
        if failed:
            return note(f"{count} heads raise {failed}")
        if got.numel() != count:
            return wrong("slopes-wrong", f"{count} heads get {got.numel()} slopes", got.numel())
        first, right = float(got[0]), torch.from_numpy(alibi_slopes(count))
        if relative_difference(got.abs(), right) > ROUNDED:
            known, words = _difference(got.abs(), right)
            words = f"with {count} heads the slopes {words}"
            return wrong("slopes-wrong", words, first) if known else note(words, first)
    sign = " with the sign of a penalty: add slope * distance, do not subtract it" if first < 0 else ""
    return passed(f"those of ALiBi's authors for {', '.join(map(str, counts))} heads{sign}", first)


def _difference(got: Tensor, right: Tensor) -> tuple[bool, str]:
    """Return whether it is known how slopes (h,) came to be others than ALiBi's, and how they differ."""
    count = len(got)
    from_one = 2 ** (-8 * torch.arange(count, dtype=torch.float64) / count)
    if relative_difference(got, from_one) < ROUNDED:
        rule = "Head k = 0, 1, ... has 2^(-8 (k+1) / heads)"
        return True, f"start at {_few(got[:1])} where ALiBi's start at {_few(right[:1])}: off by one. {rule}"
    if relative_difference(got, from_one * 2 ** (-8 / count)) < ROUNDED:
        return True, (
            f"are 2^(-8 (k+1) / {count}), the rule for powers of two; ALiBi's authors take those of the power below, "
            "then every other one of its double. Weights trained with theirs do not fit"
        )
    if relative_difference(got.sort().values, right.sort().values) < ROUNDED:
        return True, "are ALiBi's in another order, so weights trained with its order do not fit"
    return False, f"are not ALiBi's: {_few(got)} and not {_few(right)}"


def _few(numbers: Tensor) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers[:5].tolist())
