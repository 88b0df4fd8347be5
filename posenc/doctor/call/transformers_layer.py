"""Find code by its name, and build an attention layer of transformers: a small configuration, rotation and mask."""

import copy
import inspect
import re
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posenc.doctor.call.code import first_result
from posenc.doctor.safe_call import attempt

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "n_embd": 64,
    "d_model": 64,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_hidden_layers": 6,
    "n_layer": 6,
    "n_layers": 6,
    "intermediate_size": 96,
    "max_position_embeddings": 8_192,
    "vocab_size": 99,
    "rotary_dim": 8,
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "sliding_window": 4_096,
}


HEADS = ("num_attention_heads", "num_heads", "n_heads", "n_head")
CACHES = ("past_key_values", "past_key_value", "layer_past")


def code_by_name(name: str) -> Any:
    """Return what is called module:name; of transformers, a class of any of its models by its name alone.

    Raises:
        ValueError: If there is no such module or name.
    """
    module, _, inside = name.partition(":")
    try:
        if module == "transformers":
            module = _model_that_defines(inside.partition(".")[0]) or module
        return attrgetter(inside)(import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"doctor: function must be module:function, got {name}; {error}") from error


def _model_that_defines(name: str) -> str:
    """Return the module of transformers that defines a class or function, "" if none does."""
    folder = Path(str(import_module("transformers").__file__)).parent / "models"
    definition = re.compile(rf"^(class|def) {re.escape(name)}\b", re.M)
    model = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower().partition("_")[0]  # "llama" of LlamaAttention
    files = sorted(folder.glob("*/modeling_*.py"), key=lambda file: (not file.parent.name.startswith(model), file.name))
    for file in files:
        if definition.search(file.read_text(encoding="utf-8")):
            return f"transformers.models.{file.parent.name}.{file.stem}"
    return ""


def is_layer_of_transformers(function: Any) -> bool:
    """Tell whether something is an attention layer of transformers, or the class of one."""
    cls = function if isinstance(function, type) else type(function)
    if not (cls.__module__.startswith("transformers.models.") and "Attention" in cls.__name__):
        return False
    parameters = {*inspect.signature(cls).parameters, *inspect.signature(cls.forward).parameters}
    return {"config", "hidden_states"} <= parameters


class Layer(nn.Module):
    """An attention layer as a function of embeddings, with the rotation and the mask that its model would pass."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        cls = source if isinstance(source, type) else type(source)
        self.config = source.config if hasattr(source, "config") else _small_config(cls)
        index = {"layer_idx": 0} if "layer_idx" in inspect.signature(cls).parameters else {}
        self.layer = source(self.config, **index) if isinstance(source, type) else source
        self.config._attn_implementation = "eager"
        self.rotary = _rotary(cls, self.config)
        parameters = inspect.signature(self.layer.forward).parameters
        self.takes = {*parameters}
        self.needs = [n for n, p in parameters.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        counts = [getattr(self.layer, name) for name in HEADS if hasattr(self.layer, name)]
        self.num_heads = counts[0] if counts else self.config.num_attention_heads
        self.alibi = _alibi_builder(cls)
        self.__qualname__ = cls.__qualname__

    def forward(self, x: Tensor, positions: Tensor | None = None, mask: Tensor | None = None, cache: Any = None) -> Any:
        """Return the layer's result for embeddings (b, t, d), and the cache if it takes one."""
        spare_cache = copy.deepcopy(cache)  # a call that fails may have written to it
        result, failed = attempt(self._call, x, positions, mask, cache)
        return self._call(x, positions, mask, spare_cache, mask_is_boolean=True) if failed else result

    def _call(
        self, x: Tensor, positions: Tensor | None, visible: Tensor | None, cache: Any, mask_is_boolean: bool = False
    ) -> Any:
        """Return the layer's result with a mask of numbers to add, or of booleans that are true where it hides."""
        cache = _empty_cache(self.config) if cache is None else cache
        cached = cache.get_seq_length()
        position_ids = cached + torch.arange(x.shape[1]) if positions is None else positions
        position_ids = position_ids if position_ids.ndim == 2 else position_ids[None]
        added = _added_mask(x, cached, visible)
        mask = added < 0 if mask_is_boolean else added
        arguments: dict[str, Any] = dict.fromkeys(self.needs[1:]) | {
            "position_ids": position_ids,
            "attention_mask": mask,
            "mask": mask,
            **dict.fromkeys(CACHES, cache),
            "cache_position": position_ids[0],
            "use_cache": True,
            "residual": torch.zeros_like(x),
        }
        if self.rotary is not None:
            has_layer_types = "layer_type" in inspect.signature(self.rotary.forward).parameters
            layer_type = (self._layer_type(),) if has_layer_types else ()
            arguments["position_embeddings"] = self.rotary(x, position_ids, *layer_type)
        if self.alibi is not None:
            arguments |= dict.fromkeys(("alibi", "position_bias"), self._alibi_bias(x, cached + x.shape[1]))
        result = self.layer(x, **{name: value for name, value in arguments.items() if name in self.takes})
        result = first_result(result)
        return (result, cache) if self.takes & {*CACHES} else result

    def _alibi_bias(self, x: Tensor, s: int) -> Tensor:
        """Return the bias for `s` keys that the layer's file makes."""
        arguments = {
            "attention_mask": torch.ones(len(x), s, dtype=torch.long),
            "num_heads": self.num_heads,
            "dtype": x.dtype,
            "sequence_length": s,
        }
        taken = inspect.signature(self.alibi).parameters
        return self.alibi(**{name: value for name, value in arguments.items() if name in taken})

    def _layer_type(self) -> str:
        return getattr(self.layer, "layer_type", None) or self.config.layer_types[0]


