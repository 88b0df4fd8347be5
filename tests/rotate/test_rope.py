"""RoPE: values worked by hand, scores that see offsets alone, the way back, tables, heads, and gradients."""

import inspect
import math
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad

from posenc.rotate import rope as file
from posenc.rotate.frequencies import from_config, yarn
from posenc.rotate.rope import LAYOUTS, RoPE, rope
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/doors.py)

OF_HEADS = ((1.0, 0.5, 0.25, 0.125, 0.1, 0.01, 0.001, 0.0), (2.0, 0.3, 0.2, 0.1, 0.05, -0.02, 0.002, 0.0001))
OPTIONS = [
    {},
    {"layout": "interleaved"},
    {"base": 100.0, "rotary_dim": 8},
    {"layout": "interleaved", "rotary_dim": 4, "attention_factor": 1.25},
    {"theta": OF_HEADS[0], "dim": 18, "rotary_dim": 16},
    {"theta": OF_HEADS, "attention_factor": 0.75},
    {"base": (100.0, 50_000.0), "layout": "interleaved"},
]


def oracle(x, positions, base=10_000.0, layout="half", rotary_dim=None, theta=None, attention_factor=1.0):
    """Work out the definition with 60 digits, one pair at a time."""
    turned, (heads, _, d) = x.copy(), x.shape
    r = d if rotary_dim is None else rotary_dim
    with mpmath.workdps(60):
        bases = np.atleast_1d(base).tolist()
        rows = [[mpmath.mpf(b) ** (-mpmath.mpf(2 * i) / r) for i in range(r // 2)] for b in bases]
        rows = rows if theta is None else np.atleast_2d(theta).tolist()
        for row, p in enumerate(np.asarray(positions).tolist()):
            for i in range(r // 2):
                first, second = (i, i + r // 2) if layout == "half" else (2 * i, 2 * i + 1)
                for h in range(heads):
                    angle = mpmath.mpf(p) * rows[h * len(rows) // heads][i]
                    cos, sin = mpmath.cos(angle) * attention_factor, mpmath.sin(angle) * attention_factor
                    a, b = x[h, row, first].item(), x[h, row, second].item()
                    turned[h, row, first], turned[h, row, second] = a * cos - b * sin, b * cos + a * sin
    return turned


def exercise(module):
    q, k = content(3, 5, d=64)
    for layout in LAYOUTS:
        module.RoPE(64, layout=layout)(q, k)
        module.RoPE(64, layout=layout).turn(q, inverse=True)


each_layout = pytest.mark.parametrize("layout", LAYOUTS)
each_width = pytest.mark.parametrize("d", [12, 64])  # the second takes complex products where pairs are neighbors
each_size = pytest.mark.parametrize("t", [5, 600], ids=["small", "in blocks"])
exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)
places = st.lists(st.one_of(st.integers(-9999, 9999), st.floats(-99, 99)), min_size=1, max_size=5)
shifts = st.integers(-100_000, 100_000)


def content(t, s, d=16, heads=4, groups=2, dtype=torch.float64, batch=2):
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch, heads, t, d), (batch, groups, s, d))
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def assert_close(actual, expected, atol=1e-12):
    np.testing.assert_allclose(np.asarray(actual, dtype=np.float64), expected, rtol=0, atol=atol)


# Values worked by hand


def test_position_0_turns_nothing():
    x = np.arange(8.0)[None]
    np.testing.assert_array_equal(rope(x, [0]), x)


def test_one_pair_turns_by_its_position_in_radians():
    assert_close(rope([[1, 0], [0, 1]], [2, 2]), [[math.cos(2), math.sin(2)], [-math.sin(2), math.cos(2)]])


def test_a_quarter_turn_sends_the_first_to_the_second_and_the_second_to_minus_the_first():
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
    x, order = np.random.default_rng(0).normal(size=(5, 8)), [0, 2, 4, 6, 1, 3, 5, 7]
    interleaved = rope(x, range(5), layout="interleaved")
    np.testing.assert_array_equal(rope(x[:, order], range(5)), interleaved[:, order])


def test_the_layouts_give_different_scores():
    q, k = content(4, 4)
    made = [scores(*RoPE(16, layout=layout)(q, k)) for layout in LAYOUTS]
    assert (made[0] - made[1]).abs().max() > 1


def test_two_channels_of_four_turn_with_the_frequencies_of_a_width_of_two():
    assert_close(rope([[1, 0, 5, 7]], [3], rotary_dim=2), [[math.cos(3), math.sin(3), 5, 7]])


def test_given_frequencies_replace_those_of_the_base():
    expected = [[math.cos(1.5), 1.0, math.sin(1.5), 0.0]]
    assert_close(rope([[1, 1, 0, 0]], [3], base=7.0, theta=[0.5, 0.0]), expected)


def test_the_attention_factor_multiplies_what_turns_and_scores_by_its_square():
    q, k = content(4, 4)
    plain, scaled = (scores(*RoPE(16, attention_factor=factor)(q, k)) for factor in (1.0, 1.5))
    torch.testing.assert_close(scaled, 2.25 * plain)


def test_channels_that_do_not_turn_are_not_scaled():
    assert_close(rope([[1, 0, 5, 7]], [0], rotary_dim=2, attention_factor=2), [[2, 0, 5, 7]])
    x = torch.tensor([[[[1.0, 0.0, 5.0, 7.0]]]])
    assert RoPE(4, rotary_dim=2, attention_factor=2).turn(x).tolist() == [[[[2, 0, 5, 7]]]]


def test_each_head_turns_with_its_own_row_of_frequencies():
    x = np.tile([1.0, 0.0], (4, 1, 1))
    expected = [[[math.cos(a), math.sin(a)]] for a in (3.0, 3.0, 6.0, 6.0)]
    assert_close(rope(x, [3], theta=[[1.0], [2.0]]), expected)


def test_a_sequence_of_bases_gives_each_head_its_own():
    x = np.random.default_rng(0).normal(size=(2, 3, 8))
    expected = np.stack([rope(x[0], range(3), base=100), rope(x[1], range(3), base=5000)])
    np.testing.assert_array_equal(rope(x, range(3), base=[100, 5000]), expected)


def test_the_numpy_function_takes_positions_for_each_sequence():
    x, positions = np.random.default_rng(0).normal(size=(2, 3, 4, 8)), np.array([[0, 1, 2, 3], [9, 7, 0.5, -1]])
    expected = [rope(x[row], positions[row]) for row in range(2)]
    np.testing.assert_array_equal(rope(x, positions), expected)


# Numbers of the peers


@vectors("rope_apply")
def test_turning_as_llama_and_gptj_do(vector):
    parameters = vector["params"]["rope_parameters"]
    d, positions = vector["params"]["head_dim"], torch.tensor(vector["params"]["positions"])
    theta, factor = from_config(parameters, d)
    q, k = (torch.tensor(vector["inputs"][name], dtype=torch.float64) for name in "qk")
    for layout in LAYOUTS:
        made = RoPE(d, layout=layout, theta=theta, attention_factor=factor)(q, k, positions, positions)
        for name, turned in zip("qk", made, strict=True):
            assert_agrees(vector, turned, vector["expected"][f"{name}_{layout}"])
            twin = rope(vector["inputs"][name], positions, layout=layout, theta=theta, attention_factor=factor)
            assert_agrees(vector, twin, vector["expected"][f"{name}_{layout}"])


@vectors("rope_partial")
def test_turning_a_part_as_gpt_neox_does(vector):
    settings = {"base": vector["params"]["rope_theta"], "rotary_dim": vector["params"]["rotary_dim"]}
    positions = torch.tensor(vector["params"]["positions"])
    q, k = (torch.tensor(vector["inputs"][name], dtype=torch.float64) for name in "qk")
    made = RoPE(vector["params"]["head_dim"], **settings)(q, k, positions, positions)
    for name, turned in zip("qk", made, strict=True):
        assert_agrees(vector, turned, vector["expected"][name])


# Peers


def tables_of(encoding, positions):
    """Return cosine and sine (t, r/2)."""
    table = encoding.table(positions, torch.float64).unflatten(-1, (2, -1) if encoding.layout == "half" else (-1, 2))
    return table.unbind(-2 if encoding.layout == "half" else -1)


def test_half_equals_llama_with_its_own_frequencies():
    llama = peer("transformers.models.llama.modeling_llama")
    config = peer("transformers.models.llama.configuration_llama").LlamaConfig(
        hidden_size=64, num_attention_heads=4, rope_parameters={"rope_type": "default", "rope_theta": 5e5}
    )
    q, k = content(7, 7, dtype=torch.float32)
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, torch.arange(7)[None])
    expected = llama.apply_rotary_pos_emb(q, k, cos, sin)
    torch.testing.assert_close(RoPE(16, base=5e5)(q, k), expected, rtol=0, atol=5e-6)


def test_half_equals_llama_under_yarn():
    llama = peer("transformers.models.llama.modeling_llama")
    parameters = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128}
    config = peer("transformers.models.llama.configuration_llama").LlamaConfig(
        hidden_size=64, num_attention_heads=4, max_position_embeddings=512, rope_parameters=parameters
    )
    q, k = content(300, 300, dtype=torch.float32)
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, torch.arange(300)[None])
    theta, factor = yarn(16, 4.0, 128)
    made = RoPE(16, theta=theta, attention_factor=factor)(q, k)
    torch.testing.assert_close(made, llama.apply_rotary_pos_emb(q, k, cos, sin), rtol=0, atol=2e-4)


