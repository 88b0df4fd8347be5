"""Profiles: let each query mix a few learned curves over the distance, and score keys by the mix.

Paper: Thinking Machines Lab, 2026, "Inkling",
       https://huggingface.co/docs/transformers/model_doc/inkling, `InklingRelativeLogits`.
Used:  Inkling and Inkling 2, language models without RoPE; x-transformers offers it
Cost:  one bank (r, e) for all heads and r numbers a query to read; (b, h, t, e) products a call

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, r rank, e extent

    state(m)      = weight q_m, r numbers for each head; or the `states` given
    s(q, k, m, n) = sum_i state(m)_i bank[i, m - n]    where 0 <= m - n < e, and 0 elsewhere

so a head has as many curves as its queries have states, and all of them lie in the r-dimensional
space of the bank. Beyond the extent, and for a key ahead, nothing is added: far words are known by
content alone. It is Shaw's table of rank r, shared by heads, and blind to the future.

Inkling reads the states from the hidden state, x R^T: pass such as `states` (b, h, t, r), and
delete `weight`. Its scores are not divided by sqrt(d), and its sliding layers have extent and
window alike. x-transformers adds a bias to R, which here would go into `states`.
"""

import numpy as np
import torch
from torch import Tensor, nn


def profiles(q, k, positions, key_positions, weight=None, bank=None, states=None) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d) for `k` (g, s, d).

    `weight` is (h, r, d) and `bank` (r, e); `states` (h, t, r) replace what `weight` reads.
    """
    q = np.asarray(q, np.float64)
    m = np.reshape(positions, (q.shape[1], 1))
    n = np.reshape(key_positions, (1, len(k[0])))
    distance = np.asarray(m, np.float64) - n  # (t, s)
    if (distance % 1).any():
        raise ValueError(f"profiles: positions must be whole numbers, got {positions}")
    if states is None:
        states = np.einsum("htd,hrd->htr", q, np.asarray(weight))
    bank = np.asarray(bank, np.float64)
    near = (distance >= 0) & (distance < bank.shape[1])  # (t, s)
    curve = bank[:, np.where(near, distance, 0).astype(int)]  # (r, t, s)
    scores = np.einsum("htr,rts->hts", states, curve)
    return np.where(near, scores, 0)  # (h, t, s)


class Profiles(nn.Module):
    """Score each key by its distance, on a curve that the query mixes from a bank.

    Learned are `weight` (heads, rank, dim), which starts normal with standard deviation
    dim^(-1/2), and `bank` (rank, extent), which starts with 0.02: first curves are nearly flat.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h, each with its own states of one bank.
        rank: Curves r in the bank; Inkling has 16.
        extent: Distances 0 .. extent - 1 that have a score; Inkling has 1,024.

    Examples:
        >>> encoding = Profiles(dim=2, heads=1, rank=2, extent=3)
        >>> encoding.weight.data[0] = torch.eye(2)  # a state is what the query says
        >>> encoding.bank.data = torch.tensor([[3.0, 2.0, 1.0], [0.0, 0.0, 5.0]])
        >>> q = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])[None, None]
        >>> encoding(q, torch.zeros(1, 1, 5, 2))[0, 0].tolist()  # from 2, 3 and 4
        [[1.0, 2.0, 3.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 6.0, 2.0, 3.0]]
    """

    def __init__(self, dim: int, heads: int, rank: int = 16, extent: int = 1024):
        super().__init__()
        self.weight = nn.Parameter(dim**-0.5 * torch.randn(heads, rank, dim))
        self.bank = nn.Parameter(0.02 * torch.randn(rank, extent))

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, states=None):
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are integers, (t,) or (b, t). By default keys stand at 0 .. s-1, or where as many
        queries do, and queries where the last t keys do. `states` (b, h, t, r) replace those read.
        """
        m, n = _places(q, k, positions, key_positions)
        curves = self.curves(q, states)
        distance = m - n  # (b, 1, t, s)
        inside, near = self._inside(distance)
        index = inside.expand(*q.shape[:3], -1)  # (b, h, t, s)
        scores = curves.gather(3, index).masked_fill(~near, 0)
        return scores.to(q.dtype)  # (b, h, t, s)

    def curves(self, q: Tensor, states=None) -> Tensor:
        """Return what each query adds to a key at each distance, (b, h, t, e), in float32 or 64."""
        x = q.to(torch.promote_types(q.dtype, torch.float32))
        if states is None:
            states = torch.einsum("bhtd,hrd->bhtr", x, self.weight.to(x))
        return torch.einsum("bhtr,re->bhte", states.to(x), self.bank.to(x))  # (b, h, t, e)

    def score_mod(self, q: Tensor, k: Tensor, positions=None, key_positions=None, states=None):
        """Return modify(score, b, h, t, s), which adds the same scores in FlexAttention."""
        m, n = _places(q, k, positions, key_positions)
        curves = self.curves(q, states)

        def _modify(score, b, h, t, s):
            distance = m[b, 0, t, 0] - n[b, 0, 0, s]
            inside, near = self._inside(distance)
            return torch.where(near, score + curves[b, h, t, inside], score)

        return _modify

    def _inside(self, distance):
        """Return each distance held within the bank, and whether it was there."""
        inside = distance.clamp(0, self.bank.shape[1] - 1)
        return inside, inside == distance


def _places(q, k, positions, key_positions):
    b, _, t, d = q.shape
    s = k.shape[2]
    if k.shape[3] != d or not q.is_floating_point():
        got = f"{q.dtype} of width {d} and {k.shape[3]}"
        raise ValueError(f"profiles: q and k must be floats of one width, got {got}")
    if positions is key_positions is None and t > s:
        got = "None; or transpose(1, 2) if tokens come before heads"
        raise ValueError(f"profiles: positions must be given for {t} queries, {s} keys, got {got}")
    if key_positions is None:
        key_positions = torch.arange(s, device=q.device)
        if positions is not None and t == s:
            key_positions = positions
    if positions is None:
        positions = key_positions[..., s - t :]
    for given, length in ((positions, t), (key_positions, s)):
        got = f"{given.dtype} {tuple(given.shape)}"
        if given.is_floating_point() or given.shape[-1:] != (length,):
            raise ValueError(f"profiles: positions must be {length} integers, got {got}")
    m = positions.long().expand(b, t).reshape(b, 1, t, 1)
    n = key_positions.long().expand(b, s).reshape(b, 1, 1, s)
    return m.contiguous(), n.contiguous()  # (b, 1, t, 1), (b, 1, 1, s)  kernels read no strides
