"""A page as a Jupyter notebook that runs as it stands, with its outputs, the same bytes at every build."""

import ast
import doctest
import hashlib
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from galley.book import Book, Result
from galley.read.notebook import SUFFIX
from galley.read.page import CODE_SPAN, COMMENT, LINK, Block
from galley.run.content_cache import digest_of
from galley.run.dependencies import digest
from galley.run.pool import Job

REPOSITORY = "https://github.com/posenc/posenc"
INSTALL = """\
# Where {package} is missing, as in Colab: install it from its repository, which is as new as this page.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("{package}") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", {wanted}, "matplotlib"], check=True)
    importlib.invalidate_caches()"""


SETUP = """\
# What the site does before it runs a page: seeds, one thread, and its look for figures.
import random

import matplotlib.pyplot as plt
import numpy as np
import torch

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
torch.set_num_threads(1)
plt.rcParams.update({"figure.figsize": (7, 2.8), "figure.constrained_layout.use": True, "image.aspect": "auto"})"""


DATA = """\
# The measurements that this page reads.
from pathlib import Path, PurePosixPath

Path("{folder}").mkdir(parents=True, exist_ok=True)
Path("{path}").write_text({text!r})"""

# A comment, and code in which a comment is only shown.
HIDDEN = re.compile(rf"{CODE_SPAN.pattern}|{COMMENT.pattern}", CODE_SPAN.flags)


def is_portable(result: Result) -> bool:
    """Whether a page can be taken along: it runs, and of the project's files it reads measurements alone."""
    return any(block.runs for block in result.page.blocks) and all(path.endswith(".json") for path in result.reads)


def place(uri: str) -> str:
    """Return where the notebook made of a page lies, on the site as on the branch, by the page's place in docs."""
    return PurePosixPath(uri).with_suffix(SUFFIX).as_posix()


def cached_notebook(result: Result, book: Book) -> str:
    """Return the notebook of a page, from the cache if nothing of it has changed."""
    reads = [digest_of(book.root / path) for path in result.reads]
    key = digest("notebook", book.surroundings, result.name, result.page.text, result.outcome_digest, *reads)
    text = book.content_cache.get(key)
    if text is None:
        text = notebook(result, book.site, book.root)
        book.content_cache.put(key, text)
    return text


