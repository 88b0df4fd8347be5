"""The command line: `check` judges an answer, `run` measures what the pages show, `real` measures your own model."""

import argparse
import math
import sys
from pkgutil import resolve_name
from typing import Any

import numpy as np

import posenc
import posenc_book
from posenc_book import workbook
from posenc_book.real import own_model
from posenc_book.runs import command


def main(argv: list[str] | None = None) -> int:
    """Perform a command and return its exit status; why one cannot be performed is said on stderr, with status 1."""
    parser = argparse.ArgumentParser("python -m posenc_book", description=posenc_book.__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    # Each command's parser binds `perform` to what it does.
    for add_command in (_add_check, command.add_command, own_model.add_command):
        add_command(commands)
    arguments = parser.parse_args(argv)
    try:
        return arguments.perform(arguments)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1


def _add_check(commands: Any) -> None:
    parser = commands.add_parser("check", help="judge an answer")
    parser.add_argument("exercise", help="its number, such as 1.2")
    parser.add_argument("answer", help="a letter, a word, an expression such as '20 * pi', or module:function")
    parser.set_defaults(perform=_check)


def _check(arguments: argparse.Namespace) -> int:
    """Judge an answer; return 0 if it is right, else 1."""
    verdict = workbook.check(arguments.exercise, _read(arguments.answer, workbook.exercise(arguments.exercise).asks))
    print(verdict)
    return 0 if verdict else 1


def _read(answer: str, asks: str) -> Any:
    if asks in ("a letter", "a word"):
        return answer
    wanted, read = ("module:function", _imported) if asks == "a function" else ("an expression in Python", _evaluated)
    try:
        return read(answer)
    except Exception as error:  # an answer may fail in any way
        raise ValueError(f"check: answer must be {wanted}, got {answer}; {error}") from error


def _imported(name: str) -> Any:
    sys.path.insert(0, "")
    return resolve_name(name)


def _evaluated(text: str) -> Any:
    return eval(text, {"np": np, "posenc": posenc, **vars(math)})


if __name__ == "__main__":
    sys.exit(main())
