"""The kind of exercise that runs a function: on several cases, beside a reference, without letting it raise."""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posenc_book.workbook.kinds import Exercise
from posenc_book.workbook.reading import difference, numbers, short, shown

Outcome = list[np.ndarray] | str  # what a call returned, or what went wrong, in words


@dataclass(frozen=True)
class Function(Exercise):
    """A function that agrees with `right` on every case, and with no `wrong` function on all of them.

    Args:
        cases: The arguments of each call; a first case that is simple reads well in a verdict.
        call: How the page writes the call, such as "shift(row, k)".
        rtol: Agreement within this share of each number,
        atol: or within this much.
    """

    cases: Sequence[tuple[Any, ...]] = ()
    call: str = "f(x)"
    rtol: float = 1e-4
    atol: float = 1e-6

    asks: ClassVar[str] = "a function"

    def _read(self, answer: Any) -> tuple[Any, str]:
        if callable(answer) and not isinstance(answer, type):
            return answer, ""
        return answer, f"{shown(answer)} came in; hand in the function itself, {self.call}, without calling it"

    def _compare(self, given: Any) -> str:
        expected = [_outcome(self.right, case) for case in self.cases]
        outcomes = [_outcome(given, case) for case in self.cases]
        faults = [self._fault(*pair) for pair in zip(outcomes, expected, strict=True)]
        if not any(faults):
            return ""
        for wrong, words in self.wrong:
            if all(not self._fault(_outcome(wrong, case), o) for case, o in zip(self.cases, outcomes, strict=True)):
                return words
        first = next(n for n, fault in enumerate(faults) if fault)
        name = self.call.partition("(")[0]
        return f"on {name}({', '.join(map(shown, self.cases[first]))}): {faults[first]}"

    def _fault(self, given: Outcome, right: Outcome) -> str:
        if isinstance(given, str):
            return "" if given == right else given
        if isinstance(right, str) or len(given) != len(right):
            count = 1 if isinstance(right, str) else len(right)
            return f"it returns {len(given)} thing{'s'[: len(given) > 1]}, and {count} are asked for"
        said = (difference(one, other, self.rtol, self.atol) for one, other in zip(given, right, strict=True))
        return next(filter(None, said), "")


def _outcome(function: Callable[..., Any], case: tuple[Any, ...]) -> Outcome:
    given = copy.deepcopy(case)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*given)
    except (Exception, SystemExit) as error:
        return short(f"it raises {type(error).__name__}: {error}").removesuffix(":")
    if result is None:
        return "it returns None; is a return missing?"
    if any(_changed(before, after) for before, after in zip(case, given, strict=True)):
        return "it changes its input in place; work on a copy, since the caller may need it again"
    found = [numbers(part) for part in (result if isinstance(result, tuple) else (result,))]
    problem = next((words for _, words in found if words), "")
    return f"what it returns is amiss: {problem}" if problem else [array for array, _ in found]


def _changed(before: Any, after: Any) -> bool:
    one, problem = numbers(before)
    return not problem and not np.array_equal(one, numbers(after)[0])
