"""Selective: turn each pair of channels by the sum of what all tokens so far have told it to turn.

Paper: Movahedi et al., 2026, "Selective Rotary Position Embedding",
       https://arxiv.org/abs/2511.17388, the section that defines Selective RoPE.
Used:  the authors' linear and softmax models; Mamba-3 turns its B and C so (arXiv:2603.15569)
Cost:  (d + 1) d/2 numbers to learn, or none where the caller computes phases; f sums a key head

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, f pairs d/2

    phase(l)_i = theta_i (weight_i . k_l + bias_i),  theta_i = base^(-2i/d),  or the `phases` given
    A(x)_i     = sum of phase(l)_i over the tokens l at positions <= x
    y_i        = x_i e^(i A_i)  for a query or key x, where channels (i, i + d/2) are one number

so a score sees A(n) - A(m), the tokens between its two, and no place. With one phase for all this
is RoPE, and so it starts, at weight 0 and bias 1. A token of phase 0 has no length.

The paper reads phases from the tokens x, not from the keys: normed, through a thin matrix and a
convolution over four tokens. Mamba-3 has pi tanh(w_i . x) dt, for a step dt > 0 of each token and
head, and lets half of its pairs rest, (2i, 2i + 1) in one of two kernels. Pass such as `phases`, in
radians. Positions order tokens and do no more: packed documents, where they restart, need none.
"""

import numpy as np
import torch
from torch import Tensor, nn


def selective(q, k, positions, key_positions, weight=None, bias=None, base=1e4, phases=None):
    """Return the float64 scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d), not yet scaled."""
    q = np.asarray(q, np.float64)
    k = np.asarray(k, np.float64)
    m = np.reshape(positions, (q.shape[1], 1))
    n = np.reshape(key_positions, k.shape[1])
    theta = _theta(k.shape[2], base)
    if phases is None:
        phases = theta * (k @ np.asarray(weight).T + np.asarray(bias))  # (g, s, f)
    at_q = (n <= m) @ phases  # (g, t, f)
    at_k = (n <= n[:, None]) @ phases  # (g, s, f)
    each = len(q) // len(k)
    f = len(theta)
    q = q[..., :f] + 1j * q[..., f:]
    k = k[..., :f] + 1j * k[..., f:]
    q = q * np.exp(1j * np.repeat(at_q, each, axis=0))  # (h, t, f)
    k = np.repeat(k * np.exp(1j * at_k), each, axis=0)  # (h, s, f)
    return np.einsum("htf,hsf->hts", q.conj(), k).real  # (h, t, s)


class Selective(nn.Module):
    """Turn queries and keys by sums of phases, which each key head reads from its keys.

    `weight` (f, d) starts at 0, `bias` (f,) at 1. Where each call is given `phases`, delete both.

    Args:
        dim: Width d of a head.
        base: Sets theta, the phases of a token at the start; the paper has 500,000.

    Examples:
        >>> x, quarter = torch.ones(1, 1, 3, 2), torch.pi / 2
        >>> _, k = Selective(2)(x, x, phases=torch.tensor([0.0, 0.0, quarter])[None, None, :, None])
        >>> k[0, 0].round()  # the third token turns by a quarter, and the others not at all
        tensor([[ 1.,  1.],
                [ 1.,  1.],
                [-1.,  1.]])
    """

    def __init__(self, dim: int, base: float = 1e4):
        super().__init__()
        self.theta = tuple(_theta(dim, base).tolist())
        self.weight = nn.Parameter(torch.zeros(dim // 2, dim))
        self.bias = nn.Parameter(torch.ones(dim // 2))

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, phases=None):
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned; positions are (t,) or (b, t).

        By default keys stand at 0 .. s-1, or where as many queries do, and queries where the last
        t keys do. `phases` (b, g, s, f) or (b, 1, s, f) replace those read. To cache turned keys,
        `turn` each new one by the sum of all phases so far, its own included.
        """
        m, n = _places(q, k, positions, key_positions)
        if phases is None:
            phases = self.phases(k.to(n))
        phases = phases.to(n)
        ordered, order = n.sort()
        order = order[:, None, :, None]
        sums = phases.gather(2, order.expand(phases.shape)).cumsum(2)
        sums = nn.functional.pad(sums, (0, 0, 1, 0))  # of no token, of the first, of the first two
        return self.turn(q, _at(ordered, m, sums)), self.turn(k, _at(ordered, n, sums))

    def phases(self, k: Tensor) -> Tensor:
        """Return the phases (b, g, s, f) as read from the keys `k` (b, g, s, d)."""
        theta = torch.tensor(self.theta, dtype=k.dtype, device=k.device)  # (f,)
        read = k @ self.weight.to(k).T + self.bias.to(k)
        return theta * read  # (b, g, s, f)

    def turn(self, x: Tensor, angle: Tensor) -> Tensor:
        """Return `x` (b, h, t, d) turned by `angle` (b, g, t, f), of one key head or of each."""
        each = x.shape[1] // angle.shape[1]
        angle = angle.repeat_interleave(each, dim=1)  # (b, h, t, f)
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        cos = angle.cos().to(y)
        sin = angle.sin().to(y)
        first, second = y.chunk(2, dim=-1)
        turned_first = first * cos - second * sin
        turned_second = second * cos + first * sin
        turned = torch.cat([turned_first, turned_second], dim=-1)
        return turned.to(x.dtype)  # (b, h, t, d)


def _at(ordered, positions, sums):
    upto = torch.searchsorted(ordered, positions, right=True)
    upto = upto[:, None, :, None]
    b, g, _, f = sums.shape
    return sums.gather(2, upto.expand(b, g, -1, f))


def _places(q, k, positions, key_positions):
    b, _, t, d = q.shape
    s = k.shape[2]
    if k.shape[3] != d or not q.is_floating_point():
        got = f"{q.dtype} of width {d} and {k.shape[3]}"
        raise ValueError(f"selective: q and k must be floats of one width, got {got}")
    if positions is key_positions is None and (t > s or s == 1):
        got = "None; or transpose(1, 2) if tokens come before heads"
        raise ValueError(f"selective: positions must be given for {t} queries, {s} keys, got {got}")
    if key_positions is None:
        key_positions = torch.arange(s, device=k.device)
        if positions is not None and t == s:
            key_positions = positions
    if positions is None:
        positions = key_positions[..., s - t :]
    for given, length in ((positions, t), (key_positions, s)):
        if given.shape[-1] != length:
            got = tuple(given.shape)
            raise ValueError(f"selective: positions must be {length} a row, got {got}")
    where = "cpu" if q.device.type == "mps" else q.device  # mps lacks float64
    m = positions.to(where, torch.float64).expand(b, t)
    n = key_positions.to(where, torch.float64).expand(b, s)
    return m.contiguous(), n.contiguous()  # (b, t), (b, s)


def _theta(dim, base):
    if dim % 2 or dim < 2:
        raise ValueError(f"selective: dim must be even and at least 2, got {dim}")
    if not 0 < base < float("inf"):
        raise ValueError(f"selective: base must be positive and finite, got {base}")
    return base ** (-np.arange(0, dim, 2) / dim)  # (f,)
