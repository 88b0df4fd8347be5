"""The doctor against a config: each fault is planted and named, and right code of each kind is healthy."""

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
from tests.peers import peer

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
LONG = QWEN | {"rope_scaling": YARN, "max_position_embeddings": 131_072}
PLAIN = LLAMA | {"rope_theta": 5e5}
LINEAR = LLAMA | {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 4.0}}
DEEP = V3 | {"num_attention_heads": 2}
LISTS = {"type": "longrope", "short_factor": [1.0, 1.5] * 32, "long_factor": [2.0, 8.0] * 32}
LISTED = LLAMA | {"rope_theta": 1e4, "max_position_embeddings": 131_072, "original_max_position_embeddings": 4096}
LISTED |= {"rope_scaling": LISTS}
BASE_1E6 = rope_frequencies(128, 1e6)[0]
FAST_YARN, FACTOR = yarn(128, 4.0, 32_768, 1e6)


def turning(start=0, first=0, **said):
    """Return a rotation of one's own that starts to count at `start` and turns channels from `first` on."""

    def rotate(x, positions):
        part = x[..., first:]
        turned = rope(part.numpy(), positions.numpy() + start, **said)
        return torch.cat([x[..., :first], torch.tensor(turned).to(x.dtype)], dim=-1)

    return rotate


def said(function, config, layer=None):
    """Return what the comparison finds, without the other checks of the doctor."""
    _, (found, *_) = against_config.examine(function, None, None, None, config, layer)
    return found


# Right code


def of_transformers(name, cls, config, apply="apply_rotary_pos_emb"):
    theirs = peer(f"transformers.models.{name}.modeling_{name}")
    module = getattr(theirs, f"{cls}RotaryEmbedding")(getattr(theirs, f"{cls}Config")(**deepcopy(config)))

    def rotate(q, k, position_ids):
        return getattr(theirs, apply)(q, k, *module(q, position_ids))

    return rotate


@pytest.mark.parametrize(
    ("name", "cls", "config"),
    [
        ("llama", "Llama", LLAMA_31),
        ("qwen3", "Qwen3", LONG),
        ("llama", "Llama", LINEAR),
        ("gpt_oss", "GptOss", GPT_OSS),
    ],
    ids=["llama 3.1", "qwen 3 with YaRN", "linear", "gpt-oss"],
)
def test_modules_of_transformers_are_healthy(name, cls, config):
    report = diagnose(of_transformers(name, cls, config=config), config=config)
    assert report.finding("config").words == "turns as the layers that the config describes"
    assert report.healthy, report


def test_a_part_of_a_head_is_healthy():
    theirs = peer("transformers.models.gpt_neox.modeling_gpt_neox")
    module = theirs.GPTNeoXRotaryEmbedding(theirs.GPTNeoXConfig(**deepcopy(PYTHIA), num_key_value_heads=32))

    def rotate(q, k, position_ids):
        return theirs.apply_rotary_pos_emb(q, k, *module(q, position_ids))

    assert diagnose(rotate, config=PYTHIA).healthy


@pytest.mark.parametrize("layer_type", ["sliding_attention", "full_attention"])
def test_either_type_of_layer_is_healthy_and_named(layer_type):
    rotate = gemma(layer_type)
    found = said(rotate, GEMMA)
    assert found.verdict == "ok"
    assert found.words == f"turns as the layers of {layer_type} that the config describes"
    index, other = (0, 5) if layer_type == "sliding_attention" else (5, 0)
    assert said(rotate, GEMMA, layer=index).verdict == "ok"
    elsewhere = said(rotate, GEMMA, layer=other)
    assert elsewhere.verdict == "wrong"
    assert elsewhere.words.startswith(f"another layer: turns as layer {index} ({layer_type}, base 1")


def gemma(layer_type):
    theirs = peer("transformers.models.gemma3.modeling_gemma3")
    module = theirs.Gemma3RotaryEmbedding(theirs.Gemma3TextConfig(**deepcopy(GEMMA)))
    return lambda q, k, position_ids: theirs.apply_rotary_pos_emb(q, k, *module(q, position_ids, layer_type))


def test_another_order_of_channels_is_healthy_as_logits_are_right():
    rotate = of_transformers("deepseek_v3", "DeepseekV3", DEEP, "apply_rotary_pos_emb_interleave")
    report = diagnose(rotate, config=DEEP)
    assert report.finding("config").words.startswith("logits are those of the layers that the config describes, by ano")
    assert report.finding("config").verdict == "ok"


def test_the_part_that_turns_may_be_given_alone_or_in_its_head():
    (layer, _) = plan(DEEP).layers
    alone = RoPE(64, theta=layer.theta, layout="interleaved")
    whole = turning(first=128, theta=layer.theta, layout="interleaved")
    assert said(of_192(whole), DEEP).words == "turns as the layers that the config describes"
    assert said(alone, DEEP).words.endswith("describes, given the 64 channels that turn of a head of 192")


