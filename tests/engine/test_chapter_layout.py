"""A chapter's form: the answer, the chips, and below Depth sections that open by themselves."""

import re

import markdown
import pytest

EXTENSIONS = ["attr_list", "md_in_html", "toc", "galley.show.extension"]
CHIPS = " · ".join(f"[{word} it](#a)" for word in ("Use", "See", "Prove", "Measure", "Copy"))
FOLD = re.compile(
    r'<details class="depth"><summary>(.*?)</summary>(.*?)</details>(?=\s*<(?:details class="depth"|h2))', re.S
)
CHAPTER = f"""# Title

**In short.** It is so.

{CHIPS}

## Found

Main.

## Depth

Before.

### First {{#one}}

One.

#### Inside

Two.

### Second

<details markdown="1"><summary>Answer</summary>

Three.

</details>

## Behind

### No depth

End.
"""


@pytest.fixture
def page():
    return markdown.markdown(CHAPTER, extensions=EXTENSIONS)


def test_the_answer_and_the_chips_are_marked(page):
    assert '<p class="answer"><strong>In short.</strong> It is so.</p>' in page
    (chips,) = re.findall('<p class="chips">(.*?)</p>', page)
    assert " ".join(re.sub("<.*?>", "", chips).split()) == "Use it See it Prove it Measure it Copy it"


def test_other_links_in_a_line_are_no_chips():
    assert 'class="chips"' not in markdown.markdown(CHIPS.replace("Use it", "Take it"), extensions=EXTENSIONS)


def test_each_section_of_the_depth_is_a_fold(page):
    found = FOLD.findall(page)
    assert [title.strip() for title, _ in found] == ['<h3 id="one">First</h3>', '<h3 id="second">Second</h3>']
    assert [re.findall("One|Two|Three|End", body) for _, body in found] == [["One", "Two"], ["Three"]]


def test_what_is_no_section_of_the_depth_stays_open(page):
    opened = FOLD.sub("", page)
    assert [word in opened for word in ("Main", "Before", "End", "No depth")] == [True] * 4


def test_a_page_without_depth_has_no_folds():
    assert "details" not in markdown.markdown(
        CHAPTER.replace("## Depth", "## Else").split("### Second")[0], extensions=EXTENSIONS
    )
