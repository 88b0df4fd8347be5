"""Positional encodings, one self-contained file each: read it, test it, copy it."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

DOORS = ("add", "rotate", "bias", "score")
TOOLS = {
    "doctor": "posenc.diagnosis",
    "Report": "posenc.diagnosis.report",
    "Finding": "posenc.diagnosis.report",
    "check": "posenc.workbook",
    "Verdict": "posenc.workbook.verdict",
}

_HERE = Path(__file__).parent
_PAPER = re.compile(
    r'^Paper:\s+(?P<authors>.+?),\s+(?P<year>\d{4}),\s+"(?P<title>.+?)",\s+(?P<url>https://\S+?)[,.;]?\s', re.M | re.S
)


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
    """Return every encoding by its key, such as "add/sinusoidal"; a new file in a door appears by itself.

    A file is an encoding if it has a torch class of its own name; the others, such as rotate/frequencies, serve one.
    """
    found = {}
    for path in _files():
        source = path.read_text(encoding="utf-8")
        cls = re.search(rf"^class ({path.stem.replace('_', '')})\(nn\.Module\)", source, re.M | re.I)
        if cls and path.parent != _HERE:
            door, name, paper = path.parent.name, path.stem, _paper(source)
            found[f"{door}/{name}"] = Encoding(door, name, cls[1], **paper)
    return found


def _paper(source: str) -> dict[str, Any]:
    said = _PAPER.search(source)
    if not said:
        return {"paper": "", "authors": "", "year": 0, "url": ""}
    authors, title = (" ".join(said[part].split()) for part in ("authors", "title"))
    return {"paper": title, "authors": authors, "year": int(said["year"]), "url": said["url"]}


def _files() -> list[Path]:
    return [path for folder in (*DOORS, ".") for path in sorted((_HERE / folder).glob("[!_]*.py"))]


def _modules() -> set[str]:
    """Return the names of the doors and of the files beside them."""
    return {*DOORS, *(path.stem for path in _HERE.glob("[!_]*.py"))}


def _names() -> Iterator[tuple[str, str]]:
    """Yield each public function and class of the package with the module that defines it, importing none."""
    modules = _modules()
    for path in _files():
        module = ".".join(("posenc", *path.relative_to(_HERE).with_suffix("").parts))
        for name in re.findall(r"^(?:class|def) ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.M):
            if name not in modules:  # posenc.attention stays the module; the function is in it
                yield name, module


def __getattr__(name: str) -> Any:
    """Import `from posenc import RoPE` or `posenc.attention` where asked for; `import posenc` does not import torch.

    Editors and type checkers, which run nothing, read the same names in `__init__.pyi`.
    """
    if name == "__all__":
        return sorted({"encodings", *TOOLS, *dict(_names())})
    if name in _modules():
        return import_module(f"posenc.{name}")
    module = None if name.startswith("_") else TOOLS.get(name) or dict(_names()).get(name)
    if module is None:
        raise AttributeError(f"module 'posenc' has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(module), name)  # the files are searched once for each name
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *TOOLS, *dict(_names())})
