"""Export the rotation of a model as settings of transformers 5 and 4, vLLM or llama.cpp.

Each function takes what `plan` takes, and refuses with a ValueError what its program has no setting
for, a configuration whose layers do not rotate, and what `plan` refuses.
"""

import json
import math
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from posenc.config.formats.detection import to_transformers
from posenc.config.layer_types import layer_types_of, unrotated_reasons
from posenc.config.model_types import Config, facts, resolve
from posenc.config.plan import loaded
from posenc.config.rotation import FROM_TRAINED, base_of, rope_dict, rope_type_of, share_of
from posenc.config.rotation_objects import head_channels
from posenc.models.from_config import LONGEST, ROPE_KEYS, TRAINED

LLAMA_CPP_ROPE_TYPES = ("default", "linear", "yarn")
# a key of yarn: the option of llama.cpp, and its default
LLAMA_CPP_OPTIONS = {
    "beta_fast": ("--yarn-beta-fast", 32.0),
    "beta_slow": ("--yarn-beta-slow", 1.0),
}


def rope_parameters_by_layer_type(config: Any) -> dict[str, dict[str, Any]]:
    """Return transformers 5's dict for each type of layer that rotates, nothing left out.

    Raises:
        ValueError: If no layer rotates.
        ValueError: If bases differ from layer to layer.

    Examples:
        >>> config = {"model_type": "llama", "rope_theta": 5e5, "num_hidden_layers": 2}
        >>> rope_parameters_by_layer_type(config)
        {'full_attention': {'rope_type': 'default', 'rope_theta': 500000.0}}
    """
    _, text = _text_part(config)
    return _by_layer_type(text)


def rope_parameters(config: Any) -> dict[str, Any]:
    """Return `rope_parameters` as transformers 5 has them: one dict, or one for each type of layer.

    Raises:
        ValueError: If no layer rotates.
        ValueError: If bases differ from layer to layer.

    Examples:
        >>> config = {"model_type": "llama", "rope_theta": 5e5, "num_hidden_layers": 2}
        >>> rope_parameters(config)
        {'rope_type': 'default', 'rope_theta': 500000.0}
    """
    by_layer_type = rope_parameters_by_layer_type(config)
    first, *others = by_layer_type.values()
    return first if all(rope == first for rope in others) else by_layer_type


