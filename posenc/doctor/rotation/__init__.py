"""Examine a rotation: measure its pairs and frequencies, then check lengths, layout, logits, precision and use."""

from typing import Any

from posenc.doctor.call.axes import SHOWN
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, not_checked, run_checks, stopped, with_check_name
from posenc.doctor.rotation import frequencies, layout, measure, precision, usage
from posenc.doctor.rotation.measure import Rotation, RotationRecord
from posenc.doctor.safe_call import attempt

PICTURE_TOKENS = 24
# After these nothing can be measured.
PRECLUDING = ("not-finite", "one-for-both", "swapped", "offset-ignored", "heads-axis", "batch-axis")
# Only after these can logits still depend on offsets only.
STILL_BY_OFFSET = ("padded-with-one", "factor-twice", "axis-lost")
OF_USE = (frequencies.base, frequencies.factor, frequencies.width, *precision.CHECKS, *usage.CHECKS)
TWICE = "pass the attention with its cache: one call cannot show that keys were rotated before they came in"
ANGLES_BY_DOCTOR = "cos and sin are those of the doctor: pass the function that computes yours too"


def accepts(code: Code) -> bool:
    """Return whether the code can be called as a rotation: zeros come back as zeros, one token for each."""
    # Embeddings as wide as one head: nothing shows how many heads there are.
    if code.call.order in ("btd", "tbd"):
        code.sizes = code.sizes | {"heads": 1}
    if code.needs("rows") or code.needs("grid"):
        code.call = code.call._replace(tokens=PICTURE_TOKENS)
        return measure.rotates_tokens(code, PICTURE_TOKENS)
    # As many tokens as heads would let positions broadcast against heads by mistake.
    tokens = 7 if code.heads == 6 else 6
    if code.takes("positions") or code.takes("offset"):
        return measure.rotates_tokens(code, tokens)
    rotates, failed = attempt(measure.rotates_tokens, code, tokens)
    if failed:
        return measure.rotates_fixed_tokens(code) or measure.rotates_tokens(code, tokens)  # which raises
    return bool(rotates)


def is_sound(code: Code) -> bool:
    """Return whether norms stay and something rotates: among several forms of tables, the one that fits."""
    # Equal tokens: differences between results are due to positions.
    x = random(1, code.heads, 1, code.dim, seed=1)
    x = x.repeat_interleave(code.call.tokens or 6, dim=2)  # (1, h, t, d)
    y = Rotation(code)(x)
    lengths_stay = relative_difference(y.norm(dim=-1), x.norm(dim=-1)) < measure.TOLERANCE
    return lengths_stay and bool((y.diff(dim=2).abs() > measure.TOLERANCE).any())


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a rotation of heads of `dim` channels, and what was examined."""
    rotate = Rotation(code.fresh(), code)
    examined: dict[str, Any] = {"axes": SHOWN[code.call.order or "bhtd"]}
    # memory comes first, for the first calls of all find out how many positions there are.
    findings = run_checks((usage.memory, layout.contents, layout.along), rotate)
    # What is not finite differs from itself, so that nothing before counts; this call must not fill caches before them.
    findings = run_checks((layout.finite,), rotate) or findings
    if any(finding.id in PRECLUDING for finding in findings):
        return stopped(findings), examined
    record = measure.measure_rotation(rotate)
    findings += [*_of_pairs(record), *run_checks(OF_USE, record)]
    return [*findings, with_check_name(not_checked(TWICE), "rotating twice")], examined | _examined(record)


def _of_pairs(record: RotationRecord) -> list[Finding]:
    findings = run_checks(layout.checks_of_pairs(record), record)
    if any(finding.is_wrong and finding.id not in STILL_BY_OFFSET for finding in findings):
        reason = not_checked("after what is wrong above, logits cannot depend on offsets only")
        findings.append(with_check_name(reason, "shift"))
    else:
        findings += run_checks((layout.shift,), record)
    if record.angles_by_doctor:
        return [*findings, with_check_name(not_checked(ANGLES_BY_DOCTOR), "frequencies")]
    return findings + run_checks((frequencies.frequencies,), record)


def _examined(record: RotationRecord) -> dict[str, str]:
    """Return the layout, the rotary width, the rows of a grid, and the rule of the frequencies."""
    reading, fit = record.reading, record.fit
    if not reading.pairs:
        return {"layout": "no pairs of channels to measure"}
    is_known = getattr(record.code.source, "layout_known", True)  # where the code makes tables only
    name = layout.short_name(reading) if is_known else "layout of its own"
    examined = {"layout": name, "width": f"{2 * len(reading.pairs)} of {record.dim} channels rotate"}
    if reading.columns:
        examined["grid"] = f"on a grid of rows of {reading.columns}"
    if record.angles_by_doctor:
        return examined | {"angles": f"angles of the doctor, {record.code.call.table_form}"}
    has_base = fit.name in ("regular", "linear", "by parts")
    scaling = {"linear": f"positions divided by {fit.factor:.4g}", "by parts": "scaled by parts"}.get(fit.name, "")
    return examined | {"base": f"base {fit.base:,.6g}" if has_base else "no base that fits", "scaling": scaling}
