"""Axial RoPE in released models: coordinates, widths and frequencies by hand, and against the models' own code."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch

from posenc.models.axial import (
    CONVENTIONS,
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


def built(convention, dim=32, heads=None, base=None):
    return Axial(dim, **axial_convention(dim, convention, base=base), heads=heads)


def tokens(*arguments, **options):
    return torch.from_numpy(axial_coordinates(*arguments, **options))


# Conventions of encoders by hand

BY_AXIS = [[1, 0.01, 0, 0], [0, 0, 1, 0.01]]  # of width 8 and base 10,000: y, then x
BY_HAND = {
    "per-axis": ("half", BY_AXIS),
    "qwen-vl": ("half", BY_AXIS),
    "eva": ("interleaved", BY_AXIS),
    "eva-pixel": ("interleaved", [[math.pi, 112 * math.pi, 0, 0], [0, 0, math.pi, 112 * math.pi]]),
    "dinov3": ("half", [[1, 0.1, 0, 0], [0, 0, 1, 0.1]]),
    "pixtral": ("half", [[1, 0.01, 0, 0], [0, 0, 0.1, 0.001]]),
    "sam2": ("interleaved", BY_AXIS[::-1]),
    "gemma4": ("blocks", [[0, 0, 1, 0.1], [1, 0.1, 0, 0]]),
    "rope-vit": ("interleaved", [[0, 0, 1, 0.1], [1, 0.1, 0, 0]]),
    "rope-vit-mixed": ("interleaved", [[0, 0, 1, 10**-0.5], [1, 10**-0.5, 0, 0]]),
}


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_layout_and_the_frequencies_of_width_8(convention):
    layout, theta = BY_HAND[convention]
    result = axial_convention(8, convention)
    assert result["layout"] == layout
    np.testing.assert_allclose(result["theta"], theta, rtol=1e-14)
    assert axial_convention(8)["layout"] == "half"  # per-axis by default


def test_a_patch_of_sam2_turns_its_neighbors_by_the_column_then_by_the_row():
    x, angle = np.arange(1.0, 9.0)[None], [3, 0.03, 2, 0.02]  # row 2, column 3
    expected = []
    for i, a in enumerate(angle):
        first, second = x[0, 2 * i : 2 * i + 2]
        expected += [first * math.cos(a) - second * math.sin(a), first * math.sin(a) + second * math.cos(a)]
    np.testing.assert_allclose(axial(x, [[2, 3]], **axial_convention(8, "sam2")), [expected], rtol=1e-14)


def test_three_axes_have_two_pairs_each_of_width_12():
    expected = np.zeros((3, 6))
    expected[0, :2] = expected[1, 2:4] = expected[2, 4:] = 1, 0.1
    np.testing.assert_allclose(axial_theta(12, axes=3, base=100), expected, rtol=1e-14)
    np.testing.assert_allclose(axial_theta(12, "sam2", axes=3, base=100), expected[::-1], rtol=1e-14)


COORDINATES = {  # of a grid of 2 x 4
    "per-axis": ([0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 3, 0, 1, 2, 3]),
    "qwen-vl": ([0, 0, 1, 1, 0, 0, 1, 1], [0, 1, 0, 1, 2, 3, 2, 3]),
    "eva-pixel": ([-1, -1, -1, -1, 1, 1, 1, 1], [-1, -1 / 3, 1 / 3, 1, -1, -1 / 3, 1 / 3, 1]),
    # 2 pi times the centers of patches, -1/2 and 1/2 along y, -3/4, -1/4, 1/4 and 3/4 along x
    "dinov3": (np.repeat([-math.pi, math.pi], 4), np.tile([-1.5, -0.5, 0.5, 1.5], 2) * math.pi),
}


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_coordinates_of_a_grid(convention):
    expected = np.array(COORDINATES.get(convention, COORDINATES["per-axis"])).T
    np.testing.assert_allclose(axial_coordinates((2, 4), convention), expected, rtol=1e-14)


def test_a_grid_is_read_row_by_row_over_any_number_of_axes():
    np.testing.assert_array_equal(axial_coordinates((2, 1, 3)), list(itertools.product(range(2), range(1), range(3))))
    np.testing.assert_array_equal(axial_coordinates((2, 3)), grid_positions(2, 3))


def test_blocks_of_qwen_are_read_one_after_the_other():
    blocks = axial_coordinates((6, 3), "qwen-vl", merge=3)
    np.testing.assert_array_equal(blocks[9:] - (3, 0), axial_coordinates((3, 3)))
    np.testing.assert_array_equal(axial_coordinates((5, 7), "qwen-vl", merge=1), axial_coordinates((5, 7)))


def test_a_patch_alone_is_in_the_middle_for_dinov3():
    np.testing.assert_allclose(axial_coordinates((1, 1), "dinov3"), [[0, 0]], atol=1e-15)


def test_the_reference_of_eva_stretches_a_grid_to_the_size_of_training():
    # 32 x 48 patches on the 16 x 16 of training: half a step down, a third of a step to the right
    result = axial_coordinates((32, 48), "eva", reference=(16, 16))
    np.testing.assert_allclose(result, axial_coordinates((32, 48)) * [1 / 2, 1 / 3], rtol=1e-14)


# Vectors of the models' code


def tables(encoding, positions):
    """Return the cosines and sines (t, d) in a convention's own order, each value for both channels of its pair."""
    waves = (wave[0] for wave in encoding.table(positions, torch.float64))  # (t, d/2)
    if encoding.blocks == 1:
        return [wave.repeat(1, 2) for wave in waves]
    return [wave.repeat_interleave(2, dim=-1) for wave in waves]


