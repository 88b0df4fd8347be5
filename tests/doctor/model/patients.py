"""Small causal models in steps that a patient may get wrong: with RoPE and a cache, or with a table and a mask."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.doctor.blocks import below, join_heads, rotate, split_heads


class Rotating(nn.Module):
    """Two layers with RoPE, which give logits and a cache of each layer."""

    def __init__(self, vocabulary: int = 50, dim: int = 32, heads: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads = heads
        self.embed, self.read = nn.Embedding(vocabulary, dim), nn.Linear(dim, vocabulary)
        self.layers = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(2))

    def positions(self, ids: Tensor, past: int) -> Tensor:
        return past + torch.arange(ids.shape[1])

    def seen(self, t: int, s: int) -> Tensor:
        return below(t, s)

    def mixed(self, layer: nn.Module, x: Tensor, positions: Tensor, old: tuple | None) -> tuple:
        q, k, v = (split_heads(part, self.heads) for part in layer(x).chunk(3, -1))
        q, k = rotate(q, positions), rotate(k, positions)
        if old is not None:
            k, v = torch.cat((old[0], k), 2), torch.cat((old[1], v), 2)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=self.seen(q.shape[2], k.shape[2]))
        return join_heads(out), (k, v)

    def forward(self, input_ids: Tensor, position_ids: Tensor | None = None, past_key_values: list | None = None):
        past = past_key_values or [None, None]
        behind = 0 if past[0] is None else past[0][0].shape[2]
        positions = self.positions(input_ids, behind) if position_ids is None else position_ids
        x, cache = self.embed(input_ids), []
        for layer, old in zip(self.layers, past, strict=True):
            out, new = self.mixed(layer, x, positions, old)
            x = x + out
            cache.append(new)
        return self.read(x), cache


class Learned(nn.Module):
    """One layer and a learned row for each position; positions and a mask may be given."""

    def __init__(self, rows: int = 32, vocabulary: int = 50, dim: int = 32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.wpe = nn.Embedding(vocabulary, dim), nn.Embedding(rows, dim)
        self.layer, self.read = nn.Linear(dim, 3 * dim), nn.Linear(dim, vocabulary)

    def default(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        return torch.arange(ids.shape[1]).expand(ids.shape)

    def rows(self, positions: Tensor) -> Tensor:
        return self.wpe(positions)

    def seen(self, positions: Tensor) -> Tensor:
        return below(positions.shape[1], positions.shape[1])

    def hidden(self, seen: Tensor, mask: Tensor) -> Tensor:
        """Hide what a mask (b, s) or (b, 1, t, s) hides, but not a token from itself."""
        shown = mask.bool() if mask.ndim == 4 else mask[:, None, None].bool()
        return (seen & shown) | torch.eye(seen.shape[-1], dtype=torch.bool)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None):
        positions = self.default(input_ids, attention_mask) if position_ids is None else position_ids
        x = self.embed(input_ids) + self.rows(positions)
        seen = self.seen(positions)
        seen = seen if attention_mask is None else self.hidden(seen, attention_mask)
        q, k, v = (part[:, None] for part in self.layer(x).chunk(3, -1))
        return self.read(x + F.scaled_dot_product_attention(q, k, v, attn_mask=seen)[:, 0])
