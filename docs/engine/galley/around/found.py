"""The search of a site that was built with Material, by a worker of ours."""

from galley import search
from galley.around import Site


def files(site: Site) -> None:
    """Write the index, and lead all pages to the worker."""
    search.set_apart(site.folder)
