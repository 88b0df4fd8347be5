"""Shaw: offsets read off a table of their own numbers, the paper's scores and values together, and the peers."""

import inspect
import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import torch
from torch import nn

from posenc.score.shaw import Shaw, shaw, shaw_values
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


def build(dim=3, clip=2):
    return randomized(Shaw(dim, clip, on_values=True))


def ruler(clip):
    """Return a table (2 clip + 1, 1) whose vectors are the offsets: at a query of 1 the score is the clipped offset."""
    return np.arange(-clip, clip + 1.0)[:, None]


def attention_weights(q=6, s=6):
    """Return random weights (2, 4, q, s) that sum to 1."""
    return torch.rand(2, 4, q, s, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)


# Values worked by hand


def test_the_offset_is_key_minus_query_clipped_on_both_sides():
    scores = shaw(np.ones((1, 4, 1)), np.ones((1, 4, 1)), range(4), range(4), ruler(2))
    np.testing.assert_array_equal(scores, [[[0, 1, 2, 2], [-1, 0, 1, 2], [-2, -1, 0, 1], [-2, -2, -1, 0]]])


def test_the_score_is_divided_by_the_root_of_the_width():
    # q . row = 0.1 * 3 + 2 * 0.7 = 1.7 in a width of 4
    table = [[0, 0, 0, 0], [3, 0.7, 0, 0], [0, 0, 0, 0]]
    scores = shaw([[[0.1, 2, 0, 0]]], np.zeros((1, 1, 4)), [7], [7], table)
    np.testing.assert_allclose(scores, [[[1.7 / 2]]], rtol=1e-14)


def test_the_output_sums_the_vectors_of_offsets_by_weight():
    # of the query at 0, with offsets 0, 1 and 5: 0.5 * 0 + 0.25 * 1 + 0.25 * 1; of that at 1 the offset 4 alone
    output = shaw_values([[[0.5, 0.25, 0.25], [0, 0, 1]]], [0, 1], [0, 1, 5], ruler(1))
    np.testing.assert_allclose(output, [[[0.5], [1.0]]])


def test_heads_may_have_tables_of_their_own():
    tables = np.stack([ruler(2), 10 * ruler(2)])
    x = np.ones((2, 3, 1))
    np.testing.assert_array_equal(shaw(x, x, range(3), range(3), tables)[:, 0], [[0, 1, 2], [0, 10, 20]])
    # the module takes such tables in place of its own
    q, k = content(h=2)
    encoding, weights = build(), attention_weights()[:, :2]
    for name in ("key_table", "value_table"):
        setattr(encoding, name, nn.Parameter(torch.randn(2, 5, 3, dtype=torch.float64)))
    key_table, value_table = encoding.key_table.detach(), encoding.value_table.detach()
    scores, output = encoding(q, k).detach(), encoding.values(weights).detach()
    for row in range(2):
        np.testing.assert_allclose(scores[row], shaw(q[row], k[row], range(6), range(6), key_table))
        np.testing.assert_allclose(output[row], shaw_values(weights[row], range(6), range(6), value_table))


def test_the_contents_of_keys_do_not_matter():
    q, k = content()
    assert torch.equal(build()(q, k), build()(q, torch.zeros_like(k)))


def test_tables_start_normal_with_a_standard_deviation_of_one_over_the_root_of_the_width():
    torch.manual_seed(0)
    for table in Shaw(64, clip=100, on_values=True).parameters():
        assert abs(table.std().item() * 8 - 1) < 0.03
        assert abs(table.mean().item()) < 0.01


def test_the_default_is_the_papers_clip_without_a_table_of_values():
    assert inspect.signature(Shaw).parameters["clip"].default == 16
    assert set(Shaw(4).state_dict()) == {"key_table"}
    assert set(Shaw(4, on_values=True).state_dict()) == {"key_table", "value_table"}


# The paper's attention, scores and values together (eq. 3 and 4)


def eq_3_and_4(q, k, v, positions, key_positions, key_table, value_table):
    """Return the output of one head (t, d), from (t, s, d) vectors for keys and values, as the paper has it."""
    clip = len(key_table) // 2
    row = np.clip(key_positions - positions[:, None], -clip, clip) + clip
    e = ((k + key_table[row]) @ q[:, :, None])[..., 0] / math.sqrt(q.shape[-1])
    weights = np.exp(e) / np.exp(e).sum(axis=-1, keepdims=True)
    return (weights[..., None] * (v + value_table[row])).sum(axis=1)


def test_scores_and_values_make_the_attention_of_the_paper():
    (q, k), v = content(b=1, h=1, g=1, t=4, s=7), torch.randn(7, 3, dtype=torch.float64)
    encoding, m, n = build(), torch.arange(3, 7), torch.arange(7)
    weights = (q @ k.mT / math.sqrt(3) + encoding(q, k, m, n)).softmax(dim=-1)
    output = weights @ v + encoding.values(weights, m, n)
    tables = encoding.key_table.detach().numpy(), encoding.value_table.detach().numpy()
    expected = eq_3_and_4(q[0, 0].numpy(), k[0, 0].numpy(), v.numpy(), m.numpy(), n.numpy(), *tables)
    np.testing.assert_allclose(output[0, 0].detach(), expected, atol=1e-12)


# Values


