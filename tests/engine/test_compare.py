"""Outputs and numbers in sentences: what agrees with the code, and what only seems to."""

import pytest

from galley.check.compare import merged, rounding, same
from galley.read.number import Tolerance
from tests.engine.conftest import block

EQUAL = [
    ("3.535268172", "3.535268173"),
    ("[0.5  0.25]", "[0.5 0.25]"),
    ("[1. 2.]", "[0.99999999 2.]"),
    ("[0. 2.5]", "[-0. 2.5]"),
    ("5.14003721e-05", "5.14003722e-05"),
    ("x = 1\n", "x = 1"),
    ("-0.5", "−0.5"),
    ("0.30000000000000004", "0.3"),
    ("nan", "nan"),
]
UNEQUAL = [
    ("3.53526", "3.53527"),
    ("47117.241234", "47117.241235"),
    ("47,117.2", "47,118.2"),
    ("5.1400e-05", "5.1401e-05"),
    ("3.535268172", "3.535278172"),
    ("490", "491"),
    ("10,000", "10,001"),
    ("a 1.0", "b 1.0"),
    ("0.5", "-0.5"),
    ("2.2e-16", "1.1e-16"),
    ("0.0e+00", "1.1e-16"),
    ("5e-16", "5e-6"),
    ("1e5", "100001.0"),
    ("1 2", "1 2 3"),
    ("True", "False"),
    ("1.0\n2.0", "1.0 2.0"),
    ("nan", "1.0"),
    ("1000", "1,000"),
    ("1", "1.0"),
    ("0.5", "0.500"),
    ("1e6", "1000000"),
    ("", "1"),
]


@pytest.mark.parametrize(("expected", "actual"), EQUAL)
def test_these_agree(expected, actual):
    assert same(expected, actual)


@pytest.mark.parametrize(("expected", "actual"), UNEQUAL)
def test_these_differ(expected, actual):
    assert not same(expected, actual)


@pytest.mark.parametrize(
    ("tolerance", "expected", "within", "outside"),
    [
        ({"atol": 0.05}, "0.10", "0.12", "0.20"),
        ({"atol": 0.05}, "0.5", "0.49", "3e-2"),
        ({"rtol": 0.1}, "1.00e-05", "1.05e-05", "1.12e-05"),
        ({"residue": 1e-15}, "2.2e-16", "1.1e-16", "9.1e-10"),
        ({"residue": 1e-15}, "0.0", "1.1e-16", "1.1e-14"),
        ({"factor": 4}, "1e-06", "3e-07", "2e-07"),
        ({"factor": 4}, "1e-06", "3e-07", "-1e-06"),
        ({"factor": 4}, "1e-06", "3e-07", "0.0e+00"),
        ({"factor": 10}, "below 1e-07", "below 1e-06", "below 1e-05"),
        ({"factor": 10}, "below 10⁻⁷", "below 10⁻⁶", "below 10⁻⁵"),
    ],
)
def test_a_stated_tolerance_lets_agree_what_lies_within_it(tolerance, expected, within, outside):
    assert same(expected, within, Tolerance(**tolerance))
    assert not same(expected, within)
    assert not same(expected, outside, Tolerance(**tolerance))


@pytest.mark.parametrize(
    ("tolerance", "expected", "actual"),
    [
        ({"rtol": 0.1}, "490", "491"),
        ({"atol": 2.0}, "20 back: right 99%", "18 back: right 99%"),
        ({"atol": 0.05}, "1e-7", "3e-2"),
        ({"rtol": 0.2}, "1e-16", "1e-14"),
        ({"residue": 2.0}, "1", "0"),
        ({"atol": 0.5}, "1", "1.0"),
        ({"factor": 10}, "10⁻⁷", "10"),
        ({"factor": 4}, "2.0", "3.0"),
        ({"factor": 4}, "2e+05", "3e+05"),
    ],
)
def test_no_tolerance_touches_whole_numbers_exponents_or_what_it_is_not_for(tolerance, expected, actual):
    assert not same(expected, actual, Tolerance(**tolerance))


