"""RePo: let what a token holds say where it stands, and turn queries and keys to that place.

Paper: Li, Zhao & Sproat, 2025, "RePo: Language Models with Context Re-Positioning",
       https://arxiv.org/abs/2512.14391, the section on the module f_phi.
Used:  the authors' OLMo-2 1B, trained further with it from the sixth layer on
Cost:  w (2d + c) numbers to learn; a small network and d/2 angles for each token and head

Key:   b batch, h heads, g key heads, t queries, s keys, d dim read, e head dim, w width, c sets

    z = final . (silu(gate x) * (content x)),    theta_i = base^(-2i/e)
    y_i = x_i e^(i z theta_i),  where channels (i, i + e/2) are one number

so a score depends on z_n - z_m: tokens may share a place, swap places or keep the order of the
text. Nothing else tells their order but the causal mask; the paper's lower layers have RoPE. The
positions of the call are not used, and the cache may hold turned keys.

Here each query and each key reads its own place, by one network for all heads. In the paper both of
a token stand where its hidden state says, with a place for each head and w = d/8: give the hidden
states as `x`, (b, 1, t, d). What is learned is unbounded, and angles are of float64.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def repo(x, gate, content, final, base=1e4) -> np.ndarray:
    """Return `x` (h, t, d) in float64, each row turned to the place that it reads from itself."""
    x = np.asarray(x, np.float64)
    gated = x @ np.asarray(gate).T  # (h, t, w)
    hidden = gated / (1 + np.exp(-gated)) * (x @ np.asarray(content).T)  # (h, t, w)
    final = np.repeat(final, len(x) // len(final), axis=0)  # (h, w)
    place = np.einsum("htw,hw->ht", hidden, final)
    e = _even(x.shape[2])
    theta = _positive(base) ** (-np.arange(0, e, 2) / e)  # (e/2,)
    angle = place[..., None] * theta  # (h, t, e/2)
    first, second = np.split(x, 2, axis=2)
    turned = (first + 1j * second) * np.exp(1j * angle)  # (h, t, e/2)
    return np.concatenate([turned.real, turned.imag], axis=2)  # (h, t, e)


class RePo(nn.Module):
    """Turn queries and keys to places that a small network reads from content.

    `gate` (w, d), `content` (w, d) and `final` (c, w) start normal with the paper's standard
    deviation 0.02, so that all tokens stand close together at first.

    Args:
        dim: Width d of what is read: of a head, or of the hidden states where `x` is given.
        heads: Sets of `final`, c: 1 for all heads, or the key heads g, or a divisor of g.
        width: Width w of the network; d/8 by default, and 1 at least.
        base: Sets the frequencies; the paper has 500,000.

    Examples:
        >>> q, k, x = torch.randn(1, 8, 5, 64), torch.randn(1, 2, 5, 64), torch.randn(1, 1, 5, 512)
        >>> turned_q, turned_k = RePo(512, heads=2)(q, k, x=x)
        >>> RePo(512, heads=2).places(x).shape
        torch.Size([1, 2, 5])
    """

    def __init__(self, dim: int, heads: int = 1, width: int | None = None, base: float = 1e4):
        super().__init__()
        if dim < 1:
            raise ValueError(f"repo: dim must be 1 or more, got {dim}")
        self.base = _positive(base)
        width = max(1, dim // 8) if width is None else width
        self.gate = nn.Parameter(0.02 * torch.randn(width, dim))
        self.content = nn.Parameter(0.02 * torch.randn(width, dim))
        self.final = nn.Parameter(0.02 * torch.randn(heads, width))

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, x=None, key_x=None):
        """Return `q` (b, h, t, e) and `k` (b, g, s, e), turned to the places that they read.

        `x` (b, 1, t, d) is read in place of queries, and `key_x` (b, 1, s, d), by default the same,
        in place of keys. Positions, (t,) or (b, t), change nothing.
        """
        b, _, t, _ = q.shape
        s = k.shape[2]
        if positions is key_positions is x is None and (t > s or s == 1):
            got = "None; or transpose(1, 2) if tokens come before heads"
            raise ValueError(f"repo: positions must be given for {t} queries, {s} keys, got {got}")
        for given, length in ((positions, t), (key_positions, s)):
            if given is not None and tuple(given.shape) not in (
                (length,),
                (1, length),
                (b, length),
            ):
                got = tuple(given.shape)
                raise ValueError(f"repo: positions must be {length} a row, got {got}")
        of_q = q if x is None else x
        of_k = k if x is None else x
        of_k = of_k if key_x is None else key_x
        return self.turn(q, self.places(of_q)), self.turn(k, self.places(of_k))

    def places(self, x: Tensor) -> Tensor:
        """Return where tokens stand, (b, h, t) for `x` (b, h, t, d), (b, c, t) for (b, 1, t, d)."""
        where = "cpu" if x.device.type == "mps" else x.device  # mps lacks float64
        x = x.to(where, torch.float64)
        gated = F.silu(x @ self.gate.to(x).T)
        hidden = gated * (x @ self.content.to(x).T)  # (b, h, t, w)
        each = max(1, x.shape[1] // len(self.final))
        final = self.final.to(x).repeat_interleave(each, dim=0)
        return (hidden * final[:, None]).sum(-1)

    def turn(self, x: Tensor, places: Tensor) -> Tensor:
        """Return `x` (b, h, t, e) turned to `places` (b, h, t), of all heads or of groups."""
        if not x.is_floating_point():
            raise ValueError(f"repo: q and k must be floats (b, h, t, e), got {x.dtype}")
        e = _even(x.shape[-1])
        pair = torch.arange(0, e, 2, dtype=torch.float64, device=places.device)
        theta = self.base ** (-pair / e)  # (e/2,)
        each = max(1, x.shape[1] // places.shape[1])
        places = places.repeat_interleave(each, dim=1)
        angle = places[..., None] * theta  # (b, h, t, e/2)
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        cos = angle.cos().to(y)
        sin = angle.sin().to(y)
        first, second = y.chunk(2, dim=-1)
        turned_first = first * cos - second * sin
        turned_second = second * cos + first * sin
        turned = torch.cat([turned_first, turned_second], dim=-1)
        return turned.to(x.dtype)  # (b, h, t, e)


def _even(width):
    if width % 2 or width < 2:
        raise ValueError(f"repo: dim of q and k must be even and at least 2, got {width}")
    return width


def _positive(base):
    if not 0 < base < float("inf"):
        raise ValueError(f"repo: base must be positive and finite, got {base}")
    return base
