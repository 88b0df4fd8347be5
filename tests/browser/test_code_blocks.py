"""Blocks of code on a page: what is copied from them, what an annotation says, what color their words have."""

import pytest

from galley.show.extension import UNSTYLED
from tests.browser.live_figures import unfold, until
from tests.browser.pages import PAGES

CHAPTER = "chapters/1-sinusoidal/sinusoidal/"


def copied(page, css: str) -> str:
    """Copy the first block that is meant, and return what the clipboard has then."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = page.locator(css).first
    block.hover()
    page.evaluate("navigator.clipboard.writeText('')")
    block.locator("button.md-code__button, button.md-clipboard").first.click()
    return until(page, "navigator.clipboard.readText()")


def test_copying_python_copies_the_code_and_nothing_else(open_page):
    (code,) = [block.code for block in PAGES[""].blocks if "standalone" in block.options]
    assert code.startswith("import torch\n\ndef rope(")
    assert copied(open_page(), ".doors .language-python") == code


@pytest.mark.full
def test_copying_a_session_leaves_prompts_and_results_behind(open_page):
    page = open_page(next(path for path, page in PAGES.items() if "```pycon" in page.text))
    unfold(page)
    lines = page.locator(".language-pycon code").first.text_content().rstrip().splitlines()
    code = [line[4:] for line in lines if line.startswith((">>> ", "... "))]
    assert 0 < len(code) < len(lines)
    assert copied(page, ".language-pycon").split("\n") == code


def test_outputs_have_no_copy_button(open_page):
    page = open_page(CHAPTER)
    assert page.locator(".language-output").count() > 0
    assert page.locator(".language-output :is(.md-code__nav, .md-clipboard):visible").count() == 0


@pytest.mark.full
def test_annotations_explain_a_line_and_are_not_copied(open_page):
    page = open_page("chapters/1-sinusoidal/in-a-transformer/")
    page.locator("pre", has_text="(1)!").scroll_into_view_if_needed()  # before one sees it, it is plain code
    page.locator(".md-annotation__index").first.click()
    page.get_by_text("The keys and values of earlier tokens").locator("visible=true").wait_for()
    assert "(1)" not in copied(page, ".highlight:has(.md-annotation)")


def test_kinds_of_tokens_without_a_span_have_no_color(open_page):
    colored = """(kinds) => {
      const code = document.querySelector('.highlight pre > code')
      const look = (part) => {
        const { color, fontWeight, fontStyle, backgroundColor } = getComputedStyle(part)
        const ground = backgroundColor === 'rgba(0, 0, 0, 0)' ? getComputedStyle(code).backgroundColor : backgroundColor
        return [color, fontWeight, fontStyle, ground].join()
      }
      return kinds.filter((kind) => {
        const span = code.appendChild(Object.assign(document.createElement('span'), { className: kind }))
        const differs = look(span) !== look(code)
        span.remove()
        return differs
      })
    }"""
    page = open_page(CHAPTER)
    assert page.evaluate(colored, ["mi"]) == ["mi"]
    assert page.evaluate(colored, UNSTYLED.split("|")) == []
