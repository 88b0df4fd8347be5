"""A served book answers at once, with what it has; its pages run behind, and show as they come."""

import json
import os
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
from tests.engine.conftest import NOT_ALL_HOLDS, left

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
        environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "SERVED": str(root)}
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
    page = server.wait("draws/", "Being drawn")
    assert re.search(r'class="drawn-svg undrawn" role="img" aria-label="A rising line"', page)
    assert "<figcaption>It rises.</figcaption>" in page
    assert 'data-page="docs/draws.md"' in page
    assert "import.meta.url" in server.get("galley/progress.js")

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
    page = server.wait("draws/", '<svg role="img"')
    assert "undrawn" not in page
    told = server.log.read_text().count("docs/fails.md failed")
    time.sleep(2)
    assert server.log.read_text().count("docs/fails.md failed") == told  # it is not run over and over

    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text().replace('Traceback (most recent call last):\n  File "docs/', "")
    end = time.monotonic() + 60  # a fork server that was just begun loads torch before it looks around
    while left(project.root) and time.monotonic() < end:
        time.sleep(0.1)
    assert left(project.root) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_runs_behind_ends_with_the_server_at_once(project, served):
    server, _ = served()
    server.wait("draws/", "Being drawn")
    assert server.stop() == 0
    end = time.monotonic() + 60  # a fork server that was just begun loads torch before it looks around
    while left(project.root) and time.monotonic() < end:
        time.sleep(0.1)
    assert left(project.root) == []


def test_a_taken_port_is_named_before_anything_is_built(project):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "mkdocs", "serve", "--dev-addr", f"127.0.0.1:{port}"]
        done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    output = done.stdout + done.stderr
    assert f"port {port} is in use" in output
    assert "pages:" not in output
    assert "Traceback" not in output


def test_a_built_site_has_no_word_of_it(project):
    project.take_theme()
    project.page("index.md", QUICK.format("Home", 1, 1))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=project.root, env=environment, capture_output=True, check=True)
    assert "progress" not in (project.root / "site" / "index.html").read_text()
    assert not (project.root / "site" / "galley").exists()


@pytest.fixture
def behind(project, monkeypatch):
    """A book whose pages end when the test says so, run behind; and what it did, in order."""
    done, happened = {}, []

    def run(jobs, workers, ended):
        [job] = jobs
        happened.append(f"begins {job.filename}")
        done.setdefault(job.filename, threading.Event()).wait(10)
        job.results = [{"stdout": "", "figures": []} for _ in job.steps]
        ended(job)

    monkeypatch.setattr("galley.show.background_runs.run_jobs", run)
    monkeypatch.setattr("galley.show.background_runs.MOMENT", 0.2)
    found = BackgroundRuns(Book(project.root, jobs=2), lambda line: None, lambda: happened.append("shows"))

    def perform(**codes):
        jobs = [found.book.job(name, [{"kind": "block", "lang": "python", "options": {}, "code": code, "line": 1}])
                for name, code in codes.items()]  # fmt: skip
        known = []
        found.perform(jobs, lambda job: known.append(job.filename))
        return known

    def end(name):
        before = found.progress()["ended"]
        done.setdefault(name, threading.Event()).set()
        limit = time.monotonic() + 5
        while found.progress()["ended"] == before and time.monotonic() < limit:
            time.sleep(0.01)

    yield found, perform, end, happened
    for event in done.values():
        event.set()


def test_pages_run_in_order_and_a_processor_is_left_to_the_build(behind):
    found, perform, end, happened = behind
    assert perform(a="1", b="2", c="3", d="4") == []
    assert happened == ["begins a"]
    found.built()
    assert happened == ["begins a", "begins b"]
    end("a")
    assert happened[2:] == ["begins c"]
    end("c")
    end("b")
    assert happened[3:] == ["begins d"]
    end("d")
    assert happened[4:] == ["shows"]
    assert perform(a="1", b="2", c="3", d="4") == ["a", "b", "c", "d"]


def test_an_edited_page_begins_at_once_and_shows_when_it_ends(behind):
    found, perform, end, happened = behind
    perform(a="1", b="2", c="3")
    found.built()
    perform(a="1", b="2", c="4")
    assert happened == ["begins a", "begins b", "begins c"]
    end("c")
    assert happened[3:] == ["shows"]
    assert perform(a="1", b="2", c="4") == ["c"]


def test_an_edited_page_that_ends_within_a_moment_is_in_the_build_itself(behind, monkeypatch):
    _, perform, end, happened = behind
    monkeypatch.setattr("galley.show.background_runs.MOMENT", 5)
    perform(a="1", b="2")
    threading.Timer(0.1, end, ["b"]).start()
    assert perform(a="1", b="3") == ["b"]
    assert "shows" not in happened


def test_what_is_no_longer_wanted_is_not_begun(behind):
    found, perform, end, happened = behind
    perform(a="1", b="2")
    perform(a="1")
    found.built()
    end("a")
    assert happened == ["begins a", "shows"]
    assert found.progress() == {"ended": 1, "pages": 1, "running": [], "failed": []}


def test_many_pages_show_a_few_times(behind):
    found, perform, end, happened = behind
    codes = {f"p{n:02}": str(n) for n in range(20)}
    perform(**codes)
    found.built()
    for name in codes:
        end(name)
    assert happened.count("shows") == 3  # after five, ten and twenty
