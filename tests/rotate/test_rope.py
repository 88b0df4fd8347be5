"""RoPE: values worked by hand, scores that see offsets alone, where tokens stand, tables, and what is refused."""

import inspect
import math
import re

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.models.from_config import from_config
from posenc.rotate.frequencies import yarn
from posenc.rotate.rope import RoPE, rope
from tests.peers import peer
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


LAYOUTS = ("half", "interleaved")
each_layout = pytest.mark.parametrize("layout", LAYOUTS)
exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)
position_lists = st.lists(st.one_of(st.integers(-9999, 9999), st.floats(-99, 99)), min_size=1, max_size=5)
shifts = st.integers(-100_000, 100_000)


def content(t, s, d=16, heads=4, groups=2, dtype=torch.float64, batch=2):
    """Return random q (b, h, t, d) and k (b, g, s, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(batch, heads, t, d, generator=generator, dtype=torch.float64)
    k = torch.randn(batch, groups, s, d, generator=generator, dtype=torch.float64)
    return q.to(dtype), k.to(dtype)


def turned(encoding, x, positions=None):
    """Return `x` turned to `positions`, by default 0 .. t-1."""
    if positions is None:
        positions = torch.arange(x.shape[2])
    return encoding.turn(x, encoding.table(positions, x.dtype))


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
    x = np.random.default_rng(0).normal(size=(5, 8))
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    interleaved = rope(x, range(5), layout="interleaved")
    np.testing.assert_array_equal(rope(x[:, order], range(5)), interleaved[:, order])


def test_the_layouts_give_different_scores():
    q, k = content(4, 4)
    half = scores(*RoPE(16, layout="half")(q, k))
    interleaved = scores(*RoPE(16, layout="interleaved")(q, k))
    assert (half - interleaved).abs().max() > 1


def test_two_channels_of_four_turn_with_the_frequencies_of_a_width_of_two():
    assert_close(rope([[1, 0, 5, 7]], [3], rotary_dim=2), [[math.cos(3), math.sin(3), 5, 7]])


def test_a_base_of_one_turns_all_pairs_alike_and_a_smaller_one_the_later_ones_faster():
    assert RoPE(4, base=1).theta == (1, 1)
    assert RoPE(4, base=0.25).theta == (1, 2)


def test_given_frequencies_replace_those_of_the_base():
    expected = [[math.cos(1.5), 1.0, math.sin(1.5), 0.0]]
    assert_close(rope([[1, 1, 0, 0]], [3], base=7.0, theta=[0.5, 0.0]), expected)


def test_the_attention_factor_multiplies_what_turns_and_scores_by_its_square():
    q, k = content(4, 4)
    plain = scores(*RoPE(16)(q, k))
    scaled = scores(*RoPE(16, attention_factor=1.5)(q, k))
    torch.testing.assert_close(scaled, 2.25 * plain)


def test_channels_that_do_not_turn_are_not_scaled():
    assert_close(rope([[1, 0, 5, 7]], [0], rotary_dim=2, attention_factor=2), [[2, 0, 5, 7]])
    x = torch.tensor([[[[1.0, 0.0, 5.0, 7.0]]]])
    encoding = RoPE(4, rotary_dim=2, attention_factor=2)
    assert turned(encoding, x).tolist() == [[[[2, 0, 5, 7]]]]


# Numbers of the peers


@vectors("rope_apply")
def test_turning_as_llama_and_gptj_do(vector):
    d = vector["params"]["head_dim"]
    positions = torch.tensor(vector["params"]["positions"])
    theta, factor = from_config(vector["params"]["rope_parameters"], d)
    q, k = (torch.tensor(vector["inputs"][name], dtype=torch.float64) for name in "qk")
    for layout in LAYOUTS:
        options = {"layout": layout, "theta": theta, "attention_factor": factor}
        expected_q, expected_k = (vector["expected"][f"{name}_{layout}"] for name in "qk")
        rotated_q, rotated_k = RoPE(d, **options)(q, k, positions)
        assert_agrees(vector, rotated_q, expected_q)
        assert_agrees(vector, rotated_k, expected_k)
        assert_agrees(vector, rope(q, positions, **options), expected_q)
        assert_agrees(vector, rope(k, positions, **options), expected_k)


@vectors("rope_partial")
def test_turning_a_part_as_gpt_neox_does(vector):
    encoding = RoPE(
        vector["params"]["head_dim"], base=vector["params"]["rope_theta"], rotary_dim=vector["params"]["rotary_dim"]
    )
    positions = torch.tensor(vector["params"]["positions"])
    q, k = (torch.tensor(vector["inputs"][name], dtype=torch.float64) for name in "qk")
    rotated_q, rotated_k = encoding(q, k, positions)
    assert_agrees(vector, rotated_q, vector["expected"]["q"])
    assert_agrees(vector, rotated_k, vector["expected"]["k"])


# Peers


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
    expected = llama.apply_rotary_pos_emb(q, k, cos, sin)
    theta, factor = yarn(16, 4.0, 128)
    result = RoPE(16, theta=theta, attention_factor=factor)(q, k)
    torch.testing.assert_close(result, expected, rtol=0, atol=2e-4)


def test_a_quarter_of_the_channels_equals_gpt_neox():
    neox = peer("transformers.models.gpt_neox.modeling_gpt_neox")
    q, k = content(7, 7)
    encoding = RoPE(16, rotary_dim=4)
    angle = (torch.arange(7)[:, None] * torch.tensor(encoding.theta, dtype=torch.float64)).tile(2)[None]
    expected = neox.apply_rotary_pos_emb(q, k, angle.cos(), angle.sin())
    torch.testing.assert_close(encoding(q, k), expected, rtol=0, atol=1e-12)


def test_interleaved_equals_gptj():
    gptj = peer("transformers.models.gptj.modeling_gptj")
    q, _ = content(7, 7)
    sin, cos = gptj.create_sinusoidal_positions(7, 16)[None].chunk(2, dim=-1)
    expected = gptj.apply_rotary_pos_emb(q.transpose(1, 2), sin, cos).transpose(1, 2)  # tokens before heads
    torch.testing.assert_close(turned(RoPE(16, layout="interleaved"), q), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("r", [16, 8])
def test_interleaved_equals_rotary_embedding_torch(r):
    library = peer("rotary_embedding_torch").RotaryEmbedding(r, cache_if_possible=False)
    q, k = content(7, 7, dtype=torch.float32)
    expected = library.rotate_queries_or_keys(q), library.rotate_queries_or_keys(k)
    result = RoPE(16, layout="interleaved", rotary_dim=r)(q, k)
    torch.testing.assert_close(result, expected, rtol=0, atol=5e-6)


def test_interleaved_equals_x_transformers():
    library = peer("x_transformers.x_transformers")
    frequencies, _ = library.RotaryEmbedding(16)(torch.arange(7))
    q, k = content(4, 7, dtype=torch.float32)
    expected = library.apply_rotary_pos_emb(q, frequencies), library.apply_rotary_pos_emb(k, frequencies)
    # its queries stand where the last of the keys do
    result = RoPE(16, layout="interleaved")(q, k, torch.arange(3, 7), torch.arange(7))
    torch.testing.assert_close(result, expected, rtol=0, atol=5e-6)


def test_a_module_of_llama_cast_to_bfloat16_loses_what_ours_keeps():
    llama = peer("transformers.models.llama.modeling_llama")
    config = peer("transformers.models.llama.configuration_llama").LlamaConfig(hidden_size=64, num_attention_heads=4)
    x = torch.ones(1, 1, 1, 16)
    positions = torch.tensor([1000])
    theirs = llama.LlamaRotaryEmbedding(config)
    theirs.inv_freq = theirs.inv_freq.bfloat16()  # what model.to(bfloat16) does where buffers are not kept apart
    cos, sin = theirs(x, positions[None])
    exact = rope(x[0].numpy(), positions)
    assert np.abs(llama.apply_rotary_pos_emb(x, x, cos, sin)[0][0].numpy() - exact).max() > 0.1
    assert_close(turned(RoPE(16).bfloat16(), x, positions)[0], exact, atol=1e-6)


# Properties


@given(m=position_lists, n=position_lists, shift=shifts)
@exactly
@each_layout
def test_scores_depend_on_offsets_alone(layout, m, n, shift):
    q, k = content(len(m), len(n))
    encoding = RoPE(16, layout=layout)
    m, n = torch.tensor(m).double(), torch.tensor(n).double()
    here = scores(*encoding(q, k, m, n))
    there = scores(*encoding(q, k, m + shift, n + shift))
    torch.testing.assert_close(there, here, rtol=0, atol=1e-8)


@given(positions=position_lists)
@exactly
@each_layout
def test_norms_stay(layout, positions):
    q, _ = content(len(positions), 1)
    rotated_q = turned(RoPE(16, layout=layout), q, torch.tensor(positions))
    torch.testing.assert_close(rotated_q.norm(dim=-1), q.norm(dim=-1))


@given(positions=position_lists, shift=shifts)
@exactly
@each_layout
def test_turns_add_up(layout, positions, shift):
    q, _ = content(len(positions), 1)
    encoding = RoPE(16, layout=layout)
    positions = torch.tensor(positions).double()
    twice = turned(encoding, turned(encoding, q, positions), torch.full_like(positions, shift))
    torch.testing.assert_close(twice, turned(encoding, q, positions + shift), rtol=0, atol=1e-9)


def test_a_query_and_a_key_alike_score_highest_where_they_meet():
    x = torch.ones(1, 1, 100, 64, dtype=torch.float64)
    rotated_q, rotated_k = RoPE(64)(x, x)
    assert scores(rotated_q, rotated_k)[0, 0, -1].argmax() == 99


@each_layout
def test_turning_to_minus_the_position_turns_back(layout):
    q, _ = content(6, 1)
    encoding = RoPE(16, layout=layout)
    positions = torch.arange(6) - 2.5
    torch.testing.assert_close(turned(encoding, turned(encoding, q, positions), -positions), q)


# Where tokens stand


@each_layout
@pytest.mark.parametrize(("t", "s"), [(3, 7), (7, 3), (1, 5), (1, 1), (0, 4), (0, 0)])
def test_any_numbers_of_queries_and_keys(layout, t, s):
    q, k = content(t, s)
    m, n = torch.arange(-4, t - 4), torch.arange(s)
    rotated_q, rotated_k = RoPE(16, layout=layout)(q, k, m, n)
    assert_close(rotated_q, rope(q, m, layout=layout))
    assert_close(rotated_k, rope(k, n, layout=layout))


@pytest.mark.parametrize(("t", "s"), [(1, 1), (1, 5), (3, 7), (7, 3)])
def test_other_counts_than_as_many_queries_as_keys_have_no_default_positions(t, s):
    message = f"rope: positions must be given for {t} queries and {s} keys, got None"
    with pytest.raises(ValueError, match=message):
        RoPE(16)(*content(t, s))


def test_positions_of_keys_alone_say_nothing_of_queries():
    with pytest.raises(ValueError, match="rope: positions must be given for 5 queries and 5 keys, got None"):
        RoPE(16)(*content(5, 5), key_positions=torch.arange(5))


def test_tokens_before_heads_are_refused_where_fewer_heads_have_keys():
    q, k = content(5, 5, heads=4, groups=2)
    message = "for 4 queries and 2 keys, got None; or transpose(1, 2) if tokens come before heads"
    with pytest.raises(ValueError, match=re.escape(message)):
        RoPE(16)(q.transpose(1, 2), k.transpose(1, 2))


@each_layout
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_decoding_token_by_token_equals_all_at_once(layout, dtype):
    q, k = content(6, 6, dtype=dtype)
    encoding = RoPE(16, layout=layout)
    rotated_q, rotated_k = encoding(q, k)
    cos, sin = encoding.table(torch.arange(6))
    for p in range(6):
        token = slice(p, p + 1)
        new_q, new_k = encoding(q[:, :, token], k[:, :, token], torch.tensor([p]))
        assert torch.equal(new_q, rotated_q[:, :, token])
        assert torch.equal(new_k, rotated_k[:, :, token])
        row = cos[:, token], sin[:, token]
        assert torch.equal(encoding.turn(k[:, :, token], row), rotated_k[:, :, token])


def test_left_padded_rows_take_their_own_positions():
    _, k = content(1, 4, batch=1)
    padded = torch.cat([torch.zeros(1, 2, 3, 16), k], dim=2)
    rotated_k = turned(RoPE(16), padded, torch.tensor([[0, 0, 0, 0, 1, 2, 3]]))
    torch.testing.assert_close(rotated_k[..., 3:, :], turned(RoPE(16), k))


# Tables


@pytest.mark.parametrize("options", [{}, {"rotary_dim": 8, "attention_factor": 1.5}], ids=str)
def test_the_table_holds_what_a_call_multiplies_by(options):
    angle = np.outer([0, 5], RoPE(16, **options).theta)
    factor = options.get("attention_factor", 1)
    cos, sin = factor * np.cos(angle), factor * np.sin(angle)
    positions = torch.tensor([[0, 5]])
    of_pairs = RoPE(16, layout="interleaved", **options).table(positions, torch.float64)
    assert_close(of_pairs[0], [[cos]])  # of one sequence, for all heads
    assert_close(of_pairs[1], [[sin]])
    of_halves = RoPE(16, layout="half", **options).table(positions, torch.float64)
    assert_close(of_halves[0], [[np.hstack([cos, cos])]])
    assert_close(of_halves[1], [[np.hstack([-sin, sin])]])


@each_layout
@pytest.mark.parametrize("options", [{}, {"rotary_dim": 8}], ids=str)
@pytest.mark.parametrize("positions", [torch.arange(5) * 9, torch.arange(10).view(2, 5)], ids=["t", "b, t"])
def test_one_table_serves_layers_and_is_not_changed(layout, options, positions):
    encoding = RoPE(16, layout=layout, **options)
    table = encoding.table(positions)
    before = [part.clone() for part in table]
    for heads in (4, 2):
        q, k = content(5, 5, heads=heads, dtype=torch.float32)
        rotated_q, rotated_k = encoding(q, k, positions)
        assert torch.equal(encoding.turn(q, table), rotated_q)
        assert torch.equal(encoding.turn(k, table), rotated_k)
    assert all(map(torch.equal, table, before))


@each_layout
def test_a_table_in_float32_does_not_round_content_in_float64(layout):
    q, _ = content(5, 5)
    encoding = RoPE(16, layout=layout)
    assert torch.equal(encoding.turn(q, encoding.table(torch.zeros(5))), q)


@each_layout
def test_a_finer_table_serves_coarser_content(layout):
    q, _ = content(5, 5, dtype=torch.float32)
    encoding = RoPE(16, layout=layout)
    result = encoding.turn(q, encoding.table(torch.arange(5), torch.float64))
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, turned(encoding, q))


def test_frequencies_are_kept_as_python_floats():
    for theta in (THETA, np.array(THETA), torch.tensor(THETA, dtype=torch.float64)):
        assert RoPE(16, theta=theta).theta == THETA
    assert type(RoPE(4, theta=np.float32([1, 0.5])).theta[0]) is float


def test_the_table_of_a_module_cast_to_bfloat16_is_exact():
    positions = torch.tensor([1_000_000])
    assert all(map(torch.equal, RoPE(16).bfloat16().table(positions), RoPE(16).table(positions)))


@each_layout
@pytest.mark.parametrize("shape", [(8,), (1, 8), (8, 8)], ids=str)
def test_compiles_where_there_are_as_many_tokens_and_sequences_as_channels(layout, shape):
    x = torch.randn(8, 4, 8, 8)
    positions = torch.arange(8).expand(shape)
    encoding = RoPE(8, layout=layout)
    torch._dynamo.reset()
    compiled = torch.compile(encoding, fullgraph=True, backend="eager", dynamic=True)
    assert all(map(torch.equal, compiled(x, x, positions), encoding(x, x, positions)))


# Gradients


@each_layout
@pytest.mark.parametrize("options", [{}, {"rotary_dim": 4}], ids=str)
def test_first_and_second_gradients(layout, options):
    q, k = content(3, 4, heads=2, batch=1)
    inputs = q.requires_grad_(), k.requires_grad_()
    encoding = RoPE(16, layout=layout, attention_factor=1.2, **options)
    m, n = torch.arange(1, 4), torch.arange(4)
    assert torch.autograd.gradcheck(lambda q, k: encoding(q, k, m, n), inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda q, k: [x**2 for x in encoding(q, k, m, n)], inputs, fast_mode=True)


@each_layout
def test_the_gradient_is_the_turn_back(layout):
    q, gradient = content(6, 6, groups=4)
    encoding = RoPE(16, layout=layout)
    turned(encoding, q.requires_grad_(), torch.arange(6)).backward(gradient)
    torch.testing.assert_close(q.grad, turned(encoding, gradient, -torch.arange(6)))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is")  # which torch.func.jvp calls
@each_layout
def test_forward_mode_turns_the_tangent(layout):
    q, tangent = content(5, 5, groups=4)
    encoding = RoPE(16, layout=layout)
    result = torch.func.jvp(lambda x: turned(encoding, x), (q,), (tangent,))
    torch.testing.assert_close(result, (turned(encoding, q), turned(encoding, tangent)))


def test_gradients_reach_positions():
    q, k = content(3, 3)
    positions = torch.tensor([0.5, 2.0, 9.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: RoPE(16)(q, k, p, p), (positions,))


@each_layout
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_float16_and_bfloat16_content_is_rounded_once(layout, dtype):
    q, _ = content(600, 1, d=64, heads=8, dtype=dtype)
    encoding = RoPE(64, layout=layout)
    positions = torch.arange(600) + 1_000_000
    exact = turned(encoding, q.double(), positions)
    wrong = turned(encoding, q, positions) != exact.to(dtype)
    assert wrong.double().mean() < 1e-3  # a tie of float32 now and then


def test_gradients_of_a_bfloat16_module_flow_as_those_of_a_plain_one():
    q, k = content(5, 5, dtype=torch.bfloat16)
    rotated_q, rotated_k = RoPE(16).bfloat16()(q.requires_grad_(), k.requires_grad_())
    (rotated_q.float().sum() + rotated_k.float().sum()).backward()
    assert q.grad.dtype == k.grad.dtype == torch.bfloat16


# What is refused: what would give a wrong result without an error


@each_layout
@pytest.mark.parametrize(
    ("wrong", "got"),
    [(torch.arange(4096), r"\(4096,\)"), (torch.tensor([3]), r"\(1,\)"), (torch.zeros(3, 5), r"\(3, 5\)")],
    ids=["4096", "1", "3, 5"],
)
def test_positions_and_tables_of_another_length_are_refused(layout, wrong, got):
    q, k = content(5, 5)
    encoding = RoPE(16, layout=layout)
    message = rf"rope: positions or table must be \(5,\) or \(2, 5\), got {got}"
    with pytest.raises(ValueError, match=message):
        encoding(q, k, wrong)
    with pytest.raises(ValueError, match=message):
        encoding(q, k, torch.arange(5), wrong)
    with pytest.raises(ValueError, match=message):
        encoding.turn(q, encoding.table(wrong))


@pytest.mark.parametrize("positions", [3, [3], [0, 1], [[0, 1, 2, 3]]], ids=repr)
def test_the_numpy_function_takes_one_position_a_row(positions):
    with pytest.raises(ValueError, match=r"reshape|broadcast"):  # NumPy's own words
        rope(np.ones((2, 3, 16)), positions)


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (lambda x: x[..., :8], r"torch.float64 \(2, 4, 5, 8\)"),
        (lambda x: x[0], r"torch.float64 \(4, 5, 16\)"),
        (lambda x: x.long(), r"torch.int64 \(2, 4, 5, 16\)"),
    ],
    ids=["width", "axes", "dtype"],
)
def test_content_of_another_form_is_refused(wrong, got):
    q = wrong(content(5, 5)[0])
    with pytest.raises(ValueError, match=rf"rope: q or k must be floats \(b, h, t, 16\), got {got}"):
        RoPE(16)(q, q)


WRONG = {
    "dim": [0, -2, 1, 7],
    "rotary_dim": [0, -2, 1, 3, 18],
    "base": [0, -1, float("nan"), float("inf")],
    "layout": ["halves", None, 0, 1.138],
    "theta": [[1.0] * 7, [[1.0] * 8], 500_000],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]], ids=repr)
def test_wrong_settings_are_refused_by_class_and_function(name, value):
    message = rf"rope: .*{name}.* must be .*, got "
    with pytest.raises(ValueError, match=message):
        RoPE(**{"dim": 16} | {name: value})
    if name != "dim":
        with pytest.raises(ValueError, match=message):
            rope(np.ones((3, 16)), range(3), **{name: value})


def test_an_odd_head_is_refused_though_an_even_part_of_it_turns():
    with pytest.raises(ValueError, match="rope: dim and rotary_dim must be even, 2 <= r <= d, got 7 and 4"):
        RoPE(7, rotary_dim=4)


def test_one_frequency_for_all_is_taken_for_a_base():
    with pytest.raises(ValueError, match=r"rope: theta must be 32 numbers, got \(\); one is a base"):
        RoPE(64, theta=500_000)


def test_the_defaults_are_those_of_llama():
    for function in (rope, RoPE):
        defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
        assert (defaults["base"], defaults["layout"], defaults["attention_factor"]) == (10_000.0, "half", 1.0)
