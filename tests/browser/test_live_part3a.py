"""The live figures of chapters 3.1 and 3.2, and the ruler of 6.3, show the package's numbers."""

import re

import numpy as np
import pytest
import torch

from posenc.attention import attention_weights
from posenc.rotate.frequencies import proportional, rope_frequencies
from posenc.rotate.rope import RoPE, rope
from tests.browser.live import said_plainly, settled, wake

pytestmark = pytest.mark.full

DERIVATION, WHAT = "chapters/3-rope/derivation/", "chapters/3-rope/what-rope-does/"
PRECISION = "chapters/6-guide/precision/#the-same-layer-in-bfloat16"  # opens the section


def _figure(site, visit, path, name):
    """Return a figure that has come to life, and what its page has told it."""
    return wake(visit(site + path).page, name)[:2]


def _set(figure, label, *keys):
    for key in keys:
        figure.get_by_label(label, exact=True).press(key)


def test_a_shift_of_both_leaves_the_score_of_the_dials(site, visit):
    figure, data = _figure(site, visit, DERIVATION, "rope-dials")
    query, key = np.array([data["query"]]), np.array([data["key"]])

    def score(m, n):
        turned = (rope(x, [p], layout="interleaved", theta=data["theta"]) for x, p in ((query, m), (key, n)))
        return f"{np.vdot(*turned):.2f}"

    _set(figure, "query at m", "End")
    _set(figure, "key at n", *["ArrowRight"] * 5)
    last = data["last"]
    before = said_plainly(figure)
    assert before.startswith(f"Query at {last}, key at 5, Δ = {last - 5}: ")
    assert before.endswith(f"the score {score(last, 5)}.")
    _set(figure, "shift both", "End")
    after = said_plainly(figure)
    assert after.startswith(f"Query at {last + data['far']}, key at {5 + data['far']}, ")
    assert after.split(": ")[1] == before.split(": ")[1]

    figure.locator("canvas").first.press("ArrowLeft")  # turns the query's first hand by five degrees
    first = complex(*query[0, :2]) * np.exp(1j * np.radians(5))
    query[0, :2] = first.real, first.imag
    assert score(last, 5) != before.split()[-1][:-1]
    assert said_plainly(figure).endswith(f"the score {score(last, 5)}.")


