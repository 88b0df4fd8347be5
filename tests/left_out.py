"""A pytest plugin: what a run leaves out is said at its end, a line a reason, and `--rest` runs just that.

`make test` runs with what its own environment has. What it skipped, what it deselected and what failed is run by
`pytest --rest`, in an environment that has more. What passed there, or since then in a run of some tests, is not run
again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PASSED = "posenc/passed"  # in pytest's cache: the tests that passed in the last run of all, or in one of some since
MARKED = pytest.StashKey[Counter]()  # how many tests are left out for which mark
READERS = ("gguf", "safetensors", "tokenizers", "transformers")  # which read the models of Part 7: make peers
MARKS = {"slow": "marked slow: make test-all", "full": "marked full: make test-rest"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rest", action="store_true", help="run only what has not passed since the last run of all began")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[MARKED] = Counter()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Record(config), "left_out_record")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore what --doctest-modules would import: modules that tests import, and what needs libraries not here."""
    if collection_path.is_relative_to(config.rootpath / "docs/book/posenc_book/real"):
        return True if not all(map(find_spec, READERS)) else None
    tests = config.rootpath / "tests"
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith(("test_", "conftest"))
    return True if helper and collection_path.is_relative_to(tests) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--rest") or not getattr(config, "cache", None):
        return
    passed = {*config.cache.get(PASSED, [])}
    items[:] = [item for item in items if item.nodeid not in passed]


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the tests that are left out for a mark."""
    for item in items:
        if mark := next(filter(item.get_closest_marker, MARKS), None):
            item.config.stash[MARKED][MARKS[mark]] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let the process that reports know what this one has counted."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["marked"] = dict(session.config.stash[MARKED])


class _Record:
    """Notes what passes and what is skipped, in the process that sees all results."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self.skipped: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and report.when == "call":
            self.passed.add(report.nodeid)
        elif report.failed:
            self.failed.add(report.nodeid)
        elif report.skipped and isinstance(report.longrepr, tuple):
            self.skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1

    def pytest_sessionfinish(self) -> None:
        if getattr(self.config, "cache", None) and not self.config.getoption("--rest"):
            of_all = self.config.args_source is not pytest.Config.ArgsSource.ARGS
            before = () if of_all else self.config.cache.get(PASSED, [])
            self.config.cache.set(PASSED, sorted({*before, *self.passed} - self.failed))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.config.stash[MARKED] |= Counter(getattr(node, "workeroutput", {}).get("marked", {}))  # the same in each

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in left_out(self.skipped + self.config.stash[MARKED]):
            terminalreporter.write_line(line)


def left_out(skipped: Counter[str]) -> Iterator[str]:
    """Yield a line for each reason for which tests were skipped, the most frequent first."""
    if skipped:
        yield "left out:"
    for reason, count in skipped.most_common():
        yield f"  {count:,} tests: {reason}"
