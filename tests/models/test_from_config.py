"""From config: transformers over random configs and single models, every kind of model, and what is refused."""

import json
import math
import random
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc.__main__ import main
from posenc.models import from_config as file
from posenc.models.from_config import DEFAULT_BASE_TYPES, from_config, parts, problem, widths
from posenc.rotate.frequencies import dynamic_ntk, linear, llama3, longrope, ntk, proportional, rope_frequencies, yarn
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

LLAMA = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA_3_1 = LLAMA | {"original_max_position_embeddings": 8192}
PLAIN_LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5}


def assert_gives(expected, config, dim=64, *lengths, rtol=1e-14):
    """Compare theta and the attention factor that a config gives with those `expected`."""
    theta, attention_factor = from_config(config, dim, *lengths)
    np.testing.assert_allclose(theta, expected[0], rtol=rtol, err_msg=f"{config} {lengths}")
    assert attention_factor == pytest.approx(expected[1], rel=1e-12)


@vectors("rope_inv_freq")
def test_a_config_gives_the_frequencies_of_transformers(vector):
    config = vector["params"]
    theta, attention_factor = from_config(config, config["head_dim"], length=config.get("seq_len"))
    assert_agrees(vector, theta, vector["expected"]["inv_freq"])
    assert_agrees(vector, attention_factor, vector["expected"]["attention_factor"])


# Peers: the formulas of transformers


def modeling(name):
    return peer(f"transformers.models.{name}.modeling_{name}")


def configuration(name):
    return peer(f"transformers.models.{name}.configuration_{name}")


def minimal(rope, **settings):
    """Return what transformers' functions need of a config, without a model."""
    utils = peer("transformers.modeling_rope_utils")
    config = type("Config", (utils.RotaryEmbeddingConfigMixin,), {})()
    known = {"hidden_size": 64, "num_attention_heads": 1, "max_position_embeddings": 4096, "layer_types": None}
    config.__dict__.update(known, **settings, rope_parameters=json.loads(json.dumps(rope)))
    config.per_layer_config = dict.fromkeys(rope, config)
    return config


def of_transformers(config, length=None, layer=None):
    utils = peer("transformers.modeling_rope_utils")
    rope = config.rope_parameters if layer is None else config.rope_parameters[layer]
    kind = rope.get("rope_type", rope.get("type"))
    theta, attention_factor = utils.ROPE_INIT_FUNCTIONS[kind](config, seq_len=length, layer_type=layer)
    return theta.double().numpy(), float(attention_factor)


