"""The kinds of exercise that look at a value: a number, an array of them, a choice, a word.

Each is declared in a table (part_1.py and so on) with its right answer, which the package computes, the sentence that
is said to it, and the common wrong answers, each with what is said to that one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from posenc_book.workbook.reading import difference, numbers, same, shown
from posenc_book.workbook.verdict import Verdict

GRADES = ("easy", "medium", "hard")
HEAD = re.compile(rf"\d+\.\d+ \S.* · ({'|'.join(GRADES)})")


@dataclass(frozen=True)
class Exercise:
    """What all kinds share: `judge` reads an answer, compares it, and finds the words.

    Args:
        head: The page's heading: number, title and grade, such as "1.2 The first negative cosine · easy".
        right: The right answer, computed.
        why: What is said to the right answer, after "Right: ".
        wrong: Common wrong answers, each with what is said to it, after "Not yet: ".
    """

    head: str
    right: Any
    why: str
    wrong: Sequence[tuple[Any, str]] = ()

    asks: ClassVar[str] = "an answer"

    def __post_init__(self) -> None:
        if not HEAD.fullmatch(self.head):
            raise ValueError(f'check: head must be such as "1.2 The first negative cosine · easy", got {self.head!r}')

    @property
    def number(self) -> str:
        """Part and place, such as "1.2"."""
        return self.head.partition(" ")[0]

    @property
    def title(self) -> str:
        """What the exercise is called."""
        return self.head.partition(" ")[2].rpartition(" · ")[0]

    @property
    def grade(self) -> str:
        """How hard it is: "easy", "medium" or "hard"."""
        return self.head.rpartition(" · ")[2]

    def judge(self, answer: Any) -> Verdict:
        """Return what is to be said of an answer, whatever it is."""
        given, problem = self._read(answer)
        if not problem:
            problem = self._compare(given)
        words = f"Not yet: {problem}" if problem else f"Right: {self.why}"
        return Verdict(self.number, not problem, words if words[-1] in ".?!" else f"{words}.")

    def _compare(self, given: Any) -> str:
        if self._same(given, self._read(self.right)[0]):
            return ""
        known = (words for wrong, words in self.wrong if self._same(given, self._read(wrong)[0]))
        return next(known, "") or self._guess(given)

    def _read(self, answer: Any) -> tuple[Any, str]:
        return answer, ""

    def _same(self, given: Any, other: Any) -> bool:
        return given == other

    def _guess(self, given: Any) -> str:
        return f"{shown(given)} is not it"


@dataclass(frozen=True)
class Number(Exercise):
    """One number, within `rtol` of the right one; a whole number has to be met."""

    rtol: float = 1e-3

    asks: ClassVar[str] = "a number"

    def _read(self, answer: Any) -> tuple[Any, str]:
        given, problem = numbers(answer)
        return (given.reshape(()) if given.size == 1 else given), problem

    def _same(self, given: Any, other: Any) -> bool:
        return same(given, other, self.rtol, 0.0)

    def _guess(self, given: Any) -> str:
        if not given.size:
            return "an empty array came in, and a number is asked for"
        right = self._read(self.right)[0]
        rounds = not given.ndim and right.dtype.kind == "f"  # a whole number is not met by its first digits
        digits = re.sub(r"e.*|[-.]", "", repr(float(given))).strip("0") if rounds else ""
        if digits and np.isclose(float(f"{float(right):.{len(digits)}g}"), given, rtol=1e-9, atol=0):
            return f"right as far as it goes; give more than {len(digits)} digit{'s'[: len(digits) > 1]}"
        return difference(given, right, self.rtol, 0.0)


@dataclass(frozen=True)
class Array(Exercise):
    """Several numbers in their order, as a list, a tuple, an array or a tensor of one shape.

    They are right within `rtol` of each or `atol`; where the right ones are integers, they have to be met.
    """

    rtol: float = 1e-3
    atol: float = 1e-4

    asks: ClassVar[str] = "a list of numbers"

    def _read(self, answer: Any) -> tuple[Any, str]:
        return numbers(answer)

    def _same(self, given: Any, other: Any) -> bool:
        return same(given, other, self.rtol, self.atol)

    def _guess(self, given: Any) -> str:
        return difference(given, self._read(self.right)[0], self.rtol, self.atol)


@dataclass(frozen=True)
class Choice(Exercise):
    """A letter; `options` are the letters that the page offers."""

    options: Sequence[str] = field(default=("a", "b", "c", "d"))

    asks: ClassVar[str] = "a letter"

    def _read(self, answer: Any) -> tuple[Any, str]:
        letter = answer.strip(" ().:").lower() if isinstance(answer, str) else ""
        offered = ", ".join(self.options[:-1]) + f" or {self.options[-1]}"
        return letter, "" if letter in self.options else f"{shown(answer)} is not on offer; hand in a letter, {offered}"


@dataclass(frozen=True)
class Text(Exercise):
    """A word or a few; `also` are other ways to write the right one. Case, spaces and punctuation do not count."""

    also: Sequence[str] = ()

    asks: ClassVar[str] = "a word"

    def _read(self, answer: Any) -> tuple[Any, str]:
        if not isinstance(answer, str):
            return "", f"{shown(answer)} came in, and a word is asked for, in quotes"
        plain = " ".join(re.findall(r"\w+", answer.lower()))
        return plain, "" if plain else "an empty text came in, and a word is asked for"

    def _same(self, given: Any, other: Any) -> bool:
        spellings = self.also if other == self._read(self.right)[0] else ()
        return given in (other, *(self._read(word)[0] for word in spellings))
