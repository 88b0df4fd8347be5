"""What the doctor's words on the world's code come to: right, false alarm, missed, vague, not examinable."""

from collections import Counter
from typing import Any

from tests.world import Bug, Implementation
from tests.world.judge import new

ROUNDED = {"buffers-rounded", "positions-rounded", "angles-rounded", "precision-lost"}
SAME = {  # a cause of the records, and the doctor's names for it or for what it brings about in the same line of code
    "keys-turned-twice": {"turned-twice"},
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


def names(cause: str) -> set[str]:
    """Return the doctor's names for a cause of the records."""
    return {cause} | SAME.get(cause, set())


def _wrong(findings: list[list[str]]) -> set[str]:
    return {cause for verdict, _, cause, _ in findings if verdict == "wrong"}


def of_sound(implementation: Implementation, said: dict[str, Any]) -> str:
    """Return the verdict on an implementation as it stands: right, false alarm, missed, not examinable or crash."""
    sound = said["sound"]
    if "crashed" in said["first"] or "crashed" in sound:
        return "crash"
    if "kind" not in sound:
        return "not examinable"
    found, due = _wrong(sound["findings"]), [names(cause) for cause in implementation.defects]
    if any(not any(cause in known for known in due) for cause in found):
        return "false alarm"
    return "missed" if due and not found else "right"


def of_bug(bug: Bug, said: dict[str, Any]) -> str:
    """Return the verdict on a bug: cause, wrong (another cause), vague, missed or not examinable."""
    here, sound, glued = said["bugs"][bug.name], said["sound"], said["glued"].get(bug.name, {})
    found = _wrong(new(here, sound)) or _wrong(glued.get("findings", []))
    if found:
        return "cause" if found & names(bug.cause) else "wrong"
    if "kind" not in here and "kind" not in glued:
        return "not examinable"
    return "vague" if new(here, sound, "note") else "missed"


def table(implementations: list[Implementation], told: dict[str, Any]) -> dict[str, Counter[str]]:
    """Return how often each verdict was given, by kind of code: of implementations, of bugs, of first tries."""
    found: dict[str, Counter[str]] = {}
    for one in implementations:
        if one.name not in told:
            continue
        said = told[one.name]
        sound, bugs, tries = (
            found.setdefault(f"{one.kind}, {what}", Counter()) for what in ("as they stand", "bugs", "first tries")
        )
        sound[of_sound(one, said)] += 1
        tries["examined" if "kind" in said["first"] else "refused"] += 1
        for bug in one.bugs:
            bugs[of_bug(bug, said)] += 1
    return found
