"""Export: what is said in another program's words is read back as the same rotation."""

import json
import shlex

import numpy as np
import pytest

from posenc.config.export import EXPORTS, export, llama_cpp, rope_parameters, rope_scaling, vllm
from posenc.config.formats.detection import merged
from posenc.config.plan import plan
from posenc.models.from_config import BASE_KEYS
from posenc.rotate.frequencies import by_parts, linear, rope_frequencies
from tests.config.test_formats import GEMMA, GPT_OSS, LLAMA, LLAMA_31, MINISTRAL, PYTHIA, QWEN, SCOUT, V2, V3
from tests.peers import peer

YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
PHI = {"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 32}
PHI |= {"rope_theta": 1e4, "max_position_embeddings": 131_072, "original_max_position_embeddings": 4096}
PHI |= {"rope_scaling": {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}}
CONFIGS = {
    "llama": LLAMA | {"rope_theta": 5e5},
    "llama 3.1": LLAMA_31,
    "linear": LLAMA | {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 4.0}},
    "dynamic": LLAMA
    | {"rope_theta": 1e4, "max_position_embeddings": 4096, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "qwen 3": QWEN | {"rope_scaling": YARN},
    "gpt-oss": GPT_OSS,
    "deepseek v2": V2,
    "deepseek v3": V3,
    "phi 3": PHI,
    "pythia": PYTHIA,
    "llama 4": SCOUT,
    "ministral": MINISTRAL,
    "gemma 3": GEMMA,
}
LEFT_OUT = {
    *BASE_KEYS,
    "rope_scaling",
    "rope_parameters",
    "rope_local_base_freq",
    "rotary_pct",
    "partial_rotary_factor",
}


def bare(config):
    """Return a configuration without what an export says."""
    return {name: value for name, value in config.items() if name not in LEFT_OUT}


def same(config, other, length=None):
    for actual, expected in zip(plan(config, length).layers, plan(other, length).layers, strict=True):
        assert (actual.theta is None) == (expected.theta is None)
        if actual.theta is not None:
            np.testing.assert_allclose(actual.theta, expected.theta, rtol=1e-14)
        assert actual.attention_factor == pytest.approx(expected.attention_factor, rel=1e-14)
        assert actual.softmax_scale == expected.softmax_scale
        assert actual.to_dict()["query_scale"] == expected.to_dict()["query_scale"]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("length", [None, 100_000])
def test_rope_parameters_are_read_back(name, length):
    config = CONFIGS[name]
    same(bare(config) | {"rope_parameters": rope_parameters(config)}, config, length)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_words_of_version_4_are_read_back(name):
    config = CONFIGS[name]
    scaling = rope_scaling(config)
    assert not {"rope_parameters"} & {*scaling}
    same(bare(config) | scaling, config)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_overrides_of_vllm_are_read_back(name):
    config = CONFIGS[name]
    option, overrides = shlex.split(vllm(config))
    assert option == "--hf-overrides"
    same(merged(bare(config), overrides), config)


@pytest.mark.parametrize("name", sorted({*CONFIGS} - {"dynamic", "gemma 3", "llama 4", "gpt-oss"}))
def test_transformers_computes_the_same_from_what_is_said(name):
    utils = peer("transformers.modeling_rope_utils")
    config = CONFIGS[name]
    rope = rope_parameters(config)
    layer = plan(config).layers[0]
    if rope["rope_type"] == "default":
        return
    theirs = type("Config", (utils.RotaryEmbeddingConfigMixin,), {})()
    width = layer.slice.stop - layer.slice.start
    theirs.__dict__.update(rope_parameters=rope, head_dim=width, hidden_size=width, num_attention_heads=1)
    theirs.__dict__.update(max_position_embeddings=config.get("max_position_embeddings"), layer_types=None)
    theirs.per_layer_config = {}
    theta, factor = utils.ROPE_INIT_FUNCTIONS[rope["rope_type"]](theirs, seq_len=1)
    np.testing.assert_allclose(layer.theta, theta.double().numpy(), rtol=3e-6)
    assert layer.attention_factor == pytest.approx(factor, rel=1e-9)


def test_the_export_into_a_config_of_transformers_5_is_what_it_builds():
    gemma = peer("transformers.models.gemma3.modeling_gemma3")
    rope = rope_parameters(GEMMA)
    assert rope["full_attention"] == {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}
    assert rope["sliding_attention"] == {"rope_type": "default", "rope_theta": 1e4}
    config = gemma.Gemma3TextConfig(**bare(GEMMA), rope_parameters=rope)
    module = gemma.Gemma3RotaryEmbedding(config)
    for layer in plan(GEMMA).layers:
        theirs = getattr(module, f"{layer.layer_type}_inv_freq")
        np.testing.assert_allclose(layer.theta, theirs.double().numpy(), rtol=2e-6)


def flags(text):
    arguments = shlex.split(text)
    return dict(zip(arguments[::2], arguments[1::2], strict=True))


@pytest.mark.parametrize("name", ["llama", "linear", "qwen 3", "pythia", "ministral"])
def test_the_options_of_llama_cpp_give_the_same_frequencies(name):
    layer, stated = plan(CONFIGS[name]).layers[0], flags(llama_cpp(CONFIGS[name]))
    width, base = 2 * len(layer.theta), float(stated["--rope-freq-base"])
    factor = float(stated.get("--rope-scale", 1))
    kind = stated.get("--rope-scaling", "none")
    if kind == "yarn":
        beta = float(stated.get("--yarn-beta-fast", 32)), float(stated.get("--yarn-beta-slow", 1))
        theta, _ = by_parts(width, factor, int(stated["--yarn-orig-ctx"]), base, *beta)
        grown = 0.1 * np.log(factor) + 1
        assert layer.attention_factor == pytest.approx(grown * float(stated.get("--yarn-attn-factor", 1)), rel=1e-8)
    else:
        theta, _ = linear(width, factor, base) if kind == "linear" else rope_frequencies(width, base)
        assert layer.attention_factor == 1
    np.testing.assert_allclose(layer.theta, theta, rtol=1e-12)


def test_the_options_of_llama_cpp_in_full():
    assert llama_cpp(QWEN | {"rope_scaling": YARN | {"beta_fast": 16, "attention_factor": 1.0}}) == (
        "--rope-freq-base 1e+06 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768 "
        "--yarn-beta-fast 16 --yarn-attn-factor 0.878248856"
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (LLAMA_31, "rope_type must be one of default, linear, yarn for llama.cpp, got llama3"),
        (PHI, "for llama.cpp, got longrope"),
        (GPT_OSS, "truncate must be True for llama.cpp, got False"),
        (GEMMA, "one type of layer for llama.cpp, got sliding_attention, full_attention"),
    ],
    ids=["llama3", "longrope", "truncate", "two types"],
)
def test_what_llama_cpp_cannot_say_is_refused(config, message):
    with pytest.raises(ValueError, match=message):
        llama_cpp(config)


