"""A rotation beside a configuration: right code of each kind agrees with it, and each planted fault is named."""

import json
from copy import deepcopy

import numpy as np
import pytest
import torch

from posenc import diagnose
from posenc.__main__ import main
from posenc.config.export import rope_parameters_by_layer_type
from posenc.config.plan import plan
from posenc.doctor.rotation import against_config
from posenc.doctor.rotation.config_faults import faults, turn_of
from posenc.rotate.frequencies import llama3, rope_frequencies, yarn
from posenc.rotate.rope import RoPE, rope
from tests.config.test_formats import GEMMA, GPT_OSS, LLAMA, LLAMA_31, PYTHIA, QWEN, SCOUT, V3
from tests.doctor.assertions import assert_report, finding
from tests.peers import peer

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
LONG = QWEN | {"rope_scaling": YARN, "max_position_embeddings": 131_072}
PLAIN = LLAMA | {"rope_theta": 5e5}
LINEAR = LLAMA | {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 4.0}}
DEEP = V3 | {"num_attention_heads": 2}
LISTS = {"type": "longrope", "short_factor": [1.0, 1.5] * 32, "long_factor": [2.0, 8.0] * 32}
LISTED = LLAMA | {"rope_theta": 1e4, "max_position_embeddings": 131_072, "original_max_position_embeddings": 4096}
LISTED |= {"rope_scaling": LISTS}
FAST_YARN, FACTOR = yarn(128, 4.0, 32_768, 1e6)


def turning(start=0, first=0, **settings):
    """Return a rotation that counts from `start` and turns channels from `first` on."""

    def rotate(x, positions):
        part = x[..., first:]
        turned = rope(part.numpy(), positions.numpy() + start, **settings)
        return torch.cat([x[..., :first], torch.tensor(turned).to(x.dtype)], dim=-1)

    return rotate


def of_192(function):
    """Return a function that takes whole heads alone."""
    return lambda x, positions: function(x.reshape(*x.shape[:-1], 192), positions)


def compared(function, config, layer=None):
    """Return the finding of the comparison, without the other checks, which take much longer."""
    _, (of_config, *_) = against_config.examine(function, None, None, None, config, layer)
    return of_config


def of_transformers(name, cls, config, apply="apply_rotary_pos_emb"):
    library = peer(f"transformers.models.{name}.modeling_{name}")
    module = getattr(library, f"{cls}RotaryEmbedding")(getattr(library, f"{cls}Config")(**deepcopy(config)))

    def rotate(q, k, position_ids):
        return getattr(library, apply)(q, k, *module(q, position_ids))

    return rotate


def gemma(layer_type):
    library = peer("transformers.models.gemma3.modeling_gemma3")
    module = library.Gemma3RotaryEmbedding(library.Gemma3TextConfig(**deepcopy(GEMMA)))
    return lambda q, k, position_ids: library.apply_rotary_pos_emb(q, k, *module(q, position_ids, layer_type))


# Right code

