"""Shaw: offsets read off a table of their own numbers, the values' table, the peers, and what it refuses."""

import copy
import inspect
import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from posenc.score.shaw import Shaw, shaw, shaw_values
from tests.peers import peer
from tests.score.alike import (
    assert_numpy_wants_one_position_a_token,
    assert_one_row_serves_a_batch,
    assert_refused_with_numbers,
    assert_the_score_mod_keeps_no_strided_positions,
)

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{"clip": 3}, {}]
LEARNED = {"key_table"}
REFUSED = {"fractional"}


def oracle(q, k, positions, key_positions, key_table):
    """Work out the definition with 60 digits, one pair at a time."""
    with mpmath.workdps(60):
        scores = np.zeros((len(q), len(positions), len(key_positions)))
        for h, t, s in np.ndindex(scores.shape):
            table = key_table if key_table.ndim == 2 else key_table[h]
            clip = len(table) // 2
            row = table[max(-clip, min(clip, int(key_positions[s]) - int(positions[t]))) + clip]
            scores[h, t, s] = mpmath.fdot(map(float, q[h, t]), map(float, row)) / mpmath.sqrt(q.shape[-1])
    return scores


def exercise(module):
    weights, encoding = torch.ones(2, 3, 4, 5), module.Shaw(8, clip=2, on_values=True)
    encoding.values(weights, torch.arange(4), torch.arange(5))
    encoding.values(weights, torch.arange(8).view(2, 4), torch.arange(5))
    module.shaw_values(weights[0], range(1, 5), range(5), encoding.value_table.detach())


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1)
places = st.lists(st.integers(-50, 50), min_size=6, max_size=6)


def content(seed=0, b=2, h=4, g=2, t=6, s=6, d=3):
    """Return random queries and keys in float64."""
    made = np.random.default_rng(seed)
    return tuple(torch.tensor(made.normal(size=shape)) for shape in ((b, h, t, d), (b, g, s, d)))


def build(dim=3, clip=2, heads=None, **options):
    """Return a module in float64, with tables for each of `heads` if given."""
    torch.manual_seed(0)
    module = Shaw(dim, clip, **options).double()
    if heads is not None:
        for name, table in list(module.named_parameters()):
            setattr(module, name, nn.Parameter(torch.randn(heads, *table.shape).double()))
    return module


def ruler(clip=2, **options):
    """Return a module of one channel whose vectors are the offsets: its score at a query of 1 is the clipped offset."""
    module = build(1, clip, **options)
    for table in module.parameters():
        table.data[..., 0] = torch.arange(-clip, clip + 1)
    return module


def ones(t):
    return torch.ones(1, 1, t, 1, dtype=torch.float64)


# Values worked by hand


def test_the_offset_is_key_minus_query_clipped_on_both_sides():
    scores = ruler()(ones(4), ones(4))[0, 0]
    expected = [[0, 1, 2, 2], [-1, 0, 1, 2], [-2, -1, 0, 1], [-2, -2, -1, 0]]
    torch.testing.assert_close(scores, torch.tensor(expected).double())


def test_the_same_in_numpy():
    table = np.arange(-2, 3)[:, None]
    scores = shaw(np.ones((1, 2, 1)), np.ones((1, 4, 1)), [5, 0], [4, 5, 6, 9], table)
    np.testing.assert_array_equal(scores[0], [[-1, 0, 1, 2], [2, 2, 2, 2]])


def test_the_score_is_divided_by_the_root_of_the_width():
    # q . row = 1 * 3 + 2 * 5 = 13 in a width of 4
    table = np.zeros((3, 4))
    table[1] = [3, 5, 0, 0]
    np.testing.assert_allclose(shaw([[[1, 2, 0, 0]]], np.zeros((1, 1, 4)), [7], [7], table), [[[13 / 2]]])


def test_heads_have_tables_of_their_own_if_given():
    module = ruler(heads=2)
    module.key_table.data[1] *= 10
    scores = module(ones(3).expand(1, 2, 3, 1), ones(3))[0, :, 0]
    torch.testing.assert_close(scores, torch.tensor([[0.0, 1, 2], [0, 10, 20]]).double())


def test_the_sum_of_values_by_hand():
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]]).view(1, 1, 2, 3).double()
    summed = ruler(clip=1, on_values=True).values(weights, torch.tensor([0, 1]), torch.tensor([0, 1, 5]))
    torch.testing.assert_close(summed.flatten(), torch.tensor([0.25 + 0.25, 1.0]).double())


