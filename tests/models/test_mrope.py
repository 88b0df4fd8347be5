"""M-RoPE in released models: positions and axes by hand, Qwen's code, transformers, and what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.models.checkpoints import convert_layout
from posenc.models.mrope import mrope_axes, mrope_positions, tmrope_positions
from posenc.rotate.axial import Axial
from posenc.rotate.mrope import MRoPE, mrope
from tests.peers import peer
from tests.vectors import assert_agrees, vectors


def exercise(module):
    """Call what its shape comments are about."""
    module.mrope_positions([0, 1, 1, 1, 1, 2], [(1, 4, 4)], [(1, 2, 2)])
    module.tmrope_positions([("video", (1, 2, 2), 1.0)])
    module.mrope_axes((1, 1, 1))


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)


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
    params = vector["params"]
    positions, following = mrope_positions(
        params["mm_token_type_ids"], params["image_grid_thw"], merge=params["spatial_merge_size"]
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
    ("arguments", "message"),
    [
        ({"kinds": [0, 1]}, "1 0 times, as the grids have tokens, got 1"),
        ({"kinds": [0, 2], "image_grids": [(1, 2, 2)]}, "1 1 times, as the grids have tokens, got 0"),
        ({"kinds": [1, 1, 1], "image_grids": [(1, 4, 4)]}, "1 4 times, as the grids have tokens, got 3"),
        ({"kinds": [1] * 5, "image_grids": [(1, 4, 4)]}, "1 4 times, as the grids have tokens, got 5"),
        (
            {"kinds": [1, 2], "image_grids": [(1, 2, 4)], "video_grids": [(1, 2, 2)]},
            "1 2 times, as the grids have tokens, got 1",
        ),
        ({"kinds": [2, 2], "video_grids": [(1, 2, 2)]}, "2 1 times, as the grids have tokens, got 2"),
        ({"kinds": [0], "image_grids": [(1, 2, 2)]}, "1 1 times, as the grids have tokens, got 0"),
        ({"kinds": [1], "image_grids": [(1, 2, 2)] * 2}, "1 2 times, as the grids have tokens, got 1"),
    ],
    ids=str,
)
def test_tokens_that_contradict_their_grids_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^mrope_positions: kinds must be {message}; merge counts too$"):
        mrope_positions(**arguments)


@pytest.mark.parametrize(
    ("kinds", "grids", "message"),
    [
        ([1, 1, 0, 1, 1], [(1, 4, 4)], r"4 tokens on end from token 0, .*, got \[1, 1, 0, 1\]"),
        (
            [1] * 6 + [0] + [1] * 4,
            [(1, 4, 4), (1, 4, 6)],
            r"6 tokens on end from token 4, .*, got \[1, 1, 0, 1, 1, 1\]",
        ),
        ([1, 1, 0, 1, 1], [(1, 2, 2), (1, 2, 6)], r"3 tokens on end from token 1, .*, got \[1, 0, 1\]"),
        ([1, 0, 1], [(1, 2, 4)], r"2 tokens on end from token 0, .*, got \[1, 0\]"),
    ],
    ids=str,
)
def test_an_image_that_text_interrupts_is_refused(kinds, grids, message):
    with pytest.raises(ValueError, match=f"^mrope_positions: kinds must be 1 for {message}; no other token may stand"):
        mrope_positions(kinds, grids)


@pytest.mark.parametrize(("kinds", "got"), [([3], 3), ([-1], -1), ([0.5], 0.5), ([0, 3, 0], 3), ([0, 1, 4], 4)])
def test_unknown_kinds_are_refused(kinds, got):
    message = (
        rf"^mrope_positions: kinds must be 0 \(text\), 1 \(image\) or 2 \(video\), got {got}; tmrope_positions has"
    )
    with pytest.raises(ValueError, match=message):
        mrope_positions(kinds)


@pytest.mark.parametrize("seconds", [[], [1.0, 2.0]], ids=repr)
def test_each_video_has_its_seconds(seconds):
    message = f"seconds_per_grid must have 1 values, one for each video, got {len(seconds)}; None is 1 second each"
    with pytest.raises(ValueError, match=f"^mrope_positions: {message}$"):
        mrope_positions([2], video_grids=[(1, 2, 2)], seconds_per_grid=seconds)


@pytest.mark.parametrize("grid", [(1, 3, 4), (1, 4, 3), (1, 1, 1), (0, 2, 2), (2, 2), (1, 2, 2, 2), 4], ids=repr)
def test_a_grid_that_is_not_of_whole_tokens_is_refused(grid):
    message = r"^mrope: grids must be \(time, height, width\), with height and width multiples of 2, got .*; they count"
    for call in (lambda: mrope_positions([1], [grid]), lambda: tmrope_positions([("image", grid)])):
        with pytest.raises(ValueError, match=message):
            call()


# Values worked by hand


def test_sound_counts_as_text_does():
    positions, following = tmrope_positions([("text", 2), ("audio", 25), ("text", 1)])
    np.testing.assert_array_equal(positions, np.arange(28)[:, None] + np.zeros((1, 3)))
    assert following == 28


def test_frames_stand_at_25_numbers_a_second_rounded_down():
    positions, following = tmrope_positions([("video", (4, 2, 2), 0.5)])
    assert positions.tolist() == [[0, 0, 0], [12, 0, 0], [25, 0, 0], [37, 0, 0]]
    assert following == 38


def test_images_are_those_of_mrope():
    positions, following = tmrope_positions([("text", 2), ("image", (1, 4, 6)), ("text", 1)])
    expected, after = mrope_positions([0, 0, *[1] * 6, 0], [(1, 4, 6)])
    np.testing.assert_array_equal(positions, expected)
    assert following == after


def test_a_video_and_its_sound_take_turns_every_two_seconds_and_share_the_numbers():
    # 3 frames of 1 x 1, a second apart; 60 steps of sound are 2.4 seconds
    positions, following = tmrope_positions([("video", (3, 2, 2), 1.0, 60)])
    at = positions[2:-2, 0] - 1
    assert at.tolist() == [0, 25, *range(50), 50, *range(50, 60)]
    assert positions[:2].tolist() == [[0, 0, 0]] * 2
    assert positions[-2:].tolist() == [[61, 61, 61]] * 2
    assert following == 62


def test_nothing_has_no_positions_with_sound_either():
    assert tmrope_positions([])[0].shape == (0, 3)
    positions, following = tmrope_positions([("text", 0), ("audio", 0)])
    assert positions.shape == (0, 3)
    assert following == 0


def test_an_unknown_part_is_refused():
    for part, got in ((("sound", 3), "'sound'"), ((), "None"), ((["text"], 3), r"\['text'\]"), ("text", "'t'")):
        message = f"^tmrope_positions: parts must be of text, audio, image or video, got {got}; marks are text$"
        with pytest.raises(ValueError, match=message):
            tmrope_positions([part])


VIDEO_FORMS = r"\('video', grid, seconds\) or \('video', grid, seconds, audio tokens\)"


@pytest.mark.parametrize(
    ("part", "form"),
    [
        (("text",), r"\('text', tokens\)"),
        (("text", 3, 1.0, 2), r"\('text', tokens\)"),  # which would bring marks
        (("audio", 3, 1.0), r"\('audio', tokens\)"),
        (("image", (1, 2, 2), 1.0), r"\('image', grid\)"),
        (("video", (4, 2, 2)), VIDEO_FORMS),  # all of whose frames would share a number
        (("video", (4, 2, 2), 1.0, 25, 2), VIDEO_FORMS),
    ],
    ids=str,
)
def test_a_part_of_another_form_is_refused(part, form):
    with pytest.raises(ValueError, match=f"^tmrope_positions: parts of {part[0]} must be {form}, got .*; a grid is"):
        tmrope_positions([("text", 1), part])


# What transformers does

TEXT, IMAGE, VIDEO, AUDIO, MARK, SOUND_MARK = range(6)


def theirs(ids, use_audio_in_video=False, **inputs):
    """Call get_rope_index of Qwen2.5-Omni, which needs no weights; return positions (t, 3) and the following number."""
    module = peer("transformers.models.qwen2_5_omni.modeling_qwen2_5_omni")
    of = module.Qwen2_5OmniPreTrainedModelForConditionalGeneration
    numbers = {"image_token_id": IMAGE, "video_token_id": VIDEO, "audio_token_id": AUDIO}
    numbers |= {"vision_start_token_id": MARK, "audio_start_token_id": SOUND_MARK}
    config = type("Config", (), numbers | {"position_id_per_seconds": 25, "seconds_per_chunk": 2})
    names = "get_llm_pos_ids_for_vision", "get_chunked_index", "get_rope_index"
    stand_in = type(
        "Stand", (), {"config": config, "spatial_merge_size": 2} | {name: getattr(of, name) for name in names}
    )
    ids = torch.tensor([ids])
    inputs = {name: torch.tensor(value) for name, value in inputs.items()}
    # without a mask: theirs compares it with 1 for every sequence
    positions, delta = stand_in().get_rope_index(
        ids, use_audio_in_video=use_audio_in_video, attention_mask=torch.ones_like(ids), **inputs
    )
    return positions[:, 0].T.numpy(), delta.item() + ids.shape[1]


def seqlen(tokens):
    """Return how many frames of sound make so many tokens."""
    return 4 * tokens


@given(tokens=st.integers(1, 90), frames=st.integers(1, 6), seconds=st.sampled_from([0.4, 0.58, 1.0, 1.3]))
@exactly
def test_equals_qwen2_5_omni(tokens, frames, seconds):
    image, video = (1, 4, 6), (frames, 4, 4)
    ids = [TEXT] * 2 + [SOUND_MARK, *[AUDIO] * tokens, TEXT]
    ids += [MARK, *[IMAGE] * 6, TEXT, MARK, *[VIDEO] * 4 * frames, TEXT, TEXT]
    expected, after = theirs(
        ids, image_grid_thw=[image], video_grid_thw=[video], audio_seqlens=[seqlen(tokens)], second_per_grids=[seconds]
    )
    parts = [("text", 3), ("audio", tokens), ("text", 2), ("image", image), ("text", 2), ("video", video, seconds)]
    positions, following = tmrope_positions([*parts, ("text", 2)])
    np.testing.assert_array_equal(positions, expected)
    assert following == after


@given(tokens=st.integers(8, 150), frames=st.integers(1, 6), seconds=st.sampled_from([0.4, 0.58, 1.0, 1.3]))
@exactly
def test_equals_qwen2_5_omni_on_a_video_with_its_sound_up_to_its_end(tokens, frames, seconds):
    video = frames, 4, 4
    ids = [TEXT] * 2 + [MARK, SOUND_MARK, *[VIDEO] * (4 * frames + tokens), TEXT, TEXT, TEXT]
    expected, _ = theirs(ids, True, video_grid_thw=[video], audio_seqlens=[seqlen(tokens)], second_per_grids=[seconds])
    positions, following = tmrope_positions([("text", 2), ("video", video, seconds, tokens), ("text", 1)])
    end = len(ids) - 3
    np.testing.assert_array_equal(positions[:end], expected[:end])
    assert positions[end, 0] == positions[:end].max() + 1 == following - 2
    np.testing.assert_array_equal(expected[end:, 0] - expected[end, 0], [0, 0, 1])  # two marks share a number


def test_qwen2_5_omni_of_transformers_gives_text_after_a_tall_video_numbers_of_its_rows():
    # 40 rows from number 1 reach 40, the sound 3
    ids = [MARK, SOUND_MARK, *[VIDEO] * 43, TEXT, TEXT, TEXT]
    expected, _ = theirs(ids, True, video_grid_thw=[(1, 80, 2)], audio_seqlens=[seqlen(3)], second_per_grids=[1.0])
    positions, _ = tmrope_positions([("video", (1, 80, 2), 1.0, 3), ("text", 1)])
    np.testing.assert_array_equal(positions[:-3], expected[:-3])
    assert expected[-3:, 0].tolist() == [4, 4, 5]
    assert positions[-3:, 0].tolist() == [41, 41, 42]


def content(d=128, t=9, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(2, h, t, d, generator=generator) for h in (4, 2))


def places(axes, t=9):
    return torch.randint(0, 500, (axes, 2, t), generator=torch.Generator().manual_seed(0))


# Values worked by hand


@pytest.mark.parametrize(
    ("order", "sections", "axes"),
    [
        ("chunked", (1, 2, 3), [0, 1, 1, 2, 2, 2]),
        ("chunked", (2, 1, 1, 2), [0, 0, 1, 2, 3, 3]),
        ("chunked", (0, 2), [1, 1]),
        ("interleaved", (3, 2, 1), [0, 1, 2, 0, 1, 0]),
        ("interleaved", (2, 2, 2), [0, 1, 2, 0, 1, 2]),
        ("interleaved", (1, 2, 3), [0, 1, 2, 0, 1, 2]),  # as many as there are
        ("interleaved", (2, 2), [0, 1, 0, 1]),
        ("alternating", (1, 2, 2), [1, 2, 1, 2, 0]),
        ("alternating", (0, 2, 2), [1, 2, 1, 2]),
        ("alternating", (2, 2), [0, 1, 0, 1]),
    ],
)
def test_orders_by_hand(order, sections, axes):
    assert mrope_axes(sections, order).tolist() == axes


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("sections", [(16, 24, 24), (24, 20, 20), (8, 28, 28), (20, 12, 32)])
def test_it_gives_what_sections_give(sections, interleaved):
    x, p = content()[0][0, 0].numpy(), np.random.default_rng(0).integers(99, size=(9, 3))
    order = "interleaved" if interleaved else "chunked"
    turned = mrope(x, p, axes=mrope_axes(sections, order))
    np.testing.assert_array_equal(turned, mrope(x, p, sections, interleaved))


@pytest.mark.parametrize(
    ("sections", "order"),
    [
        ((16, 24, 24), "ernie"),
        ((16, 24, 20), "alternating"),
        ((1, 1, 2, 2), "alternating"),
        ((2, 3), "alternating"),
    ],
)
def test_orders_that_are_none_are_refused(sections, order):
    with pytest.raises(ValueError, match=rf"mrope_axes: order must be chunked, .*, got '{order}' of \({sections[0]}, "):
        mrope_axes(sections, order)


# What transformers does


def ernie():
    module = peer("transformers.models.ernie4_5_vl_moe.modeling_ernie4_5_vl_moe")
    config = peer("transformers.models.ernie4_5_vl_moe.configuration_ernie4_5_vl_moe")
    params = {"rope_type": "default", "rope_theta": 500_000.0, "mrope_section": [22, 22, 20]}
    settings = config.Ernie4_5_VLMoeTextConfig(hidden_size=512, num_attention_heads=4, rope_parameters=params)
    (q, k), where = content(), places(3)
    cos, sin = module.Ernie4_5_VLMoeTextRotaryEmbedding(settings)(q, where)
    return (q, k), where.permute(1, 2, 0), module.apply_rotary_pos_emb(q, k, cos, sin)


def test_ernie_alternates_rows_and_columns_and_turns_its_slowest_pairs_with_time():
    (q, k), where, theirs = ernie()
    axes = mrope_axes((20, 22, 22), "alternating")
    theta = 500_000.0 ** (-np.arange(64) / 64) * (axes == np.arange(3)[:, None])
    axial = Axial(128, axes=3, layout="interleaved", theta=theta)
    torch.testing.assert_close(axial(q, k, where, where), theirs, rtol=0, atol=5e-4)  # theirs rounds angles

    def halves(x):
        return convert_layout(x.movedim(-1, 0), 128, "half").movedim(0, -1)

    ours = MRoPE(128, base=500_000.0, axes=axes)(halves(q), halves(k), where, where)
    torch.testing.assert_close(ours, tuple(map(halves, theirs)), rtol=0, atol=5e-4)
    other = MRoPE(128, base=500_000.0, sections=(20, 22, 22))(halves(q), halves(k), where, where)
    assert not torch.allclose(other[0], halves(theirs[0]), atol=0.1)


def test_neomme_alternates_rows_and_columns():
    module = peer("transformers.models.neomme.modeling_neomme")
    (q, k), where = content(d=64), places(2)
    theta = torch.tensor(10_000.0 ** (-np.arange(32) / 32))
    angle = where[..., None] * theta
    mixed = module.NeoMMERotaryEmbedding.recomposition_frequencies
    theirs = module.apply_rotary_pos_emb(q.double(), k.double(), mixed(None, angle.cos()), mixed(None, angle.sin()))
    encoding, rows = MRoPE(64, base=10_000.0, axes=mrope_axes((16, 16), "alternating")), where.permute(1, 2, 0)
    torch.testing.assert_close(encoding(q.double(), k.double(), rows, rows), theirs)


def hunyuan(where, sections):
    module = peer("transformers.models.hunyuan_vl.modeling_hunyuan_vl")
    (q, k), theta = content(), torch.tensor(10_000.0 ** (-np.arange(64) / 64))
    angle = where[..., None] * theta
    stand_in = type("Stand", (), {"mrope_section": sections})
    mixed = module.HunYuanVLRotaryEmbedding.recomposition_frequencies
    cos, sin = mixed(stand_in, angle.cos()), mixed(stand_in, angle.sin())
    rotated = module.apply_rotary_pos_emb(q.double(), k.double(), cos, sin)
    return rotated, (q, k), cos, module.rotate_half


def test_hunyuan_has_four_axes_whose_pairs_transformers_breaks_and_doubling_the_list_keeps():
    sections = [16, 16, 16, 16]
    encoding = MRoPE(128, sections, base=10_000.0)
    text = torch.arange(9).expand(4, 2, 9)
    theirs, (q, k), _, _ = hunyuan(text, sections)
    torch.testing.assert_close(encoding(q.double(), k.double()), tuple(theirs), rtol=0, atol=1e-6)

    where = places(4)
    theirs, _, broken, rotate_half = hunyuan(where, sections)
    ours = encoding(q.double(), k.double(), *[where.permute(1, 2, 0)] * 2)
    assert not torch.allclose(ours[0], theirs[0], atol=0.1)
    assert not torch.allclose(theirs[0].norm(dim=-1), q.double().norm(dim=-1), atol=0.1)  # no rotation
    assert not torch.equal(*broken.chunk(2, dim=-1))  # a pair turns by two angles

    # Tencent's code: the list of sections twice, so both channels of a pair take one axis
    angle = (where[..., None] * torch.tensor(10_000.0 ** (-np.arange(64) / 64))).repeat(1, 1, 1, 2)
    whole = torch.cat([part[i % 4] for i, part in enumerate(angle.split(sections * 2, dim=-1))], dim=-1)[:, None]
    expected = q.double() * whole.cos() + rotate_half(q.double()) * whole.sin()
    torch.testing.assert_close(ours[0], expected)
