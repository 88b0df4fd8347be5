"""M-RoPE: pairs of each axis by hand, position ids of text, images and videos, Qwen's code, and what is refused."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.rotate.frequencies import yarn
from posenc.rotate.from_config import from_config
from posenc.rotate.mrope import MRoPE, mrope, mrope_positions
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/doors.py)

OPTIONS = [
    {},
    {"sections": (1, 5, 2), "base": 100.0},
    {"interleaved": True},
    {"interleaved": True, "sections": (3, 3, 2), "layout": "interleaved"},
    {"layout": "interleaved"},
    {"rotary_dim": 8, "sections": (2, 1, 1), "interleaved": True, "attention_factor": 1.25},
    {"rotary_dim": 6, "layout": "interleaved", "dim": 10, "sections": (1, 1, 1)},
    {"theta": (1.0, 0.5, 0.25, 0.125, 0.1, 0.01, 0.001, 0.0), "sections": (0, 5, 3), "attention_factor": 0.75},
]
AXES = 3


def oracle(
    x,
    positions,
    sections=None,
    interleaved=False,
    base=1_000_000.0,
    layout="half",
    rotary_dim=None,
    theta=None,
    attention_factor=1.0,
):
    """Work out the definition with 60 digits, one element at a time."""
    pairs = (rotary_dim or x.shape[-1]) // 2
    time, row, column = sections or ((4, 2, 2) if interleaved else (2, 3, 3))
    if interleaved:
        axes = [1 if i % 3 == 1 and i < 3 * row else 2 if i % 3 == 2 and i < 3 * column else 0 for i in range(pairs)]
    else:
        axes = [0] * time + [1] * row + [2] * column
    turned = x.astype(float)
    with mpmath.workdps(60):
        for head, token, i in itertools.product(range(x.shape[0]), range(x.shape[1]), range(pairs)):
            frequency = mpmath.mpf(theta[i]) if theta else mpmath.mpf(base) ** (-mpmath.mpf(i) / pairs)
            angle = positions[token, axes[i]].item() * frequency
            a, b = (i, i + pairs) if layout == "half" else (2 * i, 2 * i + 1)
            first, second = x[head, token, [a, b]].tolist()
            cos, sin = attention_factor * mpmath.cos(angle), attention_factor * mpmath.sin(angle)
            turned[head, token, [a, b]] = first * cos - second * sin, first * sin + second * cos
    return turned


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
whole = st.integers(-1000, 1000)
each_way_to_share = pytest.mark.parametrize("interleaved", [False, True], ids=["chunked", "interleaved"])
each_layout = pytest.mark.parametrize("layout", ["half", "interleaved"])


def content(t, s=None, d=16, h=2, g=1, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = (torch.randn(1, h, t, d, generator=generator), torch.randn(1, g, s or t, d, generator=generator))
    return tuple(x.to(dtype) for x in made)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def turning(axis, **options):
    """Return the pairs that turn where only one coordinate is not 0."""
    d = options.pop("dim")
    positions = np.zeros((1, 3))
    positions[0, axis] = 1.0
    turned = mrope(np.ones((1, d)), positions, **options)[0, : d // 2]
    return np.flatnonzero(turned != 1).tolist()


# Which pair turns with which axis


def test_a_token_by_hand():
    # width 8, base 10,000: theta 1, 1/10, 1/100, 1/1000; a pair of time, one of the row, two of the column
    x = np.arange(1.0, 9.0)[None]
    angle = [5, 0.7, 0.02, 0.002]
    expected = [x[0, i] * math.cos(a) - x[0, i + 4] * math.sin(a) for i, a in enumerate(angle)]
    expected += [x[0, i] * math.sin(a) + x[0, i + 4] * math.cos(a) for i, a in enumerate(angle)]
    np.testing.assert_allclose(mrope(x, [[5, 7, 2]], (1, 1, 2), base=10_000), [expected], rtol=1e-14)


def test_chunks_of_qwen2_vl():
    pairs = [turning(axis, dim=128, base=100.0) for axis in range(3)]
    assert pairs == [[*range(16)], [*range(16, 40)], [*range(40, 64)]]


def test_interleaved_pairs_of_qwen3_vl():
    time, row, column = (turning(axis, dim=128, base=100.0, interleaved=True) for axis in range(3))
    assert row == [*range(1, 60, 3)]
    assert column == [*range(2, 60, 3)]
    assert time == [*range(0, 60, 3), 60, 61, 62, 63]


@pytest.mark.parametrize(
    ("dim", "interleaved", "sections"),
    [
        (128, False, (16, 24, 24)),
        (128, True, (24, 20, 20)),
        (64, False, (8, 12, 12)),
        (64, True, (12, 10, 10)),
        (16, False, (2, 3, 3)),
        (16, True, (4, 2, 2)),
        (6, False, (1, 1, 1)),
        (2, False, (1, 0, 0)),
        (2, True, (1, 0, 0)),
    ],
)
def test_sections_keep_the_proportions_of_qwen(dim, interleaved, sections):
    encoding = MRoPE(dim, interleaved=interleaved)
    assert encoding.sections == sections
    x = np.ones((1, dim))
    made = mrope(x, [[1, 2, 3]], interleaved=interleaved)
    np.testing.assert_array_equal(made, mrope(x, [[1, 2, 3]], sections, interleaved=interleaved))


@pytest.mark.parametrize("sections", [(11, 11, 10), (32, 0, 0), (0, 16, 16), (10, 11, 11)])
def test_any_sections_that_fit(sections):
    for interleaved in (False, True) if max(sections[1:]) < 12 and sections[2] <= 10 else (False,):
        pairs = [turning(axis, dim=64, base=100.0, interleaved=interleaved, sections=sections) for axis in range(3)]
        assert [len(of) for of in pairs] == list(sections)


@pytest.mark.parametrize(
    ("sections", "cut"),
    [((8, 12, 12), (11, 11, 10)), ((2, 15, 15), (11, 11, 10)), ((32, 0, 0), (32, 0, 0)), ((20, 0, 12), (22, 0, 10))],
)
def test_interleaved_sections_beyond_every_third_pair_leave_the_rest_to_time(sections, cut):
    assert MRoPE(64, sections, interleaved=True).sections == cut
    x, places = content(5, d=64)[0][0], np.arange(15).reshape(5, 3)
    made = mrope(x, places, sections, interleaved=True)
    np.testing.assert_array_equal(made, mrope(x, places, cut, interleaved=True))


def test_a_part_of_a_head_turns_by_its_own_frequencies_and_the_rest_stays():
    x, places = content(5, d=24)[0][0].numpy(), np.arange(15).reshape(5, 3)
    made = mrope(x, places, rotary_dim=16)
    np.testing.assert_array_equal(made[..., :16], mrope(x[..., :16], places))
    np.testing.assert_array_equal(made[..., 16:], x[..., 16:])


def test_the_attention_factor_is_for_the_channels_that_turn():
    x, places = content(5, d=24)[0][0].numpy(), np.arange(15).reshape(5, 3)
    once, twice = (mrope(x, places, rotary_dim=16, attention_factor=factor) for factor in (1.0, 2.0))
    np.testing.assert_array_equal(twice, np.concatenate([2 * once[..., :16], x[..., 16:]], axis=-1))


def test_frequencies_of_the_base_may_be_given_as_theta():
    (q, k), places, options = content(5), torch.randint(9, (5, 3)), {"base": 100.0, "interleaved": True}
    theta = 100.0 ** -np.arange(0, 1, 0.125)
    made, expected = (
        MRoPE(16, interleaved=True, theta=theta)(q, k, places, places),
        MRoPE(16, **options)(q, k, places, places),
    )
    torch.testing.assert_close(made, expected, rtol=1e-14, atol=1e-14)
    for told in (theta.tolist(), torch.tensor(theta)):
        assert MRoPE(16, theta=told).theta == tuple(theta)


def test_layouts_hold_the_same_pairs():
    x, places = content(5)[0][0].numpy(), np.arange(15).reshape(5, 3)
    order = np.arange(16).reshape(2, 8).T.flatten()  # 0 8 1 9 ..
    np.testing.assert_array_equal(mrope(x[..., order], places, layout="interleaved"), mrope(x, places)[..., order])


# Vectors of Qwen's code


@vectors("mrope_chunked")
def test_vectors_of_qwen2_vl(vector):
    assert_rotates_as(vector, interleaved=False)


@vectors("mrope_interleaved")
def test_vectors_of_qwen3_vl(vector):
    assert_rotates_as(vector, interleaved=True)


def assert_rotates_as(vector, interleaved):
    told = vector["params"]
    options = {"sections": told["mrope_section"], "interleaved": interleaved, "base": told["rope_theta"]}
    encoding, positions = MRoPE(told["head_dim"], **options), torch.tensor(told["positions_thw"]).T
    cos, sin = encoding.table(positions).chunk(2, dim=-1)
    assert_agrees(vector, cos, vector["expected"]["cos_first_half"])
    assert_agrees(vector, sin, vector["expected"]["sin_first_half"])
    q = np.array(vector["inputs"]["q"])
    turned, _ = encoding(torch.from_numpy(q), torch.from_numpy(q), positions, positions)
    assert_agrees(vector, turned, vector["expected"]["q_half_layout"])
    assert_agrees(vector, mrope(q[0], positions, **options)[None], vector["expected"]["q_half_layout"])


@vectors("mrope_position_ids")
def test_vectors_of_position_ids(vector):
    told = vector["params"]
    positions, following = mrope_positions(
        told["mm_token_type_ids"], told["image_grid_thw"], merge=told["spatial_merge_size"]
    )
    assert_agrees(vector, positions.T, vector["expected"]["position_ids_thw"])
    assert following - len(positions) == vector["expected"]["delta"]


# What it does to attention


@each_way_to_share
@each_layout
def test_text_is_rope(interleaved, layout):
    # the rotation written as a product of complex numbers
    x, text = content(5)[0][0], torch.tensor([7, 0, 3, 900, 1])
    angle = text[:, None] * 1e6 ** -torch.arange(0, 1, 0.125, dtype=torch.float64)
    pairs = torch.stack(x.chunk(2, dim=-1), dim=-1) if layout == "half" else x.unflatten(-1, (-1, 2))
    expected = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angle), angle)
    for places in (text, text[:, None].expand(-1, 3)):
        made = torch.from_numpy(mrope(x, places, interleaved=interleaved, layout=layout))
        parts = made.chunk(2, dim=-1) if layout == "half" else made.unflatten(-1, (-1, 2)).unbind(-1)
        torch.testing.assert_close(torch.complex(*parts), expected, rtol=1e-12, atol=1e-12)


@each_way_to_share
def test_text_in_one_number_or_three_is_the_same(interleaved):
    encoding, (q, k) = MRoPE(16, interleaved=interleaved), content(5)
    text = torch.tensor([7, 0, 3, 900, 1])
    one, three = encoding(q, k, text, text), encoding(q, k, *[text[:, None].expand(-1, 3)] * 2)
    assert torch.equal(one[0], three[0])
    assert torch.equal(one[1], three[1])


@each_way_to_share
@given(
    p=st.tuples(whole, whole, whole),
    r=st.tuples(whole, whole, whole),
    shift=st.tuples(whole, whole, whole),
)
@exactly
def test_scores_depend_on_differences_of_coordinates_only(interleaved, p, r, shift):
    (q, k), encoding = content(1), MRoPE(16, interleaved=interleaved)
    p, r, shift = (torch.tensor([place], dtype=torch.float64) for place in (p, r, shift))
    here, there = (scores(*encoding(q, k, a, b)) for a, b in ((p, r), (p + shift, r + shift)))
    torch.testing.assert_close(there, here, rtol=0, atol=1e-9)


@each_way_to_share
def test_lengths_stay(interleaved):
    q, k = content(5)
    places = torch.randint(1000, (5, 3))
    for turned, x in zip(MRoPE(16, interleaved=interleaved)(q, k, places, places), (q, k), strict=True):
        torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-12, atol=0)


@each_way_to_share
def test_decoding_after_an_image_equals_prefill(interleaved):
    kinds = [0, 0, *[1] * 6, 0, 0, 0]
    whole, following = mrope_positions(kinds, [(1, 4, 6)])
    prompt, after = mrope_positions(kinds[:9], [(1, 4, 6)])
    assert (following, after) == (8, 6)
    encoding, (q, k) = MRoPE(16, interleaved=interleaved), content(11, h=4, g=2)
    places = torch.from_numpy(whole)
    expected = scores(*encoding(q, k, places, places))
    cache = encoding(q[:, :, :9], k[:, :, :9], *[torch.from_numpy(prompt)] * 2)[1]
    for j in range(2):
        at, here = torch.tensor([after + j]), slice(9 + j, 10 + j)
        query, key = encoding(q[:, :, here], k[:, :, here], at, at)
        cache = torch.cat([cache, key], dim=2)
        torch.testing.assert_close(scores(query, cache), expected[:, :, here, : 10 + j], rtol=1e-12, atol=1e-12)


# Position ids


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


# Peers


@pytest.mark.parametrize(
    ("name", "cls", "interleaved", "sections", "base"),
    [
        ("qwen2_vl", "Qwen2VL", False, (16, 24, 24), 1e6),
        ("qwen2_5_vl", "Qwen2_5_VL", False, (16, 24, 24), 1e6),
        ("qwen3_vl", "Qwen3VLText", True, (24, 20, 20), 5e6),
    ],
)
def test_equals_the_rotation_of_qwen(name, cls, interleaved, sections, base):
    module = peer(f"transformers.models.{name}.modeling_{name}")
    config = peer(f"transformers.models.{name}.configuration_{name}")
    of_text = getattr(config, f"{cls.removesuffix('Text')}TextConfig")
    told = {"rope_type": "default", "rope_theta": base, "mrope_section": list(sections)}
    settings = of_text(hidden_size=256, num_attention_heads=2, head_dim=128, rope_parameters=told)
    places = torch.randint(0, 500, (3, 2, 9), generator=torch.Generator().manual_seed(0))
    q, k = (x.expand(2, -1, -1, -1) for x in content(9, d=128, h=2, g=2, dtype=torch.float32))
    cos, sin = getattr(module, f"{cls}RotaryEmbedding")(settings)(q, places)
    theirs = module.apply_rotary_pos_emb(q, k, cos, sin)
    rows = places.permute(1, 2, 0)
    ours = MRoPE(128, sections, interleaved=interleaved, base=base)(q, k, rows, rows)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-4)  # theirs rounds angles to float32


@pytest.mark.parametrize("sections", [(11, 11, 10), (8, 12, 12), (24, 4, 4)], ids=str)
def test_equals_the_partial_rotation_of_qwen3_5(sections):
    module = peer("transformers.models.qwen3_5.modeling_qwen3_5")
    config = peer("transformers.models.qwen3_5.configuration_qwen3_5")
    told = {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": list(sections)}
    settings = config.Qwen3_5TextConfig(hidden_size=512, num_attention_heads=2, head_dim=256, rope_parameters=told)
    assert_equals_transformers(module, "Qwen3_5Text", settings, {"dim": 256, "rotary_dim": 64, "base": 1e7}, sections)


def test_equals_qwen2_5_vl_with_yarn():
    module = peer("transformers.models.qwen2_5_vl.modeling_qwen2_5_vl")
    config = peer("transformers.models.qwen2_5_vl.configuration_qwen2_5_vl")
    told = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32_768}
    settings = config.Qwen2_5_VLTextConfig(
        hidden_size=256, num_attention_heads=2, head_dim=128, rope_parameters=told | {"mrope_section": [16, 24, 24]}
    )
    theta, attention_factor = from_config(told, 128)
    assert (attention_factor, *yarn(128, 4.0, 32_768, base=1e6)[0]) == (pytest.approx(1.138629), *theta)
    ours = {"dim": 128, "theta": theta, "attention_factor": attention_factor}
    assert_equals_transformers(module, "Qwen2_5_VL", settings, ours, None)


def assert_equals_transformers(module, cls, settings, ours, sections):
    places = torch.randint(0, 500, (3, 2, 9), generator=torch.Generator().manual_seed(0))
    q, k = (x.expand(2, -1, -1, -1) for x in content(9, d=ours["dim"], h=2, g=2, dtype=torch.float32))
    theirs = module.apply_rotary_pos_emb(q, k, *getattr(module, f"{cls}RotaryEmbedding")(settings)(q, places))
    rows = places.permute(1, 2, 0)
    made = MRoPE(**ours, sections=sections, interleaved=sections is not None)(q, k, rows, rows)
    torch.testing.assert_close(made, theirs, rtol=0, atol=5e-4)  # theirs rounds angles to float32


@pytest.mark.parametrize("dim", [64, 72])
def test_equals_the_mrope_of_timm_where_no_token_has_a_time(dim):
    timm = peer("timm.layers.pos_embed_sincos").RotaryEmbeddingMRope(dim)  # sections (8, 12, 12) of 32 or 36 pairs
    sin, cos = timm.get_embed([3, 5]).chunk(2, dim=-1)
    rows = np.indices((1, 3, 5)).reshape(3, -1).T
    parts = {64: (8, 12, 12), 72: (12, 12, 12)}[dim]  # of what exceeds the pairs timm makes time
    half = MRoPE(dim, parts, interleaved=True, base=10_000).table(torch.from_numpy(rows))
    torch.testing.assert_close(half, torch.cat([cos[:, : dim // 2], sin[:, : dim // 2]], dim=-1), atol=1e-5, rtol=0)


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


# Edges


@pytest.mark.parametrize(("t", "s"), [(1, 1), (0, 0), (0, 3), (2, 5), (5, 2)])
def test_any_numbers_of_queries_and_keys(t, s):
    q, k = torch.randn(2, 2, t, 16), torch.randn(2, 1, s, 16)
    m, n = torch.randint(9, (t, 3)), torch.randint(9, (2, s, 3))
    assert [x.shape for x in MRoPE(16)(q, k, m, n)] == [q.shape, k.shape]
    assert [x.shape for x in MRoPE(16)(q, k)] == [q.shape, k.shape]


def test_the_default_is_text_with_the_queries_last():
    q, k = content(2, 5)
    expected = MRoPE(16)(q, k, torch.tensor([3, 4]), torch.arange(5))
    for made in (
        MRoPE(16)(q, k),
        MRoPE(16)(q, k, torch.tensor([3, 4])),
        MRoPE(16)(q, k, key_positions=torch.arange(5)),
    ):
        assert torch.equal(made[0], expected[0])
        assert torch.equal(made[1], expected[1])


def test_the_same_positions_are_worked_out_once():
    calls, encoding, (q, k), places = [], MRoPE(16), content(6), torch.zeros(6, 3)
    make = encoding.table
    encoding.table = lambda *given: calls.append(given) or make(*given)
    encoding(q, k, places, places)
    assert len(calls) == 1
    encoding(q, k, places, places.clone())
    assert len(calls) == 3


@each_layout
@pytest.mark.parametrize("batch", [False, True], ids=["t, 3", "b, t, 3"])
def test_a_shared_table_gives_what_its_positions_give(layout, batch):
    q, k = (x.expand(3, -1, -1, -1) for x in content(2, 4, h=4, g=2, dtype=torch.float32))
    places = torch.randint(9, (3, 4, 3)) if batch else torch.randint(9, (4, 3))
    encoding = MRoPE(16, layout=layout)
    expected, table = encoding(q, k, places[..., 2:, :], places), encoding.table(places)
    for one_or_two in (table, (table[..., 2:, :], table)):
        made = encoding(q, k, table=one_or_two)
        assert torch.equal(made[0], expected[0])
        assert torch.equal(made[1], expected[1])


@each_layout
def test_one_row_of_positions_serves_a_batch(layout):
    q, k = (x.expand(3, -1, -1, -1) for x in content(4, 5))
    encoding, m, n = MRoPE(16, layout=layout), torch.randint(9, (1, 4, 3)), torch.randint(9, (1, 5, 3))
    pair = encoding.table(m, torch.float64), encoding.table(n, torch.float64)
    expected = encoding(q, k, m.expand(3, 4, 3), n.expand(3, 5, 3))
    for made in (encoding(q, k, m, n), encoding(q, k, m, n.expand(3, 5, 3)), encoding(q, k, table=pair)):
        assert torch.equal(made[0], expected[0])
        assert torch.equal(made[1], expected[1])


def test_a_table_holds_cosines_and_sines_in_the_places_of_a_pair():
    options = {"dim": 4, "sections": (1, 1, 0), "base": 100}
    half, interleaved = (
        MRoPE(**options, layout=layout).table(torch.tensor([[2, 3, 4]]), torch.float64)[0]
        for layout in ("half", "interleaved")
    )
    cos, sin = [math.cos(2), math.cos(0.3)], [math.sin(2), math.sin(0.3)]
    np.testing.assert_allclose(half, cos + sin, rtol=1e-14)
    np.testing.assert_allclose(interleaved, [cos[0], sin[0], cos[1], sin[1]], rtol=1e-14)
    assert MRoPE(4).half().table(torch.zeros(2, 3, 3)).dtype == torch.float32


@pytest.mark.parametrize("dtypes", [(torch.float16, torch.float32), (torch.float32, torch.float64)], ids=str)
def test_queries_and_keys_keep_their_own_dtypes(dtypes):
    (q, _), (_, k) = (content(3, dtype=dtype) for dtype in dtypes)
    made, reference = MRoPE(16)(q, k), MRoPE(16)(q.double(), k.double())
    assert tuple(x.dtype for x in made) == dtypes
    for got, want in zip(made, reference, strict=True):
        torch.testing.assert_close(got, want.to(got.dtype))


def test_lists_and_plain_rows_are_taken_in_numpy():
    x = content(3)[0].numpy()
    np.testing.assert_array_equal(mrope(x[0].tolist(), [0, 1, 2]), mrope(x[0], np.arange(3)))
    np.testing.assert_array_equal(mrope(x, [0, 1, 2])[0], mrope(x[0], [0, 1, 2]))


def test_printing_a_module_shows_its_arguments():
    said = "MRoPE(dim=16, sections=(4, 2, 2), interleaved=True, base=100.0, layout='half', "
    assert repr(MRoPE(16, interleaved=True, base=100)) == said + "rotary_dim=16, attention_factor=1.0)"


# What is refused

Q, K = torch.zeros(3, 4, 5, 16), torch.zeros(3, 2, 6, 16)


@pytest.mark.parametrize(
    ("q", "k", "said"),
    [
        (Q[0], K, r"q must be floating point \(b, h, t, 16\), got Tensor torch.float32 \(4, 5, 16\)"),
        (Q[..., :8], K, r"q must be floating point \(b, h, t, 16\), got Tensor torch.float32 \(3, 4, 5, 8\)"),
        (Q, K.long(), "k must be floating point .*got Tensor torch.int64"),
        (Q, None, r"k must be floating point .*got None"),
        (Q.numpy(), K, "q must be floating point .*got ndarray float32"),
        (Q[:2], K, "q and k must be one batch, h a multiple of g"),
        (Q[:, :3], K, "q and k must be one batch, h a multiple of g"),
        (Q, K[:, :0], "q and k must be one batch, h a multiple of g"),
    ],
)
def test_content_that_does_not_fit_is_refused(q, k, said):
    with pytest.raises(ValueError, match=f"mrope: {said}"):
        MRoPE(16)(q, k)


@pytest.mark.parametrize("which", ["positions", "key_positions"])
@pytest.mark.parametrize(
    "wrong",
    [
        [0, 1],
        3,
        np.zeros((5, 3)),
        torch.zeros(4, 3),
        torch.zeros(5, 1),
        torch.zeros(5, 2),
        torch.zeros(3, 5),
        torch.zeros(1, 4, 3),
        torch.zeros(3, 4, 5),
        torch.zeros(()),
        torch.zeros(5, 3) > 0,
        torch.zeros(5, 3, dtype=torch.complex64),
    ],
    ids=lambda wrong: str(getattr(wrong, "shape", wrong)),
)
def test_positions_that_do_not_fit_are_refused(which, wrong):
    x = torch.zeros(4, 2, 5, 16)
    said = rf"mrope: {which} must be a tensor \(t,\), \(t, 3\) or \(b, t, 3\) = \(4, 5, 3\), .*got .*; torch.from_numpy"
    with pytest.raises(ValueError, match=said):
        MRoPE(16)(x, x, **{which: wrong})


def test_positions_of_numpy_are_refused_with_what_makes_a_tensor_of_them():
    positions, _ = mrope_positions([0, 1, 1, 1, 1], [(1, 4, 4)])
    x, encoding = torch.zeros(1, 2, 5, 16), MRoPE(16)
    for call in (lambda: encoding(x, x, positions), lambda: encoding.table(positions)):
        with pytest.raises(
            ValueError, match=r"must be a tensor .*, got ndarray int64 \(5, 3\); torch.from_numpy makes"
        ):
            call()
    encoding(x, x, torch.from_numpy(positions))


def test_positions_with_the_axes_first_are_refused():
    # as transformers has them: (3, b, t)
    x = torch.zeros(2, 2, 5, 16)
    with pytest.raises(ValueError, match=r"mrope: positions must be .*movedim.*got Tensor torch.float32 \(3, 2, 5\)"):
        MRoPE(16)(x, x, torch.zeros(3, 2, 5))


@pytest.mark.parametrize(
    "table",
    [
        "table",
        torch.zeros(6),
        torch.zeros(5, 16),
        torch.zeros(6, 8),
        torch.zeros(2, 6, 16),
        torch.zeros(6, 16, dtype=torch.float16),
        torch.zeros(6, 16, dtype=torch.int64),
        (torch.zeros(6, 16), torch.zeros(6, 16)),
        (torch.zeros(5, 16), torch.zeros(5, 16)),
        (torch.zeros(5, 16),),
        (torch.zeros(5, 16), None),
        [torch.zeros(5, 16), torch.zeros(6, 16)],
    ],
    ids=lambda table: str(getattr(table, "shape", type(table))),
)
def test_tables_that_do_not_fit_are_refused(table):
    said = r"mrope: table must be .* torch.float32, \(6, 16\) or \(3, 6, 16\), or a pair, for 5 queries and 6 keys, got"
    with pytest.raises(ValueError, match=said):
        MRoPE(16)(Q, K, table=table)


def test_a_table_of_fewer_keys_than_queries_or_of_coarser_angles_is_refused():
    table = MRoPE(16).table(torch.arange(2))
    with pytest.raises(ValueError, match=r"mrope: table must be .*for 6 queries and 2 keys"):
        MRoPE(16)(*content(6, 2, dtype=torch.float32), table=table)
    with pytest.raises(ValueError, match=r"mrope: table must be .* torch.float64, .*got Tensor torch.float32"):
        MRoPE(16)(*content(2), table=table)


@pytest.mark.parametrize("positions", [None, [1], torch.tensor(1), torch.zeros(3) > 0, torch.zeros(5, 2)], ids=repr)
def test_a_table_of_no_coordinates_is_refused(positions):
    with pytest.raises(ValueError, match=r"mrope: positions must be a tensor \(\.\.\., t, 3\) or \(t,\), got"):
        MRoPE(16).table(positions)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, None, "float32"], ids=str)
def test_a_table_in_a_coarse_dtype_is_refused(dtype):
    with pytest.raises(ValueError, match=f"mrope: dtype must be torch.float32 or torch.float64, got {dtype!r}"):
        MRoPE(16).table(torch.arange(3), dtype)


def refusing(**wrong):
    """Return a call of the class and one of the function with the settings `wrong`."""
    dim = wrong.pop("dim", 16)
    x = np.zeros((1, dim if isinstance(dim, int) and dim > 1 else 3))
    return {"MRoPE": lambda: MRoPE(dim, **wrong), "mrope": lambda: mrope(x, [[0, 0, 0]], **wrong)}


each_way = pytest.mark.parametrize("way", refusing())


@each_way
@pytest.mark.parametrize("dim", [0, -2, 7, 8.0, "8", None, True], ids=repr)
def test_a_width_that_is_not_even_is_refused(way, dim):
    with pytest.raises(ValueError, match="mrope: dim of x must be even, from 2 to d, got"):
        refusing(dim=dim)[way]()


@each_way
@pytest.mark.parametrize(
    "sections",
    [
        (2, 3, 4),
        (2, 3, 2),
        (8,),
        (4, 4),
        (2, 2, 2, 2),
        (-1, 5, 4),
        (2.0, 3.0, 3.0),
        "233",
        8,
        ("2", "3", "3"),
        (),
        [None],
    ],
    ids=repr,
)
def test_sections_that_do_not_share_the_pairs_are_refused(way, sections):
    for interleaved in (False, True):
        with pytest.raises(ValueError, match=r"mrope: sections must be 3 integers, 8 in all, got"):
            refusing(sections=sections, interleaved=interleaved)[way]()


@each_way
@pytest.mark.parametrize("rotary_dim", [0, -2, 7, 18, 8.0, "8", True], ids=repr)
def test_a_part_that_is_not_even_or_more_than_all_is_refused(way, rotary_dim):
    with pytest.raises(ValueError, match="mrope: rotary_dim must be even, from 2 to d, got"):
        refusing(rotary_dim=rotary_dim)[way]()


@each_way
@pytest.mark.parametrize("theta", [1.0, [1.0] * 7, [[1.0] * 8], []], ids=repr)
def test_frequencies_for_other_pairs_are_refused(way, theta):
    with pytest.raises(ValueError, match="mrope: theta must be 8 frequencies, one for each pair, got"):
        refusing(theta=theta)[way]()
    with pytest.raises(ValueError, match="mrope: theta must be finite numbers, got"):
        refusing(theta=[math.nan] * 8)[way]()


@each_way
@pytest.mark.parametrize("factor", [0, -1.0, float("nan"), float("inf"), "1", None, True], ids=repr)
def test_an_attention_factor_that_is_not_positive_is_refused(way, factor):
    with pytest.raises(ValueError, match=r"mrope: attention_factor must be in \(0, inf\), got"):
        refusing(attention_factor=factor)[way]()


@each_way
@pytest.mark.parametrize("interleaved", [None, 1, "half", [True], np.array([True, False])], ids=repr)
def test_interleaved_is_yes_or_no(way, interleaved):
    with pytest.raises(ValueError, match="mrope: interleaved must be True or False, got"):
        refusing(interleaved=interleaved)[way]()


@each_way
@pytest.mark.parametrize("base", [0, -1.0, float("nan"), float("inf"), "10", None, True, [10]], ids=repr)
def test_a_base_that_is_not_positive_is_refused(way, base):
    with pytest.raises(ValueError, match=r"mrope: base must be in \(0, inf\), got"):
        refusing(base=base)[way]()


@each_way
@pytest.mark.parametrize("layout", ["split", "", None, 1, ["half"], np.array(["half", "x"])], ids=repr)
def test_an_unknown_layout_is_refused(way, layout):
    with pytest.raises(ValueError, match="mrope: layout must be half or interleaved, got"):
        refusing(layout=layout)[way]()


@pytest.mark.parametrize("name", ["x", "positions"])
@pytest.mark.parametrize(
    "value", [None, "a", [[1.0], [1.0, 2.0]], [True], [1j], [float("nan")], torch.ones(1).bfloat16()]
)
def test_what_is_no_array_of_numbers_is_refused_in_numpy(name, value):
    with pytest.raises(ValueError, match=f"mrope: {name} must be finite numbers, got"):
        mrope(**{"x": np.ones((1, 1, 4)), "positions": [0]} | {name: value})


@pytest.mark.parametrize("positions", [0, [0, 0], [[0]], [[0, 0]], [[0, 0, 0]] * 2, [[[0, 0, 0]]]], ids=repr)
def test_positions_that_do_not_fit_are_refused_in_numpy(positions):
    with pytest.raises(
        ValueError, match=r"mrope: positions must be \(t, 3\), not \(3, t\), or \(t,\) for x of \(1, 1, 8\), got"
    ):
        mrope(np.ones((1, 1, 8)), positions)


@pytest.mark.parametrize("kinds", [[3], [-1], [0.5], [[0]], 0, [0, 1, 4]], ids=repr)
def test_unknown_kinds_are_refused(kinds):
    with pytest.raises(ValueError, match=r"mrope: kinds must be 0, 1 or 2 for each token \(t,\), got"):
        mrope_positions(kinds)


@pytest.mark.parametrize(
    "arguments",
    [
        {"kinds": [0, 1]},
        {"kinds": [0, 2], "image_grids": [(1, 2, 2)]},
        {"kinds": [1, 1, 1], "image_grids": [(1, 4, 4)]},
        {"kinds": [1, 1, 0, 1, 1], "image_grids": [(1, 4, 4)]},
        {"kinds": [1] * 5, "image_grids": [(1, 4, 4)]},
        {"kinds": [1, 2], "image_grids": [(1, 2, 4)], "video_grids": [(1, 2, 2)]},
        {"kinds": [0], "image_grids": [(1, 2, 2)]},
        {"kinds": [1], "image_grids": [(1, 2, 2)] * 2},
    ],
    ids=str,
)
def test_tokens_that_contradict_their_grids_are_refused(arguments):
    with pytest.raises(ValueError, match="mrope: kinds must be those of the grids, got"):
        mrope_positions(**arguments)


@pytest.mark.parametrize("name", ["image_grids", "video_grids"])
@pytest.mark.parametrize("grids", [[(1, 3, 4)], [(1, 4, 5)], [(0, 2, 2)], [(1, 2)], (1, 2, 2), [(1.5, 2, 2)]], ids=str)
def test_grids_that_are_no_blocks_are_refused(name, grids):
    said = rf"mrope: {name} must be \(n, 3\), positive multiples of \[1, 2, 2\], got"
    with pytest.raises(ValueError, match=said):
        mrope_positions([0], **{name: grids})


@pytest.mark.parametrize("merge", [0, -1, 1.5, None, "2", True], ids=repr)
def test_blocks_have_a_side(merge):
    with pytest.raises(ValueError, match="mrope: merge must be at least 1, got"):
        mrope_positions([0], merge=merge)


@pytest.mark.parametrize(
    "arguments",
    [
        {"seconds_per_grid": []},
        {"seconds_per_grid": [1.0, 2.0]},
        {"seconds_per_grid": 1.0},
        {"seconds_per_grid": [0.0]},
        {"seconds_per_grid": [-1.0]},
        {"seconds_per_grid": [[1.0]]},
        {"tokens_per_second": 0},
        {"tokens_per_second": -2.0},
        {"tokens_per_second": [1.0, 2.0]},
        {"tokens_per_second": 1e300},
    ],
    ids=str,
)
def test_seconds_that_do_not_fit_are_refused(arguments):
    said = "mrope: seconds_per_grid and tokens_per_second must be positive, 1 for videos and 1, got"
    with pytest.raises(ValueError, match=said):
        mrope_positions([2], video_grids=[(1, 2, 2)], **arguments)


@pytest.mark.parametrize("name", ["kinds", "image_grids", "video_grids", "seconds_per_grid", "tokens_per_second"])
@pytest.mark.parametrize("value", ["a", [True], [1j], [float("nan")], [[1], [1, 2]]], ids=repr)
def test_junk_in_position_ids_is_refused(name, value):
    with pytest.raises(ValueError, match=f"mrope: {name} must be finite numbers, got"):
        mrope_positions(**{"kinds": [0]} | {name: value})
