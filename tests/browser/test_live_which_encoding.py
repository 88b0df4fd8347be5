"""The live figure of chapter 6.1: the regret that it names is the regret of the labs."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.browser.live import wake

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
LABS = json.loads((ROOT / "docs/assets/data/labs.json").read_text(encoding="utf-8"))["capability"]
NAMES, QUESTIONS = list(LABS), list(LABS["NoPE"])
FREE = ["NoPE", "sinusoidal", "learned", "RoPE", "RoPE, 2 of 8 pairs", "ALiBi", "PoPE"]


@pytest.fixture
def chooser(site, visit):
    """Return the figure, and what it says."""
    figure, _, said = wake(visit(site + "chapters/6-guide/which-encoding/").page, "regret-chooser")
    return figure, said


def least(asked, length, among=tuple(NAMES)):
    """Return who has the least regret, how much, at which question, and how many have at most a tenth."""
    shares = np.array([[np.mean(LABS[name][q][str(length)]) for q in asked] for name in NAMES])
    behind = (shares.max(axis=0) - shares)[[NAMES.index(name) for name in among]]
    regret = behind.max(axis=1)
    first = regret.argmin()
    return among[first], regret[first], asked[behind[first].argmax()], (regret <= 0.1).sum()


def test_least_regret(chooser):
    figure, said = chooser
    name, by, question, near = least(QUESTIONS, 256)
    assert said() == (
        f"At 256 tokens, asked 5 questions: {name} has the least regret, {by:.2f} at “{question}”. "
        f"Never more than 0.1 behind: {near or 'none'} of the 14."
    )
    figure.get_by_role("button", name="look up").click()
    name, by, question, _ = least([q for q in QUESTIONS if q != "look up"], 256)
    assert f"{name} has the least regret, {by:.2f} at “{question}”." in said()
    assert figure.get_by_role("status").first.inner_text().startswith("No: without “look up”")
    figure.get_by_role("button", name="first token").click()
    name, by, question, near = least(QUESTIONS[:-1], 256)
    assert f"asked 4 questions: {name} has the least regret, {by:.2f} at “{question}”." in said()
    assert said().endswith(f"behind: {near} of the 14.")
    assert figure.get_by_role("status").first.inner_text().startswith("Yes: without “first token” Transformer-XL")
    figure.get_by_role("checkbox", name="writes nothing").check()
    name, by, question, near = least(QUESTIONS[:-1], 256, FREE)
    assert f"{name} has the least regret, {by:.2f} at “{question}”." in said()
    assert said().endswith(f"behind: {near or 'none'} of the 7 that write nothing for a pair.")
    figure.get_by_role("radio", name="32").check()
    figure.get_by_role("checkbox", name="first token").check()
    name, by, question, near = least(QUESTIONS, 32, FREE)
    assert f"At 32 tokens, asked 5 questions: {name} has the least regret, {by:.2f} at “{question}”." in said()
    assert name == "RoPE"
    assert said().endswith(f"behind: {near} of the 7 that write nothing for a pair.")
    for q in QUESTIONS[:-1]:
        figure.get_by_role("checkbox", name=q).uncheck()
    assert "asked “first token” alone" in said()
    figure.get_by_role("checkbox", name="first token").uncheck()
    assert said().startswith("Nothing is asked")
