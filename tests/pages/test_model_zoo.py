"""The zoo of real models: every field has a source, every configuration parses, and the arithmetic is that of RoPE."""

import inspect
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from dev import zoo_from_transformers as classes
from posenc.models.from_config import from_config
from posenc.rotate.frequencies import rope_frequencies
from posenc.rotate.query_scale import position_scale
from tests.peers import peer

ROOT = Path(__file__).parents[2]
DATA = json.loads((ROOT / "docs/assets/data/models.json").read_text(encoding="utf-8"))
MODELS = {model["name"]: model for model in DATA["models"]}
ROTARY = [name for name, model in MODELS.items() if model["encoding"] == "rope" and "config" in model]
WITH_CLASS = [name for name, model in MODELS.items() if "transformers" in model]
SOURCED = {"encoding", "head", "config", "longer", "layout", "rotated", "window", "size", "trained", "claimed"}
SOURCED |= {"turning", "nope", "recurrent", "mla", "second", "query_scale"}
OF_CLASS = {kind.name: kind for kind in classes.KINDS}
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
    assert len(MODELS) == len(DATA["models"])
    assert len(MODELS) >= 85
    assert len(ROTARY) >= 50
    assert OF_CLASS.keys() == {name for name, model in MODELS.items() if "model_type" in model}


@pytest.mark.parametrize("name", MODELS)
def test_every_field_is_explained(name):
    assert MODELS[name].keys() - {"name", "year", "encoding", "note"} <= DATA["about"].keys()
    assert MODELS[name]["encoding"] in {"rope", "sinusoidal", "learned", "alibi", "t5", "profiles", "none"}
    assert MODELS[name].get("layout", "halves") in {"halves", "neighbors"}


@pytest.mark.parametrize("name", MODELS)
def test_every_field_has_a_source(name):
    sources = MODELS[name]["sources"]
    stated = set().union(*(source["says"] for source in sources))
    assert stated == MODELS[name].keys() & SOURCED
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
    assert len(moving) == model.get("turning", turning(model)) // 2
    assert (np.diff(theta) <= 0).all()


@pytest.mark.parametrize("name", MODELS)
def test_counts_of_layers_add_up(name):
    """Those that rotate, those without positions, those with the second base and those that do not attend are all."""
    model = MODELS[name]
    shares = [model[key] for key in ("rotated", "nope", "recurrent") if key in model]
    shares += [model["second"]["layers"]] if "layers" in model.get("second", {}) else []
    counts = [tuple(map(int, share.split(" of "))) for share in shares]
    assert len({n for _, n in counts}) <= 1
    if "rotated" in model and "local" not in name:
        assert sum(k for k, _ in counts) == counts[0][1]
    if model["encoding"] == "none" and counts:
        assert sum(k for k, _ in counts) == counts[0][1]


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if "mla" in model])
def test_a_latent_head_is_a_slice_that_turns_and_one_for_content(name):
    model = MODELS[name]
    assert model["head"] == model["mla"]["rope"] + model["mla"]["content"]
    if model["encoding"] == "rope":
        assert model.get("turning", model["mla"]["rope"]) == model["mla"]["rope"]


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if "query_scale" in model])
def test_a_query_scale_is_one_that_the_package_has(name):
    here = position_scale(np.array([0, 10**6]), **MODELS[name]["query_scale"])
    assert here.flat[0] == 1
    assert here.flat[-1] > 1 or MODELS[name]["query_scale"]["kind"] == "head"  # whose numbers are learned


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
    theta = theta[theta > 0]
    width = turning(model)
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
    entry = MODELS[name]["transformers"]
    module, _, cls = entry["class"].rpartition(".")
    config = getattr(peer(module), cls)().to_dict()
    width = next(config[key] for key in ("hidden_size", "d_model", "n_embd") if key in config)
    keys = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads")
    heads = next(config[key] for key in keys if key in config)
    head = config.get("d_kv") or config.get("head_dim") or width // heads
    if "qk_nope_head_dim" in config:
        head = config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    assert entry["head"] == head
    if "base" in entry:
        rope = config.get("rope_parameters") or {}
        rope = next((rope[name] for name in classes.MAIN if name in rope), rope)
        assert entry["base"] == rope.get("rope_theta", 10_000)
        assert entry["scaling"] == rope.get("rope_type", "default")
        assert entry["longest"] == config.get("max_position_embeddings", config.get("n_positions"))
    source = inspect.getsource(peer(module))
    assert f'checkpoint="{entry["names"]}"' in source


