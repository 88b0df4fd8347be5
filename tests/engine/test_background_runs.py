"""A served book answers at once, with what it has; its pages run behind, and show as they come."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from galley.book import Book
from galley.show.background_runs import BackgroundRuns
from tests.engine.conftest import ENVIRONMENT, NOT_ALL_HOLDS, leftover

pytestmark = pytest.mark.full

QUICK = "# {}\n\nFirst.\n\n```python\nprint({})\n```\n\n```output\n{}\n```\n"
DRAWS = (
    "# Draws\n\nFirst.\n\n<!-- block: limit=120 -->\n```python\nimport time\nfrom pathlib import Path\n\n"
    "import matplotlib.pyplot as plt\n\nwhile not Path('{}').exists():\n    time.sleep(0.05)\nplt.plot([0, 1])\n```\n\n"
    "![A rising line](figures/line.svg)\n*It rises.*\n"
)
FAILS = "# Fails\n\n```python\n1 / 0\n```\n"


class Server:
    """`mkdocs serve` on a small book."""

    def __init__(self, root, *flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = root / "log"
        command = [sys.executable, "-m", "mkdocs", "serve", "--dev-addr", f"127.0.0.1:{self.port}", *flags]
        environment = ENVIRONMENT | {"SERVED": str(root)}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=log)

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/book/{path}", timeout=60) as answer:
            return answer.read().decode()

    def wait(self, path, text, limit=90):
        """Wait until a page shows `text`, and return the page."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()
            try:
                if text in (page := self.get(path)):
                    return page
            except OSError:
                pass
            time.sleep(0.05)
        pytest.fail(f"{path} never showed {text!r}\n{self.log.read_text()}")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(40)


@pytest.fixture
def served(project):
    """Return a function that serves the project; its slow page waits for a file."""
    gate = project.root / "gate"
    project.take_theme()
    project.page("index.md", QUICK.format("Home", 1, 1))
    project.page("draws.md", DRAWS.format(gate))
    servers = []

    def serve(*flags):
        servers.append(Server(project.root, *flags))
        return servers[-1], gate

    yield serve
    for server in servers:
        server.process.kill()
        server.process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("flags", [[], ["--dirty"]], ids=["serve", "write"])
def test_it_answers_at_once_shows_figures_as_they_come_and_ends_cleanly(project, served, flags):
    project.page("fails.md", FAILS)
    server, gate = served(*flags)
    assert_being_drawn(server)
    project.page("index.md", QUICK.format("Home", 1, 1).replace("First.", "A new sentence."))
    server.wait("", "A new sentence.")  # though a page still runs
    assert "docs/draws.md" in json.loads(server.get("galley/progress.json"))["running"]
    entries = json.loads(server.get("search/index.json"))["docs"]  # of all pages, though one was built again
    assert {entry["location"] for entry in entries} == {"", "draws/", "fails/"}

    project.page("index.md", QUICK.format("Home", "1 + 1", 2))
    server.wait("", "1</span>")
    assert "output differs" not in server.log.read_text().partition("docs/index.md ran")[2]

    page = server.wait("fails/", NOT_ALL_HOLDS)
    assert "ZeroDivisionError" in page
    assert "docs/fails.md failed after" in server.log.read_text()
    assert "docs/fails.md:4: " in server.log.read_text()

    gate.touch()
    assert "undrawn" not in server.wait("draws/", '<svg role="img"')
    failures = server.log.read_text().count("docs/fails.md failed")
    time.sleep(2)
    assert server.log.read_text().count("docs/fails.md failed") == failures  # it is not run over and over
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text().replace('Traceback (most recent call last):\n  File "docs/', "")
    assert leftover(project.root) == []


def assert_being_drawn(server):
    page = server.wait("draws/", "Being drawn")
    assert re.search(r'class="drawn-svg undrawn" role="img" aria-label="A rising line"', page)
    assert "<figcaption>It rises.</figcaption>" in page
    assert 'data-page="docs/draws.md"' in page
    assert "import.meta.url" in server.get("galley/progress.js")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_runs_behind_ends_with_the_server_at_once(project, served):
    server, _ = served()
    server.wait("draws/", "Being drawn")
    assert server.stop() == 0
    assert leftover(project.root) == []


