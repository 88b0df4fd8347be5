"""Compare a rotation with the layers of a configuration, and where it differs, with each known fault."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.config.export import rope_parameters_by_layer_type
from posenc.config.layer import Layer, Plan
from posenc.config.plan import plan
from posenc.doctor.call.code import Code
from posenc.doctor.call.identify import identify
from posenc.doctor.numerics import random, relative_difference, worst
from posenc.doctor.report import Finding, note, passed, with_check_name, wrong
from posenc.doctor.rotation.config_faults import Fault, Turn, faults, turn_of, width_of
from posenc.doctor.rotation.fit_frequencies import near
from posenc.doctor.rotation.measure import Rotation
from posenc.doctor.safe_call import attempt
from posenc.models.from_config import LONGEST

POSITIONS = (5, 7, 17, 40, 100, 333, 777, 2000)
POSITIONS_OF_SHORT_TEXTS = (5, 7, 17, 21, 33, 50, 64, 89)
TOLERANCE = 3e-3  # relative to the largest number: what angles in float32 may be off by at these positions
RIGHT, UNKNOWN = Fault("right", "as the config describes", {}), Fault("", "", {})


class Side(NamedTuple):
    """Queries or keys as the code rotated them: content and result (1, h, t, d), and positions (t,)."""

    name: str
    x: Tensor
    y: Tensor
    positions: Tensor

    def difference(self, expected: Turn) -> float:
        """Return how far the result is from that of a rotation, relative to the largest number."""
        return relative_difference(self.y, expected(self.x, self.positions))


def examine(
    function: Any, dim: int | None, heads: int | None, order: str | None, config: Any, layer: int | None
) -> tuple[Code, list[Finding]]:
    """Return the code as it is called for the heads of `config`, and how it differs from its layers.

    Raises:
        ValueError: If the function cannot be called as a rotation of such heads, or no layer of the config rotates.
    """
    text = _text_part(plan(config))
    layers = _distinct_layers(text, layer)
    others = [] if layer is None else _distinct_layers(text, None)
    parameters = _rope_parameters(config, text)
    widths = _widths_to_try(layers, dim)
    identified = {width: attempt(identify, function, "rotation", width, heads, order) for width in widths}
    compared: list[tuple[Code, Finding]] = []
    for width, (kind_and_code, failed) in identified.items():
        if not failed:
            code = kind_and_code[1]
            fitting, other = ([one for one in each if width in _widths(one)] for each in (layers, others))
            compared.append((code, _compare(_sides(code), fitting, other, parameters)))
    if not compared:
        first_failure = identified[widths[0]][1]
        raise ValueError(f"doctor: function must be a rotation of heads of {widths} channels, got {first_failure}")
    right = [pair for pair in compared if not pair[1].is_wrong]
    code, finding = (right or compared)[0]
    return code, [with_check_name(finding, "config"), *_beside_the_rotation(text, layers)]


def _rope_parameters(config: Any, text: Plan) -> dict[str, Any]:
    """Return the rope parameters of each type of layer, as transformers names them; {} where it has no names."""
    by_type, _ = attempt(rope_parameters_by_layer_type, config)
    longest = {} if text.trained is None else {LONGEST: text.trained}
    return {layer_type: {**longest, **parameters} for layer_type, parameters in (by_type or {}).items()}


def _text_part(whole: Plan) -> Plan:
    while whole.parts:
        texts = [name for name in whole.parts if "text" in name] or [*whole.parts]
        if len(texts) > 1:
            raise ValueError(f"doctor: config must be of a part of text, got {', '.join(whole.parts)}; pass one part")
        whole = whole.parts[texts.pop()]
    return whole


def _distinct_layers(text: Plan, layer: int | None) -> list[Layer]:
    """Return one of all layers that rotate alike, or the one that is asked for."""
    distinct: dict[Any, Layer] = {}
    rotating = [one for one in text.layers if one.theta is not None]
    for one in rotating:
        if layer in (None, one.index):
            key = (one.attention_factor, one.slice.start, one.slice.stop, turn_of(one, 0).theta.tobytes())
            distinct.setdefault(key, one)
    if not distinct:
        indices = [one.index for one in rotating] or "none here"
        raise ValueError(f"doctor: layer must be one that rotates, {indices}, got {layer}")
    return list(distinct.values())


def _widths(layer: Layer) -> tuple[int, ...]:
    """Return the width of a head, of the part that is passed to the rotation, and of the channels that rotate."""
    return layer.head_dim, width_of(layer), turn_of(layer, layer.head_dim).width


def _widths_to_try(layers: list[Layer], dim: int | None) -> list[int]:
    """Return the widths of heads, and of parts passed to a rotation, the widest first; or the one asked for."""
    known = {width for layer in layers for width in _widths(layer)}
    if dim and dim not in known:
        raise ValueError(f"doctor: dim must be one of {sorted(known)} with this config, got {dim}")
    widths = {width for layer in layers for width in _widths(layer)[:2]}
    return [dim] if dim else sorted(widths, reverse=True)


def _sides(code: Code) -> list[Side]:
    """Return the results of the code for queries and for keys, where it tells them apart."""
    rotate = Rotation(code)
    sides = []
    x = random(1, code.heads, len(POSITIONS), code.dim, seed=4)
    for name in ("queries", "keys") if code.takes("q", "k") else ("",):
        positions = torch.tensor(POSITIONS)
        y, failed = attempt(rotate, x, positions, name == "keys")
        if failed:
            positions = torch.tensor(POSITIONS_OF_SHORT_TEXTS)
            y = rotate(x, positions, name == "keys")
        sides.append(Side(name, x, y.detach().double(), positions))
    return sides


def _difference(sides: list[Side], layer: Layer) -> float:
    return worst(*(side.difference(turn_of(layer, side.x.shape[-1])) for side in sides))


def _compare(sides: list[Side], layers: list[Layer], others: list[Layer], parameters: dict[str, Any]) -> Finding:
    """Say of which layer the rotation is, or of which other layer, or under which fault."""
    dim = sides[0].x.shape[-1]
    for place, layer in enumerate((*layers, *others)):
        difference = _difference(sides, layer)
        if not difference < TOLERANCE:
            continue
        if place >= len(layers):
            base = f", base {layer.base:,.0f}" if layer.base else ""
            sentence = f"another layer: rotates as layer {layer.index} ({layer.layer_type}{base}), not as the given one"
            return wrong("against-config", sentence, difference)
        of_type = f" of {layer.layer_type}" if len(layers) > 1 else ""
        part = f", for the {dim} channels that rotate of a head of {layer.head_dim}" if dim < layer.head_dim else ""
        return passed(f"rotates as the layers{of_type} that the config describes{part}", difference)
    explained = [_explain(side, layers, parameters) for side in sides]
    if all(fault is UNKNOWN for fault, _ in explained):
        for layer in layers:
            difference = _logits_difference(sides[0], sides[-1], turn_of(layer, dim))
            if difference < TOLERANCE:
                sentence = "logits are those of the layers that the config describes, in another order of channels"
                return passed(f"{sentence}: rotate queries and keys alike", difference)
    sentences = [_sentence(fault, difference) for fault, difference in explained]
    if len({fault.name for fault, _ in explained}) > 1:
        sentences = ["; ".join(f"{side.name}: {sentence}" for side, sentence in zip(sides, sentences, strict=True))]
    return wrong("against-config", sentences[0], worst(*(difference for _, difference in explained)))


def _logits_difference(q: Side, k: Side, expected: Turn) -> float:
    logits, _ = attempt(torch.matmul, q.y, k.y.mT)
    return relative_difference(logits, expected(q.x, q.positions) @ expected(k.x, k.positions).mT)


def _explain(side: Side, layers: list[Layer], parameters: dict[str, Any]) -> tuple[Fault, float]:
    """Return the fault that explains one side, or RIGHT or UNKNOWN, and how far the side is from the layers."""
    differences = []
    dim = side.x.shape[-1]
    for layer in layers:
        difference = _difference([side], layer)
        if difference < TOLERANCE:
            return RIGHT, difference
        differences.append(difference)
        known = faults(layer, parameters[layer.layer_type], dim) if layer.layer_type in parameters else []
        for fault in known:
            faulty = turn_of(layer, dim)._replace(**fault.changed)
            if faulty.start + faulty.width <= dim and side.difference(faulty) < TOLERANCE:
                return fault, difference
    return UNKNOWN, min(differences)


def _sentence(fault: Fault, difference: float) -> str:
    if fault is not UNKNOWN:
        return f"{fault.name}: {fault.sentence}"
    sentence = f"differs from the config by {difference:.2g} of the largest number, under no fault that is known"
    return f"{sentence}: compare layout, frequencies and norm below with `posenc read` of the config"


def _beside_the_rotation(text: Plan, layers: list[Layer]) -> list[Finding]:
    """Return what else the model does with positions, which is not seen in a rotation."""
    sentences = []
    scale = layers[0].softmax_scale
    usual = layers[0].head_dim ** -0.5
    unrotated = [one for one in text.layers if one.theta is None]
    if unrotated:
        indices = ", ".join(str(one.index) for one in unrotated)
        sentences.append(f"layers {indices} do not rotate: {unrotated[0].why}")
    if not near(scale, usual):
        sentences.append(f"logits are scaled by {scale:.5g}, not by 1/sqrt(d) = {usual:.5g}")
    if any(one.query_scale is not None for one in text.layers):
        sentences.append("queries are scaled by their position besides")
    finding = note(f"not seen in a rotation: {'; '.join(sentences)}")
    return [with_check_name(finding, "beside the rotation")] if sentences else []
