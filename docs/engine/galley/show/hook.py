"""What MkDocs calls: run the pages before the site is built, say what is wrong, put in what the pages gave.

A server shows what is known, and pages run behind it. mkdocs-jupyter makes a notebook of the book a page; what it says
is set as Markdown, like all other pages.
"""

import logging
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.livereload import LiveReloadServer
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.utils import CountHandler

from galley.book import Book, Result, shared_book
from galley.check.counts import counts, in_words
from galley.console import Stopwatch, summary, timed
from galley.read.notebook import SUFFIX
from galley.show import copyable_files, llms_txt, mkdocs_internals, notebook_of_page, search_index
from galley.show.last_changed import last_changed
from galley.show.page_markdown import figures, page_markdown
from galley.show.picture_files import with_picture_files
from galley.show.render_cache import RenderCache
from galley.show.serve import Serving, check_port
from galley.show.site import Site, SitePage, write
from galley.show.site_folder import SiteFolder

log = logging.getLogger("mkdocs.galley")
FIRST = 1000  # before all plugins
LAST = -1000  # behind them
STYLESHEET = "assets/css/all.css"
UNKNOWN_NAME = re.compile(r'<span title="[^"<>]*">([^<]*)</span>')
# Of a stylesheet: a text, in which /* begins nothing, or a comment; those that begin with /*! are licenses, and stay.
COMMENT = re.compile(r"""("(?:\\.|[^"\\])*")|\s*/\*(?!!).*?\*/""", re.S)


