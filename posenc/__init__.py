"""Positional encodings, one self-contained file each: read it, test it, copy it.

At the top stand the torch class of each encoding and its NumPy twin, such as RoPE and rope, and a
few functions: alibi_slopes, t5_bucket, from_config, plan, doctor and encodings. The rest is
imported from its file, as in `from posenc.attention import attention`; so are the twins whose names
other code uses too: conditional, convolution, fire, forget, grid, learned, music, path, profiles,
window. No name is both a module and a function.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from posenc._names import *  # noqa: F403

DOORS = ("add", "rotate", "bias", "score")


class Encoding(NamedTuple):
    """What the head of an encoding's file says; `module` imports the file."""

    door: str
    name: str
    cls: str
    paper: str
    authors: str
    year: int
    url: str

    @property
    def module(self) -> ModuleType:
        """The module that holds the NumPy function `name` and the torch class `cls`."""
        return import_module(f"posenc.{self.door}.{self.name}")


def encodings() -> dict[str, Encoding]:
    """Return every encoding by its key, such as "add/sinusoidal".

    A file is an encoding if it has a torch class of its own name; the others, such as
    rotate/frequencies, serve one.

    Examples:
        >>> encodings()["rotate/rope"].cls
        'RoPE'
    """
    from posenc._names import (
        HEADS,
    )  # here, so that a page of the book hangs on the table only if it asks for it

    heads = (Encoding(*head) for head in HEADS)
    return {f"{head.door}/{head.name}": head for head in heads if head.cls}


def _import(name: str) -> Any:
    """Return what posenc has under a name, imported now: `import posenc` imports no torch."""
    from posenc._names import MODULES, PLACES
    from posenc._names import __all__ as top

    if name == "__all__":
        return ["encodings", *top]
    if name in top:
        globals()[name] = found = getattr(import_module(PLACES[name]), name)
        return found
    if name in MODULES:
        return import_module(f"posenc.{name}")
    where = f"; it is in {PLACES[name]}" if name in PLACES else ""
    raise AttributeError(f"module 'posenc' has no attribute {name!r}{where}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_import("__all__")})


if not TYPE_CHECKING:  # a type checker that saw it would take every name for one that is there
    __getattr__ = _import
