"""workbook.check: right answers pass in every form, wrong ones get their own words, and nothing raises."""

import ast
import importlib
import time

import numpy as np
import pytest
import torch

import posenc
from posenc_book import workbook
from posenc_book.__main__ import main
from posenc_book.workbook.functions import Function
from posenc_book.workbook.kinds import Array, Choice, Number, Text
from posenc_book.workbook.part_1 import EXERCISES as FIRST
from tests.contract.encoding_inputs import ROOT

EXERCISES = workbook.exercises()
TABLES = sorted((ROOT / "docs/book/posenc_book/workbook").glob("part_*.py"))
each = pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES.keys())
each_table = pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
PLACES = importlib.import_module("posenc_book.workbook.part_1")


class Hostile:
    """Raises at whatever is asked of it."""

    def __getattr__(self, name):
        raise RuntimeError("no")

    def __repr__(self):
        raise RuntimeError("no")

    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = None


def fails(*arguments):
    raise KeyError("inside")


def leaves(*arguments):
    raise SystemExit(2)


GARBAGE = {
    "None": None,
    "nan": float("nan"),
    "infinity": float("inf"),
    "a complex number": 1j,
    "True": True,
    "a text": "no idea",
    "an empty text": "",
    "an empty list": [],
    "ragged rows": [[1], [2, 3]],
    "texts": ["a", "b"],
    "a dict": {"a": 1},
    "a set": {1, 2},
    "bytes": b"3",
    "an object": object(),
    "a hostile object": Hostile(),
    "a class": int,
    "a module": np,
    "a generator": (n for n in range(3)),
    "a huge integer": 10**400,
    "a matrix": np.zeros((3, 4)),
    "a tensor of bfloat16": torch.zeros(2, 3, dtype=torch.bfloat16),
    "a tensor that is learned": torch.zeros(7, requires_grad=True),
    "a meta tensor": torch.zeros(2, device="meta"),
    "a complex tensor": torch.zeros(2, dtype=torch.complex64),
    "a sparse tensor": torch.eye(2).to_sparse(),
    "texts in an array": np.array(["a"]),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "a function that returns nothing": lambda *arguments: None,
    "a function that takes nothing": lambda: 1,
    "a function that raises": fails,
    "a function that leaves": leaves,
    "a function that returns a text": lambda *arguments: "no",
    "a function that returns a hostile object": lambda *arguments: Hostile(),
    "a function that returns a scalar": lambda *arguments: -123.0,
    "a function that returns too much": lambda *arguments: (1.0, 2.0, 3.0),
    "a function that returns a cube": lambda *arguments: np.zeros((2, 2, 2)),
}


def judged(exercise, answer):
    verdict = workbook.check(exercise.number, answer)
    assert str(verdict) == repr(verdict)
    assert str(verdict).split() == verdict.words.split()
    assert max(map(len, str(verdict).split("\n"))) <= 88
    assert verdict.words.startswith("Right: " if verdict else "Not yet: ")
    assert verdict.words[-1] in ".?!"
    assert "\n" not in verdict.words
    assert len(verdict.words) < 250
    return verdict


@each
def test_the_right_answer_passes(exercise):
    assert judged(exercise, exercise.right), exercise.number


@each
def test_the_right_answer_passes_in_every_form(exercise):
    right = exercise.right
    if isinstance(exercise, Number):
        forms = [float(right), np.float64(right), torch.tensor(float(right)), np.array([right]), str(float(right))]
        assert all(judged(exercise, form) for form in forms)
    elif isinstance(exercise, Array):
        array = np.asarray(right)
        tensor = torch.tensor(array)
        forms = [array, array.tolist(), tuple(array), tensor, tensor.float().requires_grad_(), list(tensor)]
        forms += [str(array.tolist()), [str(number) for number in array]]
        assert all(judged(exercise, form) for form in forms)
    elif isinstance(exercise, Choice):
        assert judged(exercise, f" ({right.upper()})")
    elif isinstance(exercise, Text):
        assert all(judged(exercise, f" {word.upper()}!") for word in (right, *exercise.also))
    else:
        assert judged(exercise, lambda *arguments: exercise.right(*arguments))


@each
def test_a_whole_number_has_to_be_met(exercise):
    if not isinstance(exercise, Number | Array) or np.asarray(exercise.right).dtype.kind not in "iu":
        return
    right = np.asarray(exercise.right)
    for place in np.ndindex(right.shape):
        for off in (-1, 1, 0.01, 1e-3 * max(1, abs(right[place])), 5e-5):
            near = right.astype(float)
            near[place] += off
            assert not judged(exercise, near), (place, off)


