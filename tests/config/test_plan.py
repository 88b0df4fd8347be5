"""Plans of published configurations, worked out by hand, and the traps that such files have."""

import json
from copy import deepcopy

import numpy as np
import pytest
import torch

import posenc
from posenc.__main__ import main
from posenc.config import other_encodings
from posenc.config.model_types import facts
from posenc.config.plan import plan
from posenc.rotate import frequencies
from posenc.rotate.mrope import MRoPE
from posenc.rotate.rope import RoPE
from tests.config import published
from tests.peers import peer


def turning(model):
    return [layer for layer in model.layers if layer.theta is not None]


def still(model):
    return [layer.index for layer in model.layers if layer.theta is None]


def test_llama_3_1_is_llama3_scaling_in_all_layers():
    model = plan(published.LLAMA_3_1_8B)
    assert len(model.layers) == 32
    for layer in model.layers:
        np.testing.assert_array_equal(layer.theta, frequencies.llama3(128)[0])
        assert (layer.layout, layer.head_dim, layer.slice, layer.base) == ("half", 128, slice(0, 128), 5e5)
        assert (layer.window, layer.attention_factor, layer.query_scale) == (None, 1.0, None)
        assert layer.softmax_scale == pytest.approx(128**-0.5)
        assert isinstance(layer.encoding, RoPE)


def test_llama_4_scout_leaves_every_fourth_layer_unturned_and_scales_its_queries():
    text = plan(published.LLAMA_4_SCOUT).parts["text_config"]
    assert still(text) == [*range(3, 48, 4)]
    for layer in text.layers:
        if layer.index % 4 == 3:
            assert (layer.layer_type, layer.window, layer.encoding) == ("full_attention", None, None)
            scale = layer.query_scale.factor(torch.tensor([0, 8191, 100_000])).flatten()
            np.testing.assert_allclose(scale, [1, 1 + 0.1 * np.log(2), 1 + 0.1 * np.log(13)], rtol=1e-12)
        else:
            assert (layer.layer_type, layer.window, layer.query_scale) == ("chunked_attention", 8192, None)
            np.testing.assert_array_equal(layer.theta, frequencies.llama3(128, 16.0, 1.0, 1.0)[0])
            assert layer.layout == "interleaved"


def test_qwen_2_5_is_yarn_with_its_factor():
    model = plan(published.QWEN_2_5_YARN)
    theta, factor = frequencies.yarn(128, 4.0, 32_768, 1e6)
    for layer in model.layers:
        np.testing.assert_array_equal(layer.theta, theta)
        assert layer.attention_factor == factor == pytest.approx(0.1 * np.log(4) + 1)
        assert layer.window is None


def test_qwen_3_has_heads_of_its_own_width():
    wider = published.QWEN_3_8B | {"hidden_size": 1024, "num_attention_heads": 16}  # Qwen3 0.6B
    for config, warned in ((published.QWEN_3_8B, False), (wider, True)):
        model = plan(config)
        assert {layer.head_dim for layer in model.layers} == {128}
        assert any("not hidden_size / num_attention_heads = 64" in warning for warning in model.warnings) == warned


@pytest.mark.parametrize(("first", "windows"), [(0, [16] * 4), (2, [None, None, 16, 16]), (4, [None] * 4)])
def test_qwen_2_sees_windows_from_the_layer_max_window_layers_on(first, windows):
    config = {"model_type": "qwen2", "num_hidden_layers": 4, "sliding_window": 16, "max_window_layers": first}
    assert [layer.window for layer in plan(config | {"use_sliding_window": True}).layers] == windows
    assert {layer.window for layer in plan(config | {"use_sliding_window": False}).layers} == {None}


def test_gemma_3_has_two_bases_and_stretches_one():
    text = plan(published.GEMMA_3_4B).parts["text_config"]
    assert [layer.index for layer in text.layers if layer.layer_type == "full_attention"] == [*range(5, 34, 6)]
    for layer in text.layers:
        local = layer.layer_type == "sliding_attention"
        factor, base = (1, 1e4) if local else (8, 1e6)
        np.testing.assert_allclose(layer.theta, base ** (-np.arange(0, 256, 2) / 256) / factor, rtol=1e-14)
        assert layer.window == (1024 if local else None)
        assert layer.softmax_scale == 256**-0.5


