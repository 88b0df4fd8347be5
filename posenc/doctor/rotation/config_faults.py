"""The known ways to turn otherwise than a configuration says: what each would make of queries and keys."""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from posenc.config.layer import Layer
from posenc.doctor.rotation.fit_frequencies import BASES, near, yarn_factor
from posenc.models.from_config import LONGEST, TRAINED, from_config

SCALINGS = {
    "linear": "linear scaling",
    "dynamic": "dynamic NTK",
    "yarn": "YaRN",
    "longrope": "LongRoPE",
    "su": "LongRoPE",
    "llama3": "Llama 3's scaling",
}


class Turn(NamedTuple):
    """A rotation as numbers: frequencies, factor, layout, the first channel that turns, where position 0 stands."""

    theta: np.ndarray
    factor: float
    layout: str
    start: int
    shift: float = 0.0

    @property
    def width(self) -> int:
        """How many channels turn."""
        return 2 * len(self.theta)

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return `x` (..., t, d) turned, in float64."""
        angle = (positions.double() + self.shift)[:, None] * torch.tensor(self.theta)
        cos, sin = self.factor * angle.cos(), self.factor * angle.sin()
        pairs = torch.arange(len(self.theta))
        first = self.start + (2 * pairs if self.layout == "interleaved" else pairs)
        second = first + (1 if self.layout == "interleaved" else len(pairs))
        x = x.double()
        y = x.clone()
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., second] * cos + x[..., first] * sin
        return y


class Fault(NamedTuple):
    """A fault: its name, what the function does and should do, and what it changes of a Turn."""

    name: str
    words: str
    changed: dict[str, Any]


def width_of(layer: Layer) -> int:
    """Return how many channels of a head are given to the rotation of a layer."""
    return layer.slice.stop - layer.slice.start


def turn_of(layer: Layer, dim: int) -> Turn:
    """Return how a layer turns heads of `dim` channels: whole heads, or only the part that turns."""
    theta = np.zeros(0) if layer.theta is None else np.asarray(layer.theta)
    start = layer.slice.start if dim == layer.head_dim else 0
    return Turn(theta, layer.attention_factor, layer.layout or "half", start)


def faults(layer: Layer, said: Mapping[str, Any], dim: int) -> list[Fault]:
    """Return the faults that a function for `layer` may have, likeliest first, then each two of them.

    Args:
        layer: A layer of a plan, which rotates.
        said: The words for its type, as posenc.config.export.rope_parameters_by_layer_type has them.
        dim: The width of the heads that the function is given.
    """
    right = turn_of(layer, dim)
    single = [*_of_layout(right, layer, dim), *_of_scaling(right, layer, said), *_of_width(right, layer, said, dim)]
    single += [*_of_base(layer, said), *_of_positions(right)]
    both = []
    for one, other in combinations(single, 2):
        if not one.changed.keys() & other.changed.keys():
            words = f"{one.words}. Also {other.name}: {other.words}"
            both.append(Fault(f"{one.name} and {other.name}", words, one.changed | other.changed))
    return single + both


def _of_layout(right: Turn, layer: Layer, dim: int) -> Iterator[Fault]:
    other = {"half": "interleaved", "interleaved": "half"}[right.layout]
    pairs = {"half": "(i, i + r/2)", "interleaved": "(2i, 2i + 1)"}
    words = f"pairs are {pairs[other]} where the weights have {pairs[right.layout]}"
    yield Fault("layout wrong", words, {"layout": other})
    if right.width < dim:
        elsewhere, channels = (0, "first") if right.start else (dim - right.width, "last")
        words = f"the {channels} {right.width} channels turn where those from {right.start} should"
        yield Fault("slice wrong", words, {"start": elsewhere})


def _of_scaling(right: Turn, layer: Layer, said: Mapping[str, Any]) -> Iterator[Fault]:
    kind, width = said["rope_type"], width_of(layer)
    if kind not in SCALINGS:
        return
    name = SCALINGS[kind]
    theta, _ = _frequencies(_unscaled(said), width)
    yield Fault(f"{name} dropped", f"{kind} is in the config, and pairs turn at their own speed", _values(theta, 1.0))
    yield from _of_factor(right, said, name)
    if kind == "linear":
        words = f"positions are divided by {said['factor']:g} twice"
        yield Fault("factor applied twice", words, {"theta": right.theta / said["factor"]})
    if kind == "yarn":
        truncate = not said.get("truncate", True)
        theta, _ = _frequencies({**said, "truncate": truncate}, width)
        words = f"the ramp is {'' if truncate else 'not '}rounded to whole pairs, and the config says otherwise"
        yield Fault("truncate ignored", words, {"theta": theta})
    yield from _of_lengths(said, width)


def _of_lengths(said: Mapping[str, Any], width: int) -> Iterator[Fault]:
    """Return what a reader may take for the trained length, or for that of the text."""
    if said["rope_type"] in ("longrope", "su"):
        for length in (10, 1_000_000_000):
            theta, factor = _frequencies(said, width, length)
            words = "short_factor and long_factor are exchanged, or chosen by another length"
            yield Fault("wrong list of factors", words, _values(theta, factor))
    if said.get(LONGEST) and said.get(TRAINED) not in (None, said[LONGEST]):
        theta, factor = _frequencies({**said, TRAINED: said[LONGEST]}, width)
        words = f"{LONGEST} passes for {TRAINED}, {said[TRAINED]:,}"
        yield Fault("trained length ignored", words, _values(theta, factor))


def _of_factor(right: Turn, said: Mapping[str, Any], name: str) -> Iterator[Fault]:
    """Return what may happen to the attention factor, which belongs once into cos and sin."""
    if not near(right.factor, 1):
        words = f"cos and sin are multiplied by 1 in place of {right.factor:.4f}"
        yield Fault(f"attention factor of {name} dropped", words, {"factor": 1.0})
        words = f"cos and sin are multiplied by {right.factor**2:.4f}, the square of {right.factor:.4f}"
        yield Fault("factor applied twice", words, {"factor": right.factor**2})
        words = f"cos and sin are divided by {right.factor:.4f}"
        yield Fault("factor upside down", words, {"factor": 1 / right.factor})
    elif "mscale_all_dim" in said:
        factor = yarn_factor(said["factor"], said["mscale_all_dim"])
        words = f"cos and sin are multiplied by {factor:.4f}, which the softmax scale has already"
        yield Fault("factor applied twice", words, {"factor": factor})


def _of_width(right: Turn, layer: Layer, said: Mapping[str, Any], dim: int) -> Iterator[Fault]:
    width, turning = width_of(layer), len(right.theta)
    rest = _without(said, "partial_rotary_factor")
    if said["rope_type"] == "proportional":
        rest = {**rest, "rope_type": "default"}
        theta, _ = _frequencies({**said, "rope_type": "default"}, width)
        words = f"{2 * len(theta)} channels turn with exponents of their own, where all pair and slow ones rest"
        yield Fault("partial in place of proportional", words, {"theta": theta})
    whole, _ = _frequencies(rest, width)
    if rest != said:
        words = f"{width} channels turn where the config says {said['partial_rotary_factor']:g} of them"
        yield Fault("partial ignored", words, {"theta": whole})
    if right.width < width:
        words = f"exponents are -2i/{width} where {right.width} channels turn"
        yield Fault("exponents of the whole head", words, {"theta": whole[:turning]})
        words = "all channels pair and slow ones rest, where the first ones turn by themselves"
        resting = whole * (np.arange(len(whole)) < turning)
        yield Fault("proportional in place of partial", words, {"theta": resting})
    if width < dim:
        whole, _ = _frequencies(rest, dim)
        words = f"all {dim} channels of the head turn where {width} should"
        yield Fault("slice ignored", words, {"theta": whole, "start": 0})


def _of_base(layer: Layer, said: Mapping[str, Any]) -> Iterator[Fault]:
    width, base = width_of(layer), said["rope_theta"]
    for other in BASES:
        if other != base:
            theta, _ = _frequencies({**said, "rope_theta": other}, width)
            words = f"pairs turn with base {other:,.0f} where the config has {base:,.0f}"
            yield Fault("base wrong", words, {"theta": theta})
            if name := SCALINGS.get(said["rope_type"]):
                theta, _ = _frequencies({**_unscaled(said), "rope_theta": other}, width)
                yield Fault(f"base wrong and {name} dropped", words, _values(theta, 1.0))


def _of_positions(right: Turn) -> Iterator[Fault]:
    yield Fault("positions off by one", "position 0 is turned as 1 should be: counting starts at 1", {"shift": 1.0})
    yield Fault("positions off by one", "position 1 is turned as 0 should be: counting starts at -1", {"shift": -1.0})
    yield Fault("sign reversed", "the sine has the other sign: pairs turn backwards", {"theta": -right.theta})
    yield Fault("no rotation", "nothing turns", _values(0 * right.theta, 1.0))


def _values(theta: np.ndarray, factor: float) -> dict[str, Any]:
    return {"theta": theta, "factor": factor}


def _unscaled(said: Mapping[str, Any]) -> dict[str, Any]:
    return {**_without(said, TRAINED, "factor"), "rope_type": "default"}


def _without(said: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in names}


def _frequencies(said: Mapping[str, Any], width: int, length: int | None = None) -> tuple[np.ndarray, float]:
    read: Callable[..., tuple[np.ndarray, float]] = from_config
    return read({"rope_parameters": dict(said)}, width, length)
