"""The MkDocs hook: run what changed before the site is built, report what is wrong, add the notebooks."""

import logging
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from galley import notebook
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
        for problem in result.problems:
            log.warning("%s:%d: %s", name, problem.line, problem.message)
        if notebook.portable(result.page):
            uri = PurePosixPath(name).relative_to(prefix).with_suffix(".ipynb").as_posix()
            files.append(File.generated(config, uri, content=_notebook(result, book)))
    log.info("%s", summary(results, watch))
    if config.strict and (wrong := sum(len(result.problems) for result in results.values())):
        raise Abort(f"{wrong} problems on the pages")  # MkDocs counts warnings, and --quiet hides them from it
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Tell the theme where the page's notebook is."""
    made = files.get_file_from_path(PurePosixPath(page.file.src_uri).with_suffix(".ipynb").as_posix())
    if made is not None:
        page.meta["notebook"] = made.url_relative_to(page.file)
    return markdown


def _notebook(result: Result, book: Book) -> str:
    text, made = _notebooks.get(result.name, ("", ""))
    if not result.cached or text != result.page.text:
        made = notebook.notebook(result, book.site, book.root)
        _notebooks[result.name] = result.page.text, made
    return made


def _progress(result: Result) -> None:
    if not result.cached:
        log.info("ran %s in %s", result.name, timed(result.seconds))
