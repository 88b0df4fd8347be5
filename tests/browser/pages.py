"""The pages of the site by their paths, and the figures that live on each."""

from pathlib import Path

from galley.book import Book
from galley.read.notebook import SUFFIX, read
from tests.chromium import Visit

ROOT = Path(__file__).parents[2]


def path_of(name: str) -> str:
    """Return where a page of the book lies on the site."""
    inside = name.removeprefix("docs/").removesuffix(".md").removesuffix(SUFFIX)
    return "" if inside == "index" else inside.removesuffix("index").rstrip("/") + "/"


def assert_faultless(faults: list[str], visited: Visit, site: str) -> None:
    """Assert that a page has none of these faults, complains of nothing and asks no other host."""
    faults = faults + [f"it complains: {error}" for error in visited.errors]
    faults += [f"it asks another host: {url}" for url in visited.foreign(site)]
    assert not faults, "\n".join([f"{visited.page.url}:", *faults])


PAGES = {path_of(name): read(name, text) for name, text in Book(ROOT).pages().items()}
LIVE = {path: [b.options["live"] for b in page.blocks if "live" in b.options] for path, page in PAGES.items()}
LIVE = {path: names for path, names in LIVE.items() if names}
ONE_OF_EACH_KIND = {  # the others are visited by .ci/run
    "",
    "start/notation/",
    "questions/",
    "chapters/1-sinusoidal/",
    "chapters/1-sinusoidal/sinusoidal/",
    "chapters/5-pope/phase-bias/",  # a notebook
    "explorer/",
    "museum/",
    "museum/order/",
    "workbook/part-1/",
    "workbook/cards/",
    "gallery/",
    "reference/bias/",
    "reference/speed/",
}
