"""Run labs over several seeds, and keep each number of each seed with what it was measured with."""

import argparse
import hashlib
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from posenc_book.lab import corpus


def main(description: str, labs: dict[str, Callable[[int], dict]], file: Path, script: str) -> None:
    """Run the labs that are asked for, and keep in `file` the results of the others."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", nargs="+", choices=labs, default=list(labs))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    data = json.loads(file.read_text()) if file.exists() else {}
    for section in asked.sections:
        data[section] = gather([labs[section](seed) for seed in asked.seeds])
        data.setdefault("provenance", {})[section] = provenance(asked.seeds) | {"script": script}
        file.write_text(json.dumps(data, indent=1) + "\n")


def gather(runs: list[Any]) -> Any:
    """Return one dictionary of the runs' shape with a list of their numbers at each place."""
    if not isinstance(runs[0], dict):
        return [round(run, 4) for run in runs]
    return {str(name): gather([run[name] for run in runs]) for name in runs[0]}


def provenance(seeds: list[int]) -> dict:
    """Return what a lab was measured with."""
    ids, _ = corpus()
    return {
        "seeds": seeds,
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "processor": torch.backends.cpu.get_cpu_capability(),
        "text": {"letters": len(ids), "sha256": hashlib.sha256(bytes(ids.tolist())).hexdigest()[:16]},
    }
