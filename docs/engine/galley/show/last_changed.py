"""The day on which each file was last changed, as git knows it, from one look at the whole history.

Where git does not know the history, as in an archive or in a clone of the last commit alone, the day is that of
SOURCE_DATE_EPOCH, and without it none is known.
"""

import os
import subprocess
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path


def last_changed(root: Path, name: str) -> date | None:
    """Return the day on which a file below `root` was last changed, where that is known."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    fallback = datetime.fromtimestamp(int(epoch), UTC).date() if epoch else None
    return history(root).get(name, fallback)


@cache
def history(root: Path) -> dict[str, date]:
    """Return the day of the last commit of each file, by its place below `root`."""
    # A shallow clone shows its oldest commit as one that has made all files.
    if _git(root, "rev-parse", "--is-shallow-repository").strip() != "false":
        return {}
    days: dict[str, date] = {}
    # Commits are kept apart by a zero byte, which no name holds; core.quotePath would write é in a name as an escape.
    commits = _git(root, "-c", "core.quotePath=off", "log", "--format=%x00%cs", "--name-only", "--relative")
    for commit in commits.split("\0")[1:]:
        day, *names = filter(None, commit.split("\n"))
        for name in names:
            days[name] = max(days.get(name, date.min), date.fromisoformat(day))
    return days


def _git(root: Path, *command: str) -> str:
    """Return what git says, and nothing where there is no git or no repository."""
    try:
        done = subprocess.run(["git", *command], cwd=root, capture_output=True, encoding="utf-8", check=False)
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""
