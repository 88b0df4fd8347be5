"""The labs' data are whole, agree with each other, and come out again when a cell is trained anew."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc_book.lab import Model, accuracy, copy_back, train

ROOT = Path(__file__).parents[2]
DATA = json.loads((ROOT / "docs/assets/data/labs.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def labs():
    sys.path.insert(0, str(ROOT / "docs/bench"))
    yield importlib.import_module("labs")
    sys.path.pop(0)


def shape_of(data):
    return {name: shape_of(value) for name, value in data.items()} if isinstance(data, dict) else len(data)


def test_every_encoding_has_every_number_of_every_seed(labs):
    seeds = len(DATA["provenance"]["capability"]["seeds"])
    lengths, contexts = (dict.fromkeys(map(str, sizes), seeds) for sizes in (labs.LENGTHS, labs.CONTEXTS))
    each_task = dict.fromkeys(labs.TASKS, lengths)
    assert shape_of(DATA["capability"]) == dict.fromkeys(labs.TOLD, each_task)
    assert shape_of(DATA["language"]) == dict.fromkeys(labs.TOLD, contexts)
    assert all(shape_of(kind) == contexts for how in DATA["extension"].values() for kind in how.values())
    assert seeds >= 3


def test_a_cell_of_capability_comes_out_again(labs):
    torch.manual_seed(0)
    model = Model(tokens=16, **labs.TOLD["T5"](32))
    train(model, copy_back(4))
    for length in labs.LENGTHS:
        found = accuracy(model, copy_back(4), length, start=0 if length == 32 else 32, batch=512)
        assert found == pytest.approx(DATA["capability"]["T5"]["copy 4 back"][str(length)][0], abs=0.06)


def test_every_lab_read_the_text_that_is_there(labs):
    text = importlib.import_module("record").provenance([0])["text"]
    assert {made["text"]["sha256"] for made in DATA["provenance"].values()} == {text["sha256"]}


@pytest.mark.slow
def test_a_row_of_language_comes_out_again(labs):
    found = labs.scores(labs.reader(0, labs.TOLD["ALiBi"](64)))
    for context, bits in found.items():
        assert bits == pytest.approx(DATA["language"]["ALiBi"][str(context)][0], abs=0.1)


def test_what_is_stretched_was_trained_like_the_rest():
    assert DATA["extension"]["as trained"]["none"] == DATA["language"]["RoPE"]


def test_stretched_frequencies_are_those_of_their_recipe(labs):
    def ratio(kind, factor=8.0):
        return np.asarray(labs.stretched(kind, factor).theta) / labs.stretched("none", 1.0).theta

    assert ratio("linear") == pytest.approx(np.full(8, 1 / 8))
    assert ratio("dynamic NTK", 1.0) == pytest.approx(np.ones(8))
    for kind in ("NTK", "YaRN", "Llama 3"):
        assert ratio(kind)[[0, -1]] == pytest.approx([1, 1 / 8])
    assert labs.stretched("YaRN", 8.0).attention_factor == pytest.approx(0.1 * np.log(8) + 1)
