"""Time the engine beside mkdocs-jupyter and markdown-exec, on the same book, in one run.

    python docs/engine/bench.py [--pages 30] [--blocks 10] [--figures 3] [--rounds 3]

Makes a book of chapters in a temporary folder, in each tool's own dialect, and measures a build from nothing, a build
with nothing changed, the time from saving an edit to the new page under `mkdocs serve`, and the peak memory of all
processes together (proportional set size, Linux). Medians over the rounds; the tools take turns.
"""

import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import psutil

HERE = Path(__file__).parent
SITE = """\
site_name: bench
site_url: http://127.0.0.1:{port}/
theme: {{name: material, font: false}}
plugins: [search{plugins}]
hooks: [{hook}]
markdown_extensions:
  - md_in_html
  - attr_list
  - pymdownx.superfences
  - pymdownx.arithmatex: {{generic: true}}
{extension}
"""
SETTINGS = '[tool.galley]\ndocs = "docs"\nsources = []\nbibliography = "docs/none.bib"\nsite = "http://127.0.0.1/"\n'
DRAW = "fig, ax = plt.subplots(figsize=(6, 2.6))\nax.plot(np.sin(np.arange(256) * {f}))\nax.set(xlabel='position')"
COUNT = "x = torch.randn(64, 64)\nprint({n} * {n})"
SHOW_SVG = """
import io
svg = io.StringIO()
fig.savefig(svg, format="svg")
plt.close(fig)
print(svg.getvalue())"""
KERNEL = """\
---
jupyter:
  kernelspec:
    display_name: Python 3
    language: python
    name: python3
---

"""
IMPORTS = "import matplotlib.pyplot as plt\nimport numpy as np\nimport torch"


class Galley:
    """Plain Markdown, run by this engine."""

    name, plugins, hook, extension = "galley", "", HERE / "hook.py", "  - galley.markdown"

    def block(self, code: str, figure: str | None, output: str | None) -> str:
        """Return a block with what it shows."""
        shown = f"\n```output\n{output}\n```\n" if output else ""
        drawn = f"\n![A figure]({figure})\n" if figure else ""
        return f"```python\n{code}\n```\n{shown}{drawn}"

    def page(self, title: str, blocks: list[str]) -> str:
        """Return a page."""
        return f"# {title}\n\nProse.\n\n" + "\n\nProse.\n\n".join(blocks) + "\n"


class Executed(Galley):
    """markdown-exec: fences with options."""

    name, plugins, hook, extension = "markdown-exec", ", markdown-exec", None, ""

    def block(self, code: str, figure: str | None, output: str | None) -> str:
        """Return a block that prints its figure as HTML."""
        if figure:
            code += SHOW_SVG
        kind = 'html="1"' if figure else 'result="text"'
        return f'```python exec="1" source="above" session="page" {kind}\n{code}\n```\n'


class Jupyter(Galley):
    """mkdocs-jupyter: Markdown notebooks, executed."""

    name, hook, extension = "mkdocs-jupyter", None, ""
    plugins = ", mkdocs-jupyter: {execute: true, allow_errors: false}"

    def block(self, code: str, figure: str | None, output: str | None) -> str:
        """Return a block that shows its figure."""
        show = "\nplt.show()" if figure else ""
        return f"```python\n{code}{show}\n```\n"

    def page(self, title: str, blocks: list[str]) -> str:
        """Return a notebook in Markdown."""
        return KERNEL + super().page(title, blocks)


def write(tool: Galley, root: Path, options: argparse.Namespace, port: int) -> None:
    """Write the book in the tool's dialect."""
    docs = root / "docs"
    docs.mkdir(parents=True)
    hook = tool.hook.as_posix() if tool.hook else ""
    plugins = re.sub(r", (mkdocs-jupyter: .*)$", r", {\1}", tool.plugins)
    (root / "mkdocs.yml").write_text(SITE.format(port=port, plugins=plugins, hook=hook, extension=tool.extension))
    (root / "pyproject.toml").write_text(SETTINGS)
    for page in range(options.pages):
        blocks = [tool.block(IMPORTS, None, None)]
        for n in range(1, options.blocks):
            frequency = f"{0.01 * n + 0.001 * page:.3f}"
            drawn = f"figures/f{page}-{n}.svg" if n <= options.figures else None
            code = DRAW.format(f=frequency) if drawn else COUNT.format(n=n + page)
            blocks.append(tool.block(code, drawn, None if drawn else str((n + page) ** 2)))
        name = "index.md" if page == 0 else f"chapter{page}.md"
        (docs / name).write_text(tool.page(f"Chapter {page}", blocks))


