"""Leave out of a page's HTML what no browser shows: a third of its elements, half the bytes of its pictures.

What a reader sees, copies or hears stays as it is: only spans without a style, names without a reference, and longer
spellings of the same go.
"""

import re

from galley.around import drawings
from galley.around.site import Shown, Site
from galley.memory import common
from galley.store import digest

ARTICLE = re.compile(r"<article\b.*</article>", re.S)
KEPT = re.compile(r"(<(pre|textarea|script|style|svg)\b.*?</\2>)", re.S)
CODE = re.compile(r"(<code\b[^>]*>)(.*?)</code>", re.S)
BLOCK = re.compile(r"<pre>(?:<span></span>)?<code\b([^>]*)>(.*?)</code>", re.S)

# The site's styles give tokens of these kinds the color of the code around them.
UNSTYLED = "n|w|sa|vm|na|nv|vc|vg|vi|py|pm|err|esc|x"
UNSTYLED_TOKEN = re.compile(rf'<span class="(?:{UNSTYLED})">([^<]*)</span>')
# And those of one set look alike, so that neighbors share a span.
ALIKE = [
    re.compile(rf'<span class="({kinds})">([^<]*)</span>(\s*)<span class="(?:{kinds})">')
    for kinds in ("o|p", "s1|s2|si", "k|kn", "mi|mf")
]

MATHML = re.compile(r'<math xmlns="[^"]*"([^>]*)><semantics>(.*?)<annotation [^>]*>[^<]*</annotation></semantics>')
# A name that a pointer is told of: the theme gives each a tooltip of its own, which costs a page of names a second.
TOLD = re.compile(r'<span title="[^"]*">([^<]*)</span>')
PILCROW = re.compile(r'(class="headerlink"[^>]*?) title="')
SPAN = re.compile(r'<span(?: class="([^"]*)")?([^>]*)>|</span>')
BARE = re.compile(r"(?:mord|mbin|mrel|mopen|mclose|mpunct|minner|mop)(?: mtight)?")  # KaTeX's own styles name none


def lighter(html: str, shown: Shown, site: Site) -> str:
    """Return a page that a browser shows the same, sooner."""
    found = None if site.served else ARTICLE.search(html)
    if not found:
        return html
    key = digest("lighter", common(), found[0])
    article = site.book.memory.get(key)
    if article is None:
        article = spaced(formulas(code(named(drawings.smaller(found[0])))))
        site.book.memory.put(key, article)
    article = drawings.beside(article, shown, site)
    return spaced(html[: found.start()]) + article + spaced(html[found.end() :])


def spaced(html: str) -> str:
    """Shorten the white space between lines, where it is not text."""
    parts = KEPT.split(html)
    parts[::3] = [re.sub(r"\s*\n\s*", "\n", part) for part in parts[::3]]
    del parts[2::3]  # the names of the elements that are kept
    return "".join(parts)


def named(html: str) -> str:
    """Give what needs no tooltip its name in another way."""
    return PILCROW.sub(r'\1 aria-label="', TOLD.sub(r"\1", html))


def code(html: str) -> str:
    """Take away the spans of tokens that look like the code around them; say how many lines a block has."""
    html = BLOCK.sub(_block, html)
    return CODE.sub(lambda m: f"{m[1]}{_tokens(m[2])}</code>", html)


def _block(match: re.Match) -> str:
    attributes, text = match.groups()
    lines = max(text.rstrip("\n").count("\n") + 1, 1)
    return f'<pre><code{attributes} style="--lines:{lines}">{text}</code>'


def _tokens(text: str) -> str:
    text = UNSTYLED_TOKEN.sub(r"\1", text)
    for alike in ALIKE:
        joined = 1
        while joined:
            text, joined = alike.subn(r'<span class="\1">\2\3', text)
    return text


def formulas(html: str) -> str:
    """Take away the formulas' TeX, which nothing reads, and spans that only name a kind of symbol."""
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
