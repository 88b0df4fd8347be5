"""What a page of the workbook needs to judge an answer by itself: the same right and wrong answers, as JSON."""

import html
import json
from typing import Any

import numpy as np

from posenc_book.workbook.functions import Function
from posenc_book.workbook.kinds import Array, Choice, Exercise, Number
from posenc_book.workbook.reading import SCALES


def answer_fields(exercises: dict[str, Exercise], part: int) -> str:
    """Return the element of a page of the workbook by which a script puts fields under the exercises of a part."""
    return f'<div data-script="workbook" data-answers="{html.escape(page_answers(exercises, part))}"></div>'


def page_answers(exercises: dict[str, Exercise], part: int) -> str:
    """Return the answers to the exercises of a part as JSON, without those that ask for a function.

    Args:
        exercises: All exercises by their numbers.
        part: A part of the book.

    Returns:
        An object with `scales`, the slips of all numbers, and `exercises`.
    """
    own = {n: each for n, each in exercises.items() if n.startswith(f"{part}.") and not isinstance(each, Function)}
    facts = {"scales": SCALES, "exercises": {number: _facts(each) for number, each in own.items()}}
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _facts(exercise: Exercise) -> dict:
    # Nobody types a matrix into a line.
    lines = [(answer, words) for answer, words in exercise.wrong if np.ndim(answer) < 2]
    wrong = [(_value(exercise, answer), words) for answer, words in lines]
    facts = {"why": exercise.why, "right": _value(exercise, exercise.right), "wrong": wrong}
    if isinstance(exercise, Choice):
        return facts | {"kind": "choice", "options": list(exercise.options)}
    if isinstance(exercise, Array):
        return facts | {"kind": "array", "rtol": exercise.rtol, "atol": exercise.atol}
    if isinstance(exercise, Number):
        return facts | {"kind": "number", "rtol": exercise.rtol, "atol": 0.0}
    raise ValueError(f"page_answers: exercise must be a number, an array or a choice, got {type(exercise).__name__}")


def _value(exercise: Exercise, answer: Any) -> Any:
    """Return a letter, or numbers with whether they are whole ones, which have to be met."""
    read, problem = exercise._read(answer)
    if problem:
        number = exercise.number
        raise ValueError(f"page_answers: exercise {number} must have an answer to read, got {answer!r}; {problem}")
    return read if isinstance(read, str) else {"numbers": read.tolist(), "whole": read.dtype.kind in "biu"}
