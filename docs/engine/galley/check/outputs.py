"""Compare what a block prints and draws with what its page shows."""

import difflib
import re

from galley.check.compare import ROUNDING, residues, rounding, same
from galley.check.sentences import digits, without_free
from galley.read.number import LEAST_FACTOR
from galley.read.page import Block, Problem

LARGEST_FIGURE = 150_000  # bytes
MOST_LINES = 24  # of a difference


def check_block(block: Block, outcome: dict) -> list[Problem]:
    """Return what is wrong with a block's warnings, output and figures."""
    problems = [Problem(block.line, f"the block warns: {warning}") for warning in outcome.get("warnings", [])]
    printed = outcome["stdout"].rstrip()
    # The results of a session were compared when it ran, each with what stands under its prompt.
    if block.lang == "python" and not shows(block, outcome):
        line = block.output_span[0] if block.output_span else block.span[1]
        difference = _difference(block.output or "", printed)
        problems.append(Problem(line + 1, f"output differs\n{difference}"))
    problems += _tolerance(block, printed)
    return problems + _figures(block, outcome["figures"]) + _alternative_text(block, outcome)


def shows(block: Block, outcome: dict) -> bool:
    """Whether a page shows what a block printed. Of an error that a library words, its name alone is compared."""
    expected = block.output or ""
    printed = outcome["stdout"].rstrip()
    # What a built output holds is put in when the site is built: its file has no copy to compare with.
    if block.output_is_built:
        return bool(printed)
    # Other versions of a library word an error differently.
    if name := outcome.get("foreign"):
        expected, printed = (re.sub(rf"(?ms)^{name}: .*\Z", name, text) for text in (expected, printed))
    return same(expected, printed, block.tolerance)


def _difference(expected: str, printed: str) -> str:
    """Return the lines that differ, each with a line around it, and how many more there are."""
    before, after = ((text.strip("\n") or "(nothing)").split("\n") for text in (expected, printed))
    lines = list(difflib.unified_diff(before, after, "the page shows", "the code prints", n=1, lineterm=""))
    more = len(lines) - MOST_LINES
    if more > 0:
        lines[MOST_LINES:] = [f"... {more} more lines of this difference"]
    return "\n".join(lines)


def _tolerance(block: Block, printed: str) -> list[Problem]:
    """Return where a block states a wider tolerance than it needs, or none for what machines round differently."""
    problems: list[Problem] = []
    bound = block.tolerance.residue
    largest = max(residues(printed, bound), default=0.0)
    # A bound leaves room for other machines, but their rounding errors are never larger by this factor.
    if bound > ROUNDING * largest:
        message = f"residue={bound:g} is loose: the largest number that it covers is {largest:g}"
        problems.append(Problem(block.line, message, lint=True))
    # A number that stands in the code was chosen, as a learning rate, and is no rounding error.
    unstated = [number for number in rounding(printed, block.tolerance) if number not in block.code]
    if unstated and block.lang == "python":
        advice = f"print a power of ten and state factor=10, or state factor={LEAST_FACTOR:g} or residue="
        message = f"{unstated[0]} looks like this machine's rounding error: {advice}"
        problems.append(Problem(block.line, message, lint=True))
    return problems


def _figures(block: Block, svgs: list[str]) -> list[Problem]:
    """Return what is wrong with the figures of a block: their words, their number, their size."""
    problems = [Problem(f.line, f"{f.src} has no alternative text") for f in block.figures if not f.alt.strip()]
    if len(svgs) != len(block.figures):
        counts = f"the block draws {len(svgs)} figure(s), and {len(block.figures)} image line(s) follow it"
        problems.append(Problem(block.line, counts))
    for drawn, svg in zip(block.figures, svgs, strict=False):
        size = len(svg.encode())
        if size > LARGEST_FIGURE and not block.options.get("large"):
            advice = 'use imshow or fewer points, or say why: large="…"'
            message = f"{drawn.src} has {size:,} bytes, of {LARGEST_FIGURE:,}; {advice}"
            problems.append(Problem(drawn.line, message, lint=True))
    return problems


def _alternative_text(block: Block, outcome: dict) -> list[Problem]:
    """Return the numbers in the words of a figure that stand neither in its block nor in its drawing or caption."""
    problems = []
    for drawn, svg in zip(block.figures, outcome["figures"], strict=False):
        # The texts of a drawing end with </text>, </tspan> or </title>.
        labels = re.findall(r">([^<>]*)</t", svg)
        visible = {text for part in (block.code, outcome["stdout"], drawn.caption, *labels) for text in digits(part)}
        for text in digits(without_free(drawn.alt)):
            if text not in visible:
                where = "stands neither in its block nor in the figure or its caption"
                advice = "show it there too, or say it in words"
                problems.append(Problem(drawn.line, f"{text} in {drawn.src}'s words {where}; {advice}"))
    return problems