def test_what_version_4_cannot_say_is_refused():
    gemma = peer("transformers.models.gemma4.configuration_gemma4").Gemma4TextConfig()
    with pytest.raises(ValueError, match="export: config must be of one type of layer for transformers 4, got sliding"):
        rope_scaling(gemma)
    local = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
    both = bare(GEMMA) | {"rope_parameters": {"full_attention": local, "sliding_attention": local | {"factor": 3.0}}}
    with pytest.raises(ValueError, match="sliding_attention must be without scaling for transformers 4"):
        rope_scaling(both)


@pytest.mark.parametrize("config", [{"model_type": "gpt2"}, {"model_type": "bert"}])
def test_a_model_that_does_not_rotate_has_nothing_to_export(config):
    with pytest.raises(ValueError, match="must be of layers that rotate"):
        rope_parameters(config)


def test_a_list_of_bases_is_refused():
    granite = {"model_type": "granite_swa", "layer_rope_theta": [1e4, 0], "num_hidden_layers": 2}
    with pytest.raises(ValueError, match="with layer_rope_theta; keep the list"):
        rope_parameters(granite)


def test_of_a_model_with_parts_the_text_is_exported():
    config = {"model_type": "gemma3", "text_config": GEMMA, "vision_config": {"model_type": "siglip_vision_model"}}
    assert rope_parameters(config) == rope_parameters(GEMMA)
    _, overrides = shlex.split(vllm(config))
    assert json.loads(overrides) == {"text_config": {"rope_parameters": rope_parameters(GEMMA)}}


def test_all_exports_are_text():
    for name in EXPORTS:
        assert "10000" in export(LLAMA | {"rope_theta": 1e4}, name).replace(".0", "")
    assert json.loads(export(QWEN, "v5"))["rope_parameters"]["rope_theta"] == 1e6
    with pytest.raises(ValueError, match=r"export: to must be one of v5, v4, vllm, llama.cpp, got 'gguf'"):
        export(QWEN, "gguf")
