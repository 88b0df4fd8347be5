"""What a page may cost a reader: bytes, requests, elements, and no jump when fonts arrive. No time is measured."""

import gzip
import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

PHONE = {"width": 390, "height": 844}
TEXT = {".html", ".css", ".js", ".json", ".svg", ".xml"}  # what a host compresses
LATE = 0.25  # seconds by which fonts come after the text, as on a slow line
CHAPTER = (470, 35, 13_000)
BUDGETS = {  # KB in all, requests, elements: what there was when this was written, and a fifth
    "": (290, 22, 1_450),
    "gallery/": (330, 20, 10_300),
    "explorer/": (390, 75, 5_000),
    "reference/rotate/": (250, 16, 7_900),
    "workbook/part-3/": (310, 28, 5_900),
    "labs/": (260, 24, 3_150),
    "museum/": (290, 20, 2_600),
    "chapters/3-rope/derivation/": CHAPTER,
    "chapters/1-sinusoidal/sinusoidal/": CHAPTER,
    "chapters/5-pope/phase-bias/": CHAPTER,
    "the heaviest chapter": CHAPTER,
}
ANOTHER_CHAPTER, BESIDE_ANOTHER = "chapters/2-learned/table/", 210  # KB of a chapter, after another one
SHIFT = 0.1  # layout shift, up to which web.dev calls a page good; lines with formulas move when their letters come
SHIFTS = """() => {
  window.shifts = []
  new PerformanceObserver((list) => {
    for (const { value, sources } of list.getEntries())
      window.shifts.push([value, sources.map(({ node }) => node?.textContent.trim().slice(0, 40))])
  }).observe({ type: "layout-shift", buffered: true })
}"""


@dataclass
class Cost:
    """What a page has asked for, and what it has shown."""

    files: dict[str, float]  # KB by address
    requests: int
    elements: int
    shifts: list

    def kilobytes(self, but: "Cost | None" = None) -> float:
        """Return how much the page's files weigh, but for those that another page has brought."""
        return sum(kb for url, kb in self.files.items() if not but or url not in but.files)

    def largest(self) -> str:
        """List the largest files, for one who has to find what is too much."""
        files = sorted(self.files.items(), key=lambda file: -file[1])
        return "\n".join(f"{kb:6.0f} KB {url}" for url, kb in files[:8])


@pytest.fixture(scope="module")
def cost(browser, site, built_site):
    """Return a function that opens a page on the phone of one who was never here, with fonts that come late."""
    costs: dict[str, Cost] = {}

    def of(path: str) -> Cost:
        if path not in costs:
            context = browser.new_context(viewport=PHONE, reduced_motion="reduce")
            page = context.new_page()
            requests: list[str] = []
            page.on("request", lambda request: requests.append(request.url))
            page.route("**/*.woff2", lambda route: (time.sleep(LATE), route.continue_()))
            page.set_default_timeout(120_000)  # a busy machine is no fault of the page
            page.add_init_script(f"({SHIFTS})()")
            page.goto(site + path, wait_until="load")
            page.evaluate("document.fonts.ready")
            page.wait_for_timeout(500)
            elements = page.evaluate("document.querySelectorAll('*').length")
            files = {url: _weight(built_site, url.removeprefix(site)) for url in requests if url.startswith(site)}
            costs[path] = Cost(files, len(requests), elements, page.evaluate("window.shifts"))
            context.close()
        return costs[path]

    return of


def _weight(folder: Path, place: str) -> float:
    """Return how many KB a host sends for a file of the site."""
    file = folder / place.partition("?")[0].partition("#")[0]
    file = file / "index.html" if file.is_dir() else file
    raw = file.read_bytes()
    return len(gzip.compress(raw, 6) if file.suffix in TEXT else raw) / 1000


def _heaviest_chapter(folder: Path) -> str:
    file = max(folder.glob("chapters/*/*/index.html"), key=lambda file: len(gzip.compress(file.read_bytes())))
    return f"{file.parent.relative_to(folder).as_posix()}/"


@pytest.mark.parametrize("path", BUDGETS)
def test_a_page_keeps_to_its_budget(cost, built_site, path):
    page = cost(_heaviest_chapter(built_site) if path == "the heaviest chapter" else path)
    kilobytes, requests, elements = BUDGETS[path]
    assert page.kilobytes() <= kilobytes, page.largest()
    assert page.requests <= requests
    assert page.elements <= elements
    assert sum(value for value, _ in page.shifts) <= SHIFT, page.shifts
    if BUDGETS[path] == CHAPTER:
        assert page.kilobytes(but=cost(ANOTHER_CHAPTER)) <= BESIDE_ANOTHER, page.largest()


@pytest.mark.parametrize("path", ["reference/rotate/", "chapters/3-rope/derivation/"])
def test_no_name_and_no_link_of_a_heading_has_a_tooltip(built_site, path):
    """The theme makes one of each title when a page opens: hundreds of them keep a phone busy."""
    html = (built_site / path / "index.html").read_text(encoding="utf-8")
    assert 'class="headerlink"' in html
    assert not re.search(r'<span title=|<a [^<>]*class="headerlink"[^<>]* title=', html)
