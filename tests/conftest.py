"""What every test starts from."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from tests.chromium import browser, tabs, visit

__all__ = ["browser", "tabs", "visit"]  # fixtures, one browser for all tests of a process

collect_ignore_glob = ["toys/*/test_*.py"]  # what they import lies beside them; test_harness.py runs them

torch.set_num_threads(1)  # the tensors are small: threads that wait for each other take several times as long

ROOT = Path(__file__).parents[1]
DATED = {"SOURCE_DATE_EPOCH": "1763683200"}  # the same at every build, unless the environment says otherwise
SOURCES = ("mkdocs.yml", "docs/**/*", "posenc/**/*.py")


def build_site(folder: Path) -> Path:
    """Build the site strictly into `folder`, and return `folder`."""
    environment = DATED | os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the site does not build:\n{done.stderr[-4000:]}"
    return folder


def built_before(folder: Path, root: Path = ROOT) -> Path:
    """Return a site that was built before the tests, unless a page, a script or a module was changed after it."""
    if not (folder / "index.html").exists():
        pytest.fail(f"SITE must name the folder of a built site, got {folder}: run make build, or unset SITE")
    built = max(path.stat().st_mtime for path in folder.iterdir() if path.is_file())
    sources = (path for pattern in SOURCES for path in root.glob(pattern) if path.is_file() and path.suffix != ".pyc")
    for source in sources:
        if source.stat().st_mtime > built:
            pytest.fail(f"SITE={folder} is older than {source.relative_to(root)}: run make build, or unset SITE")
    return folder


@pytest.fixture(scope="session")
def built_site(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site: the one that SITE names, or one that the first process to ask for it builds."""
    if os.environ.get("SITE"):
        return built_before(Path(os.environ["SITE"]))
    plugin = pytest.importorskip("galley.plugin", reason="the site needs pip install -e '.[docs]'")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    return built_once(shared / "site", lambda: plugin.results(pytestconfig, pytestconfig.stash[plugin.BOOK].pages()))


def built_once(folder: Path, run_pages: Callable[[], object]) -> Path:
    """Build the site where no process of this session has; one that has failed to is not tried again.

    The pages are run before, as the tests run them: the build finds what they gave, and no page runs twice.
    """
    failed = folder.with_suffix(".failed")
    with FileLock(folder.with_suffix(".lock")):
        if failed.exists():
            pytest.fail(failed.read_text(encoding="utf-8"), pytrace=False)
        if not folder.exists():
            run_pages()
            try:
                build_site(folder)
            except AssertionError as error:
                failed.write_text(str(error), encoding="utf-8")
                pytest.fail(str(error), pytrace=False)
    return folder
