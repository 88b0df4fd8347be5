"""Find code by its name, and build an attention layer of transformers: a small configuration, rotation and mask."""

import copy
import inspect
import re
import sys
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posenc.doctor.call.code import first_result
from posenc.doctor.safe_call import attempt

# Sizes of a small model, under each name that configurations have for them.
SMALL: dict[str, int] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model"), 64),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads"), 4),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers"), 6),
    **dict.fromkeys(("head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "kv_lora_rank"), 16),
    "num_key_value_heads": 2,
    "rotary_dim": 8,
    "q_lora_rank": 32,
    "intermediate_size": 96,
    "vocab_size": 99,
    "max_position_embeddings": 8_192,
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
    # The files are read as text, the likeliest first: importing hundreds of models takes minutes.
    files = sorted(folder.glob("*/modeling_*.py"), key=lambda file: (not file.parent.name.startswith(model), file.name))
    for file in files:
        if definition.search(file.read_text(encoding="utf-8")):
            return f"transformers.models.{file.parent.name}.{file.stem}"
    return ""


def is_layer_of_transformers(function: Any) -> bool:
    """Return whether something is an attention layer of transformers, or the class of one."""
    cls = function if isinstance(function, type) else type(function)
    is_attention = cls.__module__.startswith("transformers.models.") and "Attention" in cls.__name__
    if not is_attention or not issubclass(cls, nn.Module):
        return False
    parameters = {*inspect.signature(cls).parameters, *inspect.signature(cls.forward).parameters}
    return {"config", "hidden_states"} <= parameters


class Layer(nn.Module):
    """An attention layer as a function of embeddings, with the rotation and the mask that its model would pass."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        cls = source if isinstance(source, type) else type(source)
        names = vars(sys.modules[cls.__module__])
        # Settings change below, and the layer of the caller keeps its own.
        source = source if isinstance(source, type) else copy.deepcopy(source)
        self.config = source.config if hasattr(source, "config") else _small_config(cls)
        # Attention in plain PyTorch operations: fused kernels take masks in other forms.
        self.config._attn_implementation = "eager"
        # With a layer_idx, by which it finds its keys in the cache.
        self.layer = source(self.config, **_known_to(source, {"layer_idx": 0})) if isinstance(source, type) else source
        # What makes the rotation and the bias for the layer stands in the layer's file.
        rotaries = [value for name, value in names.items() if name.endswith("RotaryEmbedding") and "Vision" not in name]
        takes_rotation = "position_embeddings" in inspect.signature(cls.forward).parameters
        self.rotary = rotaries[0](self.config) if rotaries and takes_rotation else None
        alibis = [value for name, value in names.items() if re.fullmatch(r"build_.*alibi.*", name)]
        self.alibi = alibis[0] if alibis else None
        counts = [getattr(self.layer, name) for name in HEADS if hasattr(self.layer, name)]
        self.num_heads = counts[0] if counts else self.config.num_attention_heads
        self.__qualname__ = cls.__qualname__

    def forward(self, x: Tensor, positions: Tensor | None = None, mask: Tensor | None = None, cache: Any = None) -> Any:
        """Return the layer's result for embeddings (b, t, d), and the cache if it takes one."""
        spare_cache = copy.deepcopy(cache)  # a call that fails may have written to it
        result, failed = attempt(self._call, x, positions, mask, cache)
        # Most layers add the mask to their logits; a few, such as MPT's, take one that is true where it hides.
        return self._call(x, positions, mask, spare_cache, mask_is_boolean=True) if failed else result

    def _call(
        self, x: Tensor, positions: Tensor | None, visible: Tensor | None, cache: Any, mask_is_boolean: bool = False
    ) -> Any:
        """Return the layer's result with a mask of numbers to add, or of booleans that are true where it hides."""
        cache = sys.modules["transformers"].DynamicCache(config=self.config) if cache is None else cache
        # Without positions, tokens follow on those in the cache.
        cached = cache.get_seq_length()
        position_ids = cached + torch.arange(x.shape[1]) if positions is None else positions
        position_ids = position_ids if position_ids.ndim == 2 else position_ids[None]
        mask = _added_mask(x, cached, visible)  # (b, 1, t, s)
        # All that a model passes to its layers, under each name that there is for it.
        arguments = {
            "position_ids": position_ids,
            **dict.fromkeys(("attention_mask", "mask"), mask < 0 if mask_is_boolean else mask),
            **dict.fromkeys(CACHES, cache),
            "cache_position": position_ids[0],
            "use_cache": True,
            "residual": torch.zeros_like(x),
        }
        if self.rotary is not None:
            arguments["position_embeddings"] = self._cos_and_sin(self.rotary, x, position_ids)
        if self.alibi is not None:
            arguments |= dict.fromkeys(("alibi", "position_bias"), self._alibi_bias(self.alibi, x, cached + x.shape[1]))
        # The layer gets what it has a parameter for, and None for what else it cannot be called without.
        parameters = inspect.signature(self.layer.forward).parameters
        needed = [n for n, p in parameters.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        arguments = dict.fromkeys(needed[1:]) | _known_to(self.layer.forward, arguments)
        result = first_result(self.layer(x, **arguments))
        return (result, cache) if {*CACHES} & {*arguments} else result

    def _cos_and_sin(self, rotary: nn.Module, x: Tensor, position_ids: Tensor) -> Any:
        """Return cos and sin, a pair of (b, t, r), for positions (b, t)."""
        if "layer_type" not in inspect.signature(rotary.forward).parameters:
            return rotary(x, position_ids)
        # Gemma 3, for example, has one base for layers with a sliding window and another for all others.
        return rotary(x, position_ids, getattr(self.layer, "layer_type", None) or self.config.layer_types[0])

    def _alibi_bias(self, alibi: Callable[..., Tensor], x: Tensor, s: int) -> Tensor:
        arguments = {
            "attention_mask": torch.ones(len(x), s, dtype=torch.long),
            "num_heads": self.num_heads,
            "dtype": x.dtype,
            "sequence_length": s,
        }
        return alibi(**_known_to(alibi, arguments))


def _known_to(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return those of the arguments that a function has a parameter for."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in parameters}


def _added_mask(x: Tensor, cached: int, visible: Tensor | None) -> Tensor:
    """Return what is added to the logits: the least number on keys ahead and on those that are not visible (b, s)."""
    t = x.shape[1]
    s = cached + t
    # The diagonal is moved to the right by the keys in the cache, which all queries see.
    shown = torch.ones(len(x), 1, t, s, dtype=torch.bool).tril(cached)  # (b, 1, t, s)
    if visible is not None:
        shown = shown & visible.reshape(len(x), 1, 1, s).bool()
    # As transformers does it: -inf would give NaN where a query sees no key at all.
    return torch.where(shown, 0.0, torch.finfo(x.dtype).min).to(x.dtype)  # (b, 1, t, s)


def _small_config(cls: type) -> Any:
    names = vars(sys.modules[cls.__module__])
    # The configuration that the class says it takes, else the first that its file imports.
    candidates = [inspect.signature(cls).parameters["config"].annotation]
    candidates += [value for name, value in names.items() if name.endswith("Config")]
    classes = [c for c in candidates if isinstance(c, type) and c.__name__.endswith("Config")]
    config_class = next(c for c in classes if c.__name__.lower() != "pretrainedconfig")
    usual = config_class().to_dict()
    small = dict(SMALL)
    if usual.get("kv_lora_rank"):  # latent attention has as many heads of keys as of queries
        small["num_key_value_heads"] = SMALL["num_attention_heads"]
    config = config_class(**{name: value for name, value in small.items() if name in usual})
    # A model of texts and images keeps the sizes of its layers for texts one level below.
    return config.get_text_config()
