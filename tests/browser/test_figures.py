"""What all live figures promise: they wake, every control moves the picture, nothing stays behind."""

import itertools
import re
from collections.abc import Iterator

import pytest

from dev.changed import changed
from tests.browser import axe
from tests.browser.live_figures import settled, unfold, until, wake_all
from tests.browser.pages import LIVE, ONE_OF_EACH_KIND, assert_faultless, path_of

ARROWS = ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp")
LOOKS, TURNS = 3, 5
TOUCHED = {path_of(name) for name in changed() if name.startswith("docs/")}
TOUCHED |= LIVE.keys() if any(name.startswith("docs/assets/") for name in changed()) else ONE_OF_EACH_KIND
PATHS_IN_USE = [pytest.param(path, marks=() if path in TOUCHED else pytest.mark.full) for path in LIVE]
VIEWS = [(path, "explorer") for path in LIVE if "explorer" in LIVE[path] and path != "explorer/"]  # dear, and all alike

# What a figure shows, as a number: its words, what is pressed, every point of its pictures.
FINGERPRINT = """
  const frame = () => new Promise((done) => requestAnimationFrame(done))
  const isShown = (part) => part.checkVisibility({ visibilityProperty: true }) && part.getBoundingClientRect().width > 0
  const nameOf = (part) => part.ariaLabel ?? part.closest("label")?.innerText ?? part.outerHTML
  const hashOf = (figure) => {
    let hash = 2166136261
    const add = (number) => (hash = Math.imul(hash ^ number, 16777619))
    const words = [...figure.querySelectorAll(":scope > .stage :is(p:not(.stage-spoken), output, td, li, code)")]
      .map((e) => e.textContent) // what is spoken comes later
    const marks = [...figure.querySelectorAll("[aria-pressed], [aria-label]")].map(
      (e) => e.ariaPressed + e.ariaLabel + e.className)
    for (const letter of [...words, ...marks].join("|")) add(letter.codePointAt(0))
    for (const canvas of figure.querySelectorAll("canvas")) {
      if (!canvas.width || !canvas.height) continue
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
      for (const point of new Uint32Array(data.buffer)) add(point)
    }
    return hash
  }
"""
LOOK = f"(figure) => {{ {FINGERPRINT} return hashOf(figure) }}"
MOVED = f"""async ([figure, before]) => {{
  {FINGERPRINT}
  await frame()
  if (hashOf(figure) !== before) return true
  await frame()
  return hashOf(figure) !== before
}}"""

# Set each control to its least value, a step from it and its greatest, or to all that there are. The picture has two
# frames to move; where it has not, there are two steps more.
MOVE_EVERY_CONTROL = (
    f"async (figure) => {{ {FINGERPRINT}"
    + """
  const announce = (input) => {
    for (const kind of ["input", "change"]) input.dispatchEvent(new Event(kind, { bubbles: true }))
  }
  const slides = (input) => {
    const put = (value) => () => ((input.value = String(value)), announce(input))
    const steps = [1, 2, 3].map((n) => put(Number(input.min) + n * (Number(input.step) || 1)))
    return [[put(input.min), steps[0], put(input.max)], [put(input.min), ...steps.slice(1)]]
  }
  const choices = (input) => [[...input.options, input.options[0]].map(({ index }) => () => {
    input.selectedIndex = index
    announce(input)
  })]
  const presses = (...inputs) => [inputs.map((input) => () => input.click())]
  const moves = async ([first, ...others]) => {
    first()
    await frame()
    await frame()
    let [before, alive] = [hashOf(figure), false]
    for (const turn of others) {
      turn()
      await frame()
      if (alive ||= hashOf(figure) !== before) continue
      await frame()
      alive = hashOf(figure) !== before
    }
    return alive
  }
  const dead = []
  for (const control of figure.querySelectorAll("input[type=range], select, input[type=checkbox], [role=radiogroup]")) {
    if (!isShown(control)) continue // another choice has hidden it
    const radios = [...control.querySelectorAll("input")]
    const ways = control.type === "range" ? slides(control)
      : control.type === "checkbox" ? presses(control, control)
      : radios.length ? presses(...radios, radios[0]) : choices(control)
    let alive = false
    for (const turns of ways) alive ||= await moves(turns)
    if (!alive) dead.push(nameOf(control))
  }
  return dead
}"""
)

