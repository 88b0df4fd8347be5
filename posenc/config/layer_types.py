"""Of which type each layer is, and which do not rotate: by the configuration or its code's rule.

A type is one of those in `layer_types`, such as "sliding_attention". Where a configuration has no
`layer_types`, the rule of its model type is in model_types.json under "layers". A and B are
types, `field` is a key of the configuration:

    {"all": A}                       every layer is A
    {"period": 6, "offset": 5,       A where index % 6 == 5, else B
     "type": A, "other": B}
        "period_key": field          the field has the period; 6 and 5 are for a config without it
        "offset_key": field          the field has the offset
        "from_end": true             the index counts from the last layer, which is 0
        "also": [0], "last": true    A too: the layers of this list, the last layer
    {"first": [..], "cycle": [..]}   the types of `first`, then cycle[index % its length]
    {"by_list": field,               A where the list of the field marks the layer, else B
     "type": A, "other": B}
        "counted_from": 1            the list has numbers of layers, counted from 1, and no marks
        "default_list": [..]         the list if the field is absent
        "period_key": field          without a list all layers are marked but the last of each
        "default_period": 4              period, which the field has, or by default 4
    {"map": field, "to": {name: A},  A by the name that the list of the field has for the layer;
     "other": B}                     B for another name, or without a list
        "without_list": rule         the rule without a list, if not all are B then
    {"window_from_layer": true}      Qwen2: layers from max_window_layers on see the window
    "unknown"                        none: the configuration must have `layer_types`

Under "nope" is which layers do not rotate, by one of:

    {"types": [A]}                   the layers of these types
        "if": field                  not if the field is null or false
        "unless_list": field         not if the field has a list, of a base for each layer
    {"unless": [field, value]}       all, unless the field has this value
    {"by_list": field}               those that the list does not mark; more keys as above
    {"cross_attention": field,       those whose index is in the list of the field
     "default_list": [..]}
"""

from collections.abc import Mapping, Sequence
from typing import Any

from posenc.config import sentences
from posenc.config.model_types import Config

RENAMED = {
    "attention": "full_attention",
    "mamba": "linear_attention",
    "recurrent": "linear_attention",
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}
# no softmax attention: nothing to rotate
WITHOUT_ATTENTION = ("linear_attention", "conv", "moe", "mlp")
WINDOW_KEYS = {
    "sliding_attention": "sliding_window",
    "hybrid_sliding": "sliding_window",
    "reference_sliding_attention": "sliding_window",
    "window_attention": "sliding_window",
    "chunked_attention": "attention_chunk_size",
}


def layer_types_of(config: Config) -> list[str]:
    """Return the type of each layer, that of `layer_types` where the configuration has them.

    Raises:
        ValueError: If `layer_types` has not a value for each layer.
        ValueError: If it is missing and no rule is known.
        ValueError: If a list that the rule reads has fewer values than there are layers.
    """
    stated = config.get("layer_types")
    if stated:
        count = _stated_count(config, stated)
        return [RENAMED.get(str(layer_type), str(layer_type)) for layer_type in stated[:count]]
    count = config.number("num_hidden_layers")
    rule = config.facts.get("layers", {"all": "full_attention"})
    if rule == "unknown":
        raise ValueError(sentences.NO_LAYER_TYPES.format(model_type=config.model_type))
    return _by_rule(config, rule, count)


def _stated_count(config: Config, stated: Sequence[Any]) -> int:
    """Return the number of layers, or refuse `layer_types` that are not one for each."""
    # Nemotron-H counts its layers by this list alone
    if config.get("num_hidden_layers") is None:
        config.check_layers(len(stated))
        return len(stated)
    count = config.number("num_hidden_layers")
    # Step 3.5 goes on with the layers that predict further tokens, which transformers cuts off
    further = config.get("num_nextn_predict_layers")
    lengths = (count, count + further) if isinstance(further, int) else (count,)
    if len(stated) not in lengths:
        raise ValueError(
            sentences.WRONG_COUNT.format(name="layer_types", count=count, stated=len(stated))
        )
    return count


def _by_rule(config: Config, rule: Mapping[str, Any], count: int) -> list[str]:
    """Return the type of each layer by a rule of model_types.json."""
    if "window_from_layer" in rule:
        return [_window_from_layer(config, index) for index in range(count)]
    if "map" in rule:
        # a list, or a string with a letter for each layer
        stated = config.get(rule["map"])
        if not stated and "without_list" in rule:
            return _by_rule(config, rule["without_list"], count)
        names = checked_per_layer(config, rule["map"], stated)[:count] if stated else [""] * count
        return [rule["to"].get(str(name), rule["other"]) for name in names]
    if "cycle" in rule:
        first, cycle = rule["first"], rule["cycle"]
        types = first + [cycle[index % len(cycle)] for index in range(len(first), count)]
        return types[:count]
    if "by_list" in rule:
        marks = marked_layers(config, rule)
        return [rule["type"] if marked else rule["other"] for marked in marks]
    if "period" in rule:
        return [_periodic(config, rule, index, count) for index in range(count)]
    return [rule["all"]] * count


