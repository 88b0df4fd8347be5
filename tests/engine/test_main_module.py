"""A page is the main module of its process, and what it prints and asserts is kept as it happened."""

import json

import pytest

from tests.engine.conftest import block

MAIN = {
    "a class is pickled": (
        "import pickle\n\n\nclass Point:\n    x = 1\n\n\nprint(pickle.loads(pickle.dumps(Point())).x)",
        "1",
    ),
    "a dataclass knows its own name": (
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Point:\n    x: 'int' = 1\n\n\nprint(Point())",
        "Point(x=1)",
    ),
}
ORDER = {
    "a program": "import subprocess\n\nprint('a')\nsubprocess.run(['echo', 'b'], check=True)\nprint('c')",
    "a shell": "import os\n\nprint('a')\nos.system('echo b')\nprint('c')",
    "errors": "import sys\n\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')",
    "C": "import os\n\nprint('a')\nos.write(1, b'b\\n')\nprint('c')",
    "a given file": (
        "import subprocess\nimport sys\n\nprint('a')\nsubprocess.run('echo b'.split(), stdout=sys.stdout)\nprint('c')"
    ),
}
CONTROL = {"\\x1b": r"\x1b[31mred\x1b[0m", "\\x00": r"\0", "\\r": r"a\rb", "\\u202e": r"\u202eabc", "\\x08": r"a\b"}


@pytest.mark.parametrize("option", ["", "standalone"], ids=["page", "standalone"])
@pytest.mark.parametrize("use", MAIN)
def test_a_page_is_the_main_module(project, use, option):
    code, output = MAIN[use]
    assert project.check("# Page\n\n" + block(code, option, output)) == []


def test_a_block_that_stands_alone_leaves_the_main_module_as_it_was(project):
    last = block("import __main__\n\nprint(__main__.x)", output="1")
    assert project.check("\n".join(["# Page\n", block("x = 1"), block("x = 2", "standalone"), last])) == []


@pytest.mark.parametrize("writer", ORDER)
def test_what_others_print_stands_where_it_was_printed(project, writer):
    assert project.check("# Page\n\n" + block(ORDER[writer], output="a\nb\nc")) == []


@pytest.mark.parametrize("name", CONTROL)
def test_a_control_character_is_named(project, name):
    [problem] = project.check("# Page\n\n" + block(f'print("{CONTROL[name]}")'))
    assert problem == f"4: the block prints a control character, '{name}'; take it out, or show it by repr()"


def test_a_control_character_in_a_raised_message_or_a_figure_is_named(project):
    raises = block(r'raise ValueError("\x1b")', "raises=ValueError")
    draws = block('import matplotlib.pyplot as plt\n\nplt.title("\\u202ea")') + "\n![A](figures/a.svg)\n"
    for text, name in ((raises, r"\x1b"), (draws, r"\u202e")):
        assert f"control character, '{name}'" in project.check("# Page\n\n" + text)[0]


ASSERTS = """\
# Page

```python
def even(x):
    assert isinstance(x, int), "no number"
    return x % 2 == 0


for n in range(5):
    assert even(2 * n)
```

```pycon
>>> even(2)
True
>>> even(3)
False
```

```python
if even(3):
    assert False
names = globals()
assert not [name for name in names if "assert" in name]
```
"""


def test_assertions_that_run_are_counted(project):
    result = project.run_page(ASSERTS)
    assert result.problems == []
    assert [step["asserts"] for step in result.steps] == [10, 4, 2]
    assert result.asserts == 16
    assert project.run()["page.md"].asserts == 16


def test_a_counted_assertion_fails_as_any_other(project):
    code = "def check(x):\n    assert x == 1, f'{x} is not one'\n\n\ncheck(2)"
    [problem] = project.check("# Page\n\n" + block(code))
    assert problem.startswith('8: Traceback (most recent call last):\n  File "docs/page.md", line 8, in <module>\n')
    assert "  File \"docs/page.md\", line 5, in check\n    assert x == 1, f'{x} is not one'\n" in problem
    assert problem.endswith("AssertionError: 2 is not one")


def test_an_assertion_in_a_compiled_function_breaks_no_graph(project):
    code = "import torch\n\n\n@torch.compile(backend='eager', fullgraph=True)\ndef f(x):\n    assert x.ndim == 1\n"
    code += "    return 2 * x\n\n\nprint([f(torch.ones(1)).item() for _ in range(20)][-1])"
    assert project.check("# Page\n\n" + block(code, output="2.0")) == []


def test_fewer_assertions_than_recorded_are_a_problem(project):
    record = project.docs / "assertions.json"
    update(project, ASSERTS)
    assert json.loads(record.read_text()) == {"docs/page.md": 16}
    assert project.check(ASSERTS.replace("range(5)", "range(6)")) == []
    assert project.check(ASSERTS.replace("range(5)", "range(3)")) == [
        "1: 12 assertions ran, of 16 recorded; bring back those that are gone, or lower the page's number in "
        "docs/assertions.json"
    ]


def test_the_update_command_takes_up_more_assertions_and_not_fewer(project):
    record = project.docs / "assertions.json"
    update(project, ASSERTS)
    assert update(project, ASSERTS.replace("range(5)", "range(6)")) == []
    assert json.loads(record.read_text()) == {"docs/page.md": 18}
    assert "16 assertions ran, of 18 recorded" in update(project, ASSERTS)[0]
    assert record.read_text() == '{\n"docs/page.md": 18\n}\n'
    (project.docs / "page.md").rename(project.docs / "other.md")
    project.update()
    assert json.loads(record.read_text()) == {"docs/other.md": 16}


def update(project, text):
    project.page("page.md", text)
    return [problem.message for problem in project.update()["docs/page.md"].problems]