def test_a_quarter_of_the_channels_equals_gpt_neox():
    neox = peer("transformers.models.gpt_neox.modeling_gpt_neox")
    q, k = content(7, 7)
    encoding = RoPE(16, rotary_dim=4)
    cos, sin = (torch.cat([part, part], dim=-1)[None] for part in tables_of(encoding, torch.arange(7)))
    torch.testing.assert_close(encoding(q, k), neox.apply_rotary_pos_emb(q, k, cos, sin), rtol=0, atol=1e-12)


def test_interleaved_equals_gptj():
    gptj = peer("transformers.models.gptj.modeling_gptj")
    q, _ = content(7, 7)
    sin, cos = gptj.create_sinusoidal_positions(7, 16)[None].chunk(2, dim=-1)
    expected = gptj.apply_rotary_pos_emb(q.transpose(1, 2), sin, cos).transpose(1, 2)  # tokens before heads
    torch.testing.assert_close(RoPE(16, layout="interleaved").turn(q), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("r", [16, 8])
def test_interleaved_equals_rotary_embedding_torch(r):
    encoding = peer("rotary_embedding_torch").RotaryEmbedding(r, cache_if_possible=False)
    q, k = content(7, 7, dtype=torch.float32)
    expected = tuple(encoding.rotate_queries_or_keys(x) for x in (q, k))
    made = RoPE(16, layout="interleaved", rotary_dim=r)(q, k)
    torch.testing.assert_close(made, expected, rtol=0, atol=5e-6)


def test_interleaved_equals_x_transformers():
    library = peer("x_transformers.x_transformers")
    frequencies, _ = library.RotaryEmbedding(16)(torch.arange(7))
    q, k = content(4, 7, dtype=torch.float32)
    expected = tuple(library.apply_rotary_pos_emb(x, frequencies) for x in (q, k))  # queries stand last there, too
    torch.testing.assert_close(RoPE(16, layout="interleaved")(q, k), expected, rtol=0, atol=5e-6)


def test_a_module_of_llama_cast_to_bfloat16_loses_what_ours_keeps():
    llama = peer("transformers.models.llama.modeling_llama")
    config = peer("transformers.models.llama.configuration_llama").LlamaConfig(hidden_size=64, num_attention_heads=4)
    positions, x = torch.tensor([1000]), torch.ones(1, 1, 1, 16)
    theirs = llama.LlamaRotaryEmbedding(config)
    theirs.inv_freq = theirs.inv_freq.bfloat16()  # what model.to(bfloat16) does where buffers are not kept apart
    cos, sin = theirs(x, positions[None])
    exact = rope(x[0].numpy(), positions)
    assert np.abs(llama.apply_rotary_pos_emb(x, x, cos, sin)[0][0].numpy() - exact).max() > 0.1
    assert_close(RoPE(16).bfloat16().turn(x, positions)[0], exact, atol=1e-6)


# Properties


@given(m=places, n=places, shift=shifts)
@exactly
@each_layout
def test_scores_depend_on_offsets_alone(layout, m, n, shift):
    q, k = content(len(m), len(n))
    encoding, m, n = RoPE(16, layout=layout), torch.tensor(m).double(), torch.tensor(n).double()
    torch.testing.assert_close(
        scores(*encoding(q, k, m, n)), scores(*encoding(q, k, m + shift, n + shift)), rtol=0, atol=1e-8
    )


@given(m=places)
@exactly
@each_layout
@each_width
def test_norms_stay(layout, d, m):
    q, _ = content(len(m), 1, d=d)
    turned = RoPE(d, layout=layout).turn(q, torch.tensor(m))
    torch.testing.assert_close(turned.norm(dim=-1), q.norm(dim=-1))


@given(m=places, shift=shifts)
@exactly
@each_layout
def test_turns_add_up(layout, m, shift):
    q, _ = content(len(m), 1)
    encoding, m = RoPE(16, layout=layout), torch.tensor(m).double()
    there = encoding.turn(encoding.turn(q, m), torch.full_like(m, shift))
    torch.testing.assert_close(there, encoding.turn(q, m + shift), rtol=0, atol=1e-9)


@each_layout
@each_width
@each_size
@pytest.mark.parametrize(
    "settings", [{}, {"attention_factor": 1.3}, {"rotary_dim": 8}, {"base": [100.0, 1e4]}], ids=str
)
def test_the_inverse_turns_back(layout, d, t, settings):
    q, _ = content(t, 1, d=d, heads=8, batch=4)
    encoding, positions = RoPE(d, layout=layout, **settings), torch.arange(t) - 7.5
    torch.testing.assert_close(encoding.turn(encoding.turn(q, positions), positions, inverse=True), q)
    table = encoding.table(positions, torch.float64)
    torch.testing.assert_close(encoding.turn(encoding.turn(q, table=table), table=table, inverse=True), q)


@each_layout
def test_the_inverse_is_the_turn_to_minus_the_position(layout):
    q, _ = content(6, 1)
    encoding, positions = RoPE(16, layout=layout), torch.arange(6)
    torch.testing.assert_close(encoding.turn(q, positions, inverse=True), encoding.turn(q, -positions))


def test_a_query_and_a_key_alike_score_highest_where_they_meet():
    x = torch.ones(1, 1, 100, 64, dtype=torch.float64)
    q, k = RoPE(64)(x, x)
    assert scores(q, k)[0, 0, -1].argmax() == 99


# Where tokens stand


@each_layout
@pytest.mark.parametrize(("t", "s"), [(3, 7), (7, 3), (1, 5), (5, 1), (0, 4), (4, 0), (0, 0)])
def test_queries_stand_at_the_last_of_the_places_of_the_keys(layout, t, s):
    q, k = content(t, s, groups=2)
    made = RoPE(16, layout=layout)(q, k)
    for x, turned, positions in zip((q, k), made, (np.arange(s - t, s), np.arange(s)), strict=True):
        assert_close(turned, rope(x.numpy(), positions, layout=layout))


def test_more_queries_than_keys_begin_before_0():
    q, k = content(5, 2)
    torch.testing.assert_close(RoPE(16)(q, k)[0], RoPE(16).turn(q, torch.arange(-3, 2)))


def test_either_default_is_independent_of_the_other_argument():
    q, k = content(3, 5)
    encoding, places = RoPE(16), torch.tensor([9, 4, 4])
    assert_close(encoding(q, k, positions=places)[1], rope(k.numpy(), np.arange(5)))
    places = torch.tensor([9, 4, 4, 0, 1])
    assert_close(encoding(q, k, key_positions=places)[0], rope(q.numpy(), np.arange(2, 5)))


@each_layout
@each_width
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_decoding_token_by_token_equals_all_at_once(layout, d, dtype):
    q, k = content(6, 6, d=d, dtype=dtype)
    encoding = RoPE(d, layout=layout)
    table, whole = encoding.table(torch.arange(6)), encoding(q, k)
    for p in range(6):
        here = [x[..., p : p + 1, :] for x in (q, k)]
        for made in (encoding(*here, torch.tensor([p]), torch.tensor([p])), encoding(*here, table=table[p : p + 1])):
            for step, turned in zip(made, whole, strict=True):
                assert torch.equal(step, turned[..., p : p + 1, :])


def test_one_row_of_positions_serves_each_sequence():
    q, k = content(5, 5)
    for options in ({}, {"theta": OF_HEADS}):
        encoding, places = RoPE(16, **options), torch.tensor([[3, 1, 4, 1, 5]])
        table, wanted = encoding.table(places, torch.float64), encoding(q, k, places[0], places[0])
        for made in (encoding(q, k, places, places), encoding(q, k, table=table)):
            assert all(map(torch.equal, made, wanted))


def test_left_padded_rows_take_their_own_positions():
    _, k = content(1, 4, batch=1)
    padded = torch.cat([torch.zeros(1, 2, 3, 16), k], dim=2)
    turned = RoPE(16).turn(padded, torch.tensor([[0, 0, 0, 0, 1, 2, 3]]))
    torch.testing.assert_close(turned[..., 3:, :], RoPE(16).turn(k))


# Tables


@pytest.mark.parametrize("settings", OPTIONS, ids=str)
def test_the_table_is_the_turn_of_the_first_of_each_pair(settings):
    settings = {"dim": 16} | settings
    encoding, positions = RoPE(**settings), torch.tensor([0, 5, 70])
    r, heads = encoding.rotary_dim, encoding.rows or (1,)
    unit = torch.zeros(1, heads[0], 3, encoding.dim, dtype=torch.float64)
    unit[..., slice(0, r // 2) if encoding.layout == "half" else slice(0, r, 2)] = 1
    expected = encoding.turn(unit, positions)[0, ..., :r]
    table = encoding.table(positions, torch.float64)
    assert_close(table if encoding.rows else table[None], expected)


@each_layout
def test_the_shape_of_a_table(layout):
    assert RoPE(16, layout=layout).table(torch.arange(5)).shape == (5, 16)
    assert RoPE(16, layout=layout, rotary_dim=4).table(torch.zeros(2, 5)).shape == (2, 5, 4)
    assert RoPE(16, layout=layout, theta=OF_HEADS).table(torch.zeros(3, 5)).shape == (3, 2, 5, 16)


@each_layout
@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 8}, {"theta": OF_HEADS}], ids=["", "part", "heads"])
@pytest.mark.parametrize("positions", [torch.arange(5) * 9, torch.arange(10).view(2, 5)], ids=["t", "b, t"])
def test_one_table_serves_layers_and_is_not_changed(layout, settings, positions):
    encoding, layers = RoPE(16, layout=layout, **settings), [content(t, 5, dtype=torch.float32) for t in (5, 2)]
    table = encoding.table(positions)
    before = table.clone()
    for q, k in layers:
        expected = encoding(q, k, positions[..., 5 - q.shape[2] :], positions)
        for made in (encoding(q, k, table=table), encoding(q, k, table=(table[..., 5 - q.shape[2] :, :], table))):
            for turned, want in zip(made, expected, strict=True):
                assert torch.equal(turned, want)
    assert torch.equal(table, before)


