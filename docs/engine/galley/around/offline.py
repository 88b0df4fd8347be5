"""The site as one file to take along, which works from a disk, where a browser loads no module and fetches nothing.

So links name files, modules become one script, and the index of the search comes as a script too. The search, which
runs beside the page, gets a frame in place of a worker: https://github.com/squidfunk/iframe-worker, as the theme asks.
"""

import html
import json
import re
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

MODULES = ".node/node_modules"  # `make offline` fills it
BUNDLER = f"{MODULES}/.bin/esbuild"
FRAMES, LICENSE = f"{MODULES}/iframe-worker/shim/index.js", f"{MODULES}/iframe-worker/LICENSE"
WORKER = "assets/javascripts/iframe-worker.js"
INDEXES = (  # of the search, the whole one first, and where the theme looks for the script
    ("search/index.json", "search/search_index.js"),
    ("search/search_index.json", "search/search_index.js"),
    ("search.json", "search.js"),
)
LEFT_OUT = ("*.map", "404.html", "sitemap.xml*", "lunr")
LINK = re.compile(r'(?<=\s)(href|action)="(?![a-z]+:|[#/"])([^"?#]*)([^"]*)"')
MODULE = re.compile(r'<script(?=[^>]*\btype="?module\b)[^>]*\bsrc="([^"]+)"[^>]*></script>')
UNWANTED = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>|<link rel="(?:preload|manifest)"[^>]*>')
CONFIG = re.compile(r'(<script id="__config" type="application/json">)(.*?)(</script>)', re.S)
FIGURE = re.compile(r"(<posenc-figure name='explorer' data=')([^']*)(')")
DATE = (2017, 6, 12, 0, 0, 0)  # of all files, so that the same site is the same bytes: the day of the first Transformer


def pack(site: Path, root: Path, file: Path) -> None:
    """Write a site's folder as a zip; `root` is the project's, where Node's packages lie."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / file.stem
        shutil.copytree(site, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
        loose(folder, root)
        _zip(folder, file)


def loose(folder: Path, root: Path) -> None:
    """Let the site in a folder do without a server."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.html"))}
    shutil.copy(root / FRAMES, folder / WORKER)
    shutil.copy(root / LICENSE, folder / f"{WORKER}.LICENSE")
    for script in {(path.parent / src).resolve() for path, text in pages.items() for src in MODULE.findall(text)}:
        _bundle(script, root / BUNDLER)
    explorer = FIGURE.search(pages.get(folder / "explorer/index.html", ""))
    for path, text in pages.items():
        up = "../" * (len(path.relative_to(folder).parts) - 1)
        path.write_text(_page(text, up, explorer), encoding="utf-8")
    index, script = next((folder / index, folder / script) for index, script in INDEXES if (folder / index).exists())
    _index(index, script)


def _page(text: str, up: str, explorer: re.Match | None) -> str:
    text = UNWANTED.sub("", LINK.sub(lambda m: f'{m[1]}="{to_file(m[2])}{m[3]}"', text))
    text = MODULE.sub(lambda m: f'<script src="{_classic(m[1])}" defer></script>', text)
    text = CONFIG.sub(lambda m: m[1] + _config(m[2]) + m[3], text)
    if explorer:
        text = FIGURE.sub(lambda m: m[1] + _whole(m[2], explorer[2]) + m[3], text)
    return text.replace("</head>", f'<script src="{up}{WORKER}"></script></head>', 1)


def to_file(path: str) -> str:
    """Return what a link names, where it names a folder, as the page in it."""
    is_folder = path.endswith("/") or path.rpartition("/")[2] in (".", "..")
    return f"{path.rstrip('/')}/index.html" if path and is_folder else path


def _classic(script: str) -> str:
    return script.removesuffix(".js") + ".classic.js"


def _bundle(script: Path, bundler: Path) -> None:
    """Write a module with all that it may ever import as one script."""
    command = [bundler, script, "--bundle", "--minify", "--format=iife", f"--outfile={_classic(str(script))}"]
    subprocess.run([*map(str, command), "--log-level=error"], check=True)


def _config(text: str) -> str:
    """Return the theme's settings, without what fetches the next page."""
    config = json.loads(text)
    config["features"] = [name for name in config["features"] if not name.startswith("navigation.instant")]
    return json.dumps(config)


def _whole(data: str, explorer: str) -> str:
    """Return the data of an explorer within a chapter, with what it would fetch from the explorer's own page."""
    own = json.loads(html.unescape(data))
    if "embedded" not in own:
        return data
    whole = json.dumps({**json.loads(html.unescape(explorer)), **own})
    return whole.replace("&", "&amp;").replace("'", "&#39;")


def _index(found: Path, script: Path) -> None:
    """Write the index of the search as a script, with places that are files."""

    def placed(item: dict) -> dict:
        if "location" in item:
            path, hash_sign, anchor = item["location"].partition("#")
            item["location"] = (to_file(path) or "index.html") + hash_sign + anchor
        return item

    index = json.loads(found.read_text(encoding="utf-8"), object_hook=placed)
    script.write_text(f"var __index = {json.dumps(index, ensure_ascii=False)}", encoding="utf-8")
    found.unlink()


def _zip(folder: Path, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            about = zipfile.ZipInfo(path.relative_to(folder.parent).as_posix(), DATE)
            about.external_attr = 0o644 << 16
            packed.writestr(about, path.read_bytes(), zipfile.ZIP_DEFLATED)
