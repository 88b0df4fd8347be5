"""Whether something stands behind each displayed formula: a binding, code of the page, or a reason for neither."""

from collections.abc import Iterable, Iterator

from galley.read.formula import Displayed, digest, short


def check(formulas: Iterable[Displayed]) -> Iterator[tuple[int, str]]:
    """Yield line and message of each displayed formula that nothing stands behind, or that was changed since."""
    for formula in formulas:
        problem = _problem(formula)
        if problem:
            yield formula.line, problem


def _problem(formula: Displayed) -> str:
    """Return what is wrong with the comment of a formula, or nothing."""
    if not formula.kind:
        advice = "bind its names under it, as in <!-- formula: n = 3; x_n = x[n] -->"
        return f"no check stands behind this formula: {short(formula.tex)}; {advice}"
    if formula.kind == "lost":
        return f"no displayed formula stands right above {short(formula.body)}"
    if formula.kind == "unreadable":
        forms = "formula: NAME = EXPRESSION; ..., formula checked: EXPRESSION, and formula reason: WHY"
        return f"cannot read {short(formula.body)}; there are {forms}"
    if formula.kind == "read":
        # The page computes both sides of it, and what is wrong then is an outcome of the page.
        return ""
    if not formula.body:
        return "say behind the colon what stands behind this formula"
    # Nothing compares the other kinds with their formula. The digest in them makes an author look at them again.
    current = digest(formula.tex)
    if formula.digest == current:
        return ""
    state = "this formula changed" if formula.digest else "this formula has no digest yet"
    advice = f"see whether it still stands, then write formula {formula.kind} {current}:"
    return f"{state}, and behind it stands {short(formula.body)}; {advice}"
