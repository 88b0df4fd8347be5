"""Write the first draft of an encoding or a page, which passes all its tests as it stands.

    python -m tests.new encoding gauss bias      posenc/bias/gauss.py and tests/bias/test_gauss.py
    python -m tests.new page 4-biases/gauss      docs/chapters/4-biases/gauss.md, and its line in mkdocs.yml

An encoding starts as the toy of its door (tests/toys) under another name, a page as tests/toys/page.md.
"""

import keyword
import re
import sys
from pathlib import Path

import posenc

ROOT = Path(__file__).parents[1]
TOYS = Path(__file__).parent / "toys"
TOY = {"add": "row", "rotate": "turn", "bias": "slope", "score": "nearby"}


class Refused(Exception):
    """What was asked for cannot be written."""


def encoding(name: str, door: str) -> list[Path]:
    """Write the two files of an encoding, and return their paths."""
    if door not in TOY:
        raise Refused(f"DOOR must be one of {', '.join(TOY)}, got {door!r}; README shows what enters where")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise Refused(f"NAME must be a name of Python in small letters, such as gauss, got {name!r}")
    cls = "".join(part.capitalize() for part in name.split("_"))
    taken = {known.lower() for known, _ in posenc._names()} | posenc._modules() | set(posenc.TOOLS)
    if {name, cls.lower()} & taken:
        raise Refused(f"NAME must be new, got {name!r}; `from posenc import` already finds it")
    toy = TOY[door]
    places = {
        TOYS / door / f"{toy}.py": ROOT / "posenc" / door / f"{name}.py",
        TOYS / door / f"test_{toy}.py": ROOT / "tests" / door / f"test_{name}.py",
    }
    words = {toy: name, toy.capitalize(): cls}
    for source, place in places.items():
        text = source.read_text(encoding="utf-8")
        write(place, re.sub(rf"\b({'|'.join(words)})\b", lambda found: words[found[0]], text))
    return list(places.values())


def page(name: str) -> list[Path]:
    """Write a chapter and its line in the navigation, and return the paths of both files."""
    part, _, stem = name.removesuffix(".md").rpartition("/")
    folder, nav = ROOT / "docs" / "chapters" / part, ROOT / "mkdocs.yml"
    parts = sorted(path.name for path in (ROOT / "docs" / "chapters").iterdir() if path.is_dir())
    if part not in parts or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", stem):
        raise Refused(
            f"NAME must be a part and a page, such as 4-biases/gauss, got {name!r}; parts: {', '.join(parts)}"
        )
    listed = re.findall(rf"^ +- chapters/{part}/.*\n", nav.read_text(encoding="utf-8"), re.M)
    words = {
        "NUMBER": f"{part[0]}.{len(listed)}",  # the first that is listed is the part's own page
        "TITLE": stem.replace("-", " ").capitalize(),
        "PAGE": stem,
    }
    text = (TOYS / "page.md").read_text(encoding="utf-8")
    write(folder / f"{stem}.md", re.sub("|".join(words), lambda found: words[found[0]], text))
    line = f"{listed[-1].partition('-')[0]}- chapters/{part}/{stem}.md\n"
    nav.write_text(nav.read_text(encoding="utf-8").replace(listed[-1], listed[-1] + line), encoding="utf-8")
    return [folder / f"{stem}.md", nav]


def write(path: Path, text: str) -> None:
    """Write a file that is not there yet."""
    if path.exists():
        raise Refused(f"{path.relative_to(ROOT)} is there already")
    path.write_text(text, encoding="utf-8")


def main(kind: str = "", *names: str) -> int:
    """Write a draft; return 2 where the command cannot be followed."""
    try:
        written = {"encoding": encoding, "page": page}[kind](*names)
    except (KeyError, TypeError):
        print("new: give `encoding NAME DOOR` or `page PART/NAME`")
        return 2
    except Refused as error:
        print(f"new: {error}")
        return 2
    print("\n".join(f"wrote {path.relative_to(ROOT)}" for path in written))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
