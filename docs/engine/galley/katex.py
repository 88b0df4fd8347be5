"""Set formulas with KaTeX while the site is built, so that a page needs no script and a wrong formula is an error.

Each formula is set once and remembered in one file; the browser only needs KaTeX's stylesheet and fonts.
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path

from galley.needs import digest
from galley.store import load, save

SCRIPT = Path(__file__).parent / "vendor" / "katex.min.js"


class FormulaError(ValueError):
    """KaTeX cannot read a formula."""


def check(formulas: list[tuple[int, str, bool]], folder: Path) -> Iterator[tuple[int, str]]:
    """Yield line and message of each formula that KaTeX refuses."""
    typesetter = shared(folder)
    for line, tex, display in formulas:
        try:
            typesetter.html(tex, display)
        except FormulaError as error:
            yield line, f"{error} in {tex}"
    typesetter.save()


@functools.cache
def shared(folder: Path) -> "Typesetter":
    """Return the one typesetter of a book."""
    return Typesetter(folder / "formulas.json")


class Typesetter:
    """KaTeX in an embedded JavaScript engine, with a memory on disk."""

    def __init__(self, memory: Path) -> None:
        self.memory, self.changed, self.render = memory, False, None
        self.stamp = digest(SCRIPT.read_text(encoding="utf-8"))
        stored = load(memory)
        self.known: dict[str, str] = stored["formulas"] if stored and stored.get("stamp") == self.stamp else {}

    def html(self, tex: str, display: bool) -> str:
        """Return the HTML and MathML of a formula."""
        key = f"{'display' if display else 'inline'} {tex}"
        if key not in self.known:
            self.known[key] = self._set(tex, display)
            self.changed = True
        return self.known[key]

    def save(self) -> None:
        """Write what was learned, whole or not at all."""
        if self.changed:
            save(self.memory, {"stamp": self.stamp, "formulas": self.known})
            self.changed = False

    def _set(self, tex: str, display: bool) -> str:
        if self.render is None:
            import quickjs

            context = quickjs.Context()
            context.eval(SCRIPT.read_text(encoding="utf-8"))
            context.eval("""
                function set(tex, display) {
                  try {
                    return JSON.stringify({html: katex.renderToString(tex, {displayMode: display, strict: "error"})});
                  } catch (error) {
                    return JSON.stringify({error: error.message});
                  }
                }""")
            self.render = context.get("set")
        answer = json.loads(self.render(tex, display))
        if "error" in answer:
            raise FormulaError(answer["error"])
        return answer["html"]
