"""The reader of configurations: published ones, what is typed, and that nothing of it is sent."""

import json

import pytest

import posenc
from tests.browser.live_figures import awake, plain, readout, settled, until
from tests.conftest import ROOT

pytestmark = pytest.mark.full

SAMPLES = json.loads((ROOT / "docs/assets/data/configs.json").read_text(encoding="utf-8"))
LLAMA = SAMPLES["Llama 3.1 8B"]


@pytest.fixture
def reader(open_page):
    """Return the figure, once it has read its first configuration."""
    figure = awake(open_page("reference/read-a-config/"), "read-config")
    figure.page.wait_for_selector(".reader-told:not(:empty)")
    return figure


def answer(figure):
    settled(figure.page)
    return figure.locator(".reader-told").inner_text()


def paste(figure, text):
    """Put a text, or what stands for it in JSON, in place of the one before; return the answer to it."""
    before = answer(figure)
    figure.locator("textarea").fill(text if isinstance(text, str) else json.dumps(text))
    until(figure.page, "(old) => document.querySelector('.reader-told').textContent !== old", arg=before)
    return answer(figure)


def all_layers(plan):
    """Return the layers of a plan and of its parts."""
    return [*plan.layers, *(layer for part in plan.parts.values() for layer in all_layers(part))]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_published_configuration_is_drawn_layer_by_layer(reader, name):
    reader.locator("select").select_option(name)
    plan = posenc.plan(SAMPLES[name])
    layers = all_layers(plan)
    turning = [layer for layer in layers if layer.theta is not None]
    assert answer(reader).startswith(f"{plan.model_type}: {len(layers)} layers")
    assert [layer.why for layer in turning if layer.why not in answer(reader)] == []
    assert "refused" not in (reader.locator(".reader-told").get_attribute("class") or "")
    assert reader.locator(".reader-layers i").count() == len(layers)
    assert ("No layer" in readout(reader)) == (not turning)
    tables = plain(" ".join(reader.locator(".reader-table").all_inner_texts()))
    assert [layer.base for layer in turning if f"{layer.base:.0f}" not in tables] == []
    assert ("queries ×" in tables) == any(layer.query_scale is not None for layer in layers)


def test_what_is_typed_is_read_or_refused_in_words(reader):
    linear = {"rope_type": "linear", "factor": 2.0}
    assert "no JSON yet" in paste(reader, "{")
    assert readout(reader) == ""
    assert "Paste a config.json" in paste(reader, " ")
    assert "got 'nobody'" in paste(reader, {"model_type": "nobody"})
    assert "another format" in paste(reader, {"dim": 4096, "n_layers": 32, "use_scaled_rope": True})
    assert paste(reader, SAMPLES["GPT-NeoX 20B"]).startswith("gpt_neox: 44 layers")
    assert "did you mean factor?" in paste(reader, LLAMA | {"rope_scaling": linear | {"factr": 2.0}})
    assert paste(reader, LLAMA | {"rope_scaling": linear | {"whatever": 1}}).startswith("llama: 32 layers")
    assert "whatever is not read" in reader.locator(".reader-warnings").inner_text()
    assert "did you mean rope_theta?" in paste(reader, LLAMA | {"rope_thet": 1e6})


def test_nothing_is_sent(reader):
    requests = []
    reader.page.on("request", lambda request: requests.append(request.url))
    assert paste(reader, SAMPLES["DeepSeek-V3"]).startswith("deepseek_v3")
    assert requests == []