def test_deepseek_v3_turns_the_end_of_each_head_in_neighbors():
    model = plan(published.DEEPSEEK_V3)
    theta, factor = frequencies.yarn(64, 40, 4096, 1e4, mscale=1.0, mscale_all_dim=1.0)
    for layer in model.layers:
        np.testing.assert_array_equal(layer.theta, theta)
        assert (layer.head_dim, layer.slice, layer.layout) == (192, slice(128, 192), "interleaved")
        assert layer.attention_factor == factor == 1
        assert layer.softmax_scale * 192**0.5 == pytest.approx(1.874, abs=5e-4)  # softmax_scale has it from the paper


def test_gpt_oss_alternates_windows_and_rounds_no_ramp():
    model = plan(published.GPT_OSS_20B)
    theta, factor = frequencies.yarn(64, 32.0, 4096, 1.5e5, truncate=False)
    for layer in model.layers:
        np.testing.assert_array_equal(layer.theta, theta)
        assert layer.window == (None if layer.index % 2 else 128)
        assert layer.attention_factor == factor == pytest.approx(0.1 * np.log(32) + 1)


@pytest.mark.parametrize(("length", "step"), [(None, 100), (4096, 100), (4097, 2)])
def test_phi_3_divides_by_one_list_or_the_other(length, step):
    model = plan(published.PHI_3_MINI_128K, length)
    pairs = np.arange(48)
    for layer in model.layers:
        np.testing.assert_allclose(layer.theta, 1e4 ** (-pairs / 48) / (1 + pairs / step), rtol=1e-14)
        assert layer.attention_factor == pytest.approx(np.sqrt(1 + np.log(32) / np.log(4096)))
        assert layer.window == 262_144


def test_qwen_2_vl_is_read_although_its_text_stands_at_the_top():
    text = plan(published.QWEN_2_VL_2B).parts["text_config"]
    assert len(text.layers) == 28
    for layer in text.layers:
        assert isinstance(layer.encoding, MRoPE)
        assert (layer.sections, layer.base, layer.head_dim) == ((16, 24, 24), 1e6, 128)


def test_smollm_3_rotates_where_no_rope_layers_says_1():
    model = plan(published.SMOLLM_3_3B)
    assert still(model) == [*range(3, 36, 4)]
    assert model.warnings[0].startswith("no_rope_layers: 1 means that a layer rotates, 0 that it does not; 27 of 36 do")


def test_command_r7b_rotates_in_windows_alone():
    model = plan(published.COMMAND_R7B)
    assert still(model) == [*range(3, 32, 4)]
    assert {layer.window for layer in turning(model)} == {4096}
    assert {layer.layout for layer in turning(model)} == {"interleaved"}


def test_jamba_has_attention_without_rotation():
    model = plan(published.JAMBA)
    assert [layer.index for layer in model.layers if layer.layer_type == "full_attention"] == [4, 12, 20, 28]
    assert not turning(model)


CONFIGS = {name: config for name, config in vars(published).items() if name.isupper()}


@pytest.mark.parametrize("name", CONFIGS)
def test_dict_file_folder_and_json_say_the_same(name, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[name]))
    fields = plan(CONFIGS[name]).to_dict()
    assert plan(path).to_dict() == plan(str(tmp_path)).to_dict() == fields
    assert json.loads(json.dumps(fields)) == fields


@pytest.mark.parametrize("name", CONFIGS)
def test_an_object_of_transformers_has_the_same_layers(name):
    peer("transformers")
    from transformers import AutoConfig

    if name == "JAMBA":
        pytest.importorskip("transformers.models.jamba")
    config = deepcopy(CONFIGS[name])
    config_object = AutoConfig.for_model(config.pop("model_type"), **config)
    theirs, ours = plan(config_object), plan(CONFIGS[name])
    for part, own in zip(theirs.parts.values() or [theirs], ours.parts.values() or [ours], strict=True):
        for layer, own_layer in zip(part.layers, own.layers, strict=True):
            assert {**layer.to_dict(), "why": ""} == {**own_layer.to_dict(), "why": ""}


