"""Golden vectors: what a model's layers do to fixed queries and keys, for ports in any language.

q and k are drawn by the generator of DRAWN, of integers alone, so that a port can make them or read
them. All that is rotated is computed in float64. Channels are those of a whole head: a layer turns
those of `slice` and leaves the others.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc.config.layer import Layer, Plan
from posenc.config.plan import plan

DRAWN = (
    "state = (1103515245 state + 12345) mod 2^31, from the seed 1 for q and 2 for k; each number "
    "(t, d) in turn is (state // 65536 mod 129 - 64) / 64, exact in bfloat16"
)
PLACES = (0, 1, 2, 3, 10, 100, 1000, 4095)
AXES = (
    (0, 0, 0),
    (1, 1, 1),
    (2, 2, 2),
    (3, 3, 3),
    (3, 3, 5),
    (3, 7, 4),
    (40, 41, 42),
    (1000, 1000, 1000),
)
NEAR = {  # of the largest number of the same row, plus what rounded angles may add at each position
    "float32": (1e-5, 3e-7),
    "bfloat16": (2e-2, 3e-7),
}


def vectors(config: Any, length: int | None = None) -> dict[str, Any]:
    """Return golden vectors of each distinct kind of layer that rotates, as plain JSON.

    Args:
        config: What `plan` takes.
        length: Tokens of the text, for dynamic and longrope scaling.

    Raises:
        ValueError: If no layer rotates, or the config is of several parts.

    Examples:
        >>> config = {"model_type": "llama", "num_hidden_layers": 2, "rope_theta": 5e5}
        >>> made = vectors(config)
        >>> made["layers"][0]["indices"], made["layers"][0]["positions"][:5]
        ([0, 1], [0, 1, 2, 3, 10])
    """
    read = _one_part(config if isinstance(config, Plan) else plan(config, length))
    alike = _alike(read)
    if not alike:
        raise ValueError(
            f"vectors: config must be of layers that rotate, got a {read.model_type} without; "
            "there is nothing to turn"
        )
    return {
        "made by": f"posenc {version('posenc')}",
        "model_type": read.model_type,
        "drawn": DRAWN,
        "near": {
            name: {"relative": near, "each position": more} for name, (near, more) in NEAR.items()
        },
        "layers": [_of(same[0]) | {"indices": [one.index for one in same]} for same in alike],
    }


def _alike(read: Plan) -> list[list[Layer]]:
    """Return the layers that rotate, those that do so alike together."""
    kinds: dict[tuple[Any, ...], list[Layer]] = {}
    for layer in read.layers:
        if layer.theta is not None:
            where = layer.slice.start, layer.slice.stop, layer.head_dim
            same = layer.kind, *where, layer.factor, layer.theta.tobytes()
            kinds.setdefault(same, []).append(layer)
    return list(kinds.values())


def rotated(layer: Layer, x: Tensor, positions: Tensor) -> Tensor:
    """Return heads `x` (b, h, t, d) as a layer turns them, whole and in their dtype."""
    part = layer.slice
    turned = layer.encoding.turn(x[..., part], positions)
    return torch.cat([x[..., : part.start], turned, x[..., part.stop :]], dim=-1)


def drawn(tokens: int, dim: int, seed: int) -> Tensor:
    """Return the fixed content (1, 1, t, d), by the generator of DRAWN.

    Examples:
        >>> drawn(1, 4, seed=1).flatten().tolist()
        [0.0625, 0.28125, -0.203125, 0.5625]
    """
    state, found = seed, []
    for _ in range(tokens * dim):
        state = (1_103_515_245 * state + 12_345) % 2**31
        found.append((state // 65_536 % 129 - 64) / 64)
    return torch.tensor(found, dtype=torch.float64).view(1, 1, tokens, dim)


def check(
    function: Callable[..., tuple[Tensor, Tensor]],
    vectors: Mapping[str, Any],
    layer: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> list[str]:
    """Return in words what `function` does otherwise than golden vectors: nothing if it is right.

    Args:
        function: `(q, k, positions) -> (q, k)` of whole heads (1, 1, t, d) and positions (t,), for
            several axes (t, n).
        vectors: What `vectors` returns, or `json.load` of its file.
        layer: The index of the layer whose vectors are meant; by default the first that rotates.
        dtype: Of q and k: torch.float32 or torch.bfloat16.
    """
    kinds = vectors["layers"]
    meant = [kind for kind in kinds if layer is None or layer in kind["indices"]]
    if not meant:
        known = sorted(index for kind in kinds for index in kind["indices"])
        raise ValueError(f"vectors: layer must be one of {known}, got {layer}; others do not turn")
    kind, near = meant[0], vectors["near"][str(dtype).removeprefix("torch.")]
    q, k = (torch.tensor(kind[name], dtype=dtype)[None, None] for name in ("q", "k"))
    made = function(q, k, torch.tensor(kind["positions"]))
    found = []
    for name, result in zip(("rotated_q", "rotated_k"), made, strict=True):
        expected = np.array(kind[name])
        if tuple(result.shape) != (1, 1, *expected.shape):
            found.append(
                f"{name} has shape {tuple(result.shape)}, expected (1, 1, *{expected.shape})"
            )
            continue
        off = np.abs(result.detach().double().numpy()[0, 0] - expected).max(axis=1)
        found += _beyond(name, off / np.abs(expected).max(axis=1), kind["positions"], near)
    return found


def _beyond(
    name: str, off: np.ndarray, positions: list[Any], near: Mapping[str, float]
) -> list[str]:
    allowed = near["relative"] + near["each position"] * np.array(positions).reshape(
        len(off), -1
    ).max(axis=1)
    rows = np.flatnonzero(~(off <= allowed))
    if not len(rows):
        return []
    row, allowed = rows[0], allowed[rows[0]]
    return [f"{name} is off by {off[row]:.2g} at {positions[row]}, allowed are {allowed:.2g}"]


def _one_part(read: Plan) -> Plan:
    while read.parts:
        texts = [name for name in read.parts if "text" in name or len(read.parts) == 1]
        if not texts:
            raise ValueError(
                f"vectors: config must be of a part of text, got {', '.join(read.parts)}; "
                "pass one part"
            )
        read = read.parts[texts[0]]
    return read


def _of(layer: Layer) -> dict[str, Any]:
    positions = _positions(getattr(layer.encoding, "axes", 1))
    q, k = (drawn(len(positions), layer.head_dim, seed) for seed in (1, 2))
    turned_q, turned_k = (rotated(layer, x, positions) for x in (q, k))
    longer = _query_scale(layer, positions)
    cos, sin = _turns(layer, positions)
    scored = turned_q if longer is None else turned_q * longer[:, None]
    said = layer.to_dict()
    names = ("kind", "layout", "head_dim", "slice", "theta", "factor", "sections", "softmax_scale")
    tensors = {"positions": positions, "cos": cos, "sin": sin, "query_scale": longer}
    heads = {"q": q, "k": k, "rotated_q": turned_q, "rotated_k": turned_k}
    heads["scores"] = layer.softmax_scale * scored @ turned_k.mT
    return {
        **{name: said[name] for name in names},
        "rotary_dim": 2 * len(said["theta"]),
        **{name: None if x is None else x.tolist() for name, x in tensors.items()},
        **{name: x[0, 0].tolist() for name, x in heads.items()},
    }


def _positions(axes: int) -> Tensor:
    if axes == 1:
        return torch.tensor(PLACES)
    if axes <= 3:
        return torch.tensor(AXES)[:, :axes]
    return torch.tensor(PLACES)[:, None].expand(-1, axes)


def _query_scale(layer: Layer, positions: Tensor) -> Tensor | None:
    """Return what queries are multiplied by, None for nothing and for what a model learns."""
    scale = layer.query_scale
    if scale is None or scale.kind == "head":
        return None
    return scale.factor(positions if positions.ndim == 1 else positions[:, 0])[0]


def _turns(layer: Layer, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return cos and sin (t, r/2) of each pair, times the factor: what a channel of 1 becomes."""
    pairs = len(layer.to_dict()["theta"])
    blocks = {"half": 1, "interleaved": pairs, "blocks": 2}[str(layer.layout)]
    first, second = torch.arange(2 * pairs).view(blocks, 2, -1).transpose(0, 1).reshape(2, -1)
    one = torch.zeros(
        1, 1, len(positions), layer.slice.stop - layer.slice.start, dtype=torch.float64
    )
    one[..., first] = 1.0
    turned = layer.encoding.turn(one, positions)[0, 0]
    return turned[:, first], turned[:, second]
