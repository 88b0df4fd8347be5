"""The plan of a configuration in both languages: the page's script finds what posenc.plan finds."""

import json
import math
from pathlib import Path

import pytest

import posenc
from posenc.reading.kinds import facts
from tests.live.javascript import Script
from tests.reading import modules

ROOT = Path(__file__).parents[2]
SAMPLES = json.loads((ROOT / "docs/assets/data/configs.json").read_text(encoding="utf-8"))
READ = Script("reading/plan.js")
READ.context.eval(f"const kinds = {json.dumps(facts())}")
BOTH = "(() => { try { return plan(said, kinds) } catch (error) { return { refused: error.message } } })()"


def like(mine, theirs, where="plan"):
    """Compare two plans, numbers to twelve digits."""
    if isinstance(mine, dict):
        assert mine.keys() == theirs.keys(), where
        for name in mine:
            like(mine[name], theirs[name], f"{where}.{name}")
    elif isinstance(mine, list | tuple):
        assert len(mine) == len(theirs), where
        for index, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            like(one, other, f"{where}[{index}]")
    elif isinstance(mine, float) and isinstance(theirs, int | float):
        assert math.isclose(mine, theirs, rel_tol=1e-12), where
    else:
        assert mine == theirs, where


def both(said):
    """Compare what both find, or that both refuse."""
    theirs = READ(BOTH, said=said)
    try:
        mine = posenc.plan(said).to_dict()
    except ValueError as error:
        assert theirs.keys() == {"refused"}, error
        assert theirs["refused"].split(";")[0] == str(error).split(";")[0]
        return False
    assert "refused" not in theirs, theirs
    like(mine, theirs)
    return True


@pytest.mark.parametrize("name", SAMPLES)
def test_published_configurations_are_read_alike(name):
    assert both(SAMPLES[name])


@pytest.mark.parametrize("name", sorted(facts()))
def test_default_configurations_are_read_alike(name):
    config = modules.default(name) if modules.mapping().get(name) else None
    if config is None:
        pytest.skip("transformers cannot make it")
    both(json.loads(config.to_json_string(use_diff=False)))
