"""T5's bias for consecutive positions: each offset is looked up once and fills its diagonal.

Paper: Raffel et al., 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
       Transformer", https://arxiv.org/abs/1910.10683, sec. 2.1.

Key:   b batch, h heads, t queries, s keys, u offsets
"""

import torch
from torch import Tensor

from posenc.bias import t5


class T5(t5.T5):
    """Give the bias of `posenc.bias.t5.T5`, faster where positions are consecutive.

    Examples:
        >>> queries, keys, fast = torch.arange(3, 8), torch.arange(8), T5(heads=2)
        >>> torch.equal(fast(queries, keys), super(T5, fast).forward(queries, keys))
        True
    """

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s) of positions that go up by 1; of others as the plain file."""
        keys = positions if key_positions is None else key_positions
        in_rows = not torch.compiler.is_compiling() and _in_a_row(positions) and _in_a_row(keys)
        # the plain file refuses a lone query without keys
        if not in_rows or (key_positions is None and len(positions) == 1):
            return super().forward(positions, key_positions)
        t, s = len(positions), len(keys)
        # of the first key, seen from the last query
        start = keys[0] - positions[0] - (t - 1)
        offset = start + torch.arange(t + s - 1, device=keys.device)  # (u,)
        rising = super().forward(torch.zeros_like(offset[:1]), offset)[:, 0]  # (h, u)
        # each query has a window of it, one entry earlier than the query before
        return rising.unfold(1, s, 1).flip(1)  # (h, t, s)


def _in_a_row(positions: Tensor) -> bool:
    whole = positions.ndim == 1 and len(positions) > 0 and not positions.is_floating_point()
    return whole and bool((positions.diff() == 1).all())
