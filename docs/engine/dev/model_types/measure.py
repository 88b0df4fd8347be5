"""Measure of a model type what its configurations do not say: names, defaults, rules of layers, layout."""

import inspect
import itertools
import warnings
from dataclasses import MISSING

import numpy as np
import torch

from dev.model_types import modules, unread_encodings
from posenc.config.rotation_objects import axis_of_pairs, grid_frequencies
from posenc.rotate.axial import axial
from posenc.rotate.rope import rope

KEYS = [
    "attention_chunk_size",
    "attention_multiplier",
    "attn_layer_offset",
    "attn_layer_period",
    "attn_scale",
    "attn_temperature_tuning",
    "compress_rope_theta",
    "d_kv",
    "d_rel",
    "embed_dim",
    "embedding_size",
    "floor_scale",
    "full_attention_interval",
    "global_attn_every_n_layers",
    "global_head_dim",
    "head_dim",
    "hidden_size",
    "layer_group_size",
    "local_attention",
    "log_scaling_alpha",
    "log_scaling_n_floor",
    "max_position_embeddings",
    "max_window_layers",
    "no_rope_layer_interval",
    "num_attention_heads",
    "num_hidden_layers",
    "input_embedding_size",
    "partial_rotary_factor",
    "position_embedding_type",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "query_pre_attn_scalar",
    "rel_extent",
    "relative_attention_max_distance",
    "relative_attention_num_buckets",
    "rope_interleave",
    "rope_theta",
    "rotary_dim",
    "sliding_window",
    "sliding_window_pattern",
    "swa_head_dim",
    "swa_num_attention_heads",
    "use_mem_rope",
    "use_sliding_window",
    "alibi",
]
PERIODS = ("sliding_window_pattern", "full_attention_interval", "global_attn_every_n_layers", "layer_group_size")
GRIDS = ("rows first", "columns first", "alternating", "pixtral")
PLACES = modules.PLACES.numpy()
PLAIN = {"rope_theta", "rope_type", "partial_rotary_factor"}


def quietly(make, *arguments, **options):
    """Return what `make` makes, None where it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return make(*arguments, **options)
        except Exception:
            return None


def facts(name):
    """Return the facts of a model type, without those that only its code's reader knows."""
    cls, config = modules.mapping()[name], modules.default(name)
    if cls is None or config is None:
        return {"encoding": "other", "why": "transformers cannot make its default configuration"}
    names = {standard: own for standard, own in cls.attribute_map.items() if standard in (*KEYS, "layer_types")}
    measured = {"names": names, "defaults": defaults(cls, names)}
    measured |= rotation(cls, config)
    if "layout" not in measured:
        measured |= grids(cls, config)
        measured |= parts(cls, config)
    if getattr(config, "rope_parameters", None):
        measured |= rope_defaults(cls, config)
    if getattr(config, "layer_types", None):
        measured |= layers(cls, config)
    if "encoding" not in measured:
        measured["why"] = unread_encodings.why(cls)
    return {key: value for key, value in measured.items() if value not in ({}, None)}


def defaults(cls, names):
    """Return what the class fills in by itself; what it computes from other values is left out."""
    fields = getattr(cls, "__dataclass_fields__", {})
    stated = {}
    for key in KEYS:
        field = fields.get(names.get(key, key))
        if field is not None and field.default is not MISSING and isinstance(field.default, int | float | str):
            stated[key] = field.default
    return stated


def parts(cls, config):
    """Return the model types of a configuration's parts."""
    types = {}
    for key in cls.sub_configs:
        part = getattr(config, key, None)
        model_type = getattr(part, "model_type", None)
        if model_type:
            types[key] = model_type
    at_top = "text_config" if "text_config" in types else None
    return {"parts": types, "part_at_top": at_top, "encoding": "parts"} if types else {}


def rotation(cls, config):
    """Return encoding and layout as its rotary module and the function of its attention have them."""
    tables = quietly(_rotary, cls, config)
    if tables is None:
        return {}
    for _, function in modules.functions(cls):
        layout = quietly(_layout, function, *tables[1:])
        if layout:
            return {"encoding": "rope", **layout, **(quietly(_sections, function, layout, *tables) or {})}
    return {}


def grids(cls, config):
    """Return encoding, layout and order of a tower for pictures, where its scores are those of Axial."""
    if (getattr(config, "rope_parameters", None) or {}).get("rope_type") != "axial":
        return {}
    hidden = getattr(config, "embed_dim", None) or getattr(config, "hidden_size", None)
    if not hidden or not modules.rotary_class(cls):
        return {}
    width = getattr(config, "head_dim", None) or hidden // config.num_attention_heads
    wider = {"width_key": "embed_dim"} if hasattr(config, "embed_dim") else {}
    base = config.rope_parameters["rope_theta"]
    for turned in modules.on_grid(cls, config, width):
        for order, layout in itertools.product(GRIDS, ("half", "interleaved", "blocks")):
            theta = grid_frequencies(order, width, base)
            mine = [axial(np.eye(width), np.repeat([at], width, 0), theta=theta, layout=layout) for at in PLACES]
            if abs(modules.scores(np.stack(mine)) - modules.scores(turned)).max() < 2e-4:
                return {"encoding": "axial", "layout": layout, "grid": order, **wider}
    return {}


