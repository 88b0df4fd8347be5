"""Each page as clean Markdown, and the lists of them."""

import pytest

from galley.show import llms_txt
from tests.engine.sites import page_of, small

PAGE = """---
description: A page with everything.
---

# Everything {#all}

It has 47,117<!-- = 40_000 + 7_117 --> positions,
[elsewhere](labs.md#the-labs) and [here](#all), as `n<!-- = n -->` says.

<!-- block: fold="How it is drawn" -->
```python
secret = 1
```

![A wave that falls](figures/wave.svg)
*It falls.*

<!-- block: rtol=1e-3 -->
```python
print("<div>", 1 < 2)
```

```output
<div> True
```

<!-- output -->

| a | b |
|---|---|
| 1 | 2 |

<!-- /output -->

<details markdown="1"><summary>An answer</summary>

<div class="card" markdown>
Inside, <a id="x"></a>[a button](labs.md){ .md-button }.
</div>

</details>

::: library.code
    options:
      heading_level: 2
"""


@pytest.fixture
def folder(project):
    """The folder of the site, with what is written for each page and for all."""
    folder = project.root / "site"
    llms_txt.write_all(small(project, everything=PAGE), folder)
    return folder


def test_a_twin_has_what_a_reader_sees_and_no_marks(folder):
    text = (folder / "everything/index.md").read_text(encoding="utf-8")
    assert text.startswith("# Everything\n\nIt has 47,117 positions,")
    assert "as `n<!-- = n -->` says" in text
    assert "[elsewhere](https://example.org/book/labs/#the-labs) and [here](#all)" in text
    assert '```python\nprint("<div>", 1 < 2)\n```\n\n```output\n<div> True\n```' in text
    assert "| 1 | 2 |" in text
    assert "**An answer.**" in text
    assert "Inside, [a button](https://example.org/book/labs/)." in text
    assert "*Figure: A wave that falls.*\n\n*It falls.*" in text
    assert "## `library/code.py`\n\n```python\ndef double(x):" in text
    marks = ("block:", "<!-- output", "details", "<a ", "card", "md-button", "description:", ":::", "heading_level")
    for mark in (*marks, "secret"):  # the code that draws the figure
        assert mark not in text
    assert text in (folder / "llms-full.txt").read_text(encoding="utf-8")


def test_an_output_that_is_built_stands_in_the_twin(project):
    text = "# Page\n\n```python\nprint(table)\n```\n\n<!-- output: built -->\n\n*Rows.*\n\n<!-- /output -->\n\nAfter.\n"
    site = small(project, page=text)
    page = page_of(site, "page.md")
    page.result.steps = [{"stdout": "| built |\n|---|\n| here |\n"}]
    twin = llms_txt.twin(page, site)
    assert "```\n\n| built |\n|---|\n| here |\n\nAfter." in twin
    assert "Rows." not in twin


def test_the_list_has_each_page_in_its_part(folder):
    text = (folder / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# book\n\n> A book that runs.\n")
    part = text.index("## 3 RoPE")
    assert text.index("# book") < text.index("index.md): The first page.") < part
    assert '- [3.1 Turn](https://example.org/book/chapters/3-rope/turn/index.md): It "turns".' in text[part:]
    for line in (line for line in text.splitlines() if line.startswith("- [")):
        place = line.partition("](https://example.org/book/")[2].partition(")")[0]
        assert (folder / place).exists()
