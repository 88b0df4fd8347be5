"""Axial RoPE in released models: coordinates, widths and frequencies by hand, and against the models' own code."""

import itertools
import math
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.models.axial import (
    CONVENTIONS,
    PRESETS,
    axial_convention,
    axial_coordinates,
    axial_preset,
    axial_theta,
    preset_coordinates,
    preset_text,
)
from posenc.positions import grid_positions
from posenc.rotate.axial import Axial, axial
from tests.peers import peer
from tests.vectors import assert_agrees, vectors


def exercise(module):
    """Call what its shape comments are about."""
    module.axial_coordinates((4, 6), "qwen-vl")
    module.axial_coordinates((3, 2), reference=(6, 6))
    module.axial_convention(8, "eva-pixel")
    module.axial_preset("flux", 32)
    module.preset_coordinates((1, 2, 2), "flux")
    for name in ("qwen-image", "flux2", "flux"):
        module.preset_text(2, (1, 2, 2), name)


HALF = (
    "per-axis",
    "dinov3",
    "pixtral",
    "qwen-vl",
)  # i turns with i + d/2; elsewhere but in "gemma4" with its neighbor


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
whole = st.integers(-1000, 1000)
each_convention = pytest.mark.parametrize("convention", CONVENTIONS)


def built(convention, dim=16, heads=None, axes=2):
    heads = (heads or 1) if convention == "rope-vit-mixed" else None
    return Axial(dim, axes, **axial_convention(dim, convention, axes), heads=heads)


def twin(x, positions, convention):
    return axial(x, positions, **axial_convention(np.shape(x)[-1], convention, np.shape(positions)[-1]))


