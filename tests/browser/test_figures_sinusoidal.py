"""The live figures of Part 1: what each says after a reader's moves is what attention and sinusoids give."""

import numpy as np
import pytest
import torch
from torch import nn

from posenc.add.sinusoidal import kernel, sinusoidal, wavelengths
from tests.browser.live_figures import label, numbers, pick, predict, press, settled, slide
from tests.scripts.javascript import Script

pytestmark = pytest.mark.full

PART = "chapters/1-sinusoidal/"
MASKS = Script("math/masks.js")
MOVED = [0, 2, 3, 1, 4, 5]  # the words of the sentence, with the second one moved right twice


def attended(order, numbered):
    """Return weights, outputs and the average output of the page's layer, by word, for the words in an order."""
    sentence = ["the", "cat", "sat", "on", "the", "mat"]
    generator = torch.Generator().manual_seed(3)
    vectors = {word: torch.randn(32, generator=generator) for word in sorted(set(sentence))}
    torch.manual_seed(42)
    layer = nn.MultiheadAttention(32, 4, batch_first=True).eval().double()
    x = torch.stack([vectors[sentence[i]] for i in order])[None].double()
    if numbered:
        x = x + torch.tensor(sinusoidal(np.arange(6), 32))
    with torch.no_grad():
        outputs, weights = (result[0].numpy() for result in layer(x, x, x))
    seat = np.argsort(order)
    return weights[np.ix_(seat, seat)], outputs[seat], outputs.mean(axis=0)


def test_drag_words(open_figure):
    figure, _, readout = open_figure(f"{PART}order-blindness/", "drag-words")
    for _ in range(2):
        figure.get_by_role("button", name="Move right →").press("Enter")
    assert readout().startswith("“the sat on cat the' mat”: “cat” at position 3 gives most weight")
    assert numbers(readout())[1] == pytest.approx(attended(MOVED, False)[0][1].max(), abs=1e-3)
    assert readout().count("has not changed") == 2
    assert label(figure).endswith(readout().split(": ")[1])

    figure.get_by_label("add a position vector to each token").check()
    weights, outputs, mean = attended(MOVED, True)
    before, old, average = attended(range(6), True)
    changes = [np.linalg.norm(outputs[1] - old[1]), np.linalg.norm(mean - average)]
    expected = [3, weights[1].max(), before[1, weights[1].argmax()], *changes]
    assert numbers(readout()) == pytest.approx(expected, abs=6e-3)

    box = figure.locator("canvas").bounding_box()
    mouse = figure.page.mouse
    mouse.move(box["x"] + 46 + 5.5 * 46, box["y"] + 20)  # the card of "mat"
    mouse.down()
    mouse.move(box["x"] + 46 + 0.5 * 46, box["y"] + 20, steps=5)
    mouse.up()
    assert readout().startswith("“mat the sat on cat the'”")
    figure.locator("canvas").press("ArrowRight")
    assert readout().startswith("“the mat sat on cat the'”")


def orders_told_apart(mask, seat, depth):
    """Return how many orders of the tokens it depends on the output at `seat` tells apart, and how many there are."""
    view = MASKS("view(allowed, 8, seat, depth)", allowed=np.ravel(mask).tolist(), seat=seat, depth=depth)
    return [view["distinct"], view["orders"]]


def test_mask_painter(open_figure):
    figure, _, readout = open_figure(f"{PART}no-encoding/", "mask-painter")
    m, n = np.indices((8, 8))
    assert "a bag" in readout()
    assert numbers(readout()) == [1, 7, 7, 7, orders_told_apart(n <= m, 7, 1)[1]]
    pick(figure, "prefix of 4")
    slide(figure, layers=2)
    assert numbers(readout()) == [2, 7, 7, 7, *orders_told_apart((n <= m) | (n < 4), 7, 2)]
    pick(figure, "no mask")
    assert "a bag" in readout()
    figure.get_by_role("button", name="Hide key 0 from query 1").press("Enter")
    assert numbers(readout()) == [2, 7, 7, 7, *orders_told_apart((m != 1) | (n != 0), 7, 2)]
    assert figure.get_by_label("painted by you").is_checked()

    assert predict(figure, "4 layers").startswith("Yes.")
    assert readout().startswith("After 4 layers")
    slide(figure, layers=2, output_at_token=3)
    distinct, orders = orders_told_apart((n <= m) & (m - n < 3), 3, 2)
    assert distinct == orders
    assert numbers(readout()) == [2, 3, 3, 7, orders, 4]


