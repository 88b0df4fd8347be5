"""Compare a rotation with the layers of a configuration, and if unlike, with them under each known fault."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.config.export import rope_parameters_by_layer_type
from posenc.config.layer import Layer, Plan
from posenc.config.plan import plan
from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import Code
from posenc.doctor.call.identify import identify
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, note, passed, with_check_name, wrong
from posenc.doctor.rotation.config_faults import Fault, Turn, faults, turn_of, width_of
from posenc.doctor.rotation.fit_frequencies import near
from posenc.doctor.rotation.measure_angles import Rotation
from posenc.models.from_config import LONGEST

PLACES = (5, 7, 17, 40, 100, 333, 777, 2000)
FEWER = (5, 7, 17, 21, 33, 50, 64, 89)  # for code that is made for short texts
NEAR = 3e-3  # of the largest number: what angles in float32 may differ by at these positions


class Side(NamedTuple):
    """Queries or keys as the code turned them: content and result (1, h, t, d), and where they stand."""

    name: str
    x: Tensor
    y: Tensor
    positions: Tensor


def examine(
    function: Any, dim: int | None, heads: int | None, order: str | None, config: Any, layer: int | None
) -> tuple[Code, list[Finding]]:
    """Return the code as it is called for the heads of `config`, and what it does otherwise than its layers.

    Raises:
        ValueError: If the function cannot be called as a rotation of such heads, or no layer of the config rotates.
    """
    read = _one_part(plan(config))
    layers = _distinct(read, layer)
    others = [] if layer is None else _distinct(read, None)
    said = _words(config, read)
    widths = _to_try(layers, dim)
    tried, failed = [], ""
    for width in widths:
        recognized, why = attempt(identify, function, "rotation", width, heads, order)
        if not recognized:
            failed = failed or why
            continue
        _, code = recognized
        sides = _sides(code)
        found = _compared(sides, [one for one in layers if width in _widths(one)], said)
        if found.verdict == "wrong":
            found = _as_another(sides, [one for one in others if width in _widths(one)]) or found
        tried.append((code, found))
    if not tried:
        raise ValueError(f"doctor: function must be a rotation of heads of {widths} channels, got {failed}")
    code, found = min(tried, key=lambda one: one[1].verdict == "wrong")
    return code, [with_check_name(found, "config"), *_beside(read, layers)]


def _words(config: Any, read: Plan) -> dict[str, Any]:
    """Return what the config says of each type of layer, in words of transformers; nothing if these do not do."""
    found, _ = attempt(rope_parameters_by_layer_type, config)
    longest = {} if read.trained is None else {LONGEST: read.trained}
    return {layer_type: {**longest, **said} for layer_type, said in (found or {}).items()}


def _one_part(read: Plan) -> Plan:
    while read.parts:
        texts = [name for name in read.parts if "text" in name] or [*read.parts]
        if len(texts) > 1:
            raise ValueError(f"doctor: config must be of a part of text, got {', '.join(read.parts)}; pass one part")
        read = read.parts[texts.pop()]
    return read


def _distinct(read: Plan, layer: int | None) -> list[Layer]:
    """Return one of all layers that rotate alike, or the one that is asked for."""
    distinct: dict[Any, Layer] = {}
    for one in read.layers:
        if one.theta is not None and layer in (None, one.index):
            distinct.setdefault((one.attention_factor, one.slice.start, one.slice.stop, one.theta.tobytes()), one)
    if not distinct:
        turning = [one.index for one in read.layers if one.theta is not None]
        raise ValueError(f"doctor: layer must be one that rotates, {turning or 'none here'}, got {layer}")
    return list(distinct.values())


def _widths(layer: Layer) -> tuple[int, ...]:
    """Return the width of a head, of the part that is given to the rotation, and of what turns."""
    return layer.head_dim, width_of(layer), turn_of(layer, layer.head_dim).width


def _to_try(layers: list[Layer], dim: int | None) -> list[int]:
    """Return the widths of heads, and of parts given to a rotation, the widest first; or the one that is asked for."""
    known = {width for one in layers for width in _widths(one)}
    if dim and dim not in known:
        raise ValueError(f"doctor: dim must be one of {sorted(known)} with this config, got {dim}")
    return [dim] if dim else sorted({width for one in layers for width in (one.head_dim, width_of(one))}, reverse=True)


def _sides(code: Code) -> list[Side]:
    """Return what the code makes of queries and of keys, where it tells them apart."""
    rotate, sides = Rotation(code), []
    x = random(1, code.heads, len(PLACES), code.dim, seed=4)
    for name in ("queries", "keys") if code.takes("q", "k") else ("",):
        positions = torch.tensor(PLACES)
        y, failed = attempt(rotate, x, positions, name == "keys")
        if failed:
            positions = torch.tensor(FEWER)
            y = rotate(x, positions, name == "keys")
        sides.append(Side(name, x, y.detach().double(), positions))
    return sides


def _off(sides: list[Side], layer: Layer) -> float:
    """Return how far the sides are from those of a layer, relative to the largest number."""
    return max(relative_difference(side.y, turn_of(layer, side.x.shape[-1])(side.x, side.positions)) for side in sides)


def _compared(sides: list[Side], layers: list[Layer], said: dict[str, Any]) -> Finding:
    dim = sides[0].x.shape[-1]
    for layer in layers:
        if (off := _off(sides, layer)) < NEAR:
            which = f" of {layer.layer_type}" if len(layers) > 1 else ""
            part = f", given the {dim} channels that turn of a head of {layer.head_dim}" if dim < layer.head_dim else ""
            return passed(f"turns as the layers{which} that the config describes{part}", off)
    explained = [_explained(side, layers, said) for side in sides]
    if not any(fault.name for fault, _ in explained):
        for layer in layers:
            if (off := _logits_off(sides[0], sides[-1], turn_of(layer, dim))) < NEAR:
                words = "logits are those of the layers that the config describes, by another order of channels"
                return passed(f"{words}: send queries and keys through it alike", off)
    told = [f"{side.name}: {_told(*one)}" for side, one in zip(sides, explained, strict=True)]
    if len({fault.name for fault, _ in explained}) == 1:
        told = [_told(*explained[0])]
    return wrong("against-config", "; ".join(told), max(off for _, off in explained))


def _as_another(sides: list[Side], others: list[Layer]) -> Finding | None:
    """Return that the code is right for other layers of the config, if it is."""
    for other in others:
        if (off := _off(sides, other)) < NEAR:
            base = f", base {other.base:,.0f}" if other.base else ""
            words = f"another layer: turns as layer {other.index} ({other.layer_type}{base}), not as the one meant"
            return wrong("against-config", words, off)
    return None


def _logits_off(q: Side, k: Side, right: Turn) -> float:
    """Return how far the logits of queries and keys are from what they should be."""
    logits, _ = attempt(torch.matmul, q.y, k.y.mT)
    return relative_difference(logits, right(q.x, q.positions) @ right(k.x, k.positions).mT)


def _explained(side: Side, layers: list[Layer], said: dict[str, Any]) -> tuple[Fault, float]:
    """Return the fault that explains one side, with how far the side is from the plan; one without name if none."""
    offs, dim = [], side.x.shape[-1]
    for layer in layers:
        offs.append(_off([side], layer))
        if offs[-1] < NEAR:
            return Fault("right", "as the config describes", {}), offs[-1]
        for fault in faults(layer, said[layer.layer_type], dim) if layer.layer_type in said else ():
            turned = turn_of(layer, dim)._replace(**fault.changed)
            if (
                turned.start + turned.width <= dim
                and relative_difference(side.y, turned(side.x, side.positions)) < NEAR
            ):
                return fault, offs[-1]
    return Fault("", "", {}), min(offs)


def _told(fault: Fault, off: float) -> str:
    if fault.name:
        return f"{fault.name}: {fault.words}"
    return (
        f"turns otherwise than the config says, by {off:.2g} of the largest number, and as under no fault that is "
        "known: compare layout, frequencies and norm below with `posenc read` of the config"
    )


def _beside(read: Plan, layers: list[Layer]) -> list[Finding]:
    """Return what belongs to the positions of the model and is not seen in a rotation."""
    found, (layer, *_) = [], layers
    still = [one.index for one in read.layers if one.theta is None]
    if still:
        shown = ", ".join(map(str, still))
        found.append(f"layers {shown} do not rotate: {read.layers[still[0]].why}")
    usual = layer.head_dim**-0.5
    if not near(layer.softmax_scale, usual):
        found.append(f"logits are scaled by {layer.softmax_scale:.5g}, not by 1/sqrt(d) = {usual:.5g}")
    if any(one.query_scale is not None for one in read.layers):
        found.append("queries are scaled by their position besides")
    return [with_check_name(note(f"not seen here: {'; '.join(found)}"), "beside the rotation")] if found else []