def content(t, s=None, d=16, h=2, g=1, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = (torch.randn(1, h, t, d, generator=generator), torch.randn(1, g, s or t, d, generator=generator))
    return tuple(x.to(dtype) for x in made)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def tokens(*arguments, **options):
    return torch.from_numpy(axial_coordinates(*arguments, **options))


def rotated_half(x, cos, sin):
    """Rotate pairs (i, i + d/2) with tables tiled twice, as transformers does."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def rotated_pairwise(x, cos, sin):
    """Rotate pairs (2i, 2i+1) with tables that hold each value twice in a row."""
    return x * cos + torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2) * sin


# Values worked by hand


def test_a_patch_of_sam2_by_hand():
    # column before row, and neighbors turn together
    x, angle = np.arange(1.0, 9.0)[None], [3, 0.03, 2, 0.02]
    expected = []
    for i, a in enumerate(angle):
        first, second = x[0, 2 * i : 2 * i + 2]
        expected += [first * math.cos(a) - second * math.sin(a), first * math.sin(a) + second * math.cos(a)]
    np.testing.assert_allclose(twin(x, [[2, 3]], "sam2"), [expected], rtol=1e-14)


@each_convention
def test_which_channels_turn_together(convention):
    pair = [0, 4] if convention in HALF else [0, 2] if convention == "gemma4" else [0, 1]
    assert np.flatnonzero(twin(np.eye(8)[:1], [[2, 3]], convention)).tolist() == pair
    first, at = torch.eye(8)[None, None, :1], torch.tensor([[2, 3]])
    for turned in built(convention, 8)(first, first, at, at):
        assert turned.flatten().nonzero().flatten().tolist() == pair


FREQUENCIES = {
    "per-axis": [[1, 0.01, 0, 0], [0, 0, 1, 0.01]],
    "qwen-vl": [[1, 0.01, 0, 0], [0, 0, 1, 0.01]],
    "eva": [[1, 0.01, 0, 0], [0, 0, 1, 0.01]],
    "eva-pixel": [[math.pi, 112 * math.pi, 0, 0], [0, 0, math.pi, 112 * math.pi]],
    "dinov3": [[1, 0.1, 0, 0], [0, 0, 1, 0.1]],
    "pixtral": [[1, 0.01, 0, 0], [0, 0, 0.1, 0.001]],
    "sam2": [[0, 0, 1, 0.01], [1, 0.01, 0, 0]],
    "gemma4": [[0, 0, 1, 0.1], [1, 0.1, 0, 0]],
    "rope-vit": [[0, 0, 1, 0.1], [1, 0.1, 0, 0]],
    "rope-vit-mixed": [[0, 0, 1, 10**-0.5], [1, 10**-0.5, 0, 0]],
}


@each_convention
def test_the_frequencies_of_width_8_by_hand(convention):
    np.testing.assert_allclose(axial_theta(8, convention), FREQUENCIES[convention], rtol=1e-14)


def test_the_frequencies_of_three_axes_and_of_another_base():
    expected = np.zeros((3, 6))
    expected[0, :2] = expected[1, 2:4] = expected[2, 4:] = 1, 0.1
    np.testing.assert_allclose(axial_theta(12, axes=3, base=100), expected, rtol=1e-14)


COORDINATES = {  # of a grid of 2 x 4
    "per-axis": ([0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 3, 0, 1, 2, 3]),
    "qwen-vl": ([0, 0, 1, 1, 0, 0, 1, 1], [0, 1, 0, 1, 2, 3, 2, 3]),
    "eva-pixel": ([-1, -1, -1, -1, 1, 1, 1, 1], [-1, -1 / 3, 1 / 3, 1, -1, -1 / 3, 1 / 3, 1]),
    "dinov3": (
        [-math.pi] * 4 + [math.pi] * 4,
        [-1.5 * math.pi, -0.5 * math.pi, 0.5 * math.pi, 1.5 * math.pi] * 2,
    ),
}


@each_convention
def test_the_coordinates_of_a_grid_by_hand(convention):
    expected = np.array(COORDINATES.get(convention, COORDINATES["per-axis"])).T
    np.testing.assert_allclose(axial_coordinates((2, 4), convention), expected, rtol=1e-14)


def test_a_grid_is_read_row_by_row_over_any_number_of_axes():
    np.testing.assert_array_equal(axial_coordinates((2, 1, 3)), list(itertools.product(range(2), range(1), range(3))))
    np.testing.assert_array_equal(axial_coordinates((3,)), [[0], [1], [2]])


def test_blocks_of_qwen_are_read_one_after_the_other():
    made = axial_coordinates((6, 3), "qwen-vl", merge=3).reshape(2, 3, 3, 2)
    np.testing.assert_array_equal(made[1] - (3, 0), axial_coordinates((3, 3)).reshape(3, 3, 2))
    np.testing.assert_array_equal(axial_coordinates((5, 7), "qwen-vl", merge=1), axial_coordinates((5, 7)))


def test_the_reference_of_eva_stretches_a_grid_to_the_size_of_training():
    # 32 x 48 patches on the 16 x 16 of training: half a step down, a third of a step to the right
    made = axial_coordinates((32, 48), "eva", reference=(16, 16)).reshape(32, 48, 2)
    np.testing.assert_allclose(made[1, 0], [0.5, 0], rtol=1e-14)
    np.testing.assert_allclose(made[0, 1], [0, 1 / 3], rtol=1e-14)
    np.testing.assert_allclose(made[-1, -1], [15.5, 47 / 3], rtol=1e-14)


def test_one_patch_alone_stands_in_the_middle_for_dinov3():
    np.testing.assert_allclose(axial_coordinates((1, 1), "dinov3"), [[0, 0]], atol=1e-15)
    np.testing.assert_array_equal(axial_coordinates((1, 1), "eva-pixel"), [[-1, -1]])


# Vectors of the models' code


def tables(encoding, positions):
    """Return the cosines and sines (t, d) in a convention's own places, each value for both channels of its pair."""
    cos, sin = (waves[0] for waves in encoding.table(positions, torch.float64))  # (t, d/2)
    if encoding.blocks == 1:
        return cos.repeat(1, 2), sin.repeat(1, 2)
    return cos.repeat_interleave(2, dim=-1), sin.repeat_interleave(2, dim=-1)


@vectors("axial_rope_dinov3")
def test_vectors_of_dinov3(vector):
    encoding = built("dinov3", vector["params"]["head_dim"])
    cos, sin = tables(encoding, tokens(vector["params"]["grid"], "dinov3"))
    assert_agrees(vector, cos, vector["expected"]["cos"])
    assert_agrees(vector, sin, vector["expected"]["sin"])


@vectors("axial_rope_timm")
def test_vectors_of_timm(vector):
    settings, convention = vector["params"], "eva-pixel" if vector["params"]["in_pixels"] else "eva"
    base = settings["max_res"] / 2 if "max_res" in settings else None
    encoding = Axial(settings["dim"], **axial_convention(settings["dim"], convention, base=base))
    cos, sin = tables(encoding, tokens(settings["feat_shape"], convention))
    assert_agrees(vector, cos, vector["expected"]["cos"])
    assert_agrees(vector, sin, vector["expected"]["sin"])


@vectors("axial_rope_ropevit")
def test_vectors_of_rope_vit(vector):
    size = vector["params"]["end_y"], vector["params"]["end_x"]
    assert vector["params"]["theta"] == CONVENTIONS["rope-vit"][0]
    cos, sin = tables(built("rope-vit", vector["params"]["head_dim"]), tokens(size, "rope-vit"))
    assert_agrees(vector, cos[:, ::2], vector["expected"]["angle_cos"])
    assert_agrees(vector, sin[:, ::2], vector["expected"]["angle_sin"])


@vectors("mixed_rope_ropevit")
def test_vectors_of_rope_vit_mixed(vector):
    # their parameter (2, depth, heads d/2) holds x, then y, of all layers and heads
    x, y = np.array(vector["inputs"]["freqs_xy_depth_headdimhalf"])
    heads, tables_of_layers = vector["params"]["heads"], []
    for layer in range(vector["params"]["depth"]):
        theta = np.stack([y[layer].reshape(heads, -1), x[layer].reshape(heads, -1)], axis=1)  # heads, axes, pairs
        encoding = built("rope-vit-mixed", 2 * theta.shape[-1], heads).double()
        encoding.load_state_dict({"theta": torch.from_numpy(theta)})
        size = vector["params"]["end_y"], vector["params"]["end_x"]
        tables_of_layers.append(encoding.table(tokens(size, "rope-vit-mixed"), torch.float64))
    cos, sin = (torch.stack(waves).detach() for waves in zip(*tables_of_layers, strict=True))
    assert_agrees(vector, cos, vector["expected"]["cos"])
    assert_agrees(vector, sin, vector["expected"]["sin"])


# What it does to attention: for every convention


@each_convention
def test_lengths_stay(convention):
    q, k = content(6)
    grid = tokens((2, 3) if convention != "qwen-vl" else (2, 2), convention)
    q, k = q[:, :, : len(grid)], k[:, :, : len(grid)]
    for turned, x in zip(built(convention)(q, k, grid, grid), (q, k), strict=True):
        torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-12, atol=0)
        assert not torch.allclose(turned, x)


