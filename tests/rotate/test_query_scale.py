"""QueryScale: each formula by hand and by the models that have it, keys left alone, and what commutes with it."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from posenc.attention import attention
from posenc.rotate.query_scale import KINDS, QueryScale, position_scale, query_scale
from posenc.rotate.rope import RoPE
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{"kind": kind, "original_length": 8 if kind == "logn" else 3, "strength": 0.05} for kind in KINDS]


def LEARNED(options):
    return {"scale", "bias"} if options["kind"] == "head" else set()


FAR = [0, 1, 2046, 2047, 2048, 4095, 8190, 8191, 8192, 16_383, 100_000, 1_000_000, 2**24 + 1]


def content(t, heads=2, d=8, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(1, heads, t, d, generator=generator, dtype=dtype) for _ in range(2))


# Values worked by hand


@pytest.mark.parametrize(("p", "expected"), [(0, 1), (8190, 1), (8191, 1.0693147), (16383, 1.1098612), (-5, 1)])
def test_the_factor_of_llama_4_steps_at_the_end_of_each_context(p, expected):
    assert position_scale(p) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("kind", "p", "expected"),
    [
        ("ministral", 3, 1),
        ("ministral", 4, 1 + 0.1 * math.log(2)),  # llama4 steps one token earlier
        ("llama4", 3, 1 + 0.1 * math.log(2)),
        ("inkling", 3, 1),
        ("inkling", 7, 1 + 0.1 * math.log(2)),
        ("inkling", 5, 1 + 0.1 * math.log(1.5)),  # no step: it grows with each token
        ("logn", 2, 1),
        ("logn", 3, 1),
        ("logn", 15, 2),  # ln 16 / ln 4
        ("power", 3, 2**0.1),
        ("power", 11, 4**0.1),
        ("head", 3, 1),
    ],
)
def test_a_factor_by_hand(kind, p, expected):
    assert position_scale(p, kind, original_length=4) == pytest.approx(expected, rel=1e-15)


def test_a_factor_of_each_head_by_hand():
    learned: Any = {"scale": [0.5, 2.0], "bias": [1.0, 0.25]}
    made = position_scale([0, 1, 7], "head", **learned)
    one, two = math.log(2), math.log(8)
    np.testing.assert_allclose(made, [[1, 1 + one / 2, 1 + two / 2], [0.25, 0.25 + 2 * one, 0.25 + 2 * two]])


@pytest.mark.parametrize("kind", KINDS)
def test_factors_are_those_of_mpmath_at_far_positions(kind):
    strength, scale, bias = 0.1, 0.43, 0.2
    with mpmath.workdps(40):
        length, expected = mpmath.mpf(2048), []
        for p in FAR:
            n = mpmath.mpf(p) + 1
            of_kind = {
                "llama4": lambda n=n: 1 + mpmath.log(1 + mpmath.floor(n / length)) / 10,
                "ministral": lambda n=n: 1 + mpmath.log(1 + mpmath.floor((n - 1) / length)) / 10,
                "inkling": lambda n=n: 1 + mpmath.log(max(n / length, 1)) / 10,
                "logn": lambda n=n: max(mpmath.log(n) / mpmath.log(length), 1),
                "power": lambda n=n: (1 + n / length) ** (mpmath.mpf(1) / 10),
                "head": lambda n=n: mpmath.mpf(scale) * mpmath.log(n) + bias,
            }
            expected.append(float(of_kind[kind]()))
    made = position_scale(FAR, kind, 2048, strength, scale, bias)
    np.testing.assert_allclose(made, expected, rtol=1e-15)
    module = QueryScale(kind, 2048, strength, heads=1).double()
    if kind == "head":
        torch.nn.init.constant_(module.scale, scale)
        torch.nn.init.constant_(module.bias, bias)
    np.testing.assert_allclose(module.factor(torch.tensor(FAR)).detach().numpy().reshape(-1), expected, rtol=1e-15)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_factor_keeps_the_shape_of_the_positions(kind, shape):
    for dtype in (np.int32, np.float32, np.float64):
        made = position_scale(np.full(shape, 9000, dtype), kind)
        assert (made.shape, made.dtype) == (shape, np.float64)


# What it does to attention


@pytest.mark.parametrize("kind", KINDS)
def test_keys_stay_as_they_are(kind):
    q, k = content(9)
    _, same = QueryScale(kind, 3, heads=2)(q, k)
    assert torch.equal(same, k)


@pytest.mark.parametrize("kind", ["llama4", "ministral", "inkling", "logn", "head"])
def test_nothing_changes_within_the_trained_length(kind):
    q, k = content(9)
    made, _ = QueryScale(kind, 10, heads=2)(q, k)
    torch.testing.assert_close(made, q, rtol=1e-15, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_it_commutes_with_a_rotation(kind):
    (q, k), rope, scale = content(9), RoPE(8), QueryScale(kind, 3, 0.5, heads=2)
    first = rope(*scale(q, k))
    last = scale(*rope(q, k))
    torch.testing.assert_close(first, last, rtol=1e-12, atol=1e-12)


def test_scalable_softmax_is_a_power_of_the_number_of_keys():
    # eq. 2 of the paper: z -> n^(s z_i) / sum over j of n^(s z_j), here with s = 0.43, its figure 1
    (q, k), s = content(6, heads=1), 0.43
    module = QueryScale("head", heads=1).double()
    torch.nn.init.constant_(module.scale, s)
    torch.nn.init.zeros_(module.bias)
    made = attention(q, k, torch.eye(6, dtype=torch.float64)[None, None], module, causal=True)[0, 0]
    for m in range(6):
        n, z = m + 1, (k[0, 0, : m + 1] @ q[0, 0, m] / math.sqrt(8)).numpy()
        expected = n ** (s * z) / (n ** (s * z)).sum()
        np.testing.assert_allclose(made[m, :n].detach().numpy(), expected, rtol=1e-12)


def test_the_largest_weight_fades_by_softmax_and_stays_by_scalable_softmax():
    # figure 1 of the paper: all logits are -2 but one of +3
    for scaled, expected in ((False, [0.99, 0.6, 0.13]), (True, [0.9, 0.9, 0.9])):
        left = []
        for n in (2, 100, 1000):
            factor = position_scale(n - 1, "head", scale=0.43, bias=0.0) if scaled else 1.0
            z = factor * np.array([-2.0] * (n - 1) + [3.0])
            left.append(np.exp(z[-1]) / np.exp(z).sum())
        if scaled:
            assert min(left) > 0.75
            assert left[2] > left[1]
        else:
            np.testing.assert_allclose(left, expected, atol=0.01)


def test_decoding_equals_prefill_past_a_step():
    (q, k), scale = content(9), QueryScale(original_length=4)
    whole = scale(q, k)[0]
    for p in range(9):
        assert torch.equal(scale(q[:, :, p : p + 1], k[:, :, : p + 1], torch.tensor([p]))[0], whole[:, :, p : p + 1])


# Numbers of other libraries


@vectors("llama4_temperature")
def test_the_factor_is_that_of_transformers(vector):
    given = vector["params"]
    made = position_scale(given["positions"], "llama4", given["floor_scale"], given["attn_scale"])
    assert_agrees(vector, made, vector["expected"]["scale"])


def states_of(layer, module, hidden, **call):
    """Return the queries and keys that an attention of transformers hands to its kernel."""
    caught = {}

    def kernel(_layer, q, k, *_, position_bias=None, **__):
        caught.update(q=q.detach(), k=k.detach(), bias=position_bias)
        return q.transpose(1, 2), None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.ALL_ATTENTION_FUNCTIONS, "get_interface", lambda *_: kernel)
        layer(hidden, **call)
    return caught


def test_queries_equal_those_of_llama_4_where_it_has_no_rope():
    module = peer("transformers.models.llama4.modeling_llama4")
    config = peer("transformers").Llama4TextConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_hidden_layers=4, floor_scale=4
    )
    torch.manual_seed(0)
    layer, hidden = module.Llama4TextAttention(config, layer_idx=3), torch.randn(1, 11, 32)
    assert not layer.use_rope
    theirs = states_of(layer, module, hidden, position_embeddings=None, attention_mask=None)
    q = layer.q_proj(hidden).view(1, 11, 4, 8).transpose(1, 2).detach()
    ours, k = QueryScale("llama4", 4, config.attn_scale)(q, theirs["k"])
    torch.testing.assert_close(ours, theirs["q"], rtol=1e-6, atol=1e-6)
    assert (ours / q).max() > 1.1
    torch.testing.assert_close(k, theirs["k"])


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
    theirs, ours = mistral.MistralLarge4TextSoftmaxScaling(3), QueryScale("head", heads=3)
    state = {"scale": torch.tensor([0.1, -0.2, 0.43]), "bias": torch.tensor([1.0, 0.5, 0.0])}
    theirs.load_state_dict(state)
    ours.load_state_dict(state)
    positions = torch.arange(9)
    expected = theirs(q, positions[None], head_dim_first=True)
    torch.testing.assert_close(ours(q, k, positions)[0], expected, rtol=1e-6, atol=1e-6)


def test_queries_equal_those_of_inkling_whose_bias_grows_too():
    module = peer("transformers.models.inkling.modeling_inkling")
    names = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 2}
    config = peer("transformers").InklingTextConfig(
        hidden_size=32, log_scaling_n_floor=3, log_scaling_alpha=0.7, layer_types=["full_attention"] * 2, **names
    )
    torch.manual_seed(0)
    layer = module.InklingAttention(config, layer_idx=0)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    hidden, call = torch.randn(1, 7, 32), {"attention_mask": None, "position_embeddings": None}
    grown = states_of(layer, module, hidden, **call)
    layer.config.log_scaling_n_floor = None
    plain = states_of(layer, module, hidden, **call)
    scale = QueryScale("inkling", 3, 0.7)
    torch.testing.assert_close(scale(plain["q"], plain["k"])[0], grown["q"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(scale(plain["bias"], plain["bias"])[0], grown["bias"], rtol=1e-5, atol=1e-5)
    assert (grown["q"] / plain["q"]).max() > 1.5


def test_logn_is_the_table_that_qwen_writes_down():
    # modeling_qwen.py: log_L(i) for i from 1 where i is past the trained length L, else 1
    written = [math.log(i, 2048) if i > 2048 else 1 for i in range(1, 32_768)]
    np.testing.assert_allclose(position_scale(np.arange(32_767), "logn", 2048), written, rtol=1e-14)


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("kind", ["llama", "ssmax", None])
def test_an_unknown_kind_is_refused(kind):
    for call in (lambda: QueryScale(kind), lambda: position_scale([1], kind)):
        with pytest.raises(ValueError, match=r"query_scale: kind must be one of llama4, ministral, .* got"):
            call()


@pytest.mark.parametrize("length", [1, 0, -4])
def test_a_length_without_a_logarithm_is_refused(length):
    for call in (lambda: QueryScale("logn", length), lambda: position_scale([1], "logn", length)):
        with pytest.raises(ValueError, match=f"query_scale: original_length must be above 1, got {length}"):
            call()


def test_heads_are_one_for_all_or_each_its_own():
    q, k = content(3)
    assert QueryScale("head")(q, k)[0].shape == q.shape
    with pytest.raises(RuntimeError, match="must match"):
        QueryScale("head", heads=3)(q, k)
    with pytest.raises(ValueError, match="query_scale: heads must be 1 or more, got 0"):
        QueryScale("head", heads=0)


def test_positions_in_numpy_are_one_a_query():
    q, k = np.ones((1, 2, 4)), np.ones((1, 3, 4))
    assert query_scale(q, k, [1, 2]).shape == (1, 2, 3)
    with pytest.raises(ValueError, match="broadcast"):
        query_scale(q, k, [1, 2, 3])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_factor_is_not_rounded_before_its_product(dtype):
    q, p = content(9, d=64)[0].to(dtype), torch.arange(10_000, 10_009)
    scale = QueryScale("inkling", 64, 0.37)
    expected = (q.float() * scale.factor(p)[..., None].float()).to(dtype)
    assert torch.equal(scale(q, q, p)[0], expected)