def assert_waves(vector, waves, names=("cos", "sin"), layer=...):
    for name, wave in zip(names, waves, strict=True):
        assert_agrees(vector, wave, np.array(vector["expected"][name])[layer])


@vectors("axial_rope_dinov3")
def test_vectors_of_dinov3(vector):
    params = vector["params"]
    assert_waves(vector, tables(built("dinov3", params["head_dim"]), tokens(params["grid"], "dinov3")))


@vectors("axial_rope_timm")
def test_vectors_of_timm(vector):
    params = vector["params"]
    convention = "eva-pixel" if params["in_pixels"] else "eva"
    base = params["max_res"] / 2 if "max_res" in params else None
    encoding = built(convention, params["dim"], base=base)
    assert_waves(vector, tables(encoding, tokens(params["feat_shape"], convention)))


@vectors("axial_rope_ropevit")
def test_vectors_of_rope_vit(vector):
    params = vector["params"]
    assert params["theta"] == CONVENTIONS["rope-vit"][0]
    positions = tokens((params["end_y"], params["end_x"]), "rope-vit")
    waves = (wave[0] for wave in built("rope-vit", params["head_dim"]).table(positions, torch.float64))
    assert_waves(vector, waves, names=("angle_cos", "angle_sin"))


@vectors("mixed_rope_ropevit")
def test_vectors_of_rope_vit_mixed(vector):
    # their parameter (2, depth, heads d/2) holds x, then y, of all layers and heads
    params, x_then_y = vector["params"], np.array(vector["inputs"]["freqs_xy_depth_headdimhalf"])
    theta = x_then_y[::-1].reshape(2, params["depth"], params["heads"], -1).transpose(1, 2, 0, 3)  # (l, c, n, d/2)
    positions = tokens((params["end_y"], params["end_x"]), "rope-vit-mixed")
    for layer in range(params["depth"]):
        encoding = Axial(2 * theta.shape[-1], theta=theta[layer])
        assert_waves(vector, encoding.table(positions, torch.float64), layer=layer)


# Peers of encoders


def assert_turns_as(theirs, encoding, positions, atol=1e-5):
    """Compare with what a peer makes of content (1, h, t, d); it rounds its angles, or their cosines, to float32."""
    x = torch.randn(1, 2, len(positions), encoding.dim)
    turned, _ = encoding(x, x, torch.as_tensor(positions))
    torch.testing.assert_close(turned, theirs(x), rtol=0, atol=atol)


def modeling(name):
    return peer(f"transformers.models.{name}.modeling_{name}")


X_BEFORE_Y = grid_positions(3, 5).flip(-1)


def test_dinov3_of_transformers():
    dinov3 = modeling("dinov3_vit")
    config = dinov3.DINOv3ViTConfig(hidden_size=64, num_attention_heads=2, patch_size=16, image_size=64)
    cos, sin = dinov3.DINOv3ViTRopePositionEmbedding(config).eval()(torch.zeros(1, 3, 48, 80))
    turn = partial(dinov3.apply_rotary_pos_emb, cos=cos, sin=sin)
    assert_turns_as(lambda x: turn(x, x)[0], built("dinov3"), tokens((3, 5), "dinov3"))


