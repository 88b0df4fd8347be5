"""The form of a chapter: an answer, a main line that one reads in ten minutes, and a depth whose sections open."""

import re

import pytest

from dev.page_form import asserting, chapters, depth, main_line
from galley.check.links import anchors
from galley.show import folds as backstage

CHAPTERS = chapters()
CHIPS = "Use it", "See it", "Prove it", "Measure it", "Copy it"
EMPTY = {"Question", "Intuition", "Formula", "Code", "Figure", "Check", "Pitfalls", "Exercises"}
EMPTY |= {"What it changes in a trained model", "Results", "Discussion", "Summary", "Conclusion", "Introduction"}
MOST = {"answer": 60, "words": 900, "code": 60}

over_chapters = pytest.mark.parametrize("name", CHAPTERS)


def titles(page, level):
    return [(line, title) for line, heading_level, title, _ in page.headings if heading_level == level]


@over_chapters
def test_a_chapter_asks_then_answers_at_once(name):
    """Under the title come > **a question?**, **In short.** with the answer in 60 words at most, and the chips."""
    page = CHAPTERS[name]
    parts = [part for part in "\n".join(page.lines[page.meta_lines :]).split("\n\n") if part.strip()]
    assert parts[0].lstrip().startswith("# ")
    assert re.match(r">\s+\*\*.*\?\*\*$", parts[1], re.S), f"{name}: no > **question?** under the title: {parts[1]}"
    assert parts[2].startswith("**In short.** "), f"{name}: no **In short.** under the question"
    assert 0 < main_line(page).answer <= MOST["answer"], f"{name}: the answer has {main_line(page).answer} words"
    labels, targets = zip(*re.findall(r"\[([^\]]+)\]\(#([^)]+)\)", parts[3]), strict=True)
    assert labels == CHIPS, f"{name}: the chips are {labels}"
    assert not {*targets} - anchors(page), f"{name}: chips lead to {sorted({*targets} - anchors(page))}"


@over_chapters
@pytest.mark.parametrize("what", ["words", "code"])
def test_the_main_line_is_short(name, what):
    """Say it in 900 words and 60 lines of open code above ## Depth: what is more goes below, or is folded."""
    length = getattr(main_line(CHAPTERS[name]), what)
    assert length <= MOST[what], f"{name}: {length} of {what} above ## Depth, of {MOST[what]}"


@over_chapters
def test_the_main_line_has_two_pictures_and_one_that_moves(name):
    """Show two figures above ## Depth or more, one of them live."""
    line = main_line(CHAPTERS[name])
    assert line.figures >= 2, f"{name}: {line.figures} figures above ## Depth"
    assert line.live >= 1, f"{name}: no figure above ## Depth is live"


@over_chapters
def test_a_chapter_asks_for_one_bet(name):
    """Ask for one bet above the figure that decides it, in a paragraph that begins with **Bet first.**"""
    bets = CHAPTERS[name].text.count("**Bet first.**")
    above = main_line(CHAPTERS[name]).bets
    assert (bets, above) == (1, 1), f"{name}: {bets} bets, {above} of them above ## Depth"


@over_chapters
def test_headings_say_what_was_found(name):
    """A heading is a finding, such as Distance is all that is left; it stands in contents and in search."""
    empty = {title for _, _, title, _ in CHAPTERS[name].headings} & EMPTY
    assert not empty, f"{name}: headings that say nothing: {', '.join(sorted(empty))}"


@over_chapters
def test_the_depth_comes_last_in_sections_of_its_own(name):
    """After ## Depth come headings ###, each of which opens by itself, and no other ##."""
    page = CHAPTERS[name]
    start = depth(page)
    assert start <= len(page.lines), f"{name} has no heading ## Depth"
    assert not [title for line, title in titles(page, 2) if line > start]
    below = [line for line, title in titles(page, 3) if line > start]
    assert len(below) >= 4, f"{name}: {len(below)} sections ### below ## Depth"
    between = "\n".join(page.lines[start : below[0] - 1]).strip()
    assert not between, f"{name}: this stands open between ## Depth and its first section: {between[:80]}"


@over_chapters
def test_the_depth_has_exercises_with_hints_and_answers(name):
    """Ask four or more, each #### Exercise with <summary>Hint</summary> and an <summary>Answer</summary> that runs."""
    below = "\n".join(CHAPTERS[name].lines[depth(CHAPTERS[name]) :])
    parts = re.split(r"^(?=#{2,4} )", below, flags=re.M)
    exercises = [part for part in parts if part.startswith("#### Exercise ")]
    assert len(exercises) >= 4, f"{name}: {len(exercises)} headings #### Exercise"
    for part in exercises:
        title = part.partition("\n")[0]
        assert "<summary>Hint" in part, f"{name}: {title} has no hint"
        assert "```python" in part.partition("<summary>Answer")[2], f"{name}: {title} has no answer that runs"


@over_chapters
def test_a_chapter_ends_with_something_to_copy(name):
    """Put under ### Copy this, the last section, a block that runs without posenc: <!-- block: standalone -->."""
    page = CHAPTERS[name]
    line, title = titles(page, 3)[-1]
    assert title == "Copy this", f"{name}: its last section is {title}"
    alone = [block for block in page.blocks if "standalone" in block.options and block.line > line]
    assert alone, f"{name}: no block under ### Copy this is standalone"


@over_chapters
def test_open_code_can_be_read(name):
    """Open code takes no name from a fold: import or bind it again, or fold what takes it."""
    hidden = [f"{name}:{line}: {word}" for line, word in backstage.unseen(CHAPTERS[name])]
    assert not hidden, "open code takes names that only a fold binds:\n" + "\n".join(hidden)


@over_chapters
def test_checks_stand_backstage(name):
    """A block that asserts in half of its lines and shows nothing is folded: <!-- block: fold -->."""
    bare = [f"{name}:{block.line}" for block in asserting(CHAPTERS[name])]
    assert not bare, f"these blocks show nothing and mostly assert: {', '.join(bare)}"
