"""How plain a file is: its columns, how often it branches, how much of it refuses, and that it uses no tricks."""

import ast
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

BRANCHES = (ast.If, ast.IfExp, ast.BoolOp, ast.comprehension, ast.For, ast.While, ast.ExceptHandler)
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
TRICKS = ("is_compiling", "is_dynamo_compiling", "as_strided", "Function", "autograd", "jit")


@dataclass(frozen=True)
class Measure:
    """What is limited in a file that is there to be read, and copied."""

    columns: int
    branches: int
    checks: float
    tricks: list[str]

    def excess(self) -> list[str]:
        """Say in words what is too much."""
        tricks = ", ".join(self.tricks)
        found = [
            (self.columns > 100, f"a line of {self.columns} columns, of 100"),
            (self.branches > 30, f"{self.branches} branches, of 30"),
            (self.checks > 0.2, f"{self.checks:.0%} of it refuses arguments, of 20%: torch refuses much itself"),
            (bool(tricks), f"{tricks}: plain operations serve compile, vmap and export by themselves"),
        ]
        return [words for wrong, words in found if wrong]


def measure(path: Path) -> Measure:
    """Measure the file at `path`."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    docstrings = {id(scope.body[0]): scope.body[0] for scope in nodes if _has_docstring(scope)}
    code = _code_lines(text) - {line for each in docstrings.values() for line in _lines(each)}
    checks = {line for node in nodes if _only_raises(node) for line in _lines(node)} & code
    return Measure(
        columns=max(map(len, text.split("\n"))),
        branches=sum(isinstance(node, BRANCHES) for node in nodes),
        checks=len(checks) / max(1, len(code)),
        tricks=sorted({node.attr for node in nodes if isinstance(node, ast.Attribute) and _is_trick(node)}),
    )


def _has_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None


def _only_raises(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and all(isinstance(each, ast.Raise) for each in node.body)


def _is_trick(node: ast.Attribute) -> bool:
    private = isinstance(node.value, ast.Name) and node.value.id == "torch" and node.attr.startswith("_")
    return private or node.attr in TRICKS


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _code_lines(text: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {line for token in tokens if token.type not in NO_CODE for line in range(token.start[0], token.end[0] + 1)}
