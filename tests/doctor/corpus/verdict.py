"""What the doctor's diagnoses of the corpus come to: right, false alarm, missed, vague, not examinable."""

from typing import Any

from tests.doctor.corpus import Bug, Implementation

# Causes of the records whose name alone does not tell them:
#   axes-summed: both axes turn the same pairs alike, only the sum of the coordinates counts
#   cosine-lost: both channels of a pair hold the sine (or both the cosine)
#   decay-not-inverted: xPos, keys are not scaled by the inverse of what scales queries
#   exponent-inverted: speeds rise from 1 to the base, as the sign of the exponent is lost
#   exponent-rising: the right speeds, slowest first
#   exponent-steep: speeds fall by a fixed factor from pair to pair, whatever the width
#   gradient-wrong: a gradient arrives, but it is not that of what was computed
#   heads-ignored: the number of heads that was asked for is ignored, all heads share one table
#   queries-mixed: the bias of a query is made of the content of another query
#   scale-wrong: the scale is that of another width than the head's
#   scaling-reversed: stretching reaches the fast pairs and spares the slow ones, not the other way
# axes-swapped stands too where it shows only in grids that are not square.

ROUNDED = {"buffers-rounded", "positions-rounded", "angles-rounded", "precision-lost"}
SAME = {  # a cause of the records, and the doctor's names for it or for what it brings about in the same line of code
    "keys-turned-twice": {"turned-twice", "offset-ignored"},  # whose words name cached keys that are turned again
    "queries-turned-twice": {"turned-twice"},
    "scale-twice": {"scale-wrong", "scale-twice", "scale-missing"},
    "scale-of-model": {"scale-wrong"},
    "scaled-wrong": {"slopes-wrong"},
    "softmax-axis": {"weights-wrong"},
    "cosine-lost": {"order-broken", "crossed"},
    "order-broken": {"crossed"},
    "crossed": {"order-broken"},
    "exponent-flat": {"still", "rows-alike"},
    "exponent-steep": {"exponent-precedence"},
    "exponent-inverted": {"exponent-rising"},
    "exponent-rising": {"exponent-inverted"},
    "positions-ignored": {"offset-ignored", "still", "rows-alike"},
    "offset-ignored": {"positions-ignored", "cache-wrong", "decode-aligned-first"},
    "decode-aligned-first": {"offset-ignored", "cache-wrong"},
    "cache-order": {"cache-wrong", "offset-ignored"},
    "layout-mixed": {"not-a-rotation"},
    "not-a-rotation": {"layout-mixed"},
    "opposite": {"sides-differ"},
    "one-side": {"sides-differ"},
    "decay-not-inverted": {"absolute", "sides-differ", "not-a-rotation"},
    "transposed": {"one-direction-lost", "sign-reversed"},
    "one-direction-lost": {"transposed"},
    "penalty-reversed": {"sign-reversed"},
    "sign-reversed": {"transposed", "penalty-reversed"},
    "window-wrong": {"mask-off-by-one"},
    "mask-off-by-one": {"future-seen", "self-hidden"},
    "future-seen": {"mask-off-by-one"},
    "values-moved": {"weights-wrong"},
    "dropout-on": {"rows-mixed"},
    **dict.fromkeys(ROUNDED, ROUNDED),
    "bias-rounded": ROUNDED,
}


def accepted(cause: str) -> set[str]:
    """Return the doctor's names for a cause of the records."""
    return {cause} | SAME.get(cause, set())


def _causes(findings: list[list[str]]) -> set[str]:
    """Return the causes of what is called wrong."""
    return {cause for verdict, _, cause, _ in findings if verdict == "wrong"}


def new_findings(diagnosis: dict[str, Any], sound: dict[str, Any], verdict: str = "wrong") -> list[list[str]]:
    """Return the findings of a verdict beyond those on the code without the bug."""
    known = {(check, cause) for kind, check, cause, _ in sound.get("findings", []) if kind == verdict}
    return [f for f in diagnosis.get("findings", []) if f[0] == verdict and (f[1], f[2]) not in known]


def of_sound(implementation: Implementation, result: dict[str, Any]) -> str:
    """Return the verdict on an implementation as it stands: right, false alarm, missed, not examinable or crash."""
    sound = result["sound"]
    if "crashed" in result["first"] or "crashed" in sound:
        return "crash"
    causes = _causes(sound.get("findings", []))
    defects = [accepted(cause) for cause in implementation.defects]
    if any(not any(cause in names for names in defects) for cause in causes):
        return "false alarm"
    if sound.get("kind") != implementation.kind:
        return "not examinable"
    return "missed" if defects and not causes else "right"


def of_bug(bug: Bug, result: dict[str, Any]) -> str:
    """Return the verdict on a bug: cause, wrong (another cause), vague, missed, not examinable or out of sight."""
    diagnosis, sound, glued = result["bugs"][bug.name], result["sound"], result["glued"].get(bug.name, {})
    causes = _causes(new_findings(diagnosis, sound)) or _causes(new_findings(glued, result.get("glued sound", {})))
    if causes:
        return "cause" if causes & accepted(bug.cause) else "wrong"
    if bug.unseen:
        return "out of sight"
    if "kind" not in diagnosis and "kind" not in glued:
        return "not examinable"
    return "vague" if new_findings(diagnosis, sound, "note") else "missed"


def verdict(implementation: Implementation, result: dict[str, Any]) -> dict[str, Any]:
    """Return the verdicts on an implementation: on the first try, on the code as it stands, on each of its bugs."""
    origin = {"name": implementation.name, "package": implementation.package, "kind": implementation.kind}
    first = result["first"].get("kind") == implementation.kind
    bugs = {bug.name: of_bug(bug, result) for bug in implementation.bugs}
    return origin | {"first": first, "sound": of_sound(implementation, result), "bugs": bugs}
