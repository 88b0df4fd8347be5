"""Config keys: what is refused before a config is read, over every kind of model that transformers has."""

import json
import warnings

import numpy as np
import pytest

from posenc.rotate.config_keys import BASE, BASES, FOREIGN, WORDS, parts, problem, widths
from posenc.rotate.frequencies import rope_frequencies
from posenc.rotate.from_config import ALIASES, KINDS, from_config
from tests.peers import peer

LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5}


def refused(config, match, dim=64):
    with pytest.raises(ValueError, match=f"from_config: config must be {match}"):
        from_config(config, dim)


def test_all_that_from_config_reads_is_known():
    named = {*ALIASES, *ALIASES.values()}
    for _, needed, optional in KINDS.values():
        named |= {*needed, *optional}
    assert named - {"length"} <= WORDS
    assert not WORDS & {*FOREIGN}


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


@pytest.mark.parametrize("name", sorted(BASES))
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
    refused(LLAMA | said, f"of layers that rotate, got {name} = {value}; there is nothing to turn", 128)


def test_the_switches_that_let_it_turn_are_read():
    rotating = {"position_embedding_type": "rope", "alibi": False, "use_mem_rope": True}
    np.testing.assert_array_equal(from_config(LLAMA | rotating, 128)[0], from_config(LLAMA, 128)[0])


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
            assert name in BASES or any((config | inside).get(key) for key in BASE), name
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
    for config in ({wrong: 8192}, LLAMA | {wrong: 8192}):
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
        refused(LLAMA | {name: rope | {wrong: 8}}, f"spelled in known words, got {wrong}; {remedy}", 128)


def test_names_that_do_not_concern_theta_are_let_through():
    rope = {"rope_type": "default", "mrope_section": [16, 24, 24], "mrope_interleaved": True, "finetuned": True}
    config = LLAMA | {"rope_scaling": rope, "rope_interleave": True, "max_2d_position_embeddings": 9, "base_model": ""}
    np.testing.assert_array_equal(from_config(config, 128)[0], from_config(LLAMA, 128)[0])


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
    np.testing.assert_array_equal(from_config(LLAMA | nothing, 128)[0], from_config(LLAMA, 128)[0])


# Parts, widths


def test_a_rotation_two_levels_deep_is_found_with_the_names_that_lead_there():
    config = {"model_type": "colpali", "vlm_config": {"text_config": dict(LLAMA), "vision_config": {"hidden_size": 8}}}
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
        from_config(LLAMA, 64)


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
    assert problem(LLAMA) is None
    assert problem({}) is None