def test_a_finer_table_serves_coarser_content():
    q, k = content(5, 5, dtype=torch.float32)
    encoding = RoPE(16)
    made = encoding(q, k, table=encoding.table(torch.arange(5), torch.float64))
    for turned, want in zip(made, encoding(q, k), strict=True):
        assert turned.dtype == torch.float32
        torch.testing.assert_close(turned, want)


def test_the_table_of_a_module_cast_to_bfloat16_is_exact():
    table = RoPE(16).bfloat16().table(torch.tensor([1_000_000]))
    assert torch.equal(table, RoPE(16).table(torch.tensor([1_000_000])))


def test_frequencies_are_kept_as_python_floats():
    for theta in (OF_HEADS[0], np.array(OF_HEADS[0]), torch.tensor(OF_HEADS[0], dtype=torch.float64)):
        assert RoPE(16, theta=theta).theta == OF_HEADS[0]
    for theta in (OF_HEADS, np.array(OF_HEADS), torch.tensor(OF_HEADS, dtype=torch.float64).requires_grad_()):
        assert RoPE(16, theta=theta).theta == OF_HEADS
    assert RoPE(4, theta=torch.tensor([1.0, 0.5]).bfloat16()).theta == (1.0, 0.5)
    assert type(RoPE(4, theta=np.float32([1, 0.5])).theta[0]) is float


