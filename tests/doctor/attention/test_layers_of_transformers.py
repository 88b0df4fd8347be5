"""Attention layers of transformers, by their names: healthy as they stand, and found out with a planted fault."""

import pytest

from posenc import diagnose
from posenc.doctor.call.transformers_layer import is_layer_of_transformers
from tests.doctor.assertions import assert_report, verdicts, wrong_ids
from tests.doctor.attention.patients import is_opened
from tests.peers import peer

ROTATED = """LlamaAttention MistralAttention Qwen3Attention GemmaAttention Gemma2Attention Gemma3Attention PhiAttention
    CohereAttention StableLmAttention GlmAttention Olmo2Attention Starcoder2Attention GraniteAttention GPTNeoXAttention
    GPTJAttention GPT2Attention OPTAttention DeepseekV3Attention"""
BIASED = "BloomAttention MptAttention T5Attention ModernBertAttention"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROTATED.split())
def test_a_layer_with_a_cache_is_healthy(name):
    peer("transformers")
    report = diagnose(f"transformers:{name}")
    assert report.kind == "attention"
    assert_report(report)
    assert verdicts(report, "cache", "padding") == ["ok", "ok"]


@pytest.mark.parametrize("name", BIASED.split())
def test_a_layer_with_a_bias_or_without_a_cache_is_healthy(name):
    peer("transformers")
    report = diagnose(f"transformers:{name}")
    assert_report(report)
    assert is_opened(report)


@pytest.mark.filterwarnings("ignore")
def test_a_layer_that_rotates_queries_alone(monkeypatch):
    peer("transformers")
    module = peer("transformers.models.llama.modeling_llama")
    turn = module.apply_rotary_pos_emb
    monkeypatch.setattr(module, "apply_rotary_pos_emb", lambda q, k, cos, sin: (turn(q, k, cos, sin)[0], k))
    assert "one-side" in wrong_ids(diagnose("transformers:LlamaAttention"))


@pytest.mark.filterwarnings("ignore")
def test_a_layer_that_is_diagnosed_keeps_its_settings():
    library, module = peer("transformers"), peer("transformers.models.llama.modeling_llama")
    config = library.LlamaConfig(hidden_size=64, num_attention_heads=4, num_key_value_heads=2)
    config._attn_implementation = "sdpa"
    layer = module.LlamaAttention(config, layer_idx=0)
    assert_report(diagnose(layer))
    assert layer.config._attn_implementation == "sdpa"


def test_only_a_module_is_a_layer_of_transformers():
    namesake = type("AttentionMask", (dict,), {"__module__": "transformers.models.llama.modeling_llama"})
    assert not is_layer_of_transformers(namesake)
