"""Live figures in a real browser: all of them wake, every control moves the picture, nothing stays behind."""

import re
from pathlib import Path

import pytest

from galley.book import Book
from galley.cells import read
from tests.browser import axe
from tests.browser.live import settled

ROOT = Path(__file__).parents[2]
TEXTS = {name: read(name, text) for name, text in Book(ROOT).pages().items()}


def _path(name: str) -> str:
    inside = name.removeprefix("docs/").removesuffix(".md").removesuffix(".ipynb")
    return "" if inside == "index" else inside.removesuffix("index").rstrip("/") + "/"


LIVE = {_path(n): [b.options["live"] for b in p.blocks if "live" in b.options] for n, p in TEXTS.items()}
LIVE = {path: names for path, names in LIVE.items() if names}
PATHS = list(LIVE)

SEEN = """(figure) => {
  const letters = [...figure.querySelectorAll(':scope > .stage :is(p, output, td, li, code)')].map((e) => e.textContent)
  const marked = [...figure.querySelectorAll('[aria-pressed], [aria-label]')].map(
    (e) => e.ariaPressed + e.ariaLabel + e.className)
  const pictures = [...figure.querySelectorAll('canvas')].map((c) => c.toDataURL())
  return [...letters, ...marked, ...pictures].join('|')
}"""


def wake(page):
    """Scroll to each live figure until it has taken over, and return them."""
    figures = page.locator("posenc-figure").all()
    for figure in figures:
        figure.evaluate("(figure) => figure.scrollIntoView({ block: 'center' })")
        figure.locator("xpath=self::*[@live]").wait_for(state="attached", timeout=15_000)
    settled(page)
    return figures


def seen_after(figure, act) -> str:
    act()
    settled(figure.page)
    return figure.evaluate(SEEN)


@pytest.mark.parametrize("path", PATHS)
def test_every_figure_wakes_quietly_and_hides_its_still(site, visit, path):
    visited = visit(site + path)
    figures = wake(visited.page)
    assert [figure.get_attribute("name") for figure in figures] == LIVE[path]
    for figure in figures:
        assert not figure.locator(":scope > .drawn-svg").is_visible()
        assert figure.locator(".stage").is_visible()
        for canvas in figure.locator("canvas").all():
            assert len(canvas.get_attribute("aria-label")) > 10
    assert not visited.errors
    assert not visited.foreign(site)


@pytest.mark.parametrize("path", PATHS)
def test_every_control_moves_the_picture_from_the_keyboard(site, visit, path):
    visited, dead = visit(site + path), []
    for figure in wake(visited.page):
        for control in figure.locator("input[type=range], select, input[type=checkbox]").element_handles():
            if not control.is_visible():
                continue  # another choice has hidden it
            states = {seen_after(figure, act) for act in _turns(control)}
            if len(states) < 2:
                dead.append(f"{figure.get_attribute('name')}: {_named(control)}")
        for group in figure.locator("[role=radiogroup]").element_handles():
            if not group.is_visible():
                continue
            radios = group.query_selector_all("input")
            states = {seen_after(figure, lambda radio=radio: radio.press("Space")) for radio in [*radios, radios[0]]}
            if len(states) < 2:
                dead.append(f"{figure.get_attribute('name')}: {group.get_attribute('aria-label')}")
    assert not dead
    assert not visited.errors


def _turns(control):
    """Yield what a reader's keys can do to a control."""
    if control.evaluate("(input) => input.tagName") == "SELECT":
        for option in range(control.evaluate("(select) => select.options.length")):
            yield lambda option=option: control.select_option(index=option)
        yield lambda: control.select_option(index=0)
    elif control.get_attribute("type") == "checkbox":
        yield lambda: control.press("Space")
        yield lambda: control.press("Space")
    else:
        yield lambda: control.press("Home")
        for _ in range(3):
            yield lambda: control.press("ArrowRight")
        yield lambda: control.press("End")


def _named(control) -> str:
    return control.evaluate("(input) => input.ariaLabel ?? input.closest('label')?.innerText ?? input.outerHTML")


@pytest.mark.parametrize("path", PATHS)
def test_every_button_can_be_pressed_and_every_picture_pointed_at(site, visit, path):
    visited = visit(site + path)
    for figure in wake(visited.page):
        for button in figure.locator("button:visible").all():
            if button.is_visible() and button.is_enabled():
                button.press("Enter")
        settled(visited.page)
        for canvas in figure.locator("canvas:visible").all():
            canvas.scroll_into_view_if_needed()
            box = canvas.bounding_box()
            for share in (0.02, 0.3, 0.55, 0.98):
                visited.page.mouse.move(box["x"] + share * box["width"], box["y"] + share * box["height"])
            visited.page.mouse.down()
            visited.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.4 * box["height"])
            visited.page.mouse.up()
            if canvas.get_attribute("tabindex") == "0":
                for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):
                    canvas.press(key)
    settled(visited.page)
    assert not visited.errors
    assert not visited.foreign(site)


