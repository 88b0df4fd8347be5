"""Make the serif of the site, and the measures of the faces that stand in for a font until it is there.

    pip install "fonttools[woff]"
    npm pack @fontsource-variable/source-serif-4@5.3.1 @fontsource/roboto@5.3.0 @fontsource/noto-serif@5.3.0
    python -m dev.fonts FOLDER      FOLDER has these packages, unpacked, and the Liberation fonts

Source Serif 4 is cut to the weights 400 to 700, one optical size and the Latin letters: 65 KB in place of 174. Adobe
reserves the name 'Source', so what is made of it is called Posenc Serif. A face that stands in is a font of the
reader's machine, scaled until the book's own letters are as wide as in the font to come, with lines as high; then
nothing moves when the font arrives. Liberation has the measures of Times New Roman, Arial and Courier New.
"""

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

DOCS = Path(__file__).parents[2]
FONTS = DOCS / "assets/fonts"
LATIN = [*range(0x20, 0x7F), *range(0xA0, 0x100), 0x131, 0x152, 0x153, 0x2BB, 0x2BC, 0x2C6, 0x2DA, 0x2DC, 0x304, 0x308]
LATIN += [0x329, *range(0x2010, 0x2028), *range(0x2030, 0x203B), 0x2044, 0x20AC, 0x2122, *range(0x2190, 0x2194), 0x2212]
FEATURES = ["ccmp", "kern", "liga", "locl", "mark", "mkmk", "pnum", "tnum"]
SERIF = {
    "posenc-serif-latin-normal": ("source-serif-4-latin-opsz-normal", {"opsz": 20, "wght": (400, 700)}),
    "posenc-serif-latin-italic": ("source-serif-4-latin-wght-italic", {"wght": (400, 700)}),
}
STAND_INS = [  # the font to come, its weight, and what stands in for it
    ("posenc-serif-latin-normal", 400, "LiberationSerif-Regular.ttf"),
    ("posenc-serif-latin-normal", 600, "LiberationSerif-Bold.ttf"),
    ("posenc-serif-latin-normal", 400, "noto-serif-latin-400-normal.woff2"),
    ("posenc-serif-latin-normal", 600, "noto-serif-latin-700-normal.woff2"),
    ("source-sans-3-latin-wght-normal", 400, "LiberationSans-Regular.ttf"),
    ("source-sans-3-latin-wght-normal", 600, "LiberationSans-Bold.ttf"),
    ("source-sans-3-latin-wght-normal", 400, "roboto-latin-400-normal.woff2"),
    ("source-sans-3-latin-wght-normal", 600, "roboto-latin-700-normal.woff2"),
    ("source-code-pro-latin-wght-normal", 400, "LiberationMono-Regular.ttf"),
]


def cut(name: str, original: Path, limits: dict) -> None:
    """Write what the site needs of a font, under its own name."""
    font = instancer.instantiateVariableFont(TTFont(original), limits)
    options = subset.Options(layout_features=FEATURES, hinting=False, name_IDs=["*"], notdef_outline=True)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=LATIN)
    cutter.subset(font)
    for record in font["name"].names:
        if record.nameID:  # 0 says whose it is
            record.string = re.sub(r"Source( ?)Serif ?4?", r"Posenc\1Serif", record.toUnicode())
    font.flavor = "woff2"
    font.save(FONTS / f"{name}.woff2")


def widths(path: Path, weight: int) -> tuple[Any, float]:
    """Return a font at a weight, and how wide a letter of the book is in it, in ems."""
    font: Any = TTFont(path)
    if "fvar" in font:
        font = instancer.instantiateVariableFont(font, {"wght": weight})
    glyphs, advances = font.getBestCmap() or {}, font["hmtx"].metrics
    letters = {letter: n for letter, n in text().items() if ord(letter) in glyphs}
    total = sum(advances[glyphs[ord(letter)]][0] * n for letter, n in letters.items())
    return font, total / sum(letters.values()) / em(font)


def em(font: TTFont) -> int:
    """Return how many units of the font are its size."""
    return vars(font["head"])["unitsPerEm"]


def text() -> Counter[str]:
    """Count the letters of the book."""
    pages = (path.read_text(encoding="utf-8") for path in (DOCS / "chapters").rglob("*.md"))
    return Counter(letter for page in pages for letter in re.findall("[A-Za-z ]", page))


def stand_in(coming: Path, weight: int, here: Path) -> str:
    """Return the measures of a face, as a stylesheet has them."""
    font, wide = widths(coming, weight)
    scale = wide / widths(here, weight)[1]
    size = em(font) * scale
    up, down = font["hhea"].ascent / size, -font["hhea"].descent / size
    return f"size-adjust: {scale:.2%}; ascent-override: {up:.2%}; descent-override: {down:.2%}; line-gap-override: 0%;"


def main(folder: Path) -> None:
    """Write the fonts, and print the measures."""
    files = {path.name: path for path in folder.rglob("*") if path.suffix in (".woff2", ".ttf")}
    for name, (original, limits) in SERIF.items():
        cut(name, files[f"{original}.woff2"], limits)
    for coming, weight, here in STAND_INS:
        print(f"{coming} {weight}, {here}:\n  {stand_in(FONTS / f'{coming}.woff2', weight, files[here])}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
