"""Call a model of any library with token ids and what else it takes, and record one text for the checks."""

import copy
import inspect
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

# Of the largest logit: rounding differs with the shape of a call, and more so between prefill and decoding.
SAME, CLOSE = 2e-4, 2e-3
TOKENS, MIDDLE, LAST = 12, 6, 11  # of the text: how many, and two positions
LONG = 1_024  # tokens of a long text, where the model takes as many
PARAMETERS = {  # their names by role
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
POSITION_TABLES = ("position", "wpe", "pos_emb", "embed_pos")  # in the names of their modules


class Model:
    """A model as a function of ids (b, t), and of a mask, positions and a cache where it takes them."""

    def __init__(self, module: nn.Module) -> None:
        self.module = copy.deepcopy(module).eval()
        self.names = parameter_names(self.module)
        config = getattr(module, "config", None)
        rows: dict[bool, list[int]] = {True: [], False: []}  # of embeddings, by whether they are of positions
        self.adds_positions = False
        for name, part in self.module.named_modules():
            is_table = _is_table_of_positions(name, part)
            self.adds_positions = self.adds_positions or is_table
            if isinstance(part, nn.Embedding):
                rows[is_table].append(part.num_embeddings)
        # A declared size comes first: an embedding may be padded, or be of something else, such as token types.
        declared = getattr(config, "vocab_size", None)
        self.vocabulary = declared if isinstance(declared, int) else max(rows[False] or rows[True])
        self.table_rows = max(rows[True], default=0)  # 0 for no learned table of positions
        limits = [getattr(owner, name, None) for owner in (config, module) for name in LIMITS.split()]
        lengths = [n for n in (self.table_rows, *limits) if type(n) is int and n >= TOKENS]
        self.longest = min([LONG, *lengths])

    def takes(self, role: str) -> bool:
        """Return whether there is a parameter for the role."""
        return role in self.names

    def __call__(self, ids: Tensor, **arguments: Any) -> Tensor:
        """Return the logits (b, t, vocabulary)."""
        return self.with_cache(ids, **arguments)[0]

    def with_cache(self, ids: Tensor, **arguments: Any) -> tuple[Tensor, Any]:
        """Return the logits (b, t, vocabulary) and the cache, None if none comes back."""
        result = self._result(ids=ids, **arguments)
        # Without targets, code for training may give the logits of the last token alone, as nanoGPT does.
        if _logits(result).shape[:-1] != ids.shape and self.takes("targets"):
            result = self._result(ids=ids, targets=ids, **arguments)
        logits = _logits(result)
        if logits.shape[:-1] != ids.shape:
            raise ValueError(f"doctor: logits must be {(*ids.shape, 'vocabulary')}, got {tuple(logits.shape)}")
        return logits.detach().float(), _cache(result)

    def _result(self, **arguments: Any) -> Any:
        return self.module(**{self.names[role]: value for role, value in arguments.items() if self.takes(role)})

    def random_ids(self, t: int) -> Tensor:
        """Return ids (2, t), the same first ones for any t."""
        generator = torch.Generator().manual_seed(0)
        low = min(5, self.vocabulary - 2)  # the first ids are those of padding and the like
        # Drawn token by token, so that a longer text begins with the shorter one.
        return torch.randint(low, self.vocabulary, (t, 2), generator=generator).T.contiguous()  # (2, t)


class ModelRecord(NamedTuple):
    """What the checks share: the model, two texts of random tokens, and the logits for them."""

    model: Model
    ids: Tensor  # (b, t)
    positions: Tensor  # (b, t)
    logits: Tensor  # (b, t, v)

    def changes(self, token: int) -> Tensor:
        """Return how much the logits of each other token change with one token, (t - 1,)."""
        is_changed = torch.arange(TOKENS) == token  # (t,)
        # Each id is replaced by another one; a random one might be its own.
        others = torch.arange(self.model.vocabulary).roll(self.model.vocabulary // 2)  # (v,)
        logits = self.model(torch.where(is_changed, others[self.ids], self.ids))
        return (logits - self.logits).abs().amax((0, 2))[~is_changed] / self.logits.abs().max()  # (t-1,)


def _is_table_of_positions(name: str, part: nn.Module) -> bool:
    """Return whether a module holds or computes rows added to embeddings, by its name; no rotation, no bias."""
    last = name.lower().rpartition(".")[2]
    is_added = not any(piece in f"{last} {type(part).__name__.lower()}" for piece in ("rot", "rope", "rel", "bias"))
    return any(piece in last for piece in POSITION_TABLES) and (is_added or isinstance(part, nn.Embedding))


def measure_model(module: nn.Module) -> ModelRecord:
    """Return the record of a model; raise what its call raises."""
    model = Model(module)
    ids = model.random_ids(TOKENS)
    return ModelRecord(model, ids, torch.arange(TOKENS).expand_as(ids), model(ids))


def parameter_names(module: nn.Module) -> dict[str, str]:
    """Return the name of the parameter of each role that a module takes."""
    parameters = inspect.signature(module.forward).parameters
    names: dict[str, str] = {}
    for role, known in PARAMETERS.items():
        matching = [name for name in parameters if name.lower() in known.split()]
        if matching:
            names[role] = matching[0]
    return names


def _logits(result: Any) -> Tensor:
    # A model without a head, such as transformers' BertModel, gives its last hidden states.
    for name in ("logits", "last_hidden_state"):
        if isinstance(getattr(result, name, None), Tensor):
            return getattr(result, name)
    return result[0] if isinstance(result, tuple) else result


def _cache(result: Any) -> Any:
    """Return the first part of a result that is no tensor, as logits and a loss are."""
    parts = result if isinstance(result, tuple) else [getattr(result, "past_key_values", None)]
    for part in parts:
        if not isinstance(part, Tensor | None):
            return part
    return None
