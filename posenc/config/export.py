"""Say how a model turns in the words of another program: transformers 5 and 4, vLLM, llama.cpp.

Each function takes what `plan` takes and refuses what its program has no words for.
"""

import json
import math
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from posenc.config.formats.detection import to_transformers
from posenc.config.layer_types import layer_kinds, turning
from posenc.config.model_types import Config, facts, known
from posenc.config.plan import loaded
from posenc.config.rotation import base_of, rope_dict, rope_kind, share_of
from posenc.config.rotation_objects import head
from posenc.models.from_config import LONGEST, TRAINED, WORDS

LLAMA_CPP = ("default", "linear", "yarn")
FLAGS = {"beta_fast": ("--yarn-beta-fast", 32.0), "beta_slow": ("--yarn-beta-slow", 1.0)}


def words(config: Any) -> dict[str, dict[str, Any]]:
    """Return the words of transformers 5 for each kind of layer that rotates, nothing left out.

    Examples:
        >>> words({"model_type": "llama", "rope_theta": 5e5, "num_hidden_layers": 2})
        {'full_attention': {'rope_type': 'default', 'rope_theta': 500000.0}}
    """
    return _by_kind(_text(config)[1])


def rope_parameters(config: Any) -> dict[str, Any]:
    """Return `rope_parameters` as transformers 5 has them: one dict, or one for each kind of layer.

    Examples:
        >>> config = {"model_type": "llama", "rope_theta": 5e5, "num_hidden_layers": 2}
        >>> rope_parameters(config)
        {'rope_type': 'default', 'rope_theta': 500000.0}
    """
    parts = words(config)
    found = list(parts.values())
    return found[0] if all(part == found[0] for part in found) else parts


