"""Selective: rotate each pair of channels by the sum of angles computed from all tokens so far.

Paper: Movahedi et al., 2026, "Selective Rotary Position Embedding",
       https://arxiv.org/abs/2511.17388, the section that defines Selective RoPE.
Used:  the authors' linear and softmax models; Mamba-3 rotates its B and C so (arXiv:2603.15569)
Cost:  (d + 1) d/2 numbers to learn, or none where the caller computes phases; f sums for each
       key/value head

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, f pairs d/2

    phase(l)_i = theta_i (weight_i . k_l + bias_i),  theta_i = base^(-2i/d),  or the `phases` given
    A(x)_i     = sum of phase(l)_i over the tokens l at positions <= x
    y_i        = x_i e^(i A_i)  for a query or key x, where channels (i, i + d/2) are one number

so a logit depends on A(n) - A(m), the sum over the tokens between its two, and on no position. With
one phase for all this is RoPE, and so it starts, at weight 0 and bias 1. A token of phase 0 adds no
distance.

The paper computes phases from the tokens x, not from the keys: normed, through a thin matrix and a
convolution over four tokens. Mamba-3 has pi tanh(w_i . x) dt, for a step dt > 0 of each token and
head, and leaves half of its pairs unrotated, (2i, 2i + 1) in one of two kernels. Pass such as
`phases`, in radians. Positions order tokens and do no more: packed documents, where they restart,
need none.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def selective(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    base: float = 10_000.0,
    phases: ArrayLike | None = None,
) -> np.ndarray:
    """Return the float64 logits (h, t, s) of `q` (h, t, d) and `k` (g, s, d), not yet scaled.

    Raises:
        ValueError: If d is odd or below 2, or `base` not positive and finite.
    """
    q = np.asarray(q, np.float64)
    k = np.asarray(k, np.float64)
    m = np.reshape(positions, (q.shape[1], 1))
    n = np.reshape(key_positions, k.shape[1])
    theta = _frequencies(k.shape[2], base)
    if phases is None:
        phases = theta * (k @ np.asarray(weight).T + np.asarray(bias))  # (g, s, f)
    phases = np.asarray(phases, np.float64)
    at_q = (n <= m) @ phases  # (g, t, f)
    at_k = (n <= n[:, None]) @ phases  # (g, s, f)
    heads_a_key = len(q) // len(k)
    f = len(theta)
    q = q[..., :f] + 1j * q[..., f:]
    k = k[..., :f] + 1j * k[..., f:]
    q = q * np.exp(1j * np.repeat(at_q, heads_a_key, axis=0))  # (h, t, f)
    k = np.repeat(k * np.exp(1j * at_k), heads_a_key, axis=0)  # (h, s, f)
    return np.einsum("htf,hsf->hts", q.conj(), k).real  # (h, t, s)


class Selective(nn.Module):
    """Rotate queries and keys by sums of phases, computed from the keys of each key/value head.

    `weight` (f, d) starts at 0, `bias` (f,) at 1. Where each call is given `phases`, delete both.

    Args:
        dim: Width d of a head.
        base: Sets theta, the phases of a token at the start; the paper has 500,000.

    Raises:
        ValueError: If `dim` is odd or below 2, or `base` not positive and finite.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> x, quarter = torch.ones(1, 1, 3, 2), torch.pi / 2
        >>> _, k = Selective(2)(x, x, phases=torch.tensor([0.0, 0.0, quarter])[None, None, :, None])
        >>> k[0, 0].round()  # the third token rotates by pi/2, the others not at all
        tensor([[ 1.,  1.],
                [ 1.,  1.],
                [-1.,  1.]])
    """

    def __init__(self, dim: int, base: float = 10_000.0):
        super().__init__()
        # a tuple, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = tuple(_frequencies(dim, base).tolist())
        self.weight = nn.Parameter(torch.zeros(dim // 2, dim))
        self.bias = nn.Parameter(torch.ones(dim // 2))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        phases: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), rotated; positions are (t,) or (b, t).

        With t = s > 1, `positions` default to 0 .. t-1; with t = s, `key_positions` default to
        `positions`. `phases` (b, g, s, f) or (b, 1, s, f) replace those computed. To cache rotated
        keys, `turn` each new one by the sum of all phases so far, its own included.
        """
        m, n = self._positions(q, k, positions, key_positions)  # (b, t), (b, s)
        if phases is None:
            phases = self.phases(k.to(n))
        phases = phases.to(n)
        # tokens act in the order of their positions, whatever their order in the call
        ordered, order = n.sort()
        order = order[:, None, :, None]
        sums = phases.gather(2, order.expand(phases.shape)).cumsum(2)
        # of no token, of the first, of the first two ..
        sums = nn.functional.pad(sums, (0, 0, 1, 0))
        angle_q = _sums_up_to(m, ordered, sums)  # (b, g, t, f)
        angle_k = _sums_up_to(n, ordered, sums)  # (b, g, s, f)
        return self.turn(q, angle_q), self.turn(k, angle_k)

    def phases(self, k: Tensor) -> Tensor:
        """Return the phases (b, g, s, f) as computed from the keys `k` (b, g, s, d)."""
        theta = torch.tensor(self.theta, dtype=k.dtype, device=k.device)  # (f,)
        read = k @ self.weight.to(k).T + self.bias.to(k)
        return theta * read  # (b, g, s, f)

    def turn(self, x: Tensor, angle: Tensor) -> Tensor:
        """Return `x` (b, h, t, d) rotated by `angle` (b, g, t, f), of all heads (b, 1, t, f)."""
        heads_a_key = x.shape[1] // angle.shape[1]
        angle = angle.repeat_interleave(heads_a_key, dim=1)  # (b, h, t, f)
        # products in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        cos = angle.cos().to(wide)
        sin = angle.sin().to(wide)
        first, second = wide.chunk(2, dim=-1)
        rotated = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
        return rotated.to(x.dtype)  # (b, h, t, d)

    def _positions(
        self, q: Tensor, k: Tensor, positions: Tensor | None, key_positions: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the positions of queries (b, t) and keys (b, s), in float64."""
        b, _, t, d = q.shape
        s = k.shape[2]
        if k.shape[3] != d or not q.is_floating_point():
            got = f"{q.dtype} of width {d} and {k.shape[3]}"
            raise ValueError(f"selective: q and k must be floats of one width, got {got}")
        if positions is None:
            # a lone token is a new one behind a cache, and its position is not 0
            if t != s or t == 1 or key_positions is not None:
                raise ValueError(
                    f"selective: positions must be given for {t} queries and {s} keys, got None; "
                    "or transpose(1, 2) if tokens come before heads"
                )
            positions = torch.arange(t, device=q.device)
        if key_positions is None:
            key_positions = positions
        m = _in_float64(positions, b, t, q.device)
        n = _in_float64(key_positions, b, s, q.device)
        return m, n


def _in_float64(positions: Tensor, batch: int, length: int, device: torch.device) -> Tensor:
    """Return positions (t,), (1, t) or (b, t) as (b, t)."""
    # one position would broadcast over all tokens without an error
    if positions.shape[-1] != length:
        got = tuple(positions.shape)
        raise ValueError(
            f"selective: positions must have shape ({length},) or ({batch}, {length}), got {got}"
        )
    place = "cpu" if device.type == "mps" else device  # mps lacks float64
    return positions.to(place, torch.float64).expand(batch, length).contiguous()


def _sums_up_to(positions: Tensor, ordered: Tensor, sums: Tensor) -> Tensor:
    """Return the sums (b, g, t, f) of the phases of all tokens up to each position (b, t)."""
    count = torch.searchsorted(ordered, positions, right=True)
    count = count[:, None, :, None]
    b, g, _, f = sums.shape
    return sums.gather(2, count.expand(b, g, -1, f))


def _frequencies(dim: int, base: float) -> np.ndarray:
    """Return theta (f,), in radians a position, highest first."""
    if dim % 2 or dim < 2:
        raise ValueError(f"selective: dim must be even and at least 2, got {dim}")
    if not 0 < base < float("inf"):
        raise ValueError(f"selective: base must be positive and finite, got {base}")
    return base ** (-np.arange(0, dim, 2) / dim)  # (f,)
