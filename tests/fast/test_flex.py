"""FlexAttention: the same as `attention`, and no score is stored. It compiles, which takes seconds a call."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from posenc.attention import attention
from posenc.bias.t5 import T5
from posenc.fast.flex import attention_by_flex
from posenc.rotate.pope import PoPE
from posenc.score.shaw import Shaw
from tests.doors import ROOT

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the compiler's own imports
]


def flex_equals_dense(q, k, v, encoding, mask=None, **arguments):
    flex = {name: value for name, value in arguments.items() if name != "mask"}
    with torch.no_grad():
        made = attention_by_flex(q, k, v, encoding, **flex)
        arguments.pop("documents", None)
        torch.testing.assert_close(made, attention(q, k, v, encoding, mask=mask, **arguments), atol=2e-6, rtol=1e-5)


def test_it_gives_the_same_with_a_bias():
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 100, 16), *torch.randn(2, 2, 2, 150, 16).unbind()
    encoding = T5(4)
    nn.init.normal_(encoding.weight)
    documents = torch.arange(300).view(2, 150) // 40
    own = (documents[:, -100:, None] == documents[:, None, :])[:, None]
    flex_equals_dense(q, k, v, encoding, mask=own, causal=True, documents=documents)


def test_it_gives_the_same_with_scores():
    q, k, v = torch.randn(3, 2, 4, 100, 16).unbind()
    flex_equals_dense(q, k, v, Shaw(16, clip=5), causal=True, scale=0.25)


def test_it_gives_the_same_with_a_rotation():
    q, k, v = torch.randn(3, 1, 4, 70, 16).unbind()
    flex_equals_dense(q, k, v, PoPE(16, 4), positions=torch.randint(90, (1, 70)), causal=True)


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


def test_16_heads_of_8192_tokens_store_no_score_for_each_pair():
    done = subprocess.run([sys.executable, "-c", PEAK], cwd=ROOT, capture_output=True, text=True, check=True)
    grown = int(done.stdout) * (1 if sys.platform == "darwin" else 1024)
    assert grown < 16 * 8192 * 8192  # bytes: a quarter of what the scores would take in float32
