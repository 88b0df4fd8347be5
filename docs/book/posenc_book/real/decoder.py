"""A Llama or a Gemma 3 that somebody else trained. All that is positional in it comes from `posenc`.

Paper: Touvron et al., 2023, "LLaMA: Open and Efficient Foundation Language Models", https://arxiv.org/abs/2302.13971;
       Gemma Team, 2025, "Gemma 3 Technical Report", https://arxiv.org/abs/2503.19786.

Key:   b batch, h heads, g key/value heads, t tokens, d head dim, c width of the model, w words of the vocabulary
"""

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc import plan
from posenc.attention import attention
from posenc_book.real.gguf_file import frequency_divisors, read_gguf

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


class Decoder:
    """The model in a GGUF; `posenc.plan` reads from its metadata how each layer turns and how far it looks back."""

    def __init__(self, path: str | Path, device: str = "cpu") -> None:
        self.metadata, weights = read_gguf(path)
        self.device = device
        self.weights = {name: weight.to(device) for name, weight in weights.items()}
        self.plan = plan(self.metadata)
        self.layers = frequency_divisors(self.plan.layers, weights)
        self.kind = self.metadata["general.architecture"]
        self.eps = self.metadata[f"{self.kind}.attention.layer_norm_rms_epsilon"]

    @torch.no_grad()
    def hidden(self, ids: Tensor, attend: Attend | None = None) -> Tensor:
        """Return the state (b, t, c) of each token of `ids` (b, t) that the next word is read from."""
        states = deque(self.states(ids, attend), maxlen=1)  # of all that are yielded, the last
        return self.norm(states[0], "output_norm")

    @torch.no_grad()
    def states(self, ids: Tensor, attend: Attend | None = None) -> Iterator[Tensor]:
        """Yield the state (b, t, c) of each token of `ids` (b, t) after each layer.

        `attend` is called as `attend(layer, q, k, v)` in place of the method of that name: to look into the model, or
        to make a mistake.
        """
        x = F.embedding(ids, self.weights["token_embd.weight"])  # (b, t, c)
        if self.kind == "gemma3":
            x = x * x.shape[-1] ** 0.5
        for layer in range(len(self.layers)):
            block = f"blk.{layer}"
            mixed = self.mix(self.norm(x, f"{block}.attn_norm"), layer, attend or self.attend)
            x = x + self.norm(mixed, f"{block}.post_attention_norm")
            x = x + self.norm(self.mlp(self.norm(x, f"{block}.ffn_norm"), block), f"{block}.post_ffw_norm")
            yield x

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (b, t, w) of the next word, of states (b, t, c)."""
        words = self.weights.get("output.weight", self.weights["token_embd.weight"])
        return hidden @ words.T

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return what each head reads, (b, h, t, d), of queries (b, h, t, d), keys and values (b, g, t, d)."""
        rope, reach = self.layers[layer].encoding, self.layers[layer].window
        return attention(q, k, v, rope, causal=True, mask=window(q.shape[2], reach, q.device))

    def mix(self, x: Tensor, layer: int, attend: Attend) -> Tensor:
        """Return what attention adds, (b, t, c)."""
        d = self.layers[layer].head_dim
        q, k, v = (self.linear(x, f"blk.{layer}.attn_{name}").unflatten(-1, (-1, d)).transpose(1, 2) for name in "qkv")
        q, k = self.norm(q, f"blk.{layer}.attn_q_norm"), self.norm(k, f"blk.{layer}.attn_k_norm")
        heads = attend(layer, q, k, v)  # (b, h, t, d)
        return self.linear(heads.transpose(1, 2).flatten(2), f"blk.{layer}.attn_output")

    def mlp(self, x: Tensor, block: str) -> Tensor:
        """Return what the MLP adds, (b, t, c)."""
        gate = self.linear(x, f"{block}.ffn_gate")
        gate = F.gelu(gate, approximate="tanh") if self.kind == "gemma3" else F.silu(gate)
        return self.linear(gate * self.linear(x, f"{block}.ffn_up"), f"{block}.ffn_down")

    def linear(self, x: Tensor, name: str) -> Tensor:
        """Return x times a matrix, and a bias where the model has one (Qwen)."""
        return F.linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def norm(self, x: Tensor, name: str) -> Tensor:
        """Return x over its root mean square, times a weight; x as it is where the model has no such norm."""
        weight = self.weights.get(f"{name}.weight")
        return x if weight is None else F.rms_norm(x, weight.shape, weight, self.eps)


def window(length: int, reach: int | None, device: torch.device) -> Tensor | None:
    """Return true where a query sees a key of the last `reach`, (t, t), or None if it sees all before it."""
    if reach is None or reach >= length:
        return None
    past = torch.ones(length, length, dtype=torch.bool, device=device)
    return past.triu(1 - reach)  # (t, t)
