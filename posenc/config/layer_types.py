"""Of what kind each layer is, by its configuration or by the rule of its model type's code."""

from typing import Any

from posenc.config.model_types import Config

RENAMED = {
    "attention": "full_attention",
    "mamba": "linear_attention",
    "recurrent": "linear_attention",
}
STILL = ("linear_attention", "conv", "moe", "mlp")  # words of layers without attention
WINDOWED = {
    "sliding_attention": "sliding_window",
    "hybrid_sliding": "sliding_window",
    "reference_sliding_attention": "sliding_window",
    "window_attention": "sliding_window",
    "chunked_attention": "attention_chunk_size",
}


def layer_kinds(config: Config) -> list[str]:
    """Return a word for each layer, those of `layer_types` where the configuration has them."""
    stated = config.get("layer_types")
    if stated:
        config.check_layers("layer_types", len(stated))
        return [RENAMED.get(str(word), str(word)) for word in stated]
    count = config.number("num_hidden_layers")
    rule = config.kind.get("layers", {"all": "full_attention"})
    if rule == "unknown":
        raise ValueError(
            f"plan: layer_types must be in a config of {config.model_type}, got None; its code "
            "mixes layers in a way that posenc does not know"
        )
    return [_word(config, rule, index, count) for index in range(count)]


def _word(config: Config, rule: dict[str, Any], index: int, count: int) -> str:
    """Return the word of one layer by a rule of model_types.json."""
    if "by_window" in rule:
        return _by_window(config, index)
    if "map" in rule:
        stated = config.get(rule["map"])
        word = one_each(config, rule["map"], stated)[index] if stated else ""
        return rule["to"].get(str(word), rule["other"])
    if "cycle" in rule:
        first = rule["first"]
        return first[index] if index < len(first) else rule["cycle"][index % len(rule["cycle"])]
    if "by_list" in rule:
        return rule["word"] if listed(config, rule)[index] else rule["other"]
    return _periodic(config, rule, index, count) if "each" in rule else rule["all"]


def _periodic(config: Config, rule: dict[str, Any], index: int, count: int) -> str:
    """Return the word of a layer where one in so many is another, and maybe the first and last."""
    each = config.get(rule.get("key", ""), rule["each"]) or 0
    if each < 1:
        return rule["word"]
    at = rule["at"] if each == rule["each"] else (each - 1 if rule["at"] else 0)
    at = config.get(rule.get("offset_key", ""), at)
    place = count - 1 - index if rule.get("from_end") else index
    special = index in rule.get("also", ()) or (rule.get("last") and index == count - 1)
    return rule["word"] if place % each == at or special else rule["other"]


def _by_window(config: Config, index: int) -> str:
    """Return the word of Qwen2's rule: layers from max_window_layers on see a window, if any."""
    windowed = config.get("use_sliding_window", True) and config.get("sliding_window")
    return (
        "sliding_attention"
        if windowed and index >= config.get("max_window_layers", 0)
        else "full_attention"
    )


def listed(config: Config, rule: dict[str, Any]) -> list[bool]:
    """Return for each layer whether a list of the configuration marks it, or has its number."""
    marks = config.get(rule["by_list"], rule.get("usual"))
    count = config.number("num_hidden_layers")
    if not marks:
        each = config.get(rule.get("key", ""), rule.get("default", 0))
        return [not each or bool((index + 1) % each) for index in range(count)]
    if "from" in rule:
        return [index + rule["from"] in marks for index in range(count)]
    return [bool(mark) for mark in one_each(config, rule["by_list"], marks)]


def one_each(config: Config, name: str, stated: Any) -> Any:
    """Return a list that has something for each layer, or refuse it."""
    count = config.number("num_hidden_layers")
    if len(stated) < count:
        raise ValueError(f"plan: {name} must be {count} marks, one a layer, got {len(stated)}")
    return stated


def window(config: Config, word: str) -> int | None:
    """Return how many keys a query of such a layer sees, None for all."""
    name = WINDOWED.get(word)
    if name is None and config.kind.get("window") == "all" and word == "full_attention":
        name = "sliding_window"
    found = config.get(name) if name else None
    return found if isinstance(found, int) and found > 0 else None


def turning(config: Config, words: list[str]) -> list[str | None]:
    """Return for each layer why it does not turn queries and keys, None where it does."""
    rule = config.kind.get("nope", {})
    marks = listed(config, rule) if "by_list" in rule else [True] * len(words)
    flag, wanted = rule.get("unless", (None, None))
    off = flag is not None and config.get(flag) != wanted
    found: list[str | None] = []
    still = () if config.said.get(rule.get("unlisted")) else rule.get("words", ())
    across = config.get(rule.get("across", "")) or rule.get("default", ())
    across = across if "across" in rule else ()
    for index, word in enumerate(words):
        if word in STILL:
            found.append("no attention here")
        elif index in across:
            found.append("cross-attention, whose keys are of a picture")
        elif off:
            found.append(f"{flag} is not {wanted}")
        elif word in still and config.get(rule.get("if", ""), True):
            found.append(f"{word} of {config.model_type} does not rotate")
        elif marks[index : index + 1] != [True]:
            found.append(f"0 in {rule['by_list']} means no RoPE")
        else:
            found.append(None)
    return found
