"""The classes Layer and Plan: how position enters one layer, and a model."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc.config.plan_text import table
from posenc.rotate.query_scale import QueryScale


@dataclass(frozen=True)
class Layer:
    """How position enters one layer.

    `encoding` rotates queries and keys or biases logits; it is None where the layer has no position
    of its own. `slice` are the channels of each head that it is given. `theta` (r/2,), in radians a
    position, and `base` are those of a rotation, whose cos and sin `attention_factor` multiplies.
    `window` is the most keys that a query attends to.

    Examples:
        >>> from posenc import plan
        >>> layer = plan({"model_type": "deepseek_v3"}).layers[0]
        >>> layer.head_dim, layer.slice, layer.layout
        (192, slice(128, 192, None), 'interleaved')
    """

    index: int
    layer_type: str
    encoding: Any
    head_dim: int
    slice: slice
    layout: str | None = None
    theta: np.ndarray | None = None
    attention_factor: float = 1.0
    base: float | None = None
    window: int | None = None
    sections: tuple[int, ...] | None = None
    query_scale: QueryScale | None = None
    softmax_scale: float = 1.0
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return all but the object, as numbers, strings and lists."""
        # JSON has no objects of Python: instead its name, or its settings
        query_scale = None
        if self.query_scale is not None:
            names = ("kind", "original_length", "strength")
            query_scale = {name: getattr(self.query_scale, name) for name in names}
        return {
            "index": self.index,
            "layer_type": self.layer_type,
            "encoding": None if self.encoding is None else type(self.encoding).__name__,
            "head_dim": self.head_dim,
            "slice": [self.slice.start, self.slice.stop],
            "layout": self.layout,
            "theta": None if self.theta is None else self.theta.tolist(),
            "attention_factor": self.attention_factor,
            "base": self.base,
            "window": self.window,
            "sections": None if self.sections is None else list(self.sections),
            "query_scale": query_scale,
            "softmax_scale": self.softmax_scale,
            "why": self.why,
        }


@dataclass(frozen=True)
class Plan:
    """How position enters each layer of a model, and what a reader should know of it.

    `added` is added to the embeddings before the first layer; `trained` is the longest text that
    the configuration names; `parts` are the plans of a model's towers. Print it to see a table.

    Examples:
        >>> from posenc import plan
        >>> [layer.layer_type for layer in plan({"model_type": "gpt_oss"}).layers[:2]]
        ['sliding_attention', 'full_attention']
    """

    model_type: str
    layers: tuple[Layer, ...] = ()
    parts: dict[str, "Plan"] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    added: Any = None
    trained: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON: numbers, strings, lists."""
        return {
            "model_type": self.model_type,
            "trained": self.trained,
            "added": None if self.added is None else type(self.added).__name__,
            "layers": [layer.to_dict() for layer in self.layers],
            "parts": {name: part.to_dict() for name, part in self.parts.items()},
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        return table(self)
