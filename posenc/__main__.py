"""The command line: `python -m posenc list | show NAME | copy NAME … | doctor MODULE:FUNCTION | check NUMBER …`."""

import argparse
import ast
import importlib
import math
import os
import re
import sys
from difflib import get_close_matches
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import Any

import posenc

HEADER = """\
# Copied from posenc {version}, {file}: https://github.com/posenc/posenc
# SPDX-License-Identifier: MIT. Copyright (c) The posenc developers. Keep these lines.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 0 if it did what it was asked to, else 1 with a line on stderr that says why."""
    asked = _parser().parse_args(arguments)
    try:
        done = asked.run(asked)
        sys.stdout.flush()
        return done
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # `show rope | head` has read enough; what is left would be flushed at the exit, so nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m posenc", description=posenc.__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    commands.add_parser("list", help="every encoding: door, name, class, paper, year").set_defaults(run=_list)
    command = commands.add_parser("show", help="what a file says of itself and what it offers")
    command.add_argument("name", help="a file or anything public in one: rope, RoPE, yarn")
    command.add_argument("--source", action="store_true", help="the whole file instead")
    command.set_defaults(run=_show)
    command = commands.add_parser("copy", help="write files into your project, with what they need, if anything")
    command.add_argument("names", nargs="+", metavar="name", help="files or anything public in them: rope, RoPE, yarn")
    command.add_argument("-o", "--output", type=Path, default=Path(), help="the folder; by default this one")
    command.add_argument("--force", action="store_true", help="overwrite")
    command.set_defaults(run=_copy)
    command = commands.add_parser("doctor", help="check a rotation, a bias, a table or an attention of your own")
    command.add_argument("function", metavar="module:function", help="such as mypackage.model:apply_rotary")
    command.add_argument("--kind", help="rotation, table, bias or attention; by default told from a first call")
    command.add_argument("--dim", type=int, help="the width of a head, or of embeddings; by default what fits")
    command.add_argument("--heads", type=int, help="how many; by default what fits")
    command.add_argument("--order", help="of the axes: bhtd or bthd for heads, btd or tbd for embeddings")
    command.set_defaults(run=_doctor)
    command = commands.add_parser("check", help="judge an answer to an exercise of the workbook")
    command.add_argument("exercise", help="its number, such as 1.2")
    command.add_argument("answer", help="a letter, a word, an expression such as '20 * pi', or module:function")
    command.set_defaults(run=_check)
    return parser


def _list(_: argparse.Namespace) -> int:
    rows = [(e.door, e.name, e.cls, str(e.year), e.paper) for e in posenc.encodings().values()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _show(asked: argparse.Namespace) -> int:
    path = find(asked.name)
    source = path.read_text(encoding="utf-8")
    if asked.source:
        print(source, end="")
        return 0
    tree = ast.parse(source)
    print(f"{path}\n\n{ast.get_docstring(tree)}\n")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            print(_signature(node), f"    {(ast.get_docstring(node) or '').splitlines()[0]}", sep="\n")
    if path.parent.name in ("checkup", "workbook"):
        names = [name for name, module in posenc.TOOLS.items() if module.split(".")[1] == path.parent.name]
        print(f"\nUse it: from posenc import {', '.join(names)}")
    else:
        print(f"\nCopy it: python -m posenc copy {path.stem} -o yourproject/")
    return 0


def _signature(node: ast.FunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.FunctionDef):
        return f"{node.name}({ast.unparse(node.args)})"
    starts = [method for method in node.body if isinstance(method, ast.FunctionDef) and method.name == "__init__"]
    settings = ast.unparse(starts[0].args).removeprefix("self").removeprefix(", ") if starts else ""
    fields = [ast.unparse(field) for field in node.body if isinstance(field, ast.AnnAssign)]  # of a NamedTuple
    return f"class {node.name}({settings or ', '.join(fields)})"


def _copy(asked: argparse.Namespace) -> int:
    files = list(dict.fromkeys(file for name in asked.names for file in _with_needs(name)))
    targets = [asked.output / path.name for path in files]
    taken = [str(target) for target in targets if target.exists()]
    if taken and not asked.force:
        raise ValueError(f"copy: output must be free, got {', '.join(taken)} there already; --force overwrites")
    asked.output.mkdir(parents=True, exist_ok=True)
    for path, target in zip(files, targets, strict=True):
        file = path.relative_to(Path(posenc.__file__).parents[1]).as_posix()
        header = HEADER.format(version=version("posenc"), file=file)
        source = re.sub(r"^from posenc\.?", "from .", path.read_text(encoding="utf-8"), flags=re.M)
        target.write_text(header + source, encoding="utf-8")
        print(target)
    return 0


def _with_needs(name: str) -> list[Path]:
    """Return the file of a name and what it needs: attention its other half, from_config the formulas, others none."""
    path = find(name)
    if path.parent.name in ("checkup", "workbook"):
        reason = "it is a folder of files, and need not be part of your code: install posenc where you check it"
        raise ValueError(f"copy: name must be of a file to copy, got {name}; {reason}")
    needs = re.findall(r"^(?:from posenc| +from \.)(?: import |\.)(\w+)", path.read_text(encoding="utf-8"), re.M)
    return [path, *(path.with_name(f"{need}.py") for need in needs)]


def _doctor(asked: argparse.Namespace) -> int:
    function = _member("doctor: function", asked.function)
    report = posenc.doctor(function, asked.kind, asked.dim, asked.heads, asked.order)
    print(report)
    return 0 if report.healthy else 1


def _member(wanted: str, given: str) -> Any:
    name, _, member = given.partition(":")
    if not name or not member:
        raise ValueError(f"{wanted} must be module:function, got {given}")
    sys.path.insert(0, "")
    try:
        return attrgetter(member)(importlib.import_module(name))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{wanted} must be module:function, got {given}; {error}") from error


def _check(asked: argparse.Namespace) -> int:
    workbook = importlib.import_module("posenc.workbook")
    asks, answer = workbook.exercise(asked.exercise).asks, asked.answer
    if asks == "a function":
        answer = _member("check: answer", answer)
    elif asks not in ("a letter", "a word"):
        answer = _evaluated(answer)
    verdict = workbook.check(asked.exercise, answer)
    print(verdict)
    return 0 if verdict else 1


def _evaluated(text: str) -> Any:
    known = {"np": importlib.import_module("numpy"), "posenc": posenc, **vars(math)}
    try:
        return eval(text, known)
    except Exception as error:  # an answer may fail in any way
        raise ValueError(f"check: answer must be an expression in Python, got {text}; {error}") from error


def find(name: str) -> Path:
    """Return the file called `name`, or the one in which something public called `name` is defined."""
    root = Path(posenc.__file__).parent
    files = {path.stem: path for path in posenc._files()}
    modules = dict(posenc._names()) | posenc.TOOLS
    places = {public: root.parent.joinpath(*module.split(".")).with_suffix(".py") for public, module in modules.items()}
    places |= {"doctor": root / "checkup" / "__init__.py", "check": root / "workbook" / "__init__.py"}
    found = files.get(name) or places.get(name)
    if not found:
        near = ", ".join(get_close_matches(name, [*(files | places)], n=4)) or ", ".join(sorted(files))
        raise ValueError(f"posenc: name must be a file or something public in one, such as {near}, got {name!r}")
    return found


if __name__ == "__main__":
    sys.exit(main())
