"""The explorer in a browser: what it reads out, its address and history, its keyboard, what it hands out, its pace."""

import gzip
import re
import statistics
import urllib.parse
from pathlib import Path

import numpy as np
import pytest

from posenc.add.sinusoidal import kernel, sinusoidal, wavelengths
from posenc.bias.alibi import alibi
from posenc.bias.kerple import kerple
from posenc.rotate.frequencies import yarn
from posenc.rotate.rope import rope
from tests.browser.exploring import FIGURE, choose, focus, knob, number, reading, state
from tests.browser.live import settled, unfold

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
SIZES = {(256, 128): 16, (512, 256): 40}  # milliseconds that a redraw should take at most, at length and width
KINDS = (ROOT / "docs/assets/js/explorer/kinds.js").read_text(encoding="utf-8")
ENCODINGS = re.findall(r"^  (\w+): \{", KINDS, re.M)
MOVE_EVERY_KNOB = """async () => {
  const host = document.querySelector("posenc-figure[name=explorer]")
  host.dataset.measure = ""
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))
  for (const knob of host.querySelectorAll("[data-knob]:not([hidden])")) {
    const slide = knob.querySelector("input[type=range]")
    if (!slide || ["length", "width"].includes(knob.dataset.knob)) continue
    const [from, low, high] = [slide.value, Number(slide.min), Number(slide.max)]
    for (let i = 0; i < 12; i++) {
      slide.value = String(low + ((high - low) * ((i * 5) % 12)) / 12)
      slide.dispatchEvent(new Event("input", { bubbles: true }))
      await frame()
    }
    slide.value = from
    slide.dispatchEvent(new Event("input", { bubbles: true }))
    await frame()
  }
  return performance.getEntriesByName("explorer redraw").map((entry) => entry.duration)
}"""


def test_what_it_reads_out_is_what_the_package_says(explore):
    seen = explore("?length=200&width=32&base=500&query=150&key=30&channel=5&first=7")
    said = reading(seen.page)
    assert said.startswith("Query at 157, key at 37, distance 120:")
    assert number("similarity", said) == pytest.approx(kernel(120, 32, 500), rel=5e-3)
    assert number("channel 5:", said) == pytest.approx(sinusoidal([157], 32, 500)[0, 5], rel=5e-3)
    assert number("wavelength", said) == pytest.approx(wavelengths(32, 500)[2], rel=5e-3)
    seen = explore(
        "?encoding=rope&scaling=yarn&width=64&factor=8&original_length=100&content=random&seed=3&query=90&key=20"
    )
    theta, factor = yarn(64, 8, 100)
    q, k = np.random.RandomState(3).standard_normal((2, 1, 64))
    turned = [rope(x, np.array([p]), theta=theta, attention_factor=factor)[0] for x, p in ((q, 90), (k, 20))]
    assert number("similarity", reading(seen.page)) == pytest.approx(turned[0] @ turned[1], rel=5e-3)
    seen = explore("?encoding=alibi&heads=12&head=9&query=100&key=40")
    assert number("bias", reading(seen.page)) == pytest.approx(alibi([100], [40], 12)[9, 0, 0], rel=5e-3)
    label = seen.page.locator(f"{FIGURE} canvas").nth(1).get_attribute("aria-label")
    assert number("n 40:", label) == pytest.approx(alibi([100], [40], 12)[9, 0, 0], rel=5e-3)
    assert not seen.errors


def test_it_compares_itself_with_the_package(explore):
    page = explore().page
    line = page.wait_for_selector(".explorer-judge:not(:empty)").text_content()
    worst, points = re.search(r"to (\d+e−\d+|the last bit) at (\d+) points", line).groups()
    assert worst == "the last bit" or float(worst.replace("−", "-")) < 1e-9
    assert int(points) >= 48


def test_knobs_turn_by_keyboard_and_the_address_follows(explore):
    page = explore("?encoding=kerple&form=power&head=1&words=").page
    focus(page, "key")
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    said = reading(page)
    assert "key at 53" in said
    expected = kerple([80], [53], np.array([1.0]), np.array([1.0]), "power").item()
    assert number("bias", said) == pytest.approx(expected, rel=5e-3)
    assert state(page) == {"encoding": "kerple", "form": "power", "head": "1", "key": "53"}


