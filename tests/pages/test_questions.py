"""The page of questions: its title counts them, each answer is short, and leads to where it is settled."""

import re

import pytest

from galley.read.number import read as number
from tests.conftest import ROOT

TEXT = (ROOT / "docs/questions.md").read_text(encoding="utf-8")
CODE = re.compile(r"```.*?```|<!-- output -->.*?<!-- /output -->|<!--.*?-->", re.S)
ANCHOR = re.compile(r"(?<=\?) \{#[\w-]+\}$", re.M)
MOST = 130  # words of an answer; the last one is the choice itself


def questions(text: str) -> list[tuple[int, str, str]]:
    """Return number, question and answer of each."""
    parts = re.split(r"^### (\d+)\. ", ANCHOR.sub("", text), flags=re.M)[1:]
    sections = (part.partition("\n") for part in parts[1::2])
    return [(int(n), question, answer) for n, (question, _, answer) in zip(parts[::2], sections, strict=True)]


def lacking(text: str) -> list[str]:
    """Return what a page of questions lacks."""
    entries = questions(text)
    numbers = [n for n, _, _ in entries]
    wanting = [] if numbers == [*range(1, len(entries) + 1)] else ["the numbers do not run from 1"]
    title = re.search(r"^# ([\w-]+)<!-- given --> questions$", text, re.M)
    if not title or number(title[1]).value != len(entries):
        wanting.append(f"the title does not count {len(entries)} questions")
    if len({question for _, question, _ in entries}) < len(entries):
        wanting.append("one question stands there twice")
    for n, question, answer in entries:
        links = re.findall(r"\]\([^)#]+\.(?:md|ipynb)(?:#[^)]+)?\)", answer)
        length = len(re.sub(r"\]\([^)]*\)", "", CODE.sub("", answer)).split())
        lacks = {
            "a question mark": not question.endswith("?"),
            "an answer": length < 8,
            f"an answer of {MOST} words at most": length > MOST and n < len(entries),
            "a link or code": not links and "```python" not in answer,
        }
        wanting += [f"{n} lacks {what}" for what, is_so in lacks.items() if is_so]
    return wanting


def test_each_is_answered_and_leads_to_where_it_is_settled():
    assert lacking(TEXT) == []


def test_there_are_more_than_sixty():
    assert len(questions(TEXT)) >= 66


PLANTED = {
    "a number left out": (r"### 50\. ", "### 51. "),
    "another count": (r"^# [\w-]+<!--", "# Forty<!--"),
    "no question": (r"^(### 60\. .*)\?$", r"\1."),
    "no link": (r"(### 34\. .*?\n\n).*?(?=\n### 35)", r"\1Both, and they are equal up to a permutation.\n"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_fault_is_found(fault):
    pattern, becomes = PLANTED[fault]
    text, count = re.subn(pattern, becomes, TEXT, count=1, flags=re.M | re.S if fault == "no link" else re.M)
    assert count == 1
    assert lacking(text)
