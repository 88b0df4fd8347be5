"""A content security policy, the same on every page: nothing from other hosts, no script but the site's own.

A page that the theme brings without loading it brings its policy along, and a browser keeps to all that it has met; so
there is one for the whole site, with the hash of each script that stands in a page.
"""

import base64
import hashlib
import re

from galley.around.site import Site

SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<code>.*?)</script>", re.S | re.I)
DATA = re.compile(r"""\b(?:src\s*=|type\s*=\s*["']?(?:application/(?:ld\+)?json|importmap|text/))""", re.I)
META = re.compile(r'\s*<meta http-equiv="Content-Security-Policy"[^>]*>')
CHARSET = re.compile(r'<meta charset="?utf-8"?\s*/?>', re.I)


def files(site: Site) -> None:
    """Write the policy into every page of the site; on a served one, live reload stands in the page itself."""
    if site.served:
        return
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(site.folder.rglob("*.html"))}
    tag = f'<meta http-equiv="Content-Security-Policy" content="{policy(pages.values())}">'
    for path, html in pages.items():
        bare = META.sub("", html)
        path.write_text(CHARSET.sub(lambda m: f"{m[0]}\n      {tag}", bare, count=1), encoding="utf-8", newline="\n")


def policy(pages) -> str:
    """Return the policy under which these pages work: formulas and figures carry styles, pictures may be data."""
    hashes = sorted({digest(code) for html in pages for code in inline(html)})
    rules = {
        "default-src": ["'self'"],
        "script-src": ["'self'", *hashes],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:", "blob:"],
        "worker-src": ["'self'"],
        "connect-src": ["'self'"],
        "object-src": ["'none'"],
        "base-uri": ["'self'"],
        "form-action": ["'self'"],
    }
    return "; ".join(" ".join([name, *sources]) for name, sources in rules.items())


def inline(html: str) -> list[str]:
    """Return the scripts that stand in a page; what has a type of its own is data, and does not run."""
    return [found["code"] for found in SCRIPT.finditer(html) if not DATA.search(found["attributes"])]


def digest(code: str) -> str:
    """Return a script's hash as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode('utf-8')).digest()).decode()}'"
