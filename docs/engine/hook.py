"""The MkDocs hook: run what changed before the site is built, report what is wrong.

What any builder does is in `galley.making`; here MkDocs' events call it. A server shows what is known, and pages run
behind it. mkdocs-jupyter makes a notebook of the book a page; what it says is set as Markdown, like all other pages.
"""

import logging
import os
import sys
from functools import partial
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.livereload import LiveReloadServer
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.utils import CountHandler

from galley import around, cells, notebook, search
from galley.around import notebooks
from galley.around.site import Shown
from galley.book import Book, Result, Stopwatch, timed
from galley.making import Making, problems
from galley.markdown import shared_book
from galley.render import Renderer
from galley.serving import Serving
from galley.telling import summary

log = logging.getLogger("mkdocs.galley")
_warnings = CountHandler(level=logging.WARNING)
_in_place = _dirty = False  # whether to write straight into the site's folder, and only the pages with an edit
_serving: Serving | None = None
_making: Making | None = None
_before: dict[str, Result] = {}  # what the pages gave when they were last built, by their places in docs
_renderer: Renderer | None = None

FIRST, LAST = 1000, -1000


def on_startup(command: str, dirty: bool) -> None:
    """Note what MkDocs is to do: what it serves lies in a temporary folder, and a dirty build mends a site."""
    global _in_place, _dirty, _serving
    _in_place, _dirty = command not in ("build", "gh-deploy") or dirty, dirty  # mike asks only where a site lies
    _serving = Serving(shared_book()) if command == "serve" else None


def on_shutdown() -> None:
    """End what runs behind; say of a build that is interrupted, which is no error to MkDocs, what became of it."""
    if _serving:
        _serving.behind.stop()
    if _making and not _in_place:
        _making.close()
        _explain(sys.exc_info()[1])


def on_serve(server: LiveReloadServer, config: MkDocsConfig, builder) -> None:
    """Watch for what runs behind."""
    if _serving:
        _serving.watch(server)


@event_priority(FIRST)
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Build beside the site that stands; show the selector of versions where mike builds one of several."""
    global _making, _before
    _before = _making.results if _making else {}
    _making = Making(shared_book(), Path(config.site_dir), _in_place)
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike", "default": "latest"}
    if not _in_place:
        _making.claim()
        config.site_dir = str(_making.folder)
        _warnings.counts.clear()
        logging.getLogger("mkdocs").addHandler(_warnings)
    return config


@event_priority(LAST)
def on_post_build(config: MkDocsConfig) -> None:
    """Put the site in its place."""
    if config.strict and _warnings.counts:
        return  # MkDocs is about to say that warnings fail a strict build
    if _making:
        _making.end()
        config.site_dir = str(_making.place)  # for those who go on, such as gh-deploy
    _end_build()


def on_build_error(error: Exception) -> None:
    """Leave the site as it was."""
    _end_build()
    if _making and not _in_place:
        _explain(error)
        log.info("The site in %s stays as it was", _making.place)


def _explain(error: BaseException | None) -> None:
    """End with one sentence where there is one for the error."""
    reason = _making.reason(error) if _making and error else ""
    if reason:
        log.error("%s", reason)
        raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 1)


def _end_build() -> None:
    logging.getLogger("mkdocs").removeHandler(_warnings)
    if _serving:
        _serving.behind.built()
    if _making:
        _making.close()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Run the pages; a problem is a warning, which fails a strict build."""
    book, watch = shared_book(), Stopwatch()
    behind = _serving.behind.perform if _serving and not config.strict else None
    places = {_name(file.src_uri): file for file in files.documentation_pages() if _is_of(book, file)}
    order = {name: n for n, name in enumerate(_listed(config.nav))}
    names = sorted(places, key=lambda name: order.get(places[name].src_uri, len(order)))
    if _serving:
        _serving.begin(config, files)
    texts = {n: Path(places[n].abs_src_path or "").read_text(encoding="utf-8", errors="replace") for n in names}
    results = _making.run(texts, _progress, behind) if _making else {}
    if _making:
        _making.pages = [file.dest_uri for file in places.values()]
    for name, result in results.items():
        file = places[name]
        _tell(result, file)
        if notebook.portable(result) and not file.src_uri.endswith(cells.SUFFIX):
            files.append(File.generated(config, notebooks.place(file.src_uri), content=""))  # may be linked to
    log.info("%s", summary(results, watch))
    if config.strict and (wrong_ones := problems(results)):
        raise Abort(f"{wrong_ones} problems on the pages")  # MkDocs counts warnings, and --quiet hides them from it
    return files


def _tell(result: Result, file: File) -> None:
    """Log what is wrong with a page; let a dirty build write it anew where it gives something else."""
    if _dirty and file.src_uri in _before and _before[file.src_uri].outcome != result.outcome:
        Path(file.abs_dest_path).unlink(missing_ok=True)  # MkDocs would take the page for unchanged
    for problem in result.report:
        log.warning("%s", problem)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Prepare to render, now that all files are known."""
    global _renderer
    _renderer = Renderer(shared_book(), {uri: result.outcome for uri, result in _results().items()}, config)
    if _making:
        _making.begin(served=_serving is not None)
    search.remember(config, shared_book().memory)
    return nav


def on_pre_page(page: Page, config: MkDocsConfig, files: Files) -> Page:
    """Render the page by memory, and a notebook like all others: as mkdocs-jupyter does it, it brings 600 KB of styles.

    MkDocs has no event around the rendering of a page; that plugin replaces the method, and so does this.
    """
    if _renderer:
        vars(page)["render"] = partial(_renderer.render, page)
    return page


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    """Return what a notebook says as Markdown."""
    path = page.file.abs_src_path or ""
    return cells.read(path, Path(path).read_text(encoding="utf-8")).text if path.endswith(cells.SUFFIX) else None


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Put around a page what belongs there; show on a served one how far the others are."""
    result = _results().get(page.file.src_uri)
    if result and _making and _making.site:
        output = around.page(output, Shown(page.file.src_uri, result), _making.site)
    return _serving.shown(output, page, _name(page.file.src_uri)) if _serving else output


def _results() -> dict[str, Result]:
    return _making.results if _making else {}


def _name(uri: str) -> str:
    """Return a page's name from the project's root, by its place in docs."""
    book = shared_book()
    return (book.docs.relative_to(book.root) / uri).as_posix()


def _is_of(book: Book, file: File) -> bool:
    return bool(file.abs_src_path) and Path(file.abs_src_path or "").is_relative_to(book.docs)


def _listed(nav) -> list[str]:
    """Return the pages that the navigation lists, in its order."""
    if isinstance(nav, dict | list):
        return [uri for item in (nav.values() if isinstance(nav, dict) else nav) for uri in _listed(item)]
    return [nav] if isinstance(nav, str) else []


def _progress(result: Result) -> None:
    if not result.cached and not _serving:
        log.info("ran %s in %s", result.name, timed(result.seconds))