MODULES = {
    "llama 3.1": ("llama", "Llama", LLAMA_31),
    "qwen 3 with YaRN": ("qwen3", "Qwen3", LONG),
    "linear": ("llama", "Llama", LINEAR),
    "gpt-oss": ("gpt_oss", "GptOss", GPT_OSS),
    "a part of a head": ("gpt_neox", "GPTNeoX", PYTHIA | {"num_key_value_heads": 32}),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_of_transformers_turn_as_their_config_says(name):
    module, cls, config = MODULES[name]
    report = diagnose(of_transformers(module, cls, config), config=config)
    assert_report(report)
    assert finding(report, "config").verdict == "ok"


@pytest.mark.parametrize(("layer_type", "index", "other"), [("sliding_attention", 0, 5), ("full_attention", 5, 0)])
def test_each_type_of_layer_is_told_from_the_other(layer_type, index, other):
    rotate = gemma(layer_type)
    assert compared(rotate, GEMMA).verdict == "ok"
    assert layer_type in compared(rotate, GEMMA).words
    assert compared(rotate, GEMMA, layer=index).verdict == "ok"
    elsewhere = compared(rotate, GEMMA, layer=other)
    assert (elsewhere.verdict, elsewhere.id) == ("wrong", "against-config")
    assert f"layer {index} " in elsewhere.words


def test_another_order_of_channels_is_right_as_logits_are():
    rotate = of_transformers("deepseek_v3", "DeepseekV3", DEEP, "apply_rotary_pos_emb_interleave")
    report = diagnose(rotate, config=DEEP)
    assert_report(report, notes="layout beside-the-rotation")
    assert finding(report, "config").verdict == "ok"


def test_the_part_that_turns_may_be_given_alone_or_in_its_head():
    (layer, _) = plan(DEEP).layers
    whole = turning(first=128, theta=layer.theta, layout="interleaved")
    assert compared(of_192(whole), DEEP).verdict == "ok"
    alone = RoPE(64, theta=layer.theta, layout="interleaved")
    of_any_width = turning(theta=layer.theta, layout="interleaved")
    for patient in (alone, of_any_width):
        assert compared(patient, DEEP).verdict == "ok"
        assert {"64", "192"} <= set(compared(patient, DEEP).words.split())


def test_what_a_rotation_does_not_show_is_noted():
    (deep, *_) = plan(DEEP).layers
    assert_report(diagnose(RoPE(64, theta=deep.theta, layout="interleaved"), config=DEEP), notes="beside-the-rotation")
    (scout, *_) = plan(SCOUT).layers
    report = diagnose(RoPE(128, theta=scout.theta, layout="interleaved"), config=SCOUT)
    assert_report(report, notes="beside-the-rotation")
    assert "3, 7" in finding(report, "beside the rotation").words


def test_what_queries_gain_keys_may_lose():
    right = turning(base=5e5)
    of_both = compared(lambda q, k, positions: (2 * right(q, positions), right(k, positions) / 2), PLAIN)
    assert of_both.verdict == "ok"


def test_a_width_is_that_of_a_head_or_of_what_turns():
    patient = turning(base=1e4)
    assert {"32", "128"} <= set(finding(diagnose(patient, dim=32, config=PYTHIA), "config").words.split())
    with pytest.raises(ValueError, match=r"doctor: dim must be one of \[32, 128\].*got 64"):
        diagnose(patient, dim=64, config=PYTHIA)


def test_a_base_for_each_layer():
    config = LLAMA | {"layer_rope_theta": [1e4, 5e5]}
    assert compared(turning(base=5e5), config).verdict == "ok"
    assert compared(turning(base=3e3), config).verdict == "wrong"
    elsewhere = compared(turning(base=1e4), config, layer=1)
    assert elsewhere.verdict == "wrong"
    assert "layer 0 " in elsewhere.words


def test_of_a_model_with_parts_the_text_is_meant():
    config = {"model_type": "gemma3", "text_config": GEMMA}
    assert compared(gemma("full_attention"), config).verdict == "ok"


def test_of_parts_within_parts_the_text_is_meant_or_one_has_to_be_passed():
    part = {"text_config": LLAMA | {"model_type": "qwen2_5_omni_text", "rope_theta": 1e6}}
    config = {"model_type": "qwen2_5_omni", "thinker_config": part}
    assert compared(turning(base=1e6), config).verdict == "ok"
    with pytest.raises(ValueError, match=r"doctor: config must be .*got thinker_config, talker_config"):
        diagnose(turning(base=1e6), config=config | {"talker_config": part["text_config"]})


def test_code_for_short_texts_is_asked_for_few_positions():
    table = RoPE(128, theta=FAST_YARN, attention_factor=FACTOR)

    def rotate(x, positions):
        return table.turn(x, table.table(torch.arange(100)[positions], x.dtype))

    assert compared(rotate, LONG).verdict == "ok"


# Planted faults

PART = rope_frequencies(128, 1e4)[0]
LONGER = (1 + np.log(32) / np.log(4096)) ** 0.5  # the factor of 131,072 tokens after training on 4,096
DEEP_THETA = plan(DEEP).layers[0].theta
DEEP_FACTOR = plan(DEEP).layers[0].attention_factor
FAULTS = {  # by the name that is given to it, and what tells it from others of that name
    "layout wrong": (PLAIN, turning(base=5e5, layout="interleaved")),
    "base wrong": (PLAIN, turning(base=1e4)),
    "positions off by one": (PLAIN, turning(base=5e5, start=1)),
    "positions off by one, below": (PLAIN, turning(base=5e5, start=-1)),
    "sign reversed": (PLAIN, turning(theta=-rope_frequencies(128, 5e5)[0])),
    "no rotation": (PLAIN, lambda x, positions: x.clone()),
    "Llama 3's scaling dropped": (LLAMA_31, turning(base=5e5)),
    "YaRN dropped": (LONG, turning(base=1e6)),
    "attention factor of YaRN dropped": (LONG, turning(theta=FAST_YARN)),
    "factor applied twice": (LONG, turning(theta=FAST_YARN, attention_factor=FACTOR**2)),
    "factor inverted": (LONG, turning(theta=FAST_YARN, attention_factor=1 / FACTOR)),
    "trained length ignored": (LONG, turning(theta=yarn(128, 4.0, 131_072, 1e6)[0], attention_factor=FACTOR)),
    "base wrong and YaRN dropped": (LONG, turning(base=1e4)),
    "linear scaling dropped": (LINEAR, turning(base=1e4)),
    "factor applied twice, linear": (LINEAR, turning(theta=PART / 16)),
    "truncate ignored": (GPT_OSS, turning(theta=yarn(64, 32.0, 4096, 150_000.0)[0], attention_factor=1.3465735903)),
    "partial ignored": (PYTHIA, turning(base=1e4)),
    "exponents of the whole head": (PYTHIA, turning(theta=PART[:16], rotary_dim=32)),
    "proportional in place of partial": (PYTHIA, turning(theta=np.where(np.arange(64) < 16, PART, 0))),
    "slice wrong": (PYTHIA, turning(first=96, base=1e4)),
    "slice wrong, latent": (DEEP, of_192(turning(theta=DEEP_THETA, layout="interleaved", rotary_dim=64))),
    "slice ignored": (
        DEEP,
        of_192(turning(theta=yarn(192, 40.0, 4096, 1e4)[0], layout="interleaved", attention_factor=DEEP_FACTOR)),
    ),
    "factor applied twice, latent": (
        DEEP,
        turning(theta=DEEP_THETA, layout="interleaved", first=128, attention_factor=0.1 * np.log(40) + 1),
    ),
    "YaRN dropped, latent": (DEEP, RoPE(64, layout="interleaved")),
    "LongRoPE dropped": (LISTED, turning(base=1e4)),
    "attention factor of LongRoPE dropped": (LISTED, turning(theta=plan(LISTED).layers[0].theta)),
    "wrong list of factors": (LISTED, turning(theta=PART / np.tile([2.0, 8.0], 32), attention_factor=LONGER)),
    "layout wrong and YaRN dropped": (LONG, turning(base=1e6, layout="interleaved")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(name):
    config, function = FAULTS[name]
    of_config = compared(function, config)
    assert (of_config.verdict, of_config.id) == ("wrong", "against-config")
    assert of_config.words.startswith(f"{name.partition(',')[0]}: "), of_config.words


def test_the_text_of_a_model_of_pictures_is_compared():
    vision = {"model_type": "pixtral", "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
    vision |= {"head_dim": 32, "rope_theta": 1e4, "image_size": 224, "patch_size": 16}
    config = {"model_type": "llava", "text_config": PLAIN, "vision_config": vision}
    assert compared(turning(base=5e5), config).verdict == "ok"
    assert compared(turning(base=1e4), config).words.startswith("base wrong: ")


def test_queries_and_keys_are_told_apart():
    right, wrong = turning(theta=FAST_YARN, attention_factor=FACTOR), turning(base=1e6)
    of_config = compared(lambda q, k, positions: (right(q, positions), wrong(k, positions)), LONG)
    of_queries, _, of_keys = of_config.words.partition("; ")
    assert of_queries.startswith("queries: right")
    assert of_keys.startswith("keys: YaRN dropped")


def test_another_fault_is_wrong_without_a_name():
    of_config = compared(turning(theta=llama3(128, factor=32.0)[0]), LLAMA_31)
    assert of_config.verdict == "wrong"
    assert not any(of_config.words.startswith(name) for name in FAULTS)


def test_proportional_and_partial_are_told_apart():
    gemma4 = peer("transformers.models.gemma4.configuration_gemma4").Gemma4TextConfig()
    layer = next(each for each in plan(gemma4).layers if each.layer_type == "full_attention")
    part = turning(theta=rope_frequencies(128, 1e6)[0], rotary_dim=128)
    assert compared(turning(theta=layer.theta), gemma4, layer=layer.index).verdict == "ok"
    assert compared(part, gemma4, layer=layer.index).words.startswith("partial in place of proportional: ")
    assert compared(turning(base=1e6), gemma4, layer=layer.index).words.startswith("partial ignored: ")


def shows_in_a_turn(fault, turned, dim):
    """Tell whether a fault turns one head in a way of its own; of a wrong list, that depends on the lists."""
    fits = turned.start + 2 * len(turned.theta) <= dim
    return fits and " and " not in fault.name and fault.name not in ("truncate ignored", "wrong list of factors")


@pytest.mark.parametrize(
    "config", [PLAIN, LLAMA_31, LONG, LINEAR, GPT_OSS, PYTHIA, DEEP], ids=lambda config: config["model_type"]
)
def test_no_fault_turns_as_the_config_says(config):
    (layer, *_) = plan(config).layers
    dim = layer.head_dim
    right, parameters = turn_of(layer, dim), rope_parameters_by_layer_type(config)[layer.layer_type]
    x, positions = torch.randn(1, 1, 4, dim, dtype=torch.float64), torch.tensor([1, 10, 100, 2000])
    for fault in faults(layer, parameters, dim):
        turned = right._replace(**fault.changed)
        if shows_in_a_turn(fault, turned, dim):
            assert (turned(x, positions) - right(x, positions)).abs().max() >= 1e-3, fault.name


# Refused


@pytest.mark.parametrize(
    ("config", "layer", "expected"),
    [
        ({"model_type": "gpt2"}, None, "doctor: layer must be one that rotates, none.*got None"),
        (SCOUT, 3, r"doctor: layer must be one that rotates, \[0, 1, 2, 4, 5, 6\], got 3"),
        (None, 3, "doctor: layer must be None without a config, got 3"),
    ],
)
def test_a_layer_that_does_not_rotate_is_refused(config, layer, expected):
    with pytest.raises(ValueError, match=expected):
        diagnose(turning(), config=config, layer=layer)


def test_a_function_that_does_not_take_such_heads_is_refused():
    with pytest.raises(ValueError, match=r"doctor: function must be .*\[128\] channels, got "):
        diagnose(RoPE(64), config=LONG)


def test_a_config_is_for_rotations():
    with pytest.raises(ValueError, match="doctor: kind must be 'rotation' with a config, got 'bias'"):
        diagnose(turning(), kind="bias", config=LONG)


def test_the_command_compares_with_a_config(tmp_path, capsys, monkeypatch):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LONG))
    (tmp_path / "mine_for_config.py").write_text("from posenc import RoPE\nturn = RoPE(128, base=1e6)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["doctor", "mine_for_config:turn", "--config", str(config)]) == 1
    assert "config: YaRN dropped: " in capsys.readouterr().out
    assert main(["doctor", "mine_for_config:turn", "--config", str(config), "--layer", "7"]) == 2
    assert "layer must be one that rotates, [0, 1], got 7" in capsys.readouterr().err
