"""The live figures of chapters 7.3, 7.4 and 7.6: which pairs a model's heads read, longer texts, circles in a table."""

import numpy as np
import pytest

from tests.browser.live_figures import label, numbers, pick, predict, press, select, slide
from tests.scripts.javascript import Script

pytestmark = pytest.mark.full

CIRCLES = Script("math/circles.js")


def test_pair_roles(open_figure):
    figure, data, readout = open_figure("chapters/7-real/which-pairs/", "pair-roles")
    reply = predict(figure, "the lowest frequencies")
    parts = np.array(data["kinds"]["induction"]["parts"])
    quarters = parts.reshape(4, 4, 8).sum(axis=2)
    assert reply.startswith("Yes.")
    assert f"24-31 bring {quarters[0, 3]:.1f} of {parts[0].sum():.1f} logits" in reply
    assert predict(figure, "the highest frequencies").startswith("No.")
    for kind in data["kinds"].values():
        pick(figure, kind["name"])
        for n, (layer, head) in enumerate(kind["heads"]):
            slide(figure, head=n)
            quarter = np.array(kind["parts"][n]).reshape(4, 8).sum(axis=1)
            said = readout()
            assert said.startswith(f"Layer {layer} head {head} gives {kind['share'][layer][head]}% of its weight to")
            assert kind["name"] in said
            assert numbers(said)[3] == pytest.approx(quarter.sum(), abs=0.06)
            for name, value in zip(("0-7", "8-15", "16-23", "24-31"), quarter, strict=True):
                assert numbers(said.split(f"pairs {name} ")[1])[0] == pytest.approx(value, abs=0.06)
    press(figure, "head", "ArrowLeft")
    layer, head = kind["heads"][-2]
    assert f"of layer {layer} head {head}:" in label(figure)


def test_longer_texts(open_figure):
    figure, data, readout = open_figure("chapters/7-real/longer-texts/", "longer-texts")
    page, length = data["bin"], data["trained"]
    whole = length // page
    plain = np.array(data["texts"][-1]["loss"][data["plain"]])
    assert predict(figure, data["bet"][0]).startswith("No: near 11000.")
    reply = predict(figure, "near 11,000")
    assert reply.startswith("Yes.")
    assert numbers(reply)[-1] == pytest.approx(plain[14:16].mean() - plain[:whole].mean(), abs=0.06)
    for text in data["texts"]:
        pick(figure, f"{text['times']} times the length")
        own = np.array(text["loss"][data["plain"]])
        for kind in text["loss"]:
            select(figure, kind)
            loss, last = np.array(text["loss"][kind]), text["times"] * whole - 1
            slide(figure, tokens=last)
            said = readout()
            assert f"At tokens {last * page}" in said
            assert numbers(said.split("the loss is ")[1])[0] == pytest.approx(loss[last], abs=0.006)
            with_short_context = numbers(said.split("before them: ")[1])[0]  # a position of which it is known
            assert with_short_context == pytest.approx(text["near"]["loss"][-1], abs=0.006)
            if kind != data["plain"]:
                assert numbers(said.split(" costs ")[1])[0] == pytest.approx((loss - own)[:whole].mean(), abs=0.006)
                assert numbers(said.split("as it is ")[1])[0] == pytest.approx(own[last], abs=0.006)
            slide(figure, tokens=last - 1)
            assert "before them" not in readout()
    assert numbers(label(figure).split("Self-Extend: ")[1])[0] == pytest.approx(loss[last - 1], abs=0.006)


def test_five_dials(open_figure):
    figure, data, readout = open_figure("chapters/7-real/real-tables/", "five-dials")
    for row in (0, 100, data["rows"] - 1):
        slide(figure, row=row)
        turns = [
            [abs(CIRCLES("turnsUntil(track, row)", track=track, row=row)) for track in table["tracks"]]
            for table in data["tables"]
        ]
        said = readout()
        assert said.startswith(f"At row {row + 1} of {data['rows']}")
        shown = numbers(said.split("have completed")[1])
        assert shown[:5] == pytest.approx(turns[0], abs=0.06)
        assert shown[5:10] == pytest.approx(turns[1], abs=0.06)
    assert turns[0] == pytest.approx([1, 3, 10, 29, 87], rel=0.03)  # what the page says of the whole table
    slide(figure, row=0)
    reply = predict(figure, "one, or nearly two")
    assert reply.startswith("Yes. It completes 1.0 rotations in the first")
    assert readout().startswith(f"At row {data['rows']} of")  # an answer shows the whole table
    assert predict(figure, "all five").startswith("No.")
