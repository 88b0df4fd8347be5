"""Files that a reader may copy: from the landing page to the clipboard; every link to them and to notebooks holds."""

from tests.browser import axe
from tests.browser.pages import PAGES
from tests.site_links import COLAB, ROOT, faults

ROPE = (ROOT / "posenc/rotate/rope.py").read_text(encoding="utf-8")
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1440, "height": 900}


def test_links_to_files_and_notebooks_lead_there(built_site):
    assert faults(built_site) == []


def test_each_page_that_is_a_notebook_on_the_site_opens_in_colab(built_site):
    offered = [
        path for path in PAGES if path and COLAB in (built_site / path / "index.html").read_text(encoding="utf-8")
    ]
    written = [path for path in built_site.rglob("*.ipynb") if path != built_site / "index.ipynb"]
    assert len(offered) == len(written) > 50


def test_two_clicks_from_the_landing_page_copy_a_file(site, visit):
    page = visit(site).page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".md-tabs").get_by_role("link", name="Gallery").click()
    page.wait_for_url(f"{site}gallery/")
    copied(page, page.get_by_role("button", name="Copy rope.py"))


def test_a_chapter_and_the_reference_copy_the_same(site, visit):
    for path in ("chapters/3-rope/derivation/#copy-this", "reference/rotate/#posenc.rotate.rope"):
        page = visit(site + path).page
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        copied(page, page.get_by_role("button", name="Copy rope.py"))


def copied(page, button):
    page.evaluate("navigator.clipboard.writeText('')")
    button.click()
    page.get_by_text("Copied", exact=True).wait_for()
    assert page.evaluate("navigator.clipboard.readText()").split("\n", 2)[2] == ROPE  # below where it is from


def test_where_nothing_can_be_copied_the_file_opens(site, visit):
    page = visit(f"{site}code/rotate/rope/").page
    page.evaluate("() => { navigator.clipboard.write = () => Promise.reject(new Error('no')) }")
    page.get_by_role("button", name="Copy rope.py").click()
    page.wait_for_url(f"{site}code/rotate/rope.py")


def test_the_page_of_a_file_shows_it_to_everybody(site, visit, judged):
    visited = visit(f"{site}code/rotate/rope/", **PHONE)
    page, code = visited.page, visited.page.locator("article pre code")
    assert code.inner_text().rstrip() == ROPE.rstrip()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.locator('link[rel="canonical"]').get_attribute("href").endswith("/code/rotate/rope/")
    page.set_viewport_size(DESK)
    assert code.evaluate("(code) => code.scrollWidth <= code.clientWidth")
    assert not axe.unread_in_both_schemes(page, judged)
    assert not visited.errors
    assert not visited.foreign(site)
    page.locator(".md-tabs").get_by_role("link", name="Gallery").click()
    page.wait_for_url(f"{site}gallery/")


def test_tools_are_named_and_stay_beside_each_other_on_a_phone(site, visit):
    page = visit(f"{site}chapters/3-rope/derivation/", **PHONE).page
    tools = page.locator(".tools a")
    boxes = [tool.bounding_box() for tool in tools.all()]
    assert [name.split()[0] for name in tools.evaluate_all("(all) => all.map((a) => a.ariaLabel)")] == [
        "Edit", "This", "Download", "Run",
    ]  # fmt: skip
    assert len({box["y"] for box in boxes}) == 1
    assert all(box["width"] >= 24 and box["height"] >= 24 for box in boxes)
