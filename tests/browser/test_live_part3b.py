"""The live figures of chapters 3.3 to 3.5, worked as a reader does, against the package."""

import json
import re

import numpy as np
import pytest

from posenc.models.checkpoints import layout_order
from posenc.models.from_config import from_config
from posenc.rotate import frequencies
from posenc.rotate.axial import axial
from posenc.rotate.frequencies import rope_frequencies
from posenc.rotate.rope import rope
from tests.browser.live import awake, said_plainly

pytestmark = pytest.mark.full


def live(visit, site, page, name):
    """Open a chapter and return its figure, alive, and what the page complained about."""
    seen = visit(f"{site}chapters/3-rope/{page}/")
    return awake(seen.page, name), seen


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, f"{pattern} is not in: {text}"
    return float(found[1].replace(",", ""))


def slide(figure, name, value):
    """Move a slider to where it shows a value, halving the way."""
    control = figure.get_by_role("slider", name=name, exact=True)
    low, high, step = (float(control.get_attribute(key)) for key in ("min", "max", "step"))
    low, high, wanted = 0, round((high - low) / step), float(value.replace(",", ""))
    for _ in range(12):
        middle = (low + high) // 2
        control.fill(f"{float(control.get_attribute('min')) + middle * step:g}")
        shown = control.get_attribute("aria-valuetext")
        if shown == value:
            return
        low, high = (middle + 1, high) if float(shown.replace(",", "")) < wanted else (low, middle)
    raise AssertionError(f"{name} never shows {value}")


def prices(theta, plain, trained, length):
    """Return overreach and squeeze as chapter 3.4 defines them."""
    turns = trained * plain / (2 * np.pi)
    over = (theta * length / (plain * trained))[turns < 1].max()
    return over, np.log2(plain / theta)[turns >= 1].mean()


def copied_lines(figure, dim, length):
    """Run the Python that a reader copies from the planner, and read its JSON, which makes the same; return the two."""
    scope = {}
    exec(figure.locator("pre").first.inner_text(), scope)
    theta, factor = from_config(json.loads(figure.locator("pre").last.inner_text()), dim, length)
    np.testing.assert_allclose(theta, scope["theta"], rtol=1e-12)
    assert factor == pytest.approx(scope["attention_factor"], rel=1e-12)
    return scope["theta"], scope["attention_factor"]


@pytest.mark.parametrize("recipe", ["NTK", "YaRN", "by parts", "Llama 3", "linear", "dynamic NTK"])
def test_planner(visit, site, recipe):
    figure, seen = live(visit, site, "stretching", "stretch-planner")
    figure.get_by_role("combobox", name="recipe").select_option(label=recipe)
    slide(figure, "factor", "16")
    slide(figure, "new length", "65,536")
    text, plain = said_plainly(figure), rope_frequencies(128)[0]
    theta, factor = {
        "NTK": lambda: frequencies.ntk(128, 16),
        "YaRN": lambda: frequencies.yarn(128, 16, 4096),
        "by parts": lambda: frequencies.by_parts(128, 16, 4096),
        "Llama 3": lambda: frequencies.llama3(128, 16, original_length=4096, base=1e4),
        "linear": lambda: frequencies.linear(128, 16),
        "dynamic NTK": lambda: frequencies.dynamic_ntk(128, 16, 65_536, 4096),
    }[recipe]()
    over, squeeze = prices(theta, plain, 4096, 65_536)
    assert number(r"overreach ([\d.]+\d)", text) == pytest.approx(over, abs=0.0051)
    assert number(r"Squeeze ([\d.]+\d)", text) == pytest.approx(squeeze, abs=0.0051)
    assert number(r"Logits × ([\d.]+\d)", text) == pytest.approx(factor**2, abs=0.00051)
    if over > 1.01:
        assert number(r"up to ([\d,]+) tokens", text) == pytest.approx(65_536 / over, abs=1.1)
    copied = copied_lines(figure, 128, 65_536)
    np.testing.assert_array_equal(copied[0], theta)
    assert copied[1] == factor
    assert not seen.errors


