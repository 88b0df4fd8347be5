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
        _, row, column = sections
        axes = [1 if i % 3 == 1 and i < 3 * row else 2 if i % 3 == 2 and i < 3 * column else 0 for i in range(pairs)]
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
whole = st.integers(-1000, 1000)
each_way_to_share = pytest.mark.parametrize("interleaved", [False, True], ids=["chunked", "interleaved"])


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
        assert np.sum(MRoPE(16, theta=told).theta, axis=0).tolist() == theta.tolist()


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
    cos, _, _, sin = encoding.table(positions).chunk(4, dim=-1)
    assert_agrees(vector, cos, vector["expected"]["cos_first_half"])
    assert_agrees(vector, sin, vector["expected"]["sin_first_half"])
    q = np.array(vector["inputs"]["q"])
    turned, _ = encoding(torch.from_numpy(q), torch.from_numpy(q), positions, positions)
    assert_agrees(vector, turned, vector["expected"]["q_half_layout"])
    assert_agrees(vector, mrope(q[0], positions, **options)[None], vector["expected"]["q_half_layout"])


# What it does to attention


@each_way_to_share
def test_text_is_rope(interleaved):
    # the rotation written as a product of complex numbers
    x, text = content(5)[0][0], torch.tensor([7, 0, 3, 900, 1])
    angle = text[:, None] * 1e6 ** -torch.arange(0, 1, 0.125, dtype=torch.float64)
    expected = torch.complex(*x.chunk(2, dim=-1)) * torch.polar(torch.ones_like(angle), angle)
    made = torch.from_numpy(mrope(x, text[:, None].expand(-1, 3), interleaved=interleaved))
    torch.testing.assert_close(torch.complex(*made.chunk(2, dim=-1)), expected, rtol=1e-12, atol=1e-12)


@each_way_to_share
def test_text_in_one_number_or_three_is_the_same(interleaved):
    encoding, (q, k) = MRoPE(16, interleaved=interleaved), content(5)
    text = torch.tensor([7, 0, 3, 900, 1])
    one, three = encoding(q, k, text, text), encoding(q, k, *[text[:, None].expand(-1, 3)] * 2)
    assert torch.equal(one[0], three[0])
    assert torch.equal(one[1], three[1])


@each_way_to_share
@given(p=st.tuples(whole, whole, whole), r=st.tuples(whole, whole, whole), shift=st.tuples(whole, whole, whole))
@exactly
def test_scores_depend_on_differences_of_coordinates_only(interleaved, p, r, shift):
    (q, k), encoding = content(1), MRoPE(16, interleaved=interleaved)
    p, r, shift = (torch.tensor([place], dtype=torch.float64) for place in (p, r, shift))
    here, there = (scores(*encoding(q, k, a, b)) for a, b in ((p, r), (p + shift, r + shift)))
    torch.testing.assert_close(there, here, rtol=0, atol=1e-9)


def test_turning_to_minus_the_position_turns_back():
    q, _ = content(5)
    encoding, places = MRoPE(16), torch.randint(99, (5, 3))
    torch.testing.assert_close(encoding.turn(encoding.turn(q, places), -places), q)


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
    made = MRoPE(dim, parts, interleaved=True, base=10_000).table(torch.from_numpy(rows)).chunk(4, dim=-1)
    half = cos[:, : dim // 2], sin[:, : dim // 2]
    torch.testing.assert_close((made[0], made[3]), half, atol=1e-5, rtol=0)


# Where tokens stand


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (2, 5), (1, 4), (3, 3)])
def test_the_default_is_text_with_the_queries_last(t, s):
    q, k = content(t, s)
    expected = MRoPE(16)(q, k, torch.arange(s - t, s), torch.arange(s))
    for made in (MRoPE(16)(q, k), MRoPE(16)(q, k, key_positions=torch.arange(s))):
        assert all(map(torch.equal, made, expected))


@pytest.mark.parametrize(("t", "s"), [(1, 1), (5, 2)])
def test_new_tokens_without_a_default_place_are_refused(t, s):
    q, k = content(t, s)
    with pytest.raises(
        ValueError, match=f"mrope: positions must be given for {t} queries, {s} keys, got None; or transpose"
    ):
        MRoPE(16)(q, k)
    m, n = torch.randint(9, (t, 3)), torch.randint(9, (1, s, 3))
    np.testing.assert_allclose(MRoPE(16)(q, k, m, n)[0][0], mrope(q[0], m), atol=1e-12)


def test_what_is_not_said_follows_from_what_is():
    (q, k), n = content(2, 5), torch.randint(9, (5, 3))
    assert torch.equal(MRoPE(16)(q, k, key_positions=n)[0], MRoPE(16)(q, k, n[3:], n)[0])
    assert torch.equal(MRoPE(16)(q, k, n[3:])[1], MRoPE(16)(q, k)[1])
    assert torch.equal(MRoPE(16)(k, k, n)[1], MRoPE(16)(k, k, n, n)[1])


