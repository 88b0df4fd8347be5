"""One site for all tests: the one that SITE names, if it is as new as its pages, or one that is built once."""

import os
import subprocess
import sys

import pytest

from tests import conftest

Failed = pytest.fail.Exception


@pytest.fixture
def project(tmp_path):
    """A page, written after the site that stands beside it was built."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "site").mkdir()
    (tmp_path / "site/index.html").touch()
    (tmp_path / "docs/new.md").touch()
    dated(tmp_path / "docs/new.md", 2000)
    dated(tmp_path / "site/index.html", 1000)
    return tmp_path


def dated(path, seconds):
    os.utime(path, (seconds, seconds))


def test_a_site_older_than_a_page_is_refused(project):
    with pytest.raises(Failed, match=r"SITE=.*site is older than docs.new\.md: run make build"):
        conftest.built_before(project / "site", project)


def test_a_site_newer_than_its_pages_is_taken(project):
    dated(project / "site/index.html", 3000)
    assert conftest.built_before(project / "site", project) == project / "site"


def test_a_folder_without_a_site_is_refused(tmp_path):
    with pytest.raises(Failed, match=r"SITE must name the folder of a built site, got .*: run make build"):
        conftest.built_before(tmp_path, tmp_path)


def test_the_site_is_built_once_after_the_pages_were_run(tmp_path, monkeypatch):
    done, site = [], tmp_path / "site"
    monkeypatch.setattr(conftest, "build_site", lambda folder, *options: (folder.mkdir(), done.append(options)))
    assert [conftest.built_once(site, lambda: done.append("pages")) for _ in range(2)] == [(site, "")] * 2
    assert done == ["pages", ("--strict",)]


@pytest.mark.parametrize("whole", [True, False], ids=["a problem", "no site at all"])
def test_a_site_with_a_problem_is_tried_once_strictly_and_once_not(tmp_path, monkeypatch, whole):
    tried, site = [], tmp_path / "site"

    def build(folder, *options):
        tried.append(options)
        if options or not whole:
            raise AssertionError("the site does not build: docs/a.md:7")
        folder.mkdir()

    monkeypatch.setattr(conftest, "build_site", build)
    for _ in range(2):
        assert conftest.built_once(site, list) == (site, "the site does not build: docs/a.md:7")
    assert tried == [("--strict",), ()]
    assert site.exists() == whole


BROKEN = """
import pytest

from tests import conftest
from tests.conftest import built_site


@pytest.fixture(scope="session")
def site_build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    if not {whole}:
        folder.rmdir()
    return folder, "docs/a.md:7 is wrong"


def test_a_strict_build_gives_the_site(site_build):
    assert not site_build[1], site_build[1]


@pytest.mark.parametrize("n", range(5))
def test_of_the_site(built_site, n):
    assert built_site.exists()
"""


@pytest.mark.parametrize(
    ("whole", "keyword", "outcome"),
    [
        (True, "test", "1 failed, 5 passed"),
        (False, "test", "1 failed, 5 skipped"),
        (False, "test_of_the_site", "5 errors"),
    ],
)
def test_what_is_wrong_with_the_site_is_one_failure(tmp_path, whole, keyword, outcome):
    (tmp_path / "test_broken.py").write_text(BROKEN.format(whole=whole))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-k", keyword, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(conftest.ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert outcome in done.stdout, done.stdout
    assert done.stdout.count("docs/a.md:7 is wrong") >= 1