@pytest.mark.parametrize("m", [[4, 0, 9, 7, 7, 1], [[4, 0, 9, 7, 7, 1]], [[4, 0, 9, 7, 7, 1], [5, 0, 1, 2, 9, 3]]])
@pytest.mark.parametrize("n", [[1, 2, 3], [[5, 0, 1]], [[4, 4, 0], [8, 1, 2]]])
def test_values_in_torch_equal_numpy(m, n):
    encoding, weights = build(), attention_weights(s=3)
    output = encoding.values(weights, torch.tensor(m), torch.tensor(n)).detach()
    each_m, each_n = np.broadcast_to(m, (2, 6)), np.broadcast_to(n, (2, 3))
    for row in range(2):
        expected = shaw_values(weights[row], each_m[row], each_n[row], encoding.value_table.detach())
        np.testing.assert_allclose(output[row], expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_values_round_half_precision_weights_once(dtype):
    encoding, weights = build().float(), attention_weights().to(dtype)
    assert torch.equal(encoding.values(weights), encoding.values(weights.float()).to(dtype))


def test_values_pass_gradients():
    encoding, weights = build(), attention_weights().requires_grad_()
    assert torch.autograd.gradcheck(encoding.values, (weights,), fast_mode=True)
    encoding.values(weights).square().sum().backward()
    assert encoding.value_table.grad.all()


def test_values_compile_once_for_all_sizes():
    encoding, graphs = build(), []
    compiled = torch.compile(encoding.values, dynamic=True, fullgraph=True, backend=lambda g, _: graphs.append(g) or g)
    for b, t, s in ((5, 7, 9), (8, 11, 13)):  # no two sizes alike: torch would tie them
        weights, positions = torch.rand(b, 4, t, s, dtype=torch.float64), (torch.arange(t), torch.arange(s))
        assert torch.equal(compiled(weights, *positions), encoding.values(weights, *positions))
    assert len(graphs) == 1


# Properties


def test_a_reversed_table_reads_time_backwards():
    (q, k), positions = content(), torch.tensor([3, 1, 4, 1, 5, 9])
    encoding, backwards = build(), build()
    backwards.key_table.data = encoding.key_table.data.flip(0)
    assert torch.equal(backwards(q, k, -positions), encoding(q, k, positions))


# Peers


def wav2vec2_bert(encoding, q, k):
    """Return the scores of transformers' function with our table, keys repeated for each head."""
    theirs = peer("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert")
    settings = SimpleNamespace(
        left_max_position_embeddings=encoding.clip,
        right_max_position_embeddings=encoding.clip,
        distance_embedding=nn.Embedding.from_pretrained(encoding.key_table.detach()),
        scaling=q.shape[-1] ** -0.5,
    )
    return theirs._apply_relative_key_position_encoding(settings, q, k.repeat_interleave(2, dim=1))[1]


@pytest.mark.parametrize("clip", [1, 4, 64])
def test_equals_wav2vec2_bert_where_it_clips_both_sides_alike(clip):
    q, k = content(d=8)
    encoding = build(dim=8, clip=clip)
    torch.testing.assert_close(encoding(q, k), wav2vec2_bert(encoding, q, k))


def test_wav2vec2_bert_lets_fewer_queries_than_keys_stand_at_the_first_of_them():
    q, k = content(t=2, d=8)
    encoding = build(dim=8, clip=4)
    theirs = wav2vec2_bert(encoding, q, k)
    torch.testing.assert_close(encoding(q, k, torch.arange(2), torch.arange(6)), theirs)
    assert not torch.allclose(encoding(q, k, torch.arange(4, 6), torch.arange(6)), theirs)


# Edges, and what is refused


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores_and_no_values(t, s):
    positions = torch.arange(t), torch.arange(s)
    assert build()(*content(t=t, s=s), *positions).shape == (2, 4, t, s)
    assert build().values(torch.zeros(2, 4, t, s), *positions).shape == (2, 4, t, 3)


def test_half_precision_is_scored_in_float32_and_rounded_once():
    assert_half_precision_is_rounded_once(build())


def test_positions_are_subtracted_in_64_bits():
    assert_positions_are_subtracted_in_64_bits(build())


def test_the_score_mod_takes_rows_as_they_lie():
    assert_the_score_mod_takes_rows_as_they_lie(build(), *content())


@pytest.mark.parametrize(("changes", "message"), [*WRONG_CONTENT, FLOAT_POSITIONS])
def test_content_of_two_widths_or_integers_and_positions_of_floats_are_refused(changes, message):
    q, k = content()
    with pytest.raises(ValueError, match=f"shaw: {message}"):
        build()(**{"q": q, "k": k} | changes)


def test_values_refuse_the_positions_that_scores_refuse():
    with pytest.raises(
        ValueError,
        match=r"shaw: positions must have shape \(6,\) or \(b, 6\) and an integer dtype, got torch\.int64 \(5,\)",
    ):
        build().values(attention_weights(), torch.arange(5))
    with pytest.raises(ValueError, match="shaw: positions must be given for 3 queries and 6 keys, got None"):
        build().values(attention_weights(q=3))


@pytest.mark.parametrize("positions", [[0.5, 1, 2], [math.nan, 0, 0]], ids=str)
def test_the_numpy_functions_take_one_whole_position_a_token(positions):
    x, weights, table = np.ones((2, 3, 4)), np.ones((2, 3, 3)), np.ones((5, 4))
    assert_numpy_wants_one_position_a_token(shaw, table)
    with pytest.raises(ValueError, match="cannot reshape"):
        shaw_values(weights, [0], range(3), table)
    with pytest.raises(ValueError, match="shaw: positions must be whole numbers, got "):
        shaw(x, x, positions, range(3), table)
    with pytest.raises(ValueError, match="shaw: positions must be whole numbers, got "):
        shaw_values(weights, positions, range(3), table)
