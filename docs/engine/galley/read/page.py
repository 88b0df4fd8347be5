"""Read a Markdown page: its code blocks with their outputs and figures, its numbers, formulas, links and headings."""

import re
import shlex
from dataclasses import dataclass, field

from galley.read import number
from galley.read.formula import Displayed, displayed

# An info string holds no backtick: a line such as ```code``` is a sentence with code in it.
FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})(?P<info>[^`]*)$")
OPTIONS = re.compile(r"^\s*<!--\s*block:\s*(?P<options>.*?)\s*-->\s*$")
IMAGE = re.compile(r"^\s*!\[(?P<alt>[^\]]*)\]\((?P<src>[^)\s]+\.svg)\)\s*$")
# What is meant for an image line, and is refused: a file that is no SVG, or words that hold brackets.
NO_IMAGE = re.compile(r"^\s*!\[(?P<alt>.*)\]\((?P<src>figures/[^)\s]+)\)\s*$")
REGION_OPEN, REGION_CLOSE = "<!-- output -->", "<!-- /output -->"
BUILT_OPEN = "<!-- output: built -->"  # of Markdown that the file does not hold
OPENINGS = (REGION_OPEN, BUILT_OPEN)
BOUND = re.compile(r"<!--\s*(?P<operator>=|<=|>=|<|>|cite:|given)\s*(?P<body>.*?)\s*-->")
HEADING = re.compile(r"^(?P<level>#{1,6})\s+(?P<title>.*?)(?:\s*\{:?\s*#(?P<anchor>[\w.-]+)\s*\})?\s*#*\s*$")
# The label of a link may hold brackets of its own, as that of a footnote or of an interval does.
LINK = re.compile(r"(?<!\\)\[(?P<label>(?:[^\[\]]|\[[^\]]*\])*)\]\(\s*<?(?P<target>[^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DISPLAY = re.compile(r"\$\$(?P<tex>.+?)\$\$", re.S)
# No space touches the dollars from within, and no letter or digit from without: two prices are no formula.
INLINE = re.compile(r"(?<![\\$\w])\$(?![\s$])(?P<tex>(?:\\.|[^$\\\n])+?)(?<!\s)\$(?![\w$])")
# As many backticks close a span as open it; it ends with its paragraph, so that a stray one hides no number below.
CODE_SPAN = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>(?:(?!\n\s*\n).)+?)(?<!`)(?P=ticks)(?!`)", re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
# Languages of a fence that a reader takes for Python, in any spelling; those that run are `python` and `pycon`.
PYTHON = re.compile(r"(?i)\W*(?:py|python\w*|ipython\w*|pycon)\b")
TOLERANCES = ("rtol", "atol", "residue", "factor")
RUN_OPTIONS = {
    "raises",
    "standalone",
    "data",
    "live",
    "narrow",
}  # what the worker gets: a change of these runs the page again
OPTIONS_OF_A_BLOCK = {*RUN_OPTIONS, *TOLERANCES, "skip", "limit", "fold", "source", "large"}


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
    output_is_built: bool = False  # put in when the page is shown; its file has a placeholder
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
    """Reads a page line by line; `options` are those that wait for their block, `last` what an output belongs to."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.page = Page(text, self.lines, [], [], [], [], [], [], 0, [], text)
        self.options: dict[str, str] = {}
        self.options_line: int | None = None
        self.last: Block | None = None

    def read(self) -> Page:
        for n, line in enumerate(self.lines):
            # What replaces bytes that are no UTF-8 when a file is decoded.
            if "\ufffd" in line:
                self._problem(n, "this line is not UTF-8 text")
        start = prose = self.page.meta_lines = self._front_matter()
        while start < len(self.lines):
            # Prose is read when it ends, since a formula or a binding may go over several lines.
            end, next_prose = self._element(start)
            if next_prose is not None:
                self._prose(prose, start)
                prose = next_prose
            start = end
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
        image = IMAGE.match(line)
        if image and self.last is not None:
            # The caption is prose too, so that its numbers are read.
            return self._figure(start, image), start + 1
        return self._prose_line(start), None

    def _prose_line(self, start: int) -> int:
        """Return the line after a line of prose, or after a comment that begins on it."""
        line = self.lines[start]
        image = NO_IMAGE.match(line)
        if image and self.last is not None:
            self._problem(start, _refused_image(image))
            return start + 1
        end = self._comment(start)
        if end > start:
            return end
        if line.strip():
            # A sentence stands between: what follows no longer belongs to the block above it.
            self.last = None
            self._dangling_options()
        return start + 1

    def _problem(self, index: int, message: str) -> None:
        self.page.problems.append(Problem(index + 1, message))

    def _front_matter(self) -> int:
        if self.lines[0].strip() != "---":
            return 0
        ends = (n for n, line in enumerate(self.lines[1:], 1) if line.strip() == "---")
        # Front matter that is never closed is none: the page begins at its first line.
        return next(ends, -1) + 1

    def _read_options(self, index: int, body: str) -> None:
        try:
            options = shlex.split(body)
        except ValueError as error:
            self._problem(index, f"cannot read the block's options: {error}")
            return
        self.options = {name: value for name, _, value in (option.partition("=") for option in options)}
        self.options_line = index
        # A wrong option is left out, so that what works with it later meets only values that it can use.
        for name, value in list(self.options.items()):
            if wrong := _wrong_option(name, value):
                self._problem(index, wrong)
                del self.options[name]
        for name in self.options.keys() - OPTIONS_OF_A_BLOCK:
            known = ", ".join(sorted(OPTIONS_OF_A_BLOCK))
            self._problem(index, f"unknown block option {name!r}; there are {known}")

    def _dangling_options(self) -> None:
        """Refuse options that no block has taken up."""
        if self.options_line is not None:
            self._problem(self.options_line, "block options must stand directly above a python fence")
        self._forget_options()

    def _forget_options(self) -> None:
        self.options = {}
        self.options_line = None

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
        # A comment that is shown in a code span is none.
        line = CODE_SPAN.sub("", self.lines[start])
        if line.rfind("<!--") <= line.rfind("-->"):
            return start
        end = next((n for n in range(start + 1, len(self.lines)) if "-->" in self.lines[n]), None)
        if end is None:
            self._problem(start, "this comment is never closed")
            return len(self.lines)
        return end + 1

    def _fence(self, start: int, fence: re.Match) -> int:
        """Read a fenced block of any language, and return the line after it."""
        # Exactly as many ticks as open a fence close it, as in the superfences extension that shows the page.
        close = re.compile(rf"^[ \t]*{fence['ticks']}\s*$")
        ends = (n for n in range(start + 1, len(self.lines)) if close.match(self.lines[n]))
        end = next(ends, None)
        if end is None:
            self._problem(start, "this fence is never closed")
            return len(self.lines)
        indent = len(fence["indent"])
        body = [line[indent:] if not line[:indent].strip() else line.lstrip() for line in self.lines[start + 1 : end]]
        lang = next(iter(fence["info"].split()), "")
        if lang == "output":
            self._output(start, end, "\n".join(body))
        elif lang in ("python", "pycon"):
            self._block(start, end, fence, "\n".join(body))
        else:
            self.last = None
            self._dangling_options()
            if PYTHON.match(fence["info"].strip()):
                self._problem(start, "this fence would be shown and never run; write python or pycon after its ticks")
        return end + 1

    def _block(self, start: int, end: int, fence: re.Match, code: str) -> None:
        """Note a block of Python, with the options above it."""
        lang, *attributes = fence["info"].split()
        if fence["indent"]:
            self._problem(start, "an indented fence does not run everywhere; put it at the margin")
        if attributes:
            advice = f"options stand in a comment above it: <!-- block: {' '.join(attributes)} -->"
            self._problem(start, f"{' '.join(attributes)!r} behind {lang} says nothing; {advice}")
        # Its first line of code is the one below the fence, and lines count from 1.
        self.last = Block(lang, code, start + 2, (start, end + 1), self.options, self.options_line)
        self.page.blocks.append(self.last)
        self._forget_options()

    def _output(self, start: int, end: int, body: str) -> None:
        """Note what stands as the output of the block above."""
        if self.last is None or self.last.output is not None or self.last.figures:
            self._problem(start, "an output must stand right under the block that prints it, above its figures")
            return
        self.last.output = body
        self.last.output_span = (start + 1, end)

    def _region(self, start: int) -> int:
        """Read an output that is Markdown, and return the line after it."""
        ends = (n for n in range(start + 1, len(self.lines)) if self.lines[n].strip() == REGION_CLOSE)
        end = next(ends, None)
        if end is None:
            self._problem(start, f"this output is never closed by {REGION_CLOSE}")
            return len(self.lines)
        body = "\n".join(self.lines[start + 1 : end])
        self._output(start, end, body.strip("\n"))
        # Its links are checked as any other's; an image line is the figure of a block, and no link.
        without_images = (" " * len(line) if IMAGE.match(line) else line for line in body.split("\n"))
        self._links(blank(CODE_SPAN, "\n".join(without_images)), start + 1)
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
        # Each step blanks what it has read, so that no later one takes it for something else.
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
            # The reader of fences sees none behind the > of a quote.
            if re.match(r"^\s*>+\s*(```|~~~)\s*(python|pycon)", self.lines[n]):
                self._problem(n, "a fence inside a quote does not run; put it at the margin")

    def _formulas(self, text: str, start: int) -> None:
        """Read the formulas of a text without code and comments, and refuse what is left that looks like one."""
        # Displayed ones first, since a word in one may hold an inline formula of its own.
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
        # A comment that touches a number, code, bold words or a formula is meant for a binding.
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
        """Note a binding with what it belongs to, which is looked for in the text with its code and formulas."""
        before = text[: bound.start()]
        operator = bound["operator"].rstrip(":")
        body, _, why = bound["body"].partition(" # ")
        written = bound_token(before, operator)
        # Start and end are columns of the line, counted from 0.
        begin = before.rfind("\n") + 1
        start = len(before) - len(written) - begin
        end = bound.end() - begin
        self.page.numbers.append(
            Number(written, operator, body.strip(), line, start, end, why.strip(), before[begin:][-160:])
        )
        if not written:
            forms = "47,117 or 3.5e-2, 10³, ½, twelve, `code`, **bold** or $formula$; with = a word, too"
            self._problem(line - 1, f"no number stands before this binding: it belongs to {forms}")


def _refused_image(image: re.Match) -> str:
    """Return why a line that looks like a figure's is none."""
    if not image["src"].endswith(".svg"):
        return f"a drawn figure is an SVG: write {image['src'].rpartition('.')[0] or image['src']}.svg"
    return "a figure's words cannot hold brackets: say the range in words"


def bound_token(before: str, operator: str) -> str:
    """Return what a binding that follows `before` belongs to: a number, code, a formula, a bold phrase, a word."""
    marked = re.search(r"(?:`[^`\n]+`|\$[^$\n]+\$|\*\*[^*\n]+\*\*)$", before)
    if marked:
        return marked[0]
    # Only these two may bind any word: a bound or a quotation needs a number.
    word = re.search(r"[^\W\d_][\w'\u2019-]*$", before) if operator in ("=", "given") else None
    return number.last(before) or (word[0] if word else "")


def ticks(text: str) -> str:
    """Return a fence that `text` does not close."""
    # Only a line that begins with three ticks or more can close a fence.
    return "`" * max([3, *(len(run) + 1 for run in re.findall(r"^[ \t]*(`{3,})", text, re.M))])


def is_caption(line: str) -> bool:
    """Whether a line right under a figure belongs to its caption."""
    begins_something = FENCE.match(line) or OPTIONS.match(line) or IMAGE.match(line) or line.strip() in OPENINGS
    return bool(line.strip()) and not begins_something


def _wrong_option(name: str, value: str) -> str:
    """Return what is wrong with an option of a block, or nothing."""
    if name in (*TOLERANCES, "limit"):
        try:
            size = float(value)
        except ValueError:
            # What is no number is refused below, as a negative one is.
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
