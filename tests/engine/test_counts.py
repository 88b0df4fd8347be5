"""Each page ends with the counts of what stands behind its numbers, and one page has those of the whole book."""

import re

import pytest

from galley.check.counts import counts, in_words, table
from galley.read.formula import digest
from galley.read.page import parse

pytestmark = pytest.mark.full

PAGE = """\
# Page

There are 12<!-- = n --> and 14<!-- = n + 2 -->, more than 11<!-- < n -->; with 30<!-- given --> rows, and a paper says
94.82<!-- cite: someone2020, table 1 -->.

```python
import matplotlib.pyplot as plt

n = 12
print(n)
plt.plot([0, n])
```

```output
12
```

![A line](figures/line.svg)

```pycon
>>> n + 1
13
```

<!-- block: skip -->
```python
label = "only"
```

$$
y = 2 x
$$

<!-- formula: x = 3; y = 6 -->

$$
S
$$

<!-- formula reason DIGEST: it is a name -->
""".replace("DIGEST", digest("S"))
SUMMARY = (
    "2 numbers computed, 1 bounded, 1 cited, 1 given; 2 outputs compared; 1 figure drawn; "
    "1 formula checked; 1 formula with a reason instead"
)


def text(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split()).replace(" ,", ",").replace(" :", ":")


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (PAGE, SUMMARY),
        ("One 12<!-- = 12 --> alone.", "1 number computed"),
        ("Only 12<!-- given --> and 13<!-- given -->.", "2 numbers given"),
        ("```python\nprint(1)\n```\n\n```output\n1\n```", "1 output compared"),
        ("12<!-- given -->, " * 1200, "1,200 numbers given"),
        ("# Page\n\nWords, and `code`.\n\n```python\nx = 1\n```\n", ""),
    ],
)
def test_only_what_there_is_is_counted(text, summary):
    assert in_words(counts(parse(text))) == summary


@pytest.fixture
def book(project):
    project.take_theme()
    project.append("pyproject.toml", 'proof = "start/proof.md"\n')
    project.page("index.md", "# Home\n\nWith 30<!-- given --> rows.\n")
    project.page("start/proof.md", "# Proof\n\n<!-- galley: counts -->\n\nWith 31<!-- given --> rows.\n")
    project.page("part/index.md", "# Part 1: The first\n")
    project.page("part/one.md", "# One\n\n12<!-- = 12 --> and 13<!-- = 13 -->\n")
    return project


def counts_table(site):
    html = site["start/proof"]
    rows = re.findall(r"<tr>(.*?)</tr>", html[html.index("counts") : html.index("</table>")], re.S)
    return [[text(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)] for row in rows]


def test_the_book_is_counted_part_by_part_and_again_when_a_page_changes(book):
    site = book.build("--strict")
    assert re.search(r'<p class="counts"[^>]*><a href="\.\./\.\./start/proof/">On this page</a>', site["part/one"])
    assert '<a href="start/proof/">On this page</a>' in site["."]
    assert re.search(r'<p class="counts"[^>]*>On this page: 1 number given', site["start/proof"])
    assert counts_table(site) == [
        ["Part", "Pages", "Computed", "Bounded", "Cited", "Given", "Outputs", "Figures", "Formulas", "Reasons"],
        ["Part 1: The first", "2", "2", "0", "0", "0", "0", "0", "0", "0"],
        ["Start", "1", "0", "0", "0", "1", "0", "0", "0", "0"],
        ["Pages of their own", "1", "0", "0", "0", "1", "0", "0", "0", "0"],
        ["The book", "4", "2", "0", "0", "2", "0", "0", "0", "0"],
    ]
    book.page("part/one.md", "# One\n\n12<!-- = 12 --> and 13<!-- given -->\n")
    assert counts_table(book.build("--strict"))[1] == ["Part 1: The first", "2", "1", "0", "0", "1", "0", "0", "0", "0"]
    book.page("part/two.md", "# Two\n")
    assert counts_table(book.build("--strict"))[1][1] == "3"


def test_the_book_says_what_share_of_its_formulas_is_checked():
    share = "Of 2 displayed formulas, 1 are checked with numbers; each of the others says why it is not."
    assert table([("part/one.md", parse(PAGE))]).rstrip().endswith(f"</div>\n\n{share}")
    assert table([("part/two.md", parse("# Two\n"))]).rstrip().endswith("</div>")