class Build:
    """One run of MkDocs, which builds a site once, or again and again while it serves it."""

    def __init__(self) -> None:
        self.warnings = CountHandler(level=logging.WARNING)
        self.command = ""
        self.is_dirty = False  # whether only pages with an edit are written
        self.in_place = True  # whether the site is built where it belongs, and not beside
        self.serving: Serving | None = None
        self.folder: SiteFolder | None = None
        self.site: Site | None = None
        self.outcomes: dict[str, str] = {}  # what the pages gave when they were last built, by their places in docs
        self.written: list[str] = []  # the pages that MkDocs is to write, by their places in the site
        self.search: list[dict] = []
        self.cache: RenderCache | None = None

    @property
    def book(self) -> Book:
        """The book of the working folder."""
        return shared_book()

    @property
    def results(self) -> dict[str, Result]:
        """What the pages gave, by their places in docs."""
        return self.site.results if self.site else {}

    def on_startup(self, command: str, dirty: bool) -> None:
        """Note what MkDocs is to do: what it serves lies in a temporary folder, and a dirty build mends a site."""
        self.command, self.is_dirty = command, dirty
        self.serving = Serving(self.book) if command == "serve" else None

    def on_shutdown(self) -> None:
        """End what runs behind; say of a build that is interrupted, which is no error to MkDocs, what became of it."""
        if self.serving:
            self.serving.runs.stop()
        if self.folder and not self.in_place:
            self.folder.close()
            self._explain(sys.exc_info()[1])

    def on_serve(self, server: LiveReloadServer, config: MkDocsConfig, builder) -> None:
        """Watch for what runs behind."""
        if self.serving:
            self.serving.watch(server)

    @event_priority(FIRST)
    def on_config(self, config: MkDocsConfig) -> MkDocsConfig:
        """Build beside the site that stands."""
        # A server calls this at every build. After the first one the port is taken, by itself.
        if self.serving and self.folder is None:
            check_port(str(config.dev_addr))
        # A server builds into a temporary folder of MkDocs', and a dirty build mends the site where it stands.
        self.in_place = self.command not in ("build", "gh-deploy") or self.is_dirty
        self.folder = SiteFolder(Path(config.site_dir), self.book.folder, self.in_place)
        self.search = []
        if not self.in_place:
            self.folder.claim()
            config.site_dir = str(self.folder.folder)
            self.warnings.counts.clear()
            logging.getLogger("mkdocs").addHandler(self.warnings)
        return config

    def on_files(self, files: Files, config: MkDocsConfig) -> Files:
        """Run the pages; a problem is a warning, which fails a strict build."""
        watch = Stopwatch()
        if self.serving:
            self.serving.begin(config, files)
        results = self._run(files, config)
        for result in results.values():
            for problem in result.report:
                log.warning("%s", problem)
        log.info("%s", summary(results, watch))
        count = sum(len(result.problems) for result in results.values())
        # MkDocs fails a strict build where it has counted warnings, and --quiet hides them from it.
        if config.strict and count:
            raise Abort(f"{count} problems on the pages")
        self._add_files(files, config)
        return files

    def on_nav(self, nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
        """Prepare to render, now that all files are known."""
        self.cache = RenderCache(self.book, config)
        return nav

    def on_pre_page(self, page: Page, config: MkDocsConfig, files: Files) -> Page:
        """Render the page from the cache, and a notebook like all others: mkdocs-jupyter brings 600 KB of styles."""
        if self.cache:
            mkdocs_internals.replace_render(page, self.cache.render)
        return page

    def on_page_read_source(self, page: Page, config: MkDocsConfig) -> str | None:
        """Return what a page says, as it was read when it ran; of a notebook as Markdown."""
        result = self.results.get(page.file.src_uri)
        return result.page.text if result else None

    def on_page_markdown(self, markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
        """Put in what the page's code gave, and what the page offers."""
        result = self.results.get(page.file.src_uri)
        name = result.name if result else copyable_files.source(page.file.src_uri)
        # MkDocs takes the day of the build for that of each page, and writes it into the sitemap.
        if day := last_changed(self.book.root, name):
            page.update_date = day.isoformat()
        if result is None or self.site is None:
            return markdown
        return copyable_files.with_offers(page_markdown(result, self.book), page.file.src_uri, self.site)

    @event_priority(FIRST)
    def on_page_context(self, context: dict, page: Page, config: MkDocsConfig, nav: Navigation) -> dict:
        """Index the page for the search, then put its figures in, and tell the templates what they show beside it."""
        if not (page.meta.get("search") or {}).get("exclude"):
            title, keywords = str(page.title), page.meta.get("keywords", [])
            cache = self.book.content_cache
            self.search += search_index.page_entries(page.content or "", page.url, title, keywords, cache)
            # The theme's plugin, which comes behind, leaves the page out of its own index.
            page.meta["search"] = {"exclude": True}
        result = self.results.get(page.file.src_uri)
        if result is None:
            return context
        # Figures come last: neither Markdown nor the search need read what may be 100 KB of drawing.
        for waiting, figure, narrow in figures(result):
            figure = with_picture_files(figure, narrow, page.url, Path(config.site_dir))
            page.content = (page.content or "").replace(waiting, figure, 1)
        return context | {"galley": self._page_facts(result, page)}

    def on_post_page(self, output: str, page: Page, config: MkDocsConfig) -> str:
        """Take the titles from names that autorefs does not know: the theme makes a tooltip of each, slowly."""
        return UNKNOWN_NAME.sub(r"\1", output)

    @event_priority(LAST)
    def on_post_build(self, config: MkDocsConfig) -> None:
        """Write what stands beside the pages, and put the site in its place."""
        # Warnings fail a strict build: MkDocs says so next, and the site stays as it was.
        if self.folder is None or (config.strict and self.warnings.counts):
            return
        folder = Path(config.site_dir)
        search_index.write_index(folder, self.search, self.is_dirty)
        for uri, result in self.results.items():
            # The download of a page that is a notebook itself: see `_add_files`.
            if uri.endswith(SUFFIX) and notebook_of_page.is_portable(result):
                write(folder, uri, notebook_of_page.cached_notebook(result, self.book))
        if self.site and not self.serving:
            llms_txt.write_all(self.site, folder)
        self.book.content_cache.sweep()
        self.folder.replace(self.written)
        # For who goes on with the site, such as gh-deploy.
        config.site_dir = str(self.folder.place)
        self._end()

    def on_build_error(self, error: Exception) -> None:
        """Leave the site as it was."""
        self._end()
        if self.folder and not self.in_place:
            self._explain(error)
            log.info("The site in %s stays as it was", self.folder.place)

    def _run(self, files: Files, config: MkDocsConfig) -> dict[str, Result]:
        """Run the pages in the order of the navigation."""
        own = {self._name(file.src_uri): file for file in files.documentation_pages() if self._is_of_book(file)}
        site = Site.of(self.book, {})
        order = {uri: n for n, uri in enumerate(site.trails)}
        names = sorted(own, key=lambda name: order.get(own[name].src_uri, len(order)))
        texts = {n: Path(own[n].abs_src_path or "").read_text(encoding="utf-8", errors="replace") for n in names}
        behind = self.serving.runs.perform if self.serving and not config.strict else None
        results = self.book.run(texts, self._log_run, behind)
        # Where a disk is full, pages fail that are not to blame.
        if self.folder and any(result.failed for result in results.values()):
            self.folder.check_room()
        site.results = {own[name].src_uri: result for name, result in results.items()}
        self.site = site
        self.written = [file.dest_uri for file in own.values()]
        for name, result in results.items():
            self._unlink_stale(own[name], result)
        return results

    def _unlink_stale(self, file: File, result: Result) -> None:
        """Let a dirty build write a page anew where it gives something else: MkDocs takes it for unchanged."""
        if self.is_dirty and self.outcomes.get(file.src_uri, result.outcome_digest) != result.outcome_digest:
            Path(file.abs_dest_path).unlink(missing_ok=True)
        self.outcomes[file.src_uri] = result.outcome_digest

    def _add_files(self, files: Files, config: MkDocsConfig) -> None:
        """Add what is made of pages and of the package: notebooks, and files to copy with the pages that show them."""
        for uri, result in self.results.items():
            # Where a page is a notebook itself, a file of its name in docs would take the page's place.
            if notebook_of_page.is_portable(result) and not uri.endswith(SUFFIX):
                content = notebook_of_page.cached_notebook(result, self.book)
                files.append(File.generated(config, notebook_of_page.place(uri), content=content))
        if styles := config.extra.get("styles"):
            files.append(File.generated(config, STYLESHEET, content=self._stylesheet(styles, config)))
            # mkdocstrings has put its own in front, which is among them.
            config.extra_css[:] = [STYLESHEET]
        for uri, content in copyable_files.generated(self.site) if self.site else ():
            files.append(File.generated(config, uri, content=content))

    def _stylesheet(self, names: list[str], config: MkDocsConfig) -> str:
        """Return the site's stylesheets as one, which a browser asks for once, without comments.

        A name is looked for in the book's assets, then in those of the theme, then among the styles of the reference;
        the theme's have a digest in theirs: `stylesheets/main.*.min`.
        """
        folders = [self.book.docs, *map(Path, config.theme.dirs)]
        roots = [*(folder / "assets" for folder in folders), mkdocs_internals.REFERENCE_TEMPLATES]
        paths = [next((path for root in roots for path in root.glob(f"{name}.css")), None) for name in names]
        if None in paths:
            raise Abort(f"mkdocs.yml: extra.styles names {names[paths.index(None)]!r}, of which there is no stylesheet")
        style = "\n".join(path.read_text(encoding="utf-8") for path in paths if path)
        # KaTeX's stylesheet names its fonts from its own folder, and this one lies in another.
        style = style.replace("url(fonts/", "url(../katex/fonts/")
        return COMMENT.sub(r"\1", style)

    def _page_facts(self, result: Result, page: Page) -> dict:
        """Return what the templates show of a page beside its text."""
        pages = self.site.pages if self.site else []
        proof = SitePage(self.book.proof, result).url if self.book.proof else None
        return {
            "problems": result.report,
            "counts": in_words(counts(result.page)),
            "proof": proof,
            "wrong_pages": [other for other in pages if other.result.report and page.url == proof],
            "page_count": len(pages),
            "changed": last_changed(self.book.root, result.name),
            "notebook": notebook_of_page.place(page.file.src_uri) if notebook_of_page.is_portable(result) else "",
            "served": self.serving is not None,
            "name": result.name,
        }

    def _log_run(self, result: Result) -> None:
        """Log that a page ran; while the site is served, the runs behind it report that themselves."""
        if not result.cached and not self.serving:
            log.info("ran %s in %s", result.name, timed(result.seconds))

    def _explain(self, error: BaseException | None) -> None:
        """End with one sentence where there is one for the error."""
        reason = self.folder.reason(error) if self.folder else ""
        if reason:
            log.error("%s", reason)
            # A shell knows 130 as the end by an interrupt.
            raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 1)

    def _end(self) -> None:
        logging.getLogger("mkdocs").removeHandler(self.warnings)
        if self.serving:
            self.serving.runs.built()
        if self.folder:
            self.folder.close()

    def _name(self, uri: str) -> str:
        """Return a page's name from the project's root, by its place in docs."""
        return (self.book.docs.relative_to(self.book.root) / uri).as_posix()

    def _is_of_book(self, file: File) -> bool:
        return bool(file.abs_src_path) and Path(file.abs_src_path or "").is_relative_to(self.book.docs)


# MkDocs looks for functions of these names in this module: they are the methods of one build.
_build = Build()
on_startup, on_shutdown, on_serve = _build.on_startup, _build.on_shutdown, _build.on_serve
on_config, on_files, on_nav = _build.on_config, _build.on_files, _build.on_nav
on_pre_page, on_page_read_source = _build.on_pre_page, _build.on_page_read_source
on_page_markdown, on_page_context = _build.on_page_markdown, _build.on_page_context
on_post_page = _build.on_post_page
on_post_build, on_build_error = _build.on_post_build, _build.on_build_error