def test_the_keys_content_does_not_matter():
    q, k = content()
    assert torch.equal(build()(q, k), build()(q, torch.zeros_like(k)))


def test_all_keys_beyond_the_clip_score_alike():
    q, k = content(t=1, s=9)
    scores = build(clip=4)(q, k, torch.tensor([8]), torch.arange(9))
    assert (scores[..., :5] == scores[..., :1]).all()
    assert (scores[..., 4] != scores[..., 5]).all()


def test_past_and_future_have_different_vectors():
    scores = build()(*content())
    assert not torch.allclose(scores[0, 0, 2, 1], scores[0, 0, 2, 3])


# The paper's attention, scores and values together (eq. 3 and 4)


def paper(q, k, v, positions, key_positions, key_table, value_table):
    """Return the output of one head (t, d), from (t, s, d) vectors for keys and values, as the paper has it."""
    clip = len(key_table) // 2
    bucket = np.clip(np.subtract.outer(-positions, -key_positions), -clip, clip) + clip
    e = ((k + key_table[bucket]) @ q[:, :, None])[..., 0] / math.sqrt(q.shape[-1])
    weights = np.exp(e) / np.exp(e).sum(axis=-1, keepdims=True)
    return (weights[..., None] * (v + value_table[bucket])).sum(axis=1)


def test_scores_and_values_make_the_attention_of_the_paper():
    (q, k), module, v = content(b=1, h=1, g=1, t=4, s=7), build(on_values=True), content(seed=1, b=1, h=1, g=1, s=7)[1]
    places = torch.arange(3, 7), torch.arange(7)
    weights = (q @ k.mT / math.sqrt(3) + module(q, k, *places)).softmax(dim=-1)
    output = weights @ v + module.values(weights, *places)
    tables = (table.detach().numpy() for table in (module.key_table, module.value_table))
    expected = paper(*(x[0, 0].numpy() for x in (q, k, v)), np.arange(3, 7), np.arange(7), *tables)
    np.testing.assert_allclose(output[0, 0].detach(), expected, atol=1e-12)


@pytest.mark.parametrize("heads", [None, 4])
@pytest.mark.parametrize("batched", [False, True])
def test_values_in_torch_equal_numpy(heads, batched):
    module, rng = build(heads=heads, on_values=True), np.random.default_rng(0)
    weights, where, keys = rng.random((2, 4, 5, 6)), rng.integers(0, 9, (2, 5)), rng.integers(0, 9, (2, 6))
    given = (where, keys) if batched else (where[0], keys[0])
    made = module.values(torch.tensor(weights), *map(torch.tensor, given)).detach()
    for row in range(2):
        places = (where[row], keys[row]) if batched else given
        np.testing.assert_allclose(
            made[row], shaw_values(weights[row], *places, module.value_table.detach()), atol=1e-12
        )


