"""M-RoPE: pairs of each axis by hand, Qwen's code, and what is refused."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.models.from_config import from_config
from posenc.models.mrope import mrope_positions
from posenc.rotate.frequencies import yarn
from posenc.rotate.mrope import MRoPE, mrope
from tests.peers import peer
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


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
coordinates = st.tuples(*[st.integers(-1000, 1000)] * 3)
each_way_to_share = pytest.mark.parametrize("interleaved", [False, True], ids=["chunked", "interleaved"])


def content(t, s=None, d=16, h=2, g=1, dtype=torch.float64):
    """Return random q (1, h, t, d) and k (1, g, s, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, h, t, d, generator=generator)
    k = torch.randn(1, g, t if s is None else s, d, generator=generator)
    return q.to(dtype), k.to(dtype)


def turned(encoding, x, positions):
    """Return `x` turned to its coordinates."""
    return encoding.turn(x, encoding.table(positions, x.dtype))


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def pairs_of(axis, dim, **options):
    """Return the pairs that turn where only one coordinate is not 0."""
    positions = np.zeros((1, 3))
    positions[0, axis] = 1.0
    rotated = mrope(np.ones((1, dim)), positions, **options)[0, : dim // 2]
    return np.flatnonzero(rotated != 1).tolist()


# Which pair turns with which axis


def test_a_token_by_hand():
    # width 8, base 10,000: theta 1, 1/10, 1/100, 1/1000; a pair of time, one of the row, two of the column
    x = np.arange(1.0, 9.0)[None]
    angle = [5, 0.7, 0.02, 0.002]
    expected = [x[0, i] * math.cos(a) - x[0, i + 4] * math.sin(a) for i, a in enumerate(angle)]
    expected += [x[0, i] * math.sin(a) + x[0, i + 4] * math.cos(a) for i, a in enumerate(angle)]
    np.testing.assert_allclose(mrope(x, [[5, 7, 2]], (1, 1, 2), base=10_000), [expected], rtol=1e-14)


def test_chunks_of_qwen2_vl():
    time, row, column = (pairs_of(axis, 128, base=100.0) for axis in range(3))
    assert time == [*range(16)]
    assert row == [*range(16, 40)]
    assert column == [*range(40, 64)]


def test_interleaved_pairs_of_qwen3_vl():
    time, row, column = (pairs_of(axis, 128, base=100.0, interleaved=True) for axis in range(3))
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
    x = np.ones((1, dim))
    by_default = mrope(x, [[1, 2, 3]], interleaved=interleaved)
    np.testing.assert_array_equal(by_default, mrope(x, [[1, 2, 3]], sections, interleaved=interleaved))


@pytest.mark.parametrize("sections", [(11, 11, 10), (32, 0, 0), (0, 16, 16), (10, 11, 11)])
def test_any_sections_that_fit(sections):
    counts = [len(pairs_of(axis, 64, base=100.0, sections=sections)) for axis in range(3)]
    assert counts == list(sections)


@pytest.mark.parametrize("sections", [(11, 11, 10), (32, 0, 0), (22, 0, 10)])
def test_interleaved_sections_that_fit(sections):
    counts = [len(pairs_of(axis, 64, base=100.0, sections=sections, interleaved=True)) for axis in range(3)]
    assert counts == list(sections)


@pytest.mark.parametrize(
    ("sections", "cut"),
    [((8, 12, 12), (11, 11, 10)), ((2, 15, 15), (11, 11, 10)), ((32, 0, 0), (32, 0, 0)), ((20, 0, 12), (22, 0, 10))],
)
def test_interleaved_sections_beyond_every_third_pair_leave_the_rest_to_time(sections, cut):
    x, _ = content(5, d=64)
    positions = np.arange(15).reshape(5, 3)
    result = mrope(x, positions, sections, interleaved=True)
    np.testing.assert_array_equal(result, mrope(x, positions, cut, interleaved=True))


def test_a_part_of_a_head_turns_by_its_own_frequencies_and_the_rest_stays():
    x = content(5, d=24)[0].numpy()
    positions = np.arange(15).reshape(5, 3)
    result = mrope(x, positions, rotary_dim=16)
    np.testing.assert_array_equal(result[..., :16], mrope(x[..., :16], positions))
    np.testing.assert_array_equal(result[..., 16:], x[..., 16:])


def test_the_attention_factor_is_for_the_channels_that_turn():
    x = content(5, d=24)[0].numpy()
    positions = np.arange(15).reshape(5, 3)
    plain = mrope(x, positions, rotary_dim=16)
    doubled = mrope(x, positions, rotary_dim=16, attention_factor=2.0)
    np.testing.assert_array_equal(doubled[..., :16], 2 * plain[..., :16])
    np.testing.assert_array_equal(doubled[..., 16:], x[..., 16:])


def test_frequencies_of_the_base_may_be_given_as_theta():
    q, k = content(5)
    positions = torch.randint(9, (5, 3))
    theta = 100.0 ** -np.arange(0, 1, 0.125)
    by_theta = MRoPE(16, interleaved=True, theta=theta)(q, k, positions)
    by_base = MRoPE(16, interleaved=True, base=100.0)(q, k, positions)
    torch.testing.assert_close(by_theta, by_base, rtol=1e-14, atol=1e-14)
    for frequencies in (theta.tolist(), torch.tensor(theta)):
        assert np.sum(MRoPE(16, theta=frequencies).theta, axis=0).tolist() == theta.tolist()


# Vectors of Qwen's code


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
    assert_agrees(vector, turned(encoding, q, positions), vector["expected"]["q_half_layout"])
    assert_agrees(vector, mrope(q, positions, **options), vector["expected"]["q_half_layout"])


# What it does to attention


@each_way_to_share
def test_text_is_rope(interleaved):
    # the rotation written as a product of complex numbers
    x, _ = content(5)
    text = torch.tensor([7, 0, 3, 900, 1])
    angle = text[:, None] * 1e6 ** -torch.arange(0, 1, 0.125, dtype=torch.float64)
    expected = torch.complex(*x.chunk(2, dim=-1)) * torch.polar(torch.ones_like(angle), angle)
    rotated = torch.from_numpy(mrope(x, text[:, None].expand(-1, 3), interleaved=interleaved))
    torch.testing.assert_close(torch.complex(*rotated.chunk(2, dim=-1)), expected, rtol=1e-12, atol=1e-12)


@each_way_to_share
def test_text_in_one_number_or_three_is_the_same(interleaved):
    q, k = content(5)
    encoding = MRoPE(16, interleaved=interleaved)
    text = torch.tensor([7, 0, 3, 900, 1])
    assert all(map(torch.equal, encoding(q, k, text), encoding(q, k, text[:, None].expand(-1, 3))))


@each_way_to_share
@given(m=coordinates, n=coordinates, shift=coordinates)
@exactly
def test_scores_depend_on_differences_of_coordinates_only(interleaved, m, n, shift):
    q, k = content(1)
    encoding = MRoPE(16, interleaved=interleaved)
    m, n, shift = torch.tensor([m]), torch.tensor([n]), torch.tensor([shift])
    here = scores(*encoding(q, k, m, n))
    there = scores(*encoding(q, k, m + shift, n + shift))
    torch.testing.assert_close(there, here, rtol=0, atol=1e-9)


def test_turning_to_minus_the_position_turns_back():
    q, _ = content(5)
    encoding = MRoPE(16)
    positions = torch.randint(99, (5, 3))
    torch.testing.assert_close(turned(encoding, turned(encoding, q, positions), -positions), q)


@each_way_to_share
def test_lengths_stay(interleaved):
    q, _ = content(5)
    rotated_q = turned(MRoPE(16, interleaved=interleaved), q, torch.randint(1000, (5, 3)))
    torch.testing.assert_close(rotated_q.norm(dim=-1), q.norm(dim=-1), rtol=1e-12, atol=0)


@each_way_to_share
def test_decoding_after_an_image_equals_prefill(interleaved):
    kinds = [0, 0, *[1] * 6, 0, 0, 0]
    whole, after_whole = mrope_positions(kinds, [(1, 4, 6)])
    prompt, after_prompt = mrope_positions(kinds[:9], [(1, 4, 6)])
    assert (after_whole, after_prompt) == (8, 6)
    q, k = content(11, h=4, g=2)
    encoding = MRoPE(16, interleaved=interleaved)
    expected = scores(*encoding(q, k, torch.from_numpy(whole)))
    _, cache = encoding(q[:, :, :9], k[:, :, :9], torch.from_numpy(prompt))
    for i in range(2):
        token = slice(9 + i, 10 + i)
        new_q, new_k = encoding(q[:, :, token], k[:, :, token], torch.tensor([after_prompt + i]))
        cache = torch.cat([cache, new_k], dim=2)
        torch.testing.assert_close(scores(new_q, cache), expected[:, :, token, : 10 + i], rtol=1e-12, atol=1e-12)


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


# Where tokens stand, and what a table holds


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (1, 1), (2, 5), (5, 2)])
def test_any_numbers_of_queries_and_keys(t, s):
    q, k = content(t, s)
    m, n = torch.randint(9, (t, 3)), torch.randint(9, (s, 3))
    rotated_q, rotated_k = MRoPE(16)(q, k, m, n)
    np.testing.assert_allclose(rotated_q, mrope(q, m), atol=1e-12)
    np.testing.assert_allclose(rotated_k, mrope(k, n), atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 3), (1, 4, 3), (3, 4, 3)], ids=["t, n", "1, t, n", "b, t, n"])
