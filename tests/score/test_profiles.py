"""Profiles: mixes by hand, Inkling's own module and x-transformers', and a table of Shaw of low rank."""

import inspect
import math

import mpmath
import numpy as np
import pytest
import torch

from posenc.score.profiles import Profiles, profiles
from posenc.score.shaw import Shaw
from tests.peers import peer
from tests.score.alike import (
    FLOAT_POSITIONS,
    WRONG_CONTENT,
    assert_half_precision_is_rounded_once,
    assert_numpy_wants_one_position_a_token,
    assert_positions_are_subtracted_in_64_bits,
    assert_the_score_mod_takes_rows_as_they_lie,
    content,
    randomized,
)

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{"rank": 3, "extent": 40}, {"rank": 5, "extent": 4}, {"rank": 1, "extent": 1}]
LEARNED = {"weight", "bank"}
REFUSED = {"fractional"}


def oracle(q, k, positions, key_positions, weight=None, bank=None, states=None):
    """Work out the definition with 60 digits, one pair at a time."""
    with mpmath.workdps(60):
        scores = np.zeros((len(q), len(positions), len(key_positions)))
        for h, t, s in np.ndindex(scores.shape):
            distance = int(positions[t]) - int(key_positions[s])
            if 0 <= distance < bank.shape[1]:
                mixed = [mpmath.fdot(map(float, q[h, t]), map(float, row)) for row in weight[h]]
                scores[h, t, s] = mpmath.fdot(mixed, map(float, bank[:, distance]))
    return scores


def exercise(module):
    encoding, x = module.Profiles(4, 2, rank=3, extent=5), torch.randn(2, 2, 6, 4)
    encoding(x, x, states=torch.randn(2, 2, 6, 3))
    module.profiles(x[0], x[0], range(6), range(6), bank=np.ones((3, 5)), states=np.ones((2, 6, 3)))


def build(dim=3, heads=4, rank=5, extent=4):
    return randomized(Profiles(dim, heads, rank, extent))


# Values worked by hand


def test_a_score_is_that_of_the_distance_within_the_extent_and_else_zero():
    # one state of 1 and one curve: 1, 2, 3 at the distances 0, 1, 2
    x = np.ones((1, 5, 1))
    scores = profiles(x, x, range(5), range(5), weight=[[[1]]], bank=[[1, 2, 3]])
    expected = [[1, 0, 0, 0, 0], [2, 1, 0, 0, 0], [3, 2, 1, 0, 0], [0, 3, 2, 1, 0], [0, 0, 3, 2, 1]]
    np.testing.assert_array_equal(scores, [expected])


def test_a_query_mixes_the_curves_by_its_states():
    # states 3 * 0.2 = 0.6 and 3 * -1 = -3; at distance 1: 0.6 * 20 - 3 * 0.7 = 9.9
    scores = profiles([[[3]]], [[[0]]], [9], [8], weight=[[[0.2], [-1]]], bank=[[10, 20], [5, 0.7]])
    np.testing.assert_allclose(scores, [[[9.9]]], rtol=1e-14)


def test_the_score_is_not_divided_by_the_root_of_the_width():
    scores = profiles([[[3, 0, 0, 0]]], np.zeros((1, 1, 4)), [7], [7], weight=[[[2, 0, 0, 0]]], bank=[[1]])
    np.testing.assert_array_equal(scores, [[[6]]])


def test_heads_read_states_of_their_own_from_one_bank():
    scores = profiles(np.ones((2, 1, 1)), np.ones((1, 1, 1)), [7], [7], weight=[[[2]], [[5]]], bank=[[3]])
    np.testing.assert_array_equal(scores, [[[6]], [[15]]])


def test_the_contents_of_keys_do_not_matter():
    q, k = content()
    assert torch.equal(build()(q, k), build()(q, torch.zeros_like(k)))


def test_the_curves_are_the_scores_of_a_query_with_all_before_it():
    q, k = content(t=1, s=4)
    scores = build()(q, k, torch.tensor([3]), torch.arange(4))
    torch.testing.assert_close(build().curves(q).flip(3), scores)


def test_states_replace_those_that_weight_reads():
    (q, k), module = content(), build()
    read = torch.einsum("bhtd,hrd->bhtr", q, module.weight)
    torch.testing.assert_close(module(q, k, states=read), module(q, k))
    del module.weight
    states = torch.randn(2, 4, 6, 5, dtype=torch.float64)
    scores = module(q, k, states=states).detach()
    expected = profiles(q[1], k[1], range(6), range(6), bank=module.bank.detach(), states=states[1])
    np.testing.assert_allclose(scores[1], expected, rtol=1e-9, atol=1e-12)
    pairs = torch.meshgrid([torch.arange(size) for size in scores.shape], indexing="ij")
    modify = module.score_mod(q, k, states=states)
    torch.testing.assert_close(modify(torch.zeros_like(scores), *pairs), scores)


# What it equals


def test_it_is_a_table_of_shaw_of_low_rank():
    # q . (W^T bank) / sqrt(d), with a clip beyond the text
    (q, k), module, shaw = content(), build(rank=2, extent=9), Shaw(3, clip=8).double()
    vectors = torch.einsum("hrd,re->hed", module.weight, module.bank) * math.sqrt(3)
    ahead = torch.zeros(4, 8, 3, dtype=torch.float64)
    shaw.key_table = torch.nn.Parameter(torch.cat([vectors.flip(1), ahead], dim=1))
    torch.testing.assert_close(module(q, k), shaw(q, k))
    assert torch.linalg.matrix_rank(shaw.key_table).tolist() == [2] * 4


