"""The same pages build with Zensical: figures, outputs, formulas, checked numbers and links arrive intact."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from galley.book import Book
from galley.cells import SUFFIX
from tests.chromium import served

pytestmark = pytest.mark.full
ROOT = Path(__file__).parents[2]
PAGES = Book(ROOT).pages()

if importlib.util.find_spec("zensical") is None:
    if os.environ.get("REQUIRE_SUCCESSOR") == "1":
        pytest.fail("zensical is not installed; `make successor` installs it", pytrace=False)
    pytest.skip("needs zensical; `make successor` installs it", allow_module_level=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build a copy of the book; the copy's engine finds what the pages gave in the cache."""
    book = Book(ROOT)
    results = book.run(PAGES)
    root = tmp_path_factory.mktemp("zensical")
    for name in ("docs", "posenc"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("mkdocs.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    for name in (name for name in PAGES if name.endswith(SUFFIX)):  # it has no notebooks: the same page as Markdown
        (root / name).with_suffix(".md").write_text(results[name].page.text, encoding="utf-8")
        settings, page = root / "mkdocs.yml", name.removeprefix("docs/")
        navigation = settings.read_text(encoding="utf-8").replace(page, page.replace(SUFFIX, ".md"))
        settings.write_text(navigation, encoding="utf-8")
    shutil.copytree(book.folder, root / ".galley")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--config-file", "mkdocs.yml"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr, done.stdout + done.stderr
    return root / "site", results


def html(site, name):
    inside = Path(name).relative_to("docs")
    folder = inside.parent if inside.stem == "index" else inside.with_suffix("")
    return (site / folder / "index.html").read_text(encoding="utf-8")


def article(page):
    """Return what a page says; its table of contents says the headings again, with their numbers."""
    return page[page.index("<article") : page.index("</article>")]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_arrives_intact(site, name):
    folder, results = site
    page, result = article(html(folder, name)), results[name]
    blocks = result.page.blocks
    assert page.count('class="drawn-svg"') == sum(len(block.figures) for block in blocks)
    outputs = [block for block in blocks if block.output is not None and not block.output_is_markdown]
    assert len(re.findall(r'class="[^"]*language-output', page)) == len(outputs)
    assert page.count('class="katex"') >= len(result.page.formulas)
    assert page.count('class="checked"') == sum(n.operator != "given" for n in result.page.numbers)
    assert "arithmatex" not in page
    assert "<!-- =" not in page


def test_links_lead_somewhere(site):
    folder, _ = site
    broken = []
    for path in folder.rglob("*.html"):
        if path.name == "404.html":
            continue
        for target in re.findall(r'<a[^>]+href="([^"#:]+)(?:#[^"]*)?"', path.read_text(encoding="utf-8")):
            goal = (path.parent / target.partition("?")[0]).resolve()
            if not (goal.exists() or (goal / "index.html").exists()):
                broken.append(f"{path.relative_to(folder)}: {target}")
    assert broken == []


def test_a_live_figure_wakes_and_answers(site, visit):
    folder, _ = site
    with served(folder) as address:
        visited = visit(f"{address}chapters/1-sinusoidal/designing-a-code/")
        figure = visited.page.locator("posenc-figure[name=bits-and-hands]")
        figure.scroll_into_view_if_needed()
        figure.locator("canvas").first.wait_for()
        figure.locator("input[type=range]").press("End")
        figure.locator(".stage-say", has_text="Position 63 is 111111").wait_for()
        assert not visited.foreign(address)
