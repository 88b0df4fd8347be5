"""One site for all tests: the one that SITE names, if it is as new as its pages, or one that is built once."""

import os

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
    monkeypatch.setattr(conftest, "build_site", lambda folder: (folder.mkdir(), done.append(folder)))
    assert [conftest.built_once(site, lambda: done.append("pages")) for _ in range(2)] == [site, site]
    assert done == ["pages", site]


def test_a_site_that_does_not_build_is_not_tried_again(tmp_path, monkeypatch):
    tried = []

    def broken(folder):
        folder.mkdir()
        tried.append(folder)
        raise AssertionError("the site does not build: docs/a.md:7")

    monkeypatch.setattr(conftest, "build_site", broken)
    for _ in range(2):
        with pytest.raises(Failed, match=r"docs/a\.md:7"):
            conftest.built_once(tmp_path / "site", list)
    assert tried == [tmp_path / "site"]
