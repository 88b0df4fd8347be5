"""A page that misbehaves fails alone, at its line, with a message that says what it did."""

import os
import subprocess
import sys
import time

import pytest

from galley.book import Book
from galley.store import ENGINE, load, save

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
    "starts processes without end": (
        "# Page\n\n```python\nimport subprocess\n\nwhile True:\n    _ = subprocess.Popen(['sleep', '60'])\n```\n",
        (7,),
        "PermissionError: a page must not start more than 100 processes",
    ),
    "forks without end": (
        "# Page\n\n```python\nimport os\n\nwhile True:\n    os.fork()\n```\n",
        (7,),
        "PermissionError: a page must not start more than 100 processes",
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
WRITES = {
    "open": "with open('{}', 'w') as file:\n    file.write('1')",
    "append": "with open('{}', 'a') as file:\n    file.write('1')",
    "open by number": "os.open('{}', os.O_WRONLY | os.O_CREAT)",
    "write_text": "Path('{}').write_text('1')",
    "mkdir": "os.mkdir('{}')",
    "torch.save": "torch.save(torch.ones(1), '{}')",
    "numpy.save": "np.save('{}', np.ones(1))",
    "rename": "there.write_text('1')\nthere.rename('{}')",
    "link": "there.write_text('1')\nos.link(there, '{}')",
    "symlink": "os.symlink(there, '{}')",
    "through a link": "os.symlink(Path.cwd(), there)\n(there / '{}').write_text('1')",
}
CHANGES = {
    "remove": "os.remove('docs/data.csv')",
    "rename": "os.rename('docs/data.csv', there)",
    "truncate": "os.truncate('docs/data.csv', 0)",
    "chmod": "os.chmod('docs/data.csv', 0o600)",
    "utime": "os.utime('docs/data.csv')",
    "remove a tree": "shutil.rmtree('docs')",
    "remove from within a folder": "os.remove('data.csv', dir_fd=os.open('docs', os.O_RDONLY))",
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


@pytest.mark.parametrize("way", WRITES)
def test_a_page_writes_into_its_scratch_folder_alone(project, way):
    block = "# Page\n\n```python\n{}{}\n```\n"
    [problem] = project.check(block.format(USES, WRITES[way].format("docs/new.npy")))
    assert "PermissionError: a page must not write to docs/new.npy; let it write into tempfile.gettempdir()" in problem
    assert not (project.docs / "new.npy").exists()
    assert project.check(block.format(USES + "os.chdir(tempfile.gettempdir())\n", WRITES[way].format("new.npy"))) == []


@pytest.mark.parametrize("way", CHANGES)
def test_a_page_changes_no_file_of_the_project(project, way):
    (project.docs / "data.csv").write_text("1")
    [problem] = project.check(f"# Page\n\n```python\n{USES}{CHANGES[way]}\n```\n")
    assert "PermissionError: a page must not write to docs" in problem
    assert (project.docs / "data.csv").read_text() == "1"


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


SLEEP = "['sleep', '{}']"
LEAVES = {
    "a child": "subprocess.Popen({})",
    "a session of its own": "subprocess.Popen({}, start_new_session=True)",
    "a grandchild of a session of its own": (
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.execvp('sleep', {})\n"
        "    os._exit(0)\nos.wait()"
    ),
    "a shell's": "os.system('setsid nohup ' + ' '.join({}) + ' >/dev/null 2>&1 &')",
}
ENDS = {"well": "", "by itself": "os._exit(3)", "by the clock": "time.sleep(60)", "in a crash": "ctypes.string_at(0)"}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets one process adopt another's")
@pytest.mark.parametrize("way", LEAVES)
def test_what_a_page_starts_ends_with_it(project, way):
    sleep = SLEEP.format(f"600.{os.getpid()}{len(way)}")
    for n, end in enumerate(ENDS.values()):
        lines = f"import ctypes\nimport os\nimport subprocess\nimport time\n\n{LEAVES[way].format(sleep)}\n{end}"
        lines = lines.replace("subprocess.Popen", "warn = subprocess.Popen")
        project.page(f"page{n}.md", f"# Page\n\n<!-- block: limit=0.5 -->\n```python\n{lines}\n```\n")
    results = project.run()
    assert [bool(result.problems) for result in results.values()] == [False, True, True, True]
    assert _commands(f"600.{os.getpid()}{len(way)}") == []


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


def test_pages_end_with_a_build_that_is_killed(project):
    sleep = f"600.{os.getpid()}99"
    code = f"import subprocess\n\nsubprocess.run(['sleep', '{sleep}'], start_new_session=True)"
    project.page("page.md", f"# Page\n\n<!-- block: limit=600 -->\n```python\n{code}\n```\n")
    with subprocess.Popen([sys.executable, "-m", "galley"], cwd=project.root) as build:
        _wait(lambda: _commands(sleep))
        build.kill()
    _wait(lambda: not _commands(sleep))


def _commands(part):
    """Return the processes with this in their command."""
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.split("\n")
    return [line for line in found if line.startswith("sleep") and part in line]


def _wait(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_long_output_of_many_bytes_is_kept_whole(project):
    project.page("page.md", "# Page\n\n```python\nprint('\u20ac' * 400_000)\n```\n")
    assert project.run()["page.md"].steps[0]["stdout"] == "\u20ac" * 400_000 + "\n"


def test_of_the_engine_only_what_counts_for_every_page_is_loaded_before_a_page(project):
    code = "import sys\n\nprint(*(name[7:] for name in sys.modules if name.startswith('galley.')))"
    project.page("page.md", f"# Page\n\n```python\n{code}\n```\n")
    loaded = {f"{name}.py" for name in project.run()["page.md"].steps[0]["stdout"].split()}
    assert loaded - {path.name for path in ENGINE} <= {"needs.py", "keeper.py", "limits.py"}


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
