"""Profiles: mixes by hand, Inkling's own module and x-transformers', a table of low rank, and what is refused."""

import inspect
import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import flex_attention

from posenc.score.profiles import Profiles, profiles
from posenc.score.shaw import Shaw
from tests.peers import peer
from tests.score.alike import (
    assert_numpy_wants_one_position_a_token,
    assert_one_row_serves_a_batch,
    assert_refused_with_numbers,
    assert_the_score_mod_keeps_no_strided_positions,
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


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1)
places = st.lists(st.integers(-50, 50), min_size=6, max_size=6)


def content(seed=0, b=2, h=4, g=2, t=6, s=6, d=3):
    """Return random queries and keys in float64."""
    made = np.random.default_rng(seed)
    return tuple(torch.tensor(made.normal(size=shape)) for shape in ((b, h, t, d), (b, g, s, d)))


def build(dim=3, heads=4, rank=5, extent=4):
    torch.manual_seed(0)
    module = Profiles(dim, heads, rank, extent).double()
    torch.nn.init.normal_(module.bank)
    return module


def ruler(extent=4):
    """Return a module of one channel and one curve, 1, 2, 3, ...: its score at a query of 1 is the distance and one."""
    module = build(1, 1, 1, extent)
    module.weight.data.fill_(1)
    module.bank.data[0] = torch.arange(1, extent + 1)
    return module


def ones(t):
    return torch.ones(1, 1, t, 1, dtype=torch.float64)


# Values worked by hand


def test_a_score_is_that_of_the_distance_within_the_extent_and_else_zero():
    scores = ruler(extent=3)(ones(5), ones(5))[0, 0]
    expected = [[1, 0, 0, 0, 0], [2, 1, 0, 0, 0], [3, 2, 1, 0, 0], [0, 3, 2, 1, 0], [0, 0, 3, 2, 1]]
    torch.testing.assert_close(scores, torch.tensor(expected).double())


def test_the_same_in_numpy():
    scores = profiles(np.ones((1, 2, 1)), np.ones((1, 4, 1)), [5, 0], [4, 5, 2, 0], [[[1]]], [[1, 2, 3]])
    np.testing.assert_array_equal(scores[0], [[2, 1, 0, 0], [0, 0, 0, 1]])


def test_a_query_mixes_the_curves_by_its_states():
    # states 3 * 2 = 6 and 3 * -1 = -3; at distance 1: 6 * 20 - 3 * 7 = 99
    scores = profiles([[[3]]], [[[0]]], [9], [8], weight=[[[2], [-1]]], bank=[[10, 20], [5, 7]])
    np.testing.assert_array_equal(scores, [[[99]]])


def test_states_that_are_given_replace_those_that_are_read():
    (q, k), module = content(), build()
    states = torch.randn(2, 4, 6, 5).double()
    made = module(q, k, states=states)
    expected = profiles(q[1], k[1], range(6), range(6), bank=module.bank.detach(), states=states[1])
    np.testing.assert_allclose(made[1].detach(), expected, atol=1e-12)
    read = torch.einsum("bhtd,hrd->bhtr", q, module.weight)
    assert not torch.allclose(made, module(q, k))
    torch.testing.assert_close(module(q, k, states=read), module(q, k))
    del module.weight
    torch.testing.assert_close(module(q, k, states=states), made)


def test_the_score_is_not_divided_by_the_root_of_the_width():
    q = torch.zeros(1, 1, 1, 4).double()
    q[..., 0] = 3
    module = build(4, 1, 1, 1)
    module.weight.data[0, 0] = torch.tensor([2.0, 0, 0, 0])
    module.bank.data.fill_(1)
    assert module(q, q, torch.tensor([7])).item() == 6


def test_heads_read_states_of_their_own_from_one_bank():
    module = build(heads=2, rank=2, extent=4)
    q = torch.ones(1, 2, 6, 3).double()
    module.weight.data[1] = 10 * module.weight.data[0]
    scores = module(q, q)
    torch.testing.assert_close(scores[:, 1], 10 * scores[:, 0])


def test_the_keys_content_does_not_matter():
    q, k = content()
    assert torch.equal(build()(q, k), build()(q, torch.zeros_like(k)))


def test_the_curves_are_the_scores_of_a_query_with_all_before_it():
    (q, k), module = content(t=1, s=4), build()
    scores = module(q, k, torch.tensor([3]), torch.arange(4))
    torch.testing.assert_close(module.curves(q).flip(3), scores)


# Peers


def inkling(module, states, m, n):
    """Return the bias of Inkling's own module, which takes states (b, t, h, r), with our bank."""
    theirs = peer("transformers.models.inkling.modeling_inkling").InklingRelativeLogits(*module.bank.shape)
    theirs.proj.data = module.bank.data
    return theirs(states.transpose(1, 2), m, n)