def _rotary(cls, config):
    """Return a rotary module, its tables, its frequencies and its factor."""
    module = modules.rotary_class(cls)(config)
    types = labels(config) if "layer_type" in inspect.signature(module.forward).parameters else [None]
    for axes in (None, 3, 4, 2):
        tables = quietly(modules.tables, module, types[0], axes=axes)
        if tables is not None:
            break
    own = {name: value for name, value in module.named_buffers() if "original" not in name}
    theta = next(value for name, value in own.items() if types[0] is None or name.startswith(types[0]))
    prefix = f"{types[0]}_" if types[0] else ""
    return module, tables, theta.double().numpy(), getattr(module, f"{prefix}attention_scaling", 1.0)


def _sections(function, layout, module, tables, theta, factor):
    """Return the sections that the code has as default, and the order in which axes take the pairs."""
    sections = getattr(module, "mrope_section", None)
    if not sections:
        return {}
    spread = torch.tensor(modules.POSITIONS) // torch.tensor([[1], [2], [3]])
    tables = module(torch.zeros(1, 4, 64), spread[:, None])
    width = tables[0].shape[-1]
    turned = modules.scores(modules.turned(function, tables, width))
    for order in ("chunked", "interleaved", "alternating"):
        base = np.sort(theta)[::-1]
        rows = base * (axis_of_pairs(order, sections, len(theta)) == np.arange(3)[:, None])
        options = {"theta": rows, "layout": layout["layout"]}
        mine = np.stack([axial(np.eye(width), np.repeat([at], width, 0), **options) for at in spread.T.numpy()])
        if abs(modules.scores(mine) - turned).max() < 2e-4:
            return {"sections": list(sections), "mrope": order}
    return {"sections": list(sections)}


def labels(config):
    """Return the names under which a configuration has rotations."""
    rope = config.rope_parameters or {}
    return [name for name, part in rope.items() if isinstance(part, dict)]


def _layout(function, tables, theta, factor):
    """Return how channels are paired, where the scores are those of RoPE."""
    for width in (tables[0].shape[-1], 2 * tables[0].shape[-1]):
        turned = quietly(modules.turned, function, tables, width)
        if turned is None:
            continue
        for sign in (1, -1):
            for layout in ("half", "interleaved"):
                options = {"theta": sign * theta, "layout": layout, "attention_factor": factor}
                options["rotary_dim"] = 2 * len(theta)
                mine = np.stack([rope(np.eye(width), np.full(width, p), **options) for p in modules.POSITIONS])
                if abs(modules.scores(mine) - modules.scores(turned)).max() < 2e-4 * factor**2:
                    return {"layout": layout} | ({"sign": -1} if sign < 0 else {})
    return None


def rope_defaults(cls, config):
    """Return the rotation of the default configuration, and base and share that are filled in where one lacks."""
    default = {key: value for key, value in (config.rope_parameters or {}).items() if value != {}}
    if any(isinstance(value, dict) for value in default.values()):
        # some code makes it of a set of layer types, in another order each time
        default = dict(sorted(default.items()))
    stated = {}
    filled = quietly(cls, rope_parameters={"rope_type": "linear", "factor": 2.0}) or config
    rope = filled.rope_parameters or {}
    if isinstance(rope.get("rope_theta"), int | float):
        stated["base"] = rope["rope_theta"]
    elif isinstance(cls.default_theta, int | float):
        stated["base"] = cls.default_theta
    if rope.get("partial_rotary_factor") and rope.get("partial_rotary_factor") != 1:
        stated["share"] = rope["partial_rotary_factor"]
    if not set(default) <= PLAIN or default.get("rope_type", "default") not in ("default", "axial"):
        stated["default_rope"] = {
            key: value for key, value in default.items() if (key, value) != ("rope_theta", stated.get("base"))
        }
    elif default.get("partial_rotary_factor", 1) != 1:
        stated["share"] = default["partial_rotary_factor"]
    return stated


def layers(cls, config):
    """Return the rule by which layers are of one type or another, tried at several depths."""
    by_depth = {n: quietly(_layer_types, cls, num_hidden_layers=n) for n in (6, 13, 24, 31)}
    by_depth = {n: layer_types for n, layer_types in by_depth.items() if layer_types and len(layer_types) == n}
    if len(by_depth) < 3:
        return {}
    rule = _periodic(by_depth)
    if rule is None:
        return {"layers": "unknown"}
    for key in PERIODS:
        other = 5 if rule.get("period") == 3 else 3
        moved = quietly(_layer_types, cls, num_hidden_layers=24, **{key: other})
        if "period" in rule and moved and moved != by_depth.get(24):
            rule["period_key"] = key
    return {} if rule == {"all": "full_attention"} else {"layers": rule}


def _layer_types(cls, **options):
    from posenc.config.layer_types import RENAMED

    return [RENAMED.get(layer_type, layer_type) for layer_type in cls(**options).layer_types]


def _periodic(by_depth):
    types = {layer_type for layer_types in by_depth.values() for layer_type in layer_types}
    if len(types) == 1:
        return {"all": types.pop()}
    if len(types) != 2:
        return None
    for layer_type in sorted(types):
        (other,) = types - {layer_type}
        for period in range(2, 13):
            for offset in range(period):
                for extra in ({}, {"last": True}, {"also": [0]}, {"from_end": True}, {"also": [0], "last": True}):
                    rule = {"period": period, "offset": offset, "type": layer_type, "other": other, **extra}
                    if all(_follows(rule, layer_types) for layer_types in by_depth.values()):
                        return rule
    return None


def _follows(rule, stated):
    from posenc.config.layer_types import layer_types_of
    from posenc.config.model_types import Config

    config = Config({"num_hidden_layers": len(stated)}, "", {"layers": rule})
    return layer_types_of(config) == stated
