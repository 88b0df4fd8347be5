"""The live figure of chapter 6.2: the weights that it names are those of attention with the page's vectors."""

import numpy as np
import pytest

from tests.browser.live import put, wake

pytestmark = pytest.mark.full

WAYS = ("true places", "places in the cache", "the clock stops")


@pytest.fixture
def clock(site, visit):
    """Return the figure, its data, and what it says."""
    return wake(visit(site + "chapters/6-guide/kv-cache/").page, "cache-clock")


def shares(data, question, seen, room, sinks):
    """Stream `seen` tokens; return the weight of the token asked for, told each kind of places."""
    found = []
    for way in WAYS:
        cache = []  # pairs of a token and its place
        for token in range(seen):
            if len(cache) == room:
                del cache[sinks]
            cache.append((token, token if way == "true places" else len(cache)))
            if way == "places in the cache":
                cache = [(each, slot) for slot, (each, _) in enumerate(cache)]
        tokens, places = np.array(cache).T
        pairs = np.array(data["products"][question]) @ [1, 1j]  # (h, key, pair)
        turns = np.exp(1j * np.outer(places[-1] - places, data["theta"]))  # (s, pair)
        logits = (pairs[:, (tokens == 0).astype(int)] * turns).sum(axis=-1).real  # (h, s)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
        found.append(weights[tokens == (seen - 5 if question == 0 else 0)].sum())
    return found


def told(data, question, seen, room, sinks):
    given = shares(data, question, seen, room, sinks)
    names = ("true places", "places in the cache", "a stopped clock")
    words = ", ".join(f"{100 * share:.0f}% with {name}" for share, name in zip(given, names, strict=True))
    return words.replace("% with true", "% of its weight with true")


def test_where_the_layer_looks(clock):
    figure, data, said = clock
    seen = data["seen"]
    assert said().startswith("28 tokens seen, none is dropped yet.")
    put(figure, tokens_seen=seen)
    assert said() == (
        f"{seen} tokens seen, {seen - 28} are dropped. With true places the first token is {seen - 1} back; training "
        f"showed at most 31. Asked “four back?” the layer gives the right token {told(data, 0, seen, 28, 4)}."
    )
    put(figure, tokens_seen=20)
    assert said().endswith(f"yet. Asked “four back?” the layer gives the right token {told(data, 0, 20, 28, 4)}.")
    put(figure, tokens_seen=370, room_for_keys=12, sinks_that_stay=1)
    assert told(data, 0, 370, 12, 1) in said()
    figure.get_by_role("radio", name="“the first?”").check()
    assert f"Asked “the first?” the layer gives the right token {told(data, 1, 370, 12, 1)}." in said()
    put(figure, sinks_that_stay=0)
    assert said().endswith("0% with a stopped clock. It is no longer in the cache: no place can help.")
    figure.get_by_role("button", name="at the first tokens").click()
    answer = figure.get_by_role("status").first.inner_text()
    assert answer.startswith("Yes: the first 4 get ")
    assert f"the token 4 back {100 * shares(data, 0, seen, 28, 4)[0]:.0f}%." in answer
    assert told(data, 0, seen, 28, 4) in said()
