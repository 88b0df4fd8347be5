"""`python -m dev.model_types.write` measures the installed transformers into posenc/config/model_types.json."""

import json
import logging
import sys

import torch

from dev import ROOT
from dev.model_types import facts_by_hand, measure, modules
from tests.peers import peer

PATH = ROOT / "posenc/config/model_types.json"


def all_facts(names=None):
    """Return the facts of every model type: what is measured, then what stands in facts_by_hand.py.

    With `names` only those are measured; the others stay as they were.
    """
    logging.disable(logging.CRITICAL)
    before = json.loads(PATH.read_text(encoding="utf-8"))["model_types"] if names else {}
    with torch.no_grad():
        facts = before | {name: measure.facts(name) for name in names or modules.mapping()}
    for name, more in facts_by_hand.facts(facts).items():
        facts[name] = facts.get(name, {}) | more
        facts[name] = {key: value for key, value in facts[name].items() if value is not None}
    for known in facts.values():
        known.setdefault("encoding", "other")
        if known["encoding"] not in ("other", "none"):
            known.pop("why", None)
    return facts


def text(facts):
    """Return model_types.json, a line for each model type."""
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(known)}" for name, known in sorted(facts.items()))
    return f'{{"transformers": "{peer("transformers").__version__}", "model_types": {{\n{rows}\n}}}}\n'


if __name__ == "__main__":
    PATH.write_text(text(all_facts(sys.argv[1:])), encoding="utf-8")
