"""ALiBi: take from each logit a penalty proportional to the distance, at a fixed slope for each head.

Paper: Press et al., 2021, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
       https://arxiv.org/abs/2108.12409, sec. 3.
Used:  BLOOM, MPT, Falcon-RW, Baichuan-13B, BTLM; symmetric in JinaBERT and the encoder of data2vec 2.0
Cost:  nothing to learn; one product a pair and head, or two more channels in queries and keys and no bias at all

Key:   b batch, h heads, t queries, s keys, c channels, m position of a query, n of a key

    B[i, m, n] = -slopes[i] (m - n)          key n at or before query m
               = -right_slopes[i] (n - m)    key n ahead; slopes[i] by default, -inf with causal=True
    slopes[i]  = 2^(-8 (i+1) / h),  i = 0 .. h-1, if h is a power of two

so the bias of positions moved together is the same, and each step back divides a key's weight by e^slope. For other h
the paper's code takes the slopes of the closest lower power of two, then every other slope of its double; the formula
for any h is another set. The paper states the causal case. The symmetric one is for encoders; right_slopes=0 leaves the
keys ahead unpenalized. BLOOM and MPT write slope * n, which differs from -slope (m - n) by a constant of each query:
softmax does not see it where keys ahead are hidden, and `channels` may drop it too. Falcon adds its bias before it
divides by sqrt(d): its slopes here are alibi_slopes(h) / sqrt(head dim).
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

Slopes = float | Sequence[float] | np.ndarray | None


def alibi_slopes(heads: int) -> np.ndarray:
    """Return the paper's float64 slopes (h,) for any number of heads, steepest first for a power of two.

    Examples:
        >>> alibi_slopes(4)
        array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    if not isinstance(heads, int | np.integer) or isinstance(heads, bool) or heads < 1:
        raise ValueError(f"alibi: heads must be a positive integer, got {heads!r}; each head has its own slope")
    power = 1 << (int(heads).bit_length() - 1)  # the closest lower power of two
    # counted in slopes of its double: its own are the even ones, the heads beyond it take the odd ones
    steps = [*range(2, 2 * power + 1, 2), *range(1, 2 * (heads - power), 2)]
    return 2.0 ** (-4 * np.array(steps) / power)  # (h,)


