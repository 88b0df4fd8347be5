"""Set formulas with KaTeX while the site is built, so that a page needs no script and a wrong formula is an error.

Each formula is set once and remembered in one file; the browser only needs KaTeX's stylesheet and fonts.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from galley.run.dependencies import digest
from galley.run.result_cache import load, save

SCRIPT = Path(__file__).parent / "vendor" / "katex.min.js"
# KaTeX has no option that leaves out the TeX in <annotation>. Of HTML's <math> the namespace is known without xmlns.
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
        # Only a formula that is new needs the engine: most builds find all of theirs in the file.
        if self.render is None:
            self.render = _renderer()
        answer = json.loads(self.render(tex, display))
        if "error" in answer:
            raise FormulaError(answer["error"])
        return smaller(answer["html"])


def _renderer() -> Callable[[str, bool], str]:
    """Return KaTeX as a function that gives the HTML of a formula, or what is wrong with it, as JSON."""
    import quickjs

    context = quickjs.Context()
    context.eval(SCRIPT.read_text(encoding="utf-8"))
    # An exception of JavaScript would reach Python with its stack in the message; an author needs the message alone.
    # `strict` refuses what LaTeX does not know, of which KaTeX would only warn.
    context.eval("""
        function set(tex, display) {
          try {
            return JSON.stringify({html: katex.renderToString(tex, {displayMode: display, strict: "error"})});
          } catch (error) {
            return JSON.stringify({error: error.message});
          }
        }""")
    return context.get("set")


def smaller(html: str) -> str:
    """Return a formula without its TeX, which nothing reads, and without spans that only name a kind of symbol."""
    html = MATHML.sub(_mathml, html)
    open_spans: list[tuple[str, bool]] = []  # their class, and whether they stay

    def without_bare(tag: re.Match) -> str:
        if tag[0] == "</span>":
            # It stays or goes with the tag that opened its span.
            return tag[0] if not open_spans or open_spans.pop()[1] else ""
        # In a stack, as of a fraction, KaTeX's styles select the spans of each row by their place: >span>span.
        is_in_row = len(open_spans) > 1 and open_spans[-2][0].startswith("vlist")
        stays = is_in_row or bool(tag[2]) or not BARE.fullmatch(tag[1] or "")
        open_spans.append((tag[1] or "", stays))
        return tag[0] if stays else ""

    return SPAN.sub(without_bare, html)


def _mathml(match: re.Match) -> str:
    """Return the MathML of a formula without its TeX and the elements that only group it with the TeX."""
    attributes, inside = match.groups()
    # KaTeX puts a formula in one <mrow>, since <semantics> takes one element; <math> itself sets a row.
    if inside.startswith("<mrow>") and inside.endswith("</mrow>"):
        inside = inside[len("<mrow>") : -len("</mrow>")]
    return f"<math{attributes}>{inside}"