def test_what_a_rotation_does_not_show_is_noted():
    (layer, *_) = plan(DEEP).layers
    beside = diagnose(RoPE(64, theta=layer.theta, layout="interleaved"), config=DEEP).finding("beside the rotation")
    assert beside.verdict == "note"
    assert "logits are scaled by" in beside.words
    scout = plan(SCOUT).layers[0]
    beside = diagnose(RoPE(128, theta=scout.theta, layout="interleaved"), config=SCOUT).finding("beside the rotation")
    assert "layers 3, 7 do not rotate" in beside.words
    assert "queries are scaled by their position besides" in beside.words


def test_any_width_may_be_the_right_one():
    function = turning(theta=plan(DEEP).layers[0].theta, layout="interleaved")
    assert said(function, DEEP).words.endswith("describes, given the 64 channels that turn of a head of 192")


def test_what_queries_gain_keys_may_lose():
    right = turning(base=5e5)
    found = said(lambda q, k, positions: (2 * right(q, positions), right(k, positions) / 2), PLAIN)
    assert found.verdict == "ok"
    assert found.words.startswith("logits are those of the layers")


def test_a_width_is_that_of_a_head_or_of_what_turns():
    alone = turning(base=1e4)
    assert (
        diagnose(alone, dim=32, config=PYTHIA).finding("config").words.endswith("32 channels that turn of a head of 128")
    )
    with pytest.raises(ValueError, match=r"doctor: dim must be one of \[32, 128\] with this config, got 64"):
        diagnose(alone, dim=64, config=PYTHIA)


def test_layers_that_no_program_has_words_for_are_compared():
    config = LLAMA | {"layer_rope_theta": [1e4, 5e5]}
    assert said(turning(base=5e5), config).words == "turns as the layers of full_attention that the config describes"
    assert said(turning(base=3e3), config).words.startswith("turns otherwise than the config says")
    assert said(turning(base=1e4), config, layer=1).words.startswith("another layer: turns as layer 0")


# Faults

PART = rope_frequencies(128, 1e4)[0]
LONGER = (1 + np.log(32) / np.log(4096)) ** 0.5  # the factor of 131,072 tokens after training on 4,096


def of_192(function):
    """Return a function that takes whole heads alone."""
    return lambda x, positions: function(x.reshape(*x.shape[:-1], 192), positions)


