"""Answers that are judged in the page: the verdicts are those of Python, and formulas are read as readers mean them."""

import json
import math

import pytest

from posenc_book import workbook
from posenc_book.workbook.functions import Function
from posenc_book.workbook.page_answers import page_answers
from tests.scripts.javascript import Script

VERDICTS = Script("math/verdicts.js")
EXPRESSION = Script("math/expression.js")
ASKED = {number: each for number, each in workbook.exercises().items() if not isinstance(each, Function)}
DATA = {part: json.loads(page_answers(workbook.exercises(), part)) for part in workbook.parts()}


def judged(number, text):
    facts = DATA[int(number.partition(".")[0])]
    exercise = facts["exercises"][number]
    return VERDICTS("judge(text, exercise, scales)", text=text, exercise=exercise, scales=facts["scales"])


def typed(value):
    """Return an answer as a reader types it."""
    if isinstance(value, str):
        return value
    numbers = value["numbers"] if isinstance(value["numbers"], list) else [value["numbers"]]
    return ", ".join(f"{x!r}" for x in numbers)


@pytest.mark.parametrize("number", ASKED)
def test_every_answer_gets_the_verdict_of_python(number):
    """The right one and each slip that the table knows are told apart in the page as they are in Python."""
    facts = DATA[int(number.partition(".")[0])]["exercises"][number]
    for value in (facts["right"], *(wrong for wrong, _ in facts["wrong"])):
        answer = value if isinstance(value, str) else value["numbers"]
        verdict = workbook.check(number, answer)
        ours = judged(number, typed(value))
        assert (ours["right"], ours["words"]) == (bool(verdict), verdict.words)


def test_slips_that_no_exercise_names_are_those_of_all_numbers():
    """Degrees for radians, a sign, one off, and numbers in another order are named though the table lacks them."""
    for number, answer in (("1.4", -1.5625), ("1.2", 17), ("4.3", 6.6), ("3.3", [1, 0, 0, 0, -92, -92, -92, -92])):
        text = typed({"numbers": answer})
        assert judged(number, text)["words"] == workbook.check(number, answer).words


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("16", [16]),
        ("2^10", [1024]),
        ("2**10 - 1", [1023]),
        ("-2^2", [-4]),
        ("pi/4", [math.pi / 4]),
        ("ceil(pi / 2 / 0.1)", [16]),
        ("√2 · 3", [3 * math.sqrt(2)]),
        ("ln(8)/log2(8)", [math.log(8) / 3]),
        ("1e-3", [1e-3]),
        ("24,428.2", [24428.2]),
        ("1,000", [1000]),
        ("4, -3, -2, 1", [4, -3, -2, 1]),
        ("[4 −3 −2 1]", [4, -3, -2, 1]),
        ("(1, 17)", [1, 17]),
        ("1; 2", [1, 2]),
        ("1,000, 67", [1000, 67]),
    ],
)
def test_what_a_reader_types_is_read_as_numbers(text, values):
    assert EXPRESSION("numbersOf(text)", text=text) == pytest.approx(values)


@pytest.mark.parametrize(
    "text", ["", "dog", "2 +", "(1", "sqrt 2", "3 apples", "1 2 dog", "__proto__", "constructor(1)"]
)
def test_what_is_no_number_is_refused(text):
    assert EXPRESSION("numbersOf(text)", text=text) is None


def test_a_letter_that_is_not_on_offer_is_said_to_be_none():
    assert judged("3.4", "x")["words"] == "Not yet: choose a letter, a, b, c or d."