def random_config(kind, rng):
    """Return a random config of a kind, settings at either level, some of them left out, and the length so far."""
    dim = rng.choice([32, 64, 80, 96, 128, 256])
    config = {"head_dim": dim, "max_position_embeddings": rng.choice([2048, 4096, 32_768, 131_072])}
    rope = {rng.choice(["rope_type", "type"]): kind, "rope_theta": rng.choice([1e4, 1.5e5, 5e5, 1e6])}
    turned = dim
    if rng.random() < 0.5:
        rng.choice([config, rope])["partial_rotary_factor"] = fraction = rng.choice([0.25, 0.5, 0.75, 1.0])
        turned = dim if kind == "proportional" else int(dim * fraction)
    if kind in ("linear", "dynamic", "llama3") or rng.random() < 0.5:
        rope["factor"] = rng.choice([1.0, 2.0, 4.0, 8.0, 40.0, 2.5])
    elif kind == "yarn":
        rope["factor"] = None  # transformers wants the key
    if kind in ("yarn", "longrope", "llama3") and rng.random() < 0.7:
        rng.choice([config, rope])["original_max_position_embeddings"] = rng.choice([1024, 2048])
    if kind in ("yarn", "longrope") and rng.random() < 0.3:
        rope["attention_factor"] = rng.uniform(0.5, 2)
    if kind == "yarn":
        options = {"beta_fast": 16.0, "beta_slow": 2.0, "truncate": False, "mscale": 0.707, "mscale_all_dim": 1.2}
        rope |= {name: value for name, value in options.items() if rng.random() < 0.4}
    if kind == "llama3":
        rope["low_freq_factor"], rope["high_freq_factor"] = rng.choice([(1.0, 4.0), (1.0, 1.0), (2.0, 32.0)])
    if kind == "longrope":
        rope["short_factor"] = [rng.uniform(1, 3) for _ in range(turned // 2)]
        rope["long_factor"] = [rng.uniform(1, 60) for _ in range(turned // 2)]
    return config, rope, rng.choice([None, 1, 1024, 4096, 4097, 200_000])


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "longrope", "llama3", "proportional"])
def test_100_random_configs_give_what_transformers_computes(kind):
    rng = random.Random(kind)
    for _ in range(100):
        config, rope, length = random_config(kind, rng)
        expected = of_transformers(minimal(rope, **config), length)
        assert_gives(expected, config | {"rope_parameters": rope}, config["head_dim"], length, rtol=3e-6)
        assert_gives(expected, rope | config, config["head_dim"], length, rtol=3e-6)


def test_transformers_overlooks_truncate_in_the_part_of_a_type_of_layer():
    part = {"rope_type": "yarn", "rope_theta": 150_000.0, "factor": 32.0, "truncate": False}
    part["original_max_position_embeddings"] = 4096
    nested = minimal({"full_attention": part}, layer_types=["full_attention"])
    of_part, of_all = of_transformers(nested, layer="full_attention"), of_transformers(minimal(part))
    assert_gives(of_all, part, rtol=2e-6)
    assert_gives(of_part, part | {"truncate": True}, rtol=2e-6)
    assert np.abs(of_part[0] / of_all[0] - 1).max() > 0.7


def test_a_ramp_that_is_cut_at_the_last_channel_equals_that_of_transformers():
    # from pair 3 to channel 15, where the turns would have it end at 17
    rope = {"rope_type": "yarn", "rope_theta": 10.0, "factor": 8.0, "original_max_position_embeddings": 635}
    assert_gives(of_transformers(minimal(rope, head_dim=16)), rope, 16, rtol=1e-6)


def test_transformers_slows_pairs_that_turn_often_where_the_ramp_would_start_past_the_last_channel():
    # at base 10 every pair turns more than 10,000 times in this context: nothing is to be slowed
    rope = {"rope_type": "yarn", "rope_theta": 10.0, "factor": 8.0, "original_max_position_embeddings": 1_000_000}
    theirs, _ = of_transformers(minimal(rope, head_dim=8))
    np.testing.assert_allclose(theirs, rope_frequencies(8, 10.0)[0] / 8, rtol=1e-6)
    np.testing.assert_array_equal(from_config(rope, 8)[0], rope_frequencies(8, 10.0)[0])


# Peers: models of transformers


@pytest.mark.parametrize("fraction", [None, 0.25])
def test_the_default_equals_that_of_gpt_neox(fraction):
    rope = {"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": fraction or 1.0}
    neox = modeling("gpt_neox").GPTNeoXRotaryEmbedding
    assert_gives(neox.compute_default_rope_parameters(minimal(rope, head_dim=64)), rope, rtol=2e-6)


def test_older_configs_are_read_as_transformers_reads_them():
    scaling = {"type": "su", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    old = {"hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 131_072}
    old |= {"original_max_position_embeddings": 4096, "rope_theta": 1e4, "rope_scaling": scaling}
    new = json.loads(json.dumps(old | {"rope_scaling": scaling | {"type": "longrope"}}))
    config = configuration("phi3").Phi3Config(**new)
    for length in (None, 4097):
        assert_gives(of_transformers(config, length), old, 8, length, rtol=2e-6)
        assert_gives(from_config(old, 8, length), config.to_dict(), 8, length)


def test_the_parts_of_gemma_3():
    config = configuration("gemma3").Gemma3TextConfig(rope_scaling={"rope_type": "linear", "factor": 8.0}).to_dict()
    for layer, expected in [("full_attention", linear(256, 8.0, 1e6)), ("sliding_attention", rope_frequencies(256))]:
        assert_gives(expected, config | {"rope_parameters": config["rope_parameters"][layer]}, 256)


@pytest.mark.parametrize("length", [1, 4096, 4097])
def test_the_attention_factors_of_phi_3_5_moe(length):
    phimoe = modeling("phimoe")
    rope = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "short_mscale": 1.1}
    rope |= {"long_mscale": 1.243163121016122, "original_max_position_embeddings": 4096}
    raw = {"max_position_embeddings": 131_072, "rope_theta": 1e4, "hidden_size": 32, "num_attention_heads": 4}
    embedding = phimoe.PhimoeRotaryEmbedding(phimoe.PhimoeConfig(**raw, rope_scaling=dict(rope)))
    cos, _ = embedding(torch.zeros(1), torch.tensor([[0, length - 1]]))
    theta, attention_factor = from_config(raw | {"rope_scaling": rope}, 8, length)
    assert attention_factor == pytest.approx(cos[0, 0, 0].item(), rel=1e-6)
    # transformers 5.23 sets the long factors in this class, and then turns by the short ones
    np.testing.assert_allclose(theta, embedding.inv_freq, rtol=2e-6)


def test_the_fixed_alpha_of_hunyuan():
    hunyuan = modeling("hunyuan_v1_dense")
    rope = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1}
    raw = {"head_dim": 128, "rope_theta": 1e4, "max_position_embeddings": 32_768}
    embedding = hunyuan.HunYuanDenseV1RotaryEmbedding(hunyuan.HunYuanDenseV1Config(**raw, rope_scaling=dict(rope)))
    for length in (None, 100_000):
        assert_gives((embedding.inv_freq, 1), raw | {"rope_scaling": rope}, 128, length, rtol=2e-6)


def test_the_rotary_dim_of_minimax_m2():
    minimax, raw = modeling("minimax_m2"), {"head_dim": 128, "rotary_dim": 64, "rope_theta": 5e6}
    embedding = minimax.MiniMaxM2RotaryEmbedding(minimax.MiniMaxM2Config(**raw))
    assert_gives((embedding.inv_freq, 1), raw, 128, rtol=2e-6)


def test_the_base_of_chatglm_equals_that_of_its_conversion_to_glm():
    converted = {"rope_type": "default", "rope_theta": 10_000.0 * 500, "partial_rotary_factor": 0.5}
    glm = modeling("glm").GlmRotaryEmbedding
    theirs = glm.compute_default_rope_parameters(minimal(converted, head_dim=128))
    assert_gives(theirs, {"model_type": "chatglm", "rope_ratio": 500, "kv_channels": 128}, 128, rtol=2e-6)


def test_the_rotary_embedding_base_of_wav2vec2():
    wav2vec2 = modeling("wav2vec2_conformer")
    config = wav2vec2.Wav2Vec2ConformerConfig(rotary_embedding_base=500, position_embeddings_type="rotary")
    theta = wav2vec2.Wav2Vec2ConformerRotaryPositionalEmbedding(config).inv_freq
    assert_gives((theta, 1), config, config.hidden_size // config.num_attention_heads, rtol=2e-6)


def test_an_object_of_llama_is_read_like_its_dict():
    config = configuration("llama").LlamaConfig(head_dim=128, rope_scaling=dict(LLAMA_3_1))
    assert_gives(llama3(128, base=1e4), config, 128)


def test_an_odd_part_of_a_head_of_glm_4_moe():
    glm = modeling("glm4_moe").Glm4MoeRotaryEmbedding
    shared = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    assert_gives(glm.compute_default_rope_parameters(minimal(shared, head_dim=42)), shared, 42, rtol=2e-6)
    for rope in ({"rope_type": "linear", "factor": 4.0}, LLAMA | {"original_max_position_embeddings": 512}):
        assert_gives(of_transformers(minimal(shared | rope, head_dim=42)), shared | rope, 42, rtol=2e-6)


def test_the_longest_context_of_dbrx():
    rope = {"rope_type": "dynamic", "rope_theta": 5e5, "factor": 4.0}
    config = configuration("dbrx").DbrxConfig(max_seq_len=4096, d_model=512, n_heads=8, rope_parameters=dict(rope))
    theirs = of_transformers(config, 10_000)
    assert_gives(theirs, config, 64, 10_000, rtol=2e-6)
    assert_gives(theirs, {"max_seq_len": 4096, "rope_parameters": rope}, 64, 10_000, rtol=2e-6)


def test_the_share_of_mistral_4_and_deepseek_v4_is_of_the_whole_head():
    mistral = configuration("mistral4").Mistral4Config()
    theirs = of_transformers(mistral)
    assert_gives(theirs, mistral, mistral.head_dim, rtol=2e-6)
    assert 2 * len(theirs[0]) == mistral.qk_rope_head_dim
    assert mistral.qk_rope_head_dim < mistral.head_dim
    deepseek = configuration("deepseek_v4").DeepseekV4Config().to_dict()
    part = deepseek | {"rope_parameters": deepseek["rope_parameters"]["main"]}
    assert from_config(part, deepseek["head_dim"])[0].shape == (32,)
    deepseek = configuration("deepseek_v3").DeepseekV3Config()
    assert from_config(deepseek, deepseek.qk_rope_head_dim)[0].shape == (32,)


def test_the_full_attention_of_gemma_4_has_heads_of_its_own_width():
    gemma = configuration("gemma4").Gemma4TextConfig().to_dict()
    full = gemma | {"rope_parameters": gemma["rope_parameters"]["full_attention"]}
    first_published = full | {"per_layer_config": {}, "global_head_dim": 512}
    assert len(from_config(full, 512)[0]) == 256
    assert len(from_config(first_published, 512)[0]) == 256
    with pytest.raises(ValueError, match=r"from_config: dim must be \{512\}, as config has it, got 256"):
        from_config(full, gemma["head_dim"])


def test_an_axis_of_dinov3_turns_half_of_a_head():
    dinov3 = modeling("dinov3_vit")
    config = dinov3.DINOv3ViTConfig()  # heads of 64
    assert_gives((dinov3.DINOv3ViTRopePositionEmbedding(config).inv_freq, 1), config, 32, rtol=2e-6)


def test_colpali_is_refused_with_its_part():
    colpali = configuration("colpali").ColPaliConfig()
    with pytest.raises(ValueError, match=r"of one type of layer, got \['vlm_config.text_config'\]; pick one"):
        from_config(colpali, 64)
    text = colpali.to_dict()["vlm_config"]["text_config"]
    assert len(from_config(text, text["head_dim"])[0]) == text["head_dim"] // 2


def test_of_all_models_of_transformers_only_those_with_a_base_give_numbers():
    auto = peer("transformers.models.auto.configuration_auto")
    numbers, refusals = set(), []
    for name in auto.CONFIG_MAPPING_NAMES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                config = json.loads(json.dumps(auto.CONFIG_MAPPING[name]().to_dict(), default=str))
        except Exception:  # two kinds cannot be made without arguments
            continue
        try:
            from_config(config, next(iter(widths(config)), 64))
        except ValueError as error:
            refusals.append(str(error))
        else:
            numbers.add(name)
            fields = config | (config.get("rope_parameters") or {})
            assert name in DEFAULT_BASE_TYPES or any(fields.get(key) for key in file.BASE_KEYS), name
    assert not [message for message in refusals if {"spelled", "words"} & {*message.split()}]
    assert {"llama", "qwen3", "gpt_neox", "gptj", "deepseek_v3", "phi3"} <= numbers
    without = {"gpt2", "bert", "bloom", "t5", "mamba", "jamba", "nemotron_h", "zamba2", "granitemoehybrid", "clip"}
    assert not numbers & without
    assert len(refusals) > 400


# Configs as they are found: what they state, and the formula of it

PLAIN = [
    {},
    {"model_type": "llama", "max_position_embeddings": 2048, "max_length": 20},
    {"rope_scaling": None, "rope_theta": None},
    {"rope_parameters": {}},
    {"rope_type": "default"},
    {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
    {"rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [16, 24, 24]}},
    {"quantization_config": {"quant_method": "fp8"}, "rope_scaling": None},
    {"layer_rope_theta": None},  # a list for each layer that holds nothing
    {"partial_rotary_factors": []},
    *({"model_type": name, "vocab_size": 50_000, "partial_rotary_factor": 1.0} for name in sorted(DEFAULT_BASE_TYPES)),
]


@pytest.mark.parametrize("config", PLAIN, ids=str)
def test_what_is_not_stated_is_plain_rope(config):
    assert_gives(rope_frequencies(64), config)


BASES = ("rope_theta", "rotary_emb_base", "rotary_embedding_base", "rotary_base", "global_rope_theta")
SHARES = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rope_percent", "rotary_percent", "rotary_emb_fraction")
LINEAR = {"rope_type": "linear", "type": "dynamic", "factor": 2.0}
YARN = {"rope_type": "yarn", "original_max_position_embeddings": 4096, "max_position_embeddings": 131_072}
LONGROPE = YARN | {"rope_type": "longrope", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
CHATGLM = {"model_type": "chatglm", "kv_channels": 64, "seq_length": 131_072}
LATENT = {"qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
GEMMA_4 = {"rope_type": "proportional", "head_dim": 32, "per_layer_config": {"full_attention": {"head_dim": 64}}}
CASES = {
    **{name: ({"rope_scaling": {"type": "default"}, name: 500}, rope_frequencies(64, 500.0)) for name in BASES},
    **{name + " 1/4": ({name: 0.25, "rotary_emb_base": 500.0}, rope_frequencies(16, 500.0)) for name in SHARES},
    "llama 3.1 as it was": ({"rope_theta": 5e5, "rope_scaling": LLAMA_3_1}, llama3(64)),
    "llama 3.1 as it is": ({"rope_parameters": LLAMA_3_1 | {"rope_theta": 5e5}}, llama3(64)),
    "its rope_parameters alone": (LLAMA_3_1 | {"rope_theta": 5e5}, llama3(64)),
    "rope_type before type": (LINEAR, linear(64, 2.0)),
    "in the other order": (dict(reversed(LINEAR.items())), linear(64, 2.0)),
    "and inside": ({"rope_scaling": LINEAR}, linear(64, 2.0)),
    "what stands inside first": (
        {"rope_theta": 5e5, "partial_rotary_factor": 1.0, "rope_parameters": {"rope_theta": 9.0, "rotary_pct": 0.5}},
        rope_frequencies(32, 9.0),
    ),
    "of the original length what stands outside, as in transformers": (
        {"original_max_position_embeddings": 1024, "rope_parameters": YARN | {"factor": 4.0}},
        yarn(64, 4.0, 1024),
    ),
    "a factor of 131,072 / 4,096": (YARN | {"factor": None}, yarn(64, 32.0, 4096)),
    "the same of longrope": (LONGROPE, longrope(64, np.ones(32), np.full(32, 2.0), 1, 4096, 32.0)),
    "an attention factor before mscale": (
        YARN | {"factor": 40.0, "mscale": 0.5, "mscale_all_dim": 1.0, "attention_factor": 1.5},
        (yarn(64, 40.0, 4096)[0], 1.5),
    ),
    "hunyuan": ({"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0}, ntk(64, 1000.0)),
    "chatglm": (CHATGLM, rope_frequencies(32)),
    "chatglm for longer texts": (CHATGLM | {"rope_ratio": 50}, rope_frequencies(32, 5e5)),
    "a ratio of another base": (CHATGLM | {"rope_ratio": 0.5, "rope_theta": 100.0}, rope_frequencies(32, 50.0)),
    "all of a head": (CHATGLM | {"partial_rotary_factor": 1.0}, rope_frequencies(64)),
    "a ratio alone": ({"rope_ratio": 500}, rope_frequencies(64, 5e6)),
    "gpt-j": ({"rotary_dim": 30}, rope_frequencies(30)),
    "a share before rotary_dim": ({"rotary_dim": 16, "partial_rotary_factor": 0.5}, rope_frequencies(32)),
    "an odd share of 21 channels": ({"partial_rotary_factor": 1 / 3}, (10_000 ** (-2 * np.arange(11) / 21), 1)),
    "a share of all pairs": ({"rope_type": "proportional", "partial_rotary_factor": 0.25}, proportional(64, 0.25)),
    "latent attention": (LATENT, rope_frequencies(64)),
    "a share of all its channels": (LATENT | {"partial_rotary_factor": 0.5}, rope_frequencies(32)),
    "gemma 4": (GEMMA_4, proportional(64, 1.0)),
}


@pytest.mark.parametrize(("config", "expected"), CASES.values(), ids=CASES.keys())
def test_a_config_and_its_formula(config, expected):
    assert_gives(expected, config)


@pytest.mark.parametrize("longest", ["max_position_embeddings", "max_seq_len"])
def test_dynamic_ntk_counts_the_text_so_far(longest):
    # max_length and the like are no names of the file: old configs hold a max_length of 20 for generating
    config = {"max_length": 20, "length": 10**6, "dim": 4096, "base": 2.0, "fraction": 0.5, "original_length": 7}
    rope = {"rope_type": "dynamic", "factor": 2.0, longest: 4096}
    for whole in (config | rope, config | {"rope_parameters": rope}):
        assert_gives(rope_frequencies(64), whole)
        assert_gives(dynamic_ntk(64, 2.0, 8192, 4096), whole, 64, 8192)
        assert_gives(dynamic_ntk(64, 2.0, 100, 50), whole, 64, 100, 50)  # max_length replaces the config's longest


@pytest.mark.parametrize(("length", "attention_factor"), [(4096, 1.1), (4097, 1.2)])
def test_phi_3_5_moe_states_a_factor_for_short_texts_and_another_for_long_ones(length, attention_factor):
    rope = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [1.0] * 4, "factor": 2.0}
    rope |= {"short_mscale": 1.1, "long_mscale": 1.2, "original_max_position_embeddings": 4096}
    assert from_config(rope, 8, length)[1] == attention_factor
    assert from_config(rope | {"attention_factor": 1.5}, 8, length)[1] == 1.5


@pytest.mark.parametrize(
    "neutral",
    [
        {"position_embedding_type": "rope", "alibi": False, "use_mem_rope": True},
        {"use_scaled_rope": False, "rotary_scaling_factor": None, "attn_factor": 1.0, "apply_yarn_scaling": True},
        {"rope_scaling": {"rope_type": "default", "mrope_section": [16], "mrope_interleaved": True, "finetuned": True}},
        {"rope_interleave": True, "max_2d_position_embeddings": 9, "base_model": ""},
    ],
    ids=str,
)
def test_keys_that_change_no_frequency_are_let_through(neutral):
    assert problem(PLAIN_LLAMA | neutral) is None
    assert_gives(from_config(PLAIN_LLAMA, 128), PLAIN_LLAMA | neutral, 128)


def test_no_key_is_both_read_and_another_programs():
    assert not file.ROPE_KEYS & {*file.FOREIGN}


WIDTHS = [
    ({}, "default", set()),
    ({"hidden_size": 4096}, "default", set()),
    ({"hidden_size": 4096, "num_attention_heads": [32, 16]}, "default", set()),
    ({"n_embd": 768, "n_head": 12}, "default", {64}),
    ({"hidden_size": 4096, "num_attention_heads": 32, "head_dim": None}, "default", {128}),
    ({"hidden_size": 5120, "num_attention_heads": 32, "head_dim": 128}, "default", {128}),
    ({"head_dim": 256, "global_head_dim": 512}, "default", {256, 512}),
    ({"head_dim": 256, "global_head_dim": 512}, "proportional", {512}),
    ({"head_dim": 192, "qk_rope_head_dim": 64}, "default", {64}),
    ({"head_dim": 128, "qk_rope_head_dim": 64, "partial_rotary_factor": 0.5}, "default", {128}),
    ({"model_type": "dinov3_vit", "hidden_size": 384, "num_attention_heads": 6}, "default", {32}),
]


@pytest.mark.parametrize(("config", "rope_type", "expected"), WIDTHS, ids=str)
def test_the_widths_that_a_config_states(config, rope_type, expected):
    assert widths(config, rope_type) == expected


# What is refused: what would give a wrong result without an error

NO_BASE = [
    {"model_type": "gpt2", "n_positions": 1024, "n_embd": 768, "n_head": 12},
    {"model_type": "bert", "max_position_embeddings": 512, "position_embedding_type": "absolute"},
    {"model_type": "mamba", "hidden_size": 768},
    {"model_type": "kimi_linear", "qk_rope_head_dim": 64, "num_attention_heads": 32},
    {"model_type": "persimmon", "partial_rotary_factor": 0.5},  # its code has 25,000
    {"model_type": "mixtral", "rope_scaling": {"type": "linear", "factor": 2.0}},  # its code has 1,000,000
    {"model_type": "llama4", "rope_parameters": {"rope_type": "default", "rope_theta": None}},
    {"hidden_size": 768, "num_attention_heads": 12},
    {"dim": 4096, "n_layers": 32, "n_heads": 32, "norm_eps": 1e-5},  # Llama 2 as Meta has it
]


@pytest.mark.parametrize("config", NO_BASE, ids=lambda config: config.get("model_type", "no type"))
def test_a_model_that_states_no_base_is_refused_until_it_states_it(config):
    name = config.get("model_type", "model")
    message = f"from_config: config must be one that states its base, by a key such as rope_theta, got a {name} without"
    with pytest.raises(ValueError, match=f"{message}; where nothing rotates"):
        from_config(config, 64)
    stated = config | {"rope_parameters": {}, "rope_theta": 1e4, "rope_scaling": {}}
    assert from_config(stated, next(iter(widths(stated)), 64))[0][0] == 1


TWO_LEVELS = {"vlm_config": {"text_config": PLAIN_LLAMA, "vision_config": {"hidden_size": 8}}}
PROBLEMS = {
    "of layers that rotate, got {}; there is nothing to rotate": [
        (PLAIN_LLAMA | {"position_embedding_type": "nope"}, "position_embedding_type = 'nope'"),  # Granite 4
        (PLAIN_LLAMA | {"position_embedding_type": None}, "position_embedding_type = None"),
        # Wav2Vec2-Conformer
        (PLAIN_LLAMA | {"position_embeddings_type": "relative"}, "position_embeddings_type = 'relative'"),
        (PLAIN_LLAMA | {"alibi": True}, "alibi = True"),  # Falcon RW
        (PLAIN_LLAMA | {"use_mem_rope": False}, "use_mem_rope = False"),  # Zamba 2
    ],
    "of one type of layer, got {}; pick one": [
        ({"rope_parameters": {"full": LLAMA, "sliding": {"rope_type": "default"}}}, "['full', 'sliding']"),
        ({"full": LLAMA, "sliding": None}, "['full']"),
        ({"text_config": {"rope_theta": 1e4}, "vision_config": {}}, "['text_config']"),
        (TWO_LEVELS, "['vlm_config.text_config']"),
        ({"layer_rope_theta": [1e4, 1e6]}, "['layer_rope_theta']"),
        ({"partial_rotary_factors": [1.0, 0.5]}, "['partial_rotary_factors']"),
    ],
    "of known keys, got {}?": [
        ({"ropeTheta": 1}, "ropeTheta; did you mean rope_theta"),
        ({"rope_scalling": 1}, "rope_scalling; did you mean rope_scaling"),
        ({"max_position_embedding": 1}, "max_position_embedding; did you mean max_position_embeddings"),
        ({"rotarydim": 1}, "rotarydim; did you mean rotary_dim"),
        (PLAIN_LLAMA | {"rope_thet": 1}, "rope_thet; did you mean rope_theta"),
        ({"rope_scaling": YARN | {"beta_fas": 1}}, "beta_fas; did you mean beta_fast"),
        ({"rope_parameters": YARN | {"beta_fas": 1}}, "beta_fas; did you mean beta_fast"),
    ],
    "of known keys, got {}; what it would do is not known": [
        ({"rope_scaling": YARN | {"base": 8}}, "base"),
        ({"rope_parameters": YARN | {"mixed_b": 8}}, "mixed_b"),
    ],
    "in the keys of transformers, got {} key; posenc.plan reads other formats": [
        *(({"rope_theta": 5e5, key: 40}, f"{key}, {whose}") for key, whose in file.FOREIGN.items()),
        ({"dim": 4096, "n_heads": 32, "rope_theta": 5e5, "use_scaled_rope": True}, "use_scaled_rope, Meta's"),
        ({"llama.block_count": 32, "llama.rope.freq_base": 5e5}, "llama.block_count, GGUF's"),
        ({"rope_theta": 1e6, "yarn": {"factor": 16, "beta": 32, "alpha": 1}}, "yarn, Mistral's own"),
        ({"rope_scaling": {"type": "yarn", "factor": 4, "attn_factor": 0.5}}, "attn_factor, vLLM's"),
        ({"rope_scaling": {"type": "yarn", "factor": 4, "apply_yarn_scaling": False}}, "apply_yarn_scaling, vLLM's"),
    ],
}


REFUSED = [(config, message.format(got)) for message, cases in PROBLEMS.items() for config, got in cases]


@pytest.mark.parametrize(("config", "message"), REFUSED)
def test_a_config_that_is_no_plain_one_of_transformers_is_refused(config, message):
    with pytest.raises(ValueError, match=re.escape(f"from_config: config must be {message}") + "$"):
        from_config(config, 64)


def test_parts_are_named_by_the_way_that_leads_to_them():
    assert parts(TWO_LEVELS) == ["vlm_config.text_config"]


FOUR = {"factor": 4.0, "max_position_embeddings": 64}
ROPE_TYPE = "rope_type must be one of default, .*yarn, .*, proportional, got"
OUT_OF_RANGE = [
    *(({"rope_type": name}, 8, f"{ROPE_TYPE} {name!r}$") for name in ("ntk", "axial", "Yarn", "", 3)),
    ({"rope_theta": 1e4, "rope_scaling": {"factor": 2}}, 8, f"{ROPE_TYPE} None"),  # a factor without a type
    (PLAIN_LLAMA, 64, r"dim must be \{128\}, as config has it, got 64"),
    (LATENT, 192, r"dim must be \{64\}, as config has it, got 192"),
    ({"rotary_dim": 64}, 32, "dim must be at least 64, which rotate, got 32"),
    ({"rotary_pct": 25}, 32, "dim must be at least 800, which rotate, got 32"),
    *(({}, dim, f"dim must be even and at least 2, got {dim}") for dim in (7, 1, 0)),
    # transformers has no formula for an odd width of these types
    (FOUR | {"rope_type": "yarn", "rotary_dim": 25}, 100, "dim must be even and at least 2, got 25"),
    (FOUR | {"rope_type": "dynamic", "rotary_dim": 25}, 100, "dim must be even and at least 2, got 25"),
    ({"rope_ratio": 0}, 64, "base must be finite and above 1, got"),
    ({"rope_theta": math.nan}, 64, "base must be finite and above 1, got"),
    ({"partial_rotary_factor": -0.5}, 8, "dim must be even and at least 2, got -4"),
    ({"rotary_emb_fraction": 0}, 8, "dim must be even and at least 2, got 0"),  # of Nomic BERT where nothing turns
    *((GEMMA_4 | {"rotary_pct": share}, 64, "fraction must be above 0 and at most 1") for share in (1.5, -0.5, 0)),
]


@pytest.mark.parametrize(("config", "dim", "message"), OUT_OF_RANGE, ids=str)
def test_a_value_out_of_range_is_refused(config, dim, message):
    with pytest.raises(ValueError, match=rf"(from_config|frequencies): {message}"):
        from_config(config, dim)


MISSING = [
    ({"rope_type": "linear"}, "factor"),
    ({"rope_type": "yarn"}, "factor"),
    ({"rope_type": "yarn", "factor": 4.0}, "original_max_position_embeddings"),
    ({"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 64}, "max_position_embeddings"),
    (LLAMA, "original_max_position_embeddings"),
    ({"rope_type": "llama3", "factor": 8.0, "max_position_embeddings": 8192}, "low_freq_factor"),
    ({"rope_type": "longrope", "max_position_embeddings": 8192}, "short_factor"),
]


@pytest.mark.parametrize(("config", "name"), MISSING)
def test_python_names_what_is_missing(config, name):
    with pytest.raises(KeyError, match=name):
        from_config(config, 8)


# Copied

COPIED = ("from_config.py", "frequencies.py")
ALONE = """
import sys
sys.modules["posenc"] = None  # importing it fails
sys.path.insert(0, sys.argv[1])
from {module} import from_config
print(from_config({{"rope_type": "linear", "factor": 2.0}}, 4)[0].tolist())
"""


@pytest.mark.parametrize("module", ["from_config", "mine.from_config"], ids=["as a script", "in a package"])
def test_a_copy_runs_beside_the_formulas_it_is_copied_with(tmp_path, capsys, module):
    folder = tmp_path.joinpath(*module.split(".")[:-1])
    main(["copy", "from_config", "-o", str(folder)])
    assert capsys.readouterr().out.splitlines() == [str(folder / name) for name in COPIED]
    assert (folder / "from_config.py").read_text().endswith(Path(file.__file__).read_text())
    command = [sys.executable, "-I", "-c", ALONE.format(module=module), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "[0.5, 0.005]\n", done.stderr
