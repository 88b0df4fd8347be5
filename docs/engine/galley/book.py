"""The book: which pages there are, running those that changed, and all that is wrong with them."""

import json
import os
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from galley.check import Folders, check_results, check_static
from galley.check.counts import table
from galley.check.links import Anchors, check_links
from galley.read import notebook
from galley.read.formula import Displayed
from galley.read.page import RUN_OPTIONS, Block, Number, Page, Problem
from galley.run.content_cache import ContentCache, contents, digest_of, engine_digest, plain
from galley.run.dependencies import Files, Need, digest
from galley.run.pool import Job, run_jobs
from galley.run.result_cache import ResultCache, load, save

Perform = Callable[[list[Job], Callable[[Job], None]], None]


@dataclass
class Result:
    """A page as it was read, what its steps gave and needed, and what is wrong with it."""

    name: str
    page: Page
    steps: list[dict] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    lint: list[Problem] = field(default_factory=list)  # what only its author should mend
    cached: bool = True
    seconds: float = 0.0

    @property
    def by_block(self) -> dict[int, dict]:
        """What each block gave, by the line of its first code line."""
        # A run that ended at a failing block has fewer outcomes than steps.
        pairs = zip(self.page.steps, self.steps, strict=False)
        return {step.line: outcome for step, outcome in pairs if isinstance(step, Block)}

    @property
    def built_outputs(self) -> dict[int, str]:
        """What blocks print into the page when it is shown, by the index of a line; the lines of its span are blank."""
        outputs: dict[int, str] = {}
        built = [block for block in self.page.blocks if block.output_is_built]
        by_block = self.by_block if built else {}
        for block in built:
            printed = by_block.get(block.line, {}).get("stdout")
            # The other lines stay, empty, so that lines below keep their numbers.
            if block.output_span and printed:
                outputs |= dict.fromkeys(range(*block.output_span), "")
                outputs[block.output_span[0]] = f"\n{printed.strip()}\n"
        return outputs

    @property
    def asserts(self) -> int:
        """How often the page's assertions ran, with the examples of its sessions."""
        return sum(step.get("asserts", 0) for step in self.steps)

    @property
    def failed(self) -> bool:
        """Whether the page did not come to its end."""
        return any(step.get("error") for step in self.steps)

    @property
    def waits(self) -> bool:
        """Whether it is not known yet what the page gives."""
        return bool(self.page.steps) and not self.steps

    @property
    def reads(self) -> list[str]:
        """The files and folders of the project that the page read, beside the package, in order."""
        return [name for kind, name, *_ in self.needs if kind in ("text", "names")]

    @property
    def outcome_digest(self) -> str:
        """A digest of what the page's steps gave."""
        return steps_digest(self.steps)

    @property
    def report(self) -> list[str]:
        """What is wrong with the page, each with its place: `page.md:12: ...` or `page.ipynb: cell 3, line 2: ...`."""
        return [self._placed(problem) for problem in self.problems]

    @property
    def advice(self) -> list[str]:
        """What its author should mend, though nothing that the page says is wrong, each with its place."""
        return [self._placed(problem) for problem in self.lint]

    def _placed(self, problem: Problem) -> str:
        return f"{self.name}:{notebook.where(self.page, problem.line)}: {problem.message}"


def steps_digest(steps: list[dict]) -> str:
    """Return a digest of what steps gave; only the seconds that they took may differ."""
    return digest(plain([{name: step[name] for name in step if name != "seconds"} for step in steps]))


