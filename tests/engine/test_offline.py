"""A site for a disk: links name files, and nothing is left that a browser refuses to load from there."""

import json
import zipfile

import pytest

from galley.around import offline

PAGE = """\
<head><meta http-equiv="Content-Security-Policy" content="default-src 'self'">
<link rel="preload" href="../a.woff2" as="font" crossorigin><link rel="stylesheet" href="../a.css"></head>
<a href="../other/#there">there</a> <a href=".">here</a>
<script id="__config" type="application/json">{"features": ["navigation.instant", "toc.follow"]}</script>
<script src="../assets/js/figures.js" type="module"></script>
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    for place in ("page", "search", "assets/js", "assets/javascripts"):
        (folder / place).mkdir(parents=True)
    (folder / "page/index.html").write_text(PAGE)
    (folder / "404.html").write_text("lost")
    (folder / "assets/js/figures.js").write_text("import('./kit.js')")
    docs = [{"location": "page/", "title": "Page"}, {"location": "page/#end", "title": "End"}, {"location": ""}]
    (folder / "search/search_index.json").write_text(json.dumps({"docs": docs}))
    frames = tmp_path / offline.FRAMES
    frames.parent.mkdir(parents=True)
    frames.write_text("// frames")
    (tmp_path / offline.LICENSE).write_text("MIT")
    monkeypatch.setattr(offline, "_bundle", lambda script, bundler: script.with_suffix(".classic.js").touch())
    return folder


@pytest.mark.parametrize(
    ("link", "file"),
    [
        ("other/", "other/index.html"),
        (".", "./index.html"),
        ("..", "../index.html"),
        ("../..", "../../index.html"),
        ("../", "../index.html"),
        ("", ""),
        ("rope.py", "rope.py"),
        ("a.b/c.ipynb", "a.b/c.ipynb"),
    ],
)
def test_a_link_names_a_file(link, file):
    assert offline.to_file(link) == file


@pytest.mark.parametrize("link", ["https://arxiv.org/abs/2104.09864/", "#here", "/rooted/", "mailto:a@b.org", ""])
def test_other_links_stay(link):
    assert not offline.LINK.search(f'<a href="{link}">')


def test_a_page_is_ready_for_a_disk(site, tmp_path):
    offline.loose(site, tmp_path)
    page = (site / "page/index.html").read_text()
    assert 'href="../other/index.html#there"' in page
    assert 'href="./index.html"' in page
    assert '<script src="../assets/js/figures.classic.js" defer></script>' in page
    assert '<script src="../assets/javascripts/iframe-worker.js"></script></head>' in page
    assert '<link rel="stylesheet" href="../a.css">' in page
    assert '["toc.follow"]' in page
    assert not [word for word in ("module", "preload", "Security", "instant") if word in page]


def test_an_index_that_is_set_apart_is_the_one(site, tmp_path):
    (site / "search/search_index.json").rename(site / "search/index.json")
    (site / "search/search_index.json").write_text('{"docs": []}')
    offline.loose(site, tmp_path)
    assert "page/index.html#end" in (site / "search/search_index.js").read_text()


def test_the_index_of_the_search_is_a_script_whose_places_are_files(site, tmp_path):
    offline.loose(site, tmp_path)
    script = (site / "search/search_index.js").read_text().removeprefix("var __index = ")
    places = [entry["location"] for entry in json.loads(script)["docs"]]
    assert places == ["page/index.html", "page/index.html#end", "index.html"]
    assert not (site / "search/search_index.json").exists()


def test_an_explorer_in_a_chapter_brings_along_what_it_would_fetch():
    own, whole = '{"embedded": "../explorer/", "state": {"n": 1}}', '{"knobs": {"n": "it&#39;s"}, "state": {}}'
    found = offline._whole(own, whole)
    assert json.loads(found.replace("&#39;", "'")) == json.loads(own) | {"knobs": {"n": "it's"}}
    assert "'" not in found
    assert offline._whole(whole, own) == whole


def test_the_same_site_is_the_same_bytes_and_stays_as_it_was(site, tmp_path):
    before = (site / "page/index.html").read_text()
    for name in ("one", "two"):
        offline.pack(site, tmp_path, tmp_path / name / "book.zip")
    assert (tmp_path / "one/book.zip").read_bytes() == (tmp_path / "two/book.zip").read_bytes()
    names = zipfile.ZipFile(tmp_path / "one/book.zip").namelist()
    assert "book/page/index.html" in names
    assert "book/404.html" not in names
    assert (site / "page/index.html").read_text() == before
