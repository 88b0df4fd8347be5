"""Each page as clean Markdown, and the lists of them."""

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


def made(project, text=PAGE):
    folder = project.root / "site"
    llms_txt.write_all(small(project, everything=text), folder)
    return folder, (folder / "everything/index.md").read_text(encoding="utf-8")


def test_a_twin_has_what_a_reader_sees_and_no_marks(project):
    _, text = made(project)
    assert text.startswith("# Everything\n\nIt has 47,117 positions,")
    assert "as `n<!-- = n -->` says" in text
    assert "[elsewhere](https://example.org/book/labs/#the-labs) and [here](#all)" in text
    assert '```python\nprint("<div>", 1 < 2)\n```\n\n```output\n<div> True\n```' in text
    assert "| 1 | 2 |" in text
    assert "**An answer.**" in text
    assert "Inside, [a button](https://example.org/book/labs/)." in text
    for mark in ("block:", "<!-- output", "details", "<a ", "card", "md-button", "description:"):
        assert mark not in text


def test_an_output_that_is_built_stands_in_the_twin(project):
    text = "# Page\n\n```python\nprint(table)\n```\n\n<!-- output: built -->\n\n*Rows.*\n\n<!-- /output -->\n\nAfter.\n"
    site = small(project, page=text)
    page = page_of(site, "page.md")
    page.result.steps = [{"stdout": "| made |\n|---|\n| here |\n"}]
    made_of_it = llms_txt.twin(page, site)
    assert "```\n\n| made |\n|---|\n| here |\n\nAfter." in made_of_it
    assert "Rows." not in made_of_it


def test_a_figure_is_told_and_the_code_that_draws_it_is_left_out(project):
    _, text = made(project)
    assert "*Figure: A wave that falls.*\n\n*It falls.*" in text
    assert "secret" not in text


def test_what_a_page_documents_stands_in_it(project):
    _, text = made(project)
    assert "## `library/code.py`\n\n```python\ndef double(x):" in text
    assert ":::" not in text
    assert "heading_level" not in text


def test_the_list_has_each_page_in_its_part(project):
    folder, _ = made(project)
    listed = (folder / "llms.txt").read_text(encoding="utf-8")
    assert listed.startswith("# book\n\n> A book that runs.\n")
    part = listed.index("## 3 RoPE")
    assert listed.index("# book") < listed.index("index.md): The first page.") < part
    assert '- [3.1 Turn](https://example.org/book/chapters/3-rope/turn/index.md): It "turns".' in listed[part:]
    for line in (line for line in listed.splitlines() if line.startswith("- [")):
        place = line.partition("](https://example.org/book/")[2].partition(")")[0]
        assert (folder / place).exists()


def test_all_pages_in_one_file(project):
    folder, text = made(project)
    assert text in (folder / "llms-full.txt").read_text(encoding="utf-8")