@each
def test_each_declared_wrong_answer_is_refused_in_its_own_words(exercise):
    assert len(exercise.wrong) >= 3, f"{exercise.number}: declare at least three common wrong answers"
    for wrong, words in exercise.wrong:
        verdict = judged(exercise, wrong)
        assert not verdict
        assert verdict.words == f"Not yet: {words}" + "." * (words[-1] not in ".?!"), "another one has these numbers"
    assert len({words for _, words in exercise.wrong}) == len(exercise.wrong)


@each
def test_each_choice_that_is_wrong_has_its_words(exercise):
    if isinstance(exercise, Choice):
        assert {letter for letter, _ in exercise.wrong} == set(exercise.options) - {exercise.right}


@each
def test_the_words_read_on_after_a_colon(exercise):
    for words in (exercise.why, *(words for _, words in exercise.wrong)):
        first = words.split()[0].strip(",:;")
        assert words == words.strip()
        assert not (first.istitle() and len(first) > 1 and first.isalpha()), f"begins with a capital: {words!r}"
        assert len(words) <= 160


@each
def test_garbage_gets_words(exercise):
    for name, garbage in GARBAGE.items():
        assert not judged(exercise, garbage), name


@each
def test_a_function_that_changes_its_input_is_told_so(exercise):
    if isinstance(exercise, Function):
        first = exercise.cases[0][0]
        if isinstance(first, np.ndarray | torch.Tensor):

            def rude(*arguments):
                result = exercise.right(*arguments)
                arguments[0][...] = -7
                return result

            assert "in place" in judged(exercise, rude).words


def test_the_first_case_that_differs_is_named():
    said = workbook.check("1.7", lambda row, k: row).words
    assert said.startswith("Not yet: on shift([-0.7568, -0.6536, 0.03999, 0.9992], 3): ")
    assert "the first that is not stands at [" in said


def test_a_slip_that_shows_on_a_later_case_only_names_that_case():
    def positive(row, k):
        return PLACES.EXERCISES[6].right(row, abs(k))

    assert "-7)" in workbook.check("1.7", positive).words


@pytest.mark.parametrize(
    ("number", "answer", "words"),
    [
        ("1.2", 17, "one off"),
        ("1.2", -16, "the sign is not"),
        ("1.2", 15.9, "no whole number"),
        ("1.2", 1600, "percentage"),
        ("1.2", [16, 16], "2 numbers came in"),
        ("1.5", 2.7, "more than 2 digits"),
        ("1.5", 2.7304218517944587**2, "take the root"),
        ("1.5", 2.72, "very close"),
        ("1.5", 1000, "1,000 is too large"),
        ("1.4", 1.5625 * 2 * np.pi, "2π times too large"),
        ("1.3", [39, 38, 37], "from the wrong end"),
        ("1.3", [38, 37, 39], "in another order"),
        ("1.3", [37, 38, 40], "2 of 3 numbers are right; the first that is not stands at [2], where 40 is too large"),
        ("1.3", [[37, 38, 39]], "the numbers are right; the shape is (1, 3), and (3,) is asked for"),
        ("1.3", [37, 38, float("nan")], "it holds nan"),
        ("1.3", [37, 38.5, 39], "stands at [1], where 38.5 is no whole number"),
        ("1.3", "37, 38", "the shape is (2,), and (3,) is asked for"),
        ("1.1", np.array([0, 0, 0, 0, 0, 0]), "an integer array cuts them off"),
        ("1.1", [0.91, -0.42, 0.2, 0.98, 0.02, 1], "right as far as they go; give more decimals"),
        ("3.1", [3, -4, -2, 1], "2 of 4 numbers are right"),
        ("3.1", [3, -3, -2, 1], "3 of 4 numbers are right"),
        ("2.6", 41, "41 is too large"),
        ("4.10", 749.3, "749.3 is no whole number"),
        ("4.8", 14.99999, "14.99999 is no whole number"),
        ("6.2", 770, "one off"),
        ("6.10", 65_500, "65,500 is too small"),
        ("6.10", "65,535", "one off"),
        ("5.3", "5/4", "leave out quotes and units"),
        ("3.8", lambda turn, dim: np.array([4]), "take it out of its array of shape (1,)"),
        ("4.4", lambda *given: EXERCISES["4.4"].right(*given).swapaxes(1, 2), "rows and columns are swapped"),
    ],
)
def test_a_wrong_answer_that_nobody_declared_gets_what_can_be_seen_of_it(number, answer, words):
    assert words in workbook.check(number, answer).words


