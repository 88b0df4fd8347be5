"""The known ways to rotate otherwise than a configuration says: the queries or keys that each would result in."""

from collections.abc import Iterator, Mapping
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
PAIRS = {"half": "(i, i + r/2)", "interleaved": "(2i, 2i + 1)"}


class Turn(NamedTuple):
    """A rotation: frequencies, attention factor, layout, the first channel that rotates, the position of token 0."""

    theta: np.ndarray
    factor: float
    layout: str
    start: int
    first_position: float = 0.0

    @property
    def width(self) -> int:
        """How many channels rotate."""
        return 2 * len(self.theta)

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return `x` (..., t, d) rotated, in float64."""
        x = x.double()  # (..., t, d)
        angle = (positions.double() + self.first_position)[:, None] * torch.tensor(self.theta)  # (t, n)
        cos, sin = self.factor * angle.cos(), self.factor * angle.sin()
        channels = self.start + torch.arange(self.width)
        first, second = channels.view(-1, 2).T if self.layout == "interleaved" else channels.view(2, -1)  # (n,), (n,)
        y = x.clone()
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., second] * cos + x[..., first] * sin
        return y


class Fault(NamedTuple):
    """A fault: its name, what the function does and should do, and what it changes of a Turn."""

    name: str
    sentence: str
    changed: dict[str, Any]


def width_of(layer: Layer) -> int:
    """Return how many channels of a head are passed to the rotation of a layer."""
    return layer.slice.stop - layer.slice.start


def turn_of(layer: Layer, dim: int) -> Turn:
    """Return how a layer rotates heads of `dim` channels: whole heads, or only the part that rotates."""
    # A whole head of latent attention has channels before those that rotate.
    start = layer.slice.start if dim == layer.head_dim else 0
    return Turn(np.asarray(layer.theta), layer.attention_factor, layer.layout or "half", start)


def faults(layer: Layer, parameters: Mapping[str, Any], dim: int) -> list[Fault]:
    """Return the faults that a function for `layer`, which rotates, may have, likeliest first, then each two of them.

    `parameters` are of its type, by posenc.config.export.rope_parameters_by_layer_type; heads have `dim` channels.
    """
    right, width = turn_of(layer, dim), width_of(layer)
    single = [*_of_layout(right, dim), *_of_scaling(right, width, parameters), *_of_lengths(width, parameters)]
    single += [*_of_width(right, width, dim, parameters), *_of_base(width, parameters), *_of_positions(right)]
    double = []
    for first, second in combinations(single, 2):
        # Two that change the same, such as the frequencies, cannot be combined.
        if not first.changed.keys() & second.changed.keys():
            sentence = f"{first.sentence}. Also {second.name}: {second.sentence}"
            double.append(Fault(f"{first.name} and {second.name}", sentence, first.changed | second.changed))
    return single + double


def _of_layout(right: Turn, dim: int) -> Iterator[Fault]:
    other = "half" if right.layout == "interleaved" else "interleaved"
    yield Fault("layout wrong", f"pairs are {PAIRS[other]}, the weights have {PAIRS[right.layout]}", {"layout": other})
    if right.width < dim:
        start = 0 if right.start else dim - right.width
        sentence = f"channels from {start} on rotate, those from {right.start} should"
        yield Fault("slice wrong", sentence, {"start": start})


def _of_scaling(right: Turn, width: int, parameters: Mapping[str, Any]) -> Iterator[Fault]:
    rope_type = parameters["rope_type"]
    if rope_type not in SCALINGS:
        return
    scaling = SCALINGS[rope_type]
    theta = _theta(parameters, width, rope_type="default")
    sentence = f"{rope_type} is in the config, and frequencies are not scaled"
    yield Fault(f"{scaling} dropped", sentence, {"theta": theta, "factor": 1.0})
    factors = {}
    # The attention factor belongs once into cos and sin, or into the softmax scale.
    if not near(right.factor, 1):
        factors[f"attention factor of {scaling} dropped"] = 1.0
        factors |= {"factor applied twice": right.factor**2, "factor inverted": 1 / right.factor}
    elif "mscale_all_dim" in parameters:
        factors["factor applied twice"] = yarn_factor(parameters["factor"], parameters["mscale_all_dim"])
    for name, factor in factors.items():
        sentence = f"cos and sin are multiplied by {factor:.4f} in place of {right.factor:.4f}"
        yield Fault(name, sentence, {"factor": factor})
    # The factor divides positions or frequencies: code that does both divides angles twice.
    if rope_type == "linear":
        sentence = f"positions are divided by {parameters['factor']:g} twice"
        yield Fault("factor applied twice", sentence, {"theta": right.theta / parameters["factor"]})
    if rope_type == "yarn":
        truncate = not parameters.get("truncate", True)
        sentence = f"the ramp is {'' if truncate else 'not '}rounded to whole pairs, and the config says otherwise"
        yield Fault("truncate ignored", sentence, {"theta": _theta(parameters, width, truncate=truncate)})


def _of_lengths(width: int, parameters: Mapping[str, Any]) -> Iterator[Fault]:
    if parameters["rope_type"] in ("longrope", "su"):
        sentence = "short_factor and long_factor are exchanged, or chosen by another length"
        # The list depends on the length of the text: one below and one above the trained length.
        for length in (10, 1_000_000_000):
            yield Fault("wrong list of factors", sentence, _scaled(parameters, width, length))
    trained, longest = parameters.get(TRAINED), parameters.get(LONGEST)
    if parameters["rope_type"] in SCALINGS and longest and trained and trained != longest:
        sentence = f"{LONGEST} is used in place of {TRAINED}, {trained:,}"
        yield Fault("trained length ignored", sentence, _scaled(parameters, width, **{TRAINED: longest}))


def _of_width(right: Turn, width: int, dim: int, parameters: Mapping[str, Any]) -> Iterator[Fault]:
    whole = {name: value for name, value in parameters.items() if name != "partial_rotary_factor"}
    if parameters["rope_type"] == "proportional":
        whole["rope_type"] = "default"
        theta = _theta(parameters, width, rope_type="default")
        sentence = f"{2 * len(theta)} channels rotate by themselves, where all pair and low frequencies are 0"
        yield Fault("partial in place of proportional", sentence, {"theta": theta})
    theta = _theta(whole, width)
    if whole != parameters:
        sentence = f"{width} channels rotate where the config says {parameters['partial_rotary_factor']:g} of them"
        yield Fault("partial ignored", sentence, {"theta": theta})
    # Exponents over the width of the head in place of r: frequencies fall too slowly from pair to pair.
    if right.width < width:
        pairs = len(right.theta)
        sentence = f"exponents are -2i/{width} where {right.width} channels rotate"
        yield Fault("exponents of the whole head", sentence, {"theta": theta[:pairs]})
        sentence = "all channels pair and low frequencies are 0, where the first ones rotate by themselves"
        # Proportional: pairs are (i, i + d/2), where partial rotation has (i, i + r/2) in the first r channels.
        padded = np.where(np.arange(len(theta)) < pairs, theta, 0)
        yield Fault("proportional in place of partial", sentence, {"theta": padded})
    if width < dim:
        sentence = f"all {dim} channels of the head rotate where {width} should"
        yield Fault("slice ignored", sentence, {"theta": _theta(whole, dim), "start": 0})


def _of_base(width: int, parameters: Mapping[str, Any]) -> Iterator[Fault]:
    scaling = SCALINGS.get(parameters["rope_type"])
    for base in BASES:
        if base == parameters["rope_theta"]:
            continue
        sentence = f"frequencies have base {base:,.0f} where the config has {parameters['rope_theta']:,.0f}"
        yield Fault("base wrong", sentence, {"theta": _theta(parameters, width, rope_theta=base)})
        if scaling:
            theta = _theta(parameters, width, rope_theta=base, rope_type="default")
            yield Fault(f"base wrong and {scaling} dropped", sentence, {"theta": theta, "factor": 1.0})


def _of_positions(right: Turn) -> Iterator[Fault]:
    # Logits stay, for offsets do: it is wrong where another part, such as a cache, counts from 0.
    for first in (1, -1):
        yield Fault("positions off by one", f"positions are counted from {first}", {"first_position": float(first)})
    yield Fault("sign reversed", "the sine has the other sign: angles are negative", {"theta": -right.theta})
    yield Fault("no rotation", "nothing rotates", {"theta": 0 * right.theta, "factor": 1.0})


def _theta(parameters: Mapping[str, Any], width: int, **changed: Any) -> np.ndarray:
    return _scaled(parameters, width, **changed)["theta"]


def _scaled(parameters: Mapping[str, Any], width: int, length: int | None = None, **changed: Any) -> dict[str, Any]:
    """Return the frequencies and the attention factor of a config with these rope parameters, some of them changed."""
    theta, factor = from_config({"rope_parameters": {**parameters, **changed}}, width, length)
    return {"theta": theta, "factor": factor}
