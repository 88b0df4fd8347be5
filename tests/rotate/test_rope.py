"""RoPE: values worked by hand, scores that see offsets alone, tables, both orders of axes, and what is refused."""

import inspect
import math

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

SOME = (1.0, 0.5, 0.25, 0.125, 0.1, 0.01, 0.001, 0.0)
OPTIONS = [
    {},
    {"layout": "interleaved"},
    {"base": 100.0, "rotary_dim": 8},
    {"layout": "interleaved", "rotary_dim": 4, "attention_factor": 1.25},
    {"theta": SOME, "dim": 18, "rotary_dim": 16},
]


def oracle(x, positions, base=10_000.0, layout="half", rotary_dim=None, theta=None, attention_factor=1.0):
    """Work out the definition with 60 digits, one pair at a time."""
    turned, r = x.copy(), rotary_dim or x.shape[-1]
    with mpmath.workdps(60):
        powers = [mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / r) for i in range(r // 2)]
        for row, p in enumerate(positions.tolist()):
            for i, frequency in enumerate(powers if theta is None else theta):
                first, second = (i, i + r // 2) if layout == "half" else (2 * i, 2 * i + 1)
                cos, sin = (attention_factor * f(mpmath.mpf(p) * frequency) for f in (mpmath.cos, mpmath.sin))
                for h in range(len(x)):
                    a, b = x[h, row, first].item(), x[h, row, second].item()
                    turned[h, row, first], turned[h, row, second] = a * cos - b * sin, b * cos + a * sin
    return turned


LAYOUTS = ("half", "interleaved")
each_layout = pytest.mark.parametrize("layout", LAYOUTS)
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


def test_a_base_of_one_turns_all_pairs_alike_and_a_smaller_one_the_later_ones_faster():
    assert RoPE(4, base=1).theta == (1, 1)
    assert RoPE(4, base=0.25).theta == (1, 2)


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
    angle = (torch.arange(7)[:, None] * torch.tensor(encoding.theta, dtype=torch.float64)).tile(2)[None]
    torch.testing.assert_close(
        encoding(q, k), neox.apply_rotary_pos_emb(q, k, angle.cos(), angle.sin()), rtol=0, atol=1e-12
    )


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
def test_norms_stay(layout, m):
    q, _ = content(len(m), 1)
    turned = RoPE(16, layout=layout).turn(q, torch.tensor(m))
    torch.testing.assert_close(turned.norm(dim=-1), q.norm(dim=-1))


@given(m=places, shift=shifts)
@exactly
@each_layout
def test_turns_add_up(layout, m, shift):
    q, _ = content(len(m), 1)
    encoding, m = RoPE(16, layout=layout), torch.tensor(m).double()
    there = encoding.turn(encoding.turn(q, m), torch.full_like(m, shift))
    torch.testing.assert_close(there, encoding.turn(q, m + shift), rtol=0, atol=1e-9)


def test_a_query_and_a_key_alike_score_highest_where_they_meet():
    x = torch.ones(1, 1, 100, 64, dtype=torch.float64)
    q, k = RoPE(64)(x, x)
    assert scores(q, k)[0, 0, -1].argmax() == 99


@each_layout
def test_turning_to_minus_the_position_turns_back(layout):
    q, _ = content(6, 1)
    encoding, positions = RoPE(16, layout=layout), torch.arange(6) - 2.5
    torch.testing.assert_close(encoding.turn(encoding.turn(q, positions), -positions), q)


# Where tokens stand


@each_layout
@pytest.mark.parametrize(("t", "s"), [(3, 7), (1, 5), (2, 2), (0, 4), (0, 0)])
def test_queries_stand_at_the_last_of_the_places_of_the_keys(layout, t, s):
    q, k = content(t, s)
    made = RoPE(16, layout=layout)(q, k)
    for x, turned, positions in zip((q, k), made, (np.arange(s - t, s), np.arange(s)), strict=True):
        assert_close(turned, rope(x.numpy(), positions, layout=layout))


def test_a_lone_query_with_a_lone_key_has_no_default_place():  # a cache of turned keys would hold them all at 0
    q, k = content(1, 1)
    with pytest.raises(ValueError, match="rope: positions must be given for 1 queries, 1 keys, got None"):
        RoPE(16)(q, k)
    assert_close(RoPE(16)(q, k, torch.tensor([9]))[1], rope(k.numpy(), [9]))


def test_more_queries_than_keys_have_no_default_place():  # such as (b, t, h, d) with few key heads
    q, k = content(7, 3)
    with pytest.raises(ValueError, match=r"rope: positions must be given for 7 queries, 3 keys, got None; .*tokens="):
        RoPE(16)(q, k)
    m, n = torch.arange(-4, 3), torch.arange(3)
    assert_close(RoPE(16)(q, k, m, n)[0], rope(q.numpy(), m))


@each_layout
@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 8}], ids=str)
@pytest.mark.parametrize("positions", [None, torch.arange(5) * 9, torch.arange(10).view(2, 5)], ids=["", "t", "b, t"])
def test_tokens_may_come_before_heads(layout, settings, positions):
    q, k = content(5, 5)
    expected = RoPE(16, layout=layout, **settings)(q, k, positions)
    made = RoPE(16, layout=layout, tokens=-3, **settings)(q.transpose(1, 2), k.transpose(1, 2), positions)
    assert all(torch.equal(x.transpose(1, 2), want) for x, want in zip(made, expected, strict=True))


