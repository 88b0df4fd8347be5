"""Window: the index and the network by hand, tables of Swin, Swin V2 and timm, windows of any size."""

import math

import mpmath
import numpy as np
import pytest
import torch

from posenc.attention import attention_weights
from posenc.bias.window import Window, log_coordinates, window
from posenc.models.swin import relative_index
from posenc.positions import grid_positions
from tests.bias.alike import assert_one_row_serves_a_batch
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


def table_of(size, heads=2):
    return np.random.default_rng(0).normal(size=(math.prod(2 * n - 1 for n in size), heads))


# Values worked by hand


def test_the_bias_by_hand():
    # one row of 3 columns: offsets -2 .. 2 are rows 0 .. 4 of the table
    weight, grid = [[0.1], [0.2], [0.3], [0.4], [0.5]], [[0, 0], [0, 1], [0, 2]]
    bias = window(grid, grid, weight, window=(1, 3))
    np.testing.assert_array_equal(bias, [[[0.3, 0.2, 0.1], [0.4, 0.3, 0.2], [0.5, 0.4, 0.3]]])


def test_an_offset_beyond_the_window_counts_as_its_edge():
    # (9, -7) as (1, -2), in a window of 2 by 3: row (1 + 1) * 5 + (-2 + 2)
    weight = table_of((2, 3))
    np.testing.assert_array_equal(window([[9, -7]], [[0, 0]], weight, window=(2, 3))[:, 0, 0], weight[10])


def test_a_window_of_one_axis_takes_a_line_of_positions():
    weight, line = table_of((4,)), np.arange(6)
    expected = weight.T[:, np.subtract.outer(line, line).clip(-3, 3) + 3]
    np.testing.assert_array_equal(window(line, line, weight, window=(4,)), expected)


def test_log_coordinates_by_hand():
    # a window of 4: z = 8/3 offset; the corner is at log2(9) / log2(8), whatever the size
    coordinates = log_coordinates((4, 4))
    np.testing.assert_allclose(coordinates[0, 0], [-math.log(9, 8)] * 2, rtol=1e-15)
    np.testing.assert_allclose(coordinates[3, 4], [0, math.log(8 / 3 + 1, 8)], rtol=1e-15)


def test_the_continuous_bias_by_hand():
    # one hidden unit: relu(1.1 x_y - 0.7), then 16 sigmoid(0.3 relu); dy = 1 of a window of 2: z = 8, x = log8(9)
    learned = {"hidden_weight": [[1.1, 0]], "hidden_bias": [-0.7], "out_weight": [[0.3]]}
    bias = window([[1, 0], [0, 0]], [[0, 0], [1, 0]], window=(2, 1), **learned)
    high = 16 / (1 + math.exp(-0.3 * (1.1 * math.log(9, 8) - 0.7)))
    np.testing.assert_allclose(bias, [[[high, 8], [8, 8]]], rtol=1e-14)


def test_a_window_of_one_token_divides_by_nothing():
    np.testing.assert_array_equal(log_coordinates((1, 1)), [[[0, 0]]])
    np.testing.assert_allclose(log_coordinates((2, 2), (1, 1))[0, 0], [-math.log(9, 8)] * 2)


# Other windows


@pytest.mark.parametrize("size", [(1,), (5,), (2, 3), (1, 4), (2, 1, 3)], ids=str)
def test_the_bias_of_a_window_is_its_table_at_the_relative_index(size):
    weight, grid = table_of(size), grid_positions(*size).numpy()
    bias = window(grid, grid, weight, window=size)
    np.testing.assert_array_equal(bias, weight.T[:, relative_index(size)])
    # and the table turned round swaps queries and keys
    np.testing.assert_array_equal(window(grid, grid, weight[::-1], window=size), bias.swapaxes(-1, -2))


def test_a_pretrained_window_is_the_measure_of_a_larger_one():
    # steps of a window of 8 by 8 in the measure of the 4 by 4 that the network knows
    inside = log_coordinates((8, 8), (4, 4))[4:11, 4:11]
    np.testing.assert_array_equal(inside, log_coordinates((4, 4)))
    assert log_coordinates((8, 8), (4, 4)).max() > log_coordinates((8, 8)).max()


