"""What a chapter's main line shows on a phone: figures as wide as the column, code that breaks and is not pushed."""

import pytest

from dev import words
from tests.browser.pages import path_of

pytestmark = pytest.mark.full

PHONE = {"width": 390, "height": 844}
BELOW = """(element) => Boolean(document.querySelector("#depth")?.compareDocumentPosition(element) & 4)"""
FIGURES = f"""() => [...document.querySelectorAll(".md-content figure.drawn")].filter((figure) => !({BELOW})(figure))
  .map((figure) => figure.id)"""
# A figure far from the screen is not laid out, so that each is looked at where it is seen.
WIDER = """async (id) => {
  const figure = document.getElementById(id)
  const still = figure.querySelector(".drawn-svg")
  const soon = () => new Promise((done) => setTimeout(done, 20))
  const until = async (holds) => { for (let n = 0; n < 300 && !holds(); n++) await soon() }
  figure.scrollIntoView({ block: "center" })
  if (figure.querySelector("posenc-figure")) await until(() => figure.querySelector("posenc-figure[live]"))
  else if (still.dataset.narrow) await until(() => still.querySelector(".for-phone"))
  if (!still.checkVisibility()) return 0
  const [drawing] = [...still.querySelectorAll("svg")].filter((svg) => svg.checkVisibility())
  return drawing.getBoundingClientRect().width - still.clientWidth
}"""
CODE = f"""() => [...document.querySelectorAll(".md-content .language-python pre > code")]
  .filter((code) => code.checkVisibility() && !({BELOW})(code))
  .filter((code) => {{ code.style.contentVisibility = "visible"; return code.scrollWidth > code.clientWidth + 1 }})
  .map((code) => code.textContent.split("\\n")[0])"""


@pytest.mark.parametrize("name", words.pages())
def test_no_figure_is_wider_than_its_column(site, visit, name):
    page = visit(site + path_of(name), **PHONE).page
    wider = {figure: page.evaluate(WIDER, figure) for figure in page.evaluate(FIGURES)}
    assert not {figure: over for figure, over in wider.items() if over > 1}


@pytest.mark.parametrize("name", words.pages())
def test_no_line_of_code_is_pushed_sideways(site, visit, name):
    page = visit(site + path_of(name), **PHONE).page
    assert page.evaluate(CODE) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_where_the_narrow_form_cannot_be_fetched_the_wide_one_stays(site, visit):
    """A figure that is pushed sideways is better than none."""
    page = visit(f"{site}chapters/3-rope/derivation/", **PHONE).page
    page.route("**/assets/images/drawn/*.svg", lambda route: route.abort())
    page.reload()
    still = page.locator("#fig-derivation-flat .drawn-svg")
    still.scroll_into_view_if_needed()
    page.wait_for_selector("#fig-derivation-flat .drawn-svg:not([data-narrow])")
    assert still.locator("svg").is_visible()
