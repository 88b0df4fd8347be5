"""Call a model of any library with token ids and what else it takes, and keep one text to compare with."""

import copy
import inspect
from typing import Any

import torch
from torch import Tensor, nn

SAME, CLOSE = 2e-4, 2e-3  # of the largest logit
TOKENS, MIDDLE, LAST = 12, 6, 11
LONG = 1_024
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


def takes_ids(module: nn.Module) -> bool:
    """Tell whether there is a parameter for token ids."""
    return "ids" in _names(module)


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
        config = getattr(module, "config", None)
        parts = self.module.named_modules()
        tables = {name: part.num_embeddings for name, part in parts if isinstance(part, nn.Embedding)}
        places = [rows for name, rows in tables.items() if _of_positions(name)]
        words = [rows for name, rows in tables.items() if not _of_positions(name)]
        told = getattr(config, "vocab_size", None)
        self.vocabulary = told if isinstance(told, int) else max(words or places)
        self.rows = max(places, default=0)
        said = [getattr(place, name, None) for place in (config, module) for name in LIMITS.split()]
        self.longest = min(one for one in (LONG, self.rows, *said) if type(one) is int and one >= TOKENS)

    @property
    def told(self) -> list[str]:
        """The names of what it can be told besides ids."""
        return [self.names[role] for role in ("mask", "positions", "cache") if role in self.names]

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
        """Return the logits and the cache, if one comes back; some give all logits only where targets are given."""
        given |= {"ids": ids}
        made = self._result(given)
        if _logits(made).shape[:-1] != ids.shape and self.takes("targets"):
            made = self._result(given | {"targets": ids})
        logits = _logits(made)
        if logits.shape[:-1] != ids.shape:
            raise ValueError(f"doctor: logits must be {(*ids.shape, 'vocabulary')}, got {tuple(logits.shape)}")
        return logits.detach().float(), _cache(made)

    def _result(self, given: dict[str, Any]) -> Any:
        return self.module(**{self.names[role]: value for role, value in given.items() if self.takes(role)})


def _logits(made: Any) -> Tensor:
    for name in ("logits", "last_hidden_state"):
        if isinstance(getattr(made, name, None), Tensor):
            return getattr(made, name)
    return made[0] if isinstance(made, tuple) else made


def _cache(made: Any) -> Any:
    """Return the first of what comes back that is no tensor, as logits and a loss are."""
    parts = made if isinstance(made, tuple) else [getattr(made, "past_key_values", None)]
    return next((part for part in parts if not isinstance(part, (Tensor, type(None)))), None)


def _of_positions(name: str) -> bool:
    last = name.lower().rpartition(".")[2]
    return any(part in last for part in ("position", "wpe", "pos_emb", "embed_pos"))


class Text:
    """Two texts of random words, and the logits of a model for them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.ids = self.random(TOKENS)
        self.places = torch.arange(TOKENS).expand_as(self.ids)
        self.logits = model(self.ids)

    def random(self, t: int) -> Tensor:
        """Return ids (2, t), the same first ones for any t; the first few words are padding and such."""
        generator = torch.Generator().manual_seed(0)
        low = min(5, self.model.vocabulary - 2)
        return torch.randint(low, self.model.vocabulary, (t, 2), generator=generator).T.contiguous()

    def moved(self, place: int) -> Tensor:
        """Return how much the logits of each other token change with the word at one place, (t - 1,)."""
        here = torch.arange(TOKENS) == place
        others = torch.arange(self.model.vocabulary).roll(997)  # for each word another one
        change = self.model(torch.where(here, others[self.ids], self.ids)) - self.logits
        return change.abs().amax((0, 2))[~here] / self.logits.abs().max()
