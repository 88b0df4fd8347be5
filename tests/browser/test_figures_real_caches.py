"""The live figures of Part 7 on caches and distances: which tokens become sinks, and how far attention reaches."""

import json
import re

import numpy as np
import pytest

from tests.browser.live_figures import numbers, pick, predict, select, slide
from tests.conftest import ROOT

pytestmark = pytest.mark.full

PART = "chapters/7-real/"
REAL = json.loads((ROOT / "docs/assets/data/real.json").read_text(encoding="utf-8"))
SINKS, ATTENTION = REAL["caches"]["sinks"], REAL["where"]["attention"]


def test_sink_cases(open_figure):
    figure, data, readout = open_figure(f"{PART}sinks-and-caches/", "sink-cases")
    measured = {
        "as it is": ("as it is", "0", "0"),
        "token 128 attends to itself alone": ("token 128 sees itself alone", "0 and 128", "0 and 128"),
        "two documents": ("two documents, hidden from each other", "0 and 128", "0 and 128"),
        "token 0 is masked from others": ("first token hidden", "0 and 1", "0 and 1"),
        "positions restart at 128": ("positions restart at 128", "0", "0"),
    }
    for name, (key, large, alone) in measured.items():
        select(figure, name)
        slide(figure, layer=15)
        assert f"As large as a sink: {large}. Attend to themselves alone: {alone}." in readout()
        weights = [float(weight) for weight in re.findall(r"([\d.]+) to token", readout())]
        assert np.allclose(weights, SINKS[key]["weight"][15], atol=0.0056)  # two digits of three
    assert predict(figure, "a second sink").startswith("Yes")
    assert figure.get_by_role("combobox", name="case").input_value() == "token 128 attends to itself alone"
    canvas = figure.locator("canvas")
    canvas.press("ArrowDown")
    assert figure.get_by_role("combobox", name="case").input_value() == "two documents"
    canvas.press("ArrowRight")
    assert "In layer 16" in readout()
    assert len(data["cases"]) == len(SINKS)


def test_attention_reach(open_figure):
    figure, data, readout = open_figure(f"{PART}where-it-looks/", "attention-reach")

    def share(how, layer=None):
        weight, first = np.array(ATTENTION[how]["weight"]), np.array(ATTENTION[how]["first"])
        rows = slice(None) if layer is None else slice(layer, layer + 1)
        return 100 * first[rows].mean(), 100 * weight[rows, :5].sum(axis=1).mean()

    def said():
        first, near = re.findall(r"(\d+)% (?:of its weight )?to the (?:first|nearest)", readout())
        return float(first), float(near)

    even = 100 * sum(data["even"][:5])
    assert f"would give these {even:.1f}%" in readout()
    assert np.allclose(said(), share("as it is"), atol=0.51)
    pick(figure, "no rotation")
    assert "without rotation" in readout()
    assert np.allclose(said(), share("nothing turned"), atol=0.51)
    pick(figure, "as it is")
    slide(figure, layer=11)
    assert readout().startswith("In layer 11 as trained")
    assert np.allclose(said(), share("as it is", 11), atol=0.51)
    figure.locator("canvas").press("ArrowRight")
    assert readout().startswith("In layer 12")
    assert predict(figure, "evenly to all").startswith("Yes: evenly")
    assert readout().startswith("On the mean of all layers without rotation")
    pick(figure, "times an even spread")
    assert numbers(readout())