def test_two_bases_in_a_list_or_in_a_part_are_read():
    step = {"model_type": "step3p5", "num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"]}
    step |= {"head_dim": 128, "rope_theta": [5e6, 1e4], "partial_rotary_factors": [0.5, 1.0]}
    full, local = plan(step).layers
    assert (full.base, len(full.theta), local.base, len(local.theta)) == (5e6, 32, 1e4, 64)
    assert plan({"model_type": "dbrx", "n_layers": 1, "attn_config": {"rope_theta": 5e5}}).layers[0].base == 5e5


def test_gemma_4_has_wider_heads_where_it_sees_all():
    model = plan({"model_type": "gemma4_text", "num_hidden_layers": 6})
    assert [layer.head_dim for layer in model.layers] == [256] * 5 + [512]
    assert np.count_nonzero(model.layers[5].theta) == 64  # a quarter of 256 pairs
    assert any("heads of full_attention are 512 wide, not head_dim = 256" in warning for warning in model.warnings)


def test_cross_attention_of_llama_3_2_does_not_rotate():
    assert still(plan({"model_type": "mllama_text_model", "cross_attention_layers": [3, 8]})) == [3, 8]
    assert still(plan({"model_type": "mllama_text_model"})) == [3, 8, 13, 18, 23, 28, 33, 38]


def test_deepseek_v4_has_a_base_for_what_is_compressed():
    config = {"model_type": "deepseek_v4", "num_hidden_layers": 3, "compress_ratios": [0, 4, 128]}
    config |= {"rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65_536}}
    model = plan(config)
    assert [layer.base for layer in model.layers] == [1e4, 1.6e5, 1.6e5]
    assert [layer.window for layer in model.layers] == [128, None, None]
    assert {(layer.slice.start, layer.attention_factor, layer.layout) for layer in model.layers} == {
        (448, 1.0, "interleaved")
    }
    np.testing.assert_array_equal(model.layers[1].theta, frequencies.yarn(64, 16, 65_536, 1.6e5)[0])
    np.testing.assert_array_equal(model.layers[0].theta, frequencies.rope_frequencies(64)[0])


@pytest.mark.parametrize("model_type", ["deepseek_v3", "deepseek_v4", "mistral4", "minicpm3", "axk2"])
def test_of_a_slice_that_starts_later_all_channels_turn(model_type):
    """Nothing is said of a part that turns: a slice is as wide as it is, not as where it ends."""
    model = plan({"model_type": model_type})
    starts = {layer.slice.start for layer in turning(model)}
    assert starts
    assert min(starts) > 0
    assert not [warning for warning in model.warnings if "channels rotate" in warning]


def test_a_part_of_the_channels_that_turns_is_counted():
    model = plan({"model_type": "gpt_neox", "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}})
    assert "24 of 96 channels rotate in full_attention" in model.warnings


@pytest.mark.parametrize(
    ("model_type", "width"), [("mamba", 768), ("falcon_mamba", 768), ("rwkv", 4096), ("xlstm", 4096)]
)
def test_a_model_without_heads_is_one_head_wide(model_type, width):
    for layer in plan({"model_type": model_type}).layers:
        assert (layer.encoding, layer.head_dim, layer.slice) == (None, width, slice(0, width))


def test_what_it_is_given_stays_as_it_is():
    before = json.dumps(published.DEEPSEEK_V3)
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    plan(published.DEEPSEEK_V3)
    plan({"model_type": "gpt2"})  # whose table starts with random rows
    assert torch.rand(1) == expected
    assert json.dumps(published.DEEPSEEK_V3) == before


def test_the_printed_table_groups_layers_and_says_what_follows():
    lines = str(plan(published.GEMMA_3_4B)).splitlines()
    (local,) = (line for line in lines if "  1,024 " in line)
    (global_,) = (line for line in lines if "5 11 … 29" in line)
    cells = "5 11 … 29 full_attention RoPE 1,000,000 256 of 256 half all 1 45,122,677 0.00 43%"
    assert global_.split() == cells.split()
    assert " 58,470 " in local  # 2 pi 10,000^(254/256)
    assert local.split()[-2:] == ["0.02", "45%"]  # a window of 1,024 over that, and 57 of 128 pairs


def test_the_command_prints_it(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(published.SMOLLM_3_3B))
    assert main(["read", str(path)]) == 0
    assert capsys.readouterr().out == f"{plan(path)}\n"
    assert main(["read", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == plan(path).to_dict()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"rope_theta": 1e6}, "model_type must be one that transformers knows, got None"),
        ({"model_type": "lama"}, "near are llama"),
        ({"model_type": "vit"}, "must be one whose positions posenc reads, got vit"),
        (
            published.QWEN_2_5_YARN | {"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fst": 8}},
            "got beta_fst; did you mean beta_fast",
        ),
        (published.LLAMA_3_1_8B | {"num_hidden_layers": None}, "num_hidden_layers must be a positive integer"),
        ("nowhere.json", "config must be a file of JSON, got 'nowhere.json'"),
        (7, "config must be a dict, a path or an object with to_dict, got 7"),
    ],
)
def test_it_refuses_in_words(config, message, capsys):
    with pytest.raises(ValueError, match=r"^plan: ") as error:
        plan(config)
    assert message in str(error.value)
    if isinstance(config, str):
        assert main(["read", config]) == 1
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"rope_theta": None}, "rope_theta is not in the config: the code takes 10,000"),
        (
            {"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}, "rope_scaling": None},
            "10,000 in rope_par",
        ),
        ({"rope_scaling": {"type": "yarn", "factor": 8.0}}, "yarn without original_max_position_embeddings"),
        (
            {"rope_scaling": {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192}},
            "factor 8 times 8,192 is 65,536, max_position_embeddings is 131,072",
        ),
        ({"partial_rotary_factor": 0.5}, "64 of 128 channels rotate in full_attention"),
        ({}, "25 of 64 pairs complete no rotation within the length of 131,072 in full_attention"),
    ],
)
def test_it_warns_of(change, warning):
    model = plan(published.LLAMA_3_1_8B | change)
    assert any(warning in text for text in model.warnings), model.warnings


