"""RoPE by blocks: the plain class to the last bit, its gradients too, in every layout, dtype and order of axes."""

import pytest
import torch

from posenc.fast import rope as file
from posenc.fast.rope import RoPE
from posenc.rotate import rope as plain

each_layout = pytest.mark.parametrize("layout", ["half", "interleaved"])
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)


def exercise(module):
    module.BLOCK = 8
    module.RoPE(4)(*torch.ones(2, 1, 1, 5, 4))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(file, "BLOCK", 512)


def content(t=37, d=64, heads=4, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, heads, t, d, generator=generator, dtype=torch.float64).to(dtype)


@each_layout
@each_dtype
@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 16, "attention_factor": 1.3}], ids=str)
@pytest.mark.parametrize("tokens", [-2, -3])
def test_it_gives_what_the_plain_class_gives(layout, dtype, settings, tokens):
    q, k = content(dtype=dtype), content(37, heads=2, dtype=dtype)
    q, k = (x.transpose(1, 2) if tokens == -3 else x for x in (q, k))
    how = {"layout": layout, "tokens": tokens} | settings
    made, expected = RoPE(64, **how)(q, k), plain.RoPE(64, **how)(q, k)
    assert all(map(torch.equal, made, expected))


@each_layout
@each_dtype
def test_its_gradients_are_those_of_the_plain_class(layout, dtype):
    gradients = []
    for cls in (RoPE, plain.RoPE):
        q = content(dtype=dtype).requires_grad_()
        cls(64, layout=layout).turn(q, torch.arange(37) * 3).backward(content(dtype=dtype).flip(0))
        gradients.append(q.grad)
    torch.testing.assert_close(*gradients)


@each_layout
def test_it_has_second_gradients(layout):
    q = content(5, d=16, dtype=torch.float64).requires_grad_()
    encoding = RoPE(16, layout=layout, attention_factor=1.2)
    assert torch.autograd.gradgradcheck(lambda q: encoding.turn(q) ** 2, q, fast_mode=True)


def test_blocks_are_for_a_cpu(monkeypatch):
    monkeypatch.setattr(file, "_Turned", None)
    q = content().to("meta")
    assert RoPE(64).turn(q).shape == q.shape
    with pytest.raises(AttributeError):
        RoPE(64).turn(content())


def test_gradients_reach_positions():
    q, positions = content(5, dtype=torch.float64), torch.rand(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: RoPE(64).turn(q, p), positions, fast_mode=True)


@each_layout
def test_it_turns_by_blocks(layout, monkeypatch):
    seen, turned = [], plain.RoPE._turned
    monkeypatch.setattr(plain.RoPE, "_turned", lambda self, x, by: seen.append(x.numel()) or turned(self, x, by))
    RoPE(64, layout=layout).turn(content(dtype=torch.bfloat16))
    assert len(seen) == 37
    assert max(seen) <= 512


@each_layout
def test_strides_do_not_matter(layout):
    q = content().transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(RoPE(64, layout=layout).turn(q), plain.RoPE(64, layout=layout).turn(q))


@each_dtype
@pytest.mark.parametrize("settings", [{}, {"rotary_dim": 16}, {"layout": "interleaved"}, {"tokens": -3}], ids=str)
def test_compiled_it_gives_what_the_plain_class_gives(settings, dtype):
    torch._dynamo.reset()
    compiled, x = torch.compile(RoPE(64, **settings).turn, fullgraph=True, backend="eager"), content(dtype=dtype)
    assert torch.equal(compiled(x), plain.RoPE(64, **settings).turn(x))


@pytest.mark.parametrize(
    "wrong", [torch.zeros(2, 4, 37, 32), torch.zeros(2, 4, 37, 64).long()], ids=["narrow", "whole"]
)
def test_compiled_it_refuses_what_the_plain_class_refuses(wrong):
    torch._dynamo.reset()
    with pytest.raises(Exception, match="rope: q or k must be floats"):
        torch.compile(RoPE(64).turn, backend="eager")(wrong)
