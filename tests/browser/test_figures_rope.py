"""The live figures of Part 3: pairs that rotate, partial rotation, context extension, layouts, axes, latent keys."""

import json
import re

import numpy as np
import pytest

from posenc.models.checkpoints import layout_order
from posenc.models.from_config import from_config
from posenc.rotate import frequencies
from posenc.rotate.axial import axial
from posenc.rotate.frequencies import proportional, rope_frequencies
from posenc.rotate.rope import RoPE, rope
from tests.browser.live_figures import pick, plain, predict, press, settled, slide

pytestmark = pytest.mark.full

PART = "chapters/3-rope/"
DERIVATION, EFFECT = f"{PART}derivation/", f"{PART}what-rope-does/"


def number(pattern, text):
    match = re.search(pattern, text)
    assert match, f"{pattern} is not in: {text}"
    return float(match[1])


def slide_to(figure, name, value):
    """Move a slider, which may have a scale of its own, to where it shows a value: by halving."""
    control = figure.get_by_role("slider", name=name, exact=True)
    least, greatest, step = (float(control.get_attribute(key)) for key in ("min", "max", "step"))
    low = 0
    high = round((greatest - least) / step)
    while low <= high:
        middle = (low + high) // 2
        control.fill(f"{least + middle * step:g}")
        reached = float(plain(control.get_attribute("aria-valuetext")))
        if reached == value:
            return
        low, high = (middle + 1, high) if reached < value else (low, middle - 1)
    raise AssertionError(f"{name} never shows {value}")


def test_rope_dials(open_figure):
    figure, data, readout = open_figure(DERIVATION, "rope-dials")
    query, key = np.array([data["query"]]), np.array([data["key"]])
    last, far = data["last"], data["far"]

    def dot_product():
        rotated = (rope(x, [p], layout="interleaved", theta=data["theta"]) for x, p in ((query, last), (key, 5)))
        return f"{np.vdot(*rotated):.2f}"

    press(figure, "query at m", "End")
    slide(figure, key_at_n=5)
    before = dot_product()
    assert readout().startswith(f"Query at {last} key at 5 Δ = {last - 5}: ")
    assert readout().endswith(f"q · k = {before}.")
    press(figure, "shift both", "End")
    assert readout().startswith(f"Query at {last + far} key at {5 + far} ")
    assert readout().endswith(f"q · k = {before}.")
    figure.locator("canvas").first.press("ArrowLeft")  # rotates the query's first vector by five degrees
    first = complex(*query[0, :2]) * np.exp(1j * np.radians(5))
    query[0, :2] = first.real, first.imag
    assert dot_product() != before
    assert readout().endswith(f"q · k = {dot_product()}.")


