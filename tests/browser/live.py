"""A live figure in the browser: waking it, reading it, moving its sliders."""

import json
import time
from collections.abc import Callable
from typing import Any

PLAIN = {0x2212: "-", 0x2019: "'"}


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


def open_search(page: Any) -> None:
    """Open the search with a key, once the theme listens to keys and has shut what was open on the page before."""
    page.locator(".md-search-result__meta", has_text="Type to start searching").wait_for(state="attached")
    page.evaluate("() => new Promise((done) => setTimeout(done, 300))")
    page.keyboard.press("/")


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


def said(figure: Any) -> str:
    """Return the line under a figure, once it is drawn again."""
    settled(figure.page)
    return figure.locator(".stage-say").inner_text()


def said_plainly(figure: Any) -> str:
    """Return that line with the minus signs and apostrophes of a keyboard."""
    return said(figure).translate(PLAIN)


def wake(page: Any, name: str) -> tuple[Any, Any, Callable[[], str]]:
    """Wake a live figure; return it, its data, and what reads its words."""
    figure = awake(page, name)
    return figure, json.loads(figure.get_attribute("data") or "null"), lambda: said_plainly(figure)


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


def put(figure: Any, **values: float) -> None:
    """Move sliders to values, by their labels."""
    for label, value in values.items():
        figure.get_by_role("slider", name=label.replace("_", " "), exact=True).fill(str(value))
