"""From config: transformers over random configs and single models, every kind of model, and what is refused."""

import json
import math
import random
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc.__main__ import main
from posenc.models import from_config as file
from posenc.models.from_config import (
    ALIASES,
    BASE_KEYS,
    DEFAULT_BASE_TYPES,
    FOREIGN,
    KINDS,
    ROPE_KEYS,
    from_config,
    parts,
    problem,
    widths,
)
from posenc.rotate.frequencies import dynamic_ntk, linear, llama3, rope_frequencies, yarn
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

LLAMA = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


# Numbers of transformers


@vectors("rope_inv_freq")
def test_a_config_gives_the_frequencies_of_transformers(vector):
    config = vector["params"]
    theta, attention_factor = from_config(config, config["head_dim"], length=config.get("seq_len"))
    assert_agrees(vector, theta, vector["expected"]["inv_freq"])
    assert_agrees(vector, attention_factor, vector["expected"]["attention_factor"])


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
    for said in (config | rope, config | {"rope_parameters": rope}):
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
    with pytest.raises(ValueError, match="frequencies: dim must be even and at least 2, got 0"):
        from_config({name: 0}, 64)  # Nomic BERT's 0 says that nothing turns


@pytest.mark.parametrize(("ratio", "base"), [(None, 1e4), (1, 1e4), (50, 5e5), (500, 5e6), (0.5, 5e3)])
def test_chatglm_multiplies_the_base_and_turns_half_of_a_head(ratio, base):
    config = {"model_type": "chatglm", "kv_channels": 128, "seq_length": 131_072, "rope_ratio": ratio}
    np.testing.assert_array_equal(from_config(config, 128)[0], rope_frequencies(64, base)[0])
    np.testing.assert_array_equal(from_config({"rope_ratio": ratio}, 64)[0], rope_frequencies(64, base)[0])
    whole = from_config(config | {"partial_rotary_factor": 1.0, "rope_theta": 100.0}, 128)[0]
    np.testing.assert_array_equal(whole, rope_frequencies(128, base / 100)[0])


def test_a_rotary_dim_is_taken_as_it_is_and_a_factor_comes_first():
    for dim, rotary_dim in ((256, 64), (44, 30)):  # 44 * (30 / 44) is below 30
        np.testing.assert_array_equal(from_config({"rotary_dim": rotary_dim}, dim)[0], rope_frequencies(rotary_dim)[0])
    config = {"rotary_dim": 64, "partial_rotary_factor": 0.25}
    np.testing.assert_array_equal(from_config(config, 128)[0], rope_frequencies(32)[0])


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


def test_an_attention_factor_that_a_config_gives_is_taken():
    rope = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "attention_factor": 1.5}
    assert from_config(rope | {"mscale": 0.5, "mscale_all_dim": 1.0}, 64)[1] == 1.5
    rope |= {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [1.0] * 4}
    assert from_config(rope, 8)[1] == 1.5


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize(
    ("config", "got"),
    [
        ({"rope_parameters": {"full": LLAMA, "sliding": {"rope_type": "default"}}}, r"\['full', 'sliding'\]"),
        ({"full": LLAMA, "sliding": None}, r"\['full'\]"),
        ({"text_config": {"rope_theta": 1e4}, "vision_config": {}}, r"\['text_config'\]"),
        ({"layer_rope_theta": [1e4, 1e6]}, r"\['layer_rope_theta'\]"),
        ({"partial_rotary_factors": [1.0, 0.5]}, r"\['partial_rotary_factors'\]"),
    ],
)
def test_a_config_of_several_parts_asks_to_pick_one(config, got):
    with pytest.raises(ValueError, match=f"from_config: config must be of one kind of layer, got {got}; pick one"):
        from_config(config, 8)


def test_a_list_for_the_layers_that_holds_nothing_is_none():
    for nothing in ({"layer_rope_theta": None}, {"partial_rotary_factors": []}):
        np.testing.assert_array_equal(from_config(nothing, 64)[0], rope_frequencies(64)[0])


