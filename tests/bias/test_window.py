"""Window: the index by hand, tables of Swin, Swin V2 and BEiT, windows of any size, and what it refuses."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.attention import attention_weights
from posenc.bias.window import Window, log_coordinates, window
from posenc.models.swin import relative_index, resize_window
from posenc.positions import grid_positions
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [
    {"continuous": False},
    {"continuous": False, "window": (2, 3)},
    {"continuous": False, "window": (2, 1, 3)},
    {"continuous": False, "window": (9,)},
    {"continuous": True, "window": (3, 2)},
    {"continuous": True, "window": (4, 4), "pretrained_window": (2, 1)},
]
REFUSED = {"fractional"}
TABLE, NETWORK = {"weight"}, {"hidden_weight", "hidden_bias", "out_weight"}


def LEARNED(options):
    return {False: TABLE, True: NETWORK}.get(options.get("continuous"), TABLE | NETWORK)


def AXES(options):
    return len(options.get("window", (7, 7)))


TEXT = False


def oracle(
    positions,
    key_positions,
    weight=None,
    hidden_weight=None,
    hidden_bias=None,
    out_weight=None,
    window=(7, 7),
    pretrained_window=None,
):
    """Work out the definition with 60 digits, one pair at a time."""
    heads = len(out_weight) if weight is None else weight.shape[1]
    bias = np.zeros((heads, len(positions), len(key_positions)))
    for t, s in np.ndindex(bias.shape[1:]):
        row, offset = 0, []
        for m, n, size in zip(positions[t], key_positions[s], window, strict=True):
            offset.append(min(max(int(m) - int(n), 1 - size), size - 1))
            row = row * (2 * size - 1) + offset[-1] + size - 1
        if weight is None:
            bias[:, t, s] = network(offset, hidden_weight, hidden_bias, out_weight, pretrained_window or window)
        else:
            bias[:, t, s] = weight[row]
    return bias


def network(offset, hidden_weight, hidden_bias, out_weight, trained):
    with mpmath.workdps(60):
        x = []
        for step, size in zip(offset, trained, strict=True):
            z = mpmath.mpf(8) * step / max(size - 1, 1)
            x.append(mpmath.sign(z) * mpmath.log(1 + abs(z), 2) / 3)
        hidden = [
            max(mpmath.fdot(map(float, w), x) + float(b), 0) for w, b in zip(hidden_weight, hidden_bias, strict=True)
        ]
        return [float(16 / (1 + mpmath.exp(-mpmath.fdot(map(float, w), hidden)))) for w in out_weight]


def exercise(module):
    module.log_coordinates((2, 3))
    module.Window(3, (2, 3)).score_mod(torch.zeros(5, 2, dtype=torch.long))


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
sizes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def table_of(size, heads=2, seed=0):
    return np.random.default_rng(seed).normal(size=(math.prod(2 * n - 1 for n in size), heads))


def cells(size):
    return grid_positions(*size).numpy()


# Values worked by hand


def test_the_bias_by_hand():
    # one row of 3 columns: offsets -2 .. 2 are rows 0 .. 4 of the table
    weight = np.array([[10.0], [20.0], [30.0], [40.0], [50.0]])
    bias = window(cells((1, 3)), cells((1, 3)), weight, window=(1, 3))
    np.testing.assert_array_equal(bias, [[[30, 20, 10], [40, 30, 20], [50, 40, 30]]])


def test_an_offset_beyond_the_window_counts_as_its_edge():
    weight = table_of((2, 3))
    far, edge = (window([place], [[0, 0]], weight, window=(2, 3)) for place in ([9, -7], [1, -2]))
    np.testing.assert_array_equal(far, edge)
    np.testing.assert_array_equal(far[:, 0, 0], weight[10])


def test_log_coordinates_by_hand():
    # a window of 4: z = 8/3 offset; the corner is at log2(9) / log2(8), whatever the size
    coordinates = log_coordinates((4, 4))
    np.testing.assert_allclose(coordinates[0, 0], [-math.log(9, 8)] * 2, rtol=1e-15)
    np.testing.assert_allclose(coordinates[3, 4], [0, math.log(8 / 3 + 1, 8)], rtol=1e-15)


def test_the_continuous_bias_by_hand():
    # one hidden unit: relu(2 x_y - 1), then 16 sigmoid(3 relu); dy = 1 of a window of 2: z = 8, x = log8(9)
    learned = {"hidden_weight": [[2.0, 0.0]], "hidden_bias": [-1.0], "out_weight": [[3.0]]}
    bias = window([[1, 0], [0, 0]], [[0, 0], [1, 0]], window=(2, 1), **learned)
    high = 16 / (1 + math.exp(-3 * (2 * math.log(9, 8) - 1)))
    np.testing.assert_allclose(bias, [[[high, 8], [8, 8]]], rtol=1e-14)


def test_a_pretrained_window_is_the_measure_of_a_larger_one():
    # steps of a window of 8 by 8 in the measure of the 4 by 4 that the network knows
    inside = log_coordinates((8, 8), (4, 4))[4:11, 4:11]
    np.testing.assert_array_equal(inside, log_coordinates((4, 4)))
    assert log_coordinates((8, 8), (4, 4)).max() > log_coordinates((8, 8)).max()


@vectors("swinv2_log_coords")
def test_the_log_coordinates_equal_those_of_timm(vector):
    params = vector["params"]
    made = log_coordinates(params["window"], params["pretrained_window"])  # 0 where it is the window itself
    assert_agrees(vector, made, vector["expected"]["table"])


# What holds in every window


@given(size=sizes, seed=st.integers(0, 9))
@exactly
def test_the_bias_of_a_window_is_its_table_at_the_index(size, seed):
    weight, places = table_of(size, seed=seed), cells(size)
    np.testing.assert_array_equal(window(places, places, weight, window=size), weight.T[:, relative_index(size)])


@given(size=sizes, shift=st.integers(-1000, 1000), seed=st.integers(0, 9))
@exactly
def test_every_window_of_an_image_has_the_same_bias(size, shift, seed):
    weight, places = table_of(size), cells(size)
    moved = places + np.random.default_rng(seed).integers(-100, 100, len(size)) + shift
    expected = window(places, places, weight, window=size)
    np.testing.assert_array_equal(window(moved, moved, weight, window=size), expected)


@given(size=sizes)
@exactly
def test_turning_the_table_round_swaps_queries_and_keys(size):
    weight, places = table_of(size), cells(size)
    turned = window(places, places, weight[::-1], window=size)
    np.testing.assert_array_equal(turned, window(places, places, weight, window=size).swapaxes(-1, -2))


@given(size=sizes)
@exactly
def test_log_coordinates_are_odd_and_end_at_log8_of_9(size):
    coordinates = log_coordinates(size)
    flipped = coordinates[tuple(slice(None, None, -1) for _ in size)]
    np.testing.assert_array_equal(flipped, -coordinates)
    ends = [math.log(9, 8) if n > 1 else 0 for n in size]
    np.testing.assert_allclose(coordinates.reshape(-1, len(size)).max(axis=0), ends, rtol=1e-15)


def test_past_and_future_up_and_down_differ():
    places = cells((3, 3))
    bias = window(places, places, table_of((3, 3)), window=(3, 3))[0]
    assert np.abs(bias - bias.T).max() > 0.1


def test_patches_without_rows_and_columns_are_refused():
    # else patch i would stand at (i, i), on the diagonal of an image of 49 rows
    encoding, line, places = Window(4, (7, 7)), torch.arange(49), grid_positions(7, 7)
    said = r"window: positions must be whole \(t, 2\) or \(b, t, 2\), got .*64 \(49,\); take grid_positions\(7, 7\)"
    for call in (encoding, encoding.score_mod):
        for tokens in ((line,), (places, line)):
            with pytest.raises(ValueError, match=said):
                call(*tokens)
    with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
        window(line, line, table_of((7, 7)))


def test_a_window_of_one_axis_takes_a_line_of_places():
    weight, line = table_of((4,)), torch.arange(5)
    encoding = Window(2, (4,))
    encoding.load_state_dict({"weight": torch.tensor(weight)})
    expected = weight.T[:, np.subtract.outer(line, line).clip(-3, 3) + 3]
    np.testing.assert_array_equal(window(line, line, weight, window=(4,)), expected)
    torch.testing.assert_close(encoding(line[:, None]).detach(), torch.tensor(expected).float())


def test_a_window_of_one_token_divides_by_nothing():
    np.testing.assert_array_equal(log_coordinates((1, 1)), [[[0, 0]]])
    np.testing.assert_allclose(log_coordinates((2, 2), (1, 1))[0, 0], [-math.log(9, 8)] * 2)
    encoding = Window(2, (1, 1), continuous=True)
    one = torch.zeros(1, 2, dtype=torch.long)
    torch.testing.assert_close(encoding(one, one), torch.full((2, 1, 1), 8.0))


# A table and a network for another window


def test_a_resized_table_loads_into_the_larger_window():
    small, large = Window(4, (3, 3)), Window(4, (5, 6))
    large.load_state_dict({"weight": resize_window(small.weight.detach(), (3, 3), (5, 6))})


def test_a_continuous_bias_needs_no_resizing():
    small = Window(4, (4, 4), continuous=True)
    torch.nn.init.normal_(small.out_weight)
    large = Window(4, (8, 8), continuous=True, pretrained_window=(4, 4))
    large.load_state_dict(small.state_dict())
    places = grid_positions(4, 4)
    torch.testing.assert_close(large(places), small(places))
    other = Window(4, (8, 8), continuous=True)
    other.load_state_dict(small.state_dict())
    assert (other(places) - small(places)).abs().max() > 0.1


# Peers


@pytest.mark.parametrize("size", [(7, 7), (2, 3)], ids=str)
def test_the_coordinates_equal_those_of_timm_in_any_window(size):
    theirs = peer("timm.layers.pos_embed_rel").gen_relative_log_coords(size, (6, 4))
    np.testing.assert_allclose(log_coordinates(size, (6, 4)), theirs, atol=1e-6)


def test_the_bias_equals_that_of_timm():
    theirs = peer("timm.layers.pos_embed_rel").RelPosBias((4, 6), 3)
    ours = Window(3, (4, 6))
    ours.load_state_dict({"weight": theirs.relative_position_bias_table})
    torch.testing.assert_close(ours(grid_positions(4, 6)), theirs.get_bias()[0])


def test_the_continuous_bias_equals_that_of_timm():
    theirs = peer("timm.layers.pos_embed_rel").RelPosMlp(
        (4, 6), 3, hidden_dim=512, mode="swin", pretrained_window_size=(3, 5)
    )
    ours = Window(3, (4, 6), continuous=True, pretrained_window=(3, 5))
    mlp = theirs.eval().mlp
    learned = {"hidden_weight": mlp.fc1.weight, "hidden_bias": mlp.fc1.bias, "out_weight": mlp.fc2.weight}
    ours.load_state_dict(learned)
    torch.testing.assert_close(ours(grid_positions(4, 6)), theirs.get_bias()[0])


def test_log_coordinates_of_one_token_are_not_a_number_in_the_functions_of_timm_but_in_its_swin_v2():
    timm = peer("timm.layers.pos_embed_rel")
    assert timm.gen_relative_log_coords((1, 3)).isnan().any()
    assert np.isfinite(log_coordinates((1, 3))).all()


def test_the_bias_equals_that_of_swin_in_transformers():
    theirs = peer("transformers.models.swin.modeling_swin").SwinRelativePositionBias(3, (7, 7))
    torch.nn.init.normal_(theirs.relative_position_bias_table)
    ours = Window(3)
    ours.load_state_dict({"weight": theirs.relative_position_bias_table})
    torch.testing.assert_close(ours(grid_positions(7, 7)), theirs()[0])


@pytest.mark.parametrize("trained", [(0, 0), (4, 4)], ids=str)
def test_the_continuous_bias_equals_that_of_swin_v2_in_transformers(trained):
    swin = peer("transformers.models.swinv2.modeling_swinv2")
    theirs = swin.Swinv2SelfAttention(swin.Swinv2Config(), 6, 3, 8, trained)
    torch.nn.init.normal_(theirs.continuous_position_bias_mlp[2].weight, std=0.3)
    table = theirs.continuous_position_bias_mlp(theirs.relative_coords_table).view(-1, 3)
    expected = 16 * torch.sigmoid(table[theirs.relative_position_index]).permute(2, 0, 1)
    ours = Window(3, (8, 8), continuous=True, pretrained_window=trained)
    mlp = theirs.continuous_position_bias_mlp
    learned = {"hidden_weight": mlp[0].weight, "hidden_bias": mlp[0].bias, "out_weight": mlp[2].weight}
    ours.load_state_dict(learned)
    made = ours(grid_positions(8, 8))
    torch.testing.assert_close(made, expected.reshape(3, 64, 64), atol=1e-5, rtol=1e-5)


# Gradients


def test_a_row_of_the_table_learns_from_every_pair_at_its_offset():
    encoding = Window(1, (2, 3))
    encoding(grid_positions(2, 3)).sum().backward()
    np.testing.assert_array_equal(encoding.weight.grad[:, 0], np.bincount(relative_index((2, 3)).ravel()))


@pytest.mark.parametrize("name", sorted(NETWORK))
def test_gradients_of_the_network_are_those_of_the_formula(name):
    torch.manual_seed(0)
    encoding, places, step = Window(2, (2, 2), continuous=True).double(), cells((2, 2)), 1e-5
    torch.nn.init.normal_(encoding.out_weight)
    torch.nn.init.normal_(encoding.hidden_bias)
    encoding(torch.from_numpy(places)).square().sum().backward()
    learned = {n: value.detach().numpy() for n, value in encoding.named_parameters()}
    for index in list(np.ndindex(learned[name].shape))[:4]:
        totals = []
        for sign in (1, -1):
            moved = learned | {name: learned[name].copy()}
            moved[name][index] += sign * step
            totals.append(np.square(window(places, places, **moved, window=(2, 2))).sum())
        actual = getattr(encoding, name).grad[index].item()
        assert actual == pytest.approx((totals[0] - totals[1]) / (2 * step), rel=1e-4, abs=1e-4)


# The module


def test_what_is_learned_starts_normal_with_deviation_002():
    torch.manual_seed(0)
    for encoding in (Window(50), Window(50, continuous=True)):
        for name, parameter in encoding.named_parameters():
            spread = 0 if name == "hidden_bias" else 0.02
            assert parameter.std().item() == pytest.approx(spread, rel=0.05)
            assert parameter.mean().item() == pytest.approx(0, abs=0.003)


def test_the_continuous_bias_starts_near_8():
    torch.manual_seed(0)
    bias = Window(8, continuous=True)(grid_positions(7, 7))
    assert (bias - 8).abs().max() < 0.2


def test_decoding_token_by_token_equals_the_whole():
    encoding, keys = Window(4, (3, 3)), grid_positions(3, 3)
    steps = [encoding(keys[p : p + 1], keys) for p in range(9)]
    assert torch.equal(torch.cat(steps, dim=1), encoding(keys))


@pytest.mark.parametrize("continuous", [False, True])
def test_one_token_and_none(continuous):
    encoding, none = Window(4, (2, 2), continuous), torch.zeros(0, 2, dtype=torch.long)
    one = torch.tensor([[1, 0]])
    assert encoding(one, one).shape == (4, 1, 1)
    assert encoding(none, torch.zeros(3, 2, dtype=torch.long)).shape == (4, 0, 3)
    assert encoding(torch.zeros(5, 3, 2, dtype=torch.long), none).shape == (5, 4, 3, 0)
    assert window(np.zeros((0, 2)), [[0, 0]], table_of((2, 2)), window=(2, 2)).shape == (2, 0, 1)


def test_one_window_of_places_serves_a_batch_of_the_other():
    encoding, places = Window(4, (3, 3)), grid_positions(3, 3)
    batch = torch.stack([places, places.flip(0) + 1])
    expected = torch.stack([encoding(places, row) for row in batch])
    assert torch.equal(encoding(places, batch), expected)
    expected = torch.stack([encoding(row, places) for row in batch])
    assert torch.equal(encoding(batch, places), expected)


def test_unsigned_places_do_not_wrap_around():
    encoding, line, zero = Window(2, (5,)), torch.arange(5)[:, None], torch.zeros((), dtype=torch.long)
    expected = encoding(line)
    assert torch.equal(encoding(line.byte()), expected)
    made = encoding.score_mod(line.byte())(torch.zeros(()), zero, zero, zero, zero + 4)
    assert torch.equal(made, expected[0, 0, 4])
    weight = encoding.weight.detach().numpy()
    np.testing.assert_array_equal(window(line.byte(), line.byte(), weight, window=(5,)), expected.detach())


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("continuous", [False, True])
def test_flex_attention_takes_the_score_mod(continuous):
    from torch.nn.attention.flex_attention import flex_attention

    encoding, (q, k, v) = Window(4, (2, 3), continuous), torch.randn(3, 2, 4, 6, 16)
    places = grid_positions(2, 3)
    with torch.no_grad():
        made = flex_attention(q, k, v, score_mod=encoding.score_mod(places))
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=encoding(places))
    torch.testing.assert_close(made, expected)


def test_the_bias_is_float32_in_every_dtype_of_what_is_learned():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for continuous in (False, True):
            assert Window(2, (2,), continuous).to(dtype)(torch.arange(3)[:, None]).dtype == torch.float32


def test_one_batch_of_one_serves_as_well():
    batch = torch.zeros(1, 3, 2, dtype=torch.long)
    assert Window(2)(batch, batch).shape == (1, 2, 3, 3)


def test_one_row_serves_a_batch():
    encoding, zero = Window(2, (3, 3)), torch.zeros((), dtype=torch.long)
    one, rows = torch.randint(0, 3, (1, 4, 2)), torch.randint(0, 3, (3, 5, 2))
    for m, n in ((one, rows), (rows, one)):
        made = encoding(m, n)
        assert torch.equal(made, encoding(*(p.expand(3, -1, -1) for p in (m, n))))
        modify = encoding.score_mod(m, n)
        for b, h, t, s in np.ndindex(made.shape):
            assert modify(torch.zeros(()), zero + b, zero + h, zero + t, zero + s) == made[b, h, t, s]
    modify = encoding.score_mod(one)  # the batch of the scores is larger than that of the positions
    assert modify(torch.zeros(()), zero + 7, zero + 1, zero, zero + 2) == encoding(one)[0, 1, 0, 2]


def test_attention_tells_coordinates_of_two_tokens_from_the_positions_of_a_batch_of_two():
    encoding, places = Window(2, (2, 1)), grid_positions(2, 1)
    q = torch.randn(2, 2, 2, 4)  # as many images as tokens, as tokens have coordinates
    seen = attention_weights(q, q, encoding, positions=places, key_positions=places, causal=True) > 0
    assert torch.equal(seen, torch.ones(2, 2).tril().bool().expand(2, 2, 2, 2))


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("heads", [0, -1])
def test_a_number_of_heads_that_is_none_is_refused(heads):
    with pytest.raises(ValueError, match=f"window: heads must be 1 or more, got {heads}"):
        Window(heads)


@pytest.mark.parametrize(
    "wrong",
    [torch.zeros(3, 2), torch.zeros(5, 3, dtype=torch.long), torch.zeros(3, 5, dtype=torch.long)],
    ids=["floats", "3 coordinates", "a batch of text"],
)
def test_positions_that_are_no_places_are_refused(wrong):
    encoding, good = Window(2), torch.zeros(3, 2, dtype=torch.long)
    for call in (encoding, encoding.score_mod):
        for tokens in ((wrong,), (good, wrong)):
            with pytest.raises(ValueError, match=r"window: positions must be whole \(t, 2\) or \(b, t, 2\), got torch"):
                call(*tokens)


def test_a_lone_query_needs_keys():
    encoding, one = Window(2, (3, 3)), torch.tensor([[1, 2]])
    for lone in (one, one.expand(2, 1, 2)):
        for call in (encoding, encoding.score_mod):
            with pytest.raises(ValueError, match="window: key_positions must be given for a lone query, got None"):
                call(lone)
            call(lone, lone)


def test_two_batches_are_refused_by_torch():
    with pytest.raises(RuntimeError, match="size"):
        Window(2)(torch.zeros(2, 3, 2, dtype=torch.long), torch.zeros(3, 3, 2, dtype=torch.long))


def test_places_between_the_cells_are_refused():
    with pytest.raises(ValueError, match=r"window: positions must be whole, got \[\[0.5, 1\]\] and \[\[0, 1\]\]"):
        window([[0.5, 1]], [[0, 1]], table_of((2, 2)), window=(2, 2))


@pytest.mark.parametrize("wrong", [[[[0, 1], [1, 1]]], [0, 1]], ids=str)
def test_the_numpy_function_takes_one_row_of_places(wrong):
    for m, n in ((wrong, [[0, 1]]), ([[0, 1]], wrong)):
        with pytest.raises(ValueError, match="cannot reshape"):
            window(m, n, table_of((2, 2)), window=(2, 2))


def test_a_table_of_another_window_is_refused():
    with pytest.raises(ValueError, match="window: weight must be of 9 rows, got 25; resize it"):
        window([[0, 1]], [[0, 1]], table_of((3, 3)), window=(2, 2))


def test_a_pretrained_window_of_other_axes_is_refused_by_python():
    for call in (lambda: Window(2, (3, 3), True, (3,)), lambda: log_coordinates((3, 3), (3, 3, 3))):
        with pytest.raises(ValueError, match="zip"):
            call()