@pytest.mark.parametrize("tokens", [2, -1, 3])
def test_another_axis_for_the_tokens_gives_no_result(tokens):  # with as many heads as tokens, elsewhere silently
    q, k = content(4, 4, heads=4, groups=4)
    with pytest.raises((KeyError, ValueError)):
        RoPE(16, tokens=tokens)(q, k, torch.arange(4))


@each_layout
def test_one_row_of_positions_serves_each_sequence(layout):
    q, k = content(5, 5)
    encoding, row = RoPE(16, layout=layout), torch.tensor([[3, 1, 4, 1, 5]])
    wanted = encoding(q, k, row[0])
    for made in (encoding(q, k, row), encoding(q, k, table=encoding.table(row, torch.float64))):
        assert all(map(torch.equal, made, wanted))


def test_what_is_not_said_follows_from_what_is():
    q, k = content(3, 5)
    places = torch.tensor([9, 4, 4, 0, 1])
    assert_close(RoPE(16)(q, k, positions=places[:3])[1], rope(k.numpy(), np.arange(5)))
    assert_close(RoPE(16)(q, k, key_positions=places)[0], rope(q.numpy(), places[2:]))


@each_layout
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_decoding_token_by_token_equals_all_at_once(layout, dtype):
    q, k = content(6, 6, dtype=dtype)
    encoding = RoPE(16, layout=layout)
    table, whole = encoding.table(torch.arange(6)), encoding(q, k)
    for p in range(6):
        here = [x[..., p : p + 1, :] for x in (q, k)]
        for made in (encoding(*here, torch.tensor([p]), torch.tensor([p])), encoding(*here, table=table[p : p + 1])):
            for step, turned in zip(made, whole, strict=True):
                assert torch.equal(step, turned[..., p : p + 1, :])


def test_left_padded_rows_take_their_own_positions():
    _, k = content(1, 4, batch=1)
    padded = torch.cat([torch.zeros(1, 2, 3, 16), k], dim=2)
    turned = RoPE(16).turn(padded, torch.tensor([[0, 0, 0, 0, 1, 2, 3]]))
    torch.testing.assert_close(turned[..., 3:, :], RoPE(16).turn(k))


# Tables


@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 8, "attention_factor": 1.5}], ids=str)
def test_the_table_holds_what_a_call_multiplies_by(settings):
    angle = np.array([[0.0], [5.0]]) * RoPE(16, **settings).theta
    cos, sin = (settings.get("attention_factor", 1) * f(angle) for f in (np.cos, np.sin))
    of_half = RoPE(16, **settings).table(torch.tensor([0, 5]), torch.float64)
    assert_close(of_half, np.concatenate([cos, cos, -sin, sin], axis=-1))
    of_pairs = RoPE(16, layout="interleaved", **settings).table(torch.tensor([0, 5]), torch.float64)
    np.testing.assert_allclose(of_pairs, cos + 1j * sin, atol=1e-12)


@each_layout
@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 8}], ids=str)
@pytest.mark.parametrize("positions", [torch.arange(5) * 9, torch.arange(10).view(2, 5)], ids=["t", "b, t"])
def test_one_table_serves_layers_and_is_not_changed(layout, settings, positions):
    encoding, layers = RoPE(16, layout=layout, **settings), [content(t, 5, dtype=torch.float32) for t in (5, 2)]
    table = encoding.table(positions)
    before = table.clone()
    for q, k in layers:
        expected = encoding(q, k, positions[..., 5 - q.shape[2] :], positions)
        assert all(map(torch.equal, encoding(q, k, table=table), expected))
    assert torch.equal(table, before)


