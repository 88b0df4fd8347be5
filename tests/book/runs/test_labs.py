"""The labs' data are whole, agree with each other, and come out again when a cell is measured anew."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc_book.runs import Cell, find_study, labs

DATA = Path(__file__).parents[3] / "docs/assets/data"
LABS = json.loads((DATA / "labs.json").read_text(encoding="utf-8"))


def of_seed(section, seed):
    """Return the numbers of one seed, in the shape of a cell's result."""
    if isinstance(section, dict):
        return {name: of_seed(value, seed) for name, value in section.items()}
    return section[seed]


def stored(data, cell):
    section = data[cell.section]
    for name in cell.keys:
        section = section[name]
    return of_seed(section, cell.seed)


@pytest.mark.parametrize("name", ["labs", "phases"])
def test_the_data_are_what_is_gathered_of_all_cells_of_all_seeds(name):
    study = find_study(name)
    data = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    sections = dict.fromkeys(cell.section for cell in study.cells())
    assert {*data} == {*sections, "provenance"}
    for section in sections:
        seeds = data["provenance"][section]["seeds"]
        assert len(seeds) >= 3
        cells = [Cell(section, cell.keys, seed) for cell in study.cells() if cell.section == section for seed in seeds]
        gathered = study.gather({cell: stored(data, cell) for cell in cells})
        assert json.dumps(gathered) == json.dumps(data[section])
        record = data["provenance"][section]
        assert record["text"] == labs.text_digest(), "it was trained on another text"
        assert record["script"] == f"python -m posenc_book run {name}"


def test_every_length_and_context_is_there():
    assert [*LABS["capability"]["RoPE"]["look up"]] == [*map(str, labs.LENGTHS)]
    assert [*LABS["language"]["RoPE"]] == [*map(str, labs.CONTEXTS)]
    assert [*LABS["extension"]["factor 8"]["YaRN"]] == [*map(str, labs.CONTEXTS)]


@pytest.mark.parametrize(
    ("cell", "margin"),
    [
        (Cell("capability", ("T5", "copy 4 back")), 0.06),
        pytest.param(Cell("language", ("ALiBi",), 1), 0.1, marks=pytest.mark.slow),
        pytest.param(Cell("extension", ("factor 8, trained on", "YaRN")), 0.1, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_cell_comes_out_again(cell, margin):
    result = {str(length): number for length, number in labs.measure(cell).items()}
    assert result == pytest.approx(stored(LABS, cell), abs=margin)


def test_the_weights_of_a_seed_do_not_depend_on_what_was_drawn_before():
    def parameters():
        torch.rand(1)
        return [*labs.reader("T5", 3, steps=1).parameters()]

    assert all(map(torch.equal, parameters(), parameters()))


@pytest.mark.slow
def test_a_cell_does_not_depend_on_what_was_measured_before_it():
    cell = Cell("capability", ("FIRE", "first token"), 1)
    first = labs.measure(cell)
    torch.rand(1)
    assert labs.measure(cell) == first


def test_what_is_stretched_was_trained_like_the_rest():
    assert LABS["extension"]["as trained"]["none"] == LABS["language"]["RoPE"]


def test_stretched_frequencies_are_those_of_their_recipe():
    def ratio(kind, factor=8.0):
        return np.asarray(labs.stretched(kind, factor).theta) / labs.stretched("none", 1.0).theta

    assert ratio("linear") == pytest.approx(np.full(8, 1 / 8))
    assert ratio("dynamic NTK", 1.0) == pytest.approx(np.ones(8))
    for kind in ("NTK", "YaRN", "Llama 3"):
        assert ratio(kind)[[0, -1]] == pytest.approx([1, 1 / 8])
    assert labs.stretched("YaRN", 8.0).attention_factor == pytest.approx(0.1 * np.log(8) + 1)
