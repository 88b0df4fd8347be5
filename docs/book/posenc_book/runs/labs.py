"""The labs: small models whose results the chapters read, in docs/assets/data/labs.json.

Half an hour on one core. Three sections, each with every encoding that takes part:

capability   one attention layer learns one of five questions at length 32 and is asked at up to eight times that
language     two layers read a text 64 letters at a time and are scored with up to eight times the context
extension    the language model with RoPE, stretched to longer contexts, with and without a little training there
"""

import hashlib
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc.add.learned import Learned
from posenc.add.sinusoidal import Sinusoidal
from posenc.bias.alibi import ALiBi
from posenc.bias.fire import FIRE
from posenc.bias.kerple import KERPLE
from posenc.bias.sandwich import Sandwich
from posenc.bias.t5 import T5
from posenc.rotate.frequencies import dynamic_ntk, linear, llama3, ntk, yarn
from posenc.rotate.pope import PoPE
from posenc.rotate.rope import RoPE
from posenc.score.deberta import DeBERTa
from posenc.score.shaw import Shaw
from posenc.score.transformer_xl import TransformerXL
from posenc_book.lab import (
    Model,
    accuracy,
    bits,
    copy_back,
    corpus,
    first_token,
    latest,
    look_up,
    named_offset,
    passages,
    train,
)
from posenc_book.runs.cell import Cell, Study

DIM, HEADS, HEAD = 64, 4, 16
QUARTER = np.where(np.arange(8) < 2, 10_000.0 ** (-np.arange(8) / 8), 0.0)  # RoPE that turns its 2 fastest pairs of 8

# The arguments of Model that give it each encoding, for a trained length
ENCODINGS: dict[str, Callable[[int], dict[str, Any]]] = {
    "NoPE": lambda length: {},
    "sinusoidal": lambda length: {"add": Sinusoidal(DIM)},
    "learned": lambda length: {"add": Learned(DIM, length), "last": length - 1},
    "Shaw": lambda length: {"encoding": Shaw(HEAD, clip=16)},
    "Transformer-XL": lambda length: {"encoding": TransformerXL(HEAD, HEADS)},
    "DeBERTa": lambda length: {"encoding": DeBERTa(HEAD, HEADS, buckets=16, max_distance=64)},
    "RoPE": lambda length: {"encoding": RoPE(HEAD)},
    "RoPE, 2 of 8 pairs": lambda length: {"encoding": RoPE(HEAD, theta=QUARTER)},
    "ALiBi": lambda length: {"encoding": ALiBi(HEADS)},
    "T5": lambda length: {"encoding": T5(HEADS, buckets=16, max_distance=64, bidirectional=False)},
    "KERPLE": lambda length: {"encoding": KERPLE(HEADS)},
    "Sandwich": lambda length: {"encoding": Sandwich(HEADS)},
    "FIRE": lambda length: {"encoding": FIRE(HEADS, threshold=float(length))},
    "PoPE": lambda length: {"encoding": PoPE(HEAD, HEADS)},
}
TASKS = {
    "copy 4 back": (copy_back(4), {"tokens": 16}),
    "named offset": (named_offset(), {"tokens": 128, "answers": 16}),
    "look up": (look_up(), {"tokens": 272, "answers": 16}),
    "latest": (latest(), {"tokens": 136, "answers": 16}),
    "first token": (first_token(), {"tokens": 16}),
}
EXTENSIONS = {
    "as trained": ("none",),
    "factor 8": ("linear", "NTK", "YaRN", "Llama 3"),
    "factor that fits": ("linear", "dynamic NTK", "YaRN"),
    "factor 8, trained on": ("none", "linear", "NTK", "YaRN", "Llama 3"),
}
LENGTHS = (32, 64, 128, 256)
CONTEXTS = (64, 96, 128, 256, 512)
SCALE, TRAINED = 8, 64


def capability(encoding: str, task: str, seed: int) -> dict[int, float]:
    """Return {length: accuracy}; beyond the trained length only what stands beyond it is scored."""
    question, size = TASKS[task]
    torch.manual_seed(seed)
    model = Model(dim=DIM, heads=HEADS, **size, **ENCODINGS[encoding](32))
    train(model, question, steps=500, seed=seed)
    return {n: accuracy(model, question, n, start=0 if n == 32 else 32, batch=512) for n in LENGTHS}


