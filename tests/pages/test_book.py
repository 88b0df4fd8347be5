"""What every page of the book keeps to, beyond being right: snippets, notebooks, repeatable builds."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from dev.changed import changed
from galley import pytest_plugin
from galley.book import Book
from galley.check import citations
from galley.read.notebook import read
from galley.show import notebook_of_page
from tests.conftest import build_site
from tests.pages.second_run import differing

ROOT = Path(__file__).parents[2]
BOOK = Book(ROOT)
PAGES = {name: read(name, text) for name, text in BOOK.pages().items()}
RUNNING = [name for name, page in PAGES.items() if any(block.runs for block in page.blocks)]
COLUMN = 88  # characters of code on a desktop
SNIPPETS = [
    pytest.param(name, block.code, id=f"{Path(name).stem}:{block.line}")
    for name, page in PAGES.items()
    for block in page.blocks
    if "standalone" in block.options
]
IN_JUPYTER = {"docs/museum/order.md", "docs/reference/speed.md", "docs/workbook/index.md"}  # the others, where slow


@pytest.fixture(scope="session")
def results(pytestconfig):
    return pytest_plugin.results(pytestconfig, PAGES)


@pytest.fixture(scope="session")
def touched(results):
    """The pages that have changed, or whose modules and files have, by git: the others ran twice before."""
    needs = {name: {name, *(need[1] for need in result.needs)} for name, result in results.items()}
    return {name: results[name] for name in RUNNING if needs[name] & changed()}


@pytest.fixture(scope="session")
def notebooks(pytestconfig, results):
    """Return a function that runs the notebooks made of pages, but for what cannot run elsewhere."""

    def run(names):
        portable = [name for name in names if notebook_of_page.is_portable(results[name])]
        begin = lambda missing: notebook_of_page.run(BOOK, {name: results[name] for name in missing})  # noqa: E731
        jobs = pytest_plugin.shared(pytestconfig, "notebooks", portable, begin)
        return {name: jobs[name] for name in portable}

    return run


def test_signed_values_have_one_color_map_and_magnitudes_another():
    code = "\n".join(block.code for page in PAGES.values() for block in page.blocks)
    named = re.findall(r"cmap[\"']?\s*[:=]\s*[\"'](\w+)", code) + re.findall(r"plt\.(?:cm\.|get_cmap\(.)(\w+)", code)
    assert set(named) == {"RdBu_r", "viridis"}


@pytest.mark.parametrize("name", RUNNING)
def test_code_that_is_not_folded_fits_its_column(name):
    """Break the line, or fold the block: <!-- block: fold -->."""
    open_blocks = [block for block in PAGES[name].blocks if not block.options.keys() & {"fold", "source"}]
    lines = [(block.line + n, line) for block in open_blocks for n, line in enumerate(block.code.split("\n"))]
    long = [f"{name}:{n}: {len(line)} characters, of {COLUMN}: {line}" for n, line in lines if len(line) > COLUMN]
    assert not long, "\n".join(long)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), SNIPPETS)
def test_a_snippet_runs_in_an_empty_folder_without_the_package(name, code, tmp_path):
    """In an interpreter of its own; the engine runs it so too, but where torch and Matplotlib are loaded already."""
    blocked = "import sys\nsys.modules['posenc'] = None\n"
    (tmp_path / "snippet.py").write_text(blocked + code)
    command = [sys.executable, "-W", "error", "snippet.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{name}\n{done.stderr}"


def test_notebooks_of_what_has_changed_run_as_they_stand(touched, notebooks):
    assert _errors(notebooks(touched)) == {}


@pytest.mark.slow
def test_all_notebooks_run_as_they_stand(notebooks):
    assert _errors(notebooks(RUNNING)) == {}


def _errors(jobs):
    errors = {name: [step["error"] for step in job.results if "error" in step] for name, job in jobs.items()}
    return {name: messages for name, messages in errors.items() if messages}


@pytest.mark.parametrize("name", RUNNING)
def test_the_notebook_is_a_valid_one(name, results):
    if not notebook_of_page.is_portable(results[name]):
        pytest.skip("it reads more of the project than measurements")
    nbformat.validate(_read_notebook(results[name]))


@pytest.mark.parametrize("name", [n if n in IN_JUPYTER else pytest.param(n, marks=pytest.mark.slow) for n in RUNNING])
def test_the_notebook_runs_in_jupyter(name, results, tmp_path):
    if not notebook_of_page.is_portable(results[name]):
        pytest.skip("it reads more of the project than measurements")
    document = _read_notebook(results[name])
    document.cells.insert(0, nbformat.v4.new_code_cell("import sys\nsys.modules['galley'] = None"))
    at = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(document, timeout=300, kernel_name="python3", resources=at).execute()
    assert any(cell.cell_type == "code" and cell.execution_count for cell in document.cells)


def _read_notebook(result):
    return nbformat.reads(notebook_of_page.notebook(result, BOOK.site, ROOT), as_version=4)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_it_is(name):
    """Start it with its title and a description, for search engines and the tab: ---, title: …, description: …, ---."""
    meta = "\n".join(PAGES[name].lines[: PAGES[name].meta_lines])
    missing = [field for field in ("title", "description") if not re.search(rf"^{field}: \S", meta, re.M)]
    assert not missing, f"{name}: no {' and no '.join(missing)} between --- and --- on top"


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("docs/chapters/")])
def test_a_chapter_stands_in_the_navigation(name):
    """Name it under `nav:` in mkdocs.yml, where a reader should meet it."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2].partition("\ntheme:")[0]
    assert f"- {name.removeprefix('docs/')}\n" in nav, f"nav: of mkdocs.yml does not name {name.removeprefix('docs/')}"


def test_every_work_in_the_bibliography_is_cited():
    entries = citations.read(BOOK.bibliography).entries
    text = "\n".join(page.text for name, page in PAGES.items() if name != "docs/reference/bibliography.md")
    assert [key for key in entries if not re.search(rf"bibliography\.md#{key}\)|<!-- cite: {key},", text)] == []


def test_figure_names_are_unique_over_the_book():
    """Call one of them otherwise: the site keeps them in one folder."""
    names = [figure.src for page in PAGES.values() for block in page.blocks for figure in block.figures]
    twice = sorted({name for name in names if names.count(name) > 1})
    assert not twice, f"two figures are called {' and '.join(twice)}"


def test_two_runs_of_what_has_changed_give_the_same_bytes(touched, notebooks):
    """All that a page gives, figures included; only the seconds it took may differ."""
    assert differing(BOOK, touched, notebooks(touched)) == []


@pytest.mark.slow
def test_two_runs_from_nothing_give_the_same_bytes(results, notebooks):
    assert differing(BOOK, results, notebooks(RUNNING), every=True) == []


def test_a_strict_build_gives_the_site(site_build):
    """Mend what it names; the other tests have the site of a build that is not strict."""
    _, wrong = site_build
    if wrong:
        pytest.fail(wrong, pytrace=False)


@pytest.mark.full
def test_two_site_builds_give_the_same_bytes(built_site, tmp_path):
    """Apart from the sitemap's date, which the build takes from SOURCE_DATE_EPOCH."""
    first, second = (_files(folder) for folder in (built_site, build_site(tmp_path / "again")))
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def _files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
