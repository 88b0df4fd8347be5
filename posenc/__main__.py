"""The command line, `posenc COMMAND`: list, show, copy, read, vectors or doctor."""

import argparse
import ast
import json
import os
import re
import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import posenc
from posenc import _index

HEADER = """\
# Copied from posenc {version}, {file}: https://github.com/posenc/posenc
# SPDX-License-Identifier: MIT. Copyright (c) The posenc developers. Keep these lines.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 0 if it did what it was asked, else 1 with a reason on stderr."""
    asked = _parser().parse_args(arguments)
    try:
        done = asked.run(asked)
        sys.stdout.flush()
        return done
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # `show rope | head` has read enough
        # what is left would be flushed at the exit: it goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("posenc", description=posenc.__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser("list", help="every encoding: kind, name, class, year, paper")
    command.set_defaults(run=_list)

    command = commands.add_parser("show", help="the docstring of a file, its functions and classes")
    command.add_argument("name", help="a file or anything public in one: rope, RoPE, yarn")
    command.add_argument("--source", action="store_true", help="the whole file instead")
    command.set_defaults(run=_show)

    words = "copy files into your project; each runs alone (from_config as two)"
    command = commands.add_parser("copy", help=words)
    words = "files or anything public in them: rope, RoPE, yarn"
    command.add_argument("names", nargs="+", metavar="name", help=words)
    words = "the folder; by default this one"
    command.add_argument("-o", "--output", type=Path, default=Path(), help=words)
    command.add_argument("--force", action="store_true", help="overwrite")
    command.set_defaults(run=_copy)
    _add_reading(commands)
    _add_doctor(commands)
    return parser