@pytest.mark.parametrize(
    ("expected", "actual", "tolerance", "result"),
    [
        ("| a | 3e-07 |\n| b | 5 |", "| a | 4e-07 |\n| b | 6 |", {"factor": 4}, "| a | 3e-07 |\n| b | 6 |"),
        ("a 3e-07 5", "a 4e-07 6", {"factor": 4}, "a 3e-07 6"),
        ("0.10\n0.20", "0.11\nnew\n0.21", {"atol": 0.02}, "0.10\nnew\n0.20"),
        ("a  1.0\n2", "a 1.0\n3", {}, "a  1.0\n3"),
        ("1e-7", "1e-3", {"residue": 1e-6}, "1e-3"),
        ("", "1", {}, "1"),
    ],
)
def test_what_agrees_is_kept_where_something_else_changes(expected, actual, tolerance, result):
    assert merged(expected, actual, Tolerance(**tolerance)) == result


@pytest.mark.parametrize(
    ("text", "tolerance", "errors"),
    [
        ("off by 4e-07", {}, ["4e-07"]),
        ("off by 10⁻⁷", {}, ["10⁻⁷"]),
        ("off by 4e-07", {"factor": 4}, []),
        ("off by 4e-07", {"residue": 1e-6}, []),
        ("off by 4e-05", {"residue": 1e-6}, ["4e-05"]),
        ("off by 4e-07", {"atol": 1e-6}, ["4e-07"]),
        ("2e-02 and 4e+07 and 0.0001", {}, []),
    ],
)
def test_rounding_errors_that_are_compared_by_their_digits(text, tolerance, errors):
    assert rounding(text, Tolerance(**tolerance)) == errors


HOLDING_AND_FAILING = [  # a phrase, a binding that bears it out, and one that does not
    ("47,117", "= 47117.24", "= 47118.24"),
    ("3.54", "= 3.5353", "= 3.5453"),
    ("about 80%", "= 80.1", "= 81.1"),
    ("−2.5", "= -2.5", "= 2.5"),
    ("2.5", "= 2.5", "= -2.5"),
    ("less than 1e-12", "> 6e-13", "> 5e-10"),
    ("less than 1e-12", "> 5e-16 # rounding: its size is the machine's", "> 5e-10"),
    ("more than 12", "< 12.5", "< 11.5"),
    ("above 0", "< 12.5", "< -12.5"),
    ("`[1.5, 2.5]`", "= [1.5, 2.5]", "= [1.5, 2.6]"),
    ("`[1.5]`", "= [1.5]", "= [1.5, 2.5]"),
    ("**17**", "= 17", "= 18"),
    ("$x = 0.25$", "= 0.25", "= 0.26"),
    ("2e-16", "= 2e-16", "= 9e-10"),
    ("1.5e-16", "= 1.5e-16", "= 3e-17"),
    ("10³", "= 1000", "= 1001"),
    ("½", "= 0.5", "= 0.51"),
    ("1/3", "= 1 / 3", "= 1 / 4"),
    ("7B", "= 7.4e9", "= 7.6e9"),
    ("2.6 million", "= 2_640_000", "= 2_660_000"),
    ("$10^4$", "= 10_000", "= 20_000"),
    ("$1.2 \\times 10^{-5}$", "= 1.23e-5", "= 1.26e-5"),
    ("1e−5", "= 1e-5", "= 1e-4"),
    ("Twelve", "= 12", "= 13"),
    ("three", "= 2.8", "= 3.6"),
    ("half", "= 0.52", "= 0.4"),
    ("two thirds", "= 0.65", "= 0.75"),
    ("twice", "= 2.1", "= 2.6"),
    ("it rises", "= later > 41 and 'rises'", "= later > 42 and 'rises'"),
    ("it rises", "= 'rises' if later > 41 else 'falls'", "= 'rises' if later > 42 else 'falls'"),
    ("it falls", "= later > 41 and 'falls'", "= later > 41 and 'rises'"),
    ("it rises", "= 'rises'", "= later > 41"),
    ("it rises", "= 'rises'", "= later"),
    ("it is farther left", "= 'farther left'", "= 'farther right'"),
    ("12", "= __import__('torch').tensor(12)", "= 'twelve'"),
    ("12", "given", "= float('nan')"),
    ("`split`", "= 'split'", "= 'interleaved'"),
    ("94.82", "cite: someone2020, table 1", "= 94.83"),
    ("later 42", "= later", "= later + 1"),
]


