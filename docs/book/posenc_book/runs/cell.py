"""What is measured: a study is a list of cells, each of which can be measured by itself, in any process."""

import importlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

STUDIES = {"labs": "posenc_book.runs.labs", "phases": "posenc_book.runs.phases", "real": "posenc_book.real.study"}
"""The module of each study, which binds it to the name STUDY."""


@dataclass(frozen=True)
class Cell:
    """One measurement: the section of the data file, the keys under which its result stands there, and a seed.

    Examples:
        >>> cell = Cell("capability", ("RoPE", "look up"), seed=2)
        >>> print(cell)
        capability: RoPE, look up, seed 2
        >>> Cell.from_json(cell.to_json()) == cell
        True
    """

    section: str
    keys: tuple[str, ...]
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.section}: {', '.join(self.keys)}, seed {self.seed}"

    def to_json(self) -> dict[str, Any]:
        """Return the cell as a dictionary that JSON can hold."""
        return asdict(self) | {"keys": list(self.keys)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Cell":
        """Return the cell that `to_json` has written."""
        return cls(fields["section"], tuple(fields["keys"]), fields["seed"])


def by_keys(results: dict[Cell, Any]) -> Any:
    """Return the results of a section nested by the keys of their cells, with a list over the seeds at each number.

    Numbers are rounded to four places.

    Examples:
        >>> by_keys({Cell("s", ("RoPE",), 0): {"32": 0.5}, Cell("s", ("RoPE",), 1): {"32": 0.25}})
        {'RoPE': {'32': [0.5, 0.25]}}
    """
    by_seed: dict[tuple[str, ...], list[Any]] = {}
    for cell, result in results.items():
        by_seed.setdefault(cell.keys, []).append(result)
    root: dict[str, Any] = {}
    for keys, runs in by_seed.items():
        # One step of nesting for each key; the section itself is the first.
        level = root
        path = ("", *keys)
        for name in path[:-1]:
            level = level.setdefault(name, {})
        level[path[-1]] = _over_seeds(runs)
    return root[""]


def _over_seeds(runs: list[Any]) -> Any:
    """Return one dictionary of the runs' shape with a list of their values at each place."""
    if not isinstance(runs[0], dict):
        return [rounded(run) for run in runs]
    return {name: _over_seeds([run[name] for run in runs]) for name in runs[0]}


def rounded(result: Any) -> Any:
    """Return a result with its floats rounded to four places.

    Examples:
        >>> rounded({"loss": [1.250001, 2]})
        {'loss': [1.25, 2]}
    """
    if isinstance(result, dict):
        return {name: rounded(part) for name, part in result.items()}
    if isinstance(result, list):
        return [rounded(part) for part in result]
    return round(result, 4) if isinstance(result, float) else result


@dataclass(frozen=True)
class Study:
    """A set of measurements that fill one data file.

    Args:
        name: By which the command line and the data file call it.
        description: One line on what is measured.
        cells: Returns every cell once, with seed 0, in the order of the data file.
        measure: Returns the result of a cell, numbers in dictionaries and lists, from the cell alone: it seeds what
            it draws from, and depends on no cell that was measured before it.
        provenance: Returns what the result of a cell depends on beside code, such as the digest of a text or of
            weights. A cell is measured again when this changes. Sections of the data file hold it too, merged.
        sources: The modules and packages whose code the results depend on. A cell is measured again when one changes.
        seeds: The seeds that are run by default.
        gather: Makes a section of the data file from the results of its cells.
        gpu: Whether `measure` computes on `device()`; if not, cells run on CPU cores alone.

    Examples:
        >>> cells = [Cell("squares", (number,)) for number in ("2", "3")]
        >>> study = Study("squares", "Two.", lambda: cells, lambda cell: float(cell.keys[0]) ** 2, lambda cell: {}, ())
        >>> study.gather({cell: study.measure(cell) for cell in cells})
        {'2': [4.0], '3': [9.0]}
    """

    name: str
    description: str
    cells: Callable[[], list[Cell]]
    measure: Callable[[Cell], Any]
    provenance: Callable[[Cell], dict[str, Any]]
    sources: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    gather: Callable[[dict[Cell, Any]], Any] = by_keys
    gpu: bool = False


def find_study(name: str) -> Study:
    """Return the study called `name`, or that of a module of your own, such as "my_package.my_study".

    Raises:
        ValueError: If there is neither.

    Examples:
        >>> find_study("labs").seeds
        (0, 1, 2)
    """
    known = f"one of {', '.join(STUDIES)}, or a module that binds STUDY"
    try:
        module = importlib.import_module(STUDIES.get(name, name))
    except ModuleNotFoundError as error:
        raise ValueError(f"run: study must be {known}, got {name}; {error}") from error
    if not isinstance(getattr(module, "STUDY", None), Study):
        raise ValueError(f"run: study must be {known}, got {name}, which binds none")
    return module.STUDY