# Where it is written to


@each_layout
@each_width
@each_size
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("rotary_dim", [None, 8])
def test_out_is_written_and_returned(layout, d, t, dtype, rotary_dim):
    q, k = content(t, t + 1, d=d, heads=8, dtype=dtype, batch=4)
    out = torch.full_like(q, float("nan")), torch.full_like(k.transpose(1, 2), float("nan")).transpose(1, 2)
    encoding = RoPE(d, layout=layout, rotary_dim=rotary_dim)
    made = encoding(q, k, out=out)
    for turned, place, want in zip(made, out, encoding(q, k), strict=True):
        assert turned is place
        assert torch.equal(turned, want)


@each_layout
def test_queries_and_keys_can_be_turned_where_they_lie(layout):
    q, k = content(9, 9)
    encoding = RoPE(16, layout=layout)
    expected = encoding(q, k)
    made = encoding(q, k, out=(q, k))
    for turned, x, want in zip(made, (q, k), expected, strict=True):
        assert turned is x
        assert torch.equal(turned, want)


def test_keys_can_be_written_into_a_cache():
    q, k = content(1, 1)
    cache = torch.zeros(2, 2, 8, 16, dtype=torch.float64)
    RoPE(16)(q, k, torch.tensor([5]), torch.tensor([5]), out=(torch.empty_like(q), cache[:, :, 5:6]))
    torch.testing.assert_close(cache[:, :, 5:6], RoPE(16).turn(k, torch.tensor([5])))
    assert cache[:, :, :5].count_nonzero() == 0


