"""What the doctor's words on the world's code come to: right, false alarm, missed, vague, not examinable."""

from typing import Any

from tests.doctor.corpus import Bug, Implementation

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


def names(cause: str) -> set[str]:
    """Return the doctor's names for a cause of the records."""
    return {cause} | SAME.get(cause, set())


def _wrong(findings: list[list[str]]) -> set[str]:
    return {cause for verdict, _, cause, _ in findings if verdict == "wrong"}


def new(said: dict[str, Any], sound: dict[str, Any], verdict: str = "wrong") -> list[list[str]]:
    """Return what is said beyond what is said of the code without the bug."""
    before = {(check, cause) for found, check, cause, _ in sound.get("findings", []) if found == verdict}
    return [f for f in said.get("findings", []) if f[0] == verdict and (f[1], f[2]) not in before]


def of_sound(one: Implementation, said: dict[str, Any]) -> str:
    """Return the verdict on an implementation as it stands: right, false alarm, missed, not examinable or crash."""
    sound = said["sound"]
    if "crashed" in said["first"] or "crashed" in sound:
        return "crash"
    found, due = _wrong(sound.get("findings", [])), [names(cause) for cause in one.defects]
    if any(not any(cause in known for known in due) for cause in found):
        return "false alarm"
    if sound.get("kind") != one.kind:
        return "not examinable"
    return "missed" if due and not found else "right"


def of_bug(bug: Bug, said: dict[str, Any]) -> str:
    """Return the verdict on a bug: cause, wrong (another cause), vague, missed, not examinable or out of sight."""
    here, sound, glued = said["bugs"][bug.name], said["sound"], said["glued"].get(bug.name, {})
    found = _wrong(new(here, sound)) or _wrong(new(glued, said.get("glued sound", {})))
    if found:
        return "cause" if found & names(bug.cause) else "wrong"
    if bug.unseen:
        return "out of sight"
    if "kind" not in here and "kind" not in glued:
        return "not examinable"
    return "vague" if new(here, sound, "note") else "missed"


def verdict(one: Implementation, said: dict[str, Any]) -> dict[str, Any]:
    """Return what comes of an implementation: the first try, the code as it stands, each of its bugs."""
    bugs = {bug.name: of_bug(bug, said) for bug in one.bugs}
    origin = {"name": one.name, "package": one.package, "kind": one.kind}
    return origin | {"first": said["first"].get("kind") == one.kind, "sound": of_sound(one, said), "bugs": bugs}