@pytest.mark.parametrize("version", ["inkling", "inkling2"])
@pytest.mark.parametrize(("t", "s", "extent"), [(6, 6, 4), (1, 9, 4), (3, 9, 64), (9, 9, 1)])
def test_equals_the_relative_logits_of_inkling(version, t, s, extent):
    code = peer(f"transformers.models.{version}.modeling_{version}")
    relative_logits = getattr(code, f"{version.capitalize()}RelativeLogits")
    (q, k), module = content(t=t, s=s), build(extent=extent)
    theirs = relative_logits(5, extent).double()
    theirs.proj.data = module.bank.data
    states = torch.einsum("bhtd,hrd->bthr", q, module.weight)
    places = torch.arange(s - t, s), torch.arange(s)
    torch.testing.assert_close(module(q, k, *places), theirs(states, *places))


def test_equals_inkling_where_the_positions_are_its_own():
    (q, k), module = content(), build()
    m, n = torch.tensor([70, 3, 9, 4, 4, 0]), torch.tensor([69, 2, 2, 4, 66, 5])
    states = torch.einsum("bhtd,hrd->bhtr", q, module.weight)
    torch.testing.assert_close(module(q, k, m, n), inkling(module, states, m, n))


def test_equals_the_whole_attention_of_inkling():
    code = peer("transformers.models.inkling.modeling_inkling")
    settings = peer("transformers.models.inkling.configuration_inkling").InklingTextConfig(
        hidden_size=32,
        num_hidden_layers=1,
        layer_types=["hybrid"],
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        rel_extent=5,
        d_rel=3,
    )
    settings._attn_implementation = "eager"
    torch.manual_seed(0)
    theirs = code.InklingAttention(settings, 0).double().eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x, caught = torch.randn(2, 9, 32).double(), {}
    theirs.q_norm.register_forward_hook(lambda *given: caught.update(q=given[-1].transpose(1, 2)))
    theirs.k_norm.register_forward_hook(lambda *given: caught.update(k=given[-1].transpose(1, 2)))
    hidden = torch.full((9, 9), -math.inf).triu(1).double()
    with torch.no_grad():
        _, expected = theirs(x, hidden, None)

    module = build(dim=8, rank=3, extent=5)
    module.bank.data = theirs.rel_logits_proj.proj.data
    q, k = caught["q"], caught["k"]
    states = theirs.r_proj(x).unflatten(-1, (4, 3)).transpose(1, 2)
    logits = q @ k.repeat_interleave(2, dim=1).mT / 8 + module(q, k, states=states)  # they scale by 1/d
    torch.testing.assert_close((logits + hidden).softmax(dim=-1), expected)


@pytest.mark.parametrize(("t", "s"), [(6, 6), (2, 9), (1, 1)])
def test_equals_the_projected_bias_of_x_transformers(t, s):
    theirs = peer("x_transformers.x_transformers").RelativeProjPositionalBias(12, 4, 5, 4).double()
    module, x = build(), torch.randn(2, t, 12).double()
    torch.nn.init.normal_(theirs.distance_bank)
    module.bank.data = theirs.distance_bank.data
    states = theirs.to_distance_weights(x)  # of the hidden state, with a bias
    (q, k) = content(t=t, s=s)
    scores = module(q, k, torch.arange(s - t, s), torch.arange(s), states)
    torch.testing.assert_close(scores, theirs(x, s))


# Properties


def test_it_is_a_table_of_shaw_of_low_rank():
    # q . (W^T bank) / sqrt(d) with a clip beyond the text
    (q, k), module = content(d=3), build(rank=2, extent=9)
    shaw = Shaw(3, clip=8).double()
    shaw.key_table = torch.nn.Parameter(torch.zeros(4, 17, 3).double())
    vectors = torch.einsum("hrd,re->hed", module.weight, module.bank) * math.sqrt(3)
    shaw.key_table.data[:, :9] = vectors.flip(1)
    torch.testing.assert_close(module(q, k), shaw(q, k))
    for table in shaw.key_table:
        assert torch.linalg.matrix_rank(table) == 2


def test_all_curves_lie_in_the_space_of_the_bank():
    (q, _), module = content(t=6), build(rank=2, extent=30)
    assert torch.linalg.matrix_rank(module.curves(q).flatten(0, 2)) == 2


@given(seed=seeds, where=places, shift=st.integers(-(10**9), 10**9))
@exactly
def test_shifting_all_positions_changes_nothing(seed, where, shift):
    (q, k), where, module = content(seed), torch.tensor(where), build()
    assert torch.equal(module(q, k, where, where), module(q, k, where + shift, where + shift))