def test_a_knob_that_goes_and_comes_back_brings_the_others_back(explore):
    page = explore("?encoding=alibi&words=").page
    before = reading(page)
    for name, value in (("length", "128"), ("heads", "8")):
        focus(page, name)
        page.keyboard.press("Home")
        assert reading(page) != before
        knob(page, name).fill(value)
        assert reading(page) == before
    knob(page, "key").fill("80")
    assert "bias 0." in reading(page)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_arrow_keys_move_in_every_panel(explore, encoding):
    page = explore(f"?encoding={encoding}&length=64&query=40&key=20&channel=3&causal=false").page
    for panel in range(4):
        canvas = page.locator(f"{FIGURE} canvas").nth(panel)
        canvas.focus()
        for key in ("ArrowRight", "ArrowDown"):
            before = canvas.get_attribute("aria-label")
            page.keyboard.press(key)
            settled(page)
            assert canvas.get_attribute("aria-label") != before, f"{key} does nothing in panel {panel}"


def test_a_pointer_looks_and_a_click_stays(explore):
    page = explore("?length=64").page
    before = reading(page)
    canvas = page.locator(f"{FIGURE} canvas").nth(1)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 150)
    hovered = reading(page)
    assert hovered != before
    page.mouse.move(box["x"] + 100, box["y"] - 200)
    assert reading(page) == before
    page.mouse.click(box["x"] + 100, box["y"] + 150)
    page.mouse.move(box["x"] + 100, box["y"] - 200)
    assert reading(page) == hovered
    place = re.match(r"Query at (\d+), key at (\d+)", hovered)
    assert state(page) == {"length": "64", "query": place[1], "key": place[2]}


def test_back_and_forward_go_through_the_views(explore):
    seen = explore()
    page = seen.page
    choose(page, "alibi")
    focus(page, "heads")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert state(page) == {"encoding": "alibi", "heads": "12"}
    choose(page, "t5")
    assert state(page)["encoding"] == "t5"
    page.go_back()
    assert "bias" in reading(page)
    assert state(page) == {"encoding": "alibi", "heads": "12"}
    assert knob(page, "heads").input_value() == "12"
    page.go_back()
    assert state(page) == {"encoding": "alibi"}
    page.go_back()
    assert state(page) == {}
    assert reading(page).startswith("“man” and “dog”, 3 words back")
    page.go_forward()
    page.go_forward()
    settled(page)
    assert knob(page, "heads").input_value() == "12"
    assert not seen.errors
    assert len(seen.documents) == 1


@pytest.mark.parametrize(
    "query",
    [
        "?encoding=nonsense&length=many&width=-5&%ZZ=1&base",
        "?length=1e99&query=9e9&seed=NaN&causal=perhaps&=&&",
        "?length&q",
    ],
)
def test_a_bad_address_does_no_harm(explore, query):
    seen = explore(query)
    assert re.match(r"Query at \d+, key at \d+, distance −?\d+: similarity", reading(seen.page))
    assert not seen.errors


def test_links_to_states_work_on_the_page_itself_and_from_others(explore, site):
    seen = explore()
    page = seen.page
    page.click("a:text('The last bucket')")
    assert state(page) == {"encoding": "t5", "max_distance": "32", "causal": "true", "length": "128"}
    assert "bias" in reading(page)
    page.click(".md-logo >> nth=0")
    page.wait_for_url(site)
    page.go_back()
    page.wait_for_selector(f"{FIGURE}[live]")
    assert knob(page, "max_distance").input_value() == "32"
    page.go_back()
    assert state(page) == {}
    assert reading(page).startswith("“man” and “dog”")
    assert len(seen.documents) == 1
    assert not seen.errors


def test_the_python_that_it_shows_prints_what_it_reads(explore, capsys):
    page = explore("?encoding=rope&content=peak&peak=9&query=70&key=61&channel=3").page
    page.click("text=The Python that makes this")
    code = page.wait_for_selector(".explorer-python code:not(:empty)").text_content()
    exec(compile(code, "snippet", "exec"), {})
    similarity, cell = map(float, capsys.readouterr().out.split())
    said = reading(page)
    assert number("similarity", said) == pytest.approx(similarity, rel=5e-3)
    assert number("channel 3:", said) == pytest.approx(cell, rel=5e-3)


