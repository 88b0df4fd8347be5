"""What a syntax tree shows of how plain a file is: statements that say two things, and names that say nothing."""

import ast
from collections.abc import Iterator
from pathlib import Path

FILLER = {"told", "said", "made", "found", "given", "one", "words", "asked", "each", "seen", "shown", "meant"}
FILLER |= {"taken", "tells", "says"}
"""Words which, in the name of a variable or a parameter, leave a reader to guess what it holds."""


def two_in_one(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line of each statement that says two things, and what it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Tuple | ast.List):
            yield node.lineno, "picks from a literal by an index: write if and else"
        if isinstance(node, ast.BinOp) and _multiplies_by_condition(node):
            yield node.lineno, "multiplies by a condition: write if and else, or where()"
        if isinstance(node, ast.Compare) and _is_no_range(node):
            yield node.lineno, "chains comparisons that are no range: write two, joined by and"
        if isinstance(node, ast.Assign) and _is_unlike(node):
            yield node.lineno, "assigns unlike things in parallel: write one statement for each"
        if isinstance(node, ast.BoolOp | ast.Compare) and any(
            isinstance(part, ast.NamedExpr) for part in ast.walk(node)
        ):
            yield node.lineno, "assigns within a condition that does more: write a statement before it"


def _multiplies_by_condition(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Mult) and (_is_condition(node.left) or _is_condition(node.right))


def _is_no_range(node: ast.Compare) -> bool:
    in_range = all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
    return len(node.ops) > 1 and not in_range


def _is_condition(node: ast.AST) -> bool:
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool"
    return negated or called or isinstance(node, ast.Compare | ast.BoolOp)


def _is_unlike(node: ast.Assign) -> bool:
    """Tell whether one statement binds several names to expressions of different forms."""
    target = node.targets[0]
    value = node.value
    if not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)):
        return False
    return len({_form(part) for part in value.elts}) > 1


def _form(node: ast.AST) -> str:
    """Return what kind of expression this is: names and constants are one kind."""
    return "atom" if isinstance(node, ast.Name | ast.Constant) else type(node).__name__


TRICKS = ("is_compiling", "is_dynamo_compiling", "as_strided", "Function", "autograd", "jit")


def tricks(path: Path) -> list[str]:
    """Return what a file to copy uses that plain operations of torch do without."""
    nodes = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Attribute)]
    private = [
        n.attr for n in nodes if n.attr.startswith("_") and isinstance(n.value, ast.Name) and n.value.id == "torch"
    ]
    return sorted({*private, *(n.attr for n in nodes if n.attr in TRICKS)})


def bound_names(tree: ast.AST) -> list[str]:
    """Return the names of variables and parameters, as often as they are bound."""
    variables = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return variables + [n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)]


def filler_names(paths: list[Path]) -> tuple[list[str], float]:
    """Return the bound names that consist of filler, or contain it, and their share of all."""
    names = [name for path in paths for name in bound_names(ast.parse(path.read_text(encoding="utf-8")))]
    filler = [name for name in names if FILLER & {*name.split("_")}]
    return filler, len(filler) / max(1, len(names))


def untyped(path: Path) -> list[str]:
    """Return the public functions and methods of a file that have a parameter, or a result, without a type."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or (node.name.startswith("_") and node.name != "__init__"):
            continue
        parameters = [a for a in (*node.args.args, *node.args.kwonlyargs) if a.arg not in ("self", "cls")]
        bare = [a.arg for a in parameters if a.annotation is None]
        if node.returns is None and node.name != "__init__":
            bare.append("its result")
        if bare:
            functions.append(f"{node.name}: {', '.join(bare)}")
    return functions
