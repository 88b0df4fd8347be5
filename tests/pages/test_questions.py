"""The page of questions: its title counts them, each answer is short, and leads to where it is settled."""

import re
from functools import cache
from pathlib import Path

import pytest

from galley.read.notebook import read
from galley.check.links import anchors
from galley.read.number import read as number

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "questions.md").read_text(encoding="utf-8")
CODE = re.compile(r"```.*?```|<!-- output -->.*?<!-- /output -->|<!--.*?-->", re.S)
MOST = 130  # words of an answer; the last one is the choice itself


def questions(text: str) -> list[tuple[int, str, str]]:
    """Return number, question and answer of each."""
    parts = re.split(r"^### (\d+)\. ", text, flags=re.M)[1:]
    both = (part.partition("\n") for part in parts[1::2])
    return [(int(n), asked, answer) for n, (asked, _, answer) in zip(parts[::2], both, strict=True)]


def lacking(text: str) -> list[str]:
    """Return what a page of questions lacks."""
    found = questions(text)
    numbers = [n for n, _, _ in found]
    wanting = [] if numbers == [*range(1, len(found) + 1)] else ["the numbers do not run from 1"]
    title = re.search(r"^# ([\w-]+)<!-- given --> questions$", text, re.M)
    if not title or number(title[1]).value != len(found):
        wanting.append(f"the title does not count {len(found)} questions")
    if len({asked for _, asked, _ in found}) < len(found):
        wanting.append("one question stands there twice")
    for n, asked, answer in found:
        links = re.findall(r"\]\(([^)#]+\.(?:md|ipynb))(#[^)]+)?\)", answer)
        words = len(re.sub(r"\]\([^)]*\)", "", CODE.sub("", answer)).split())
        lacks = {
            "a question mark": not asked.endswith("?"),
            "an answer": words < 8,
            f"an answer of {MOST} words at most": words > MOST and n < len(found),
            "a link or code": not links and "```python" not in answer,
            "a link that leads somewhere": not all(_leads(*link) for link in links),
        }
        wanting += [f"{n} lacks {what}" for what, is_so in lacks.items() if is_so]
    return wanting


def _leads(page: str, anchor: str) -> bool:
    return (DOCS / page).is_file() and (not anchor or anchor[1:] in _anchors(page))


@cache
def _anchors(page: str) -> set[str]:
    path = DOCS / page
    return anchors(read(path.name, path.read_text(encoding="utf-8")))


def test_each_is_answered_and_leads_to_where_it_is_settled():
    assert lacking(TEXT) == []


def test_there_are_more_than_sixty():
    assert len(questions(TEXT)) >= 66


PLANTED = {
    "a number left out": (r"### 50\. ", "### 51. "),
    "another count": (r"^# [\w-]+<!--", "# Forty<!--"),
    "no question": (r"^(### 60\. .*)\?$", r"\1."),
    "a place that is not there": (r"\(jobs\.md#qk-norm\)", "(jobs.md#qk-form)"),
    "a page that is not there": (r"\(museum/bugs-caches\.md#one-count", "(museum/bug-caches.md#one-count"),
    "no link": (r"(### 34\. .*?\n\n).*?(?=\n### 35)", r"\1Both, and they are equal up to a permutation.\n"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_fault_is_found(fault):
    pattern, becomes = PLANTED[fault]
    text, count = re.subn(pattern, becomes, TEXT, count=1, flags=re.M | re.S if fault == "no link" else re.M)
    assert count == 1
    assert lacking(text)
