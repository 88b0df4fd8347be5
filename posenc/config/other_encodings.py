"""Models that do not rotate by one place: grids, biases, scores, tables added, and none at all."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from posenc.add.learned import Learned
from posenc.bias.alibi import ALiBi
from posenc.bias.t5 import T5
from posenc.config.layer import Layer, Plan
from posenc.config.layer_types import layer_kinds, turning, window
from posenc.config.model_types import Config
from posenc.config.rotation import base_of, rope_dict
from posenc.config.rotation_objects import grid
from posenc.config.scales import softmax_scale
from posenc.rotate.axial import Axial
from posenc.rotate.query_scale import QueryScale
from posenc.score.profiles import Profiles


def of(config: Config) -> Plan:
    """Return the plan of a model without rotation.

    Raises:
        ValueError: If its code encodes position in a way that posenc does not read.
    """
    encoding = config.kind["encoding"]
    if encoding not in READERS:
        raise ValueError(
            f"plan: model_type must be one whose positions posenc reads, got {config.model_type}; "
            f"{config.kind.get('why', 'its code is none of text')}"
        )
    return READERS[encoding](config)


def _layers(config: Config, encoding: Any, why: str) -> tuple[Layer, ...]:
    words = layer_kinds(config)
    width = config.get("head_dim")
    if not width:
        one = config.kind["encoding"] == "none" and config.get("num_attention_heads") is None
        heads = 1 if one else config.number("num_attention_heads")  # a state has no heads
        width = config.number(config.kind.get("width", "hidden_size")) // heads
    return tuple(
        Layer(
            index,
            word,
            encoding,
            width,
            slice(0, width),
            window=window(config, word),
            softmax_scale=softmax_scale(config, None, width),
            why=why,
        )
        for index, word in enumerate(words)
    )


def _alibi(config: Config) -> Plan:
    encoding = ALiBi(config.number("num_attention_heads"))
    return Plan(
        config.model_type, _layers(config, encoding, "a slope a head"), trained=_trained(config)
    )


def _t5(config: Config) -> Plan:
    """Return encoder and decoder, whose layers share one table of biases each."""
    buckets = config.get("relative_attention_num_buckets")
    distance = config.get("relative_attention_max_distance")
    heads = config.number("num_attention_heads")
    parts = {}
    for name, both in (("encoder", True), ("decoder", False)):
        encoding = T5(heads, buckets, distance, bidirectional=both)
        layers = _layers(config, encoding, "one table of biases for all layers")
        if config.kind.get("each"):
            own = [T5(heads, buckets, distance, bidirectional=both) for _ in layers]
            why = "a table of biases of its own"
            layers = tuple(
                replace(layer, encoding=table, why=why)
                for layer, table in zip(layers, own, strict=True)
            )
        parts[name] = Plan(f"{config.model_type} {name}", layers)
    return Plan(config.model_type, parts=parts)


def _learned(config: Config) -> Plan:
    rows, offset = config.number("max_position_embeddings"), config.kind.get("offset", 0)
    rows -= offset if config.kind.get("within") else 0
    width = config.get(config.kind.get("width", "embedding_size"))
    width = width or config.get("input_embedding_size")
    width = width or config.number("hidden_size")
    added = Learned(width, rows, offset=offset)
    layers = _layers(config, None, "learned rows are added to the embeddings")
    return Plan(config.model_type, layers, added=added, trained=rows)


def _axial(config: Config) -> Plan:
    """Return a tower for pictures, whose patches stand at rows and columns."""
    layers = _layers(config, None, "no attention here")
    turned = [
        layer if still else _on_grid(config, layer)
        for layer, still in zip(
            layers, turning(config, [each.kind for each in layers]), strict=True
        )
    ]
    return Plan(config.model_type, tuple(turned))


def _on_grid(config: Config, layer: Layer) -> Layer:
    rope = rope_dict(config, layer.index, layer.kind)
    if rope is None:
        return replace(layer, why="rope_theta is 0: it does not rotate")
    base, where = base_of(config, rope, layer.kind)
    theta = grid(config.kind["grid"], layer.head_dim, base)
    return replace(
        layer,
        encoding=Axial(layer.head_dim, layout=config.kind["layout"], theta=theta),
        layout=config.kind["layout"],
        theta=theta.sum(axis=0),
        base=base,
        why=f"rotation by rows and columns, its base from {where}",
    )


def _profiles(config: Config) -> Plan:
    """Return the layers of Inkling: those with a window have curves as long as it."""
    layers = _layers(config, None, "")
    return Plan(
        config.model_type,
        tuple(_mixed(config, layer) for layer in layers),
        trained=_trained(config),
    )


def _mixed(config: Config, layer: Layer) -> Layer:
    """Return a layer of Inkling; one with a window has heads of its own and no scale of queries."""
    swa = "swa_" if layer.window else ""
    heads, width = config.number(f"{swa}num_attention_heads"), config.number(f"{swa}head_dim")
    rank, extent = config.number("d_rel"), layer.window or config.number("rel_extent")
    encoding = Profiles(width, heads, rank, extent)
    del encoding.weight  # states are read from the hidden state
    floor = None if swa else config.get("log_scaling_n_floor")
    return replace(
        layer,
        encoding=encoding,
        head_dim=width,
        slice=slice(0, width),
        softmax_scale=softmax_scale(config, None, width),
        query_scale=QueryScale("inkling", floor, config.get("log_scaling_alpha"))
        if floor
        else None,
        why=f"each query mixes {rank} curves over {extent:,} tokens",
    )


def _none(config: Config) -> Plan:
    layers = _layers(config, None, config.kind.get("why", "no position but by the causal mask"))
    return Plan(config.model_type, layers, trained=_trained(config))


def _trained(config: Config) -> int | None:
    return config.get("max_position_embeddings")


READERS: dict[str, Callable[[Config], Plan]] = {
    "axial": _axial,
    "alibi": _alibi,
    "t5": _t5,
    "learned": _learned,
    "profiles": _profiles,
    "none": _none,
}
