"""The checker finds the faults that are planted into the book's pages."""

from pathlib import Path

import pytest

from dev import planted_faults
from galley.book import Book
from galley.read.notebook import SUFFIX


@pytest.fixture(scope="module")
def planted():
    return planted_faults.plant(Book(planted_faults.ROOT).pages())


@pytest.mark.slow
def test_at_least_95_of_100_planted_faults_are_found(planted):
    faults, caught = planted_faults.judge(planted)
    assert len(caught) == planted_faults.EACH * len(planted_faults.KINDS)
    assert len(caught) == 150
    assert sum(caught) >= 0.95 * len(caught), planted_faults.table(faults, caught)


def test_a_page_without_a_fault_has_no_problem_under_another_name(planted):
    pages = {name: text for name, text in Book(planted_faults.ROOT).pages().items() if not name.endswith(SUFFIX)}
    aside = {f"{Path(name).with_suffix('')}~.md": text for name, text in pages.items()}
    assert [report for result in Book(planted_faults.ROOT).run(aside).values() for report in result.report] == []


def test_every_fault_changes_its_page(planted):
    pages = Book(planted_faults.ROOT).pages()
    assert [p for p in planted if p.text == pages[p.page] or p.was == p.becomes] == []
