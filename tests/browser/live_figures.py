"""A live figure in the browser: waking it, setting its controls, reading the line under it.

`tests/scripts` compares each function of `docs/assets/js/math` with the package. A test of a figure in the browser
shows the rest: that its controls reach this mathematics and that the line under it reports what comes out.
"""

import json
import re
import time
from collections.abc import Callable
from typing import Any

PLAIN = str.maketrans({"\u2212": "-", "\u2019": "'", "\u2032": "'", "\u03c3": "SD", ",": None})
REPLY = ".stage-predict [role=status]"


def settled(page: Any) -> None:
    """Wait for two frames: what was asked for is drawn by then."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def until(page: Any, expression: str, arg: Any = None, seconds: float = 30.0) -> Any:
    """Ask a page again and again until it has an answer that is not false, and return it.

    The site's policy forbids what playwright's own waiting does: it makes code of a string between two frames.
    """
    from playwright.sync_api import Error  # where there is none, tests of the browser are skipped

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if answer := page.evaluate(expression, arg):
                return answer
        except Error as error:  # the page is leaving
            if "context was destroyed" not in str(error):
                raise
        page.wait_for_timeout(20)
    raise AssertionError(f"in {seconds} seconds this did not come true: {expression}")


def unfold(page: Any) -> None:
    """Open the sections of a chapter's depth."""
    page.evaluate("document.querySelectorAll('details.depth').forEach((section) => section.open = true)")


def awake(page: Any, name: str) -> Any:
    """Bring a live figure near the screen; return it once it is awake."""
    unfold(page)
    figure = page.locator(f'posenc-figure[name="{name}"]')
    figure.scroll_into_view_if_needed()
    page.wait_for_selector(f'posenc-figure[name="{name}"][live]')
    return figure


def wake(page: Any, name: str) -> tuple[Any, Any, Callable[[], str]]:
    """Wake a live figure; return it, the data of its page, and what reads the line under it."""
    figure = awake(page, name)
    return figure, json.loads(figure.get_attribute("data") or "null"), lambda: readout(figure)


def wake_all(page: Any) -> list[Any]:
    """Bring each live figure of a page near the screen until it has taken over, and return them."""
    unfold(page)
    figures = page.query_selector_all("posenc-figure")
    for figure in figures:
        figure.evaluate(
            """async (figure) => {
              figure.scrollIntoView({ block: "center" })
              if (figure.hasAttribute("live")) return
              await new Promise((done, failed) => {
                new MutationObserver(() => figure.hasAttribute("live") && done()).observe(figure, { attributes: true })
                setTimeout(() => failed(new Error(`${figure.getAttribute("name")} does not wake`)), 15_000)
              })
            }"""
        )
    settled(page)
    return figures


def plain(text: str) -> str:
    """Return a text in the characters of a keyboard, and without commas: 12,288 is 12288."""
    return text.translate(PLAIN)


def numbers(text: str) -> list[float]:
    """Return the numbers in a plain text, in order."""
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


def readout(figure: Any) -> str:
    """Return the line under a figure in plain text, once it is drawn again."""
    settled(figure.page)
    return plain(figure.locator(".stage-say").inner_text())


def label(figure: Any) -> str:
    """Return in plain text what the last picture of a figure tells those who cannot see it."""
    settled(figure.page)
    return plain(figure.locator("canvas").last.get_attribute("aria-label"))


def predict(figure: Any, answer: str | re.Pattern) -> str:
    """Give an answer to the question of a figure; return its reply in plain text."""
    figure.locator(".stage-predict").get_by_role("button", name=answer).click()
    return plain(figure.locator(REPLY).inner_text())


def slide(figure: Any, **values: float) -> None:
    """Move sliders to values, by their labels; where a label has a space, the argument has `_`."""
    for name, value in values.items():
        figure.get_by_role("slider", name=name.replace("_", " "), exact=True).fill(str(value))


def press(figure: Any, name: str, *keys: str, times: int = 1) -> None:
    """Press keys on the control with this label."""
    control = figure.get_by_label(name, exact=True)
    for key in times * keys:
        control.press(key)


def pick(figure: Any, option: str) -> None:
    """Pick one of a few options that stand beside each other, by its exact name."""
    figure.get_by_role("radio", name=option, exact=True).check(force=True)


def select(figure: Any, option: str) -> None:
    """Select one of many options, by its name, in a figure that has one such list."""
    figure.get_by_role("combobox").select_option(label=option)
