"""Reach, squeeze and arcs of stretched frequencies, as chapter 3.4 defines them."""

import json
import re

import numpy as np
import pytest
import quickjs

from posenc.models.from_config import from_config
from posenc.rotate import frequencies
from tests.scripts.javascript import SCRIPTS, Script

STRETCH = Script("math/stretch.js")
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
BLEND, MSCALE = ["beta_fast", "beta_slow", "truncate"], ["mscale", "mscale_all_dim"]
LISTS = {"short_factor": [1.0, 1.05, 1.1, 2.0], "long_factor": [1.25, 3.0, 20.0, 64.81]}
DEEPSEEK = {"truncate": False, "mscale": 1.0, "mscale_all_dim": 0.8}
TAKES = {  # recipe: what it is told
    "rope_frequencies": ["base"],
    "linear": ["factor", "base"],
    "ntk": ["factor", "base"],
    "dynamic_ntk": ["factor", "length", "original_length", "base"],
    "by_parts": ["factor", "original_length", "base", *BLEND],
    "yarn": ["factor", "original_length", "base", *BLEND, *MSCALE],
    "llama3": ["factor", "low_freq_factor", "high_freq_factor", "original_length", "base"],
    "longrope": ["short_factor", "long_factor", "length", "original_length", "factor", "base"],
}


def stretched(seed):
    """Frequencies as trained and after a recipe, with both lengths; some hands go round and some do not."""
    draw = np.random.default_rng(seed)
    dim, base = int(draw.integers(4, 65)) * 2, float(np.exp(draw.uniform(np.log(5e3), np.log(1e6))))
    trained, factor = int(draw.integers(64, 4_000)), float(draw.uniform(1, 40))
    recipe = (frequencies.linear, frequencies.ntk, frequencies.yarn, frequencies.llama3)[seed % 4]
    length = {"original_length": trained} if recipe in (frequencies.yarn, frequencies.llama3) else {}
    theta, plain = recipe(dim, factor, base=base, **length)[0], frequencies.rope_frequencies(dim, base)[0]
    return theta, plain, trained, int(draw.integers(64, 90_000))


@pytest.mark.parametrize("seed", range(12))
def test_two_prices(seed):
    theta, plain, trained, length = stretched(seed)
    given = {"theta": theta.tolist(), "old": plain.tolist(), "trained": trained, "length": length}
    went, g = trained * plain / (2 * np.pi), theta / plain
    np.testing.assert_allclose(STRETCH("turns(old, trained)", **given), went, **CLOSE)
    np.testing.assert_allclose(STRETCH("wavelengths(old)", **given), 2 * np.pi / plain, **CLOSE)
    found, slow = STRETCH("reach(theta, old, trained)", **given), np.flatnonzero(went < 1)
    overreach = (theta * length / (plain * trained))[slow].max()
    np.testing.assert_allclose(length / found["length"], overreach, **CLOSE)
    np.testing.assert_allclose(g[int(found["pair"])], g[slow].max(), **CLOSE)
    assert found["pair"] in slow
    np.testing.assert_allclose(STRETCH("squeeze(theta, old, trained)", **given), np.log2(1 / g[went >= 1]).mean())
    arcs = STRETCH("arcs(theta, length, old, trained)", **given)
    np.testing.assert_allclose(arcs["met"], went.clip(max=1), **CLOSE)
    asked = np.maximum(arcs["met"], (length * theta / (2 * np.pi)).clip(max=1))
    np.testing.assert_allclose(arcs["asked"], asked, **CLOSE)


def test_where_every_hand_went_round_nothing_is_new():
    found = STRETCH("reach([0.5], [1], 100)")
    assert found == {"pair": -1, "length": np.inf}
    assert STRETCH("squeeze([1], [1], 1)") == 0


def planned(recipe, **options):
    """A plan as the page gives it to the planner."""
    plan = {"name": "a model", "dim": 8, "base": 500_000, "factor": 3.5, "original_length": 8192, "length": 28_700}
    defaults = {"beta_fast": 32, "beta_slow": 1, "truncate": True, "low_freq_factor": 1, "high_freq_factor": 4}
    options = {name: value for name, value in options.items() if name in TAKES[recipe]}
    return defaults | plan | {"recipe": recipe, "options": options, "g": []} | options


@pytest.mark.parametrize("options", [{}, DEEPSEEK], ids=["plain", "with options"])
@pytest.mark.parametrize("recipe", TAKES)
def test_planner_writes_the_same_frequencies_in_both_languages(recipe, options):
    planner = (SCRIPTS / "figures/stretch-planner.js").read_text(encoding="utf-8")
    script, plan = quickjs.Context(), planned(recipe, **options, **LISTS)
    for found in re.finditer(r"^const (python|config|written) = .*?^}$", planner, re.M | re.S):
        script.eval(found[0])
    told = f"{json.dumps(plan)}, {json.dumps(TAKES[recipe])}"
    scope = dict(LISTS)
    exec(script.eval(f"python({told})"), scope)
    text = script.eval(f"config({told})")
    config = json.loads(text)
    longest = plan["original_length" if recipe == "dynamic_ntk" else "length"]
    assert config["max_position_embeddings"] == longest
    theta, attention_factor = from_config(config, plan["dim"], length=plan["length"])
    np.testing.assert_allclose(theta, scope["theta"], rtol=1e-12)
    assert attention_factor == pytest.approx(scope["attention_factor"], rel=1e-12)
    assert "attention_factor" not in text or '"attention_factor": 1.0' in text  # transformers wants a float here
    assert text.count("\n") < 16
    if "original_length" in TAKES[recipe] and recipe != "dynamic_ntk":
        assert config["rope_parameters"]["original_max_position_embeddings"] == plan["original_length"]
