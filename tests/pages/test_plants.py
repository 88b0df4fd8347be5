"""The checker finds the faults that are planted into the book's pages."""

from pathlib import Path

import pytest

from galley.book import Book
from galley.cells import SUFFIX
from tests.pages import plants


@pytest.fixture(scope="module")
def planted():
    return plants.plant(Book(plants.ROOT).pages())


@pytest.mark.slow
def test_at_least_95_of_100_planted_faults_are_found(planted):
    faults, caught = plants.found(planted)
    assert len(caught) == plants.EACH * len(plants.KINDS) == 150
    assert sum(caught) >= 0.95 * len(caught), plants.table(faults, caught)


def test_a_page_without_a_fault_has_no_problem_under_another_name(planted):
    pages = {name: text for name, text in Book(plants.ROOT).pages().items() if not name.endswith(SUFFIX)}
    aside = {f"{Path(name).with_suffix('')}~.md": text for name, text in pages.items()}
    assert [report for result in Book(plants.ROOT).run(aside).values() for report in result.report] == []


def test_every_fault_changes_its_page(planted):
    pages = Book(plants.ROOT).pages()
    assert [p for p in planted if p.text == pages[p.page] or p.was == p.becomes] == []
