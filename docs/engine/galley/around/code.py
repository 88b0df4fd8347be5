"""Each file that a reader may copy, as `posenc copy` gives it, and on a page that shows it whole.

The page is the builder's own page for what is not found, which has the site's head, menu and search and speaks of no
page: what it says is replaced, and its addresses, which begin at the host, are made relative.
"""

import html
import re
from pathlib import Path
from urllib.parse import urljoin

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from galley.around import copies, early, offers
from galley.around.copies import Copy
from galley.around.site import Site
from posenc.__main__ import HEADER

SHELL = "404.html"
TITLE = re.compile(r"<title>.*?</title>", re.S)
ROOT = re.compile(r'="(/[^":]*?)assets/')  # where all that the shell asks for begins
DESCRIPTION = re.compile(r'<meta\b[^>]*\bname="?description\b[^>]*>')
ARTICLE = re.compile(r"(?<=<article class=\"md-content__inner md-typeset\">).*(?=</article>)", re.S)
LOOK = HtmlFormatter(cssclass="language-python highlight no-copy", wrapcode=True, linespans="line")
HEAD = """<meta name="description" content="{says}">
      <link rel="canonical" href="{address}">"""
BESIDE = 'data-md-component="sidebar"'  # the menu and the contents, which take the room that code needs
SKIPPING = '<a href="#file" class="md-skip">Skip to content</a>'
SKIP = re.compile(r'(?<=<div data-md-component="skip">).*?(?=</div>)', re.S)
PAGE = """
<h1 id="file"><code>posenc/{copy.place}.py</code></h1>
<p>{says}</p>
{offer}
<p>{needs} <code>posenc copy {copy.command_name}</code> writes it into a folder of yours. Each copy begins with
two lines that say where it is from and that its license is MIT.</p>
<p>{links}</p>
{code}
"""


def write(site: Site) -> None:
    """Add the files and their pages."""
    cards = copies.cards(site)
    for copy in copies.copies(site.book.root).values():
        header = HEADER.format(version=site.project["version"], file=f"posenc/{copy.place}.py")
        for place in (copy.raw, copy.text):
            site.write(place, header + copy.source)
        site.write(f"{copy.url}index.html", _page(copy, cards.get(copy.place), site))


def _page(copy: Copy, card: re.Match | None, site: Site) -> str:
    shell, says = (site.folder / SHELL).read_text(encoding="utf-8"), html.escape(copy.says)
    root = _found(ROOT, shell)[1]
    address = urljoin(site.settings["site_url"], root + copy.url)
    content = PAGE.format(
        copy=copy,
        says=says,
        offer=offers.offer(copy, copy.up, whole=True),
        needs=_needs(copy, site.book.root),
        links=_links(copy, card, site.settings["repo_url"]),
        code=highlight(copy.source, PythonLexer(), LOOK),
    )
    title = f"<title>{copy.name}: the whole file - {site.settings['site_name']}</title>"
    head = HEAD.format(says=says, address=address)
    shell = _relative(shell, root, copy.up).replace(BESIDE, f"{BESIDE} hidden")
    for pattern, new in ((TITLE, title), (DESCRIPTION, head), (SKIP, SKIPPING), (ARTICLE, content)):
        place = _found(pattern, shell)
        shell = shell[: place.start()] + new + shell[place.end() :]
    return early.gathered(shell, site)


def _relative(shell: str, root: str, up: str) -> str:
    """Return the shell with its addresses, in attributes and settings, as one finds them from a page."""
    begins = rf'(?P<before>(?:=|new URL\(|: ?)"){re.escape(root.rstrip("/"))}(?P<after>/|(?<=\w)")'
    return re.sub(begins, lambda m: f"{m['before']}{up.rstrip('/')}{m['after']}", shell)


def _found(pattern: re.Pattern, shell: str) -> re.Match:
    if found := pattern.search(shell):
        return found
    raise ValueError(f"{SHELL}: {pattern.pattern} must be in it, to show a file in its place")


def _needs(copy: Copy, root: Path) -> str:
    """Return in a sentence what the file cannot do without."""
    if copy.needs:
        needed = [other for other in copies.copies(root).values() if other.file.stem in copy.needs]
        files = _listed([f'<a href="{copy.up}{other.url}">{other.name}</a>' for other in needed])
        return f"It needs {files} beside it."
    names = {"numpy": "NumPy", "torch": "PyTorch"}
    libraries = _listed([names.get(name, name) for name in copy.libraries])
    return f"It needs {libraries}, nothing else." if libraries else "It needs nothing but Python."


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _links(copy: Copy, card: re.Match | None, repository: str) -> str:
    """Return the links to where else the file is, and is spoken of."""
    links = {f"{copy.up}{copy.reference}": "Reference"}
    if card:
        links = {f"{copy.up}gallery/#{card['card']}": "Gallery"} | links
    if card and card["chapter"]:
        links[copy.up + card["chapter"].removesuffix(".md") + "/"] = "Chapter"
    links[f"{repository}/blob/main/posenc/{copy.place}.py"] = "GitHub"
    return " · ".join(f'<a href="{address}">{name}</a>' for address, name in links.items())
