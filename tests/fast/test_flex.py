"""FlexAttention: the same as `attention`, and no score is stored. To compile takes seconds a call, so most is not."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from posenc.attention import attention
from posenc.bias.t5 import T5
from posenc.fast import flex
from posenc.fast.flex import attention_by_flex
from posenc.rotate.pope import PoPE
from posenc.rotate.rope import RoPE
from posenc.score.shaw import Shaw
from tests.contract.encoding_inputs import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler's own imports
compiled = pytest.mark.full


@pytest.fixture
def uncompiled(monkeypatch):
    """Let torch compute what it would compile: the same functions of a pair, in a plain loop of operations."""
    monkeypatch.setattr(flex.torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(flex, "flex_attention", _dense)


def _dense(q, k, v, modify, visible, scale, grouped):
    """Do what FlexAttention does, each pair by `modify` and `seen`."""
    assert grouped == (k.shape[1] != q.shape[1])
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    logits = q @ k.mT * scale
    for b, h, i, j in np.ndindex(logits.shape):
        place = [torch.tensor(number) for number in (b, h, i, j)]
        if modify is not None:
            logits[b, h, i, j] = modify(logits[b, h, i, j], *place)
        if not visible.mask_mod(place[0] % visible.shape[0], *place[1:]):  # without a batch, the first serves all
            logits[b, h, i, j] = -torch.inf
    return logits.softmax(dim=-1) @ v


def flex_equals_dense(q, k, v, encoding, mask=None, **arguments):
    with torch.no_grad():
        result = attention_by_flex(q, k, v, encoding, **arguments)
        arguments.pop("documents", None)
        torch.testing.assert_close(result, attention(q, k, v, encoding, mask=mask, **arguments), atol=2e-6, rtol=1e-5)


@compiled
def test_it_gives_the_same_with_a_bias():
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 100, 16), *torch.randn(2, 2, 2, 150, 16).unbind()
    encoding = T5(4)
    nn.init.normal_(encoding.weight)
    documents = torch.arange(300).view(2, 150) // 40
    own = (documents[:, -100:, None] == documents[:, None, :])[:, None]
    flex_equals_dense(q, k, v, encoding, mask=own, causal=True, documents=documents)


@compiled
def test_it_gives_the_same_with_scores():
    q, k, v = torch.randn(3, 2, 4, 100, 16).unbind()
    flex_equals_dense(q, k, v, Shaw(16, clip=5), causal=True, scale=0.25)


@compiled
def test_it_gives_the_same_with_a_rotation():
    q, k, v = torch.randn(3, 1, 4, 70, 16).unbind()
    flex_equals_dense(q, k, v, PoPE(16, 4), positions=torch.randint(90, (1, 70)), causal=True)


ENCODINGS = {
    "nothing": None,
    "a bias": T5(4),
    "a score": Shaw(8, clip=2),
    "a rotation": RoPE(8),
    "a rotation in a function": lambda *inputs: RoPE(8)(*inputs),
}
CALLS = {
    "as it is": {},
    "causal": {"causal": True},
    "documents": {"documents": torch.tensor([0, 0, 1, 1, 1, 2, 2])},
    "causal documents": {"causal": True, "documents": torch.tensor([0, 0, 1, 1, 1, 2, 2])},
    "documents of a batch": {"documents": torch.tensor([[0, 0, 1, 1, 1, 2, 2], [0, 1, 1, 1, 1, 1, 1]])},
    "positions": {"causal": True, "positions": torch.tensor([[5, 2, 0], [4, 4, 1]]), "scale": 0.5},
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("call", CALLS)
@torch.no_grad()
def test_each_pair_is_that_of_attention(uncompiled, encoding, call):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 3, 8), *torch.randn(2, 2, 2, 7, 8).unbind()
    documents = torch.atleast_2d(CALLS[call].get("documents", torch.zeros(7)))
    own = (documents[:, 4:, None] == documents[:, None])[:, None]
    flex_equals_dense(q, k, v, ENCODINGS[encoding], mask=own, **CALLS[call])


@torch.no_grad()
def test_a_bias_without_a_function_of_a_pair_is_refused():
    q = torch.randn(1, 2, 8, 16)
    message = (
        "flex: encoding must be a rotation or have a score_mod, got function; posenc.fast.attention_in_blocks takes any"
    )
    with pytest.raises(ValueError, match=message):
        attention_by_flex(q, q, q, lambda m, n: torch.zeros(2, 8, 8))


def test_gradients_on_a_cpu_are_refused():
    q = torch.randn(1, 2, 8, 16)
    with pytest.raises(ValueError, match=r"flex: device must be a GPU to record gradients, got cpu; .*no_grad"):
        attention_by_flex(q, q, q, T5(2))


PEAK = """
import resource, torch
from posenc.bias.t5 import T5
from posenc.fast.flex import attention_by_flex
q, k, v = torch.randn(3, 1, 16, 8192, 8).unbind()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with torch.no_grad():
    attention_by_flex(q, k, v, T5(16), causal=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@compiled
def test_16_heads_of_8192_tokens_store_no_score_for_each_pair():
    done = subprocess.run([sys.executable, "-c", PEAK], cwd=ROOT, capture_output=True, text=True, check=True)
    grown = int(done.stdout) * (1 if sys.platform == "darwin" else 1024)
    assert grown < 16 * 8192 * 8192  # bytes: a quarter of what the scores would take in float32
