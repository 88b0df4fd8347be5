"""The positions of M-RoPE: text, images and videos by hand, Qwen's code, and what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.rotate.mrope_positions import mrope_positions
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)


def exercise(module):
    """Call what its shape comments are about."""
    module.mrope_positions([0, 1, 1, 1, 1, 2], [(1, 4, 4)], [(1, 2, 2)])


# Values worked by hand


def test_text_counts_from_0():
    positions, following = mrope_positions([0, 0, 0])
    np.testing.assert_array_equal(positions, [[0, 0, 0], [1, 1, 1], [2, 2, 2]])
    assert following == 3


def test_an_image_between_words():
    # 2 x 3 tokens from number 1: rows 1 and 2, columns 1 to 3; the next word is 4
    positions, following = mrope_positions([0, *[1] * 6, 0], image_grids=[(1, 4, 6)])
    expected = [[0, 0, 0], [1, 1, 1], [1, 1, 2], [1, 1, 3], [1, 2, 1], [1, 2, 2], [1, 2, 3], [4, 4, 4]]
    np.testing.assert_array_equal(positions, expected)
    assert following == 5
    assert following - len(positions) == -3


def test_a_video_of_four_frames_between_words():
    # 4 frames of 1 x 2 tokens from number 1: the frames reach 4, so the next word is 5
    positions, following = mrope_positions([0, *[2] * 8, 0], video_grids=[(4, 2, 4)])
    frames = [[1 + frame, 1, 1 + column] for frame in range(4) for column in range(2)]
    np.testing.assert_array_equal(positions, [[0, 0, 0], *frames, [5, 5, 5]])
    assert following == 6


def test_frames_stand_at_their_seconds_rounded_down_after_the_product():
    # 2 numbers a second, a frame each 0.75 seconds: 0, 1.5, 3, 4.5
    positions, following = mrope_positions(
        [2] * 4, video_grids=[(4, 2, 2)], seconds_per_grid=[0.75], tokens_per_second=2
    )
    np.testing.assert_array_equal(positions[:, 0], [0, 1, 3, 4])
    assert following == 5
    slow, _ = mrope_positions([2] * 4, video_grids=[(4, 2, 2)], seconds_per_grid=[0.25], tokens_per_second=1)
    np.testing.assert_array_equal(slow[:, 0], [0, 0, 0, 0])


def test_frames_are_rounded_down_as_in_float32():
    # 50 x 0.58 is 29; in float64 it is 28.999999999999996
    positions, _ = mrope_positions([2] * 51, video_grids=[(51, 2, 2)], seconds_per_grid=[0.29], tokens_per_second=2)
    assert 50 * (2 * 0.29) < 29
    assert positions[50, 0] == 29


def test_images_and_videos_take_their_grids_in_order():
    kinds = [1, 0, 2, 2, 1, 1, 2]
    positions, following = mrope_positions(kinds, [(1, 1, 1), (1, 1, 2)], [(2, 1, 1), (1, 1, 1)], merge=1)
    expected = [[0, 0, 0], [1, 1, 1], [2, 2, 2], [3, 2, 2], [4, 4, 4], [4, 4, 5], [6, 6, 6]]
    np.testing.assert_array_equal(positions, expected)
    assert following == 7


def test_two_images_side_by_side_are_two():
    positions, following = mrope_positions([1] * 8, [(1, 4, 4), (1, 4, 4)])
    np.testing.assert_array_equal(positions[4:], positions[:4] + 2)
    assert following == 4


def test_seconds_belong_to_their_video():
    grids = [(2, 2, 2), (2, 2, 2)]
    positions, _ = mrope_positions([2] * 4, video_grids=grids, seconds_per_grid=[5.0, 1.0], tokens_per_second=2)
    np.testing.assert_array_equal(positions[:, 0], [0, 10, 11, 13])


@given(
    parts=st.lists(
        st.one_of(
            st.integers(1, 5), st.tuples(st.just(1), *[st.integers(1, 4)] * 2), st.tuples(*[st.integers(1, 4)] * 3)
        )
    )
)
@exactly
def test_no_number_is_taken_twice_and_none_is_left_out(parts):
    kinds, images, videos = [], [], []
    for part in parts:
        if isinstance(part, int):
            kinds += [0] * part
        else:
            (images if part[0] == 1 else videos).append(part)
            kinds += [1 if part[0] == 1 else 2] * math.prod(part)
    positions, following = mrope_positions(kinds, images, videos, merge=1)
    assert positions.shape == (len(kinds), 3)
    assert positions.dtype == np.int64
    assert following == positions.max(initial=-1) + 1
    assert set(positions.flatten().tolist()) == set(range(following))
    at, before = 0, -1
    for part in parts:
        size = part if isinstance(part, int) else math.prod(part)
        assert positions[at : at + size].min() == before + 1
        at, before = at + size, positions[at : at + size].max()


def test_nothing_has_no_positions():
    positions, following = mrope_positions([])
    assert (positions.shape, following) == ((0, 3), 0)


def test_tensors_of_processors_are_taken():
    positions, _ = mrope_positions(torch.tensor([0, 1]), torch.tensor([[1, 2, 2]]))
    np.testing.assert_array_equal(positions, [[0, 0, 0], [1, 1, 1]])


# Numbers of other libraries


@vectors("mrope_position_ids")
def test_vectors_of_position_ids(vector):
    told = vector["params"]
    positions, following = mrope_positions(
        told["mm_token_type_ids"], told["image_grid_thw"], merge=told["spatial_merge_size"]
    )
    assert_agrees(vector, positions.T, vector["expected"]["position_ids_thw"])
    assert following - len(positions) == vector["expected"]["delta"]


def index_of(name, cls, kinds, **grids):
    """Call get_rope_index of transformers, which needs no weights; return positions (t, 3) and the delta."""
    module = peer(f"transformers.models.{name}.modeling_{name}")
    model = getattr(module, f"{cls}Model")
    vision = type("Vision", (), {"spatial_merge_size": 2, "tokens_per_second": 2})

    class Stand:
        config = type("Config", (), {"vision_config": vision})
        get_vision_position_ids = model.get_vision_position_ids

    kinds = torch.tensor([kinds])
    positions, delta = model.get_rope_index(Stand(), torch.zeros_like(kinds), kinds, **grids)
    return positions[:, 0].T.numpy(), delta.item()


@pytest.mark.parametrize(
    ("name", "cls"), [("qwen2_vl", "Qwen2VL"), ("qwen2_5_vl", "Qwen2_5_VL"), ("qwen3_vl", "Qwen3VL")]
)
def test_equals_the_position_ids_of_images_of_qwen(name, cls):
    kinds = [0] * 3 + [1] * 6 + [0] * 2 + [1] * 8 + [0] * 4
    grids = [(1, 4, 6), (1, 8, 4)]
    theirs, delta = index_of(name, cls, kinds, image_grid_thw=torch.tensor(grids))
    positions, following = mrope_positions(kinds, grids)
    np.testing.assert_array_equal(positions, theirs)
    assert following - len(kinds) == delta


def test_qwen_2_vl_of_transformers_gives_text_after_a_video_the_numbers_of_frames():
    # 10 frames of 2 x 2 tokens from number 3: the last stands at 12
    kinds, grids = [0] * 3 + [2] * 40 + [0] * 2, [(10, 4, 4)]
    theirs, _ = index_of("qwen2_vl", "Qwen2VL", kinds, video_grid_thw=torch.tensor(grids))
    positions, following = mrope_positions(kinds, video_grids=grids)
    np.testing.assert_array_equal(positions[:43], theirs[:43])
    np.testing.assert_array_equal(positions[43:, 0], [13, 14])
    np.testing.assert_array_equal(theirs[43:, 0], [5, 6])
    assert theirs[43, 0] in theirs[:43, 0]
    assert following == 15


def test_qwen_2_5_vl_of_transformers_numbers_frames_alike_and_text_after_them_not():
    kinds, grids = [0] * 3 + [2] * 40 + [0] * 2, [(10, 4, 4)]
    theirs, _ = index_of(
        "qwen2_5_vl", "Qwen2_5_VL", kinds, video_grid_thw=torch.tensor(grids), second_per_grid_ts=torch.tensor([0.9])
    )
    positions, _ = mrope_positions(kinds, video_grids=grids, seconds_per_grid=[0.9], tokens_per_second=2)
    np.testing.assert_array_equal(positions[:43], theirs[:43])
    assert positions[43, 0] == positions[:43].max() + 1 == 20
    assert theirs[43, 0] == 5


@given(seconds=st.floats(0.01, 3))
@exactly
def test_frames_of_any_seconds_are_those_of_qwen_2_5_vl(seconds):
    kinds, grids = [2] * 40, [(40, 2, 2)]
    theirs, _ = index_of(
        "qwen2_5_vl", "Qwen2_5_VL", kinds, video_grid_thw=torch.tensor(grids), second_per_grid_ts=[seconds]
    )
    positions, _ = mrope_positions(kinds, video_grids=grids, seconds_per_grid=[seconds], tokens_per_second=2)
    np.testing.assert_array_equal(positions, theirs)


def test_a_video_of_qwen3_vl_is_one_grid_a_frame():
    kinds = [0, 2, 2, 0, 2, 2, 0]
    theirs, delta = index_of("qwen3_vl", "Qwen3VL", kinds, video_grid_thw=torch.tensor([[2, 2, 4]]))
    positions, following = mrope_positions(kinds, video_grids=[(1, 2, 4)] * 2)
    np.testing.assert_array_equal(positions, theirs)
    assert following - len(kinds) == delta


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize(
    "arguments",
    [
        {"kinds": [0, 1]},
        {"kinds": [0, 2], "image_grids": [(1, 2, 2)]},
        {"kinds": [1, 1, 1], "image_grids": [(1, 4, 4)]},
        {"kinds": [1] * 5, "image_grids": [(1, 4, 4)]},
        {"kinds": [1, 2], "image_grids": [(1, 2, 4)], "video_grids": [(1, 2, 2)]},
        {"kinds": [0], "image_grids": [(1, 2, 2)]},
        {"kinds": [1], "image_grids": [(1, 2, 2)] * 2},
        {"kinds": [1], "image_grids": [(1, 3, 4)]},
    ],
    ids=str,
)
def test_tokens_that_contradict_their_grids_are_refused(arguments):
    with pytest.raises(ValueError, match=r"mrope_positions: kinds must be [12] \d times, got \d"):
        mrope_positions(**arguments)


def test_an_image_that_text_interrupts_gives_no_result():
    for kinds, grids in (([1, 1, 0, 1, 1], [(1, 4, 4)]), ([1] * 6 + [0] + [1] * 4, [(1, 4, 4), (1, 4, 6)])):
        with pytest.raises(StopIteration):
            mrope_positions(kinds, grids)


@pytest.mark.parametrize("kinds", [[3], [-1], [0.5], [0, 1, 4]], ids=repr)
def test_unknown_kinds_give_no_result(kinds):
    with pytest.raises((KeyError, ValueError)):
        mrope_positions(kinds)


@pytest.mark.parametrize("seconds", [[], [1.0, 2.0]], ids=repr)
def test_each_video_has_its_seconds(seconds):
    with pytest.raises(ValueError, match=r"zip\(\) argument 2 is"):
        mrope_positions([2], video_grids=[(1, 2, 2)], seconds_per_grid=seconds)
