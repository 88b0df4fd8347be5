"""Every model type of the installed transformers: what `plan` says of its default configuration, beside its own code.

equal     each type of layer does what the model's own code does: its rotary module and function, table or bias
none      neither the plan nor the code has a position
part      parts of a model were read, each by its own row
refused   the plan says in words why not
excepted  listed in exceptions.py, with the reason
"""

import copy
import inspect
import json
import logging
import sys

import torch

from dev import ROOT
from dev.model_types import model_code, modules
from dev.model_types.exceptions import EXCEPTED
from posenc.config import model_types
from posenc.config.plan import plan

PATH = ROOT / "docs/assets/data/model-types.json"
VERDICTS = ("equal", "none", "part", "refused", "excepted")
CLOSE = 1e-4
BESIDE = {
    "learned": model_code.learned,
    "alibi": model_code.alibi,
    "t5": model_code.t5,
    "profiles": model_code.profiles,
}


HALF = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}
QUARTER = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}}
FULL = {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}
REPAIRED = {  # the default configuration of these cannot be run: its sections are not those of its pairs, and so on
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "glm4v_text": HALF,
    "glm4v_moe_text": HALF | {"head_dim": 128},
    "glm_image_text": HALF,
    "qwen4_exp_text": QUARTER,
    "qwen3_omni_moe_text": {"head_dim": 128},
    "qwen3_omni_moe_talker_text": {"head_dim": 128},
    "cohere_compass_text": {"rope_parameters": FULL, "hidden_size": 4096, "num_attention_heads": 32},
}


def configuration(name):
    """Return the default configuration of a model type, or one near to it that can be run."""
    if name not in REPAIRED:
        return modules.default(name)
    return modules.mapping()[name](**copy.deepcopy(REPAIRED[name]))


def verdict(name):
    """Return the verdict on a model type, and a few words."""
    config = configuration(name)
    if config is None:
        return "refused", "transformers cannot make its default configuration"
    try:
        read = plan(config.to_dict())
    except ValueError as error:
        return "refused", str(error).partition("; ")[2] or str(error)
    encoding = model_types.facts()[read.model_type]["encoding"]
    if encoding == "parts":
        return "part", ", ".join(read.parts)
    if encoding == "none" or (read.layers and all(layer.encoding is None for layer in read.layers) and not read.added):
        return "none", read.layers[0].why
    error = compared(config, read)
    if error is None:
        return "unequal", "no code of the model can be called"
    return ("equal", "") if error < CLOSE else ("unequal", f"{error:.1e}")


def compared(config, read):
    """Return how far the plan is from the model's code, None where that cannot be called."""
    encoding = model_types.facts()[read.model_type]["encoding"]
    if encoding in BESIDE:
        return BESIDE[encoding](config, read)
    groups = {(layer.layer_type, layer.theta.tobytes()): layer for layer in read.layers if layer.theta is not None}
    errors = [difference(config, layer) for layer in groups.values()]
    return None if None in errors else max(errors)


def difference(config, layer):
    """Return how far the scores of a layer are from the model's; None where its code cannot be called."""
    cls = modules.rotary_class(type(config))
    if cls is None:
        return model_code.rotated_by_hand(config, layer)
    if model_types.facts()[config.model_type]["encoding"] == "axial":
        return on_grid(config, layer)
    try:
        config = at(config, layer)
        module = cls(config)
        tables = model_tables(module, config, layer)
    except Exception:
        return None
    errors = [one_function(function, tables, layer) for _, function in modules.functions(type(config))]
    return min((error for error in errors if error is not None), default=None)


def _turned(layer, x, positions):
    """Return `x` turned to `positions` by the encoding of a layer."""
    return layer.encoding.turn(x, layer.encoding.table(positions, x.dtype))


def on_grid(config, layer):
    """Return how far scores are from those of a tower for pictures, by the function and shape that come nearest."""
    width = layer.head_dim
    places = modules.PLACES[:, None].expand(-1, width, -1)
    eye = torch.eye(width, dtype=torch.float64)[None, None]
    mine = torch.stack([_turned(layer, eye, place)[0, 0] for place in places]).numpy()
    shapes = modules.on_grid(type(config), config, width)
    return min((float(abs(modules.scores(mine) - modules.scores(theirs)).max()) for theirs in shapes), default=None)


def at(config, layer):
    """Return the configuration as its modules see it in one layer, whose base may be its own."""
    if getattr(config, "layer_rope_theta", None):
        config = type(config).from_dict(config.to_dict())
        config.rope_parameters["rope_theta"] = config.layer_rope_theta[layer.index]
    return config


def model_tables(module, config, layer):
    """Return what the rotary module makes for this type of layer."""
    layer_type = None
    if "layer_type" in inspect.signature(module.forward).parameters:
        labels = [name for name, _ in module.named_buffers()]
        layer_type = layer.layer_type
        if not any(label.startswith(layer_type) for label in labels):
            layer_type = "main" if layer.layer_type == "sliding_attention" else "compress"
    axes = getattr(layer.encoding, "axes", None)
    with torch.no_grad():
        return modules.tables(module, layer_type, axes=axes, spread=axes)


def one_function(function, tables, layer):
    """Return how far scores are apart when this function of the model turns; None where it cannot."""
    width = layer.slice.stop - layer.slice.start
    for columns in dict.fromkeys((width, 2 * len(layer.theta))):
        try:
            with torch.no_grad():
                theirs = modules.turned(function, tables, columns)
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
        mine = turned(layer, width)[:, :columns, :columns]
        return float(abs(modules.scores(mine) - modules.scores(theirs)).max() / max(1, layer.attention_factor**2))
    return None


def turned(layer, width):
    """Return each unit vector turned by the object of the plan, (t, width, width)."""
    count = len(modules.POSITIONS)
    x = torch.eye(width, dtype=torch.float64).reshape(1, width, 1, width).expand(1, width, count, width)
    places = torch.tensor(modules.POSITIONS)
    axes = getattr(layer.encoding, "axes", None)
    places = places[:, None] // torch.arange(1, axes + 1) if axes else places
    return _turned(layer, x.contiguous(), places)[0].transpose(0, 1).numpy()


def sweep(names=None):
    """Return the verdict on each model type."""
    logging.disable(logging.CRITICAL)
    try:
        verdicts = {name: verdict(name) for name in names or modules.mapping()}
    finally:
        logging.disable(logging.NOTSET)
    return {name: ("excepted", EXCEPTED[name]) if name in EXCEPTED else result for name, result in verdicts.items()}


if __name__ == "__main__":
    verdicts = sweep(sys.argv[1:])
    if sys.argv[1:]:
        print(verdicts)
        verdicts = json.loads(PATH.read_text(encoding="utf-8")) | verdicts
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(verdicts.items()))
    PATH.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
