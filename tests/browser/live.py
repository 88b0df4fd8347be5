"""A live figure in the browser: waking it, reading it, moving its sliders."""

import json
from collections.abc import Callable
from typing import Any

PLAIN = {0x2212: "-", 0x2019: "'"}


def settled(page: Any) -> None:
    """Wait for two frames: what was asked for is drawn by then."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def wake(page: Any, name: str) -> tuple[Any, Any, Callable[[], str]]:
    """Bring a live figure near the screen; return it, its data, and what reads its words."""
    found = page.locator(f'posenc-figure[name="{name}"]')
    found.scroll_into_view_if_needed()
    page.wait_for_selector(f'posenc-figure[name="{name}"][live]')

    def said() -> str:
        settled(page)
        return found.locator(".stage-say").inner_text().translate(PLAIN)

    return found, json.loads(found.get_attribute("data") or "null"), said


def put(figure: Any, **values: float) -> None:
    """Move sliders to values, by their labels."""
    for label, value in values.items():
        figure.get_by_role("slider", name=label.replace("_", " "), exact=True).fill(str(value))
