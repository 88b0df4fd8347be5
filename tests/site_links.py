"""What is wrong with the links of a built site to the package's files and to notebooks."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
COLAB = "https://colab.research.google.com/github/posenc/posenc/blob/notebooks/"
REPOSITORY = re.compile(r"https://github\.com/posenc/posenc/(?:blob|edit)/main/")
LINK = re.compile(
    rf'(?:href|data-copies)="((?!https:)[^"]*\bcode/[\w/]+(?:\.py|\.txt|/)|[^"]+\.ipynb|{REPOSITORY.pattern}[^"]+)"'
)


def faults(folder: Path) -> list[str]:
    """Return each link that leads to nothing, or to another file than it says, with its page."""
    found = []
    for page in folder.rglob("*.html"):
        for address in sorted(set(LINK.findall(page.read_text(encoding="utf-8")))):
            if wrong := _wrong(folder.resolve(), page, address):
                found.append(f"{page.relative_to(folder)}: {address} {wrong}")
    return found


def _wrong(folder: Path, page: Path, address: str) -> str:
    if kept := REPOSITORY.match(address):
        return "" if (ROOT / address[kept.end() :]).is_file() else "is not in the repository"
    if address.startswith("https:") and not address.startswith(COLAB):
        return "is no notebook of the branch"
    goal = (page.parent / address).resolve() if address[:6] != "https:" else folder / address.removeprefix(COLAB)
    goal = goal / "index.html" if address.endswith("/") else goal
    if not goal.is_file():
        return "leads nowhere"
    if goal.suffix == ".ipynb":
        return "" if json.loads(goal.read_text(encoding="utf-8"))["nbformat"] == 4 else "is no notebook"
    source = ROOT / "posenc" / goal.relative_to(folder / "code").with_suffix(".py")
    same = goal.suffix == ".html" or goal.read_bytes().split(b"\n", 2)[2:] == [source.read_bytes()]
    return "" if same else "is not what the package has"
