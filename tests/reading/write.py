"""`python -m tests.reading.write` measures the installed transformers into posenc/reading/kinds.json, all or some."""

import json
import logging
import sys
from pathlib import Path

import torch

from tests.peers import peer
from tests.reading import hand, measure, modules

PATH = Path(__file__).parents[2] / "posenc" / "reading" / "kinds.json"


def kinds(names=None):
    """Return the facts of every model type: what is measured, then what stands in hand.py.

    With `names` only those are measured; the others stay as they were.
    """
    logging.disable(logging.CRITICAL)
    before = json.loads(PATH.read_text(encoding="utf-8"))["kinds"] if names else {}
    with torch.no_grad():
        found = before | {name: measure.facts(name) for name in names or modules.mapping()}
    for name, more in hand.facts(found).items():
        found[name] = found.get(name, {}) | more
        found[name] = {key: value for key, value in found[name].items() if value is not None}
    for each in found.values():
        each.setdefault("encoding", "other")
        if each["encoding"] not in ("other", "none"):
            each.pop("why", None)
    return found


def text(found):
    """Return kinds.json, a line for each model type."""
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in sorted(found.items()))
    return f'{{"transformers": "{peer("transformers").__version__}", "kinds": {{\n{rows}\n}}}}\n'


if __name__ == "__main__":
    PATH.write_text(text(kinds(sys.argv[1:])), encoding="utf-8")
