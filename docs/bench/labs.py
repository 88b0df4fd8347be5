"""Train the small models whose results the chapters read, and write docs/assets/data/labs.json.

    python docs/bench/labs.py [--sections capability language extension] [--seeds 0 1 2]

About half an hour on one core. Three labs, each with every encoding that takes part and every seed:

capability   one attention layer learns one of five questions at length 32 and is asked at up to eight times that
language     two layers read a text 64 letters at a time and are scored with up to eight times the context
extension    the language model with RoPE, stretched to longer contexts, with and without a little training there

The file keeps every number of every seed, and what it was measured with.
"""

import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from record import main

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

FILE = Path(__file__).parents[1] / "assets/data/labs.json"
DIM, HEADS, HEAD = 64, 4, 16
QUARTER = 10_000.0 ** (-np.arange(8) / 8) * (np.arange(8) < 2)  # RoPE that turns its 2 fastest pairs of 8

# How a model that is trained at `length` is told positions
TOLD: dict[str, Callable[[int], dict[str, Any]]] = {
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
LENGTHS = (32, 64, 128, 256)
CONTEXTS = (64, 96, 128, 256, 512)
SCALE, TRAINED = 8, 64


def capability(seed: int) -> dict:
    """Return {encoding: {task: {length: accuracy}}}; beyond the trained length only what stands beyond it is scored."""
    found: dict = {}
    for name, told in TOLD.items():
        for task_name, (task, size) in TASKS.items():
            torch.manual_seed(seed)
            model = Model(dim=DIM, heads=HEADS, **size, **told(32))
            train(model, task, steps=500, seed=seed)
            shares = {n: accuracy(model, task, n, start=0 if n == 32 else 32, batch=512) for n in LENGTHS}
            found.setdefault(name, {})[task_name] = shares
        print("capability", seed, name, {t: round(s[256], 2) for t, s in found[name].items()}, flush=True)
    return found


@cache
def halves() -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return the text to learn, the text to be scored on, and the size of the alphabet."""
    ids, alphabet = corpus()
    cut = int(0.9 * len(ids))
    return ids[:cut], ids[cut:], len(alphabet)


def reader(seed: int, told: dict[str, Any], steps: int = 800) -> Model:
    """Return a model of two layers that has read the text, TRAINED letters at a time."""
    learn, _, letters = halves()
    torch.manual_seed(seed)
    model = Model(tokens=letters, dim=DIM, heads=HEADS, depth=2, hidden=4 * DIM, **told)
    train(model, passages(learn), steps, length=TRAINED, batch=24, seed=seed)
    return model


def scores(model: Model, prepare: Callable[[Model, int], None] = lambda model, context: None) -> dict[int, float]:
    """Return {context: bits for each letter}."""
    held = halves()[1]
    found = {}
    for context in CONTEXTS:
        prepare(model, context)
        found[context] = bits(model, held, context, texts=192)
    return found


def language(seed: int) -> dict:
    """Return {encoding: {context: bits}}."""
    found = {}
    for name, told in TOLD.items():
        found[name] = scores(reader(seed, told(TRAINED)))
        print("language", seed, name, {c: round(b, 2) for c, b in found[name].items()}, flush=True)
    return found


def stretched(kind: str, factor: float) -> RoPE:
    """Return RoPE for `factor` times the trained context."""
    made = {
        "none": lambda: (None, 1.0),
        "linear": lambda: linear(HEAD, factor),
        "NTK": lambda: ntk(HEAD, factor),
        "dynamic NTK": lambda: dynamic_ntk(HEAD, 1.0, factor * TRAINED, TRAINED),
        "YaRN": lambda: yarn(HEAD, factor, TRAINED),
        "Llama 3": lambda: llama3(HEAD, factor, original_length=TRAINED, base=10_000.0),
    }
    theta, attention_factor = made[kind]()
    return RoPE(HEAD, theta=theta, attention_factor=attention_factor)


def extension(seed: int) -> dict:
    """Return {how: {kind: {context: bits}}} for a model with RoPE."""
    base = reader(seed, {"encoding": RoPE(HEAD)})
    found: dict = {"as trained": {}, "factor 8": {}, "factor that fits": {}, "factor 8, trained on": {}}
    for kind in ("none", "linear", "NTK", "YaRN", "Llama 3"):
        model = deepcopy(base)
        model.encoding = stretched(kind, SCALE)
        found["as trained" if kind == "none" else "factor 8"][kind] = scores(model)
        train(model, passages(halves()[0]), 60, length=256, batch=8, seed=seed + 100, rate=1e-3)
        found["factor 8, trained on"][kind] = scores(model)
        print(
            "extension",
            seed,
            kind,
            {c: round(b, 2) for c, b in found["factor 8, trained on"][kind].items()},
            flush=True,
        )
    for kind in ("linear", "dynamic NTK", "YaRN"):

        def fit(model: Model, context: int, kind: str = kind) -> None:
            model.encoding = stretched(kind, max(1.0, context / TRAINED))

        found["factor that fits"][kind] = scores(deepcopy(base), fit)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(__doc__, {"capability": capability, "language": language, "extension": extension}, FILE, "docs/bench/labs.py")
