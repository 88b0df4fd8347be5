"""Check pages: what they show against what their code gives, and what no code stands behind."""

from dataclasses import dataclass
from pathlib import Path

from galley.check import ambiguous_names, citations, formula_comments, katex
from galley.check.blocks import check_options
from galley.check.outputs import check_block
from galley.check.sentences import VERDICT, check_number, unbound, without_bound
from galley.read.formula import Displayed
from galley.read.page import COMMENT, Number, Page, Problem


@dataclass(frozen=True)
class Folders:
    """Where a book keeps what its pages are checked against."""

    root: Path
    docs: Path
    bibliography: Path
    cache: Path


def check_results(page: Page, outcomes: list[dict]) -> list[Problem]:
    """Return what went wrong while the page ran, and where it shows something else than its code gives."""
    problems: list[Problem] = []
    # A step that never ran has an empty outcome. An error of the page explains it; without one, the page would pass
    # though nobody has seen what the step gives.
    if outcomes and not all(outcomes) and not any(outcome.get("error") for outcome in outcomes):
        problems.append(Problem(page.steps[outcomes.index({})].line, "this never ran, and nothing says why"))
    # A page whose process died has fewer outcomes than steps, and a page that is still to run has none.
    for step, outcome in zip(page.steps, outcomes, strict=False):
        if outcome.get("error"):
            problems.append(Problem(outcome["error_line"] or step.line, outcome["error"]))
        elif not outcome:
            continue
        elif isinstance(step, Number):
            problems += check_number(step, outcome["value"])
        elif isinstance(step, Displayed):
            problems += [Problem(step.line, wrong) for wrong in outcome["wrong"]]
        else:
            problems += check_block(step, outcome)
    return problems


def check_static(page: Page, folders: Folders) -> list[Problem]:
    """Return what is wrong whatever the code gives: sources, quotations, formulas, unbound numbers."""
    problems = [problem for block in page.blocks for problem in check_options(block, folders.root, folders.docs)]
    drawn = [figure for block in page.blocks for figure in block.figures]
    for n, figure in enumerate(drawn):
        if any(figure.src == other.src for other in drawn[:n]):
            problems.append(Problem(figure.line, f"{figure.src} is the name of another figure too"))
    problems += citations.check(page, folders.bibliography)
    problems += citations.check_labels(page, folders.bibliography)
    problems += [Problem(line, problem) for line, problem in katex.check(page.all_formulas, folders.cache)]
    problems += [Problem(line, problem) for line, problem in formula_comments.check(page.displayed)]
    problems += [Problem(line, problem) for line, problem in ambiguous_names.check(page)]
    for line, text in unbound(page):
        problems.append(Problem(line, f"no code stands behind {text}: bind it, cite it, or mark it <!-- given -->"))
    for figure in drawn:
        # A word with a binding has its comparison already, and the text of a comment is not shown.
        for word in VERDICT.findall(COMMENT.sub("", without_bound(figure.caption))):
            advice = f"bind it, as in <!-- = last > first and {word!r} -->, or say what is drawn"
            problems.append(Problem(figure.line + 1, f"no comparison stands behind {word!r} in this caption: {advice}"))
    return problems
