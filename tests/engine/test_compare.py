"""Outputs: numbers within the tolerance, everything else exactly."""

import pytest

from galley.check import same, written_value


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ("3.53526", "3.53527"),
        ("a 1.0000 b", "a 1.00001 b"),
        ("[0.5  0.25]", "[0.5 0.25]"),
        ("5.14e-16", "7.8e-17"),
        ("47,117.2", "47,117.3"),
        ("x = 1\n", "x = 1"),
        ("-0.5", "-0.50001"),
        ("1e5", "100001.0"),
    ],
)
def test_these_agree(shown, given):
    assert same(shown, given)


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ("3.535", "3.536"),
        ("490", "491"),
        ("a 1.0", "b 1.0"),
        ("0.5", "-0.5"),
        ("5e-16", "5e-6"),
        ("1 2", "1 2 3"),
        ("True", "False"),
        ("1.0\n2.0", "1.0 2.0"),
        ("nan", "1.0"),
        ("10,000", "10,001"),
        ("", "1"),
        ("0.0001", "0.0002"),
    ],
)
def test_these_differ(shown, given):
    assert not same(shown, given)


def test_a_stated_tolerance_holds_for_whole_numbers_too():
    assert same("490", "491", rtol=1e-2)
    assert not same("490", "500", rtol=1e-2)
    assert same("0.10", "0.12", atol=0.05)
    assert not same("0.10", "0.20", atol=0.05)


@pytest.mark.parametrize(
    ("text", "value", "half"),
    [("47,117", 47117, 0.5), ("3.54", 3.54, 0.005), ("−2.0", -2.0, 0.05), ("1e-12", 1e-12, 0.5e-12), ("80%", 80, 0.5)],
)
def test_a_written_number_has_a_value_and_a_last_digit(text, value, half):
    assert written_value(text) == pytest.approx((value, half))


AGREE = [
    "47,117<!-- = 47117.24 -->",
    "3.54<!-- = 3.5353 -->",
    "about 80%<!-- = 80.1 -->",
    "−2.5<!-- = -2.5 -->",
    "less than 1e-12<!-- > 5e-16 -->",
    "more than 12<!-- < 12.5 -->",
    "`[1.5, 2.5]`<!-- = [1.5, 2.5] -->",
    "**17**<!-- = 17 -->",
    "$x = 0.25$<!-- = 0.25 -->",
    "1.5e-16<!-- = 3e-17 -->",
    "12<!-- = __import__('torch').tensor(12) -->",
    "`split`<!-- = 'split' -->",
    "17<!-- given --> tokens",
    "94.82<!-- cite: someone2020, table 1 -->",
    "later 42<!-- = later -->",
]
DIFFER = [
    "47,116<!-- = 47117.24 -->",
    "3.53<!-- = 3.5353 -->",
    "2.5<!-- = -2.5 -->",
    "less than 1e-17<!-- > 5e-16 -->",
    "`[1.5, 2.6]`<!-- = [1.5, 2.5] -->",
    "`[1.5]`<!-- = [1.5, 2.5] -->",
    "`split`<!-- = 'interleaved' -->",
    "12<!-- = 'twelve' -->",
    "12<!-- = float('nan') -->",
]


@pytest.mark.parametrize("sentence", AGREE)
def test_a_bound_number_that_holds(project, sentence):
    assert project.check(f"# Page\n\nIt is {sentence} here.\n\n```python\nlater = 42\n```\n") == []


@pytest.mark.parametrize("sentence", DIFFER)
def test_a_bound_number_that_does_not_hold(project, sentence):
    problems = project.check(f"# Page\n\nIt is {sentence} here.\n\n```python\nlater = 42\n```\n")
    assert [p for p in problems if p.startswith("3: ")]


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
        "GPT-2, T5 and float32 are names.",
        "The code `x = 512` is code.",
        "At $d = 512$ and $b = 10{,}000$.",
        "A [link](https://example.org/2104.09864) to a paper.",
        "1. An item.",
    ],
)
def test_numbers_that_need_no_binding(project, sentence):
    assert project.check(f"# Page\n\n{sentence}\n") == []


@pytest.mark.parametrize(
    "sentence", ["All 12 agreed.", "It is 0.5 wide.", "It has 47,117 rows.", "| a | 31 |", "> 14 of them"]
)
def test_numbers_that_need_a_binding(project, sentence):
    assert [p for p in project.check(f"# Page\n\n{sentence}\n") if "no code stands behind" in p]
