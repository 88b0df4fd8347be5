"""A small GPT in the manner of nanoGPT, with a place for an encoding where each door is."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Causal self-attention. Keys are cached as they enter attention, so turned ones as turned."""

    def __init__(self, dim, heads, rotate, bias, score):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.attend = nn.Linear(dim, 3 * dim, bias=False)
        self.project = nn.Linear(dim, dim, bias=False)
        self.rotate, self.bias, self.score = rotate, bias, score

    def forward(self, x, positions, cache):
        b, t, dim = x.shape
        q, k, v = self.attend(x).split(dim, dim=2)
        q, k, v = (y.view(b, t, self.heads, dim // self.heads).transpose(1, 2) for y in (q, k, v))
        new = positions[-t:]
        if self.rotate is not None:
            q, k = self.rotate(q, k, new, new)
        if cache is not None:
            past_k, past_v = cache.get(self, (k[:, :, :0], v[:, :, :0]))
            k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
            cache[self] = k, v
        mask = torch.full((t, k.shape[2]), float("-inf")).triu(k.shape[2] - t + 1)
        if self.bias is not None:
            mask = mask + self.bias(new, positions)
        if self.score is not None:
            mask = mask + self.score(q, k, new, positions)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
        return self.project(y.transpose(1, 2).reshape(b, t, dim))


class Block(nn.Module):
    """Attention, then a perceptron, each beside the residual stream."""

    def __init__(self, dim, *attention):
        super().__init__()
        self.before_attention, self.before_perceptron = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, *attention)
        self.perceptron = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, positions, cache):
        x = x + self.attention(self.before_attention(x), positions, cache)
        return x + self.perceptron(self.before_perceptron(x))


class GPT(nn.Module):
    """Logits of the next token. `positions` are those of all tokens so far; the new ones are the last."""

    def __init__(self, add=None, rotate=None, bias=None, score=None, vocabulary=11, dim=64, heads=4, layers=2):
        super().__init__()
        self.embed, self.add = nn.Embedding(vocabulary, dim), add
        self.blocks = nn.ModuleList([Block(dim, heads, rotate, bias, score) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocabulary, bias=False)

    def forward(self, tokens, positions, cache=None):
        x = self.embed(tokens)
        if self.add is not None:
            x = self.add(x, positions[-tokens.shape[1] :])
        for block in self.blocks:
            x = block(x, positions, cache)
        return self.head(self.norm(x))