def test_all_curves_lie_in_the_space_of_the_bank():
    q, _ = content()
    assert torch.linalg.matrix_rank(build(rank=2, extent=30).curves(q).flatten(0, 2)) == 2


# Peers


@pytest.mark.parametrize("version", ["inkling", "inkling2"])
@pytest.mark.parametrize(
    ("m", "n", "extent"),
    [
        (range(6), range(6), 4),
        ([8], range(9), 4),
        (range(6, 9), range(9), 64),
        (range(9), range(9), 1),
        ([70, 3, 9, 4, 4, 0], [69, 2, 2, 4, 66, 5], 4),
    ],
)
def test_equals_the_relative_logits_of_inkling(version, m, n, extent):
    code = peer(f"transformers.models.{version}.modeling_{version}")
    (q, k), module = content(t=len(m), s=len(n)), build(extent=extent)
    theirs = getattr(code, f"{version.capitalize()}RelativeLogits")(5, extent).double()
    theirs.proj.data = module.bank.data
    states = torch.einsum("bhtd,hrd->bthr", q, module.weight)
    positions = torch.tensor(m), torch.tensor(n)
    torch.testing.assert_close(module(q, k, *positions), theirs(states, *positions))


def test_equals_the_whole_attention_of_inkling():
    code = peer("transformers.models.inkling.modeling_inkling")
    config = peer("transformers.models.inkling.configuration_inkling").InklingTextConfig(
        hidden_size=32,
        num_hidden_layers=1,
        layer_types=["hybrid"],
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        rel_extent=5,
        d_rel=3,
    )
    config._attn_implementation = "eager"
    theirs = randomized(code.InklingAttention(config, 0).eval(), std=0.3)
    x, seen = torch.randn(2, 9, 32, dtype=torch.float64), {}
    theirs.q_norm.register_forward_hook(lambda *call: seen.update(q=call[-1].transpose(1, 2)))
    theirs.k_norm.register_forward_hook(lambda *call: seen.update(k=call[-1].transpose(1, 2)))
    ahead = torch.full((9, 9), -math.inf, dtype=torch.float64).triu(1)
    _, expected = theirs(x, ahead, None)

    module = build(dim=8, rank=3, extent=5)
    module.bank.data = theirs.rel_logits_proj.proj.data
    q, k = seen["q"], seen["k"]
    states = theirs.r_proj(x).unflatten(-1, (4, 3)).transpose(1, 2)
    logits = q @ k.repeat_interleave(2, dim=1).mT / 8 + module(q, k, states=states)  # they scale by 1/d
    torch.testing.assert_close((logits + ahead).softmax(dim=-1), expected)


@pytest.mark.parametrize(("t", "s"), [(6, 6), (2, 9), (1, 1)])
def test_equals_the_projected_bias_of_x_transformers(t, s):
    theirs = peer("x_transformers.x_transformers").RelativeProjPositionalBias(12, 4, 5, 4).double()
    (q, k), module = content(t=t, s=s), build()
    theirs.distance_bank.data = module.bank.data
    x = torch.randn(2, t, 12, dtype=torch.float64)
    states = theirs.to_distance_weights(x)  # of the hidden state, with a bias
    scores = module(q, k, torch.arange(s - t, s), torch.arange(s), states)
    torch.testing.assert_close(scores, theirs(x, s))


def test_the_default_sizes_are_those_of_inkling():
    config = peer("transformers.models.inkling.configuration_inkling").InklingTextConfig()
    defaults = {name: parameter.default for name, parameter in inspect.signature(Profiles).parameters.items()}
    assert (defaults["rank"], defaults["extent"]) == (config.d_rel, config.rel_extent)


# The module


def test_the_start_is_nearly_flat():
    torch.manual_seed(0)
    module = Profiles(64, heads=8)
    assert module.bank.shape == (16, 1024)
    assert abs(module.weight.std().item() * 8 - 1) < 0.03
    assert abs(module.bank.std().item() / 0.02 - 1) < 0.03
    for parameter in module.parameters():
        assert abs(parameter.mean().item()) < 0.01


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    assert build()(*content(t=t, s=s), torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_half_precision_is_scored_in_float32_and_rounded_once():
    assert_half_precision_is_rounded_once(build())


def test_positions_are_subtracted_in_64_bits():
    assert_positions_are_subtracted_in_64_bits(build())


def test_the_score_mod_takes_rows_as_they_lie():
    assert_the_score_mod_takes_rows_as_they_lie(build(), *content())


# What is refused


@pytest.mark.parametrize(("changes", "message"), [*WRONG_CONTENT, FLOAT_POSITIONS])
def test_content_of_two_widths_or_integers_and_positions_of_floats_are_refused(changes, message):
    q, k = content()
    for call in (build(), build().score_mod):
        with pytest.raises(ValueError, match=f"profiles: {message}"):
            call(**{"q": q, "k": k} | changes)


@pytest.mark.parametrize("positions", [[0.5, 1, 2], [math.nan, 0, 0]], ids=str)
def test_the_numpy_function_takes_one_whole_position_a_token(positions):
    x, learned = np.ones((2, 3, 4)), (np.ones((2, 5, 4)), np.ones((5, 4)))
    assert_numpy_wants_one_position_a_token(profiles, *learned)
    with pytest.raises(ValueError, match="profiles: positions must be whole numbers, got "):
        profiles(x, x, positions, range(3), *learned)
