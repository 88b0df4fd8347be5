"""The axes of M-RoPE's pairs: orders by hand, and the rotations of Ernie, NeoMME and Hunyuan in transformers."""

import numpy as np
import pytest
import torch

from posenc.rotate.axial import Axial
from posenc.rotate.layouts import convert_layout
from posenc.rotate.mrope import MRoPE, mrope
from posenc.rotate.mrope_axes import mrope_axes
from tests.peers import peer


def exercise(module):
    """Call what its shape comments are about."""
    module.mrope_axes((1, 1, 1))


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
    made = mrope(x, p, axes=mrope_axes(sections, order))
    np.testing.assert_array_equal(made, mrope(x, p, sections, interleaved))


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
    told = {"rope_type": "default", "rope_theta": 500_000.0, "mrope_section": [22, 22, 20]}
    settings = config.Ernie4_5_VLMoeTextConfig(hidden_size=512, num_attention_heads=4, rope_parameters=told)
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
