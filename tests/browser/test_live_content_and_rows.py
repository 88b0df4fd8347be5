"""The live figures of chapters 5.5 and 6.4: what the page says is what the package says."""

import numpy as np
import pytest
import torch

from posenc.attention import attention_weights
from posenc.bias.alibi import alibi
from posenc.positions import packed_documents, packed_positions, padded_positions
from posenc.rotate.rope import RoPE
from posenc.score.cope import cope
from posenc.score.forget import forget
from posenc.score.path import path
from tests.browser.live import put, wake

pytestmark = pytest.mark.full


@pytest.fixture
def figure(site, visit):
    """Return a function that opens a page and wakes a live figure of it."""
    return lambda path, name: wake(visit(site + path).page, name)


def acted(acts, gate):
    """Return how far the first token is from the last: counted, faded and turned by the package."""
    p, ones = np.arange(len(acts)), np.ones((1, len(acts), 1))
    near = np.clip(acts, 1e-12, 1 - 1e-12)
    keys = np.log(near / (1 - near)).reshape(1, -1, 1)
    count = cope(ones, keys, p, p, np.arange(len(acts) + 2.0)[:, None])[0, -1, 0]
    kept = np.clip(gate**acts, 0, 1 - 1e-12)
    fade = np.exp(forget(ones, ones, p, p, gates=np.log(kept / (1 - kept))[None])[0, -1, 0])
    return count, fade, 1 + path(ones, ones, p, p, w=ones, beta=2 * acts[None])[0, -1, 0]


def test_who_acts(figure):
    words, data, said = figure("chapters/5-pope/content-aware/", "who-acts")
    acts, gate = np.array(data["acts"], dtype=float), data["gate"]
    count, fade, turn = acted(acts, gate)
    assert said().startswith("From “Ada” to “she”: 13 tokens, of which 3 act. Counted: 3.")
    assert (round(count, 6), round(turn, 6)) == (3, -1)
    assert said().endswith(f"Weight let through: {fade:.2f}. Turned: -.")
    put(words, **{"“and rained”, times": 2})
    assert said().startswith("From “Ada” to “she”: 17 tokens, of which 3 act. Counted: 3.")
    assert said().endswith(f"Weight let through: {fade:.2f}. Turned: -.")
    put(words, the_others_act_by=0.15)
    longer = np.insert(acts, data["at"], 4 * [0.0])
    count, fade, turn = acted(np.where(longer == 1, 1, 0.15), gate)
    assert f"3 act, the others by 15%. Counted: {count:.2f}." in said()
    assert f"Weight let through: {fade:.2f}. Turned: {turn:.2f}." in said().replace("≈0.", f"{0:.2f}.")
    put(words, key_n=14)
    words.get_by_role("button", name="Let act: “slept”").click()
    put(words, key_n=0)
    put(words, the_others_act_by=0)
    longer[14] = 1
    count, fade, turn = acted(longer, gate)
    assert f"of which 4 act. Counted: {count:.0f}. Weight let through: {fade:.2f}. Turned: +." in said()
    words.get_by_role("button", name="stripes along the diagonal").click()
    slope = -alibi([1], [0], 1, slopes=-np.log(gate)).item()
    assert said().endswith(f"All act alike: Shaw's table; ALiBi, slope {slope:.2f}; RoPE, θ = π.")
    assert "13 tokens, of which 13 act. Counted: 14." in said()


def test_packed_row(figure):
    row, data, said = figure("chapters/6-guide/padding-and-packing/", "packed-row")
    q, k = (torch.tensor(data[name]).double()[None, None] for name in "qk")
    length, cuts = len(data["letters"]), data["cuts"]

    def weights(places, **sees):
        told = {"positions": places, "key_positions": places, "causal": True}
        return attention_weights(q, k, RoPE(16), **told, **sees)[0, 0]

    def leaking(seen, owner, real):
        strange = (owner[:, None] != owner)[real] & (seen[real] > 0)
        ahead = (strange & torch.ones(length, length).triu(1).bool()[real]).sum()
        share = (seen[real] * strange).sum() / real.sum()
        return f"{strange.sum()} pairs leak, {ahead} of them ahead in the row: {100 * share:.0f}% of all weight"

    cu = torch.tensor([0, *cuts, length])
    every, own = torch.ones(length, dtype=torch.bool), packed_documents(cu)
    assert leaking(weights(torch.arange(length)), own, every) in said()
    row.get_by_role("button", name="itself alone").click()
    seen = weights(packed_positions(cu))
    assert leaking(seen, own, every) in said()
    assert f"It gives {100 * seen[0, 1:].sum():.0f}% of its weight to letters ahead" in row.inner_text()
    put(row, first_boundary=4)
    put(row, second_boundary=9)
    cu = torch.tensor([0, 4, 9, length])
    assert leaking(weights(packed_positions(cu)), packed_documents(cu), every) in said()
    row.get_by_role("checkbox", name="mask the others").check()
    assert said() == "No pair leaks. Every token sees exactly what it sees alone."
    row.get_by_role("radio", name="a text with pads inside").check()
    assert said() == "No pair leaks. Every token sees exactly what it sees alone."
    row.get_by_role("radio", name="along the row").check()
    real = packed_documents(cu) != 1
    far, near = (weights(places, mask=real)[real] for places in (torch.arange(length), padded_positions(real)))
    moved = (far - near).abs().sum() / 2 / real.sum()
    assert f"No pair leaks. Against the text alone, {100 * moved:.0f}% of the weight has moved." in said()
    row.get_by_role("radio", name="pads, then a text").check()
    assert said() == "No pair leaks. Every token sees exactly what it sees alone."
    row.get_by_role("radio", name="sinusoid").check()
    assert "No pair leaks. Against the text alone" in said()
