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
RIGHT = Fault("right", "as the config describes", {})
COMPARE = "compare layout, frequencies and norm below with `posenc read` of the config"
UNKNOWN = Fault("differs from the config, under no fault that is known", COMPARE, {})


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
    identified = [attempt(identify, function, "rotation", width, heads, order) for width in widths]
    codes = [kind_and_code[1] for kind_and_code, failed in identified if not failed]
    if not codes:
        first_failure = identified[0][1]
        raise ValueError(f"doctor: function must be a rotation of heads of {widths} channels, got {first_failure}")
    # Latent attention rotates a part of a head, which is passed alone or in its head: one width that fits is enough.
    compared = [(code, _compare(code, layers, others, parameters)) for code in codes]
    code, finding = min(compared, key=lambda pair: pair[1].is_wrong)
    return code, [with_check_name(finding, "config"), *_beside_the_rotation(text, layers)]


def _rope_parameters(config: Any, text: Plan) -> dict[str, Any]:
    """Return the rope parameters of each type of layer, as transformers names them; {} where it has no names."""
    # Of a configuration without these names layers are compared, and no fault is named.
    by_type, _ = attempt(rope_parameters_by_layer_type, config)
    longest = {} if text.trained is None else {LONGEST: text.trained}
    return {layer_type: {**longest, **parameters} for layer_type, parameters in (by_type or {}).items()}


def _text_part(whole: Plan) -> Plan:
    # A vision tower rotates by rows and columns, which are not compared here.
    while whole.parts:
        texts = [name for name in whole.parts if "text" in name] or [*whole.parts]
        if len(texts) > 1:
            raise ValueError(f"doctor: config must be of a part of text, got {', '.join(whole.parts)}; pass one part")
        whole = whole.parts[texts.pop()]
    return whole


def _distinct_layers(text: Plan, layer: int | None) -> list[Layer]:
    """Return one of all layers that rotate alike, or the one that is asked for."""
    distinct: dict[Any, Layer] = {}
    rotating = [candidate for candidate in text.layers if candidate.theta is not None]
    for candidate in rotating:
        if layer in (None, candidate.index):
            # Layers that rotate alike: the same factor, channels and frequencies, whose bytes can be a key.
            part = candidate.slice
            key = (candidate.attention_factor, part.start, part.stop, turn_of(candidate, 0).theta.tobytes())
            distinct.setdefault(key, candidate)
    if not distinct:
        indices = [candidate.index for candidate in rotating] or "none here"
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
    # The rotary width alone is tried only where it is asked for: functions of any width would take it too.
    widths = {width for layer in layers for width in _widths(layer)[:2]}
    return [dim] if dim else sorted(widths, reverse=True)


def _sides(code: Code) -> list[Side]:
    """Return the results of the code for queries and for keys, where it tells them apart."""
    rotate = Rotation(code)
    x = random(1, code.heads, len(POSITIONS), code.dim, seed=4)  # (1, h, t, d)
    positions = torch.tensor(POSITIONS)  # (t,)
    # Low frequencies show at far positions, unless the table of the code ends before them.
    if attempt(rotate, x, positions)[1]:
        positions = torch.tensor(POSITIONS_OF_SHORT_TEXTS)
    names = ("queries", "keys") if code.takes("q", "k") else ("",)
    return [Side(name, x, rotate(x, positions, name == "keys").detach().double(), positions) for name in names]


def _compare(code: Code, layers: list[Layer], others: list[Layer], parameters: dict[str, Any]) -> Finding:
    """Say of which layer the rotation is, or of which other layer, or under which fault."""
    dim = code.dim
    sides = _sides(code)
    fitting = [layer for layer in layers if dim in _widths(layer)]
    for layer in fitting:
        difference = _difference(sides, layer)
        if difference < TOLERANCE:
            of_type = f" of {layer.layer_type}" if len(fitting) > 1 else ""
            part = f", for the {dim} channels that rotate of a head of {layer.head_dim}" if dim < layer.head_dim else ""
            return passed(f"rotates as the layers{of_type} that the config describes{part}", difference)
    for layer in others:
        if dim in _widths(layer) and _difference(sides, layer) < TOLERANCE:
            base = f", base {layer.base:,.0f}" if layer.base else ""
            sentence = f"another layer: rotates as layer {layer.index} ({layer.layer_type}{base}), not as the given one"
            return wrong("against-config", sentence, _difference(sides, layer))
    return _faulty(sides, fitting, parameters)


def _difference(sides: list[Side], layer: Layer) -> float:
    return worst(*(side.difference(turn_of(layer, side.x.shape[-1])) for side in sides))


def _faulty(sides: list[Side], layers: list[Layer], parameters: dict[str, Any]) -> Finding:
    """Name the fault that each side has, unless both sides together have the logits of a layer."""
    q, k = sides[0], sides[-1]
    explained = [_explain(side, layers, parameters) for side in sides]
    if all(fault is UNKNOWN for fault, _ in explained):
        # Logits are sums over channels: any order of channels, the same in queries and keys, leaves them as they are.
        logits, _ = attempt(torch.matmul, q.y, k.y.mT)
        for layer in layers:
            right = turn_of(layer, q.x.shape[-1])
            difference = relative_difference(logits, right(q.x, q.positions) @ right(k.x, k.positions).mT)
            if difference < TOLERANCE:
                sentence = "logits are those of the layers that the config describes, in another order of channels"
                return passed(f"{sentence}: rotate queries and keys alike", difference)
    sentences = [f"{fault.name}: {fault.sentence}" for fault, _ in explained]
    if len({fault.name for fault, _ in explained}) > 1:
        sentences = ["; ".join(f"{side.name}: {sentence}" for side, sentence in zip(sides, sentences, strict=True))]
    return wrong("against-config", sentences[0], worst(*(difference for _, difference in explained)))


def _explain(side: Side, layers: list[Layer], parameters: dict[str, Any]) -> tuple[Fault, float]:
    """Return the fault that explains one side, or RIGHT or UNKNOWN, and how far the side is from the layers."""
    differences = []
    dim = side.x.shape[-1]
    for layer in layers:
        right = turn_of(layer, dim)
        difference = side.difference(right)
        if difference < TOLERANCE:
            return RIGHT, difference
        differences.append(difference)
        known = faults(layer, parameters[layer.layer_type], dim) if layer.layer_type in parameters else []
        for fault in known:
            faulty = right._replace(**fault.changed)
            # A fault for wider heads would rotate channels that these heads do not have.
            if faulty.start + faulty.width <= dim and side.difference(faulty) < TOLERANCE:
                return fault, difference
    return UNKNOWN, min(differences)


def _beside_the_rotation(text: Plan, layers: list[Layer]) -> list[Finding]:
    # The softmax scale may hold an attention factor, such as YaRN's, that the rotation then must not apply.
    sentences = []
    scale = layers[0].softmax_scale
    usual = layers[0].head_dim ** -0.5
    unrotated = [layer for layer in text.layers if layer.theta is None]
    if unrotated:
        indices = ", ".join(str(layer.index) for layer in unrotated)
        sentences.append(f"layers {indices} do not rotate: {unrotated[0].why}")
    if not near(scale, usual):
        sentences.append(f"logits are scaled by {scale:.5g}, not by 1/sqrt(d) = {usual:.5g}")
    if any(layer.query_scale is not None for layer in text.layers):
        sentences.append("queries are scaled by their position besides")
    finding = note(f"not seen in a rotation: {'; '.join(sentences)}")
    return [with_check_name(finding, "beside the rotation")] if sentences else []
