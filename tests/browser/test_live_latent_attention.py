"""The live figure of chapter 3.6: the sizes that it says are those of its settings."""

import pytest

from tests.browser.live import put

pytestmark = pytest.mark.full


def test_latent_cache(figure):
    cache, data, said = figure("chapters/3-rope/latent-attention/", "latent-cache")
    few = data["latent"] + data["rotary"]
    assert f"are {few} numbers a token and layer" in said()
    put(cache, heads=16, latent=256, turned_key=32)
    wide = 2 * 16 * data["width"]
    assert "A latent of 256 and a turned key of 32 are 288 numbers a token and layer" in said()
    assert f"keys and values of 16 heads are {wide}" in said()
    cache.get_by_role("button", name=f"{few:,}").click()
    assert f"keys and values of {data['heads']} heads are {2 * data['heads'] * data['width']}" in said()
