"""Check that all that names a version names that of a tag, and print what is new: python -m dev.release v0.1.0."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

from dev import ROOT


def notes(changelog: str, version: str) -> tuple[str, str]:
    """Return the date of a version and its part of the changelog; empty texts where the changelog has no such part."""
    part = re.search(rf"^## {re.escape(version)} — (\S+)\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    return (part[1], part[2].strip()) if part else ("", "")


def problems(tag: str, root: Path = ROOT) -> Iterator[str]:
    """Yield what keeps a tag from being released."""
    version = tag.removeprefix("v")
    project, book = (_project(root / place) for place in ("pyproject.toml", "docs/book/pyproject.toml"))
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    versions = {
        "pyproject.toml": project["version"],
        "docs/book/pyproject.toml": book["version"],
        "what docs/book/pyproject.toml needs": _pinned("posenc", book["dependencies"]),
        "CITATION.cff": citation["version"],
    }
    for place, other in versions.items():
        if other != version:
            yield f"{place} says {other}, the tag {version}"
    date, _ = notes((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        yield f"CHANGELOG.md has no `## {version} — YYYY-MM-DD`"
    elif date != str(citation["date-released"]):
        yield f"CITATION.cff has the date {citation['date-released']}, CHANGELOG.md {date}"


def _pinned(package: str, needs: list[str]) -> str:
    return next((need.removeprefix(f"{package}==") for need in needs if need.startswith(f"{package}==")), "nothing")


def _project(path: Path) -> dict:
    return tomllib.loads(path.read_text(encoding="utf-8"))["project"]


def main(tag: str) -> int:
    """Print what is new, or what is wrong."""
    differences = list(problems(tag))
    if differences:
        print(*differences, sep="\n", file=sys.stderr)
        return 1
    print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), tag.removeprefix("v"))[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
