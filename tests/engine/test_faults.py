"""Each fault a page can have is found, at its line; strict builds and pytest both fail on it."""

import pytest

from tests.engine.conftest import block

PLOT = "```python\nimport matplotlib.pyplot as plt\n\nplt.plot([1])\n```"
FAULTS = {
    "a failing block": ("```python\nx = 1\n\ny = x / 0\n```", "6: ZeroDivisionError: division by zero"),
    "a name error inside a function": (
        "```python\ndef f():\n    return missing\n\n\nf()\n```",
        "8: NameError: name 'missing' is not defined",
    ),
    "a block that does not parse": ("```python\nx = (1,\n```", "4: SyntaxError: '(' was never closed"),
    "a wrong output": ("```python\nprint(2.5)\n```\n\n```output\n2.6\n```", "8: output differs"),
    "a missing output": ("```python\nprint('seen')\n```", "6: output differs"),
    "an output of a block that prints nothing": ("```python\nx = 1\n```\n\n```output\n1\n```", "8: output differs"),
    "a wrong cell in a computed table": (
        block(r'print("| a |\n| - |\n| 2.5 |")') + "\n<!-- output -->\n\n| a |\n| - |\n| 2.7 |\n\n<!-- /output -->",
        "8: output differs",
    ),
    "an output to be built of a block that prints nothing": (
        "```python\nx = 1\n```\n\n<!-- output: built -->\n\n*Rows.*\n\n<!-- /output -->",
        "8: output differs",
    ),
    "a number that no longer holds": (
        "There are 47,118<!-- = n --> of them.\n\n```python\nn = 47_117.24\n```",
        "3: 47,118 stands here; n gives 47117.24",
    ),
    "a bound that no longer holds": (
        "```python\nerror = 1e-3\n```\n\nThe error is below 1e-6<!-- > error -->.",
        "7: 1e-6 stands here, and should be > it",
    ),
    "a number whose expression fails": (
        "```python\nn = 1\n```\n\nSome 12<!-- = m --> of them.",
        "7: m raises NameError",
    ),
    "an unbound number": ("It takes 17.3 steps.", "3: no code stands behind 17.3"),
    "an unbound decimal in a formula": ("The angle is $a = 0.25$ here.", "3: no code stands behind 0.25"),
    "a number that takes the value from above its block": (
        "```python\nn = 7\n```\n\nNow there are 7<!-- = n -->.\n\n```python\nn = 23\n```",
        "7: n could have two values here, one of them from the block at line 10",
    ),
    "a number that could wait for either of two blocks": (
        "There will be 23<!-- = n -->.\n\n```python\nn = 7\n```\n\n```python\nn = 23\n```",
        "3: n could have two values here",
    ),
    "code under a caption without a blank line": (
        f"{PLOT}\n![A dot](figures/a.svg)\n```python\nassert False\n```",
        "10: AssertionError",
    ),
    "a number in a figure's words that stands nowhere": (
        f"{PLOT}\n\n![To 17.3](figures/a.svg)",
        "9: 17.3 in figures/a.svg's words stands neither in its block nor in the figure or its caption",
    ),
    "a number in a figure's words that stands elsewhere on the page": (
        f"It is 17.3<!-- given -->.\n\n{PLOT}\n\n![To 17.3](figures/a.svg)",
        "11: 17.3 in figures/a.svg's words stands neither in its block",
    ),
    "a tolerance that lets every number change": (
        "<!-- block: rtol=0.9 -->\n```python\nprint(1.5)\n```\n\n```output\n1.5\n```",
        "3: rtol must be at most 0.2, got 0.9",
    ),
    "a word that a result no longer bears out": (
        "The loss rises<!-- = slope > 0 and 'rises' -->.\n\n```python\nslope = -1\n```",
        "3: rises stands here; slope > 0 and 'rises' gives False",
    ),
    "an inverted word whose comparison still holds": (
        "The loss falls<!-- = slope > 0 and 'rises' -->.\n\n```python\nslope = 1\n```",
        "3: falls stands here; slope > 0 and 'rises' gives rises",
    ),
    "a word that any true comparison would bear": (
        "The loss falls<!-- = slope > 0 -->.\n\n```python\nslope = 1\n```",
        "3: slope > 0 would bear any word; name it: <!-- = slope > 0 and 'falls' -->",
    ),
    "a verdict in a caption that nothing decides": (
        f"{PLOT}\n\n![A line](figures/a.svg)\n*The line rises.*",
        "10: no comparison stands behind 'rises' in this caption",
    ),
    "a work under another year": (
        "See [One et al. (2019)](reference/bibliography.md#someone2020).",
        "3: [One et al. (2019)] leads to someone2020, which is by One, 2020",
    ),
    "a work under another author": (
        "See [Two, 2020](reference/bibliography.md#someone2020).",
        "3: [Two, 2020] leads to someone2020, which is by One, 2020",
    ),
    "a chapter under another number": (
        "# 1.1 Page\n\nSee [chapter 1.2](page.md).",
        "3: [chapter 1.2] leads to page.md, which is 1.1",
    ),
    "code in a comment": (
        "<!-- An old version:\n\n```python\nn = 7\n```\n-->\n\nIt is 7<!-- = n --> now.",
        "10: n raises NameError",
    ),
    "a comment without an end": ("<!-- An old version:\n\nText.", "3: this comment is never closed"),
    "two figures of one name": (
        2 * f"{PLOT}\n\n![A line](figures/a.svg)\n\n",
        "17: figures/a.svg is the name of another figure too",
    ),
    "a tolerance that a session does not have": (
        "<!-- block: rtol=0.1 -->\n```pycon\n>>> 1.5\n1.5\n```",
        "5: rtol= does nothing in a pycon block",
    ),
    "a figure that is no SVG": (
        f"{PLOT}\n\n![A line](figures/a.png)",
        "9: a drawn figure is an SVG: write figures/a.svg",
    ),
    "a bracket in a figure's words": (
        f"{PLOT}\n\n![In [0, 1]](figures/a.svg)",
        "9: a figure's words cannot hold brackets",
    ),
    "a fence that would be shown and never run": ("```py\nassert False\n```", "3: shown and never run"),
    "a fence closed by too many ticks": ("```python\nx = 1\n````\n\nText.", "3: this fence is never closed"),
    "an indented fence after a tab": ("\t```python\n\tassert False\n\t```", "3: put it at the margin"),
    "an unbound negative number": ("It is −17.3 here.", "3: no code stands behind −17.3"),
    "an unbound number with its unit": ("It takes 17ms here.", "3: no code stands behind 17ms"),
    "an unbound count that looks like a year": ("A text of 2000 tokens.", "3: no code stands behind 2000"),
    "an unbound number in a footnote": ("See[^1].\n\n[^1]: It takes 4711 steps.", "5: no code stands behind 4711"),
    "a number between stray backticks": (
        "A stray ` here.\n\nIt is 12<!-- = 11 --> now.\n\nAnother ` there.",
        "5: 12 stands here; 11 gives 11",
    ),
    "a binding that cannot be read": ("It is 7<!-- 7 --> here.", "3: cannot read this binding"),
    "an output that nothing compares": (
        "```pycon\n>>> 1\n1\n```\n\n```output\n999\n```",
        "4: nothing compares the output under this block",
    ),
    "an output table without a block": (
        "Text.\n\n<!-- output -->\n\n| 7 |\n|---|\n\n<!-- /output -->",
        "5: an output must stand right under the block",
    ),
    "a session without a prompt": ("```pycon\n1 + 1\n```", "4: without a >>> prompt runs nothing"),
    "a formula in the wrong marks": ("So \\(x\\) it is.", "3: write a formula between $ or $$"),
    "a raw link": ('See <a href="nowhere/">this</a>.', "3: link to nowhere/ in Markdown, which is checked"),
    "a tolerance that is no number": (
        "<!-- block: rtol=loose -->\n```python\nprint(1)\n```\n\n```output\n1\n```",
        "3: rtol must be a positive number, got 'loose'",
    ),
    "a flag with a value": ("<!-- block: skip=false -->\n```python\nx = 1\n```", "3: skip takes no value"),
    "a quotation the bibliography does not hold": (
        "They report 94.83<!-- cite: someone2020, table 1 --> percent.",
        "3: 94.83 is not among the numbers that references.bib quotes from someone2020, table 1",
    ),
    "a quotation of an unknown work": (
        "They report 94.82<!-- cite: nobody2020, table 1 --> percent.",
        "3: there is no 'nobody2020'",
    ),
    "a figure without alternative text": (
        f"{PLOT}\n\n![](figures/line.svg)",
        "9: figures/line.svg has no alternative text",
    ),
    "a figure that no block draws": (
        "```python\nx = 1\n```\n\n![A line](figures/line.svg)",
        "4: draws 0 figure(s), and 1 image line(s)",
    ),
    "a drawn figure without its image line": (PLOT, "4: draws 1 figure(s), and 0 image line(s)"),
    "an unclosed fence": ("Some text.\n\n```python\nx = 1", "5: this fence is never closed"),
    "an unclosed output": ("```python\nprint(1)\n```\n\n<!-- output -->\n\n1", "7: this output is never closed"),
    "an output without a block": (
        "Some text.\n\n```output\n1\n```",
        "5: an output must stand right under the block that prints it",
    ),
    "options above no block": (
        "<!-- block: rtol=1e-2 -->\nSome text.",
        "3: block options must stand directly above a python fence",
    ),
    "an unknown option": ("<!-- block: tolerance=1 -->\n```python\nx = 1\n```", "3: unknown block option 'tolerance'"),
    "an option behind a fence": (
        "```python fold\nx = 1\n```",
        "3: 'fold' behind python says nothing; options stand in a comment above it: <!-- block: fold -->",
    ),
    "a fence inside a quote": ("> ```python\n> x = 1\n> ```", "3: a fence inside a quote does not run"),
    "a link to no file": ("See [that](missing.md).", "3: link to nowhere: missing.md"),
    "a link to a view of no file": ("See [that](missing.md?length=8).", "3: link to nowhere: missing.md?length=8"),
    "a link to a view with no anchor": (
        "See [this](page.md?length=8#no-section).",
        "3: link to nowhere: page.md has no #no-section",
    ),
    "a link to no anchor": (
        "## A section\n\nSee [here](#a-section) and [there](#no-section).",
        "5: link to nowhere: this page has no #no-section",
    ),
    "a formula in a heading": ("## At $d = 4$", "3: a heading cannot hold a formula"),
    "a wrong formula": ("Some text.\n\n$$\n\\frac{1\n$$", "5: KaTeX parse error"),
    "a wrong formula in a sentence": (
        "The frequency $\\thetta_i$ is wrong.",
        "3: Undefined control sequence: \\thetta",
    ),
    "a lone dollar sign": ("The frequency $x is wrong.", "3: a lone $"),
    "a block that raises nothing": (
        "<!-- block: raises=ValueError -->\n```python\nx = 1\n```",
        "5: the block should raise ValueError; it raises nothing",
    ),
    "a block that raises something else": (
        "<!-- block: raises=ValueError -->\n```python\n1 / 0\n```",
        "5: ZeroDivisionError",
    ),
    "a failing session": ("```pycon\n>>> 1 + 1\n3\n```", "4: Expected:\n    3\nGot:\n    2"),
    "a warning": (
        '```python\nimport warnings\n\nwarnings.warn("old", stacklevel=1)\n```',
        "4: the block warns: UserWarning: old",
    ),
    "a quoted source that has changed": (
        "<!-- block: source=library/code.py:double -->\n```python\ndef double(x):\n    return x + x\n```",
        "5: reads otherwise now",
    ),
    "a quoted source that is gone": (
        "<!-- block: source=library/code.py:treble -->\n```python\n```",
        "5: there is no treble in library/code.py",
    ),
    "a snippet that needs the package": (
        "<!-- block: standalone -->\n```python\nimport posenc\n```",
        "5: ModuleNotFoundError",
    ),
    "a snippet that needs the readers' package": (
        "<!-- block: standalone -->\n```python\nimport posenc_book\n```",
        "5: ModuleNotFoundError",
    ),
}
# What a page's author should mend, and what fails no build, since nothing that the page says is wrong.
LINT = {
    "a residue that covers more than rounding": (
        "<!-- block: residue=1e-9 -->\n```python\nprint(2e-16)\n```\n\n```output\n2e-16\n```",
        "5: residue=1e-09 is loose: the largest number that it covers is 2e-16",
    ),
    "a bound far from what it bounds": (
        "Below 1e-12<!-- > 5e-16 -->.",
        "3: 1e-12 stands here as a bound, and 5e-16 gives 5e-16: it is loose",
    ),
    "a figure that is too large": (
        PLOT.replace("[1]", "*__import__('numpy').random.default_rng(0).normal(size=(2, 20_000)), '.'")
        + "\n\n![Dots](figures/dots.svg)",
        "9: of 150,000; use imshow or fewer points, or say why",
    ),
    "a rounding error compared by its digit": (
        "```python\nprint(0.1 + 0.2 - 0.3)\n```\n\n```output\n5.551115123125783e-17\n```",
        "4: 5.551115123125783e-17 looks like this machine's rounding error",
    ),
}
GOOD = "# Book\n\n" + block("print(1 + 1)", output="2")
PYTEST = ("pytest", "-p", "galley.pytest_plugin", "-p", "no:cacheprovider", "docs")


