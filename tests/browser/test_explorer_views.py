"""The explorer's sentence, its two views beside each other, its models and what it does by itself."""

from pathlib import Path

import numpy as np
import pytest

from posenc.add.sinusoidal import kernel
from posenc.bias.alibi import alibi
from posenc.rotate.rope import rope
from tests.browser.exploring import FIGURE, choose, focus, knob, number, reading, state
from tests.browser.live import settled, until

pytestmark = pytest.mark.full

INSIDE = """(selector) => {
  const { top, bottom } = document.querySelector(selector).getBoundingClientRect()
  return top >= 0 && bottom <= innerHeight + 1
}"""


def test_the_page_begins_with_the_explorer(explore):
    page = explore(width=1280, height=800).page
    above = page.evaluate(
        f"""() => {{
          const figure = document.querySelector("{FIGURE}")
          const before = (part) => part.compareDocumentPosition(figure) & Node.DOCUMENT_POSITION_FOLLOWING
          const all = [...document.querySelectorAll("article :is(p, details, h2)")]
          return all.filter(before).map((part) => part.textContent)
        }}"""
    )
    assert len(above) == 1
    assert above[0].count(".") <= 2
    assert page.locator(f"{FIGURE} canvas").nth(1).bounding_box()["y"] < 600


def test_a_sentence_stands_on_the_axes(explore):
    seen = explore()
    page = seen.page
    said = reading(page)
    assert said.startswith("“man” and “dog”, 3 words back")
    assert number("similarity", said) == pytest.approx(kernel(3, 128, 1e4), rel=5e-3)
    page.fill(f"{FIGURE} [data-knob=words] input", "who  bit whom today")
    settled(page)
    assert state(page) == {"words": "who bit whom today"}
    assert reading(page).startswith("“today” and “bit”, 2 words back")
    assert page.locator(f"{FIGURE} [data-knob=query] output").text_content() == "today"
    page.fill(f"{FIGURE} [data-knob=words] input", "")
    assert reading(page).startswith("Query at 80, key at 56")
    assert state(page) == {"words": ""}
    page.fill(f"{FIGURE} [data-knob=words] input", "word " * 40)
    assert page.locator(f"{FIGURE} [data-knob=query] input").get_attribute("max") == "23"
    assert not seen.errors


def test_the_same_word_holds_the_same_vector(explore):
    page = explore("?encoding=rope&content=tokens&query=3&key=3&channel=0").page
    q, k = np.random.RandomState(0).standard_normal((2, 5, 128))
    expected = rope(q[:1], np.array([3]))[0] @ rope(k[:1], np.array([3]))[0]
    assert number("similarity", reading(page)) == pytest.approx(expected, rel=5e-3)


def test_two_views_stand_beside_each_other(explore):
    seen = explore("?encoding=rope&length=64&query=40&key=30")
    page = seen.page
    assert page.locator(f"{FIGURE} canvas:visible").count() == 4
    page.click("button:text-is('Compare')")
    settled(page)
    assert page.locator(f"{FIGURE} canvas:visible").count() == 7  # one response has both curves
    choose(page, "alibi")
    said = state(page)
    assert said == {"encoding": "alibi", "length": "64", "query": "40", "key": "30", "b.encoding": "rope"}
    page.click(".explorer-whose button:has-text('B RoPE')")
    focus(page, "base")
    page.keyboard.press("Home")
    assert state(page) == said | {"b.base": "10"}
    label = page.locator(f"{FIGURE} [data-i='2'] canvas").get_attribute("aria-label")
    assert "Beside it: RoPE" in label
    assert number("distance 10:", label) == pytest.approx(alibi([40], [30], 8)[2, 0, 0], rel=5e-3)
    page.reload()
    page.wait_for_selector(f"{FIGURE}[live]")
    assert page.locator(f"{FIGURE} canvas:visible").count() == 7
    page.go_back()
    assert "b.base" not in state(page)
    page.click("button:text-is('Stop comparing')")
    settled(page)
    assert page.locator(f"{FIGURE} canvas:visible").count() == 4
    assert not seen.errors


def test_what_is_taken_along_has_both_views(explore, capsys):
    page = explore("?encoding=alibi&length=16&query=9&key=3&b.encoding=kerple").page
    page.click("text=The Python that makes this")
    code = page.wait_for_selector(".explorer-python code:not(:empty)").text_content()
    exec(compile(code, "snippet", "exec"), {})
    first, second = map(float, capsys.readouterr().out.split())
    assert first == alibi([9], [3], 8)[2, 0, 0]
    assert second == pytest.approx(-np.log1p(6))
    page.click("text=Pictures and numbers")
    page.select_option("select[aria-label='What to download']", "response")
    with page.expect_download() as waited:
        page.click("button:text-is('CSV')")
    assert waited.value.suggested_filename == "posenc-alibi-kerple-response.csv"
    assert Path(waited.value.path()).read_text(encoding="utf-8").count("key n") == 2


