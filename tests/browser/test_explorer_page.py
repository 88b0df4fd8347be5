"""The explorer: what it reads out, its address and history, its keyboard, two views, what it hands out, on a phone."""

import re
import urllib.parse
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from posenc.add.sinusoidal import kernel, sinusoidal, wavelengths
from posenc.bias.alibi import alibi
from posenc.bias.kerple import kerple
from posenc.rotate.frequencies import yarn
from posenc.rotate.rope import rope
from tests.browser.live_figures import awake, settled, unfold, until
from tests.conftest import ROOT

pytestmark = pytest.mark.full

FIGURE = "posenc-figure[name=explorer]"
KINDS = (ROOT / "docs/assets/js/explorer/kinds.js").read_text(encoding="utf-8")
ENCODINGS = re.findall(r"^  (\w+): \{", KINDS, re.M)
INSIDE = """(selector) => {
  const { top, bottom } = document.querySelector(selector).getBoundingClientRect()
  return top >= 0 && bottom <= innerHeight + 1
}"""


@pytest.fixture
def explore(open_page):
    """Return a function that opens the explorer with a query string, and waits until it lives."""

    def opened(query="?encoding=sinusoidal", **options):
        page = open_page(f"explorer/{query}", **options)
        awake(page, "explorer")
        settled(page)
        page.evaluate("window.sameDocument = true")  # until another document is loaded
        return page

    return opened


def reading(page):
    """Return the sentence under the panels."""
    settled(page)
    return page.locator(".explorer-reading").text_content()


def number(pattern, text):
    match = re.search(pattern + r" ([−\d.,]+\d)", text)
    assert match, f"no {pattern} in: {text}"
    return float(match[1].replace("−", "-").replace(",", ""))


def close(value):
    return pytest.approx(value, rel=5e-3)


def knob(page, name):
    return page.locator(f"{FIGURE} [data-knob={name}] input").first


def press(page, name, key, times=1):
    """Press a key on a knob once it is shown: a hidden one takes no focus, and no error says so."""
    knob(page, name).wait_for(state="visible")
    knob(page, name).focus()
    for _ in range(times):
        page.keyboard.press(key)


def state(page):
    """Return what the address says, once it is written: by the page's own clock, which runs late on a busy machine."""
    query = page.evaluate("() => new Promise((done) => setTimeout(() => done(location.search), 400))")
    return dict(urllib.parse.parse_qsl(query.removeprefix("?"), keep_blank_values=True))


def choose(page, encoding):
    page.select_option(f"{FIGURE} [data-knob=encoding] select", encoding)


def write_sentence(page, text):
    page.fill(f"{FIGURE} [data-knob=words] input", text)
    settled(page)


def canvases(page):
    settled(page)
    return page.locator(f"{FIGURE} canvas:visible")


def python_prints(page, capsys):
    """Run the Python that makes what is shown, and return the two numbers that it prints."""
    page.click("text=The Python that makes this")
    code = page.wait_for_selector(".explorer-python code:not(:empty)").text_content()
    exec(compile(code, "snippet", "exec"), {})
    return [float(part) for part in capsys.readouterr().out.split()]


def download(page, part, kind):
    """Download a part of the view as a kind of file; return its name and its bytes."""
    page.click("text=Pictures and numbers")
    page.select_option("select[aria-label='What to download']", part)
    with page.expect_download() as waited:
        page.click(f"button:text-is('{kind}')")
    return waited.value.suggested_filename, Path(waited.value.path()).read_bytes()


def score_by_yarn():
    theta, factor = yarn(64, 8, 100)
    q, k = np.random.RandomState(3).standard_normal((2, 1, 64))
    turned = [rope(x, np.array([p]), theta=theta, attention_factor=factor)[0] for x, p in ((q, 90), (k, 20))]
    return turned[0] @ turned[1]


def score_of_one_word():
    q, k = np.random.RandomState(0).standard_normal((2, 5, 128))
    return rope(q[:1], np.array([3]))[0] @ rope(k[:1], np.array([3]))[0]


