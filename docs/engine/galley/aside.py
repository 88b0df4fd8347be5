"""Build a site beside the one that stands, and put it in its place when it is whole."""

import os
import shutil
from pathlib import Path


def beside(site: Path) -> Path:
    """Return the folder to build `site` in: one beside it, which `replace` moves."""
    if os.path.ismount(site):
        return site  # a mounted folder cannot be moved
    return site.with_name(f"{site.name}.part")


def replace(site: Path, part: Path) -> None:
    """Put what was built in `part` in the place of `site`. Killed at any moment, it leaves one of them whole."""
    if part == site:
        return
    if site.exists():
        site.rename(_old(site))
    part.rename(site)
    mend(site)


def mend(site: Path) -> None:
    """Finish what `replace` began, or take it back where the new site had not come to its place."""
    old = _old(site)
    if old.exists() and not site.exists():
        old.rename(site)
    elif old.exists():
        for path in old.glob(".*"):  # like MkDocs, which cleans a folder but leaves what is hidden in it
            if not (site / path.name).exists():
                path.rename(site / path.name)
        shutil.rmtree(old)


def _old(site: Path) -> Path:
    return site.with_name(f"{site.name}.old")
