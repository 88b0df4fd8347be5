"""A few packages are fetched and judged again: the verdicts that the doctor's page shows are those of this doctor."""

import json
import subprocess
import sys

import pytest

from dev import doctor_corpus
from tests.doctor.corpus.verdict import verdict

PACKAGES = ("labml-nn", "llms-from-scratch", "litgpt", "x-transformers")


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_the_verdicts_on_a_package_are_those_shown(package, tmp_path):
    """Run `python -m dev.doctor_corpus` after a change of the doctor that changes verdicts."""
    said = tmp_path / "said.json"
    command = [sys.executable, "-m", "dev.doctor_corpus", "--only", package, "--output", str(said)]
    subprocess.run(command, cwd=doctor_corpus.ROOT, check=True)
    told = json.loads(said.read_text(encoding="utf-8"))
    shown = {
        one["name"]: one for one in json.loads(doctor_corpus.VERDICTS.read_text(encoding="utf-8"))["implementations"]
    }
    mine = [one for one in doctor_corpus.IMPLEMENTATIONS if one.package == package]
    assert len(mine) > 1
    assert [verdict(one, told[one.name]) for one in mine] == [shown[one.name] for one in mine]