def notebook(result: Result, site: str, root: Path) -> str:
    """Return the page as notebook JSON; `site` is the address its links lead to, `root` the project's folder."""
    # Cells without text are left out: between two blocks there may be no prose.
    cells = [cell for cell in (*_opening(result, site, root), *_content(result, site, root)) if _source(cell).strip()]
    for n, cell in enumerate(cells):
        # Jupyter asks for an id of each cell. One of its own making would be another at each build.
        cell["id"] = hashlib.sha256(f"{n} {_source(cell)}".encode()).hexdigest()[:12]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    book = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    # The form in which Jupyter itself writes a notebook.
    return json.dumps(book, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _opening(result: Result, site: str, root: Path) -> Iterator[dict]:
    """Yield the cells that the page has not: they install what it needs, set it up, and write the data it reads."""
    yield _markdown(f"Made from a page of <{site}>. What the page needs is installed first, where it is missing.")
    yield _code(_install("\n".join(block.code for block in result.page.blocks)))
    yield _code(SETUP)
    for path in result.reads:
        # One line, however the file is laid out: a reader scrolls past it.
        text = json.dumps(json.loads((root / path).read_text(encoding="utf-8")))
        yield _code(DATA.format(folder=posixpath.dirname(path), path=path, text=text))


def _content(result: Result, site: str, root: Path) -> Iterator[dict]:
    """Yield the cells of the page itself: each block that runs, and the prose between two of them."""
    page = result.page
    address = posixpath.join(site, posixpath.dirname(result.name).partition("/")[2])
    folder = (root / result.name).parent
    by_block = result.by_block
    position = page.meta_lines
    for block in page.blocks:
        # Code that does not run is shown as it stands, in the prose.
        if not block.runs:
            continue
        yield _markdown(prose(page.lines[position : block.span[0]], address, folder))
        yield _cell(block, by_block.get(block.line) or {})
        position = _after(block)
    yield _markdown(prose(page.lines[position:], address, folder))


def _install(code: str) -> str:
    """Return a cell that installs what a page's code imports: before the first release as after it."""
    package = "posenc"
    sources = [f"git+{REPOSITORY}"]
    # The book's package needs posenc as new as itself, which comes from the repository too.
    if re.search(r"^(?:>>> )?(?:from|import) posenc_book\b", code, re.M):
        package = "posenc_book"
        sources.append(f"git+{REPOSITORY}#subdirectory=docs/book")
    return INSTALL.format(package=package, wanted=", ".join(f'"{source}"' for source in sources))


def run(book: Book, results: dict[str, Result]) -> dict[str, Job]:
    """Run the notebooks made of pages, each in an empty folder of its own with nothing but what a reader has."""
    notebooks = {name: json.loads(notebook(result, book.site, book.root)) for name, result in results.items()}
    steps = {name: _steps(book, content) for name, content in notebooks.items()}
    jobs = {name: book.job(f"{name} as a notebook", steps[name], alone=True) for name in notebooks}
    book.perform(list(jobs.values()))
    return jobs


def _steps(book: Book, notebook: dict) -> list[dict]:
    """Return the code cells as steps; a line of theirs counts from the first line of the first cell."""
    steps: list[dict] = []
    line = 1
    for cell in notebook["cells"]:
        code = _source(cell)
        if cell["cell_type"] == "code":
            # The page has checked which error it raises; a notebook only says that one may come.
            options = {"raises": "*"} if "raises-exception" in cell["metadata"].get("tags", []) else {}
            step = {"kind": "cell", "lang": "python", "code": code, "line": line, "options": options}
            # A cell holds a whole block, whose own limit it does not know.
            steps.append(step | {"limit": 5 * book.limit})
            line += code.count("\n") + 1
    return steps


def _markdown(source: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": source.splitlines(keepends=True)}


def _code(source: str, outputs: list[dict] | None = None, tags: list[str] | None = None) -> dict:
    lines = source.splitlines(keepends=True)
    metadata = {"tags": tags} if tags else {}
    fields = {"execution_count": None, "metadata": metadata, "outputs": outputs or []}
    return {"cell_type": "code", "source": lines, **fields}


def _source(cell: dict) -> str:
    """Return the text of a cell, which notebooks keep as a list of lines."""
    return "".join(cell["source"])


def _cell(block: Block, outcome: dict) -> dict:
    """Return a block that runs as a cell, with what it gave."""
    source = _session(block.code) if block.lang == "pycon" else block.code
    outputs = []
    if text := outcome.get("stdout"):
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    for svg, drawn in zip(outcome.get("figures", []), block.figures, strict=False):
        data = {"image/svg+xml": svg.splitlines(keepends=True), "text/plain": drawn.alt.splitlines(keepends=True)}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    # With this tag Jupyter goes on behind a cell that fails.
    if "raises" in block.options:
        return _code(source, tags=["raises-exception"])
    return _code(source, outputs)


def _session(code: str) -> str:
    """Return a session's statements; what it echoes is printed."""
    lines = []
    for example in doctest.DocTestParser().get_examples(code + "\n"):
        source = example.source.rstrip()
        # A cell shows the value of its last line alone. What a session prints itself needs no second print.
        echoes = example.want and _is_expression(source) and not source.startswith("print(")
        lines.append(f"print(repr(\n    {source}\n))" if echoes else source)
    return "\n".join(lines)


def _is_expression(source: str) -> bool:
    """Whether a statement has a value, which a session echoes."""
    try:
        ast.parse(source, mode="eval")
    except SyntaxError:
        return False
    return True


def _after(block: Block) -> int:
    """Return the first line after a block, its output and its figures; captions stay prose."""
    end = block.span[1]
    if block.output_span:
        end = block.output_span[1] + 1
    if block.figures:
        end = max(end, block.figures[-1].line)
    return end


def prose(lines: list[str], address: str, folder: Path) -> str:
    """Return Markdown of a page in `folder` without what only the engine reads, its links leading to the site."""
    text = HIDDEN.sub(lambda part: part[0] if part["code"] else "", "\n".join(lines))
    # Notebooks and programs show no folds: the summary becomes a heading, and what it hides stands open.
    text = re.sub(r"^<details[^>]*>\s*<summary>(.*?)</summary>", r"**\1.**", text, flags=re.M)
    text = re.sub(r"^</details>\s*$", "", text, flags=re.M)
    # > [!WARNING] is a box on the site only.
    text = re.sub(r"^(\s*>\s*)\[!(\w+)\]\s*$", lambda quote: f"{quote[1]}**{quote[2].title()}.** ", text, flags=re.M)
    # [words][posenc.rotate.rope] is a link that autorefs resolves when the site is built.
    text = re.sub(r"\[([^\]\n]+)\]\[[\w.]*\]", r"\1", text)
    # The anchor of a heading, {#name}.
    text = re.sub(r"^(#+ .*?)[ \t]*\{#[\w.-]+\}[ \t]*$", r"\1", text, flags=re.M)
    return LINK.sub(lambda link: _link(link, address, folder), text).strip()


def _link(link: re.Match, address: str, folder: Path) -> str:
    """Return a link of a page in `folder` with its target on the site, where `address` is that of the folder."""
    target = link["target"]
    # A link to another site, or to a heading of this page.
    if re.match(r"[a-z]+:|#", target):
        return link[0]
    file, *view = re.split(r"(?=[?#])", target, maxsplit=1)
    # Without the scheme, whose two slashes normpath would join.
    scheme, _, path = address.partition("://")
    goal = posixpath.normpath(posixpath.join(path, file))
    # An .ipynb that is no file is the download made of a page, and has its place on the site under this very name.
    is_page = file.endswith(".md") or (folder / file).is_file()
    goal = re.sub(r"(?:/index)?\.(?:md|ipynb)$", "/", goal) if is_page else goal
    return link[0].replace(target, f"{scheme}://{goal}{''.join(view)}")
