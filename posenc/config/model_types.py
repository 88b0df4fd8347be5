"""Facts that the code of each model type has and its configurations do not state: model_types.json.

These are its facts, of which a model type has those that it needs:

    encoding         rope, axial, alibi, t5, learned, profiles or none; parts, of a model with
                     several; other, which is refused
    why              for none and other
    defaults         values that the code fills in, by the names that transformers has in common
    names            the model's own name of such a key
    inside           a key: the dict that it is in, such as DBRX's attn_config
    switch           further facts, where a key has a value, such as Falcon with ALiBi
    parts            the model type of each part; `part_at_top` may be the file itself
    layers, nope     rules for the types of layers, and for those that do not rotate: layer_types.py
    window           "all": every layer has the window, and no type of layer says so
    layer_sizes      a type of layer: its own sizes, each by a key and a default
    slice            the channels that rotate: "end" of the head, after those without position, or
                     "trailing", a share of it at its end
    layout, sign     how channels are paired; -1 if they rotate the other way
    base, share      of the rotation, where the configuration does not say
    default_rope     the rope dict of a configuration without one
    rope_values      a rope_type: keys of its rope dict that the code sets itself
    bases            a type of layer: the key of its base at the top of older files, the default,
                     and whether a rope dict for the whole model is for these layers
    labels           a type of layer: its name in rope_parameters and `bases`, where that differs
    unscaled_types   types of layers that the one rope dict is not for
    unread_keys      keys that configurations have and the code does not read
    mrope, sections  order of the axes of M-RoPE, and the default mrope_section
    grid             order of rows and columns of an axial rotation
    scale            what the softmax scale is: scales.py
    query_scale      which scale of queries: scales.py
    width_key        the key of the width of embeddings, for `learned`, or that of the model
    offset           rows before that of the first position, for `learned`; rows_include_offset, if
                     max_position_embeddings counts them
    table_per_layer  for `t5`: each layer has a table of its own
"""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

from posenc.config import sentences

# more than any model has; a file that says more would be read for hours
MOST_LAYERS = 10_000
# named where none is spelled nearly alike
COMMON_TYPES = ("llama", "qwen3", "gemma3_text")


def facts() -> dict[str, dict[str, Any]]:
    """Return the facts of every model type.

    Examples:
        >>> facts()["deepseek_v3"]["slice"]
        'end'
    """
    text = files("posenc.config").joinpath("model_types.json").read_text("utf-8")
    return json.loads(text)["model_types"]


class Config:
    """The fields of a configuration, with the facts of its model type."""

    def __init__(self, fields: Mapping[str, Any], model_type: str, facts: dict[str, Any]):
        self.fields = fields
        self.model_type = model_type
        self.facts = facts

    def get(self, name: str, fallback: Any = None) -> Any:
        """Return the value of a key of transformers, or of the model's own name for it.

        That is the value in the configuration, then the default of its model type's code, then
        `fallback`. A null in the configuration counts as a value: the default is not taken then.
        """
        # some models keep these fields in a dict, such as DBRX's attn_config
        group = self.facts.get("inside", {}).get(name)
        fields = self.fields.get(group) or self.fields
        own_name = self.facts.get("names", {}).get(name, name)
        for key in (name, own_name):
            if key in fields:
                return fields[key]
        return self.facts.get("defaults", {}).get(name, fallback)

    def number(self, name: str) -> int:
        """Return a number that a plan cannot do without.

        Raises:
            ValueError: If it is missing or no positive integer.
        """
        value = self.get(name)
        if not isinstance(value, int) or value < 1:
            raise ValueError(
                sentences.NO_NUMBER.format(name=name, model_type=self.model_type, value=value)
            )
        return value

    def label(self, layer_type: str) -> str:
        """Return the name under which rope_parameters have the rotation of a type of layer."""
        return self.facts.get("labels", {}).get(layer_type, layer_type)

    def check_layers(self, count: int) -> None:
        """Refuse more layers than any model has.

        Raises:
            ValueError: If there are more than MOST_LAYERS.
        """
        if count > MOST_LAYERS:
            raise ValueError(
                sentences.TOO_MANY_LAYERS.format(
                    most=MOST_LAYERS, model_type=self.model_type, count=count
                )
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
        ValueError: If the configuration names no model type, or one that transformers lacks.
        ValueError: If it has more layers than any model.
    """
    # a part may leave out its own
    model_type = fields.get("model_type") or default_type
    if not isinstance(model_type, str) or model_type not in all_facts:
        near = ", ".join(get_close_matches(str(model_type), all_facts) or COMMON_TYPES)
        raise ValueError(sentences.UNKNOWN_MODEL_TYPE.format(model_type=model_type, near=near))
    config = Config(fields, model_type, all_facts[model_type])
    layers = config.get("num_hidden_layers")
    if isinstance(layers, int):
        config.check_layers(layers)
    # a field may change the facts, as in Falcon, which has ALiBi or RoPE
    switch = config.facts.get("switch")
    if switch and config.get(switch["key"]) == switch["value"]:
        config.facts = {**config.facts, **switch["to"]}
    return config
