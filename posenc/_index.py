"""The index of files and encodings in the package, read from its folders."""

import importlib.util
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module

FOLDERS = ("add", "rotate", "bias", "score", "models")  # of files to read and to copy
FILES = ("attention", "positions")  # such files beside these folders
PAPER = re.compile(
    r'^Paper:\s+(?P<authors>.+?),\s+(?P<year>\d{4}),\s+"(?P<title>.+?)",\s+(?P<url>https://\S+?)[,.;]?\s',
    re.MULTILINE | re.DOTALL,
)
UNPUBLISHED = re.compile(r"^Paper:\s+unpublished, (?P<authors>.+?), (?P<year>\d{4})", re.MULTILINE)
DEFINED = re.compile(r"^(?:def|class) ([A-Za-z]\w*)[(:]", re.MULTILINE)


@cache
def modules() -> tuple[str, ...]:
    """Return the names of the modules that hold what is to be read and copied."""
    found = []
    for folder in FOLDERS:
        place = import_module(f"posenc.{folder}").__path__
        names = sorted(
            name for _, name, _ in pkgutil.iter_modules(place) if not name.startswith("_")
        )
        found += [f"posenc.{folder}.{name}" for name in names]
    return (*found, *(f"posenc.{name}" for name in FILES))


def top_modules() -> list[str]:
    """Return the names of the folders and files that `posenc.` leads to."""
    place = import_module("posenc").__path__
    return sorted(name for _, name, _ in pkgutil.iter_modules(place) if not name.startswith("_"))


@cache
def source(module: str) -> str:
    """Return the text of a module that is not imported; "" where only compiled files are there."""
    spec = importlib.util.find_spec(module)
    loader = spec.loader if spec else None
    return getattr(loader, "get_source", lambda name: None)(module) or ""


def docstring(module: str) -> str:
    """Return the docstring of a module; import it only where there is no source."""
    text = source(module)
    if not text:
        return import_module(module).__doc__ or ""
    return text.split('"""', 2)[1]


def public_names(module: str) -> list[str]:
    """Return the public functions and classes that a module defines."""
    text = source(module)
    if text:
        return DEFINED.findall(text)
    members = vars(import_module(module)).items()
    return [
        name
        for name, value in members
        if getattr(value, "__module__", "") == module and name[0] != "_"
    ]


def encoding_class(module: str) -> str:
    """Return the class that is named like a module's file, as T5 of posenc.bias.t5; else ""."""
    stem = module.rpartition(".")[2].replace("_", "")
    classes = [name for name in public_names(module) if name.lower() == stem and not name.islower()]
    return classes[0] if classes else ""


def definitions() -> list[tuple[str, str]]:
    """Return each public name with the module that defines it."""
    return [(name, module) for module in modules() for name in public_names(module)]


@cache
def places() -> dict[str, str]:
    """Return the module of each public name."""
    return dict(definitions())


def paper(module: str) -> tuple[str, str, int, str]:
    """Return title, authors, year and address of the paper that a module's docstring names.

    What has none says `Paper: unpublished, authors, year`.
    """
    text = docstring(module)
    unpublished = UNPUBLISHED.search(text)
    if unpublished:
        return "unpublished", unpublished["authors"], int(unpublished["year"]), ""
    match = PAPER.search(text)
    if not match:
        return "", "", 0, ""
    title, authors, url = (" ".join(match[name].split()) for name in ("title", "authors", "url"))
    return title, authors, int(match["year"]), url


def named_like(name: str) -> Iterator[str]:
    """Yield the modules whose file is named like `name`, whatever its capitals."""
    stem = name.replace("_", "").lower()
    return (module for module in modules() if module.rpartition(".")[2].replace("_", "") == stem)
