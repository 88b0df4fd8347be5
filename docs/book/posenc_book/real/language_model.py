"""A language model of a GGUF: how well it reads, what it writes, and the same with something in it changed.

Key:   b batch, h heads, g key/value heads, t tokens, d head dim, c width of the model, w words
"""

from functools import cached_property
from typing import Protocol

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]
from torch import Tensor

from posenc.attention import attention
from posenc.rotate.rope import RoPE
from posenc_book.real.decoder import Attend, Decoder, window
from posenc_book.real.tokens import tokenizer_of

SCORED_AT_ONCE = 512  # tokens whose logits are held at one time


class Rotates(Protocol):
    """What turns queries and keys in the place of a layer's own rotation, and returns queries, keys and values."""

    def __call__(self, rope: RoPE, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what attention gets, of q (b, h, t, d), k and v (b, g, t, d)."""
        ...


class LanguageModel(Decoder):
    """A `Decoder` with the tokenizer of its file."""

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer in the file."""
        return tokenizer_of(self.metadata)

    @property
    def opening(self) -> list[int]:
        """The tokens that each text begins with: Gemma's <bos>; SmolLM2 has none."""
        begins = self.metadata.get("tokenizer.ggml.add_bos_token", self.kind == "gemma3")
        return [self.metadata["tokenizer.ggml.bos_token_id"]] if begins else []

    @property
    def words(self) -> int:
        """The number of tokens that it knows, w."""
        return len(self.weights["token_embd.weight"])

    @property
    def pad(self) -> int:
        """The token that fills up a batch."""
        return self.metadata["tokenizer.ggml.padding_token_id"]

    @property
    def trained_length(self) -> int:
        """The longest text that it was trained on, in tokens."""
        return self.metadata[f"{self.kind}.context_length"]

    def with_rotation(self, rotates: Rotates, visible: Tensor | None = None) -> Attend:
        """Return what `hidden` takes as `attend`: attention of what `rotates` returns, causal by the order of tokens.

        `visible` is true where a query may look, (t, t), in place of the layer's own window.
        """

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            turned_q, turned_k, v = rotates(self.layers[layer].encoding, q, k, v)
            mask = window(q.shape[2], self.layers[layer].window, q.device) if visible is None else visible
            return attention(turned_q, turned_k, v, causal=True, mask=mask)

        return attend


@torch.no_grad()
def losses(model: LanguageModel, ids: Tensor, attend: Attend | None = None) -> Tensor:
    """Return the loss in nats of each token of `ids` (b, t) but the first, (b, t - 1)."""
    ids = ids.to(model.device)
    states = model.hidden(ids, attend)[:, :-1]  # (b, t - 1, c)
    parts = zip(states.split(SCORED_AT_ONCE, dim=1), ids[:, 1:].split(SCORED_AT_ONCE, dim=1), strict=True)
    # Logits of a long text would take gigabytes at once.
    scored = [_cross_entropy(model.logits(few), next_ids) for few, next_ids in parts]
    return torch.cat(scored, dim=1)  # (b, t - 1)


def _cross_entropy(logits: Tensor, ids: Tensor) -> Tensor:
    """Return the loss (b, t) of `ids` (b, t), of logits (b, t, w)."""
    # Flat rows: torch is five times as slow on logits with words before tokens.
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="none").view_as(ids)


def continuation(model: LanguageModel, prompt: str, attend: Attend | None = None, count: int = 24) -> str:
    """Return the `count` tokens that the model finds likeliest after `prompt`, one after the other, as text."""
    ids = [*model.opening, *model.tokenizer.encode(prompt, add_special_tokens=False).ids]
    begin = len(ids)
    # Without a cache: the text is short, and each mistake would need a cache of its own.
    for _ in range(count):
        last = model.hidden(torch.tensor([ids], device=model.device), attend)[:, -1:]
        ids.append(int(model.logits(last).argmax()))
    return model.tokenizer.decode(ids[begin:])
