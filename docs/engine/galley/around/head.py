"""What a page's head tells those who have not opened it: cards of social sites, search engines, other forms of it."""

import json
from collections.abc import Iterator
from html import escape

from galley.around import cards, structured
from galley.around.dates import changed
from galley.around.site import Shown, Site


def page(html: str, shown: Shown, site: Site) -> str:
    """Add to a page's head what it is and how it looks from outside."""
    if site.served:
        return html
    tags = [*_social(shown, site), *_data(shown, site)]
    return html.replace("</head>", "\n".join([*tags, "  </head>"]), 1)


def _social(shown: Shown, site: Site) -> Iterator[str]:
    """Yield OpenGraph's tags, which other sites read too; twitter:card alone has no equal there."""
    yield from map(_property, *zip(*_facts(shown, site), strict=True))
    if cards.wanted(site):
        alt = f"{structured.part(shown, site)}: {structured.called(shown)}, over a drawing of {cards.motif(shown).says}"
        yield _property("og:image", site.address + cards.place(shown))
        yield _property("og:image:type", "image/png")
        yield _property("og:image:width", str(cards.SIZE[0]))
        yield _property("og:image:height", str(cards.SIZE[1]))
        yield _property("og:image:alt", alt)
    yield f'<meta name="twitter:card" content="{"summary_large_image" if cards.wanted(site) else "summary"}">'


def _facts(shown: Shown, site: Site) -> Iterator[tuple[str, str]]:
    yield "og:site_name", site.name
    yield "og:type", "article" if shown.url else "website"
    yield "og:title", structured.called(shown)
    yield "og:url", site.address + shown.url
    yield "og:description", shown.description or site.settings.get("site_description", site.name)
    if shown.url and (day := changed(site, shown.result.name)):
        yield "article:modified_time", day.isoformat()


def _property(name: str, content: str) -> str:
    return f'<meta property="{name}" content="{escape(content)}">'


def _data(shown: Shown, site: Site) -> Iterator[str]:
    """Yield what search engines read; in a script, `<` would end it."""
    text = json.dumps(structured.graph(shown, site), ensure_ascii=False).replace("<", "\\u003c")
    yield f'<script type="application/ld+json">{text}</script>'