PLANTED = {
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
    "factor upside down": (LONG, turning(theta=FAST_YARN, attention_factor=1 / FACTOR)),
    "trained length ignored": (LONG, turning(theta=yarn(128, 4.0, 131_072, 1e6)[0], attention_factor=FACTOR)),
    "base wrong and YaRN dropped": (LONG, turning(base=1e4)),
    "linear scaling dropped": (LINEAR, turning(base=1e4)),
    "factor applied twice, linear": (LINEAR, turning(theta=PART / 16)),
    "truncate ignored": (GPT_OSS, turning(theta=yarn(64, 32.0, 4096, 150_000.0)[0], attention_factor=1.3465735903)),
    "partial ignored": (PYTHIA, turning(base=1e4)),
    "exponents of the whole head": (PYTHIA, turning(theta=PART[:16], rotary_dim=32)),
    "proportional in place of partial": (PYTHIA, turning(theta=np.where(np.arange(64) < 16, PART, 0))),
    "slice wrong": (PYTHIA, turning(first=96, base=1e4)),
    "slice wrong, latent": (
        DEEP,
        of_192(turning(theta=plan(DEEP).layers[0].theta, layout="interleaved", rotary_dim=64)),
    ),
    "factor applied twice, latent": (
        DEEP,
        turning(
            theta=plan(DEEP).layers[0].theta, layout="interleaved", first=128, attention_factor=0.1 * np.log(40) + 1
        ),
    ),
    "YaRN dropped, latent": (DEEP, RoPE(64, layout="interleaved")),
    "LongRoPE dropped": (LISTED, turning(base=1e4)),
    "attention factor of LongRoPE dropped": (LISTED, turning(theta=plan(LISTED).layers[0].theta)),
    "wrong list of factors": (LISTED, turning(theta=PART / np.tile([2.0, 8.0], 32), attention_factor=LONGER)),
    "layout wrong and YaRN dropped": (LONG, turning(base=1e6, layout="interleaved")),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_that_is_planted_is_named(name):
    config, function = PLANTED[name]
    found = said(function, config)
    assert found.verdict == "wrong"
    assert found.words.startswith(f"{name.partition(',')[0]}: "), found.words


def test_queries_and_keys_are_told_apart():
    right, wrong = turning(theta=FAST_YARN, attention_factor=FACTOR), turning(base=1e6)
    found = said(lambda q, k, positions: (right(q, positions), wrong(k, positions)), LONG)
    assert found.words.startswith("queries: right: as the config describes; keys: YaRN dropped: ")


def test_llama_3_at_the_wrong_factor_is_wrong_without_a_name():
    found = said(turning(theta=llama3(128, factor=32.0)[0]), LLAMA_31)
    assert found.verdict == "wrong"
    assert found.words.startswith("turns otherwise than the config says, by ")
    assert "under no fault that is known" in found.words


@pytest.mark.parametrize(
    "config", [PLAIN, LLAMA_31, LONG, LINEAR, GPT_OSS, PYTHIA, DEEP], ids=lambda c: c["model_type"]
)
def test_no_fault_passes_for_another_or_for_the_config(config):
    layer = plan(config).layers[0]
    dim = layer.head_dim
    right, named = turn_of(layer, dim), rope_parameters_by_layer_type(config)[layer.layer_type]
    x, positions = torch.randn(1, 1, 4, dim, dtype=torch.float64), torch.tensor([1, 10, 100, 2000])
    for fault in faults(layer, named, dim):
        turned = right._replace(**fault.changed)
        if (
            turned.start + 2 * len(turned.theta) <= dim
            and " and " not in fault.name
            and fault.name != "truncate ignored"
        ):
            same = (turned(x, positions) - right(x, positions)).abs().max() < 1e-3
            assert not same or fault.name == "wrong list of factors", fault.name


# Asked wrongly


def test_a_model_without_rotation_is_refused():
    with pytest.raises(ValueError, match="doctor: layer must be one that rotates, none here, got None"):
        diagnose(turning(), config={"model_type": "gpt2"})
    with pytest.raises(ValueError, match=r"doctor: layer must be one that rotates, \[0, 1, 2, 4, 5, 6\], got 3"):
        diagnose(turning(), config=SCOUT, layer=3)


def test_a_function_that_does_not_take_such_heads_is_refused():
    with pytest.raises(ValueError, match=r"doctor: function must be a rotation of heads of \[128\] channels, got "):
        diagnose(RoPE(64), config=LONG)


def test_a_config_is_for_rotations():
    with pytest.raises(ValueError, match="doctor: kind must be 'rotation' with a config, got 'bias'"):
        diagnose(turning(), kind="bias", config=LONG)
    with pytest.raises(ValueError, match="doctor: layer must be None without a config, got 3"):
        diagnose(turning(), layer=3)


def test_of_a_model_with_parts_the_text_is_meant():
    config = {"model_type": "gemma3", "text_config": GEMMA}
    assert said(gemma("full_attention"), config).verdict == "ok"


def test_of_parts_within_parts_the_text_is_meant_or_one_has_to_be_passed():
    part = {"text_config": LLAMA | {"model_type": "qwen2_5_omni_text", "rope_theta": 1e6}}
    config = {"model_type": "qwen2_5_omni", "thinker_config": part}
    assert said(turning(base=1e6), config).verdict == "ok"
    with pytest.raises(ValueError, match="doctor: config must be of a part of text, got thinker_config, talker_config"):
        diagnose(turning(base=1e6), config=config | {"talker_config": part["text_config"]})


def test_code_for_short_texts_is_asked_short():
    table = RoPE(128, theta=FAST_YARN, attention_factor=FACTOR)

    def rotate(x, positions):
        return table.turn(x, table.table(torch.arange(100)[positions], x.dtype))

    assert said(rotate, LONG).verdict == "ok"


def test_the_command_compares_with_a_config(tmp_path, capsys, monkeypatch):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LONG))
    (tmp_path / "mine_for_config.py").write_text("from posenc import RoPE\nturn = RoPE(128, base=1e6)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["doctor", "mine_for_config:turn", "--config", str(config)]) == 1
    assert "WRONG        config: YaRN dropped: yarn is in the config" in capsys.readouterr().out
    assert main(["doctor", "mine_for_config:turn", "--config", str(config), "--layer", "7"]) == 2
    assert "layer must be one that rotates, [0, 1], got 7" in capsys.readouterr().err


def test_proportional_and_partial_are_told_apart():
    gemma4 = peer("transformers.models.gemma4.configuration_gemma4").Gemma4TextConfig()
    layer = next(one for one in plan(gemma4).layers if one.layer_type == "full_attention")
    part = rope_frequencies(128, 1e6)[0]
    right = turning(theta=layer.theta)
    wrong = turning(theta=part, rotary_dim=128)
    assert said(right, gemma4, layer=layer.index).verdict == "ok"
    assert said(wrong, gemma4, layer=layer.index).words.startswith("partial in place of proportional: 128 channels")
    whole = said(turning(base=1e6), gemma4, layer=layer.index)
    assert whole.words.startswith("partial ignored: 512 channels turn where the config says 0.25 of them")
