"""Large pictures within figures as files of their own, for which the first words of a page need not wait."""

import base64
import re
from pathlib import Path

from mkdocs.utils import get_relative_url

from galley.run.dependencies import digest

# A picture of fewer letters is not worth a request of its own.
LARGE = re.compile(r'(?<=href=")data:image/png;base64,([\w+/=]{8000,})(?=")')


def with_picture_files(figure: str, url: str, folder: Path) -> str:
    """Return a figure of the page at `url`, its large pictures written into the folder of the site."""

    def address(match: re.Match) -> str:
        # Equal pictures, of which one page has several, are one file.
        place = f"assets/images/drawn/{digest(match[1])[:12]}.png"
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(match[1]))
        return get_relative_url(place, url)

    return LARGE.sub(address, figure)