def test_the_function_refuses_what_needs_a_gradient_and_says_where_it_is_kept():
    with pytest.raises(ValueError, match=r"rope: x must be finite numbers without a gradient, which RoPE keeps, got"):
        rope(torch.ones(2, 8, requires_grad=True), [0, 1])


@pytest.mark.parametrize("of", ["q", "k", "out"])
def test_out_is_refused_where_a_gradient_is_needed(of):
    (q, k), out = content(3, 3), list(content(3, 3))
    {"q": q, "k": k, "out": out[0]}[of].requires_grad_()
    with pytest.raises(ValueError, match=r"rope: out must be .* where no gradient is needed, got"):
        RoPE(16)(q, k, out=tuple(out))
    with torch.no_grad():
        RoPE(16)(q, k, out=tuple(out))


@pytest.mark.parametrize(
    "out",
    [
        lambda q, k: [q, k],
        lambda q, k: (q,),
        lambda q, k: (q, k, k),
        lambda q, k: (q, None),
        lambda q, k: (q.float(), k),
        lambda q, k: (q, k[:, :1]),
        lambda q, k: (q.numpy(), k.numpy()),
    ],
)
def test_an_out_that_is_no_pair_like_q_and_k_is_refused(out):
    q, k = content(3, 3)
    with pytest.raises(ValueError, match="rope: out must be two tensors like q and k"):
        RoPE(16)(q, k, out=out(*content(3, 3)))


# Gradients, large and small


@each_layout
@each_width
@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 4}, {"base": [100.0, 1e4]}], ids=["", "part", "heads"])
@pytest.mark.parametrize("block", [2**18, 64], ids=["whole", "in blocks"])
def test_first_and_second_gradients(layout, d, settings, block, monkeypatch):
    monkeypatch.setattr(file, "BLOCK", block)
    q, k = (x.requires_grad_() for x in content(3, 4, d=d, heads=2, batch=1))
    encoding = RoPE(d, layout=layout, attention_factor=1.2, **settings)
    assert torch.autograd.gradcheck(encoding, (q, k), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda q, k: [x**2 for x in encoding(q, k)], (q, k), fast_mode=True)


@each_layout
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_gradient_is_the_turn_back(layout, dtype):
    q, k = (x.requires_grad_() for x in content(600, 600, d=64, heads=8, dtype=dtype))
    encoding = RoPE(64, layout=layout)
    turned, seeds = encoding(q, k), content(600, 600, d=64, heads=8, dtype=dtype)
    torch.autograd.backward(turned, seeds)
    for x, seed in zip((q, k), seeds, strict=True):
        assert torch.equal(x.grad, encoding.turn(seed, inverse=True))


