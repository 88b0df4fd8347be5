"""Frequencies: each kind against mpmath, the numbers of other libraries, and transformers over random configs."""

import inspect
import json
import math
import random

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.rotate.frequencies import (
    attention_temperature,
    by_parts,
    dynamic_ntk,
    from_config,
    linear,
    llama3,
    longrope,
    ntk,
    proportional,
    rope_frequencies,
    softmax_scale,
    yarn,
)
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
dims = st.integers(2, 64).map(lambda half: 2 * half)
factors = st.floats(1, 128)
bases = st.sampled_from([100.0, 10_000.0, 150_000.0, 500_000.0, 1e6, 1e7])
contexts = st.integers(256, 131_072)

LLAMA = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def oracle(dim, base, g=lambda i, theta: 1):
    """Work out g_i base^(-2i/d) with 60 digits, where `g` sees the pair and its frequency."""
    with mpmath.workdps(60):
        theta = [mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / dim) for i in range(dim // 2)]
        return np.array([float(mpmath.mpf(g(i, each)) * each) for i, each in enumerate(theta)])


def blend(ramp, factor):
    """Return the g that keeps where the ramp is 0 and divides by the factor where it is 1."""
    return 1 - min(max(ramp, 0), 1) * (1 - 1 / mpmath.mpf(factor))


def exercise(module):
    module.yarn(8, 4.0, 64)
    module.longrope(8, [1.0] * 4, [2.0] * 4, 10, 64, 4.0)
    module.llama3(8)
    module.llama3(8, high_freq_factor=1.0)
    module.proportional(8, 0.5)
    module.attention_temperature(np.arange(3))


def assert_exact(made, expected, factor=1.0):
    theta, attention_factor = made
    assert theta.dtype == np.float64
    np.testing.assert_allclose(theta, expected, rtol=1e-13, atol=0)
    assert isinstance(attention_factor, float)
    assert attention_factor == pytest.approx(float(factor), rel=1e-14)


# Values worked by hand


def test_frequencies_of_width_4():
    np.testing.assert_allclose(rope_frequencies(4)[0], [1, 0.01], rtol=1e-15)


def test_linear_divides_all():
    np.testing.assert_allclose(linear(4, 8)[0], [1 / 8, 0.01 / 8], rtol=1e-15)


def test_ntk_keeps_the_fastest_and_divides_the_slowest_by_the_factor():
    # at width 4 the base grows by 3^(4/2) = 9, so the second pair, base^(-1/2), falls to a third
    np.testing.assert_allclose(ntk(4, 3.0)[0], [1, 0.01 / 3], rtol=1e-15)


def test_dynamic_ntk_at_twice_the_length():
    # 1 + 2 (2 - 1) = 3: the same as above
    np.testing.assert_allclose(dynamic_ntk(4, 2.0, 200, 100)[0], [1, 0.01 / 3], rtol=1e-15)


def test_the_base_of_ntk_for_a_context_8_times_as_long():
    # the well-known 82,684.6 at head width 128
    np.testing.assert_allclose(ntk(128, 8.0)[0], rope_frequencies(128, 82_684.6)[0], rtol=1e-5)


def test_the_ramp_of_yarn_for_llama_2():
    # within 4,096 positions pair 20.94 turns 32 times and pair 45.03 once: the ramp goes from 20 to 46
    kept = yarn(128, 16.0, 4096)[0] / rope_frequencies(128)[0]
    np.testing.assert_allclose(kept[:21], 1, rtol=1e-15)
    np.testing.assert_allclose(kept[46:], 1 / 16, rtol=1e-14)
    np.testing.assert_allclose(kept[33], 0.5 + 0.5 / 16, rtol=1e-14)
    sharp = yarn(128, 16.0, 4096, truncate=False)[0] / rope_frequencies(128)[0]
    np.testing.assert_allclose(sharp[[20, 21]], [1, 1 - 0.06 / 24.09 * 15 / 16], rtol=1e-3)


@pytest.mark.parametrize(("factor", "expected"), [(16, 1.2773), (64, 1.4159), (128, 1.4852), (32, 1.3466), (1, 1.0)])
def test_the_attention_factor_of_yarn(factor, expected):
    assert yarn(64, factor, 4096)[1] == pytest.approx(expected, abs=5e-5)


def test_the_attention_factor_of_longrope_for_phi_3():
    made = longrope(8, np.ones(4), np.ones(4), 1, 4096, 32.0)
    assert made[1] == pytest.approx(math.sqrt(1 + 5 / 12), rel=1e-15)  # 32 = 2^5, 4096 = 2^12


def test_llama_3_keeps_29_pairs_blends_6_and_divides_29():
    kept = llama3(128)[0] / rope_frequencies(128, 500_000.0)[0]
    assert [(kept == 1).sum(), ((kept < 1) & (kept > 0.125)).sum(), np.isclose(kept, 0.125).sum()] == [29, 6, 29]


def test_proportional_pairs_stay_those_of_the_whole_head():
    # a quarter of 4 pairs: the first; partial rotation of 2 of 8 channels has one pair too, of another exponent at half
    np.testing.assert_array_equal(proportional(8, 0.25)[0], [1, 0, 0, 0])
    np.testing.assert_allclose(proportional(8, 0.5, factor=2.0)[0], [1 / 2, 0.1 / 2, 0, 0], rtol=1e-15)
    np.testing.assert_allclose(rope_frequencies(4)[0], [1, 0.01], rtol=1e-15)


@pytest.mark.parametrize(("p", "expected"), [(0, 1), (8190, 1), (8191, 1.0693147), (16383, 1.1098612), (-5, 1)])
def test_the_temperature_of_llama_4_steps_at_the_end_of_each_context(p, expected):
    assert attention_temperature(p) == pytest.approx(expected, abs=1e-7)


def test_the_softmax_scale_of_deepseek_v3():
    assert softmax_scale(192, 40.0) == pytest.approx((0.1 * math.log(40) + 1) ** 2 / math.sqrt(192), rel=1e-15)


def test_the_softmax_scale_is_what_yarn_leaves_out_of_the_attention_factor():
    plain, deepseek = yarn(64, 40.0, 4096), yarn(64, 40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
    assert deepseek[1] == 1
    assert softmax_scale(64, 40.0) == pytest.approx(plain[1] ** 2 / 8, rel=1e-14)


# Each against its definition, with 60 digits


@pytest.mark.parametrize(("dim", "base"), [(2, 1e4), (64, 1e4), (128, 5e5), (96, 1e7), (64, 12_345.678)])
def test_rope_equals_mpmath(dim, base):
    assert_exact(rope_frequencies(dim, base), oracle(dim, base))


@pytest.mark.parametrize("factor", [1, 8, 2.3])
def test_linear_equals_mpmath(factor):
    assert_exact(linear(64, factor, 1e6), oracle(64, 1e6, lambda i, _: 1 / mpmath.mpf(factor)))


@pytest.mark.parametrize("factor", [1, 8, 2.3])
def test_ntk_equals_mpmath(factor):
    with mpmath.workdps(60):
        grown = 10_000 * mpmath.mpf(factor) ** (mpmath.mpf(64) / 62)
    assert_exact(ntk(64, factor), oracle(64, grown))


@pytest.mark.parametrize("length", [1, 4096, 4097, 20_000])
def test_dynamic_ntk_equals_mpmath(length):
    with mpmath.workdps(60):
        factor = mpmath.mpf(2) * max(length, 4096) / 4096 - 1
        grown = 10_000 * factor ** (mpmath.mpf(64) / 62)
    assert_exact(dynamic_ntk(64, 2.0, length, 4096), oracle(64, grown))


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(
    ("dim", "factor", "length", "base"), [(64, 32, 4096, 150_000), (128, 4, 32_768, 1e6), (16, 4, 10_000, 100)]
)
def test_yarn_and_by_parts_equal_mpmath(dim, factor, length, base, truncate):
    with mpmath.workdps(60):
        ends = [
            dim * mpmath.log(length / (2 * mpmath.pi * beta)) / (2 * mpmath.log(mpmath.mpf(base))) for beta in (32, 1)
        ]
        low, high = (mpmath.floor(ends[0]), mpmath.ceil(ends[1])) if truncate else ends
        expected = oracle(dim, base, lambda i, _: blend((i - low) / (high - low), factor))
        usual = mpmath.log(factor) / 10 + 1
    assert_exact(yarn(dim, factor, length, base, truncate=truncate), expected, usual)
    assert_exact(by_parts(dim, factor, length, base, truncate=truncate), expected)


@pytest.mark.parametrize(("length", "chosen"), [(4096, "short"), (4097, "long")])
def test_longrope_equals_mpmath(length, chosen):
    searched = {"short": np.linspace(1, 3, 32), "long": np.linspace(1, 60, 32)}
    expected = oracle(64, 1e4, lambda i, _: 1 / mpmath.mpf(searched[chosen][i]))
    usual = mpmath.sqrt(1 + mpmath.log(32) / mpmath.log(4096))
    assert_exact(longrope(64, searched["short"], searched["long"], length, 4096, 32.0), expected, usual)


@pytest.mark.parametrize("high", [1.0, 4.0])
def test_llama3_equals_mpmath(high):
    def g(_, theta):
        turns = 8192 * theta / (2 * mpmath.pi)
        return blend((high - turns) / (high - 1) if high > 1 else int(turns < 1), 8)

    assert_exact(llama3(128, high_freq_factor=high), oracle(128, 500_000, g))


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.3, 1.0])
def test_proportional_equals_mpmath(fraction):
    expected = oracle(64, 1e6, lambda i, _: mpmath.mpf(1) / 2 if i < int(fraction * 64 // 2) else 0)
    assert_exact(proportional(64, fraction, 2.0, 1e6), expected)


def test_temperature_and_scale_equal_mpmath():
    positions = np.array([0, 1, 8191, 8192, 10**6, 10**9])
    with mpmath.workdps(60):
        expected = [1 + mpmath.log(1 + (int(p) + 1) // 8192) / 10 for p in positions]
        scale = (mpmath.mpf("0.0707") * mpmath.log(40) + 1) ** 2 / mpmath.sqrt(192)
    np.testing.assert_allclose(attention_temperature(positions), [float(e) for e in expected], rtol=1e-15)
    assert softmax_scale(192, 40.0, 0.707) == pytest.approx(float(scale), rel=1e-14)


# Numbers of other libraries


@vectors("rope_inv_freq")
def test_a_config_gives_the_frequencies_of_transformers(vector):
    config = vector["params"]
    theta, attention_factor = from_config(config, config["head_dim"], length=config.get("seq_len"))
    assert_agrees(vector, theta, vector["expected"]["inv_freq"])
    assert_agrees(vector, attention_factor, vector["expected"]["attention_factor"])


@vectors("llama4_temperature")
def test_the_temperature_is_that_of_transformers(vector):
    given = vector["params"]
    made = attention_temperature(given["positions"], given["floor_scale"], given["attn_scale"])
    assert_agrees(vector, made, vector["expected"]["scale"])


@vectors("deepseek_softmax_scale")
def test_the_softmax_scale_is_that_of_transformers(vector):
    given = vector["params"]
    made = softmax_scale(given["qk_head_dim"], given["factor"], given["mscale_all_dim"])
    assert_agrees(vector, made, vector["expected"]["scaling"])


# Peers


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


def some_config(kind, rng):
    """Return a random config of a kind, settings at either level, some of them left out, and the length so far."""
    dim = rng.choice([32, 64, 80, 96, 128, 256])
    config = {"head_dim": dim, "max_position_embeddings": rng.choice([2048, 4096, 32_768, 131_072])}
    rope = {rng.choice(["rope_type", "type"]): kind, "rope_theta": rng.choice([1e4, 1.5e5, 5e5, 1e6])}
    factor = rng.choice([1.0, 2.0, 4.0, 8.0, 40.0, 2.5])
    turned = dim
    if rng.random() < 0.5:
        rng.choice([config, rope])["partial_rotary_factor"] = fraction = rng.choice([0.25, 0.5, 0.75, 1.0])
        turned = dim if kind == "proportional" else int(dim * fraction)
    if kind in ("linear", "dynamic", "llama3") or rng.random() < 0.5:
        rope["factor"] = factor
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
        config, rope, length = some_config(kind, rng)
        theta, attention_factor = of_transformers(minimal(rope, **config), length)
        made = from_config(config | {"rope_parameters": rope}, config["head_dim"], length)
        np.testing.assert_allclose(made[0], theta, rtol=3e-6, atol=0, err_msg=f"{config} {rope} {length}")
        np.testing.assert_allclose(made[1], attention_factor, rtol=1e-12)
        alone = from_config(rope | config, config["head_dim"], length)
        assert alone[0].tolist() == made[0].tolist()


@pytest.mark.parametrize("fraction", [None, 0.25])
def test_the_default_equals_that_of_transformers_gpt_neox(fraction):
    neox = peer("transformers.models.gpt_neox.modeling_gpt_neox")
    rope = {"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": fraction or 1.0}
    theta, _ = neox.GPTNeoXRotaryEmbedding.compute_default_rope_parameters(minimal(rope, head_dim=64))
    np.testing.assert_allclose(from_config(rope, 64)[0], theta.numpy(), rtol=2e-6)


def test_transformers_overlooks_truncate_in_the_part_of_one_kind_of_layer():
    part = {"rope_type": "yarn", "rope_theta": 150_000.0, "factor": 32.0, "truncate": False}
    part["original_max_position_embeddings"] = 4096
    nested = minimal({"full_attention": part}, layer_types=["full_attention"])
    theirs, _ = of_transformers(nested, layer="full_attention")
    flat, _ = of_transformers(minimal(part))
    np.testing.assert_allclose(from_config(part, 64)[0], flat, rtol=2e-6)
    np.testing.assert_allclose(from_config(part | {"truncate": True}, 64)[0], theirs, rtol=2e-6)
    assert np.abs(theirs / flat - 1).max() > 0.7


def test_a_ramp_that_is_cut_at_the_last_channel_equals_that_of_transformers():
    # from pair 3 to channel 15, where the turns would have it end at 17
    rope = {"rope_type": "yarn", "rope_theta": 10.0, "factor": 8.0, "original_max_position_embeddings": 635}
    theirs, _ = of_transformers(minimal(rope, head_dim=16))
    np.testing.assert_allclose(from_config(rope, 16)[0], theirs, rtol=1e-6)


def test_transformers_slows_pairs_that_turn_often_where_the_ramp_would_start_past_the_last_channel():
    # at base 10 every pair turns more than 10,000 times in this context: nothing is to be slowed
    rope = {"rope_type": "yarn", "rope_theta": 10.0, "factor": 8.0, "original_max_position_embeddings": 1_000_000}
    theirs, _ = of_transformers(minimal(rope, head_dim=8))
    np.testing.assert_allclose(theirs, rope_frequencies(8, 10.0)[0] / 8, rtol=1e-6)
    np.testing.assert_array_equal(from_config(rope, 8)[0], rope_frequencies(8, 10.0)[0])


def test_old_configs_read_by_transformers_are_read_alike():
    phi3 = peer("transformers.models.phi3.configuration_phi3")
    scaling = {"type": "su", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    old = {"hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 131_072}
    old |= {"original_max_position_embeddings": 4096, "rope_theta": 1e4, "rope_scaling": scaling}
    config = phi3.Phi3Config(**json.loads(json.dumps(old | {"rope_scaling": scaling | {"type": "longrope"}})))
    for length in (None, 4097):
        theta, attention_factor = of_transformers(config, length)
        np.testing.assert_allclose(from_config(old, 8, length)[0], theta, rtol=2e-6)
        assert from_config(old, 8, length)[1] == pytest.approx(attention_factor, rel=1e-14)
        assert from_config(config.to_dict(), 8, length)[0].tolist() == from_config(old, 8, length)[0].tolist()


@pytest.mark.parametrize("layer", ["full_attention", "sliding_attention"])
def test_a_part_of_gemma_3_equals_that_of_transformers(layer):
    gemma3 = peer("transformers.models.gemma3.configuration_gemma3")
    config = gemma3.Gemma3TextConfig(rope_scaling={"rope_type": "linear", "factor": 8.0}).to_dict()
    part = config | {"rope_parameters": config["rope_parameters"][layer]}
    expected = {"full_attention": linear(256, 8.0, 1e6), "sliding_attention": rope_frequencies(256)}[layer]
    np.testing.assert_array_equal(from_config(part, 256)[0], expected[0])


@pytest.mark.parametrize("length", [1, 4096, 4097])
def test_the_attention_factors_of_phi_3_5_moe_equal_those_of_transformers(length):
    phimoe = peer("transformers.models.phimoe.modeling_phimoe")
    rope = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "short_mscale": 1.1}
    rope |= {"long_mscale": 1.243163121016122, "original_max_position_embeddings": 4096}
    raw = {"max_position_embeddings": 131_072, "rope_theta": 1e4, "hidden_size": 32, "num_attention_heads": 4}
    embedding = phimoe.PhimoeRotaryEmbedding(phimoe.PhimoeConfig(**raw, rope_scaling=dict(rope)))
    cosine, _ = embedding(torch.zeros(1), torch.tensor([[0, length - 1]]))
    theta, attention_factor = from_config(raw | {"rope_scaling": rope}, 8, length)
    assert attention_factor == pytest.approx(cosine[0, 0, 0].item(), rel=1e-6)
    # transformers 5.23 sets the long factors in this class, and then turns by the short ones
    np.testing.assert_allclose(theta, embedding.inv_freq, rtol=2e-6)


def test_the_fixed_alpha_of_hunyuan_equals_that_of_transformers():
    hunyuan = peer("transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense")
    rope = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1}
    raw = {"head_dim": 128, "rope_theta": 1e4, "max_position_embeddings": 32_768}
    embedding = hunyuan.HunYuanDenseV1RotaryEmbedding(hunyuan.HunYuanDenseV1Config(**raw, rope_scaling=dict(rope)))
    for length in (None, 100_000):
        theta, _ = from_config(raw | {"rope_scaling": rope}, 128, length)
        np.testing.assert_allclose(theta, embedding.inv_freq, rtol=2e-6)


def test_the_rotary_dim_of_minimax_m2_equals_that_of_transformers():
    minimax = peer("transformers.models.minimax_m2.modeling_minimax_m2")
    raw = {"head_dim": 128, "rotary_dim": 64, "rope_theta": 5e6}
    embedding = minimax.MiniMaxM2RotaryEmbedding(minimax.MiniMaxM2Config(**raw))
    np.testing.assert_allclose(from_config(raw, 128)[0], embedding.inv_freq, rtol=2e-6)


def test_the_base_of_chatglm_equals_that_of_its_conversion_to_glm():
    glm = peer("transformers.models.glm.modeling_glm")
    converted = {"rope_type": "default", "rope_theta": 10_000.0 * 500, "partial_rotary_factor": 0.5}
    theta, _ = glm.GlmRotaryEmbedding.compute_default_rope_parameters(minimal(converted, head_dim=128))
    made = from_config({"model_type": "chatglm", "rope_ratio": 500, "kv_channels": 128}, 128)
    np.testing.assert_allclose(made[0], theta.numpy(), rtol=2e-6)


def test_the_rotary_embedding_base_of_wav2vec2_equals_that_of_transformers():
    wav2vec2 = peer("transformers.models.wav2vec2_conformer.modeling_wav2vec2_conformer")
    config = wav2vec2.Wav2Vec2ConformerConfig(rotary_embedding_base=500, position_embeddings_type="rotary")
    dim = config.hidden_size // config.num_attention_heads
    theirs = wav2vec2.Wav2Vec2ConformerRotaryPositionalEmbedding(config).inv_freq.numpy()
    np.testing.assert_allclose(from_config(config, dim)[0], theirs, rtol=2e-6)


def test_a_config_object_of_transformers_is_read_like_its_dict():
    llama = peer("transformers.models.llama.configuration_llama")
    config = llama.LlamaConfig(head_dim=128, rope_scaling=LLAMA | {"original_max_position_embeddings": 8192})
    np.testing.assert_array_equal(from_config(config, 128)[0], llama3(128, base=1e4)[0])


def test_the_temperature_equals_that_of_transformers_ministral_3_one_position_on():
    ministral = peer("transformers.models.ministral3.modeling_ministral3")
    positions = torch.tensor([[0, 1, 4095, 4096, 8191, 8192, 100_000]])
    theirs = ministral.get_llama_4_attn_scale(positions, 0.1, 4096).flatten().numpy()
    np.testing.assert_allclose(attention_temperature(positions[0] - 1, 4096), theirs, rtol=1e-6)


@pytest.mark.parametrize("mscale_all_dim", [0.707, 1.0])
def test_the_softmax_scale_equals_that_of_transformers_deepseek(mscale_all_dim):
    deepseek = peer("transformers.models.deepseek_v3.modeling_deepseek_v3")
    rope = {"rope_type": "yarn", "factor": 40.0, "mscale_all_dim": mscale_all_dim}
    theirs = deepseek.yarn_apply_mscale(rope, 192**-0.5)
    assert softmax_scale(192, 40.0, mscale_all_dim) == pytest.approx(theirs, rel=1e-14)


def test_an_odd_part_of_a_head_equals_that_of_transformers_glm_4_moe():
    glm = peer("transformers.models.glm4_moe.modeling_glm4_moe")
    for rope in ({}, {"rope_type": "linear", "factor": 4.0}, LLAMA | {"original_max_position_embeddings": 512}):
        rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5} | rope
        if rope["rope_type"] == "default":
            theirs, _ = glm.Glm4MoeRotaryEmbedding.compute_default_rope_parameters(minimal(rope, head_dim=42))
        else:
            theirs, _ = of_transformers(minimal(rope, head_dim=42))
        made, _ = from_config(rope, 42)
        assert made.shape == (11,)  # 21 channels, rounded up
        np.testing.assert_allclose(made, theirs, rtol=2e-6)


def test_the_longest_context_of_dbrx_is_that_of_transformers():
    dbrx = peer("transformers.models.dbrx.configuration_dbrx")
    rope = {"rope_type": "dynamic", "rope_theta": 5e5, "factor": 4.0}
    config = dbrx.DbrxConfig(max_seq_len=4096, d_model=512, n_heads=8, rope_parameters=dict(rope))
    theirs, _ = of_transformers(config, 10_000)
    for said in (config, {"max_seq_len": 4096, "rope_parameters": rope}):
        np.testing.assert_allclose(from_config(said, 64, length=10_000)[0], theirs, rtol=2e-6)


def test_the_share_of_mistral_4_and_deepseek_v4_is_of_the_whole_head():
    mistral = peer("transformers.models.mistral4.configuration_mistral4").Mistral4Config()
    theirs, attention_factor = of_transformers(mistral)
    made = from_config(mistral, mistral.head_dim)
    np.testing.assert_allclose(made[0], theirs, rtol=2e-6)
    assert made[1] == pytest.approx(attention_factor)
    assert 2 * len(theirs) == mistral.qk_rope_head_dim < mistral.head_dim
    deepseek = peer("transformers.models.deepseek_v4.configuration_deepseek_v4").DeepseekV4Config().to_dict()
    part = deepseek | {"rope_parameters": deepseek["rope_parameters"]["main"]}
    assert from_config(part, deepseek["head_dim"])[0].shape == (32,)
    deepseek = peer("transformers.models.deepseek_v3.configuration_deepseek_v3").DeepseekV3Config()
    assert from_config(deepseek, deepseek.qk_rope_head_dim)[0].shape == (32,)


@pytest.mark.parametrize("factor", [1.0, 40.0])
def test_an_mscale_all_dim_of_0_changes_no_logit_as_in_transformers(factor):
    deepseek = peer("transformers.models.deepseek_v3.modeling_deepseek_v3")
    rope = {"rope_type": "yarn", "factor": factor, "mscale_all_dim": 0.0}
    assert softmax_scale(192, factor, 0.0) == pytest.approx(deepseek.yarn_apply_mscale(rope, 192**-0.5), rel=1e-15)


def test_a_temperature_of_strength_0_is_1():
    np.testing.assert_array_equal(attention_temperature([0, 10**6], strength=0), [1, 1])


def test_ntk_equals_the_rescaled_theta_of_rotary_embedding_torch():
    library = peer("rotary_embedding_torch")
    theirs = library.RotaryEmbedding(64, theta_rescale_factor=8.0).freqs.detach().numpy()
    np.testing.assert_allclose(ntk(64, 8.0)[0], theirs, rtol=2e-6)


# Configs as they are found


def test_the_settings_of_llama_3_1_in_both_spellings_alone_and_in_their_config():
    rope = LLAMA | {"original_max_position_embeddings": 8192}
    old = {"model_type": "llama", "rope_theta": 5e5, "rope_scaling": rope, "max_position_embeddings": 131_072}
    new = {"model_type": "llama", "rope_parameters": rope | {"rope_theta": 5e5}, "max_position_embeddings": 131_072}
    for config in (old, new, rope | {"rope_theta": 5e5}):
        np.testing.assert_array_equal(from_config(config, 128)[0], llama3(128)[0])


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "llama", "max_position_embeddings": 2048, "max_length": 20},
        {"rope_scaling": None, "rope_theta": None},
        {"rope_parameters": {}},
        {"rope_type": "default"},
        {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
        {"rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [16, 24, 24]}},
        {"quantization_config": {"quant_method": "fp8"}, "rope_scaling": None},
    ],
    ids=str,
)
def test_what_is_not_said_is_plain_rope(config):
    np.testing.assert_array_equal(from_config(config, 64)[0], rope_frequencies(64)[0])


def test_the_new_spelling_of_the_type_comes_first():
    config = {"rope_type": "linear", "type": "dynamic", "factor": 2.0}
    for said in (config, dict(reversed(config.items())), {"rope_scaling": config}):
        np.testing.assert_array_equal(from_config(said, 64)[0], linear(64, 2.0)[0])


def test_keys_that_are_only_our_names_are_not_read():
    # old configs hold a max_length of 20 for generating
    config = {"max_length": 20, "length": 10**6, "dim": 4096, "base": 2.0, "fraction": 0.5, "original_length": 7}
    rope = {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 4096}
    for said in (config | rope, config | {"rope_parameters": rope}, {"rope_parameters": config | rope}):
        np.testing.assert_array_equal(from_config(said, 64)[0], rope_frequencies(64)[0])
        np.testing.assert_array_equal(from_config(said, 64, 8192)[0], dynamic_ntk(64, 2.0, 8192, 4096)[0])


@pytest.mark.parametrize(
    "name",
    [
        "rope_theta",
        "rotary_emb_base",  # GPT-NeoX, the first Qwen, Nomic BERT
        "rotary_embedding_base",  # Wav2Vec2-Conformer, Wav2Vec2-BERT, SeamlessM4T
        "rotary_base",  # Megatron and what is trained with it
        "global_rope_theta",  # ModernBERT
    ],
)
def test_the_names_of_the_base(name):
    expected = rope_frequencies(64, 160_000.0)[0]
    for config in ({name: 160_000.0}, {"rope_scaling": {"type": "default"}, name: 160_000}):
        np.testing.assert_array_equal(from_config(config, 64)[0], expected)
    np.testing.assert_array_equal(from_config({"rope_theta": 160_000.0, name: 160_000.0, "base": 7}, 64)[0], expected)


@pytest.mark.parametrize(
    "name",
    [
        "partial_rotary_factor",
        "rotary_pct",  # GPT-NeoX, the first Qwen
        "rope_pct",  # the first StableLM
        "rope_percent",  # the first Nemotron
        "rotary_percent",  # Megatron
        "rotary_emb_fraction",  # Nomic BERT
    ],
)
def test_the_names_of_the_part_that_turns(name):
    np.testing.assert_array_equal(
        from_config({name: 0.25, "rotary_emb_base": 500.0}, 64)[0], rope_frequencies(16, 500)[0]
    )
    with pytest.raises(ValueError, match="frequencies: fraction must be above 0 and at most 1, got 0"):
        from_config({name: 0}, 64)  # Nomic BERT's 0 says that nothing turns


@pytest.mark.parametrize(("ratio", "base"), [(None, 1e4), (1, 1e4), (50, 5e5), (500, 5e6), (0.5, 5e3)])
def test_chatglm_multiplies_the_base_and_turns_half_of_a_head(ratio, base):
    config = {"model_type": "chatglm", "kv_channels": 128, "seq_length": 131_072, "rope_ratio": ratio}
    np.testing.assert_array_equal(from_config(config, 128)[0], rope_frequencies(64, base)[0])
    np.testing.assert_array_equal(from_config({"rope_ratio": ratio}, 64)[0], rope_frequencies(64, base)[0])
    whole = from_config(config | {"partial_rotary_factor": 1.0, "rope_theta": 100.0}, 64)[0]
    np.testing.assert_array_equal(whole, rope_frequencies(64, base / 100)[0])


@pytest.mark.parametrize("ratio", [0, -1, "8", [8], math.nan])
def test_a_rope_ratio_out_of_range_is_refused(ratio):
    with pytest.raises(ValueError, match="frequencies: rope_ratio must be finite and above 0, got"):
        from_config({"rope_ratio": ratio}, 64)


@pytest.mark.parametrize("name", ["layer_rope_theta", "partial_rotary_factors"])
def test_a_number_for_each_layer_is_refused_where_they_differ(name):
    with pytest.raises(
        ValueError, match=rf"frequencies: config must be for one kind of layer, got {name} \[1.0, 0.5\]"
    ):
        from_config({name: [1.0, 0.5]}, 64)
    for same in ([], [0.5, 0.5], None):
        np.testing.assert_array_equal(from_config({name: same}, 64)[0], rope_frequencies(64)[0])


def test_a_rotary_dim_is_taken_as_it_is_and_a_factor_comes_first():
    for dim, rotary_dim in ((256, 64), (44, 30)):  # 44 * (30 / 44) is below 30
        np.testing.assert_array_equal(from_config({"rotary_dim": rotary_dim}, dim)[0], rope_frequencies(rotary_dim)[0])
    config = {"rotary_dim": 64, "partial_rotary_factor": 0.25}
    np.testing.assert_array_equal(from_config(config, 128)[0], rope_frequencies(32)[0])
    with pytest.raises(ValueError, match="frequencies: rotary_dim must be finite and above 0, got 'all'"):
        from_config({"rotary_dim": "all"}, 64)


def test_what_is_missing_is_named_as_in_a_config_too():
    with pytest.raises(ValueError, match="got None; in a config it is original_max_position_embeddings"):
        from_config({"rope_type": "yarn", "factor": 4.0}, 64)
    with pytest.raises(ValueError, match=r"max_length must be .*, got None; in a config it is max_position_embeddings"):
        from_config({"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 64}, 64)


def test_what_the_inner_dict_says_comes_first():
    inner = {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0, "partial_rotary_factor": 0.5}
    config = {"rope_theta": 5e5, "partial_rotary_factor": 1.0, "rope_parameters": inner}
    np.testing.assert_array_equal(from_config(config, 64)[0], linear(32, 2.0, 100.0)[0])


def test_the_original_length_outside_comes_first_as_in_transformers():
    inner = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    config = {"original_max_position_embeddings": 4096, "rope_parameters": inner}
    np.testing.assert_array_equal(from_config(config, 64)[0], yarn(64, 4.0, 4096)[0])


@pytest.mark.parametrize("kind", ["yarn", "longrope"])
def test_a_factor_that_is_missing_is_the_longest_context_over_the_original(kind):
    rope = {"rope_type": kind, "original_max_position_embeddings": 4096}
    rope |= {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32} if kind == "longrope" else {"factor": None}
    said = from_config(rope | {"max_position_embeddings": 131_072}, 64)
    assert said[1] == from_config(rope | {"factor": 32.0}, 64)[1]
    assert said[1] == from_config(rope, 64, max_length=131_072)[1]


def test_a_max_length_replaces_that_of_the_config():
    config = {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 4096}
    np.testing.assert_array_equal(from_config(config, 64, 100, 50)[0], dynamic_ntk(64, 2.0, 100, 50)[0])


def test_partial_rotation_has_fewer_frequencies_and_proportional_has_zeros():
    partial = {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.25}
    assert from_config(partial, 64)[0].shape == (8,)
    whole = from_config(partial | {"rope_type": "proportional"}, 64)[0]
    assert (whole.shape, (whole > 0).sum()) == ((32,), 8)


def test_a_config_is_not_changed():
    config = {"rope_parameters": LLAMA | {"original_max_position_embeddings": 8192}, "rope_theta": 5e5}
    before = json.dumps(config)
    from_config(config, 128)
    assert json.dumps(config) == before


# Properties


@given(dim=dims, base=bases, length=contexts)
@exactly
def test_a_factor_of_1_changes_nothing(dim, base, length):
    plain = rope_frequencies(dim, base)
    ones = np.ones(dim // 2)
    for theta, attention_factor in (
        linear(dim, 1, base),
        ntk(dim, 1, base),
        by_parts(dim, 1, length, base),
        yarn(dim, 1, length, base),
        longrope(dim, ones, ones, length, 4096, 1, base=base),
        llama3(dim, 1, base=base),
        proportional(dim, 1.0, base=base),
    ):
        np.testing.assert_allclose(theta, plain[0], rtol=1e-15)
        assert attention_factor == 1


@given(dim=dims, base=bases, length=contexts, factor=factors)
@exactly
def test_each_falls_from_pair_to_pair_and_stays_between_kept_and_divided(dim, base, length, factor):
    plain = rope_frequencies(dim, base)[0]
    for theta, _ in (
        linear(dim, factor, base),
        ntk(dim, factor, base),
        dynamic_ntk(dim, factor, 2 * 4096, 4096, base),
        by_parts(dim, factor, length, base),
        by_parts(dim, factor, length, base, truncate=False),
        llama3(dim, factor, original_length=length, base=base),
    ):
        assert (np.diff(theta) < 0).all()
        assert (theta <= plain * (1 + 1e-14)).all()
    for theta, _ in (by_parts(dim, factor, length, base), llama3(dim, factor, original_length=length, base=base)):
        assert (theta >= plain / factor * (1 - 1e-14)).all()


@given(dim=dims, base=bases, factor=factors)
@exactly
def test_ntk_divides_the_slowest_by_exactly_the_factor(dim, base, factor):
    theta, plain = ntk(dim, factor, base)[0], rope_frequencies(dim, base)[0]
    assert theta[0] == plain[0] == 1
    np.testing.assert_allclose(theta[-1], plain[-1] / factor, rtol=1e-14)


@given(dim=dims, base=bases, factor=factors, length=st.floats(1, 4096))
@exactly
def test_dynamic_ntk_rests_within_the_length_of_training(dim, base, factor, length):
    assert dynamic_ntk(dim, factor, length, 4096, base)[0].tolist() == rope_frequencies(dim, base)[0].tolist()


@given(dim=dims, base=bases, factor=factors)
@exactly
def test_by_parts_keeps_pairs_that_turn_often_and_divides_those_that_do_not_turn(dim, base, factor):
    theta, plain = by_parts(dim, factor, 4096, base)[0], rope_frequencies(dim, base)[0]
    turns = 4096 * plain / (2 * np.pi)
    step = base ** (2 / dim)  # truncation moves the ends by up to a pair
    np.testing.assert_allclose(theta[turns > 32 * step], plain[turns > 32 * step], rtol=1e-14)
    np.testing.assert_allclose(theta[turns < 1 / step], plain[turns < 1 / step] / factor, rtol=1e-13)


@given(factor=factors, low=st.floats(0.5, 8), width=st.floats(0.01, 8))
@exactly
def test_llama3_is_continuous_in_the_frequency(factor, low, width):
    # a context that grows a little changes each frequency a little, also where a pair enters or leaves the ramp
    near, far = (llama3(128, factor, low, low + width, length)[0] for length in (8192, 8192 * (1 + 1e-9)))
    np.testing.assert_allclose(near, far, rtol=1e-4)


def test_llama3_with_equal_ends_steps_and_is_no_0_over_0():
    theta = llama3(128, 16.0, 1.0, 1.0)[0] / rope_frequencies(128, 5e5)[0]
    np.testing.assert_allclose(np.unique(theta), [1 / 16, 1], rtol=1e-15)


def test_the_ramp_of_the_paper_is_that_of_llama3_and_not_that_of_its_code():
    # YaRN's sec. 3.2 blends by turns, from alpha = 1 to beta = 32: that is llama3 with these ends
    plain = rope_frequencies(128)[0]
    turns = 4096 * plain / (2 * np.pi)
    gamma = ((turns - 1) / (32 - 1)).clip(0, 1)
    paper = (1 - gamma) * plain / 16 + gamma * plain
    np.testing.assert_allclose(llama3(128, 16.0, 1.0, 32.0, 4096, 10_000.0)[0], paper, rtol=1e-14)
    assert np.abs(by_parts(128, 16.0, 4096)[0] / paper - 1).max() > 0.3


def test_longrope_switches_past_the_original_length_and_keeps_its_attention_factor():
    made = {length: longrope(8, np.ones(4), 2 * np.ones(4), length, 64, 4.0) for length in (1, 64, 64.5, 65)}
    assert [made[length][0][0] for length in made] == [1, 1, 0.5, 0.5]
    assert len({attention_factor for _, attention_factor in made.values()}) == 1


def test_one_of_the_two_mscales_alone_is_ignored():
    usual = yarn(64, 40.0, 4096)[1]
    assert usual == yarn(64, 40.0, 4096, mscale=0.5)[1] == yarn(64, 40.0, 4096, mscale_all_dim=0.5)[1]
    assert usual == yarn(64, 40.0, 4096, mscale=1.0, mscale_all_dim=0)[1]
    assert yarn(64, 40.0, 4096, mscale=0.5, mscale_all_dim=1.0)[1] < 1


def test_an_attention_factor_that_is_given_is_taken():
    assert yarn(64, 40.0, 4096, attention_factor=1.5, mscale=0.5, mscale_all_dim=1.0)[1] == 1.5
    assert longrope(8, np.ones(4), np.ones(4), 1, 64, 4.0, attention_factor=1.5)[1] == 1.5


def test_a_factor_below_1_leaves_the_logits_alone():
    assert yarn(64, 0.5, 4096)[1] == longrope(8, np.ones(4), np.ones(4), 1, 64, 0.5)[1] == 1
    assert softmax_scale(64, 0.5) == 1 / 8


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)], ids=str)
def test_the_temperature_keeps_the_shape_of_the_positions(shape):
    for dtype in (np.int32, np.float32, np.float64):
        made = attention_temperature(np.full(shape, 9000, dtype))
        assert (made.shape, made.dtype) == (shape, np.float64)


# Wrong arguments

CALLS = {
    rope_frequencies: {"dim": 8, "base": 1e4},
    linear: {"dim": 8, "factor": 2.0, "base": 1e4},
    ntk: {"dim": 8, "factor": 2.0, "base": 1e4},
    dynamic_ntk: {"dim": 8, "factor": 2.0, "length": 10, "original_length": 5, "base": 1e4},
    by_parts: {"dim": 8, "factor": 2.0, "original_length": 64, "base": 1e4, "beta_fast": 32, "beta_slow": 1},
    yarn: {"dim": 8, "factor": 2.0, "original_length": 64, "base": 1e4, "beta_fast": 32, "beta_slow": 1},
    longrope: {"dim": 8, "length": 1, "original_length": 64, "factor": 2.0, "base": 1e4},
    llama3: {"dim": 8, "factor": 2.0, "low_freq_factor": 1, "high_freq_factor": 4, "original_length": 64, "base": 1e4},
    proportional: {"dim": 8, "fraction": 0.5, "factor": 2.0, "base": 1e4},
    softmax_scale: {"dim": 8, "factor": 2.0, "mscale_all_dim": 1.0},
    attention_temperature: {"original_length": 64, "strength": 0.1},
}
REST = {longrope: {"short_factor": np.ones(4), "long_factor": np.ones(4)}, attention_temperature: {"positions": 3}}


@pytest.mark.parametrize(("function", "name"), [(function, name) for function in CALLS for name in CALLS[function]])
def test_numbers_out_of_range_are_refused(function, name):
    given = CALLS[function] | REST.get(function, {})
    function(**given)
    wrong = [-1, math.nan, math.inf, -math.inf, "8", None, True, [8], np.ones(2), 10**400, 1j, torch.ones(2, 2), {}]
    zero = [] if name in ("strength", "mscale_all_dim") else [0]
    for value in [*wrong, *([0, 7, 8.0, 1] if name == "dim" else zero)]:
        with pytest.raises(ValueError, match=f"frequencies: {name} must be .*, got"):
            function(**given | {name: value})


@pytest.mark.parametrize("function", [yarn, longrope])
def test_the_attention_factor_may_be_none_and_no_word(function):
    given = CALLS[function] | REST.get(function, {})
    assert function(**given | {"attention_factor": None}) is not None
    for value in (-1.0, 0.0, "1", math.nan, [1.0]):
        with pytest.raises(ValueError, match="frequencies: attention_factor must be finite and above 0, got"):
            function(**given | {"attention_factor": value})


@pytest.mark.parametrize("base", [1, 0.5])
def test_a_base_that_does_not_slow_the_pairs_down_is_refused(base):
    with pytest.raises(ValueError, match="frequencies: base must be finite and above 1, got"):
        rope_frequencies(8, base)


@pytest.mark.parametrize("function", [ntk, dynamic_ntk])
def test_ntk_refuses_a_single_pair(function):
    with pytest.raises(ValueError, match="frequencies: dim must be at least 4 for ntk, got 2; its exponent divides"):
        function(**CALLS[function] | {"dim": 2})


def test_ends_in_the_wrong_order_are_refused():
    with pytest.raises(ValueError, match="frequencies: beta_fast must be at least beta_slow, got 1 < 32"):
        yarn(8, 2.0, 64, beta_fast=1, beta_slow=32)
    with pytest.raises(ValueError, match="frequencies: high_freq_factor must be at least low_freq_factor, got 1 < 4"):
        llama3(8, low_freq_factor=4, high_freq_factor=1)


@pytest.mark.parametrize("truncate", [0, 1, "yes", None])
def test_truncate_is_a_bool(truncate):
    with pytest.raises(ValueError, match="frequencies: truncate must be True or False, got"):
        yarn(8, 2.0, 64, truncate=truncate)


@pytest.mark.parametrize("name", ["short_factor", "long_factor"])
@pytest.mark.parametrize(
    "value",
    [None, 2.0, "1111", [1.0] * 3, [1.0, 1.0, 1.0, 0.0], [1.0, math.nan, 1.0, 1.0], [[1.0], [2.0, 3.0]], ["1"] * 4],
)
def test_factors_that_do_not_fit_are_refused(name, value):
    given = CALLS[longrope] | REST[longrope] | {name: value}
    with pytest.raises(ValueError, match=f"frequencies: {name} must be 4 numbers above 0, got"):
        longrope(**given)


@pytest.mark.parametrize(
    "positions", ["3", None, [math.nan], [True], [[1], [2, 3]], 1j, torch.ones(2).requires_grad_()]
)
def test_positions_that_are_no_numbers_are_refused(positions):
    with pytest.raises(ValueError, match="frequencies: positions must be finite"):
        attention_temperature(positions)


@pytest.mark.parametrize("fraction", [1.5, -0.5, 0, "1"])
def test_a_fraction_is_a_share(fraction):
    for call in (lambda: proportional(8, fraction), lambda: from_config({"partial_rotary_factor": fraction}, 8)):
        with pytest.raises(ValueError, match="frequencies: fraction must be above 0 and at most 1, got"):
            call()


@pytest.mark.parametrize("config", [None, 5, "yarn", [], [("rope_type", "yarn")], {"rope_scaling": "yarn"}], ids=repr)
def test_a_config_that_is_no_dict_is_refused(config):
    with pytest.raises(ValueError, match="frequencies: config must be a dict for one kind of layer, got"):
        from_config(config, 8)


def test_the_width_of_a_head_of_which_a_named_part_turns_is_refused():
    deepseek = {"rope_theta": 1e4, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
    assert from_config(deepseek, 64)[0].shape == (32,)
    assert from_config(deepseek | {"partial_rotary_factor": 0.5}, 128)[0].shape == (32,)
    with pytest.raises(ValueError, match="frequencies: dim must be the config's qk_rope_head_dim, 64, got 192"):
        from_config(deepseek, 192)


def test_a_factor_without_a_type_is_refused():
    with pytest.raises(ValueError, match=r"config must be of a rope_type where it has a factor, got \{'factor': 2\}"):
        from_config({"rope_theta": 1e4, "rope_scaling": {"factor": 2}}, 8)


@pytest.mark.parametrize(
    "config",
    [
        {"rope_parameters": {"full_attention": LLAMA, "sliding_attention": {"rope_type": "default"}}},
        {"full_attention": LLAMA, "sliding_attention": None},
        {"text_config": {"rope_theta": 1e4}, "vision_config": {}},
    ],
)
def test_a_config_of_several_parts_asks_to_pick_one(config):
    with pytest.raises(ValueError, match=r"config must be a dict for one kind of layer, got parts .*; pick one"):
        from_config(config, 8)


@pytest.mark.parametrize("kind", ["ntk", "axial", "Yarn", "", 3, ["yarn"]], ids=repr)
def test_an_unknown_type_is_refused_with_the_known(kind):
    with pytest.raises(ValueError, match=r"rope_type in default, linear, .*yarn, llama3, proportional, got"):
        from_config({"rope_type": kind}, 8)


@pytest.mark.parametrize(
    ("config", "missing"),
    [
        ({"rope_type": "linear"}, "factor"),
        ({"rope_type": "yarn"}, "factor"),
        ({"rope_type": "yarn", "factor": 4.0}, "original_length"),
        ({"rope_type": "dynamic", "factor": 4.0}, "max_length"),
        ({"rope_type": "llama3", "original_max_position_embeddings": 8192}, "factor"),
        ({"rope_type": "longrope", "max_position_embeddings": 8192}, "short_factor"),
    ],
)
def test_a_setting_that_is_missing_is_named(config, missing):
    with pytest.raises(ValueError, match=f"frequencies: {missing} must be .*, got None"):
        from_config(config, 8)


@pytest.mark.parametrize("dim", [None, "8", 7, 8.0, 0, True], ids=repr)
def test_a_config_needs_an_even_width(dim):
    with pytest.raises(ValueError, match="frequencies: dim must be an even integer of at least 2, got"):
        from_config({}, dim)


@pytest.mark.parametrize("kind", ["yarn", "dynamic"])
def test_an_odd_rotary_width_is_refused_where_transformers_has_no_formula_for_it(kind):
    rope = {"rope_type": kind, "factor": 2.0, "partial_rotary_factor": 0.25, "max_position_embeddings": 64}
    with pytest.raises(ValueError, match="frequencies: dim must be an even integer of at least 2, got 25"):
        from_config(rope, 100)


def test_another_name_than_those_of_the_ramp_is_refused_by_name():
    with pytest.raises(ValueError, match="frequencies: ramp must be of beta_fast, beta_slow and truncate, got foo"):
        by_parts(8, 2.0, 64, foo=1)
    with pytest.raises(ValueError, match=r"frequencies: ramp must be .*, got attention_factor"):
        by_parts(8, 2.0, 64, attention_factor=1.0)


def test_a_config_of_axial_rotation_is_referred_to_axial():
    with pytest.raises(ValueError, match="got 'axial'; for axial see Axial"):
        from_config({"rope_type": "axial", "rope_theta": 100.0}, 64)


@pytest.mark.parametrize(("name", "least"), [("length", 0), ("max_length", 1)])
@pytest.mark.parametrize("value", ["9", -1, 0, math.nan, [9], [], True], ids=repr)
def test_lengths_of_a_config_are_numbers(name, least, value):
    with pytest.raises(ValueError, match=f"frequencies: {name} must be finite and above {least}, got"):
        from_config({}, 8, **{name: value})


def test_the_defaults_are_those_of_the_papers():
    bases = {f: inspect.signature(f).parameters["base"].default for f in CALLS if "base" in CALLS[f]}
    assert bases.pop(llama3) == 500_000.0
    assert set(bases.values()) == {10_000.0}
    options = inspect.signature(yarn).parameters
    assert [options[name].default for name in ("beta_fast", "beta_slow", "truncate")] == [32.0, 1.0, True]