@each_convention
@given(p=st.tuples(whole, whole), r=st.tuples(whole, whole), shift=st.tuples(whole, whole))
@exactly
def test_scores_depend_on_differences_of_coordinates_only(convention, p, r, shift):
    q, k = content(1)
    encoding = built(convention)
    p, r, shift = (torch.tensor([place], dtype=torch.float64) for place in (p, r, shift))
    here, there = (scores(*encoding(q, k, a, b)) for a, b in ((p, r), (p + shift, r + shift)))
    torch.testing.assert_close(there, here, rtol=0, atol=1e-8)
    assert not torch.allclose(here, scores(q, k)) or torch.equal(p, r)


@each_convention
def test_class_tokens_at_0_stay_as_they_are(convention):
    q, k = content(1)
    for turned, x in zip(built(convention)(q, k, torch.zeros(1, 2), torch.zeros(1, 2)), (q, k), strict=True):
        assert torch.equal(turned, x)


@each_convention
def test_torch_equals_numpy_on_the_grid_of_the_convention(convention):
    q, k = content(8, h=4, g=2)
    grid, encoding = axial_coordinates((2, 4), convention), built(convention, heads=2).double()
    told = axial_convention(16, convention)
    if convention == "rope-vit-mixed":
        told["theta"] = encoding.theta.detach().numpy()
    for turned, x in zip(encoding(q, k, *[torch.from_numpy(grid)] * 2), (q, k), strict=True):
        np.testing.assert_allclose(turned[0].detach(), axial(x[0], grid, **told), atol=1e-13)


def test_eva_pixel_equals_the_oracle_between_minus_1_and_1():
    x, grid = content(12, h=1, d=8)[0][0].numpy(), axial_coordinates((3, 4), "eva-pixel")
    with mpmath.workdps(30):
        theta = [[mpmath.pi * mpmath.mpf(112) ** k for k in (0, 1)] + [0, 0], [0, 0, mpmath.pi, 112 * mpmath.pi]]
        expected = np.zeros_like(x)
        for row, place in enumerate(grid.tolist()):
            for i in range(4):
                angle = place[0] * theta[0][i] + place[1] * theta[1][i]
                a, b = x[0, row, 2 * i : 2 * i + 2].tolist()
                cos, sin = mpmath.cos(angle), mpmath.sin(angle)
                expected[0, row, 2 * i : 2 * i + 2] = float(a * cos - b * sin), float(a * sin + b * cos)
    np.testing.assert_allclose(twin(x, grid, "eva-pixel"), expected, atol=1e-12)


