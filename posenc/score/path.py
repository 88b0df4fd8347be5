"""PaTH: on its way to the query, let each key be reflected by every token that it passes.

Paper: Yang et al., 2025, "PaTH Attention: Position Encoding via Accumulating Householder
       Transformations", https://arxiv.org/abs/2505.16381, sec. 2-3.
Used:  research models; flash-linear-attention has the kernels
Cost:  d^2 + d + 1 numbers to learn; a call solves s equations a head, in float64: no kernel

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim

    H_l           = I - beta_l w_l w_l^T,  |w_l| = 1,  0 <= beta_l <= 2
    s(q, k, m, n) = (q_m^T H_z .. H_a k_n - q_m . k_n) / sqrt(d)   for a query at m, a key at n

where a .. z are the tokens with n < position <= m, in order. A token with beta 0 changes nothing,
one with beta 2 mirrors. Two mirrors make a rotation: if tokens take two of them by turns, every
second token turns keys as RoPE does. A key ahead of the query scores 0: attention is meant to be
causal, with its own scale. Tokens that `mask` hides do not act, which counts where they lie between
tokens that are seen, as in packed documents whose positions restart; not in padding.

There is no loop: what each token takes from the query on its way back, X, solves the triangular
system X (I + tril(beta W W^T, -1)) = Q W^T, and the score is -X beta W K^T / sqrt(d). There is no
score_mod: FlexAttention shows one pair at a time, and a product runs over all tokens between.
"""

import numpy as np
import torch
from torch import Tensor, nn