# Give the focus to the next control that a key should change, and tell whether the last key has changed the one before.
NEXT_CONTROL = (
    f"async (figure) => {{ {FINGERPRINT}"
    + """
  await frame() // until which a figure may disable what the last key made useless
  const state = (input) => (input.type === "range" ? input.value : String(input.checked))
  const { tried = new Set(), last, before } = figure.trial ?? {}
  const deaf = last && state(last) === before ? nameOf(last) : ""
  for (const input of figure.querySelectorAll("input:is([type=range], [type=checkbox], [type=radio])")) {
    if (tried.has(input) || !isShown(input) || input.disabled || (input.type === "radio" && input.checked)) continue
    if (input.type === "range") {
      input.value = input.min
      input.dispatchEvent(new Event("input", { bubbles: true }))
    }
    input.focus()
    figure.trial = { tried: tried.add(input), last: input, before: state(input) }
    return [deaf, input.type]
  }
  return [deaf, ""]
}"""
)


@pytest.mark.parametrize("path", PATHS_IN_USE)
def test_figures(site, visit, judged, path):
    """One visit: the still stands, wakes, can be read, moves at every control, bears every button and the pointer."""
    visited = visit(site + path)
    page = visited.page
    unfold(page)
    stills = "(figure) => figure.hasAttribute('live') || figure.querySelector(':scope > .drawn-svg').checkVisibility()"
    assert all(figure.evaluate(stills) for figure in page.query_selector_all("posenc-figure")), "a still is hidden"
    figures = wake_all(page)
    names = [figure.get_attribute("name") for figure in figures]
    assert names == LIVE[path]
    faults = []
    for name, figure in zip(names, figures, strict=True):
        faults += [f"{name}: {fault}" for fault in _faults_at_rest(figure)]
        if (path, name) not in VIEWS:
            faults += [f"{name}: {fault}" for fault in _faults_in_use(page, figure)]
    settled(page)
    faults += axe.unread_in_both_schemes(page, judged, "posenc-figure")
    assert_faultless(faults, visited, site)


@pytest.mark.full
@pytest.mark.parametrize(("path", "name"), VIEWS)
def test_a_view_of_the_explorer_in_a_chapter(site, visit, path, name):
    visited = visit(site + path)
    wake_all(visited.page)
    figure = visited.page.query_selector(f"posenc-figure[name={name}]")
    assert_faultless([f"{name}: {fault}" for fault in _faults_in_use(visited.page, figure)], visited, site)


def _faults_in_use(page, figure) -> list[str]:
    """Use all that a figure offers; return what does nothing."""
    faults = [f"nothing moves with {control}" for control in figure.evaluate(MOVE_EVERY_CONTROL)]
    faults += [f"no key moves {control}" for control in _deaf(page, figure)]
    return faults + _pressed_and_pointed_at(page, figure)


def _faults_at_rest(figure) -> list[str]:
    """Return what is wrong with a figure that has just woken, and with the still that it stands for."""
    state = figure.evaluate(
        """(figure) => {
          const part = (selector) => figure.querySelector(`:scope > ${selector}`)
          return {
            still: part(".drawn-svg").checkVisibility(),
            stage: part(".stage").checkVisibility(),
            alt: part(".drawn-svg:not([hidden]) svg[role=img]")?.ariaLabel,
            caption: figure.closest("figure").querySelector("figcaption")?.innerText.trim(),
            labels: [...figure.querySelectorAll("canvas")].map((canvas) => canvas.ariaLabel ?? ""),
          }
        }"""
    )
    wrong = {
        "its still stands beside it": state["still"],
        "its stage is not seen": not state["stage"],
        "its still has no words for those who cannot see it": not state["alt"],
        "it has no caption": not state["caption"],
    }
    faults = [fault for fault, is_so in wrong.items() if is_so]
    return faults + [f"a picture says only {label!r}" for label in state["labels"] if len(label) <= 10]


def _deaf(page, figure) -> list[str]:
    """Press a key on each control; return those whose value it does not change."""
    deaf = []
    name, kind = figure.evaluate(NEXT_CONTROL)
    while kind:
        page.keyboard.press("ArrowRight" if kind == "range" else "Space")
        name, kind = figure.evaluate(NEXT_CONTROL)
        if name:
            deaf.append(name)
    return deaf


def _pressed_and_pointed_at(page, figure) -> list[str]:
    """Press every button; go over every picture and drag in it; return which picture no pointer or no key moves."""
    for button in figure.query_selector_all("button"):
        if button.is_visible() and button.is_enabled():
            button.press("Enter")
    settled(page)
    faults = []
    for canvas in figure.query_selector_all("canvas"):
        if not canvas.is_visible():
            continue
        canvas.scroll_into_view_if_needed()
        listens = canvas.evaluate("(canvas) => canvas.style.touchAction !== ''")
        box = canvas.bounding_box()
        moved = _any_moves(page, figure, _pointing(page, box))
        if listens and not moved and not _any_moves(page, figure, _probing(page, box)):
            faults.append(f"no pointer moves {canvas.get_attribute('aria-label')}")
        steered = canvas.evaluate("(canvas) => canvas.tabIndex === 0")
        if steered and not _any_moves(page, figure, (canvas.press(key) for key in ARROWS)):
            faults.append(f"no arrow key moves {canvas.get_attribute('aria-label')}")
    return faults


