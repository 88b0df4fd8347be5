"""A small causal Transformer that is told positions through any of the four doors, or not at all.

Key:   b batch, h heads, t tokens, s the same tokens as keys, d width, c channels of a head, o answers

Norms stand before attention and MLP (Xiong et al., 2020, https://arxiv.org/abs/2002.04745), projections have no bias.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posenc.attention import attention, attention_weights


class Block(nn.Module):
    """Causal attention, then an MLP of width `hidden` or none."""

    def __init__(self, dim: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp = None
        if hidden:
            self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x: Tensor, encoding: Any, positions: Tensor) -> Tensor:
        """Return the tokens (b, t, d) after this block, each of which sees those before it."""
        q, k, v = self.project(x)
        mixed = attention(q, k, v, **_told(encoding, positions))  # (b, h, t, c)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))  # (b, t, d)
        return x if self.mlp is None else x + self.mlp(x)

    def project(self, x: Tensor) -> list[Tensor]:
        """Return queries, keys and values, each (b, h, t, c)."""
        parts = self.qkv(self.norm(x)).chunk(3, dim=-1)  # (b, t, d)
        return [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts]


def _told(encoding: Any, positions: Tensor) -> dict[str, Any]:
    """Return what attention is told; without an encoding that is the order of the tokens, whatever their positions."""
    places = {} if encoding is None else {"positions": positions, "key_positions": positions}
    return {"encoding": encoding, "causal": True, **places}


class Model(nn.Module):
    """Tokens in, for each an answer out: (b, t) -> (b, t, o).

    Args:
        encoding: A rotation, a bias or a score for all layers (as T5 shares its bias), one for each layer, or None.
        add: What is added to the embedding: called as `add(x, positions)`.
        tokens: How many different tokens there are.
        answers: How many different answers; by default `tokens`.
        dim: Width d of the model.
        heads: Heads of each layer; a rotation has the width dim / heads.
        depth: Layers.
        hidden: Width of each layer's MLP; 0 for attention alone.
        last: The largest position that `add` is told, also for what stands further on: to try a table beyond its end.

    Examples:
        >>> from posenc.rotate.rope import RoPE
        >>> model = Model(RoPE(16), tokens=10)
        >>> model(torch.zeros(2, 5, dtype=torch.int64)).shape
        torch.Size([2, 5, 10])
        >>> model.weights(torch.zeros(2, 5, dtype=torch.int64)).shape
        torch.Size([2, 4, 5, 5])
    """

    def __init__(
        self,
        encoding: Any = None,
        add: nn.Module | None = None,
        tokens: int = 16,
        answers: int | None = None,
        dim: int = 64,
        heads: int = 4,
        depth: int = 1,
        hidden: int = 0,
        last: int | None = None,
    ) -> None:
        if isinstance(encoding, Sequence) and len(encoding) != depth:
            raise ValueError(f"model: encoding must be one or one for each of {depth} layers, got {len(encoding)}")
        if last is not None and encoding is not None:
            raise ValueError(
                f"model: last must be None with an encoding, got {last}; tokens at one place see each other"
            )
        super().__init__()
        self.embed = nn.Embedding(tokens, dim)
        self.blocks: Any = nn.ModuleList(Block(dim, heads, hidden) for _ in range(depth))
        self.read = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, answers or tokens))
        self.encoding: Any = nn.ModuleList(encoding) if isinstance(encoding, Sequence) else encoding
        self.add: Any = add
        self.last = last

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return the logits (b, t, o) of the answers at each token of `ids` (b, t)."""
        x, positions = self._enter(ids, positions)
        for number, block in enumerate(self.blocks):
            x = block(x, self._encoding(number), positions)
        return self.read(x)  # (b, t, o)

    @torch.no_grad()
    def weights(self, ids: Tensor, layer: int = 0, positions: Tensor | None = None) -> Tensor:
        """Return the attention weights (b, h, t, s) of a layer."""
        x, positions = self._enter(ids, positions)
        for number in range(layer):
            x = self.blocks[number](x, self._encoding(number), positions)
        q, k, _ = self.blocks[layer].project(x)
        return attention_weights(q, k, **_told(self._encoding(layer), positions))  # (b, h, t, s)

    def _encoding(self, layer: int) -> Any:
        return self.encoding[layer] if isinstance(self.encoding, nn.ModuleList) else self.encoding

    def _enter(self, ids: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        positions = torch.arange(ids.shape[1]) if positions is None else positions
        if self.last is not None:
            positions = positions.clamp(max=self.last)
        x = self.embed(ids)  # (b, t, d)
        return (x if self.add is None else self.add(x, positions)), positions
