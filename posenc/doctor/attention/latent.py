"""Open a latent attention (MLA): queries, and keys with values, go through a narrow layer; keys have a shared part.

The narrow layers hand the one-hot embeddings through, so the wide ones behind them are set as plain projections are.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc.doctor.attention.projections import NAMES, Layer, layers_named, through, without_norms

DOWN_AND_UP = {
    "q_a": "q_a wq_a q_down",
    "q": f"q_b wq_b q_up {NAMES['q']}",
    "kv_a": "kv_a_proj_with_mqa kv_a wkv_a kv_down",
    "kv_b": "kv_b wkv_b kv_up",
    "out": NAMES["out"],
}


class Latent(NamedTuple):
    """The layers of a latent attention: heads have a part that turns, `turned` wide, whose keys all heads share."""

    layers: dict[str, Layer]
    heads: int
    dim: int
    turned: int
    shown: int

    @property
    def kv_heads(self) -> int:
        """As many heads of keys as of queries."""
        return self.heads

    @property
    def shared(self) -> bool:
        """Heads share a part of their keys."""
        return True

    @property
    def width(self) -> int:
        """How many tokens the narrowest layer can tell apart."""
        return min(self.layers[role].takes for role in ("q", "kv_a", "kv_b"))

    @property
    def parts(self) -> tuple[int, ...]:
        """The widths of which a head is made."""
        return self.dim - self.turned, self.turned

    def set(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Set the weights for q, k, v (b, h, t, d), of k the shared part of the first head; return the embeddings."""
        b, _, t, _ = q.shape
        q, k, v = (part.transpose(1, 2).flatten(0, 1) for part in (q, k, v))
        plain, n = self.dim - self.turned, b * t
        if "q_a" in self.layers:
            self.layers["q_a"].set(torch.eye(n, self.layers["q"].takes))
        self.layers["q"].set(q.flatten(1))
        shared, *_ = k[..., plain:].unbind(1)
        self.layers["kv_a"].set(torch.cat((torch.eye(n, self.layers["kv_b"].takes).to(k), shared), -1))
        self.layers["kv_b"].set(torch.cat((k[..., :plain], v[..., : self.shown]), -1).flatten(1))
        through(self.layers["out"], self.heads, self.shown, self.shown)
        first = self.layers["kv_a"]
        return torch.eye(n, first.takes, dtype=first.matrix.dtype).view(b, t, -1)


def found(module: nn.Module, heads: int) -> Iterator[Latent]:
    """Yield the layers of a latent attention, if the widths agree."""
    layers = layers_named(module, DOWN_AND_UP)
    if not {"q", "kv_a", "kv_b", "out"} <= layers.keys():
        return
    dim, shown = layers["q"].gives // heads, layers["out"].takes // heads
    turned = layers["kv_a"].gives - layers["kv_b"].takes
    if layers["kv_b"].gives == heads * (dim - turned + shown):
        without_norms(module)
        yield Latent(layers, heads, dim, turned, shown)
