"""Live figures: a still one in the page, the page's numbers beside it, and a script that takes over."""

import json
import re
from html.parser import HTMLParser

import markdown
import pytest

from galley.book import Book
from galley.show.page_markdown import figures, page_markdown

PAGE = """\
# Page

<!-- block: {options} -->
```python
import matplotlib.pyplot as plt
import numpy as np

name = "Ada's & Bob's </script>"
plt.plot([1, 2])
```

![A rising line](figures/line.svg)
*It is drawn.*
"""


@pytest.fixture
def scripted(project):
    project.write("docs/assets/js/figures/rise.js", "export default function rise(stage) {}\n")
    return project


def live_figure(project, data):
    """Return the attributes of the page's live figure, as a browser reads them, and the page."""
    text = PAGE.format(options=f'live=rise data="{data}"')
    assert project.check(text) == []
    book = Book(project.root)
    result = book.run({"docs/page.md": text})["docs/page.md"]
    page = markdown.markdown(page_markdown(result, book), extensions=["md_in_html", "pymdownx.superfences"])
    for placeholder, figure, _ in figures(result):
        page = page.replace(placeholder, figure)
    reader = FigureReader()
    reader.feed(page)
    [attributes] = reader.figures
    return attributes, page


class FigureReader(HTMLParser):
    """Collects the attributes of live figures."""

    def __init__(self):
        super().__init__()
        self.figures = []

    def handle_starttag(self, tag, attrs):
        if tag == "posenc-figure":
            self.figures.append(dict(attrs))


def test_the_still_figure_lies_inside_and_numbers_arrive_as_json_of_nine_digits(scripted):
    data = "{'name': name, 'row': np.float32([0.1, 2]), 'pair': (np.pi, 7), 'on': True, 'none': None}"
    attributes, page = live_figure(scripted, data)
    assert attributes["name"] == "rise"
    inside = re.search(r"<posenc-figure.*?>(.*)</posenc-figure>\s*<figcaption>It is drawn.</figcaption>", page, re.S)
    assert 'role="img" aria-label="A rising line"' in inside[1]
    assert not re.search(r"<p>\s*<posenc-figure", page), "a paragraph would end before the figure"
    assert json.loads(attributes["data"]) == {
        "name": "Ada's & Bob's </script>",
        "row": [0.100000001, 2.0],
        "pair": [3.14159265, 7],
        "on": True,
        "none": None,
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("live=fall", "5: there is no assets/js/figures/fall.js to bring this figure to life"),
        ("live=../rise", "3: live must be the name of a script, such as clock-film, got '../rise'"),
        ("live=", "3: live must be the name of a script, such as clock-film, got ''"),
        ("data=1", "5: data= is for a live figure; name it with live="),
        ("live=rise data=", "3: data needs a value: data=…"),
    ],
)
def test_wrong_options_are_named(scripted, options, expected):
    assert expected in scripted.check(PAGE.format(options=options))


@pytest.mark.parametrize(("data", "error"), [("nothing", "NameError"), ("np.nan", "not JSON compliant")])
def test_data_that_cannot_be_given_is_named(scripted, data, error):
    (problem,) = scripted.check(PAGE.format(options=f"live=rise data={data}"))
    assert error in problem


def test_a_live_figure_needs_its_still(scripted):
    text = PAGE.format(options="live=rise").replace("plt.plot([1, 2])\n", "").partition("\n![")[0]
    assert scripted.check(text) == ["5: a live figure needs one still figure, for readers without scripts"]


def test_other_data_runs_the_page_again(scripted):
    scripted.check(PAGE.format(options="live=rise data=1"))
    result = scripted.run_page(PAGE.format(options="live=rise data=2"))
    assert not result.cached
    assert [step["data"] for step in result.steps] == ["2"]
