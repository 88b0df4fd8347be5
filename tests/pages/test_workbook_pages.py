"""Every exercise of the workbook has its place on a page: its heading, a hint, a solution that runs and is judged."""

import re
from collections import Counter
from pathlib import Path

import pytest

from galley.read.page import parse
from posenc_book import workbook
from posenc_book.workbook.functions import Function

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "workbook").glob("part-*.md"))
EXERCISES = workbook.exercises()
SOURCE = {  # the exercises of the source documents, and the part in which each belongs
    "Six numbers, three clocks": 1,
    "A head that sees itself": 4,
    "Train at 2,048, serve at 16,384": 6,
}
GIVEN = {  # what stands for the answer in the call under a question
    "a number": "your_number",
    "a list of numbers": "your_numbers",
    "a letter": '"your letter"',
    "a word": '"your word"',
}
FOLD = re.compile(r'<details markdown="1"><summary>(Hint|Solution)</summary>\n\n(.*?)\n</details>', re.S)

over_pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def sections(page):
    """Return what stands under each exercise's heading, by that heading."""
    text = page.read_text(encoding="utf-8").replace("<!-- given -->", "")
    parts = re.split(r"^### (.*)\n", text, flags=re.M)
    return {head: re.split(r"^## ", body, flags=re.M)[0] for head, body in zip(parts[1::2], parts[2::2], strict=True)}


ON_PAGES = {head: (page, body) for page in PAGES for head, body in sections(page).items()}
over_exercises = pytest.mark.parametrize("head", ON_PAGES, ids=lambda head: head.partition(" ")[0])


def number_of(head: str) -> str:
    return head.partition(" ")[0]


def test_every_table_has_a_page_and_every_page_a_table():
    assert [int(page.stem.removeprefix("part-")) for page in PAGES] == workbook.parts()


def test_the_headings_are_the_exercises_of_the_package_in_its_order():
    assert [*ON_PAGES] == [f"{e.head} {{#exercise-{e.number.replace('.', '-')}}}" for e in EXERCISES.values()]


@over_exercises
def test_an_exercise_asks_then_hints_then_solves(head):
    body = ON_PAGES[head][1]
    assert re.findall(r"<summary>(\w+)</summary>", body) == ["Hint", "Solution"]
    question = body.partition("<details")[0]
    assert len(re.findall(r"[A-Za-z]{2,}", question)) >= 15, "the question has to say all that is needed"
    hint = FOLD.search(body)
    assert hint, "write <details> as the other pages do"
    assert len(hint[2].split()) >= 5


@over_exercises
def test_a_solution_runs_and_is_judged_right(head):
    page, body = ON_PAGES[head]
    solution = body.partition("<summary>Solution</summary>")[2]
    blocks = parse(solution).blocks
    code = "\n".join(block.code for block in blocks if block.runs)
    judged = rf'assert workbook\.check\("{re.escape(number_of(head))}", |assert verdict\b'
    assert re.search(judged, code), f"{page.name}: {number_of(head)} never asserts that its answer is right"
    assert set(re.findall(r'workbook\.check\("([\d.]+)"', code)) == {number_of(head)}, "of another exercise"
    prose = re.sub(r"```.*?```|<!--.*?-->", "", solution, flags=re.S)
    assert len(re.findall(r"[A-Za-z]{2,}", prose)) >= 20, "say why, not only how"


@over_exercises
def test_a_question_ends_with_the_call_that_checks_it(head):
    exercise, question = EXERCISES[number_of(head)], ON_PAGES[head][1].partition("<details")[0]
    given = exercise.call.partition("(")[0] if isinstance(exercise, Function) else GIVEN[exercise.asks]
    assert question.rstrip().endswith(f'\n\n**Check:** `workbook.check("{exercise.number}", {given})`')
    assert question.count("workbook.check") == 1


@over_exercises
def test_a_question_does_not_run_code_that_answers_it(head):
    question = ON_PAGES[head][1].partition("<details")[0]
    assert not [block for block in parse(question).blocks if block.runs]


@over_pages
def test_a_page_shows_what_is_said_to_at_least_three_slips(page):
    outputs = [block.output or "" for block in parse(page.read_text(encoding="utf-8")).blocks]
    verdicts = Counter(line.partition(":")[0] for output in outputs for line in output.split("\n"))
    assert verdicts["Not yet"] >= 3


@over_pages
def test_a_page_has_three_grades_each_under_its_heading(page):
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.M) == ["Easy", "Medium", "Hard"]
    for grade in ("Easy", "Medium", "Hard"):
        under = re.split(r"^## ", text.partition(f"\n## {grade}\n")[2], flags=re.M)[0]
        grades = re.findall(r"^### .* · (\w+) \{", under, re.M)
        assert set(grades) == {grade.lower()}
        assert len(grades) >= 3


def test_the_index_counts_what_there_is():
    index = (ROOT / "docs" / "workbook" / "index.md").read_text(encoding="utf-8")
    counts = Counter(exercise.grade for exercise in EXERCISES.values())
    row = " | ".join(str(n) for n in (len(EXERCISES), counts["easy"], counts["medium"], counts["hard"]))
    assert f"| **Together** | {row} |" in index, "python -m galley --update --only workbook/index.md"


def test_the_exercises_of_the_source_are_there():
    parts = {exercise.title: int(exercise.number.partition(".")[0]) for exercise in EXERCISES.values()}
    assert {title: parts.get(title) for title in SOURCE} == SOURCE


def test_there_are_at_least_sixty_exercises():
    assert len(EXERCISES) >= 60
    assert workbook.parts() == [1, 2, 3, 4, 5, 6]
