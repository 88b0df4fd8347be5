"""What the plan says of every model type of transformers, beside its own code; sweep.py has the verdicts."""

import json
import sys
from collections import Counter

import pytest

from dev.model_types import facts_by_hand, modules, sweep
from dev.model_types.exceptions import EXCEPTED
from posenc.config import model_types
from tests.peers import peer

TESTED = "5.23.0"
STORED = json.loads(sweep.PATH.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def installed():
    version = peer("transformers").__version__
    if version != TESTED:
        pytest.skip(
            f"model_types.json is of transformers {TESTED}, {version} is installed: python -m dev.model_types.write"
        )


@pytest.mark.full
def test_every_model_type_has_the_verdict_that_is_stored(installed):
    """After a new model type: `python -m dev.model_types.write`, then `python -m dev.model_types.sweep`, and look."""
    verdicts = sweep.sweep()
    assert {*verdicts} == {*STORED}, {*verdicts} ^ {*STORED}
    changed = {name: (STORED[name][0], *verdict) for name, verdict in verdicts.items() if verdict[0] != STORED[name][0]}
    assert not changed


@pytest.mark.parametrize("name", ["llama", "gpt_oss", "deepseek_v3", "gemma3_text", "cohere2", "qwen3_5_text"])
def test_some_are_equal(installed, name):
    assert sweep.verdict(name) == ("equal", "")


WRONG = {
    "llama": {"layout": "interleaved"},
    "qwen2_vl_vision": {"grid": "columns first"},
    "sam3_vit_model": {"grid": "rows first"},
    "bert": {"offset": 2},
    "inkling_text": {"scale": "head"},
    "gptj": {"layout": "half"},
    "internlm3": {"share": 0.5},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_fact_is_noticed(installed, monkeypatch, name):
    assert sweep.verdict(name) == ("equal", "")
    facts = model_types.facts()
    facts[name] |= WRONG[name]
    monkeypatch.setattr(sys.modules["posenc.config.plan"], "facts", lambda: facts)
    assert sweep.verdict(name)[0] in ("unequal", "refused")


def test_no_verdict_is_unequal_and_each_exception_has_a_reason():
    counts = Counter(verdict for verdict, _ in STORED.values())
    assert {*counts} <= {*sweep.VERDICTS}
    assert {name for name, (verdict, _) in STORED.items() if verdict == "excepted"} == {*EXCEPTED}
    assert all(len(reason.split()) > 3 for reason in EXCEPTED.values())
    assert all(why for verdict, why in STORED.values() if verdict in ("refused", "none", "alone"))


def test_model_types_are_those_of_transformers(installed):
    assert {*model_types.facts()} == {*modules.mapping()}


def test_what_was_read_by_hand_stands_in_the_facts():
    """After a change of facts_by_hand.py: `python -m dev.model_types.write`, with the names of those that changed."""
    stored = model_types.facts()
    for name, more in facts_by_hand.facts(stored).items():
        wanted = json.loads(json.dumps({key: value for key, value in more.items() if value is not None}))
        facts = {key: stored[name].get(key) for key in wanted}
        assert facts == wanted, name


RULES = [
    ("gemma3_text", {"sliding_window_pattern": 4}),
    ("gemma2", {}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 5}),
    ("qwen2", {"sliding_window": 4096}),
    ("cohere2", {"sliding_window_pattern": 3}),
    ("modernbert", {"global_attn_every_n_layers": 4}),
    ("llama4_text", {"no_rope_layer_interval": 3}),
    ("jamba", {"attn_layer_period": 4, "attn_layer_offset": 1}),
    ("qwen3_next", {"full_attention_interval": 3}),
    ("lfm2", {"full_attn_idxs": [2, 5]}),
    ("exaone4", {"sliding_window": 4096, "sliding_window_pattern": 4}),
    ("muse_spark_text", {}),
    ("mimo_v2_flash", {}),
    ("flint", {}),
    ("gpt_oss", {}),
    ("inkling_text", {}),
    ("inkling_text", {"local_layer_ids": [1, 2]}),
]


@pytest.mark.parametrize(("name", "options"), RULES)
@pytest.mark.parametrize("count", [6, 13, 30])
def test_layers_are_of_the_types_that_the_configuration_class_says(installed, name, options, count):
    from posenc.config.layer_types import RENAMED, layer_types_of

    theirs = modules.mapping()[name](num_hidden_layers=count, **options)
    config = model_types.Config(options | {"num_hidden_layers": count}, name, model_types.facts()[name])
    assert layer_types_of(config) == [RENAMED.get(layer_type, layer_type) for layer_type in theirs.layer_types]