def test_three_axes_of_conventions_for_images():
    expected = np.zeros((3, 6))
    expected[0, :2] = expected[1, 2:4] = expected[2, 4:] = 1, 0.01
    np.testing.assert_allclose(axial_theta(12, "eva", axes=3), expected, rtol=1e-14)
    np.testing.assert_allclose(axial_theta(12, "sam2", axes=3), expected[::-1], rtol=1e-14)
    q, k = content(24, d=96)
    grid = tokens((2, 3, 4), "eva", reference=(2, 6, 2))
    assert grid.max(dim=0).values.tolist() == [1, 4, 1.5]
    for turned, x in zip(built("eva", 96, axes=3)(q, k, grid, grid), (q, k), strict=True):
        np.testing.assert_allclose(turned[0], twin(x[0], grid, "eva"), atol=1e-13)
        assert torch.equal(turned[0, 0, :, 0:32:2] == x[0, 0, :, 0:32:2], (grid[:, :1] == 0).expand(-1, 16))


@each_convention
def test_decoding_patch_by_patch_equals_prefill(convention):
    encoding, (q, k) = built(convention, heads=2), content(8, h=4, g=2)
    grid = tokens((2, 4), convention)
    whole, cache = scores(*encoding(q, k, grid, grid)), k[:, :, :0]
    for p in range(8):
        query, key = encoding(q[:, :, p : p + 1], k[:, :, p : p + 1], grid[p : p + 1], grid[p : p + 1])
        cache = torch.cat([cache, key], dim=2)
        torch.testing.assert_close(scores(query, cache), whole[:, :, p : p + 1, : p + 1], rtol=1e-12, atol=1e-12)


# Peers


def grids(height, width):
    return torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij"), dim=-1).flatten(0, 1)


def test_equals_dinov3_of_transformers():
    module, config = (
        peer(f"transformers.models.dinov3_vit.{name}_dinov3_vit") for name in ("modeling", "configuration")
    )
    settings = config.DINOv3ViTConfig(hidden_size=64, num_attention_heads=2, patch_size=16, image_size=64)
    cos, sin = module.DINOv3ViTRopePositionEmbedding(settings).eval()(torch.zeros(1, 3, 48, 80))
    q, k = content(15, d=32, dtype=torch.float32)
    grid = tokens((3, 5), "dinov3")
    for turned, x in zip(built("dinov3", 32)(q, k, grid, grid), (q, k), strict=True):
        torch.testing.assert_close(turned, rotated_half(x, cos, sin), rtol=0, atol=1e-5)


def test_equals_pixtral_of_transformers():
    module, config = (peer(f"transformers.models.pixtral.{name}_pixtral") for name in ("modeling", "configuration"))
    settings = config.PixtralVisionConfig(hidden_size=64, num_attention_heads=2)
    q, k = content(15, d=32, dtype=torch.float32)
    cos, sin = module.PixtralVisionRotaryEmbedding(settings)(q, grids(3, 5))
    theirs = module.apply_rotary_pos_emb(q, k, cos.squeeze(), sin.squeeze(), unsqueeze_dim=0)
    grid = tokens((3, 5), "pixtral")
    torch.testing.assert_close(built("pixtral", 32)(q, k, grid, grid), theirs, rtol=0, atol=1e-5)


def test_equals_sam2_of_transformers():
    module, config = (
        peer(f"transformers.models.sam2_video.{name}_sam2_video") for name in ("modeling", "configuration")
    )
    settings = config.Sam2VideoConfig(
        memory_attention_hidden_size=32, memory_attention_num_attention_heads=1, memory_attention_downsample_rate=1
    )
    q, k = content(15, d=32, dtype=torch.float32)
    cos, sin = module.Sam2VideoVisionRotaryEmbedding(settings)(q, grids(3, 5).flip(-1))  # it is given x before y
    theirs = module.apply_rotary_pos_emb_2d(q, k, cos, sin)
    grid = tokens((3, 5), "sam2")
    torch.testing.assert_close(built("sam2", 32)(q, k, grid, grid), theirs, rtol=0, atol=1e-5)


def test_sam2_of_transformers_gives_x_before_y():
    module, config = (
        peer(f"transformers.models.sam2_video.{name}_sam2_video") for name in ("modeling", "configuration")
    )
    settings = config.Sam2VideoConfig(memory_attention_rope_feat_sizes=[3, 3])
    places = module.Sam2VideoMemoryAttention.precompute_positions(settings)
    assert torch.equal(places, grids(3, 3).flip(-1).to(places))


