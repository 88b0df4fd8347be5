"""Whether something stands behind each displayed formula: a binding, code of the page, or a reason for neither."""

from collections.abc import Iterable, Iterator

from galley.read.formula import Displayed, digest, short


def check(formulas: Iterable[Displayed]) -> Iterator[tuple[int, str]]:
    """Yield line and message of each displayed formula that nothing stands behind, or that was changed since."""
    for formula in formulas:
        if not formula.kind:
            advice = "bind its names under it, as in <!-- formula: n = 3; x_n = x[n] -->"
            yield formula.line, f"no check stands behind this formula: {short(formula.tex)}; {advice}"
        elif formula.kind == "lost":
            yield formula.line, f"no displayed formula stands right above {short(formula.body)}"
        elif formula.kind == "unreadable":
            forms = "formula: NAME = EXPRESSION; ..., formula checked: EXPRESSION, and formula reason: WHY"
            yield formula.line, f"cannot read {short(formula.body)}; there are {forms}"
        elif not formula.body and formula.kind != "read":
            yield formula.line, "say behind the colon what stands behind this formula"
        elif formula.kind != "read" and formula.digest != (now := digest(formula.tex)):
            was = "this formula changed" if formula.digest else "this formula has no digest yet"
            advice = f"see whether it still stands, then write formula {formula.kind} {now}:"
            yield formula.line, f"{was}, and behind it stands {short(formula.body)}; {advice}"