def path(
    q, k, positions, key_positions, weight=None, gate=None, bias=None, w=None, beta=None, mask=None
):
    """Return the float64 scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d)."""
    q = np.asarray(q, np.float64)
    k = np.asarray(k, np.float64)
    m = np.reshape(positions, (q.shape[1], 1))
    n = np.reshape(key_positions, k.shape[1])
    if w is None:
        w = k @ np.asarray(weight).T
    if beta is None:
        logits = k @ np.asarray(gate) + np.asarray(bias)
        beta = 2 / (1 + np.exp(-logits))
    k, w, beta = (np.repeat(x, len(q) // len(x), axis=0) for x in (k, w, beta))
    w = w / np.maximum(np.linalg.norm(w, axis=2, keepdims=True), 1e-12)
    beta = beta[:, None]  # (h, 1, s)
    if mask is not None:
        beta = np.where(mask, beta, 0)  # (..., s)

    x = np.repeat(k[:, None], len(m), axis=1)  # (h, t, s, d)
    for at in np.argsort(n, kind="stable"):
        passed = (n < n[at]) & (n[at] <= m)  # (t, s)
        along = np.einsum("htsd,hd->hts", x, w[:, at])
        taken = beta[..., at, None] * along * passed  # (h, t, s)
        x -= taken[..., None] * w[:, None, None, at]
    lost = np.einsum("htd,htsd->hts", q, k[:, None] - x)
    return -lost / q.shape[2] ** 0.5  # (h, t, s)


class PaTH(nn.Module):
    """Score each key by what the tokens between it and the query make of it.

    Read from the keys are w = `weight` k and beta = 2 sigmoid(`gate` . k + `bias`). `weight`
    (dim, dim) starts normal with standard deviation 1/sqrt(dim), `gate` (dim,) and `bias` (1,) at
    zero, so that beta starts at 1. The paper reads w and beta from the tokens: pass such to each
    call, and delete the three.

    Args:
        dim: Width d of a head.

    Examples:
        >>> x, beta = torch.ones(1, 1, 3, 1), torch.tensor([[[2.0, 0.0, 2.0]]])
        >>> 1 + PaTH(1)(x, x, w=x, beta=beta)[0, 0]  # the first token mirrors, and the third
        tensor([[ 1.,  1.,  1.],
                [ 1.,  1.,  1.],
                [-1., -1.,  1.]])
    """

    def __init__(self, dim: int):
        super().__init__()
        self.weight = nn.Parameter(dim**-0.5 * torch.randn(dim, dim))
        self.gate = nn.Parameter(torch.zeros(dim))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(
        self, q: Tensor, k: Tensor, positions=None, key_positions=None, w=None, beta=None, mask=None
    ):
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are numbers, (t,) or (b, t), in any order. By default keys stand at 0 .. s-1, or
        where as many queries do, and queries where the last t keys do. `w` (b, h or g, s, d) and
        `beta` (b, h or g, s) replace what is read. `mask`, true where a query may look, is
        broadcast to (b, h, t, s); where queries differ, each solves a system of its own.
        """
        m, n = _places(q, k.shape[2], positions, key_positions)
        where = "cpu" if q.device.type == "mps" else q.device  # mps lacks float64
        x = q.to(where, torch.float64)
        y = k.to(where, torch.float64)
        w = self.directions(y) if w is None else w.to(y)
        beta = self.strengths(y) if beta is None else beta.to(y)
        h = q.shape[1]
        y, w, beta = (z.repeat_interleave(h // z.shape[1], dim=1) for z in (y, w, beta))
        beta = beta[:, :, None]  # (b, h, 1, s)
        if mask is not None:
            beta = torch.where(mask.to(where), beta, 0)  # (..., s)
        w = nn.functional.normalize(w, dim=3)
        lost = _lost(x, y, m.to(where), n.to(where), w, beta)
        return (-lost / q.shape[3] ** 0.5).to(q)  # (b, h, t, s)

    def directions(self, k: Tensor) -> Tensor:
        """Return w (b, g, s, d), of any length, as read from the keys `k` (b, g, s, d)."""
        return k @ self.weight.to(k).T  # (b, g, s, d)

    def strengths(self, k: Tensor) -> Tensor:
        """Return beta (b, g, s), from 0 to 2, as read from the keys `k` (b, g, s, d)."""
        logits = k @ self.gate.to(k) + self.bias.to(k)
        return 2 * logits.sigmoid()  # (b, g, s)


def _lost(q, k, m, n, w, beta):
    """Return what the tokens between take from each product q . k."""
    ordered, order = n.sort(stable=True)  # tokens at one position act in the order given
    w = w.gather(2, order.mT.expand(w.shape))  # (b, h, s, d)
    beta = beta.gather(3, order.expand(beta.shape))
    products = w @ w.mT  # (b, h, s, s)
    chain = beta[..., None] * products[:, :, None]  # (..., s, s)
    seen = q @ w.mT
    seen = seen * (ordered <= m)  # (b, h, t, s)
    systems = (1, -1) if beta.shape[2] == 1 else (-1, 1)  # for all queries, or for each
    seen = seen.unflatten(2, systems)
    taken = torch.linalg.solve_triangular(chain, seen, upper=False, left=False, unitriangular=True)
    taken = (taken * beta[..., None, :]).flatten(2, 3)  # (b, h, t, s)
    met = w @ k.mT * (ordered.mT > n)  # (b, h, s, s)
    return taken @ met  # (b, h, t, s)


def _places(q, s, positions, key_positions):
    t = q.shape[2]
    if not q.is_floating_point():
        raise ValueError(f"path: q must be floats (b, h, t, d), got {q.dtype}")
    if positions is key_positions is None and t > s:
        got = "None; or transpose(1, 2) if tokens come before heads"
        raise ValueError(f"path: positions must be given for {t} queries, {s} keys, got {got}")
    if key_positions is None:
        key_positions = torch.arange(s, device=q.device)
        if positions is not None and t == s:
            key_positions = positions
    if positions is None:
        positions = key_positions[..., s - t :]
    m = positions.unflatten(-1, (1, t, 1))  # (..., 1, t, 1)
    n = key_positions.unflatten(-1, (1, 1, s))  # (..., 1, 1, s)
    return m, n
