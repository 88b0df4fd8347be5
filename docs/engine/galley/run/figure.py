"""Turn a drawn figure into SVG that is the same at every build, unique on its page and legible on any paper."""

import io
import re
from pathlib import Path

from galley.run.smaller_svg import smaller

HOUSE_STYLE = Path(__file__).with_name("house.mplstyle")
INK = re.compile(r"(<text\b[^>]*\bfill: ?)#([0-9a-f]{6})\b")
# A name that Matplotlib makes of a hash, where it is defined or referred to; some begin with the kind of the shape.
HASHED = re.compile(r"(?<=[\"#])((?:C\w*_)?[a-z]?)[0-9a-f]{10}(?=[\")])")
ATTRIBUTE = re.compile(r' (?:d|x|y|width|height|transform|points|viewBox)="[^"]*"')


def draw(figure, name: str, margins: bool = False) -> str:
    """Return the SVG of a Matplotlib figure; `name` must be unique on the page.

    What is empty around the drawing is cut off, with `margins` only above and below it: a narrow figure is as wide as a
    phone, and so its letters have their size.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    box = _full_width(figure) if margins else "tight"
    # Without a salt Matplotlib draws the names of shapes at random, and a date would differ at every build.
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", bbox_inches=box, metadata={"Date": None, "Creator": None})
    return tidy(buffer.getvalue(), name)


def _full_width(figure):
    """Return the box of a drawing, in inches, at least as wide as its figure."""
    figure.draw_without_rendering()
    box = figure.get_tightbbox().padded(0.1)
    box.x0, box.x1 = min(box.x0, 0), max(box.x1, figure.get_figwidth())
    return box


def tidy(svg: str, name: str) -> str:
    """Return `svg` without what would clash with a page: global styles, repeated ids, sizes, black ink."""
    # What stands before the root is the XML declaration of a file of its own.
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    # Matplotlib names equal images alike, which would repeat an id; nothing refers to them.
    svg = re.sub(r'(<image\b[^>]*?) id="[^"]*"', r"\1", svg)
    svg = _number_hashes(svg)
    # All figures of a page share one space of ids, so that each carries the name of its figure.
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(href="#|url\(#)([^")]+)', rf"\g<1>{name}-\2", svg)
    # Without a size of its own the drawing takes that of its place on the page; the viewBox keeps its form.
    head, rest = svg.split(">", 1)
    head = re.sub(r'\s(?:width|height)="[\d.]+(?:pt|px)?"', "", head)
    # Matplotlib leaves black out, as SVG's default, and black would not be seen on a dark page.
    ink = "" if " fill=" in head else ' fill="currentColor"'
    svg = head.replace("<svg", f'<svg id="{name}"{ink}', 1) + ">" + rest
    # Its style sheet would hold for every drawing of the page.
    svg = svg.replace("*{stroke-linejoin", f"#{name} *{{stroke-linejoin")
    svg = re.sub(r"(stroke|fill): ?#000000\b", r"\1: currentColor", svg)
    # Letters need more contrast than lines: a theme may change their shade.
    svg = INK.sub(r"\1var(--ink-\2, #\2)", svg)
    # The font is the page's.
    svg = re.sub(r"font: (?:(\d+|bold|italic) )?([\d.]+)px [^;\"]+", _font, svg)
    svg = re.sub(r"font-family: [^;\"]+;? ?", "", svg)
    # The last bits of a layout differ from run to run, and no eye sees more than hundredths.
    svg = ATTRIBUTE.sub(lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), svg)
    return smaller(re.sub(r"\s*\n\s*", "\n", svg))


def _number_hashes(svg: str) -> str:
    """Matplotlib names shapes by a hash of their last bits, and those differ from run to run: number them."""
    numbers: dict[str, int] = {}
    return HASHED.sub(lambda m: f"{m[1]}{numbers.setdefault(m[0], len(numbers))}", svg)


def _font(match: re.Match) -> str:
    """Return the size of a font, and its weight or slant, without its family."""
    size = f"font-size: {match[2]}px"
    if match[1] is None:
        return size
    style = "font-style" if match[1] == "italic" else "font-weight"
    return f"{size}; {style}: {match[1]}"