def test_bits_and_hands(open_figure):
    figure, _, readout = open_figure(f"{PART}designing-a-code/", "bits-and-hands")
    theta = 2 * np.pi / 2.0 ** np.arange(1, 7)
    stride = np.linalg.norm(np.exp(1j * theta) - 1)

    def assert_step(p):
        flips = (p ^ (p + 1)).bit_count()
        assert readout().startswith(f"Position {p} is {p:06b}. The step to {p + 1} ")
        assert numbers(readout())[2:] == pytest.approx([p + 1, flips, 6, flips**0.5, stride], abs=6e-3)
        assert label(figure).endswith(readout())

    assert_step(21)
    figure.locator("canvas").last.press("ArrowRight")
    assert_step(22)
    assert predict(figure, "all flip, a step like any other").startswith("Yes. 6 bits")
    assert_step(31)
    press(figure, "position", "End")
    assert "Position 63 is 111111 the last" in readout()


def test_clock_film(open_figure):
    figure, _, readout = open_figure(f"{PART}sinusoidal/", "clock-film", still=False)
    before = readout()
    figure.page.wait_for_timeout(300)
    assert readout() == before, "it moves before it is asked to"
    press(figure, "time", "Home")
    press(figure, "time", "ArrowRight", times=12)
    pick(figure, "100")
    slow, fast = 31, 0
    turns = 120 / wavelengths(64)[[fast, slow]]
    assert numbers(readout())[:5] == pytest.approx([1.2, 120, fast, turns[0], slow], rel=0.02)
    assert numbers(readout())[5] == pytest.approx(turns[1], rel=0.02)

    figure.get_by_role("button", name="Play").press("Enter")
    figure.locator(".stage-say", has_text="t = 2").wait_for()
    figure.get_by_role("button", name="Pause").press("Enter")
    settled(figure.page)
    stopped = readout()
    figure.page.wait_for_timeout(300)
    assert readout() == stopped

    longest = wavelengths(64)[slow]
    assert numbers(predict(figure, "half a day"))[:2] == pytest.approx([longest, longest / 3600], rel=5e-3)
    assert figure.get_by_label("1,000", exact=True).is_checked()


def test_token_scale(open_figure):
    figure, data, readout = open_figure(f"{PART}adding/", "token-scale")
    loud_token, loud_position = data["shares"][-1]
    assert loud_token > 0.9 > 0.5 > loud_position, "tokens and positions have their own shares"
    for step in (0, 27, 40):
        slide(figure, **{"\u03c3, the scale of tokens": step})
        token, position = data["shares"][step]
        assert numbers(readout())[0] == pytest.approx(data["scales"][step], rel=0.05)
        assert numbers(readout())[-2:] == pytest.approx([100 * token, 100 * position], abs=0.51)


def verdict(heads):
    """Say which heads have found an offset: the most of their weight, and twice an even share, on 1 or 3 back."""
    tops = [int(np.argmax(head)) if max(head) > 2 / len(head) else None for head in heads]
    found = {name: top for name, top in zip("AB", tops, strict=True) if top in (1, 3)}
    if len(found) < 2:
        return f"Only head {next(iter(found))} has found an offset." if found else "Neither head has found an offset."
    same = found["A"] == found["B"]
    return f"Both attend {found['A']} back." if same else "Each has found one of the two offsets."


def test_trained_head(open_figure):
    figure, data, readout = open_figure(f"{PART}in-a-transformer/", "trained-head")
    for run, step in ((1, 7), (1, 30), (0, 0), (0, 3), (0, 12)):
        figure.get_by_role("radio").nth(run).check()
        slide(figure, step_of_training=10 * step)
        heads, loss = data["runs"][run]["looks"][step], data["runs"][run]["losses"][step]
        expected = [10 * step, loss, 1, 3, *(head[back] for head in heads for back in (1, 3))]
        assert numbers(readout())[:8] == pytest.approx(expected, abs=0.006)
        assert readout().endswith(f" {verdict(heads)}")
    assert predict(figure, "both 1 back").startswith("Yes: at step")
    assert "Both attend 1 back" in readout()


def test_clock_wedges(open_figure):
    figure, _, readout = open_figure(f"{PART}geometry/", "clock-wedges")
    for position, offset in ((0, 3), (4.5, 3), (6, 5.1)):
        slide(figure, position_p=position, offset_Δ=offset)
        expected = kernel(offset, 8, base=16)
        assert readout().startswith(f"Positions {position:.1f} and {position + offset:.1f}:")
        assert numbers(readout())[-2:] == pytest.approx([offset, expected], abs=0.006)
        assert sum(numbers(label(figure))[2:-1]) == pytest.approx(expected, abs=0.02)
