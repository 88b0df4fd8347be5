"""The explorer in a browser: what its tests read and set."""

import re
import urllib.parse

from tests.browser.live import settled

FIGURE = "posenc-figure[name=explorer]"


def reading(page):
    """The sentence that the explorer says now."""
    settled(page)
    return page.locator(".explorer-reading").text_content()


def number(pattern, text):
    found = re.search(pattern + r" ([−\d.,]+\d)", text)
    assert found, f"no {pattern} in: {text}"
    return float(found[1].replace("−", "-").replace(",", ""))


def knob(page, name):
    return page.locator(f"{FIGURE} [data-knob={name}] input").first


def focus(page, name):
    """Put the keyboard on a knob once it is shown: a hidden one takes no focus, and no error says so."""
    shown = knob(page, name)
    shown.wait_for(state="visible")
    shown.focus()


def state(page):
    """What the address says, once it is written: by the page's own clock, which runs late on a busy machine."""
    query = page.evaluate("() => new Promise((done) => setTimeout(() => done(location.search), 400))")
    return dict(urllib.parse.parse_qsl(query.removeprefix("?"), keep_blank_values=True))


def choose(page, encoding):
    page.select_option(f"{FIGURE} [data-knob=encoding] select", encoding)