def _in(page, box, across: float, down: float) -> None:
    page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])


def _pointing(page, box) -> Iterator[None]:
    """Go over a box with the mouse, and drag."""
    for share in (0.02, 0.3, 0.55, 0.98):
        yield _in(page, box, share, share)
    yield page.mouse.down()
    yield _in(page, box, 0.5, 0.4)
    yield page.mouse.up()


def _probing(page, box) -> Iterator[None]:
    """Press in many places of a box, and drag from each to its side."""
    for down, across in itertools.product((0.05, 0.2, 0.4, 0.6, 0.8), (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75)):
        _in(page, box, across, down)
        page.mouse.down()
        _in(page, box, across + 0.2, down)
        yield page.mouse.up()


def _any_moves(page, figure, acts) -> bool:
    """Tell whether one of the acts, which are done one by one, changes what the figure shows."""
    before = figure.evaluate(LOOK)
    moved = False
    for _ in acts:
        moved = moved or page.evaluate(MOVED, [figure, before])
    return moved


@pytest.mark.full
@pytest.mark.parametrize("path", ["chapters/1-sinusoidal/designing-a-code/", "chapters/3-rope/stretching/"])
def test_instant_navigation_there_and_back_leaves_nothing_behind(site, visit, path):
    """The theme itself keeps a few listeners and nodes at every turn: figures may not add to them."""
    plain, live = visit(site + path), visit(site + path)
    plain.page.route("**/kit/element.js", lambda route: route.abort())
    growth = {}
    for visited in (plain, live):
        counts = []
        for _ in range(TURNS):
            _there_and_back(visited, site, path, live is visited)
            counts.append(_listeners_and_documents(visited.page))
        growth[visited is live] = [after - before for before, after in zip(counts[0], counts[-1], strict=True)]
        assert visited.documents == [site + path], "whole documents were loaded"
    # Garbage may come late, so that some are there for now; a figure that keeps one keeps one at each of two wakings.
    assert all(live - plain < TURNS for live, plain in zip(growth[True], growth[False], strict=True)), growth
    assert all(len(figure.query_selector_all(".stage")) == 1 for figure in wake_all(live.page))
    assert not live.errors


def _there_and_back(visited, site, path, woken):
    for goal in ("chapters/1-sinusoidal/sinusoidal/", path):
        link = visited.page.locator(f'.md-nav--primary a[href$="/{goal.split("/")[-2]}/"]').first
        link.evaluate("(link) => link.click()")
        arrived = "(path) => document.querySelector('link[rel=canonical]').href.endsWith(path)"
        until(visited.page, arrived, arg=f"/{goal}")
        if woken:
            wake_all(visited.page)


def _listeners_and_documents(page) -> list[int]:
    """Return how many of both the page holds: the fewest of some looks, for garbage may come late."""
    session = page.context.new_cdp_session(page)
    looks = []
    session.send("Performance.enable")
    for _ in range(LOOKS):
        page.wait_for_timeout(200)
        session.send("HeapProfiler.collectGarbage")
        metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
        looks.append([metrics["JSEventListeners"], metrics["Documents"]])
    session.detach()
    return [min(counts) for counts in zip(*looks, strict=True)]


@pytest.mark.full
def test_without_scripts_a_browser_shows_the_stills(open_without_scripts):
    path = "chapters/1-sinusoidal/sinusoidal/"
    stills = open_without_scripts(path).locator("posenc-figure > .drawn-svg svg").all()
    assert len(stills) == len(LIVE[path])
    assert all(still.is_visible() for still in stills)


@pytest.mark.full
def test_pages_without_live_figures_load_none_of_their_scripts(site, visit):
    visited = visit(site + "reference/speed/")
    loaded = {re.sub(r".*/assets/js/", "", url) for url in visited.requests if "/assets/js/" in url}
    assert "figures.js" in loaded
    assert not {name for name in loaded if name.startswith(("kit/", "figures/", "math/"))} - {"kit/controls.js"}


@pytest.mark.full
def test_a_figure_takes_the_colors_of_the_scheme(site, visit):
    page = visit(site + "chapters/1-sinusoidal/designing-a-code/").page
    figure = wake_all(page)[0]
    light = figure.evaluate(LOOK)
    page.evaluate("document.body.setAttribute('data-md-color-scheme', 'slate')")
    settled(page)
    assert figure.evaluate(LOOK) != light