def test_pixtral_of_transformers():
    pixtral = modeling("pixtral")
    config = pixtral.PixtralVisionConfig(hidden_size=64, num_attention_heads=2)
    cos, sin = pixtral.PixtralVisionRotaryEmbedding(config)(torch.zeros(1), grid_positions(3, 5))
    turn = partial(pixtral.apply_rotary_pos_emb, cos=cos.squeeze(), sin=sin.squeeze(), unsqueeze_dim=0)
    assert_turns_as(lambda x: turn(x, x)[0], built("pixtral"), tokens((3, 5), "pixtral"))


def test_sam2_of_transformers():
    sam2 = modeling("sam2_video")
    options = {"hidden_size": 32, "num_attention_heads": 1, "downsample_rate": 1, "rope_feat_sizes": [3, 3]}
    config = sam2.Sam2VideoConfig(**{f"memory_attention_{name}": value for name, value in options.items()})
    cos, sin = sam2.Sam2VideoVisionRotaryEmbedding(config)(torch.zeros(1), X_BEFORE_Y)
    turn = partial(sam2.apply_rotary_pos_emb_2d, cos=cos, sin=sin)
    assert_turns_as(lambda x: turn(x, x)[0], built("sam2"), tokens((3, 5), "sam2"))
    positions = sam2.Sam2VideoMemoryAttention.precompute_positions(config)
    assert torch.equal(positions, grid_positions(3, 3).flip(-1).to(positions))


def test_the_vision_tower_of_gemma4():
    gemma4 = modeling("gemma4")
    config = gemma4.Gemma4VisionConfig(hidden_size=64, num_attention_heads=2, head_dim=32)
    assert config.rope_parameters["rope_theta"] == CONVENTIONS["gemma4"][0]
    cos, sin = gemma4.Gemma4VisionRotaryEmbedding(config)(torch.zeros(1), X_BEFORE_Y[None])
    turn = partial(gemma4.apply_multidimensional_rope, cos=cos, sin=sin, position_ids=X_BEFORE_Y[None], unsqueeze_dim=1)
    assert_turns_as(turn, built("gemma4"), tokens((3, 5), "gemma4"))


def test_the_vision_tower_of_qwen2_vl():
    qwen = modeling("qwen2_vl")
    config = qwen.Qwen2VLVisionConfig(embed_dim=64, num_heads=2)
    positions = peer("transformers.vision_utils").get_vision_position_ids(torch.tensor([[1, 4, 6]]), 2)
    cos, sin = qwen.Qwen2VLVisionRotaryEmbedding(config)(torch.zeros(1), positions)

    def turn(x):
        x = x[0].transpose(0, 1)  # (t, h, d)
        return qwen.apply_rotary_pos_emb_vision(x, x, cos, sin)[0].transpose(0, 1)[None]

    grid = tokens((4, 6), "qwen-vl")
    assert torch.equal(grid.long(), positions)
    assert_turns_as(turn, built("qwen-vl"), grid)


@pytest.mark.parametrize("reference", [None, (16, 16)], ids=str)
def test_eva_of_timm(reference):
    timm = peer("timm.layers.pos_embed_sincos")
    sin, cos = timm.build_rotary_pos_embed([3, 5], dim=32, in_pixels=False, ref_feat_shape=reference)
    positions = tokens((3, 5), "eva", reference=reference)
    assert_turns_as(partial(timm.apply_rot_embed, sin_emb=sin, cos_emb=cos), built("eva"), positions)


@pytest.mark.parametrize("resolution", [224, 64])
def test_eva_of_timm_in_pixels(resolution):
    timm = peer("timm.layers.pos_embed_sincos")
    sin, cos = timm.build_rotary_pos_embed([3, 5], dim=32, max_res=resolution)
    turn, encoding = partial(timm.apply_rot_embed, sin_emb=sin, cos_emb=cos), built("eva-pixel", base=resolution / 2)
    assert_turns_as(turn, encoding, tokens((3, 5), "eva-pixel"), atol=2e-4)