def test_the_weight_of_a_whole_bucket_goes_to_one_vector():
    module = build(on_values=True)
    weights = torch.zeros(1, 1, 1, 10).double()
    weights[..., :3] = 1 / 3
    summed = module.values(weights, torch.tensor([9]), torch.arange(10))
    torch.testing.assert_close(summed[0, 0, 0], module.value_table[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_values_round_half_precision_weights_once(dtype):
    module, weights = build(on_values=True).float(), content(t=6, d=6)[0].softmax(-1).to(dtype)
    assert torch.equal(module.values(weights), module.values(weights.float()).to(dtype))


def test_values_compile_in_one_graph_and_pass_gradients():
    torch._dynamo.reset()
    module, weights = build(on_values=True), content(t=6, d=6)[0].softmax(-1).requires_grad_()
    compiled = torch.compile(module.values, fullgraph=True, backend="eager")
    assert torch.equal(compiled(weights), module.values(weights))
    assert torch.autograd.gradcheck(module.values, (weights,), fast_mode=True)
    compiled(weights).square().sum().backward()
    assert module.value_table.grad.any()


def test_the_table_of_values_is_learned_only_where_asked():
    assert set(Shaw(4).state_dict()) == {"key_table"}
    assert set(Shaw(4, on_values=True).state_dict()) == {"key_table", "value_table"}


# Properties


@given(seed=seeds, where=places, shift=st.integers(-(10**9), 10**9))
@exactly
def test_shifting_all_positions_changes_nothing(seed, where, shift):
    (q, k), where, module = content(seed), torch.tensor(where), build(on_values=True)
    assert torch.equal(module(q, k, where, where), module(q, k, where + shift, where + shift))


@given(seed=seeds, where=places, order=st.permutations(range(6)))
@exactly
def test_keys_in_another_order_have_their_scores_in_that_order(seed, where, order):
    (q, k), where, module = content(seed), torch.tensor(where), build(on_values=True)
    scores = module(q, k, where, where)
    assert torch.equal(module(q, k, where, where[list(order)]), scores[..., order])
    weights = scores.softmax(dim=-1)
    moved = module.values(weights[..., order], where, where[list(order)])
    torch.testing.assert_close(moved, module.values(weights, where, where))


@given(seed=seeds, where=places)
@exactly
def test_a_reversed_table_reads_time_backwards(seed, where):
    (q, k), where, module = content(seed), torch.tensor(where), build()
    backwards = copy.deepcopy(module)
    backwards.key_table.data = module.key_table.data.flip(0)
    assert torch.equal(backwards(q, k, -where, -where), module(q, k, where, where))


def test_scaling_the_positions_changes_the_scores():
    (q, k), where = content(), torch.arange(6)
    assert not torch.allclose(build()(q, k, where, where), build()(q, k, 2 * where, 2 * where))


# Peers


@pytest.mark.parametrize("clip", [1, 4, 64])
def test_equals_wav2vec2_bert_where_it_clips_both_sides_alike(clip):
    q, k = content(d=8)
    module = build(dim=8, clip=clip)
    torch.testing.assert_close(module(q, k), wav2vec2_bert(module, clip, q, k))


def test_wav2vec2_bert_lets_fewer_queries_than_keys_stand_at_the_first_of_them():
    q, k = content(t=2, d=8)
    module = build(dim=8, clip=4)
    theirs = wav2vec2_bert(module, 4, q, k)
    torch.testing.assert_close(module(q, k, torch.arange(2), torch.arange(6)), theirs)
    assert not torch.allclose(module(q, k, torch.arange(4, 6), torch.arange(6)), theirs)


def wav2vec2_bert(module, clip, q, k):
    """Return the scores of transformers' function with our table, keys repeated for each head."""
    theirs = peer("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert")
    settings = SimpleNamespace(
        left_max_position_embeddings=clip,
        right_max_position_embeddings=clip,
        distance_embedding=nn.Embedding.from_pretrained(module.key_table.detach()),
        scaling=q.shape[-1] ** -0.5,
    )
    return theirs._apply_relative_key_position_encoding(settings, q, k.repeat_interleave(2, dim=1))[1]


# Decoding, FlexAttention, grouped heads, edges


def test_decoding_token_by_token_equals_scoring_at_once():
    (q, k), module = content(), build(on_values=True)
    whole = module(q, k)
    weights = torch.where(torch.ones(6, 6).tril().bool(), whole, -math.inf).softmax(dim=-1)
    for p in range(6):
        places = torch.tensor([p]), torch.arange(p + 1)
        step = module(q[:, :, p : p + 1], k[:, :, : p + 1], *places)
        torch.testing.assert_close(step[..., 0, :], whole[..., p, : p + 1])
        summed = module.values(step.softmax(dim=-1), *places)
        torch.testing.assert_close(summed[..., 0, :], module.values(weights)[..., p, :])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@torch.no_grad()
def test_flex_attention_takes_the_score_mod():
    (q, k), module = content(d=16, t=16, s=16, g=4), build(dim=16)
    expected = (q @ k.mT / 4 + module(q, k)).softmax(dim=-1) @ k
    made = flex_attention(q, k, k, score_mod=module.score_mod(q, k))
    torch.testing.assert_close(made, expected)


def test_the_number_of_key_heads_does_not_matter():
    q, k = content()
    assert torch.equal(build()(q, k), build()(q, k.repeat_interleave(2, dim=1)))


def test_one_token_scores_its_own_place():
    assert ruler()(ones(1), ones(1), torch.tensor([7])).item() == 0


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    q, k = content(t=t, s=s)
    where = torch.arange(t), torch.arange(s)
    assert build()(q, k, *where).shape == (2, 4, t, s)
    assert build(on_values=True).values(torch.zeros(2, 4, t, s), *where).shape == (2, 4, t, 3)


def test_more_queries_than_keys_stand_where_they_are_said_to():
    scores = ruler()(ones(3), ones(1), torch.tensor([-2, -1, 0]), torch.tensor([0])).flatten()
    torch.testing.assert_close(scores, torch.tensor([2.0, 1, 0]).double())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_queries_are_scored_in_float32_and_rounded_once(dtype):
    (q, k), module = (x.to(dtype) for x in content()), build().float()
    assert torch.equal(module(q, k), module(q.float(), k.float()).to(dtype))


def test_tables_start_normal_with_a_standard_deviation_of_one_over_the_root_of_the_width():
    torch.manual_seed(0)
    for table in Shaw(64, clip=100, on_values=True).parameters():
        assert abs(table.std().item() * 8 - 1) < 0.03
        assert abs(table.mean().item()) < 0.01


def test_the_default_clip_is_that_of_the_paper():
    assert inspect.signature(Shaw).parameters["clip"].default == 16


# What is refused: what would give a wrong result without an error


def test_positions_that_do_not_fit_are_refused_with_numbers():
    others = [(torch.arange(4096), "torch.int64 (4096,)"), (torch.tensor([3]), "torch.int64 (1,)")]
    others += [(torch.arange(6) / 2, "torch.float32 (6,)"), (torch.zeros(2, 1).long(), "torch.int64 (2, 1)")]
    assert_refused_with_numbers(build(), *content(), "6 integers", others)
    values, weights = build(on_values=True).values, torch.rand(2, 4, 6, 6)
    with pytest.raises(ValueError, match=r"shaw: positions must be 6 integers, got torch.int64 \(5,\)"):
        values(weights, torch.arange(5))
    with pytest.raises(ValueError, match="shaw: positions must be given for 3 queries and 6 keys, got None"):
        values(weights[:, :, :3])


def test_content_of_another_width_or_of_integers_is_refused():
    q, k = content()
    with pytest.raises(ValueError, match=r"shaw: q and k must be floats of one width, got torch.float64 of .* 3 and 2"):
        build()(q, k[..., :2])
    with pytest.raises(ValueError, match=r"shaw: q and k must be floats of one width, got torch.int64 of width 3"):
        build().score_mod(q.long(), k)


def test_one_row_of_positions_serves_a_batch():
    q, k = content()
    assert_one_row_serves_a_batch(build(), q, k, torch.zeros((), dtype=torch.float64))


def test_one_row_of_positions_serves_the_values_of_a_batch():
    module, weights = build(on_values=True), torch.rand(2, 4, 6, 6).double()
    one, rows = torch.tensor([[3, 0, 9, 7, 7, 1]]), torch.tensor([[5, 0, 1, 2, 9, 3], [4, 4, 0, 8, 1, 2]])
    for m, n in ((one, one), (one, rows), (rows, one), (one[0], one)):
        assert torch.equal(module.values(weights, m, n), module.values(weights, m.expand(2, 6), n.expand(2, 6)))


def test_values_compile_once_where_even_the_heads_are_a_symbol():
    module, made = build(heads=4, on_values=True), []
    compiled = torch.compile(module.values, dynamic=True, fullgraph=True, backend=lambda g, _: made.append(g) or g)
    for b, t, s in ((5, 7, 9), (8, 11, 13)):  # no two sizes alike: torch would tie them
        weights, places = torch.rand(b, 4, t, s).double(), (torch.arange(t), torch.arange(s))
        assert torch.equal(compiled(weights, *places), module.values(weights, *places))
    assert len(made) == 1


def test_the_score_mod_keeps_no_strided_positions_as_cpu_kernels_read_none():
    assert_the_score_mod_keeps_no_strided_positions(build(), *content())


def test_the_numpy_functions_take_one_position_a_token():
    assert_numpy_wants_one_position_a_token(shaw, np.ones((5, 4)))
    with pytest.raises(ValueError, match="cannot reshape"):
        shaw_values(np.ones((2, 3, 3)), [0], range(3), np.ones((5, 4)))


@pytest.mark.parametrize("where", [[0.5, 1, 2], [math.nan, 0, 0]], ids=str)
def test_positions_that_are_not_whole_are_refused_by_the_numpy_functions(where):
    with pytest.raises(ValueError, match="shaw: positions must be whole numbers, got "):
        shaw(np.zeros((1, 3, 2)), np.zeros((1, 3, 2)), where, range(3), np.zeros((5, 2)))
    with pytest.raises(ValueError, match="shaw: positions must be whole numbers, got "):
        shaw_values(np.zeros((1, 3, 3)), where, range(3), np.zeros((5, 2)))
