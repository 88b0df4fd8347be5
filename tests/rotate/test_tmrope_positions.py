"""TMRoPE's positions: sound and video by hand, what transformers numbers alike and what not, and what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.rotate.mrope_positions import mrope_positions
from posenc.rotate.tmrope_positions import tmrope_positions
from tests.peers import peer

exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)


def exercise(module):
    """Call what its shape comments are about."""
    module.tmrope_positions([("video", (1, 2, 2), 1.0)])


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


def test_nothing_has_no_positions():
    assert tmrope_positions([])[0].shape == (0, 3)
    positions, following = tmrope_positions([("text", 0), ("audio", 0)])
    assert positions.shape == (0, 3)
    assert following == 0


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match="tmrope_positions: parts must be of text, audio, image or video, got 'sound'"):
        tmrope_positions([("sound", 3)])


# What transformers does

TEXT, IMAGE, VIDEO, AUDIO, MARK, SOUND_MARK = range(6)


def theirs(ids, use_audio_in_video=False, **told):
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
    told = {name: torch.tensor(value) for name, value in told.items()}
    # without a mask: theirs compares it with 1 for every sequence
    positions, delta = stand_in().get_rope_index(
        ids, use_audio_in_video=use_audio_in_video, attention_mask=torch.ones_like(ids), **told
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
