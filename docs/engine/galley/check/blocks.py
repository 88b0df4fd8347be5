"""What is wrong with a block whatever it prints: its options, the source that it quotes, the script that it names."""

import ast
from pathlib import Path

from galley.read.page import TOLERANCES, Block, Problem

LIVE = "assets/js/figures"  # where the scripts of live figures lie


def check_options(block: Block, root: Path, docs: Path) -> list[Problem]:
    """Return what is wrong with a block before it runs."""
    problems: list[Problem] = []
    if "source" in block.options:
        problems += _source(block, root)
    if "live" in block.options:
        problems += _live(block, docs)
    elif "data" in block.options:
        problems.append(Problem(block.line, "data= is for a live figure; name it with live="))
    # A session holds its results itself, and code that does not run prints nothing.
    if block.output is not None and (block.lang == "pycon" or not block.runs):
        problems.append(Problem(block.line, "nothing compares the output under this block"))
    if block.lang == "pycon" and block.runs and ">>> " not in block.code:
        problems.append(Problem(block.line, "a pycon block without a >>> prompt runs nothing"))
    # Python's doctest compares the results of a session, and it knows no tolerances.
    tolerances = sorted(block.options.keys() & {*TOLERANCES})
    if block.lang == "pycon" and tolerances:
        advice = "a session's results are compared as they stand; print them in a python block, or shorten them by ..."
        problems.append(Problem(block.line, f"{tolerances[0]}= does nothing in a pycon block: {advice}"))
    return problems


def _source(block: Block, root: Path) -> list[Problem]:
    """Return whether a block still reads as the source that it quotes."""
    try:
        current = read_source(root, block.options["source"])
    except (OSError, LookupError, SyntaxError, UnicodeDecodeError) as error:
        return [Problem(block.line, f"source={block.options['source']}: {error}")]
    if current == block.code:
        return []
    return [Problem(block.line, f"{block.options['source']} reads otherwise now; the update command copies it here")]


def _live(block: Block, docs: Path) -> list[Problem]:
    """Return what a live figure lacks: its script, or the one figure that stands there until the script wakes it."""
    problems: list[Problem] = []
    name = block.options["live"]
    if not (docs / LIVE / f"{name}.js").is_file():
        problems.append(Problem(block.line, f"there is no {LIVE}/{name}.js to bring this figure to life"))
    if not block.runs or len(block.figures) != 1:
        problems.append(Problem(block.line, "a live figure needs one still figure, for readers without scripts"))
    return problems


def read_source(root: Path, where: str) -> str:
    """Return the source of `path.py` or of one function or class in it, `path.py:name` or `path.py:Class.method`."""
    path, _, name = where.partition(":")
    text = (root / path).read_text(encoding="utf-8")
    if not name:
        return text.rstrip("\n")
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        children = getattr(node, "body", [])
        definitions = {child.name: child for child in children if isinstance(child, ast.FunctionDef | ast.ClassDef)}
        if part not in definitions:
            raise LookupError(f"there is no {name} in {path}")
        node = definitions[part]
    lines = text.split("\n")[node.lineno - 1 : node.end_lineno]  # type: ignore[attr-defined]
    # A method is quoted at the margin: the indentation of its class goes.
    return "\n".join(line[node.col_offset :] for line in lines)  # type: ignore[attr-defined]
