"""The words of main lines: the terms that a subject has in papers and configurations, and few images in their place."""

import csv
import re
from pathlib import Path

import pytest

from dev import words
from dev.page_form import DETAILS, depth

PAGES = words.pages()
ROUNDED = 0.05
UNSEEN = re.compile(r"^(`{3,}).*?^\1\s*$|<!--.*?-->|\]\([^)]*\)", re.S | re.M)


def terms():
    """Return the terms of each chapter by the page's name."""
    with Path(__file__).with_name("terms.csv").open(encoding="utf-8", newline="") as file:
        return {row["page"]: row["terms"].split("; ") for row in csv.DictReader(file)}


TERMS = terms()


def page_named(name):
    """Return a page by its part and name."""
    folder = "docs" if name.startswith("start/") else "docs/chapters"
    return next(PAGES[path] for suffix in (".md", ".ipynb") if (path := f"{folder}/{name}{suffix}") in PAGES)


def lacking(text, wanted):
    """Return the terms that a text lacks: in any number and with any capital, where no part of another word."""
    return [term for term in wanted if not re.search(rf"(?<!\w){re.escape(term)}(?:s|es)?(?!\w)", text, re.I)]


def test_each_chapter_has_its_terms():
    chapters = {name.removeprefix("docs/chapters/").rpartition(".")[0] for name in PAGES if "/chapters/" in name}
    assert {name for name in chapters if not name.endswith("/index")} == {n for n in TERMS if n[0].isdigit()}


@pytest.mark.parametrize("name", TERMS)
def test_the_main_line_says_the_terms_of_its_subject(name):
    """What a paper, a config.json or a colleague calls it stands above ## Depth; tests/pages/terms.csv lists it."""
    page = page_named(name)
    text = DETAILS.sub("", "\n".join(page.lines[page.meta_lines : depth(page) - 1]))
    missing = lacking(UNSEEN.sub("", text), TERMS[name])
    assert not missing, f"{name}: its main line lacks {', '.join(missing)}"


@pytest.mark.parametrize("name", TERMS)
def test_the_search_finds_a_page_by_its_terms(name):
    """They stand in its title, its description or its keywords, too."""
    page = page_named(name)
    missing = lacking("\n".join(page.lines[: page.meta_lines]), TERMS[name])
    assert not missing, f"{name}: title, description and keywords lack {', '.join(missing)}"


@pytest.mark.parametrize("name", PAGES)
def test_images_only_get_fewer(name):
    """Of words such as hand, turn, place or toll no main line has more than tests/pages/images.csv allows."""
    rate, most = words.rate(PAGES[name]), words.stored().get(name)
    assert most is not None, f"{name} is new: python -m dev.words --update"
    found = ", ".join(f"{word} {n}" for word, n in words.images(words.main_text(PAGES[name])).most_common())
    assert rate <= most + ROUNDED, f"{name}: {rate:.1f} images in a thousand words, of {most}: {found}"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("each hand turns by its clock", 3),
        ("the toll of a place", 2),
        ("in place of the sum, on this page, by hand", 0),
        ("a rotation of the pair by its frequency", 0),
    ],
)
def test_what_counts_as_an_image(text, count):
    assert words.images(text).total() == count