def test_dinov3_of_timm():
    timm = peer("timm.layers.pos_embed_sincos")
    sin, cos = timm.RotaryEmbeddingDinoV3(32).get_embed([3, 5]).chunk(2, dim=-1)
    turn = partial(timm.apply_rot_embed, sin_emb=sin, cos_emb=cos, half=True)
    assert_turns_as(turn, built("dinov3"), tokens((3, 5), "dinov3"))


def test_mixed_of_timm():
    timm = peer("timm.layers.pos_embed_sincos")
    theirs = timm.RotaryEmbeddingMixed(dim=64, depth=2, num_heads=2)
    for layer in (0, 1):
        encoding = built("rope-vit-mixed", heads=2)
        encoding.load_state_dict({"theta": theirs.freqs[:, layer].detach().flip(0).transpose(0, 1)})  # x before y
        turn = partial(timm.apply_rot_embed_cat, emb=theirs.get_embed([3, 5])[layer])
        assert_turns_as(turn, encoding, tokens((3, 5), "rope-vit-mixed"))


def test_mixed_frequencies_start_like_those_of_timm():
    timm = peer("timm.layers.pos_embed_sincos")
    theta = timm.init_random_2d_freqs(32, depth=1, num_heads=1, rotate=False)[:, 0, 0]
    np.testing.assert_allclose(axial_theta(32, "rope-vit-mixed"), theta.flip(0), atol=1e-6)


def test_v_jepa_2_of_transformers_is_no_rotation():
    # its tables are tiled for pairs (i, i + d/2), and it turns neighbors with them
    theirs = modeling("vjepa2").rotate_queries_or_keys
    x, positions = torch.randn(1, 1, 5, 16), torch.tensor([0, 1, 2, 3, 40])
    cos, sin = tables(Axial(16, axes=1), positions[:, None])
    neighbors = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    torch.testing.assert_close(theirs(x, positions), (x * cos + neighbors * sin).float(), rtol=0, atol=1e-5)
    # so a vector shrinks, and scores depend on more than differences of positions
    k = torch.eye(16)[None, None, :1]
    turned = {p: theirs(k, torch.tensor([p])) for p in (0, 2, 3, 6)}
    assert turned[2].norm().item() == pytest.approx(math.hypot(math.cos(2), math.sin(2 * 10_000**-0.125)), rel=1e-5)
    assert turned[2].norm() < 0.75
    assert abs((turned[3] * turned[0]).sum() - (turned[6] * turned[3]).sum()) > 0.5


# Presets of generators by hand

PRESETS = {  # base, and the pairs of the axes
    "flux": (10_000, [8, 28, 28]),
    "flux2": (2_000, [16, 16, 16, 16]),
    "qwen-image": (10_000, [8, 28, 28]),
    "wan": (10_000, [22, 21, 21]),
    "hunyuan-video": (256, [8, 28, 28]),
    "cogvideox": (10_000, [8, 12, 12]),
    "cosmos": (10_000, [22, 21, 21]),
}


@pytest.mark.parametrize("name", PRESETS)
def test_the_axes_of_a_preset_have_their_pairs_in_order(name):
    base, pairs = PRESETS[name]
    preset = axial_preset(name, 2 * sum(pairs))
    assert preset["axes"] == len(pairs)
    np.testing.assert_array_equal(preset["theta"] > 0, np.repeat(np.eye(len(pairs)), pairs, axis=1))
    w = pairs[-1]
    np.testing.assert_allclose(preset["theta"][-1, -w:], base ** (-np.arange(w) / w), rtol=1e-14)
    Axial(2 * sum(pairs), **preset)


def test_a_head_is_128_wide_by_default():
    np.testing.assert_array_equal(axial_preset("flux")["theta"], axial_preset("flux", 128)["theta"])


def test_cosmos_stretches_the_base_of_an_axis():
    # of 18 channels 6 an axis: time has 2^(6/4) times the base
    theta = axial_preset("cosmos", 18)["theta"]
    np.testing.assert_allclose(theta[0, :3], (10_000 * 2**1.5) ** -np.array([0, 1 / 3, 2 / 3]))
    theta = axial_preset("cosmos", 18, scale=(1, 3, 3))["theta"]
    np.testing.assert_allclose(theta[1, 3:6], (10_000 * 3**1.5) ** -np.array([0, 1 / 3, 2 / 3]))
    # an axis of two channels has a single frequency
    assert axial_preset("cosmos", 6)["theta"].tolist() == np.eye(3).tolist()