def test_a_continuous_bias_needs_no_resizing():
    small = Window(4, (4, 4), continuous=True)
    torch.nn.init.normal_(small.out_weight)
    large = Window(4, (8, 8), continuous=True, pretrained_window=(4, 4))
    large.load_state_dict(small.state_dict())
    torch.testing.assert_close(large(grid_positions(4, 4)), small(grid_positions(4, 4)))


# Peers


@vectors("swinv2_log_coords")
def test_the_log_coordinates_equal_those_of_timm(vector):
    params = vector["params"]
    coordinates = log_coordinates(params["window"], params["pretrained_window"])  # 0 where it is the window itself
    assert_agrees(vector, coordinates, vector["expected"]["table"])


@pytest.mark.parametrize("size", [(7, 7), (2, 3)], ids=str)
def test_the_coordinates_equal_those_of_timm_in_any_window(size):
    theirs = peer("timm.layers.pos_embed_rel").gen_relative_log_coords(size, (6, 4))
    np.testing.assert_allclose(log_coordinates(size, (6, 4)), theirs, atol=1e-6)


def test_log_coordinates_of_one_token_are_not_a_number_in_the_functions_of_timm_but_in_its_swin_v2():
    timm = peer("timm.layers.pos_embed_rel")
    assert timm.gen_relative_log_coords((1, 3)).isnan().any()
    assert np.isfinite(log_coordinates((1, 3))).all()


def assert_the_bias_is(expected, size, table=None, layers=None, **options):
    """Compare with our bias, from their table or from the two linear layers of their network."""
    learned = {"weight": table}
    if layers:
        hidden, out = layers
        learned = {"hidden_weight": hidden.weight, "hidden_bias": hidden.bias, "out_weight": out.weight}
    encoding = Window(3, size, continuous=layers is not None, **options)
    encoding.load_state_dict(learned)
    torch.testing.assert_close(encoding(grid_positions(*size)), expected, rtol=1e-5, atol=1e-5)


def test_the_bias_equals_that_of_timm():
    theirs = peer("timm.layers.pos_embed_rel").RelPosBias((4, 6), 3)
    torch.nn.init.normal_(theirs.relative_position_bias_table)
    assert_the_bias_is(theirs.get_bias()[0], (4, 6), theirs.relative_position_bias_table)


def test_the_continuous_bias_equals_that_of_timm():
    theirs = peer("timm.layers.pos_embed_rel").RelPosMlp(
        (4, 6), 3, hidden_dim=512, mode="swin", pretrained_window_size=(3, 5)
    )
    layers = theirs.eval().mlp.fc1, theirs.mlp.fc2
    assert_the_bias_is(theirs.get_bias()[0], (4, 6), layers=layers, pretrained_window=(3, 5))


def test_the_bias_equals_that_of_swin_in_transformers():
    theirs = peer("transformers.models.swin.modeling_swin").SwinRelativePositionBias(3, (7, 7))
    torch.nn.init.normal_(theirs.relative_position_bias_table)
    assert_the_bias_is(theirs()[0], (7, 7), theirs.relative_position_bias_table)


@pytest.mark.parametrize("trained", [(0, 0), (4, 4)], ids=str)
def test_the_continuous_bias_equals_that_of_swin_v2_in_transformers(trained):
    swin = peer("transformers.models.swinv2.modeling_swinv2")
    theirs = swin.Swinv2SelfAttention(swin.Swinv2Config(), 6, 3, 8, trained)
    network = theirs.continuous_position_bias_mlp
    torch.nn.init.normal_(network[2].weight, std=0.3)
    table = network(theirs.relative_coords_table).view(-1, 3)
    expected = 16 * torch.sigmoid(table[theirs.relative_position_index]).permute(2, 0, 1).reshape(3, 64, 64)
    assert_the_bias_is(expected, (8, 8), layers=(network[0], network[2]), pretrained_window=trained)


# The module


def test_a_row_of_the_table_learns_from_every_pair_at_its_offset():
    encoding = Window(1, (2, 3))
    encoding(grid_positions(2, 3)).sum().backward()
    np.testing.assert_array_equal(encoding.weight.grad[:, 0], np.bincount(relative_index((2, 3)).ravel()))