def counting(model_type):
    """Return the names under which a model type counts its layers."""
    return {"num_hidden_layers", facts()[model_type].get("names", {}).get("num_hidden_layers", "num_hidden_layers")}


READABLE = sorted(
    name for name, known in facts().items() if known.get("encoding") in ("rope", *other_encodings.READERS)
)


@pytest.mark.parametrize("layers", [10_001, 10**12])
@pytest.mark.parametrize("model_type", READABLE)
def test_more_layers_than_any_model_has_are_refused(model_type, layers):
    message = f"plan: num_hidden_layers must be at most 10,000 in a config of {model_type}, got {layers}; correct it"
    for name in counting(model_type):
        with pytest.raises(ValueError, match=f"^{message}$"):
            plan({"model_type": model_type, name: layers})


def test_as_many_layers_as_allowed_are_read():
    assert len(plan({"model_type": "gpt2", "n_layer": 10_000}).layers) == 10_000


def test_a_longer_list_of_layers_is_refused_too():
    message = "plan: layer_types must have 32 values, one for each layer, got 10001; correct it or num_hidden_layers"
    with pytest.raises(ValueError, match=f"^{message}$"):
        plan({"model_type": "qwen3", "layer_types": ["full_attention"] * 10_001})


@pytest.mark.parametrize("distance", [2**53 + 1, 10**30, 1e30, float("inf"), float("nan")])
def test_a_distance_that_no_bucket_can_reach_is_refused(distance):
    message = "t5: max_distance must be more than 8 and at most 2\\*\\*53, got"
    with pytest.raises(ValueError, match=message):
        plan({"model_type": "t5", "relative_attention_max_distance": distance})


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(published.SMOLLM_3_3B), encoding="utf-8-sig")
    assert plan(path).to_dict() == plan(published.SMOLLM_3_3B).to_dict()


def test_it_is_at_the_top():
    assert posenc.plan is plan


