"""What all live figures keep to: each is used, each is small, none types a number of the book by hand."""

import gzip
import re
from pathlib import Path

import pytest

from dev import colormaps
from dev.page_form import depth
from galley.book import Book
from galley.read.notebook import read
from tests.scripts.javascript import IMPORT, SCRIPTS, exports

ROOT = Path(__file__).parents[2]
PAGES = {name: read(name, text) for name, text in Book(ROOT).pages().items()}
LIVE = {name: [b.options["live"] for b in page.blocks if "live" in b.options] for name, page in PAGES.items()}
CHAPTERS = [n for n in PAGES if n.startswith("docs/chapters/") and not n.endswith(("index.md", "practice.md"))]
REQUIRED = {
    "drag-words",
    "bits-and-hands",
    "clock-film",
    "rope-dials",
    "stretch-planner",
    "alibi-window",
    "t5-staircase",
    "polar-tuner",
    "mask-painter",
    "capability-matrix",
    "explorer",
}
CHAPTER_LIMIT, PAGE_LIMIT, KIT_LIMIT, EXPLORER_LIMIT = 10_000, 12_000, 13_200, 84_000  # bytes, compressed
OWN_LIMIT = {"docs/reference/read-a-config.md": 28_000}  # its figure has every rule by which posenc.plan reads


LATER = re.compile(r"""await import\("(?P<path>[^"]+)"\)""")  # loaded once the figure stands, most by a click
WAKES = re.compile(r"""import\("\./(page/[\w-]+\.js)"\)""")  # loaded where a page has what they are for
TYPES = SCRIPTS / "explorer/types.js"  # read by the type checker alone


def loaded(path: Path, *later: re.Pattern) -> set[Path]:
    """Return a module and all that it imports."""
    found, text = {path}, path.read_text(encoding="utf-8")
    for match in (match for pattern in (IMPORT, *later) for match in pattern.finditer(text)):
        found |= loaded((path.parent / match["path"]).resolve(), *later)
    return found


def compressed(paths) -> int:
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in paths)


def figure(name: str) -> Path:
    return SCRIPTS / "figures" / f"{name}.js"


START = loaded(SCRIPTS / "kit/element.js") | {SCRIPTS / "figures.js"}  # what every page with a figure loads
FRAME = ("mkdocs.yml", "docs/overrides/main.html")  # name the scripts that every page has
KIT = START | set((SCRIPTS / "kit").glob("*.js"))


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_has_a_live_figure(name):
    """Name a script in the comment above a block that draws, <!-- block: live=NAME data="…" -->."""
    assert LIVE[name], f"{name}: no block has the option live"
    assert "<!-- interactive:" not in PAGES[name].text, f"{name}: an interactive figure is only announced"


def test_the_required_figures_are_there():
    assert REQUIRED - {figure for figures in LIVE.values() for figure in figures} == set()


def test_every_script_is_used():
    used = set().union(KIT, *(loaded(figure(name), LATER) for figures in LIVE.values() for name in figures))
    texts = [page.text for page in PAGES.values()]
    texts += [(ROOT / place).read_text(encoding="utf-8") for place in (*FRAME, "docs/overrides/404.html")]
    # A part of a page names the scripts that wake it; what prints such a part stands in a package.
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "docs/book").rglob("*.py")]
    named = re.findall(r'data-script="([a-z -]+)"|assets/js/([a-z-]+)\.js\b', "\n".join(texts))
    woken = {SCRIPTS / f"{name}.js" for parts, whole in named for name in (parts or whole).split()}
    woken |= {SCRIPTS / path for path in WAKES.findall((SCRIPTS / "figures.js").read_text(encoding="utf-8"))}
    used |= set().union(*(loaded(path, LATER) for path in woken))
    unused = sorted(str(path.relative_to(ROOT)) for path in {*SCRIPTS.rglob("*.js")} - used - {TYPES})
    assert not unused, f"no page wakes {' and '.join(unused)}"


@pytest.mark.parametrize("name", [name for name, figures in LIVE.items() if figures])
def test_what_a_page_loads_for_its_figures_is_small(name):
    """The kit comes once for the whole site, the explorer has a limit of its own, and a closed fold loads nothing."""
    page = PAGES[name]
    first = [b.options["live"] for b in page.blocks if "live" in b.options and b.line < depth(page)]
    for figures, limit in ((first, CHAPTER_LIMIT), (LIVE[name], PAGE_LIMIT)):
        own = [figure(live) for live in figures if live != "explorer"]
        size = compressed(set().union(*map(loaded, own)) - KIT)
        limit = OWN_LIMIT.get(name, limit)
        assert size <= limit, f"{name}: its figures load {size:,} bytes, of {limit:,}"


def test_the_kit_and_the_explorer_are_small():
    assert compressed(KIT) <= KIT_LIMIT
    assert compressed(START | loaded(figure("explorer"))) <= EXPLORER_LIMIT
    assert compressed(loaded(figure("explorer"), LATER) - KIT) <= EXPLORER_LIMIT


def test_the_colormaps_are_those_of_matplotlib():
    assert colormaps.PATH.read_text(encoding="utf-8") == colormaps.module(), "run `make update`"


def test_the_colors_of_lines_are_those_of_the_drawn_figures():
    style = (ROOT / "docs/engine/galley/run/house.mplstyle").read_text(encoding="utf-8")
    css = (ROOT / "docs/assets/css/figures.css").read_text(encoding="utf-8")
    cycle = re.findall(r'"([0-9a-f]{6})"', style[style.index("axes.prop_cycle") :].partition("\n")[0])
    assert re.findall(r"--line-\d: #([0-9a-f]{6})", css) == cycle
    assert re.findall(r"--letters-\d: var\(--ink-([0-9a-f]{6}), #([0-9a-f]{6})\)", css) == [(c, c) for c in cycle]


def test_scripts_import_what_lies_beside_them_and_nothing_else():
    for path in SCRIPTS.rglob("*.js"):
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")  # a name, not an address
        assert all((path.parent / match["path"]).is_file() for p in (IMPORT, LATER) for match in p.finditer(text)), path
        assert not re.search(r"https?://|\beval\(|new Function|innerHTML", text), path


def test_mathematics_knows_no_page():
    for path in (SCRIPTS / "math").glob("*.js"):
        assert not re.search(r"\b(document|window|HTMLElement|canvas)\b", path.read_text(encoding="utf-8")), path


def test_every_function_is_compared():
    """An exported name that no test calls, or reads, has no judge."""
    judged = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    exported = {(path.name, name) for path in (SCRIPTS / "math").glob("*.js") for name in exports(path)}
    assert exported
    assert {(file, name) for file, name in exported if not re.search(rf'\b{name}\(|"{name}"', judged)} == set()


def test_the_pen_for_files_knows_what_the_panels_draw_with():
    paths = [SCRIPTS / "kit/plot.js", SCRIPTS / "kit/heat.js", SCRIPTS / "explorer/raster.js"]
    drawn = "".join(path.read_text(encoding="utf-8") for path in [*paths, *(SCRIPTS / "explorer/panels").glob("*.js")])
    pen = (SCRIPTS / "explorer/vector.js").read_text(encoding="utf-8")
    used = set(re.findall(r"\bctx\.(\w+)\(", drawn))
    assert used - set(re.findall(r"^  (\w+)\(", pen, re.M)) == set()
