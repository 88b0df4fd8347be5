"""The checker of shape comments: it believes true ones and reports those that lie, are stray, or are never reached."""

import numpy as np
import pytest

from tests.contract import shape_comments

HEAD = '"""A file.\n\nKey: b batch, t length,\n     d dim, m reach\n"""\nimport numpy as np\n'


def problems(tmp_path, code, *calls):
    """Watch a file of this code, call `f` with each array, return the report without the file's name."""
    path = tmp_path / "a.py"
    path.write_text(HEAD + code)
    module, report = shape_comments.watch(path)
    for arrays in calls:
        module.f(*arrays)
    return [problem.removeprefix("a.py:") for problem in report.problems()]


TRUE = {
    "one axis": ("def f(x):\n    return x  # (t,)", (np.ones(3),)),
    "a scalar": ("def f(x):\n    return x  # ()", (np.float64(1),)),
    "leading axes": ("def f(x):\n    return x  # (..., t, d)", (np.ones((5, 4, 3, 2)),)),
    "no leading axes": ("def f(x):\n    return x  # (..., t, d)", (np.ones((3, 2)),)),
    "a number": ("def f(x):\n    return x  # (t, 2)", (np.ones((3, 2)),)),
    "half, rounded down": ("def f(x):\n    y = x[:3]  # (d/2,)\n    return x  # (d,)", (np.ones(7),)),
    "arithmetic": ("def f(m, x):\n    m = m  # (m,)\n    return x  # (2m+1, d)", (np.ones(3), np.ones((7, 2)))),
    "words after it": ("def f(x):\n    return x  # (t,), the queries", (np.ones(3),)),
    "one shape for both": ("def f(x):\n    y, z = np.split(x, 2)  # (t/2,)\n    return y  # (t/2,)", (np.ones(4),)),
    "one shape each": ("def f(x):\n    return x, x[:, 0]  # (t, d), (t,)", (np.ones((3, 2)),)),
    "several lines": ("def f(x):\n    y = np.stack(\n        [x, x]\n    )  # (2, t)\n    return y", (np.ones(3),)),
    "in place": ("def f(x):\n    x = x + 0\n    x += 1  # (t,)\n    return x", (np.ones(3),)),
    "part of an array": ("def f(x):\n    x[1:] = 0  # (2, d)", (np.ones((3, 5)),)),
    "a nested function": ("def f(x):\n    def g(y):\n        return y  # (d,)\n    return g(x)", (np.ones(3),)),
    "a one-line branch": ("def f(x):\n    if len(x): return x  # (t,)", (np.ones(3),)),
}


@pytest.mark.parametrize("name", TRUE)
def test_a_true_comment_is_believed(tmp_path, name):
    code, arrays = TRUE[name]
    assert problems(tmp_path, code, arrays) == []


LIES = {
    "swapped axes": ("def f(x):\n    x = x  # (t, d)\n    return x.T  # (t, d)", (np.ones((3, 2)),), "where t = 3"),
    "an axis too few": ("def f(x):\n    return x  # (t,)", (np.ones((3, 2)),), "the value is (3, 2)"),
    "an axis too many": ("def f(x):\n    return x  # (..., b, t, d)", (np.ones((3, 2)),), "the value is (3, 2)"),
    "a wrong number": ("def f(x):\n    return x  # (t, 3)", (np.ones((3, 2)),), "the value is (3, 2)"),
    "a wrong part": ("def f(x):\n    x = x  # (d,)\n    return x[:4]  # (d/2,)", (np.ones(6),), "where d = 6"),
    "wrong arithmetic": ("def f(x):\n    x = x  # (t,)\n    return x  # (t+1,)", (np.ones(6),), "where t = 6"),
    "the second of two": ("def f(x):\n    return x, x  # (t, d), (t,)", (np.ones((3, 2)),), "says (t), but"),
    "too few shapes": ("def f(x):\n    return x, x, x  # (t,), (t,)", (np.ones(3),), "names 2 shapes for 3 values"),
    "no array": ("def f(x):\n    return len(x)  # (t,)", (np.ones(3),), "the value has no shape"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_reported_with_its_line(tmp_path, name):
    code, arrays, message = LIES[name]
    (problem,) = problems(tmp_path, code, arrays)
    assert problem.startswith(f"{HEAD.count(chr(10)) + code.count(chr(10)) + 1}:")
    assert message in problem


def test_a_letter_may_have_another_size_in_the_next_call(tmp_path):
    assert problems(tmp_path, "def f(x):\n    return x  # (t,)", (np.ones(3),), (np.ones(5),)) == []


def test_a_lie_in_one_call_of_many_is_reported(tmp_path):
    code = "def f(x):\n    return x  # (t, 2)"
    assert problems(tmp_path, code, (np.ones((3, 2)),), (np.ones((3, 4)),), (np.ones((3, 2)),))


def test_a_comment_that_no_call_reaches_is_reported(tmp_path):
    code = "def f(x):\n    if len(x) > 9:\n        return x  # (t,)\n    return x  # (t,)"
    assert problems(tmp_path, code, (np.ones(3),)) == ["9: is never reached"]


def test_a_comment_on_a_line_that_makes_nothing_is_reported(tmp_path):
    code = "def f(x):\n    y = np.stack(  # (2, t)\n        [x, x])\n    return y"
    (problem,) = problems(tmp_path, code, (np.ones(3),))
    assert "stands on no assignment and no return" in problem


@pytest.mark.parametrize("comment", ["(t d)", "(t,", "(see below)", "(t.d)"])
def test_what_starts_like_a_shape_and_is_none_is_reported(tmp_path, comment):
    (problem,) = problems(tmp_path, f"def f(x):\n    return x  # {comment}", (np.ones(3),))
    assert "starts like a shape" in problem


def test_a_letter_that_the_key_does_not_explain_is_reported(tmp_path):
    (problem,) = problems(tmp_path, "def f(x):\n    return x  # (z,)", (np.ones(3),))
    assert "uses z, which the Key does not explain" in problem


def test_the_key_may_take_two_lines():
    assert shape_comments.key_letters(HEAD) == {"b", "t", "d", "m"}


def test_two_unknown_letters_in_one_axis_are_reported(tmp_path):
    assert problems(tmp_path, "def f(x):\n    return x  # (t+m,)", (np.ones(3),))


def test_the_copy_computes_what_the_file_computes(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(HEAD + "def f(x):\n    y = 2 * x  # (t,)\n    return y + 1  # (t,)")
    module, _ = shape_comments.watch(path)
    np.testing.assert_array_equal(module.f(np.arange(3)), [1, 3, 5])
