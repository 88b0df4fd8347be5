"""The day on which a page was last changed: from git, from the environment, or not at all."""

import gzip
import os
import shutil
import subprocess

import pytest

from galley.around import dates
from tests.engine.sites import html, shown, small

SITEMAP = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
    <url>
         <loc>https://example.org/book/</loc>
         <lastmod>2026-11-28</lastmod>
    </url>
    <url>
         <loc>https://example.org/book/labs/</loc>
         <lastmod>2026-11-28</lastmod>
    </url>
</urlset>
"""


@pytest.fixture(autouse=True)
def undated(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    dates.history.cache_clear()


def git(folder, *command, day="2026-11-20"):
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": os.devnull}
    who |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_COMMITTER_DATE": f"{day}T12:00:00Z"}
    subprocess.run(["git", *command], cwd=folder, env=os.environ | who, check=True, capture_output=True)


@pytest.fixture
def committed(project):
    """A site in a repository: all pages of 20 November, the labs changed four days later, and one page not known."""
    site = small(project)
    if not shutil.which("git"):
        pytest.skip("no git")
    git(project.root, "init", "--quiet")
    git(project.root, "add", "docs")
    git(project.root, "commit", "-m", "All")
    project.page("labs.md", "# The labs\n\nMore.\n")
    git(project.root, "commit", "-am", "More", day="2026-11-24")
    return site


def test_a_page_says_when_it_was_last_changed(committed):
    page = dates.page(html(committed, "labs.md"), shown(committed, "labs.md"), committed)
    said = '<p class="updated">Last updated <time datetime="2026-11-24">24 November 2026</time></p>\n</article>'
    assert said in page
    assert 'datetime="2026-11-20"' in dates.page(html(committed, "index.md"), shown(committed, "index.md"), committed)


def test_the_sitemap_has_the_day_of_each_page(committed):
    committed.write("sitemap.xml", SITEMAP)
    dates.sitemap(committed)
    text = (committed.folder / "sitemap.xml").read_text(encoding="utf-8")
    assert "book/</loc>\n         <lastmod>2026-11-20<" in text
    assert "labs/</loc>\n         <lastmod>2026-11-24<" in text
    packed = (committed.folder / "sitemap.xml.gz").read_bytes()
    assert gzip.decompress(packed).decode("utf-8") == text
    assert packed[4:8] == bytes(4), "the time of the build is in it"


def test_without_a_repository_no_day_is_claimed(project, tmp_path_factory):
    site = small(project)
    site.write("sitemap.xml", SITEMAP)
    dates.sitemap(site)
    assert "lastmod" not in (site.folder / "sitemap.xml").read_text(encoding="utf-8")
    assert dates.page(html(site, "labs.md"), shown(site, "labs.md"), site) == html(site, "labs.md")


def test_without_git_itself_no_day_is_claimed(committed, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert dates.history(committed.book.root) == {}


def test_without_a_repository_the_day_may_be_given(project, monkeypatch):
    site = small(project)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1763683200")
    assert "21 November 2025" in dates.page(html(site, "labs.md"), shown(site, "labs.md"), site)


def test_a_clone_of_the_last_commit_alone_knows_no_days(committed, tmp_path_factory):
    clone = tmp_path_factory.mktemp("shallow") / "clone"
    git(clone.parent, "clone", "--quiet", "--depth=1", committed.book.root.as_uri(), str(clone))
    assert dates.history(clone) == {}
    assert dates.history(committed.book.root)


def test_one_who_writes_sees_no_day(project, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1763683200")
    site = small(project, served=True)
    assert dates.page(html(site, "labs.md"), shown(site, "labs.md"), site) == html(site, "labs.md")