def rope_scaling(config: Any) -> dict[str, Any]:
    """Return the keys that transformers 4 has at the top: rope_theta, rope_scaling, and the share.

    Raises:
        ValueError: If no layer rotates.
        ValueError: If types of layers differ and version 4 had no keys of its own for the model.
    """
    _, text = _text_part(config)
    by_layer_type = _by_layer_type(text)
    bases = text.facts.get("bases", {})
    if bases and by_layer_type.keys() <= bases.keys():
        return _two_bases(by_layer_type, bases)
    rope = dict(_single(by_layer_type, "transformers 4"))
    fields = {"rope_theta": rope.pop("rope_theta")}
    # in a proportional rotation the share belongs to the formula
    if "partial_rotary_factor" in rope and rope["rope_type"] != "proportional":
        fields["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    fields["rope_scaling"] = None if rope == {"rope_type": "default"} else rope
    return fields


def vllm(config: Any) -> str:
    """Return the option of `vllm serve` that gives a model this rotation.

    Raises:
        ValueError: If no layer rotates.
        ValueError: If bases differ from layer to layer.
    """
    path, _ = _text_part(config)
    overrides: dict[str, Any] = {"rope_parameters": rope_parameters(config)}
    # in a model of several parts, inside that of its text
    for name in reversed(path):
        overrides = {name: overrides}
    return f"--hf-overrides {shlex.quote(json.dumps(overrides))}"


def llama_cpp(config: Any) -> str:
    """Return the options of llama.cpp that give a model this rotation.

    Raises:
        ValueError: If no layer rotates, or types of layers differ.
        ValueError: If it has no option for the rope_type, as for llama3, whose factors are weights.
        ValueError: If the ramp of yarn is not rounded, as llama.cpp does.
    """
    rope = _single(rope_parameters_by_layer_type(config), "llama.cpp")
    rope_type = rope["rope_type"]
    if rope_type not in LLAMA_CPP_ROPE_TYPES:
        raise ValueError(
            f"export: rope_type must be one of {', '.join(LLAMA_CPP_ROPE_TYPES)} for llama.cpp, "
            f"got {rope_type}; convert the weights: their file keeps its factors"
        )
    if rope.get("truncate") is False:
        raise ValueError(
            f"export: truncate must be True for llama.cpp, got {rope['truncate']}; it always rounds"
        )
    options = [f"--rope-freq-base {rope['rope_theta']:g}"]
    if rope_type != "default":
        options += [f"--rope-scaling {rope_type}", f"--rope-scale {rope['factor']:g}"]
    if rope_type == "yarn":
        options += _yarn_options(rope)
    return " ".join(options)


def export(config: Any, to: str) -> str:
    """Return one of EXPORTS as text, as the command line prints it.

    Raises:
        ValueError: If there is no such export.
        ValueError: If the program has no setting for the rotation.
    """
    if to not in EXPORTS:
        raise ValueError(f"export: to must be one of {', '.join(EXPORTS)}, got {to!r}; pick one")
    result = EXPORTS[to](config)
    return result if isinstance(result, str) else json.dumps(result, indent=2)


# by their names on the command line
EXPORTS: dict[str, Callable[[Any], Any]] = {
    "v5": lambda config: {"rope_parameters": rope_parameters(config)},
    "v4": rope_scaling,
    "vllm": vllm,
    "llama.cpp": llama_cpp,
}


def _text_part(config: Any) -> tuple[list[str], Config]:
    """Return the names that lead to the part of a configuration that is text, and that part."""
    all_facts = facts()
    path: list[str] = []
    text = resolve(to_transformers(loaded(config)), None, all_facts)
    while "parts" in text.facts:
        model_types = text.facts["parts"]
        parts = [name for name in model_types if isinstance(text.fields.get(name), Mapping)]
        texts = [name for name in parts if "text" in name or len(parts) == 1]
        if not texts:
            raise ValueError(
                f"export: config must be of a part of text, got {', '.join(parts) or 'none'}; "
                "pass one part"
            )
        name = texts[0]
        path.append(name)
        text = resolve(dict(text.fields[name]), model_types[name], all_facts)
    if text.facts["encoding"] not in ("rope", "mrope"):
        raise ValueError(
            f"export: config must be of layers that rotate, got a {text.model_type}; there is "
            "nothing to say"
        )
    return path, text


def _by_layer_type(config: Config) -> dict[str, dict[str, Any]]:
    """Return the rotation of each type of layer that has one."""
    layer_types = layer_types_of(config)
    if config.fields.get("layer_rope_theta"):
        raise ValueError(
            f"export: config must be of one base for each type of layer, got a "
            f"{config.model_type} with layer_rope_theta; keep the list"
        )
    reasons = unrotated_reasons(config, layer_types)
    by_layer_type = {}
    for index, (layer_type, reason) in enumerate(zip(layer_types, reasons, strict=True)):
        # layers of one type rotate alike
        if reason or layer_type in by_layer_type:
            continue
        rope = rope_dict(config, index, layer_type)
        if rope is not None:
            _, part = head_channels(config, index, layer_type)
            width = part.stop - part.start
            by_layer_type[config.label(layer_type)] = _complete(config, rope, layer_type, width)
    if not by_layer_type:
        raise ValueError(
            f"export: config must be of layers that rotate, got a {config.model_type} without; "
            "there is nothing to say"
        )
    return by_layer_type


def _complete(
    config: Config, rope: Mapping[str, Any], layer_type: str, width: int
) -> dict[str, Any]:
    """Return all that determines the frequencies of a layer; nothing is left to a default."""
    rope_type = rope_type_of(rope)
    base, _ = base_of(config, rope, layer_type)
    fields: dict[str, Any] = {"rope_type": rope_type, "rope_theta": base}
    for key, value in rope.items():
        if key in ROPE_KEYS:
            fields.setdefault(key, value)
    longest = config.get(LONGEST)
    # what from_config would take for them
    if rope_type in FROM_TRAINED:
        fields[TRAINED] = config.get(TRAINED) or rope.get(TRAINED) or longest
    if rope_type in ("yarn", "longrope"):
        fields.setdefault("factor", longest / fields[TRAINED])
    # a slice of a head rotates whole
    share = 1.0 if "slice" in config.facts else share_of(config, rope, width)
    if share != 1 or rope_type == "proportional":
        fields["partial_rotary_factor"] = share
    return fields


def _single(by_layer_type: dict[str, dict[str, Any]], program: str) -> dict[str, Any]:
    """Return the rotation that all types of layers share, or refuse for a program without more."""
    first, *others = by_layer_type.values()
    if any(rope != first for rope in others):
        raise ValueError(
            f"export: config must be of one type of layer for {program}, got "
            f"{', '.join(by_layer_type)}; it has no setting for two"
        )
    return first


def _two_bases(
    by_layer_type: dict[str, dict[str, Any]], bases: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the keys of version 4 for a model with a key for the base of each type of layer."""
    fields: dict[str, Any] = {"rope_scaling": None}
    for label, rope in by_layer_type.items():
        scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
        fields[bases[label]["key"]] = rope["rope_theta"]
        if scaling == {"rope_type": "default"}:
            continue
        # rope_scaling was for one of the types alone
        if not bases[label]["scaled"]:
            raise ValueError(
                f"export: {label} must be without scaling for transformers 4, got {scaling}; it "
                "has no key for it"
            )
        fields["rope_scaling"] = scaling
    return fields


def _yarn_options(rope: Mapping[str, Any]) -> list[str]:
    """Return the options of llama.cpp that only yarn has, where they differ from its defaults."""
    options = [f"--yarn-orig-ctx {rope[TRAINED]}"]
    for key, (option, default) in LLAMA_CPP_OPTIONS.items():
        if rope.get(key, default) != default:
            options.append(f"{option} {rope[key]:g}")
    growth = 0.1 * math.log(max(rope["factor"], 1.0))
    factor = rope.get("attention_factor")
    if factor is None and rope.get("mscale") and rope.get("mscale_all_dim"):
        factor = (rope["mscale"] * growth + 1) / (rope["mscale_all_dim"] * growth + 1)
    if factor is not None:
        # llama.cpp multiplies its own factor by this one
        options.append(f"--yarn-attn-factor {factor / (growth + 1):.9g}")
    return options
