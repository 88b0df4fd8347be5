"""`python -m dev.check NAME …`: run all that concerns an encoding or a page, and say in words what is missing.

NAME is the file of an encoding, such as gauss, or the end of a page's path, such as geometry or 4-biases/alibi. The
tests are those of `make test`, each with its promise (its name), its remedy (its docstring) and what it found; what
has one cause is said once. Left out is what compiles, but for the contract of the first of an encoding's OPTIONS.
"""

import contextlib
import importlib
import inspect
import io
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import posenc
from dev import EXPENSIVE, ROOT
from galley.book import Book

OF_AN_ENCODING = (
    "contract/test_files",
    "contract/test_contract",
    "contract/test_properties",
    "test_names",
    "test_command_line",
    "dev/test_readme",
)
OF_A_PAGE = ("tests/pages/test_book.py", "tests/pages/test_form.py", "tests/scripts/test_site_scripts.py")
OF_ALL_AT_ONCE = {
    "test_figure_names_are_unique_over_the_book",
    "test_every_script_is_used",
    "test_scripts_import_what_lies_beside_them_and_nothing_else",
    "test_public_names_are_unique",
    "test_the_head_of_every_file_can_be_read_without_importing_it",
    "test_every_file_can_be_copied_and_run_where_posenc_is_not",
    "test_the_table_has_every_name",
    "test_every_encoding_has_its_row",
}
WHOLE_BOOK = {"results", "site_build", "built_site"}  # fixtures that run every page, or build the site
MOST_MESSAGES, MOST_LINES = 3, 4  # shown of a cause, and of a message


@dataclass
class Cause:
    """What went wrong in one place, or in one test, or with one message."""

    promise: str
    remedy: str
    messages: list[str]
    marks: set[str]
    count: int = 1


@dataclass(eq=False)
class Only:
    """A pytest plugin: keep the tests that concern `files` and `pages`, and gather what fails."""

    files: list[Path]
    pages: list[str]
    passed: int = 0
    causes: list[Cause] = field(default_factory=list)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what concerns them."""
        items[:] = [item for item in items if self._concerns(item)]

    def _concerns(self, item: pytest.Item) -> bool:
        needs = set(getattr(item, "fixturenames", ()))
        if needs & WHOLE_BOOK or any(item.get_closest_marker(mark) for mark in ("slow", "full")):
            return False
        if item.path in self.files or item.name in OF_ALL_AT_ONCE:
            return not EXPENSIVE.search(item.name)
        params = getattr(getattr(item, "callspec", None), "params", {})
        encoding = params.get("encoding")
        if encoding is not None and hasattr(encoding, "variants"):
            first = encoding.options == encoding.variants()[0].options
            return encoding.path in self.files and (first or not EXPENSIVE.search(item.name))
        return params.get("path") in self.files or params.get("name") in self.pages

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Say once what cannot be imported, though every file of tests imports it."""
        if report.failed:
            lines = [line.removeprefix("E").strip() for line in str(report.longrepr).splitlines()]
            message = next(line for line in reversed(lines) if line)
            if all(message not in cause.marks for cause in self.causes):
                self.causes.append(Cause("the tests can be imported", "", [message], {message}))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
        """Count what passes; add what fails to a cause that is known, or as a new one."""
        report = yield
        if report.passed and report.when == "call":
            self.passed += 1
        if report.failed and call.excinfo is not None:
            test = getattr(item, "function", None)
            self.add(getattr(item, "originalname", None) or item.name, inspect.getdoc(test) or "", call.excinfo)
        return report

    def add(self, test: str, remedy: str, error: pytest.ExceptionInfo) -> None:
        """Add a failure to the cause that it shares with another: the test, the message, or the line of the file."""
        message = message_of(error)
        places = [entry for entry in error.traceback if Path(entry.path) in self.files]
        marks = {test, message}
        if places:
            marks = {test, f"{places[-1].lineno}: {re.sub(r'[0-9]+', '', message)}"}
            message = f"{Path(places[-1].path).name}:{places[-1].lineno + 1}: {message}"
        for known in self.causes:
            if known.marks & marks:
                known.marks |= marks
                if message not in known.messages:
                    known.messages.append(message)
                known.count += 1
                return
        self.causes.append(Cause(sentence(test), remedy, [message], marks))


def message_of(error: pytest.ExceptionInfo) -> str:
    """Return the first lines of an error, without what pytest and Hypothesis add; of an assert, without its type."""
    bare = error.errisinstance((AssertionError, pytest.fail.Exception))
    text = str(error.value) if bare else error.exconly()
    lines = re.split(r"\n(?:assert |Failing test case)", text)[0].split("\n")
    return "\n".join([line for line in lines if line.strip()][:MOST_LINES])


def sentence(name: str) -> str:
    """Return the name of a test as the sentence that it is."""
    return name.removeprefix("test_").replace("_", " ")


