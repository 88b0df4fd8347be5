"""Plans of models without a rotation by one position: grids, biases, added tables, or none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from posenc.add.learned import Learned
from posenc.bias.alibi import ALiBi
from posenc.bias.t5 import T5
from posenc.config import sentences
from posenc.config.layer import Layer, Plan
from posenc.config.layer_types import layer_types_of, unrotated_reasons, window_of
from posenc.config.model_types import Config
from posenc.config.rotation import base_of, rope_dict
from posenc.config.rotation_objects import grid_frequencies
from posenc.config.scales import softmax_scale
from posenc.rotate.axial import Axial
from posenc.rotate.query_scale import QueryScale
from posenc.score.profiles import Profiles


def plan_without_rotation(config: Config) -> Plan:
    """Return the plan of a model without rotation, or with one by rows and columns.

    Raises:
        ValueError: If its code encodes position in a way that posenc does not read.
    """
    encoding = config.facts["encoding"]
    if encoding not in READERS:
        why = config.facts.get("why", sentences.NOT_OF_TEXT)
        raise ValueError(sentences.UNREAD_POSITIONS.format(model_type=config.model_type, why=why))
    return READERS[encoding](config)


def _layers(config: Config, encoding: Any, why: str) -> tuple[Layer, ...]:
    """Return the layers of a model, all with the same `encoding`."""
    layer_types = layer_types_of(config)
    width = config.get("head_dim") or _head_dim(config)
    return tuple(
        Layer(
            index,
            layer_type,
            encoding,
            width,
            slice(0, width),
            window=window_of(config, layer_type),
            softmax_scale=softmax_scale(config, None, width),
            why=why,
        )
        for index, layer_type in enumerate(layer_types)
    )


def _head_dim(config: Config) -> int:
    # a state, such as Mamba's, has no heads
    is_state = config.facts["encoding"] == "none" and config.get("num_attention_heads") is None
    heads = 1 if is_state else config.number("num_attention_heads")
    return config.number(config.facts.get("width_key", "hidden_size")) // heads


def _longest(config: Config) -> int | None:
    return config.get("max_position_embeddings")


def _alibi(config: Config) -> Plan:
    encoding = ALiBi(config.number("num_attention_heads"))
    layers = _layers(config, encoding, sentences.SLOPES)
    return Plan(config.model_type, layers, trained=_longest(config))


def _t5(config: Config) -> Plan:
    """Return encoder and decoder, whose layers share one table of biases in each."""
    parts = {}
    for name, bidirectional in (("encoder", True), ("decoder", False)):
        encoding = _t5_biases(config, bidirectional)
        layers = _layers(config, encoding, sentences.SHARED_TABLE)
        if config.facts.get("table_per_layer"):
            # as in UMT5
            layers = tuple(
                replace(layer, encoding=_t5_biases(config, bidirectional), why=sentences.OWN_TABLE)
                for layer in layers
            )
        parts[name] = Plan(f"{config.model_type} {name}", layers)
    return Plan(config.model_type, parts=parts)


def _t5_biases(config: Config, bidirectional: bool) -> T5:
    return T5(
        config.number("num_attention_heads"),
        config.get("relative_attention_num_buckets"),
        config.get("relative_attention_max_distance"),
        bidirectional=bidirectional,
    )


def _learned(config: Config) -> Plan:
    """Return a model to whose embeddings a learned table is added, as in BERT."""
    rows = config.number("max_position_embeddings")
    offset = config.facts.get("offset", 0)
    if config.facts.get("rows_include_offset"):
        # the rows before the first position are counted too
        rows -= offset
    # embeddings may be narrower than the model, which then projects them, as in ALBERT
    width = config.get(config.facts.get("width_key", "embedding_size"))
    width = width or config.get("input_embedding_size")
    width = width or config.number("hidden_size")
    added = Learned(width, rows, offset=offset)
    layers = _layers(config, None, sentences.LEARNED_ROWS)
    return Plan(config.model_type, layers, added=added, trained=rows)


def _axial(config: Config) -> Plan:
    """Return a tower for pictures, whose positions are rows and columns."""
    layers = _layers(config, None, "")
    reasons = unrotated_reasons(config, [layer.layer_type for layer in layers])
    return Plan(
        config.model_type,
        tuple(
            replace(layer, why=reason) if reason else _on_grid(config, layer)
            for layer, reason in zip(layers, reasons, strict=True)
        ),
    )


def _on_grid(config: Config, layer: Layer) -> Layer:
    """Return a layer with the rotation by rows and columns that is its own."""
    rope = rope_dict(config, layer.index, layer.layer_type)
    if rope is None:
        return replace(layer, why=sentences.BASE_OF_ZERO)
    base, source = base_of(config, rope, layer.layer_type)
    theta = grid_frequencies(config.facts["grid"], layer.head_dim, base)
    layout = config.facts["layout"]
    return replace(
        layer,
        encoding=Axial(layer.head_dim, layout=layout, theta=theta),
        layout=layout,
        # each pair rotates by one of the axes alone
        theta=theta.sum(axis=0),
        base=base,
        why=sentences.ROTATES_ON_GRID.format(source=source),
    )


def _profiles(config: Config) -> Plan:
    """Return the layers of Inkling: those with a window have curves as long as it."""
    layers = tuple(_with_profiles(config, layer) for layer in _layers(config, None, ""))
    return Plan(config.model_type, layers, trained=_longest(config))


def _with_profiles(config: Config, layer: Layer) -> Layer:
    """Return a layer of Inkling; one with a window has heads of its own and no scale of queries."""
    prefix = "swa_" if layer.window else ""
    heads = config.number(f"{prefix}num_attention_heads")
    width = config.number(f"{prefix}head_dim")
    rank = config.number("d_rel")
    extent = layer.window or config.number("rel_extent")
    encoding = Profiles(width, heads, rank, extent)
    # here the states are read from the hidden state, not from the query
    del encoding.weight
    scale = None
    floor = config.get("log_scaling_n_floor")
    if floor and not layer.window:
        scale = QueryScale("inkling", floor, config.get("log_scaling_alpha"))
    return replace(
        layer,
        encoding=encoding,
        head_dim=width,
        slice=slice(0, width),
        softmax_scale=softmax_scale(config, None, width),
        query_scale=scale,
        why=sentences.CURVES.format(rank=rank, extent=extent),
    )


def _none(config: Config) -> Plan:
    layers = _layers(config, None, config.facts.get("why", sentences.NOTHING))
    return Plan(config.model_type, layers, trained=_longest(config))


READERS: dict[str, Callable[[Config], Plan]] = {
    "axial": _axial,
    "alibi": _alibi,
    "t5": _t5,
    "learned": _learned,
    "profiles": _profiles,
    "none": _none,
}
