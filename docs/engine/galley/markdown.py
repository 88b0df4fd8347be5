"""The Python-Markdown extension: figures, folded code, checked numbers and formulas, for any builder of sites.

It knows a page by its code alone, looks up what the page gave, and changes a few lines before Markdown reads them;
so the same pages build with MkDocs, Zensical and whatever reads Python-Markdown extensions next.
"""

import html
import logging
import posixpath
import re
from functools import cache
from itertools import zip_longest
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor

from galley import backstage, katex, stage
from galley.book import Book, Result
from galley.counts import MARKER, counts, foot
from galley.page import OPENINGS, OPTIONS, REGION_CLOSE, Block, Page, is_caption, parse

log = logging.getLogger("mkdocs.galley")
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>(?P<tail>[.,;:!?)])?',
    re.S,
)
BASE = '<span class="katex-base"'
TEX_WORD = re.compile(r"\\(?:mathrm|text|left|right|quad|,|;|!)|\\[A-Za-z]+|[{}^_ ]")
SHORT = 28  # letters that fit on a phone's line


@cache
def shared_book() -> Book:
    """Return the book of the working folder, one for the hook and for the extension."""
    return Book.find()


class Pages(Preprocessor):
    """Put what a page's code gave where the page shows it."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with figures placed, folds made and bindings turned into marks."""
        text = "\n".join(lines)
        page = parse(text)
        if not page.blocks and not page.numbers and not page.displayed and not any(map(MARKER.match, lines)):
            return lines
        result = shared_book().lookup(text) if page.steps else None
        edited: list[str | None] = list(lines)
        for formula in page.displayed:
            for n in range(*formula.span):
                edited[n] = ">" * lines[n].lstrip().startswith(">")
        self._numbers(page, edited)
        self._markers(page, edited)
        for n, text in (result.built_outputs if result else {}).items():
            edited[n] = text
        for block in page.blocks:
            self._figures(block, result, edited)
            self._fold(block, edited)
        if "mkdocstrings_ids" not in self.md.treeprocessors:  # else the text is a docstring on a page
            edited.append(f"\n{foot(counts(page), self._proof())}\n")
        return [line for part in edited if part is not None for line in part.split("\n")]

    def _numbers(self, page: Page, edited: list[str | None]) -> None:
        for number in sorted(page.numbers, key=lambda n: (n.line, n.start), reverse=True):
            line = edited[number.line - 1]
            if line is None or number.start < 0:
                continue
            why = number.body if number.operator == "=" else f"{number.operator} {number.body}"
            escaped = re.sub(r"[$|_*\[\]`\\]", lambda m: f"&#{ord(m[0])};", html.escape(why))  # else Markdown reads it
            marked = number.written
            if marked and number.operator != "given":
                marked = f'<span class="checked" data-expression="{escaped}">{marked}</span>'
            edited[number.line - 1] = line[: number.start] + marked + line[number.end :]

    def _markers(self, page: Page, edited: list[str | None]) -> None:
        fenced = {n for block in page.blocks for n in range(*block.span)}
        for n, line in enumerate(page.lines):
            if n not in fenced and (OPTIONS.match(line) or line.strip() in (*OPENINGS, REGION_CLOSE)):
                edited[n] = ""
            elif n not in fenced and MARKER.match(line):
                edited[n] = shared_book().counts()

    def _proof(self) -> str:
        """Return a link to the page that says how all is checked, where this page's own place is known."""
        if "relpath" in self.md.treeprocessors:  # of MkDocs
            place = self.md.treeprocessors["relpath"].file.src_uri  # type: ignore[attr-defined]
        elif "rendering_context" in self.md.preprocessors:  # of Zensical
            place = self.md.preprocessors["rendering_context"].page.path  # type: ignore[attr-defined]
        else:
            return ""
        proof = shared_book().proof
        return posixpath.relpath(proof, posixpath.dirname(place) or ".") if proof and place != proof else ""

    def _fold(self, block: Block, edited: list[str | None]) -> None:
        """Fold what stands backstage; below what it has drawn, or printed as Markdown."""
        title = backstage.label(block)
        if not title:
            return
        code = "\n".join(edited[n] or "" for n in range(*block.span))
        opening = f'<details class="fold" markdown="1" data-search-exclude=""><summary>{html.escape(title)}</summary>'
        folded = f"\n{opening}\n\n{code}\n\n</details>\n"
        for n in range(*block.span):
            edited[n] = None
        ends = [block.span[0], *(figure.line - 1 for figure in block.figures)]
        if block.output_is_markdown and block.output_span:
            ends.append(block.output_span[1])
        shown = edited[max(ends)] or ""
        edited[max(ends)] = f"{shown}\n{folded}"

    def _figures(self, block: Block, result: Result | None, edited: list[str | None]) -> None:
        outcome = (result.by_block.get(block.line) if result else None) or {}
        undrawn = "Being drawn" if result is None or result.waits else "Not drawn"
        for drawn, svg in zip_longest(block.figures, outcome.get("figures", [])):
            if drawn is None or not block.runs:
                break
            n = drawn.line
            caption = []
            while n < len(edited) and is_caption(edited[n] or ""):
                caption.append(re.sub(r"^\s*[*_]|[*_]\s*$", "", edited[n] or ""))
                edited[n] = None
                n += 1
            still = self._still(svg, drawn.alt, block, outcome) if svg else self._frame(undrawn, drawn.alt)
            edited[drawn.line - 1] = self._figure(still, " ".join(caption))

    def _figure(self, still: str, caption: str) -> str:
        drawn = self.md.htmlStash.store(still)
        below = f'\n<figcaption markdown="span">{caption}</figcaption>' if caption else ""
        return f'\n<figure class="drawn" markdown="1">\n\n{drawn}\n{below}\n</figure>\n'

    def _frame(self, why: str, alt: str) -> str:
        label = html.escape(" ".join(alt.split()))
        words = f"<strong>{why}</strong><br>{label}"
        return f'<div class="drawn-svg undrawn" role="img" aria-label="{label}" data-search-exclude="">{words}</div>'

    def _still(self, svg: str, alt: str, block: Block, outcome: dict) -> str:
        label = html.escape(" ".join(alt.split()))
        svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
        still = f'<div class="drawn-svg" data-search-exclude="">{svg}</div>'
        if "live" not in block.options:
            return still
        data = outcome.get("data", "null").replace("&", "&amp;").replace("'", "&#39;")  # in quotes that JSON has not
        name = block.options["live"]
        return f"<posenc-figure name='{name}' data='{data}' data-search-exclude=''>{still}</posenc-figure>"


