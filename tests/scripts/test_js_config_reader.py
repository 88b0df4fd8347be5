"""The plan of a configuration in both languages: the page's script finds what posenc.plan finds."""

import json
import math
import re
from pathlib import Path

import pytest

import posenc
from dev.model_types import modules
from posenc.config.formats.detection import format_of
from posenc.config.model_types import facts
from posenc.config.rules import rules
from tests.config import published, test_formats, test_layer_types
from tests.scripts.javascript import SCRIPTS, Script

ROOT = Path(__file__).parents[2]
SAMPLES = json.loads((ROOT / "docs/assets/data/configs.json").read_text(encoding="utf-8"))
READ = Script("config/plan.js")
READ.context.eval(f"const rules = {json.dumps(rules())}")
OTHERS = "plan: config must be in the keys of transformers, got those of "
BOTH = "(() => { try { return plan(fields, rules) } catch (error) { return { refused: error.message } } })()"


def assert_alike(package, script, where="plan"):
    """Compare two plans, numbers to twelve digits."""
    if isinstance(package, dict):
        assert package.keys() == script.keys(), where
        for name in package:
            assert_alike(package[name], script[name], f"{where}.{name}")
    elif isinstance(package, list | tuple):
        assert len(package) == len(script), where
        for index, (item, other) in enumerate(zip(package, script, strict=True)):
            assert_alike(item, other, f"{where}[{index}]")
    elif isinstance(package, float) and isinstance(script, int | float):
        assert math.isclose(package, script, rel_tol=1e-12), where
    else:
        assert package == script, where


def is_read_alike(config):
    """Compare the plans of both languages, or the words in which both refuse."""
    script = READ(BOTH, fields=config)
    if script.get("refused", "").startswith(OTHERS):
        assert format_of(config) == script["refused"].removeprefix(OTHERS)
        return False
    try:
        package = posenc.plan(config).to_dict()
    except ValueError as error:
        package = {"refused": str(error)}
    assert_alike(package, script)
    return "refused" not in package


@pytest.mark.parametrize("name", SAMPLES)
def test_published_configurations_are_read_alike(name):
    assert is_read_alike(SAMPLES[name])


@pytest.mark.parametrize("name", [name for name, config in vars(published).items() if name.isupper()])
def test_hand_written_configurations_are_read_alike(name):
    assert is_read_alike(vars(published)[name])


@pytest.mark.parametrize("name", test_formats.SAME)
def test_formats_are_told_apart_alike(name):
    program, other, ours = test_formats.SAME[name]
    assert READ(BOTH, fields=other) == {"refused": OTHERS + program}
    assert is_read_alike(ours)


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
CHANGES = {
    "a base of the code": {"rope_theta": None, "rope_parameters": None},
    "two bases": {"rope_theta": 7_000, "rope_parameters": {"rope_type": "default", "rope_theta": 9_000}},
    "two dicts": {"rope_theta": 7_000, "rope_scaling": YARN, "rope_parameters": YARN | {"rope_theta": 9_000}},
    "two dicts in another order": {"rope_scaling": YARN, "rope_parameters": dict(reversed(YARN.items()))},
    "yarn by its old name, without a length": {"rope_scaling": {"type": "yarn", "factor": 8}},
    "a list that misses layers": {"no_rope_layers": [1, 0]},
    "a part of each head": {"partial_rotary_factor": 0.5},
    "heads of an odd width": {"head_dim": 33, "partial_rotary_factor": 0.5},
    "heads of another width in one layer": {"per_layer_config": {"1": {"head_dim": 32}}},
    "a base for each layer": {"layer_rope_theta": [1e4, 0] * 99},
    "layers of other names": {
        "num_hidden_layers": 4,
        "layer_types": ["attention", "mamba", "sliding_attention", "conv"],
    },
    "fewer types than layers": {"layer_types": ["full_attention"]},
    "windows from a layer on": {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 2},
    "alpha": {"rope_scaling": {"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0}},
    "vLLM's factor": {"rope_scaling": YARN | {"attn_factor": 0.5}},
    "vLLM's name": {"rope_scaling": YARN | {"rope_type": "deepseek_yarn", "apply_yarn_scaling": False}},
    "vLLM's mixture": {"rope_scaling": YARN | {"extrapolation_factor": 0.5}},
    "vLLM's factor beside another": {"rope_scaling": YARN | {"attn_factor": 0.5, "attention_factor": 1.0}},
    "a word that is nearly known": {"rope_scaling": YARN | {"beta_fst": 8}},
    "a name that is nearly known": {"rope_thet": 1e6},
    "a word that nobody knows": {"rope_scaling": YARN | {"bogus": 8}},
    "a word of another program": {"rope_scaling": YARN | {"rope_factor": 8}},
    "a kind that nobody knows": {"rope_scaling": YARN | {"rope_type": "odd"}},
    "a model type that is nearly known": {"model_type": "lama"},
    "none": {"model_type": None},
    "no layers": {"num_hidden_layers": None, "layer_types": None},
    "too many layers": {"num_hidden_layers": 10**12, "layer_types": None},
    "too long a list of layers": {"layer_types": ["full_attention"] * 10_001},
    "layers that predict further tokens": {"num_nextn_predict_layers": 1, "layer_types": ["sliding_attention"] * 33},
    "a base of one": {"rope_theta": 1.0, "rope_parameters": None},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_changed_or_wrong_is_read_alike(name, change):
    is_read_alike(SAMPLES[name] | CHANGES[change])


@pytest.mark.parametrize("distance", [8, 16, 1e30, 2**53])
def test_distances_of_buckets_are_refused_alike(distance):
    is_read_alike({"model_type": "t5", "relative_attention_max_distance": distance})


@pytest.mark.parametrize("sections", [[22, 22, 20], [22, 20, 22], [32, 32], [22, 22, 10], [24, 20, 20], [16] * 4])
@pytest.mark.parametrize("name", sorted(name for name, fields in facts().items() if "mrope" in fields))
def test_sections_are_read_or_refused_alike(name, sections):
    is_read_alike({"model_type": name, "head_dim": 128, "rope_scaling": {"type": "default", "mrope_section": sections}})


@pytest.mark.parametrize("row", [*test_layer_types.TYPES, *test_layer_types.TYPES_OF_CODE, *test_layer_types.ROTATING])
def test_each_form_of_rule_is_read_alike(row):
    model_type, fields, letters = row
    is_read_alike({"model_type": model_type, "num_hidden_layers": len(letters)} | fields)


@pytest.mark.parametrize("name", sorted(facts()))
def test_a_configuration_that_says_nothing_is_read_alike(name):
    is_read_alike({"model_type": name})


@pytest.mark.parametrize("name", sorted(facts()))
def test_default_configurations_are_read_alike(name):
    config = modules.default(name) if modules.mapping().get(name) else None
    if config is None:
        pytest.skip("transformers cannot make it")
    is_read_alike(json.loads(config.to_json_string(use_diff=False)))


@pytest.mark.parametrize("name", sorted({*rules(), *rules()["sentences"]} - {"model_types", "sentences"}))
def test_what_python_hands_over_is_used(name):
    scripts = [path.read_text(encoding="utf-8") for path in (SCRIPTS / "config").glob("*.js") if path.stem != "rules"]
    assert re.search(rf"\b{name}\b", "".join(scripts))
