"""Positions: padding, packing, augmentation, grids, shards and longer texts, and the attention they leave as it was."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.positions import (
    augmented_positions,
    chosen_scores,
    document_mask,
    dual_chunk_positions,
    grid_positions,
    interpolated_positions,
    packed_documents,
    packed_positions,
    padded_positions,
    random_positions,
    self_extend_positions,
    shard,
    shard_positions,
    shifted_positions,
    unshard,
)
from posenc.rotate.rope import RoPE
from tests.peers import peer


def exercise(module):
    """Call what its shape comments are about."""
    module.padded_positions(torch.tensor([[0, 1, 1], [1, 1, 0]]))
    module.packed_positions(torch.tensor([0, 2, 5]))
    module.document_mask(torch.tensor([0, 0, 1]))
    module.random_positions(3, 9, batch=2)
    module.shifted_positions(3, 9, batch=2)
    module.augmented_positions(torch.arange(6).view(2, 3), center=True)
    module.interpolated_positions(5, 4)
    module.grid_positions(2, 3)
    module.unshard([module.shard(torch.ones(8, 1), rank, 2, order="zigzag") for rank in (0, 1)])
    module.shard_positions(8, 0, 2)
    module.dual_chunk_positions(torch.arange(5), torch.arange(6), 2, 3)
    module.self_extend_positions(torch.arange(5), torch.arange(6), 2, 3)


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)
lengths = st.lists(st.integers(0, 5), max_size=6)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def boundaries(sizes):
    return torch.tensor([0, *np.cumsum(sizes)], dtype=torch.int32)


def turned(q, k, positions, key_positions):
    """Rotate two channels by the position, as RoPE does."""
    made = []
    for x, where in ((q, positions), (k, key_positions)):
        cosine, sine = where.double().cos()[:, None], where.double().sin()[:, None]
        first, second = x[..., 0:1], x[..., 1:2]
        made.append(torch.cat([first * cosine - second * sine, first * sine + second * cosine, x[..., 2:]], dim=-1))
    return made


def attend(q, k, v, positions, key_positions, seen=True):
    """Return causal attention whose queries and keys are rotated to their positions."""
    q, k = turned(q, k, positions, key_positions)
    hidden = ~((positions[:, None] >= key_positions) & seen)
    return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -math.inf).softmax(dim=-1) @ v


# Padding


def test_real_tokens_count_from_0_and_padding_gets_0():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 0, 1], [0, 0, 0, 0, 0]])
    expected = torch.tensor([[0, 0, 0, 1, 2], [0, 1, 2, 0, 0], [0, 0, 1, 0, 2], [0, 0, 0, 0, 0]])
    assert torch.equal(padded_positions(mask), expected)
    assert torch.equal(padded_positions(mask.bool()), expected)
    assert torch.equal(padded_positions(mask[0].to(torch.uint8)), expected[0])


def test_a_mask_of_more_than_255_bytes_counts_past_them():
    assert padded_positions(torch.ones(300, dtype=torch.uint8))[-1] == 299


def test_the_mask_is_not_changed():
    mask = torch.tensor([[0, 1, 1]])
    padded_positions(mask)
    assert mask.tolist() == [[0, 1, 1]]
    assert mask._version == 0


def test_padded_positions_compile_and_vmap():
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]])
    torch._dynamo.reset()
    compiled = torch.compile(padded_positions, fullgraph=True, backend="eager")
    assert torch.equal(compiled(mask), padded_positions(mask))
    assert torch.equal(torch.func.vmap(padded_positions)(mask), padded_positions(mask))


def test_padded_positions_equal_those_of_hugging_face():
    theirs = peer("transformers.generation.utils").GenerationMixin._prepare_position_ids_for_generation
    mask = torch.tensor(np.random.default_rng(0).integers(0, 2, (4, 9)))
    assert torch.equal(padded_positions(mask), theirs(None, mask, {"attention_mask": mask}))


# Packing


def test_documents_packed_in_a_row_by_hand():
    ends = torch.tensor([0, 3, 4, 4, 6])  # the third document is empty
    assert packed_documents(ends).tolist() == [0, 0, 0, 1, 3, 3]
    assert packed_positions(ends).tolist() == [0, 1, 2, 0, 0, 1]


def test_tokens_after_the_last_document_are_one_more():
    ends = torch.tensor([0, 3, 4])
    assert packed_documents(ends, length=7).tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert packed_positions(ends, length=7).tolist() == [0, 1, 2, 0, 0, 1, 2]


@given(sizes=lengths)
@exactly
def test_each_document_counts_from_0(sizes):
    expected = [place for size in sizes for place in range(size)]
    assert packed_positions(boundaries(sizes)).tolist() == expected
    assert packed_documents(boundaries(sizes)).tolist() == [i for i, size in enumerate(sizes) for _ in range(size)]


def test_packed_positions_compile_where_the_length_is_given():
    torch._dynamo.reset()
    compiled = torch.compile(packed_positions, fullgraph=True, backend="eager")
    ends = torch.tensor([0, 3, 4])
    assert torch.equal(compiled(ends, 7), packed_positions(ends, 7))


def test_a_batch_of_documents_leaves_room_for_heads():
    documents = torch.tensor([[0, 0, 1], [4, 2, 2]])
    made = document_mask(documents)
    assert made.shape == (2, 1, 3, 3)
    assert torch.equal(made[1, 0], document_mask(documents[1]))
    assert made[0, 0].tolist() == [[True, True, False], [True, True, False], [False, False, True]]


def test_packed_documents_attend_as_if_alone():
    q, k, v = (torch.randn(1, 2, 7, 4).double() for _ in range(3))
    ends = torch.tensor([0, 3, 7])
    where, document = packed_positions(ends), packed_documents(ends)
    packed = attend(q, k, v, where, where, document[:, None] == document)
    for first, last in ((0, 3), (3, 7)):
        part, here = [x[:, :, first:last] for x in (q, k, v)], torch.arange(last - first)
        torch.testing.assert_close(packed[:, :, first:last], attend(*part, here, here))


def test_packed_positions_give_hugging_face_the_boundaries_back():
    theirs = peer("transformers.modeling_flash_attention_utils").prepare_fa_kwargs_from_position_ids
    ends = boundaries([3, 1, 5])
    assert torch.equal(theirs(packed_positions(ends)[None])[0][0], ends)


# Drawn for training


@given(length=st.integers(0, 20), more=st.integers(0, 20), seed=st.integers(0, 1000))
@exactly
def test_random_positions_rise_below_the_longer_length(length, more, seed):
    made = random_positions(length, length + more, generator=seeded(seed))
    assert made.shape == (length,)
    assert made.dtype == torch.int64
    assert (made.diff() > 0).all()
    assert ((made >= 0) & (made < length + more)).all()


def test_random_positions_of_all_places_are_all_of_them():
    assert random_positions(9, 9).tolist() == list(range(9))


def test_random_positions_draw_every_subset_alike():
    rows = random_positions(2, 4, batch=6000, generator=seeded())
    _, counts = torch.unique(rows, dim=0, return_counts=True)
    assert len(counts) == 6
    assert (counts - 1000).abs().max() < 5 * math.sqrt(1000)


def test_rows_of_a_batch_are_drawn_apart_and_none_without_one():
    assert random_positions(5, 100, batch=3, generator=seeded()).unique(dim=0).shape == (3, 5)
    assert random_positions(5, 100, batch=1).shape == shifted_positions(5, 100, batch=1).shape == (1, 5)
    assert random_positions(5, 100).shape == shifted_positions(5, 100).shape == (5,)


def test_shifted_positions_keep_their_offsets_and_draw_both_ends():
    rows = shifted_positions(4, 3, batch=4000, generator=seeded())
    assert (rows.diff() == 1).all()
    assert rows.dtype == torch.int64
    counts = rows[:, 0].bincount()
    assert len(counts) == 4  # 0, 1, 2 and 3
    assert (counts - 1000).abs().max() < 5 * math.sqrt(1000)


def test_a_largest_shift_of_0_is_none():
    assert shifted_positions(4, 0).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "draw",
    [
        lambda **named: random_positions(5, 100, **named),
        lambda **named: shifted_positions(5, 100, **named),
        lambda **named: augmented_positions(torch.arange(5), **named),
    ],
    ids=["random", "shifted", "augmented"],
)
def test_a_generator_draws_the_same_again(draw):
    assert torch.equal(draw(generator=seeded(3)), draw(generator=seeded(3)))
    assert not torch.equal(draw(generator=seeded(3)), draw(generator=seeded(4)))
    torch.manual_seed(0)
    first = draw()
    assert not torch.equal(first, draw())


def parts_of(made, positions):
    """Return the least-squares stretch and shift of each row, and what is left: the jitter."""
    p, rows = positions.double(), []
    for row in made:
        design = torch.stack([p, torch.ones_like(p)], dim=-1)
        stretch, offset = torch.linalg.lstsq(design, row[:, None]).solution.flatten()
        rows.append((stretch, offset / stretch, (row - stretch * p - offset) / stretch))
    return (torch.stack(parts) for parts in zip(*rows, strict=True))


def test_augmented_positions_are_a_shift_and_a_stretch_of_each_row():
    positions = torch.arange(10)
    made = augmented_positions(positions.expand(500, -1), 5, 0, 1.5, generator=seeded())
    stretch, shift, jitter = parts_of(made, positions)
    assert jitter.abs().max() < 1e-12
    assert -5 <= shift.min() < -4.8
    assert 4.8 < shift.max() <= 5
    assert 1 / 1.5 <= stretch.min() < 0.68
    assert 1.48 < stretch.max() <= 1.5
    assert stretch.log().mean().abs() < 5 * math.log(1.5) / math.sqrt(3 * 500)  # uniform in its logarithm
    assert shift.mean().abs() < 5 * 5 / math.sqrt(3 * 500)


def test_the_jitter_of_each_token_is_its_own_and_keeps_the_order():
    positions = torch.arange(200)
    made = augmented_positions(positions.expand(20, -1), 0, 0.5, 1, generator=seeded())
    jitter = made - positions
    assert -0.5 <= jitter.min() < -0.49
    assert 0.49 < jitter.max() <= 0.5
    assert jitter.unique().numel() == 4000
    assert (made.diff() > 0).all()


def test_a_larger_jitter_does_not_keep_it():
    made = augmented_positions(torch.arange(200), 0, 1.0, 1, generator=seeded())
    assert (made.diff() < 0).any()


def test_augmented_positions_have_the_bounds_of_cape_for_texts_by_default():
    far = 1e6  # beside it shift and jitter are nothing
    start, end = augmented_positions(torch.tensor([0.0, far]).expand(4000, -1), generator=seeded()).T
    stretch = ((end - start) / far).log() / math.log(1.03)
    assert 0.99 < stretch.max() < 1.01
    assert -1.01 < stretch.min() < -0.99
    assert 5.0 < start.abs().max() < 5.5 * 1.03


def test_augmented_positions_may_be_centred_before():
    positions = torch.tensor([[4, 6, 11], [0, 1, 2]])
    made = augmented_positions(positions, 0, 0, 1, center=True)
    torch.testing.assert_close(made, torch.tensor([[-3.0, -1, 4], [-1, 0, 1]], dtype=torch.float64))


def test_no_augmentation_leaves_positions_as_they_are_in_float64():
    positions = torch.tensor([0, 7, 2**24 + 1], dtype=torch.int32)
    made = augmented_positions(positions, 0, 0, 1)
    assert made.dtype == torch.float64
    assert made.tolist() == positions.tolist()


def test_one_row_has_one_shift_and_one_stretch():
    made = augmented_positions(torch.arange(6), local_shift=0, generator=seeded())
    torch.testing.assert_close(made.diff(), made.diff()[:1].expand(5))


def test_the_stretch_comes_after_the_shift_as_in_the_paper():
    made = augmented_positions(torch.zeros(20_000, 1), global_shift=1, local_shift=0, scale=4, generator=seeded())
    assert made.abs().max() > 3.5  # a shift alone would end at 1


# Pressed together, and on grids


def test_interpolated_positions_by_hand():
    assert interpolated_positions(8, 4).tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]
    assert interpolated_positions(3, 4).tolist() == [0, 1, 2]
    assert interpolated_positions(0, 4).tolist() == []


@given(length=st.integers(1, 500), trained=st.integers(1, 500))
@exactly
def test_interpolated_positions_stay_in_the_trained_range(length, trained):
    made = interpolated_positions(length, trained)
    assert made.dtype == torch.float64
    assert len(made) == length
    assert made[0] == 0
    assert made[-1] <= trained - 1 or length > trained > made[-1]


def test_a_grid_runs_fastest_along_its_last_axis():
    assert grid_positions(2, 3).tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]


@pytest.mark.parametrize("size", [(1,), (5,), (2, 3), (4, 1, 3), (2, 3, 2, 2)], ids=str)
def test_the_cells_of_a_grid_are_those_of_a_flattened_image(size):
    made = grid_positions(*size)
    assert made.shape == (math.prod(size), len(size))
    image = torch.arange(math.prod(size)).view(size)
    assert torch.equal(image[tuple(made.T)], image.flatten())


# Shards


def test_shards_by_hand():
    assert [shard_positions(8, rank, 2).tolist() for rank in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    zigzag = [shard_positions(12, rank, 3, "zigzag").tolist() for rank in range(3)]
    assert zigzag == [[0, 1, 10, 11], [2, 3, 8, 9], [4, 5, 6, 7]]


each_order = pytest.mark.parametrize("order", ["contiguous", "zigzag"])


@each_order
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_every_position_is_held_once(order, ranks):
    held = torch.cat([shard_positions(48, rank, ranks, order) for rank in range(ranks)])
    assert torch.equal(held.sort().values, torch.arange(48))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_zigzag_shares_out_the_pairs_of_causal_attention_alike_and_contiguous_does_not(ranks):
    pairs = {
        order: {(shard_positions(48, rank, ranks, order) + 1).sum().item() for rank in range(ranks)}
        for order in ("contiguous", "zigzag")
    }
    assert len(pairs["zigzag"]) == 1
    assert len(pairs["contiguous"]) == ranks


@each_order
@pytest.mark.parametrize(("shape", "dim"), [((24,), 0), ((2, 24), 1), ((2, 24), -1), ((2, 3, 24, 5), -2)], ids=str)
def test_shards_are_put_together_again(order, shape, dim):
    x = torch.randn(shape)
    parts = [shard(x, rank, 3, order, dim) for rank in range(3)]
    assert {part.shape[dim] for part in parts} == {8}
    assert torch.equal(unshard(parts, order, dim), x)
    assert torch.equal(unshard(tuple(parts), order, dim), x)


def test_the_axis_of_shards_is_that_of_tokens_in_queries_by_default():
    x = torch.arange(8)[:, None].expand(2, 3, 8, 5)
    assert torch.equal(shard(x, 1, 2, "zigzag")[0, 0, :, 0], shard_positions(8, 1, 2, "zigzag"))


def test_packed_positions_are_sharded_like_any_other_tokens():
    where = packed_positions(torch.tensor([0, 5, 8]))
    assert shard(where, 0, 2, "zigzag", dim=0).tolist() == [0, 1, 1, 2]


@each_order
def test_sharded_attention_over_gathered_keys_is_that_of_the_whole(order):
    q, k, v = (torch.randn(2, 3, 16, 4, dtype=torch.float64) for _ in range(3))
    whole = attend(q, k, v, torch.arange(16), torch.arange(16))
    places = [shard_positions(16, rank, 4, order) for rank in range(4)]
    gathered = [torch.cat([shard(x, rank, 4, order) for rank in range(4)], dim=-2) for x in (k, v)]
    parts = [attend(shard(q, rank, 4, order), *gathered, places[rank], torch.cat(places)) for rank in range(4)]
    torch.testing.assert_close(unshard(parts, order), whole)


# What would be wrong without an error

REFUSED = {
    "mask must be booleans or integers, got torch.float32": [  # such as 0 and -inf, where true means hidden
        lambda: padded_positions(torch.tensor([[0.0, -math.inf]]))
    ],
    r"cu_seqlens must be rising from 0, got \[3, 2, 4\]": [  # lengths instead of boundaries
        lambda: packed_documents(torch.tensor([3, 2, 4])),
        lambda: packed_positions(torch.tensor([3, 2, 4]), length=9),
    ],
    r"cu_seqlens must be rising from 0, got \[0, 3, 2\]": [lambda: packed_documents(torch.tensor([0, 3, 2]))],
    "length must be 0 to longer, 4, got 5": [lambda: random_positions(5, 4)],
    "length must be 0 to longer, 4, got -1": [lambda: random_positions(-1, 4)],
    "rank must be 0 to 1, got 2": [
        lambda: shard_positions(8, 2, 2),
        lambda: shard_positions(8, 2, 2, "zigzag"),
        lambda: shard(torch.ones(8, 1), 2, 2),
    ],
    "rank must be 0 to 1, got -1": [lambda: shard_positions(8, -1, 2)],
    "order must be 'contiguous' or 'zigzag', got 'ring'": [
        lambda: shard_positions(8, 0, 2, "ring"),
        lambda: unshard([torch.ones(4, 1)] * 2, order="ring"),
    ],
    r"shards must be tensors of one shape, got {.*\(6, 1\).*}": [
        lambda: unshard([torch.ones(6, 1), torch.ones(2, 1)], "zigzag")
    ],
}


@pytest.mark.parametrize(("said", "call"), [(said, call) for said in REFUSED for call in REFUSED[said]])
def test_what_would_be_wrong_in_silence_is_refused_by_name(said, call):
    with pytest.raises(ValueError, match=f"positions: {said}"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: padded_positions([[1, 0]]),
        lambda: packed_documents([0, 3]),
        lambda: packed_documents(torch.tensor([[0, 3]])),
        lambda: packed_documents(torch.tensor([], dtype=torch.int64)),
        lambda: packed_documents(torch.tensor([0, 3]), length=-1),
        lambda: random_positions(2.5, 9),
        lambda: random_positions(2, 9, batch=0),
        lambda: shifted_positions(4, -1),
        lambda: shifted_positions(4, 9, generator=0),
        lambda: augmented_positions([0, 1]),
        lambda: interpolated_positions(-1, 4),
        lambda: grid_positions((2, 3)),
        lambda: grid_positions(2, -1),
        lambda: shard_positions(6, 0, 4),
        lambda: shard_positions(6, 0, 2, "zigzag"),
        lambda: shard(torch.ones(8, 1), 0, 2, dim=2),
    ],
)
def test_the_rest_is_refused_by_torch_and_python(call):
    with pytest.raises((AttributeError, IndexError, RuntimeError, TypeError)):
        call()


def turned_both(q, k, positions, key_positions):
    return RoPE(8)(q, k, positions, key_positions)


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
    maps = [turned_both(q, k, m, n)[0] @ turned_both(q, k, m, n)[1].mT for m, n in zip(queries, keys, strict=True)]
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
            x, y = turned_both(q[:, :, [i]], k[:, :, [j]], offset[i, j][None], torch.zeros(1))
            torch.testing.assert_close(made[..., i, j], (x @ y.mT)[..., 0, 0])


@each_way
def test_short_texts_are_scored_as_ever_and_new_tokens_as_in_the_whole(way):
    q, k = torch.randn(2, 1, 2, 23, 8, dtype=torch.float64).unbind()
    places = torch.arange(23)
    x, y = turned_both(q, k, places, places)
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
        x, y = turned_both(q, k, m, n)
        logits = (x @ y.mT).masked_fill(~past | (which != i), -math.inf)
        outputs.append(logits.softmax(-1).nan_to_num() @ v)
        sums.append(logits.logsumexp(-1, keepdim=True))
    share = torch.stack(sums).softmax(0)
    torch.testing.assert_close((share * torch.stack(outputs)).sum(0), expected)


# What would be wrong without an error


@pytest.mark.parametrize("chunk", [0, 10])
def test_chunks_that_leave_no_window_are_refused(chunk):
    with pytest.raises(ValueError, match=f"positions: chunk must be 1 to 9, got {chunk}"):
        dual_chunk_positions(torch.arange(9), torch.arange(9), chunk, 10)


@pytest.mark.parametrize("group", [0, 5])
def test_groups_larger_than_the_neighbors_are_refused(group):
    with pytest.raises(ValueError, match=f"positions: group must be 1 to neighbors, 4, got {group}"):
        self_extend_positions(torch.arange(9), torch.arange(9), group, 4)