def test_what_is_learned_starts_normal_with_deviation_002():
    torch.manual_seed(0)
    for encoding in (Window(50), Window(50, continuous=True)):
        for name, parameter in encoding.named_parameters():
            deviation = 0 if name == "hidden_bias" else 0.02
            assert parameter.std().item() == pytest.approx(deviation, rel=0.05)
            assert parameter.mean().item() == pytest.approx(0, abs=0.003)
    bias = Window(8, continuous=True)(grid_positions(7, 7))
    assert (bias - 8).abs().max() < 0.2


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_bias_is_float32_in_every_dtype_of_what_is_learned(continuous, dtype):
    assert Window(2, (2, 2), continuous).to(dtype)(grid_positions(2, 2)).dtype == torch.float32


def test_positions_are_subtracted_in_64_bits():
    encoding, grid = Window(4, (3, 3)), grid_positions(3, 3)
    far = grid + 2**40
    assert torch.equal(encoding(far, far), encoding(grid, grid))
    assert torch.equal(encoding(grid, grid + 2**32), encoding(grid, grid + 9))


def test_one_row_serves_a_batch():
    one, two = torch.tensor([[[2, 0], [0, 1], [1, 1], [2, 2]]]), torch.tensor([[[0, 0], [1, 2]], [[2, 1], [50, 7]]])
    assert_one_row_serves_a_batch(Window(4, (3, 3)), one, two)


def test_attention_tells_coordinates_of_two_tokens_from_the_positions_of_a_batch_of_two():
    encoding, grid = Window(2, (2, 1)), grid_positions(2, 1)
    q = torch.randn(2, 2, 2, 4)  # as many images as tokens, as tokens have coordinates
    seen = attention_weights(q, q, encoding, positions=grid, key_positions=grid, causal=True) > 0
    assert torch.equal(seen, torch.ones(2, 2).tril().bool().expand(2, 2, 2, 2))


# What is refused


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (torch.arange(49), r"torch.int64 \(49,\)"),  # else patch i would stand at (i, i), on the diagonal
        (torch.zeros(3, 2), r"torch.float32 \(3, 2\)"),
        (torch.zeros(5, 3).long(), r"torch.int64 \(5, 3\)"),
    ],
)
def test_positions_that_are_no_rows_and_columns_are_refused(wrong, got):
    encoding, grid = Window(2), grid_positions(7, 7)
    shapes = r"\(t, 2\) or \(b, t, 2\)"
    message = (
        rf"window: positions must have shape {shapes} and an integer dtype, got {got}; take grid_positions\(7, 7\)"
    )
    for call in (encoding, encoding.score_mod):
        for positions in ((wrong,), (grid, wrong)):
            with pytest.raises(ValueError, match=message):
                call(*positions)


def test_a_lone_query_needs_keys():
    encoding, one = Window(2, (3, 3)), torch.tensor([[1, 2]])
    for lone in (one, one.expand(2, 1, 2)):
        for call in (encoding, encoding.score_mod):
            with pytest.raises(ValueError, match="window: key_positions must be given for a lone query, got None"):
                call(lone)
            call(lone, lone)


@pytest.mark.parametrize("wrong", [[[[0, 1], [1, 1]]], [0, 1]], ids=str)
def test_the_numpy_function_takes_one_row_of_positions(wrong):
    for m, n in ((wrong, [[0, 1]]), ([[0, 1]], wrong)):
        with pytest.raises(ValueError, match="cannot reshape"):
            window(m, n, table_of((2, 2)), window=(2, 2))


@pytest.mark.parametrize(("m", "n"), [([[0.5, 1]], [[0, 1]]), ([[0, 1]], [[0, 0.5]])])
def test_positions_between_the_cells_are_refused(m, n):
    with pytest.raises(ValueError, match="window: positions must be whole, got "):
        window(m, n, table_of((2, 2)), window=(2, 2))


def test_a_table_of_another_window_is_refused():
    with pytest.raises(ValueError, match="window: weight must be of 9 rows, got 25; resize it"):
        window([[0, 1]], [[0, 1]], table_of((3, 3)), window=(2, 2))


def test_a_number_of_heads_that_is_none_is_refused():
    with pytest.raises(ValueError, match="window: heads must be 1 or more, got 0"):
        Window(0)


def test_a_pretrained_window_of_other_axes_is_refused():
    for call in (lambda: Window(2, (3, 3), True, (3,)), lambda: log_coordinates((3, 3), (3, 3, 3))):
        with pytest.raises(ValueError, match="zip"):  # Python's own words
            call()
