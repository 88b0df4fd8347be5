"""One content security policy for the whole site, with the hash of each script that stands in a page."""

import base64
import hashlib

from galley.around import policy
from tests.engine.sites import html, small

CODE = 'here = "/"; if (1 < 2) go()'
BODY = f'<script>{CODE}</script><script src="a.js"></script><script type="application/json">{{"a": 1}}</script>'
HASH = base64.b64encode(hashlib.sha256(CODE.encode()).digest()).decode()


def test_scripts_on_pages_are_allowed_by_their_hash_alone(project):
    site = small(project)
    site.write("404.html", html(site, "labs.md").replace("</article>", f"{BODY}</article>"))
    policy.files(site)
    text = html(site, "index.md")
    assert f"script-src 'self' 'sha256-{HASH}';" in text
    assert "unsafe-eval" not in text
    assert "'unsafe-inline'" not in text.partition("script-src")[2].partition(";")[0]
    assert text.index("charset") < text.index("Content-Security-Policy") < text.index("<title>")


def test_every_page_has_the_same_policy_once(project):
    site = small(project)
    policy.files(site)
    site.write("404.html", f'<head><meta charset="utf-8"></head>{BODY}')
    policy.files(site)
    pages = [path.read_text(encoding="utf-8") for path in site.folder.rglob("*.html")]
    assert len({policy.META.search(page)[0].strip() for page in pages}) == 1
    assert all(page.count("Content-Security-Policy") == 1 for page in pages)


def test_a_module_in_a_page_is_a_script_and_data_is_none():
    assert policy.inline('<script type="module">a()</script>') == ["a()"]
    assert policy.inline('<script type="application/ld+json">{}</script><script id="x" src=b.js></script>') == []


def test_a_served_page_has_none(project):
    site = small(project, served=True)
    policy.files(site)
    assert "Content-Security-Policy" not in html(site, "index.md")
