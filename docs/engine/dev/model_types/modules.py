"""The rotary modules of transformers, called one by one: what they turn, by how much, and in which layout."""

import importlib
import inspect
import itertools
import re
import warnings
from functools import cache

import numpy as np
import torch

from tests.peers import peer

ROTARY = {  # where code says another configuration than it gets
    "PaddleOCRTextConfig": "PaddleOCRRotaryEmbedding",
    "Qwen3OmniMoeTalkerTextConfig": "Qwen3OmniMoeTalkerRotaryEmbedding",
    "T5Gemma2DecoderConfig": "T5Gemma2RotaryEmbedding",
}
OTHERS = dict.fromkeys(("InternLM3Config", "IQuestCoderConfig"), "transformers.models.llama.modeling_llama")
"""They run the code of Llama: `AutoModelForCausalLM.from_config` makes a LlamaForCausalLM."""
POSITIONS = (0, 1, 7, 1000)
PLACES = torch.tensor([(place, place // 2) for place in POSITIONS])  # rows and columns
SWAPPED = ("Sam3ViTConfig", "MuseSparkVisionConfig", "MuseGlimmerVisionConfig", "Gemma4VisionConfig")
"""Their code hands columns over before rows."""
PARTS = "Text|Encoder|Decoder|Module|DepthDecoder|LocalEncoder|LocalDecoder|GlobalTransformer|Patcher"
PARTS += "|Talker|TalkerText|TalkerCodePredictor|ThinkerText"
LABELS = re.compile("Rotary|RoPE|Rope")


@cache
def mapping():
    """Return the model types of the installed transformers, with their configuration classes."""
    peer("transformers")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

    classes = {}
    for name in CONFIG_MAPPING_NAMES:
        try:
            classes[name] = CONFIG_MAPPING[name]
        except (ImportError, AttributeError, KeyError, ValueError):
            classes[name] = None
    return classes


def default(name):
    """Return the default configuration of a model type, or None where transformers itself cannot make it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return mapping()[name]()
        except Exception:  # whatever transformers raises, there is nothing to read
            return None


@cache
def modeling(config_class):
    """Return the module with the code of a model, or None where it cannot be imported."""
    name = OTHERS.get(config_class.__name__, config_class.__module__.replace(".configuration_", ".modeling_"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except Exception:
            return None


def rotary_class(config_class):
    """Return the class that makes cos and sin for this configuration, told by the annotation of its `config`."""
    module = modeling(config_class)
    classes = [value for name, value in vars(module).items() if _is_rotary(name, value, module)] if module else []
    for name in _names(config_class):
        for cls in classes:
            if cls.__name__ == ROTARY.get(name) or name in _annotation(cls).split(" | "):
                return cls
    return None


def _names(config_class):
    """Return the names that code may give a configuration: its own, its parents', and those without the part."""
    names = [cls.__name__ for cls in config_class.__mro__ if cls.__name__.endswith("Config")]
    names = [name for name in names if name != "PreTrainedConfig"]
    names += ["LlamaConfig"] if config_class.__name__ in OTHERS else []
    return names + [re.sub(f"({PARTS})Config$", "Config", name) for name in names]


def _is_rotary(name, value, module):
    return inspect.isclass(value) and bool(LABELS.search(name)) and value.__module__ == module.__name__


def _annotation(cls):
    try:
        annotation = inspect.signature(cls.__init__).parameters["config"].annotation
    except (KeyError, ValueError):
        return ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def takes(cls, config_class):
    """Return whether a class is built of this configuration, by its annotation."""
    names = [base.__name__ for base in config_class.__mro__ if base.__name__.endswith("Config")]
    return names[0] in _annotation(cls).split(" | ")


def functions(config_class):
    """Return the functions that turn queries and keys in a model's code: those that its attention calls, if it does."""
    module = modeling(config_class)
    named = {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and re.search("apply.*(rotary|rope)", name) and "vision" not in name
    }
    called = {name: named[name] for name in _called(config_class, module) if name in named}
    return sorted((called or named).items(), key=lambda item: ("interleave" not in item[0], item[0]))


def _called(config_class, module):
    """Return the names that the attention of this configuration uses; attention for itself comes before that across."""
    wanted = {*_names(config_class)}
    for name, value in vars(module).items():
        of_this = inspect.isclass(value) and wanted & {*_annotation(value).split(" | ")}
        if of_this and re.search("Attention$|MLA$", name) and "Cross" not in name:
            used = value.forward.__code__.co_names
            if any(("apply" in name and "rotary" in name) or "rope" in name for name in used):
                return used
    return ()


def turned(function, tables, width):
    """Return each unit vector turned to each position: (t, width, width), whose rows are the vectors."""
    count = len(POSITIONS)
    q = torch.eye(width).reshape(1, width, 1, width).expand(1, width, count, width).contiguous()
    names = [*inspect.signature(function).parameters]
    if "freqs_cis" in names:
        if names[0] == "xq" and "llama4" in function.__module__:
            out = function(q.transpose(1, 2), q.transpose(1, 2), tables[0])[0].transpose(1, 2)
        else:
            out = function(q, q, tables[0])[0]
    elif names[0] == "x":
        out = function(q, *tables)
    else:
        out = function(q, q, *tables)[0]
    return out[0].transpose(0, 1).double().numpy()


def tables(module, layer_type=None, dim=64, axes=None, spread=False):
    """Return what a rotary module makes for POSITIONS: (cos, sin), or one complex table."""
    places = torch.tensor([POSITIONS])
    if axes:
        places = places[None].expand(axes, -1, -1)
    if spread:  # each axis has numbers of its own
        places = places // torch.arange(1, axes + 1)[:, None, None]
    x = torch.zeros(1, len(POSITIONS), dim)
    options = {"layer_type": layer_type} if "layer_type" in inspect.signature(module.forward).parameters else {}
    result = module(x, places, **options)
    return result if isinstance(result, tuple) else (result,)


def on_grid(config_class, config, width):
    """Yield what a tower for pictures makes of unit vectors at rows and columns, (t, width, width), as shapes allow."""
    module = rotary_class(config_class)(config)
    x = torch.zeros(1, len(POSITIONS), 64)
    grid = PLACES.flip(-1) if config_class.__name__ in SWAPPED else PLACES
    for places, function in itertools.product((grid, grid[None]), on_grid_functions(config_class)):
        for axis in (0, 1, 2):  # heads before tokens, behind them, or no batch
            q = torch.eye(width).expand(len(POSITIONS), width, width)
            q = q if axis == 2 else q.movedim(0, axis)[None]
            try:
                out = _call_on_grid(function, q.contiguous(), module(x, places), places)
            except (RuntimeError, TypeError, ValueError, IndexError):
                continue
            out = out if axis == 2 else out[0].movedim(axis, 0)
            if out.shape == (len(POSITIONS), width, width):
                yield out.double().numpy()


def _call_on_grid(function, q, tables, places):
    if "position_ids" in inspect.signature(function).parameters and "q" not in inspect.signature(function).parameters:
        return function(q, *tables, places)
    return function(q, q, *tables)[0]


def on_grid_functions(config_class):
    """Return the functions that turn queries and keys of pictures, those named so first."""
    named = [
        (name, value)
        for name, value in vars(modeling(config_class)).items()
        if inspect.isfunction(value) and re.search("apply.*(rotary|rope)", name)
    ]
    return [value for name, value in sorted(named, key=lambda item: not re.search("vision|2d", item[0]))]


def scores(vectors):
    """Return all dot products between turned unit vectors: what attention sees of a rotation."""
    return np.einsum("mic,njc->mnij", vectors, vectors)
