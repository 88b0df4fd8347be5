"""The reader of configurations in the browser: published ones, what is typed, and that nothing is sent."""

import json

import pytest

import posenc
from tests.browser.live import awake, said, settled, until
from tests.conftest import ROOT

pytestmark = pytest.mark.full

PAGE = "reference/read-a-config/"
SAMPLES = json.loads((ROOT / "docs/assets/data/configs.json").read_text(encoding="utf-8"))


@pytest.fixture
def reader(site, visit):
    """The awake figure, and what its page asked for since."""
    seen = visit(site + PAGE)
    figure = awake(seen.page, "read-config")
    figure.page.wait_for_selector(".reader-told:not(:empty)")
    return figure, seen


def told(figure):
    settled(figure.page)
    return figure.locator(".reader-told").inner_text()


def put(figure, text):
    before = told(figure)
    figure.locator("textarea").fill(text)
    until(figure.page, "(old) => document.querySelector('.reader-told').textContent !== old", arg=before)
    return told(figure)


def towers(plan):
    """Return the layers of a plan and of its parts."""
    return [*plan.layers, *(layer for part in plan.parts.values() for layer in towers(part))]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_published_configuration_is_drawn_layer_by_layer(reader, name):
    figure, seen = reader
    figure.locator("select").select_option(name)
    words = told(figure)
    plan = posenc.plan(SAMPLES[name])
    layers = towers(plan)
    turning = [layer for layer in layers if layer.theta is not None]
    assert words.startswith(f"{plan.model_type}: {len(layers)} layers")
    assert [layer.why for layer in turning if layer.why not in words] == []
    assert "refused" not in (figure.locator(".reader-told").get_attribute("class") or "")
    assert figure.locator(".reader-layers i").count() == len(layers)
    assert ("No layer" in said(figure)) == (not turning)
    tables = " ".join(figure.locator(".reader-table").all_inner_texts())
    assert all(f"{layer.base:,.0f}" in tables for layer in turning)
    scaled = [layer for layer in layers if layer.query_scale is not None]
    assert ("queries ×" in tables) == bool(scaled)
    assert not seen.errors


def test_what_is_typed_is_read_or_refused_in_words(reader):
    figure, seen = reader
    assert "no JSON yet" in put(figure, "{")
    assert said(figure) == ""
    assert "Paste a config.json" in put(figure, " ")
    assert "got 'nobody'" in put(figure, '{"model_type": "nobody"}')
    assert "another format" in put(figure, '{"dim": 4096, "n_layers": 32, "use_scaled_rope": true}')
    assert put(figure, json.dumps(SAMPLES["GPT-NeoX 20B"])).startswith("gpt_neox: 44 layers")
    wrong = SAMPLES["Llama 3.1 8B"] | {"rope_scaling": {"rope_type": "linear", "factr": 2.0, "factor": 2.0}}
    assert "did you mean factor?" in put(figure, json.dumps(wrong))
    strange = SAMPLES["Llama 3.1 8B"] | {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "whatever": 1}}
    assert put(figure, json.dumps(strange)).startswith("llama: 32 layers")
    assert "whatever is not read" in figure.locator(".reader-warnings").inner_text()
    assert "did you mean rope_theta?" in put(figure, json.dumps(SAMPLES["Llama 3.1 8B"] | {"rope_thet": 1e6}))
    assert not seen.errors


def test_nothing_is_sent(reader):
    figure, _ = reader
    asked = []
    figure.page.on("request", lambda request: asked.append(request.url))
    assert put(figure, json.dumps(SAMPLES["DeepSeek-V3"])).startswith("deepseek_v3")
    assert asked == []
