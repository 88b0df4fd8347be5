"""A card for each page, as social sites show it beside a link: part, title, and a drawing of the part's mathematics.

Cards are drawn in the book's own fonts, and remembered by what is on them; a book without those fonts has none.
"""

import base64
import io
import textwrap
from functools import cache
from pathlib import Path
from typing import NamedTuple

from galley.around import structured
from galley.around.site import Shown, Site
from galley.memory import contents
from galley.needs import digest

SIZE = (1200, 630)
BESIDE = (740 / 1200, 150 / 630, 390 / 1200, 390 / 630)  # where the drawing stands
COLORS = 64  # of the palette: enough for smooth lines
PAPER, INK, SOFT, BLUE, ORANGE = "#fdfcf9", "#1f242d", "#565d69", "#1c3a63", "#ad4a0c"
FONTS = {  # by their use: the file, and the place on its axes
    "title": ("posenc-serif-latin-normal.woff2", {"wght": 600}),
    "plain": ("source-sans-3-latin-wght-normal.woff2", {"wght": 400}),
    "strong": ("source-sans-3-latin-wght-normal.woff2", {"wght": 600}),
}
FITS = ((78, 15, 3), (66, 18, 4), (56, 21, 5), (46, 26, 7))  # pixels, letters a line, and lines that have room


class Motif(NamedTuple):
    """A drawing of `motifs` by its name, and what it shows in words."""

    name: str
    says: str


WAVES = Motif("waves", "waves and the clocks that make them")
MOTIFS = {  # by the first parts of a page's address
    "explorer": Motif("table", "the table of the sinusoidal encoding"),
    "gallery": Motif("table", "the table of the sinusoidal encoding"),
    "chapters/2-learned": Motif("likeness", "squares that are largest on a diagonal"),
    "chapters/3-rope": Motif("hands", "clocks with a query's and a key's hand"),
    "chapters/4-biases": Motif("ramps", "the slopes of eight heads"),
    "chapters/5-pope": Motif("polar", "arrows of many lengths at even angles"),
    "chapters/6-guide": Motif("packed", "the mask of three packed texts"),
    "domains": Motif("packed", "the mask of three packed texts"),
    "jobs": Motif("packed", "the mask of three packed texts"),
    "labs": Motif("ramps", "the slopes of eight heads"),
    "museum": Motif("aliases", "two waves that meet at every position"),
    "workbook": Motif("likeness", "squares that are largest on a diagonal"),
    "reference": Motif("hands", "clocks with a query's and a key's hand"),
}


def wanted(site: Site) -> bool:
    """Whether cards are drawn: not for one who writes, and not in a book that has no fonts."""
    return not site.served and _folder(site).is_dir()


def place(shown: Shown) -> str:
    """Return where the card of a page lies."""
    return f"assets/social/{shown.url.strip('/').replace('/', '-') or 'home'}.png"


def motif(shown: Shown) -> Motif:
    """Return the drawing that belongs to a page."""
    return next((found for start, found in MOTIFS.items() if shown.url.startswith(f"{start}/")), WAVES)


def files(site: Site) -> None:
    """Draw the cards, or bring them back from memory."""
    if not wanted(site):
        return
    code = [Path(__file__), Path(__file__).with_name("motifs.py")]
    drawn = digest(contents(code[0].parent, code), contents(_folder(site), _folder(site).glob("*")))
    for shown in site.pages:
        said = (structured.part(shown, site), structured.called(shown), site.name, site.address)
        key = digest("card", drawn, *said, motif(shown).says)
        kept = site.book.memory.get(key)
        if kept is None:
            kept = base64.b64encode(card(site, motif(shown), *said)).decode("ascii")
            site.book.memory.put(key, kept)
        site.write(place(shown), base64.b64decode(kept))


def card(site: Site, drawing: Motif, part: str, title: str, name: str, address: str) -> bytes:
    """Return a card as a PNG of few colors."""
    from matplotlib.figure import Figure

    from galley.around import motifs

    figure = Figure((SIZE[0] / 100, SIZE[1] / 100), dpi=100, facecolor=PAPER)
    page = _axes(figure, (0, 0, 1, 1), (0, SIZE[0]), (SIZE[1], 0))
    fonts = {use: _font(site.book.folder / "fonts", _folder(site) / name, use) for use, (name, _) in FONTS.items()}
    size, lines = _fitted(title)
    if part != name:
        page.text(72, 150, part, size=_points(27), color=ORANGE, font=fonts["strong"])
    for n, line in enumerate(lines):
        page.text(70, 165 + size * (0.95 + 1.12 * n), line, size=_points(size), color=INK, font=fonts["title"])
    page.text(72, 568, address.partition("://")[2].strip("/"), size=_points(24), color=SOFT, font=fonts["plain"])
    page.text(122, 84, name, size=_points(34), color=BLUE, font=fonts["title"])
    page.plot([72, 1128], [522, 522], color="#e2ddd1", lw=1.5)
    motifs.logo(page, 70, 72)
    getattr(motifs, drawing.name)(_axes(figure, BESIDE, (-1.06, 1.06), (-1.06, 1.06)))
    return _squeezed(figure)


def _axes(figure, box, x, y):
    axes = figure.add_axes(box)
    axes.set_xlim(*x)
    axes.set_ylim(*y)
    axes.set_axis_off()
    axes.set_autoscale_on(False)
    return axes


def _fitted(title: str) -> tuple[int, list[str]]:
    """Return the largest size in which a title has room, and its lines."""
    for size, letters, room in FITS:
        lines = textwrap.wrap(title, letters, break_long_words=False)
        if len(lines) <= room and max(map(len, lines), default=0) <= letters:
            return size, lines
    size, letters, room = FITS[-1]
    return size, textwrap.wrap(title, letters, max_lines=room, placeholder=" …")


def _points(pixels: float) -> float:
    return pixels * 0.72


def _squeezed(figure) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.frombytes("RGBA", SIZE, bytes(canvas.buffer_rgba())).convert("RGB")
    few = image.quantize(COLORS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    file = io.BytesIO()
    few.save(file, "PNG", optimize=True)
    return file.getvalue()


def _folder(site: Site) -> Path:
    return site.book.docs / "assets" / "fonts"


@cache
def _font(made: Path, source: Path, use: str):
    """Return a font of the site for Matplotlib, which reads neither its compression nor its axes."""
    from fontTools.ttLib import TTFont
    from fontTools.varLib.instancer import instantiateVariableFont
    from matplotlib.font_manager import FontProperties

    path = made / f"{digest(source.name, use, str(FONTS[use]))[:12]}.ttf"
    if not path.exists():
        font = instantiateVariableFont(TTFont(source), FONTS[use][1])
        font.flavor = None
        made.mkdir(parents=True, exist_ok=True)
        font.save(path)
    return FontProperties(fname=path)
