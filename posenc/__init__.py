"""Positional encodings, one self-contained file each: read it, test it, copy it.

The package exports the torch class of each encoding and its NumPy twin, such as RoPE and rope, and
a few functions: alibi_slopes, t5_bucket, from_config, plan, diagnose and encodings. The rest is
imported from its file, as in `from posenc.attention import attention`; so are the twins whose names
other code uses too: conditional, convolution, fire, forget, grid, learned, music, path, profiles,
window. No name is both a module and a function.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from posenc._typing_exports import *  # noqa: F403

DOORS = ("add", "rotate", "bias", "score")
FUNCTIONS = {  # at the top, beside the encodings
    "alibi_slopes": "posenc.bias.alibi",
    "diagnose": "posenc.doctor",
    "from_config": "posenc.models.from_config",
    "plan": "posenc.config.plan",
    "t5_bucket": "posenc.bias.t5",
}
COMMON_WORDS = frozenset(  # twins that stay in their files
    [
        "conditional",
        "convolution",
        "fire",
        "forget",
        "grid",
        "learned",
        "music",
        "path",
        "profiles",
        "window",
    ]
)


class Encoding(NamedTuple):
    """What the docstring of an encoding's file states; `module` imports the file."""

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

    A file is an encoding if it has a torch class of its own name; the other one, frequencies of
    rotate, serves several.

    Examples:
        >>> encodings()["rotate/rope"].cls
        'RoPE'
    """
    from posenc import (
        _index,
    )  # here, so that a page of the book depends on it only if it asks for encodings

    found = {}
    for module in _index.modules():
        _, door, name = module.split(".") if module.count(".") == 2 else ("", "", "")
        cls = _index.encoding_class(module) if door in DOORS else ""
        if cls:
            found[f"{door}/{name}"] = Encoding(door, name, cls, *_index.paper(module))
    return found


def _exported() -> list[str]:
    """Return all names at the top."""
    names = {name for each in encodings().values() for name in (each.cls, each.name)}
    return sorted((names - COMMON_WORDS) | {*FUNCTIONS, "encodings"})


def _import(name: str) -> Any:
    """Return what posenc has under a name, imported now: `import posenc` imports no torch."""
    if name == "__all__":
        return _exported()
    if name.startswith("_"):
        raise AttributeError(f"module 'posenc' has no attribute {name!r}")
    from posenc import _index

    place = FUNCTIONS.get(name) or _place_of_encoding(name)
    if place:
        globals()[name] = value = getattr(import_module(place), name)
        return value
    if name in _index.top_modules():
        return import_module(f"posenc.{name}")
    place = _index.places().get(name)
    remedy = f"; it is in {place}" if place else ""
    raise AttributeError(f"module 'posenc' has no attribute {name!r}{remedy}")


def _place_of_encoding(name: str) -> str:
    """Return the module of an encoding whose class, or whose twin at the top, has this name."""
    from posenc import _index

    for module in _index.named_like(name):
        twin = module.rpartition(".")[2]
        cls = _index.encoding_class(module)
        if module.split(".")[1] in DOORS and (
            name == cls or (cls and name == twin and name not in COMMON_WORDS)
        ):
            return module
    return ""


def __dir__() -> list[str]:
    return sorted({*globals(), *_exported()})


if not TYPE_CHECKING:  # a type checker that saw it would take every name for one that is there
    __getattr__ = _import
