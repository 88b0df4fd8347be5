"""What a reader meets: nothing leaves the host, everybody can read, copying copies code, on a desk and on a phone."""

import re
from pathlib import Path

import pytest

from tests.browser.live import open_search, settled, unfold, until
from tests.browser.pages import PAGES

ROOT = Path(__file__).parents[2]
CHAPTER = "chapters/1-sinusoidal/sinusoidal/"
FAMILIES = {
    "article p:not([class])": "Posenc Serif",
    ".md-tabs": "Source Sans 3",
    "article pre code": "Source Code Pro",
}


@pytest.mark.full
def test_nothing_leaves_the_host_from_page_to_page(site, visit):
    seen = visit(site, still=False)
    for path in ("chapters/1-sinusoidal/", "reference/"):
        seen.page.click(f'.md-tabs a[href$="{path}"]')
        seen.page.wait_for_url(f"{site}{path}")
        seen.page.wait_for_selector(f'link[rel=canonical][href$="/{path}"]', state="attached")
        settled(seen.page)
    assert seen.documents == [site], "instant navigation did not happen: whole documents were loaded"
    assert len(seen.requests) > 5
    assert not seen.foreign(site)
    assert not seen.errors


def test_formulas_and_texts_are_set_in_the_fonts_of_the_site(site, visit):
    page = visit(site + CHAPTER).page
    family = "(element) => getComputedStyle(element).fontFamily"
    faces = page.evaluate(
        "[...document.fonts].filter((face) => face.status === 'loaded').map((f) => [f.family, f.style])"
    )
    loaded = [family.strip('"') for family, _ in faces]
    formulas = page.locator("article .katex")
    assert formulas.count() > 10
    assert "KaTeX_Main" in formulas.first.evaluate(family)
    assert page.evaluate("document.fonts.check('16px KaTeX_Main')")
    for css, name in FAMILIES.items():
        assert page.locator(css).first.evaluate(family).split(",")[0].strip('"') == name
        assert name in loaded
    question = page.locator(".md-content blockquote :is(strong, em)").first
    assert question.evaluate("(element) => getComputedStyle(element).fontStyle") == "italic"
    assert ["Posenc Serif", "italic"] in [[family.strip('"'), style] for family, style in faces]


def test_copying_python_copies_the_code_and_nothing_else(site, visit):
    seen = visit(site)
    assert _copied(seen.page, ".doors .language-python").startswith("import torch\n\ndef rope(")
    assert _copied(seen.page, ".doors .language-python") == _doors_code()


@pytest.mark.full
def test_copying_a_session_leaves_prompts_and_results_behind(site, visit):
    with_session = next((path for path, page in PAGES.items() if "```pycon" in page.text), None)
    if with_session is None:
        pytest.skip("no page has a pycon session")
    seen = visit(site + with_session)
    unfold(seen.page)
    shown = seen.page.locator(".language-pycon code").first.text_content().rstrip()
    code = [line[4:] for line in shown.splitlines() if line.startswith((">>> ", "... "))]
    assert 0 < len(code) < len(shown.splitlines())
    assert _copied(seen.page, ".language-pycon").split("\n") == code


def test_outputs_have_no_copy_button(site, visit):
    seen = visit(site + CHAPTER)
    outputs = seen.page.locator(".language-output")
    assert outputs.count() > 0
    assert seen.page.locator(".language-output :is(.md-code__nav, .md-clipboard):visible").count() == 0


def test_the_palette_recolors_the_text_of_a_figure(site, visit):
    seen = visit(site + CHAPTER)
    text = seen.page.locator("figure.drawn svg text").first
    color = "(element) => getComputedStyle(element).fill"
    assert text.evaluate(color) == "rgb(31, 36, 45)"
    seen.page.locator('[data-md-component="palette"] label:visible').click()  # from the system's to light
    seen.page.locator('[data-md-component="palette"] label:visible').click()  # to dark
    assert seen.page.locator("body").get_attribute("data-md-color-scheme") == "slate"
    assert text.evaluate(color) == "rgb(221, 225, 231)"
    assert "Source Sans 3" in text.evaluate("(element) => getComputedStyle(element).fontFamily")


@pytest.mark.full
def test_the_live_figure_moves_and_can_be_held(site, visit):
    seen = visit(site, still=False)
    place = "getComputedStyle(document.querySelector('.live')).getPropertyValue('--p')"
    until(seen.page, f"(before) => {place} > before", arg=float(seen.page.evaluate(place)))
    seen.page.locator(".live").focus()
    seen.page.wait_for_timeout(200)
    held = seen.page.evaluate(place)
    seen.page.wait_for_timeout(300)
    assert seen.page.evaluate(place) == held
    still = visit(site, still=True)
    assert float(still.page.evaluate(place)) == 21


