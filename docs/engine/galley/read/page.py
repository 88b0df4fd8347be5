"""Read a Markdown page: its code blocks with their outputs and figures, its numbers, formulas, links and headings."""

import re
import shlex
from dataclasses import dataclass, field

from galley.read import number
from galley.read.formula import Displayed, displayed

FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})(?P<info>[^`]*)$")
OPTIONS = re.compile(r"^\s*<!--\s*block:\s*(?P<options>.*?)\s*-->\s*$")
IMAGE = re.compile(r"^\s*!\[(?P<alt>[^\]]*)\]\((?P<src>[^)\s]+\.svg)\)\s*$")
NO_IMAGE = re.compile(r"^\s*!\[(?P<alt>.*)\]\((?P<src>figures/[^)\s]+)\)\s*$")  # meant for one, and is none
REGION_OPEN, REGION_CLOSE = "<!-- output -->", "<!-- /output -->"
BUILT_OPEN = "<!-- output: built -->"  # of Markdown that the file does not hold
OPENINGS = (REGION_OPEN, BUILT_OPEN)
BOUND = re.compile(r"<!--\s*(?P<operator>=|<=|>=|<|>|cite:|given)\s*(?P<body>.*?)\s*-->")
HEADING = re.compile(r"^(?P<level>#{1,6})\s+(?P<title>.*?)(?:\s*\{:?\s*#(?P<anchor>[\w.-]+)\s*\})?\s*#*\s*$")
LINK = re.compile(r"(?<!\\)\[(?P<label>(?:[^\[\]]|\[[^\]]*\])*)\]\(\s*<?(?P<target>[^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DISPLAY = re.compile(r"\$\$(?P<tex>.+?)\$\$", re.S)
INLINE = re.compile(r"(?<![\\$\w])\$(?![\s$])(?P<tex>(?:\\.|[^$\\\n])+?)(?<!\s)\$(?![\w$])")
CODE_SPAN = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>(?:(?!\n\s*\n).)+?)(?<!`)(?P=ticks)(?!`)", re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
PYTHON = re.compile(r"(?i)\W*(?:py|python\w*|ipython\w*|pycon)\b")
TOLERANCES = ("rtol", "atol", "residue", "factor")
RUN_OPTIONS = {"raises", "standalone", "data"}  # what the worker gets: a change of these runs the page again
OPTIONS_OF_A_BLOCK = {*RUN_OPTIONS, *TOLERANCES, "skip", "limit", "fold", "source", "large", "live"}


@dataclass
class Problem:
    """Something a page gets wrong, and where; `lint` is for its author alone and fails no build."""

    line: int
    message: str
    lint: bool = False


@dataclass
class Figure:
    """An image line that stands for what the block above it draws."""

    alt: str
    src: str
    line: int
    caption: str = ""


@dataclass
class Block:
    """A fenced block of Python. Line numbers count from 1; spans are half-open and count from 0."""

    lang: str
    code: str
    line: int
    span: tuple[int, int]
    options: dict[str, str] = field(default_factory=dict)
    options_line: int | None = None
    output: str | None = None
    output_span: tuple[int, int] | None = None
    output_is_markdown: bool = False
    output_is_built: bool = False  # put in when the page is shown; its file holds other words there
    figures: list[Figure] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        """Whether the block is executed, or only shown."""
        return "skip" not in self.options and "source" not in self.options

    @property
    def tolerance(self) -> number.Tolerance:
        """How far what the block prints may lie from what the page shows."""
        return number.Tolerance(**{name: float(self.options[name]) for name in TOLERANCES if name in self.options})


@dataclass
class Number:
    """A number in a sentence with the comment that binds it, such as `47,117<!-- = wavelengths(64)[-1] -->`.

    With `=` it may be a word that the code decides: `rises<!-- = slope > 0 -->`. A Python comment in the binding says
    why a bound is loose. What stands `before` the binding ends with what is written.
    """

    written: str
    operator: str
    body: str
    line: int
    start: int
    end: int
    why: str = ""
    before: str = ""

    @property
    def runs(self) -> bool:
        """Whether the body is an expression to evaluate."""
        return self.operator in ("=", "<", ">", "<=", ">=")


@dataclass
class Link:
    """A link: the line it stands on, its label as written, and where it leads."""

    line: int
    label: str
    target: str


@dataclass
class Cell:
    """Where a cell of a notebook, counted from 1, stands in the lines of its page; half-open, from 0."""

    number: int
    span: tuple[int, int]


@dataclass
class Page:
    """What a page holds, in the order in which it stands. The `source` of a notebook is its file, not its text."""

    text: str
    lines: list[str]
    blocks: list[Block]
    numbers: list[Number]
    all_formulas: list[tuple[int, str, bool]]  # line, TeX, and whether it is displayed
    links: list[Link]
    headings: list[tuple[int, int, str, str | None]]
    prose: list[tuple[int, str]]
    meta_lines: int
    problems: list[Problem]
    source: str = ""
    cells: list[Cell] = field(default_factory=list)
    displayed: list[Displayed] = field(default_factory=list)

    @property
    def steps(self) -> list[Block | Number | Displayed]:
        """Everything that runs, in page order."""
        steps = [s for s in (*self.blocks, *self.numbers, *self.displayed) if s.runs]
        return sorted(steps, key=lambda step: (step.line, getattr(step, "start", 0)))


def parse(text: str) -> Page:
    """Read the text of a page; what cannot be read is in `problems`."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.page = Page(text, self.lines, [], [], [], [], [], [], 0, [], text)
        self.options: dict[str, str] = {}
        self.options_line: int | None = None
        self.last: Block | None = None

    def read(self) -> Page:
        for n, line in enumerate(self.lines):
            if "\ufffd" in line:
                self._problem(n, "this line is not UTF-8 text")
        i = prose = self.page.meta_lines = self._front_matter()
        while i < len(self.lines):
            # prose is read when it ends, since a formula or a binding may go over several lines
            end, next_prose = self._element(i)
            if next_prose is not None:
                self._prose(prose, i)
                prose = next_prose
            i = end
        self._prose(prose, len(self.lines))
        return self.page

    def _element(self, start: int) -> tuple[int, int | None]:
        """Read what begins on a line; return the line after it, and where prose goes on if this was none."""
        line = self.lines[start]
        if fence := FENCE.match(line):
            end = self._fence(start, fence)
            return end, end
        if line.strip() in OPENINGS:
            end = self._region(start)
            return end, end
        if options := OPTIONS.match(line):
            self._read_options(start, options["options"])
            return start + 1, start + 1
        if self.last is not None and (image := IMAGE.match(line)):
            # the numbers of a caption are read as those of prose
            return self._figure(start, image), start + 1
        return self._prose_line(start), None

    def _prose_line(self, start: int) -> int:
        """Return the line after a line of prose, or after a comment that begins on it."""
        line = self.lines[start]
        if self.last is not None and (image := NO_IMAGE.match(line)):
            self._problem(start, _refused_image(image))
            return start + 1
        end = self._comment(start)
        if end > start:
            return end
        if line.strip():
            # a sentence stands between: what follows no longer belongs to the block above it
            self.last = None
            self._dangling_options()
        return start + 1

    def _problem(self, index: int, message: str) -> None:
        self.page.problems.append(Problem(index + 1, message))

    def _front_matter(self) -> int:
        if self.lines[0].strip() != "---":
            return 0
        ends = (n for n, line in enumerate(self.lines[1:], 1) if line.strip() == "---")
        return next(ends, -1) + 1

    def _read_options(self, index: int, body: str) -> None:
        try:
            options = shlex.split(body)
        except ValueError as error:
            return self._problem(index, f"cannot read the block's options: {error}")
        self.options = {name: value for name, _, value in (word.partition("=") for word in options)}
        self.options_line = index
        for name, value in list(self.options.items()):
            if wrong := _wrong_option(name, value):
                self._problem(index, wrong)
                del self.options[name]
        for name in self.options.keys() - OPTIONS_OF_A_BLOCK:
            known = ", ".join(sorted(OPTIONS_OF_A_BLOCK))
            self._problem(index, f"unknown block option {name!r}; there are {known}")
        return None

    def _dangling_options(self) -> None:
        if self.options_line is not None:
            self._problem(self.options_line, "block options must stand directly above a python fence")
        self.options, self.options_line = {}, None

    def _figure(self, start: int, image: re.Match) -> int:
        """Read the caption with the figure; another figure may follow it."""
        end = start + 1
        while end < len(self.lines) and is_caption(self.lines[end]):
            end += 1
        caption = "\n".join(self.lines[start + 1 : end])
        assert self.last is not None
        self.last.figures.append(Figure(image["alt"], image["src"], start + 1, caption))
        return end

    def _comment(self, start: int) -> int:
        """Return the line after a comment that begins on this line and ends on a later one: no code in it runs."""
        line = CODE_SPAN.sub("", self.lines[start])
        if line.rfind("<!--") <= line.rfind("-->"):
            return start
        end = next((n for n in range(start + 1, len(self.lines)) if "-->" in self.lines[n]), None)
        if end is None:
            self._problem(start, "this comment is never closed")
            return len(self.lines)
        return end + 1

    def _fence(self, start: int, fence: re.Match) -> int:
        close = re.compile(rf"^[ \t]*{fence['ticks']}\s*$")
        ends = (n for n in range(start + 1, len(self.lines)) if close.match(self.lines[n]))
        end = next(ends, None)
        if end is None:
            self._problem(start, "this fence is never closed")
            return len(self.lines)
        indent = len(fence["indent"])
        body = [line[indent:] if not line[:indent].strip() else line.lstrip() for line in self.lines[start + 1 : end]]
        lang, *words = fence["info"].split() or [""]
        if lang == "output":
            self._output(start, end, "\n".join(body))
        elif lang in ("python", "pycon"):
            if indent:
                self._problem(start, "an indented fence does not run everywhere; put it at the margin")
            if words:
                advice = f"options stand in a comment above it: <!-- block: {' '.join(words)} -->"
                self._problem(start, f"{' '.join(words)!r} behind {lang} says nothing; {advice}")
            span = (start, end + 1)
            self.last = Block(lang, "\n".join(body), start + 2, span, self.options, self.options_line)
            self.page.blocks.append(self.last)
            self.options, self.options_line = {}, None
        else:
            self.last = None
            self._dangling_options()
            if PYTHON.match(fence["info"].strip()):
                self._problem(start, "this fence would be shown and never run; write python or pycon after its ticks")
        return end + 1

    def _output(self, start: int, end: int, body: str) -> None:
        if self.last is None or self.last.output is not None or self.last.figures:
            self._problem(start, "an output must stand right under the block that prints it, above its figures")
            return
        self.last.output, self.last.output_span = body, (start + 1, end)

    def _region(self, start: int) -> int:
        ends = (n for n in range(start + 1, len(self.lines)) if self.lines[n].strip() == REGION_CLOSE)
        end = next(ends, None)
        if end is None:
            self._problem(start, f"this output is never closed by {REGION_CLOSE}")
            return len(self.lines)
        body = "\n".join(self.lines[start + 1 : end])
        self._output(start, end, body.strip("\n"))
        prose = (" " * len(line) if IMAGE.match(line) else line for line in body.split("\n"))
        self._links(blank(CODE_SPAN, "\n".join(prose)), start + 1)
        if self.last is not None:
            self.last.output_is_markdown = True
            self.last.output_is_built = self.lines[start].strip() == BUILT_OPEN
            for n in range(start + 1, end):
                if image := IMAGE.match(self.lines[n]):
                    self._figure(n, image)
        return end + 1

    def _prose(self, start: int, end: int) -> None:
        """Read the sentences of lines start..end: headings, links, formulas, and numbers with their bindings."""
        if start >= end:
            return
        self._headings(start, end)
        text = "\n".join(self.lines[start:end])
        # each step blanks what it has read, so that no later one takes it for something else
        bare = blank(CODE_SPAN, text)
        self._links(bare, start)
        self.page.displayed += displayed(bare, start + 1)
        self._formulas(blank(COMMENT, bare), start)
        self._bindings(bare, text, start)
        self.page.prose.append((start, text))

    def _headings(self, start: int, end: int) -> None:
        for n in range(start, end):
            if heading := HEADING.match(self.lines[n]):
                title = COMMENT.sub("", heading["title"])
                self.page.headings.append((n + 1, len(heading["level"]), title, heading["anchor"]))
                if "$" in CODE_SPAN.sub("", title):
                    self._problem(n, "a heading cannot hold a formula: tables of contents would show it twice")
            if re.match(r"^\s*>+\s*(```|~~~)\s*(python|pycon)", self.lines[n]):
                self._problem(n, "a fence inside a quote does not run; put it at the margin")

    def _formulas(self, text: str, start: int) -> None:
        """Read the formulas of a text without code and comments, and refuse what is left that looks like one."""
        for pattern, display in ((DISPLAY, True), (INLINE, False)):
            for formula in pattern.finditer(text):
                tex = re.sub(r"^\s*>\s?", "", formula["tex"], flags=re.M).strip()
                line = start + _line_in(text, formula.start()) + 1
                self.page.all_formulas.append((line, tex, display))
            text = blank(pattern, text)
        if "$" in text.replace(r"\$", ""):
            line = start + _line_in(text, text.index("$"))
            self._problem(line, "a lone $: a formula is not closed, or spaces touch its $")
        if formula := re.search(r"\\[(\[](?!\()|\\begin\{", text):
            self._problem(start + _line_in(text, formula.start()), "write a formula between $ or $$")
        for html in re.finditer(r"<[a-z]+\b[^<>]*?\b(?:href|src)=[\"'](?![a-z]+:|//)([^\"']*)", text):
            line = start + _line_in(text, html.start())
            self._problem(line, f"link to {html[1]} in Markdown, which is checked")

    def _bindings(self, bare: str, text: str, start: int) -> None:
        for comment in re.finditer(r"(?<=[\d`*$%°×])<!--.*?-->", bare, re.S):
            if not BOUND.fullmatch(comment[0]):
                line = start + _line_in(bare, comment.start())
                self._problem(line, f"cannot read this binding: {' '.join(comment[0].split())}")
        for bound in BOUND.finditer(bare):
            self._number(bound, text, start + _line_in(bare, bound.start()) + 1)

    def _links(self, text: str, start: int) -> None:
        for link in LINK.finditer(blank(COMMENT, text)):
            line = start + _line_in(text, link.start()) + 1
            self.page.links.append(Link(line, link["label"], link["target"]))

    def _number(self, bound: re.Match, text: str, line: int) -> None:
        before, operator = text[: bound.start()], bound["operator"].rstrip(":")
        body, _, why = bound["body"].partition(" # ")
        written = bound_token(before, operator)
        begin = before.rfind("\n") + 1
        start, end = len(before) - len(written) - begin, bound.end() - begin
        self.page.numbers.append(
            Number(written, operator, body.strip(), line, start, end, why.strip(), before[begin:][-160:])
        )
        if not written:
            forms = "47,117 or 3.5e-2, 10³, ½, twelve, `code`, **bold** or $formula$; with = a word, too"
            self._problem(line - 1, f"no number stands before this binding: it belongs to {forms}")


def _refused_image(image: re.Match) -> str:
    if not image["src"].endswith(".svg"):
        return f"a drawn figure is an SVG: write {image['src'].rpartition('.')[0] or image['src']}.svg"
    return "a figure's words cannot hold brackets: say the range in words"


def bound_token(before: str, operator: str) -> str:
    """Return what a binding that follows `before` belongs to: a number, code, a formula, a bold phrase, a word."""
    marked = re.search(r"(?:`[^`\n]+`|\$[^$\n]+\$|\*\*[^*\n]+\*\*)$", before)
    if marked:
        return marked[0]
    word = re.search(r"[^\W\d_][\w'\u2019-]*$", before) if operator in ("=", "given") else None
    return number.last(before) or (word[0] if word else "")


def ticks(text: str) -> str:
    """Return a fence that `text` does not close."""
    return "`" * max([3, *(len(run) + 1 for run in re.findall(r"^[ \t]*(`{3,})", text, re.M))])


def is_caption(line: str) -> bool:
    """Whether a line right under a figure belongs to its caption."""
    begins_something = FENCE.match(line) or OPTIONS.match(line) or IMAGE.match(line) or line.strip() in OPENINGS
    return bool(line.strip()) and not begins_something


def _wrong_option(name: str, value: str) -> str:
    if name in (*TOLERANCES, "limit"):
        try:
            size = float(value)
        except ValueError:
            size = -1.0
        if not 0 < size < float("inf"):
            return f"{name} must be a positive number, got {value!r}"
        if name == "factor" and size < number.LEAST_FACTOR:
            least = f"{number.LEAST_FACTOR:g}"
            return f"factor must be at least {least}, got {value}: machines' rounding errors lie so far apart"
        if name == "rtol" and size > number.LOOSEST:
            return f"rtol must be at most {number.LOOSEST}, got {value}: round what is printed, or print a bound"
    if name == "live" and not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", value):
        return f"live must be the name of a script, such as clock-film, got {value!r}"
    if name in ("raises", "source", "large", "data") and not value:
        return f"{name} needs a value: {name}=…"
    if name in ("skip", "standalone") and value:
        return f"{name} takes no value, got {value!r}"
    return ""


def _line_in(text: str, offset: int) -> int:
    """Return on which line of a text, counted from 0, an offset lies."""
    return text.count("\n", 0, offset)


def blank(pattern: re.Pattern, text: str) -> str:
    """Replace what matches by spaces, so that offsets and lines stay as they are."""
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