@pytest.mark.parametrize("options", [{}, {"rotary_dim": 8}], ids=["whole", "part"])
def test_a_shared_table_gives_what_its_positions_give(options, shape):
    q, k = (x.expand(3, -1, -1, -1) for x in content(4, h=4, g=2, dtype=torch.float32))
    positions = torch.randint(9, shape)
    encoding = MRoPE(16, **options)
    table = encoding.table(positions)
    rotated_q, rotated_k = encoding(q, k, positions)
    assert torch.equal(encoding.turn(q, table), rotated_q)
    assert torch.equal(encoding.turn(k, table), rotated_k)


def test_a_table_holds_cosines_and_sines():
    cos, sin = MRoPE(4, sections=(1, 1, 0), base=100).table(torch.tensor([[2, 3, 4]]), torch.float64)
    np.testing.assert_allclose(cos, [[[math.cos(2), math.cos(0.3)]]], rtol=1e-14)
    np.testing.assert_allclose(sin, [[[math.sin(2), math.sin(0.3)]]], rtol=1e-14)
    cos, sin = MRoPE(4).half().table(torch.zeros(2, 3, 3))
    assert cos.shape == sin.shape == (2, 1, 3, 2)
    assert cos.dtype == sin.dtype == torch.float32


@pytest.mark.parametrize("dtypes", [(torch.float16, torch.float32), (torch.float32, torch.float64)], ids=str)
def test_queries_and_keys_keep_their_own_dtypes(dtypes):
    q, k = (x.to(dtype) for x, dtype in zip(content(3), dtypes, strict=True))
    rotated_q, rotated_k = MRoPE(16)(q, k)
    assert (rotated_q.dtype, rotated_k.dtype) == dtypes
    expected_q, expected_k = MRoPE(16)(q.double(), k.double())
    torch.testing.assert_close(rotated_q, expected_q.to(rotated_q.dtype), rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(rotated_k, expected_k.to(rotated_k.dtype), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("shape", [(8, 2), (1, 8, 2), (8, 8, 2)], ids=str)
def test_compiles_where_there_are_as_many_tokens_and_sequences_as_channels(shape):
    x = torch.randn(8, 4, 8, 8)
    positions = torch.randint(9, shape)
    encoding = MRoPE(8, sections=(2, 2))
    torch._dynamo.reset()
    compiled = torch.compile(encoding, fullgraph=True, backend="eager", dynamic=True)
    assert all(map(torch.equal, compiled(x, x, positions), encoding(x, x, positions)))


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (lambda x: x[..., :8], r"torch.float64 \(1, 2, 5, 8\)"),
        (lambda x: x[0], r"torch.float64 \(2, 5, 16\)"),
        (lambda x: x.long(), r"torch.int64 \(1, 2, 5, 16\)"),
    ],
)
def test_content_of_another_form_is_refused(wrong, got):
    q, k = content(5)
    for inputs in ((wrong(q), k), (q, wrong(q))):
        with pytest.raises(ValueError, match=rf"mrope: q or k must be floats \(b, h, t, 16\), got {got}"):
            MRoPE(16)(*inputs, torch.zeros(5), torch.zeros(5))


