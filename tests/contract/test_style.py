"""The checks of style see what they are for, and let plain code pass."""

import ast

import pytest

from tests.contract import style

DOUBLED = {
    "picked": 'order = ("rows", "columns")[swapped]',
    "picked from a list": "size = [1, 2][wide]",
    "times a comparison": "text = suffix * (count > 1)",
    "times not": "text = suffix * (not done)",
    "times a bool": "text = bool(waiting) * suffix",
    "chained is": "refused = positions is key_positions is None",
    "chained equals": "square = rows == columns == 3",
    "chained with a range": "alone = t == s > 1",
    "unlike": "found, begin = [], time()",
    "unlike attributes": "self.dim, self.rows = dim, len(rows)",
    "walrus in and": "if ready and (match := search(text)):\n    pass",
    "walrus compared": "if (count := len(rows)) > 3:\n    pass",
}
PLAIN = {
    "a table of names": 'blocks = {"half": 1, "blocks": axes}[layout]',
    "a range": "fits = 0 < base < infinity",
    "a product": "area = rows * columns",
    "alike": "t, s = q.shape[2], k.shape[2]",
    "alike attributes": "self.dim, self.heads = dim, heads",
    "unpacked": "first, second = x.chunk(2, dim=-1)",
    "a walrus alone": "if match := search(text):\n    pass",
}


@pytest.mark.parametrize("name", DOUBLED)
def test_a_statement_that_says_two_things_is_seen(name):
    assert [line for line, _ in style.two_in_one(ast.parse(DOUBLED[name]))] == [1]


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_statement_passes(name):
    assert not list(style.two_in_one(ast.parse(PLAIN[name])))


def test_filler_is_counted_wherever_a_name_is_bound(tmp_path):
    path = tmp_path / "file.py"
    path.write_text("def scale(told_base, heads):\n    made = heads\n    return [row for row in made]\n")
    assert style.filler_names([path]) == (["made", "told_base"], 0.5)


def test_what_has_no_type_is_named(tmp_path):
    path = tmp_path / "file.py"
    path.write_text("def scale(x, base: float = 1.0):\n    return x\n\n\ndef _own(x):\n    return x\n")
    assert style.untyped(path) == ["scale: x, its result"]


def test_tricks_are_named(tmp_path):
    path = tmp_path / "file.py"
    path.write_text("import torch\n\nx = torch._dynamo.reset()\ny = torch.jit.script(x)\n")
    assert style.tricks(path) == ["_dynamo", "jit"]