@pytest.mark.parametrize("kind", ["ntk", "axial", "Yarn", "", 3], ids=repr)
def test_an_unknown_type_is_refused_with_the_known(kind):
    with pytest.raises(ValueError, match=rf"rope_type must be one of default, .*yarn, .*, proportional, got {kind!r}$"):
        from_config({"rope_type": kind}, 8)


def test_a_factor_without_a_type_is_refused():
    with pytest.raises(ValueError, match=r"from_config: rope_type must be one of .*, got None"):
        from_config({"rope_theta": 1e4, "rope_scaling": {"factor": 2}}, 8)


def test_the_width_of_a_head_of_which_a_named_part_turns_is_refused():
    deepseek = {"rope_theta": 1e4, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
    assert from_config(deepseek, 64)[0].shape == (32,)
    assert from_config(deepseek | {"partial_rotary_factor": 0.5}, 128)[0].shape == (32,)
    with pytest.raises(ValueError, match=r"from_config: dim must be \{64\}, as config has it, got 192"):
        from_config(deepseek, 192)


@pytest.mark.parametrize(("config", "width"), [({"rotary_dim": 64}, 64), ({"rotary_pct": 25}, 800)])
def test_more_channels_than_there_are_cannot_turn(config, width):
    with pytest.raises(ValueError, match=f"from_config: dim must be at least {width}, which turn, got 32"):
        from_config(config, 32)


@pytest.mark.parametrize("config", [{"rope_ratio": 0}, {"rope_ratio": -1}, {"rope_theta": math.nan}], ids=str)
def test_a_base_out_of_range_is_refused(config):
    with pytest.raises(ValueError, match="frequencies: base must be finite and above 1, got"):
        from_config(config, 64)


@pytest.mark.parametrize("fraction", [1.5, -0.5, 0])
def test_a_share_is_refused_where_it_is_none(fraction):
    with pytest.raises(ValueError, match=r"dim must be .*, got"):
        from_config({"partial_rotary_factor": fraction}, 8)
    with pytest.raises(ValueError, match="frequencies: fraction must be above 0 and at most 1, got"):
        from_config({"partial_rotary_factor": fraction, "rope_type": "proportional"}, 8)


def test_the_width_of_a_head_is_even():
    for dim in (7, 1, 0):
        with pytest.raises(ValueError, match=f"frequencies: dim must be even and at least 2, got {dim}"):
            from_config({}, dim)


@pytest.mark.parametrize("kind", ["yarn", "dynamic"])
def test_an_odd_rotary_width_is_refused_where_transformers_has_no_formula_for_it(kind):
    rope = {"rope_type": kind, "factor": 2.0, "partial_rotary_factor": 0.25, "max_position_embeddings": 64}
    with pytest.raises(ValueError, match="frequencies: dim must be even and at least 2, got 25"):
        from_config(rope, 100)


@pytest.mark.parametrize(
    ("config", "missing"),
    [
        ({"rope_type": "linear"}, "factor"),
        ({"rope_type": "yarn"}, "factor"),
        ({"rope_type": "yarn", "factor": 4.0}, "original_max_position_embeddings"),
        ({"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 64}, "max_position_embeddings"),
        (LLAMA, "original_max_position_embeddings"),
        ({"rope_type": "llama3", "factor": 8.0, "max_position_embeddings": 8192}, "low_freq_factor"),
        ({"rope_type": "longrope", "max_position_embeddings": 8192}, "short_factor"),
    ],
)
def test_python_names_what_is_missing(config, missing):
    with pytest.raises(KeyError, match=missing):
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


PLAIN_LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5}


def refused(config, match, dim=64):
    with pytest.raises(ValueError, match=f"from_config: config must be {match}"):
        from_config(config, dim)


def test_all_that_from_config_reads_is_known():
    named = {*ALIASES, *ALIASES.values()}
    for _, needed, optional in KINDS.values():
        named |= {*needed, *optional}
    assert named - {"length"} <= ROPE_KEYS
    assert not ROPE_KEYS & {*FOREIGN}


# No rotation, no numbers


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "gpt2", "n_positions": 1024, "n_embd": 768, "n_head": 12},
        {"model_type": "bert", "max_position_embeddings": 512, "position_embedding_type": "absolute"},
        {"model_type": "mamba", "hidden_size": 768},
        {"model_type": "kimi_linear", "qk_rope_head_dim": 64, "num_attention_heads": 32},
        {"model_type": "persimmon", "partial_rotary_factor": 0.5},  # its code has 25,000
        {"model_type": "mixtral", "rope_scaling": {"type": "linear", "factor": 2.0}},  # its code has 1,000,000
        {"model_type": "llama4", "rope_parameters": {"rope_type": "default", "rope_theta": None}},
        {"hidden_size": 768, "num_attention_heads": 12},
        {"dim": 4096, "n_layers": 32, "n_heads": 32, "norm_eps": 1e-5},  # Llama 2 as Meta has it
    ],
    ids=lambda config: config.get("model_type", "no type"),
)
def test_a_model_that_states_no_base_is_refused(config):
    name = config.get("model_type", "model")
    refused(config, f"one that states its base, by a key such as rope_theta, got a {name} without; where nothing")
    theta, _ = from_config({**config, "rope_parameters": {}, "rope_theta": 1e4, "rope_scaling": {}}, dim_of(config))
    assert theta[0] == 1