@pytest.mark.full
def test_annotations_explain_a_line_and_are_not_copied(site, visit):
    page = visit(site + "chapters/1-sinusoidal/in-a-transformer/").page
    page.locator("pre", has_text="(1)!").scroll_into_view_if_needed()  # before one sees it, it is plain code
    page.locator(".md-annotation__index").first.click()
    page.get_by_text("The keys and values of earlier words").locator("visible=true").wait_for()
    assert "(1)" not in _copied(page, ".highlight:has(.md-annotation)")


def test_search_finds_a_page(site, visit):
    seen = visit(site)
    open_search(seen.page)
    seen.page.keyboard.type("wavelength")
    found = seen.page.locator(".md-search-result__link")
    found.first.wait_for(state="attached", timeout=10_000)
    assert any("1-sinusoidal" in link.get_attribute("href") for link in found.all())
    assert not seen.foreign(site)


@pytest.mark.full
@pytest.mark.parametrize("slow", [0, 400])
@pytest.mark.parametrize("pause", [0, 80, 150, 300])
def test_a_link_leads_to_its_place_though_the_page_still_scrolls(site, visit, slow, pause):
    page = visit(f"{site}museum/order/").page
    until(page, "history.state !== null")
    page.evaluate(
        """([href, slow, pause]) => {
          const send = XMLHttpRequest.prototype.send
          XMLHttpRequest.prototype.send = function (...body) { setTimeout(() => send.apply(this, body), slow) }
          const link = document.querySelector(".md-content").appendChild(document.createElement("a"))
          link.href = href
          scrollTo(0, 3000)
          setTimeout(() => link.click(), pause)
        }""",
        [f"{site}museum/#find-an-entry", slow, pause],
    )
    page.wait_for_selector("#find-an-entry")
    page.wait_for_timeout(600)  # longer than the theme takes to note where a page stands
    assert 0 < page.evaluate("document.querySelector('#find-an-entry').getBoundingClientRect().y") < 300


def test_a_link_into_the_depth_opens_its_section(site, visit):
    page = visit(f"{site}chapters/3-rope/derivation/").page
    section = page.locator("details.depth:has(#why-not-rotate-the-values)")
    assert section.get_attribute("open") is None
    page.evaluate("location.hash = '#why-not-rotate-the-values'")
    until(page, "document.querySelector('details.depth:has(#why-not-rotate-the-values)').open")
    page.evaluate("document.querySelector('details.depth[open]').open = false")
    page.locator(".md-nav--secondary a[href$='#why-not-rotate-the-values']").last.click()  # the address stays as it is
    until(page, "document.querySelector('details.depth:has(#why-not-rotate-the-values)').open")
    inside = visit(f"{site}chapters/3-rope/derivation/#exercise-313-medium").page
    until(inside, "document.querySelector('details.depth:has(#exercise-313-medium)').open")
    until(inside, "document.querySelector('#exercise-313-medium').getBoundingClientRect().top < innerHeight")


def test_a_number_says_where_it_comes_from(site, visit):
    seen = visit(site)
    number = seen.page.locator(".checked", has_text="47,117")
    assert number.get_attribute("data-expression") == "wavelengths(64)[-1]"


@pytest.mark.full
def test_a_missing_page_still_finds_its_styles(site, visit):
    page = visit(site).page
    page.goto(f"{site}404.html", wait_until="load")
    assert "position" in page.locator("h1").inner_text()
    assert page.locator("article a").first.evaluate("(link) => link.href") == site


def test_chapters_offer_their_source_and_their_notebook(site, visit):
    seen = visit(site + CHAPTER)
    edit = seen.page.locator('.md-content__button[rel="edit"]').get_attribute("href")
    assert edit == "https://github.com/posenc/posenc/edit/main/docs/chapters/1-sinusoidal/sinusoidal.md"
    notebook = seen.page.locator(".md-content__button[download]").evaluate("(link) => link.href")
    assert seen.page.request.get(notebook).json()["nbformat"] == 4


def test_the_message_on_the_landing_page_is_what_the_engine_says(tmp_path):
    pytest.importorskip("galley")
    from galley.book import Book

    text = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(docs/index\.md:\d+: .*)\n```", text)[1]
    wrong = text.replace("47,117<!-- =", "47,118<!-- =", 1)
    result = Book.find(ROOT).run({"docs/index.md": wrong})["docs/index.md"]
    assert shown in [f"docs/index.md:{problem.line}: {problem.message}" for problem in result.problems]


def _copied(page, css: str) -> str:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = page.locator(css).first
    block.hover()
    page.evaluate("navigator.clipboard.writeText('')")
    block.locator("button.md-code__button, button.md-clipboard").first.click()
    return until(page, "navigator.clipboard.readText()")


def _doors_code() -> str:
    text = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    return re.search(r"<!-- block: standalone -->\n```python\n(.*?)\n```", text, re.S)[1]
