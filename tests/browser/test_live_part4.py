"""The live figures of Part 4 and PoPE's tuner: what the page says is what the package says."""

import numpy as np
import pytest

from posenc.bias.alibi import alibi, alibi_slopes
from posenc.bias.fire import fire
from posenc.bias.kerple import kerple
from posenc.rotate.pope import pope
from posenc.rotate.rope import rope
from tests.browser.live import put

pytestmark = pytest.mark.full


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def test_alibi_window(figure):
    reader, data, said = figure("chapters/4-biases/alibi/", "alibi-window")
    put(reader, heads=12, query_m=60, match_n=40, its_lead=5)
    put(reader, light_up_head=10)
    logits = alibi([60], np.arange(61), 12)[:, 0] + 5 * (np.arange(61) == 40)
    weights = softmax(logits)
    share, won = weights[10, 40], (weights[:, 40] > 0.5).sum()
    mean = weights[10] @ (60 - np.arange(61))
    count = np.argmax(weights[10, ::-1].cumsum() >= 0.9) + 1
    assert f"Head 10 slope {alibi_slopes(12)[10]:.4f}: the weight halves every" in said()
    assert f"looks {mean:.1f} back on average and the nearest {count} hold 90%" in said()
    assert f"leads by 5.0 logits and gets {100 * share:.0f}%. It wins in {won} of 12 heads." in said()
    reader.locator("span", has_text="flowerpot").first.click()
    assert "“flowerpot” looks" in said()
    put(reader, heads=1, query_m=9)
    reader.get_by_role("button", name="one in between").click()
    bias, match = alibi([data["ask"]], np.arange(data["ask"] + 1), 8)[:, 0], data["match"]
    needs = np.log(np.exp(np.delete(bias, match, axis=1)).sum(axis=1)) - bias[:, match]
    assert f"Head {needs.argmin()} slope" in said()
    assert "It wins in 1 of 8 heads." in said()


def test_polar_tuner(figure):
    tuner, data, said = figure("chapters/5-pope/what-and-where/", "polar-tuner")
    q, k = np.array([[0.7, -0.45]]), np.array(data["k"])[None]
    put(tuner, query_12=0.7, query_13=-0.45, distance_Δ=5)
    theta = np.array(data["theta"])
    of_rope = rope(q, np.array([5]), theta=theta[:1], layout="interleaved") @ k[0]
    of_pope = pope(q[None], k[None], np.array([5]), np.array([0]), theta=theta)
    peak = (np.angle(complex(*k[0])) - np.angle(complex(*q[0]))) / theta[0]
    assert f"At distance 5 RoPE scores {of_rope.item():.2f} and PoPE {of_pope.item():.2f}." in said()
    assert f"RoPE's score is highest at distance {peak:.1f}" in said()
    assert said().endswith("PoPE's is highest at distance 0.0.")
    phase = tuner.get_by_role("slider", name="phase δ 12")
    phase.focus()
    for _ in range(6):
        phase.press("ArrowLeft")
    delta = np.array([[-6 * np.pi / 36, 0]])
    moved = pope(q[None], k[None], np.array([5]), np.array([0]), theta=theta, phase=delta)
    assert f"and PoPE {moved.item():.2f}." in said()
    put(tuner, query_12=0, query_13=0)
    assert "RoPE's score is 0 at every distance" in said()


def test_bias_family(figure):
    family, _, said = figure("chapters/4-biases/families/", "bias-family")
    family.get_by_role("button", name="it settles").click()
    weights = softmax(kerple([4095], np.arange(4096), [1], [1])[0, 0])[::-1]
    assert f"KERPLE log: of 4096 equal tokens the last gives {weights[64:].sum():.0%} of its weight" in said()
    assert f"The distances from 2048 on get {100 * weights[2048:].sum():.1f}%" in said()
    family.get_by_role("combobox").select_option("ALiBi")
    put(family, length_L=7)
    weights = softmax(alibi([127], np.arange(128), 1, slopes=1 / 16)[0, 0])[::-1]
    assert f"ALiBi: of 128 equal tokens the last gives {100 * weights[64:].sum():.1f}% of its weight" in said()


def test_fire_ruler(figure):
    ruler, data, said = figure("chapters/4-biases/families/", "fire-ruler")
    head = data["head"]
    network = {"hidden_weight": np.array(head["hidden"])[:, None], "hidden_bias": np.array(head["hiddenBias"])}
    network |= {"out_weight": np.array(head["out"])[None], "out_bias": np.zeros(1)}
    settings = {name: head[name] for name in ("c", "multiplier", "threshold", "eps")}
    for m in (20, 90, 255):
        put(ruler, query_m=m)
        bias = fire(np.array([m]), m - np.arange(m + 1), **settings, **network)[0, 0]
        assert f"A query at {m} looks {bias.argmax()} back." in said()
    ruler.get_by_role("checkbox").check()
    assert "A query at 255 looks 4 back." in said()


def test_tile_map(figure):
    tiles, data, said = figure("chapters/4-biases/kernels/", "tile-map")
    tiles.get_by_role("radio", name="128").check()
    tiles.get_by_role("checkbox", name="4 documents").check()
    put(tiles, window=150)
    i, j = np.arange(1024)[:, None], np.arange(1024)
    document = np.searchsorted(data["starts"], np.arange(1024), side="right")
    seen = (j <= i) & (i - j < 150) & (document[:, None] == document)
    needed = seen.reshape(8, 128, 8, 128).any(axis=(1, 3)).sum()
    assert f"The mask shows {100 * seen.mean():.1f}% of all pairs." in said()
    whole = seen.reshape(8, 128, 8, 128).all(axis=(1, 3)).sum()
    assert f"computes {needed} of 64 tiles {whole} of them without a mask" in said()
    assert f"and so {100 * needed / 64:.1f}% of the pairs" in said()
