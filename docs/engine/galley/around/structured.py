"""What pages are in the words of schema.org: a course with its parts, their chapters, and the package."""

from pathlib import PurePosixPath

from galley.around.dates import changed
from galley.around.site import Shown, Site

TEXT_LICENSE = "https://creativecommons.org/licenses/by/4.0/"
CODE_LICENSE = "https://spdx.org/licenses/{}.html"
KINDS = {  # by the folder or the name of a page
    "chapters": ("LearningResource", "TechArticle"),
    "start": ("LearningResource", "TechArticle"),
    "workbook": ("LearningResource",),
    "reference": ("APIReference",),
}
OTHER = ("TechArticle",)


def called(shown: Shown) -> str:
    """Return a page's title."""
    return shown.title or shown.meta.get("title", "")


def part(shown: Shown, site: Site) -> str:
    """Return the name of the part to which a page belongs: "3 RoPE"; the site's, where there is none."""
    return " · ".join(site.trails.get(shown.uri, ())) or site.name


def graph(shown: Shown, site: Site) -> dict:
    """Return all that is known of a page, as JSON-LD."""
    found = [_course(shown, site) if _is_part(shown) else _article(shown, site)]
    if not shown.url:
        found.append(_website(site))
    if not shown.url or shown.uri in ("reference/index.md", "gallery.md"):
        found.append(_package(site))
    if shown.url:
        found.append(_trail(shown, site))
    return {"@context": "https://schema.org", "@graph": found}


def _is_part(shown: Shown) -> bool:
    path = PurePosixPath(shown.uri)
    return shown.uri == "index.md" or (path.parts[0] == "chapters" and path.stem == "index")


def _facts(shown: Shown, site: Site) -> dict:
    day = changed(site, shown.result.name)
    tags = shown.meta.get("tags")
    return {
        "@id": f"{site.address}{shown.url}#page",
        "name": called(shown),
        "description": shown.description,
        "url": site.address + shown.url,
        "inLanguage": "en",
        "isAccessibleForFree": True,
        "license": TEXT_LICENSE,
        **({"dateModified": day.isoformat()} if day else {}),
        **({"keywords": tags} if tags else {}),
    }


def _publisher(site: Site) -> dict:
    return {"@type": "Organization", "name": _authors(site), "url": site.address}


def _authors(site: Site) -> str:
    return ", ".join(author["name"] for author in site.project.get("authors", [])) or site.name


def _course(shown: Shown, site: Site) -> dict:
    below = [each for each in site.pages if each.uri != shown.uri and _above(each) == shown.uri]
    return {
        "@type": "Course",
        **_facts(shown, site),
        "provider": _publisher(site),
        "educationalLevel": "Advanced",
        "hasPart": [{"@id": f"{site.address}{each.url}#page", "name": called(each)} for each in below],
        **({"isPartOf": {"@id": f"{site.address}#page"}} if shown.url else {}),
        "hasCourseInstance": {"@type": "CourseInstance", "courseMode": "Online"},
    }


def _above(shown: Shown) -> str:
    """Return the place of a chapter's part; that of the home page for all others."""
    folder = PurePosixPath(shown.uri).parent
    within = folder.parts[:1] == ("chapters",) and not _is_part(shown)
    return (folder / "index.md").as_posix() if within else "index.md"


def _article(shown: Shown, site: Site) -> dict:
    above = Shown(_above(shown), shown.result).url
    return {
        "@type": list(KINDS.get(PurePosixPath(shown.uri).parts[0], OTHER)),
        **_facts(shown, site),
        "headline": called(shown),
        "author": _publisher(site),
        "publisher": _publisher(site),
        "isPartOf": {"@id": f"{site.address}{above}#page"},
    }


def _website(site: Site) -> dict:
    search = {"@type": "EntryPoint", "urlTemplate": f"{site.address}?q={{words}}"}
    action = {"@type": "SearchAction", "target": search, "query-input": "required name=words"}
    return {"@type": "WebSite", "name": site.name, "url": site.address, "potentialAction": action}


def _package(site: Site) -> dict:
    project = site.project
    return {
        "@type": ["SoftwareSourceCode", "SoftwareApplication"],
        "name": project.get("name", site.name),
        "description": project.get("description", ""),
        "softwareVersion": project.get("version", ""),
        "codeRepository": project.get("urls", {}).get("Source", site.address),
        "programmingLanguage": "Python",
        "runtimePlatform": f"Python {project.get('requires-python', '')}".strip(),
        "applicationCategory": "DeveloperApplication",
        "operatingSystem": "any",
        "license": CODE_LICENSE.format(project.get("license", "MIT")),
        "isAccessibleForFree": True,
        "author": _publisher(site),
        "url": site.address,
    }


def _trail(shown: Shown, site: Site) -> dict:
    """Return the way from the home page, by the part where it has a page of its own."""
    steps = [(site.name, "index.md")]
    above = (PurePosixPath(shown.uri).parent / "index.md").as_posix()
    steps += [(name, above) for name in site.trails.get(shown.uri, ())[-1:] if above in site.results]
    items = [
        {"name": name, "item": site.address + Shown(uri, shown.result).url} for name, uri in steps if uri != shown.uri
    ]
    items.append({"name": called(shown), "item": site.address + shown.url})
    numbered = [{"@type": "ListItem", "position": n, **item} for n, item in enumerate(items, 1)]
    return {"@type": "BreadcrumbList", "itemListElement": numbered}
