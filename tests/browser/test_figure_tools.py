"""What a reader can do with a figure: take it as a picture, enlarge it, link to it, see its code, hold it still."""

from xml.etree import ElementTree

import pytest

PAGE = "chapters/3-rope/derivation/"
STILL, LIVE = "#fig-derivation-flat", "#fig-derivation-dials"
PNG = b"\x89PNG"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def menu(open_page):
    """Return a function that opens the menu of a figure, and gives its page and the menu."""

    def opened(figure=STILL, path=PAGE, **options):
        page = open_page(path, **options)
        page.locator(figure).scroll_into_view_if_needed()
        page.locator(f"{figure} .figure-menu > summary").click()
        return page, page.locator(f"{figure} .figure-list")

    return opened


def taken(page, entries, name):
    """Return the content of a file that an entry of the menu gives."""
    with page.expect_download() as download:
        entries.get_by_role("button", name=name).click()
    return download.value.suggested_filename, download.value.path().read_bytes()


def test_a_figure_is_taken_as_svg_with_its_source_and_license(menu):
    page, entries = menu()
    license_of = entries.get_by_role("link", name="CC BY 4.0").get_attribute("href")
    assert license_of.startswith("https://creativecommons.org")
    name, content = taken(page, entries, "SVG")
    assert name == "posenc-fig-derivation-flat.svg"
    drawing = ElementTree.fromstring(content)
    credit = drawing.find(f"{SVG}desc").text
    assert PAGE in credit
    assert STILL in credit
    assert credit.endswith("CC BY 4.0")
    assert "var(" not in content.decode()


@pytest.mark.parametrize("figure", [STILL, LIVE])
def test_a_figure_is_taken_as_png_as_it_stands(menu, figure):
    page, entries = menu(figure)
    page.wait_for_timeout(300)
    _, content = taken(page, entries, "PNG")
    assert content.startswith(PNG)
    assert len(content) > 5_000


def test_a_figure_has_an_address(menu):
    page, entries = menu()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    entries.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied", exact=True).wait_for()
    assert page.evaluate("navigator.clipboard.readText()").endswith(f"{PAGE}{STILL}")


@pytest.mark.parametrize("height", [900, 500])
def test_a_figure_is_enlarged_as_far_as_the_screen_allows(menu, height):
    page, entries = menu(height=height)
    drawing = f"{STILL} .drawn-svg > svg:visible"
    wide = page.locator(drawing).bounding_box()["width"]
    entries.get_by_role("button", name="Enlarge").click()
    assert page.locator(drawing).bounding_box()["width"] > max(wide, 0.9 * page.viewport_size["width"])
    fits = "(figure) => figure.scrollHeight <= figure.clientHeight && figure.scrollWidth <= figure.clientWidth"
    assert page.locator(STILL).evaluate(fits)
    box, caption = (page.locator(part).bounding_box() for part in (STILL, f"{STILL} > figcaption"))
    assert box["y"] + box["height"] - caption["y"] - caption["height"] < 40, "what is under the caption is empty"


@pytest.mark.parametrize("by", ["Escape", "Close"])
def test_an_enlarged_figure_is_put_back(menu, by):
    page, entries = menu()
    entries.get_by_role("button", name="Enlarge").click()
    page.wait_for_selector(f"{STILL}:popover-open")
    assert not page.locator(f"{STILL} .figure-menu").is_visible()
    close = page.locator(STILL).get_by_role("button", name="Close")
    assert min(close.bounding_box()[side] for side in ("width", "height")) >= 44
    if by == "Close":
        close.click()
    else:
        page.keyboard.press(by)
    page.wait_for_selector(f"{STILL}:not([popover])")
    assert page.locator(f"{STILL} .figure-menu > summary").evaluate("(own) => own === document.activeElement")
    assert close.count() == 0


def test_a_phone_enlarges_the_wide_drawing(menu):
    page, entries = menu(width=390, height=844)
    page.wait_for_selector(f"{STILL} svg.for-phone")
    entries.get_by_role("button", name="Enlarge").click()
    assert not page.locator(f"{STILL} svg.for-phone").is_visible()
    assert page.locator(f"{STILL} .drawn-svg > svg:visible").bounding_box()["width"] > 600
    page.keyboard.press("Escape")
    page.wait_for_selector(f"{STILL} svg.for-phone:visible")


def test_a_phone_enlarges_nothing_that_is_as_wide_as_it_already(menu):
    page, entries = menu(LIVE, width=390, height=844)
    page.wait_for_selector(f"{LIVE} > posenc-figure[live]")
    assert not entries.get_by_role("button", name="Enlarge").is_visible()
    assert entries.get_by_role("button", name="PNG").is_visible()


def test_a_figure_leads_to_its_code(menu):
    page, entries = menu()
    entries.get_by_role("button", name="Code").click()
    page.wait_for_selector(f"{STILL} + details.fold[open]")


def test_what_moves_by_itself_can_be_held(open_page):
    page = open_page("", still=False)
    films = "() => document.querySelector('.hero svg').getAnimations({ subtree: true }).map((film) => film.playState)"
    assert "running" in page.evaluate(films)
    page.locator(".hero .figure-tools").get_by_role("button", name="Pause").click()
    assert {*page.evaluate(films)} == {"paused"}
    page.locator(".hero .figure-tools").get_by_role("button", name="Play").click()
    assert "running" in page.evaluate(films)


def test_what_moves_by_itself_stops_after_a_while(visit, site):
    page = visit(site, still=False).page
    page.clock.install()
    page.reload()
    page.get_by_role("button", name="Pause").wait_for()
    page.clock.fast_forward(31_000)
    assert page.get_by_role("button", name="Play").is_visible()