@pytest.mark.parametrize(("phrase", "holding", "failing"), HOLDING_AND_FAILING)
def test_a_bound_number_that_holds_and_one_that_does_not(project, phrase, holding, failing):
    sentences = [f"It is {phrase}<!-- {binding} --> here.\n\n" for binding in (holding, failing)]
    problems = project.check(f"# Page\n\n{''.join(sentences)}{block('later = 42')}")
    assert [problem.partition(": ")[0] for problem in problems] == ["5"]


def test_a_number_that_waits_for_a_failing_block_is_not_blamed(project):
    [problem] = project.check("# Page\n\nIt is 12<!-- = x -->.\n\n```python\nx = 1 / 0\n```\n")
    assert problem.startswith("6: ")
    assert "ZeroDivisionError" in problem


def test_a_number_is_taken_where_it_stands(project):
    first, second = (f"```python\nx = {n}\n```\n\nNow {n}<!-- = x -->.\n\n" for n in (11, 12))
    text = f"# Page\n\n{first}## Next\n\n{second}"
    assert project.check(text) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "In 2017, three of 10 agreed.",
        "See section 3.5, Table 2, eq. 14 and chapter 1.4.",
        "GPT-2, T5 and float32 are names, 2.3.1 is a release.",
        "The code `x = 512` is code.",
        "At $d = 512$ and $b = 10{,}000$.",
        "A [link](https://example.org/2104.09864) to a paper.",
        "1. An item.",
        "Turned twice, half a turn, the second half, in half precision; try it five times.",
    ],
)
def test_numbers_that_need_no_binding(project, sentence):
    assert project.check(f"# Page\n\n{sentence}\n") == []


@pytest.mark.parametrize(
    ("sentence", "number"),
    [
        ("All 12 agreed.", "12"),
        ("It is 0.5 wide.", "0.5"),
        ("It has 47,117 rows.", "47,117"),
        ("| a | 31 |", "31"),
        ("> 14 of them", "14"),
        ("Below 1e-5.", "1e-5"),
        ("Below 1e−5.", "1e−5"),
        ("Below $10^{-5}$.", "1e-5"),
        ("About 10³ rows.", "10³"),
        ("At ½.", "½"),
        ("In 1/3 of all.", "1/3"),
        ("A 70B model.", "70B"),
        ("The 12th row.", "12th"),
        ("From 5-100.", "100"),
        ("By 5 percent.", "5"),
        ("At step 500.", "500"),
        ("It is three times as long.", "three times as"),
        ("More than half of them.", "than half of"),
        ("Twice the size.", "Twice the"),
        ("A quarter of it.", "A quarter of"),
        ("All twelve.", "twelve"),
        ("A million rows.", "A million"),
    ],
)
def test_numbers_that_need_a_binding(project, sentence, number):
    [problem] = project.check(f"# Page\n\n{sentence}\n")
    assert problem == f"3: no code stands behind {number}: bind it, cite it, or mark it <!-- given -->"


@pytest.mark.parametrize(
    ("sentence", "loose"),
    [
        ("less than 1e-12<!-- > 5e-16 -->", True),
        ("less than 1e-14<!-- > 5e-16 -->", False),
        ("more than 12<!-- < 25 -->", True),
        ("more than 13<!-- < 25 -->", False),
        ("more than 12<!-- < 25 # a rounder number -->", False),
    ],
)
def test_a_bound_that_is_loose_is_lint(project, sentence, loose):
    assert project.check(f"# Page\n\nIt is {sentence} here.\n") == []
    assert bool(project.run()["page.md"].lint) == loose
