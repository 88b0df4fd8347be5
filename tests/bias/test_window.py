"""Window: the index by hand, tables of Swin, Swin V2 and BEiT, windows of any size, and what it refuses."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._pytree import tree_leaves

from posenc.attention import attention_weights
from posenc.bias.window import (
    Window,
    log_coordinates,
    relative_index,
    resize_window,
    window,
    window_positions,
)
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/doors.py)

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


def TEXT(options):
    return AXES(options) == 1


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
    module.window_positions((2, 3))
    module.relative_index((2, 3))
    module.resize_window(torch.zeros(9, 2), (2, 2), (3, 3))


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
sizes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def table_of(size, heads=2, seed=0):
    return np.random.default_rng(seed).normal(size=(math.prod(2 * n - 1 for n in size), heads))


def loaded(weight, size):
    encoding = Window(weight.shape[1], size).double()
    encoding.load_state_dict({"weight": torch.as_tensor(weight, dtype=torch.float64)})
    return encoding


# Values worked by hand


def test_places_run_row_by_row():
    expected = [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    np.testing.assert_array_equal(window_positions((2, 3)), expected)


def test_the_index_by_hand():
    # (dy + 1) * 5 + dx + 2, from the query at (1, 0) to the six tokens of a window of 2 by 3
    np.testing.assert_array_equal(relative_index((2, 3))[3], [12, 11, 10, 7, 6, 5])


def test_the_bias_by_hand():
    # one row of 3 columns: offsets -2 .. 2 are rows 0 .. 4 of the table
    weight = np.array([[10.0], [20.0], [30.0], [40.0], [50.0]])
    bias = window(window_positions((1, 3)), window_positions((1, 3)), weight, window=(1, 3))
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


@vectors("swin_relative_position_index")
def test_the_index_equals_that_of_timm(vector):
    params = vector["params"]
    index = relative_index(params["window"], class_token=params["class_token"])
    assert_agrees(vector, index, vector["expected"]["index"])


@vectors("swinv2_log_coords")
def test_the_log_coordinates_equal_those_of_timm(vector):
    params = vector["params"]
    trained = params["pretrained_window"] if any(params["pretrained_window"]) else None
    assert_agrees(vector, log_coordinates(params["window"], trained), vector["expected"]["table"])


# What holds in every window


@given(size=sizes)
@exactly
def test_every_row_of_the_table_is_used_and_no_other(size):
    assert set(relative_index(size).ravel()) == set(range(math.prod(2 * n - 1 for n in size)))


@given(size=sizes, seed=st.integers(0, 9))
@exactly
def test_the_bias_of_a_window_is_its_table_at_the_index(size, seed):
    weight, places = table_of(size, seed=seed), window_positions(size)
    np.testing.assert_array_equal(window(places, places, weight, window=size), weight.T[:, relative_index(size)])


@given(size=sizes, shift=st.integers(-1000, 1000), seed=st.integers(0, 9))
@exactly
def test_every_window_of_an_image_has_the_same_bias(size, shift, seed):
    weight, places = table_of(size), window_positions(size)
    moved = places + np.random.default_rng(seed).integers(-100, 100, len(size)) + shift
    expected = window(places, places, weight, window=size)
    np.testing.assert_array_equal(window(moved, moved, weight, window=size), expected)


@given(size=sizes)
@exactly
def test_turning_the_table_round_swaps_queries_and_keys(size):
    weight, places = table_of(size), window_positions(size)
    turned = window(places, places, weight[::-1], window=size)
    np.testing.assert_array_equal(turned, window(places, places, weight, window=size).mT)


@given(size=sizes)
@exactly
def test_log_coordinates_are_odd_and_end_at_log8_of_9(size):
    coordinates = log_coordinates(size)
    flipped = coordinates[tuple(slice(None, None, -1) for _ in size)]
    np.testing.assert_array_equal(flipped, -coordinates)
    ends = [math.log(9, 8) if n > 1 else 0 for n in size]
    np.testing.assert_allclose(coordinates.reshape(-1, len(size)).max(axis=0), ends, rtol=1e-15)


def test_past_and_future_up_and_down_differ():
    places = window_positions((3, 3))
    bias = window(places, places, table_of((3, 3)), window=(3, 3))[0]
    assert np.abs(bias - bias.T).max() > 0.1


def test_patches_without_rows_and_columns_are_refused():
    # else patch i would stand at (i, i), on the diagonal of an image of 49 rows
    encoding, line, places = Window(4, (7, 7)), torch.arange(49), torch.from_numpy(window_positions((7, 7)))
    said = r"window: {} must be .*\(t, 2\).*, got .*64 \(49,\); .*window_positions"
    for call in (encoding, encoding.score_mod, lambda m, n=line: window(m, n, table_of((7, 7)))):
        with pytest.raises(ValueError, match=said.format("positions")):
            call(line)
        with pytest.raises(ValueError, match=said.format("key_positions")):
            call(places, line)


def test_a_window_of_one_axis_takes_a_line():
    weight, line = table_of((4,)), np.arange(5)
    expected = window(line[:, None], line[:, None], weight, window=(4,))
    np.testing.assert_array_equal(window(line, line, weight, window=(4,)), expected)
    for positions in (torch.tensor(line), torch.tensor(line)[:, None]):
        torch.testing.assert_close(loaded(weight, (4,))(positions).detach(), torch.tensor(expected).float())


def test_places_of_numpy_are_refused_with_what_makes_a_tensor_of_them():
    said = r"positions must be a tensor .*, got numpy array int64 \(49, 2\); torch.from_numpy\(window_positions"
    with pytest.raises(ValueError, match=said):
        Window(4)(window_positions((7, 7)))


def test_a_window_of_one_token_divides_by_nothing():
    np.testing.assert_array_equal(log_coordinates((1, 1)), [[[0, 0]]])
    np.testing.assert_allclose(log_coordinates((2, 2), (1, 1))[0, 0], [-math.log(9, 8)] * 2)
    encoding = Window(2, (1, 1), continuous=True)
    torch.testing.assert_close(encoding(torch.zeros(1, 2, dtype=torch.long)), torch.full((2, 1, 1), 8.0))


# The class token of BEiT


def test_a_class_token_adds_three_rows_at_the_end():
    plain, whole = relative_index((2, 3)), relative_index((2, 3), class_token=True)
    np.testing.assert_array_equal(whole[1:, 1:], plain)
    assert (whole[0, 0], set(whole[0, 1:]), set(whole[1:, 0])) == (17, {15}, {16})


def test_a_table_with_a_class_token_is_read_by_its_index():
    weight = table_of((2, 3))
    longer = np.concatenate([weight, [[7.0, 7.0], [8.0, 8.0], [9.0, 9.0]]])
    bias, places = longer.T[:, relative_index((2, 3), class_token=True)], window_positions((2, 3))
    np.testing.assert_array_equal(bias[:, 1:, 1:], window(places, places, weight, window=(2, 3)))
    np.testing.assert_array_equal(bias[0, :2, :2], [[9, 7], [8, weight[7, 0]]])


# Tables for another window


def test_a_table_of_the_same_window_is_unchanged():
    weight = torch.randn(15 + 3, 4)
    torch.testing.assert_close(resize_window(weight, (2, 3), (2, 3)), weight)


def test_a_constant_table_stays_constant():
    torch.testing.assert_close(resize_window(torch.full((9, 2), 3.0), (2, 2), (5, 4)), torch.full((63, 2), 3.0))


def test_rows_of_a_class_token_are_kept():
    weight = torch.randn(9 + 3, 4)
    resized = resize_window(weight, (2, 2), (4, 3))
    assert resized.shape == (35 + 3, 4)
    assert torch.equal(resized[35:], weight[9:])
    assert torch.equal(resized[:35], resize_window(weight[:9], (2, 2), (4, 3)))


def test_the_middle_of_a_table_stays_in_the_middle():
    # a resized table is as symmetric as it was: rows from the end mirror rows from the start
    weight = torch.randn(25, 2, dtype=torch.float64)
    even = resize_window(weight + weight.flip(0), (3, 3), (6, 5))
    torch.testing.assert_close(even, even.flip(0))


def test_heads_are_resized_apart():
    weight = torch.randn(25, 3)
    resized = resize_window(weight, (3, 3), (4, 6))
    for head in range(3):
        torch.testing.assert_close(
            resized[:, head : head + 1], resize_window(weight[:, head : head + 1], (3, 3), (4, 6))
        )


def test_a_resized_table_has_the_dtype_of_the_old_and_its_gradients():
    weight = torch.randn(25, 2).bfloat16().requires_grad_()
    resized = resize_window(weight, (3, 3), (4, 4))
    assert resized.dtype == torch.bfloat16
    assert torch.equal(resized, resize_window(weight.float(), (3, 3), (4, 4)).bfloat16())
    resized.sum().backward()
    assert weight.grad.isfinite().all()


def test_a_resized_table_loads_into_the_larger_window():
    small, large = Window(4, (3, 3)), Window(4, (5, 6))
    large.load_state_dict({"weight": resize_window(small.weight.detach(), (3, 3), (5, 6))})


def test_a_continuous_bias_needs_no_resizing():
    small = Window(4, (4, 4), continuous=True)
    torch.nn.init.normal_(small.out_weight)
    large = Window(4, (8, 8), continuous=True, pretrained_window=(4, 4))
    large.load_state_dict(small.state_dict())
    places = torch.from_numpy(window_positions((4, 4)))
    torch.testing.assert_close(large(places), small(places))
    other = Window(4, (8, 8), continuous=True)
    other.load_state_dict(small.state_dict())
    assert (other(places) - small(places)).abs().max() > 0.1


# Peers


@pytest.mark.parametrize("size", [(7, 7), (2, 3), (1, 5)], ids=str)
@pytest.mark.parametrize("class_token", [False, True])
def test_the_index_and_the_coordinates_equal_those_of_timm_in_any_window(size, class_token):
    timm = peer("timm.layers.pos_embed_rel")
    theirs = timm.gen_relative_position_index(size, class_token=class_token)
    np.testing.assert_array_equal(relative_index(size, class_token), theirs)
    if min(size) > 1:
        theirs = timm.gen_relative_log_coords(size, (6, 4))
        np.testing.assert_allclose(log_coordinates(size, (6, 4)), theirs, atol=1e-6)


def test_the_bias_equals_that_of_timm():
    theirs = peer("timm.layers.pos_embed_rel").RelPosBias((4, 6), 3)
    ours = Window(3, (4, 6))
    ours.load_state_dict({"weight": theirs.relative_position_bias_table})
    torch.testing.assert_close(ours(torch.from_numpy(window_positions((4, 6)))), theirs.get_bias()[0])


def test_the_continuous_bias_equals_that_of_timm():
    theirs = peer("timm.layers.pos_embed_rel").RelPosMlp(
        (4, 6), 3, hidden_dim=512, mode="swin", pretrained_window_size=(3, 5)
    )
    ours = Window(3, (4, 6), continuous=True, pretrained_window=(3, 5))
    mlp = theirs.eval().mlp
    learned = {"hidden_weight": mlp.fc1.weight, "hidden_bias": mlp.fc1.bias, "out_weight": mlp.fc2.weight}
    ours.load_state_dict(learned)
    torch.testing.assert_close(ours(torch.from_numpy(window_positions((4, 6)))), theirs.get_bias()[0])


def test_log_coordinates_of_one_token_are_not_a_number_in_the_functions_of_timm_but_in_its_swin_v2():
    timm = peer("timm.layers.pos_embed_rel")
    assert timm.gen_relative_log_coords((1, 3)).isnan().any()
    assert np.isfinite(log_coordinates((1, 3))).all()


@pytest.mark.parametrize("new", [(6, 6), (5, 7), (3, 3)], ids=str)
def test_the_linear_table_equals_that_of_beit_in_transformers(new):
    beit = peer("transformers.models.beit.modeling_beit")
    config = beit.BeitConfig(image_size=64, patch_size=16, num_attention_heads=3, hidden_size=48)
    theirs = beit.BeitRelativePositionBias(config)
    torch.nn.init.normal_(theirs.relative_position_bias_table)
    table = resize_window(theirs.relative_position_bias_table, (4, 4), new, mode="linear")
    made = table.mT[:, torch.from_numpy(relative_index(new, class_token=True))]
    torch.testing.assert_close(made, theirs(new).squeeze(0))
    cubic = resize_window(theirs.relative_position_bias_table, (4, 4), new)
    assert (cubic - table).abs().max() > 0.01


def test_a_linear_table_by_hand():
    # one row of 2 columns, offsets -1 0 1, for 3 columns: five samples, of pixels (i + 1/2) 3/5 - 1/2
    made = resize_window(torch.tensor([[0.0], [10.0], [30.0]]), (1, 2), (1, 3), mode="linear")
    torch.testing.assert_close(made[:, 0], torch.tensor([0.0, 4.0, 10.0, 22.0, 30.0]))


def test_the_resized_table_equals_timms_simple_one():
    timm, weight = peer("timm.layers.pos_embed_rel"), torch.randn(25 + 3, 4)
    theirs = timm.resize_rel_pos_bias_table_simple(weight, (5, 4), (63 + 3, 4))
    torch.testing.assert_close(resize_window(weight, (3, 3), (5, 4)), theirs)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch about timm
def test_timms_geometric_table_is_another():
    # BEiT's: the old offsets are spaced further apart the farther they are, the near ones keep their bias
    timm, weight = peer("timm.layers.pos_embed_rel"), torch.randn(25, 1)
    theirs = timm.resize_rel_pos_bias_table(weight, (5, 5), (81, 1), old_window_size=(3, 3)).view(9, 9)
    ours = resize_window(weight, (3, 3), (5, 5)).view(9, 9)
    torch.testing.assert_close(theirs[3:6, 3:6], weight.view(5, 5)[1:4, 1:4], atol=1e-4, rtol=0)
    assert (ours[3:6, 3:6] - weight.view(5, 5)[1:4, 1:4]).abs().max() > 0.1


def test_the_bias_equals_that_of_swin_in_transformers():
    theirs = peer("transformers.models.swin.modeling_swin").SwinRelativePositionBias(3, (7, 7))
    torch.nn.init.normal_(theirs.relative_position_bias_table)
    ours = Window(3)
    ours.load_state_dict({"weight": theirs.relative_position_bias_table})
    torch.testing.assert_close(ours(torch.from_numpy(window_positions((7, 7)))), theirs()[0])


@pytest.mark.parametrize("trained", [(0, 0), (4, 4)], ids=str)
def test_the_continuous_bias_equals_that_of_swin_v2_in_transformers(trained):
    swin = peer("transformers.models.swinv2.modeling_swinv2")
    theirs = swin.Swinv2SelfAttention(swin.Swinv2Config(), 6, 3, 8, trained)
    torch.nn.init.normal_(theirs.continuous_position_bias_mlp[2].weight, std=0.3)
    table = theirs.continuous_position_bias_mlp(theirs.relative_coords_table).view(-1, 3)
    expected = 16 * torch.sigmoid(table[theirs.relative_position_index]).permute(2, 0, 1)
    ours = Window(3, (8, 8), continuous=True, pretrained_window=trained if any(trained) else None)
    mlp = theirs.continuous_position_bias_mlp
    learned = {"hidden_weight": mlp[0].weight, "hidden_bias": mlp[0].bias, "out_weight": mlp[2].weight}
    ours.load_state_dict(learned)
    made = ours(torch.from_numpy(window_positions((8, 8))))
    torch.testing.assert_close(made, expected.reshape(3, 64, 64), atol=1e-5, rtol=1e-5)


def test_the_index_equals_that_of_beit_in_transformers():
    beit = peer("transformers.models.beit.modeling_beit")
    theirs = beit.BeitRelativePositionBias.generate_relative_position_index((3, 5))
    np.testing.assert_array_equal(relative_index((3, 5), class_token=True), theirs)


# Gradients


def test_a_row_of_the_table_learns_from_every_pair_at_its_offset():
    encoding = Window(1, (2, 3))
    encoding(torch.from_numpy(window_positions((2, 3)))).sum().backward()
    np.testing.assert_array_equal(encoding.weight.grad[:, 0], np.bincount(relative_index((2, 3)).ravel()))


@pytest.mark.parametrize("name", sorted(NETWORK))
def test_gradients_of_the_network_are_those_of_the_formula(name):
    torch.manual_seed(0)
    encoding, places, step = Window(2, (2, 2), continuous=True).double(), window_positions((2, 2)), 1e-5
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
    bias = Window(8, continuous=True)(torch.from_numpy(window_positions((7, 7))))
    assert (bias - 8).abs().max() < 0.2


def test_decoding_token_by_token_equals_the_whole():
    encoding, keys = Window(4, (3, 3)), torch.from_numpy(window_positions((3, 3)))
    steps = [encoding(keys[p : p + 1], keys) for p in range(9)]
    assert torch.equal(torch.cat(steps, dim=1), encoding(keys))


@pytest.mark.parametrize("continuous", [False, True])
def test_one_token_and_none(continuous):
    encoding, none = Window(4, (2, 2), continuous), torch.zeros(0, 2, dtype=torch.long)
    assert encoding(torch.tensor([[1, 0]])).shape == (4, 1, 1)
    assert encoding(none, torch.zeros(3, 2, dtype=torch.long)).shape == (4, 0, 3)
    assert encoding(torch.zeros(5, 3, 2, dtype=torch.long), none).shape == (5, 4, 3, 0)
    assert window(np.zeros((0, 2)), [[0, 0]], table_of((2, 2)), window=(2, 2)).shape == (2, 0, 1)


def test_one_window_of_places_serves_a_batch_of_the_other():
    encoding, places = Window(4, (3, 3)), torch.from_numpy(window_positions((3, 3)))
    batch = torch.stack([places, places.flip(0) + 1])
    expected = torch.stack([encoding(places, row) for row in batch])
    assert torch.equal(encoding(places, batch), expected)
    expected = torch.stack([encoding(row, places) for row in batch])
    assert torch.equal(encoding(batch, places), expected)


def test_unsigned_places_do_not_wrap_around():
    encoding, bytes_ = Window(2, (5,)), torch.arange(5, dtype=torch.uint8)
    assert torch.equal(encoding(bytes_), encoding(torch.arange(5)))
    zero = torch.zeros((), dtype=torch.long)
    made = encoding.score_mod(bytes_)(torch.zeros(()), zero, zero, zero, zero + 4)
    assert torch.equal(made, encoding(torch.arange(5))[0, 0, 4])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("continuous", [False, True])
def test_flex_attention_takes_the_score_mod(continuous):
    from torch.nn.attention.flex_attention import flex_attention

    encoding, (q, k, v) = Window(4, (2, 3), continuous), torch.randn(3, 2, 4, 6, 16)
    places = torch.from_numpy(window_positions((2, 3)))
    with torch.no_grad():
        made = flex_attention(q, k, v, score_mod=encoding.score_mod(places))
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=encoding(places))
    torch.testing.assert_close(made, expected)


def test_the_score_mod_keeps_no_strided_tensor_as_cpu_kernels_read_none():
    modify = Window(2, (4, 5)).score_mod(torch.arange(30).view(15, 2)[::2])
    kept = tree_leaves([cell.cell_contents for cell in modify.__closure__])
    tensors = [value for value in kept if isinstance(value, torch.Tensor)]
    assert tensors
    assert all(tensor.is_contiguous() for tensor in tensors)


def test_the_bias_is_float32_in_every_dtype_of_what_is_learned():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for continuous in (False, True):
            assert Window(2, (2,), continuous).to(dtype)(torch.arange(3)).dtype == torch.float32


def test_printing_a_module_shows_its_arguments():
    said = repr(Window(8, (4, 4), continuous=True, pretrained_window=(2, 2)))
    assert said == "Window(heads=8, window=(4, 4), continuous=True, pretrained_window=(2, 2))"
    assert repr(Window(8)) == "Window(heads=8, window=(7, 7), continuous=False)"


# What is refused

SIZES = [(), (0, 7), (7, -1), (7.0, 7), ("7", 7), (True, 7), (7, None), 7, None, "77", np.array([7, 7])]


@pytest.mark.parametrize("bad", SIZES, ids=repr)
def test_a_window_that_has_no_sizes_is_refused(bad):
    places = [[0, 0]]
    calls = [
        lambda: Window(2, bad),
        lambda: window(places, places, table_of((7, 7)), window=bad),
        lambda: window_positions(bad),
        lambda: relative_index(bad),
        lambda: log_coordinates(bad),
        lambda: resize_window(torch.zeros(9, 2), bad, (2, 2)),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match=r"window: window must be a tuple of .*positive integers.*, got .*\(7, 7\)"
        ):
            call()


@pytest.mark.parametrize("bad", [size for size in SIZES if size is not None] + [(7, 7, 7)], ids=repr)
def test_another_window_without_as_many_sizes_is_refused(bad):
    calls = {
        "pretrained_window": [
            lambda: Window(2, continuous=True, pretrained_window=bad),
            lambda: log_coordinates((7, 7), bad),
        ],
        "new_window": [lambda: resize_window(torch.zeros(169, 2), (7, 7), bad)],
    }
    for name, refused in calls.items():
        for call in refused:
            with pytest.raises(ValueError, match=f"window: {name} must be a tuple of 2 positive integers, got"):
                call()


@pytest.mark.parametrize("given", [(7, 7), (4, 4), 12, "7"], ids=repr)
def test_a_pretrained_window_is_refused_by_a_table_which_has_no_use_for_it(given):
    with pytest.raises(ValueError, match=r"window: pretrained_window must be for continuous, got .*; .*resize_window"):
        Window(2, pretrained_window=given)
    with pytest.raises(ValueError, match=r"window: pretrained_window must be .*, got .*"):
        window([[0, 0]], [[0, 0]], table_of((7, 7)), pretrained_window=given)


def test_the_zero_of_swin_v2_is_none_here():
    with pytest.raises(ValueError, match=r"pretrained_window must be .*, got \[0, 0\]; for Swin V2's 0 pass None"):
        Window(2, continuous=True, pretrained_window=[0, 0])


@pytest.mark.parametrize("heads", [0, -1, 1.5, "8", None, True, float("nan")], ids=repr)
def test_a_number_of_heads_that_is_none_is_refused(heads):
    with pytest.raises(ValueError, match=r"window: heads must be a positive integer, got"):
        Window(heads)


@pytest.mark.parametrize("bad", [None, 1, "yes", np.array([])], ids=repr)
def test_a_switch_that_is_neither_on_nor_off_is_refused(bad):
    with pytest.raises(ValueError, match="window: continuous must be True or False, got"):
        Window(2, continuous=bad)
    with pytest.raises(ValueError, match="window: class_token must be True or False, got"):
        relative_index((2, 2), class_token=bad)


BAD_TENSORS = {
    "list": [[0, 1]],
    "none": None,
    "floats": torch.zeros(3, 2),
    "bool": torch.ones(3, 2, dtype=torch.bool),
    "complex": torch.zeros(3, 2, dtype=torch.complex64),
    "scalar": torch.tensor(3),
    "3 coordinates": torch.zeros(5, 3, dtype=torch.long),
    "text": torch.zeros(3, dtype=torch.long),
    "a batch of text": torch.zeros(3, 5, dtype=torch.long),
    "4 axes": torch.zeros(2, 3, 4, 2, dtype=torch.long),
}


@pytest.mark.parametrize("kind", BAD_TENSORS)
def test_positions_that_are_no_places_are_refused(kind):
    encoding, good = Window(2), torch.zeros(3, 2, dtype=torch.long)
    said = r"must be a tensor of integers \(t, 2\) or \(b, t, 2\), got .*; torch.from_numpy\(window_positions\(\(7, 7"
    for call in (encoding, encoding.score_mod):
        with pytest.raises(ValueError, match="window: positions " + said):
            call(BAD_TENSORS[kind])
        if kind != "none":
            with pytest.raises(ValueError, match="window: key_positions " + said):
                call(good, BAD_TENSORS[kind])


def test_two_batches_are_refused():
    said = r"window: positions and key_positions must be of one batch, got \(2, 3, 2\) and \(3, 3, 2\)"
    for call in (Window(2), Window(2).score_mod):
        with pytest.raises(ValueError, match=said):
            call(torch.zeros(2, 3, 2, dtype=torch.long), torch.zeros(3, 3, 2, dtype=torch.long))


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


BAD_ARRAYS = ["12", None, [[[0, 1]]], [[1j, 0]], [[True, False]], [[0], [1, 2]], {}, [[float("nan"), 0]]]
BAD_ARRAYS += [[[float("inf"), 0]], torch.ones(9, 2, requires_grad=True), 3]


@pytest.mark.parametrize("name", ["positions", "key_positions", "weight", *sorted(NETWORK)])
@pytest.mark.parametrize("bad", BAD_ARRAYS, ids=repr)
def test_arrays_of_another_shape_or_kind_are_refused(name, bad):
    table = {"weight": table_of((2, 2))}
    made = {"hidden_weight": np.zeros((4, 2)), "hidden_bias": np.zeros(4), "out_weight": np.zeros((3, 4))}
    good = {"positions": [[0, 1]], "key_positions": [[0, 1]], "window": (2, 2), **(made if name in NETWORK else table)}
    said = (
        "weight must be given" if name in ("weight", "hidden_weight") and bad is None else f"{name} must be .*numbers"
    )
    with pytest.raises(ValueError, match=f"window: {said}.*, got"):
        window(**good | {name: bad})


def test_places_between_the_cells_are_refused():
    with pytest.raises(ValueError, match=r"window: positions must be whole numbers, got \[\[0.5, 1\]\]"):
        window([[0.5, 1]], [[0, 1]], table_of((2, 2)), window=(2, 2))


def test_a_table_of_another_window_is_refused():
    with pytest.raises(ValueError, match=r"window: weight must be finite numbers \(9, h\), got float64 \(25, 2\)"):
        window([[0, 1]], [[0, 1]], table_of((3, 3)), window=(2, 2))


WEIGHTS = [torch.zeros(8, 2), torch.zeros(9), torch.zeros(9, 2, dtype=torch.long), np.zeros((9, 2)), None, "w"]


@pytest.mark.parametrize("bad", WEIGHTS, ids=repr)
def test_a_table_that_cannot_be_resized_is_refused(bad):
    with pytest.raises(ValueError, match=r"window: weight must be a tensor of floats \(r, h\) of 9 rows, .*got"):
        resize_window(bad, (2, 2), (3, 3))


@pytest.mark.parametrize("surplus", [-1, 1, 2, 4, 14])
def test_rows_that_are_neither_offsets_nor_of_a_class_token_are_refused(surplus):
    # 77 rows are those of (4, 6): with (4, 5), of 63, the rest would pass for 14 rows of class tokens
    said = r"window: weight must be .* of 63 rows, one an offset, or 66 with BEiT's three of a class token, got"
    with pytest.raises(ValueError, match=said):
        resize_window(torch.randn(63 + surplus, 4), (4, 5), (8, 8))


@pytest.mark.parametrize("mode", ["bicubic", "bilinear", "", None, 1, ["cubic"], np.array(["cubic"])], ids=repr)
def test_an_unknown_mode_is_refused(mode):
    with pytest.raises(ValueError, match=r"window: mode must be linear or cubic, got .*; torch says bilinear, bicubic"):
        resize_window(torch.zeros(9, 2), (2, 2), (3, 3), mode=mode)


def test_a_table_of_three_axes_is_not_resized():
    with pytest.raises(ValueError, match="window: window must be a tuple of 2 positive integers, got"):
        resize_window(torch.zeros(27, 2), (2, 2, 2), (3, 3, 3))


def test_attention_tells_coordinates_of_two_tokens_from_the_positions_of_a_batch_of_two():
    encoding, places = Window(2, (2, 1)), torch.from_numpy(window_positions((2, 1)))
    q = torch.randn(2, 2, 2, 4)  # as many images as tokens, as tokens have coordinates
    seen = attention_weights(q, q, encoding, positions=places, key_positions=places, causal=True) > 0
    assert torch.equal(seen, torch.ones(2, 2).tril().bool().expand(2, 2, 2, 2))