def test_planner_reads_the_configurations(visit, site):
    figure, seen = live(visit, site, "stretching", "stretch-planner")
    wanted = {  # model: the theta of its config, its base, trained length, longest
        "Llama 3.1 8B": (frequencies.llama3(128), 5e5, 8192, 131_072),
        "gpt-oss": (frequencies.yarn(64, 32, 4096, 150_000, truncate=False), 150_000, 4096, 131_072),
        "DeepSeek-V3": (frequencies.yarn(64, 40, 4096, mscale=1.0, mscale_all_dim=1.0), 1e4, 4096, 163_840),
        "Gemma 3": (frequencies.linear(256, 8, 1e6), 1e6, 32_768, 131_072),
    }
    for model, ((theta, factor), base, trained, length) in wanted.items():
        figure.get_by_role("combobox", name="model").select_option(label=model)
        text = said_plainly(figure)
        over, squeeze = prices(theta, rope_frequencies(2 * len(theta), base)[0], trained, length)
        assert number(r"overreach ([\d.]+\d)", text) == pytest.approx(over, abs=0.0051), model
        assert number(r"Squeeze ([\d.]+\d)", text) == pytest.approx(squeeze, abs=0.0051), model
        copied = copied_lines(figure, 2 * len(theta), length)
        np.testing.assert_array_equal(copied[0], theta)
        assert copied[1] == factor
    assert not seen.errors


def test_planner_copies_its_lines(visit, site):
    figure, seen = live(visit, site, "stretching", "stretch-planner")
    seen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    figure.get_by_role("button", name="Copy", exact=True).click()
    figure.get_by_role("button", name="Copied", exact=True).wait_for()
    copied = seen.page.evaluate("navigator.clipboard.readText()")
    assert copied == figure.locator("pre").first.inner_text()
    figure.get_by_role("button", name="Copy for config.json").click()
    assert seen.page.evaluate("navigator.clipboard.readText()") == figure.locator("pre").last.inner_text()
    slide(figure, "factor", "2")
    for name in ("Copy", "Copy for config.json"):
        assert figure.get_by_role("button", name=name, exact=True).count() == 1


def test_peak_of_the_answers_wanders(visit, site):
    figure, seen = live(visit, site, "stretching", "copy-back")
    for factor in ("2", "5"):
        slide(figure, "factor", factor)
        named = number(r"linear names the token (\d+)", said_plainly(figure))
        assert abs(named - 4 * int(factor)) <= 1  # as the page asserts
    assert not seen.errors


@pytest.mark.parametrize("code", ["interleaved", "half"])
@pytest.mark.parametrize("rows", ["interleaved", "half"])
def test_shuffled_channels(visit, site, rows, code):
    figure, seen = live(visit, site, "layouts", "layout-shuffle")
    figure.get_by_role("slider", name="rows").press("End" if rows == "half" else "Home")
    figure.get_by_role("radio", name="half-split" if code == "half" else "interleaved").check()
    text = said_plainly(figure)
    rng = np.random.default_rng(0)  # as the page draws them
    q, k = rng.normal(size=(2, 3, 8))
    order = layout_order(8, "half") if rows == "half" else np.arange(8)
    turned = [rope(x[:, order], np.arange(3), layout=code) for x in (q, k)]
    score = (turned[0] @ turned[1].T)[1, 0]
    assert number(r"the score is (-?[\d.]+\d)", text) == pytest.approx(score, abs=0.00051)
    assert number(r"(\d) of 8 keep their speed", text) == (8 if rows == code else 2)
    slide(figure, "channel", "6")
    pair, place = 3, int(np.flatnonzero(order == 6)[0])
    turns_with = np.flatnonzero(abs(rope(np.eye(8), np.ones(8), layout=code)[place]) > 1e-9)
    other = int(turns_with[turns_with != place][0])
    text = said_plainly(figure)
    assert f"Channel 6 belongs to channel 7, at θ{'₀₁₂₃'[pair]} = 0.001." in text
    assert f"its place {place} with place {other}, where channel {order[other]} lies" in text
    assert not seen.errors


@pytest.mark.parametrize(("name", "degrees"), [("two axes", 90.0), ("four", 45.0), ("golden", 90 * (5**0.5 - 1))])
def test_needles(visit, site, name, degrees):
    figure, seen = live(visit, site, "more-axes", "kernel-directions")
    figure.get_by_role("button", name=name, exact=True).click()
    slide(figure, "ring", "10")
    slide(figure, "pairs", "20")
    angle, way = np.radians(degrees) * np.arange(20), 2 * np.pi * np.arange(180) / 180
    theta = 100.0 ** (-np.arange(20) / 20) * np.stack([np.sin(angle), np.cos(angle)])
    places, ones = 10 * np.stack([np.sin(way), np.cos(way)], axis=-1), np.ones((180, 40))
    kernel = axial(ones, places, theta=theta) @ np.ones(40) / 40
    assert number(r"spread ([\d.]+\d)", said_plainly(figure)) == pytest.approx(kernel.std(), abs=0.00051)
    assert not seen.errors
