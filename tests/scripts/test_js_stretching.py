"""Frequencies stretched to longer texts: every recipe, what it costs, the planner, and the strips of the model zoo."""

import json
import re
from typing import Any

import numpy as np
import pytest
import quickjs

from posenc.models.from_config import from_config
from posenc.rotate import frequencies
from posenc.rotate.frequencies import ntk, proportional, rope_frequencies
from tests.scripts.javascript import SCRIPTS, Script, assert_close

STRETCH = Script("math/stretch.js")
ZOO = Script("math/zoo.js")


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


def stretched(draw, recipe):
    """Frequencies as trained and after a recipe, with both lengths; some hands go round and some do not."""
    dim, base = int(draw.integers(4, 65)) * 2, float(np.exp(draw.uniform(np.log(5e3), np.log(1e6))))
    trained, factor = int(draw.integers(64, 4_000)), float(draw.uniform(1, 40))
    length = {"original_length": trained} if recipe in (frequencies.yarn, frequencies.llama3) else {}
    theta, plain = recipe(dim, factor, base=base, **length)[0], frequencies.rope_frequencies(dim, base)[0]
    return theta, plain, trained, int(draw.integers(64, 90_000))


@pytest.mark.parametrize("recipe", [frequencies.linear, frequencies.ntk, frequencies.yarn, frequencies.llama3])
def test_two_prices(recipe, draw):
    theta, plain, trained, length = stretched(draw, recipe)
    inputs = {"theta": theta, "old": plain, "trained": trained, "length": length}
    turns, g = trained * plain / (2 * np.pi), theta / plain
    assert_close(STRETCH("turns(old, trained)", **inputs), turns)
    assert_close(STRETCH("wavelengths(old)", **inputs), 2 * np.pi / plain)
    reach, slow = STRETCH("reach(theta, old, trained)", **inputs), np.flatnonzero(turns < 1)
    overreach = (theta * length / (plain * trained))[slow].max()
    assert_close(length / reach["length"], overreach)
    assert_close(g[int(reach["pair"])], g[slow].max())
    assert reach["pair"] in slow
    np.testing.assert_allclose(STRETCH("squeeze(theta, old, trained)", **inputs), np.log2(1 / g[turns >= 1]).mean())
    arcs = STRETCH("arcs(theta, length, old, trained)", **inputs)
    assert_close(arcs["met"], turns.clip(max=1))
    required = np.maximum(arcs["met"], (length * theta / (2 * np.pi)).clip(max=1))
    assert_close(arcs["asked"], required)


def test_where_every_hand_went_round_nothing_is_new():
    reach = STRETCH("reach([0.5], [1], 100)")
    assert reach == {"pair": -1, "length": np.inf}
    assert STRETCH("squeeze([1], [1], 1)") == 0


def planned(recipe, **options) -> dict[str, Any]:
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
    for match in re.finditer(r"^const (python|config|literal) = .*?^}$", planner, re.M | re.S):
        script.eval(match[0])
    arguments = f"{json.dumps(plan)}, {json.dumps(TAKES[recipe])}"
    scope = dict(LISTS)
    exec(script.eval(f"python({arguments})"), scope)
    text = script.eval(f"config({arguments})")
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


def test_strips_of_wavelengths(draw):
    head = 4 * int(draw.integers(2, 60))
    turning = 2 * int(draw.integers(1, head // 2 + 1))
    base, length = 10 ** draw.uniform(2, 8), float(10 ** draw.uniform(1, 5))
    inputs = {"head": head, "turning": turning, "base": base, "length": length}

    narrow = 2 * np.pi / rope_frequencies(turning, base)[0]
    assert_close(ZOO("waves(head, turning, base, false)", **inputs), narrow, atol=0)
    stopped = proportional(head, turning / head, base=base)[0]
    fastest = 2 * np.pi / stopped[stopped > 0]
    ours = ZOO("waves(head, turning, base, true)", **inputs)
    assert_close(ours, fastest[: len(ours)], atol=0)
    assert len(ours) == turning // 2

    assert ZOO("unfinished(wavelengths, length)", wavelengths=narrow, length=length) == (narrow > length).sum()
    turned = ZOO("circle(Float64Array.from(wavelengths), length)", wavelengths=narrow, length=length)
    assert_close(turned, np.clip(length / narrow, 0, 1), atol=0)


def test_rules_for_a_base(draw):
    base, length = 10 ** draw.uniform(3, 8), 10 ** draw.uniform(2, 5)
    part = ZOO("share(length, base)", length=length, base=base)
    counted = (2 * np.pi / rope_frequencies(20_000, base)[0] > length).mean()
    assert part == pytest.approx(counted, abs=2e-4)
    assert ZOO("keeping(length, part)", length=length, part=part) == pytest.approx(base, rel=1e-9)
    longer = ZOO("keeping(length, part)", length=8 * length, part=part)
    assert ZOO("share(length, base)", length=8 * length, base=longer) == pytest.approx(part, abs=1e-9)

    dim, factor = 2 * int(draw.integers(4, 100)), draw.uniform(1.5, 40)
    raised = ZOO("ntkBase(base, factor, dim)", base=base, factor=factor, dim=dim)
    assert_close(rope_frequencies(dim, raised)[0], ntk(dim, factor, base)[0], atol=0)