READINGS = {
    "?length=200&width=32&base=500&query=150&key=30&channel=5&first=7": {
        "similarity": kernel(120, 32, 500),
        "channel 5:": sinusoidal([157], 32, 500)[0, 5],
        "wavelength": wavelengths(32, 500)[2],
    },
    "?encoding=rope&scaling=yarn&width=64&factor=8&original_length=100&content=random&seed=3&query=90&key=20": {
        "similarity": score_by_yarn()
    },
    "?encoding=rope&content=tokens&query=3&key=3&channel=0": {"similarity": score_of_one_word()},
    "?encoding=alibi&heads=12&head=9&query=100&key=40": {"bias": alibi([100], [40], 12)[9, 0, 0]},
}


@pytest.mark.parametrize("query", READINGS)
def test_what_it_reads_out_is_what_the_package_says(explore, query):
    page = explore(query)
    for name, value in READINGS[query].items():
        assert number(name, reading(page)) == close(value)


def test_a_panel_tells_its_value_to_those_who_cannot_see_it(explore):
    page = explore("?encoding=alibi&heads=12&head=9&query=100&key=40")
    label = page.locator(f"{FIGURE} canvas").nth(1).get_attribute("aria-label")
    assert number("n 40:", label) == close(alibi([100], [40], 12)[9, 0, 0])


def test_attention_is_a_share(explore):
    page = explore("?encoding=alibi&causal=true&softmax=true")
    weights = np.exp(alibi([4], np.arange(5), 8)[2, 0])
    assert number("attention weight", reading(page)) == pytest.approx(100 * weights[1] / weights.sum(), abs=0.6)


def test_it_compares_itself_with_the_package(explore):
    line = explore().wait_for_selector(".explorer-judge:not(:empty)").text_content()
    worst, points = re.search(r"to (\d+e−\d+|the last bit) at (\d+) points", line).groups()
    assert worst == "the last bit" or float(worst.replace("−", "-")) < 1e-9
    assert int(points) >= 48


def test_the_page_begins_with_the_explorer(explore):
    page = explore(width=1280, height=800)
    above = page.evaluate(
        f"""() => {{
          const figure = document.querySelector("{FIGURE}")
          const before = (part) => part.compareDocumentPosition(figure) & Node.DOCUMENT_POSITION_FOLLOWING
          const all = [...document.querySelectorAll("article :is(p, details, h2)")]
          return all.filter(before).map((part) => part.textContent)
        }}"""
    )
    assert len(above) == 1
    assert len(re.findall(r"\.(?:\s|$)", above[0])) <= 2
    assert page.locator(f"{FIGURE} canvas").nth(1).bounding_box()["y"] < 600


def test_a_sentence_stands_on_the_axes(explore):
    page = explore()
    assert reading(page).startswith("Query “man”, key “dog”, 3 tokens before it")
    assert number("similarity", reading(page)) == close(kernel(3, 128, 1e4))
    write_sentence(page, "who  bit whom today")
    assert state(page) == {"encoding": "sinusoidal", "words": "who bit whom today"}
    assert reading(page).startswith("Query “today”, key “bit”, 2 tokens before it")
    assert page.locator(f"{FIGURE} [data-knob=query] output").text_content() == "today"
    knob(page, "words").focus()
    page.keyboard.press("End")
    page.keyboard.type("s")
    assert reading(page).startswith("Query “todays”")
    assert page.locator(f"{FIGURE} [data-knob=query] output").text_content() == "todays"
    write_sentence(page, "")
    assert reading(page).startswith("Query at 80, key at 56")
    assert state(page) == {"encoding": "sinusoidal", "words": ""}
    write_sentence(page, "word " * 40)
    assert knob(page, "query").get_attribute("max") == "23"


def test_neither_a_bias_nor_a_sentence_goes_on_to_128k(explore):
    page = explore("")
    assert knob(page, "far").is_checked()
    choose(page, "alibi")
    settled(page)
    assert not knob(page, "far").is_checked()
    assert page.locator(f"{FIGURE} .explorer-value").first.text_content() == "head 2, slope 1/8, offset 24: −3"
    knob(page, "far").check()
    settled(page)
    assert "The bias at every offset up to 131,072" in page.locator(f"{FIGURE} [data-i='2'] p").first.text_content()
    write_sentence(page, "the dog bit the man")
    assert not knob(page, "far").is_visible()
    assert "far" not in state(page)


