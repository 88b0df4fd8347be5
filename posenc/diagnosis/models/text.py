"""Call a model of any library with token ids and what else it takes, and keep one text to compare with."""

import copy
import inspect
from typing import Any

import torch
from torch import Tensor, nn

SAME = 2e-4
NAMES = {
    "ids": "input_ids idx ids tokens token_ids input_tokens x_ids input_seq",
    "mask": "attention_mask attn_mask mask padding_mask",
    "positions": "position_ids positions input_pos pos_ids cache_position",
    "cache": "past_key_values past cache kv_cache layer_past past_kv",
    "use_cache": "use_cache return_cache",
    "targets": "targets labels target y",
}
LIMITS = (
    "max_position_embeddings n_positions max_seq_len block_size n_ctx max_sequence_length seq_length max_seq_length"
)


def ids_of(module: nn.Module) -> str:
    """Return the name of the parameter for token ids, "" where there is none."""
    return _names(module).get("ids", "")


def _names(module: nn.Module) -> dict[str, str]:
    parameters = inspect.signature(module.forward).parameters
    found = {}
    for role, names in NAMES.items():
        name = next((name for name in parameters if name.lower() in names.split()), None)
        if name is not None:
            found[role] = name
    return found


class Model:
    """A model as a function of ids (b, t), and of a mask, positions and a cache where it takes them."""

    def __init__(self, module: nn.Module) -> None:
        self.module = copy.deepcopy(module).eval()
        self.names = _names(self.module)
        self.config = getattr(module, "config", None)
        tables = {name: part for name, part in self.module.named_modules() if isinstance(part, nn.Embedding)}
        words = getattr(self.config, "vocab_size", None)
        sizes = [part.num_embeddings for part in tables.values()]
        of_words = [n for name, n in zip(tables, sizes, strict=True) if not _of_positions(name)]
        self.vocabulary = words if isinstance(words, int) else max(of_words or sizes)
        self.rows = next((n for name, n in zip(tables, sizes, strict=True) if _of_positions(name)), 0)
        said = [getattr(place, name, None) for place in (self.config, module) for name in LIMITS.split()]
        self.limit = next((one for one in said if type(one) is int and one > 0), self.rows)

    @property
    def told(self) -> list[str]:
        """The names of what it can be told besides ids."""
        return [self.names[role] for role in ("mask", "positions", "cache") if role in self.names]

    @property
    def is_encoder(self) -> bool:
        """Whether the configuration says that it is no decoder, as BERT's does."""
        return getattr(self.config, "is_decoder", None) is False and "cache" not in self.names

    def takes(self, role: str) -> bool:
        """Tell whether there is a parameter for the role."""
        return role in self.names

    def fresh(self) -> "Model":
        """Return a copy that shares no memory."""
        return Model(self.module)

    def __call__(self, ids: Tensor, **given: Any) -> Tensor:
        """Return the logits (b, t, vocabulary)."""
        return self.whole(ids, **given)[0]

    def whole(self, ids: Tensor, **given: Any) -> tuple[Tensor, Any]:
        """Return the logits and the cache, if one comes back."""
        arguments = {self.names[role]: value for role, value in given.items() if role in self.names}
        made = self.module(**{self.names["ids"]: ids}, **arguments)
        logits = _logits(made)
        if logits.shape[1] < ids.shape[1] and "targets" in self.names:
            logits = _logits(self.module(**{self.names["ids"]: ids, self.names["targets"]: ids}, **arguments))
        if logits.ndim != 3 or logits.shape[:2] != ids.shape:
            raise ValueError(f"doctor: logits must be {(*ids.shape, 'vocabulary')}, got {tuple(logits.shape)}")
        cache = getattr(made, "past_key_values", None)
        if cache is None and isinstance(made, tuple) and len(made) > 1 and not isinstance(made[1], Tensor):
            cache = made[1]
        return logits.detach().float(), cache


def _logits(made: Any) -> Tensor:
    for name in ("logits", "last_hidden_state"):
        if isinstance(getattr(made, name, None), Tensor):
            return getattr(made, name)
    return made[0] if isinstance(made, tuple) else made


def _of_positions(name: str) -> bool:
    last = name.lower().rpartition(".")[2]
    return "position" in last or last in ("wpe", "pos_emb", "pos_embed", "pos_embedding", "embed_pos")


class Text:
    """Two texts of random words, and the logits of a model for them."""

    def __init__(self, model: Model, t: int = 12) -> None:
        self.model = model
        self.ids = self.random(t)
        self.logits = model(self.ids)

    def random(self, t: int, seed: int = 0) -> Tensor:
        """Return ids (2, t); the first few words are left out, padding and such are among them."""
        generator = torch.Generator().manual_seed(seed)
        low = min(5, self.model.vocabulary - 2)
        return torch.randint(low, self.model.vocabulary, (2, t), generator=generator)

    def moved(self, place: int) -> Tensor:
        """Return how much the logits of each token change with the word at one place, (t,)."""
        other = self.ids.clone()
        other[:, place] = self.random(1, 7)[:, 0]
        other[:, place] += (other[:, place] == self.ids[:, place]).long() * (1 - 2 * (other[:, place] > 6).long())
        change = (self.model(other) - self.logits).abs().amax((0, 2))
        return change / self.logits.abs().max()