@pytest.mark.parametrize("path", PATHS)
def test_a_finger_can_use_every_figure_on_a_phone(site, visit, path):
    visited = visit(site + path, width=390, height=844, touch=True)
    for figure in wake(visited.page):
        box = figure.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        for canvas in figure.locator("canvas:visible").all():
            canvas.tap()
        for target in figure.locator("button:visible, select:visible, .stage-choice label:visible").all():
            assert target.bounding_box()["height"] >= 24, target.inner_text()
    assert visited.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not visited.errors


def test_the_film_plays_pauses_and_is_scrubbed(site, visit):
    page = visit(site + "chapters/1-sinusoidal/sinusoidal/", still=False).page
    figure = next(f for f in wake(page) if f.get_attribute("name") == "clock-film")
    place = figure.locator("input[type=range]").first
    before = float(place.input_value())
    page.wait_for_timeout(300)
    assert float(place.input_value()) == before, "nothing moves before it is asked to"
    figure.get_by_role("button", name="Play").click()
    page.wait_for_function("([place, before]) => place.value > before", arg=[place.element_handle(), before])
    figure.get_by_role("button", name="Pause").click()
    held = place.input_value()
    page.wait_for_timeout(300)
    assert place.input_value() == held
    place.press("Home")
    assert float(place.input_value()) == float(place.get_attribute("min"))


@pytest.mark.parametrize("path", ["chapters/1-sinusoidal/designing-a-code/", "chapters/3-rope/stretching/"])
def test_instant_navigation_there_and_back_leaves_nothing_behind(site, visit, path):
    """The theme itself keeps a few listeners and nodes at every turn: figures may not add to them."""
    plain, live = visit(site + path), visit(site + path)
    plain.page.route("**/kit/element.js", lambda route: route.abort())
    kept = {}
    for visited in (plain, live):
        _there_and_back(visited, site, path, live is visited)
        before = _held(visited.page)
        for _ in range(3):
            _there_and_back(visited, site, path, live is visited)
        kept[visited is live] = [after - now for after, now in zip(_held(visited.page), before, strict=True)]
        assert visited.documents == [site + path], "whole documents were loaded"
    assert kept[True] == kept[False]
    assert all(figure.locator(".stage").count() == 1 for figure in wake(live.page))
    assert not live.errors


def _there_and_back(visited, site, path, woken):
    for goal in ("chapters/1-sinusoidal/sinusoidal/", path):
        link = visited.page.locator(f'.md-nav--primary a[href$="/{goal.split("/")[-2]}/"]').first
        link.evaluate("(link) => link.click()")
        arrived = "(url) => document.querySelector('link[rel=canonical]').href === url"
        visited.page.wait_for_function(arrived, arg=site + goal)
        if woken:
            wake(visited.page)


def _held(page) -> list[int]:
    """Return how many listeners and documents the page holds, garbage aside."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return [metrics["JSEventListeners"], metrics["Documents"]]


def test_without_javascript_the_still_figures_stand(site, browser):
    page = browser.new_context(java_script_enabled=False).new_page()
    for path in PATHS:
        page.goto(site + path)
        figures = page.locator("posenc-figure").all()
        assert len(figures) == len(LIVE[path])
        for figure in figures:
            assert figure.locator(":scope > .drawn-svg svg").is_visible()
            assert figure.locator("xpath=following-sibling::figcaption").inner_text().strip()
    page.context.close()


def test_pages_without_live_figures_load_none_of_their_scripts(site, visit):
    visited = visit(site + "reference/speed/")
    loaded = [re.sub(r".*/assets/js/", "", url) for url in visited.requests if "/assets/js/" in url]
    assert sorted(loaded) == ["figures.js", "reach.js"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_live_figures(site, visit, scheme):
    visited, found = visit(site, scheme), []
    for path in PATHS:
        visited.page.goto(site + path, wait_until="load")
        wake(visited.page)
        found += axe.violations(visited.page, "'posenc-figure'")
    assert found == []


def test_a_figure_takes_the_colors_of_the_scheme(site, visit):
    page = visit(site + "chapters/1-sinusoidal/designing-a-code/").page
    figure = wake(page)[0]
    light = figure.locator("canvas").first.evaluate("(canvas) => canvas.toDataURL()")
    page.evaluate("document.body.setAttribute('data-md-color-scheme', 'slate')")
    settled(page)
    assert figure.locator("canvas").first.evaluate("(canvas) => canvas.toDataURL()") != light
