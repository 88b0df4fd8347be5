"""The book as GitHub shows it, for a branch: Markdown whose figures are files and whose links lead to something.

What only the site can show (pages made of docstrings, addresses with a view) is linked to the site.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from markdown.extensions.toc import slugify

from galley import notebook
from galley.around import notebooks
from galley.around.site import Shown, Site
from galley.cells import SUFFIX
from galley.counts import MARKER
from galley.links import plain_title
from galley.page import CODE_SPAN, COMMENT, HEADING, LINK, Page, blank

DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.M)
SYMBOL = re.compile(r"(?<!\\)\[(?P<label>[^\[\]\n]+)\]\[(?P<name>[\w.]*)\]")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")
PAPER = """\
<style>#{id} {{ background: #fff; color: #1f2328; font-family: "Source Sans 3", system-ui, sans-serif }}
@media (prefers-color-scheme: dark) {{ #{id} {{ background: #0d1117; color: #e6edf3 }} }}</style>"""
PIXELS = 96 / 72  # a point


def write(site: Site) -> None:
    """Write the pages, as notebooks too, their figures, the files that they link to, and a list of them all."""
    notebooks.write(site)
    told = {shown.uri: shown for shown in site.pages if is_told(shown)}
    symbols = _symbols(site)
    for shown in told.values():
        for src, svg in figures(shown):
            site.write(src, svg)
        if not shown.uri.endswith(SUFFIX):
            site.write(shown.uri, _Told(shown, site, told, symbols).text())
    site.write("README.md", _contents(site, told))


def is_told(shown: Shown) -> bool:
    """Whether GitHub can show a page: it is no list of docstrings, which the site alone reads."""
    return not DIRECTIVE.search(shown.result.page.text)


def figures(shown: Shown) -> Iterator[tuple[str, str]]:
    """Yield the place and the SVG of each figure that a page draws."""
    by_block = shown.result.by_block
    for block in shown.result.page.blocks:
        drawn = (by_block.get(block.line) or {}).get("figures", []) if block.runs else []
        for figure, svg in zip(block.figures, drawn, strict=False):
            yield _join(shown.uri, figure.src), standing_alone(svg)


def standing_alone(svg: str) -> str:
    """Return a figure of a page as a file: with its size, and with paper, ink and letters of its own, also at night."""
    head, rest = svg.split(">", 1)
    name = re.search(r'\bid="([^"]+)"', head)
    size = re.search(r'\bviewBox="\S+ \S+ ([\d.]+) ([\d.]+)"', head)
    if name is None or size is None:
        return svg
    width, height = (round(float(side) * PIXELS) for side in size.groups())
    return f'{head} width="{width}" height="{height}">{PAPER.format(id=name[1])}{rest}'


class _Told:
    """A page as it is written for GitHub."""

    def __init__(self, shown: Shown, site: Site, told: dict[str, Shown], symbols: dict[str, str]) -> None:
        self.shown, self.site, self.told, self.symbols = shown, site, told, symbols
        self.page: Page = shown.result.page

    def text(self) -> str:
        """Return the page without front matter, under a line that says where else it is."""
        lines = list(self.page.lines)
        for start, end in self._spoken():
            lines[start:end] = self._links("\n".join(lines[start:end])).split("\n")
        for n in self._titles():
            lines[n] = _heading(lines[n])
        for n, text in self.shown.result.built_outputs.items():
            lines[n] = text
        lines = [self.site.book.counts() if MARKER.match(line) else line for line in lines]
        return f"{self._elsewhere()}\n\n" + "\n".join(lines[self.page.meta_lines :]).lstrip("\n")

    def _spoken(self) -> Iterator[tuple[int, int]]:
        """Yield where prose stands, and what blocks print as Markdown."""
        yield from ((start, start + text.count("\n") + 1) for start, text in self.page.prose)
        yield from (b.output_span for b in self.page.blocks if b.output_is_markdown and b.output_span)

    def _titles(self) -> Iterator[int]:
        """Yield the lines of headings; of those that a block prints, the ones with an anchor."""
        yield from (line - 1 for line, *_ in self.page.headings)
        printed = (n for b in self.page.blocks if b.output_is_markdown and b.output_span for n in range(*b.output_span))
        yield from (n for n in printed if (match := HEADING.match(self.page.lines[n])) and match["anchor"])

    def _elsewhere(self) -> str:
        links = [f"[On the site]({self.site.book.site}{self.shown.url}), where its figures move and its links lead on"]
        if notebook.portable(self.shown.result):
            links += [f"[Notebook]({PurePosixPath(self.shown.uri).stem}{SUFFIX})", _colab(self.site, self.shown)]
        return " · ".join(links)

    def _links(self, text: str) -> str:
        bare = blank(COMMENT, blank(CODE_SPAN, text))
        found = [(m.span("target"), self._target(m["target"])) for m in LINK.finditer(bare)]
        found += [(m.span(), self._symbol(text[slice(*m.span("label"))], m["name"])) for m in SYMBOL.finditer(bare)]
        for (start, end), written in sorted(found, reverse=True):
            text = text[:start] + written + text[end:]
        return text

    def _target(self, target: str) -> str:
        """Return where a link leads on the branch, or on the site what the branch does not have."""
        if ELSEWHERE.match(target) or target.startswith("#"):
            return target
        file, *view = re.split(r"(?=[?#])", target, maxsplit=1)
        uri, path = _join(self.shown.uri, file), self.site.book.docs / _join(self.shown.uri, file)
        page = Shown(uri, self.site.results[uri]) if uri in self.site.results else None
        if page and (uri not in self.told or "?" in "".join(view)):
            return f"{self.site.book.site}{page.url}{''.join(view)}"
        if path.is_file() and path.suffix not in (".md", SUFFIX):
            self.site.write(uri, path.read_bytes())
        return target

    def _symbol(self, label: str, name: str) -> str:
        name = name or label.strip("`")
        page = max((begin for begin in self.symbols if f"{name}.".startswith(f"{begin}.")), key=len, default=None)
        return f"[{label}]({self.site.book.site}{self.symbols[page]}#{name})" if page else label


def _heading(line: str) -> str:
    """Return a heading with the anchor that links use, where GitHub would name it otherwise."""
    match = HEADING.match(line)
    if match is None:
        return line
    title = COMMENT.sub("", match["title"])
    anchor = match["anchor"] or slugify(plain_title(title), "-")
    github = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    return f"{match['level']} {match['title']}" + f' <a id="{anchor}"></a>' * (anchor != github)


def _symbols(site: Site) -> dict[str, str]:
    """Return the address of the page of each module that is documented."""
    return {name: shown.url for shown in site.pages for name in DIRECTIVE.findall(shown.result.page.text)}


def _contents(site: Site, told: dict[str, Shown]) -> str:
    """Return the list of all pages."""
    lines = [f"# {site.settings['site_name']}, page by page", "", _about(site), ""]
    above: tuple[str, ...] = ()
    for uri, shown in told.items():
        trail = site.trails.get(uri, ())
        if trail and trail != above:
            lines += ["", f"## {trail[-1]}", ""]
        above = trail
        links = [f"[{shown.title or uri}]({uri})"]
        if notebook.portable(shown.result):
            links += [f"[notebook]({PurePosixPath(uri).with_suffix(SUFFIX)})", _colab(site, shown)]
        lines.append(f"- {' · '.join(links)}")
    return "\n".join(lines) + "\n"


def _about(site: Site) -> str:
    source = site.settings.get("repo_url", "")
    return (
        f"A workflow writes this branch: the pages of <{site.book.site}> with their figures drawn, and as notebooks. "
        f"What it is made of, and what to edit, is on the [main branch]({source})."
    )


def _colab(site: Site, shown: Shown) -> str:
    place = PurePosixPath(shown.uri).with_suffix(SUFFIX)
    address = f"https://colab.research.google.com/github/{site.settings.get('repo_name', '')}/blob/notebooks/{place}"
    return f"[Open in Colab]({address})"


def _join(uri: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(uri), target))