def test_an_encoding_that_is_none_is_said_to_be_none(explore):
    page = explore("?encoding=xyz&length=64").page
    assert "no encoding “xyz”" in page.locator(".explorer-notice").text_content()
    assert state(page) == {"length": "64"}
    choose(page, "xpos")
    settled(page)
    assert page.locator(".explorer-notice").is_hidden()


def test_a_published_model_sets_the_knobs(explore):
    seen = explore()
    page = seen.page
    page.select_option(".explorer-models select", "Llama 3.1 8B")
    said = state(page)
    assert {name: said[name] for name in ("encoding", "base", "scaling", "factor", "original_length")} == {
        "encoding": "rope", "base": "500000", "scaling": "llama3", "factor": "8", "original_length": "8192",
    }  # fmt: skip
    assert "trained on texts of 8,192" in page.locator(".explorer-notice").text_content()
    assert "up to 131,072" in page.locator(f"{FIGURE} [data-i='2'] p").text_content()
    page.reload()
    page.wait_for_selector(f"{FIGURE}[live]")
    assert page.locator(".explorer-models select").input_value() == "Llama 3.1 8B"
    focus(page, "base")
    page.keyboard.press("ArrowRight")
    settled(page)
    assert page.locator(".explorer-models select").input_value() == ""
    assert not seen.errors


@pytest.mark.parametrize("still", [True, False])
def test_a_knob_plays_until_a_hand_stops_it(explore, still):
    page = explore("?length=64", still=still).page
    before = knob(page, "base").input_value()
    page.click("button:text-is('Play base')")
    until(page, "(before) => document.querySelector('[data-knob=base] input').value !== before", arg=before)
    focus(page, "query")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("button:text-is('Play looking word')")


def test_the_link_can_be_copied(explore):
    page = explore("?encoding=t5").page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("button:text-is('Copy link')")
    page.wait_for_selector("button:text-is('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_attention_is_a_share(explore):
    page = explore("?encoding=alibi&causal=true&softmax=true").page
    weights = np.exp(alibi([4], np.arange(5), 8)[2, 0])
    assert number("gives it", reading(page)) == pytest.approx(100 * weights[1] / weights.sum(), abs=0.6)


def test_every_knob_says_what_it_does(explore):
    page = explore("?encoding=rope&scaling=yarn").page
    controls = page.locator(f"{FIGURE} [data-knob]:not([hidden])")
    titles = controls.evaluate_all("(all) => all.map((knob) => knob.title)")
    assert len(titles) > 12
    assert all(len(title) > 15 for title in titles)
    focus(page, "factor")
    settled(page)
    assert "How many times longer" in page.locator(".explorer-help").text_content()


def test_settings_stay_beside_the_panels_on_a_laptop(explore):
    page = explore("?encoding=rope", width=1280, height=800).page
    for panel in range(4):
        page.locator(f"{FIGURE} canvas:visible").nth(panel).evaluate(
            "(part) => part.scrollIntoView({ block: 'center' })"
        )
        settled(page)
        assert page.evaluate(INSIDE, "[data-knob=base]"), f"the base is out of view with panel {panel}"


@pytest.mark.parametrize("size", [(390, 844), (360, 740)])
def test_a_phone_has_one_panel_and_the_knob_that_changes_it(explore, size):
    seen = explore("?encoding=rope&scaling=llama3", width=size[0], height=size[1])
    page = seen.page
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    page.select_option("select[aria-label='Which setting']", "base")
    for panel, name in enumerate(("Pattern", "Pairs", "Response", "Clock")):
        page.click(f".explorer-tabs button:text-is('{name}')")
        settled(page)
        shown = page.locator(f"{FIGURE} canvas:visible")
        assert shown.count() == 1
        shown.evaluate("(canvas) => canvas.scrollIntoView({ block: 'center' })")
        page.evaluate(f"document.querySelector('{FIGURE} .explorer-main').scrollIntoView()")
        settled(page)
        assert page.evaluate(INSIDE, f"[data-i='{panel}'] canvas")
        assert page.evaluate(INSIDE, "[data-knob=base]")
        canvas, slider = shown.bounding_box(), page.locator("[data-knob=base]").bounding_box()
        assert canvas["y"] + canvas["height"] <= slider["y"] + 1, "the sheet covers the picture"
    page.evaluate(f"scrollBy(0, document.querySelector('{FIGURE} .explorer-main').getBoundingClientRect().top - 350)")
    settled(page)
    assert page.evaluate(INSIDE, "[data-knob=base]"), "the sheet leaves the screen with the panel's foot"
    assert page.locator(f"{FIGURE} .explorer-side [data-knob]:visible").count() == 1
    page.click("button:text-is('All settings')")
    assert page.locator(f"{FIGURE} .explorer-side [data-knob]:visible").count() > 8
    sizes = page.locator(".explorer-tabs button, .explorer-acts button").evaluate_all(
        "(all) => all.map((button) => button.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 43
    assert not seen.errors