@pytest.mark.parametrize("shape", [(4,), (1,), (4096,), (4, 3), (1, 3), (1, 4, 3), (3, 5, 3), (5, 5, 3)], ids=str)
def test_positions_and_tables_of_another_length_are_refused(shape):
    x = torch.zeros(4, 2, 5, 16)
    encoding = MRoPE(16)
    wrong = torch.zeros(shape)
    message = r"mrope: positions or table must be \(5,\) or \(4, 5\), got "
    with pytest.raises(ValueError, match=message):
        encoding(x, x, wrong)
    with pytest.raises(ValueError, match=message):
        encoding(x, x, torch.arange(5), wrong)
    with pytest.raises(ValueError, match=message):
        encoding.turn(x, encoding.table(wrong))


@pytest.mark.parametrize("shape", [(5, 1), (5, 2), (3, 5), (3, 4, 5)], ids=str)
def test_positions_with_the_axes_first_are_refused(shape):  # transformers has them (3, b, t)
    x = torch.zeros(4, 2, 5, 16)
    encoding = MRoPE(16)
    message = r"mrope: positions must be .*, got \(\d, .*movedim\(0, -1\) makes"
    with pytest.raises(ValueError, match=message):
        encoding(x, x, torch.zeros(shape))
    with pytest.raises(ValueError, match=message):
        encoding.table(torch.zeros(shape))


