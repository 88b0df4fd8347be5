"""The live figures of chapters 7.1 and 7.2: rows and layouts of a real model, and what each mistake costs it."""

import json
from itertools import product

import numpy as np
import pytest

from tests.browser.live_figures import numbers, pick, plain, predict
from tests.conftest import ROOT

pytestmark = pytest.mark.full

PART = "chapters/7-real/"
DATA = ROOT / "docs/assets/data/real.json"
LEDGER = json.loads(DATA.read_text(encoding="utf-8"))["ledger"]
TRAINED = LEDGER["as it was trained"]


def cost(name):
    """Return what a change costs, in nats a token."""
    return np.mean(LEDGER[name]["loss"]) - np.mean(TRAINED["loss"])


def writes(figure):
    """Return what the model is said to go on with."""
    return figure.locator(".stage-writes b").inner_text().split()


WAYS = {
    ("as in the file", "interleaved"): "as it was trained",
    ("as in the file", "half"): "interleaved rows turned as halves",
    ("in halves", "interleaved"): "rows in halves turned as interleaved",
    ("in halves", "half"): "rows reordered and turned in their new layout",
    ("in halves, queries only", "half"): "rows of queries in halves, of keys interleaved",
}


def test_rows_and_turns(open_figure):
    figure, _, readout = open_figure(f"{PART}a-real-model/", "rows-and-turns")
    assert writes(figure) == TRAINED["writes"].split()
    for rows, code in product(["as in the file", "in halves", "in halves, queries only"], ["interleaved", "half"]):
        pick(figure, rows)
        pick(figure, code)
        said, name = readout(), WAYS.get((rows, code))
        if name is None:
            assert "Not measured" in said
            continue
        assert writes(figure) == LEDGER[name]["writes"].split()
        assert ("the model as it was trained" in said) == (cost(name) < 0.05)
        assert numbers(said)[0] == pytest.approx(abs(cost(name)), abs=0.06)
    assert predict(figure, "letters without sense").startswith("No: English")
    assert readout().startswith("Rows: as in the file; code: half.")
    assert writes(figure) == LEDGER["interleaved rows turned as halves"]["writes"].split()


def test_mistake_ledger(open_figure):
    figure, data, readout = open_figure(f"{PART}what-mistakes-cost/", "mistake-ledger")
    costs = sorted(map(cost, LEDGER), reverse=True)
    assert [row["cost"] / 100 for row in data["rows"]] == pytest.approx(costs, abs=1e-3)
    dearest = data["rows"][0]["name"]
    reply = predict(figure, "nothing rotated")
    assert reply.startswith(f"No: {dearest}.")
    assert numbers(reply.partition("token:")[2])[0] == pytest.approx(cost("nothing turned"), abs=0.06)
    assert readout().startswith(f"{dearest}. Costs {costs[0]:.2f}")
    bars, curve = (figure.locator("canvas").nth(n) for n in (0, 1))
    bars.press("ArrowRight")  # to the next dearest
    assert readout().startswith(f"{data['rows'][1]['name']}. ")
    assert f"number 2 with {costs[1]:.2f}" in plain(bars.get_attribute("aria-label"))
    chosen = figure.get_by_role("combobox").first
    chosen.select_option(label="decoding starts one late")
    assert "Silent on this text" in readout()
    assert "The doctor finds nothing in the rotation." in readout()
    chosen.select_option(label="interleaved rows rotated as halves")
    assert "with the configuration: “layout wrong" in readout()
    ends = [LEDGER["interleaved rows turned as halves"]["by position"][n] - TRAINED["by position"][n] for n in (0, -1)]
    assert numbers(plain(curve.get_attribute("aria-label"))) == pytest.approx(ends, abs=0.011)
    assert writes(figure)[:6] == LEDGER["interleaved rows turned as halves"]["writes"].split()[:6]
