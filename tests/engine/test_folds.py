"""What of a page's code is folded, under which label, and which names open code may use."""

import pytest

from galley.read.page import parse
from galley.show import folds
from tests.engine.conftest import block

IMAGE = "\n![A line](figures/line.svg)\n"
TABLE = "\n<!-- output -->\n\n| a |\n\n<!-- /output -->\n"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (block("x = 1"), ""),
        (block("x = 1", 'fold="How it is done"'), "How it is done"),
        (block("plot()", "fold") + IMAGE, "Code of this figure"),
        (block("plot()", "fold") + f"{IMAGE}\n![Another](figures/other.svg)\n", "Code of these figures"),
        (block("print(1)", "fold") + TABLE, "Code of this table"),
        (block("x = 1\nassert x\nassert x > 0", "fold"), "Checked: 2 assertions"),
        (block("x = 1", "fold"), "Code"),
        (block("assert 1"), "Checked: 1 assertion"),
        (block("import math\nfor x in (1, 2):\n    assert x\nassert math"), "Checked: 2 assertions"),
        (block("import math"), ""),
        (block("x = 1\nassert x"), ""),
        (block("assert 1", "standalone"), ""),
        (block("assert 0", "raises=AssertionError"), ""),
        (block("assert 1", "skip"), ""),
        (block("assert 1", output=""), ""),
    ],
)
def test_a_fold_says_what_it_holds(text, label):
    [fold] = parse(text).blocks
    assert folds.label(fold) == label


@pytest.mark.parametrize(
    ("blocks", "names"),
    [
        ((block("x = 1", "fold"), block("print(x)")), ["x"]),
        ((block("import math", "fold"), block("print(math.pi)")), ["math"]),
        ((block("def f(): pass", "fold"), block("def g():\n    return f()")), ["f"]),
        ((block("x = 1"), block("x = 2", "fold"), block("print(x)")), []),
        ((block("x = 1", "fold"), block("x = 2\nprint(x)")), []),
        ((block("x = 1", "fold"), block("print(x)", "fold")), []),
        ((block("x = 1", "fold"), "<details><summary>Answer</summary>", block("print(x)"), "</details>"), []),
        (("<details><summary>Answer</summary>", block("x = 1"), "</details>", block("print(x)")), ["x"]),
        ((block("x = 1", "fold"), block("def f(x):\n    return x")), []),
        ((block("x = 1", "fold"), block("y = [x for x in (1, 2)]")), []),
        ((block("print(len(undefined))"),), []),
    ],
)
def test_open_code_uses_no_name_that_only_a_fold_binds(blocks, names):
    assert [name for _, name in folds.unseen(parse("\n\n".join(blocks)))] == names


def test_it_says_in_which_block():
    assert folds.unseen(parse(block("x = 1", "fold") + "\n" + block("print(x)"))) == [(7, "x")]