class Book:
    """The pages below one project folder, as `[tool.galley]` in its pyproject.toml describes them."""

    def __init__(self, root: Path, use_cache: bool = True, jobs: int | None = None) -> None:
        self.root = root.resolve()
        settings = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["galley"]
        self.docs = self.root / settings["docs"]
        self.sources = [self.root / source for source in settings["sources"]]
        self.excluded = tuple(settings.get("exclude", ()))
        self.site = settings["site"]
        self.proof = settings.get("proof", "")  # the page that says how the others are checked, by its place in docs
        self.bibliography = self.root / settings["bibliography"]
        self.limit = float(settings.get("limit", 60))
        self.most_memory = float(settings.get("memory", 4)) * 2**30  # of a page, in bytes
        self.jobs = jobs or os.cpu_count() or 1
        self.use_cache = use_cache
        self.folder = self.root / ".galley"
        self.assertions = self.docs / "assertions.json"
        self.content_cache = ContentCache(self.folder / "made", use_cache)
        self.surroundings = ""  # a digest of all files of the book that are no pages, when they were last checked
        self._read: dict[str, Page] = {}
        self.result_cache = ResultCache(self.folder / "pages", Files(self.root, self.sources))

    @property
    def folders(self) -> Folders:
        """Where the checks look things up."""
        return Folders(self.root, self.docs, self.bibliography, self.folder)

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
        texts = {}
        # str.endswith takes a tuple alone.
        wanted = tuple(only)
        for path in sorted(self.docs.rglob("*.*")):
            name = path.relative_to(self.root).as_posix()
            if self._is_page(path) and (not wanted or name.endswith(wanted)):
                # Bytes that are no UTF-8 are a problem of the page, at their line.
                texts[name] = path.read_text(encoding="utf-8", errors="replace")
        return texts

    def _is_page(self, path: Path) -> bool:
        inside = path.relative_to(self.docs).as_posix()
        # Jupyter keeps copies in a folder that is hidden.
        hidden = "/." in f"/{inside}"
        return path.suffix in (".md", notebook.SUFFIX) and not hidden and not inside.startswith(self.excluded)

    def run(
        self,
        pages: dict[str, str],
        done: Callable[[Result], None] = lambda result: None,
        perform: Perform | None = None,
    ) -> dict[str, Result]:
        """Run and check `pages` (name to text); call `done` with each page as soon as it is known.

        Another `perform` may leave pages out that are not known yet.
        """
        results = {name: Result(name, self.read(name, text)) for name, text in pages.items()}

        def finished(job: Job) -> None:
            result = results[job.filename]
            result.steps, result.needs, result.seconds, result.cached = job.results, job.needs, job.seconds, job.cached
            done(result)

        jobs = [self.job(name, self.steps(result.page)) for name, result in results.items()]
        (perform or self.perform)(jobs, finished)
        self._check(results)
        return results

    def read(self, name: str, text: str) -> Page:
        """Return a page; as long as its text is the same, it is read once."""
        # A server reads all pages at each edit, and one of them has changed.
        if name not in self._read or self._read[name].source != text:
            self._read[name] = notebook.read(name, text)
        return self._read[name]

    def counts(self) -> str:
        """Return a table of what stands behind the numbers of the whole book."""
        pages = ((name, self.read(name, text)) for name, text in self.pages().items())
        prefix = self.docs.relative_to(self.root)
        return table((Path(name).relative_to(prefix).as_posix(), page) for name, page in pages)

    def job(self, name: str, steps: list[dict], alone: bool = False) -> Job:
        """Return what is to be run under a name: a page, or with `alone` what was made of one."""
        return Job(str(self.root), name, steps, [str(source) for source in self.sources], self.most_memory, alone)

    def perform(self, jobs: list[Job], done: Callable[[Job], None] = lambda job: None) -> None:
        """Run `jobs`, but for those whose results are remembered; call `done` with each."""
        waiting = self.recall(jobs, done)
        times = load(self.folder / "times.json") or {}
        for job in waiting:
            job.expected = times.get(job.filename)

        # Each result is stored as it comes, so that an interrupt loses only what still runs.
        def finished(job: Job) -> None:
            self.remember(job)
            times[job.filename] = round(job.seconds, 3)
            done(job)

        if waiting:
            run_jobs(waiting, self.jobs, finished)
            self.result_cache.sweep()
            save(self.folder / "times.json", times)

    def recall(self, jobs: list[Job], done: Callable[[Job], None]) -> list[Job]:
        """Give `jobs` the results that are remembered and call `done` with them; return those that must run."""
        waiting = []
        for job in jobs:
            entry = self.result_cache.get(self.result_cache.key(job.steps)) if self.use_cache and job.steps else None
            if job.steps and entry is None:
                waiting.append(job)
                continue
            # A page without steps gives nothing, and is done.
            job.results = entry["steps"] if entry else []
            job.needs = entry["needs"] if entry else []
            done(job)
        return waiting

    def remember(self, job: Job) -> None:
        """Note what a job that ran has read, and keep what it gave, unless it failed or a file changed meanwhile."""
        needs = self.result_cache.files.needs(job.traces, "\n".join(step["code"] for step in job.steps))
        job.needs = needs or []
        if needs is not None and not any(step.get("error") for step in job.results):
            self.result_cache.put(self.result_cache.key(job.steps), needs, {"steps": job.results})

    def steps(self, page: Page) -> list[dict]:
        """Return what runs on a page, as the worker reads it."""
        return [self._step(step) for step in page.steps]

    def _step(self, step: Block | Number | Displayed) -> dict:
        common = {"line": step.line, "limit": self.limit}
        if isinstance(step, Displayed):
            return common | {"kind": step.kind, "lang": "", "code": step.body, "options": {"tex": step.tex}}
        if isinstance(step, Number):
            return common | {"kind": "number", "lang": "", "code": step.body, "options": {}}
        # The other options change what a page shows, and an edit of one runs nothing again.
        options = {name: value for name, value in step.options.items() if name in RUN_OPTIONS}
        limit = float(step.options.get("limit", self.limit))
        return common | {"kind": "block", "lang": step.lang, "code": step.code, "options": options, "limit": limit}

    def state(self) -> str:
        """Return a digest of the project: of all files of the book and its sources."""
        folders = (self.docs, *self.sources)
        return contents(
            self.root, [*self.root.glob("*.*"), *(path for folder in folders for path in folder.rglob("*"))]
        )

    def recorded(self) -> dict[str, int]:
        """Return how many assertions ran on each page when the update command last saw more of them."""
        return json.loads(self.assertions.read_text(encoding="utf-8")) if self.assertions.exists() else {}

    def record(self, results: dict[str, Result]) -> None:
        """Note where more assertions run than are recorded; fewer are a problem of the page."""
        before = self.recorded()
        counted = {name: max(result.asserts, before.get(name, 0)) for name, result in results.items()}
        # Pages that did not run now keep their number; those that are gone lose it.
        counts = {name: n for name, n in sorted((before | counted).items()) if n and (self.root / name).exists()}
        if counts != before:
            self.assertions.write_text(json.dumps(counts, indent=0) + "\n", encoding="utf-8")

    def _check(self, results: dict[str, Result]) -> None:
        # A link is judged by the text of the page that it leads to, as this run has read it.
        anchors = Anchors({self.root / name: result.page for name, result in results.items()})
        recorded = self.recorded()
        self.surroundings = self._surroundings()
        for name, result in results.items():
            problems = [
                *result.page.problems,
                *_fewer(result, recorded.get(name, 0)),
                *self._own_problems(result),
                *check_links(result.page, self.root / name, anchors),
            ]
            # In a notebook a message names cells, not lines of the Markdown that it was read as.
            placed = [replace(problem, message=notebook.placed(result.page, problem.message)) for problem in problems]
            placed.sort(key=lambda problem: problem.line)
            result.problems = [problem for problem in placed if not problem.lint]
            result.lint = [problem for problem in placed if problem.lint]

    def _own_problems(self, result: Result) -> list[Problem]:
        """Return what is wrong with a page by itself, from memory if page, outcome and files are as they were."""
        quoted = (block.options["source"] for block in result.page.blocks if "source" in block.options)
        # The files that the page quotes lie outside of docs, so that `surroundings` does not know them.
        sources = [digest_of(self.root / where.partition(":")[0]) for where in quoted]
        key = digest(
            "problems", self.surroundings, result.page.source, result.page.text, result.outcome_digest, *sources
        )
        known = self.content_cache.get(key)
        if known is None:
            problems = [*check_results(result.page, result.steps), *check_static(result.page, self.folders)]
            known = [[problem.line, problem.message, problem.lint] for problem in problems]
            self.content_cache.put(key, known)
        return [Problem(*problem) for problem in known]

    def _surroundings(self) -> str:
        """Return a digest of what a check of one page by itself may read: any file of the book that is no page.

        A check that reads other pages belongs to the links, which are checked at every build.
        """
        paths = list(self.docs.rglob("*"))
        pages = {path for path in paths if self._is_page(path)}
        files = contents(self.root, [*({*paths} - pages), *self.root.glob("*.*"), self.bibliography])
        # Of the pages their names count: whether one exists is asked of a link or a citation.
        return digest(engine_digest(), files, *sorted(path.as_posix() for path in pages))


def _fewer(result: Result, recorded: int) -> list[Problem]:
    """Return the assertions that no longer run as a problem, where the page came to its end."""
    if result.failed or result.waits or result.asserts >= recorded:
        return []
    advice = "bring back those that are gone, or lower the page's number in docs/assertions.json"
    return [Problem(1, f"{result.asserts} assertions ran, of {recorded} recorded; {advice}")]


@cache
def shared_book() -> Book:
    """Return the book of the working folder, one for all parts of a build."""
    return Book.find()