def test_a_dragged_vector_of_rope_dials_points_where_it_was_dropped(open_figure):
    figure, data, _ = open_figure(DERIVATION, "rope-dials")
    canvas = figure.locator("canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    cell = box["width"] / len(data["theta"])
    radius = min(0.43 * cell, 78)
    x, y = box["x"] + cell / 2, box["y"] + radius
    figure.page.mouse.move(x + 20, y)
    figure.page.mouse.down()
    figure.page.mouse.move(x + 40, y + 60)
    figure.page.mouse.up()
    settled(figure.page)
    assert number(r"Pair 0: (\d\.\d\d) ", canvas.get_attribute("aria-label")) == pytest.approx(40 / radius, abs=0.02)


def test_rope_hands(open_figure):
    figure, data, readout = open_figure(EFFECT, "rope-hands")
    theta = np.array(data["theta"])
    pairs = len(theta)
    tries = data["tries"]
    figure.get_by_role("button", name=f"Draw {tries} times").click()
    slide(figure, distance_Δ=20)
    starts = 2 * np.pi * np.random.RandomState(data["seed"]).random_sample((tries, pairs))
    up = np.repeat([1.0, 0.0], pairs)

    def product(start, distance):
        query = np.concatenate([np.cos(start), np.sin(start)])[None]
        return (rope(query, [distance], theta=theta) @ up).item()

    equal, built = product(np.zeros(pairs), 20), product(-data["built"] * theta, 20)
    far, near = (np.array([product(start, distance) for start in starts]) for distance in (20, 0))
    assert f"with equal phases q · k is {equal:.1f} of {pairs} with random ones {far[-1]:.1f} with" in readout()
    assert f"it is {built:.1f}. Random ones" in readout()
    assert readout().endswith(f"lower here than at distance 0: {(far < near).sum()} of {tries}.")
    figure.locator(".stage-predict button").last.click()
    assert f"The key {data['bet']} back" in readout()
    assert f"with those built for {data['bet']} it is {pairs}.0." in readout()


def test_rope_channels(open_figure):
    figure, data, readout = open_figure(EFFECT, "rope-channels")
    slide(figure, rotated_pairs=46)
    press(figure, "context", "ArrowLeft")
    dim = data["dim"]
    context = data["context"] // 2
    far = np.arange(context // 2 + 1, context + 1)
    assert readout().startswith(f"Rotated pairs: 46 of 64. Within {context}: ")
    for name, options in {
        "partial RoPE": {"rotary_dim": 92},
        "p-RoPE": {"theta": proportional(dim, 46 / 64)[0]},
        "full RoPE": {"theta": rope_frequencies(dim)[0]},
    }.items():
        complete = (np.array(RoPE(dim, **options).theta) * context >= 2 * np.pi).sum()
        match = 100 * (rope(np.ones((len(far), dim)), far, **options) @ np.ones(dim)).mean() / dim
        share = number(rf"{name}: {complete} complete a rotation (-?\d+)% of a match", readout())
        assert share == pytest.approx(match, abs=0.51)


def assert_costs(line, theta, plain_theta, trained, length):
    """Assert overreach and squeeze, as chapter 3.4 defines them; return the overreach."""
    turns = trained * plain_theta / (2 * np.pi)
    overreach = (theta * length / (plain_theta * trained))[turns < 1].max()
    assert number(r"overreach ([\d.]+\d)", line) == pytest.approx(overreach, abs=0.0051)
    squeeze = np.log2(plain_theta / theta)[turns >= 1].mean()
    assert number(r"Squeeze ([\d.]+\d)", line) == pytest.approx(squeeze, abs=0.0051)
    return overreach


def assert_copied(figure, theta, factor, length):
    """Run the Python that a reader copies from the planner, and read its JSON: both give what they should."""
    scope = {}
    exec(figure.locator("pre").first.inner_text(), scope)
    np.testing.assert_array_equal(scope["theta"], theta)
    assert scope["attention_factor"] == factor
    config = json.loads(figure.locator("pre").last.inner_text())
    np.testing.assert_allclose(np.hstack(from_config(config, 2 * len(theta), length)), [*theta, factor], rtol=1e-12)


RECIPES = {  # at a head of 128 channels, base 10,000, trained on 4,096 tokens, sixteen times longer
    "NTK": frequencies.ntk(128, 16),
    "YaRN": frequencies.yarn(128, 16, 4096),
    "by parts": frequencies.by_parts(128, 16, 4096),
    "Llama 3": frequencies.llama3(128, 16, original_length=4096, base=1e4),
    "PI": frequencies.linear(128, 16),
    "dynamic NTK": frequencies.dynamic_ntk(128, 16, 65_536, 4096),
}
PUBLISHED = {  # frequencies and attention factor, base, trained length, greatest length
    "Llama 3.1 8B": (frequencies.llama3(128), 5e5, 8192, 131_072),
    "gpt-oss": (frequencies.yarn(64, 32, 4096, 150_000, truncate=False), 150_000, 4096, 131_072),
    "DeepSeek-V3": (frequencies.yarn(64, 40, 4096, mscale=1.0, mscale_all_dim=1.0), 1e4, 4096, 163_840),
    "Gemma 3": (frequencies.linear(256, 8, 1e6), 1e6, 32_768, 131_072),
}


def test_stretch_planner(open_figure):
    figure, _, readout = open_figure(f"{PART}stretching/", "stretch-planner")
    for recipe, (theta, factor) in RECIPES.items():
        figure.get_by_role("combobox", name="recipe").select_option(label=recipe)
        slide_to(figure, "factor", 16)
        slide_to(figure, "new length", 65_536)
        overreach = assert_costs(readout(), theta, rope_frequencies(128)[0], 4096, 65_536)
        assert number(r"Logits × ([\d.]+\d)", readout()) == pytest.approx(factor**2, abs=0.00051)
        if overreach > 1.01:
            assert number(r"up to (\d+) tokens", readout()) == pytest.approx(65_536 / overreach, abs=1.1)
        assert_copied(figure, theta, factor, 65_536)
    for model, ((theta, factor), base, trained, length) in PUBLISHED.items():
        figure.get_by_role("combobox", name="model").select_option(label=model)
        assert_costs(readout(), theta, rope_frequencies(2 * len(theta), base)[0], trained, length)
        assert_copied(figure, theta, factor, length)


def test_stretch_planner_copies_its_lines(open_figure):
    figure, _, _ = open_figure(f"{PART}stretching/", "stretch-planner")
    page = figure.page
    code = figure.locator("pre")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    figure.get_by_role("button", name="Copy", exact=True).click()
    figure.get_by_role("button", name="Copied", exact=True).wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == code.first.inner_text()
    figure.get_by_role("button", name="Copy for config.json").click()
    assert page.evaluate("navigator.clipboard.readText()") == code.last.inner_text()
    slide_to(figure, "factor", 2)
    for name in ("Copy", "Copy for config.json"):
        assert figure.get_by_role("button", name=name, exact=True).count() == 1


def test_copy_back(open_figure):
    figure, _, readout = open_figure(f"{PART}stretching/", "copy-back")
    for factor in (2, 5):
        slide_to(figure, "factor", factor)
        assert number(r"PI names the token (\d+)", readout()) == pytest.approx(4 * factor, abs=1)


@pytest.mark.parametrize("code", ["interleaved", "half"])
@pytest.mark.parametrize("rows", ["interleaved", "half"])
def test_layout_shuffle(open_figure, rows, code):
    figure, _, readout = open_figure(f"{PART}layouts/", "layout-shuffle")
    press(figure, "rows", "End" if rows == "half" else "Home")
    pick(figure, "half-split" if code == "half" else "interleaved")
    q, k = np.random.default_rng(0).normal(size=(2, 3, 8))  # as the page draws them
    order = layout_order(8, "half") if rows == "half" else np.arange(8)
    turned_q, turned_k = (rope(x[:, order], np.arange(3), layout=code) for x in (q, k))
    assert number(r"q · k is (-?[\d.]+\d)", readout()) == pytest.approx(turned_q[1] @ turned_k[0], abs=0.00051)
    assert f"{8 if rows == code else 2} of 8 keep their frequency" in readout()
    slide(figure, channel=6)
    place = int(np.flatnonzero(order == 6)[0])
    turned_with = np.flatnonzero(abs(rope(np.eye(8), np.ones(8), layout=code)[place]) > 1e-9)
    other = int(turned_with[turned_with != place][0])
    assert "Channel 6 belongs to channel 7 at θ₃ = 0.001." in readout()
    assert f"its index {place} with index {other} where channel {order[other]} lies" in readout()


@pytest.mark.parametrize(("name", "degrees"), [("two axes", 90.0), ("four", 45.0), ("golden", 90 * (5**0.5 - 1))])
def test_kernel_directions(open_figure, name, degrees):
    figure, _, readout = open_figure(f"{PART}more-axes/", "kernel-directions")
    figure.get_by_role("button", name=name, exact=True).click()
    slide_to(figure, "ring", 10)
    slide_to(figure, "pairs", 20)
    angle = np.radians(degrees) * np.arange(20)
    way = 2 * np.pi * np.arange(180) / 180
    theta = 100.0 ** (-np.arange(20) / 20) * np.stack([np.sin(angle), np.cos(angle)])
    places = 10 * np.stack([np.sin(way), np.cos(way)], axis=-1)
    kernel = axial(np.ones((180, 40)), places, theta=theta) @ np.ones(40) / 40
    assert number(r"spread ([\d.]+\d)", readout()) == pytest.approx(kernel.std(), abs=0.00051)


def test_latent_cache(open_figure):
    figure, data, readout = open_figure(f"{PART}latent-attention/", "latent-cache")
    usual = data["latent"] + data["rotary"]
    assert f"are {usual} numbers a token and layer" in readout()
    slide(figure, heads=16, latent=256, rotated_key=32)
    assert "A latent of 256 and a rotated key of 32 are 288 numbers a token and layer" in readout()
    assert f"keys and values of 16 heads are {2 * 16 * data['width']}" in readout()
    predict(figure, f"{usual:,}")
    assert f"keys and values of {data['heads']} heads are {2 * data['heads'] * data['width']}" in readout()
