"""A page that misbehaves fails alone, at its line, with a message that says what it did."""

import pytest

MISBEHAVIOURS = {
    "hangs": (
        "# Page\n\n<!-- block: limit=1 -->\n```python\nx = 0\nwhile True:\n    x += 1\n```\n",
        (6, 7),
        "still running after 1 s",
    ),
    "hangs in C": (
        "# Page\n\n<!-- block: limit=1 -->\n```python\nimport time\n\ntime.sleep(60)\n```\n",
        (7,),
        "still running after 1 s",
    ),
    "leaves": (
        "# Page\n\n```python\nimport os\n\nos._exit(3)\n```\n",
        (4,),
        "the page ended its own process (exit code 3)",
    ),
    "leaves a child behind": (
        "# Page\n\n```python\nimport os\nimport time\n\nif os.fork() == 0:\n    time.sleep(600)\nos._exit(3)\n```\n",
        (4,),
        "the page ended its own process (exit code 3)",
    ),
    "crashes": (
        "# Page\n\n```python\nimport ctypes\n\nctypes.string_at(0)\n```\n",
        (6,),
        "the interpreter crashed: Segmentation fault",
    ),
    "exits": (
        "# Page\n\n```python\nimport sys\n\nsys.exit(0)\n```\n",
        (6,),
        "a page must not end the interpreter",
    ),
    "floods": (
        '# Page\n\n```python\nfor _ in range(10**6):\n    print("x" * 100)\n```\n',
        (5,),
        "the block prints more than 1,000,000 characters",
    ),
    "floods past sys.stdout": (
        '# Page\n\n```python\nimport os\n\nfor _ in range(1000):\n    os.write(1, b"x" * 100_000)\n```\n',
        (4,),
        "the block prints more than 1,000,000 characters",
    ),
    "calls out": (
        '# Page\n\n```python\nimport urllib.request\n\nurllib.request.urlopen("http://127.0.0.1:9/")\n```\n',
        (6,),
        "a page has no network",
    ),
    "recurses without end": (
        "# Page\n\n```python\ndef f():\n    return f()\n\n\nf()\n```\n",
        (8,),
        "RecursionError",
    ),
}
GOOD = "# Good\n\n```python\nprint(1 + 1)\n```\n\n```output\n2\n```\n"


@pytest.mark.parametrize("misbehaviour", MISBEHAVIOURS)
def test_a_page_that_misbehaves_fails_alone(project, misbehaviour):
    text, lines, message = MISBEHAVIOURS[misbehaviour]
    project.page("bad.md", text)
    project.page("good.md", GOOD)
    results = project.run()
    [problem] = results["bad.md"].problems
    assert message in problem.message
    assert problem.line in lines
    assert results["good.md"].problems == []


def test_a_child_that_a_page_forks_ends_with_its_block(project):
    code = "import os\n\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\nprint('parent' if child else 'child')"
    project.page("page.md", f"# Page\n\n```python\n{code}\n```\n\n```output\nparent\n```\n\n```python\nx = 1\n```\n")
    assert project.run()["page.md"].problems == []


def test_pages_share_nothing(project):
    project.page("first.md", "# First\n\n```python\nimport math\n\nmath.secret = 1\nsecret = 2\n```\n")
    project.page(
        "second.md",
        "# Second\n\n```python\nimport math\n\nprint(hasattr(math, 'secret'), 'secret' in globals())\n```\n",
    )
    assert project.run(jobs=1)["second.md"].steps[0]["stdout"] == "False False\n"


def test_blocks_of_a_page_share_a_namespace(project):
    text = "# Page\n\n```python\nx = 41\n```\n\n```python\nprint(x + 1)\n```\n\n```output\n42\n```\n"
    assert project.check(text) == []


def test_seeds_threads_and_hashes_are_pinned(project):
    text = (
        "# Page\n\n```python\nimport random\n\nimport numpy as np\nimport torch\n\n"
        "print(random.random(), np.random.rand(), torch.rand(1).item(), hash('a'), torch.get_num_threads())\n```\n"
    )
    project.page("page.md", text)
    first = project.run(use_cache=False)["page.md"].steps[0]["stdout"]
    second = project.run(use_cache=False)["page.md"].steps[0]["stdout"]
    assert first == second
    assert first.endswith(" 1\n")


def test_figures_of_one_page_do_not_style_another(project):
    draw = "import matplotlib.pyplot as plt\n\nplt.plot([1, 2])\n```\n\n![A line](figures/{}.svg)\n"
    project.page("a.md", "# A\n\n```python\n" + draw.format("a"))
    project.page(
        "b.md",
        "# B\n\n```python\n" + draw.format("b").replace("\n\nplt", "\n\nplt.rcParams['lines.linewidth'] = 9\nplt"),
    )
    alone = project.run(jobs=1, use_cache=False)["a.md"].steps[0]["figures"]
    (project.docs / "b.md").unlink()
    assert project.run(use_cache=False)["a.md"].steps[0]["figures"] == alone