def test_gradients_reach_positions():
    q, k = content(3, 3)
    positions = torch.tensor([0.5, 2.0, 9.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: RoPE(16)(q, k, p, p), (positions,))


def test_gradients_of_large_content_reach_positions():
    q = content(600, 1, d=64, heads=8)[0]
    positions = torch.arange(600.0, dtype=torch.float64, requires_grad=True)
    RoPE(64).turn(q, positions).square().sum().backward()
    torch.testing.assert_close(positions.grad, torch.zeros_like(positions), rtol=0, atol=1e-8)  # norms stay


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@each_layout
@each_size
def test_forward_mode_turns_the_tangent(layout, t):
    q, tangent = content(t, t, d=64, heads=8, groups=8)
    encoding = RoPE(64, layout=layout)
    made, pushed = torch.func.jvp(encoding.turn, (q,), (tangent,))
    torch.testing.assert_close((made, pushed), (encoding.turn(q), encoding.turn(tangent)))


@each_layout
@each_size
def test_vmap_and_grad_compose(layout, t):
    q, _ = content(t, 1, d=64, heads=8)
    encoding = RoPE(64, layout=layout)
    made = torch.func.vmap(torch.func.grad(lambda x: encoding.turn(x[None]).pow(3).sum()))(q)
    x = q.clone().requires_grad_()
    encoding.turn(x).pow(3).sum().backward()
    torch.testing.assert_close(made, x.grad)


# The fast ways are the plain one


@each_layout
@each_size
@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 32, "attention_factor": 1.3}, {"base": [100.0, 1e4]}], ids=str)
def test_the_class_equals_the_function_at_widths_and_lengths_that_take_other_ways(layout, t, settings):
    q, k = content(t, t, d=64, heads=8)
    made = RoPE(64, layout=layout, **settings)(q, k)
    for x, turned in zip((q, k), made, strict=True):
        assert_close(turned, rope(x.numpy(), np.arange(t), layout=layout, **settings), atol=1e-11)


@each_layout
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("d", [16, 64, 80])
def test_blocks_equal_the_whole(layout, dtype, d, monkeypatch):
    q, k = content(37, 37, d=d, dtype=dtype)
    encoding = RoPE(d, layout=layout)
    whole = encoding(q, k)
    monkeypatch.setattr(file, "BLOCK", 1024)
    for blocks, want in zip(encoding(q, k), whole, strict=True):
        assert torch.equal(blocks, want)


def _slices(x):
    """Return the same numbers with other strides and offsets, some of them odd."""
    wide = torch.zeros(*x.shape[:-1], x.shape[-1] + 3, dtype=x.dtype)
    wide[..., 1:-2] = x
    return {
        "tokens before heads": x.transpose(1, 2).contiguous().transpose(1, 2),
        "channels before tokens": x.mT.contiguous().mT,
        "an odd offset and odd strides": wide[..., 1:-2],
        "every other": x.repeat_interleave(2, dim=-1)[..., ::2],
        "expanded": x[:1].expand(x.shape),
    }


@each_layout
@each_size
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("how", _slices(torch.zeros(1, 1, 1, 2)))
def test_strides_do_not_matter(layout, t, dtype, how):
    q, _ = content(t, 1, d=64, heads=8, dtype=dtype, batch=4)
    encoding, strided = RoPE(64, layout=layout), _slices(q)[how]
    assert torch.equal(encoding.turn(strided), encoding.turn(strided.clone(memory_format=torch.contiguous_format)))


@each_layout
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_compiled_equals_eager(layout, dtype):
    torch._dynamo.reset()
    q, k = content(9, 9, d=64, dtype=dtype)
    encoding = RoPE(64, layout=layout)
    compiled = torch.compile(encoding, fullgraph=True, backend="aot_eager")
    for turned, want in zip(compiled(q, k), encoding(q, k), strict=True):
        torch.testing.assert_close(turned, want)
    out = torch.empty_like(q), torch.empty_like(k)
    for turned, want in zip(compiled(q, k, out=out), encoding(q, k), strict=True):
        torch.testing.assert_close(turned, want)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # by the compiler itself
