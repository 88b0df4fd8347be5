"""A site is put in place when it is whole; until then, and whatever goes wrong, the one before it stands."""

import os
import signal
import subprocess
import sys
import time

import pytest

from galley import aside

PAGE = "# Page\n\nFirst.\n"
HELD = """\
import time
from pathlib import Path


def on_post_page(output, page, config):
    Path("built").touch()
    time.sleep(60)
"""


def mkdocs(project, *arguments):
    command = [sys.executable, "-m", "mkdocs", *arguments]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=project.root, env=environment, capture_output=True, text=True, check=False)


def shown(site):
    return (site / "index.html").read_text()


@pytest.fixture
def built(project):
    project.page("index.md", PAGE)
    done = mkdocs(project, "build", "--strict")
    assert done.returncode == 0, done.stderr
    assert "First." in shown(project.root / "site")
    return project


def test_a_build_replaces_the_site_and_leaves_nothing_beside_it(built):
    (built.root / "site" / "of-before.html").touch()
    built.page("index.md", PAGE.replace("First", "Second"))
    assert mkdocs(built, "build", "--strict").returncode == 0
    assert "Second." in shown(built.root / "site")
    assert not (built.root / "site" / "of-before.html").exists()
    assert [path.name for path in built.root.glob("site*")] == ["site"]


@pytest.mark.parametrize(
    "wrong",
    ["[nowhere][it]\n\n[it]: nowhere.md", "[no part][it]\n\n[it]: index.md#nowhere", "```python\n1 / 0\n```"],
    ids=["a warning of MkDocs", "its warning at the end", "a page that fails"],
)
def test_a_strict_build_that_fails_leaves_the_site_as_it_was(built, wrong):
    built.page("index.md", f"# Page\n\nSecond.\n\n{wrong}\n")
    done = mkdocs(built, "build", "--strict")
    assert done.returncode != 0
    assert "site stays as it was" in done.stderr
    assert "First." in shown(built.root / "site")


def test_a_build_that_is_not_strict_shows_what_it_has(built):
    built.page("index.md", "# Page\n\nSecond. [nowhere](nowhere.md)\n")
    assert mkdocs(built, "build").returncode == 0
    assert "Second." in shown(built.root / "site")


def test_a_build_that_is_killed_leaves_the_site_as_it_was(built):
    (built.root / "held.py").write_text(HELD)
    settings = built.root / "mkdocs.yml"
    whole = settings.read_text()
    settings.write_text(whole.replace("hook.py]", "hook.py, held.py]"))
    built.page("index.md", PAGE.replace("First", "Second"))
    build = subprocess.Popen([sys.executable, "-m", "mkdocs", "build"], cwd=built.root, stderr=subprocess.DEVNULL)
    while not (built.root / "built").exists():
        assert build.poll() is None
        time.sleep(0.05)
    build.send_signal(signal.SIGKILL)
    build.wait()
    assert "First." in shown(built.root / "site")
    settings.write_text(whole)
    assert mkdocs(built, "build", "--strict").returncode == 0
    assert "Second." in shown(built.root / "site")


def test_a_site_goes_where_it_is_told(built, tmp_path):
    built.page("index.md", PAGE.replace("First", "Second"))
    assert mkdocs(built, "build", "--site-dir", str(tmp_path / "other")).returncode == 0
    assert "Second." in shown(tmp_path / "other")
    assert "First." in shown(built.root / "site")


def test_a_dirty_build_mends_the_site_where_it_stands(built):
    (built.root / "site" / "of-before.html").touch()
    built.page("index.md", PAGE.replace("First", "Second"))
    assert mkdocs(built, "build", "--dirty").returncode == 0
    assert "Second." in shown(built.root / "site")
    assert (built.root / "site" / "of-before.html").exists()


class Killed(Exception):
    pass


@pytest.fixture
def folders(tmp_path):
    site = tmp_path / "site"
    for folder, text in ((site, "old"), (aside.beside(site), "new")):
        folder.mkdir()
        (folder / "index.html").write_text(text)
    return site, aside.beside(site)


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_swap_that_is_killed_between_its_moves_leaves_a_whole_site(folders, monkeypatch, moves):
    site, part = folders
    rename, done = type(site).rename, []

    def killed(*move):
        if len(done) == moves:
            raise Killed
        done.append(move)
        return rename(*move)

    monkeypatch.setattr(type(site), "rename", killed)
    monkeypatch.setattr("shutil.rmtree", killed)
    with pytest.raises(Killed):
        aside.replace(site, part)
    monkeypatch.undo()
    aside.beside(site)  # the next build begins
    assert shown(site) == ("new" if moves == 2 else "old")
    assert not site.with_name("site.old").exists()


def test_what_is_hidden_in_the_site_stays(folders):
    site, part = folders
    (site / ".git").mkdir()
    (site / ".git" / "HEAD").write_text("main")
    aside.replace(site, part)
    assert (site / ".git" / "HEAD").read_text() == "main"
    assert shown(site) == "new"


def test_a_mounted_folder_is_built_in(tmp_path, monkeypatch):
    monkeypatch.setattr("os.path.ismount", lambda path: True)
    site = tmp_path / "site"
    site.mkdir()
    assert aside.beside(site) == site
    aside.replace(site, site)
    assert site.exists()