def _added_mask(x: Tensor, cached: int, visible: Tensor | None) -> Tensor:
    """Return what is added to the scores: the least number on keys ahead and on those that are not visible (b, s)."""
    t = x.shape[1]
    s = cached + x.shape[1]
    shown = torch.ones(t, s, dtype=torch.bool).tril(cached)[None, None]  # (1, 1, t, s)
    if visible is not None:
        shown = shown & visible.reshape(len(x), 1, 1, s).bool()
    shown = shown.expand(len(x), -1, -1, -1)
    return torch.where(shown, 0.0, torch.finfo(x.dtype).min).to(x.dtype)


def _small_config(cls: type) -> Any:
    """Return a small configuration of the model that the class belongs to."""
    module = sys.modules[cls.__module__]
    parameter = inspect.signature(cls).parameters.get("config")
    candidates = [None if parameter is None else parameter.annotation]
    candidates += [value for name, value in vars(module).items() if name.endswith("Config")]
    classes = [c for c in candidates if isinstance(c, type) and c.__name__.endswith("Config")]
    config_class = next(c for c in classes if c.__name__.lower() != "pretrainedconfig")
    usual = config_class().to_dict()
    small = dict(SMALL)
    if usual.get("kv_lora_rank"):  # latent attention has as many heads of keys as of queries
        small["num_key_value_heads"] = SMALL["num_attention_heads"]
    config = config_class(**{name: value for name, value in small.items() if name in usual})
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    config._attn_implementation = "eager"
    return config


def _rotary(cls: type, config: Any) -> nn.Module | None:
    """Return the module that makes cos and sin for the layer, if its file has one."""
    names = vars(sys.modules[cls.__module__])
    classes = [value for name, value in names.items() if name.endswith("RotaryEmbedding") and "Vision" not in name]
    takes = inspect.signature(cls.forward).parameters
    return classes[0](config) if classes and "position_embeddings" in takes else None


def _alibi_builder(cls: type) -> Any:
    """Return the function that makes ALiBi for the layer, if its file has one."""
    names = vars(sys.modules[cls.__module__])
    return next((value for name, value in names.items() if re.fullmatch(r"build_.*alibi.*", name)), None)


def _empty_cache(config: Any) -> Any:
    return sys.modules["transformers"].DynamicCache(config=config)
