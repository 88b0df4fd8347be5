"""What `make test` leaves out is what CONTRIBUTING.md says it does."""

import re

import pytest

from tests.contract.encoding_inputs import ROOT

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

ENGINE = " ".join(
    f"engine/test_{name}.py" for name in ("aside", "behind", "cells", "command_line", "counts", "faults", "memory")
)
FULL = {
    "every page": "browser/test_every_page.py",
    "screens": "browser/test_chapter_length.py",
    "sheets": "browser/test_chapter_length.py",
    "live figures": "browser/test_figures*.py browser/test_configuration_reader.py",
    "explorer": "browser/test_explorer_page.py",
    "every model type": "config/test_sweep.py",
    "finder": "browser/test_museum_catalogue.py",
    "cards": "browser/test_flash_cards.py",
    "browser": "browser/test_appearance.py browser/test_code_blocks.py browser/test_home_page.py",
    "FlexAttention": "fast/test_flex.py",
    "second build": "pages/test_book.py",
    "wheel": "test_distribution.py",
    "Zensical": "zensical/test_builders.py",
    "type checker": "test_command_line.py",
    "builds of small books": ENGINE,
    "recipes": "dev/test_recipes.py",
}
SLOW = {
    "compile tests": "contract/test_contract.py",
    "8,192 tokens": "test_attention.py",
    "notebooks and second runs": "pages/test_book.py",
    "a row of the labs": "bench/test_labs.py",
    "planted faults": "pages/test_planted_faults.py",
    "mutants": "dev/test_mutants.py",
    "first draft": "dev/test_recipes.py",
    "four packages": "doctor/corpus/test_corpus_verdicts.py",
    "the zip": "browser/test_from_a_disk.py",
}


TESTS = ROOT / "tests"
OF_MARKS = ("test_changed.py", "test_left_out.py", "test_tiers.py")  # they are about the marks
LEFT_OUT = re.search(r"leaves to `make test-full`(.*?)To `make test-all`(.*?) Without make:", " ".join(GUIDE.split()))


def marked(mark: str) -> set[str]:
    """Return the files whose tests `make test` leaves out, all or some."""
    paths = {path for path in TESTS.rglob("test_*.py") if f"pytest.mark.{mark}" in path.read_text(encoding="utf-8")}
    return {path.relative_to(TESTS).as_posix() for path in paths if path.name not in OF_MARKS}


@pytest.mark.parametrize(("mark", "subjects", "text"), [("full", FULL, LEFT_OUT[1]), ("slow", SLOW, LEFT_OUT[2])])
def test_the_guide_says_what_is_left_out(mark, subjects, text):
    """Add what the tests of a marked file are about to the list in CONTRIBUTING.md, and here."""
    assert [subject for subject in subjects if subject not in text] == []
    patterns = " ".join(subjects.values()).split()
    assert marked(mark) == {path.relative_to(TESTS).as_posix() for name in patterns for path in TESTS.glob(name)}