def test_a_taken_port_is_named_before_anything_is_built(project):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        status, output = project.command("mkdocs", "serve", "--dev-addr", f"127.0.0.1:{port}")
    assert status == 1
    assert f"port {port} is in use" in output
    assert "pages:" not in output
    assert "Traceback" not in output


class ControlledRuns(BackgroundRuns):
    """Runs whose pages end when a test says so; `events` are what they did, in order."""

    def __init__(self, book, monkeypatch):
        self.events = []
        super().__init__(book, lambda line: None, lambda: self.events.append("shows"))
        self.gates = {}
        monkeypatch.setattr("galley.show.background_runs.run_jobs", self.run_until_ended)
        monkeypatch.setattr("galley.show.background_runs.MOMENT", 0.2)

    def gate(self, name):
        return self.gates.setdefault(name, threading.Event())

    def run_until_ended(self, jobs, workers, ended):
        [job] = jobs
        self.events.append(f"begins {job.filename}")
        self.gate(job.filename).wait(10)
        job.results = [{"stdout": "", "figures": []} for _ in job.steps]
        ended(job)

    def request(self, **codes):
        """Ask for pages by name and code, and return those whose results are known."""
        results_known = []
        step = {"kind": "block", "lang": "python", "options": {}, "line": 1}
        jobs = [self.book.job(name, [step | {"code": code}]) for name, code in codes.items()]
        self.perform(jobs, lambda job: results_known.append(job.filename))
        return results_known

    def end(self, name):
        count = self.progress()["ended"]
        self.gate(name).set()
        limit = time.monotonic() + 5
        while self.progress()["ended"] == count and time.monotonic() < limit:
            time.sleep(0.01)


@pytest.fixture
def runs(project, monkeypatch):
    background_runs = ControlledRuns(Book(project.root, jobs=2), monkeypatch)
    yield background_runs
    for gate in background_runs.gates.values():
        gate.set()


def test_pages_run_in_order_and_a_processor_is_left_to_the_build(runs):
    assert runs.request(a="1", b="2", c="3", d="4") == []
    assert runs.events == ["begins a"]
    runs.built()
    assert runs.events == ["begins a", "begins b"]
    for name, event in {"a": "begins c", "c": "begins d"}.items():
        runs.end(name)
        assert runs.events[-1] == event
    runs.end("b")
    runs.end("d")
    assert runs.events[4:] == ["shows"]
    assert runs.request(a="1", b="2", c="3", d="4") == ["a", "b", "c", "d"]


def test_an_edited_page_begins_at_once_and_shows_when_it_ends(runs):
    runs.request(a="1", b="2", c="3")
    runs.built()
    runs.request(a="1", b="2", c="4")
    assert runs.events == ["begins a", "begins b", "begins c"]
    runs.end("c")
    assert runs.events[3:] == ["shows"]
    assert runs.request(a="1", b="2", c="4") == ["c"]


def test_an_edited_page_that_ends_within_a_moment_is_in_the_build_itself(runs, monkeypatch):
    monkeypatch.setattr("galley.show.background_runs.MOMENT", 5)
    runs.request(a="1", b="2")
    threading.Timer(0.1, runs.end, ["b"]).start()
    assert runs.request(a="1", b="3") == ["b"]
    assert "shows" not in runs.events


def test_what_is_no_longer_wanted_is_not_begun(runs):
    runs.request(a="1", b="2")
    runs.request(a="1")
    runs.built()
    runs.end("a")
    assert runs.events == ["begins a", "shows"]
    assert runs.progress() == {"ended": 1, "pages": 1, "running": [], "failed": []}


def test_many_pages_show_a_few_times(runs):
    codes = {f"p{n:02}": str(n) for n in range(20)}
    runs.request(**codes)
    runs.built()
    for name in codes:
        runs.end(name)
    assert runs.events.count("shows") == 3  # after five, ten and twenty
