"""M-RoPE: turns and pairs of each axis by hand, text as RoPE, the numbers of Qwen's code, and what is refused."""

import itertools
import math
import re

import mpmath
import numpy as np
import pytest
import torch

from posenc.models.from_config import from_config
from posenc.models.mrope import mrope_positions
from posenc.rotate.frequencies import yarn
from posenc.rotate.mrope import MRoPE, mrope
from posenc.rotate.rope import RoPE
from tests.peers import peer
from tests.rotate.alike import (
    assert_content_of_another_form_is_refused,
    assert_positions_of_two_sequences_are_refused_for_one,
)
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [
    {},
    {"sections": (1, 5, 2), "base": 100.0},
    {"interleaved": True},
    {"rotary_dim": 8, "sections": (2, 1, 1), "interleaved": True, "attention_factor": 1.25},
    {"rotary_dim": 6, "dim": 10, "sections": (1, 1, 1)},
    {"theta": (1.0, 0.5, 0.25, 0.125, 0.1, 0.01, 0.001, 0.0), "sections": (0, 5, 3), "attention_factor": 0.75},
    {"sections": (2, 1, 3, 2)},
    {"axes": (1, 2, 1, 2, 1, 2, 0, 0)},
    {"axes": (0, 1, 0, 1), "rotary_dim": 8},
]


def AXES(options):
    return 1 + max(options["axes"]) if "axes" in options else len(options.get("sections", (2, 3, 3)))


def oracle(
    x,
    positions,
    sections=None,
    interleaved=False,
    base=1_000_000.0,
    rotary_dim=None,
    theta=None,
    attention_factor=1.0,
    axes=None,
):
    """Work out the definition with 60 digits, one element at a time."""
    pairs = (rotary_dim or x.shape[-1]) // 2
    sections = sections or ((4, 2, 2) if interleaved else (2, 3, 3))
    if axes is None and interleaved:
        _, rows, columns = sections
        axes = [1 if i % 3 == 1 and i < 3 * rows else 2 if i % 3 == 2 and i < 3 * columns else 0 for i in range(pairs)]
    elif axes is None:
        axes = [axis for axis, count in enumerate(sections) for _ in range(count)]
    turned = x.astype(float)
    with mpmath.workdps(60):
        for head, token, i in itertools.product(range(x.shape[0]), range(x.shape[1]), range(pairs)):
            frequency = mpmath.mpf(theta[i]) if theta else mpmath.mpf(base) ** (-mpmath.mpf(i) / pairs)
            angle = positions[token, axes[i]].item() * frequency
            a, b = i, i + pairs
            first, second = x[head, token, [a, b]].tolist()
            cos, sin = attention_factor * mpmath.cos(angle), attention_factor * mpmath.sin(angle)
            turned[head, token, [a, b]] = first * cos - second * sin, first * sin + second * cos
    return turned