@pytest.mark.parametrize("batch", [False, True], ids=["t, 3", "b, t, 3"])
@pytest.mark.parametrize("options", [{}, {"rotary_dim": 8}], ids=["whole", "part"])
def test_a_shared_table_gives_what_its_positions_give(options, batch):
    q, k = (x.expand(3, -1, -1, -1) for x in content(2, 4, h=4, g=2, dtype=torch.float32))
    places = torch.randint(9, (3, 4, 3)) if batch else torch.randint(9, (4, 3))
    encoding = MRoPE(16, **options)
    made = encoding(q, k, table=encoding.table(places))
    assert all(map(torch.equal, made, encoding(q, k, places[..., 2:, :], places)))


def test_one_row_of_positions_serves_a_batch():
    q, k = (x.expand(3, -1, -1, -1) for x in content(4, 4))
    encoding, row = MRoPE(16), torch.randint(9, (1, 4, 3))
    expected = encoding(q, k, row.expand(3, 4, 3))
    for made in (encoding(q, k, row), encoding(q, k, row[0]), encoding(q, k, table=encoding.table(row, q.dtype))):
        assert all(map(torch.equal, made, expected))


def test_a_table_holds_cosines_and_signed_sines():
    made = MRoPE(4, sections=(1, 1, 0), base=100).table(torch.tensor([[2, 3, 4]]), torch.float64)[0]
    cos, sin = np.array([math.cos(2), math.cos(0.3)]), np.array([math.sin(2), math.sin(0.3)])
    np.testing.assert_allclose(made, np.concatenate([cos, cos, -sin, sin]), rtol=1e-14)
    assert MRoPE(4).half().table(torch.zeros(2, 3, 3)).dtype == torch.float32


@pytest.mark.parametrize("dtypes", [(torch.float16, torch.float32), (torch.float32, torch.float64)], ids=str)
def test_queries_and_keys_keep_their_own_dtypes(dtypes):
    (q, _), (_, k) = (content(3, dtype=dtype) for dtype in dtypes)
    made, reference = MRoPE(16)(q, k), MRoPE(16)(q.double(), k.double())
    assert tuple(x.dtype for x in made) == dtypes
    for got, want in zip(made, reference, strict=True):
        torch.testing.assert_close(got, want.to(got.dtype), rtol=1e-3, atol=1e-6)


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
    for call in ((wrong(q), k), (q, wrong(q))):
        with pytest.raises(ValueError, match=rf"mrope: q or k must be floats \(b, h, t, 16\), got {got}"):
            MRoPE(16)(*call, torch.zeros(5), torch.zeros(5))


@pytest.mark.parametrize("shape", [(4,), (1,), (4096,), (4, 3), (1, 3), (1, 4, 3), (3, 5, 3), (5, 5, 3)], ids=str)
def test_positions_and_tables_of_another_length_are_refused(shape):
    x, encoding, places = torch.zeros(4, 2, 5, 16), MRoPE(16), torch.zeros(shape)
    said = r"mrope: positions or table must be \(5,\) or \(4, 5\), got "
    for told in ({"positions": places}, {"key_positions": places}, {"table": encoding.table(places)}):
        with pytest.raises(ValueError, match=said):
            encoding(x, x, **told)


@pytest.mark.parametrize("shape", [(5, 1), (5, 2), (3, 5), (3, 4, 5)], ids=str)
def test_positions_with_the_axes_first_are_refused(shape):  # transformers has them (3, b, t)
    x, encoding = torch.zeros(4, 2, 5, 16), MRoPE(16)
    for call in (lambda: encoding(x, x, torch.zeros(shape)), lambda: encoding.table(torch.zeros(shape))):
        with pytest.raises(ValueError, match=r"mrope: positions must be .*, got \(\d, .*movedim\(0, -1\) makes"):
            call()


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
    for interleaved in (False, True):
        with pytest.raises(ValueError, match=rf"mrope: .*{name}.* must be .*, got "):
            MRoPE(**{"dim": 16, "interleaved": interleaved} | {name: value})
    if name != "dim":
        with pytest.raises(ValueError, match=rf"mrope: .*{name}.* must be .*, got "):
            mrope(np.ones((1, 16)), [[0, 0, 0]], **{name: value})


@pytest.mark.parametrize("sections", [(-1, 5, 4), (2.5, 2.5, 3)], ids=repr)
def test_sections_that_are_no_counts_give_no_result(sections):
    with pytest.raises((TypeError, ValueError)):
        MRoPE(16, sections)


@pytest.mark.parametrize("theta", [1.0, [1.0] * 7, [1.0] * 9], ids=repr)
def test_frequencies_of_another_count_are_refused(theta):
    with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
        MRoPE(16, theta=theta)
