"""A page runs again when a module that it imports or a file that it reads changes, and at no other time."""

import threading

import pytest

from tests.engine.conftest import block

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
        project.write(f"library/{name}.py", text)
    for name, code in PAGES.items():
        project.page(name, "# Page\n\n" + block(PATH + code, "standalone" if name == "alone.md" else ""))
    assert pages_run(project) == set(PAGES)
    assert pages_run(project) == set()
    return project


def pages_run(project):
    results = project.run()
    wrong = [p.message for r in results.values() for p in r.problems if "output differs" not in p.message]
    assert wrong == []
    return {name for name, result in results.items() if not result.cached}


WHOLE = {"doc.md", "source.md", "read.md"}  # they show the text of a module
USERS = {"one.md", "two.md", "list.md", "child.md", "program.md"}


@pytest.mark.parametrize(
    ("file", "old", "new", "pages"),
    [
        ("one.py", "0 + x", "1 + x", USERS | WHOLE),
        ("one.py", "x=1", "x=2", USERS | WHOLE),
        ("two.py", "2 * ", "3 * ", {"two.md", "list.md", "program.md"}),
        ("one.py", "Return one.", "Return 1.", WHOLE),
        ("one.py", "# one", "# two", WHOLE),
        ("one.py", "\n\n\ndef", "\n\n\n# more\n\n\ndef", WHOLE),
        ("one.py", "Head of one", "Head of 1", WHOLE | {"list.md"}),
    ],
    ids=["code", "a default", "another module", "a docstring", "a comment", "a comment more", "the head"],
)
def test_an_edit_of_a_module_runs_who_imports_it_anyhow_or_shows_what_changed(book, file, old, new, pages):
    book.edit(f"library/{file}", old, new)
    assert pages_run(book) == pages
    book.edit(f"library/{file}", new, old)
    assert pages_run(book) == set()  # what is taken back is remembered


def test_a_new_module_runs_who_lists_the_package(book):
    book.write("library/three.py", '"""Three."""\n')
    assert pages_run(book) == {"list.md"}


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
    project.write("docs/data.csv", "1")
    (project.docs / "more").mkdir()
    project.page("page.md", "# Page\n\n" + block(code))
    assert pages_run(project) == {"page.md"}
    assert pages_run(project) == set()
    project.write(f"docs/{name}", "2")
    assert pages_run(project) == {"page.md"}
    assert pages_run(project) == set()


def test_a_file_that_goes_or_is_named_anew_runs_a_page_that_reads_a_whole_folder(project):
    first, second = project.write("docs/more/a.txt", "1"), project.docs / "more/b.txt"
    code = "from pathlib import Path\n\nprint([path.read_text() for path in Path('docs/more').glob('*.txt')])"
    project.page("page.md", "# Page\n\n" + block(code))
    assert pages_run(project) == {"page.md"}
    for change in (lambda: first.rename(second), second.unlink):
        change()
        assert pages_run(project) == {"page.md"}
        assert pages_run(project) == set()


def test_data_of_the_package_counts_and_comes_with_it(project):
    reader = "from pathlib import Path\n\n\ndef read():\n    return Path(__file__).with_name('data.csv').read_text()\n"
    project.write("library/code.py", reader)
    project.write("library/data.csv", "1")
    project.page("own.md", "# Page\n\n" + block(f"{PATH}from library import code\n\ncode.read()"))
    project.page("page.md", "# Page\n\n" + block("with open('library/data.csv') as file:\n    file.read()"))
    reads = {name: result.reads for name, result in project.run().items()}
    assert reads == {"own.md": [], "page.md": ["library/data.csv"]}
    project.write("library/data.csv", "2")
    assert pages_run(project) == {"own.md", "page.md"}


def test_what_lies_in_an_environment_or_in_hidden_folders_is_no_file_of_the_project(project):
    for folder in (".venv/lib/python3/site-packages", ".git"):
        project.write(f"{folder}/a.txt", "1")
    code = "import glob\n\nfor path in glob.glob('.*/**/*.txt', recursive=True):\n    open(path).close()"
    assert project.run_page("# Page\n\n" + block(code)).reads == ["."]  # whose list the pattern asks for


def test_a_file_that_changes_while_its_page_runs_is_read_again(project):
    data = project.write("docs/data.csv", "1")
    wait = "import os\nimport time\n\nwith open('docs/data.csv') as file:\n    print(file.read())"
    wait += "\nwhile os.stat('docs/data.csv').st_size == 1:\n    time.sleep(0.01)"
    later = threading.Timer(3, data.write_text, ["22"])
    later.start()
    output = project.run_page("# Page\n\n" + block(wait)).steps[0]["stdout"]
    later.join()
    assert output == "1\n"
    assert pages_run(project) == {"page.md"}


def test_what_the_compiler_of_torch_looks_up_is_not_read_by_the_page(project):
    code = "import torch\n\nfrom library.code import double\n\ntorch.compile(double, backend='eager')(torch.ones(2))"
    result = project.run_page("# Page\n\n" + block(PATH + code))
    assert result.problems == []
    assert [need[:2] for need in result.needs if need[0] != "version"] == [["code", "library/code.py"]]
