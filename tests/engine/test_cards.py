"""Social cards: one for each page, small, drawn once, and from what is on them."""

import io

import pytest
from PIL import Image

from galley.around import cards, motifs
from tests.engine.sites import shown, small

MOST = 40_000  # bytes
LONG = "2.4 From absolute to relative: what Shaw, Transformer-XL, T5 and DeBERTa count, and what it costs them all"


def test_each_page_has_a_card_that_is_small(project):
    site = small(project, fonts=True)
    cards.files(site)
    for page in site.pages:
        png = (site.folder / cards.place(page)).read_bytes()
        image = Image.open(io.BytesIO(png))
        assert (image.size, image.mode) == (cards.SIZE, "P")
        assert len(png) <= MOST


def test_a_card_is_drawn_again_only_if_something_on_it_changed(project, monkeypatch):
    site = small(project, fonts=True)
    drawn, card = [], cards.card
    monkeypatch.setattr(cards, "card", lambda *said: drawn.append(said[3]) or card(*said))
    cards.files(site)
    first = (site.folder / cards.place(shown(site, "labs.md"))).read_bytes()
    cards.files(site)
    assert sorted(drawn) == sorted(page.title for page in site.pages)
    assert (site.folder / cards.place(shown(site, "labs.md"))).read_bytes() == first
    object.__setattr__(shown(site, "labs.md").result.page, "headings", [(1, 1, "The other labs", None)])
    cards.files(site)
    assert drawn[4:] == ["The other labs"]
    assert (site.folder / cards.place(shown(site, "labs.md"))).read_bytes() != first


def test_the_same_card_is_the_same_file(project):
    site = small(project, fonts=True)
    said = (cards.WAVES, "3 RoPE", "3.1 Turn", site.name, site.address)
    assert cards.card(site, *said) == cards.card(site, *said)


@pytest.mark.parametrize("title", ["Gallery", "How a Transformer knows where its tokens are", LONG])
def test_a_title_has_room(title):
    size, lines = cards._fitted(title)
    assert size * 1.12 * len(lines) + 165 < 522
    assert " ".join(lines) == title


def test_a_title_that_has_no_room_is_cut():
    _, lines = cards._fitted(f"{LONG} {LONG}")
    assert lines[-1].endswith("…")


def test_each_drawing_is_one_of_the_motifs(project):
    site = small(project)
    assert all(callable(getattr(motifs, motif.name)) for motif in (*cards.MOTIFS.values(), cards.WAVES))
    assert cards.motif(shown(site, "chapters/3-rope/turn.md")).name == "hands"
    assert cards.motif(shown(site, "index.md")) == cards.WAVES


@pytest.mark.parametrize("how", [{"served": True, "fonts": True}, {"fonts": False}])
def test_no_cards_for_one_who_writes_or_without_fonts(project, how):
    site = small(project, **how)
    cards.files(site)
    assert not (site.folder / "assets").exists()
