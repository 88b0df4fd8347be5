"""The book: which pages there are, running those that changed, and all that is wrong with them."""

import os
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from galley import cells
from galley.check import check_results, check_static
from galley.links import Anchors, check_links
from galley.memory import Memory, common, contents, digest_of, plain
from galley.page import Block, Page, Problem, parse
from galley.pool import Job, run_jobs
from galley.store import Store, digest


@dataclass
class Result:
    """A page as it was read, what its steps gave, and what is wrong with it."""

    name: str
    page: Page
    steps: list[dict] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    cached: bool = True
    seconds: float = 0.0

    @property
    def by_block(self) -> dict[int, dict]:
        """What each block gave, by the line of its first code line."""
        pairs = zip(self.page.steps, self.steps, strict=False)
        return {step.line: outcome for step, outcome in pairs if isinstance(step, Block)}

    @property
    def outcome(self) -> str:
        """A digest of what the page's steps gave."""
        return digest(plain([{name: step[name] for name in step if name != "seconds"} for step in self.steps]))

    @property
    def report(self) -> list[str]:
        """What is wrong with the page, each with its place: `page.md:12: ...` or `page.ipynb: cell 3, line 2: ...`."""
        return [f"{self.name}:{cells.where(self.page, p.line)}: {p.message}" for p in self.problems]


class Book:
    """The pages below one project folder, as `[tool.galley]` in its pyproject.toml describes them."""

    def __init__(self, root: Path, use_cache: bool = True, jobs: int | None = None) -> None:
        self.root = root.resolve()
        settings = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["galley"]
        self.docs = self.root / settings["docs"]
        self.sources = [self.root / source for source in settings["sources"]]
        self.excluded = tuple(settings.get("exclude", ()))
        self.site = settings["site"]
        self.bibliography = self.root / settings["bibliography"]
        self.limit = float(settings.get("limit", 60))
        self.jobs = jobs or os.cpu_count() or 1
        self.use_cache = use_cache
        self.folder = self.root / ".galley"
        self.memory = Memory(self.folder / "made", use_cache)
        self.around = ""  # a digest of what lies around the pages, since they were last checked
        self.results: dict[str, Result] = {}  # by key, for the Markdown extension, which knows no page names
        self._store: Store | None = None

    @classmethod
    def find(cls, start: Path | None = None, **options) -> "Book":
        """Return the book of the nearest folder upwards whose pyproject.toml describes one."""
        start = (start or Path.cwd()).resolve()
        for folder in (start, *start.parents):
            file = folder / "pyproject.toml"
            if file.exists() and "[tool.galley]" in file.read_text(encoding="utf-8"):
                return cls(folder, **options)
        raise FileNotFoundError(f"galley: no pyproject.toml with [tool.galley] in {start} or above it")

    def pages(self, only: Iterable[str] = ()) -> dict[str, str]:
        """Return name and text of every page, or of those whose path ends with one of `only`."""
        found = {}
        wanted = tuple(only)
        for path in sorted(self.docs.rglob("*.*")):
            name = path.relative_to(self.root).as_posix()
            if self._is_page(path) and (not wanted or name.endswith(wanted)):
                found[name] = path.read_text(encoding="utf-8", errors="replace")
        return found

    def _is_page(self, path: Path) -> bool:
        inside = path.relative_to(self.docs).as_posix()
        hidden = "/." in f"/{inside}"  # where Jupyter keeps copies
        return path.suffix in (".md", cells.SUFFIX) and not hidden and not inside.startswith(self.excluded)

    def run(self, pages: dict[str, str], done: Callable[[Result], None] = lambda result: None) -> dict[str, Result]:
        """Run and check `pages` (name to text); call `done` with each page as soon as it is known."""
        store = self._store = Store(self.folder / "pages", self.sources)
        results = {name: Result(name, cells.read(name, text)) for name, text in pages.items()}
        jobs = []
        for name, result in results.items():
            steps = self._steps(result.page)
            kept = store.get(store.key(steps)) if self.use_cache and steps else None
            if kept is None and steps:
                jobs.append(Job(str(self.root), name, steps))
            else:
                result.steps = kept or []
                done(result)

        def finished(job: Job) -> None:
            result = results[job.filename]
            result.steps, result.seconds, result.cached = job.results, job.seconds, False
            if not any(step.get("error") for step in job.results):
                store.put(store.key(job.steps), job.results)
            done(result)

        if jobs:
            run_jobs(jobs, self.jobs, finished)
            store.sweep()
        self._check(results)
        self.results = {store.key(self._steps(result.page)): result for result in results.values()}
        return results

    def lookup(self, text: str) -> Result | None:
        """Return what is known of a page with this text, from this process or from the cache, without running it."""
        self._store = self._store or Store(self.folder / "pages", self.sources)
        page = parse(text)
        steps = self._steps(page)
        key = self._store.key(steps)
        kept = self.results[key].steps if key in self.results else self._store.get(key)
        return Result("", page, kept) if kept is not None else None

    def _steps(self, page: Page) -> list[dict]:
        steps = []
        for step in page.steps:
            if isinstance(step, Block):
                limit = float(step.options.get("limit", self.limit))
                keep = {name: value for name, value in step.options.items() if name in ("raises", "standalone", "data")}
                if pattern := step.options.get("reads"):  # files whose change must run the page again
                    files = sorted(path for path in self.root.glob(pattern) if path.is_file())
                    keep["reads"] = digest(*(f"{file.name}\n{file.read_text(encoding='utf-8')}" for file in files))
                found = {"kind": "block", "lang": step.lang, "code": step.code, "line": step.line, "options": keep}
            else:
                limit = self.limit
                found = {"kind": "number", "lang": "", "code": step.body, "line": step.line, "options": {}}
            steps.append(found | {"limit": limit})
        return steps

    def _check(self, results: dict[str, Result]) -> None:
        anchors = Anchors(self.docs, {self.root / name: result.page for name, result in results.items()})
        self.around = self._around()
        for name, result in results.items():
            own = self._own_problems(result)
            result.problems = sorted(
                [*result.page.problems, *own, *check_links(result.page, self.root / name, anchors)],
                key=lambda problem: problem.line,
            )
            for problem in result.problems:
                problem.message = cells.placed(result.page, problem.message)

    def _own_problems(self, result: Result) -> list[Problem]:
        """Return what is wrong with a page by itself, from memory if page, outcome and files are as they were."""
        quoted = (block.options["source"] for block in result.page.blocks if "source" in block.options)
        sources = [digest_of(self.root / where.partition(":")[0]) for where in quoted]
        key = digest("problems", self.around, result.page.source, result.page.text, result.outcome, *sources)
        known = self.memory.get(key)
        if known is None:
            found = [*check_results(result.page, result.steps), *check_static(result.page, self)]
            known = [[problem.line, problem.message] for problem in found]
            self.memory.put(key, known)
        return [Problem(line, message) for line, message in known]

    def _around(self) -> str:
        """Return a digest of what a check of one page by itself may read: any file of the book that is no page.

        A check that reads other pages belongs to the links, which are checked at every build.
        """
        found = list(self.docs.rglob("*"))
        pages = {path for path in found if self._is_page(path)}
        files = contents(self.root, [*({*found} - pages), *self.root.glob("*.*"), self.bibliography])
        return digest(common(), files, *sorted(path.as_posix() for path in pages))


def timed(seconds: float) -> str:
    """Return a duration as people read it."""
    return f"{seconds:.1f} s" if seconds >= 0.05 else f"{seconds * 1000:.0f} ms"


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.begin = time.perf_counter()

    def __str__(self) -> str:
        return timed(time.perf_counter() - self.begin)
