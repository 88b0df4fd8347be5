"""A page runs again when a module that it imports or a file that it reads changes, and at no other time."""

import threading

import pytest

PATH = "import sys\n\nsys.path.insert(0, '.')\n"
PAGES = {
    "one.md": "from library.one import first\n\nprint(first())",
    "two.md": "from library import two\n\nprint(two.second())",
    "none.md": "print('none')",
    "list.md": "import library\n\nprint(library.names())",
    "doc.md": "from library import one\n\nprint(one.__doc__)",
    "source.md": "import inspect\n\nfrom library import one\n\nprint(inspect.getsource(one.first))",
    "read.md": "from pathlib import Path\n\nprint(Path('library/one.py').read_text())",
    "child.md": "import os\n\nif os.fork() == 0:\n    from library import one\n\n    os._exit(0)\nos.wait()",
    "program.md": "import subprocess\n\nsubprocess.run([sys.executable, '-c', 'import library.one'], check=True)",
    "alone.md": "try:\n    from library import one\nexcept ImportError:\n    pass",
}
PACKAGE = '''\
"""The package looks through its own files."""

from pathlib import Path


def names():
    return {path.stem: path.read_text()[:20] for path in Path(__file__).parent.glob("[!_]*.py")}
'''
ONE = '"""Head of one."""\n\n\ndef first(x=1):\n    """Return one."""\n    return 0 + x  # one\n'
TWO = "from library.one import first\n\n\ndef second():\n    return 2 * first()\n"


@pytest.fixture
def book(project):
    (project.root / "library/code.py").unlink()
    for name, text in {"__init__": PACKAGE, "one": ONE, "two": TWO}.items():
        (project.root / f"library/{name}.py").write_text(text)
    for name, code in PAGES.items():
        option = "<!-- block: standalone -->\n" if name == "alone.md" else ""
        project.page(name, f"# Page\n\n{option}```python\n{PATH}{code}\n```\n")
    assert ran(project) == set(PAGES)
    assert ran(project) == set()
    return project


def ran(project):
    results = project.run()
    wrong = [p.message for r in results.values() for p in r.problems if "output differs" not in p.message]
    assert wrong == []
    return {name for name, result in results.items() if not result.cached}


def edit(project, old, new, file="one.py"):
    path = project.root / "library" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return ran(project)


WHOLE = {"doc.md", "source.md", "read.md"}  # they show the text of a module


def test_an_edit_of_a_module_runs_who_imports_it_directly_through_others_or_in_another_process(book):
    assert edit(book, "0 + x", "1 + x") == {"one.md", "two.md", "list.md", "child.md", "program.md"} | WHOLE


def test_an_edit_of_another_module_runs_its_own_users(book):
    assert edit(book, "2 * ", "3 * ", "two.py") == {"two.md", "list.md", "program.md"}


def test_an_edit_of_a_docstring_or_comment_runs_who_shows_it(book):
    assert edit(book, "Return one.", "Return 1.") == WHOLE
    assert edit(book, "# one", "# two") == WHOLE
    assert edit(book, "\n\n\ndef", "\n\n\n# more\n\n\ndef") == WHOLE


def test_an_edit_of_a_head_runs_who_looks_through_the_package_too(book):
    assert edit(book, "Head of one", "Head of 1") == WHOLE | {"list.md"}


def test_a_default_is_code(book):
    assert "one.md" in edit(book, "x=1", "x=2")


def test_a_new_module_runs_who_lists_the_package(book):
    (book.root / "library/three.py").write_text('"""Three."""\n')
    assert ran(book) == {"list.md"}