def test_the_words_never_tell_the_answer():
    assert "2.73" not in workbook.check("1.5", 1).words
    assert "16" not in workbook.check("1.2", 3).words


@pytest.mark.parametrize(
    ("number", "remedy"),
    [("1.99", "there are 1.1 to 1.13"), ("99.1", "parts 1"), ("x", "parts 1"), ("", "parts 1"), (1.2, '"1.10"')],
)
def test_an_unknown_number_is_refused_with_those_that_there_are(number, remedy):
    with pytest.raises(ValueError, match=r"^check: exercise must be .+, got .+; ") as error:
        workbook.check(number, 1)
    assert remedy in str(error.value)


def test_a_heading_without_grade_is_refused():
    with pytest.raises(ValueError, match="head must be"):
        Number("1.2 No grade", right=1, why="")


@each_table
def test_a_table_is_in_order_and_of_its_part(path):
    part = path.stem.removeprefix("part_")
    table = importlib.import_module(f"posenc_book.workbook.{path.stem}").EXERCISES
    assert [exercise.number for exercise in table] == [f"{part}.{n}" for n in range(1, len(table) + 1)]
    grades = ["easy", "medium", "hard"]
    assert sorted(table, key=lambda exercise: grades.index(exercise.grade)) == table


@each_table
def test_right_answers_are_computed(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Number", "Array"):
            right = next(keyword.value for keyword in node.keywords if keyword.arg == "right")
            names = [part for part in ast.walk(right) if isinstance(part, ast.Name | ast.BinOp)]
            assert names, f"{path.name}:{right.lineno}: a typed constant; compute it"


@each_table
def test_a_table_costs_little(path):
    spec = importlib.util.spec_from_file_location("again", path)
    start = time.process_time()
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert time.process_time() - start < 1


def test_the_reference_of_the_distance_is_the_row_of_the_package():
    exercise = EXERCISES["1.12"]
    for m, n, dim in ((5, 3, 4), (-20, 300, 10)):
        rows = posenc.sinusoidal([m, n, m - n], dim)
        assert np.allclose(exercise.right(*rows[:2]), rows[2])


def test_a_text_is_compared_by_its_words():
    exercise = Text("9.1 A word · easy", right="cosine", also=["cos"], why="yes", wrong=[("sine", "the other one")])
    assert exercise.judge(" Cos. ")
    assert exercise.judge("COSINE")
    assert exercise.judge("sine").words == "Not yet: the other one."
    assert not exercise.judge("tangent")
    assert "in quotes" in exercise.judge(3).words


def test_a_function_may_return_several_things():
    pair = Function(
        "9.2 Two · easy", right=lambda x: (x, 2 * x), why="yes", call="two(x)", cases=[(3.0,)],
        wrong=[(lambda x: (x, x), "the second is twice the first")],
    )  # fmt: skip
    assert pair.judge(lambda x: (x, x + x))
    assert pair.judge(lambda x: (x, x)).words == "Not yet: the second is twice the first."
    assert "it returns 1 thing, and 2 are asked for" in pair.judge(lambda x: x).words


def test_the_verdict_is_true_or_false_and_reads_as_its_words():
    verdict = workbook.check("1.6", "a")
    assert verdict
    assert verdict.right is True
    assert isinstance(verdict, workbook.Verdict)
    assert " ".join(f"{verdict}".split()) == verdict.words
    assert verdict.exercise == "1.6"
    assert not workbook.check("1.6", "b")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["1.2", "ceil(pi / 2 / 0.1)"], 0, "Right: "),
        (["1.2", "32"], 1, "half a period"),
        (["1.3", "np.arange(3) + 37"], 0, "Right: "),
        (["1.6", "a"], 0, "Right: "),
        (["1.7", "numpy:cumsum"], 1, "on shift("),
    ],
)
def test_the_command_judges(capsys, arguments, code, words):
    assert main(["check", *arguments]) == code
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["1.2", "16 +"], ["1.2", "nothing"], ["1.7", "shift"], ["9.9", "1"]])
def test_the_command_refuses_in_words(capsys, arguments):
    assert main(["check", *arguments]) == 1
    assert capsys.readouterr().err.startswith("check: ")


def test_the_first_table_is_the_one_of_the_book():
    assert [*EXERCISES][: len(FIRST)] == [exercise.number for exercise in FIRST]
