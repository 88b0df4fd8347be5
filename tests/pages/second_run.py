"""Whether a page gives the same bytes when it is run a second time. What did is marked in the memory."""

import re
from pathlib import Path

from galley.book import Book, Result, steps_digest
from galley.run.pool import Job


def differing(book: Book, results: dict[str, Result], notebooks: dict[str, Job], every: bool = False) -> list[str]:
    """Return the pages whose second run gives other bytes; what gave the same before is left out, but for `every`.

    A notebook made of a page has run the same code: where it gave the same, that was the second run.
    """
    pending = {name: result for name, result in results.items() if result.steps and not result.failed}
    if not every:
        pending = {name: result for name, result in pending.items() if not _mark(book, result).exists()}
        for name in [name for name in pending if name in notebooks and _alike(pending[name], notebooks[name])]:
            _mark(book, pending.pop(name)).touch()
    again = {name: book.job(name, book.steps(result.page)) for name, result in pending.items()}
    Book(book.root, use_cache=False, jobs=book.jobs).perform(list(again.values()))
    same = {name for name, result in pending.items() if result.outcome_digest == steps_digest(again[name].results)}
    for name in same:
        _mark(book, pending[name]).touch()
    return sorted(pending.keys() - same)


def _mark(book: Book, result: Result) -> Path:
    return book.result_cache.path(book.result_cache.key(book.steps(result.page)), result.needs).with_suffix(".twice")


def _alike(result: Result, job: Job) -> bool:
    """Whether the blocks of a page and the last cells of its notebook printed and drew the same."""
    blocks = [block for block in result.page.blocks if block.runs]
    cells = job.results[-len(blocks) :]
    if any("error" in cell for cell in job.results) or len(cells) < len(blocks):
        return False
    pairs = [(result.by_block[block.line], cell) for block, cell in zip(blocks, cells, strict=True)]
    compared = [pair for block, pair in zip(blocks, pairs, strict=True) if block.lang != "pycon"]
    return all(_without_figure_numbers(page) == _without_figure_numbers(cell) for page, cell in compared)


def _without_figure_numbers(step: dict) -> tuple[str, str]:
    """Return what a step printed and drew; a figure is named by the number of its block."""
    return step["stdout"], re.sub(r"figure-\d+", "figure", "".join(step["figures"]))
