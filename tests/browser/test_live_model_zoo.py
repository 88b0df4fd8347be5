"""The strip of a model's wavelengths: what the page counts is what the package's frequencies give."""

import json
from pathlib import Path

import numpy as np
import pytest

from posenc.models.from_config import from_config
from posenc.rotate.frequencies import ntk, proportional, rope_frequencies
from tests.browser.live import put

pytestmark = pytest.mark.full

PAGE = "chapters/6-guide/model-zoo/"
MODELS = json.loads((Path(__file__).parents[2] / "docs/assets/data/models.json").read_text(encoding="utf-8"))["models"]


def never(theta, length: float) -> str:
    """Return how many pairs complete no turn, in the figure's words."""
    late = (theta * length < 2 * np.pi).sum()
    return f"Here {late} of {len(theta)} pairs never complete a turn {100 * late / len(theta):.0f}%."


@pytest.mark.parametrize(
    "name",
    ["GPT-NeoX-20B", "Gemma 3 4B, local", "DeepSeek-V3", "SmolLM3 3B", "Kimi K2.5", "Ministral 3 8B", "Muse Spark"],
)
def test_zoo_strip_of_a_model(figure, name):
    strip, _, said = figure(PAGE, "zoo-strip")
    strip.get_by_role("combobox").select_option(name)
    model = next(model for model in MODELS if model["name"] == name)
    config = {key: value for key, value in model["config"].items() if key != "rope_scaling"}
    theta = from_config(config, config.get("qk_rope_head_dim", model["head"]))[0]
    assert never(theta, min(model.get("trained", np.inf), model.get("window", np.inf))) in said()
    assert f"The slowest needs {2 * np.pi / theta[-1]:.0f} tokens for a turn." in said()


def test_zoo_strip_of_ones_own(figure):
    strip, _, said = figure(PAGE, "zoo-strip")
    strip.get_by_role("button", name="it halves").click()
    theta = rope_frequencies(256, 500_000.0)[0]
    answer = strip.locator(".stage-predict [role=status]").inner_text()
    assert f"No, it stays: {(theta * 8192 < 2 * np.pi).sum()} of 128, " in answer
    put(strip, channels_that_turn=64)
    assert never(rope_frequencies(64, 500_000.0)[0], 8192) in said()
    strip.get_by_role("checkbox").check()
    standing = proportional(256, 0.25, base=500_000.0)[0]
    assert standing[31] > 0 == standing[32]
    assert "the slow pairs stand still" in said()
    assert f"The slowest needs {2 * np.pi / standing[31]:.0f} tokens" in said()


def test_zoo_strip_raises_a_base(figure):
    strip, _, said = figure(PAGE, "zoo-strip")
    strip.get_by_role("combobox").select_option("LLaMA 7B")
    strip.get_by_role("slider", name="longest distance").press("End")
    strip.get_by_role("button", name="base by the NTK rule").click()
    assert never(ntk(128, 64, 10_000.0)[0], 2**17) in said()
    strip.get_by_role("button", name="base that keeps the share").click()
    part = np.log(2048 / (2 * np.pi)) / np.log(10_000)
    kept = (2**17 / (2 * np.pi)) ** (1 / part)
    assert never(rope_frequencies(128, kept)[0], 2**17) in said()
    strip.get_by_role("button", name="as published").click()
    assert never(rope_frequencies(128, 10_000.0)[0], 2048) in said()
