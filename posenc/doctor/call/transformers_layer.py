"""Build an attention layer of transformers from its class alone: a small configuration, its rotation, a mask."""

import copy
import inspect
import re
import sys
from typing import Any

import torch
from torch import Tensor, nn

from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import first_result

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


class Layer(nn.Module):
    """An attention layer as a function of embeddings, with the rotation and the mask that its model would give."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        cls = given if isinstance(given, type) else type(given)
        self.config = given.config if hasattr(given, "config") else _config(cls)
        index = {"layer_idx": 0} if "layer_idx" in inspect.signature(cls).parameters else {}
        self.layer = given(self.config, **index) if isinstance(given, type) else given
        self.config._attn_implementation = "eager"
        self.rotary = _rotary(cls, self.config)
        parameters = inspect.signature(self.layer.forward).parameters
        self.takes = {*parameters}
        self.needs = [n for n, p in parameters.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        said = (getattr(self.layer, name) for name in HEADS if hasattr(self.layer, name))
        self.num_heads = next(said, self.config.num_attention_heads)
        self.alibi = _alibi(cls)
        self.__qualname__ = cls.__qualname__

    def forward(self, x: Tensor, positions: Tensor | None = None, mask: Tensor | None = None, cache: Any = None) -> Any:
        """Return the layer's result for embeddings (b, t, d), and the cache if it takes one."""
        spare = copy.deepcopy(cache)  # a call that fails may have written to it
        made, failed = attempt(self._called, x, positions, mask, cache, lambda added: added)
        return self._called(x, positions, mask, spare, lambda added: added < 0) if failed else made

    def _called(self, x: Tensor, positions: Tensor | None, seen: Tensor | None, cache: Any, told: Any) -> Any:
        """Return the layer's result with a mask of numbers to add, as it is `told`: so, or as what is hidden."""
        cache = _cache(self.config) if cache is None else cache
        behind = cache.get_seq_length()
        places = behind + torch.arange(x.shape[1]) if positions is None else positions
        places = places if places.ndim == 2 else places[None]
        given: dict[str, Any] = dict.fromkeys(self.needs[1:]) | {
            "position_ids": places,
            **dict.fromkeys(("attention_mask", "mask"), told(_mask(x, behind, seen))),
            **dict.fromkeys(CACHES, cache),
            "cache_position": places[0],
            "use_cache": True,
            "residual": torch.zeros_like(x),
        }
        if self.rotary is not None:
            several = "layer_type" in inspect.signature(self.rotary.forward).parameters
            given["position_embeddings"] = self.rotary(x, places, *((self._kind(),) if several else ()))
        if self.alibi is not None:
            given |= dict.fromkeys(("alibi", "position_bias"), self._bias(x, behind + x.shape[1]))
        made = self.layer(x, **{name: value for name, value in given.items() if name in self.takes})
        made = first_result(made)
        return (made, cache) if self.takes & {*CACHES} else made

    def _bias(self, x: Tensor, s: int) -> Tensor:
        """Return the bias for `s` keys that the layer's file makes."""
        given = {
            "attention_mask": torch.ones(len(x), s, dtype=torch.long),
            "num_heads": self.num_heads,
            "dtype": x.dtype,
            "sequence_length": s,
        }
        return self.alibi(**{name: given[name] for name in inspect.signature(self.alibi).parameters if name in given})

    def _kind(self) -> str:
        """Return which of several kinds of layers this is."""
        return getattr(self.layer, "layer_type", None) or self.config.layer_types[0]


def _mask(x: Tensor, behind: int, seen: Tensor | None) -> Tensor:
    """Return what is added to the scores: -inf on keys ahead and on those that are not seen (b, s)."""
    t, s = x.shape[1], behind + x.shape[1]
    shown = torch.ones(t, s, dtype=torch.bool).tril(behind)[None, None]
    if seen is not None:
        shown = shown & seen.reshape(len(x), 1, 1, s).bool()
    shown = shown.expand(len(x), -1, -1, -1)
    return torch.where(shown, 0.0, torch.finfo(x.dtype).min).to(x.dtype)


def _config(cls: type) -> Any:
    """Return a small configuration of the model that the class belongs to."""
    module = sys.modules[cls.__module__]
    said = inspect.signature(cls).parameters.get("config")
    kinds = [said.annotation if said is not None else None]
    kinds += [value for name, value in vars(module).items() if name.endswith("Config")]
    with_check_name = [one for one in kinds if isinstance(one, type) and one.__name__.endswith("Config")]
    kind = next(one for one in with_check_name if one.__name__.lower() != "pretrainedconfig")
    usual = kind().to_dict()
    latent = {"num_key_value_heads": SMALL["num_attention_heads"]} if usual.get("kv_lora_rank") else {}
    config = kind(**{name: value for name, value in (SMALL | latent).items() if name in usual})
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    config._attn_implementation = "eager"
    return config


def _rotary(cls: type, config: Any) -> nn.Module | None:
    """Return the module that makes cos and sin for the layer, if its file has one."""
    names = vars(sys.modules[cls.__module__])
    kinds = [value for name, value in names.items() if name.endswith("RotaryEmbedding") and "Vision" not in name]
    takes = inspect.signature(cls.forward).parameters
    return kinds[0](config) if kinds and "position_embeddings" in takes else None


def _alibi(cls: type) -> Any:
    """Return the function that makes ALiBi for the layer, if its file has one."""
    names = vars(sys.modules[cls.__module__])
    return next((value for name, value in names.items() if re.fullmatch(r"build_.*alibi.*", name)), None)


def _cache(config: Any) -> Any:
    return sys.modules["transformers"].DynamicCache(config=config)