def test_inkling_mixes_curves_as_long_as_its_window_and_longer_ones_where_it_has_none():
    model = plan({"model_type": "inkling2_text", "num_hidden_layers": 6})
    assert [type(layer.encoding).__name__ for layer in model.layers] == ["Profiles"] * 6
    assert [layer.window for layer in model.layers] == [1024] * 5 + [None]
    assert model.layers[5].encoding.bank.shape == (16, 1024)
    assert [layer.query_scale and layer.query_scale.kind for layer in model.layers] == [None] * 5 + ["inkling"]
    assert {layer.softmax_scale for layer in model.layers} == {128**-0.5}
    older = plan({"model_type": "inkling_text", "local_layer_ids": [0], "num_hidden_layers": 2, "swa_head_dim": 64})
    assert [(layer.window, layer.head_dim) for layer in older.layers] == [(512, 64), (None, 128)]
    assert older.layers[0].softmax_scale == 1 / 64


@pytest.mark.parametrize(
    ("name", "order", "first"),
    [
        ("qwen2_vl_vision", "rows first", 0),
        ("sam3_vit_model", "columns first", 1),
        ("kimi_k25_vision", "alternating", 1),
    ],
)
def test_towers_for_pictures_turn_by_rows_and_columns(name, order, first):
    layer = plan({"model_type": name, "rope_theta": 100.0}).layers[0]
    theta = np.asarray(layer.encoding.theta).reshape(2, -1)
    assert (theta[first, 0], theta[1 - first, 0]) == (1.0, 0.0), order
    np.testing.assert_array_equal(theta.sum(axis=0), layer.theta)
    assert np.count_nonzero(theta[0]) == np.count_nonzero(theta[1]) == layer.head_dim // 4


def test_qwen_2_5_sees_windows_but_in_four_layers_of_its_tower():
    layers = plan({"model_type": "qwen2_5_vl_vision"}).layers
    assert [layer.index for layer in layers if layer.layer_type == "full_attention"] == [7, 15, 23, 31]


@pytest.mark.parametrize("key", ["rope_thet", "rope_scalling", "RopeTheta"])
def test_a_misspelled_key_at_the_top_is_refused(key):
    with pytest.raises(ValueError, match=rf"plan: config must be of known keys, got {key}; did you mean rope_"):
        plan({"model_type": "llama", key: 1e6})


@pytest.mark.parametrize(
    ("rope", "missing"),
    [
        ({"rope_type": "linear"}, "factor"),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, "low_freq_factor"),
        ({"rope_type": "longrope", "factor": 4.0}, "short_factor"),
    ],
)
def test_a_word_that_is_missing_is_named(rope, missing):
    with pytest.raises(ValueError, match=f"plan: {missing} must be stated for {rope['rope_type']}, got None; add it"):
        plan(published.LLAMA_3_1_8B | {"rope_scaling": rope})


def test_a_list_that_is_too_short_and_a_base_that_is_none_are_refused():
    with pytest.raises(
        ValueError,
        match="layer_rope_theta must have 28 values, one for each layer, got 2; correct it or num_hidden_layers",
    ):
        plan({"model_type": "granite_swa", "num_hidden_layers": 28, "layer_rope_theta": [1e4, 0]})
    with pytest.raises(ValueError, match="rope_theta must be positive and finite, got -1; correct it"):
        plan({"model_type": "pixtral", "rope_theta": -1})


@pytest.mark.parametrize(
    ("model_type", "sections", "condition"),
    [
        ("qwen2_vl_text", [16, 24, 20], "64 pairs in all"),
        ("ernie4_5_vl_moe_text", [22, 20, 22], r"\[n, n, time\], rows and columns alike"),
        ("ernie4_5_vl_moe_text", [32, 32], r"\[n, n, time\], rows and columns alike"),
        ("ernie4_5_vl_moe_text", [22, 22, 10], "64 pairs in all"),
    ],
)
def test_sections_that_do_not_fit_are_refused(model_type, sections, condition):
    config = {"model_type": model_type, "hidden_size": 256, "num_attention_heads": 2, "head_dim": 128}
    message = rf"^plan: mrope_section must be {condition}, got \[{', '.join(map(str, sections))}\]; correct it$"
    with pytest.raises(ValueError, match=message):
        plan(config | {"rope_scaling": {"type": "default", "mrope_section": sections}})
