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


def test_each_section_of_the_depth_is_a_fold_and_nothing_else(page):
    folds = FOLD.findall(page)
    assert [title.strip() for title, _ in folds] == ['<h3 id="one">First</h3>', '<h3 id="second">Second</h3>']
    assert [re.findall("One|Two|Three|End", body) for _, body in folds] == [["One", "Two"], ["Three"]]
    unfolded = FOLD.sub("", page)
    assert [text for text in ("Main", "Before", "End", "No depth") if text not in unfolded] == []


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        (CHIPS.replace("Use it", "Take it"), 'class="chips"'),
        (CHAPTER.replace("## Depth", "## Else").split("### Second")[0], "details"),
    ],
    ids=["other links in a line", "a page without depth"],
)
def test_what_has_another_form_stays_as_it_is(text, absent):
    assert absent not in markdown.markdown(text, extensions=EXTENSIONS)
