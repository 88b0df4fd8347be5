"""The slice of a head that turns and the softmax scale, as the attention of a small model of each type has them."""

import inspect
import sys
import warnings

import pytest
import torch

from dev.model_types import facts_by_hand, modules
from posenc.config import model_types
from posenc.config.plan import plan
from tests.peers import peer

SMALL = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "num_hidden_layers": 8,
}
MORE = {key: {"query_pre_attn_scalar": 100} for key in ("gemma2", "gemma3_text", "vaultgemma")}
MORE |= {key: {"attention_multiplier": 0.3} for key in ("granite", "granitemoe")}
MORE |= {"deepseek_v4": {"head_dim": 32, "num_key_value_heads": 1}, "longcat_flash": {"head_dim": 8}}
STILL = {"kimi_linear", "glm5_next_text"}  # their slice does not turn
SLICED = sorted({*" ".join(facts_by_hand.SLICES.values()).split()} - STILL)
SCALED = ["llama", "cohere2", "gpt_oss", "gemma2", "gemma3_text", "granite", "granitemoe", "vaultgemma", "gemma4_text"]


class Caught(Exception):
    """Raised with the keys, which no query scale touches, and the softmax scale of a product of queries and keys."""


def probe(module, query, key, value, *_, scaling=None, **__):
    raise Caught(key.detach(), scaling)


@pytest.fixture(scope="module", autouse=True)
def probed():
    peer("transformers.modeling_utils").ALL_ATTENTION_FUNCTIONS.register("probe", probe)


def small(name):
    """Return a small configuration of a model type, whose attention runs into the probe."""
    cls = modules.mapping()[name]
    known = modules.default(name).to_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = cls(**{key: value for key, value in SMALL.items() if key in known} | MORE.get(name, {}))
    config._attn_implementation = "probe"
    return config


def caught(name, config, layer, start):
    """Return the keys of three tokens from a position on, and the softmax scale, of one layer."""
    rotary = modules.rotary_class(type(config))(config)
    x = torch.randn(1, 3, config.hidden_size, generator=torch.Generator().manual_seed(1))
    places = torch.arange(3)[None] + start
    own = {"deepseek_v4": "main"}.get(name, layer.layer_type)
    options = {"layer_type": own} if "layer_type" in inspect.signature(rotary.forward).parameters else {}
    turns = rotary(x, places, **options)
    turns = {"main": turns, "compress": turns} if name == "deepseek_v4" else turns
    arguments = {"position_embeddings": turns, "attention_mask": torch.zeros(1, 1, 3, 3), "position_ids": places}
    torch.manual_seed(0)
    layer_of = attention(config, layer).eval()
    if "shared_kv_states" in inspect.signature(layer_of.forward).parameters:
        arguments["shared_kv_states"] = {}
    try:
        layer_of(hidden_states=x, **arguments)
    except Caught as found:
        return found.args
    raise AssertionError(f"{name} never multiplies queries and keys")


def attention(config, layer):
    """Return the attention of one layer, told by the annotation of its configuration."""
    module = modules.modeling(type(config))
    for name, cls in vars(module).items():
        named = inspect.isclass(cls) and name.endswith(("Attention", "MLA")) and "Delta" not in name
        if named and modules.takes(cls, type(config)) and "layer_idx" in inspect.signature(cls).parameters:
            return cls(config, layer_idx=layer.index)
    raise AssertionError("no attention was found")


@pytest.mark.parametrize("name", [*SLICED, *SCALED])
def test_the_channels_that_turn_and_the_scale_are_those_of_the_code(name):
    config = small(name)
    layer = next(layer for layer in plan(config.to_dict()).layers if layer.theta is not None)
    (here, scale), (there, _) = (caught(name, config, layer, start) for start in (0, 7))
    turned = ((here - there).abs().amax((0, 1, 2)) > 1e-6).nonzero().flatten().tolist()
    assert here.shape[-1] == layer.head_dim
    assert turned == [*range(layer.head_dim)][layer.slice][: 2 * len(layer.theta)]
    assert scale == pytest.approx(layer.softmax_scale, rel=1e-6)


@pytest.mark.parametrize(("name", "fact"), [("deepseek_v3", "slice"), ("deepseek_v4", "slice"), ("gemma2", "scale")])
def test_a_wrong_fact_is_noticed(monkeypatch, name, fact):
    facts = model_types.facts()
    del facts[name][fact]
    monkeypatch.setattr(sys.modules["posenc.config.plan"], "facts", lambda: facts)
    with pytest.raises(AssertionError):
        test_the_channels_that_turn_and_the_scale_are_those_of_the_code(name)
