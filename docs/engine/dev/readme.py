"""`python -m dev.readme` writes the table of the encodings into README.md; a test holds it to that."""

import ast
import re

import posenc
from dev import ROOT

PATH = ROOT / "README.md"
SITE = "https://posenc.github.io/posenc/gallery/"
ENTERS = {
    "add": "added to the token embedding",
    "rotate": "a rotation or scale of queries and keys",
    "bias": "added to the logits, by offset",
    "score": "added to the logits, by content and offset",
}
TABLE = re.compile(r"(?<=<!-- encodings: `make update` writes them -->\n).*?(?=<!-- /encodings -->)", re.S)


def rows() -> list[str]:
    """Return a row for each encoding, read from the head of its file."""
    return [row(encoding) for encoding in posenc.encodings().values()]


def row(encoding: posenc.Encoding) -> str:
    """Return the row of one encoding: its card, what it does, where it comes from."""
    source = (ROOT / "posenc" / encoding.door / f"{encoding.name}.py").read_text(encoding="utf-8")
    head = " ".join((ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].split())
    does = re.sub(r"(?<=\.) .*", "", head.partition(": ")[2])
    paper = f"{encoding.authors}, {encoding.year}"
    if encoding.url:
        paper = f"[{paper}]({encoding.url})"
    return f"| [{encoding.cls}]({SITE}#{encoding.name}) | {encoding.door} | {does[:1].upper()}{does[1:]} | {paper} |"


def table() -> str:
    """Return the whole table, below a sentence that names the kinds."""
    kinds = "; ".join(f"`{kind}`: {where}" for kind, where in ENTERS.items())
    head = f"\nBy where position enters attention ({kinds}).\n"
    return "\n".join([head, "| Encoding | Kind | What it does | Paper |", "|---|---|---|---|", *rows(), "", ""])


if __name__ == "__main__":
    PATH.write_text(TABLE.sub(lambda _: table(), PATH.read_text(encoding="utf-8")), encoding="utf-8")