def rope_scaling(config: Any) -> dict[str, Any]:
    """Return the keys that transformers 4 has at the top: rope_theta, rope_scaling, and the share.

    Raises:
        ValueError: If kinds of layers differ and version 4 had no keys of its own for the model.
    """
    read = _text(config)[1]
    legacy = read.kind.get("bases", {})
    parts = _by_kind(read)
    if legacy and parts.keys() <= legacy.keys():
        return _two_bases(parts, legacy)
    rope = dict(_alone(parts, "transformers 4"))
    found = {"rope_theta": rope.pop("rope_theta")}
    if "partial_rotary_factor" in rope and rope["rope_type"] != "proportional":
        found["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    return found | {"rope_scaling": None if rope == {"rope_type": "default"} else rope}


def vllm(config: Any) -> str:
    """Return the option of `vllm serve` that gives a model this rotation."""
    path, _ = _text(config)
    changes: dict[str, Any] = {"rope_parameters": rope_parameters(config)}
    for name in reversed(path):
        changes = {name: changes}
    return f"--hf-overrides {shlex.quote(json.dumps(changes))}"


def llama_cpp(config: Any) -> str:
    """Return the options of llama.cpp that give a model this rotation.

    Raises:
        ValueError: If it has none, as for llama3 and longrope, whose factors lie in the file.
    """
    rope = _alone(words(config), "llama.cpp")
    kind = rope["rope_type"]
    if kind not in LLAMA_CPP:
        raise ValueError(
            f"export: rope_type must be one of {', '.join(LLAMA_CPP)} for llama.cpp, got {kind}; "
            "convert the weights: their file keeps its factors"
        )
    if rope.get("truncate") is False:
        raise ValueError(
            f"export: truncate must be True for llama.cpp, got {rope['truncate']}; it always rounds"
        )
    said = [f"--rope-freq-base {rope['rope_theta']:g}"]
    if kind != "default":
        said += [f"--rope-scaling {kind}", f"--rope-scale {rope['factor']:g}"]
    return " ".join(said + (_yarn_flags(rope) if kind == "yarn" else []))


def export(config: Any, to: str) -> str:
    """Return one of EXPORTS as text, as the command line prints it."""
    if to not in EXPORTS:
        raise ValueError(f"export: to must be one of {', '.join(EXPORTS)}, got {to!r}")
    found = EXPORTS[to](config)
    return found if isinstance(found, str) else json.dumps(found, indent=2)


EXPORTS: dict[str, Callable[[Any], Any]] = {
    "v5": lambda config: {"rope_parameters": rope_parameters(config)},
    "v4": rope_scaling,
    "vllm": vllm,
    "llama.cpp": llama_cpp,
}


def _text(config: Any) -> tuple[list[str], Config]:
    """Return the part of a configuration that is text, and the names that lead there."""
    kinds, path = facts(), []
    read = known(to_transformers(loaded(config)), None, kinds)
    while "parts" in read.kind:
        named = read.kind["parts"]
        inner = [name for name in named if isinstance(read.said.get(name), Mapping)]
        texts = [name for name in inner if "text" in name or len(inner) == 1]
        if not texts:
            raise ValueError(
                f"export: config must be of a part of text, got {', '.join(inner) or 'none'}; "
                "pass one part"
            )
        path.append(texts[0])
        read = known(dict(read.said[texts[0]]), named[texts[0]], kinds)
    if read.kind["encoding"] not in ("rope", "mrope"):
        raise ValueError(
            f"export: config must be of layers that rotate, got a {read.model_type}; there is "
            "nothing to say"
        )
    return path, read


def _by_kind(read: Config) -> dict[str, dict[str, Any]]:
    """Return the words of each kind of layer that rotates."""
    kinds = layer_kinds(read)
    if read.said.get("layer_rope_theta"):
        raise ValueError(
            f"export: config must be of one base a kind of layer, got a {read.model_type} with "
            "layer_rope_theta; keep the list"
        )
    found = {}
    for index, (word, still) in enumerate(zip(kinds, turning(read, kinds), strict=True)):
        rope = None if still or word in found else rope_dict(read, index, word)
        if rope is not None:
            _, part = head(read, index, word)
            found[read.kind.get("labels", {}).get(word, word)] = _words(
                read, rope, word, part.stop - part.start
            )
    if not found:
        raise ValueError(
            f"export: config must be of layers that rotate, got a {read.model_type} without; "
            "there is nothing to say"
        )
    return found


def _words(read: Config, rope: Mapping[str, Any], word: str, width: int) -> dict[str, Any]:
    """Return all that makes the frequencies of a layer, so that nothing is left to a default."""
    kind = rope_kind(read, rope)
    base, _ = base_of(read, rope, word)
    said = {"rope_type": kind, "rope_theta": base}
    said |= {name: rope[name] for name in rope if name in WORDS and name not in said}
    longest = read.get(LONGEST)
    if kind in ("yarn", "longrope", "llama3"):
        said[TRAINED] = read.get(TRAINED) or rope.get(TRAINED) or longest
    if kind in ("yarn", "longrope"):
        said.setdefault("factor", longest / said[TRAINED])
    share = 1.0 if "slice" in read.kind else share_of(read, rope, width)
    return said | ({"partial_rotary_factor": share} if share != 1 or kind == "proportional" else {})


def _alone(parts: dict[str, dict[str, Any]], program: str) -> dict[str, Any]:
    first = next(iter(parts.values()))
    if any(part != first for part in parts.values()):
        raise ValueError(
            f"export: config must be of one kind of layer for {program}, got {', '.join(parts)}; "
            "it has no words for two"
        )
    return first


def _two_bases(parts: dict[str, dict[str, Any]], legacy: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"rope_scaling": None}
    for label, rope in parts.items():
        rule = legacy[label]
        rest = {name: value for name, value in rope.items() if name != "rope_theta"}
        found[rule["key"]] = rope["rope_theta"]
        if rest == {"rope_type": "default"}:
            continue
        if not rule["scaled"]:
            raise ValueError(
                f"export: {label} must be without scaling for transformers 4, got {rest}; it has "
                "no words for it"
            )
        found["rope_scaling"] = rest
    return found


def _yarn_flags(rope: Mapping[str, Any]) -> list[str]:
    said = [f"--yarn-orig-ctx {rope[TRAINED]}"]
    for name, (flag, default) in FLAGS.items():
        if rope.get(name, default) != default:
            said.append(f"{flag} {rope[name]:g}")
    grown = 0.1 * math.log(max(rope["factor"], 1.0))
    own = rope.get("attention_factor")
    if own is None and rope.get("mscale") and rope.get("mscale_all_dim"):
        own = (rope["mscale"] * grown + 1) / (rope["mscale_all_dim"] * grown + 1)
    if own is not None:  # llama.cpp multiplies its own by this
        said.append(f"--yarn-attn-factor {own / (grown + 1):.9g}")
    return said
