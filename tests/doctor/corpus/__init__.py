"""The corpus: public implementations of positional encodings, and each with bugs planted, to judge the doctor by.

It is data, a file a package in docs/assets/data/corpus, and none of the code lies here. A package is fetched from PyPI
into a folder of its own; an implementation names what a user would hand to the doctor; a bug replaces a few characters
of the source as it was fetched.
"""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[3]
RECORDS = ROOT / "docs/assets/data/corpus"


class Package(NamedTuple):
    """A release on PyPI: its repository if it names one, its licence, and what its modules need to be imported."""

    name: str
    version: str
    licence: str
    url: str = ""
    needs: tuple[str, ...] = ()
    """Names of other packages of the corpus that go on the path too."""
    bare: tuple[str, ...] = ()
    """Packages whose own start is skipped: their modules import as they are."""
    stubs: tuple[str, ...] = ()
    """Modules that are not there and not used by what is examined: a mock stands in for each."""


class Bug(NamedTuple):
    """One change of the source: `old`, which occurs once there, becomes `new`."""

    name: str
    old: str
    new: str
    cause: str
    what: str
    unseen: str = ""
    """Why no examination of the code alone can object, where that is so."""


class Implementation(NamedTuple):
    """What a user would hand to the doctor."""

    name: str
    package: str
    module: str
    make: str
    """An expression of the module's own names, which gives the function, class or module to examine."""
    kind: str
    """rotation, table, bias or attention."""
    settings: dict[str, Any] = {}  # noqa: RUF012
    """What the user tells the doctor besides."""
    glue: str = ""
    """A function `wrapped`, in terms of the module's own names, to hand in if `make` is refused."""
    defects: tuple[str, ...] = ()
    """Causes that the code has as it stands."""
    why: str = ""
    """How the defects show, or what is special."""
    bugs: tuple[Bug, ...] = ()
    later: bool = False
    """Whether it was gathered after the doctor was written."""


def read(path: Path) -> tuple[Package, list[Implementation]]:
    """Return the package that a file records, and its implementations in the file's order."""
    record = _with_tuples(tomllib.loads(path.read_text(encoding="utf-8")))
    implementations = record.pop("implementation", ())
    package = Package(**record)
    return package, [_implementation(package, fields) for fields in implementations]


def _implementation(package: Package, record: dict[str, Any]) -> Implementation:
    fields = _with_tuples(record)
    bugs = tuple(Bug(**bug) for bug in fields.pop("bugs", ()))
    return Implementation(package=package.name, bugs=bugs, **fields)


def _with_tuples(record: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}


_READ = [read(path) for path in sorted(RECORDS.glob("*.toml"))]
PACKAGES: dict[str, Package] = {package.name: package for package, _ in _READ}
IMPLEMENTATIONS: list[Implementation] = [implementation for _, contents in _READ for implementation in contents]
