"""The package's files on the site: the pages that show them, and what leads to them."""

import pytest
from mkdocs.utils.meta import get_data

import posenc
from galley.book import Book, Result
from galley.read.notebook import read
from galley.show.copyable_files import (
    copyable_files,
    files_of_chapter,
    gallery_cards,
    generated,
    offer,
    with_offers,
)
from galley.show.site import Site
from tests.engine.conftest import ROOT

FILES = copyable_files(ROOT)
CARD = "[Chapter](chapters/3-rope/derivation.md) · [Reference][posenc.rotate.rope] · `posenc copy rope`"
COPY_THIS = "### Copy this\n\nIt is short.\n\n```python\npass\n```\n\n## Behind\n\nMore.\n"


@pytest.fixture(scope="module")
def site():
    """The real site, its pages as they were read, with nothing run."""
    book = Book(ROOT)
    results = {name.removeprefix("docs/"): Result(name, read(name, text)) for name, text in book.pages().items()}
    return Site.of(book, results)


def test_every_file_of_a_door_can_be_copied():
    folders = (*posenc.DOORS, "models")
    paths = [path for folder in folders for path in (ROOT / "posenc" / folder).glob("*.py")]
    assert {file.path for file in FILES.values() if "/" in file.place} == {p for p in paths if p.stem != "__init__"}
    assert {place for place in FILES if "/" not in place} == {"attention", "positions"}


def test_a_file_says_what_it_is_and_needs():
    rope, config = FILES["rotate/rope"], FILES["models/from_config"]
    assert (
        rope.summary == "RoPE: rotate each pair of channels of queries and keys by an angle proportional to position."
    )
    assert (rope.libraries, rope.needs) == (["numpy", "torch"], [])
    assert (config.libraries, config.needs) == (["numpy"], ["frequencies"])
    assert {*FILES["attention"].libraries} == {"torch"}


def test_a_chapter_is_about_the_files_whose_cards_lead_to_it_or_that_it_imports(site):
    places = lambda uri: [file.place for file in files_of_chapter(uri, site)]  # noqa: E731
    assert places("chapters/3-rope/derivation.md") == ["rotate/rope"]
    assert places("chapters/4-biases/families.md") == ["bias/kerple", "bias/sandwich", "bias/fire"]
    assert places("chapters/1-sinusoidal/adding.md") == ["add/sinusoidal", "attention"]
    assert places("chapters/5-pope/phase-bias.ipynb") == ["rotate/pope"]


def test_each_file_has_one_card(site):
    assert {*gallery_cards(site)} == {place for place in FILES if "/" in place}


def test_files_lie_on_the_site_as_they_are_below_their_license(site):
    texts = dict(generated(site))
    assert len(texts) == 3 * len(FILES)
    for file in FILES.values():
        for place in (file.download_url, file.text_url):
            first, second, rest = texts[place].split("\n", 2)
            assert f"posenc/{file.place}.py" in first
            assert "MIT. Copyright" in second
            assert rest == file.source


def test_a_page_shows_a_file_by_a_snippet_and_is_not_found_by_the_search(site):
    texts = dict(generated(site))
    text, front = get_data(texts["code/rotate/rope.md"])
    assert front["search"] == {"exclude": True}
    assert front["description"] == FILES["rotate/rope"].summary
    assert '--8<-- "posenc/rotate/rope.py"' in text
    assert "It needs NumPy and PyTorch, nothing else. `posenc copy rope` writes it" in text
    links = "[Gallery](../../gallery.md#rope) · [Reference][posenc.rotate.rope] · "
    assert f"{links}[Chapter](../../chapters/3-rope/derivation.md) · [GitHub](https://github.com" in text
    config = texts["code/models/from_config.md"]
    assert "It needs [frequencies.py](../../code/rotate/frequencies.md) beside it." in config
    assert "[Reference](../reference/attention.md)" in texts["code/attention.md"]


def test_a_card_of_the_gallery_offers_its_file(site):
    card = with_offers(CARD, "gallery.md", site)
    assert card == f"{CARD} {offer(FILES['rotate/rope'], 'gallery.md')}"
    assert '<a href="../code/rotate/rope/" aria-label="View rope.py">View</a>' in card


@pytest.mark.parametrize(
    ("text", "uri"), [(CARD.replace("copy rope", "copy rops"), "gallery.md"), ("# Labs\n", "labs.md")]
)
def test_what_names_no_file_stays_as_it_is(site, text, uri):
    assert with_offers(text, uri, site) == text


def test_a_chapter_offers_its_files_where_it_says_copy_this(site):
    page = with_offers(COPY_THIS, "chapters/3-rope/derivation.md", site)
    parts = ["```\n\n<p", 'data-copies="../../../code/rotate/rope.py"', "## Behind"]
    assert [page.index(part) for part in parts] == sorted(page.index(part) for part in parts)
    assert '<a href="../../../code/rotate/rope.py" aria-label="Download rope.py" download>Download</a>' in page


def test_a_book_without_such_a_package_has_none(project):
    assert copyable_files(project.root) == {}
