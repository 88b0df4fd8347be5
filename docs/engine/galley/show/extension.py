"""The Python-Markdown extension: formulas set by KaTeX, short code kept on a line, terms marked once, a chapter's form.

It knows nothing of what pages gave: `page_markdown` has put that into the Markdown.
"""

import html
import logging
import re
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor
from markdown.treeprocessors import Treeprocessor

from galley.book import shared_book
from galley.check import katex
from galley.show import chapter_layout

log = logging.getLogger("mkdocs.galley")
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>(?P<tail>[.,;:!?)])?',
    re.S,
)
BASE = '<span class="katex-base"'  # a part of a formula behind which a line may break
TEX_WORD = re.compile(r"\\(?:mathrm|text|left|right|quad|,|;|!)|\\[A-Za-z]+|[{}^_ ]")  # each counts as one letter
SHORT = 28  # letters that fit on a phone's line

BLOCK = re.compile(r"<pre>(?:<span></span>)?<code\b([^>]*)>(.*?)</code>", re.S)
HEADING_LINK = re.compile(r'(<a (?:href="[^"]*" )?class="headerlink"[^>]*?) title="')
CODE = re.compile(r"(<code\b[^>]*>)(.*?)</code>", re.S)
# The site's styles give tokens of these kinds the color of the code around them.
UNSTYLED = "n|w|sa|vm|na|nv|vc|vg|vi|py|pm|err|esc|x"
UNSTYLED_TOKEN = re.compile(rf'<span class="(?:{UNSTYLED})">([^<]*)</span>')
# And those of one set look alike, so that neighbors share a span.
ALIKE = [
    re.compile(rf'<span class="({kinds})">([^<]*)</span>(\s*)<span class="(?:{kinds})">')
    for kinds in ("o|p", "s1|s2|si", "k|kn", "mi|mf")
]


class Formulas(Postprocessor):
    """Set the formulas that arithmatex has marked."""

    def run(self, text: str) -> str:
        """Return the page with KaTeX's HTML in place of TeX."""
        return FORMULA.sub(self._set, text)

    def _set(self, match: re.Match) -> str:
        """Return the HTML of one formula; a punctuation mark behind it goes along, so that no line begins with it."""
        tex = html.unescape(match["tex"]).strip()
        display = match["open"] == "["
        try:
            formula = katex.shared(shared_book().folder).html(tex, display)
        except katex.FormulaError as error:
            # The build goes on with the formula as it was written; a strict one fails, since a warning was logged.
            log.warning("%s in %s", error, tex)
            formula = f"<code>{html.escape(tex)}</code>"
        if display:
            return f'<div class="formula display" data-search-exclude="">{formula}</div>{match["tail"] or ""}'
        return f'<span class="formula">{_breakable(tex, formula)}{match["tail"] or ""}</span>'


def _breakable(tex: str, formula: str) -> str:
    """Let a long formula break between its parts; the style keeps each other one, and what follows it, on a line."""
    if len(TEX_WORD.sub(".", tex)) <= SHORT:
        return formula
    first, *others = formula.split(BASE)
    return first + BASE + f"<wbr>{BASE}".join(others)


class CodeTokens(Postprocessor):
    """Take away the spans of tokens that look like the code around them, and say how many lines a block has.

    A third of a page's elements are such tokens.
    """

    def run(self, text: str) -> str:
        """Return the page with fewer elements that looks the same."""
        text = BLOCK.sub(self._block, text)
        return CODE.sub(lambda m: f"{m[1]}{self._tokens(m[2])}</code>", text)

    def _block(self, match: re.Match) -> str:
        attributes, code = match.groups()
        # By the number of its lines the style knows the height of a block before it is drawn.
        lines = code.rstrip("\n").count("\n") + 1
        return f'<pre><code{attributes} style="--lines:{lines}">{code}</code>'

    def _tokens(self, code: str) -> str:
        code = UNSTYLED_TOKEN.sub(r"\1", code)
        for alike in ALIKE:
            # One pass joins pairs, and what it has joined may have a neighbor to join with.
            joined = 1
            while joined:
                code, joined = alike.subn(r'<span class="\1">\2\3', code)
        return code


class Terms(Treeprocessor):
    """Name short code, so that the style keeps it on a line; mark a term where a section's text first uses it."""

    def run(self, root: Element) -> None:
        """Set classes, and unwrap every later mark of a term: more dots under words are noise."""
        marked: set[str] = set()
        headings = [heading for level in ("h1", "h2", "h3", "h4") for heading in root.iter(level)]
        in_headings = [term for heading in headings for term in heading.iter("abbr")]
        for element in root.iter():
            if element.tag == "h2":
                marked.clear()
            elif element.tag == "code" and len(element.text or "") <= SHORT:
                element.set("class", "short")
            elif element.tag != "abbr":
                continue
            elif element.text in marked or element in in_headings:
                element.tag = "span"
                element.attrib = {}
            else:
                # With the keyboard a reader comes only to what can be focused, and so to its tooltip.
                element.set("tabindex", "0")
                marked.add(element.text or "")


class Form(Treeprocessor):
    """Set the form of a chapter, once the table of contents has named its headings."""

    def run(self, root: Element) -> None:
        """Mark and fold, as `chapter_layout` says."""
        chapter_layout.form(root)


class HeadingLinks(Postprocessor):
    """Name the links of headings by what needs no tooltip: the theme makes one of each title, slowly.

    Those of the reference are HTML when they come, and no elements any more.
    """

    def run(self, text: str) -> str:
        """Return the page with labels in place of the titles of these links."""
        return HEADING_LINK.sub(r'\1 aria-label="', text)


class GalleyExtension(Extension):
    """Sets formulas, code, terms and chapters."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register what works on elements and what works on HTML; the larger number of two comes first."""
        # `abbr` marks the terms with 7, and `toc` reads the headings with 5, when the terms in them are plain again.
        md.treeprocessors.register(Terms(md), "galley-terms", 6)
        # After `toc`, which gives headings the links that are moved here.
        md.treeprocessors.register(Form(md), "galley-form", 1)
        # After `raw_html` (30), which puts back what Markdown had set aside, blocks of code among it.
        md.postprocessors.register(Formulas(md), "galley-formulas", 5)
        md.postprocessors.register(CodeTokens(md), "galley-code", 4)
        md.postprocessors.register(HeadingLinks(md), "galley-heading-links", 3)


def makeExtension(**options) -> GalleyExtension:
    """Return the extension, as Python-Markdown asks for it."""
    return GalleyExtension(**options)