class Formulas(Postprocessor):
    """Set the formulas that arithmatex has marked."""

    def run(self, text: str) -> str:
        """Return the page with KaTeX's HTML in place of TeX."""
        return FORMULA.sub(self._set, text)

    def _set(self, match: re.Match) -> str:
        tex, display = html.unescape(match["tex"]).strip(), match["open"] == "["
        try:
            formula = katex.shared(shared_book().folder).html(tex, display)
        except katex.FormulaError as error:
            log.warning("%s in %s", error, tex)
            formula = f"<code>{html.escape(tex)}</code>"
        if display:
            return f'<div class="formula display" data-search-exclude="">{formula}</div>{match["tail"] or ""}'
        return f'<span class="formula" data-search-exclude="">{_breakable(tex, formula)}{match["tail"] or ""}</span>'


def _breakable(tex: str, formula: str) -> str:
    """Let a long formula break between its parts; the style keeps each other one, and what follows it, on a line."""
    if len(TEX_WORD.sub(".", tex)) <= SHORT:
        return formula
    first, *others = formula.split(BASE)
    return first + BASE + f"<wbr>{BASE}".join(others)


class Words(Treeprocessor):
    """Name short code, so that the style keeps it on a line; mark a term where a section's text first uses it."""

    def run(self, root: Element) -> None:
        """Set classes, and unwrap every later mark of a term: more dots under words are noise."""
        seen: set[str] = set()
        titled = [
            word for level in ("h1", "h2", "h3", "h4") for title in root.iter(level) for word in title.iter("abbr")
        ]
        for element in root.iter():
            if element.tag == "h2":
                seen.clear()
            elif element.tag == "code" and len(element.text or "") <= SHORT:
                element.set("class", "short")
            elif element.tag == "abbr":
                if element.text in seen or element in titled:
                    element.tag, element.attrib = "span", {}
                else:
                    element.set("tabindex", "0")  # the tooltip comes to the keyboard too
                    seen.add(element.text or "")


class Form(Treeprocessor):
    """Set the form of a chapter, once the table of contents has named its headings."""

    def run(self, root: Element) -> None:
        """Mark and fold, as `stage` says."""
        stage.form(root)


class GalleyExtension(Extension):
    """Places figures, outputs, checked numbers and formulas."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register before fences are read, and after everything is put back."""
        md.block_level_elements.append("posenc-figure")
        md.preprocessors.register(Pages(md), "galley", 29)
        md.treeprocessors.register(Words(md), "galley-words", 6)
        md.treeprocessors.register(Form(md), "galley-form", 1)
        md.postprocessors.register(Formulas(md), "galley-formulas", 5)


def makeExtension(**options) -> GalleyExtension:
    """Return the extension, as Python-Markdown asks for it."""
    return GalleyExtension(**options)