@pytest.mark.parametrize("positions", [[0], [[0]], [[0, 0]], [[0, 0, 0]] * 2, [[[0, 0, 0]]]], ids=repr)
def test_the_numpy_function_takes_three_numbers_a_row(positions):
    with pytest.raises(ValueError, match=r"mrope: positions must be \(1, 3\), got"):
        mrope(np.ones((1, 1, 8)), positions)


WRONG = {
    "dim": [0, -2, 7],
    "rotary_dim": [0, -2, 7, 18],
    "sections": [(2, 3, 4), (2, 3, 2), (8, 8, 8)],
    "axes": [(0,) * 7, (0, 1, 2) * 3],
    "base": [0, -1.0, math.nan, math.inf],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]], ids=repr)
def test_wrong_settings_are_refused_by_class_and_function(name, value):
    message = rf"mrope: .*{name}.* must be .*, got "
    for interleaved in (False, True):
        with pytest.raises(ValueError, match=message):
            MRoPE(**{"dim": 16, "interleaved": interleaved} | {name: value})
    if name != "dim":
        with pytest.raises(ValueError, match=message):
            mrope(np.ones((1, 16)), [[0, 0, 0]], **{name: value})


@pytest.mark.parametrize("sections", [(-1, 5, 4), (2.5, 2.5, 3)], ids=repr)
def test_sections_that_are_no_counts_give_no_result(sections):
    with pytest.raises((TypeError, ValueError)):
        MRoPE(16, sections)


@pytest.mark.parametrize("theta", [1.0, [1.0] * 7, [1.0] * 9], ids=repr)
def test_frequencies_of_another_count_are_refused(theta):
    with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
        MRoPE(16, theta=theta)
