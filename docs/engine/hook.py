"""The MkDocs hook: run what changed before the site is built, report what is wrong, add the notebooks.

mkdocs-jupyter makes a notebook of the book a page; what it says is set as Markdown, like all other pages.
"""

import logging
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from galley import cells, notebook
from galley.__main__ import summary
from galley.book import Book, Result, Stopwatch, timed
from galley.markdown import shared_book

log = logging.getLogger("mkdocs.galley")
_notebooks: dict[str, tuple[str, str]] = {}  # by page: the text it was made from, and the notebook


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Run the pages; a problem is a warning, which fails a strict build."""
    book, watch = shared_book(), Stopwatch()
    prefix = book.docs.relative_to(book.root).as_posix()
    pages = {}
    for file in files.documentation_pages():
        if file.abs_src_path and Path(file.abs_src_path).is_relative_to(book.docs):
            pages[f"{prefix}/{file.src_uri}"] = Path(file.abs_src_path).read_text(encoding="utf-8", errors="replace")
    results = book.run(pages, _progress)
    for name, result in results.items():
        for problem in result.report:
            log.warning("%s", problem)
        if notebook.portable(result):
            uri = _download(name.removeprefix(f"{prefix}/"))
            files.append(File.generated(config, uri, content=_notebook(result, book)))
    log.info("%s", summary(results, watch))
    if config.strict and (wrong := sum(len(result.problems) for result in results.values())):
        raise Abort(f"{wrong} problems on the pages")  # MkDocs counts warnings, and --quiet hides them from it
    return files


def on_pre_page(page: Page, config: MkDocsConfig, files: Files) -> Page:
    """Take back the conversion of a notebook, which would bring the styles of JupyterLab, 600 KB a page."""
    if page.file.src_uri.endswith(cells.SUFFIX):
        vars(page).pop("render", None)
    return page


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    """Return what a notebook says as Markdown."""
    path = page.file.abs_src_path or ""
    return cells.read(path, Path(path).read_text(encoding="utf-8")).text if path.endswith(cells.SUFFIX) else None


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Tell the theme where the page's notebook is."""
    made = files.get_file_from_path(_download(page.file.src_uri))
    if made is not None:
        page.meta["notebook"] = made.url_relative_to(page.file)
    return markdown


def _download(uri: str) -> str:
    """Return where the notebook made from a page lies: beside it, or in the folder of a page that is one itself."""
    path = PurePosixPath(uri)
    is_one = path.suffix == cells.SUFFIX
    return (path.with_suffix("") / path.name if is_one else path.with_suffix(cells.SUFFIX)).as_posix()


def _notebook(result: Result, book: Book) -> str:
    text, made = _notebooks.get(result.name, ("", ""))
    if not result.cached or text != result.page.text:
        made = notebook.notebook(result, book.site, book.root)
        _notebooks[result.name] = result.page.text, made
    return made


def _progress(result: Result) -> None:
    if not result.cached:
        log.info("ran %s in %s", result.name, timed(result.seconds))