def dim_of(config):
    return next(iter(widths(config)), 64)


@pytest.mark.parametrize("name", sorted(DEFAULT_BASE_TYPES))
def test_models_whose_code_has_10_000_need_not_state_it(name):
    whole = from_config({"model_type": name, "vocab_size": 50_000, "partial_rotary_factor": 1.0}, 64)
    np.testing.assert_array_equal(whole[0], rope_frequencies(64)[0])


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ({"position_embedding_type": "nope"}, "'nope'"),  # Granite 4
        ({"position_embedding_type": None}, "None"),
        ({"position_embeddings_type": "relative"}, "'relative'"),  # Wav2Vec2-Conformer
        ({"alibi": True}, "True"),  # Falcon RW
        ({"use_mem_rope": False}, "False"),  # Zamba 2
    ],
    ids=str,
)
def test_a_config_that_says_that_nothing_turns_is_refused(said, value):
    (name,) = said
    refused(PLAIN_LLAMA | said, f"of layers that rotate, got {name} = {value}; there is nothing to turn", 128)


def test_the_switches_that_let_it_turn_are_read():
    rotating = {"position_embedding_type": "rope", "alibi": False, "use_mem_rope": True}
    np.testing.assert_array_equal(from_config(PLAIN_LLAMA | rotating, 128)[0], from_config(PLAIN_LLAMA, 128)[0])


def test_of_all_models_of_transformers_only_those_with_a_base_give_numbers():
    auto = peer("transformers.models.auto.configuration_auto")
    numbers, refusals = set(), 0
    for name in auto.CONFIG_MAPPING_NAMES:
        config = defaults(auto.CONFIG_MAPPING, name)
        if config is None or not (found := said_of(config)):
            continue
        if isinstance(found, ValueError):
            refusals += 1
            words = str(found)
            assert not {"spelled", "words"} & {*words.split()}, f"{name}: {words}"
        else:
            numbers.add(name)
            inside = config.get("rope_parameters") or {}
            assert name in DEFAULT_BASE_TYPES or any((config | inside).get(key) for key in BASE_KEYS), name
    assert {"llama", "qwen3", "gpt_neox", "gptj", "deepseek_v3", "phi3"} <= numbers
    without = {"gpt2", "bert", "bloom", "t5", "mamba", "jamba", "nemotron_h", "zamba2", "granitemoehybrid", "clip"}
    assert not numbers & without
    assert refusals > 400