@pytest.mark.parametrize(
    "name", [name for name in WITH_CLASS if name not in OF_CLASS and MODELS[name]["encoding"] != "rope"]
)
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


@pytest.mark.parametrize("name", OF_CLASS)
def test_an_entry_from_a_class_is_what_the_class_says(name):
    """All of it, written again: python -m dev.zoo_from_transformers --write puts the entries into the file."""
    peer("transformers")
    assert MODELS[name] == json.loads(json.dumps(classes.entry(OF_CLASS[name])))


@pytest.mark.parametrize("name", [n for n, k in OF_CLASS.items() if MODELS[n]["encoding"] == "rope"])
def test_the_layout_is_what_the_code_pairs(name):
    """Turn channel 0 of a key by a quarter: the channel of a query that now meets it is its partner."""
    folder = OF_CLASS[name].folder
    module = peer(f"transformers.models.{folder}.modeling_{folder}")
    attention = next(
        inspect.getsource(member)
        for title, member in vars(module).items()
        if re.search(r"(Attention|MLA)$", title) and not re.search("Vision|Linear|Audio", title)
        if inspect.isclass(member) and "apply_rotary" in inspect.getsource(member)
    )
    used = set(re.findall(r"apply_rotary\w*", attention)) & vars(module).keys()
    rotate = vars(module)[max(used, key=len)]  # where both stand, the longer name is the default
    channels = torch.eye(8).view(1, 8, 1, 8)  # a channel in each head
    angles = [torch.full((1, 1, 4 if folder == "deepseek_v4" else 8), value) for value in (0.0, 1.0)]

    def turned(cos, sin):
        return rotate(channels, cos, sin) if folder == "deepseek_v4" else rotate(channels, channels, cos, sin)[0]

    still = turned(angles[1], angles[0])
    quarter = turned(angles[0], angles[1])
    met = (still.view(8, 8) @ quarter.view(8, 8)[0]).abs()
    assert met.nonzero().flatten().tolist() == [1 if MODELS[name]["layout"] == "neighbors" else 4]


SMALL = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
SMALL |= {"vocab_size": 64, "num_hidden_layers": 8, "pad_token_id": 0, "max_position_embeddings": 64}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16, "num_shared_experts": 1}


@pytest.mark.parametrize(
    ("folder", "prefix", "more", "still"),
    [
        ("smollm3", "SmolLM3", {"no_rope_layers": [1, 1, 1, 0] * 2}, [3, 7]),  # 1 means: it rotates
        ("exaone4", "Exaone4", {"sliding_window": 4}, [3, 7]),
        ("cohere2", "Cohere2", {}, [3, 7]),
        ("kolibri1", "Kolibri1", EXPERTS, [4]),
        ("muse_glimmer", "MuseGlimmerText", {}, [3, 7]),
        ("flint", "Flint", EXPERTS, None),
    ],
)
def test_layers_without_positions_do_not_rotate(folder, prefix, more, still):
    """Run eight layers, and see which of them call the rotation."""
    module = peer(f"transformers.models.{folder}.modeling_{folder}")
    settings = peer(f"transformers.models.{folder}.configuration_{folder}")
    config = getattr(settings, f"{prefix}Config")(**SMALL | more)
    config._attn_implementation = "eager"
    model = getattr(module, f"{prefix}Model")(config).eval()
    turned: set[int] = set()
    called: list[int] = []  # the layers, in order
    rotate = module.apply_rotary_pos_emb
    for i, layer in enumerate(model.layers):
        layer.register_forward_pre_hook(lambda *_, i=i: called.append(i))

    def watched(*args, **kwargs):
        turned.add(called[-1])
        return rotate(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(module, "apply_rotary_pos_emb", watched)
        for layer in model.modules():
            for key, value in list(vars(layer).items()):
                if value is rotate:
                    patch.setattr(layer, key, watched)
        model(torch.tensor([[1, 2, 3]]))
    expected = [i for i, kind in enumerate(config.layer_types) if kind == "full_attention"]
    assert sorted(set(range(8)) - turned) == (expected if still is None else still)
