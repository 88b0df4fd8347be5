"""Window: add to each logit a learned number for the offset, in rows and columns, of two tokens.

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
(Swin's cpb_mlp) every size. An offset beyond the window counts as its edge. Places are whole rows
and columns (t, 2), of `posenc.positions.grid_positions`. Swin V2's code divides by 0 on an axis of
one token; here, as in timm, by 1. `posenc/models/swin.py` indexes and resizes the tables of
checkpoints.
"""

import numpy as np
import torch
from torch import Tensor, nn


def window(
    positions,
    key_positions,
    weight=None,
    hidden_weight=None,
    hidden_bias=None,
    out_weight=None,
    window=(7, 7),
    pretrained_window=None,
) -> np.ndarray:
    """Return the float64 bias (h, t, s) from the table `weight` (r, h), or from what makes it."""
    axes = len(window)
    x = log_coordinates(window, pretrained_window).reshape(-1, axes)  # (r, a)
    if weight is None:
        hidden = np.maximum(x @ np.asarray(hidden_weight).T + hidden_bias, 0)  # (r, u)
        weight = 16 / (1 + np.exp(-hidden @ np.asarray(out_weight).T))  # (r, h)
    if len(weight) != len(x):
        raise ValueError(f"window: weight must be of {len(x)} rows, got {len(weight)}; resize it")
    m = np.asarray(positions, np.float64).reshape(len(positions), 1, axes)
    n = np.asarray(key_positions, np.float64).reshape(1, len(key_positions), axes)
    row = _row(np.moveaxis(m - n, -1, 0), window)  # (t, s)
    if (row % 1).any():
        raise ValueError(f"window: positions must be whole, got {positions} and {key_positions}")
    return np.asarray(weight, np.float64)[row.astype(int)].transpose(2, 0, 1)  # (h, t, s)


def log_coordinates(window, pretrained_window=None) -> np.ndarray:
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

    Examples:
        >>> places = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])  # grid_positions(2, 2)
        >>> Window(heads=3, window=(2, 2))(places).shape
        torch.Size([3, 4, 4])
    """

    def __init__(self, heads: int, window=(7, 7), continuous=False, pretrained_window=None):
        super().__init__()
        if heads < 1:
            raise ValueError(f"window: heads must be 1 or more, got {heads}")
        self.window, self.axes, self.continuous = tuple(window), len(window), continuous
        self.coordinates = _coordinates(window, pretrained_window)
        if continuous:
            self.hidden_weight = nn.Parameter(0.02 * torch.randn(512, self.axes))
            self.hidden_bias = nn.Parameter(torch.zeros(512))
            self.out_weight = nn.Parameter(0.02 * torch.randn(heads, 512))
        else:
            rows = log_coordinates(window)[..., 0].size
            self.weight = nn.Parameter(0.02 * torch.randn(rows, heads))

    def forward(self, positions: Tensor, key_positions=None) -> Tensor:
        """Return the float32 bias (h, t, s), or (b, h, t, s) where places are (b, t, a)."""
        m, n = self._whole(positions, key_positions)
        offset = m[..., :, None, :] - n[..., None, :, :]  # (..., t, s, a)
        row = _row(offset.unbind(-1), self.window)  # (..., t, s)
        return self._table().T[:, row].movedim(0, -3)  # (..., h, t, s)

    def score_mod(self, positions: Tensor, key_positions=None):
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        places = self._whole(positions, key_positions)
        m, n = (p.reshape(-1, *p.shape[-2:]) for p in places)
        table = self._table()

        def _modify(score, b, h, t, s):
            i, j = b * (len(m) > 1), b * (len(n) > 1)  # one row serves each b
            offset = [m[i, t, axis] - n[j, s, axis] for axis in range(self.axes)]
            return score + table[_row(offset, self.window), h].to(score.dtype)

        return _modify

    def _whole(self, positions, key_positions):
        keys = positions if key_positions is None else key_positions
        for p in (positions, keys):
            if p.is_floating_point() or p.ndim < 2 or p.shape[-1] != self.axes:
                raise ValueError(
                    f"window: positions must be whole (t, {self.axes}) or (b, t, {self.axes}), "
                    f"got {p.dtype} {tuple(p.shape)}; take grid_positions{self.window}"
                )
        return positions.long(), keys.long()

    def _table(self):
        if not self.continuous:
            return self.weight.float()  # (r, h)
        device = self.out_weight.device
        where = "cpu" if device.type == "mps" else device  # mps lacks float64
        axes = [torch.tensor(x, dtype=torch.float64, device=where) for x in self.coordinates]
        x = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)  # (r, a)
        hidden = x @ self.hidden_weight.to(x).T + self.hidden_bias.to(x)  # (r, u)
        weight = 16 * torch.sigmoid(hidden.relu() @ self.out_weight.to(x).T)  # (r, h)
        return weight.to(device, torch.float32)


def _coordinates(window, pretrained_window):
    axes = []
    for size, trained in zip(window, pretrained_window or window, strict=True):
        z = 8 * np.arange(1 - size, size) / max((trained or size) - 1, 1)
        axes.append(tuple(np.sign(z) * np.log2(1 + np.abs(z)) / 3))
    return axes


def _row(offset, window):
    row = 0 * offset[0]
    for step, size in zip(offset, window, strict=True):
        row = row * (2 * size - 1) + step.clip(1 - size, size - 1) + size - 1
    return row
