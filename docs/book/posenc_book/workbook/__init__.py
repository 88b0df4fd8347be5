"""The workbook at the keyboard: whether an answer to one of its exercises is right, and if not, what went wrong.

    workbook.check("1.2", 16)        or    python -m posenc_book check 1.2 "ceil(pi / 2 / 0.1)"

Each part of the book has a table of exercises, part_1.py and so on; a new one is found by listing this folder. The
right answers are computed by the package.
"""

import re
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from posenc_book.workbook.kinds import Exercise
from posenc_book.workbook.verdict import Verdict

__all__ = ["Verdict", "check", "exercise", "exercises"]


def check(exercise: str, answer: Any) -> Verdict:
    """Judge an answer to an exercise of the workbook.

    Args:
        exercise: Its number, as a text: "1.2".
        answer: What the exercise asks for: a number (Python's, NumPy's or PyTorch's), a list or an array of them, a
            function, a letter or a word.

    Returns:
        The verdict: true where the answer is right; printed, one sentence.

    Raises:
        ValueError: If there is no exercise of this number. An answer never raises, whatever it is.

    Examples:
        >>> check("1.2", 16)
        Right: pair 8 has the frequency 0.1, and a quarter of its period is 15.7 positions.
        >>> bool(check("1.2", 32))
        False
    """
    return _find(exercise).judge(answer)


def exercise(number: str) -> Exercise:
    """Return the exercise of this number: its title, its grade and what it asks for.

    Examples:
        >>> exercise("1.2").grade
        'easy'
    """
    return _find(number)


def exercises() -> dict[str, Exercise]:
    """Return every exercise by its number, in the order of the book.

    Examples:
        >>> next(iter(exercises()))
        '1.1'
    """
    return {found.number: found for part in parts() for found in _table(part)}


def parts() -> list[int]:
    """Return the parts that have a table of exercises.

    Examples:
        >>> parts()[0]
        1
    """
    tables = [found.name for found in iter_modules(__path__) if found.name.startswith("part_")]
    return sorted(int(name.removeprefix("part_")) for name in tables)


def _table(part: int) -> list[Exercise]:
    return import_module(f"posenc_book.workbook.part_{part}").EXERCISES


def _find(number: Any) -> Exercise:
    if not isinstance(number, str):
        raise ValueError(f'check: exercise must be a text such as "1.2", got {number!r}; 1.1 and "1.10" are two')
    part = re.fullmatch(r"\s*(\d+)\.\d+\s*", number)
    known = {found.number: found for found in (_table(int(part[1])) if part and int(part[1]) in parts() else [])}
    if number.strip() not in known:
        offered = f"{next(iter(known))} to {[*known][-1]}" if known else f"parts {', '.join(map(str, parts()))}"
        raise ValueError(f"check: exercise must be a number of the workbook, got {number!r}; there are {offered}")
    return known[number.strip()]