def test_coordinates_by_hand():
    assert preset_coordinates((1, 1, 2), "flux").tolist() == [[0, 0, 0], [0, 0, 1]]
    assert preset_coordinates((1, 1, 2), "flux", frame=1).tolist() == [[1, 0, 0], [1, 0, 1]]
    assert preset_coordinates((1, 1, 2), "flux2", frame=10).tolist() == [[10, 0, 0, 0], [10, 0, 1, 0]]
    assert preset_coordinates((2, 1, 1), "cosmos", fps=30).tolist() == [[0, 0, 0], [0.8, 0, 0]]
    odd = preset_coordinates((1, 3, 4), "qwen-image")
    assert sorted(set(odd[:, 1])) == [-2, -1, 0]
    assert sorted(set(odd[:, 2])) == [-2, -1, 0, 1]


def test_text_by_hand():
    assert preset_text(2, (1, 9, 4), "qwen-image").tolist() == [[4, 4, 4], [5, 5, 5]]
    assert preset_text(2, (1, 9, 4), "flux2").tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]
    for name in ("flux", "hunyuan-video", "cogvideox"):
        assert preset_text(2, (1, 9, 4), name).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_the_grid_of_training_is_kept_and_another_is_fitted_into_it():
    same = preset_coordinates((2, 30, 45), "cogvideox", reference=(30, 45))
    np.testing.assert_allclose(same, preset_coordinates((2, 30, 45), "cogvideox"))
    wide = preset_coordinates((1, 15, 45), "cogvideox", reference=(30, 45))
    assert wide[:, 1].min() == 8  # 15 rows lie in the middle of 30
    assert wide[:, 2].max() == 44


# What diffusers does

file_of = "diffusers.models.transformers.transformer_{}".format


def preset(name, dim=128, **options):
    return Axial(dim, **axial_preset(name, dim, **options))


def real(cos, sin, unbind=-1):
    embeddings = peer("diffusers.models.embeddings")
    return partial(embeddings.apply_rotary_emb, freqs_cis=(cos, sin), use_real_unbind_dim=unbind)


def test_flux():
    module, pipeline = peer(file_of("flux")), peer("diffusers.pipelines.flux.pipeline_flux").FluxPipeline
    ids = torch.cat([torch.zeros(4, 3), pipeline._prepare_latent_image_ids(1, 5, 7, "cpu", torch.float32)])
    size = (1, 5, 7)
    ours = np.concatenate([preset_text(4, size, "flux"), preset_coordinates(size, "flux")])
    np.testing.assert_array_equal(ours, ids)
    assert_turns_as(real(*module.FluxPosEmbed(10_000, (16, 56, 56))(ids)), preset("flux"), ours)


def test_flux2():
    module, pipeline = peer(file_of("flux2")), peer("diffusers.pipelines.flux2.pipeline_flux2").Flux2Pipeline
    latents = torch.zeros(1, 3, 5, 7)
    text, picture = pipeline._prepare_text_ids(torch.zeros(1, 6, 1))[0], pipeline._prepare_latent_ids(latents)[0]
    ids = torch.cat([text, picture, pipeline._prepare_image_ids([latents[:, :, :2], latents])[0]])
    size = (1, 5, 7)
    ours = [preset_text(6, size, "flux2"), preset_coordinates(size, "flux2")]
    ours += [preset_coordinates((1, 2, 7), "flux2", frame=10), preset_coordinates(size, "flux2", frame=20)]
    ours = np.concatenate(ours)
    np.testing.assert_array_equal(ours, ids)
    assert_turns_as(real(*module.Flux2PosEmbed(2_000, (32, 32, 32, 32))(ids)), preset("flux2"), ours)


def test_qwen_image():
    module = peer(file_of("qwenimage"))
    sizes = [(1, 5, 8), (1, 12, 7)]
    waves = torch.cat(module.QwenEmbedRope(10_000, [16, 56, 56], scale_rope=True)([sizes], max_txt_seq_len=4))
    ours = [preset_coordinates(size, "qwen-image", frame=frame) for frame, size in enumerate(sizes)]
    ours += [preset_text(4, sizes[1], "qwen-image")]  # past the largest picture

    def turn(x):
        return module.apply_rotary_emb_qwen(x.transpose(1, 2), freqs_cis=waves, use_real=False).transpose(1, 2)

    assert_turns_as(turn, preset("qwen-image"), np.concatenate(ours))


