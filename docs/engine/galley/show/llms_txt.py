"""Each page as clean Markdown beside it, and llms.txt, which lists them: for programs that read, and for those who ask.

A twin has what a reader sees: outputs and numbers as they were checked, figures in the words of their alt text, links
to the site. Code with the option `fold`, most of which draws, is left out: open code never needs it. Assertions stay,
though the site folds them. What the reference pages read from the package stands there as the files themselves.
"""

import posixpath
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from galley.book import Book
from galley.check.counts import MARKER
from galley.read.page import CODE_SPAN, FENCE, IMAGE, OPTIONS, ticks
from galley.run.content_cache import contents
from galley.run.dependencies import digest
from galley.show.mkdocs_internals import OBJECT
from galley.show.notebook_of_page import prose
from galley.show.site import Site, SitePage, write

NAME = "index.md"
INDEX, WHOLE = "llms.txt", "llms-full.txt"
# Tags that only lay out a page, and the attributes of attr_list behind a link or a heading. In code, both are seen.
TAG = r"</?(?:a|abbr|div|figure|figcaption|i|samp|section|span|sub|sup)\b[^<>]*>"
ATTRIBUTES = r"(?<=[\w)\]`*])[ \t]*\{:?\s*[.#][a-z][^{}\n]*\}"
UNSEEN = re.compile(rf"{CODE_SPAN.pattern}|{TAG}|{ATTRIBUTES}", CODE_SPAN.flags)
SETTINGS = re.compile(r"^(?P<object>::: .+)\n(?:[ \t]+.*\n)*", re.M)  # of an object to document


def write_all(site: Site, folder: Path) -> None:
    """Write each page as Markdown into the folder of the site, and what lists them."""
    texts = {page.uri: _cached(page, site) for page in site.pages}
    for page in site.pages:
        write(folder, page.url + NAME, texts[page.uri])
    write(folder, INDEX, index(site))
    write(folder, WHOLE, "\n\n---\n\n".join(texts.values()))


def _cached(page: SitePage, site: Site) -> str:
    """Return a page's twin, from the cache if the page and what it gave are as they were."""
    quoted = [contents(source, source.rglob("*.py")) for source in site.book.sources if ":::" in page.result.page.text]
    cache = site.book.content_cache
    key = digest("twin", site.book.surroundings, page.uri, page.result.page.source, page.result.outcome_digest, *quoted)
    # The table of counts is made of all pages, which are not in the key.
    counts_all = any(map(MARKER.match, page.result.page.lines))
    text = None if counts_all else cache.get(key)
    if text is None:
        text = twin(page, site)
        cache.put(key, text)
    return text


def twin(site_page: SitePage, site: Site) -> str:
    """Return a page as Markdown for one who has nothing but it."""
    page = site_page.result.page
    address = posixpath.join(site.address, posixpath.dirname(site_page.uri))
    folder = (site.book.docs / site_page.uri).parent
    folded = {n for block in page.blocks if block.runs and "fold" in block.options for n in range(*block.span)}
    built = site_page.result.built_outputs
    texts = (built.get(n, line) for n, line in enumerate(page.lines) if n >= page.meta_lines and n not in folded)
    # A built output has several lines in the place of one.
    visible = "\n".join(texts).split("\n")
    parts = []
    for is_fenced, lines in _runs(visible):
        parts.append("\n".join(lines) if is_fenced else _clean(lines, address, folder, site.book))
    text = "\n\n".join(part.strip("\n") for part in parts if part.strip())
    return f"{text}\n\nFrom {site.name}, <{site.address}{site_page.url}>\n"


def _runs(lines: list[str]) -> Iterator[tuple[bool, list[str]]]:
    """Yield runs of lines: those of a fence as they are, with it, and those between fences."""
    in_fence = []
    close: re.Pattern | None = None
    for line in lines:
        # Within a fence another of fewer ticks is text: only its own mark, alone on a line, closes it.
        fence = None if close else FENCE.match(line)
        in_fence.append(bool(close or fence))
        if fence:
            close = re.compile(rf"^[ \t]*{fence['ticks']}\s*$")
        elif close and close.match(line):
            close = None
    for is_fenced, run in groupby(zip(in_fence, lines, strict=True), key=lambda pair: pair[0]):
        yield is_fenced, [line for _, line in run]


def _clean(lines: list[str], address: str, folder: Path, book: Book) -> str:
    """Return prose of a page in `folder` without marks of the engine and of HTML."""
    shown = [_line(line, book) for line in lines if not OPTIONS.match(line)]
    text = UNSEEN.sub(lambda part: part[0] if part["code"] else "", prose(shown, address, folder))
    text = re.sub(r"<br ?/?>", " ", text)
    # The source comes last: what is taken out of the prose may stand in it as code.
    text = OBJECT.sub(lambda line: _source(line[1], book), SETTINGS.sub(r"\g<object>\n", f"{text}\n"))
    return re.sub(r"\n{3,}", "\n\n", text)


def _line(line: str, book: Book) -> str:
    """Return a line of prose, with counts in place of their mark and words in place of a figure."""
    if MARKER.match(line):
        return book.counts()
    image = IMAGE.match(line)
    return f"*Figure: {image['alt']}.*\n" if image else line


def _source(name: str, book: Book) -> str:
    """Return the files of a module or of a package of the book's sources."""
    inside = Path(*name.split("."))
    roots = (source.parent for source in book.sources if source.name == inside.parts[0])
    paths = [path for root in roots for path in (*root.glob(f"{inside}.py"), *sorted(root.glob(f"{inside}/[!_]*.py")))]
    return "\n\n".join(_quoted(path, book) for path in paths) or f"`{name}`"


def _quoted(path: Path, book: Book) -> str:
    """Return a file as a section with one block of code."""
    text = path.read_text(encoding="utf-8").strip()
    fence = ticks(text)
    return f"## `{path.relative_to(book.root).as_posix()}`\n\n{fence}python\n{text}\n{fence}"


def index(site: Site) -> str:
    """Return llms.txt as llmstxt.org asks for it: the site in a sentence, then a list of links for each part."""
    about = site.settings.get("site_description", site.name)
    source = site.settings.get("repo_url", site.address)
    lines = [f"# {site.name}", "", f"> {about}", ""]
    lines += [f"All pages in one file: <{site.address}{WHOLE}>. The code: <{source}>."]
    # The pages come in the order of the navigation, so that those of a part stand together.
    for part, pages in groupby(site.pages, key=lambda page: " · ".join(site.trails.get(page.uri, ())) or "Pages"):
        lines += ["", f"## {part}", ""]
        lines += [f"- [{page.title}]({site.address}{page.url}{NAME}): {page.description}" for page in pages]
    return "\n".join([*lines, ""])
