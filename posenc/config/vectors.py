"""Golden vectors: what a model's layers do to fixed queries and keys, for ports in any language.

q and k are drawn by the generator of DRAWN, of integers alone, so that a port can make them or read
them. All that is rotated is computed in float64. Channels are those of a whole head: a layer
rotates those of `slice` and leaves the others.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc.config.layer import Layer, Plan
from posenc.config.plan import plan

DRAWN = (
    "state = (1103515245 state + 12345) mod 2^31, from the seed 1 for q and 2 for k; each number "
    "(t, d) in order is (state // 65536 mod 129 - 64) / 64, exact in bfloat16"
)
POSITIONS = (0, 1, 2, 3, 10, 100, 1000, 4095)
COORDINATES = (
    (0, 0, 0),
    (1, 1, 1),
    (2, 2, 2),
    (3, 3, 3),
    (3, 3, 5),
    (3, 7, 4),
    (40, 41, 42),
    (1000, 1000, 1000),
)
# of each layer, as Layer.to_dict has them
FIELDS = (
    "layer_type",
    "layout",
    "head_dim",
    "slice",
    "theta",
    "attention_factor",
    "sections",
    "softmax_scale",
)
# of the largest number of the same row, plus what rounded angles may add at each position
TOLERANCES = {
    "float32": (1e-5, 3e-7),
    "bfloat16": (2e-2, 3e-7),
}


def vectors(config: Any, length: int | None = None) -> dict[str, Any]:
    """Return golden vectors of each distinct type of layer that rotates, as plain JSON.

    Args:
        config: What `plan` takes.
        length: Tokens of the text, for dynamic and longrope scaling.

    Raises:
        ValueError: If no layer rotates.
        ValueError: If the config is of several parts and none of them is text.

    Examples:
        >>> config = {"model_type": "llama", "num_hidden_layers": 2, "rope_theta": 5e5}
        >>> golden = vectors(config)
        >>> golden["layers"][0]["indices"], golden["layers"][0]["positions"][:5]
        ([0, 1], [0, 1, 2, 3, 10])
    """
    text_plan = _text_part(config if isinstance(config, Plan) else plan(config, length))
    groups = _groups(text_plan.layers)
    if not groups:
        raise ValueError(
            f"vectors: config must be of layers that rotate, got a {text_plan.model_type} without; "
            "there is nothing to rotate"
        )
    return {
        "made by": f"posenc {version('posenc')}",
        "model_type": text_plan.model_type,
        "drawn": DRAWN,
        "near": {
            name: {"relative": relative, "each position": per_position}
            for name, (relative, per_position) in TOLERANCES.items()
        },
        "layers": [
            _vectors_of(group[0]) | {"indices": [layer.index for layer in group]}
            for group in groups
        ],
    }


def _text_part(result: Plan) -> Plan:
    """Return the plan of the part that is text, or of the only part."""
    while result.parts:
        texts = [name for name in result.parts if "text" in name or len(result.parts) == 1]
        if not texts:
            raise ValueError(
                f"vectors: config must be of a part of text, got {', '.join(result.parts)}; "
                "pass one part"
            )
        result = result.parts[texts[0]]
    return result


def _groups(layers: Sequence[Layer]) -> list[list[Layer]]:
    """Return the layers that rotate, those that do so alike together."""
    groups: dict[tuple[Any, ...], list[Layer]] = {}
    for layer in layers:
        if layer.theta is not None:
            channels = (layer.slice.start, layer.slice.stop, layer.head_dim)
            # bytes can be part of a key, an array cannot
            key = (layer.layer_type, *channels, layer.attention_factor, layer.theta.tobytes())
            groups.setdefault(key, []).append(layer)
    return list(groups.values())


def _vectors_of(layer: Layer) -> dict[str, Any]:
    """Return the settings of a layer, and q and k before and after it rotates them."""
    positions = _positions(getattr(layer.encoding, "axes", 1))
    q, k = (drawn(len(positions), layer.head_dim, seed) for seed in (1, 2))
    rotated_q, rotated_k = (rotated(layer, x, positions) for x in (q, k))
    scale = _query_scale(layer, positions)
    # for each position its own, and of queries alone
    scaled_q = rotated_q if scale is None else rotated_q * scale[:, None]
    scores = layer.softmax_scale * scaled_q @ rotated_k.mT
    cos, sin = _cos_sin(layer, positions)
    fields = layer.to_dict()
    tables = {"positions": positions, "cos": cos, "sin": sin, "query_scale": scale}
    heads = {"q": q, "k": k, "rotated_q": rotated_q, "rotated_k": rotated_k, "scores": scores}
    return {
        **{name: fields[name] for name in FIELDS},
        "rotary_dim": 2 * len(fields["theta"]),
        **{name: None if x is None else x.tolist() for name, x in tables.items()},
        **{name: x[0, 0].tolist() for name, x in heads.items()},
    }


def _positions(axes: int) -> Tensor:
    """Return positions (t,), or (t, n) for more than one axis."""
    if axes == 1:
        return torch.tensor(POSITIONS)
    if axes <= 3:
        return torch.tensor(COORDINATES)[:, :axes]
    # more axes than COORDINATES have: as text, whose number is the same on all
    return torch.tensor(POSITIONS)[:, None].expand(-1, axes)


def _query_scale(layer: Layer, positions: Tensor) -> Tensor | None:
    """Return what queries are multiplied by, None for nothing and for what a model learns."""
    scale = layer.query_scale
    if scale is None or scale.kind == "head":
        return None
    times = positions if positions.ndim == 1 else positions[:, 0]
    return scale.factor(times)[0]


def _cos_sin(layer: Layer, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return cos and sin (t, r/2) of each pair, times the attention factor.

    That is what the rotation makes of pairs (1, 0).
    """
    pairs = len(layer.to_dict()["theta"])
    blocks = {"half": 1, "interleaved": pairs, "blocks": 2}[str(layer.layout)]
    first, second = torch.arange(2 * pairs).view(blocks, 2, -1).transpose(0, 1).reshape(2, -1)
    width = layer.slice.stop - layer.slice.start
    x = torch.zeros(1, 1, len(positions), width, dtype=torch.float64)
    x[..., first] = 1.0
    turned = _turned(layer, x, positions)[0, 0]
    return turned[:, first], turned[:, second]


