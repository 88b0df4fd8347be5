"""The live figures of chapters 1.1 to 1.4, set as a reader sets them, against the package."""

import re
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import nn

from posenc.add.sinusoidal import sinusoidal, wavelengths
from posenc.attention import attention
from tests.browser.live import awake, settled

pytestmark = pytest.mark.full

CHAPTER = "chapters/1-sinusoidal/"


def said(figure, *parts):
    """Return the line under a figure once it holds all `parts`."""
    line = figure.locator(".stage-say")
    for part in parts:
        line.filter(has_text=part).wait_for()
    text = line.inner_text()
    assert figure.locator("canvas").get_attribute("aria-label").endswith(text.split(": ", 1)[-1])
    return text


def numbers(text):
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def sentence(order, numbered):
    """The weights, outputs and average of the page's layer, for the words in an order, by word."""
    words = ["the", "cat", "sat", "on", "the", "mat"]
    generator = torch.Generator().manual_seed(3)
    vectors = {word: torch.randn(32, generator=generator) for word in sorted(set(words))}
    torch.manual_seed(42)
    layer = nn.MultiheadAttention(32, 4, batch_first=True).eval().double()
    x = torch.stack([vectors[words[i]] for i in order])[None].double()
    x = x + numbered * torch.tensor(sinusoidal(np.arange(6), 32))
    with torch.no_grad():
        outputs, weights = (found[0].numpy() for found in layer(x, x, x))
    back = np.argsort(order)
    return weights[np.ix_(back, back)], outputs[back], outputs.mean(axis=0)


def test_drag_words(site, visit):
    seen = visit(f"{site}{CHAPTER}order-blindness/")
    figure = awake(seen.page, "drag-words")
    for _ in range(2):
        figure.get_by_role("button", name="Move right →").press("Enter")
    text = said(figure, "the sat on cat the\u2032 mat")
    weights, outputs, mean = sentence([0, 2, 3, 1, 4, 5], False)
    assert numbers(text)[0] == 3
    np.testing.assert_allclose(numbers(text)[1], weights[1].max(), atol=1e-3)
    assert text.count("has not changed") == 2

    figure.get_by_label("write the seat number on each card").check()
    text = said(figure, "has changed")
    (weights, outputs, mean), (old, before, average) = (
        sentence(order, True) for order in ([0, 2, 3, 1, 4, 5], range(6))
    )
    far = [np.linalg.norm(outputs[1] - before[1]), np.linalg.norm(mean - average)]
    expected = [3, weights[1].max(), old[1, weights[1].argmax()], *far]
    np.testing.assert_allclose(numbers(text), expected, atol=6e-3)

    canvas = figure.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    seen.page.mouse.move(box["x"] + 46 + 5.5 * 46, box["y"] + 20)  # the card of "mat"
    seen.page.mouse.down()
    seen.page.mouse.move(box["x"] + 46 + 3 * 46, box["y"] + 20, steps=5)
    seen.page.mouse.move(box["x"] + 46 + 0.5 * 46, box["y"] + 20, steps=5)
    seen.page.mouse.up()
    said(figure, "mat the sat on cat the\u2032")
    canvas.press("ArrowRight")
    said(figure, "the mat sat on cat the\u2032")
    assert not seen.errors


def apart(sight, seat, depth, others):
    """How many orders of the tokens of `others` a network of the package's attention tells apart at `seat`."""
    generator = torch.Generator().manual_seed(2)
    length = len(sight)
    seating = np.tile(np.arange(length), (len(list(permutations(others))), 1))
    seating[:, others] = list(permutations(others))
    x = torch.randn(length, 6, generator=generator, dtype=torch.float64)[seating]
    for _ in range(depth):
        q, k, v = (x @ torch.randn(3, 1, 6, 6, generator=generator, dtype=torch.float64) / 2)[:, :, None]
        x = torch.tanh(x + attention(q, k, v, mask=torch.tensor(sight))[:, 0])
    return len(np.unique(x[:, seat].numpy().round(9), axis=0)), len(x)


