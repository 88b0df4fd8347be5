"""The MkDocs hook: run what changed before the site is built, report what is wrong, add the notebooks.

A build writes beside the site that stands and takes its place at the end, so a build that fails or is killed costs
nothing. A server shows what is known, and pages run behind it. mkdocs-jupyter makes a notebook of the book a page; what
it says is set as Markdown, like all other pages.
"""

import logging
from functools import partial
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.livereload import LiveReloadServer
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.utils import CountHandler

from galley import around, aside, cells, notebook, search
from galley.__main__ import summary
from galley.around import Shown, Site
from galley.book import Book, Result, Stopwatch, timed
from galley.markdown import shared_book
from galley.memory import digest_of
from galley.needs import digest
from galley.render import Renderer
from galley.serving import Serving, wrong

log = logging.getLogger("mkdocs.galley")
_site: Path | None = None  # where the site belongs while it is built beside
_warnings = CountHandler(level=logging.WARNING)
_in_place = _dirty = False  # whether to write straight into the site's folder, and only the pages with an edit
_serving: Serving | None = None
_results: dict[str, Result] = {}  # by the page's place in docs
_renderer: Renderer | None = None
_around: Site | None = None  # what is being built, with its book

FIRST, LAST = 1000, -1000


def on_startup(command: str, dirty: bool) -> None:
    """Note what MkDocs is to do: what it serves lies in a temporary folder, and a dirty build mends a site."""
    global _in_place, _dirty, _serving
    _in_place, _dirty = command == "serve" or dirty, dirty
    _serving = Serving(shared_book()) if command == "serve" else None


def on_shutdown() -> None:
    """End what runs behind."""
    if _serving:
        _serving.behind.stop()


def on_serve(server: LiveReloadServer, config: MkDocsConfig, builder) -> None:
    """Watch for what runs behind."""
    if _serving:
        _serving.watch(server)


@event_priority(FIRST)
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Build beside the site that stands."""
    global _site
    if not _in_place:
        _site = Path(config.site_dir).resolve()
        config.site_dir = str(aside.beside(_site))
        _warnings.counts.clear()
        logging.getLogger("mkdocs").addHandler(_warnings)
    return config


@event_priority(LAST)
def on_post_build(config: MkDocsConfig) -> None:
    """Put the site in its place."""
    if config.strict and _warnings.counts:
        return  # MkDocs is about to say that warnings fail a strict build
    if _around:
        around.files(_around)
    if _site:
        aside.replace(_site, Path(config.site_dir))
        config.site_dir = str(_site)  # for those who go on, such as gh-deploy
    shared_book().memory.sweep()
    _end_build()


def on_build_error(error: Exception) -> None:
    """Leave the site as it was."""
    if _site:
        log.info("The site in %s stays as it was", _site)
    _end_build()


def _end_build() -> None:
    global _site
    _site = None
    logging.getLogger("mkdocs").removeHandler(_warnings)
    if _serving:
        _serving.behind.built()


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
    results, before = book.run(texts, _progress, behind), dict(_results)
    _results.clear()
    for name, result in results.items():
        file = places[name]
        _results[file.src_uri] = result
        if _dirty and file.src_uri in before and before[file.src_uri].outcome != result.outcome:
            Path(file.abs_dest_path).unlink(missing_ok=True)  # MkDocs would take the page for unchanged
        for problem in result.report:
            log.warning("%s", problem)
        if notebook.portable(result):
            files.append(File.generated(config, _download(file.src_uri), content=_notebook(result, book)))
    log.info("%s", summary(results, watch))
    if config.strict and (problems := sum(len(result.problems) for result in results.values())):
        raise Abort(f"{problems} problems on the pages")  # MkDocs counts warnings, and --quiet hides them from it
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Prepare to render, now that all files are known."""
    global _renderer, _around
    _renderer = Renderer(shared_book(), {uri: result.outcome for uri, result in _results.items()}, config)
    _around = Site.of(Path(config.site_dir), shared_book(), _results, served=_serving is not None)
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


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Tell the theme where the page's notebook is."""
    made = files.get_file_from_path(_download(page.file.src_uri))
    if made is not None:
        page.meta["notebook"] = made.url_relative_to(page.file)
    return markdown


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Say on a served page what is wrong with it."""
    result = _results.get(page.file.src_uri)
    return wrong(result) + content if _serving and result else content


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Put around a page what belongs there; show on a served one how far the others are."""
    if _around and page.file.src_uri in _results:
        output = around.page(output, Shown(page.file.src_uri, _results[page.file.src_uri]), _around)
    return _serving.shown(output, page, _name(page.file.src_uri)) if _serving else output


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


def _download(uri: str) -> str:
    """Return where the notebook made from a page lies: beside it, or in the folder of a page that is one itself."""
    path = PurePosixPath(uri)
    is_one = path.suffix == cells.SUFFIX
    return (path.with_suffix("") / path.name if is_one else path.with_suffix(cells.SUFFIX)).as_posix()


def _notebook(result: Result, book: Book) -> str:
    reads = [digest_of(book.root / path) for path in result.reads]
    key = digest("notebook", book.around, result.name, result.page.text, result.outcome, *reads)
    made = book.memory.get(key)
    if made is None:
        made = notebook.notebook(result, book.site, book.root)
        book.memory.put(key, made)
    return made


def _progress(result: Result) -> None:
    if not result.cached and not _serving:
        log.info("ran %s in %s", result.name, timed(result.seconds))
