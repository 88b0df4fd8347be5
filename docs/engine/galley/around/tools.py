"""What a reader can do with a page: change it, take it along as a notebook or as Markdown, run it somewhere else."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from galley import notebook
from galley.around import notebooks
from galley.around.site import Shown, Site

ARTICLE = re.compile(r"<article\b[^>]*>")
COLAB = "https://colab.research.google.com/github"
BRANCH = "notebooks"  # where a workflow publishes them
OWN = ("index.md",)  # pages that are laid out on their own
PENCIL = "M4 20l1-5L16 4l4 4L9 19zM13.5 6.5l4 4"
PAPER = "M7 3h12v18H7zM4 8h3M4 12h3M4 16h3M11 8h5M11 12h5"
RUN = "M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M10 8l6 4-6 4z"
MARKDOWN = "M2 6h20v12H2zM6 15V9l3 3 3-3v6M17 9v6M14.5 12.5L17 15l2.5-2.5"


@dataclass(frozen=True)
class Tool:
    """A link on top of a page: what it does, where it leads, how it is drawn, and further attributes."""

    does: str
    address: str
    icon: str
    more: str = ""

    @property
    def html(self) -> str:
        """The link, with its words in a tooltip and for those who cannot see it."""
        line = 'fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"'
        icon = f'<svg viewBox="0 0 24 24" aria-hidden="true"><path d="{self.icon}" {line}/></svg>'
        words = f'title="{self.does}" aria-label="{self.does}"'
        return f'<a href="{self.address}" {words} class="md-content__button md-icon"{self.more}>{icon}</a>'


def put(html: str, shown: Shown, site: Site) -> str:
    """Return a page with its tools on top."""
    if shown.uri in OWN:
        return html
    links = "".join(tool.html for tool in tools(shown, site))
    return ARTICLE.sub(lambda article: f'{article[0]}<div class="tools">{links}</div>', html, count=1)


def tools(shown: Shown, site: Site) -> list[Tool]:
    """Return a page's tools: what runs is a notebook too, and some lead to the repository, if there is one."""
    repository, own = site.settings.get("repo_url", ""), notebooks.place(shown.uri)
    edited = f"{repository}/{site.settings.get('edit_uri', '')}{shown.uri}"
    branch = f"{COLAB}{urlsplit(repository).path}/blob/{BRANCH}"
    runs = notebook.portable(shown.result)
    offered = {
        Tool("Edit this page", edited, PENCIL, ' rel="edit"'): repository,
        Tool("This page as Markdown", "index.md", MARKDOWN): True,
        Tool("Download this page as a notebook", shown.up + own, PAPER, " download"): runs,
        Tool("Run this page in Colab: its first cell installs posenc", f"{branch}/{own}", RUN): runs and repository,
    }
    return [tool for tool, is_there in offered.items() if is_there]