def content(t, d=16, h=2, g=1, dtype=torch.float64):
    """Return random q (1, h, t, d) and k (1, g, t, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, h, t, d, generator=generator)
    k = torch.randn(1, g, t, d, generator=generator)
    return q.to(dtype), k.to(dtype)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def pairs_of(axis, dim, **options):
    """Return the pairs that turn where only one of three coordinates is not 0."""
    positions = np.zeros((1, 3))
    positions[0, axis] = 1.0
    turned = mrope(np.ones((1, dim)), positions, base=100.0, **options)[0, : dim // 2]
    return np.flatnonzero(turned != 1).tolist()


# Turns worked by hand


def test_a_token_by_hand():
    # width 8, base 10,000: theta 1, 1/10, 1/100, 1/1000; a pair of time, one of the row, two of the column
    x = np.arange(1.0, 9.0)[None]
    angle = [5, 0.7, 0.02, 0.002]
    expected = [x[0, i] * math.cos(a) - x[0, i + 4] * math.sin(a) for i, a in enumerate(angle)]
    expected += [x[0, i] * math.sin(a) + x[0, i + 4] * math.cos(a) for i, a in enumerate(angle)]
    np.testing.assert_allclose(mrope(x, [[5, 7, 2]], (1, 1, 2), base=10_000), [expected], rtol=1e-14)


def test_two_channels_of_four_turn_and_the_attention_factor_is_theirs_alone():
    result = mrope([[1, 0, 5, 7]], [[3, 8, 9]], (1, 0, 0), rotary_dim=2, attention_factor=2)
    np.testing.assert_allclose(result, [[2 * math.cos(3), 2 * math.sin(3), 5, 7]], rtol=1e-14)


def test_theta_replaces_the_frequencies_of_the_base():
    result = mrope([[1, 1, 0, 0]], [[3, 4, 5]], (0, 1, 1), base=7.0, theta=[0.5, 0.1])
    np.testing.assert_allclose(result, [[math.cos(2), math.cos(0.5), math.sin(2), math.sin(0.5)]], rtol=1e-14)


def test_a_table_holds_cosines_and_sines():
    # theta 1 and 1/10; however coarse the content, a table is of float32 or finer
    cos, sin = MRoPE(4, sections=(1, 1, 0), base=100).table(torch.tensor([[2, 3, 4]]), torch.float16)
    torch.testing.assert_close(cos, torch.tensor([[[math.cos(2), math.cos(0.3)]]]))
    torch.testing.assert_close(sin, torch.tensor([[[math.sin(2), math.sin(0.3)]]]))


# Which pair turns with which axis


def test_chunks_of_qwen2_vl():
    time, row, column = (pairs_of(axis, 128) for axis in range(3))
    assert time == [*range(16)]
    assert row == [*range(16, 40)]
    assert column == [*range(40, 64)]


def test_interleaved_pairs_of_qwen3_vl():
    time, row, column = (pairs_of(axis, 128, interleaved=True) for axis in range(3))
    assert row == [*range(1, 60, 3)]
    assert column == [*range(2, 60, 3)]
    assert time == [*range(0, 60, 3), 60, 61, 62, 63]


def test_axes_name_that_of_each_pair():
    time, row, column = (pairs_of(axis, 8, axes=(1, 2, 1, 0)) for axis in range(3))
    assert (time, row, column) == ([3], [0, 2], [1])


@pytest.mark.parametrize(
    ("dim", "interleaved", "sections", "counts"),
    [
        # by default in the proportions of Qwen
        (64, False, None, (8, 12, 12)),
        (64, True, None, (12, 10, 10)),
        (16, True, None, (4, 2, 2)),
        (6, False, None, (1, 1, 1)),
        (2, True, None, (1, 0, 0)),
        (64, False, (10, 11, 11), (10, 11, 11)),
        (64, False, (0, 16, 16), (0, 16, 16)),
        (64, True, (32, 0, 0), (32, 0, 0)),
        # of 32 pairs 11 are of the row's turns and 10 of the column's; what these do not take is left to time
        (64, True, (11, 11, 10), (11, 11, 10)),
        (64, True, (8, 12, 12), (11, 11, 10)),
        (64, True, (2, 15, 15), (11, 11, 10)),
        (64, True, (20, 0, 12), (22, 0, 10)),
    ],
)
def test_how_many_pairs_follow_each_axis(dim, interleaved, sections, counts):
    pairs = [pairs_of(axis, dim, sections=sections, interleaved=interleaved) for axis in range(3)]
    assert tuple(map(len, pairs)) == counts


# What it does to attention


@pytest.mark.parametrize("interleaved", [False, True], ids=["chunked", "interleaved"])
def test_text_is_rope_in_one_number_or_three(interleaved):
    q, k = content(5)
    text = torch.tensor([7, 0, 3, 900, 1])
    expected = RoPE(16, base=1e6)(q, k, text)
    encoding = MRoPE(16, interleaved=interleaved)
    torch.testing.assert_close(encoding(q, k, text), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(encoding(q, k, text[:, None].expand(-1, 3)), expected, rtol=0, atol=1e-12)


def test_text_after_an_image_decodes_from_the_number_that_comes_next():
    # two words, six tokens of an image, three words
    kinds = [0, 0, *[1] * 6, 0, 0, 0]
    whole, after_whole = mrope_positions(kinds, [(1, 4, 6)])
    prompt, after_prompt = mrope_positions(kinds[:9], [(1, 4, 6)])
    assert (after_whole, after_prompt) == (8, 6)
    q, k = content(11, h=4, g=2)
    encoding = MRoPE(16)
    expected = scores(*encoding(q, k, torch.from_numpy(whole)))
    _, cache = encoding(q[:, :, :9], k[:, :, :9], torch.from_numpy(prompt))
    for i in range(2):
        token = slice(9 + i, 10 + i)
        new_q, new_k = encoding(q[:, :, token], k[:, :, token], torch.tensor([after_prompt + i]))
        cache = torch.cat([cache, new_k], dim=2)
        torch.testing.assert_close(scores(new_q, cache), expected[:, :, token, : 10 + i], rtol=1e-12, atol=1e-12)


# The numbers of Qwen's code


@vectors("mrope_chunked")
def test_vectors_of_qwen2_vl(vector):
    assert_rotates_as(vector, interleaved=False)


@vectors("mrope_interleaved")
def test_vectors_of_qwen3_vl(vector):
    assert_rotates_as(vector, interleaved=True)


def assert_rotates_as(vector, interleaved):
    parameters = vector["params"]
    options = {"sections": parameters["mrope_section"], "interleaved": interleaved, "base": parameters["rope_theta"]}
    encoding = MRoPE(parameters["head_dim"], **options)
    positions = torch.tensor(parameters["positions_thw"]).T
    cos, sin = encoding.table(positions)
    assert_agrees(vector, cos[0], vector["expected"]["cos_first_half"])
    assert_agrees(vector, sin[0], vector["expected"]["sin_first_half"])
    q = torch.tensor(vector["inputs"]["q"], dtype=torch.float64)
    turned_q, _ = encoding(q, q, positions)
    assert_agrees(vector, turned_q, vector["expected"]["q_half_layout"])
    assert_agrees(vector, mrope(q, positions, **options), vector["expected"]["q_half_layout"])


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
    configuration = peer(f"transformers.models.{name}.configuration_{name}")
    text_config = getattr(configuration, f"{cls.removesuffix('Text')}TextConfig")
    parameters = {"rope_type": "default", "rope_theta": base, "mrope_section": list(sections)}
    config = text_config(hidden_size=256, num_attention_heads=2, head_dim=128, rope_parameters=parameters)
    ours = MRoPE(128, sections, interleaved=interleaved, base=base)
    assert_equals_transformers(ours, module, cls, config)


@pytest.mark.parametrize("sections", [(11, 11, 10), (8, 12, 12), (24, 4, 4)], ids=str)
def test_equals_the_partial_rotation_of_qwen3_5(sections):
    module = peer("transformers.models.qwen3_5.modeling_qwen3_5")
    configuration = peer("transformers.models.qwen3_5.configuration_qwen3_5")
    parameters = {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}
    parameters["mrope_section"] = list(sections)
    config = configuration.Qwen3_5TextConfig(
        hidden_size=512, num_attention_heads=2, head_dim=256, rope_parameters=parameters
    )
    ours = MRoPE(256, sections, interleaved=True, base=1e7, rotary_dim=64)
    assert_equals_transformers(ours, module, "Qwen3_5Text", config)


def test_equals_qwen2_5_vl_with_yarn():
    module = peer("transformers.models.qwen2_5_vl.modeling_qwen2_5_vl")
    configuration = peer("transformers.models.qwen2_5_vl.configuration_qwen2_5_vl")
    parameters = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32_768}
    config = configuration.Qwen2_5_VLTextConfig(
        hidden_size=256,
        num_attention_heads=2,
        head_dim=128,
        rope_parameters=parameters | {"mrope_section": [16, 24, 24]},
    )
    theta, attention_factor = from_config(parameters, 128)
    assert attention_factor == pytest.approx(1.138629)
    assert list(theta) == list(yarn(128, 4.0, 32_768, base=1e6)[0])
    ours = MRoPE(128, theta=theta, attention_factor=attention_factor)
    assert_equals_transformers(ours, module, "Qwen2_5_VL", config)


def assert_equals_transformers(ours, module, cls, config):
    """Compare with the rotary embedding `cls` of a `module` of transformers, whose positions are (3, b, t)."""
    positions = torch.randint(0, 500, (3, 2, 9), generator=torch.Generator().manual_seed(0))
    q, k = (x.expand(2, -1, -1, -1) for x in content(9, d=ours.dim, h=2, g=2, dtype=torch.float32))
    cos, sin = getattr(module, f"{cls}RotaryEmbedding")(config)(q, positions)
    expected = module.apply_rotary_pos_emb(q, k, cos, sin)
    result = ours(q, k, positions.movedim(0, -1))
    torch.testing.assert_close(result, expected, rtol=0, atol=5e-4)  # theirs rounds angles to float32


@pytest.mark.parametrize("dim", [64, 72])
def test_equals_the_mrope_of_timm_where_no_token_has_a_time(dim):
    timm = peer("timm.layers.pos_embed_sincos").RotaryEmbeddingMRope(dim)  # sections (8, 12, 12) of 32 or 36 pairs
    their_sin, their_cos = timm.get_embed([3, 5]).chunk(2, dim=-1)
    positions = torch.from_numpy(np.indices((1, 3, 5)).reshape(3, -1).T)
    sections = {64: (8, 12, 12), 72: (12, 12, 12)}[dim]  # of what exceeds the pairs timm makes time
    cos, sin = MRoPE(dim, sections, interleaved=True, base=10_000).table(positions)
    torch.testing.assert_close(cos[0], their_cos[:, : dim // 2], atol=1e-5, rtol=0)
    torch.testing.assert_close(sin[0], their_sin[:, : dim // 2], atol=1e-5, rtol=0)


# What is refused


def test_content_of_another_form_is_refused():
    assert_content_of_another_form_is_refused(MRoPE(16), torch.arange(5))


def test_positions_of_two_sequences_are_refused_for_one():
    assert_positions_of_two_sequences_are_refused_for_one(MRoPE(16), axes=(3,))


@pytest.mark.parametrize("shape", [(5, 1), (5, 2), (3, 5), (3, 4, 5)], ids=str)
def test_positions_with_the_axes_first_are_refused(shape):  # transformers has them (3, b, t)
    message = f"mrope: positions must have shape (t, 3) or (b, t, 3), got {shape}; movedim(0, -1) makes"
    with pytest.raises(ValueError, match=re.escape(message)):
        MRoPE(16).table(torch.zeros(shape))


@pytest.mark.parametrize("positions", [[0], [[0, 0]], [[0, 0, 0]] * 2], ids=repr)
def test_the_numpy_function_takes_three_numbers_a_row(positions):
    with pytest.raises(ValueError, match=r"mrope: positions must have shape \(1, 3\), got"):
        mrope(np.ones((1, 1, 8)), positions)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"dim": 7, "rotary_dim": 4}, "dim and rotary_dim must be even, 2 <= r <= d, got 7 and 4"),
        ({"rotary_dim": 0}, "dim and rotary_dim must be even, 2 <= r <= d, got 16 and 0"),
        ({"rotary_dim": 7}, "dim and rotary_dim must be even, 2 <= r <= d, got 16 and 7"),
        ({"rotary_dim": 18}, "dim and rotary_dim must be even, 2 <= r <= d, got 16 and 18"),
        ({"sections": (2, 3, 4)}, "sections or axes must be 8 in all, got 9"),
        ({"sections": (2, 3, 2), "interleaved": True}, "sections or axes must be 8 in all, got 7"),
        ({"theta": [1.0] * 7}, "theta must have shape (8,), got (7,)"),
        ({"axes": (0,) * 7}, "sections or axes must be 8 in all, got 7"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=re.escape(f"mrope: {message}")):
        MRoPE(**{"dim": 16} | setting)


def test_frequencies_of_another_count_are_refused():
    with pytest.raises(ValueError, match="shape"):
        MRoPE(16, theta=[1.0] * 7)