@each_layout
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 32, "base": [100.0, 1e4]}], ids=["", "part, heads"])
def test_compiled_gradients_equal_eager_ones_in_any_strides(layout, dtype, settings):
    torch._dynamo.reset()
    encoding, found = RoPE(64, layout=layout, attention_factor=1.2, **settings), []
    tokens_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in content(9, 9, d=64, dtype=dtype)]
    for turn in (torch.compile(encoding, fullgraph=True, backend="aot_eager"), encoding):
        q, k = (x.detach().requires_grad_() for x in tokens_first)
        turned = turn(q, k)
        found.append([*turned, *torch.autograd.grad([x.float().pow(2).sum() for x in turned], (q, k))])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("how", _slices(torch.zeros(1, 1, 1, 2)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_compiled_pairs_of_any_strides_equal_eager_ones(dtype, how):
    torch._dynamo.reset()
    x, _ = content(9, 1, d=64, dtype=dtype)
    x[0, 0, :3, ::7], x[0, 1, 2:6, ::5] = float("nan"), float("inf")  # neither leaves its pair
    encoding, strided = RoPE(64, layout="interleaved"), _slices(x)[how]
    for back in (False, True):
        turn = torch.compile(partial(encoding.turn, inverse=back), fullgraph=True, backend="aot_eager")
        made, wanted = turn(strided), encoding.turn(strided, inverse=back)
        torch.testing.assert_close(made, wanted, rtol=0 if dtype == torch.bfloat16 else 1e-6, atol=1e-6, equal_nan=True)


def test_compiled_pairs_of_bfloat16_round_ties_to_even():
    torch._dynamo.reset()
    x = torch.arange(1, 129).view(1, 1, 2, 64).bfloat16()
    encoding = RoPE(64, layout="interleaved", attention_factor=1 + 2**-8)
    turn = torch.compile(encoding.turn, fullgraph=True, backend="aot_eager")
    assert torch.equal(turn(x, torch.zeros(2)), (x.double() * (1 + 2**-8)).bfloat16())


def test_vmap_compiles():
    torch._dynamo.reset()
    x, encoding = content(9, 1, d=64, dtype=torch.float32)[0], RoPE(64, layout="interleaved")
    turn = torch.vmap(lambda row: encoding.turn(row[None])[0])
    torch.testing.assert_close(torch.compile(turn, fullgraph=True, backend="aot_eager")(x), encoding.turn(x))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@each_layout
def test_forward_mode_outside_of_functions_is_followed_where_no_gradient_is_needed(layout):
    x, tangent = content(5, 5, d=64, heads=2)
    encoding = RoPE(64, layout=layout)
    with torch.no_grad(), forward_ad.dual_level():
        turned = forward_ad.unpack_dual(encoding.turn(forward_ad.make_dual(x, tangent)))
        torch.testing.assert_close(turned.tangent, encoding.turn(tangent))


def test_the_exported_program_has_no_complex_numbers():
    q, k = content(6, 6, d=64, dtype=torch.float32)
    program = torch.export.export(RoPE(64, layout="interleaved"), (q, k))
    made = [node.meta["val"] for node in program.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)]
    assert made
    assert not any(value.is_complex() for value in made)


def test_a_program_exported_for_any_lengths_serves_more_queries_than_keys_too():
    q, k = torch.export.Dim("q", min=2, max=99), torch.export.Dim("k", min=2, max=99)
    encoding, axes = RoPE(16), {"q": {2: q}, "k": {2: k}}
    program = torch.export.export(encoding, content(5, 9, dtype=torch.float32), dynamic_shapes=axes).module()
    for t, s in ((3, 11), (7, 7), (9, 4)):
        tensors = content(t, s, dtype=torch.float32)
        for turned, want in zip(program(*tensors), encoding(*tensors), strict=True):
            assert torch.equal(turned, want)


def test_float16_and_bfloat16_content_is_rounded_once():
    for dtype in (torch.float16, torch.bfloat16):
        for layout in LAYOUTS:
            for t in (5, 600):
                q, _ = content(t, 1, d=64, heads=8, dtype=dtype)
                made = RoPE(64, layout=layout).turn(q, torch.arange(t) + 1_000_000)
                exact = RoPE(64, layout=layout).turn(q.double(), torch.arange(t) + 1_000_000)
                wrong = (made != exact.to(dtype)).double().mean()
                assert wrong < 1e-3  # a tie of float32 now and then


def test_gradients_of_a_bfloat16_module_flow_as_those_of_a_plain_one():
    q, k = (x.requires_grad_() for x in content(5, 5, dtype=torch.bfloat16))
    sum(x.float().sum() for x in RoPE(16).bfloat16()(q, k)).backward()
    assert q.grad.dtype == k.grad.dtype == torch.bfloat16


# What does not fit


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (lambda e: e.table(torch.arange(4)), r"got torch.float32 \(4, 16\)"),
        (lambda e: e.table(torch.arange(6)), r"got torch.float32 \(6, 16\)"),
        (lambda e: RoPE(8).table(torch.arange(5)), r"got torch.float32 \(5, 8\)"),
        (lambda e: e.table(torch.zeros(3, 5)), r"got torch.float32 \(3, 5, 16\)"),
        (lambda e: RoPE(16, theta=OF_HEADS * 2).table(torch.arange(5)), r"got torch.float32 \(4, 5, 16\)"),
        (lambda e: e.table(torch.arange(5)).bfloat16(), r"got torch.bfloat16 \(5, 16\)"),
        (lambda e: e.table(torch.arange(5)).tolist(), r"got \[\["),
        (lambda e: (e.table(torch.arange(5)), None), "got "),
        (lambda e: (None, e.table(torch.arange(5))), "got None"),
        (lambda e: (e.table(torch.arange(5)),) * 3, r"got \("),
        (lambda e: [e.table(torch.arange(5))] * 2, r"got \["),
    ],
)
def test_a_table_that_does_not_fit_is_refused(table, said):
    q, k = content(3, 5, dtype=torch.float32)
    encoding = RoPE(16)
    with pytest.raises(ValueError, match=rf"rope: table must be .*{said}"):
        encoding(q, k, table=table(encoding))


def test_a_table_for_fewer_tokens_than_there_are_queries_is_refused():
    q, k = content(5, 3, dtype=torch.float32)
    with pytest.raises(ValueError, match="rope: table must be"):
        RoPE(16)(q, k, table=RoPE(16).table(torch.arange(3)))


def test_a_float32_table_is_too_coarse_for_float64_content():
    q, k = content(5, 5)
    with pytest.raises(ValueError, match=r"rope: table must be .*precision of the content.*got torch.float32"):
        RoPE(16)(q, k, table=RoPE(16).table(torch.arange(5)))


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.int64, torch.complex64, None, "float32"], ids=str
)
def test_a_table_of_another_dtype_is_not_made(dtype):
    with pytest.raises(ValueError, match=r"rope: dtype must be torch\.float32 or torch\.float64, got"):
        RoPE(16).table(torch.arange(5), dtype)


