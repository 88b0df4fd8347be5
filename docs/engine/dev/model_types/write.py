"""`python -m dev.model_types.write` measures the installed transformers into posenc/config/model_types.json."""

import json
import logging
import sys

import torch

from dev import ROOT
from dev.model_types import hand, measure, modules
from tests.peers import peer

PATH = ROOT / "posenc/config/model_types.json"


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
    """Return model_types.json, a line for each model type."""
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in sorted(found.items()))
    return f'{{"transformers": "{peer("transformers").__version__}", "kinds": {{\n{rows}\n}}}}\n'


if __name__ == "__main__":
    PATH.write_text(text(kinds(sys.argv[1:])), encoding="utf-8")
