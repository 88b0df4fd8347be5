"""RePo: let a network compute each token's position from its content, and rotate by that position.

Paper: Li, Zhao & Sproat, 2025, "RePo: Language Models with Context Re-Positioning",
       https://arxiv.org/abs/2512.14391, the section on the module f_phi.
Used:  the authors' OLMo-2 1B, trained further with it from the sixth layer on
Cost:  w (2d + c) numbers to learn; a small network and d/2 angles for each token and head

Key:   b batch, h heads, g key/value heads, t queries, s keys, d dim read, e head dim, w width,
       c sets

    z = final . (silu(gate x) * (content x)),    theta_i = base^(-2i/e)
    y_i = x_i e^(i z theta_i),  where channels (i, i + e/2) are one number

so a logit depends on z_n - z_m: tokens may share a position, swap positions or keep the order of
the text. No other input gives their order but the causal mask; the paper's lower layers have RoPE.
The positions of the call are not used, and the cache may hold rotated keys.

Here the position z of each query and each key is computed from itself, by one network for all
heads. In the paper the z of both is computed from the token's hidden state, one for each head, with
w = d/8: give the hidden states as `x`, (b, 1, t, d). What is learned is unbounded, and angles are
of float64.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn


def repo(
    x: ArrayLike,
    gate: ArrayLike,
    content: ArrayLike,
    final: ArrayLike,
    base: float = 10_000.0,
) -> np.ndarray:
    """Return `x` (h, t, d) in float64, each row rotated by the position computed from it.

    Raises:
        ValueError: If d is odd or below 2, or `base` not positive and finite.
    """
    x = np.asarray(x, np.float64)
    gated = x @ np.asarray(gate).T  # (h, t, w)
    silu = gated / (1 + np.exp(-gated))
    hidden = silu * (x @ np.asarray(content).T)  # (h, t, w)
    final = np.asarray(final, np.float64)
    final = final.repeat(len(x) // len(final), axis=0)  # (h, w)
    z = np.einsum("htw,hw->ht", hidden, final)
    e = _check_width(x.shape[2])
    _check_base(base)
    theta = base ** (-np.arange(0, e, 2) / e)  # (e/2,)
    angle = z[..., None] * theta  # (h, t, e/2)
    first, second = np.split(x, 2, axis=2)
    rotated = (first + 1j * second) * np.exp(1j * angle)  # (h, t, e/2)
    return np.concatenate([rotated.real, rotated.imag], axis=2)  # (h, t, e)


class RePo(nn.Module):
    """Rotate queries and keys by positions that a small network computes from content.

    `gate` (w, d), `content` (w, d) and `final` (c, w) start normal with the paper's standard
    deviation 0.02, so that the positions of all tokens are close together at first.

    Args:
        dim: Width d of what is read: of a head, or of the hidden states where `x` is given.
        heads: Sets of `final`, c: 1 for all heads, or the key/value heads g, or a divisor of g.
        width: Width w of the network; d/8 by default, and 1 at least.
        base: Sets the frequencies; the paper has 500,000.

    Raises:
        ValueError: If `dim` is below 1, or `base` not positive and finite.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.
        ValueError: In a call, if the width e of `q` or `k` is odd.

    Examples:
        >>> q, k, x = torch.randn(1, 8, 5, 64), torch.randn(1, 2, 5, 64), torch.randn(1, 1, 5, 512)
        >>> rotated_q, rotated_k = RePo(512, heads=2)(q, k, x=x)
        >>> RePo(512, heads=2).places(x).shape
        torch.Size([1, 2, 5])
    """

    def __init__(
        self,
        dim: int,
        heads: int = 1,
        width: int | None = None,
        base: float = 10_000.0,
    ):
        super().__init__()
        if dim < 1:
            raise ValueError(f"repo: dim must be 1 or more, got {dim}")
        _check_base(base)
        self.base = base
        if width is None:
            width = max(1, dim // 8)
        self.gate = nn.Parameter(0.02 * torch.randn(width, dim))
        self.content = nn.Parameter(0.02 * torch.randn(width, dim))
        self.final = nn.Parameter(0.02 * torch.randn(heads, width))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        x: Tensor | None = None,
        key_x: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, e) and `k` (b, g, s, e), rotated by the positions computed.

        `x` (b, 1, t, d) is read in place of queries, and `key_x` (b, 1, s, d), by default the same,
        in place of keys. Positions, (t,) or (b, t), change nothing; they have the defaults of all
        rotations, so that one can replace another.
        """
        t, s = q.shape[2], k.shape[2]
        if positions is None and (t != s or t == 1 or key_positions is not None):
            raise ValueError(
                f"repo: positions must be given for {t} queries and {s} keys, got None; "
                "or transpose(1, 2) if tokens come before heads"
            )
        if key_positions is None:
            key_positions = positions
        _check_rows(q, positions)
        _check_rows(k, key_positions)
        x_q = q if x is None else x
        x_k = k if x is None else x
        if key_x is not None:
            x_k = key_x
        return self.turn(q, self.places(x_q)), self.turn(k, self.places(x_k))

    def places(self, x: Tensor) -> Tensor:
        """Return the positions z, (b, h, t) for `x` (b, h, t, d), (b, c, t) for (b, 1, t, d)."""
        device = "cpu" if x.device.type == "mps" else x.device  # mps lacks float64
        x = x.to(device, torch.float64)
        gated = F.silu(x @ self.gate.to(x).T)
        hidden = gated * (x @ self.content.to(x).T)  # (b, h, t, w)
        heads_a_set = max(1, x.shape[1] // len(self.final))
        final = self.final.to(x).repeat_interleave(heads_a_set, dim=0)
        return (hidden * final[:, None]).sum(-1)

    def turn(self, x: Tensor, places: Tensor) -> Tensor:
        """Return `x` (b, h, t, e) rotated by `places` (b, h, t), of all heads or of groups."""
        if not x.is_floating_point():
            raise ValueError(f"repo: q and k must be floating point, got {x.dtype}")
        e = _check_width(x.shape[-1])
        pair = torch.arange(0, e, 2, dtype=torch.float64, device=places.device)
        theta = self.base ** (-pair / e)  # (e/2,)
        heads_a_place = max(1, x.shape[1] // places.shape[1])
        places = places.repeat_interleave(heads_a_place, dim=1)
        angle = places[..., None] * theta  # (b, h, t, e/2)
        # products in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        cos = angle.cos().to(wide)
        sin = angle.sin().to(wide)
        first, second = wide.chunk(2, dim=-1)
        rotated = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
        return rotated.to(x.dtype)  # (b, h, t, e)


def _check_rows(x: Tensor, positions: Tensor | None) -> None:
    if positions is None:
        return
    b, _, t, _ = x.shape
    shape = tuple(positions.shape)
    if shape != (t,) and shape != (1, t) and shape != (b, t):
        raise ValueError(
            f"repo: positions or key_positions must have shape ({t},) or ({b}, {t}), got {shape}"
        )


def _check_width(width: int) -> int:
    if width % 2 or width < 2:
        raise ValueError(f"repo: dim of q and k must be even and at least 2, got {width}")
    return width


def _check_base(base: float) -> None:
    if not 0 < base < float("inf"):
        raise ValueError(f"repo: base must be positive and finite, got {base}")