def _add_reading(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser("read", help="how position enters each layer, by a config.json")
    words = "a config.json of transformers, or of another format that posenc reads"
    command.add_argument("config", type=Path, help=words)
    words = "tokens of the text, for dynamic and longrope scaling; by default a short one"
    command.add_argument("--length", type=int, help=words)
    words = "what vllm serve --hf-overrides would change in it"
    command.add_argument("--hf-overrides", metavar="JSON", help=words)
    command.add_argument("--json", action="store_true", help="all numbers, as JSON")
    words = "print the rotation as settings for v5, v4 (of transformers), vllm or llama.cpp"
    command.add_argument("--export", metavar="PROGRAM", help=words)
    command.set_defaults(run=_read)
    words = "rotated queries and keys of a model, to test a port against"
    command = commands.add_parser("vectors", help=words)
    command.add_argument("config", type=Path, help="what `read` takes")
    words = "a file of JSON to write; by default it is printed"
    command.add_argument("-o", "--output", type=Path, help=words)
    command.add_argument("--length", type=int, help="tokens of the text, as in `read`")
    command.set_defaults(run=_vectors)


def _add_doctor(commands: argparse._SubParsersAction) -> None:
    words = "check a rotation, a bias, a table or an attention of your own"
    command = commands.add_parser("doctor", help=words)
    words = "such as mypackage.model:apply_rotary"
    command.add_argument("function", metavar="module:function", help=words)
    words = "rotation, table, bias, attention or model; by default found by a first call"
    command.add_argument("--kind", help=words)
    words = "the width of a head, or of embeddings; by default what fits"
    command.add_argument("--dim", type=int, help=words)
    command.add_argument("--heads", type=int, help="how many; by default what fits")
    words = "of the axes: bhtd or bthd for heads, btd or tbd for embeddings"
    command.add_argument("--order", help=words)
    words = "config.json of the model that a rotation is for: report what differs from it"
    command.add_argument("--config", type=Path, help=words)
    command.add_argument("--layer", type=int, help="of the config; by default any that rotates")
    command.add_argument(
        "--json", action="store_true", help="the report as data, each finding with a stable id"
    )
    command.set_defaults(run=_doctor)


def _list(_: argparse.Namespace) -> int:
    rows = [(e.door, e.name, e.cls, str(e.year), e.paper) for e in posenc.encodings().values()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    return 0


def _show(asked: argparse.Namespace) -> int:
    module = find(asked.name)
    source = _file(module).read_text(encoding="utf-8")
    if asked.source:
        print(source, end="")
        return 0
    tree = ast.parse(source)
    print(f"{_file(module)}\n\n{ast.get_docstring(tree)}\n")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            first, *_ = (ast.get_docstring(node) or "").splitlines()
            print(f"{_signature(node)}\n    {first}")
    copied = f"Copy it: posenc copy {_shortest_name(module)} -o yourproject/"
    inside = next((name for name, place in posenc.FUNCTIONS.items() if place == module), "")
    print(f"\n{f'Use it: from posenc import {inside}' if _is_folder(module) else copied}")
    return 0


def _signature(node: ast.FunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.FunctionDef):
        return f"{node.name}({ast.unparse(node.args)})"
    methods = {method.name: method for method in node.body if isinstance(method, ast.FunctionDef)}
    if "__init__" in methods:
        settings = ast.unparse(methods["__init__"].args).removeprefix("self").removeprefix(", ")
    else:  # a NamedTuple has fields
        fields = [ast.unparse(field) for field in node.body if isinstance(field, ast.AnnAssign)]
        settings = ", ".join(fields)
    return f"class {node.name}({settings})"


def _copy(asked: argparse.Namespace) -> int:
    modules = list(dict.fromkeys(module for name in asked.names for module in _with_needs(name)))
    targets = [asked.output / _file_name(module) for module in modules]
    taken = [str(target) for target in targets if target.exists()]
    if taken and not asked.force:
        raise ValueError(
            f"copy: output must be new, got {', '.join(taken)}, which exists; --force overwrites"
        )
    asked.output.mkdir(parents=True, exist_ok=True)
    for module, target in zip(modules, targets, strict=True):
        header = HEADER.format(version=version("posenc"), file=f"{module.replace('.', '/')}.py")
        target.write_text(header + _file(module).read_text(encoding="utf-8"), encoding="utf-8")
        print(target)
    return 0


def _file_name(module: str) -> str:
    """Return the name of a copy: models_mrope.py where an encoding's file is called mrope.py."""
    name = module.rpartition(".")[2]
    if module.startswith("posenc.models.") and len([*_index.named_like(name)]) > 1:
        return f"models_{name}.py"
    return f"{name}.py"


def _with_needs(name: str) -> list[str]:
    """Return the module of a name and what it imports beside it, as from_config the formulas."""
    module = find(name)
    if _is_folder(module):
        reason = "it is a folder of files: install posenc where you check your code"
        raise ValueError(f"copy: name must be of a file to copy, got {name}; {reason}")
    said = re.findall(
        r"^ +from \. import (\w+(?:, \w+)*)", _file(module).read_text(encoding="utf-8"), re.M
    )
    needs = ", ".join(said).split(", ") if said else []
    return [module, *map(find, needs)]


def _read(asked: argparse.Namespace) -> int:
    config = import_module("posenc.config.plan").loaded(asked.config, asked.hf_overrides)
    if asked.export:
        print(import_module("posenc.config.export").export(config, asked.export))
        return 0
    found = posenc.plan(config, asked.length)
    print(json.dumps(found.to_dict()) if asked.json else found)
    return 0


def _vectors(asked: argparse.Namespace) -> int:
    made = import_module("posenc.config.vectors").vectors(asked.config, asked.length)
    text, count = json.dumps(made), len(made["layers"])
    if asked.output is None:
        print(text)
        return 0
    asked.output.write_text(text, encoding="utf-8")
    print(f"{asked.output}: {count} type{'s' if count > 1 else ''} of layer")
    return 0


def _doctor(asked: argparse.Namespace) -> int:
    """Return 0 for healthy code, 1 where something is wrong, 2 for what could not be examined."""
    sys.path.insert(0, "")
    sizes = asked.kind, asked.dim, asked.heads, asked.order
    try:
        report = posenc.diagnose(asked.function, *sizes, config=asked.config, layer=asked.layer)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(report.to_dict(), indent=1) if asked.json else report)
    return 2 if report.missing else int(not report.healthy)


def find(name: str) -> str:
    """Return the module of the file called `name`, or of the one that defines a public `name`."""
    by_file = _files_by_name()
    places = _index.places() | posenc.FUNCTIONS
    found = by_file.get(name) or places.get(name)
    if not found:
        near = ", ".join(get_close_matches(name, by_file | places, n=4)) or ", ".join(
            sorted(name for name in by_file if "/" not in name)
        )
        raise ValueError(
            f"posenc: name must be a file or a public name in one, such as {near}, got {name!r}"
        )
    return found


def _files_by_name() -> dict[str, str]:
    """Return the module of each file and folder by its name, such as rope, and by folder/name."""
    modules = [*_index.modules(), *posenc.FUNCTIONS.values()]
    by_path = {module.partition(".")[2].replace(".", "/"): module for module in modules}
    by_name: dict[str, str] = {}
    for path, module in by_path.items():
        by_name.setdefault(path.rpartition("/")[2], module)  # an encoding comes before models
    return by_path | by_name


def _shortest_name(module: str) -> str:
    """Return what `copy` and `show` call a module: rope, or models/mrope where mrope is another."""
    return min((name for name, found in _files_by_name().items() if found == module), key=len)


def _is_folder(module: str) -> bool:
    return _file(module).name == "__init__.py"


def _file(module: str) -> Traversable:
    """Return the source of a module, which may lie in a zip file."""
    *folders, name = module.split(".")[1:]
    place = files("posenc").joinpath(*folders)
    return place / name / "__init__.py" if (place / name).is_dir() else place / f"{name}.py"


if __name__ == "__main__":
    sys.exit(main())
