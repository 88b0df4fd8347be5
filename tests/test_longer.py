"""Positions for longer texts: the papers' examples, a slow loop, scores at the folded offsets, and maps that join."""

import math

import pytest
import torch

from posenc.longer import chosen_scores, dual_chunk_positions, self_extend_positions
from posenc.rotate.rope import RoPE


def exercise(module):
    module.dual_chunk_positions(torch.arange(5), torch.arange(6), 2, 3)
    module.self_extend_positions(torch.arange(5), torch.arange(6), 2, 3)


def turned(q, k, positions, key_positions):
    return RoPE(8).turn(q, positions), RoPE(8).turn(k, key_positions)


def offsets(queries, keys, which):
    """Return the offset (t, s) that each pair of a causal text is scored at."""
    return chosen_scores(queries[:, :, None] - keys[:, None, :], which).tril(which.shape[1] - which.shape[0])


def test_the_worked_example_of_dual_chunk_attention():
    # 12 tokens, chunks of 6, trained on 10: figure 2 of the paper
    places = torch.arange(12)
    queries, keys, which = dual_chunk_positions(places, places, 6, 10)
    assert keys.tolist() == [[0, 1, 2, 3, 4, 5] * 2] * 3
    assert queries.tolist() == [[0, 1, 2, 3, 4, 5] * 2, [6, 7, 8, 9, 9, 9] * 2, [9] * 12]
    made = offsets(queries, keys, which)
    assert made[5].tolist() == [5, 4, 3, 2, 1, 0, *[0] * 6]
    assert made[6].tolist() == [6, 5, 4, 3, 2, 1, 0, *[0] * 5]
    assert made[11].tolist() == [9, 8, 7, 6, 5, 4, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(("chunk", "trained"), [(6, 10), (4, 5), (3, 9), (1, 2)])
def test_dual_chunks_as_in_a_loop(chunk, trained):
    places = torch.arange(29)
    made = offsets(*dual_chunk_positions(places, places, chunk, trained))
    for i in range(29):
        for j in range(i + 1):
            back = i // chunk - j // chunk
            query = [i % chunk, min(i % chunk + chunk, trained - 1), trained - 1][min(back, 2)]
            assert made[i, j] == query - j % chunk
    assert made.max() == trained - 1
    offset = places[:, None] - places
    near = (offset >= 0) & (offset <= min(trained - 1 - chunk, chunk))  # these are what they were
    assert torch.equal(made[near], offset[near])


def test_the_worked_example_of_self_extend():
    # 10 tokens, 4 neighbors, groups of 2, trained on 7: figure 3 of the paper
    places = torch.arange(10)
    queries, keys, which = self_extend_positions(places, places, 2, 4)
    assert queries[1].tolist() == [2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert keys[1].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    made = offsets(queries, keys, which)
    assert made[9].tolist() == [6, 6, 5, 5, 4, 4, 3, 2, 1, 0]
    assert made[4].tolist() == [4, 3, 2, 1, 0, *[0] * 5]


@pytest.mark.parametrize(("group", "neighbors", "trained"), [(2, 4, 7), (4, 8, 20), (1, 5, 9), (8, 16, 21)])
def test_self_extend_as_in_a_loop_up_to_its_longest_text(group, neighbors, trained):
    length = neighbors + group * (trained - neighbors)
    places = torch.arange(length)
    made = offsets(*self_extend_positions(places, places, group, neighbors))
    for i in range(length):
        for j in range(i + 1):
            grouped = i // group + neighbors - neighbors // group - j // group
            assert made[i, j] == (i - j if i - j < neighbors else grouped)
    assert made.max() == trained - 1
    longer = torch.arange(length + 1)
    assert offsets(*self_extend_positions(longer, longer, group, neighbors)).max() == trained


def scored(q, k, queries, keys, which):
    maps = [turned(q, k, m, n)[0] @ turned(q, k, m, n)[1].mT for m, n in zip(queries, keys, strict=True)]
    return chosen_scores(torch.stack(maps), which)


WAYS = {
    "dual chunk": lambda m, n: dual_chunk_positions(m, n, 6, 10),
    "self-extend": lambda m, n: self_extend_positions(m, n, 2, 4),
}
each_way = pytest.mark.parametrize("way", list(WAYS.values()), ids=list(WAYS))


@each_way
def test_each_pair_is_scored_at_its_offset(way):
    q, k = torch.randn(2, 1, 2, 23, 8, dtype=torch.float64).unbind()
    places = torch.arange(23)
    made, offset = scored(q, k, *way(places, places)), offsets(*way(places, places))
    for i in range(23):
        for j in range(i + 1):
            x, y = turned(q[:, :, [i]], k[:, :, [j]], offset[i, j][None], torch.zeros(1))
            torch.testing.assert_close(made[..., i, j], (x @ y.mT)[..., 0, 0])


@each_way
def test_short_texts_are_scored_as_ever_and_new_tokens_as_in_the_whole(way):
    q, k = torch.randn(2, 1, 2, 23, 8, dtype=torch.float64).unbind()
    places = torch.arange(23)
    x, y = turned(q, k, places, places)
    whole = scored(q, k, *way(places, places))
    torch.testing.assert_close(whole[..., :4, :4], (x @ y.mT)[..., :4, :4])
    last = scored(q[:, :, 20:], k, *way(places[20:], places))
    torch.testing.assert_close(last, whole[:, :, 20:])


@each_way
def test_maps_that_kernels_softmax_apart_join_by_their_sums(way):
    q, k, v = torch.randn(3, 1, 2, 23, 8, dtype=torch.float64).unbind()
    places = torch.arange(23)
    queries, keys, which = way(places, places)
    past = places[:, None] >= places
    expected = scored(q, k, queries, keys, which).masked_fill(~past, -math.inf).softmax(-1) @ v
    outputs, sums = [], []
    for i, (m, n) in enumerate(zip(queries, keys, strict=True)):
        x, y = turned(q, k, m, n)
        logits = (x @ y.mT).masked_fill(~past | (which != i), -math.inf)
        outputs.append(logits.softmax(-1).nan_to_num() @ v)
        sums.append(logits.logsumexp(-1, keepdim=True))
    share = torch.stack(sums).softmax(0)
    torch.testing.assert_close((share * torch.stack(outputs)).sum(0), expected)


# What would be wrong without an error


@pytest.mark.parametrize("chunk", [0, 10])
def test_chunks_that_leave_no_window_are_refused(chunk):
    with pytest.raises(ValueError, match=f"longer: chunk must be 1 to 9, got {chunk}"):
        dual_chunk_positions(torch.arange(9), torch.arange(9), chunk, 10)


@pytest.mark.parametrize("group", [0, 5])
def test_groups_larger_than_the_neighbors_are_refused(group):
    with pytest.raises(ValueError, match=f"longer: group must be 1 to neighbors, 4, got {group}"):
        self_extend_positions(torch.arange(9), torch.arange(9), group, 4)
