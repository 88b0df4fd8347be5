"""Tiles of a mask, against NumPy's count of the pairs that the mask shows."""

import numpy as np
import pytest

from tests.scripts.javascript import Script

TILES = Script("math/tiles.js")


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_pairs_that_tiles_show(seed, causal):
    draw = np.random.default_rng(seed)
    tokens, tile = 48, int(draw.choice([4, 6, 12]))
    window, starts = int(draw.integers(1, 60)), sorted(draw.integers(1, 48, seed % 4).tolist())
    i, j = np.arange(tokens)[:, None], np.arange(tokens)
    document = np.searchsorted(starts, np.arange(tokens), side="right")
    seen = (abs(i - j) < window) & (document[:, None] == document) & ((j <= i) | (not causal))
    mask = {"causal": causal, "width": window, "starts": starts}
    ours = TILES("shownInTiles(tokens, tile, mask)", tokens=tokens, tile=tile, mask=mask)
    across = tokens // tile
    assert ours == seen.reshape(across, tile, across, tile).sum(axis=(1, 3)).ravel().tolist()
    half = TILES("pooled(Uint32Array.from(counts))", counts=ours)
    assert half == seen.reshape(across // 2, 2 * tile, across // 2, 2 * tile).sum(axis=(1, 3)).ravel().tolist()
    m, n = draw.integers(0, tokens, 2).tolist()
    assert TILES("shows(mask, m, n)", mask=mask, m=m, n=n) == seen[m, n]