def test_knobs_turn_by_keyboard_and_the_address_follows(explore):
    page = explore("?encoding=kerple&form=power&head=1&words=")
    press(page, "key", "ArrowLeft", times=3)
    assert "key at 53" in reading(page)
    expected = kerple([80], [53], np.array([1.0]), np.array([1.0]), "power").item()
    assert number("bias", reading(page)) == close(expected)
    assert state(page) == {"encoding": "kerple", "form": "power", "head": "1", "key": "53"}


def test_a_knob_that_goes_and_comes_back_brings_the_others_back(explore):
    page = explore("?encoding=alibi&words=")
    before = reading(page)
    for name, value in (("length", "128"), ("heads", "8")):
        press(page, name, "Home")
        assert reading(page) != before
        knob(page, name).fill(value)
        assert reading(page) == before
    knob(page, "key").fill("80")
    assert "bias 0." in reading(page)


def test_every_knob_says_what_it_does(explore):
    page = explore("?encoding=rope&scaling=yarn")
    titles = page.locator(f"{FIGURE} [data-knob]:not([hidden])").evaluate_all("(all) => all.map((knob) => knob.title)")
    assert len(titles) > 12
    assert [title for title in titles if len(title) <= 15] == []
    knob(page, "factor").focus()
    settled(page)
    assert "How many times the training length" in page.locator(".explorer-help").text_content()


@pytest.mark.parametrize("still", [True, False])
def test_a_knob_plays_until_a_hand_stops_it(explore, still):
    page = explore("?length=64", still=still)
    before = knob(page, "base").input_value()
    page.click("button:text-is('Play base')")
    until(page, "(before) => document.querySelector('[data-knob=base] input').value !== before", arg=before)
    press(page, "query", "ArrowLeft")
    page.wait_for_selector("button:text-is('Play query')")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_arrow_keys_move_in_every_panel(explore, encoding):
    page = explore(f"?encoding={encoding}&length=64&query=40&key=20&channel=3&causal=false")
    for panel in range(4):
        canvas = page.locator(f"{FIGURE} canvas").nth(panel)
        canvas.focus()
        for key in ("ArrowRight", "ArrowDown"):
            before = canvas.get_attribute("aria-label")
            page.keyboard.press(key)
            settled(page)
            assert canvas.get_attribute("aria-label") != before, f"{key} does nothing in panel {panel}"


def test_a_pointer_looks_and_a_click_stays(explore):
    page = explore("?encoding=sinusoidal&length=64")
    before = reading(page)
    canvas = page.locator(f"{FIGURE} canvas").nth(1)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    inside = (box["x"] + 100, box["y"] + 150)
    above = (box["x"] + 100, box["y"] - 200)
    page.mouse.move(*inside)
    hovered = reading(page)
    assert hovered != before
    page.mouse.move(*above)
    assert reading(page) == before
    page.mouse.click(*inside)
    page.mouse.move(*above)
    assert reading(page) == hovered
    query, key = re.match(r"Query at (\d+), key at (\d+)", hovered).groups()
    assert state(page) == {"encoding": "sinusoidal", "length": "64", "query": query, "key": key}


def test_back_and_forward_go_through_the_views(explore):
    page = explore()
    choose(page, "alibi")
    press(page, "heads", "ArrowRight", times=4)
    assert state(page) == {"encoding": "alibi", "heads": "12"}
    choose(page, "t5")
    assert state(page)["encoding"] == "t5"
    for expected in ({"encoding": "alibi", "heads": "12"}, {"encoding": "alibi"}, {"encoding": "sinusoidal"}):
        page.go_back()
        assert state(page) == expected
    assert reading(page).startswith("Query “man”, key “dog”, 3 tokens before it")
    page.go_forward()
    page.go_forward()
    settled(page)
    assert knob(page, "heads").input_value() == "12"
    assert "bias" in reading(page)
    assert page.evaluate("window.sameDocument")


@pytest.mark.parametrize(
    "query",
    [
        "?encoding=nonsense&length=many&width=-5&%ZZ=1&base",
        "?length=1e99&query=9e9&seed=NaN&causal=perhaps&=&&",
        "?length&q",
    ],
)
def test_a_bad_address_does_no_harm(explore, query):
    page = explore(query)
    assert re.match(r"Query at \d+, key at \d+, offset −?\d+: similarity", reading(page))


