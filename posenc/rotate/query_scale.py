"""QueryScale: multiply queries by a factor that grows with position, so that softmax stays sharp.

Paper: Nakanishi, 2025, "Scalable-Softmax Is Superior for Attention",
       https://arxiv.org/abs/2501.19399, sec. 2; the others are of released code.
Used:  Llama 4 where it has no RoPE, Ministral 3, Mistral 4, Inkling, Qwen, Mistral Large 4, Beam
Cost:  one product of the queries; nothing to learn, but for "head" two numbers a head

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim

    q_m = c(m) q_m,   k_n = k_n,   n = m + 1 the tokens that the query sees, L `original_length`
    c = 1 + strength ln(1 + floor(n / L))         llama4
        1 + strength ln(1 + floor((n - 1) / L))   ministral: Ministral 3 and Mistral 4
        1 + strength ln(max(1, n / L))            inkling, which scales its position bias too
        max(1, ln(n) / ln(L))                     logn: Qwen 1, beyond the trained length
        (1 + n / L)^strength                      power: Beam
        scale_h ln(n) + bias_h                    head: Mistral Large 4; without bias SSMax

Scale before RoPE or after it: the two commute. Positions before 0, as of padding, count as 0.
"""

import math

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

KINDS = ("llama4", "ministral", "inkling", "logn", "power", "head")


def position_scale(
    positions: ArrayLike,
    kind: str = "llama4",
    original_length: float = 8192,
    strength: float = 0.1,
    scale: ArrayLike = 0.0,
    bias: ArrayLike = 1.0,
) -> np.ndarray:
    """Return what a query at each of `positions` (..., t) is multiplied by, (..., t) or (h, t).

    Examples:
        >>> position_scale([0, 8191, 100_000]).round(3).tolist()  # Llama 4
        [1.0, 1.069, 1.256]
    """
    _check(kind, original_length)
    n = np.maximum(np.asarray(positions, np.float64) + 1, 1)  # (..., t)
    if kind == "llama4":
        return 1 + strength * np.log1p(n // original_length)
    if kind == "ministral":
        return 1 + strength * np.log1p((n - 1) // original_length)
    if kind == "inkling":
        return 1 + strength * np.log(np.maximum(n / original_length, 1))
    if kind == "logn":
        return np.maximum(np.log(n) / np.log(original_length), 1)
    if kind == "power":
        return (1 + n / original_length) ** strength
    return np.multiply.outer(scale, np.log(n)) + np.multiply.outer(bias, n**0)


def query_scale(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike | None = None,
    kind: str = "llama4",
    original_length: float = 8192,
    strength: float = 0.1,
    scale: ArrayLike = 0.0,
    bias: ArrayLike = 1.0,
) -> np.ndarray:
    """Return float64 logits (h, t, s) of `q` (h, t, d) and `k` (g, s, d), before 1/sqrt(d).

    Raises:
        ValueError: If `kind` is unknown, or `original_length` 1 or less.
    """
    q = np.asarray(q, np.float64)
    k = np.asarray(k, np.float64)
    c = position_scale(positions, kind, original_length, strength, scale, bias)
    keys = k.repeat(q.shape[0] // k.shape[0], axis=0)  # (h, s, d)
    return c[..., None] * q @ keys.swapaxes(-1, -2)  # (h, t, s)


class QueryScale(nn.Module):
    """Multiply queries by a factor that grows with their position; leave keys as they are.

    Args:
        kind: "llama4", "ministral", "inkling", "logn", "power" or "head".
        original_length: The trained length L, from which most formulas grow; not of "head".
        strength: How fast the factor grows; not of "logn" and "head".
        heads: How many learn a `scale`, at first 0, and a `bias`, at first 1; of "head".

    Raises:
        ValueError: If `kind` is unknown, `original_length` 1 or less, or `heads` below 1.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> longer, q = QueryScale(original_length=4), torch.ones(1, 1, 5, 1)
        >>> longer(q, q)[0].flatten()
        tensor([1.0000, 1.0000, 1.0000, 1.0693, 1.0693])
    """

    def __init__(
        self,
        kind: str = "llama4",
        original_length: float = 8192,
        strength: float = 0.1,
        heads: int = 1,
    ):
        super().__init__()
        _check(kind, original_length)
        if heads < 1:
            raise ValueError(f"query_scale: heads must be 1 or more, got {heads}")
        self.kind = kind
        self.original_length = original_length
        self.strength = strength
        if kind == "head":
            self.scale = nn.Parameter(torch.zeros(heads))  # (h,)
            self.bias = nn.Parameter(torch.ones(heads))  # (h,)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d), scaled for its positions (t,) or (b, t), and a copy of `k`.

        With t = s > 1, `positions` default to 0 .. t-1; with t = s, `key_positions` default to
        `positions`.
        """
        t, s = q.shape[2], k.shape[2]
        if q.shape[3] != k.shape[3]:
            got = f"{q.shape[3]} and {k.shape[3]}"
            raise ValueError(f"query_scale: q and k must be of one width, got {got}")
        if positions is None:
            # a lone token is a new one behind a cache, and its position is not 0
            if t != s or t == 1 or key_positions is not None:
                raise ValueError(
                    f"query_scale: positions must be given for {t} queries and {s} keys, got None; "
                    "or transpose(1, 2) if tokens come before heads"
                )
            positions = torch.arange(t, device=q.device)
        _check_tokens(q, positions)
        _check_tokens(k, positions if key_positions is None else key_positions)
        # an axis of channels, over which the factor is the same
        c = self.factor(positions)[..., None]
        # products in half precision would lose digits
        c = c.to(q.device, torch.promote_types(q.dtype, torch.float32))
        return (q * c).to(q.dtype), k.clone()

    def factor(self, positions: Tensor) -> Tensor:
        """Return what queries are multiplied by, in float64: (..., 1, t), of "head" (..., h, t)."""
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        n = (positions.to(device, torch.float64) + 1).clamp(min=1).unsqueeze(-2)  # (..., 1, t)
        if self.kind == "llama4":
            return 1 + self.strength * torch.log1p(n // self.original_length)
        if self.kind == "ministral":
            return 1 + self.strength * torch.log1p((n - 1) // self.original_length)
        if self.kind == "inkling":
            return 1 + self.strength * (n / self.original_length).clamp(min=1).log()
        if self.kind == "logn":
            return (n.log() / math.log(self.original_length)).clamp(min=1)
        if self.kind == "power":
            return (1 + n / self.original_length) ** self.strength
        scale = self.scale.to(device, torch.float64)[:, None]
        bias = self.bias.to(device, torch.float64)[:, None]
        return scale * n.log() + bias  # (..., h, t)


def _check(kind: str, original_length: float) -> None:
    if kind not in KINDS:
        raise ValueError(f"query_scale: kind must be one of {', '.join(KINDS)}, got {kind!r}")
    if original_length <= 1:
        raise ValueError(f"query_scale: original_length must be above 1, got {original_length}")


def _check_tokens(x: Tensor, positions: Tensor) -> None:
    b, _, t, _ = x.shape
    shape = tuple(positions.shape)
    if shape != (t,) and shape != (1, t) and shape != (b, t):
        raise ValueError(
            f"query_scale: positions must have shape ({t},) or ({b}, {t}), got {shape}"
        )
    if not x.is_floating_point():
        raise ValueError(f"query_scale: q and k must be floating point, got {x.dtype}")
