"""Open an attention that takes embeddings: set its projections so that queries, keys and values are what is asked for.

Embeddings are one-hot, a channel for each token. Column n of the weight of the queries is then the query of token n,
and likewise for keys and values; the last projection hands the heads through. So every check for fn(q, k, v) applies.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

NAMES = {  # without what says no more than that there is a layer
    "q": "q query queries wq qlinear",
    "k": "k key keys wk klinear",
    "v": "v value values wv vlinear",
    "kv": "kv wkv",
    "qkv": "qkv c_attn query_key_value wqkv att attn in pack qkv_mlp",
    "out": "o out wo dense c output attn_out wout resid combine_heads final proj outs dense_out",
}
FILLERS = {"proj", "projs", "projection", "to", "lin", "linear", "w", "fc", "net", "layer", "conv"}


class Layer(NamedTuple):
    """A linear layer whose weight can be set, of either orientation, or a weight that its owner applies itself.

    It may be several side by side, such as one a head.
    """

    modules: list[Any]
    flipped: bool = False  # weight (in, out), as Conv1D of transformers
    name: str = "weight"

    @property
    def weights(self) -> list[nn.Parameter]:
        """The weights themselves."""
        return [getattr(module, self.name) for module in self.modules]

    @property
    def matrix(self) -> Tensor:
        """The weights as one matrix, (out, in)."""
        return torch.cat([_matrix(weight).T if self.flipped else _matrix(weight) for weight in self.weights])

    @property
    def takes(self) -> int:
        """Width of what comes in."""
        _, width = self.matrix.shape
        return width

    @property
    def gives(self) -> int:
        """Width of what goes out."""
        return len(self.matrix)

    def set(self, rows: Tensor) -> None:
        """Let one-hot input n give row n, (n, out)."""
        for module, old, part in zip(self.modules, self.weights, rows.chunk(len(self.modules), -1), strict=True):
            weight = torch.zeros_like(_matrix(old))
            (weight if self.flipped else weight.T)[: len(part)] = part.to(weight.dtype)
            old.data = weight.view_as(old)
            bias = getattr(module, self.name.replace("weight", "bias"), None)
            if bias is not None:
                bias.data.zero_()


class Projections(NamedTuple):
    """The layers of an attention, its heads, and how a fused layer lays queries, keys and values out."""

    layers: dict[str, Layer]
    heads: int
    kv_heads: int
    dim: int
    packed: str = ""

    @property
    def shared(self) -> bool:
        """Whether heads share a part of their keys."""
        return False

    @property
    def parts(self) -> tuple[int, ...]:
        """The widths of which a head is made."""
        return ()

    @property
    def shown(self) -> int:
        """How many channels of each head come out, where the result is narrower than all heads together."""
        return min(self.dim, self.layers["out"].gives // self.heads) if "out" in self.layers else self.dim

    @property
    def width(self) -> int:
        """The width of embeddings."""
        return self.layers["q" if "q" in self.layers else "qkv"].takes

    def set(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Set the weights for q (b, h, t, d), k, v (b, hk, t, d); return the embeddings (b, t, D) that give them."""
        b, _, t, _ = q.shape
        q, k, v = (part.transpose(1, 2).flatten(0, 1) for part in (q, k, v))  # texts in a row
        if "qkv" in self.layers:
            rows = {"qkv": self._together(q, k, v)}
        else:
            rows = {"q": q.flatten(1), "k": k.flatten(1), "v": v.flatten(1), "kv": torch.cat((k, v), 1).flatten(1)}
        for role in rows.keys() & self.layers.keys():
            self.layers[role].set(rows[role])
        if "out" in self.layers:
            through(self.layers["out"], self.heads, self.dim, self.shown)
        dtype = next(iter(self.layers.values())).matrix.dtype
        return torch.eye(b * t, self.width, dtype=dtype).view(b, t, -1)

    def _together(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the output of the fused layer, (n, out), for (n, h, d) each."""
        if self.packed == "chunks":
            return torch.cat((q, k, v), 1).flatten(1)
        if self.packed == "by channel":
            return torch.stack((q, k, v), 1).permute(0, 3, 1, 2).flatten(1)
        groups = q.unflatten(1, (self.kv_heads, -1))
        return torch.cat((groups, k[:, :, None], v[:, :, None]), 2).flatten(1)


def through(out: Layer, heads: int, dim: int, shown: int) -> None:
    """Let the last layer hand the first channels of each head through."""
    rows = torch.kron(torch.eye(heads), torch.eye(dim, shown))
    out.set(torch.nn.functional.pad(rows, (0, out.gives - heads * shown)))


def found(module: nn.Module, heads: int) -> Iterator[Projections]:
    """Yield what the layers of a module may be, likeliest first, and replace its norms by nothing."""
    layers = layers_named(module, NAMES)
    if not _projects(layers):
        return
    without_norms(module)
    if "q" in layers:
        layers.pop("qkv", None)
        dim = layers["q"].gives // heads
        of_keys = layers["k"].gives if "k" in layers else layers["kv"].gives // 2
        yield Projections(layers, heads, of_keys // dim, dim)
        return
    width = layers["qkv"].gives
    dim = (layers["out"].takes if "out" in layers else width // 3) // heads
    for packed in ("chunks", "by group", "by channel"):
        yield Projections(layers, heads, (width // dim - heads) // 2, dim, packed)


def projects(module: nn.Module | None) -> bool:
    """Tell whether a module has layers that make queries, keys and values, by their names."""
    return module is not None and _projects(layers_named(module, NAMES))


def _projects(layers: dict[str, Layer]) -> bool:
    return any(needed <= layers.keys() for needed in ({"qkv"}, {"q", "kv"}, {"q", "k", "v"}))


def layers_named(module: nn.Module, names: dict[str, str]) -> dict[str, Layer]:
    """Return the layers that have one of the names of a role, by role."""
    return {role: layer for role, said in names.items() if (layer := _layer_named(module, said.split()))}


def _layer_named(module: nn.Module, names: list[str]) -> Layer | None:
    """Return the linear layer, or bare weight, that has one of the names; names that differ in a number go together."""
    alike: dict[Any, list[Any]] = {}
    names = [_core(name) for name in names]
    for name, part in module.named_modules():
        pieces = [piece for piece in name.lower().split(".") if not piece.isdigit()]
        *_, last = ("?", *pieces)
        if _core(last) in names and _is_matrix(getattr(part, "weight", None)):
            alike.setdefault((*pieces, type(part)), []).append(part)
    for layers in alike.values():
        return Layer(layers, any(hasattr(layer, "nf") for layer in layers))
    return next(_bare(module, names), None)


def _core(name: str) -> str:
    """Return what a name says of a layer: "q" of to_q, q_proj or linear_q."""
    return "_".join(word for word in name.split("_") if word not in FILLERS)


def _is_matrix(weight: Any) -> bool:
    return isinstance(weight, Tensor) and weight.data.squeeze().ndim == 2


def _matrix(weight: Tensor) -> Tensor:
    """Return a weight as a matrix, that of a convolution of single tokens too."""
    return weight.flatten(1)


def _bare(module: nn.Module, names: list[str]) -> Iterator[Layer]:
    """Yield weights that are no layer of their own, such as in_proj_weight."""
    for name, weight in module.named_parameters():
        owner, _, last = name.rpartition(".")
        if last.endswith("_weight") and _core(last.removesuffix("_weight")) in names and _is_matrix(weight):
            yield Layer([module.get_submodule(owner)], name=last)


def without_norms(module: nn.Module) -> None:
    """Replace norms by nothing."""
    for name, part in [*module.named_modules()]:
        if name and type(part).__name__.lower().endswith("norm"):
            owner, _, last = name.rpartition(".")
            setattr(module.get_submodule(owner), last, _Nothing())


class _Nothing(nn.Module):
    """A norm that leaves all as it is, whatever else it is given."""

    def forward(self, x: Any, *_: Any, **__: Any) -> Any:
        return x
