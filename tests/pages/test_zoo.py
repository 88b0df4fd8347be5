"""The zoo of real models: every field has a source, every configuration parses, and the arithmetic is that of RoPE."""

import inspect
import json
import math
from pathlib import Path

import numpy as np
import pytest

from posenc.rotate.frequencies import rope_frequencies
from posenc.rotate.from_config import from_config
from tests.peers import peer

ROOT = Path(__file__).parents[2]
DATA = json.loads((ROOT / "docs/assets/data/models.json").read_text(encoding="utf-8"))
MODELS = {model["name"]: model for model in DATA["models"]}
ROTARY = [name for name, model in MODELS.items() if model["encoding"] == "rope"]
WITH_CLASS = [name for name, model in MODELS.items() if "transformers" in model]
SOURCED = {"encoding", "head", "config", "longer", "layout", "rotated", "window", "size", "trained", "claimed"}
KINDS = {"config", "code", "default", "paper", "documentation", "log"}


def turning(model):
    """Return how many channels of a head turn, from the fields of its configuration alone."""
    config = model["config"] | model["config"].get("rope_parameters", {})
    if "qk_rope_head_dim" in config or "rotary_dim" in config:
        return config.get("qk_rope_head_dim") or config["rotary_dim"]
    share = config.get("rotary_pct", config.get("partial_rotary_factor"))
    if share is None:
        share = 0.5 if config.get("model_type") == "chatglm" else 1
    return int(share * model["head"])


def base(model):
    config = model["config"] | model["config"].get("rope_parameters", {})
    return config.get("rope_theta", config.get("rotary_emb_base", 10_000))


def frequencies(model, length=None, scaled=True):
    config = dict(model["config"])
    if not scaled:
        config.pop("rope_scaling", None)
    elif length:
        config |= model.get("longer", {})
    return from_config(config, config.get("qk_rope_head_dim", model["head"]), length=length)


def test_there_are_enough_and_no_name_occurs_twice():
    assert len(MODELS) == len(DATA["models"]) >= 35
    assert len(ROTARY) >= 25


@pytest.mark.parametrize("name", MODELS)
def test_every_field_is_explained(name):
    assert MODELS[name].keys() - {"name", "year", "encoding", "note"} <= DATA["about"].keys()
    assert MODELS[name]["encoding"] in {"rope", "sinusoidal", "learned", "alibi", "t5"}
    assert MODELS[name].get("layout", "halves") in {"halves", "neighbors"}


@pytest.mark.parametrize("name", MODELS)
def test_every_field_has_a_source(name):
    sources = MODELS[name]["sources"]
    told = set().union(*(source["says"] for source in sources))
    assert told == MODELS[name].keys() & SOURCED
    assert all(source["says"] and source["kind"] in KINDS for source in sources)


@pytest.mark.parametrize("name", MODELS)
def test_sources_are_addresses_that_stay(name):
    """A file in a repository is named at a commit or a version, not at a branch that moves."""
    for source in MODELS[name]["sources"]:
        url = source["url"]
        assert url.startswith("https://")
        if "/blob/" in url:
            version = url.split("/blob/")[1].split("/")[0]
            assert len(version) == 40 or version.startswith("v"), url


@pytest.mark.parametrize("name", ROTARY)
def test_a_configuration_parses_into_the_right_number_of_pairs(name):
    model = MODELS[name]
    theta, factor = frequencies(model)
    moving = theta[theta > 0]
    assert factor > 0
    assert len(moving) == turning(model) // 2
    assert (np.diff(theta) <= 0).all()


@pytest.mark.parametrize("name", ROTARY)
def test_the_unscaled_frequencies_are_those_of_rope(name):
    model = MODELS[name]
    theta, factor = frequencies(model, scaled=False)
    # p-RoPE keeps the exponents of the whole head, partial rotation those of its part
    width = model["head"] if "rope_parameters" in model["config"] else turning(model)
    expected = rope_frequencies(width, base(model))[0][: turning(model) // 2]
    assert factor == 1
    assert theta[theta > 0] == pytest.approx(expected)


@pytest.mark.parametrize("name", ROTARY)
def test_slowest_wavelength_and_turns(name):
    """Worked out with Python's floats, pair by pair."""
    model = MODELS[name]
    theta = frequencies(model, scaled=False)[0]
    theta, width = theta[theta > 0], turning(model)
    exponents = model["head"] if "rope_parameters" in model["config"] else width
    length = min(model.get("trained", model.get("claimed", 8192)), model.get("window", math.inf))
    unfinished = 0
    for i in range(width // 2):
        wavelength = 2 * math.pi * base(model) ** (2 * i / exponents)
        assert 2 * math.pi / theta[i] == pytest.approx(wavelength)
        unfinished += wavelength > length
    assert (length * theta / (2 * math.pi) < 1).sum() == unfinished
    if exponents == width:  # the closed form of the page
        reach = width / 2 * math.log(length / (2 * math.pi)) / math.log(base(model))
        assert unfinished == max(width // 2 - 1 - math.floor(reach), 0)


@pytest.mark.parametrize("name", ROTARY)
def test_a_stretch_slows_and_never_hurries(name):
    model = MODELS[name]
    plain = frequencies(model, scaled=False)[0]
    stretched = frequencies(model, length=model.get("claimed"))[0]
    assert (stretched <= plain * (1 + 1e-12)).all()
    stretches = "rope_scaling" in model["config"] or "longer" in model
    assert (stretched[-1] < plain[-1]) == stretches


def test_lengths_are_in_order():
    for model in MODELS.values():
        assert model.get("trained", 1) <= model.get("claimed", math.inf)


@pytest.mark.parametrize("name", WITH_CLASS)
def test_defaults_are_those_of_transformers(name):
    said = MODELS[name]["transformers"]
    module, _, cls = said["class"].rpartition(".")
    config = getattr(peer(module), cls)().to_dict()
    width = next(config[key] for key in ("hidden_size", "d_model", "n_embd") if key in config)
    keys = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads")
    heads = next(config[key] for key in keys if key in config)
    given = config.get("qk_head_dim") or config.get("d_kv") or config.get("head_dim")
    assert said["head"] == (given or width // heads)
    if "base" in said:
        rope = config.get("rope_parameters") or {}
        rope = rope.get("full_attention", rope)
        assert said["base"] == rope.get("rope_theta", 10_000)
        assert said["scaling"] == rope.get("rope_type", "default")
        assert said["longest"] == config.get("max_position_embeddings", config.get("n_positions"))
    source = inspect.getsource(peer(module))
    assert f'checkpoint="{said["names"]}"' in source


@pytest.mark.parametrize("name", [name for name in WITH_CLASS if MODELS[name]["encoding"] != "rope"])
def test_sizes_that_come_from_a_default_are_its(name):
    model = MODELS[name]
    if not any(source["kind"] == "default" and "size" in source["says"] for source in model["sources"]):
        pytest.skip("its size stands elsewhere")
    module, _, cls = model["transformers"]["class"].rpartition(".")
    config = getattr(peer(module), cls)().to_dict()
    keys = ("max_position_embeddings", "n_positions", "relative_attention_num_buckets", "max_source_positions")
    size = next((config[key] for key in keys if key in config), None)
    if size is None:  # of a picture: its patches, and the class
        size = (config["image_size"] // config["patch_size"]) ** 2 + 1
    assert model["size"] == size