def files_of(name: str) -> list[Path]:
    """Return the file of that name in a door, where there is one, and its tests."""
    files = [path for door in posenc.DOORS for path in (ROOT / "posenc" / door).glob(f"{name}.py")]
    own = [ROOT / "tests" / path.parent.name / f"test_{name}.py" for path in files]
    return [*files, *(path for path in own if path.exists())]


def page_of(name: str, files: list[Path]) -> str:
    """Return the page of that name; or the one that names the file most often, a chapter if there is one."""
    pages = Book(ROOT).pages()
    ends = (f"/{name.removesuffix('.md').removesuffix('.ipynb')}.md", f"/{name.removesuffix('.ipynb')}.ipynb")
    if named := [page for page in pages if f"/{page}".endswith(ends)]:
        return named[0]
    if not files:
        return ""
    module = ".".join(files[0].relative_to(ROOT).with_suffix("").parts)
    using = [page for page, text in pages.items() if f"from {module} import" in text]
    return max(using, key=lambda page: ("/chapters/" in page, pages[page].count(name)), default="")


def run_tests(only: Only) -> bool:
    """Run the tests that `only` keeps, and print nothing; return whether all could be run."""
    names = {f"{path.parent.name}/{path.stem}" for path in only.files}
    concerned = {key: encoding for key, encoding in posenc.encodings().items() if key in names}
    posenc.encodings = lambda: concerned  # tests are made for these alone
    encoding = [f"tests/{name}.py" for name in OF_AN_ENCODING] + [str(path) for path in only.files]
    where = [*(encoding if only.files else []), *(OF_A_PAGE if only.pages else [])]
    options = ["-o", "addopts=", "-p", "galley.pytest_plugin", "-p", "no:terminal", "-p", "no:cacheprovider"]
    options += ["--doctest-modules", "--import-mode=importlib", "--rootdir", str(ROOT)]
    with contextlib.redirect_stdout(io.StringIO()):
        ended = pytest.main([*options, *where], plugins=[only])
    return ended in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or bool(only.causes)


def broken(files: list[Path]) -> str:
    """Return why one of the files of the package cannot be tried, or nothing; of its tests pytest says why."""
    for path in (path for path in files if path.is_relative_to(ROOT / "posenc")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        try:
            importlib.import_module(name)
        except Exception as error:
            return f"{path.relative_to(ROOT)} cannot be imported: {type(error).__name__}: {error}"
    return ""


def report(only: Only, wrong: list[str]) -> Iterator[str]:
    """Yield what is missing, a numbered paragraph a cause, then what is wrong on the page."""
    for number, cause in enumerate(only.causes, 1):
        times = f" ({cause.count} tests)" if cause.count > 1 else ""
        yield f"{number:2}. {cause.promise}{times}"
        lines = [f"> {message}".replace("\n", "\n  ") for message in cause.messages[:MOST_MESSAGES]]
        if cause.remedy:
            lines = [cause.remedy, *lines]
        yield textwrap.indent("\n".join(lines), "    ") + "\n"
    yield from wrong


def select(name: str, only: Only) -> bool:
    """Add the files and the page of that name to what is checked; return whether there is one."""
    files = files_of(name)
    page = page_of(name, files)
    only.files += files
    if page and page not in only.pages:
        only.pages.append(page)
    return bool(files or page)


def start_galley(pages: list[str]) -> subprocess.Popen[str]:
    """Start the checker of the book on some pages; what is wrong on them it writes to its stderr."""
    command = [sys.executable, "-m", "galley"]
    for page in pages:
        command += ["--only", page]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def main(names: list[str]) -> int:
    """Check encodings, their pages, and pages; return 1 where something is missing, 2 for no such name."""
    begin = time.perf_counter()
    only = Only([], [])
    for name in names or [""]:
        if not select(name, only):
            must = "must be a file of posenc/ or a page of docs/"
            print(f"check: NAME {must}, got {name!r}; make new-encoding writes one")
            return 2
    if why := broken(only.files):
        print(why)
        return 1
    print("checking", ", ".join([*(str(path.relative_to(ROOT)) for path in only.files), *only.pages]), flush=True)
    checker = start_galley(only.pages) if only.pages else None
    complete = run_tests(only)
    wrong = checker.communicate()[1].splitlines() if checker else []
    print("\n".join(report(only, wrong)))
    failed = sum(cause.count for cause in only.causes)
    on_pages = f", {len(wrong)} lines about the page" if wrong else ""
    causes = f"{failed} fail for {len(only.causes)} causes" if failed else "none fails"
    print(f"{only.passed} tests pass, {causes}{on_pages}; {time.perf_counter() - begin:.0f} s")
    if not complete:
        print("some tests could not be run: pytest says above why")
    return 1 if only.causes or wrong or not complete else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
