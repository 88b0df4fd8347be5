"""What a page may cost a reader: bytes, requests, elements, and no jump when fonts arrive. No time is measured."""

import gzip
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

PHONE = {"width": 390, "height": 844}
WHOLE, BESIDE_THE_SHELL, SHIFT = 470, 210, 0.02  # KB of a chapter in all, and after another chapter; layout shift
TEXT = {".html", ".css", ".js", ".json", ".svg", ".xml"}  # what a host compresses
LATE = 0.25  # seconds by which fonts come after the text, as on a slow line
CHAPTERS = ["chapters/3-rope/derivation/", "chapters/1-sinusoidal/sinusoidal/", "chapters/5-pope/phase-bias/"]
BUDGETS = {  # KB in all, requests, elements: what there was when this was written, and a fifth
    "": (270, 20, 1_350),
    "gallery/": (330, 16, 10_300),
    "explorer/": (390, 75, 5_000),
    "reference/rotate/": (250, 16, 7_900),
    "workbook/part-3/": (290, 20, 5_700),
    "labs/": (240, 22, 3_150),
    "museum/": (290, 20, 2_600),
}
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

    files: dict[str, float]  # KB by path
    requests: int
    elements: int
    shifts: list

    @property
    def shift(self) -> float:
        """How much has jumped, in all."""
        return sum(value for value, _ in self.shifts)


@pytest.fixture(scope="module")
def cost(browser, site, built_site):
    """Return a function that opens a page on the phone of one who was never here, with fonts that come late."""
    costs: dict[str, Cost] = {}

    def of(path: str) -> Cost:
        if path not in costs:
            context = browser.new_context(viewport=PHONE, reduced_motion="reduce")
            page, asked = context.new_page(), []
            page.on("request", lambda request: asked.append(request.url))
            page.route("**/*.woff2", lambda route: (time.sleep(LATE), route.continue_()))
            page.set_default_timeout(120_000)  # a busy machine is no fault of the page
            page.add_init_script(f"({SHIFTS})()")
            page.goto(site + path, wait_until="load")
            page.evaluate("document.fonts.ready")
            page.wait_for_timeout(500)
            elements = page.evaluate("document.querySelectorAll('*').length")
            files = {url: _weight(built_site, url.removeprefix(site)) for url in asked if url.startswith(site)}
            costs[path] = Cost(files, len(asked), elements, page.evaluate("window.shifts"))
            context.close()
        return costs[path]

    return of


def _weight(folder: Path, place: str) -> float:
    """Return how many KB a host sends for a file of the site."""
    file = folder / place.partition("?")[0].partition("#")[0]
    file = file / "index.html" if file.is_dir() else file
    raw = file.read_bytes()
    return len(gzip.compress(raw, 6) if file.suffix in TEXT else raw) / 1000


@pytest.fixture(scope="module")
def heaviest(built_site):
    """Return the chapter with the most bytes in its HTML."""
    found = max(built_site.glob("chapters/*/*/index.html"), key=lambda file: len(gzip.compress(file.read_bytes())))
    return f"{found.parent.relative_to(built_site).as_posix()}/"


@pytest.mark.parametrize("path", BUDGETS)
def test_a_page_keeps_to_its_budget(cost, path):
    weight, requests, elements = BUDGETS[path]
    found = cost(path)
    assert sum(found.files.values()) <= weight, _largest(found)
    assert found.requests <= requests
    assert found.elements <= elements
    assert found.shift <= SHIFT, found.shifts


@pytest.mark.parametrize("path", [*CHAPTERS, "the heaviest"])
def test_a_chapter_keeps_to_its_budget(cost, heaviest, path):
    found, shell = cost(heaviest if path == "the heaviest" else path), cost("chapters/2-learned/table/").files
    assert sum(found.files.values()) <= WHOLE, _largest(found)
    assert sum(kb for url, kb in found.files.items() if url not in shell) <= BESIDE_THE_SHELL, _largest(found)
    assert found.requests <= 35
    assert found.elements <= 13_000
    assert found.shift <= SHIFT, found.shifts


def _largest(cost: Cost) -> str:
    """List the largest files of a page, for one who has to find what is too much."""
    files = sorted(cost.files.items(), key=lambda file: -file[1])
    return "\n".join(f"{kb:6.0f} KB {url}" for url, kb in files[:8])
