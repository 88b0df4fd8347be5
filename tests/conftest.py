"""What every test starts from."""

import contextlib
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


torch.set_num_threads(1)  # the tensors are small: threads that wait for each other take several times as long

ROOT = Path(__file__).parents[1]
DATED = {"SOURCE_DATE_EPOCH": "1763683200"}  # the same at every build, unless the environment says otherwise
STRICT_BUILD = "test_a_strict_build_gives_the_site"  # of tests/pages/test_book.py
SOURCES = ("mkdocs.yml", "docs/**/*", "posenc/**/*.py")


def build_site(folder: Path, *options: str) -> Path:
    """Build the site into `folder`, and return `folder`."""
    environment = DATED | os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder), *options]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"the site does not build:\n{done.stderr[-4000:]}")
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
def site_build(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the site, and what a strict build says is wrong: of that which SITE names, another has asked."""
    if os.environ.get("SITE"):
        return built_before(Path(os.environ["SITE"])), ""
    plugin = pytest.importorskip("galley.pytest_plugin", reason="the site needs pip install -e '.[docs]'")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    return built_once(shared / "site", lambda: plugin.results(pytestconfig, pytestconfig.stash[plugin.BOOK].pages()))


@pytest.fixture(scope="session")
def built_site(site_build: tuple[Path, str], request: pytest.FixtureRequest) -> Path:
    """The folder of the built site, whatever is wrong with its pages."""
    folder, wrong = site_build
    if not folder.exists():
        if any(item.name == STRICT_BUILD for item in request.session.items):
            pytest.skip(f"there is no site, as {STRICT_BUILD} says")  # one failure, not two hundred
        pytest.fail(wrong, pytrace=False)
    return folder


def built_once(folder: Path, run_pages: Callable[[], object]) -> tuple[Path, str]:
    """Build the site where no process of this session has; return its folder, and what is wrong with it.

    The pages are run before, as the tests run them: the build finds what they gave, and no page runs twice. Where
    something is wrong, the site of a build that is not strict is there all the same, if that comes to its end.
    """
    report = folder.with_suffix(".wrong")
    with FileLock(folder.with_suffix(".lock")):
        if not report.exists():
            run_pages()
            report.write_text(_built(folder), encoding="utf-8")
    return folder, report.read_text(encoding="utf-8")


def _built(folder: Path) -> str:
    try:
        build_site(folder, "--strict")
    except AssertionError as error:
        with contextlib.suppress(AssertionError):
            build_site(folder)
        return str(error)
    return ""
