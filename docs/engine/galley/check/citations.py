"""The bibliography: entries by key, the numbers quoted from each, and the page that lists them."""

import functools
import re
from pathlib import Path

from pybtex.database import BibliographyData, Entry, parse_file

from galley.read.page import COMMENT, Page, Problem

# A label that cites: `Su et al., 2021`, `Su et al. (2021)`, `Shaw, Uszkoreit & Vaswani 2018`, or a year alone.
LABEL = re.compile(r"(?P<names>\D*?)(?P<more> et al\.)?,? ?\(?(?P<year>(?:19|20)\d\d)?\)?")


# The time of the last change is part of the cache's key, so that a server reads an edited bibliography again.
@functools.lru_cache(maxsize=4)
def _read(path: Path, _modified: float) -> BibliographyData:
    return parse_file(str(path), bib_format="bibtex")


def read(path: Path) -> BibliographyData:
    """Return the entries of a BibTeX file."""
    return _read(path, path.stat().st_mtime)


def quoted(entry: Entry) -> dict[str, list[str]]:
    """Return the numbers quoted from a work by place: `quoted = {table 1: 94.82, 11.16; abstract: 8}`."""
    places = (part.partition(":") for part in _fields(entry).get("quoted", "").split(";") if part.strip())
    return {place.strip(): [number.strip() for number in numbers.split(",")] for place, _, numbers in places}


def check(page: Page, path: Path) -> list[Problem]:
    """Return the quotations of a page that the bibliography does not hold."""
    problems = []
    entries = read(path).entries if path.exists() else {}
    for number in page.numbers:
        if number.operator != "cite":
            continue
        key, _, place = (part.strip() for part in number.body.partition(","))
        if key not in entries:
            problems.append(Problem(number.line, f"cite: there is no {key!r} in {path.name}"))
        elif number.written.strip(" %*").replace(",", "") not in quoted(entries[key]).get(place, []):
            known = f"the numbers that {path.name} quotes from {key}, {place or 'no place'}"
            problems.append(Problem(number.line, f"cite: {number.written} is not among {known}"))
    return problems


def check_labels(page: Page, path: Path) -> list[Problem]:
    """Return the links to works, here or on arXiv, whose label names another author or year than the bibliography."""
    problems = []
    entries = read(path).entries if path.exists() else {}
    addresses = {_address(_fields(entry).get("url", "")): key for key, entry in entries.items()}
    for link in page.links:
        file, _, anchor = link.target.partition("#")
        key = anchor if file.endswith("bibliography.md") else addresses.get(_address(link.target))
        label = LABEL.fullmatch(COMMENT.sub("", link.label).strip())
        if key is None or key not in entries or not label or not (label["more"] or label["year"]):
            # A label without a year or `et al.` may be a title or any other words, which no rule can judge.
            continue
        author = _authors(entries[key])[0]
        year = _fields(entries[key])["year"]
        # A name of several words, such as van den Oord, may be cited by its last word alone.
        is_author = _first_name(label["names"]) in ("", author, author.split()[-1])
        if not is_author or label["year"] not in (None, year):
            problems.append(Problem(link.line, f"[{link.label}] leads to {key}, which is by {author}, {year}"))
    return problems


def markdown(path: Path) -> str:
    """Return the entries as a Markdown list, each with an anchor of its key."""
    return "\n".join(_line(key, entry) for key, entry in sorted(read(path).entries.items(), key=_by_author))


def _fields(entry: Entry) -> dict[str, str]:
    return dict(entry.fields or {})


def _address(url: str) -> str:
    """Return an address in a form to compare: of a paper on arXiv its number, without the version."""
    match = re.search(r"arxiv\.org/(?:abs|pdf)/(\d{4}\.\d{4,5})", url)
    return match[1] if match else url.rstrip("/")


def _first_name(names: str) -> str:
    """Return the first of the names in a label."""
    return re.split(r",| and | & ", names)[0].strip()


def _authors(entry: Entry) -> list[str]:
    """Return the last names of a work's authors."""
    authors = (entry.persons or {}).get("author", [])
    # BibTeX takes the words in braces for one name, as that of a group must be.
    return [" ".join(author.last_names).strip("{}") for author in authors]


def _by_author(item: tuple[str, Entry]) -> tuple[str, str]:
    _, entry = item
    return _authors(entry)[0], _fields(entry)["year"]


def _line(key: str, entry: Entry) -> str:
    """Return one entry as a line of the list."""
    authors, fields = _authors(entry), _fields(entry)
    names = f"{authors[0]} et al." if len(authors) > 2 else " and ".join(authors)
    # Braces keep BibTeX from changing the case of a title; a reader should not see them.
    title = re.sub(r"[{}]", "", fields["title"])
    link = f"[{title}]({fields['url']})" if "url" in fields else title
    place = fields.get("booktitle") or fields.get("journal") or fields.get("howpublished", "")
    published = f" *{place}*." if place else ""
    return f'- <a id="{key}"></a>**{names} ({fields["year"]}).** {link}.{published}'