class Memory(threading.Thread):
    """The peak of the proportional set size of a process and its children."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.process, self.peak, self.going = psutil.Process(pid), 0, True

    def run(self) -> None:
        """Sample until told to stop."""
        while self.going:
            try:
                family = [self.process, *self.process.children(recursive=True)]
                self.peak = max(self.peak, sum(self._pss(process) for process in family))
            except psutil.Error:
                return
            time.sleep(0.1)

    def _pss(self, process: psutil.Process) -> int:
        try:
            return process.memory_full_info().pss
        except psutil.Error:
            return 0


def mkdocs(root: Path, *arguments: str) -> subprocess.Popen:
    """Start MkDocs in a session of its own, without a word."""
    return subprocess.Popen(
        [sys.executable, "-m", "mkdocs", *arguments],
        cwd=root,
        env=quiet(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def build(root: Path) -> tuple[float, float]:
    """Build the site; return seconds and peak megabytes."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "mkdocs", "build"],
        cwd=root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=quiet(),
    )
    memory = Memory(process.pid)
    memory.start()
    if process.wait():
        raise SystemExit(f"the build in {root} failed")
    seconds = time.perf_counter() - begin
    memory.going = False
    return seconds, memory.peak / 1e6


def edit(root: Path, port: int, code: bool, dirty: bool, rounds: int) -> float:
    """Serve the site, change a page, and return the median of seconds until the page shows it."""
    flags = ["--dirty"] if dirty else []
    server = mkdocs(root, "serve", "--dev-addr", f"127.0.0.1:{port}", *flags)
    page, times = root / "docs" / "chapter3.md", []
    try:
        _wait(port, "Chapter 3", 60)
        original = page.read_text()
        for n in range(rounds + 1):  # the first edit finds cold processes, and is not counted
            mark = f"edited{n}{int(time.time())}"
            old, new = ("'position'", f"'{mark}'") if code else ("Prose.", f"Prose {mark}.")
            time.sleep(1.5)
            begin = time.perf_counter()
            page.write_text(original.replace(old, new, 1))
            _wait(port, mark, 60)
            times.append(time.perf_counter() - begin)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    return statistics.median(times[1:])


def _wait(port: int, text: str, limit: float) -> None:
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/chapter3/", timeout=60) as answer:
                if text in answer.read().decode():
                    return
        except OSError:
            pass
        time.sleep(0.02)
    raise SystemExit(f"the page never showed {text!r}")


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def quiet() -> dict[str, str]:
    """Return the environment, without the theme's banner."""
    return os.environ | {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}


def measure(tool: Galley, options: argparse.Namespace, port: int) -> dict[str, float]:
    """Measure one tool once."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "book"
        write(tool, root, options, port)
        row = {}
        row["cold"], row["peak MB"] = build(root)
        row["unchanged"], _ = build(root)
        shutil.rmtree(root / "site")
        row["prose edit"] = edit(root, port, code=False, dirty=False, rounds=options.edits)
        row["code edit"] = edit(root, port, code=True, dirty=False, rounds=options.edits)
        row["code edit, one chapter"] = edit(root, port, code=True, dirty=True, rounds=options.edits)
        return row


def main() -> None:
    """Measure the tools in turn and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("pages", 30), ("blocks", 10), ("figures", 3), ("rounds", 1), ("edits", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", choices=["galley", "markdown-exec", "mkdocs-jupyter"], action="append")
    options = parser.parse_args()
    tools = [tool for tool in (Galley(), Executed(), Jupyter()) if not options.only or tool.name in options.only]
    rows: dict[str, list[dict[str, float]]] = {tool.name: [] for tool in tools}
    for _ in range(options.rounds):
        for tool in tools:
            rows[tool.name].append(measure(tool, options, free_port()))
    columns = list(next(iter(rows.values()))[0])
    book = f"{options.pages} pages, {options.blocks} blocks and {options.figures} figures each"
    print(f"{book}; seconds, medians of {options.rounds}")
    print("| | " + " | ".join(columns) + " |")
    print("|---" + "|---:" * len(columns) + "|")
    for name, found in rows.items():
        cells = [f"{statistics.median(row[column] for row in found):.1f}" for column in columns]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
