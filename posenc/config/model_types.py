"""What the code of each model type knows and its configurations do not say: model_types.json."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

# more than any model has; a file that says more would be read for hours
MOST_LAYERS = 10_000


def facts() -> dict[str, dict[str, Any]]:
    """Return the facts of every model type.

    Examples:
        >>> facts()["deepseek_v3"]["slice"]
        'end'
    """
    text = files("posenc.config").joinpath("model_types.json").read_text("utf-8")
    return json.loads(text)["kinds"]


class Config:
    """A configuration with the facts of its model type: its fields first, then those defaults."""

    def __init__(self, fields: Mapping[str, Any], model_type: str, facts: dict[str, Any]):
        self.fields = fields
        self.model_type = model_type
        self.facts = facts

    def get(self, name: str, default: Any = None) -> Any:
        """Return what stands under a name of transformers or the model's own; None counts."""
        # some models keep these fields in a dict, such as DBRX's attn_config
        group = self.facts.get("inside", {}).get(name)
        fields = self.fields.get(group) or self.fields
        own_name = self.facts.get("names", {}).get(name, name)
        for key in (name, own_name):
            if key in fields:
                return fields[key]
        return self.facts.get("defaults", {}).get(name, default)

    def number(self, name: str) -> int:
        """Return a number that a plan cannot do without."""
        value = self.get(name)
        if not isinstance(value, int) or value < 1:
            raise ValueError(
                f"plan: {name} must be a positive integer in a config of {self.model_type}, "
                f"got {value!r}; add it"
            )
        return value

    def label(self, layer_type: str) -> str:
        """Return the name under which rope_parameters have the rotation of a type of layer."""
        return self.facts.get("labels", {}).get(layer_type, layer_type)

    def check_layers(self, name: str, count: int) -> None:
        """Refuse more layers than any model has."""
        if count > MOST_LAYERS:
            raise ValueError(
                f"plan: {name} must be at most {MOST_LAYERS:,} in a config of {self.model_type}, "
                f"got {count}"
            )


def resolve(
    fields: Mapping[str, Any], default_type: str | None, all_facts: Mapping[str, dict[str, Any]]
) -> Config:
    """Return the configuration with the facts of its model type.

    Args:
        fields: What the configuration says.
        default_type: The model type where it names none, as a part of another may do.
        all_facts: Those of every model type.

    Raises:
        ValueError: If the configuration names no model type, or one that transformers lacks, or
            more layers than any model has.
    """
    # a part may leave out its own
    model_type = fields.get("model_type") or default_type
    if not isinstance(model_type, str) or model_type not in all_facts:
        near = get_close_matches(str(model_type), all_facts) or ["llama", "qwen3", "gemma3_text"]
        raise ValueError(
            f"plan: model_type must be one that transformers knows, got {model_type!r}; if its "
            f"attention is that of another, say so in model_type; near are {', '.join(near)}"
        )
    config = Config(fields, model_type, all_facts[model_type])
    layers = config.get("num_hidden_layers")
    if isinstance(layers, int):
        config.check_layers("num_hidden_layers", layers)
    # a field may change the facts, as in Falcon, which has ALiBi or RoPE
    switch = config.facts.get("switch")
    if switch and config.get(switch["key"]) == switch["value"]:
        config.facts = {**config.facts, **switch["to"]}
    return config