def test_a_hand_that_is_dragged_points_where_it_was_dropped(site, visit):
    figure, data = _figure(site, visit, DERIVATION, "rope-dials")
    canvas = figure.locator("canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    cell = box["width"] / len(data["theta"])
    x, y = box["x"] + cell / 2, box["y"] + 60 + min(0.43 * cell, 78)
    figure.page.mouse.move(x + 20, y - 60)
    figure.page.mouse.down()
    figure.page.mouse.move(x + 40, y)  # half a radius to the right
    figure.page.mouse.up()
    settled(figure.page)
    length = float(re.match(r"Pair 0: (\d\.\d\d) ", canvas.get_attribute("aria-label"))[1])
    assert abs(length - 40 / min(0.43 * cell, 78)) < 0.02


def test_scattered_hands_score_lower_half_of_the_time(site, visit):
    figure, data = _figure(site, visit, WHAT, "rope-hands")
    theta, pairs = np.array(data["theta"]), len(data["theta"])
    figure.get_by_role("button", name=f"Scatter {data['tries']} times").click()
    _set(figure, "distance Δ", *["ArrowRight"] * 20)
    said = said_plainly(figure)

    starts = 2 * np.pi * np.random.RandomState(data["seed"]).random_sample((data["tries"], pairs))
    up = np.zeros((1, 2 * pairs))
    up[:, :pairs] = 1

    def score(start, distance):
        query = np.concatenate([np.cos(start), np.sin(start)])[None]
        return (rope(query, [distance], theta=theta) @ up.T).item()

    far, near = (np.array([score(start, distance) for start in starts]) for distance in (20, 0))
    equal, scattered, built = re.search(
        r"score (\S+) of 8, scattered ones (\S+), .* score (\S+)\. Scatters", said
    ).groups()
    assert equal == f"{score(np.zeros(pairs), 20):.1f}"
    assert scattered == f"{far[-1]:.1f}"
    assert built == f"{score(-data['built'] * theta, 20):.1f}"
    assert said.endswith(f"lower here than at distance 0: {(far < near).sum()} of {len(starts)}.")

    figure.locator(".stage-predict button").last.click()
    said = said_plainly(figure)
    assert f"The key {data['ask']} back" in said
    assert f"those built for {data['ask']} score {pairs}.0." in said


class Rounded(RoPE):
    """RoPE with positions, frequencies and angles in half precision."""

    def table(self, positions, dtype=torch.float32):
        theta = torch.tensor(self.theta, dtype=torch.float16)
        angle = (positions.half()[:, None] * theta).double()
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([cos, cos], dim=-1).to(dtype), torch.cat([-sin, sin], dim=-1).to(dtype)


def test_the_ruler_rounds_as_torch_does(site, visit):
    figure, data = _figure(site, visit, PRECISION, "rounding-ruler")
    figure.locator("input[value=float16]").press("Space")
    figure.locator("canvas").first.press("ArrowRight")
    start, length, back = 4096 + (600 - 512) + 1, data["length"], data["back"]  # 600 in boxes of four, one step on
    said = said_plainly(figure)
    places = torch.arange(start, start + length)
    count = len(places.half().unique())
    assert said.startswith(f"From {start:,} on, float16 has {count} numbers for {length} positions. ")

    texts = torch.tensor(data["texts"])
    q, k = (torch.tensor(data[name])[texts][:, None] for name in ("query", "key"))  # (b, 1, t, d)
    for encoding, pattern in ((Rounded(16), r"lays (\S+) of"), (RoPE(16), r"exact angles it is (\S+)\.")):
        told = {"encoding": encoding, "positions": places, "key_positions": places, "causal": True}
        on_target = attention_weights(q, k, **told).diagonal(-back, dim1=2, dim2=3).mean().item()
        assert abs(float(re.search(pattern, said)[1]) - on_target) < 0.006

    stored, draw, hits = places.double().half().double().numpy(), np.random.default_rng(0), []
    ids = draw.integers(data["tokens"], size=(4000, length))
    for m in range(back, length):
        miss = abs(stored[: m + 1] - (stored[m] - back))
        votes = np.eye(data["tokens"])[ids[:, np.flatnonzero(miss == miss.min())]].sum(axis=1)
        hits.append((votes + 0.1 * draw.random(votes.shape)).argmax(axis=1) == ids[:, m - back])
    assert abs(float(re.search(r"Predicted: (\S+) of", said)[1]) - np.mean(hits)) < 0.02


def test_what_is_left_of_a_match_when_some_channels_turn(site, visit):
    figure, data = _figure(site, visit, WHAT, "rope-channels")
    _set(figure, "pairs that turn", "Home", *["ArrowRight"] * 45)
    _set(figure, "context", "ArrowLeft")
    said, dim, context = said_plainly(figure), data["dim"], data["context"] // 2
    far = np.arange(context // 2 + 1, context + 1)
    ones = np.ones((len(far), dim))
    ways = {
        "partial RoPE": {"rotary_dim": 92},
        "p-RoPE": {"theta": proportional(dim, 46 / 64)[0]},
        "all turn": {"theta": rope_frequencies(dim)[0]},
    }
    assert said.startswith(f"Pairs that turn: 46 of 64. Within {context:,}: ")
    for name, options in ways.items():
        complete = (np.array(RoPE(dim, **options).theta) * context >= 2 * np.pi).sum()
        left = 100 * (rope(ones, far, **options) @ np.ones(dim)).mean() / dim
        found = re.search(rf"{name}: (\d+) complete a turn, (-?\d+)% of a match", said)
        assert int(found[1]) == complete
        assert abs(int(found[2]) - left) < 0.51
    assert "p-RoPE: 46 complete" in said
