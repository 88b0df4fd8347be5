"""Runs of many measurements, over all cores of a machine or all nodes of a cluster, that survive being killed.

A study is a list of cells, each of which can be measured by itself. This one is a module `my_study` of your own:

    from posenc_book.runs import Cell, Study

    STUDY = Study(
        name="squares",
        description="The squares of two numbers.",
        cells=lambda: [Cell("squares", (number,)) for number in ("2", "3")],
        measure=lambda cell: float(cell.keys[0]) ** 2,
        provenance=lambda cell: {},
        sources=("my_study",),
    )

`python -m posenc_book run my_study` measures both and writes squares.json. It can be killed at any time: the same
command goes on where it stopped.
"""

from posenc_book.runs.cell import Cell, Study, by_keys, find_study
from posenc_book.runs.command import run
from posenc_book.runs.hardware import device

__all__ = ["Cell", "Study", "by_keys", "device", "find_study", "run"]