def test_mask_painter(site, visit):
    seen = visit(f"{site}{CHAPTER}no-encoding/")
    figure = awake(seen.page, "mask-painter")
    layers = figure.get_by_label("layers", exact=True)
    m, n = np.indices((8, 8))
    assert numbers(said(figure, "a bag")) == [1, 7, 7, 7, apart(n <= m, 7, 1, range(7))[1]]

    figure.get_by_label("prefix of 4").check()
    layers.press("ArrowRight")
    told, orders = apart((n <= m) | (n < 4), 7, 2, range(7))
    assert numbers(said(figure, "After 2 layers", "apart")) == [2, 7, 7, 7, told, orders]

    figure.get_by_label("no mask").check()
    said(figure, "a bag")
    figure.get_by_role("button", name="Hide key 0 from query 1").press("Enter")
    told, orders = apart((m != 1) | (n != 0), 7, 2, range(7))
    assert numbers(said(figure, "apart")) == [2, 7, 7, 7, told, orders]
    assert figure.get_by_label("painted by you").is_checked()

    figure.get_by_role("button", name="4 layers").click()
    said(figure, "After 4 layers")
    figure.get_by_label("output at token").press("ArrowLeft")
    layers.press("ArrowLeft")
    layers.press("ArrowLeft")
    told, orders = apart((n <= m) & (m - n < 3), 6, 2, range(2, 6))
    assert told == orders
    assert numbers(said(figure, "After 2 layers", "output 6")) == [2, 6, 4, 7, orders, 3]
    assert not seen.errors


def test_bits_and_hands(site, visit):
    seen = visit(f"{site}{CHAPTER}designing-a-code/")
    figure = awake(seen.page, "bits-and-hands")
    hands = 2 * np.pi / 2.0 ** np.arange(1, 7)
    moved = np.linalg.norm(np.exp(1j * hands) - 1)

    def step(p):
        told = figure.locator(".stage-say", has_text=f"The step to {p + 1} ").inner_text()
        flipped = (p ^ (p + 1)).bit_count()
        assert told.startswith(f"Position {p} is {p:06b}.")
        np.testing.assert_allclose(numbers(told)[2:], [p + 1, flipped, 6, flipped**0.5, moved], atol=6e-3)
        assert figure.locator("canvas").last.get_attribute("aria-label").endswith(told)

    step(21)
    figure.locator("canvas").last.press("ArrowRight")
    step(22)
    figure.get_by_role("button", name="all flip, a step like any other").click()
    step(31)
    assert figure.locator(".stage-predict [role=status]").inner_text().startswith("Yes. 6 bits")
    figure.get_by_label("position", exact=True).press("End")
    figure.locator(".stage-say", has_text="Position 63 is 111111, the last").wait_for()
    assert not seen.errors


def test_clock_film(site, visit):
    seen = visit(f"{site}{CHAPTER}sinusoidal/", still=False)
    figure = awake(seen.page, "clock-film")
    time = figure.get_by_label("time", exact=True)
    time.press("Home")
    for _ in range(12):
        time.press("ArrowRight")
    figure.get_by_label("100", exact=True).check()
    text = said(figure, "t = 1.2 s")
    turns = 120 / wavelengths(64)[[0, 31]]
    assert numbers(text)[:2] == [1.2, 120]
    np.testing.assert_allclose(numbers(text)[3::2], turns, rtol=0.02)
    assert [numbers(text)[2], numbers(text)[4]] == [0, 31]

    play = figure.get_by_role("button", name="Play")
    play.press("Enter")
    figure.locator(".stage-say", has_text="t = 2").wait_for()
    figure.get_by_role("button", name="Pause").press("Enter")
    settled(seen.page)
    stopped = figure.locator(".stage-say").inner_text()
    assert numbers(stopped)[0] > 1.3
    seen.page.wait_for_timeout(300)
    assert figure.locator(".stage-say").inner_text() == stopped

    figure.get_by_role("button", name="half a day").click()
    reply = figure.locator(".stage-predict [role=status]").inner_text()
    longest = wavelengths(64)[31]
    np.testing.assert_allclose(numbers(reply)[:2], [longest, longest / 3600], rtol=5e-3)
    assert figure.get_by_label("1,000", exact=True).is_checked()
    assert not seen.errors
