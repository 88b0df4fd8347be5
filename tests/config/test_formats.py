"""Formats: what other programs' configurations say is what the config.json of the same model says."""

import json
import re

import numpy as np
import pytest

from posenc.config.formats.detection import FORMATS, merged, recognized, to_transformers
from posenc.config.plan import plan

LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32}
SCALED = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
LLAMA_31 = LLAMA | {"rope_theta": 5e5, "max_position_embeddings": 131_072}
LLAMA_31 |= {"rope_scaling": SCALED | {"rope_type": "llama3"}}
SCOUT = {"model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 8, "num_attention_heads": 40}
SCOUT |= {"no_rope_layers": [1, 1, 1, 0] * 2, "rope_theta": 5e5, "attention_chunk_size": 8192, "floor_scale": 8192}
SCOUT |= {"rope_scaling": SCALED | {"rope_type": "llama3", "factor": 16.0, "high_freq_factor": 1.0}}
SCOUT |= {"attn_temperature_tuning": True, "attn_scale": 0.1, "head_dim": 128}
YARN = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
GPT_OSS = {"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 2, "num_attention_heads": 64}
GPT_OSS |= {"head_dim": 64, "sliding_window": 128, "rope_theta": 150_000.0, "max_position_embeddings": 131_072}
GPT_OSS |= {"rope_scaling": YARN | {"original_max_position_embeddings": 4096}}
LATENT = {"hidden_size": 2048, "num_hidden_layers": 2, "num_attention_heads": 16, "kv_lora_rank": 512}
LATENT |= {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "rope_theta": 1e4}
LATENT |= {"max_position_embeddings": 163_840}
DEEP = {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 4096}
V2 = LATENT | {"model_type": "deepseek_v2", "q_lora_rank": None}
V2 |= {"rope_scaling": DEEP | {"mscale": 0.707, "mscale_all_dim": 0.707}}
V3 = LATENT | {
    "model_type": "deepseek_v3",
    "q_lora_rank": 1536,
    "rope_scaling": DEEP | {"mscale": 1, "mscale_all_dim": 1},
}
MISTRAL = {"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32}
MISTRAL |= {"head_dim": 128, "rope_theta": 1e6, "max_position_embeddings": 32_768}
MINISTRAL = {"model_type": "ministral3", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32}
MINISTRAL |= {"head_dim": 128, "max_position_embeddings": 262_144}
MINISTRAL["rope_parameters"] = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 16_384,
    "llama_4_scaling_beta": 0.1,
}
PYTHIA = {"model_type": "gpt_neox", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32}
PYTHIA |= {"rotary_pct": 0.25, "rotary_emb_base": 10_000, "max_position_embeddings": 2048}
GEMMA = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 7, "num_attention_heads": 8}
GEMMA |= {"head_dim": 256, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window": 1024}
GEMMA |= {"rope_scaling": {"rope_type": "linear", "factor": 8.0}, "max_position_embeddings": 131_072}
GEMMA |= {"layer_types": ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]}
QWEN = {"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32, "head_dim": 128}
QWEN |= {"rope_theta": 1e6, "max_position_embeddings": 40_960}

META = {"dim": 4096, "n_layers": 2, "n_heads": 32, "n_kv_heads": 8, "multiple_of": 1024, "norm_eps": 1e-5}
OF_GGUF = {"general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 4096}
OF_GGUF |= {"llama.attention.head_count": 32, "llama.rope.dimension_count": 128}
MEGATRON = {"num_layers": 2, "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128}
MEGATRON |= {"position_embedding_type": "rope", "rotary_base": 500_000, "rotary_percent": 1.0}
MEGATRON |= {"max_position_embeddings": 131_072, "rotary_interleaved": False}
LITGPT = {"name": "Llama-3.1-8B", "n_layer": 2, "n_embd": 4096, "n_head": 32, "n_query_groups": 8}
LITGPT |= {"block_size": 131_072, "rope_base": 500_000, "rotary_percentage": 1.0}
DEEPSEEK = {"dim": 2048, "n_layers": 2, "n_heads": 16, "inter_dim": 10_944, "kv_lora_rank": 512, "route_scale": 1.0}
DEEPSEEK |= {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
OF_MISTRAL = {"dim": 4096, "n_layers": 2, "n_heads": 32, "hidden_dim": 14_336, "head_dim": 128, "rope_theta": 1e6}
ORIGINAL = {"num_hidden_layers": 2, "hidden_size": 2880, "head_dim": 64, "num_attention_heads": 64}
ORIGINAL |= {"sliding_window": 128, "initial_context_length": 4096, "rope_theta": 150_000, "rope_scaling_factor": 32.0}
ORIGINAL |= {"rope_ntk_alpha": 1, "rope_ntk_beta": 32}
SAME = {  # name: the format, in the other words, in those of transformers
    "Llama 2, Meta": ("Meta", META, LLAMA | {"rope_theta": 1e4}),
    "Llama 3, Meta": ("Meta", META | {"rope_theta": 5e5}, LLAMA | {"rope_theta": 5e5}),
    "Llama 3.1, Meta": ("Meta", META | {"rope_theta": 5e5, "use_scaled_rope": True}, LLAMA_31),
    "Llama 3.2 1B, Meta": (
        "Meta",
        META | {"dim": 2048, "n_layers": 16, "rope_theta": 5e5, "use_scaled_rope": True},
        LLAMA_31
        | {"hidden_size": 2048, "num_hidden_layers": 16, "rope_scaling": SCALED | {"type": "llama3", "factor": 32.0}},
    ),
    "Llama 4 Scout, Meta": (
        "Meta",
        {"dim": 5120, "n_layers": 8, "n_heads": 40, "rope_theta": 5e5, "use_scaled_rope": True, "moe_args": {}}
        | {"nope_layer_interval": 4, "attention_chunk_size": 8192, "attn_temperature_tuning": True}
        | {"floor_scale": 8192, "attn_scale": 0.1, "head_dim": 128},
        SCOUT,
    ),
    "DeepSeek-V2-Lite": ("DeepSeek", DEEPSEEK | {"q_lora_rank": 0, "mscale": 0.707}, V2),
    "DeepSeek-V3": ("DeepSeek", DEEPSEEK | {"q_lora_rank": 1536, "score_func": "sigmoid"}, V3),
    "gpt-oss": ("gpt-oss", ORIGINAL, GPT_OSS),
    "Llama 3.1, Megatron": ("Megatron", MEGATRON | {"use_rope_scaling": True, "rope_scaling_factor": 8.0}, LLAMA_31),
    "Llama 2, Megatron, stretched": (
        "Megatron",
        MEGATRON | {"rotary_base": 10_000, "rotary_seq_len_interpolation_factor": 4},
        LLAMA | {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 4.0}},
    ),
    "YaRN, Megatron": (
        "Megatron",
        MEGATRON
        | {"position_embedding_type": "yarn", "yarn_rotary_scaling_factor": 32.0, "yarn_beta_fast": 32.0}
        | {"yarn_original_max_position_embeddings": 4096, "yarn_correction_range_round_to_int": False},
        LLAMA | {"rope_theta": 5e5, "rope_scaling": GPT_OSS["rope_scaling"]},
    ),
    "Llama 3.1, litgpt": (
        "litgpt",
        LITGPT
        | {
            "rope_adjustments": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
            | {"original_max_seq_len": 8192}
        },
        LLAMA_31,
    ),
    "Pythia, litgpt": (
        "litgpt",
        LITGPT | {"name": "pythia-6.9b", "rope_base": 10_000, "rotary_percentage": 0.25},
        PYTHIA,
    ),
    "Gemma 3, litgpt": (
        "litgpt",
        {"name": "Gemma-3-4b-it", "n_layer": 7, "n_embd": 2560, "n_head": 8, "head_size": 256, "n_query_groups": 4}
        | {"rope_base": 1_000_000, "rotary_percentage": 1.0, "rope_local_base_freq": 10_000, "block_size": 131_072}
        | {"rope_adjustments": {"factor": 8.0}, "rope_indices": [1, 1, 1, 1, 1, 0, 1], "sliding_window_size": 1024},
        GEMMA,
    ),
    "Llama 3, GGUF": ("GGUF", OF_GGUF | {"llama.rope.freq_base": 5e5}, LLAMA | {"rope_theta": 5e5}),
    "Llama 1, GGUF": ("GGUF", OF_GGUF, LLAMA | {"rope_theta": 1e4}),
    "stretched, GGUF": (
        "GGUF",
        OF_GGUF | {"llama.rope.freq_base": 1e4, "llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
        LLAMA | {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 4.0}},
    ),
    "YaRN, GGUF": (
        "GGUF",
        {name.replace("llama", "qwen3"): value for name, value in OF_GGUF.items()}
        | {"general.architecture": "qwen3", "qwen3.rope.freq_base": 1e6, "qwen3.rope.scaling.type": "yarn"}
        | {"qwen3.rope.scaling.factor": 4.0, "qwen3.rope.scaling.original_context_length": 32_768},
        QWEN | {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}},
    ),
    "Pythia, GGUF": (
        "GGUF",
        {name.replace("llama", "gptneox"): value for name, value in OF_GGUF.items()}
        | {"general.architecture": "gptneox", "gptneox.rope.dimension_count": 32, "gptneox.rope.freq_base": 1e4},
        PYTHIA,
    ),
    "DeepSeek-V3, GGUF": (
        "GGUF",
        {"general.architecture": "deepseek2", "deepseek2.block_count": 2, "deepseek2.attention.head_count": 16}
        | {"deepseek2.rope.dimension_count": 64, "deepseek2.attention.key_length": 192, "deepseek2.rope.freq_base": 1e4}
        | {
            "deepseek2.expert_gating_func": 2,
            "deepseek2.rope.scaling.type": "yarn",
            "deepseek2.rope.scaling.factor": 40.0,
        }
        | {"deepseek2.rope.scaling.original_context_length": 4096, "deepseek2.rope.scaling.yarn_log_multiplier": 0.1}
        | {"deepseek2.embedding_length": 2048},
        V3,
    ),
    "Gemma 3, GGUF": (
        "GGUF",
        {"general.architecture": "gemma3", "gemma3.block_count": 7, "gemma3.attention.head_count": 8}
        | {"gemma3.embedding_length": 2560, "gemma3.attention.key_length": 256, "gemma3.rope.freq_base": 1e6}
        | {
            "gemma3.rope.scaling.type": "linear",
            "gemma3.rope.scaling.factor": 8.0,
            "gemma3.attention.sliding_window": 1024,
        },
        GEMMA,
    ),
    "Mistral": ("Mistral", OF_MISTRAL, MISTRAL),
    "Ministral 3": (
        "Mistral",
        OF_MISTRAL
        | {
            "max_position_embeddings": 262_144,
            "llama_4_scaling": {"original_max_position_embeddings": 16_384, "beta": 0.1},
        }
        | {
            "yarn": {"factor": 16, "beta": 32, "alpha": 1, "apply_scale": False}
            | {"original_max_position_embeddings": 16_384}
        },
        MINISTRAL,
    ),
}
READ = (
    "layer_type",
    "head_dim",
    "slice",
    "theta",
    "attention_factor",
    "base",
    "window",
    "sections",
    "query_scale",
    "softmax_scale",
)


def read(config):
    """Return what a plan says of each layer, without the layout and the reasons."""
    return [{name: layer[name] for name in READ} for layer in plan(config).to_dict()["layers"]]


@pytest.mark.parametrize("name", SAME)
def test_another_program_s_configuration_is_read_as_that_of_transformers(name):
    program, other, ours = SAME[name]
    assert recognized(other).format == program
    converted = to_transformers(other)
    assert converted["model_type"] == ours["model_type"]
    assert converted.get("max_position_embeddings", 0) in (0, ours.get("max_position_embeddings", 0), 131_072)
    for actual, expected in zip(read(converted), read(ours), strict=True):
        numbers = ("theta", "attention_factor", "base", "softmax_scale")
        for key in READ:
            near = expected[key] is not None and key in numbers
            assert actual[key] == (pytest.approx(expected[key], rel=1e-12) if near else expected[key]), key


def test_all_formats_are_tried():
    assert {program for program, _, _ in SAME.values()} == {*FORMATS}


def test_a_plan_reads_them_all():
    for _, other, ours in SAME.values():
        theta = [layer.theta for layer in plan(other).layers if layer.theta is not None]
        expected = [layer.theta for layer in plan(ours).layers if layer.theta is not None]
        np.testing.assert_allclose(theta, expected, rtol=1e-12)


def test_the_words_of_transformers_stay():
    for _, _, ours in SAME.values():
        before = json.dumps(ours)
        assert to_transformers(ours) == ours
        assert recognized(ours).format == "transformers"
        assert json.dumps(ours) == before


@pytest.mark.parametrize(
    ("other", "layout"),
    [
        (META, "interleaved"),
        (OF_MISTRAL, "interleaved"),
        (OF_GGUF, "interleaved"),  # rows of q and k are reordered for it
        (MEGATRON, "half"),
        (MEGATRON | {"rotary_interleaved": True}, "interleaved"),
        (LITGPT, "half"),
        (ORIGINAL, None),  # that of transformers
        (DEEPSEEK, None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_layout_of_the_weights_beside_it_is_told(other, layout):
    assert recognized(other).layout == layout


@pytest.mark.parametrize(
    ("other", "warning"),
    [
        (META, "10,000 as in the code of Llama 1 and 2"),
        (META | {"rope_theta": 5e5, "use_scaled_rope": True}, "8 as in the published config of Llama 3.1"),
        (META | {"dim": 3072, "n_layers": 28, "rope_theta": 5e5, "use_scaled_rope": True}, "32 as in .* Llama 3.2"),
        (META | {"rope_theta": 5e5, "use_scaled_rope": True, "moe_args": {}}, "16 as in Meta's code for Llama 4"),
        (OF_GGUF, "freq_base is missing: 10,000 as in llama.cpp"),
        (OF_GGUF | {"llama.rope.freq_base": 5e5}, "scaling in the tensor rope_freqs.weight"),
        (DEEPSEEK, "rope_theta, rope_factor, original_seq_len not stated: as in DeepSeek's inference code"),
        (MEGATRON, "taken as llama"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_assumed_is_said(other, warning):
    (actual,) = recognized(other).warnings
    assert re.search(warning, actual)


def test_nothing_is_assumed_where_all_is_said():
    assert not recognized(ORIGINAL).warnings
    assert not recognized(META | {"rope_theta": 5e5}).warnings
    stated = {"rope_theta": 1e4, "rope_factor": 40, "original_seq_len": 4096}
    assert not recognized(DEEPSEEK | stated).warnings


def test_a_model_type_that_is_added_is_kept():
    assert to_transformers(MEGATRON | {"model_type": "qwen2"})["model_type"] == "qwen2"
    assert to_transformers(LITGPT | {"name": "mine", "model_type": "llama"})["model_type"] == "llama"


# vLLM


def test_overrides_of_vllm_take_the_place_of_what_a_config_says():
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    long = QWEN | {"rope_scaling": yarn}
    for overrides in ({"rope_scaling": yarn}, json.dumps({"rope_parameters": yarn | {"rope_theta": 1e6}})):
        assert read(merged(QWEN, overrides)) == read(long)
    new = {key: value for key, value in QWEN.items() if key != "rope_theta"}
    new |= {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    assert read(merged(new, {"rope_scaling": yarn})) == read(long)  # the base stays
    assert read(merged(long, {"rope_scaling": None})) == read(QWEN)


def test_overrides_reach_into_a_part():
    config = {"model_type": "gemma3", "text_config": GEMMA}
    result = merged(config, {"text_config": {"rope_theta": 5e5}})
    assert result["text_config"] == GEMMA | {"rope_theta": 5e5}
    assert config["text_config"]["rope_theta"] == 1e6


@pytest.mark.parametrize(
    ("fields", "factor"),
    [
        ({"attn_factor": 0.5}, 0.5 * (0.1 * np.log(4) + 1)),
        ({"apply_yarn_scaling": False}, 1.0),
        ({"apply_yarn_scaling": False, "attn_factor": 0.5}, 0.5),
        ({"apply_yarn_scaling": True, "extrapolation_factor": 1.0}, 0.1 * np.log(4) + 1),
    ],
)
def test_the_words_of_vllm_for_the_attention_factor(fields, factor):
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    for layer in plan(QWEN | {"rope_scaling": yarn | fields}).layers:
        assert layer.attention_factor == pytest.approx(factor, rel=1e-12)


# What is refused


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"rope_factor": 40, "rope_theta": 1e4}, "plan: config must be of one of GGUF, .*, got .*rope_factor"),
        (
            QWEN | {"rope_scaling": {"type": "yarn", "factor": 4, "extrapolation_factor": 0.5}},
            "extrapolation_factor must be 1",
        ),
        (QWEN | {"rope_scaling": {"attn_factor": 1, "attention_factor": 1.0}}, "attention_factor must be alone"),
        (OF_MISTRAL | {"rope_theta": None}, "plan: rope_theta must be stated, got None"),
        (OF_MISTRAL | {"qk_nope_head_dim": 128}, "without latent attention, got qk_nope_head_dim 128"),
        (MEGATRON | {"multi_latent_attention": True}, "plan: multi_latent_attention must be off, got True"),
        (MEGATRON | {"no_rope_freq": 4}, "plan: no_rope_freq must be off, got 4"),
        (MEGATRON | {"position_embedding_type": "learned_absolute"}, "must be rope or yarn, got 'learned_absolute'"),
        (
            MEGATRON | {"position_embedding_type": "yarn"},
            "yarn_rotary_scaling_factor must be stated for yarn, got None",
        ),
        (LITGPT | {"name": "mine"}, "plan: name must be of one of llama, .*, got 'mine'"),
        (
            LITGPT | {"rope_adjustments": {"factor": 4, "beta_fast": 32}},
            "rope_adjustments must be .*, got beta_fast too",
        ),
        (OF_GGUF | {"general.architecture": "rwkv6"}, "plan: architecture must be one of .*, got 'rwkv6'"),
        (
            OF_GGUF | {"llama.rope.scaling.type": "longrope"},
            "plan: scaling type must be none, linear or yarn, got 'longrope'",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_said_is_refused_by_name(other, message):
    with pytest.raises(ValueError, match=message):
        to_transformers(other)


COUNTS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")


@pytest.mark.parametrize("layers", [10_001, 10**12])
@pytest.mark.parametrize("name", SAME)
def test_more_layers_than_any_model_has_are_refused_in_each_format(name, layers):
    _, other, _ = SAME[name]
    keys = [key for key in other if key in COUNTS or key.endswith(".block_count")]
    assert keys
    with pytest.raises(ValueError, match=rf"(num_hidden|n)_layers must be at most 10,000.*, got {layers}; correct it$"):
        plan(other | dict.fromkeys(keys, layers))
