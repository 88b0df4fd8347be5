"""Which files git says have changed: since origin/main, or in the last commit where origin/main has all commits."""

import subprocess
from functools import cache
from pathlib import Path

from dev import ROOT


@cache
def changed(root: Path = ROOT) -> frozenset[str]:
    """Return the changed files, new ones among them, as paths from `root`; none where git or its history is missing."""
    head, bases = _git(root, "rev-parse", "HEAD"), _git(root, "merge-base", "origin/main", "HEAD")
    if bases == head:
        bases = []
    bases += _git(root, "rev-parse", "--verify", "--quiet", "HEAD~1") or ["HEAD"]
    written = _git(root, "diff", "--name-only", "--relative", bases[0])
    return frozenset(written + _git(root, "ls-files", "--others", "--exclude-standard"))


def _git(root: Path, *arguments: str) -> list[str]:
    """Return the lines that git answers with, or none."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []
