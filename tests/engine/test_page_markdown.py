"""A page as the site shows it: figures, folds, marks and formulas stand where they belong."""

import re
from pathlib import Path

import markdown
import pytest

from galley.book import Book, Result
from galley.read.page import OPTIONS_OF_A_BLOCK, parse
from galley.show import extension
from galley.show.page_markdown import figures, page_markdown
from tests.engine.conftest import block

ROOT = Path(__file__).parents[2]
EXTENSIONS = ["abbr", "md_in_html", "tables", "pymdownx.superfences", "pymdownx.arithmatex", "galley.show.extension"]
SETTINGS = {"pymdownx.arithmatex": {"generic": True}}
IMAGE = "\n![A line](figures/line.svg)\n"
DRAW = block("import matplotlib.pyplot as plt\n\nplt.plot([1, 2], label='a')")
PRINTS_TABLE = r'print("| a |\n| - |\n| 2.5 |")'
TABLE = "\n<!-- output -->\n\n| a |\n| - |\n| 2.5 |\n\n<!-- /output -->\n"
DRAWING = """\
class Drawing:
    def _repr_svg_(self):
        return "<svg viewBox='0 0 1 1'><g id='a'/></svg>"


Drawing()"""


@pytest.fixture
def render(project, monkeypatch):
    """Return a function that makes HTML of a page, which it runs before unless that is not wanted."""
    book = Book(project.root)
    monkeypatch.setattr(extension, "shared_book", lambda: book)

    def html(text, run=True):
        result = project.run_page(text) if run else Result("docs/page.md", parse(text))
        page = markdown.markdown(page_markdown(result, book), extensions=EXTENSIONS, extension_configs=SETTINGS)
        for placeholder, figure, _ in figures(result):
            assert page.count(placeholder) == 1
            page = page.replace(placeholder, figure)
        return page

    return html


def test_a_figure_is_placed_with_its_words_and_caption_and_its_ink_follows_the_page(render):
    page = render(f"# Page\n\n{DRAW}\n![A rising line](figures/line.svg)\n*It **rises** to 2.*\n\nAfter.\n")
    assert '<figure class="drawn" id="fig-line">' in page
    assert 'role="img" aria-label="A rising line"' in page
    assert "<figcaption>It <strong>rises</strong> to 2.</figcaption>" in page
    assert "<p>After.</p>" in page
    assert "line.svg" not in page
    assert re.search(r'style="--shape:[\d.]+;--narrow-shape:[\d.]+" data-narrow=""', page)
    assert "#000000" not in page
    assert re.search(r'<svg [^>]*fill="currentColor"', page)
    assert "DejaVu" not in page


def test_an_output_that_is_built_stands_where_its_file_has_other_words(render):
    page = render(f"{block(PRINTS_TABLE)}\n<!-- output: built -->\n\n*Some\nrows.*\n\n<!-- /output -->\n\nAfter.\n")
    assert "<td>2.5</td>" in page
    assert "rows." not in page
    assert "<p>After.</p>" in page


def test_figures_stand_in_order_and_ids_are_unique_on_the_page(render):
    code = "import matplotlib.pyplot as plt\n\nplt.plot([1, 2])\nplt.figure()\nplt.plot([2, 1])"
    images = "import matplotlib.pyplot as plt\n\nfor ax in plt.subplots(1, 2)[1]:\n    ax.imshow([[0, 1]])"
    two = f"{block(code)}\n![Up](figures/up.svg)\n\n![Down](figures/down.svg)\n\n"
    page = render(f"{two}{DRAW}{IMAGE}\n{block(images)}\n![Twice](figures/twice.svg)\n")
    assert re.findall(r'aria-label="([\w ]+)"', page) == ["Up", "Down", "A line", "Twice"]
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 3


def test_colored_letters_can_be_shaded_by_a_theme(render):
    draw = DRAW.replace("plt.plot", "plt.text(0, 0, 'red', color='#cf4d63')\nplt.plot")
    assert re.search(r"<text[^>]*fill: ?var\(--ink-cf4d63, #cf4d63\)", render(draw + IMAGE))


