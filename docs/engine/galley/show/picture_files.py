"""Files of their own for large pictures within figures and for narrow figures: a page's first words need not wait."""

import base64
import re
from pathlib import Path

from mkdocs.utils import get_relative_url

from galley.run.dependencies import digest
from galley.show.page_markdown import NARROW

# A picture of fewer letters is not worth a request of its own.
LARGE = re.compile(r'(?<=href=")data:image/png;base64,([\w+/=]{8000,})(?=")')


def with_picture_files(figure: str, narrow: str, url: str, folder: Path) -> str:
    """Return a figure of the page at `url`, its large pictures and its narrow form written into the site's folder."""

    def address(content: str, suffix: str) -> str:
        # Equal pictures, of which one page has several, are one file.
        place = f"assets/images/drawn/{digest(content)[:12]}.{suffix}"
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if suffix == "svg" else base64.b64decode(content))
        return get_relative_url(place, url)

    if narrow:
        figure = figure.replace(NARROW, f'data-narrow="{address(narrow, "svg")}"', 1)
    return LARGE.sub(lambda match: address(match[1], "png"), figure)
