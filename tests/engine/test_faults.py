"""Each fault a page can have is found, at its line; strict builds and pytest both fail on it."""

import os
import subprocess
import sys

import pytest

FAULTS = {
    "a failing block": (
        "# Page\n\n```python\nx = 1\n\ny = x / 0\n```\n",
        6,
        "ZeroDivisionError: division by zero",
    ),
    "a name error inside a function": (
        "# Page\n\n```python\ndef f():\n    return missing\n\n\nf()\n```\n",
        8,
        "NameError: name 'missing' is not defined",
    ),
    "a block that does not parse": (
        "# Page\n\n```python\nx = (1,\n```\n",
        4,
        "SyntaxError: '(' was never closed",
    ),
    "a wrong output": (
        "# Page\n\n```python\nprint(2.5)\n```\n\n```output\n2.6\n```\n",
        8,
        "output differs",
    ),
    "a missing output": (
        "# Page\n\n```python\nprint('seen')\n```\n",
        6,
        "output differs",
    ),
    "an output of a block that prints nothing": (
        "# Page\n\n```python\nx = 1\n```\n\n```output\n1\n```\n",
        8,
        "output differs",
    ),
    "a wrong cell in a computed table": (
        '# Page\n\n```python\nprint("| a |\\n| - |\\n| 2.5 |")\n```\n\n<!-- output -->\n\n| a |\n| - |\n| 2.7 |\n\n'
        "<!-- /output -->\n",
        8,
        "output differs",
    ),
    "an output to be built of a block that prints nothing": (
        "# Page\n\n```python\nx = 1\n```\n\n<!-- output: built -->\n\n*Rows.*\n\n<!-- /output -->\n",
        8,
        "output differs",
    ),
    "a number that no longer holds": (
        "# Page\n\nThere are 47,118<!-- = n --> of them.\n\n```python\nn = 47_117.24\n```\n",
        3,
        "47,118 stands here; n gives 47117.24",
    ),
    "a bound that no longer holds": (
        "# Page\n\n```python\nerror = 1e-3\n```\n\nThe error is below 1e-6<!-- > error -->.\n",
        7,
        "1e-6 stands here, and should be > it",
    ),
    "a number whose expression fails": (
        "# Page\n\n```python\nn = 1\n```\n\nSome 12<!-- = m --> of them.\n",
        7,
        "m raises NameError",
    ),
    "an unbound number": (
        "# Page\n\nIt takes 17.3 steps.\n",
        3,
        "no code stands behind 17.3",
    ),
    "an unbound decimal in a formula": (
        "# Page\n\nThe angle is $a = 0.25$ here.\n",
        3,
        "no code stands behind 0.25",
    ),
    "a number that takes the value from above its block": (
        "# Page\n\n```python\nn = 7\n```\n\nNow there are 7<!-- = n -->.\n\n```python\nn = 23\n```\n",
        7,
        "n could have two values here, one of them from the block at line 10",
    ),
    "a number that could wait for either of two blocks": (
        "# Page\n\nThere will be 23<!-- = n -->.\n\n```python\nn = 7\n```\n\n```python\nn = 23\n```\n",
        3,
        "n could have two values here",
    ),
    "code under a caption without a blank line": (
        "# Page\n\n```python\nimport matplotlib.pyplot as plt\n\nplt.plot([1])\n```\n"
        "![A dot](figures/a.svg)\n```python\nassert False\n```\n",
        10,
        "AssertionError",
    ),
    "a number in a figure's words that stands nowhere": (
        "# Page\n\n```python\nimport matplotlib.pyplot as plt\n\nplt.plot([1])\n```\n\n![To 17.3](figures/a.svg)\n",
        9,
        "17.3 in figures/a.svg's words stands neither in its block nor in the figure or its caption",
    ),
    "a number in a figure's words that stands elsewhere on the page": (
        "# Page\n\nIt is 17.3<!-- given -->.\n\n```python\nimport matplotlib.pyplot as plt\n\nplt.plot([1])\n```\n\n"
        "![To 17.3](figures/a.svg)\n",
        11,
        "17.3 in figures/a.svg's words stands neither in its block",
    ),
    "a tolerance that hides a wrong count": (
        "# Page\n\n<!-- block: atol=2 -->\n```python\nprint('18 back')\n```\n\n```output\n20 back\n```\n",
        9,
        "output differs",
    ),
    "a rounding error a million times larger": (
        "# Page\n\n<!-- block: residue=1e-15 -->\n```python\nprint(f'{9.1e-10:.1e}', 2e-16)\n```\n\n"
        "```output\n2.2e-16 2e-16\n```\n",
        9,
        "output differs",
    ),
    "a tolerance that lets every number change": (
        "# Page\n\n<!-- block: rtol=0.9 -->\n```python\nprint(1.5)\n```\n\n```output\n1.5\n```\n",
        3,
        "rtol must be at most 0.2, got 0.9",
    ),
    "a word that a result no longer bears out": (
        "# Page\n\nThe loss rises<!-- = slope > 0 and 'rises' -->.\n\n```python\nslope = -1\n```\n",
        3,
        "rises stands here; slope > 0 and 'rises' gives False",
    ),
    "an inverted word whose comparison still holds": (
        "# Page\n\nThe loss falls<!-- = slope > 0 and 'rises' -->.\n\n```python\nslope = 1\n```\n",
        3,
        "falls stands here; slope > 0 and 'rises' gives rises",
    ),
    "a word that any true comparison would bear": (
        "# Page\n\nThe loss falls<!-- = slope > 0 -->.\n\n```python\nslope = 1\n```\n",
        3,
        "slope > 0 would bear any word; name it: <!-- = slope > 0 and 'falls' -->",
    ),
    "a verdict in a caption that nothing decides": (
        "# Page\n\n```python\nimport matplotlib.pyplot as plt\n\nplt.plot([1])\n```\n\n"
        "![A line](figures/a.svg)\n*The line rises.*\n",
        10,
        "no comparison stands behind 'rises' in this caption",
    ),
    "a work under another year": (
        "# Page\n\nSee [One et al. (2019)](reference/bibliography.md#someone2020).\n",
        3,
        "[One et al. (2019)] leads to someone2020, which is by One, 2020",
    ),
    "a work under another author": (
        "# Page\n\nSee [Two, 2020](reference/bibliography.md#someone2020).\n",
        3,
        "[Two, 2020] leads to someone2020, which is by One, 2020",
    ),
    "a chapter under another number": (
        "# 1.1 Page\n\nSee [chapter 1.2](page.md).\n",
        3,
        "[chapter 1.2] leads to page.md, which is 1.1",
    ),
    "code in a comment": (
        "# Page\n\n<!-- An old version:\n\n```python\nn = 7\n```\n-->\n\nIt is 7<!-- = n --> now.\n",
        10,
        "n raises NameError",
    ),
    "a comment without an end": ("# Page\n\n<!-- An old version:\n\nText.\n", 3, "this comment is never closed"),
    "two figures of one name": (
        "# Page\n\n"
        + 2 * "```python\nimport matplotlib.pyplot as plt\n\nplt.plot([1])\n```\n\n![A line](figures/a.svg)\n\n",
        17,
        "figures/a.svg is the name of another figure too",
    ),
    "a tolerance that a session does not have": (
        "# Page\n\n<!-- block: rtol=0.1 -->\n```pycon\n>>> 1.5\n1.5\n```\n",
        5,
        "rtol= does nothing in a pycon block",
    ),
    "a figure that is no SVG": (
        "# Page\n\n```python\nimport matplotlib.pyplot as plt\n\nplt.plot([1])\n```\n\n![A line](figures/a.png)\n",
        9,
        "a drawn figure is an SVG: write figures/a.svg",
    ),
    "a bracket in a figure's words": (
        "# Page\n\n```python\nimport matplotlib.pyplot as plt\n\nplt.plot([1])\n```\n\n![In [0, 1]](figures/a.svg)\n",
        9,
        "a figure's words cannot hold brackets",
    ),
    "a fence that would be shown and never run": ("# Page\n\n```py\nassert False\n```\n", 3, "shown and never run"),
    "a fence closed by too many ticks": (
        "# Page\n\n```python\nx = 1\n````\n\nText.\n",
        3,
        "this fence is never closed",
    ),
    "an indented fence after a tab": ("# Page\n\n\t```python\n\tassert False\n\t```\n", 3, "put it at the margin"),
    "an unbound negative number": ("# Page\n\nIt is −17.3 here.\n", 3, "no code stands behind −17.3"),
    "an unbound number with its unit": ("# Page\n\nIt takes 17ms here.\n", 3, "no code stands behind 17ms"),
    "an unbound count that looks like a year": ("# Page\n\nA text of 2000 tokens.\n", 3, "no code stands behind 2000"),
    "an unbound number in a footnote": (
        "# Page\n\nSee[^1].\n\n[^1]: It takes 4711 steps.\n",
        5,
        "no code stands behind 4711",
    ),
    "a number between stray backticks": (
        "# Page\n\nA stray ` here.\n\nIt is 12<!-- = 11 --> now.\n\nAnother ` there.\n",
        5,
        "12 stands here; 11 gives 11",
    ),
    "a binding that cannot be read": ("# Page\n\nIt is 7<!-- 7 --> here.\n", 3, "cannot read this binding"),
    "an output that nothing compares": (
        "# Page\n\n```pycon\n>>> 1\n1\n```\n\n```output\n999\n```\n",
        4,
        "nothing compares the output under this block",
    ),
    "an output table without a block": (
        "# Page\n\nText.\n\n<!-- output -->\n\n| 7 |\n|---|\n\n<!-- /output -->\n",
        5,
        "an output must stand right under the block",
    ),
    "a session without a prompt": ("# Page\n\n```pycon\n1 + 1\n```\n", 4, "without a >>> prompt runs nothing"),
    "a formula in the wrong marks": ("# Page\n\nSo \\(x\\) it is.\n", 3, "write a formula between $ or $$"),
    "a raw link": ('# Page\n\nSee <a href="nowhere/">this</a>.\n', 3, "link to nowhere/ in Markdown, which is checked"),
    "a tolerance that is no number": (
        "# Page\n\n<!-- block: rtol=loose -->\n```python\nprint(1)\n```\n\n```output\n1\n```\n",
        3,
        "rtol must be a positive number, got 'loose'",
    ),
    "a flag with a value": ("# Page\n\n<!-- block: skip=false -->\n```python\nx = 1\n```\n", 3, "skip takes no value"),
    "a quotation the bibliography does not hold": (
        "# Page\n\nThey report 94.83<!-- cite: someone2020, table 1 --> percent.\n",
        3,
        "94.83 is not among the numbers that references.bib quotes from someone2020, table 1",
    ),
    "a quotation of an unknown work": (
        "# Page\n\nThey report 94.82<!-- cite: nobody2020, table 1 --> percent.\n",
        3,
        "there is no 'nobody2020'",
    ),
    "a figure without alternative text": (
        "# Page\n\n```python\nimport matplotlib.pyplot as plt\n\nplt.plot([1, 2])\n```\n\n![](figures/line.svg)\n",
        9,
        "figures/line.svg has no alternative text",
    ),
    "a figure that no block draws": (
        "# Page\n\n```python\nx = 1\n```\n\n![A line](figures/line.svg)\n",
        4,
        "draws 0 figure(s), and 1 image line(s)",
    ),
    "a drawn figure without its image line": (
        "# Page\n\n```python\nimport matplotlib.pyplot as plt\n\nplt.plot([1, 2])\n```\n",
        4,
        "draws 1 figure(s), and 0 image line(s)",
    ),
    "an unclosed fence": (
        "# Page\n\nSome text.\n\n```python\nx = 1\n",
        5,
        "this fence is never closed",
    ),
    "an unclosed output": (
        "# Page\n\n```python\nprint(1)\n```\n\n<!-- output -->\n\n1\n",
        7,
        "this output is never closed",
    ),
    "an output without a block": (
        "# Page\n\nSome text.\n\n```output\n1\n```\n",
        5,
        "an output must stand right under the block that prints it",
    ),
    "options above no block": (
        "# Page\n\n<!-- block: rtol=1e-2 -->\nSome text.\n",
        3,
        "block options must stand directly above a python fence",
    ),
    "an unknown option": (
        "# Page\n\n<!-- block: tolerance=1 -->\n```python\nx = 1\n```\n",
        3,
        "unknown block option 'tolerance'",
    ),
    "an option behind a fence": (
        "# Page\n\n```python fold\nx = 1\n```\n",
        3,
        "'fold' behind python says nothing; options stand in a comment above it: <!-- block: fold -->",
    ),
    "a fence inside a quote": (
        "# Page\n\n> ```python\n> x = 1\n> ```\n",
        3,
        "a fence inside a quote does not run",
    ),
    "a link to no file": (
        "# Page\n\nSee [that](missing.md).\n",
        3,
        "link to nowhere: missing.md",
    ),
    "a link to a view of no file": (
        "# Page\n\nSee [that](missing.md?length=8).\n",
        3,
        "link to nowhere: missing.md?length=8",
    ),
    "a link to a view with no anchor": (
        "# Page\n\nSee [this](page.md?length=8#no-section).\n",
        3,
        "link to nowhere: page.md has no #no-section",
    ),
    "a link to no anchor": (
        "# Page\n\n## A section\n\nSee [here](#a-section) and [there](#no-section).\n",
        5,
        "link to nowhere: this page has no #no-section",
    ),
    "a formula in a heading": (
        "# Page\n\n## At $d = 4$\n",
        3,
        "a heading cannot hold a formula",
    ),
    "a wrong formula": (
        "# Page\n\nSome text.\n\n$$\n\\frac{1\n$$\n",
        5,
        "KaTeX parse error",
    ),
    "a wrong formula in a sentence": (
        "# Page\n\nThe frequency $\\thetta_i$ is wrong.\n",
        3,
        "Undefined control sequence: \\thetta",
    ),
    "a lone dollar sign": (
        "# Page\n\nThe frequency $x is wrong.\n",
        3,
        "a lone $",
    ),
    "a block that raises nothing": (
        "# Page\n\n<!-- block: raises=ValueError -->\n```python\nx = 1\n```\n",
        5,
        "the block should raise ValueError; it raises nothing",
    ),
    "a block that raises something else": (
        "# Page\n\n<!-- block: raises=ValueError -->\n```python\n1 / 0\n```\n",
        5,
        "ZeroDivisionError",
    ),
    "a failing session": (
        "# Page\n\n```pycon\n>>> 1 + 1\n3\n```\n",
        4,
        "Expected:\n    3\nGot:\n    2",
    ),
    "a warning": (
        '# Page\n\n```python\nimport warnings\n\nwarnings.warn("old", stacklevel=1)\n```\n',
        4,
        "the block warns: UserWarning: old",
    ),
    "a quoted source that has changed": (
        "# Page\n\n<!-- block: source=library/code.py:double -->\n```python\ndef double(x):\n    return x + x\n```\n",
        5,
        "reads otherwise now",
    ),
    "a quoted source that is gone": (
        "# Page\n\n<!-- block: source=library/code.py:treble -->\n```python\n```\n",
        5,
        "there is no treble in library/code.py",
    ),
    "a snippet that needs the package": (
        "# Page\n\n<!-- block: standalone -->\n```python\nimport posenc\n```\n",
        5,
        "ModuleNotFoundError",
    ),
    "a snippet that needs the readers' package": (
        "# Page\n\n<!-- block: standalone -->\n```python\nimport posenc_book\n```\n",
        5,
        "ModuleNotFoundError",
    ),
}