def alibi(
    positions: np.ndarray,
    key_positions: np.ndarray,
    heads: int,
    slopes: Slopes = None,
    right_slopes: Slopes = None,
    causal: bool = False,
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,).

    `slopes` and `right_slopes` are one number or one a head (h,), as in `ALiBi`.
    """
    left, right = (np.array(each)[:, None, None] for each in _settings(heads, slopes, right_slopes, causal))
    offset = _row("key_positions", key_positions) - _row("positions", positions)[:, None]  # (t, s)
    ahead = np.full_like(offset, -np.inf) if causal else -right * offset
    return np.where(offset > 0, ahead, left * offset)  # (h, t, s)


class ALiBi(nn.Module):
    """Give the bias to add to the logits; nothing is learned or stored.

    Args:
        heads: Number of heads h.
        slopes: Of the keys at or before the query, not negative: one number or one a head; `alibi_slopes` by default.
        right_slopes: Of the keys ahead, likewise; `slopes` by default, 0 for no penalty.
        causal: Give -inf to the keys ahead, where the logits have no causal mask already.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> ALiBi(heads=8)(torch.tensor([3]), torch.arange(6))[0].exp()  # slope 1/2: e^(-distance/2)
        tensor([[0.2231, 0.3679, 0.6065, 1.0000, 0.6065, 0.3679]])
    """

    def __init__(self, heads: int, slopes: Slopes = None, right_slopes: Slopes = None, causal: bool = False) -> None:
        super().__init__()
        self.slopes, self.right_slopes = _settings(heads, slopes, right_slopes, causal)
        self.heads, self.causal = int(heads), causal

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s) in float32 between `positions` (t,) and `key_positions` (s,), by default the same.

        Where either has a batch, (b, t) or (b, s), the bias is (b, h, t, s). One row (1, t) serves a batch.
        """
        keys = positions if key_positions is None else key_positions
        _check(positions, keys)
        (m, m_rest), (n, n_rest) = _parts(positions), _parts(keys)
        left, right = self._slopes(positions.device, torch.float32)
        offset = n[..., None, :] - m[..., :, None]  # (..., t, s)
        offset = offset.add_(n_rest[..., None, :]).sub_(m_rest[..., :, None])  # (..., t, s)
        offset = offset[..., None, :, :]  # (..., 1, t, s)
        if self.causal and 0 not in self.slopes:  # the bias is written once, whatever can be is done to the offset
            return offset.masked_fill_(offset > 0, float("-inf")) * left[:, None, None]  # (..., h, t, s)
        if self.causal:
            return (offset * left[:, None, None]).masked_fill_(offset > 0, float("-inf"))  # (..., h, t, s)
        if self.slopes == self.right_slopes:
            return offset.abs_() * -left[:, None, None]  # (..., h, t, s)
        before = offset.clamp(max=0) * left[:, None, None]  # (..., h, t, s)
        if not any(self.right_slopes):
            return before  # (..., h, t, s)
        add = torch.addcmul if torch._C._are_functorch_transforms_active() else Tensor.addcmul_  # which vmap lacks
        return add(before, offset.clamp(min=0), -right[:, None, None])  # (..., h, t, s)

    def score_mod(self, positions: Tensor, key_positions: Tensor | None = None) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        keys = positions if key_positions is None else key_positions
        _check(positions, keys)
        of_queries, of_keys = _parts(_shared(positions)), _parts(_shared(keys))
        left, right = self._slopes(positions.device, torch.float32)

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            m, m_rest = (p[b, t] if p.ndim == 2 else p[t] for p in of_queries)
            n, n_rest = (p[b, s] if p.ndim == 2 else p[s] for p in of_keys)
            offset = n - m + n_rest - m_rest
            ahead = float("-inf") if self.causal else -right[h] * offset
            return score + torch.where(offset > 0, ahead, left[h] * offset).to(score.dtype)

        return _modify

    def channels(self, positions: Tensor, key_positions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return channels of queries (h, t, 2) and keys (1, s, 2) in float64 whose products are the bias; causal only.

        Keys ahead get a bonus in place of a penalty: hide them. The first query counts as position 0, which keeps the
        numbers small. Where positions have a batch, b comes first. Attention then needs no tensor (h, t, s) at all.
        """
        keys = positions if key_positions is None else key_positions
        _check(positions, keys)
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        m, n = positions.to(where, torch.float64), keys.to(where, torch.float64)
        first, slopes = m[..., :1], self._slopes(where, torch.float64)[0][:, None]
        m, n = (m - first)[..., None, :], (n - first)[..., None, :]  # (..., 1, t), (..., 1, s)
        of_queries = torch.broadcast_tensors(slopes, -slopes * m)
        return torch.stack(of_queries, dim=-1), torch.stack([n, torch.ones_like(n)], dim=-1)  # (..., t, c), (..., s, c)

    def _slopes(self, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        left, right = (torch.tensor(each, dtype=dtype, device=device) for each in (self.slopes, self.right_slopes))
        return left, right  # (h,)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        least, most = min(self.slopes), max(self.slopes)
        return f"heads={self.heads}, slopes={least:.3g} to {most:.3g}, causal={self.causal}"


def _parts(positions: Tensor) -> tuple[Tensor, ...]:
    # A position is the sum of two float32 numbers, so offsets are exact and a pair costs no float64 or int64.
    where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
    whole = positions.to(where, torch.float64)
    near = whole.float()
    parts = near.to(positions.device), (whole - near).float().to(positions.device)  # (..., t)
    # A compiler stores what is strided; else it would convert the positions anew for each pair and head.
    return tuple(p.as_strided(p.shape, p.stride()) for p in parts) if torch.compiler.is_dynamo_compiling() else parts


def _settings(
    heads: int, slopes: Slopes, right_slopes: Slopes, causal: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if not isinstance(causal, bool):
        raise ValueError(f"alibi: causal must be True or False, got {causal!r}; True hides the keys ahead")
    if causal and right_slopes is not None:
        raise ValueError(
            f"alibi: right_slopes must be None with causal=True, got {right_slopes!r}; keys ahead are hidden"
        )
    default = alibi_slopes(heads)
    left = _each(heads, "slopes", default if slopes is None else slopes)
    return left, left if right_slopes is None else _each(heads, "right_slopes", right_slopes)


def _each(heads: int, name: str, given: object) -> tuple[float, ...]:
    slopes = _numbers(given)
    if slopes is None or slopes.shape not in ((), (heads,)) or not (np.isfinite(slopes) & (slopes >= 0)).all():
        raise ValueError(
            f"alibi: {name} must be finite and not negative, got {given!r}; one number, or {heads} for {heads} heads"
        )
    return tuple(np.broadcast_to(slopes, heads).tolist())


def _numbers(given: object) -> np.ndarray | None:
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        return None
    return array.astype(np.float64) if array.dtype.kind in "iuf" else None


def _row(name: str, given: object) -> np.ndarray:
    row = _numbers(given)
    if row is None or row.ndim > 1 or not np.isfinite(row).all():
        raise ValueError(f"alibi: {name} must be one row of finite numbers, got {given!r}; a batch goes row by row")
    return np.atleast_1d(row)


def _shared(positions: Tensor) -> Tensor:
    """Return a batch of one row as that row, which serves every batch."""
    return positions[0] if positions.ndim == 2 and positions.shape[0] == 1 else positions


def _check(positions: Tensor, key_positions: Tensor) -> None:
    for name, given in (("positions", positions), ("key_positions", key_positions)):
        is_number = isinstance(given, Tensor) and given.dtype != torch.bool and not given.is_complex()
        if not is_number or given.ndim not in (1, 2):
            got = f"{given.dtype} {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
            raise ValueError(
                f"alibi: {name} must be a tensor of integers or floats (t,) or (b, t), got {got}; take torch.arange(t)"
            )
    b, c = (p.shape[0] if p.ndim == 2 else 1 for p in (positions, key_positions))
    if b != c and b != 1 and c != 1:
        got = f"{tuple(positions.shape)} and {tuple(key_positions.shape)}"
        raise ValueError(f"alibi: positions and key_positions must be of one batch, got {got}; or leave it out of one")