@given(seed=seeds, where=places, order=st.permutations(range(6)))
@exactly
def test_keys_in_another_order_have_their_scores_in_that_order(seed, where, order):
    (q, k), where, module = content(seed), torch.tensor(where), build()
    assert torch.equal(module(q, k, where, where[list(order)]), module(q, k, where, where)[..., order])


# Decoding, FlexAttention, grouped heads, edges


def test_decoding_token_by_token_equals_scoring_at_once():
    (q, k), module = content(), build()
    whole = module(q, k)
    for p in range(6):
        step = module(q[:, :, p : p + 1], k[:, :, : p + 1], torch.tensor([p]), torch.arange(p + 1))
        torch.testing.assert_close(step[..., 0, :], whole[..., p, : p + 1])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@torch.no_grad()
def test_flex_attention_takes_the_score_mod():
    (q, k), module = content(d=16, t=16, s=16, g=4), build(dim=16)
    expected = (q @ k.mT / 4 + module(q, k)).softmax(dim=-1) @ k
    made = flex_attention(q, k, k, score_mod=module.score_mod(q, k))
    torch.testing.assert_close(made, expected)
    states = torch.randn(2, 4, 16, 5).double()
    expected = (q @ k.mT / 4 + module(q, k, states=states)).softmax(dim=-1) @ k
    made = flex_attention(q, k, k, score_mod=module.score_mod(q, k, states=states))
    torch.testing.assert_close(made, expected)


def test_the_number_of_key_heads_does_not_matter():
    q, k = content()
    assert torch.equal(build()(q, k), build()(q, k.repeat_interleave(2, dim=1)))


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    q, k = content(t=t, s=s)
    assert build()(q, k, torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_more_queries_than_keys_stand_where_they_are_said_to():
    scores = ruler()(ones(3), ones(1), torch.tensor([2, 1, 0]), torch.tensor([0])).flatten()
    torch.testing.assert_close(scores, torch.tensor([3.0, 2, 1]).double())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_queries_are_scored_in_float32_and_rounded_once(dtype):
    (q, k), module = (x.to(dtype) for x in content()), build().float()
    assert torch.equal(module(q, k), module(q.float(), k.float()).to(dtype))


def test_the_start_is_nearly_flat():
    torch.manual_seed(0)
    module = Profiles(64, heads=8)
    assert abs(module.weight.std().item() * 8 - 1) < 0.03
    assert abs(module.bank.std().item() / 0.02 - 1) < 0.03
    for parameter in module.parameters():
        assert abs(parameter.mean().item()) < 0.01


def test_the_default_sizes_are_those_of_inkling():
    inkling_text = peer("transformers.models.inkling.configuration_inkling").InklingTextConfig()
    defaults = {name: p.default for name, p in inspect.signature(Profiles).parameters.items()}
    assert (defaults["rank"], defaults["extent"]) == (inkling_text.d_rel, inkling_text.rel_extent)


# What is refused: what would give a wrong result without an error


def test_positions_that_do_not_fit_are_refused_with_numbers():
    others = [(torch.arange(4096), "torch.int64 (4096,)"), (torch.tensor([3]), "torch.int64 (1,)")]
    others += [(torch.arange(6) / 2, "torch.float32 (6,)"), (torch.zeros(2, 1).long(), "torch.int64 (2, 1)")]
    assert_refused_with_numbers(build(), *content(), "6 integers", others)


def test_content_of_another_width_or_of_integers_is_refused():
    q, k = content()
    with pytest.raises(
        ValueError, match=r"profiles: q and k must be floats of one width, got torch.float64 .* 3 and 2"
    ):
        build()(q, k[..., :2])
    with pytest.raises(ValueError, match=r"profiles: q and k must be floats of one width, got torch.int64 of width 3"):
        build().score_mod(q.long(), k)


def test_one_row_of_positions_serves_a_batch():
    q, k = content()
    assert_one_row_serves_a_batch(build(), q, k, torch.zeros((), dtype=torch.float64))


def test_the_score_mod_keeps_no_strided_positions_as_cpu_kernels_read_none():
    assert_the_score_mod_keeps_no_strided_positions(build(), *content())


def test_the_numpy_function_takes_one_position_a_token():
    assert_numpy_wants_one_position_a_token(profiles, np.ones((2, 5, 4)), np.ones((5, 4)))


@pytest.mark.parametrize("where", [[0.5, 1, 2], [math.nan, 0, 0]], ids=str)
def test_positions_that_are_not_whole_are_refused_by_the_numpy_function(where):
    with pytest.raises(ValueError, match="profiles: positions must be whole numbers, got "):
        profiles(np.zeros((1, 3, 2)), np.zeros((1, 3, 2)), where, range(3), np.zeros((1, 5, 2)), np.ones((5, 4)))
