"""A language model of the library transformers, with its attention handed to the same functions as a `Decoder`'s.

Its rotation is taken out and its attention replaced; `posenc.plan` reads from the configuration how each layer turns.
Whether that is right is checked: logits must equal the model's own.

Key:   b batch, h heads, g key/value heads, t tokens, d head dim, c width of the model, w words of the vocabulary
"""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]
from torch import Tensor
from transformers import (  # pyright: ignore[reportMissingImports]
    AttentionInterface,
    AttentionMaskInterface,
    AutoModelForCausalLM,
    PreTrainedTokenizerFast,
)

from posenc import plan
from posenc_book.real.decoder import Attend
from posenc_book.real.language_model import LanguageModel

NAME = "posenc_book"  # of the attention that is registered with transformers
TOLERANCE = 1e-3  # of the largest logit: what two ways to compute in float32 may differ by


class TransformersModel(LanguageModel):
    """The model in a folder that `save_pretrained` has written, or a model that is loaded.

    Raises:
        ValueError: If the model has no rotation, or if `posenc.plan` does not read it as transformers runs it.
    """

    def __init__(self, source: str | Path | Any, device: str = "cpu") -> None:
        self.source = source
        is_folder = isinstance(source, str | Path)
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32) if is_folder else source
        self.model = model.eval().to(device)
        self.device = device
        self.config = self.model.config.get_text_config()
        self.plan = plan(self.config.to_dict())
        self.layers = self.plan.layers
        self.code: Any = sys.modules[type(self.model.base_model).__module__]
        if not hasattr(self.code, "apply_rotary_pos_emb"):
            got = f"{type(self.model).__name__}, whose code has no apply_rotary_pos_emb"
            raise ValueError(f"real: model must be one that turns queries and keys, got {got}")
        AttentionInterface.register(NAME, self._attention)
        AttentionMaskInterface.register(NAME, lambda *_, **__: None)
        self._check()

    def _check(self) -> None:
        """Refuse a model whose logits are not those of the rotation that was read."""
        ids = torch.arange(2 * 24, device=self.device).reshape(2, 24) % self.words
        with torch.no_grad():
            own = self.model(ids).logits
        try:
            difference = ((own - self.logits(self.hidden(ids))).abs().max() / own.abs().max()).item()
            reason = f"whose logits differ by {difference:.1%} of the largest"
        except RuntimeError as error:
            difference, reason = math.nan, f"which cannot be run so: {error}"
        if not difference < TOLERANCE:
            raise ValueError(
                f"real: model must have attention as posenc.plan reads it, got {type(self.model).__name__}, {reason}; "
                "softcaps or sinks within attention, and latent attention, are not known here"
            )

    @torch.no_grad()
    def hidden(self, ids: Tensor, attend: Attend | None = None) -> Tensor:
        """Return the state (b, t, c) of each token of `ids` (b, t) that the next word is read from."""
        with self._replaced(attend or self.attend):
            return self.model.base_model(ids, use_cache=False).last_hidden_state

    @torch.no_grad()
    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (b, t, w) of the next word, of states (b, t, c)."""
        logits = self.model.get_output_embeddings()(hidden)
        # Cohere multiplies them, Granite divides them, Gemma 2 bounds them
        logits = logits * getattr(self.config, "logit_scale", 1.0) / getattr(self.config, "logits_scaling", 1.0)
        bound = getattr(self.config, "final_logit_softcapping", None)
        return logits if bound is None else bound * torch.tanh(logits / bound)

    @contextmanager
    def _replaced(self, attend: Attend) -> Iterator[None]:
        """Let transformers turn nothing, and hand queries, keys and values to `attend`."""
        turn, kind = self.code.apply_rotary_pos_emb, self.model.config._attn_implementation
        self.code.apply_rotary_pos_emb = lambda q, k, *_, **__: (q, k)
        self._replacement = attend
        self.model.set_attn_implementation(NAME)
        try:
            yield
        finally:
            self.code.apply_rotary_pos_emb = turn
            self.model.set_attn_implementation(kind)

    def _attention(self, module: Any, q: Tensor, k: Tensor, v: Tensor, *_: Any, **options: Any) -> tuple[Tensor, None]:
        """Attend as transformers calls it: heads before tokens in, tokens before heads out."""
        # `attend` divides by the root of d; what a model multiplies by in its place goes into the queries
        scale = options.get("scaling") or q.shape[-1] ** -0.5
        mixed = self._replacement(module.layer_idx, q * (scale * q.shape[-1] ** 0.5), k, v)
        return mixed.transpose(1, 2), None

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the folder."""
        return PreTrainedTokenizerFast.from_pretrained(self.source).backend_tokenizer

    @property
    def opening(self) -> list[int]:
        """The tokens that each text begins with, as the tokenizer of the folder puts them before a text."""
        return self.tokenizer.encode("").ids[:1]

    @property
    def words(self) -> int:
        """The number of tokens that it knows, w."""
        return self.config.vocab_size

    @property
    def trained_length(self) -> int:
        """The longest text that it was trained on, in tokens."""
        return self.plan.trained or self.config.max_position_embeddings