def test_wan():
    cos, sin = peer(file_of("wan")).WanRotaryPosEmbed(128, (1, 2, 2), 1024)(torch.zeros(1, 16, 3, 8, 10))
    turn = real(cos[0, :, 0], sin[0, :, 0])
    assert_turns_as(turn, preset("wan"), preset_coordinates((3, 4, 5), "wan"))


def test_hunyuan_video():
    theirs = peer(file_of("hunyuan_video")).HunyuanVideoRotaryPosEmbed(2, 1, [16, 56, 56], 256.0)
    turn = real(*theirs(torch.zeros(1, 16, 3, 8, 10)))
    assert_turns_as(turn, preset("hunyuan-video"), preset_coordinates((3, 4, 5), "hunyuan-video"))


@pytest.mark.parametrize("grid", [(30, 45), (20, 45), (30, 20), (48, 85), (17, 31)], ids=str)
def test_cogvideox(grid):
    module = peer("diffusers.models.embeddings")
    crop = peer("diffusers.pipelines.cogvideo.pipeline_cogvideox").get_resize_crop_region_for_grid(grid, 45, 30)
    turn = real(*module.get_3d_rotary_pos_embed(64, crop, grid, 2))
    positions = preset_coordinates((2, *grid), "cogvideox", reference=(30, 45))
    assert_turns_as(turn, preset("cogvideox", 64), positions, atol=5e-5)
    if grid <= (30, 45):  # version 1.5 cuts its grid out of that of training
        turn = real(*module.get_3d_rotary_pos_embed(64, None, grid, 2, grid_type="slice", max_size=(30, 45)))
        assert_turns_as(turn, preset("cogvideox", 64), preset_coordinates((2, *grid), "cogvideox"), atol=5e-5)


@pytest.mark.parametrize("fps", [None, 12, 30])
@pytest.mark.parametrize("scale", [(2.0, 1.0, 1.0), (1.0, 3.0, 3.0)], ids=str)
def test_cosmos(fps, scale):
    theirs = peer(file_of("cosmos")).CosmosRotaryPosEmbed(128, rope_scale=scale)
    turn = real(*theirs(torch.zeros(1, 16, 3, 8, 10), fps=fps), unbind=-2)
    assert_turns_as(turn, preset("cosmos", scale=scale), preset_coordinates((3, 4, 5), "cosmos", fps=fps))


# What is refused: what would give a wrong result without an error

UNKNOWN = "axial_convention: convention must be per-axis, eva, .*, got 'dinov2'"
NO_PRESET = "axial_preset: name must be flux, flux2, .*, got 'sora'"
REFUSED = [
    (axial_coordinates, ((2, 2), "dinov2"), UNKNOWN),
    (axial_convention, (8, "dinov2"), UNKNOWN),
    (axial_preset, ("sora",), NO_PRESET),
    (preset_coordinates, ((1, 2, 2), "sora"), NO_PRESET),
    (preset_text, (2, (1, 2, 2), "sora"), NO_PRESET),
    *((axial_convention, (dim,), f"axial_convention: dim must be a multiple of 4, got {dim}") for dim in (0, -4, 6, 7)),
    *(
        (axial_preset, (name, dim), f"axial_preset: dim must be a multiple of {unit}, got {dim}")
        for name, dim, unit in [("flux", 24, 32), ("flux2", 12, 8), ("cogvideox", 24, 16), ("qwen-image", 40, 32)]
    ),
    *(
        (axial_preset, (name, dim), f"axial_preset: dim must be even, 6 or more, got {dim}")
        for name, dim in [("wan", 127), ("cosmos", 4)]
    ),
    *(
        (axial_convention, (8, "dinov3", 2, base), "axial_convention: base must be positive and finite, got")
        for base in (0, -1.0, math.nan, math.inf)
    ),
    *(
        (axial_coordinates, ((4, 4), name, 2, (16, 16)), "axial_convention: reference must be None here, got")
        for name in ("dinov3", "eva-pixel")
    ),
    (axial_coordinates, ((4, 4), "eva", 2, (16,)), "zip"),  # a size or a scale for every axis
    (axial_preset, ("flux", 32, (1, 2)), "zip"),
]


@pytest.mark.parametrize(("function", "arguments", "message"), REFUSED)
def test_what_is_refused(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)
