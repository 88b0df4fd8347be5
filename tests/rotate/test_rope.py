"""RoPE: turns worked by hand, the numbers of its peers, how turns add up, what a table holds, and what is refused."""

import math
import re

import mpmath
import numpy as np
import pytest
import torch

from posenc.models.from_config import from_config
from posenc.rotate.frequencies import yarn
from posenc.rotate.rope import RoPE, rope
from tests.peers import peer
from tests.rotate.alike import (
    assert_content_of_another_form_is_refused,
    assert_positions_of_two_sequences_are_refused_for_one,
)
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

THETA = (1.0, 0.5, 0.25, 0.125, 0.1, 0.01, 0.001, 0.0)
OPTIONS = [
    {},
    {"layout": "interleaved"},
    {"base": 100.0, "rotary_dim": 8},
    {"layout": "interleaved", "rotary_dim": 4, "attention_factor": 1.25},
    {"theta": THETA, "dim": 18, "rotary_dim": 16},
]


def oracle(x, positions, base=10_000.0, layout="half", rotary_dim=None, theta=None, attention_factor=1.0):
    """Work out the definition with 60 digits, one pair at a time."""
    y = x.copy()
    r = rotary_dim or x.shape[-1]
    with mpmath.workdps(60):
        powers = [mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / r) for i in range(r // 2)]
        for row, p in enumerate(positions.tolist()):
            for i, frequency in enumerate(powers if theta is None else theta):
                first, second = (i, i + r // 2) if layout == "half" else (2 * i, 2 * i + 1)
                cos = attention_factor * mpmath.cos(mpmath.mpf(p) * frequency)
                sin = attention_factor * mpmath.sin(mpmath.mpf(p) * frequency)
                for h in range(len(x)):
                    a, b = x[h, row, first].item(), x[h, row, second].item()
                    y[h, row, first] = a * cos - b * sin
                    y[h, row, second] = b * cos + a * sin
    return y


each_layout = pytest.mark.parametrize("layout", ["half", "interleaved"])


def content(t, s):
    """Return random q (2, 4, t, 16) and k (2, 2, s, 16)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 4, t, 16, generator=generator)
    k = torch.randn(2, 2, s, 16, generator=generator)
    return q, k


def assert_close(actual, expected, atol=1e-12):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


# Turns worked by hand


def test_a_quarter_turn_sends_the_first_to_the_second_and_the_second_to_minus_the_first():
    # a pair alone turns by its position in radians
    assert_close(rope([[3.0, 4.0]], [math.pi / 2]), [[-4, 3]])


def test_half_pairs_a_channel_with_the_one_half_a_head_on():
    # theta = 1 and 100^(-2/4) = 1/10
    expected = [[math.cos(2) - 3 * math.sin(2), 2 * math.cos(0.2) - 4 * math.sin(0.2)]]
    expected[0] += [3 * math.cos(2) + math.sin(2), 4 * math.cos(0.2) + 2 * math.sin(0.2)]
    assert_close(rope([[1, 2, 3, 4]], [2], base=100), expected)


def test_interleaved_pairs_neighbors():
    expected = [[math.cos(2) - 2 * math.sin(2), 2 * math.cos(2) + math.sin(2)]]
    expected[0] += [3 * math.cos(0.2) - 4 * math.sin(0.2), 4 * math.cos(0.2) + 3 * math.sin(0.2)]
    assert_close(rope([[1, 2, 3, 4]], [2], base=100, layout="interleaved"), expected)


def test_the_layouts_are_one_another_with_channels_permuted():
    x = np.random.default_rng(0).normal(size=(5, 8))
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    interleaved = rope(x, range(5), layout="interleaved")
    np.testing.assert_array_equal(rope(x[:, order], range(5)), interleaved[:, order])


def test_two_channels_of_four_turn_with_the_frequencies_of_a_width_of_two():
    assert_close(rope([[1, 0, 5, 7]], [3], rotary_dim=2), [[math.cos(3), math.sin(3), 5, 7]])


def test_a_base_of_1_turns_all_pairs_alike_and_a_smaller_one_the_later_ones_faster():
    assert RoPE(4, base=1).theta == (1, 1)
    assert RoPE(4, base=0.25).theta == (1, 2)


def test_theta_replaces_the_frequencies_of_the_base():
    expected = [[math.cos(1.5), 1.0, math.sin(1.5), 0.0]]
    assert_close(rope([[1, 1, 0, 0]], [3], base=7.0, theta=[0.5, 0.0]), expected)
    assert RoPE(4, theta=torch.tensor([0.5, 0.0])).theta == (0.5, 0.0)


def test_the_attention_factor_multiplies_what_turns_and_nothing_else():
    assert_close(rope([[1, 0, 5, 7]], [0], rotary_dim=2, attention_factor=2), [[2, 0, 5, 7]])


# The numbers of its peers


@vectors("rope_apply")
def test_turning_as_llama_and_gptj_do(vector):
    d = vector["params"]["head_dim"]
    positions = torch.tensor(vector["params"]["positions"])
    theta, factor = from_config(vector["params"]["rope_parameters"], d)
    q, k = (torch.tensor(vector["inputs"][name], dtype=torch.float64) for name in "qk")
    for layout in ("half", "interleaved"):
        turned_q, turned_k = RoPE(d, layout=layout, theta=theta, attention_factor=factor)(q, k, positions)
        assert_agrees(vector, turned_q, vector["expected"][f"q_{layout}"])
        assert_agrees(vector, turned_k, vector["expected"][f"k_{layout}"])


@vectors("rope_partial")
def test_turning_a_part_as_gpt_neox_does(vector):
    params = vector["params"]
    encoding = RoPE(params["head_dim"], base=params["rope_theta"], rotary_dim=params["rotary_dim"])
    q, k = (torch.tensor(vector["inputs"][name], dtype=torch.float64) for name in "qk")
    turned_q, turned_k = encoding(q, k, torch.tensor(params["positions"]))
    assert_agrees(vector, turned_q, vector["expected"]["q"])
    assert_agrees(vector, turned_k, vector["expected"]["k"])


def turned_by_llama(q, k, **config):
    """Return q and k as Llama turns them at 0 .. t-1."""
    llama = peer("transformers.models.llama.modeling_llama")
    configuration = peer("transformers.models.llama.configuration_llama")
    config = configuration.LlamaConfig(hidden_size=64, num_attention_heads=4, **config)
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, torch.arange(q.shape[2])[None])
    return llama.apply_rotary_pos_emb(q, k, cos, sin)


def test_half_equals_llama():
    q, k = content(7, 7)
    expected = turned_by_llama(q, k, rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    torch.testing.assert_close(RoPE(16, base=5e5)(q, k), expected, rtol=0, atol=5e-6)


def test_half_equals_llama_under_yarn():
    q, k = content(300, 300)
    parameters = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128}
    expected = turned_by_llama(q, k, max_position_embeddings=512, rope_parameters=parameters)
    theta, factor = yarn(16, 4.0, 128)
    result = RoPE(16, theta=theta, attention_factor=factor)(q, k)
    torch.testing.assert_close(result, expected, rtol=0, atol=2e-4)


def test_a_quarter_of_the_channels_equals_gpt_neox():
    neox = peer("transformers.models.gpt_neox.modeling_gpt_neox")
    q, k = content(7, 7)
    angle = torch.outer(torch.arange(7), torch.tensor([1.0, 0.01])).tile(2)[None]  # 10,000^0 and 10,000^(-2/4)
    expected = neox.apply_rotary_pos_emb(q, k, angle.cos(), angle.sin())
    torch.testing.assert_close(RoPE(16, rotary_dim=4)(q, k), expected, rtol=0, atol=5e-6)


def test_interleaved_equals_gptj():
    gptj = peer("transformers.models.gptj.modeling_gptj")
    q, k = content(7, 7)
    sin, cos = gptj.create_sinusoidal_positions(7, 16)[None].chunk(2, dim=-1)
    expected = gptj.apply_rotary_pos_emb(q.transpose(1, 2), sin, cos).transpose(1, 2)  # tokens before heads
    turned_q, _ = RoPE(16, layout="interleaved")(q, k)
    torch.testing.assert_close(turned_q, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("r", [16, 8])
def test_interleaved_equals_rotary_embedding_torch(r):
    library = peer("rotary_embedding_torch").RotaryEmbedding(r, cache_if_possible=False)
    q, k = content(7, 7)
    expected = library.rotate_queries_or_keys(q), library.rotate_queries_or_keys(k)
    result = RoPE(16, layout="interleaved", rotary_dim=r)(q, k)
    torch.testing.assert_close(result, expected, rtol=0, atol=5e-6)


def test_interleaved_equals_x_transformers():
    library = peer("x_transformers.x_transformers")
    frequencies, _ = library.RotaryEmbedding(16)(torch.arange(7))
    q, k = content(4, 7)
    expected = library.apply_rotary_pos_emb(q, frequencies), library.apply_rotary_pos_emb(k, frequencies)
    # its queries stand where the last of the keys do
    result = RoPE(16, layout="interleaved")(q, k, torch.arange(3, 7), torch.arange(7))
    torch.testing.assert_close(result, expected, rtol=0, atol=5e-6)


# How turns add up


@each_layout
def test_two_turns_are_the_turn_by_their_sum(layout):
    x = np.random.default_rng(0).normal(size=(3, 16))
    once = rope(x, [5, -70, 1.5], layout=layout)
    twice = rope(once, [100, 100, 100], layout=layout)
    assert_close(twice, rope(x, [105, 30, 101.5], layout=layout))


def test_a_query_and_a_key_alike_score_highest_where_they_meet():
    turned = rope(np.ones((100, 64)), range(100))
    assert (turned[99] @ turned.T).argmax() == 99


@each_layout
def test_the_gradient_of_a_turn_is_the_turn_back(layout):
    q, k = content(6, 6)
    encoding = RoPE(16, layout=layout)
    turned_q, _ = encoding(q.requires_grad_(), k)
    (gradient,) = torch.autograd.grad(turned_q, q, grad_outputs=turned_q)
    torch.testing.assert_close(gradient, q)


def test_gradients_reach_positions():
    q, k = (x.double() for x in content(3, 3))
    positions = torch.tensor([0.5, 2.0, 9.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: RoPE(16)(q, k, p, p), (positions,))


# Tables


def test_a_table_holds_cosines_and_sines_of_pairs_of_neighbors_or_of_every_channel_of_halves():
    # at position 2, of width 4 and base 100, the angles are 2 and 2/10; a table is (1, t, ...): the same for all heads
    cos, sin = RoPE(4, base=100, layout="interleaved").table(torch.tensor([2]), torch.float64)
    assert_close(cos, [[[math.cos(2), math.cos(0.2)]]])
    assert_close(sin, [[[math.sin(2), math.sin(0.2)]]])
    cos, sin = RoPE(4, base=100, layout="half").table(torch.tensor([2]), torch.float64)
    assert_close(cos, [[[math.cos(2), math.cos(0.2), math.cos(2), math.cos(0.2)]]])
    assert_close(sin, [[[-math.sin(2), -math.sin(0.2), math.sin(2), math.sin(0.2)]]])


@each_layout
def test_content_keeps_its_dtype_whatever_that_of_the_table(layout):
    q, _ = content(5, 5)
    encoding = RoPE(16, layout=layout)
    at_zero = torch.zeros(5)
    assert torch.equal(encoding.turn(q.double(), encoding.table(at_zero)), q.double())
    assert torch.equal(encoding.turn(q, encoding.table(at_zero, torch.float64)), q)
    cos, sin = encoding.table(at_zero, torch.float16)  # a table is of float32 or finer
    assert cos.dtype == sin.dtype == torch.float32


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 7, "rotary_dim": 4}, "dim and rotary_dim must be even, 2 <= r <= d, got 7 and 4"),
        ({"rotary_dim": 0}, "dim and rotary_dim must be even, 2 <= r <= d, got 16 and 0"),
        ({"rotary_dim": 3}, "dim and rotary_dim must be even, 2 <= r <= d, got 16 and 3"),
        ({"rotary_dim": 18}, "dim and rotary_dim must be even, 2 <= r <= d, got 16 and 18"),
        ({"theta": [1.0] * 7}, "theta must have shape (8,), got (7,)"),
        ({"theta": [[1.0] * 8]}, "theta must have shape (8,), got (1, 8)"),
        ({"theta": 500_000}, "theta must have shape (8,), got (); a single number belongs in base"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(f"rope: {message}")):
        RoPE(**{"dim": 16} | settings)


def test_content_of_another_form_is_refused():
    assert_content_of_another_form_is_refused(RoPE(16))


def test_positions_of_two_sequences_are_refused_for_one():
    assert_positions_of_two_sequences_are_refused_for_one(RoPE(16))