def test_a_displayed_drawing_is_a_figure(render):
    assert 'aria-label="A line"' in render(block(DRAWING) + IMAGE)


def test_a_checked_number_is_marked_and_its_comment_gone_and_a_given_number_is_plain(render):
    page = render(
        "There are 47,117<!-- = n | 0 --> rows and 3<!-- = names['a_b_c'][0] --> of them.\n\n"
        "| a |\n| - |\n| 12<!-- = 12 --> |\n\nWith 12<!-- given --> tokens.\n\n"
        + block("n = 47_117\nnames = {'a_b_c': [3]}")
    )
    assert '<span class="checked" data-expression="n &#124; 0" data-code="code-1">47,117</span> rows' in page
    assert page.index('<div id="code-1">') < page.index("47_117")
    expression = "names&#91;&#x27;a&#95;b&#95;c&#x27;&#93;&#91;0&#93;"  # which is not read as Markdown
    assert f'data-expression="{expression}"' in page
    assert '<td><span class="checked" data-expression="12">12</span></td>' in page
    assert "<p>With 12 tokens.</p>" in page
    assert "<!--" not in page


def test_a_number_leads_to_the_last_block_before_it_that_gives_its_value(render):
    blocks = [block("n = 1"), block("n = n + 1", "fold"), block("m = 3")]
    numbers = "Here 2<!-- = n -->, then 3<!-- = m -->, and 4<!-- = 2 + 2 -->.\n\n"
    page = render(f"{blocks[0]}{blocks[1]}{numbers}{blocks[2]}")
    homes = dict(re.findall(r'data-expression="(\w)" data-code="(code-\d)"', page))
    assert homes == {"n": "code-2", "m": "code-3"}
    assert re.search(r'<details class="fold"[^>]* id="code-2"', page)
    assert '<div id="code-3">' in page
    assert 'id="code-1"' not in page  # nothing leads there


def test_code_is_folded_on_request_below_its_figure_or_table_and_above_what_it_prints(render):
    fold = DRAW.replace("```python", '<!-- block: fold="How it is drawn" -->\n```python')
    page = render(f"{fold}{IMAGE}*It rises.*\n\nAfter.\n")
    summary = r'<details class="fold"[^>]*>\s*<summary>How it is drawn</summary>\s*<div class="highlight">'
    assert re.search(summary, page)
    assert page.index("<figcaption") < page.index('<details class="fold"') < page.index("After.")
    page = render(f"{block(PRINTS_TABLE, 'fold')}{TABLE}\nAfter.\n")
    assert page.index("<td>2.5</td>") < page.index("<summary>Code of this table") < page.index("After.")
    assert "output -->" not in page
    page = render(block("print(1)", 'fold="How"', output="1"))
    assert page.index("</details>") < page.rindex("1")


def test_a_block_of_assertions_is_folded_as_what_it_checked(render):
    assert "<summary>Checked: 1 assertion</summary>" in render(block("assert 1"))


def test_a_printed_card_holds_its_figure(render):
    card = "### One\n\n![A line](figures/line.svg)\n\nWords of one."
    code = f"import matplotlib.pyplot as plt\n\nplt.plot([0, 1])\nprint({card!r})"
    page = render(f"{block(code)}\n<!-- output -->\n\n{card}\n\n<!-- /output -->\n")
    assert page.rindex("One</h3>") < page.index('aria-label="A line"') < page.rindex("Words of one")


def test_formulas_are_set(render):
    page = render("The angle $\\theta_i$ and\n\n$$\na < b\n$$\n")
    assert page.count('class="katex"') == 2
    assert '<div class="formula display"' in page
    assert "arithmatex" not in page


def test_what_stands_behind_a_formula_is_not_shown(render):
    page = render(
        "$$\ny = 2 x\n$$\n<!-- formula: x = 3.5;\n  y = 7 -->\n\nAfter.\n\n"
        "> $$\n> x = 1\n> $$\n> <!-- formula: x = 1 -->\n>\n> Within.\n"
    )
    assert page.count('<div class="formula display"') == 2
    assert "formula:" not in page
    assert page.index("<blockquote>") < page.index("Within.") < page.index("</blockquote>")