def test_what_is_taken_back_is_remembered(book):
    assert edit(book, "0 + x", "1 + x")
    assert edit(book, "1 + x", "0 + x") == set()


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("with open('docs/data.csv') as file:\n    print(file.read())", "data.csv"),
        ("from pathlib import Path\n\nprint(Path('docs/data.csv').read_bytes())", "data.csv"),
        ("import os\n\nprint(os.read(os.open('docs/data.csv', os.O_RDONLY), 9))", "data.csv"),
        ("import os\n\nos.chdir('docs')\nwith open(b'data.csv') as file:\n    print(file.read())", "data.csv"),
        ("import numpy as np\n\nprint(np.loadtxt('docs/data.csv'))", "data.csv"),
        ("import os\n\nif os.fork() == 0:\n    open('docs/data.csv').close()\n    os._exit(0)\nos.wait()", "data.csv"),
        ("import subprocess\n\nsubprocess.run(['cat', 'docs/data.csv'], check=True)", "data.csv"),
        ("try:\n    open('docs/new.csv').close()\nexcept OSError:\n    print('none')", "new.csv"),
        ("import os\n\nprint(os.listdir('docs/more'))", "more/new.csv"),
        ("import os\n\nprint([entry.name for entry in os.scandir('docs/more')])", "more/new.csv"),
        ("import glob\n\nprint(glob.glob('docs/**/*.csv', recursive=True))", "more/new.csv"),
        ("from pathlib import Path\n\nprint(list(Path('docs').rglob('*.csv')))", "more/new.csv"),
    ],
)
def test_a_change_of_what_a_page_reads_or_lists_runs_it_again(project, code, name):
    (project.docs / "more").mkdir()
    (project.docs / "data.csv").write_text("1")
    project.page("page.md", f"# Page\n\n```python\n{code}\n```\n")
    assert ran(project) == {"page.md"}
    assert ran(project) == set()
    (project.docs / name).write_text("2")
    assert ran(project) == {"page.md"}
    assert ran(project) == set()


def test_data_of_the_package_counts_and_comes_with_it(project):
    own = "from pathlib import Path\n\n\ndef read():\n    return Path(__file__).with_name('data.csv').read_text()\n"
    (project.root / "library/code.py").write_text(own)
    (project.root / "library/data.csv").write_text("1")
    project.page("own.md", f"# Page\n\n```python\n{PATH}from library import code\n\ncode.read()\n```\n")
    project.page("page.md", "# Page\n\n```python\nwith open('library/data.csv') as file:\n    file.read()\n```\n")
    assert {name: result.reads for name, result in project.run().items()} == {
        "own.md": [],
        "page.md": ["library/data.csv"],
    }
    (project.root / "library/data.csv").write_text("2")
    assert ran(project) == {"own.md", "page.md"}


def test_what_lies_in_an_environment_or_in_hidden_folders_is_no_file_of_the_project(project):
    for folder in (".venv/lib/python3/site-packages", ".git"):
        (project.root / folder).mkdir(parents=True)
        (project.root / folder / "a.txt").write_text("1")
    code = "import glob\n\nfor path in glob.glob('.*/**/*.txt', recursive=True):\n    open(path).close()"
    project.page("page.md", f"# Page\n\n```python\n{code}\n```\n")
    assert project.run()["page.md"].reads == ["."]  # whose list the pattern asks for


def test_a_file_that_changes_while_its_page_runs_is_read_again(project):
    (project.docs / "data.csv").write_text("1")
    wait = "import os\nimport time\n\nwith open('docs/data.csv') as file:\n    print(file.read())"
    wait += "\nwhile os.stat('docs/data.csv').st_size == 1:\n    time.sleep(0.01)"
    project.page("page.md", f"# Page\n\n```python\n{wait}\n```\n")
    later = threading.Timer(3, (project.docs / "data.csv").write_text, ["22"])
    later.start()
    shown = project.run()["page.md"].steps[0]["stdout"]
    later.join()
    assert shown == "1\n"
    assert ran(project) == {"page.md"}


def test_what_the_compiler_of_torch_looks_up_is_not_read_by_the_page(project):
    code = "import torch\n\nfrom library.code import double\n\ntorch.compile(double, backend='eager')(torch.ones(2))"
    project.page("page.md", f"# Page\n\n```python\n{PATH}{code}\n```\n")
    result = project.run()["page.md"]
    assert result.problems == []
    assert [need[:2] for need in result.needs if need[0] != "version"] == [["code", "library/code.py"]]
