"""What a browser wants beside pages: icons for a home screen, their manifest, and word to those who crawl."""

import io
import json

from galley.around.site import Shown, Site

MANIFEST, TOUCH = "manifest.webmanifest", "assets/images/touch-icon.png"
SIZES = {TOUCH: 180, "assets/images/icon-192.png": 192, "assets/images/icon-512.png": 512}
PAPER, BLUE, ORANGE = "#fdfcf9", "#1c3a63", "#d9762b"


def page(html: str, shown: Shown, site: Site) -> str:
    """Name icon and manifest in a page's head."""
    links = f'<link rel="apple-touch-icon" href="{shown.up}{TOUCH}">\n<link rel="manifest" href="{shown.up}{MANIFEST}">'
    return html if site.served else html.replace("</head>", f"{links}\n  </head>", 1)


def files(site: Site) -> None:
    """Write icons, manifest and robots.txt."""
    if site.served:
        return
    for place, size in SIZES.items():
        site.write(place, icon(size))
    listed = [{"src": src, "sizes": f"{n}x{n}", "type": "image/png"} for src, n in SIZES.items() if src != TOUCH]
    about = site.settings.get("site_description", site.name)
    manifest = {"name": site.name, "description": about, "start_url": "./", "display": "browser"}
    manifest |= {"background_color": PAPER, "theme_color": BLUE, "icons": listed}
    site.write(MANIFEST, json.dumps(manifest, indent=1) + "\n")
    site.write("robots.txt", f"User-agent: *\nAllow: /\n\nSitemap: {site.address}sitemap.xml\n")


def icon(size: int) -> bytes:
    """Return the site's logo as a PNG, drawn four times as large and made smooth."""
    import numpy as np
    from PIL import Image, ImageDraw

    large, unit = 4 * size, 4 * size / 28  # the logo is 24 wide, and has a margin
    image = Image.new("RGB", (large, large), PAPER)
    pen = ImageDraw.Draw(image)
    along = np.linspace(0, 1.5, 400)
    for x, y in zip(3.5 + 14 * along, 14 - 6 * np.sin(2 * np.pi * along), strict=True):
        _dot(pen, unit * x, unit * y, unit, BLUE)
    _dot(pen, unit * 17.5, unit * 14, unit * 3.4, ORANGE)
    file = io.BytesIO()
    image.resize((size, size), Image.Resampling.LANCZOS).quantize(64).save(file, "PNG", optimize=True)
    return file.getvalue()


def _dot(pen, x: float, y: float, radius: float, color: str) -> None:
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
