"""RoPE by blocks: the plain class to the last bit, its gradients too, in every layout and dtype."""

import pytest
import torch

from posenc.fast import rope as file
from posenc.fast.rope import RoPE
from posenc.rotate import rope as plain

over_layouts = pytest.mark.parametrize("layout", ["half", "interleaved"])
over_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)


def exercise(module):
    module.BLOCK = 8
    module.RoPE(4)(*torch.ones(2, 1, 1, 5, 4))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(file, "BLOCK", 512)


def turned(module, x, positions=None):
    """Turn `x` to its positions, 0 .. t-1 by default."""
    places = torch.arange(x.shape[-2]) if positions is None else positions
    return module.turn(x, module.table(places.to(x.device), x.dtype))


def content(t=37, d=64, heads=4, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, heads, t, d, generator=generator, dtype=torch.float64).to(dtype)


@over_layouts
@over_dtypes
@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 16, "attention_factor": 1.3}], ids=str)
def test_it_gives_what_the_plain_class_gives(layout, dtype, settings):
    q, k = content(dtype=dtype), content(37, heads=2, dtype=dtype)
    result = RoPE(64, layout=layout, **settings)(q, k)
    expected = plain.RoPE(64, layout=layout, **settings)(q, k)
    assert all(map(torch.equal, result, expected))


@over_layouts
@over_dtypes
def test_its_gradients_are_those_of_the_plain_class(layout, dtype):
    gradients = []
    for cls in (RoPE, plain.RoPE):
        q = content(dtype=dtype).requires_grad_()
        turned(cls(64, layout=layout), q, torch.arange(37) * 3).backward(content(dtype=dtype).flip(0))
        gradients.append(q.grad)
    torch.testing.assert_close(*gradients)


@over_layouts
def test_it_has_second_gradients(layout):
    q = content(5, d=16, dtype=torch.float64).requires_grad_()
    encoding = RoPE(16, layout=layout, attention_factor=1.2)
    assert torch.autograd.gradgradcheck(lambda q: turned(encoding, q) ** 2, q, fast_mode=True)


def test_blocks_are_for_a_cpu(monkeypatch):
    monkeypatch.setattr(file, "_Rotated", None)
    q = content().to("meta")
    assert turned(RoPE(64), q).shape == q.shape
    with pytest.raises(AttributeError):
        turned(RoPE(64), content())


def test_gradients_reach_positions():
    q, positions = content(5, dtype=torch.float64), torch.rand(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: turned(RoPE(64), q, p), positions, fast_mode=True)


@over_layouts
def test_it_turns_by_blocks(layout, monkeypatch):
    sizes, turn = [], plain.RoPE.turn
    monkeypatch.setattr(plain.RoPE, "turn", lambda self, x, table: sizes.append(x.numel()) or turn(self, x, table))
    turned(RoPE(64, layout=layout), content(dtype=torch.bfloat16))
    assert len(sizes) == 37
    assert max(sizes) <= 512


@over_layouts
def test_strides_do_not_matter(layout):
    q = content().transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(turned(RoPE(64, layout=layout), q), turned(plain.RoPE(64, layout=layout), q))


@over_dtypes
@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 16}, {"layout": "interleaved"}], ids=str)
def test_compiled_it_gives_what_the_plain_class_gives(settings, dtype):
    torch._dynamo.reset()
    compiled = torch.compile(RoPE(64, **settings), fullgraph=True, backend="eager")
    q, k = content(dtype=dtype), content(37, heads=2, dtype=dtype)
    assert all(map(torch.equal, compiled(q, k), plain.RoPE(64, **settings)(q, k)))


@pytest.mark.parametrize(
    "wrong", [torch.zeros(2, 4, 37, 32), torch.zeros(2, 4, 37, 64).long()], ids=["narrow", "whole"]
)
def test_compiled_it_refuses_what_the_plain_class_refuses(wrong):
    torch._dynamo.reset()
    with pytest.raises(Exception, match="rope: q or k must have shape"):
        torch.compile(RoPE(64), backend="eager")(wrong, wrong)