def rotated(layer: Layer, x: Tensor, positions: Tensor) -> Tensor:
    """Return heads `x` (b, h, t, d) as a layer rotates them, whole and in their dtype."""
    part = layer.slice
    turned = _turned(layer, x[..., part], positions)
    return torch.cat([x[..., : part.start], turned, x[..., part.stop :]], dim=-1)


def _turned(layer: Layer, x: Tensor, positions: Tensor) -> Tensor:
    """Return the channels `x` (b, h, t, width) that the rotation of a layer is given, rotated."""
    # as fine as the content, but no coarser than float32
    table = layer.encoding.table(positions, torch.promote_types(x.dtype, torch.float32))
    return layer.encoding.turn(x, table)


def drawn(tokens: int, dim: int, seed: int) -> Tensor:
    """Return the fixed content (1, 1, t, d), by the generator of DRAWN.

    Examples:
        >>> drawn(1, 4, seed=1).flatten().tolist()
        [0.0625, 0.28125, -0.203125, 0.5625]
    """
    state = seed
    numbers = []
    for _ in range(tokens * dim):
        state = (1_103_515_245 * state + 12_345) % 2**31
        numbers.append((state // 65_536 % 129 - 64) / 64)
    return torch.tensor(numbers, dtype=torch.float64).view(1, 1, tokens, dim)


def check(
    function: Callable[..., tuple[Tensor, Tensor]],
    vectors: Mapping[str, Any],
    layer: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> list[str]:
    """Return how `function` differs from golden vectors, a sentence each: none if it is right.

    Args:
        function: `(q, k, positions) -> (q, k)` of whole heads (1, 1, t, d) and positions (t,), for
            several axes (t, n).
        vectors: What `vectors` returns, or `json.load` of its file.
        layer: The index of the layer whose vectors are meant; by default the first that rotates.
        dtype: Of q and k: torch.float32 or torch.bfloat16.

    Raises:
        ValueError: If `layer` is none of those that rotate.
    """
    groups = vectors["layers"]
    matches = [group for group in groups if layer is None or layer in group["indices"]]
    if not matches:
        indices = sorted(index for group in groups for index in group["indices"])
        raise ValueError(
            f"vectors: layer must be one of {indices}, got {layer}; others do not rotate"
        )
    # layers that rotate alike share their vectors
    group = matches[0]
    tolerance = vectors["near"][str(dtype).removeprefix("torch.")]
    q, k = (torch.tensor(group[name], dtype=dtype)[None, None] for name in ("q", "k"))
    results = function(q, k, torch.tensor(group["positions"]))
    differences = []
    for name, result in zip(("rotated_q", "rotated_k"), results, strict=True):
        expected = np.array(group[name])
        if tuple(result.shape) == (1, 1, *expected.shape):
            actual = result.detach().double().numpy()[0, 0]
            differences += _beyond(name, actual, expected, group["positions"], tolerance)
        else:
            shape = tuple(result.shape)
            differences.append(f"{name} has shape {shape}, expected (1, 1, *{expected.shape})")
    return differences


def _beyond(
    name: str,
    actual: np.ndarray,
    expected: np.ndarray,
    positions: Sequence[Any],
    tolerance: Mapping[str, float],
) -> list[str]:
    """Return a sentence on the first row (t, d) that is off by more than allowed, if any."""
    error = np.abs(actual - expected).max(axis=1) / np.abs(expected).max(axis=1)
    # angles rounded to float32 are off in proportion to the position
    furthest = np.array(positions).reshape(len(error), -1).max(axis=1)
    allowed = tolerance["relative"] + tolerance["each position"] * furthest
    # not `error > allowed`: NaN is off too
    rows = np.flatnonzero(~(error <= allowed))
    if not len(rows):
        return []
    row = rows[0]
    return [
        f"{name} is off by {error[row]:.2g} at {positions[row]}, allowed are {allowed[row]:.2g}"
    ]
