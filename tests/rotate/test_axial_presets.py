"""Presets of axial RoPE: widths and coordinates by hand, and the rotations of diffusers."""

from functools import partial

import numpy as np
import pytest
import torch

from posenc.rotate.axial import Axial
from posenc.rotate.axial_presets import PRESETS, axial_preset, preset_coordinates, preset_text
from tests.peers import peer


def exercise(module):
    """Call what its shape comments are about."""
    module.axial_preset("flux", 32)
    module.preset_coordinates((1, 2, 2), "flux")
    for name in ("qwen-image", "flux2", "flux"):
        module.preset_text(2, (1, 2, 2), name)


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
    with pytest.raises(ValueError, match=f"axial_presets: dim must be a multiple of {wanted}, got {dim}"):
        axial_preset(name, dim)


# What diffusers does

file_of = "diffusers.models.transformers.transformer_{}".format


def content(t, d=128):
    return torch.randn(1, 3, t, d, generator=torch.Generator().manual_seed(0))


def assert_turns_as(name, positions, turned, dim=128, atol=2e-5):
    """Compare with what a peer makes of `content`; it rounds its angles, or their cosines, to float32."""
    x, made = content(len(positions), dim), Axial(dim, **axial_preset(name, dim))
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
    x = content(len(positions))
    made = Axial(128, **axial_preset("cosmos", scale=scale)).turn(x, torch.from_numpy(positions))
    torch.testing.assert_close(made, real(cos, sin, unbind=-2)(x), rtol=0, atol=2e-5)