def page(text: str) -> str:
    return f"{text}\n" if text.startswith("# ") else f"# Page\n\n{text}\n"


def problem_at(problems: list[str], expected: str) -> bool:
    """Whether one of the problems is at the line that is expected, and contains the message."""
    line, _, message = expected.partition(": ")
    return any(problem.startswith(f"{line}: ") and message in problem for problem in problems)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_its_line(project, fault):
    text, expected = FAULTS[fault]
    problems = project.check(page(text))
    assert problem_at(problems, expected), problems


@pytest.mark.parametrize("fault", LINT)
def test_lint_is_found_at_its_line_and_is_no_problem(project, fault):
    text, expected = LINT[fault]
    assert project.check(page(text)) == []
    lint = [f"{p.line}: {p.message}" for p in project.run()["page.md"].lint]
    assert problem_at(lint, expected), lint


@pytest.fixture
def faulty_book(project):
    """A book with a page for each fault, and a good page; and the place of each fault."""
    project.take_theme()
    project.page("index.md", GOOD)
    places = []
    for n, (text, expected) in enumerate(FAULTS.values()):
        project.page(f"fault{n}.md", page(text))
        places.append(f"docs/fault{n}.md:{expected.partition(': ')[0]}:")
    return project, places


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("mkdocs", "build", "--strict"), marks=pytest.mark.full),
        pytest.param(PYTEST, marks=pytest.mark.full),
        ("galley",),
    ],
    ids=" ".join,
)
def test_a_command_that_checks_fails_and_names_every_line(faulty_book, command):
    project, places = faulty_book
    status, output = project.command(*command)
    assert status == 1
    assert [place for place in places if place not in output] == []
    assert "docs/index.md:" not in output
    if command == PYTEST:
        assert f"{len(places)} failed, 1 passed" in output


