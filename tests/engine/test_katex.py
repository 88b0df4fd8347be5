"""Formulas are set once and remembered; a damaged memory counts as none."""

import re

import pytest

from galley.check import katex
from galley.check.katex import FormulaError, Typesetter


@pytest.fixture
def memory(tmp_path):
    typesetter = Typesetter(tmp_path / "formulas.json")
    typesetter.html("x^2", False)
    typesetter.save()
    return typesetter.memory


def test_a_formula_is_remembered(memory):
    typesetter = Typesetter(memory)
    assert "<mn>2</mn>" in typesetter.html("x^2", False)
    assert not typesetter.changed


def test_a_damaged_memory_is_not_shown(memory):
    text = memory.read_text()
    assert "<mn>2</mn>" in text
    memory.write_text(text.replace("<mn>2</mn>", "<mn>3</mn>"))
    typesetter = Typesetter(memory)
    assert "<mn>2</mn>" in typesetter.html("x^2", False)
    assert typesetter.changed


def test_another_version_of_katex_sets_them_again(memory, monkeypatch, tmp_path):
    script = tmp_path / "katex.js"
    monkeypatch.setattr("galley.check.katex.SCRIPT", script)
    script.write_text("var katex = {renderToString: () => 'new'}")
    assert Typesetter(memory).html("x^2", False) == "new"


def test_a_wrong_formula_is_refused(memory):
    with pytest.raises(FormulaError, match="Undefined control sequence"):
        Typesetter(memory).html(r"\nonsense", False)


@pytest.mark.parametrize("tex", [r"\sum_{i=1}^n x_i^2", r"\frac{a+b}{\sqrt{c}}", "a = b", r"\mathbf R_{m-n}"])
def test_a_formula_keeps_what_is_seen_and_what_is_heard(tmp_path, monkeypatch, tex):
    small = Typesetter(tmp_path / "small.json").html(tex, display=True)
    monkeypatch.setattr(katex, "smaller", lambda html: html)
    whole = Typesetter(tmp_path / "whole.json").html(tex, display=True)
    text = lambda html: re.sub(r"<[^>]*>", "", html)  # noqa: E731
    mathml, html = small.split('<span class="katex-html"')
    assert text(html) == text(whole.split('<span class="katex-html"')[1])
    assert re.findall(r"<m[ion]>[^<]*", mathml) == re.findall(r"<m[ion]>[^<]*", whole)
    assert "annotation" not in small
    assert small.count("<span") == small.count("</span>") < whole.count("<span")
    names = lambda html: [c for c in re.findall(r'class="([^"]+)"', html) if not katex.BARE.fullmatch(c)]  # noqa: E731
    assert names(small) == names(whole)