def test_an_encoding_that_is_none_is_said_to_be_none(explore):
    page = explore("?encoding=xyz&length=64")
    assert "no encoding “xyz”" in page.locator(".explorer-notice").text_content()
    assert state(page) == {"encoding": "sinusoidal", "length": "64"}
    choose(page, "xpos")
    settled(page)
    assert page.locator(".explorer-notice").is_hidden()


def test_links_to_states_work_on_the_page_itself_and_from_others(explore, site):
    page = explore()
    page.click("a:text('The last bucket')")
    assert state(page) == {"encoding": "t5", "max_distance": "32", "causal": "true", "length": "128"}
    assert "bias" in reading(page)
    page.click(".md-logo >> nth=0")
    page.wait_for_url(site)
    page.go_back()
    page.wait_for_selector(f"{FIGURE}[live]")
    assert knob(page, "max_distance").input_value() == "32"
    page.go_back()
    assert state(page) == {"encoding": "sinusoidal"}
    assert reading(page).startswith("Query “man”, key “dog”")
    assert page.evaluate("window.sameDocument")


def test_a_published_model_sets_the_knobs(explore):
    page = explore()
    model = page.locator(".explorer-models select")
    model.select_option("Llama 3.1 8B")
    expected = {"encoding": "rope", "base": "500000", "scaling": "llama3", "factor": "8", "original_length": "8192"}
    assert expected.items() <= state(page).items()
    assert "trained on texts of 8,192" in page.locator(".explorer-notice").text_content()
    assert "up to 131,072" in page.locator(f"{FIGURE} [data-i='2'] p").text_content()
    page.reload()
    page.wait_for_selector(f"{FIGURE}[live]")
    assert model.input_value() == "Llama 3.1 8B"
    press(page, "base", "ArrowRight")
    settled(page)
    assert model.input_value() == ""


def test_two_views_stand_beside_each_other(explore):
    page = explore("?encoding=rope&length=64&query=40&key=30")
    assert canvases(page).count() == 4
    page.click("button:text-is('Compare')")
    assert canvases(page).count() == 7  # one response has both curves
    choose(page, "alibi")
    two_views = {"encoding": "alibi", "length": "64", "query": "40", "key": "30", "b.encoding": "rope"}
    assert state(page) == two_views
    page.click(".explorer-whose button:has-text('B RoPE')")
    press(page, "base", "Home")
    assert state(page) == two_views | {"b.base": "10"}
    label = page.locator(f"{FIGURE} [data-i='2'] canvas").get_attribute("aria-label")
    assert "Beside it: RoPE" in label
    assert number("offset 10:", label) == close(alibi([40], [30], 8)[2, 0, 0])
    page.reload()
    page.wait_for_selector(f"{FIGURE}[live]")
    assert canvases(page).count() == 7
    page.go_back()
    assert "b.base" not in state(page)
    page.click("button:text-is('Stop comparing')")
    assert canvases(page).count() == 4


def test_the_tour_walks_by_keyboard(explore):
    page = explore()
    page.click("text=Take the tour")
    page.wait_for_selector(".explorer-tour")
    steps = 0
    while page.locator(".explorer-tour strong").count():
        steps += 1
        page.keyboard.press("Enter")
        settled(page)
    assert 5 <= steps <= 7
    assert state(page)["encoding"] == "none"
    page.go_back()
    assert state(page)["encoding"] == "alibi"


def test_the_python_that_it_shows_prints_what_it_reads(explore, capsys):
    page = explore("?encoding=rope&content=peak&peak=9&query=70&key=61&channel=3")
    similarity, cell = python_prints(page, capsys)
    assert number("similarity", reading(page)) == close(similarity)
    assert number("channel 3:", reading(page)) == close(cell)


def test_what_is_taken_along_has_both_views(explore, capsys):
    page = explore("?encoding=alibi&length=16&query=9&key=3&b.encoding=kerple")
    assert python_prints(page, capsys) == [alibi([9], [3], 8)[2, 0, 0], pytest.approx(-np.log1p(6))]
    name, content = download(page, "response", "CSV")
    assert name == "posenc-alibi-kerple-response.csv"
    assert content.decode().count("key n") == 2