# What a page's author should mend, and what fails no build, since nothing that the page says is wrong.
LINT = {
    "a residue that covers more than rounding": (
        "# Page\n\n<!-- block: residue=1e-9 -->\n```python\nprint(2e-16)\n```\n\n```output\n2e-16\n```\n",
        5,
        "residue=1e-09 is loose: the largest number that it covers is 2e-16",
    ),
    "a bound far from what it bounds": (
        "# Page\n\nBelow 1e-12<!-- > 5e-16 -->.\n",
        3,
        "1e-12 stands here as a bound, and 5e-16 gives 5e-16: it is loose",
    ),
    "a figure that is too large": (
        "# Page\n\n```python\nimport matplotlib.pyplot as plt\nimport numpy as np\n\n"
        "plt.scatter(*np.random.default_rng(0).normal(size=(2, 20_000)))\n```\n\n![Dots](figures/dots.svg)\n",
        10,
        "of 150,000; use imshow or fewer points, or say why",
    ),
    "a rounding error compared by its digit": (
        "# Page\n\n```python\nprint(0.1 + 0.2 - 0.3)\n```\n\n```output\n5.551115123125783e-17\n```\n",
        4,
        "5.551115123125783e-17 looks like this machine's rounding error",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_its_line(project, fault):
    text, line, message = FAULTS[fault]
    problems = project.check(text)
    assert [p for p in problems if p.startswith(f"{line}: ") and message in p], problems


@pytest.mark.parametrize("fault", LINT)
def test_lint_is_found_at_its_line_and_is_no_problem(project, fault):
    text, line, message = LINT[fault]
    assert project.check(text) == []
    found = [f"{p.line}: {p.message}" for p in project.run()["page.md"].lint]
    assert [p for p in found if p.startswith(f"{line}: ") and message in p], found


@pytest.fixture
def faulty_site(project):
    """A site with a page for each fault, and a good page."""
    project.take_theme()
    project.page("index.md", "# Book\n\n```python\nprint(1 + 1)\n```\n\n```output\n2\n```\n")
    expected = {}
    for n, (text, line, _) in enumerate(FAULTS.values()):
        project.page(f"fault{n}.md", text)
        expected[f"docs/fault{n}.md:{line}:"] = text
    return project.root, expected


def _command(root, *command):
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.full
def test_a_strict_build_fails_and_names_every_line(faulty_site):
    root, expected = faulty_site
    status, output = _command(root, "mkdocs", "build", "--strict")
    assert status != 0
    assert [place for place in expected if place not in output] == []
    assert "docs/index.md" not in output.replace("ran docs/index.md", "")


@pytest.mark.full
def test_any_other_build_gives_a_site_that_names_each_fault_on_its_page(faulty_site):
    root, expected = faulty_site
    status, output = _command(root, "mkdocs", "build")
    assert status == 0, output[-2000:]
    assert [place for place in expected if place not in output] == []
    for place in expected:
        page = root / "site" / place.removeprefix("docs/").partition(".md")[0] / "index.html"
        assert place in page.read_text(encoding="utf-8")
    assert "admonition" not in (root / "site/index.html").read_text(encoding="utf-8")


@pytest.mark.full
def test_a_strict_build_fails_however_quiet(project):
    project.page("index.md", "# Book\n\n```python\nassert False\n```\n")
    assert _command(project.root, "mkdocs", "build", "--strict", "--quiet")[0] != 0


@pytest.mark.full
def test_pytest_fails_and_names_every_line(faulty_site):
    root, expected = faulty_site
    status, output = _command(root, "pytest", "-p", "galley.pytest_plugin", "-p", "no:cacheprovider", "docs")
    assert status == 1
    assert [place for place in expected if place not in output] == []
    assert f"{len(expected)} failed, 1 passed" in output


def test_the_command_line_fails_and_names_every_line(faulty_site):
    root, expected = faulty_site
    status, output = _command(root, "galley")
    assert status == 1
    assert [place for place in expected if place not in output] == []


def test_lint_fails_the_command_that_asks_for_it_and_no_other(project):
    project.page("index.md", "# Book\n\nBelow 1e-12<!-- > 5e-16 -->.\n")
    assert _command(project.root, "galley")[0] == 0
    status, output = _command(project.root, "galley", "--lint")
    assert status == 1
    assert "docs/index.md:3: 1e-12 stands here as a bound" in output


def test_a_page_without_fault_passes_everywhere(project):
    project.page("index.md", "# Book\n\n```python\nprint(1 + 1)\n```\n\n```output\n2\n```\n")
    assert _command(project.root, "mkdocs", "build", "--strict")[0] == 0
    assert _command(project.root, "pytest", "-p", "galley.pytest_plugin", "-p", "no:cacheprovider", "docs")[0] == 0
    assert _command(project.root, "galley")[0] == 0