@cache
def halves() -> tuple[Tensor, Tensor, int]:
    """Return the text to learn, the text to be scored on, and the size of the alphabet."""
    ids, alphabet = corpus()
    cut = int(0.9 * len(ids))
    return ids[:cut], ids[cut:], len(alphabet)


def reader(encoding: str, seed: int, steps: int = 800) -> Model:
    """Return a model of two layers that has read the text, TRAINED letters at a time."""
    learn, _, letters = halves()
    torch.manual_seed(seed)
    model = Model(tokens=letters, dim=DIM, heads=HEADS, depth=2, hidden=4 * DIM)
    # What an encoding learns is drawn after the rest, so that all models of a seed begin with the same weights.
    for name, setting in ENCODINGS[encoding](TRAINED).items():
        setattr(model, name, setting)
    train(model, passages(learn), steps, length=TRAINED, batch=24, seed=seed)
    return model


def scores(model: Model, prepare: Callable[[Model, int], None] = lambda model, context: None) -> dict[int, float]:
    """Return {context: bits for each letter}; `prepare(model, context)` is called before each context."""
    held_out = halves()[1]
    by_context = {}
    for context in CONTEXTS:
        prepare(model, context)
        by_context[context] = bits(model, held_out, context, texts=192)
    return by_context


def language(encoding: str, seed: int) -> dict[int, float]:
    """Return {context: bits}."""
    return scores(reader(encoding, seed))


def stretched(recipe: str, factor: float) -> RoPE:
    """Return RoPE for `factor` times the trained context."""
    recipes = {
        "none": lambda: (None, 1.0),
        "linear": lambda: linear(HEAD, factor),
        "NTK": lambda: ntk(HEAD, factor),
        "dynamic NTK": lambda: dynamic_ntk(HEAD, 1.0, factor * TRAINED, TRAINED),
        "YaRN": lambda: yarn(HEAD, factor, TRAINED),
        "Llama 3": lambda: llama3(HEAD, factor, original_length=TRAINED, base=10_000.0),
    }
    theta, attention_factor = recipes[recipe]()
    return RoPE(HEAD, theta=theta, attention_factor=attention_factor)


# Thirteen cells of a seed begin with this model: a process trains it once.
rope_reader = cache(lambda seed: reader("RoPE", seed))


def extension(method: str, recipe: str, seed: int) -> dict[int, float]:
    """Return {context: bits} of the model with RoPE, after its frequencies are stretched by a recipe."""

    def fit(model: Model, context: int) -> None:
        model.encoding = stretched(recipe, max(1.0, context / TRAINED))

    model = deepcopy(rope_reader(seed))
    if method == "factor that fits":
        return scores(model, fit)
    model.encoding = stretched(recipe, SCALE)
    if method == "factor 8, trained on":
        train(model, passages(halves()[0]), 60, length=256, batch=8, seed=seed + 100, rate=1e-3)
    return scores(model)


def cells() -> list[Cell]:
    """Return every cell once."""
    return [
        *(Cell("capability", (encoding, task)) for encoding in ENCODINGS for task in TASKS),
        *(Cell("language", (encoding,)) for encoding in ENCODINGS),
        *(Cell("extension", (method, recipe)) for method, recipes in EXTENSIONS.items() for recipe in recipes),
    ]


def measure(cell: Cell) -> Any:
    """Return the numbers of a cell."""
    sections: dict[str, Callable[..., Any]] = {"capability": capability, "language": language, "extension": extension}
    return sections[cell.section](*cell.keys, cell.seed)


@cache
def text_digest() -> dict[str, Any]:
    """Return how many letters the text has, and its digest."""
    ids, _ = corpus()
    return {"letters": len(ids), "sha256": hashlib.sha256(bytes(ids.tolist())).hexdigest()[:16]}


# Models this small keep a core busy and a GPU waiting: they are trained on the CPU, as many at a time as it has cores.
STUDY = Study(
    name="labs",
    description="Fourteen encodings in small models: five questions, a text, and RoPE stretched.",
    cells=cells,
    measure=measure,
    provenance=lambda cell: {"text": text_digest()},
    sources=("posenc", "posenc_book.lab", "posenc_book.runs.labs"),
    seeds=(0, 1, 2),
)
