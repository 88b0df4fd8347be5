"""The live figures of Part 4: how far a head looks, families of biases, tiles of a kernel, profiles of distances."""

import numpy as np
import pytest

from posenc.bias.alibi import alibi, alibi_slopes
from posenc.bias.fire import fire
from posenc.bias.kerple import kerple
from posenc.score.profiles import profiles
from tests.browser.live_figures import pick, predict, select, slide
from tests.scripts.javascript import Script

pytestmark = pytest.mark.full

PART = "chapters/4-biases/"
TILES = Script("math/tiles.js")


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def test_alibi_window(open_figure):
    figure, data, readout = open_figure(f"{PART}alibi/", "alibi-window")
    slide(figure, heads=12, query_m=60, key_n=40, its_lead=5)
    slide(figure, highlight_head=10)
    weights = softmax(alibi([60], np.arange(61), 12)[:, 0] + 5 * np.eye(61)[40])
    lit = weights[10]
    count = np.argmax(lit[::-1].cumsum() >= 0.9) + 1
    assert f"Head 10 slope {alibi_slopes(12)[10]:.4f}: the weight halves every" in readout()
    assert (
        f"attends at mean distance {lit @ (60 - np.arange(61)):.1f} and the nearest {count} keys hold 90%" in readout()
    )
    assert f"leads by 5.0 logits and gets {100 * lit[40]:.0f}%." in readout()
    assert f"It wins in {(weights[:, 40] > 0.5).sum()} of 12 heads." in readout()
    figure.locator("span", has_text="flowerpot").first.click()
    assert "“flowerpot” attends" in readout()
    slide(figure, heads=1, query_m=9)
    predict(figure, "one in between")
    bias, match = alibi([data["last"]], np.arange(data["last"] + 1), 8)[:, 0], data["match"]
    leads = np.log(np.exp(np.delete(bias, match, axis=1)).sum(axis=1)) - bias[:, match]  # that a match needs to win
    assert f"Head {leads.argmin()} slope" in readout()
    assert "It wins in 1 of 8 heads." in readout()


def test_bias_family(open_figure):
    figure, _, readout = open_figure(f"{PART}families/", "bias-family")
    predict(figure, "it settles")
    weights = softmax(kerple([4095], np.arange(4096), [1], [1])[0, 0])[::-1]
    assert f"KERPLE log: of 4096 equal tokens the last gives {weights[64:].sum():.0%} of its weight" in readout()
    assert f"The distances from 2048 on get {weights[2048:].sum():.1%}" in readout()
    select(figure, "ALiBi")
    slide(figure, length_L=7)
    weights = softmax(alibi([127], np.arange(128), 1, slopes=1 / 16)[0, 0])[::-1]
    assert f"ALiBi: of 128 equal tokens the last gives {weights[64:].sum():.1%} of its weight" in readout()


def test_fire_ruler(open_figure):
    figure, data, readout = open_figure(f"{PART}families/", "fire-ruler")
    head = data["head"]
    network = {"hidden_weight": np.array(head["hidden"])[:, None], "hidden_bias": np.array(head["hiddenBias"])}
    network |= {"out_weight": np.array(head["out"])[None], "out_bias": np.zeros(1)}
    options = {name: head[name] for name in ("c", "multiplier", "threshold", "eps")}
    for m in (20, 90, 255):
        slide(figure, query_m=m)
        bias = fire(np.array([m]), m - np.arange(m + 1), **options, **network)[0, 0]
        assert f"A query at {m} attends most to distance {bias.argmax()}." in readout()
    figure.get_by_role("checkbox").check()
    assert "A query at 255 attends most to distance 4." in readout()


def test_tile_map(open_figure):
    figure, data, readout = open_figure(f"{PART}kernels/", "tile-map")
    pick(figure, "128")
    figure.get_by_role("checkbox", name="4 documents").check()
    slide(figure, window=150)
    mask = {"causal": True, "width": 150, "starts": data["starts"]}
    pairs = np.array(TILES("shownInTiles(1024, 128, mask)", mask=mask))
    needed, whole = (pairs > 0).sum(), (pairs == 128**2).sum()
    assert f"The mask shows {pairs.sum() / 1024**2:.1%} of all pairs." in readout()
    assert f"computes {needed} of 64 tiles {whole} of them without a mask" in readout()
    assert f"and so {needed / 64:.1%} of the pairs" in readout()


def test_profile_mixer(open_figure):
    figure, data, readout = open_figure(f"{PART}profiles/", "profile-mixer")
    bank = np.array(data["bank"])
    keys = np.arange(bank.shape[1])[::-1]
    for turn, length in ((9, 4), (21, 8), (0, 2.5)):
        slide(figure, direction_of_the_states=turn, their_length=length)
        angle = 2 * np.pi * turn / 36
        states = [[length * np.array([np.cos(angle), np.sin(angle)])]]
        scores = profiles(np.zeros((1, 1, 1)), keys[None, :, None], [len(keys) - 1], keys, bank=bank, states=states)
        highest = f"{scores.max():.2f}".rstrip("0").rstrip(".")
        assert f"the highest bias {highest} is at offset {scores.argmax()}." in readout()
        assert f"this one gets {softmax(scores).max():.0%} of the weight." in readout()
    slide(figure, their_length=0)
    assert readout().startswith(f"States 0 and 0: no offset is preferred and each gets {1 / len(keys):.0%}")
    reply = predict(figure, "2 of them")
    directions = np.linspace(0, 2 * np.pi, 3600)
    tops = np.stack([np.cos(directions), np.sin(directions)], axis=1) @ bank
    (missed,) = set(range(len(keys))) - {*tops.argmax(axis=1).tolist()}
    assert reply.startswith(f"No: {len(keys) - 1}.")
    assert f"Offset {missed} lies between" in reply