def _periodic(config: Config, rule: Mapping[str, Any], index: int, count: int) -> str:
    """Return the type where one layer in each period differs, and perhaps some at the ends."""
    # a rule without a key has a fixed period
    period = config.get(rule.get("period_key", ""), rule["period"]) or 0
    if period < 1:
        return rule["type"]
    offset = rule["offset"]
    # another period than the code's: the special layer stays first, or last, in it
    if period != rule["period"]:
        offset = period - 1 if offset else 0
    offset = config.get(rule.get("offset_key", ""), offset)
    counted = count - 1 - index if rule.get("from_end") else index
    is_extra = index in rule.get("also", ()) or (rule.get("last") and index == count - 1)
    if counted % period == offset or is_extra:
        return rule["type"]
    return rule["other"]


def _window_from_layer(config: Config, index: int) -> str:
    """Return the type by Qwen2's rule: layers from max_window_layers on see a window, if any."""
    has_window = config.get("use_sliding_window", True) and config.get("sliding_window")
    if has_window and index >= config.get("max_window_layers", 0):
        return "sliding_attention"
    return "full_attention"


def marked_layers(config: Config, rule: Mapping[str, Any]) -> list[bool]:
    """Return for each layer whether a list of the configuration marks it, or has its number.

    Raises:
        ValueError: If a list of marks has fewer values than the model has layers.
    """
    marks = config.get(rule["by_list"], rule.get("default_list"))
    count = config.number("num_hidden_layers")
    if not marks:
        # no list: the last layer of each period is unmarked; period 0 marks all layers, 1 none
        period = config.get(rule.get("period_key", ""), rule.get("default_period", 0))
        return [not period or bool((index + 1) % period) for index in range(count)]
    if "counted_from" in rule:
        return [index + rule["counted_from"] in marks for index in range(count)]
    return [bool(mark) for mark in checked_per_layer(config, rule["by_list"], marks)[:count]]


def checked_per_layer(config: Config, name: str, stated: Sequence[Any]) -> Sequence[Any]:
    """Return a list that has a value for each layer, and perhaps for layers beyond the last.

    Raises:
        ValueError: If it has fewer values than the model has layers.
    """
    count = config.number("num_hidden_layers")
    if len(stated) < count:
        raise ValueError(sentences.WRONG_COUNT.format(name=name, count=count, stated=len(stated)))
    return stated


def window_of(config: Config, layer_type: str) -> int | None:
    """Return how many keys a query of such a layer sees, None for all."""
    key = WINDOW_KEYS.get(layer_type)
    # in some code, such as Mistral's, every layer has the window, and no type says so
    if key is None and config.facts.get("window") == "all" and layer_type == "full_attention":
        key = "sliding_window"
    size = config.get(key) if key else None
    return size if isinstance(size, int) and size > 0 else None


def unrotated_reasons(config: Config, layer_types: Sequence[str]) -> list[str | None]:
    """Return for each layer why it does not rotate queries and keys, None where it does.

    Raises:
        ValueError: If a list of marks has fewer values than the model has layers.
    """
    rule = config.facts.get("nope", {})
    marks = marked_layers(config, rule) if "by_list" in rule else [True] * len(layer_types)
    return [
        _unrotated_reason(config, rule, marks[index], index, layer_type)
        for index, layer_type in enumerate(layer_types)
    ]


def _unrotated_reason(
    config: Config, rule: Mapping[str, Any], is_marked: bool, index: int, layer_type: str
) -> str | None:
    """Return why one layer does not rotate, None where it does."""
    if layer_type in WITHOUT_ATTENTION:
        return sentences.NO_SOFTMAX
    if index in _cross_attention_layers(config, rule):
        return sentences.CROSS_ATTENTION
    field, value = rule.get("unless", (None, None))
    if field is not None and config.get(field) != value:
        return sentences.OTHER_VALUE.format(field=field, value=value)
    # where the field lists a base for each layer, a base of 0 means no rotation, and types mean
    # nothing
    has_bases = bool(config.fields.get(rule.get("unless_list", "")))
    is_unrotated_type = layer_type in rule.get("types", ()) and not has_bases
    if is_unrotated_type and config.get(rule.get("if", ""), True):
        return sentences.UNROTATED_TYPE.format(layer_type=layer_type, model_type=config.model_type)
    return None if is_marked else sentences.UNMARKED.format(by_list=rule["by_list"])


def _cross_attention_layers(config: Config, rule: Mapping[str, Any]) -> Sequence[int]:
    if "cross_attention" not in rule:
        return ()
    return config.get(rule["cross_attention"]) or rule["default_list"]