def test_pictures_and_numbers_can_be_taken_along(explore):
    query = "?encoding=alibi&length=32&query=20&key=4"
    assert download(explore(query), "view", "PNG")[1].startswith(b"\x89PNG")
    tree = ET.fromstring(download(explore(query), "view", "SVG")[1])
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}image"))) >= 2
    assert "offset m − n" in "".join(tree.itertext())
    head, *rows = (line.split(",") for line in download(explore(query), "similarity", "CSV")[1].decode().splitlines())
    assert head[:3] == ["query m", "key 0", "key 1"]
    values = np.array([row[1:] for row in rows], float)
    np.testing.assert_allclose(values, alibi(np.arange(32), np.arange(32), 8)[2])


def test_the_numbers_stand_in_a_table_too(explore):
    page = explore("?encoding=t5&length=16&query=9&key=3&bidirectional=false")
    page.click("text=Numbers as a table")
    key, distance, value = page.wait_for_selector(".explorer-table tbody tr:nth-child(4)").inner_text().split()[:3]
    assert (key, distance) == ("3", "6")
    assert float(value.replace("−", "-")) == close(number("bias", reading(page)))


def test_the_link_can_be_copied(explore):
    page = explore("?encoding=t5")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("button:text-is('Copy link')")
    page.wait_for_selector("button:text-is('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_a_view_in_a_chapter_stays_a_picture_if_the_explorer_cannot_be_had(site, open_page):
    page = open_page()
    page.route("**/explorer/", lambda route: route.fulfill(status=200, body="<p>Maintenance</p>"))
    page.goto(f"{site}chapters/4-biases/families/")
    unfold(page)
    page.locator(FIGURE).scroll_into_view_if_needed()
    page.wait_for_timeout(600)
    assert page.locator(FIGURE).get_attribute("live") is None
    assert page.locator(f"{FIGURE} > .drawn-svg").is_visible()
    assert page.locator(f"{FIGURE} .stage").count() == 0


def test_settings_stay_beside_the_panels_on_a_laptop(explore):
    page = explore("?encoding=rope", width=1280, height=800)
    for panel in range(4):
        canvases(page).nth(panel).evaluate("(part) => part.scrollIntoView({ block: 'center' })")
        settled(page)
        assert page.evaluate(INSIDE, "[data-knob=base]"), f"the base is out of view with panel {panel}"


@pytest.mark.parametrize("size", [(390, 844), (360, 740)])
def test_a_phone_has_one_panel_and_the_knob_that_changes_it(explore, size):
    page = explore("?encoding=rope&scaling=llama3", width=size[0], height=size[1])
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    page.select_option("select[aria-label='Which setting']", "base")
    for panel, name in enumerate(("Pattern", "Matrix", "Response", "Pairs")):
        page.click(f".explorer-tabs button:text-is('{name}')")
        assert canvases(page).count() == 1
        page.evaluate(f"document.querySelector('{FIGURE} .explorer-main').scrollIntoView()")
        settled(page)
        assert page.evaluate(INSIDE, f"[data-i='{panel}'] canvas")
        assert page.evaluate(INSIDE, "[data-knob=base]")
        picture, slider = canvases(page).bounding_box(), page.locator("[data-knob=base]").bounding_box()
        assert picture["y"] + picture["height"] <= slider["y"] + 1, "the sheet covers the picture"
    page.evaluate(f"scrollBy(0, document.querySelector('{FIGURE} .explorer-main').getBoundingClientRect().top - 350)")
    settled(page)
    assert page.evaluate(INSIDE, "[data-knob=base]"), "the sheet leaves the screen with the panel's foot"


def test_a_phone_can_have_all_settings(explore):
    page = explore("?encoding=rope&scaling=llama3", width=390, height=844)
    knobs = page.locator(f"{FIGURE} .explorer-side [data-knob]:visible")
    assert knobs.count() == 1
    page.click("button:text-is('All settings')")
    assert knobs.count() > 8
    heights = page.locator(".explorer-tabs button, .explorer-acts button").evaluate_all(
        "(all) => all.map((button) => button.getBoundingClientRect().height)"
    )
    assert min(heights) >= 43