def test_a_table_in_float32_does_not_round_content_in_float64():
    q, k = content(5, 5)
    for layout in LAYOUTS:
        encoding = RoPE(16, layout=layout)
        made = encoding(q, k, table=encoding.table(torch.zeros(5)))
        assert all(map(torch.equal, made, (q, k)))


def test_frequencies_are_kept_as_python_floats():
    for theta in (SOME, np.array(SOME), torch.tensor(SOME, dtype=torch.float64)):
        assert RoPE(16, theta=theta).theta == SOME
    assert type(RoPE(4, theta=np.float32([1, 0.5])).theta[0]) is float


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


# Gradients


@each_layout
@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 4}], ids=str)
def test_first_and_second_gradients(layout, settings):
    q, k = (x.requires_grad_() for x in content(3, 4, heads=2, batch=1))
    encoding = RoPE(16, layout=layout, attention_factor=1.2, **settings)
    assert torch.autograd.gradcheck(encoding, (q, k), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda q, k: [x**2 for x in encoding(q, k)], (q, k), fast_mode=True)


@each_layout
def test_the_gradient_is_the_turn_back(layout):
    q, seed = content(6, 6, groups=4)
    encoding, positions = RoPE(16, layout=layout), torch.arange(6)
    encoding.turn(q.requires_grad_(), positions).backward(seed)
    torch.testing.assert_close(q.grad, encoding.turn(seed, -positions))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is")  # which torch.func.jvp calls
@each_layout
def test_forward_mode_turns_the_tangent(layout):
    q, tangent = content(5, 5, groups=4)
    encoding = RoPE(16, layout=layout)
    made, pushed = torch.func.jvp(encoding.turn, (q,), (tangent,))
    torch.testing.assert_close((made, pushed), (encoding.turn(q), encoding.turn(tangent)))


def test_gradients_reach_positions():
    q, k = content(3, 3)
    positions = torch.tensor([0.5, 2.0, 9.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: RoPE(16)(q, k, p, p), (positions,))


def test_float16_and_bfloat16_content_is_rounded_once():
    for dtype in (torch.float16, torch.bfloat16):
        for layout in LAYOUTS:
            q, _ = content(600, 1, d=64, heads=8, dtype=dtype)
            made = RoPE(64, layout=layout).turn(q, torch.arange(600) + 1_000_000)
            exact = RoPE(64, layout=layout).turn(q.double(), torch.arange(600) + 1_000_000)
            wrong = (made != exact.to(dtype)).double().mean()
            assert wrong < 1e-3  # a tie of float32 now and then


def test_gradients_of_a_bfloat16_module_flow_as_those_of_a_plain_one():
    q, k = (x.requires_grad_() for x in content(5, 5, dtype=torch.bfloat16))
    sum(x.float().sum() for x in RoPE(16).bfloat16()(q, k)).backward()
    assert q.grad.dtype == k.grad.dtype == torch.bfloat16


# What is refused: what would give a wrong result without an error


@each_layout
@pytest.mark.parametrize(
    ("places", "got"),
    [(torch.arange(4096), r"\(4096,\)"), (torch.tensor([3]), r"\(1,\)"), (torch.zeros(3, 5), r"\(3, 5\)")],
    ids=str,
)  # fmt: skip
def test_positions_and_tables_of_another_length_are_refused(layout, places, got):
    q, k = content(5, 5)
    encoding = RoPE(16, layout=layout)
    said = rf"rope: positions or table must be \(5,\) or \(2, 5\), got {got}"
    for call in (
        lambda: encoding(q, k, places),
        lambda: encoding(q, k, key_positions=places),
        lambda: encoding(q, k, table=encoding.table(places)),
        lambda: encoding.turn(q, places),
    ):
        with pytest.raises(ValueError, match=said):
            call()


def test_the_numpy_function_takes_one_position_a_row():
    for positions in (3, [3], [0, 1], [[0, 1, 2, 3]]):
        with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
            rope(np.ones((2, 3, 16)), positions)


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (lambda x: x[..., :8], r"torch.float64 \(2, 4, 5, 8\)"),
        (lambda x: x[0], r"torch.float64 \(4, 5, 16\)"),
        (lambda x: x.long(), r"torch.int64 \(2, 4, 5, 16\)"),
    ],
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
    with pytest.raises(ValueError, match=rf"rope: .*{name}.* must be .*, got "):
        RoPE(**{"dim": 16} | {name: value})
    if name != "dim":
        with pytest.raises(ValueError, match=rf"rope: .*{name}.* must be .*, got "):
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
