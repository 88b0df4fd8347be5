"""`python -m tests.stub` writes posenc/__init__.pyi: what `from posenc import …` offers, for editors and type checkers.

The package finds its names in the folder when it runs; they run nothing. A test holds the file to what is written here.
"""

import ast
from itertools import groupby
from operator import itemgetter

import posenc
from tests.doors import ROOT

PATH = ROOT / "posenc" / "__init__.pyi"
HEAD = """\
# Written by `make update` from __init__.py and the files of the doors.
# fmt: off
# ruff: noqa
"""


def stub() -> str:
    """Return __init__.py without what its functions do, then the names of all files, each imported from its own."""
    tree = ast.parse((ROOT / "posenc" / "__init__.py").read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not isinstance(node, ast.FunctionDef) or node.name[:2] != "__"]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            said = node.body[:1] if ast.get_docstring(node) else []
            node.body = [*said, ast.Expr(ast.Constant(...))]
    lines = [ast.unparse(tree), ""]
    for module, named in groupby([*posenc._names(), *posenc.TOOLS.items()], itemgetter(1)):
        lines.append(f"from {module} import {', '.join(f'{name} as {name}' for name, _ in named)}")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