def test_a_formula_keeps_its_full_stop_and_breaks_only_when_long(render):
    short = render("It is $a = b$.")
    assert re.search(r"</span>\.</span></p>", short)
    assert "<wbr>" not in short
    assert "<wbr>" in render("It is $" + " + ".join("abcdefghijklmnopqrst") + "$.")


def test_short_code_is_named(render):
    page = render("Call `f(x)`, or `a_function_with_a_long_name(and_an_argument)`.")
    assert '<code class="short">f(x)</code>' in page
    assert "<code>a_function" in page


def test_a_glossary_term_is_marked_once_in_each_section_and_in_no_heading(render):
    page = render("# About RoPE\n\nRoPE and RoPE.\n\n## RoPE\n\nRoPE, **RoPE**, RoPE.\n\n*[RoPE]: rotary\n")
    assert [text.count("<abbr") for text in re.split("</?h[12]", page)] == [0, 0, 1, 0, 1]
    assert page.count("RoPE") == 7


def test_code_that_shows_a_binding_is_left_alone(render):
    page = render("Write `12<!-- = n -->` so.\n\n```text\n12<!-- = n -->\n```\n")
    assert page.count("&lt;!-- = n --&gt;") == 2


def test_a_figure_that_is_not_drawn_yet_is_a_frame_with_its_words_and_caption(render):
    page = render(f'{DRAW}\n![A "rising" line](figures/line.svg)\n*It rises.*\n', run=False)
    assert "matplotlib" in page
    assert 'class="drawn-svg undrawn" role="img" aria-label="A &quot;rising&quot; line"' in page
    assert "<strong>Being drawn</strong><br>A &quot;rising&quot; line" in page
    assert "<figcaption>It rises.</figcaption>" in page
    assert "line.svg" not in page


def test_a_figure_of_a_page_that_fails_is_not_being_drawn(render):
    assert "<strong>Not drawn</strong>" in render(DRAW.replace("plt.plot", "1 / 0  # ") + IMAGE)


def test_an_image_under_code_that_is_only_shown_is_an_image(render):
    assert '<img alt="A line" src="figures/line.svg"' in render(f"<!-- block: skip -->\n{DRAW}{IMAGE}")


def test_front_matter_is_left_to_the_builder(render):
    assert render("---\ntitle: A title\n---\n\nText.\n", run=False) == "<p>Text.</p>"


CODE = '<span class="n">x</span> <span class="o">=</span> <span class="n">f</span><span class="p">(</span>'
CODE += '<span class="p">[</span><span class="mi">1</span><span class="p">])</span>\n<span class="w">  </span>'
CODE += '<span class="c1"># 1 &lt; 2</span>'


def test_code_keeps_its_letters_and_the_spans_that_have_a_color():
    text = lambda html: re.sub(r"<[^>]*>", "", html)  # noqa: E731
    page = extension.CodeTokens().run(f"<pre><span></span><code>{CODE}</code></pre>")
    assert text(page) == text(CODE)
    assert page == (
        '<pre><code style="--lines:2">x <span class="o">=</span> f<span class="p">([</span><span class="mi">1</span>'
        '<span class="p">])</span>\n  <span class="c1"># 1 &lt; 2</span></code></pre>'
    )
    linked = '<code><span class="n"><a href="#x">f</a></span></code>'
    assert extension.CodeTokens().run(linked) == linked


def test_the_link_of_a_heading_needs_no_tooltip():
    settings = {"toc": {"permalink": True, "permalink_title": "Link to this section"}}
    page = markdown.markdown("# One", extensions=["toc", "galley.show.extension"], extension_configs=settings)
    assert 'aria-label="Link to this section"' in page
    assert "title=" not in page


def test_the_guide_lists_each_option_of_a_block():
    guide = (ROOT / "docs/engine/README.md").read_text(encoding="utf-8")
    table = guide.partition("**Options**")[2].partition("**Four kinds")[0]
    cells = "".join(row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `"))
    assert {re.match(r"\w+", code)[0] for code in re.findall("`([^`]+)`", cells)} | {"data"} == OPTIONS_OF_A_BLOCK
