"""Set formulas with KaTeX while the site is built, so that a page needs no script and a wrong formula is an error.

Each formula is set once and remembered in one file; the browser only needs KaTeX's stylesheet and fonts.
"""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from galley.run.dependencies import digest
from galley.run.result_cache import load, save

SCRIPT = Path(__file__).parent / "vendor" / "katex.min.js"
MATHML = re.compile(r'<math xmlns="[^"]*"([^>]*)><semantics>(.*?)<annotation [^>]*>[^<]*</annotation></semantics>')
SPAN = re.compile(r'<span(?: class="([^"]*)")?([^>]*)>|</span>')
BARE = re.compile(r"(?:mord|mbin|mrel|mopen|mclose|mpunct|minner|mop)(?: mtight)?")  # KaTeX's own styles name none


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
        self.stamp = digest(*(path.read_text(encoding="utf-8") for path in (SCRIPT, Path(__file__))))
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
        return smaller(answer["html"])


def smaller(html: str) -> str:
    """Return a formula without its TeX, which nothing reads, and without spans that only name a kind of symbol."""
    html = MATHML.sub(_mathml, html)
    around: list[tuple[str, bool]] = []  # the spans that are open: their class, and whether they stay

    def one(match: re.Match) -> str:
        if match[0] == "</span>":
            return match[0] if not around or around.pop()[1] else ""
        row = len(around) > 1 and around[-2][0].startswith("vlist")  # KaTeX's styles count on the spans of a stack
        stays = row or bool(match[2]) or not BARE.fullmatch(match[1] or "")
        around.append((match[1] or "", stays))
        return match[0] if stays else ""

    return SPAN.sub(one, html)


def _mathml(match: re.Match) -> str:
    attributes, inside = match.groups()
    if inside.startswith("<mrow>") and inside.endswith("</mrow>"):
        inside = inside[len("<mrow>") : -len("</mrow>")]  # <math> itself sets a row
    return f"<math{attributes}>{inside}"
