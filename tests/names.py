"""`python -m tests.names` writes posenc/_names.py: where each public name is, and what the head of each file says.

The package reads that table alone, never its own sources, so that it runs from a zip file and in a frozen app too.
"""

import ast
import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from pprint import pformat

import posenc

PACKAGE = Path(__file__).parents[1] / "posenc"
PATH = PACKAGE / "_names.py"
AT_THE_TOP = {"alibi_slopes", "doctor", "from_config", "plan", "t5_bucket"}
WORDS = {"conditional", "convolution", "fire", "forget", "grid", "learned", "music", "path", "profiles", "window"}
"""Twins that stay in their files."""
PAPER = re.compile(
    r'^Paper:\s+(?P<authors>.+?),\s+(?P<year>\d{4}),\s+"(?P<title>.+?)",\s+(?P<url>https://\S+?)[,.;]?\s', re.M | re.S
)
TABLE = '''\
"""What `from posenc import` offers, the module of each public name, and what the head of each file says.

Written by `make update`. The imports are for type checkers, editors and programs that freeze an app; they never run.
"""

# fmt: off
# ruff: noqa
from typing import TYPE_CHECKING

if TYPE_CHECKING:
{imports}

__all__ = {top}

MODULES = {modules}

PLACES = {places}

HEADS = [  # of the files of the doors: door, name, class if it is an encoding, paper, authors, year, link
{heads}
]
'''


def files() -> list[Path]:
    """Return the files of the doors, then those beside them."""
    return [path for folder in (*posenc.DOORS, ".") for path in sorted((PACKAGE / folder).glob("[!_]*.py"))]


def public() -> Iterator[tuple[str, str]]:
    """Yield each public function and class with its module; of folders that are no doors, what is on top."""
    for path in files():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, module_name(path)
    for face in PACKAGE.glob("[!_]*/__init__.py"):
        for name in ("doctor", "plan"):
            if f'"{name}"' in face.read_text(encoding="utf-8"):
                yield name, module_name(face)


def module_name(path: Path) -> str:
    """Return the name under which a file of the package is imported."""
    return ".".join(("posenc", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def heads() -> Iterator[posenc.Encoding]:
    """Yield what the head of each file of a door says, without a class where it is no encoding."""
    for path in (path for path in files() if path.parent != PACKAGE):
        source = path.read_text(encoding="utf-8")
        cls = re.search(rf"^class ({path.stem.replace('_', '')})\(nn\.Module\)", source, re.M | re.I)
        said = PAPER.search(source)
        title, authors, year, url = said.group("title", "authors", "year", "url") if said else ("", "", 0, "")
        title, authors = (" ".join(words.split()) for words in (title, authors))
        yield posenc.Encoding(path.parent.name, path.stem, cls[1] if cls else "", title, authors, int(year), url)


def table() -> str:
    """Return posenc/_names.py as the files would have it."""
    places, found = dict(public()), list(heads())
    offered = {name for head in found if head.cls for name in (head.cls, head.name)} - WORDS
    top = {name: places[name] for name in (AT_THE_TOP | offered) & {*places}}
    by_module = groupby(sorted(top.items(), key=itemgetter(1, 0)), itemgetter(1))
    return TABLE.format(
        imports="\n".join(f"    from {module} import {', '.join(dict(named))}" for module, named in by_module),
        top=pformat(sorted(top), width=118, compact=True),
        modules=pformat(modules(), width=118, compact=True),
        places=pformat(places, width=118, sort_dicts=False),
        heads="\n".join(f"    {tuple(head)}," for head in found),
    )


def modules() -> list[str]:
    """Return the folders and files of the package that are imported by name."""
    faces = [face.parent for face in PACKAGE.glob("[!_]*/__init__.py")]
    return sorted(path.stem for path in [*faces, *PACKAGE.glob("[!_]*.py")])


if __name__ == "__main__":
    PATH.write_text(table(), encoding="utf-8")
