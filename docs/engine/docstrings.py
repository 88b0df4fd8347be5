"""Show the heads of a module's docstring (Paper:, Used:, Cost:, Key:) on the reference pages as a list of terms.

As they stand, the parser of docstrings takes a head of two lines for a box, and Markdown runs the others together.
"""

import re
from typing import Any

from griffe import Extension, Module

HEAD = r"^(?:Paper|Used|Cost|Key): +\S.*\n(?: +\S.*\n)*"
HEADS = re.compile(rf"(?:{HEAD}\n*)+", re.M)


class Heads(Extension):
    """The extension that `mkdocs.yml` names to mkdocstrings."""

    def on_module(self, *, mod: Module, **kwargs: Any) -> None:
        """Rewrite the heads of a module's docstring."""
        if mod.docstring:
            mod.docstring.value = HEADS.sub(_terms, mod.docstring.value + "\n").rstrip()


def _terms(heads: re.Match) -> str:
    """Return a Markdown list of terms; the comment ends it, or the code that follows would belong to its last term."""
    said = (" ".join(head.split()).split(": ", 1) for head in re.findall(HEAD, heads[0], re.M))
    return "\n".join(f"{name}\n:   {text}\n" for name, text in said) + "\n<!-- -->\n\n"