@pytest.mark.parametrize(
    "positions", [torch.tensor(3), torch.ones(3) > 0, torch.zeros(3) * 1j, [0, 1], 3, None], ids=str
)
def test_a_table_of_what_is_no_tensor_of_positions_is_not_made(positions):
    with pytest.raises(ValueError, match="rope: positions must be a tensor of numbers"):
        RoPE(16).table(positions)


@pytest.mark.parametrize("name", ["q", "k"])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x[..., :8],
        lambda x: x[0],
        lambda x: x[None],
        lambda x: x.long(),
        lambda x: x > 0,
        lambda x: x + 0j,
        lambda x: x.numpy(),
        lambda x: None,
    ],
)
def test_content_of_another_form_is_refused(name, wrong):
    tensors = dict(zip("qk", content(5, 5), strict=True))
    with pytest.raises(ValueError, match=rf"rope: {name} must be floating point \(b, h, t, d\)"):
        RoPE(16)(**tensors | {name: wrong(tensors[name])})


@pytest.mark.parametrize("batch", [1, 3])
def test_queries_and_keys_of_different_batches_are_refused(batch):
    q, k = content(3, 3)
    with pytest.raises(ValueError, match=r"rope: q must be as many sequences as k, got .*; expand"):
        RoPE(16)(q[:1].expand(batch, -1, -1, -1), k)


def test_heads_that_the_rows_of_theta_do_not_divide_are_refused():
    q, k = content(3, 3, heads=4, groups=1)
    with pytest.raises(ValueError, match=r"rope: k must be .*rows of theta, got"):
        RoPE(16, theta=OF_HEADS)(q, k)
    with pytest.raises(ValueError, match=r"rope: x must be .*rows of theta, got"):
        rope(k[0].numpy(), range(3), theta=OF_HEADS)


@pytest.mark.parametrize("name", ["positions", "key_positions"])
@pytest.mark.parametrize(
    "places",
    [[0, 1, 2, 3, 4], np.arange(5), 3, torch.tensor(3), torch.arange(4), torch.zeros(3, 5), torch.zeros(5, 2)],
    ids=lambda value: f"{type(value).__name__} {np.shape(value)}",
)
def test_positions_that_do_not_fit_are_refused(name, places):
    q, k = content(5, 5)
    with pytest.raises(ValueError, match=rf"rope: {name} must be a tensor of numbers, \(t,\) or \(b, t\), got"):
        RoPE(16)(q, k, **{name: places})


WRONG = {
    "dim": [0, -2, 1, 7, 16.0, "16", None, True],
    "rotary_dim": [0, -2, 1, 3, 18, 4.0, "4", True],
    "base": [0, -1, float("nan"), float("inf"), "10", True, None, [], [100, 0], [[100.0]], 1j],
    "layout": ["halves", None, 0, ["half"], {}],
    "theta": [[1.0] * 7, [1.0] * 7 + [float("nan")], [[1.0] * 8, [1.0]], [[[1.0] * 8]], np.zeros((0, 8)), 1.0, "theta"],
    "attention_factor": [0, -1, float("nan"), float("inf"), "1", None, True, [1.0]],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]], ids=repr)
def test_wrong_settings_are_refused_by_class_and_function(name, value):
    with pytest.raises(ValueError, match=rf"rope: {name} must be .*, got "):
        RoPE(**{"dim": 16} | {name: value})
    if name != "dim":
        with pytest.raises(ValueError, match=rf"rope: {name} must be .*, got "):
            rope(np.ones((3, 16)), range(3), **{name: value})


@pytest.mark.parametrize(
    "x", [1.0, np.ones(16), "x", [["x"]], [[1.0], [1.0, 2.0]], None, np.ones((3, 16)) > 0], ids=repr
)
def test_the_numpy_function_refuses_content_that_is_none(x):
    with pytest.raises(ValueError, match=r"rope: \w+ must be"):
        rope(x, range(3))


@pytest.mark.parametrize("positions", [3, [0, 1], [[0, 1, 2]], "012", None, [[0], [1, 2]], [True] * 3], ids=repr)
def test_the_numpy_function_refuses_positions_that_do_not_fit(positions):
    with pytest.raises(ValueError, match="rope: positions must be"):
        rope(np.ones((2, 3, 16)), positions)


def test_the_module_prints_its_arguments():
    encoding = RoPE(64, layout="interleaved", rotary_dim=32)
    assert repr(encoding) == "RoPE(dim=64, base=10000.0, layout='interleaved', rotary_dim=32, attention_factor=1.0)"


def test_the_defaults_are_those_of_llama():
    for function in (rope, RoPE):
        defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
        assert (defaults["base"], defaults["layout"], defaults["attention_factor"]) == (10_000.0, "half", 1.0)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_content_may_be_narrower_than_its_table(layout):
    encoding, x = RoPE(64, layout=layout), torch.randn(1, 2, 5, 64)
    turned = encoding.turn(x, table=encoding.table(torch.arange(5), torch.float64))
    expected = rope(x[0].numpy(), np.arange(5), layout=layout)
    assert turned.dtype == torch.float32
    np.testing.assert_allclose(turned[0], expected, atol=1e-6)
    both = encoding(x.double(), x)
    assert [part.dtype for part in both] == [torch.float64, torch.float32]
    np.testing.assert_allclose(both[1][0], expected, atol=1e-6)