@pytest.mark.parametrize("kind", ["PNG", "SVG", "CSV"])
def test_pictures_and_numbers_can_be_taken_along(explore, kind):
    import xml.etree.ElementTree as ET

    seen = explore("?encoding=alibi&length=32&query=20&key=4")
    page = seen.page
    page.click("text=Pictures and numbers")
    page.select_option("select[aria-label='What to download']", "similarity" if kind == "CSV" else "view")
    with page.expect_download() as waited:
        page.click(f"button:text-is('{kind}')")
    content = Path(waited.value.path()).read_bytes()
    if kind == "PNG":
        assert content.startswith(b"\x89PNG")
    elif kind == "SVG":
        tree = ET.fromstring(content)
        assert len(list(tree.iter("{http://www.w3.org/2000/svg}image"))) >= 2
        assert "distance m − n" in "".join(tree.itertext())
    else:
        rows = [line.split(",") for line in content.decode().splitlines()]
        assert rows[0][:3] == ["query m", "key 0", "key 1"]
        numbers = np.array([row[1:] for row in rows[1:]], float)
        np.testing.assert_allclose(numbers, alibi(np.arange(32), np.arange(32), 8)[2])
    assert not seen.errors


def test_the_tour_walks_by_keyboard(explore):
    seen = explore()
    page = seen.page
    page.click("text=Take the tour")
    page.wait_for_selector(".explorer-tour")
    steps = []
    while page.locator(".explorer-tour").count():
        steps.append(page.locator(".explorer-tour strong").text_content())
        page.keyboard.press("Enter")
        settled(page)
    assert 5 <= len(steps) <= 7
    assert state(page)["encoding"] == "none"
    page.go_back()
    assert state(page)["encoding"] == "alibi"
    assert not seen.errors


def test_the_numbers_stand_in_a_table_too(explore):
    page = explore("?encoding=t5&length=16&query=9&key=3&bidirectional=false").page
    page.click("text=Numbers as a table")
    cells = page.wait_for_selector(".explorer-table tbody tr:nth-child(4)").inner_text().split()
    assert cells[:2] == ["3", "6"]
    assert float(cells[2].replace("−", "-")) == pytest.approx(number("bias", reading(page)), rel=5e-3)


def test_a_view_in_a_chapter_stays_a_picture_if_the_explorer_cannot_be_had(site, visit):
    seen = visit(site)
    page = seen.page
    page.route("**/explorer/", lambda route: route.fulfill(status=200, body="<p>Maintenance</p>"))
    page.goto(f"{site}chapters/4-biases/families/")
    unfold(page)
    page.locator(FIGURE).scroll_into_view_if_needed()
    page.wait_for_timeout(600)
    assert page.locator(FIGURE).get_attribute("live") is None
    assert page.locator(f"{FIGURE} > .drawn-svg").is_visible()
    assert page.locator(f"{FIGURE} .stage").count() == 0
    assert not seen.errors


def test_what_the_page_loads_is_small(explore):
    seen = explore()
    seen.page.wait_for_selector(".explorer-judge:not(:empty)")
    loaded = {urllib.parse.urlparse(url).path.partition("/assets/js/")[2] for url in seen.requests}
    files = [ROOT / "docs/assets/js" / name for name in loaded if name.endswith(".js") and name != "accessibility.js"]
    assert len(files) > 10
    assert sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) <= 84 * 1000


TIMED = [*ENCODINGS, "rope&content=tokens", "pope&content=tokens"]


@pytest.mark.parametrize("encoding", [TIMED[0], *(pytest.param(each, marks=pytest.mark.slow) for each in TIMED[1:])])
def test_how_long_a_redraw_takes(explore, encoding, capsys):
    """Print it, with what it should be: how fast this machine is no test can know."""
    for (length, width), most in SIZES.items():
        page = explore(f"?encoding={encoding}&length={length}&width={width}").page
        took = page.evaluate(MOVE_EVERY_KNOB)
        assert len(took) > 12
        median, worst = statistics.median(took), max(took)
        with capsys.disabled():
            print(f"\n{encoding:20} {length}×{width}: median {median:.1f} ms of {most}, worst {worst:.1f}", end="")
