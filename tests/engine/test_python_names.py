"""Which names code binds, imports and takes is read from its source, the same under each Python."""

import pytest

from galley.read import python_names


@pytest.mark.parametrize(
    ("code", "bound", "imported", "used"),
    [
        ("x = y", "x", "", "y"),
        ("x += 1", "x", "", "x"),
        ("x: int = 1", "x", "", "int"),
        ("import a.b, c as d\nfrom e import f as g", "", "a d g", ""),
        ("squares = [n * k for n in rows if n > k]", "squares", "", "k rows"),
        ("table = {k: v for k, v in pairs.items()}", "table", "", "pairs"),
        ("kept = {last := n for n in rows}", "kept last", "", "rows"),
        ("[a for row in rows for a in row]", "", "", "rows"),
        ("[n for n in [n for n in rows]]", "", "", "rows"),
        ("n = [n for n in n]", "n", "", "n"),
        ("def f(a, b=c, *rest) -> d:\n    e = a\n    return e + g", "f", "", "c d g"),
        ("def f():\n    global count\n    count = 1\n    return count", "f", "", "count"),
        ("def f():\n    import os\n    return os", "f", "", ""),
        ("double = lambda x: x * k", "double", "", "k"),
        ("@cache\nclass A(B):\n    x = y\n    def f(self):\n        return z", "A", "", "cache B y z"),
        ("for a, (b, *c) in rows:\n    pass", "a b c", "", "rows"),
        ("with open(path) as file:\n    pass", "file", "", "open path"),
        ("try:\n    pass\nexcept Error as error:\n    pass", "error", "", "Error"),
        ("match point:\n    case {'x': x, **rest}:\n        pass\n    case [y, *others] as all_:\n        pass",
         "x rest y others all_", "", "point"),
    ],
)  # fmt: skip
def test_names_of_code(code, bound, imported, used):
    names = python_names.of_module(code)
    assert (names.bound, names.imported, names.taken) == ({*bound.split()}, {*imported.split()}, {*used.split()})


def test_what_is_no_code_is_an_error():
    with pytest.raises(SyntaxError):
        python_names.of_module("x = = 1")
