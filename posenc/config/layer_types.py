"""Of what type each layer is, by its configuration or by the rule of its model type's code."""

from collections.abc import Mapping, Sequence
from typing import Any

from posenc.config.model_types import Config

RENAMED = {
    "attention": "full_attention",
    "mamba": "linear_attention",
    "recurrent": "linear_attention",
}
WITHOUT_ATTENTION = ("linear_attention", "conv", "moe", "mlp")
WINDOW_KEYS = {
    "sliding_attention": "sliding_window",
    "hybrid_sliding": "sliding_window",
    "reference_sliding_attention": "sliding_window",
    "window_attention": "sliding_window",
    "chunked_attention": "attention_chunk_size",
}


def layer_kinds(config: Config) -> list[str]:
    """Return the type of each layer, that of `layer_types` where the configuration has them."""
    stated = config.get("layer_types")
    if stated:
        config.check_layers("layer_types", len(stated))
        return [RENAMED.get(str(layer_type), str(layer_type)) for layer_type in stated]
    count = config.number("num_hidden_layers")
    rule = config.facts.get("layers", {"all": "full_attention"})
    if rule == "unknown":
        raise ValueError(
            f"plan: layer_types must be in a config of {config.model_type}, got None; its code "
            "mixes layers in a way that posenc does not know"
        )
    return [_layer_type(config, rule, index, count) for index in range(count)]


def _layer_type(config: Config, rule: Mapping[str, Any], index: int, count: int) -> str:
    """Return the type of one layer by a rule of model_types.json."""
    if "by_window" in rule:
        return _by_window(config, index)
    if "map" in rule:
        # the configuration has a list, or a string, with names of its own
        stated = config.get(rule["map"])
        name = per_layer(config, rule["map"], stated)[index] if stated else ""
        return rule["to"].get(str(name), rule["other"])
    if "cycle" in rule:
        if index < len(rule["first"]):
            return rule["first"][index]
        return rule["cycle"][index % len(rule["cycle"])]
    if "by_list" in rule:
        return rule["word"] if marked_layers(config, rule)[index] else rule["other"]
    if "each" in rule:
        return _periodic(config, rule, index, count)
    return rule["all"]


def _periodic(config: Config, rule: Mapping[str, Any], index: int, count: int) -> str:
    """Return the type of a layer where one in so many is another, and maybe the first and last."""
    period = config.get(rule.get("key", ""), rule["each"]) or 0
    if period < 1:
        return rule["word"]
    # a configuration with another period keeps the place: the first of it or the last
    place = rule["at"]
    if period != rule["each"]:
        place = period - 1 if place else 0
    place = config.get(rule.get("offset_key", ""), place)
    counted = count - 1 - index if rule.get("from_end") else index
    is_extra = index in rule.get("also", ()) or (rule.get("last") and index == count - 1)
    if counted % period == place or is_extra:
        return rule["word"]
    return rule["other"]


def _by_window(config: Config, index: int) -> str:
    """Return the type by Qwen2's rule: layers from max_window_layers on see a window, if any."""
    has_window = config.get("use_sliding_window", True) and config.get("sliding_window")
    if has_window and index >= config.get("max_window_layers", 0):
        return "sliding_attention"
    return "full_attention"


def marked_layers(config: Config, rule: Mapping[str, Any]) -> list[bool]:
    """Return for each layer whether a list of the configuration marks it, or has its number."""
    marks = config.get(rule["by_list"], rule.get("usual"))
    count = config.number("num_hidden_layers")
    if not marks:
        # without a list the last of each period is not marked: of 0 all are, of 1 none is
        period = config.get(rule.get("key", ""), rule.get("default", 0))
        return [not period or bool((index + 1) % period) for index in range(count)]
    if "from" in rule:
        # the list has numbers of layers, counted from 0 or from 1
        return [index + rule["from"] in marks for index in range(count)]
    return [bool(mark) for mark in per_layer(config, rule["by_list"], marks)]


def per_layer(config: Config, name: str, stated: Sequence[Any]) -> Sequence[Any]:
    """Return a list that has a value for each layer, or refuse it."""
    count = config.number("num_hidden_layers")
    if len(stated) < count:
        raise ValueError(f"plan: {name} must be {count} marks, one a layer, got {len(stated)}")
    return stated


def window(config: Config, layer_type: str) -> int | None:
    """Return how many keys a query of such a layer sees, None for all."""
    key = WINDOW_KEYS.get(layer_type)
    # in some code, such as Mistral's, every layer has the window, and no type says so
    if key is None and config.facts.get("window") == "all" and layer_type == "full_attention":
        key = "sliding_window"
    size = config.get(key) if key else None
    return size if isinstance(size, int) and size > 0 else None


def unrotated_reasons(config: Config, layer_types: Sequence[str]) -> list[str | None]:
    """Return for each layer why it does not rotate queries and keys, None where it does."""
    rule = config.facts.get("nope", {})
    marks = marked_layers(config, rule) if "by_list" in rule else [True] * len(layer_types)
    return [
        _unrotated_reason(config, rule, marks, index, layer_type)
        for index, layer_type in enumerate(layer_types)
    ]


def _unrotated_reason(
    config: Config, rule: Mapping[str, Any], marks: list[bool], index: int, layer_type: str
) -> str | None:
    flag, value = rule.get("unless", (None, None))
    # where a list has a base for each layer, its zeros say it, and not the types
    unrotated_types = () if config.fields.get(rule.get("unlisted", "")) else rule.get("words", ())
    if layer_type in WITHOUT_ATTENTION:
        return "no attention here"
    if "across" in rule and index in (config.get(rule["across"]) or rule.get("default", ())):
        return "cross-attention, whose keys are of a picture"
    if flag is not None and config.get(flag) != value:
        return f"{flag} is not {value}"
    if layer_type in unrotated_types and config.get(rule.get("if", ""), True):
        return f"{layer_type} of {config.model_type} does not rotate"
    # a list may have fewer marks than there are layers
    if marks[index : index + 1] != [True]:
        return f"0 in {rule['by_list']} means no RoPE"
    return None