def defaults(mapping, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return json.loads(json.dumps(mapping[name]().to_dict(), default=str))
        except Exception:  # two kinds cannot be made without arguments
            return None


def said_of(config):
    try:
        return from_config(config, dim_of(config))
    except ValueError as error:
        return error


# Misspelled


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("rope_thet", "rope_theta"),
        ("ropeTheta", "rope_theta"),
        ("rope_scalling", "rope_scaling"),
        ("rope_parameter", "rope_parameters"),
        ("max_position_embedding", "max_position_embeddings"),
        ("original_max_position_embedding", "original_max_position_embeddings"),
        ("partial_rotary_facto", "partial_rotary_factor"),
        ("rotarydim", "rotary_dim"),
    ],
)
def test_a_name_that_is_nearly_one_is_refused_at_the_top(wrong, right):
    for config in ({wrong: 8192}, PLAIN_LLAMA | {wrong: 8192}):
        refused(config, rf"spelled in known words, got {wrong}; did you mean {right}\?", 128)


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        ("original_max_position_embedding", r"did you mean original_max_position_embeddings\?"),
        ("beta_fas", r"did you mean beta_fast\?"),
        ("base", "what it would do is not known"),
        ("mixed_b", "what it would do is not known"),
    ],
)
def test_whatever_is_unknown_is_refused_inside(wrong, remedy):
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    for name in ("rope_scaling", "rope_parameters"):
        refused(PLAIN_LLAMA | {name: rope | {wrong: 8}}, f"spelled in known words, got {wrong}; {remedy}", 128)


def test_names_that_do_not_concern_theta_are_let_through():
    rope = {"rope_type": "default", "mrope_section": [16, 24, 24], "mrope_interleaved": True, "finetuned": True}
    config = PLAIN_LLAMA | {
        "rope_scaling": rope,
        "rope_interleave": True,
        "max_2d_position_embeddings": 9,
        "base_model": "",
    }
    np.testing.assert_array_equal(from_config(config, 128)[0], from_config(PLAIN_LLAMA, 128)[0])


# Other programs' words


