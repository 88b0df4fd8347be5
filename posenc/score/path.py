"""PaTH: transform each key by a Householder matrix of every token after it, up to the query.

Paper: Yang et al., 2025, "PaTH Attention: Position Encoding via Accumulating Householder
       Transformations", https://arxiv.org/abs/2505.16381, sec. 2-3.
Used:  research models; flash-linear-attention has the kernels
Cost:  d^2 + d + 1 numbers to learn; a call solves s equations a head, in float64: no kernel

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim

    H_l           = I - beta_l w_l w_l^T,  |w_l| = 1,  0 <= beta_l <= 2
    s(q, k, m, n) = (q_m^T H_z .. H_a k_n - q_m . k_n) / sqrt(d)   for a query at m, a key at n

where a .. z are the tokens with n < position <= m, in order. A token with beta 0 changes nothing,
one with beta 2 reflects. Two reflections make a rotation: if tokens alternate between two of them,
every second token rotates keys as RoPE does. Nothing is added for a key ahead of the query:
attention is meant to be causal, with its own scale. Tokens that `mask` hides do not act, which
counts where they lie between tokens that are visible, as in packed documents whose positions
restart; not in padding.

There is no loop: X, what each token between takes from the query, solves the triangular system X (I
+ tril(beta W W^T, -1)) = Q W^T, and what is added is -X beta W K^T / sqrt(d). There is no
score_mod: FlexAttention shows one pair at a time, and a product runs over all tokens between.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def path(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    weight: ArrayLike | None = None,
    gate: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    w: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> np.ndarray:
    """Return, in float64, what is added to the logits (h, t, s) of `q` (h, t, d) and `k` (g, s, d).

    Raises:
        ValueError: If positions are not (t,) and (s,).
    """
    q, k = np.asarray(q, np.float64), np.asarray(k, np.float64)
    m = np.reshape(positions, (q.shape[1], 1))
    n = np.reshape(key_positions, k.shape[1])
    if w is None:
        w = k @ np.asarray(weight, np.float64).T
    if beta is None:
        logits = k @ np.asarray(gate, np.float64) + np.asarray(bias, np.float64)
        beta = 2 / (1 + np.exp(-logits))
    # the reflections of a key/value head serve all its query heads
    k, w, beta = (_for_heads(x, len(q)) for x in (k, w, beta))
    unit = w / np.maximum(np.linalg.norm(w, axis=2, keepdims=True), 1e-12)
    # an axis for queries, since a mask may hide other tokens from each
    beta = beta[:, None]  # (h, 1, s)
    if mask is not None:
        beta = np.where(mask, beta, 0)  # (..., s)

    # the key of each pair, on its way to the query
    x = np.repeat(k[:, None], len(m), axis=1)  # (h, t, s, d)
    for token in np.argsort(n, kind="stable"):
        passed = (n < n[token]) & (n[token] <= m)  # (t, s)
        along = np.einsum("htsd,hd->hts", x, unit[:, token])
        removed = np.where(passed, beta[..., token, None] * along, 0)  # (h, t, s)
        x -= removed[..., None] * unit[:, None, None, token]
    lost = np.einsum("htd,htsd->hts", q, k[:, None] - x)
    return -lost / q.shape[2] ** 0.5  # (h, t, s)


def _for_heads(x: ArrayLike, heads: int) -> np.ndarray:
    """Return `x` (g, ...) repeated for query heads (h, ...)."""
    x = np.asarray(x, np.float64)
    return np.repeat(x, heads // len(x), axis=0)


class PaTH(nn.Module):
    """Add what the Householder matrices of the tokens between change of each product q . k.

    Computed from the keys are w = `weight` k and beta = 2 sigmoid(`gate` . k + `bias`). `weight`
    (dim, dim) starts normal with standard deviation 1/sqrt(dim), `gate` (dim,) and `bias` (1,) at
    zero, so that beta starts at 1. The paper computes w and beta from the tokens: pass such to each
    call, and delete the three.

    Args:
        dim: Width d of a head.

    Raises:
        ValueError: In a call, if omitted positions have no default.
        ValueError: In a call, if `q` is not floating point.

    Examples:
        >>> x, beta = torch.ones(1, 1, 3, 1), torch.tensor([[[2.0, 0.0, 2.0]]])
        >>> 1 + PaTH(1)(x, x, w=x, beta=beta)[0, 0]  # the first token reflects, and the third
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
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        w: Tensor | None = None,
        beta: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return what is added to the logits (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are numbers, (t,) or (b, t), in any order. With t = s > 1, `positions` default to
        0 .. t-1; with t = s, `key_positions` default to `positions`. `w` (b, h or g, s, d) and
        `beta` (b, h or g, s) replace what is computed. `mask`, true where a key is visible, is
        broadcast to (b, h, t, s); where queries differ, each solves a system of its own.
        """
        if not q.is_floating_point():
            raise ValueError(f"path: q must be floating point, got {q.dtype}")
        m, n = _positions(q, k.shape[2], positions, key_positions)
        # a chain of reflections is exact in float64 alone
        device = "cpu" if q.device.type == "mps" else q.device  # mps lacks float64
        wide_q = q.to(device, torch.float64)
        wide_k = k.to(wide_q)
        w = self.directions(wide_k) if w is None else w.to(wide_k)
        beta = self.strengths(wide_k) if beta is None else beta.to(wide_k)
        # the reflections of a key/value head serve all its query heads
        h = q.shape[1]
        wide_k, w, beta = (x.repeat_interleave(h // x.shape[1], dim=1) for x in (wide_k, w, beta))
        w = nn.functional.normalize(w, dim=3)
        # an axis for queries, since a mask may hide other tokens from each
        beta = beta[:, :, None]  # (b, h, 1, s)
        if mask is not None:
            beta = torch.where(mask.to(device), beta, 0)  # (..., s)
        lost = _lost(wide_q, wide_k, m.to(device), n.to(device), w, beta)
        return (-lost / q.shape[3] ** 0.5).to(q)  # (b, h, t, s)

    def directions(self, k: Tensor) -> Tensor:
        """Return w (b, g, s, d), of any norm, as computed from the keys `k` (b, g, s, d)."""
        return k @ self.weight.to(k).T  # (b, g, s, d)

    def strengths(self, k: Tensor) -> Tensor:
        """Return beta (b, g, s), from 0 to 2, as computed from the keys `k` (b, g, s, d)."""
        logits = k @ self.gate.to(k) + self.bias.to(k)
        return 2 * logits.sigmoid()  # (b, g, s)


def _lost(q: Tensor, k: Tensor, m: Tensor, n: Tensor, w: Tensor, beta: Tensor) -> Tensor:
    """Return X beta W K^T: what the tokens between take from each product q . k."""
    # tokens act in the order of their positions, at one position in that of their rows
    ordered, order = n.sort(stable=True)
    w = w.gather(2, order.mT.expand(w.shape))  # (b, h, s, d)
    beta = beta.gather(3, order.expand(beta.shape))  # (..., s)
    products = w @ w.mT  # (b, h, s, s)
    chain = beta[..., None] * products[:, :, None]  # (..., s, s)
    # tokens ahead of the query do not act
    along = torch.where(ordered <= m, q @ w.mT, 0)  # (b, h, t, s)
    # one system serves all queries, unless their masks differ
    axis = 2 if beta.shape[2] == 1 else 3
    along = along.unsqueeze(axis)
    # it reads the part below the diagonal alone, and takes 1 for what is on it
    x = torch.linalg.solve_triangular(chain, along, upper=False, left=False, unitriangular=True)
    x = (x * beta[..., None, :]).squeeze(axis)  # (b, h, t, s)
    # nor do tokens at or before the key
    passed = torch.where(ordered.mT > n, w @ k.mT, 0)  # (b, h, s, s)
    return x @ passed  # (b, h, t, s)


def _positions(
    q: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the positions of the queries (b, h, t, d) and of `s` keys, to compare."""
    t = q.shape[2]
    if positions is None:
        # a lone token is a new one behind a cache, and its position is not 0
        if t != s or t == 1 or key_positions is not None:
            raise ValueError(
                f"path: positions must be given for {t} queries and {s} keys, got None; "
                "or transpose(1, 2) if tokens come before heads"
            )
        positions = torch.arange(t, device=q.device)
    if key_positions is None:
        if t != s:
            raise ValueError(
                f"path: key_positions must be given for {t} queries and {s} keys, got None"
            )
        key_positions = positions
    m = positions.unflatten(-1, (1, t, 1))  # (..., 1, t, 1)
    n = key_positions.unflatten(-1, (1, 1, s))  # (..., 1, 1, s)
    return m, n
