"""What every test starts from."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.chromium import browser, visit

__all__ = ["browser", "visit"]  # fixtures, one browser for all tests

collect_ignore_glob = ["toys/*/test_*.py"]  # what they import lies beside them; test_harness.py runs them

torch.set_num_threads(1)  # the tensors are small: threads that wait for each other take several times as long

ROOT = Path(__file__).parents[1]


def build_site(folder: Path) -> Path:
    """Build the site strictly into `folder`, dated the same at every build, and return `folder`."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1763683200", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the site does not build:\n{done.stderr[-4000:]}"
    return folder


@pytest.fixture(scope="session")
def built_site(tmp_path_factory) -> Path:
    """The folder of the built site."""
    pytest.importorskip("mkdocs", reason="no mkdocs: pip install -e '.[docs]'")
    return build_site(tmp_path_factory.mktemp("built"))
