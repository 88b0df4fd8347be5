"""Show the heads of a module's docstring (Paper:, Used:, Cost:, Key:) on the reference pages as a list of terms.

As they stand, the parser of docstrings takes a head of two lines for a box, and Markdown runs the others together. And
order a package's modules as their papers came: first those with a class, which are encodings, then their helpers.
"""

import re
from typing import Any

from griffe import Extension, Module

# A head: its line, and indented ones with which it goes on.
HEAD = r"^(?:Paper|Used|Cost|Key): +\S.*\n(?: +\S.*\n)*"
HEADS = re.compile(rf"(?:{HEAD}\n*)+", re.M)
YEAR = re.compile(r"^Paper\b\D*(\d{4}).*?(https?://\S+|$)", re.M)


class Heads(Extension):
    """The extension that `mkdocs.yml` names to mkdocstrings."""

    def on_package(self, *, pkg: Module, **kwargs: Any) -> None:
        """Order the modules of each package within `pkg`."""
        for package in pkg.modules.values():
            ordered = sorted(package.modules, key=lambda name: _age(package.modules[name]))
            # Taken out and put back, a member of a dictionary is its last.
            for name in ordered:
                package.members[name] = package.members.pop(name)

    def on_module(self, *, mod: Module, **kwargs: Any) -> None:
        """Rewrite the heads of a module's docstring."""
        if mod.docstring:
            mod.docstring.value = HEADS.sub(_terms, mod.docstring.value + "\n").rstrip()


def _age(module: Module) -> tuple:
    """Return what sorts modules: whether one only helps, its year, and its link, as arXiv counts months."""
    paper = YEAR.search(module.docstring.value) if module.docstring else None
    return not module.classes, paper.groups() if paper else ("", ""), module.name


def _terms(heads: re.Match) -> str:
    """Return a Markdown list of terms; the comment ends it, or the code that follows would belong to its last term."""
    pairs = (" ".join(head.split()).split(": ", 1) for head in re.findall(HEAD, heads[0], re.M))
    return "\n".join(f"{name}\n:   {text}\n" for name, text in pairs) + "\n<!-- -->\n\n"
