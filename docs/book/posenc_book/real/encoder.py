"""The encoder all-MiniLM-L6-v2, a BERT, on `posenc`: one learned table is added, and nothing else in it is positional.

Paper: Devlin et al., 2018, "BERT", https://arxiv.org/abs/1810.04805; Wang et al., 2020, "MiniLM",
       https://arxiv.org/abs/2002.10957.

Key:   b batch, h heads, t tokens, c width of the model
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file  # pyright: ignore[reportMissingImports]
from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]
from torch import Tensor

from posenc.add.learned import Learned
from posenc.attention import attention

HEADS, EPS = 12, 1e-12


class Encoder:
    """The model in a folder of transformers: `model.safetensors` and `tokenizer.json`."""

    def __init__(self, weights: str | Path) -> None:
        self.weights = load_file(weights)
        self.tokenizer = Tokenizer.from_file(str(Path(weights).with_name("tokenizer.json")))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        rows = self.weights["embeddings.position_embeddings.weight"]  # (512, c)
        self.positions = Learned(rows.shape[1], rows.shape[0])
        self.positions.weight.data = rows.clone()
        self.depth = 1 + max(int(name.split(".")[2]) for name in self.weights if name.startswith("encoder.layer"))

    @torch.no_grad()
    def hidden(self, ids: Tensor) -> Tensor:
        """Return the state (b, t, c) of each token of `ids` (b, t) after the last layer."""
        words = F.embedding(ids, self.weights["embeddings.word_embeddings.weight"])  # (b, t, c)
        words = words + self.weights["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(self.positions(words), "embeddings.LayerNorm")
        for layer in range(self.depth):
            x = self.block(x, f"encoder.layer.{layer}")
        return x

    def block(self, x: Tensor, name: str) -> Tensor:
        """Return the states (b, t, c) after one layer; norms stand behind attention and MLP."""
        parts = [self.linear(x, f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)  # (b, h, t, c / h)
        mixed = self.linear(attention(q, k, v).transpose(1, 2).flatten(2), f"{name}.attention.output.dense")
        x = self.norm(x + mixed, f"{name}.attention.output.LayerNorm")
        inner = F.gelu(self.linear(x, f"{name}.intermediate.dense"))
        return self.norm(x + self.linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def linear(self, x: Tensor, name: str) -> Tensor:
        """Return x times a matrix, and a bias."""
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def norm(self, x: Tensor, name: str) -> Tensor:
        """Return x less its mean, over its deviation, times a weight, and a bias."""
        weight = self.weights[f"{name}.weight"]
        return F.layer_norm(x, weight.shape, weight, self.weights[f"{name}.bias"], EPS)

    def sentence(self, text: str) -> Tensor:
        """Return the unit vector (c,) of a text: the mean of its tokens' states."""
        ids = torch.tensor([self.tokenizer.encode(text).ids])
        return F.normalize(self.hidden(ids)[0].mean(dim=0), dim=0)
