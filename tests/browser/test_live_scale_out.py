"""The ring of ranks: what the page says is what the package's shards and NumPy's masks say."""

import numpy as np
import pytest

from posenc.positions import shard_positions
from tests.browser.live import put

pytestmark = pytest.mark.full

PAGE = "chapters/6-guide/scale-out/"


def work(order: str, ranks: int, window: int, tokens: int = 64) -> np.ndarray:
    """Return the pairs of each rank in each step."""
    held = [np.arange(r, tokens, ranks) for r in range(ranks)]
    if order != "striped":
        held = [shard_positions(tokens, r, ranks, order.replace("-", "")).numpy() for r in range(ranks)]
    back = np.arange(tokens)[:, None] - np.arange(tokens)
    seen = (back >= 0) & (back < window)
    return np.array([[seen[held[r]][:, held[(r - s) % ranks]].sum() for s in range(ranks)] for r in range(ranks)])


@pytest.mark.parametrize(("order", "ranks"), [("contiguous", 4), ("zig-zag", 8), ("striped", 2)])
def test_ring_clock(figure, order, ranks):
    ring, data, said = figure(PAGE, "ring-clock")
    assert data["tokens"] == 64
    ring.get_by_role("radio", name=order, exact=True).check(force=True)
    ring.get_by_role("radio", name=str(ranks), exact=True).check(force=True)
    for window in (64, 11):
        put(ring, keys_seen=window, step=ranks)
        pairs = work(order, ranks, window)
        totals, done = pairs.sum(axis=1), pairs.max(axis=0).sum()
        each = f"each rank has {totals[0]}" if len(set(totals)) == 1 else f"a rank has {totals.min()} to {totals.max()}"
        assert f"Cut {order} on {ranks} ranks {each} pairs. All are done after {done} and" in said()
        waits = 1 - totals.sum() / (ranks * done)
        assert ("nobody waits" if waits < 0.005 else f"{100 * waits:.0f}% of the ranks' time is waiting") in said()
        put(ring, step=1)
        assert f"the slowest has {pairs[:, 1].max()} pairs" in said()


def test_ring_clock_is_predicted(figure):
    ring, data, said = figure(PAGE, "ring-clock")
    ring.get_by_role("button", name="both at once").click()
    done = [work(order, 4, data["window"]).max(axis=0).sum() for order in ("contiguous", "zig-zag")]
    answer = ring.locator(".stage-predict [role=status]").inner_text()
    assert f"No, contiguous: after {done[0]} pairs in place of {done[1]}." in answer
    assert f"All are done after {done[1]} and" in said()
