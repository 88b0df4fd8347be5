"""Write the first draft of an encoding or a page, which passes all its tests as it stands.

    python -m dev.new encoding gauss bias      posenc/bias/gauss.py and tests/bias/test_gauss.py
    python -m dev.new page 4-biases/gauss      docs/chapters/4-biases/gauss.md, its line in mkdocs.yml, its figure

Both start as something that the tests try: an encoding as the template of its door in docs/engine/dev/templates under
another name, a page and its figure as page.md and figure.js there.
"""

import keyword
import re
import sys
from pathlib import Path

from dev import ROOT
from posenc import _index

TEMPLATES = Path(__file__).parent / "templates"
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
    known = {public.lower() for public in _index.places()} | {*_index.top_modules()}
    if {name, cls.lower()} & known:
        raise Refused(f"NAME must be new, got {name!r}; the package has it already")
    toy = TOY[door]
    places = {
        TEMPLATES / door / f"{toy}.py": ROOT / "posenc" / door / f"{name}.py",
        TEMPLATES / door / f"test_{toy}.py": ROOT / "tests" / door / f"test_{name}.py",
    }
    return write(places, {toy: name, toy.capitalize(): cls})


def page(name: str) -> list[Path]:
    """Write a chapter, its figure and its line in the navigation, and return the paths of all three."""
    part, _, stem = name.removesuffix(".md").rpartition("/")
    docs, nav = ROOT / "docs", ROOT / "mkdocs.yml"
    parts = sorted(path.name for path in (docs / "chapters").iterdir() if path.is_dir())
    if part not in parts or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", stem):
        raise Refused(
            f"NAME must be a part and a page, such as 4-biases/gauss, got {name!r}; parts: {', '.join(parts)}"
        )
    listed = re.findall(rf"^ +- chapters/{part}/.*\n", nav.read_text(encoding="utf-8"), re.M)
    replacements = {
        "NUMBER": f"{part[0]}.{len(listed)}",  # the first that is listed is the part's own page
        "TITLE": stem.replace("-", " ").capitalize(),
        "PAGE": stem,
        "NAME": re.sub("-(.)", lambda letter: letter[1].upper(), stem),
    }
    figure = docs / "assets" / "js" / "figures" / f"{stem}.js"
    places = {TEMPLATES / "page.md": docs / "chapters" / part / f"{stem}.md", TEMPLATES / "figure.js": figure}
    written = write(places, replacements)
    line = f"{listed[-1].partition('-')[0]}- chapters/{part}/{stem}.md\n"
    nav.write_text(nav.read_text(encoding="utf-8").replace(listed[-1], listed[-1] + line), encoding="utf-8")
    return [*written, nav]


def write(places: dict[Path, Path], replacements: dict[str, str]) -> list[Path]:
    """Write a copy of each template at its place, with words replaced; where a file is there already, write none."""
    if there := [path for path in places.values() if path.exists()]:
        raise Refused(f"NAME must be new, got one of {there[0].relative_to(ROOT)}, which is there already")
    word = re.compile(rf"\b({'|'.join(replacements)})\b")
    for template, place in places.items():
        text = template.read_text(encoding="utf-8")
        place.write_text(word.sub(lambda match: replacements[match[0]], text), encoding="utf-8")
    return list(places.values())


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
    print(f"CONTRIBUTING.md, step by step, says what comes next; at last: make check NAME={written[0].stem}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
