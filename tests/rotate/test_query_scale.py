"""QueryScale: each formula by hand and by the models that have it, keys left alone, and what commutes with it."""

import math

import mpmath
import numpy as np
import pytest
import torch

from posenc.attention import attention_weights
from posenc.rotate.query_scale import KINDS, QueryScale, position_scale, query_scale
from posenc.rotate.rope import RoPE
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{"kind": kind, "original_length": 8 if kind == "logn" else 3, "strength": 0.05} for kind in KINDS]


def LEARNED(options):
    return {"scale", "bias"} if options["kind"] == "head" else set()


FAR = [0, 1, 2046, 2047, 2048, 4095, 8190, 8191, 8192, 16_383, 100_000, 1_000_000, 2**24 + 1]
for_every_kind = pytest.mark.parametrize("kind", KINDS)


def content(t, heads=2, d=8, dtype=torch.float64):
    """Return random q and k (1, h, t, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, heads, t, d, generator=generator, dtype=dtype)
    return q, torch.randn(1, heads, t, d, generator=generator, dtype=dtype)


def assert_close(actual, expected, rtol=1e-6):
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=rtol)


# Values worked by hand


@pytest.mark.parametrize(
    ("kind", "p", "expected"),
    [
        ("llama4", 2, 1),  # n = 3 of L = 4 tokens
        ("llama4", 3, 1 + 0.1 * math.log(2)),  # a step at the end of each context
        ("llama4", 7, 1 + 0.1 * math.log(3)),
        ("llama4", -5, 1),  # padding counts as position 0
        ("ministral", 3, 1),
        ("ministral", 4, 1 + 0.1 * math.log(2)),  # a token later than llama4
        ("inkling", 3, 1),
        ("inkling", 7, 1 + 0.1 * math.log(2)),
        ("inkling", 5, 1 + 0.1 * math.log(1.5)),  # no step: it grows with each token
        ("logn", 2, 1),
        ("logn", 3, 1),
        ("logn", 15, 2),  # ln 16 / ln 4
        ("power", 3, 2**0.1),
        ("power", 11, 4**0.1),
        ("head", 3, 1),  # scale starts at 0, bias at 1
    ],
)
def test_a_factor_by_hand(kind, p, expected):
    assert position_scale(p, kind, original_length=4) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(("p", "expected"), [(8190, 1), (8191, 1.0693147), (16_383, 1.1098612)])
def test_the_defaults_are_those_of_llama_4(p, expected):
    assert position_scale(p) == pytest.approx(expected, abs=1e-7)


def test_heads_with_factors_of_their_own_by_hand():
    result = position_scale([0, 1, 7], "head", scale=[0.5, 2.0], bias=[1.0, 0.25])
    ln_2, ln_8 = math.log(2), math.log(8)
    np.testing.assert_allclose(result, [[1, 1 + ln_2 / 2, 1 + ln_8 / 2], [0.25, 0.25 + 2 * ln_2, 0.25 + 2 * ln_8]])


@for_every_kind
def test_factors_are_those_of_mpmath_at_far_positions(kind):
    strength, scale, bias = 0.1, 0.43, 0.2
    with mpmath.workdps(40):
        length = mpmath.mpf(2048)
        formula = {
            "llama4": lambda n: 1 + mpmath.log(1 + mpmath.floor(n / length)) / 10,
            "ministral": lambda n: 1 + mpmath.log(1 + mpmath.floor((n - 1) / length)) / 10,
            "inkling": lambda n: 1 + mpmath.log(max(n / length, 1)) / 10,
            "logn": lambda n: max(mpmath.log(n) / mpmath.log(length), 1),
            "power": lambda n: (1 + n / length) ** (mpmath.mpf(1) / 10),
            "head": lambda n: mpmath.mpf(scale) * mpmath.log(n) + bias,
        }[kind]
        expected = [float(formula(mpmath.mpf(p) + 1)) for p in FAR]
    result = position_scale(FAR, kind, 2048, strength, scale, bias)
    np.testing.assert_allclose(result, expected, rtol=1e-15)
    module = QueryScale(kind, 2048, strength, heads=1).double()
    if kind == "head":
        torch.nn.init.constant_(module.scale, scale)
        torch.nn.init.constant_(module.bias, bias)
    np.testing.assert_allclose(module.factor(torch.tensor(FAR)).detach()[0], expected, rtol=1e-15)


# What it does to attention


@for_every_kind
def test_keys_stay_as_they_are_and_so_do_queries_within_the_trained_length(kind):
    q, k = content(9)
    scaled_q, scaled_k = QueryScale(kind, 10, heads=2)(q, k)
    assert torch.equal(scaled_k, k)
    if kind != "power":  # (1 + n / L)^strength, which is above 1 from the first token on
        assert_close(scaled_q, q, rtol=1e-15)


@for_every_kind
def test_it_commutes_with_a_rotation(kind):
    q, k = content(9)
    rope = RoPE(8)
    scale = QueryScale(kind, 3, 0.5, heads=2)
    assert_close(rope(*scale(q, k)), scale(*rope(q, k)), rtol=1e-12)


def test_scalable_softmax_is_a_power_of_the_number_of_keys():
    # eq. 2 of the paper: z -> n^(s z_i) / sum over j of n^(s z_j), here with s = 0.43, its figure 1
    q, k = content(6, heads=1)
    module = QueryScale("head", heads=1).double()
    torch.nn.init.constant_(module.scale, 0.43)
    torch.nn.init.zeros_(module.bias)
    weights = attention_weights(q, k, module, causal=True)[0, 0].detach()
    for m in range(6):
        n = m + 1
        z = (k[0, 0, :n] @ q[0, 0, m] / math.sqrt(8)).numpy()
        expected = n ** (0.43 * z) / (n ** (0.43 * z)).sum()
        np.testing.assert_allclose(weights[m, :n], expected, rtol=1e-12)


def test_the_largest_weight_fades_by_softmax_and_stays_by_scalable_softmax():
    # figure 1 of the paper: all logits are -2 but one of +3
    def largest_weight(n, factor):
        z = factor * np.array([-2.0] * (n - 1) + [3.0])
        return np.exp(z[-1]) / np.exp(z).sum()

    lengths = (2, 100, 1000)
    softmax = [largest_weight(n, 1.0) for n in lengths]
    np.testing.assert_allclose(softmax, [0.99, 0.6, 0.13], atol=0.01)
    scalable = [largest_weight(n, position_scale(n - 1, "head", scale=0.43, bias=0.0)) for n in lengths]
    assert min(scalable) > 0.75
    assert scalable[2] > scalable[1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_factor_is_not_rounded_before_its_product(dtype):
    q, k = content(9, d=64, dtype=dtype)
    positions = torch.arange(10_000, 10_009)
    scale = QueryScale("inkling", 64, 0.37)
    scaled_q, _ = scale(q, k, positions)
    assert torch.equal(scaled_q, (q.float() * scale.factor(positions)[..., None].float()).to(dtype))


# Numbers of other libraries


@vectors("llama4_temperature")
def test_the_factor_is_that_of_transformers(vector):
    parameters = vector["params"]
    result = position_scale(
        parameters["positions"], "llama4", parameters["floor_scale"], strength=parameters["attn_scale"]
    )
    assert_agrees(vector, result, vector["expected"]["scale"])


def inputs_of_the_kernel(layer, module, hidden, **call):
    """Return the queries and keys that an attention of transformers hands to its kernel, and its bias."""
    inputs = {}

    def kernel(_layer, q, k, *_, position_bias=None, **__):
        inputs.update(q=q.detach(), k=k.detach(), bias=position_bias)
        return q.transpose(1, 2), None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.ALL_ATTENTION_FUNCTIONS, "get_interface", lambda *_: kernel)
        layer(hidden, **call)
    return inputs


def test_queries_equal_those_of_llama_4_where_it_has_no_rope():
    module = peer("transformers.models.llama4.modeling_llama4")
    config = peer("transformers").Llama4TextConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_hidden_layers=4, floor_scale=4
    )
    torch.manual_seed(0)
    layer = module.Llama4TextAttention(config, layer_idx=3)
    hidden = torch.randn(1, 11, 32)
    assert not layer.use_rope
    theirs = inputs_of_the_kernel(layer, module, hidden, position_embeddings=None, attention_mask=None)
    q = layer.q_proj(hidden).view(1, 11, 4, 8).transpose(1, 2).detach()
    scaled_q, scaled_k = QueryScale("llama4", 4, config.attn_scale)(q, theirs["k"])
    assert_close(scaled_q, theirs["q"])
    assert (scaled_q / q).max() > 1.1
    assert_close(scaled_k, theirs["k"])


@pytest.mark.parametrize("name", ["ministral3", "mistral4"])
def test_the_factor_equals_that_of_mistral(name):
    mistral = peer(f"transformers.models.{name}.modeling_{name}")
    positions = torch.tensor([FAR[:-1]])
    theirs = mistral.get_llama_4_attn_scale(positions, 0.1, 2048).flatten()
    np.testing.assert_allclose(position_scale(FAR[:-1], "ministral", 2048), theirs.numpy(), rtol=1e-6)


def test_the_factor_equals_that_of_beam():
    beam = peer("transformers.models.beam.modeling_beam")
    theirs = beam.compute_attention_scaling(torch.tensor([FAR[:-1]])).flatten()
    np.testing.assert_allclose(position_scale(FAR[:-1], "power", 2048, 0.1), theirs.numpy(), rtol=1e-6)


def test_queries_equal_those_of_mistral_large_4():
    mistral = peer("transformers.models.mistral_large4.modeling_mistral_large4")
    q, k = content(9, heads=3, dtype=torch.float32)
    theirs = mistral.MistralLarge4TextSoftmaxScaling(3)
    ours = QueryScale("head", heads=3)
    state = {"scale": torch.tensor([0.1, -0.2, 0.43]), "bias": torch.tensor([1.0, 0.5, 0.0])}
    theirs.load_state_dict(state)
    ours.load_state_dict(state)
    positions = torch.arange(9)
    expected = theirs(q, positions[None], head_dim_first=True)
    scaled_q, _ = ours(q, k, positions)
    assert_close(scaled_q, expected)


def test_queries_equal_those_of_inkling_whose_bias_grows_too():
    module = peer("transformers.models.inkling.modeling_inkling")
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 2}
    config = peer("transformers").InklingTextConfig(
        hidden_size=32, log_scaling_n_floor=3, log_scaling_alpha=0.7, layer_types=["full_attention"] * 2, **sizes
    )
    torch.manual_seed(0)
    layer = module.InklingAttention(config, layer_idx=0)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    hidden = torch.randn(1, 7, 32)
    call = {"attention_mask": None, "position_embeddings": None}
    scaled = inputs_of_the_kernel(layer, module, hidden, **call)
    layer.config.log_scaling_n_floor = None
    plain = inputs_of_the_kernel(layer, module, hidden, **call)
    scale = QueryScale("inkling", 3, 0.7)
    for name in ("q", "bias"):
        assert_close(scale(plain[name], plain[name])[0], scaled[name], rtol=1e-5)
    assert (scaled["q"] / plain["q"]).max() > 1.5


def test_logn_is_the_table_that_qwen_writes_down():
    # modeling_qwen.py: log_L(i) for i from 1 where i is past the trained length L, else 1
    table = [math.log(i, 2048) if i > 2048 else 1 for i in range(1, 32_768)]
    np.testing.assert_allclose(position_scale(np.arange(32_767), "logn", 2048), table, rtol=1e-14)


# What is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "ssmax"}, "kind must be one of llama4, ministral, inkling, logn, power, head, got 'ssmax'"),
        ({"original_length": 1}, "original_length must be above 1, got 1"),  # which has no logarithm to divide by
        ({"original_length": -4}, "original_length must be above 1, got -4"),
    ],
)
def test_wrong_settings_are_refused_by_class_and_function(changes, message):
    for call in (QueryScale, lambda **settings: position_scale([1], **settings)):
        with pytest.raises(ValueError, match=f"query_scale: {message}"):
            call(**{"kind": "logn"} | changes)


def test_heads_are_one_for_all_or_those_of_the_queries():
    q, k = content(3, heads=3)
    assert QueryScale("head")(q, k)[0].shape == q.shape
    with pytest.raises(RuntimeError, match="must match"):
        QueryScale("head", heads=2)(q, k)


def test_positions_in_numpy_are_those_of_the_queries():
    q, k = np.ones((1, 2, 4)), np.ones((1, 3, 4))
    assert query_scale(q, k, [1, 2], kind="head").tolist() == [[[4.0] * 3] * 2]  # at the start of "head", q k^T
    with pytest.raises(ValueError, match="broadcast"):
        query_scale(q, k, [1, 2, 3])