def test_equals_the_vision_tower_of_gemma4():
    module, config = (peer(f"transformers.models.gemma4.{name}_gemma4") for name in ("modeling", "configuration"))
    settings = config.Gemma4VisionConfig(hidden_size=64, num_attention_heads=2, head_dim=32)
    assert settings.rope_parameters["rope_theta"] == CONVENTIONS["gemma4"][0]
    q, k = content(15, d=32, dtype=torch.float32)
    places = grids(3, 5).flip(-1)[None]  # it is given x before y
    cos, sin = module.Gemma4VisionRotaryEmbedding(settings)(q, places)
    theirs = [module.apply_multidimensional_rope(x, cos, sin, places, unsqueeze_dim=1) for x in (q, k)]
    grid = tokens((3, 5), "gemma4")
    torch.testing.assert_close(list(built("gemma4", 32)(q, k, grid, grid)), theirs, rtol=0, atol=1e-5)


def test_equals_the_vision_tower_of_qwen2_vl():
    module, config = (peer(f"transformers.models.qwen2_vl.{name}_qwen2_vl") for name in ("modeling", "configuration"))
    settings = config.Qwen2VLVisionConfig(embed_dim=64, num_heads=2)
    places = peer("transformers.vision_utils").get_vision_position_ids(torch.tensor([[1, 4, 6]]), 2)
    grid = tokens((4, 6), "qwen-vl")
    assert torch.equal(grid.long(), places)
    q, k = content(24, d=32, h=2, g=2, dtype=torch.float32)
    cos, sin = module.Qwen2VLVisionRotaryEmbedding(settings)(q, places)
    theirs = [x[0].transpose(0, 1) for x in (q, k)]  # t, h, d
    theirs = [x.transpose(0, 1)[None] for x in module.apply_rotary_pos_emb_vision(*theirs, cos, sin)]
    torch.testing.assert_close(list(built("qwen-vl", 32)(q, k, grid, grid)), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("reference", [None, (16, 16)], ids=str)
def test_equals_eva_of_timm(reference):
    timm = peer("timm.layers.pos_embed_sincos")
    sin, cos = timm.build_rotary_pos_embed([3, 5], dim=32, in_pixels=False, ref_feat_shape=reference)
    q, k = content(15, d=32, dtype=torch.float32)
    grid = tokens((3, 5), "eva", reference=reference)
    theirs = tuple(timm.apply_rot_embed(x, sin, cos) for x in (q, k))
    torch.testing.assert_close(built("eva", 32)(q, k, grid, grid), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("resolution", [224, 64])
def test_equals_timm_in_pixels(resolution):
    timm = peer("timm.layers.pos_embed_sincos")
    sin, cos = timm.build_rotary_pos_embed([3, 5], dim=32, max_res=resolution)
    q, k = content(15, d=32, dtype=torch.float32)
    grid, told = tokens((3, 5), "eva-pixel"), axial_convention(32, "eva-pixel", base=resolution / 2)
    theirs = tuple(timm.apply_rot_embed(x, sin, cos) for x in (q, k))
    torch.testing.assert_close(Axial(32, **told)(q, k, grid, grid), theirs, rtol=0, atol=2e-4)


def test_equals_dinov3_of_timm():
    timm = peer("timm.layers.pos_embed_sincos")
    sin, cos = timm.RotaryEmbeddingDinoV3(32).get_embed([3, 5]).chunk(2, dim=-1)
    q, k = content(15, d=32, dtype=torch.float32)
    grid = tokens((3, 5), "dinov3")
    theirs = tuple(timm.apply_rot_embed(x, sin, cos, half=True) for x in (q, k))
    torch.testing.assert_close(built("dinov3", 32)(q, k, grid, grid), theirs, rtol=0, atol=1e-5)


def test_equals_mixed_of_timm():
    timm = peer("timm.layers.pos_embed_sincos")
    theirs = timm.RotaryEmbeddingMixed(dim=64, depth=2, num_heads=2)
    q, k = content(15, d=32, h=2, g=2, dtype=torch.float32)
    grid = tokens((3, 5), "rope-vit-mixed")
    for layer in (0, 1):
        encoding = built("rope-vit-mixed", 32, heads=2)
        x, y = theirs.freqs[:, layer].detach()
        encoding.load_state_dict({"theta": torch.stack([y, x], dim=1)})
        expected = tuple(timm.apply_rot_embed_cat(part, theirs.get_embed([3, 5])[layer]) for part in (q, k))
        torch.testing.assert_close(encoding(q, k, grid, grid), expected, rtol=0, atol=1e-5)


def test_mixed_frequencies_start_like_those_of_timm():
    timm = peer("timm.layers.pos_embed_sincos")
    x, y = timm.init_random_2d_freqs(32, depth=1, num_heads=1, rotate=False)[:, 0, 0]
    np.testing.assert_allclose(axial_theta(32, "rope-vit-mixed"), torch.stack([y, x]), atol=1e-6)


def test_v_jepa_2_of_transformers_is_no_rotation():
    # its tables are tiled for pairs (i, i + d/2), and it turns neighbors with them
    theirs = peer("transformers.models.vjepa2.modeling_vjepa2").rotate_queries_or_keys
    x, places = content(5, d=16, h=1)[0].float(), torch.tensor([0, 1, 2, 3, 40])
    turned = theirs(x, places)
    cos, sin = tables(Axial(16, axes=1), places[:, None])
    torch.testing.assert_close(turned, rotated_pairwise(x, cos, sin).float(), rtol=0, atol=1e-5)
    first = torch.zeros(1, 1, 1, 16).index_fill(-1, torch.tensor(0), 1.0)
    shrunk = math.hypot(math.cos(2), math.sin(2 * 10_000**-0.125))
    assert shrunk < 0.75
    torch.testing.assert_close(theirs(first, torch.tensor([2])).norm().item(), shrunk, rtol=1e-5, atol=0)
    made = [scores(theirs(first, torch.tensor([m])), theirs(first, torch.tensor([m - 3]))).item() for m in (3, 6)]
    assert abs(made[0] - made[1]) > 0.5


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("convention", ["dinov3", "eva-pixel"])
def test_coordinates_that_span_the_same_at_every_size_take_no_reference(convention):
    with pytest.raises(ValueError, match=r"axial_convention: reference must be None here, got \(16, 16\)"):
        axial_coordinates((4, 4), convention, reference=(16, 16))


def test_an_unknown_convention_gives_no_result():
    for convention in (lambda word: axial_coordinates((2, 2), word), lambda word: axial_convention(8, word)):
        with pytest.raises(ValueError, match=r"axial_convention: convention must be per-axis, eva, .*, got 'dinov2'"):
            convention("dinov2")


@pytest.mark.parametrize("dim", [0, -4, 6, 7])
def test_a_width_that_axes_do_not_share_is_refused(dim):
    with pytest.raises(ValueError, match=f"axial_convention: dim must be a multiple of 4, got {dim}"):
        axial_convention(dim)


@pytest.mark.parametrize("base", [0, -1.0, math.nan, math.inf])
def test_a_base_that_is_not_positive_is_refused(base):
    with pytest.raises(ValueError, match="axial_convention: base must be positive and finite, got"):
        axial_convention(8, "dinov3", base=base)


@pytest.mark.parametrize("size", [(4,), (2, 2, 2), (4, 3), (3, 4)], ids=repr)
def test_blocks_need_a_height_and_a_width_that_they_divide(size):
    with pytest.raises(ValueError, match=r"unpack|cannot reshape"):
        axial_coordinates(size, "qwen-vl")


@pytest.mark.parametrize("reference", [(), (16,), (16, 16, 16)], ids=repr)
def test_a_reference_has_a_size_for_each_axis(reference):
    with pytest.raises(ValueError, match=r"zip\(\) argument 2 is"):
        axial_coordinates((4, 4), "eva", reference=reference)


def test_the_grid_of_the_package_is_that_of_whole_numbers():
    np.testing.assert_array_equal(grid_positions(2, 3), axial_coordinates((2, 3)))


# Values worked by hand


@pytest.mark.parametrize(
    ("name", "dim", "pairs"),
    [
        ("flux", 128, [8, 28, 28]),
        ("flux2", 128, [16, 16, 16, 16]),
        ("qwen-image", 128, [8, 28, 28]),
        ("wan", 128, [22, 21, 21]),
        ("hunyuan-video", 128, [8, 28, 28]),
        ("cogvideox", 64, [8, 12, 12]),
        ("cosmos", 128, [22, 21, 21]),
    ],
)
def test_each_axis_has_its_pairs_in_order(name, dim, pairs):
    made = axial_preset(name, dim)
    assert (made["theta"] > 0).sum(axis=1).tolist() == pairs
    assert made["axes"] == len(pairs)
    assert (np.argmax(made["theta"] > 0, axis=0) == np.repeat(range(len(pairs)), pairs)).all()
    assert (made["theta"].max(axis=1) == 1).all()
    Axial(dim, **made)


def test_frequencies_by_hand():
    theta = axial_preset("hunyuan-video", 32)["theta"]  # 4, 14 and 14 channels of base 256
    np.testing.assert_allclose(theta[0, :2], [1, 1 / 16])
    np.testing.assert_allclose(theta[1, 2:9], 256 ** (-np.arange(7) / 7))
    stretched = axial_preset("cosmos", 18)["theta"]  # 6 channels each; time has 2^(6/4) times the base
    np.testing.assert_allclose(stretched[0, :3], (10_000 * 2**1.5) ** -np.array([0, 1 / 3, 2 / 3]))
    np.testing.assert_allclose(stretched[1, 3:6], 10_000 ** -np.array([0, 1 / 3, 2 / 3]))
    other = axial_preset("cosmos", 18, scale=(1, 3, 3))["theta"]
    np.testing.assert_allclose(other[1, 3:6], (10_000 * 3**1.5) ** -np.array([0, 1 / 3, 2 / 3]))


def test_an_axis_of_two_channels_has_one_frequency():
    assert axial_preset("cosmos", 6)["theta"].tolist() == np.eye(3).tolist()


def test_coordinates_by_hand():
    assert preset_coordinates((1, 1, 2), "flux").tolist() == [[0, 0, 0], [0, 0, 1]]
    assert preset_coordinates((1, 1, 2), "flux", frame=1).tolist() == [[1, 0, 0], [1, 0, 1]]
    assert preset_coordinates((1, 1, 2), "flux2", frame=10).tolist() == [[10, 0, 0, 0], [10, 0, 1, 0]]
    assert preset_coordinates((2, 1, 1), "cosmos", fps=12).tolist() == [[0, 0, 0], [2, 0, 0]]
    odd = preset_coordinates((1, 3, 4), "qwen-image")
    assert sorted(set(odd[:, 1])) == [-2, -1, 0]
    assert sorted(set(odd[:, 2])) == [-2, -1, 0, 1]


def test_text_by_hand():
    assert preset_text(2, (1, 9, 4), "qwen-image").tolist() == [[4, 4, 4], [5, 5, 5]]
    assert preset_text(2, (1, 9, 4), "flux2").tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]
    for name in ("flux", "hunyuan-video", "cogvideox"):
        assert not preset_text(2, (1, 9, 4), name).any()


def test_the_grid_of_training_is_kept_and_another_is_fitted_into_it():
    same = preset_coordinates((2, 30, 45), "cogvideox", reference=(30, 45))
    np.testing.assert_allclose(same, preset_coordinates((2, 30, 45), "cogvideox"))
    wide = preset_coordinates((1, 15, 45), "cogvideox", reference=(30, 45))
    assert wide[:, 1].min() == 8  # 15 rows lie in the middle of 30
    assert wide[:, 2].max() == 44


@pytest.mark.parametrize(("name", "dim"), [("flux", 24), ("flux2", 12), ("cogvideox", 24), ("qwen-image", 40)])
def test_widths_that_do_not_share_are_refused(name, dim):
    wanted = 2 * sum(PRESETS[name][1])
    with pytest.raises(ValueError, match=f"axial_preset: dim must be a multiple of {wanted}, got {dim}"):
        axial_preset(name, dim)


# What diffusers does

file_of = "diffusers.models.transformers.transformer_{}".format


def preset_content(t, d=128):
    return torch.randn(1, 3, t, d, generator=torch.Generator().manual_seed(0))


def assert_turns_as(name, positions, turned, dim=128, atol=2e-5):
    """Compare with what a peer makes of `preset_content`; it rounds its angles, or their cosines, to float32."""
    x, made = preset_content(len(positions), dim), Axial(dim, **axial_preset(name, dim))
    ours, _ = made(x, x, torch.from_numpy(positions), torch.from_numpy(positions))
    torch.testing.assert_close(ours, turned(x), rtol=0, atol=atol)


def real(cos, sin, unbind=-1):
    embeddings = peer("diffusers.models.embeddings")
    return partial(embeddings.apply_rotary_emb, freqs_cis=(cos, sin), use_real_unbind_dim=unbind)


def test_flux():
    module, pipeline = peer(file_of("flux")), peer("diffusers.pipelines.flux.pipeline_flux").FluxPipeline
    picture = pipeline._prepare_latent_image_ids(1, 5, 7, "cpu", torch.float32)
    ids = torch.cat([torch.zeros(4, 3), picture])
    size = (1, 5, 7)
    ours = np.concatenate([preset_text(4, size, "flux"), preset_coordinates(size, "flux")])
    np.testing.assert_array_equal(ours, ids)
    assert_turns_as("flux", ours, real(*module.FluxPosEmbed(10_000, (16, 56, 56))(ids)))


def test_flux2():
    module, pipeline = peer(file_of("flux2")), peer("diffusers.pipelines.flux2.pipeline_flux2").Flux2Pipeline
    latents = torch.zeros(1, 3, 5, 7)
    given = pipeline._prepare_image_ids([latents[:, :, :2], latents])[0]
    ids = torch.cat(
        [pipeline._prepare_text_ids(torch.zeros(1, 6, 1))[0], pipeline._prepare_latent_ids(latents)[0], given]
    )
    size = (1, 5, 7)
    grids = [preset_coordinates(size, "flux2"), preset_coordinates((1, 2, 7), "flux2", frame=10)]
    grids += [preset_coordinates(size, "flux2", frame=20)]
    ours = np.concatenate([preset_text(6, size, "flux2"), *grids])
    np.testing.assert_array_equal(ours, ids)
    assert_turns_as("flux2", ours, real(*module.Flux2PosEmbed(2_000, (32, 32, 32, 32))(ids)))


def test_qwen_image():
    module = peer(file_of("qwenimage"))
    theirs = module.QwenEmbedRope(10_000, [16, 56, 56], scale_rope=True)
    sizes = [(1, 5, 8), (1, 12, 7)]
    grid, text = theirs([sizes], max_txt_seq_len=4)
    ours = [preset_coordinates(size, "qwen-image", frame=frame) for frame, size in enumerate(sizes)]
    ours += [preset_text(4, sizes[1], "qwen-image")]  # past the largest picture
    turned = partial(module.apply_rotary_emb_qwen, freqs_cis=torch.cat([grid, text]), use_real=False)
    assert_turns_as("qwen-image", np.concatenate(ours), lambda x: turned(x.transpose(1, 2)).transpose(1, 2))


def test_wan():
    theirs = peer(file_of("wan")).WanRotaryPosEmbed(128, (1, 2, 2), 1024)
    cos, sin = theirs(torch.zeros(1, 16, 3, 8, 10))
    assert_turns_as("wan", preset_coordinates((3, 4, 5), "wan"), real(cos[0, :, 0], sin[0, :, 0]))


def test_hunyuan_video():
    theirs = peer(file_of("hunyuan_video")).HunyuanVideoRotaryPosEmbed(2, 1, [16, 56, 56], 256.0)
    cos, sin = theirs(torch.zeros(1, 16, 3, 8, 10))
    assert_turns_as("hunyuan-video", preset_coordinates((3, 4, 5), "hunyuan-video"), real(cos, sin))


@pytest.mark.parametrize("grid", [(30, 45), (20, 45), (30, 20), (48, 85), (17, 31)], ids=str)
def test_cogvideox(grid):
    module = peer("diffusers.models.embeddings")
    pipeline = peer("diffusers.pipelines.cogvideo.pipeline_cogvideox")
    crop = pipeline.get_resize_crop_region_for_grid(grid, 45, 30)
    cos, sin = module.get_3d_rotary_pos_embed(64, crop, grid, 2)
    ours = preset_coordinates((2, *grid), "cogvideox", reference=(30, 45))
    assert_turns_as("cogvideox", ours, real(cos, sin), dim=64, atol=5e-5)
    if grid <= (30, 45):  # version 1.5 cuts its grid out of that of training
        cos, sin = module.get_3d_rotary_pos_embed(64, None, grid, 2, grid_type="slice", max_size=(30, 45))
        assert_turns_as("cogvideox", preset_coordinates((2, *grid), "cogvideox"), real(cos, sin), dim=64, atol=5e-5)


@pytest.mark.parametrize("fps", [None, 12, 30])
@pytest.mark.parametrize("scale", [(2.0, 1.0, 1.0), (1.0, 3.0, 3.0)], ids=str)
def test_cosmos(fps, scale):
    theirs = peer(file_of("cosmos")).CosmosRotaryPosEmbed(128, rope_scale=scale)
    cos, sin = theirs(torch.zeros(1, 16, 3, 8, 10), fps=fps)
    positions = preset_coordinates((3, 4, 5), "cosmos", fps=fps)
    x = preset_content(len(positions))
    made, _ = Axial(128, **axial_preset("cosmos", scale=scale))(x, x, torch.from_numpy(positions))
    torch.testing.assert_close(made, real(cos, sin, unbind=-2)(x), rtol=0, atol=2e-5)
