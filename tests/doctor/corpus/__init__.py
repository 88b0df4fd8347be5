"""The world's code: public implementations of positional encodings, and each with bugs planted, to judge the doctor by.

None of it lies here. A package is fetched from PyPI into a folder of its own; an implementation names what a user would
hand to the doctor; a bug is a change of a few characters to the source as it was fetched.
"""

from typing import Any, NamedTuple


class Package(NamedTuple):
    """A release on PyPI: its repository if it names one, its licence, and what its modules need to be imported."""

    name: str
    version: str
    licence: str
    url: str
    needs: tuple[str, ...] = ()
    """Names of other packages of this folder that go on the path too."""
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
