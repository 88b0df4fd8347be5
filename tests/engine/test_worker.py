"""A page that misbehaves fails alone, at its line, with a message that says what it did."""

import os

import pytest

from galley.book import Book
from galley.run.result_cache import RUNNING_CODE, load, save
from tests.engine.conftest import block

TIME = "still running after 1 s of processor time | no end after 10 s"
FLOOD = "the block prints more than 1,000,000 characters"
MEMORY = "a page has 1 GiB of memory; let it need less, or raise memory in [tool.galley]"
MISBEHAVIOURS = {  # the options of a block, its code, the lines at which it fails, and what is said of it
    "hangs": ("limit=1", "x = 0\nwhile True:\n    x += 1", (6, 7), TIME),
    "hangs in C": ("limit=1", "import re\n\nre.match('(a+)+b', 'a' * 60)", (7,), TIME),
    "waits for ever": (
        "limit=0.2",
        "import time\n\ntime.sleep(60)",
        (7,),
        "no end after 2 s; it waits for something that does not come",
    ),
    "leaves": ("", "import os\n\nos._exit(3)", (4,), "the page ended its own process (exit code 3)"),
    "crashes": ("", "import ctypes\n\nctypes.string_at(0)", (6,), "the interpreter crashed: Segmentation fault"),
    "exits": ("", "import sys\n\nsys.exit(0)", (6,), "a page must not end the interpreter"),
    "floods": ("", 'for _ in range(10**6):\n    print("x" * 100)', (5,), FLOOD),
    "floods past sys.stdout": (
        "",
        'import os\n\nfor _ in range(1000):\n    os.write(1, b"x" * 100_000)',
        (4,),
        FLOOD,
    ),
    "fills a list": ("", "x = []\nwhile True:\n    x.append(bytes(10**7))", (6,), f"MemoryError\n{MEMORY}"),
    "fills an array": ("", "import numpy as np\n\nprint(np.ones(10**9).sum())", (6,), MEMORY),
    "fills a tensor": ("", "import torch\n\nprint(torch.ones(10**9).sum())", (6,), MEMORY),
    "recurses without end": ("", "def f():\n    return f()\n\n\nf()", (8,), "RecursionError"),
}
GOOD = "# Good\n\n" + block("print(1 + 1)", output="2")
TEMPORARY = """\
import os
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / 'docs').mkdir()
    (Path(folder) / 'docs/a').write_text('1')
with tempfile.NamedTemporaryFile() as file:
    file.write(b'1')
with open(os.devnull, 'w') as nowhere:
    print('1', file=nowhere)
tempfile.mkdtemp()
print(tempfile.gettempdir() == os.environ['TMPDIR'], tempfile.gettempdir())
"""
RANDOM = """\
import random

import numpy as np
import torch

print(random.random(), np.random.rand(), torch.rand(1).item(), hash('a'), torch.get_num_threads())
"""


def printed(project, code):
    """Return what a page of one block prints."""
    return project.run_page("# Page\n\n" + block(code)).steps[0]["stdout"]


@pytest.mark.parametrize("misbehaviour", MISBEHAVIOURS)
def test_a_page_that_misbehaves_fails_alone(project, misbehaviour):
    options, code, lines, message = MISBEHAVIOURS[misbehaviour]
    project.page("bad.md", "# Page\n\n" + block(code, options))
    project.page("good.md", GOOD)
    results = project.run()
    [problem] = results["bad.md"].problems
    assert any(part in problem.message for part in message.split(" | "))  # a busy machine may be late
    assert problem.line in lines
    assert results["good.md"].problems == []


def test_a_page_may_use_temporary_files_and_folders_which_end_with_it(project):
    same, folder = printed(project, TEMPORARY).split()
    assert same == "True"
    assert not os.path.exists(folder)


def test_a_page_imports_what_was_never_compiled(project):
    code = "import sys\n\nsys.dont_write_bytecode = False\nsys.path.insert(0, '.')\nimport library.code"
    assert project.check("# Page\n\n" + block(code)) == []
    assert list(project.root.glob("library/__pycache__/code.*.pyc"))


def test_a_child_that_a_page_forks_ends_with_its_block(project):
    code = "import os\n\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\nprint('parent' if child else 'child')"
    assert project.check("\n".join(["# Page\n", block(code, output="child\nparent"), block("x = 1")])) == []


def test_time_on_a_busy_machine_is_no_time_of_the_page(project):
    assert project.run_page("# Page\n\n" + block("import time\n\ntime.sleep(1.5)", "limit=1")).report == []


def test_a_library_may_warn_of_the_machine_that_it_meets(project):
    warn = 'warnings.warn_explicit("an old Python", RuntimeWarning, "/lib/torch/guards.py", 7)'
    project.page("page.md", "# Page\n\n" + block(f"import warnings\n\n{warn}"))
    project.page("number.md", f"# Page\n\n{block('import warnings')}\nIt is 1<!-- = {warn} or 1 -->.\n")
    assert not any(result.report for result in project.run().values())


@pytest.mark.parametrize(
    ("code", "output", "right"),
    [
        ("[][1]", "IndexError: in other words", True),
        ("[][1]", "KeyError: in other words", False),
        ("raise IndexError('too far')", "IndexError: too far", True),
        ("raise IndexError('too far')", "IndexError: in other words", False),
        ("print('first')\n[][1]", "second\nIndexError: in other words", False),
        ("from library.code import refuse\n\nrefuse()", "IndexError: in other words", False),
    ],
)
def test_of_an_error_that_a_library_words_the_name_is_compared(project, code, output, right):
    project.append("library/code.py", "\n\ndef refuse():\n    raise IndexError('too far')\n")
    assert (project.check("# Page\n\n" + block(code, "raises=IndexError", output)) == []) is right


def test_a_long_output_of_many_bytes_is_kept_whole(project):
    assert printed(project, "print('\u20ac' * 400_000)") == "\u20ac" * 400_000 + "\n"


def test_of_the_engine_only_what_counts_for_every_page_is_loaded_before_a_page(project):
    code = "import sys\n\nprint(*(name[7:] for name in sys.modules if name.startswith('galley.')))"
    modules = {name for name in printed(project, code).split() if "." in name}
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


def test_pages_share_nothing_and_blocks_of_a_page_a_namespace(project):
    project.page("first.md", "# First\n\n" + block("import math\n\nmath.secret = 1\nsecret = 2"))
    code = "import math\n\nprint(hasattr(math, 'secret'), 'secret' in globals())"
    project.page("second.md", f"# Second\n\n{block(code)}\n{block('print(math.floor(2.5))', output='2')}")
    assert [step["stdout"] for step in project.run(jobs=1)["second.md"].steps] == ["False False\n", "2\n"]


def test_seeds_threads_and_hashes_are_pinned(project):
    project.page("page.md", "# Page\n\n" + block(RANDOM))
    first, second = (project.run(use_cache=False)["page.md"].steps[0]["stdout"] for _ in range(2))
    assert first == second
    assert first.endswith(" 1\n")


def test_figures_of_one_page_do_not_style_another(project):
    wide = "plt.rcParams['lines.linewidth'] = 9\n"
    for name, style in (("a", ""), ("b", wide)):
        code = f"import matplotlib.pyplot as plt\n\n{style}plt.plot([1, 2])"
        project.page(f"{name}.md", f"# Page\n\n{block(code)}\n![A line](figures/{name}.svg)\n")
    alone = project.run(jobs=1, use_cache=False)["a.md"].steps[0]["figures"]
    (project.docs / "b.md").unlink()
    assert project.run(use_cache=False)["a.md"].steps[0]["figures"] == alone