@pytest.mark.full
def test_any_other_build_gives_a_site_that_names_each_fault_on_its_page(faulty_book):
    project, places = faulty_book
    status, output = project.command("mkdocs", "build")
    assert status == 0, output[-2000:]
    assert [place for place in places if place not in output] == []
    for place in places:
        html = project.root / "site" / place.removeprefix("docs/").partition(".md")[0] / "index.html"
        assert place in html.read_text(encoding="utf-8")
    assert "admonition" not in (project.root / "site/index.html").read_text(encoding="utf-8")


@pytest.mark.full
def test_a_strict_build_fails_however_quiet(project):
    project.page("index.md", "# Book\n\n```python\nassert False\n```\n")
    assert project.command("mkdocs", "build", "--strict", "--quiet")[0] != 0


def test_lint_fails_the_command_that_asks_for_it_and_no_other(project):
    project.page("index.md", "# Book\n\nBelow 1e-12<!-- > 5e-16 -->.\n")
    assert project.command("galley")[0] == 0
    status, output = project.command("galley", "--lint")
    assert status == 1
    assert "docs/index.md:3: 1e-12 stands here as a bound" in output


def test_a_page_without_fault_passes_everywhere(project):
    project.page("index.md", GOOD)
    for command in (("mkdocs", "build", "--strict"), PYTEST, ("galley",)):
        assert project.command(*command)[0] == 0
