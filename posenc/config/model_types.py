"""What the code of each model type knows and its configurations do not say: model_types.json."""

import json
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

MOST_LAYERS = 10_000  # more than any model has; a file that says more would be read for hours


def facts() -> dict[str, dict[str, Any]]:
    """Return the facts of every model type.

    Examples:
        >>> facts()["deepseek_v3"]["slice"]
        'end'
    """
    return json.loads(files("posenc.config").joinpath("model_types.json").read_text("utf-8"))[
        "kinds"
    ]


class Config:
    """A configuration with its kind: what it says comes first, then the default of its code."""

    def __init__(self, said: dict[str, Any], model_type: str, kind: dict[str, Any]):
        self.said, self.model_type, self.kind = said, model_type, kind
        self.own: dict[str, str] = kind.get("names", {})

    def get(self, name: str, default: Any = None) -> Any:
        """Return what stands under a name of transformers or the model's own; None counts."""
        said = self.said.get(self.kind.get("inside", {}).get(name)) or self.said
        for spelled in (name, self.own.get(name, name)):
            if spelled in said:
                return said[spelled]
        return self.kind.get("defaults", {}).get(name, default)

    def number(self, name: str) -> int:
        """Return a number that a plan cannot do without."""
        found = self.get(name)
        if not isinstance(found, int) or found < 1:
            raise ValueError(
                f"plan: {name} must be a positive integer in a config of {self.model_type}, "
                f"got {found!r}; add it"
            )
        return found

    def check_layers(self, name: str, count: int) -> None:
        """Refuse more layers than any model has."""
        if count > MOST_LAYERS:
            raise ValueError(
                f"plan: {name} must be at most {MOST_LAYERS:,} in a config of {self.model_type}, "
                f"got {count}"
            )


def known(said: dict[str, Any], hint: str | None, kinds: dict[str, Any]) -> Config:
    """Return the configuration with what its model type's code knows.

    Raises:
        ValueError: If the configuration names no model type, or one that transformers lacks, or
            more layers than any model has.
    """
    model_type = said.get("model_type") or hint
    if not isinstance(model_type, str) or model_type not in kinds:
        near = ", ".join(get_close_matches(str(model_type), kinds)) or "llama, qwen3, gemma3_text"
        raise ValueError(
            f"plan: model_type must be one that transformers knows, got {model_type!r}; if its "
            f"attention is that of another, say so in model_type; near are {near}"
        )
    config = Config(said, model_type, kinds[model_type])
    layers = config.get("num_hidden_layers")
    if isinstance(layers, int):
        config.check_layers("num_hidden_layers", layers)
    switch = config.kind.get("switch")
    if switch and config.get(switch["key"]) == switch["value"]:  # such as Falcon with ALiBi
        config.kind = {**config.kind, **switch["to"]}
    return config
