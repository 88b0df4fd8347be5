"""A page that misbehaves fails alone, at its line, with a message that says what it did."""

import os

import pytest

from galley.book import Book
from galley.run.result_cache import RUNNING_CODE, load, save

MISBEHAVIOURS = {
    "hangs": (
        "# Page\n\n<!-- block: limit=1 -->\n```python\nx = 0\nwhile True:\n    x += 1\n```\n",
        (6, 7),
        "still running after 1 s of processor time | no end after 10 s",
    ),
    "hangs in C": (
        "# Page\n\n<!-- block: limit=1 -->\n```python\nimport re\n\nre.match('(a+)+b', 'a' * 60)\n```\n",
        (7,),
        "still running after 1 s of processor time | no end after 10 s",
    ),
    "waits for ever": (
        "# Page\n\n<!-- block: limit=0.2 -->\n```python\nimport time\n\ntime.sleep(60)\n```\n",
        (7,),
        "no end after 2 s; it waits for something that does not come",
    ),
    "leaves": (
        "# Page\n\n```python\nimport os\n\nos._exit(3)\n```\n",
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
    "fills a list": (
        "# Page\n\n```python\nx = []\nwhile True:\n    x.append(bytes(10**7))\n```\n",
        (6,),
        "MemoryError\na page has 1 GiB of memory; let it need less, or raise memory in [tool.galley]",
    ),
    "fills an array": (
        "# Page\n\n```python\nimport numpy as np\n\nprint(np.ones(10**9).sum())\n```\n",
        (6,),
        "a page has 1 GiB of memory",
    ),
    "fills a tensor": (
        "# Page\n\n```python\nimport torch\n\nprint(torch.ones(10**9).sum())\n```\n",
        (6,),
        "a page has 1 GiB of memory",
    ),
    "recurses without end": (
        "# Page\n\n```python\ndef f():\n    return f()\n\n\nf()\n```\n",
        (8,),
        "RecursionError",
    ),
}
USES = "import os\nimport shutil\nimport tempfile\nfrom pathlib import Path\n\nimport numpy as np\nimport torch\n\n"
USES += "there = Path(tempfile.gettempdir(), 'there')\n"
GOOD = "# Good\n\n```python\nprint(1 + 1)\n```\n\n```output\n2\n```\n"


@pytest.mark.parametrize("misbehaviour", MISBEHAVIOURS)
def test_a_page_that_misbehaves_fails_alone(project, misbehaviour):
    text, lines, message = MISBEHAVIOURS[misbehaviour]
    project.page("bad.md", text)
    project.page("good.md", GOOD)
    results = project.run()
    [problem] = results["bad.md"].problems
    assert any(part in problem.message for part in message.split(" | "))  # a busy machine may be late
    assert problem.line in lines
    assert results["good.md"].problems == []


def test_a_page_may_use_temporary_files_and_folders_which_end_with_it(project):
    code = (
        "with tempfile.TemporaryDirectory() as folder:\n    (Path(folder) / 'docs').mkdir()\n"
        "    (Path(folder) / 'docs/a').write_text('1')\n"
        "with tempfile.NamedTemporaryFile() as file:\n    file.write(b'1')\n"
        "with open(os.devnull, 'w') as nowhere:\n    print('1', file=nowhere)\n"
        "tempfile.mkdtemp()\nprint(tempfile.gettempdir() == os.environ['TMPDIR'], tempfile.gettempdir())"
    )
    project.page("page.md", f"# Page\n\n```python\n{USES}{code}\n```\n")
    same, folder = project.run()["page.md"].steps[0]["stdout"].split()
    assert same == "True"
    assert not os.path.exists(folder)


def test_a_page_imports_what_was_never_compiled(project):
    code = "import sys\n\nsys.dont_write_bytecode = False\nsys.path.insert(0, '.')\nimport library.code"
    assert project.check(f"# Page\n\n```python\n{code}\n```\n") == []
    assert list(project.root.glob("library/__pycache__/code.*.pyc"))


def test_a_child_that_a_page_forks_ends_with_its_block(project):
    code = "import os\n\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\nprint('parent' if child else 'child')"
    project.page(
        "page.md", f"# Page\n\n```python\n{code}\n```\n\n```output\nchild\nparent\n```\n\n```python\nx = 1\n```\n"
    )
    assert project.run()["page.md"].problems == []


def test_time_on_a_busy_machine_is_no_time_of_the_page(project):
    project.page("page.md", "# Page\n\n<!-- block: limit=1 -->\n```python\nimport time\n\ntime.sleep(1.5)\n```\n")
    assert not any(result.report for result in project.run().values())


def test_a_library_may_warn_of_the_machine_that_it_meets(project):
    warn = 'warnings.warn_explicit("an old Python", RuntimeWarning, "/lib/torch/guards.py", 7)'
    project.page("page.md", f"# Page\n\n```python\nimport warnings\n\n{warn}\n```\n")
    project.page("number.md", f"# Page\n\n```python\nimport warnings\n```\n\nIt is 1<!-- = {warn} or 1 -->.\n")
    assert not any(result.report for result in project.run().values())


@pytest.mark.parametrize(
    ("code", "shown", "right"),
    [
        ("[][1]", "IndexError: in other words", True),
        ("[][1]", "KeyError: in other words", False),
        ("raise IndexError('too far')", "IndexError: too far", True),
        ("raise IndexError('too far')", "IndexError: in other words", False),
        ("print('first')\n[][1]", "second\nIndexError: in other words", False),
        ("from library.code import refuse\n\nrefuse()", "IndexError: in other words", False),
    ],
)
def test_of_an_error_that_a_library_words_the_name_is_compared(project, code, shown, right):
    library = project.root / "library" / "code.py"
    library.write_text(library.read_text() + "\n\ndef refuse():\n    raise IndexError('too far')\n")
    page = f"# Page\n\n<!-- block: raises=IndexError -->\n```python\n{code}\n```\n\n```output\n{shown}\n```\n"
    assert (project.check(page) == []) is right


def test_a_long_output_of_many_bytes_is_kept_whole(project):
    project.page("page.md", "# Page\n\n```python\nprint('\u20ac' * 400_000)\n```\n")
    assert project.run()["page.md"].steps[0]["stdout"] == "\u20ac" * 400_000 + "\n"


def test_of_the_engine_only_what_counts_for_every_page_is_loaded_before_a_page(project):
    code = "import sys\n\nprint(*(name[7:] for name in sys.modules if name.startswith('galley.')))"
    project.page("page.md", f"# Page\n\n```python\n{code}\n```\n")
    modules = {name for name in project.run()["page.md"].steps[0]["stdout"].split() if "." in name}
    loaded = {f"{name.rpartition('.')[2]}.py" for name in modules}
    assert loaded - {path.name for path in RUNNING_CODE} <= {"dependencies.py", "limits.py"}


def test_new_pages_run_first_and_then_those_that_took_longest(project):
    for n in range(3):
        project.page(f"page{n}.md", GOOD)
    project.run(jobs=1)
    project.page("new.md", GOOD)
    names = []
    book = Book(project.root, use_cache=False, jobs=1)
    times = load(book.folder / "times.json")
    assert sorted(times) == [f"docs/page{n}.md" for n in range(3)]
    save(book.folder / "times.json", times | {"docs/page2.md": 9.0, "docs/page0.md": 3.0, "docs/page1.md": 6.0})
    book.run(book.pages(), lambda result: names.append(result.name))
    assert names == ["docs/new.md", "docs/page2.md", "docs/page1.md", "docs/page0.md"]


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
