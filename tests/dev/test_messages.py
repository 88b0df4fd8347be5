"""What an honest first draft is told: few causes instead of many failures, each in words, with a remedy.

The drafts in tests/dev/drafts are what somebody writes who has read the formula and no rule of this project.
"""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from dev import EXPENSIVE, check
from galley.read.notebook import read
from tests.contract import encoding_inputs, test_contract, test_files, test_properties
from tests.contract.encoding_inputs import Encoding
from tests.contract.test_harness import CONTRACT, run
from tests.pages import test_book, test_form

MODULES = [test_contract, test_files, test_properties]
DRAFTS = Path(__file__).parent / "drafts"
PAGE = "docs/chapters/4-biases/draft.md"
BARE = re.compile(
    r"assert\b|None$|\{\}|Tensor-likes|Scalars|DID NOT RAISE|substring not found|StopIteration|\W*$|\w+Error$"
)
OF_A_PAGE = {
    name: test
    for name, test in [*vars(test_form).items(), *vars(test_book).items()]
    if name.startswith("test_") and list(inspect.signature(test).parameters) == ["name"]
}


def gathered(tests: dict, files: list[Path], call) -> list[check.Cause]:
    """Return the causes that `call` fails for, test by test."""
    only = check.Only(files, [])
    for name, test in tests.items():
        try:
            call(test)
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception):
            only.add(name, inspect.getdoc(test) or "", pytest.ExceptionInfo.from_current())
    return only.causes


def badly_explained(causes: list[check.Cause]) -> list[str]:
    bare = [f"{cause.promise}: {message}" for cause in causes for message in cause.messages if BARE.match(message)]
    return bare + [f"{cause.promise}: no remedy" for cause in causes if not cause.remedy]


def test_the_draft_of_an_encoding_is_told_in_words():
    path = DRAFTS / "gauss.py"
    draft = Encoding("bias/gauss", encoding_inputs.load(path, "gauss"), None)
    tests = {name: test for name, test in CONTRACT.items() if not EXPENSIVE.search(name)}
    causes = gathered(tests, [path], lambda test: run(test, draft))
    assert badly_explained(causes) == []
    assert 10 <= len(causes) <= 20, [cause.promise for cause in causes]


def test_the_draft_of_a_page_is_told_in_words(monkeypatch):
    draft = read(PAGE, (DRAFTS / "page.md").read_text(encoding="utf-8"))
    for pages in (test_book.PAGES, test_form.CHAPTERS):
        monkeypatch.setitem(pages, PAGE, draft)
    chapters = [name for name in OF_A_PAGE if "page_of_exercises" not in name and "notebook" not in name]
    causes = gathered({name: OF_A_PAGE[name] for name in chapters}, [], lambda test: test(PAGE))
    assert badly_explained(causes) == []
    assert [cause.promise for cause in causes] == [
        "a chapter asks then answers at once",
        "the main line has two pictures and one that moves",
        "a chapter asks for one bet",
        "the depth comes last in sections of its own",
        "the depth has exercises with hints and answers",
        "a chapter ends with something to copy",
        "a page says what it is",
        "a chapter stands in the navigation",
    ]


def test_an_argument_that_the_tests_do_not_know_is_named_with_where_to_tell_them():
    class Wide(test_contract.nn.Module):
        def __init__(self, heads, width):
            super().__init__()

    draft = SimpleNamespace(Gauss=Wide, __name__=Wide.__module__)
    with pytest.raises(AssertionError, match=r"Wide needs width: give it in OPTIONS of tests/bias/test_gauss\.py"):
        Encoding("bias/gauss", draft).build()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_test_of_an_encoding_says_how_to_mend_what_fails(module):
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    ours = [name for name, test in tests.items() if {"encoding", "path"} & set(inspect.signature(test).parameters)]
    assert len(ours) > 2
    assert not [name for name in ours if not tests[name].__doc__]


def test_what_has_one_cause_is_said_once():
    only = check.Only([], [])
    for test, message in (("test_a", "no line `Key`"), ("test_b", "no line `Key`"), ("test_b", "7"), ("test_c", "8")):
        with pytest.raises(AssertionError) as error:
            raise AssertionError(message)
        only.add(test, "Write it.", error)
    assert [(cause.promise, cause.messages, cause.count) for cause in only.causes] == [
        ("a", ["no line `Key`", "7"], 3),
        ("c", ["8"], 1),
    ]


def test_what_cannot_be_imported_is_said_once():
    only = check.Only([], [])
    for name in ("a", "b"):
        longrepr = f"tests/test_{name}.py:3: in <module>\nE   ModuleNotFoundError: No module named 'numpi'\n"
        only.pytest_collectreport(SimpleNamespace(failed=True, longrepr=longrepr))
    assert [cause.messages for cause in only.causes] == [["ModuleNotFoundError: No module named 'numpi'"]]


def test_an_unknown_name_is_refused_with_what_there_is(capsys):
    assert check.main(["no-such-page"]) == 2
    assert "NAME must be a file of posenc/ or a page of docs/, got 'no-such-page'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("geometry", "docs/chapters/1-sinusoidal/geometry.md"),
        ("4-biases/alibi", "docs/chapters/4-biases/alibi.md"),
        ("fire", "docs/chapters/4-biases/families.md"),
        ("phase-bias", "docs/chapters/5-pope/phase-bias.ipynb"),
    ],
)
def test_a_name_finds_its_page(name, page):
    assert check.page_of(name, check.files_of(name)) == page
