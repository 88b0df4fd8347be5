"""Window: add to each logit a bias learned for the offset, in rows and columns, of two tokens.

Paper: Liu et al., 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows",
       https://arxiv.org/abs/2103.14030, eq. 4; continuous: https://arxiv.org/abs/2111.09883, 3.3.
Used:  Swin, BEiT, MaxViT, CoAtNet; Swin V2 (continuous); Video Swin (three axes)
Cost:  (2H-1)(2W-1) numbers a head to learn, or a network that makes them; a call looks them up

Key:   b batch, h heads, t queries, s keys, a axes, H rows of a window, W columns,
       r rows of the table, u hidden units, m position of a query, n of a key

    B[i, m, n] = weight[(dy + H - 1)(2W - 1) + dx + W - 1, i],  (dy, dx) = query m - key n
    continuous:  weight = 16 sigmoid(out_weight relu(hidden_weight x + hidden_bias)),
                 x = sign(z) log2(1 + |z|) / log2(8),  z = 8 (dy, dx) / (pretrained window - 1)

so the bias depends on the offset alone, and what is learned serves every window; what is continuous
(Swin's cpb_mlp) every size. An offset beyond the window counts as its edge. Positions are whole
rows and columns (t, 2), of `posenc.positions.grid_positions`. Swin V2's code divides by 0 on an
axis of one token; here, as in timm, by 1. `posenc/models/swin.py` indexes and resizes the tables of
checkpoints.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

Array = TypeVar("Array", np.ndarray, Tensor)


def window(
    positions: ArrayLike,
    key_positions: ArrayLike,
    weight: ArrayLike | None = None,
    hidden_weight: ArrayLike | None = None,
    hidden_bias: ArrayLike | None = None,
    out_weight: ArrayLike | None = None,
    window: tuple[int, ...] = (7, 7),
    pretrained_window: tuple[int, ...] | None = None,
) -> np.ndarray:
    """Return the float64 bias (h, t, s) from the table `weight` (r, h), or from what makes it.

    Raises:
        ValueError: If `weight` has not one row for each offset of the window.
        ValueError: If positions are fractions, or not (t, a) and (s, a).
    """
    axes = len(window)
    x = log_coordinates(window, pretrained_window).reshape(-1, axes)  # (r, a)
    if weight is None:
        hidden_weight = np.asarray(hidden_weight, np.float64)  # (u, a)
        hidden_bias = np.asarray(hidden_bias, np.float64)  # (u,)
        hidden = np.maximum(x @ hidden_weight.T + hidden_bias, 0)  # (r, u)
        out_weight = np.asarray(out_weight, np.float64)  # (h, u)
        weight = 16 / (1 + np.exp(-hidden @ out_weight.T))
    weight = np.asarray(weight, np.float64)  # (r, h)
    if len(weight) != len(x):
        raise ValueError(f"window: weight must be of {len(x)} rows, got {len(weight)}; resize it")
    m = np.asarray(positions, np.float64)
    n = np.asarray(key_positions, np.float64)
    # reshape refuses a batch (b, t, a); m[:, None] would broadcast it silently
    offset = m.reshape(len(m), 1, axes) - n.reshape(1, len(n), axes)  # (t, s, a)
    if (m % 1).any() or (n % 1).any():
        raise ValueError(f"window: positions must be whole, got {positions} and {key_positions}")
    row = _row([offset[..., axis] for axis in range(axes)], window)  # (t, s)
    return weight[row.astype(int)].transpose(2, 0, 1)  # (h, t, s)


def log_coordinates(
    window: tuple[int, ...],
    pretrained_window: tuple[int, ...] | None = None,
) -> np.ndarray:
    """Return what Swin V2's network is given for each offset, (2H-1, 2W-1, 2).

    Examples:
        >>> log_coordinates((3, 3))[:, 0, 0].round(3).tolist()  # the rows, from two up to two down
        [-1.057, -0.774, 0.0, 0.774, 1.057]
    """
    axes = _coordinates(window, pretrained_window)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)  # (..., a)


class Window(nn.Module):
    """Give the bias to add to the logits, from a table or, if `continuous`, from a network.

    Learned is `weight` (r, h), which starts normal with deviation 0.02; or `hidden_weight` (512, a)
    and `out_weight` (h, 512), which start so, and `hidden_bias` (512,), at 0: a bias near 8.

    Args:
        heads: Number of heads h.
        window: Rows and columns of a window, or the sizes of as many axes as it has.
        continuous: Make the table as Swin V2 does.
        pretrained_window: That of the network's training, if another; 0 is none, as in Swin V2.

    Raises:
        ValueError: If `heads` is below 1, or `pretrained_window` has other axes than `window`.
        ValueError: In a call, if positions are not whole (t, a).
        ValueError: In a call, if a lone query has no `key_positions`.

    Examples:
        >>> positions = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])  # grid_positions(2, 2)
        >>> Window(heads=3, window=(2, 2))(positions).shape
        torch.Size([3, 4, 4])
    """

    def __init__(
        self,
        heads: int,
        window: tuple[int, ...] = (7, 7),
        continuous: bool = False,
        pretrained_window: tuple[int, ...] | None = None,
    ):
        super().__init__()
        if heads < 1:
            raise ValueError(f"window: heads must be 1 or more, got {heads}")
        self.window = tuple(window)
        self.axes = len(window)
        self.continuous = continuous
        self.coordinates = _coordinates(window, pretrained_window)
        if continuous:
            self.hidden_weight = nn.Parameter(0.02 * torch.randn(512, self.axes))
            self.hidden_bias = nn.Parameter(torch.zeros(512))
            self.out_weight = nn.Parameter(0.02 * torch.randn(heads, 512))
        else:
            rows = log_coordinates(window)[..., 0].size
            self.weight = nn.Parameter(0.02 * torch.randn(rows, heads))

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t, a) to `key_positions` (s, a).

        `key_positions` default to `positions`; a lone query must be given them. A batch (b, t, a)
        or (b, s, a) gives (b, h, t, s).
        """
        m, n = self._positions(positions, key_positions)
        offset = m[..., :, None, :] - n[..., None, :, :]  # (..., t, s, a)
        row = _row(offset.unbind(-1), self.window)  # (..., t, s)
        # index heads first, so that the bias is contiguous
        return self._table().T[:, row].movedim(0, -3)  # (..., h, t, s)

    def score_mod(
        self, positions: Tensor, key_positions: Tensor | None = None
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = self._positions(positions, key_positions)
        m = m.reshape(-1, *m.shape[-2:])
        n = n.reshape(-1, *n.shape[-2:])
        table = self._table()  # (r, h)

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            offset = [_at(m, b, q_idx, axis) - _at(n, b, kv_idx, axis) for axis in range(self.axes)]
            return score + table[_row(offset, self.window), h].to(score.dtype)

        return _modify

    def _positions(self, positions: Tensor, key_positions: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the positions of queries and keys, in whole numbers that may be negative."""
        keys = positions if key_positions is None else key_positions
        for p in (positions, keys):
            # a text (t,) would put token i on the diagonal, at (i, i)
            if p.is_floating_point() or p.ndim < 2 or p.shape[-1] != self.axes:
                raise ValueError(
                    f"window: positions must have shape (t, {self.axes}) or (b, t, {self.axes}) "
                    f"and an integer dtype, got {p.dtype} {tuple(p.shape)}; "
                    f"take grid_positions{self.window}"
                )
        # a lone query has a cache of keys, over which its bias (h, 1, 1) would broadcast
        if key_positions is None and positions.shape[-2] == 1:
            raise ValueError(
                "window: key_positions must be given for a lone query, got None; "
                f"grid_positions{self.window} for a window of keys"
            )
        return positions.long(), keys.long()

    def _table(self) -> Tensor:
        """Return the table, in float32, learned or from the network."""
        if not self.continuous:
            return self.weight.float()  # (r, h)
        # in float64, so that the sums over hidden units are rounded once
        home = self.out_weight.device
        device = "cpu" if home.type == "mps" else home  # mps lacks float64
        axes = [torch.tensor(x, dtype=torch.float64, device=device) for x in self.coordinates]
        x = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)  # (r, a)
        hidden = x @ self.hidden_weight.to(x).T + self.hidden_bias.to(x)  # (r, u)
        weight = 16 * torch.sigmoid(hidden.relu() @ self.out_weight.to(x).T)  # (r, h)
        return weight.to(home, torch.float32)


def _coordinates(
    window: tuple[int, ...], pretrained_window: tuple[int, ...] | None
) -> list[tuple[float, ...]]:
    """Return x for the offsets along each axis, from the most negative one on."""
    axes = []
    for size, pretrained in zip(window, pretrained_window or window, strict=True):
        # a pretrained size of 0 is none; an axis of one token has no step to divide by
        z = 8 * np.arange(1 - size, size) / max((pretrained or size) - 1, 1)
        x = np.sign(z) * np.log2(1 + np.abs(z)) / np.log2(8)
        axes.append(tuple(x.tolist()))
    return axes


def _row(offset: Sequence[Array], window: tuple[int, ...]) -> Array:
    """Return the row of the table for the offsets along each axis."""
    row = 0 * offset[0]
    for step, size in zip(offset, window, strict=True):
        # beyond the window its edge counts
        step = step.clip(1 - size, size - 1)
        row = row * (2 * size - 1) + step + size - 1
    return row


def _at(positions: Tensor, b: Tensor, i: Tensor, axis: int) -> Tensor:
    """Return a coordinate of token i of sequence b, of (b, t, a) or (1, t, a)."""
    # one row of tokens serves every sequence
    row = 0 * b if len(positions) == 1 else b
    return positions[row, i, axis]