@pytest.mark.parametrize(
    ("said", "whose"),
    [
        ({"dim": 4096, "n_heads": 32, "rope_theta": 5e5, "use_scaled_rope": True}, "use_scaled_rope, Meta's"),
        ({"use_rope_scaling": True, "rotary_base": 5e5, "kv_channels": 128}, "use_rope_scaling, Megatron's"),
        ({"rope_theta": 150_000.0, "rope_scaling_factor": 32.0}, "rope_scaling_factor, gpt-oss's own,"),
        ({"rope_theta": 150_000.0, "rope_ntk_alpha": 1.0}, "rope_ntk_alpha, gpt-oss's own"),
        ({"rope_theta": 150_000.0, "initial_context_length": 4096}, "initial_context_length, gpt-oss's own"),
        ({"rope_theta": 1e4, "rope_factor": 40}, "rope_factor, DeepSeek's own"),
        ({"rope_theta": 1e4, "original_seq_len": 4096}, "original_seq_len, DeepSeek's own"),
        ({"rope_base": 500_000, "n_embd": 4096, "n_head": 32}, "rope_base, litgpt's"),
        ({"rope_adjustments": {"factor": 8.0}}, "rope_adjustments, litgpt's"),
        ({"llama.rope.freq_base": 5e5}, "llama.rope.freq_base, GGUF's"),
        ({"llama.block_count": 32, "llama.context_length": 8192}, "llama.block_count, GGUF's"),
        ({"rope_theta": 1e6, "yarn": {"factor": 16, "beta": 32, "alpha": 1}}, "yarn, Mistral's own"),
        ({"rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4, "attn_factor": 0.5}}, "attn_factor, vLLM's"),
        ({"rope_scaling": {"type": "yarn", "factor": 4, "apply_yarn_scaling": False}}, "apply_yarn_scaling, vLLM's"),
        ({"rotary_emb_base": 1000, "rotary_scaling_factor": 2}, "rotary_scaling_factor, Nomic's own"),
    ],
    ids=str,
)
def test_another_program_s_words_are_refused_by_name(said, whose):
    refused(said, f"in the words of transformers, got {whose}.* word; posenc.plan reads other formats")


def test_words_that_change_nothing_are_let_through():
    nothing = {"use_scaled_rope": False, "rotary_scaling_factor": None, "attn_factor": 1.0, "apply_yarn_scaling": True}
    np.testing.assert_array_equal(from_config(PLAIN_LLAMA | nothing, 128)[0], from_config(PLAIN_LLAMA, 128)[0])


# Parts, widths


def test_a_rotation_two_levels_deep_is_found_with_the_names_that_lead_there():
    config = {
        "model_type": "colpali",
        "vlm_config": {"text_config": dict(PLAIN_LLAMA), "vision_config": {"hidden_size": 8}},
    }
    assert parts(config) == ["vlm_config.text_config"]
    refused(config, r"of one kind of layer, got \['vlm_config.text_config'\]; pick one")


def test_colpali_of_transformers_is_refused_with_its_part():
    colpali = peer("transformers.models.colpali.configuration_colpali").ColPaliConfig()
    refused(colpali, r"of one kind of layer, got \['vlm_config.text_config'\]; pick one")
    text = colpali.to_dict()["vlm_config"]["text_config"]
    assert len(from_config(text, text["head_dim"])[0]) == text["head_dim"] // 2


@pytest.mark.parametrize(
    ("config", "kind", "stated"),
    [
        ({}, "default", set()),
        ({"hidden_size": 4096}, "default", set()),
        ({"hidden_size": 4096, "num_attention_heads": 32}, "default", {128}),
        ({"hidden_size": 4096, "num_attention_heads": [32, 16]}, "default", set()),
        ({"n_embd": 768, "n_head": 12}, "default", {64}),
        ({"d_model": 512, "n_heads": 8}, "default", {64}),
        ({"hidden_size": 4096, "num_attention_heads": 32, "head_dim": None}, "default", {128}),
        ({"hidden_size": 5120, "num_attention_heads": 32, "head_dim": 128}, "default", {128}),
        ({"head_dim": 256, "global_head_dim": 512}, "default", {256, 512}),
        ({"head_dim": 256, "global_head_dim": 512}, "proportional", {512}),
        ({"head_dim": 192, "qk_rope_head_dim": 64}, "default", {64}),
        ({"head_dim": 128, "qk_rope_head_dim": 64, "partial_rotary_factor": 0.5}, "default", {128}),
        ({"model_type": "dinov3_vit", "hidden_size": 384, "num_attention_heads": 6}, "default", {32}),
    ],
    ids=str,
)
def test_the_widths_that_a_config_states(config, kind, stated):
    assert widths(config, kind) == stated


def test_a_width_that_no_head_has_is_refused():
    with pytest.raises(ValueError, match=r"from_config: dim must be \{128\}, as config has it, got 64"):
        from_config(PLAIN_LLAMA, 64)


def test_the_whole_layers_of_gemma_4_have_their_own_width():
    gemma = peer("transformers.models.gemma4.configuration_gemma4").Gemma4TextConfig().to_dict()
    whole = gemma | {"rope_parameters": gemma["rope_parameters"]["full_attention"]}
    assert len(from_config(whole, 512)[0]) == 256
    assert (
        len(from_config(whole | {"per_layer_config": {}, "global_head_dim": 512}, 512)[0]) == 256
    )  # as first published
    with pytest.raises(ValueError, match=r"from_config: dim must be \{512\}, as config has it, got 256"):
        from_config(whole, gemma["head_dim"])


def test_an_axis_of_dinov3_turns_half_of_a_head():
    dinov3 = peer("transformers.models.dinov3_vit.modeling_dinov3_vit")
    config = dinov3.DINOv3ViTConfig()
    theirs = dinov3.DINOv3ViTRopePositionEmbedding(config).inv_freq
    np.testing.assert_allclose(from_config(config, 32)[0], theirs.numpy(), rtol=2e-6)
    with pytest.raises(ValueError, match=r"from_config: dim must be \{32\}, as config has it, got 64"):
        from_config(config, 64)


def test_what_can_be_read_has_no_problem():
    assert problem(PLAIN_LLAMA) is None
    assert problem({}) is None
