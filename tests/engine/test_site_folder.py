"""A site is put in place when it is whole; until then, and whatever goes wrong, the one before it stands."""

import errno
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from galley.show.site_folder import BuildStopped, SiteFolder
from tests.engine.conftest import ENVIRONMENT, NOT_ALL_HOLDS, leftover

pytestmark = pytest.mark.full

PAGE = "# Page\n\nFirst.\n"
STALLING_HOOK = """\
import time
from pathlib import Path


def on_post_page(output, page, config):
    Path("built").touch()
    time.sleep(60)
"""
LOSING_HOOK = 'def on_post_page(output, page, config):\n    return "" if page.url else output\n'
QUICK = f"# Page\n\n```python\nx = 1  # {'the longest page runs first ' * 10}\n```\n"
SLOW = "# Page\n\n```python\nimport time\n\ntime.sleep(19)\n```\n"


def home(site):
    return (site / "index.html").read_text()


def start_build(project, **options):
    environment = ENVIRONMENT | {"SERVED": str(project.root)}
    return subprocess.Popen(
        [sys.executable, "-m", "mkdocs", "build"], cwd=project.root, env=environment, text=True, **options
    )


def add_hook(project, name, code):
    project.write(name, code)
    project.edit("mkdocs.yml", "hook.py]", f"hook.py, {name}]")


@pytest.fixture
def built(project):
    """A book whose site is built, and whose page has changed since then."""
    project.take_theme()
    project.page("index.md", PAGE)
    assert "First." in project.build("--strict")["."]
    project.page("index.md", PAGE.replace("First", "Second"))
    return project


def assert_unchanged(project):
    """The site is the one of before, and nothing of a build lies beside it."""
    assert "First." in home(project.root / "site")
    assert [path.name for path in project.root.glob("site*")] == ["site"]


@pytest.mark.parametrize(("options", "whole"), [(["--strict"], True), (["--dirty"], False)])
def test_a_build_replaces_the_site_and_a_dirty_one_mends_it_where_it_stands(built, options, whole):
    built.write("site/of-before.html", "")
    assert "Second." in built.build(*options)["."]
    assert (built.root / "site" / "of-before.html").exists() != whole
    assert not (built.root / "site" / "galley").exists()  # what a server shows of its progress
    assert [path.name for path in built.root.glob("site*")] == ["site"]


@pytest.mark.parametrize(
    "wrong",
    ["[nowhere][it]\n\n[it]: nowhere.md", "[no part][it]\n\n[it]: index.md#nowhere", "```python\n1 / 0\n```"],
    ids=["a warning of MkDocs", "its warning at the end", "a page that fails"],
)
def test_a_strict_build_that_fails_leaves_the_site_as_it_was(built, wrong):
    built.page("index.md", f"# Page\n\nSecond.\n\n{wrong}\n")
    status, output = built.command("mkdocs", "build", "--strict")
    assert status != 0
    assert "site stays as it was" in output
    assert_unchanged(built)


@pytest.mark.parametrize("wrong", ["[nowhere](nowhere.md)", "```python\n1 / 0\n```"], ids=["a link", "a page"])
def test_a_build_that_is_not_strict_shows_what_it_has(built, wrong):
    built.page("index.md", f"# Page\n\nSecond.\n\n{wrong}\n")
    status, output = built.command("mkdocs", "build")
    assert status == 0
    assert "WARNING -  docs/index.md:" in output
    assert "Second." in home(built.root / "site")
    assert NOT_ALL_HOLDS in home(built.root / "site")


def test_builds_at_once_give_a_whole_site_or_say_that_another_runs(built):
    for n in range(20):
        built.page(f"page{n}.md", f"# Page {n}\n")
    builds = [start_build(built, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(4)]
    outputs = [build.communicate(timeout=120)[1] for build in builds]
    statuses = [build.returncode for build in builds]
    assert 0 in statuses, outputs
    for status, errors in zip(statuses, outputs, strict=True):
        assert "Traceback" not in errors
        assert status == 0 or (status == 1 and "build: another build of this site is under way; " in errors), errors
    assert len(list((built.root / "site").glob("**/index.html"))) == 21
    assert [path.name for path in built.root.glob("site*")] == ["site"]


def test_a_site_that_lacks_a_page_does_not_replace_one(built):
    add_hook(built, "lost.py", LOSING_HOOK)
    built.page("more.md", "# More\n")
    status, output = built.command("mkdocs", "build")
    assert status == 1
    assert "build: 1 of 2 pages are not in the new site, such as more/index.html; the site in" in output
    assert "Traceback" not in output
    assert_unchanged(built)


@pytest.mark.parametrize("limit", [2_000_000, 100_000], ids=["while it is written", "from the beginning"])
def test_a_full_disk_ends_a_build_in_one_sentence(built, limit):
    """A limit on the size of files stands for the end of a disk."""
    (built.docs / "large.txt").write_bytes(bytes(3_000_000))
    limit_files = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # noqa: E731
    status, output = built.command("mkdocs", "build", preexec_fn=limit_files)
    assert status == 1
    assert "ERROR   -  build: File too large" in output
    assert f"; the site in {built.root / 'site'} stays as it was" in output
    assert "Traceback" not in output
    assert_unchanged(built)


@pytest.fixture
def folder(tmp_path):
    return SiteFolder(tmp_path / "site", tmp_path / "cache")


def test_a_full_folder_is_named_before_the_build_and_where_pages_fail(folder, monkeypatch):
    def full(dir):  # as tempfile has it
        raise OSError(errno.ENOSPC, "No space left on device")

    folder.claim()
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(OSError, match="No space left") as error:
        folder.check_room()
    assert folder.reason(error.value) == (
        f"build: No space left on device: {folder.place.parent}; the site in {folder.place} stays as it was"
    )
    folder.close()
    with pytest.raises(OSError, match="No space left"):
        folder.claim()


def test_the_reason_names_where_a_copy_was_to_go_and_is_none_for_an_error_of_a_program(folder):
    error = OSError(errno.ENOSPC, "No space left on device", "read", None, "written")
    assert folder.reason(error).startswith("build: No space left on device: written; ")
    assert folder.reason(FileNotFoundError(errno.ENOENT, "No such file")) == ""
    assert folder.reason(KeyError("page")) == ""


def test_one_site_is_built_once_at_a_time(tmp_path):
    first, second = (SiteFolder(tmp_path / "site", tmp_path / "cache") for _ in range(2))
    other = SiteFolder(tmp_path / "other", tmp_path / "cache")
    first.claim()
    other.claim()
    with pytest.raises(BuildStopped, match="another build of this site is under way"):
        second.claim()
    second.close()  # and this is not the first one's end
    with pytest.raises(BuildStopped):
        second.claim()
    first.close()
    second.claim()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_interrupt_ends_a_build_in_one_sentence(built):
    built.page("index.md", SLOW)
    built.page("quick.md", QUICK)
    build = start_build(built, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    output = ""
    while "ran docs/quick.md" not in output:
        line = build.stdout.readline()
        assert line, output
        output += line
    os.killpg(build.pid, signal.SIGINT)  # as a terminal does
    output += build.communicate(timeout=60)[0]
    assert build.returncode == 130, output
    assert f"build: interrupted; the site in {built.root / 'site'} stays as it was" in output
    assert "Traceback" not in output
    assert_unchanged(built)
    assert leftover(built.root) == []


def test_a_build_that_is_killed_leaves_the_site_as_it_was(built):
    settings = (built.root / "mkdocs.yml").read_text()
    add_hook(built, "stalling.py", STALLING_HOOK)
    build = start_build(built, stderr=subprocess.DEVNULL)
    while not (built.root / "built").exists():
        assert build.poll() is None
        time.sleep(0.05)
    build.send_signal(signal.SIGKILL)
    build.wait()
    assert "First." in home(built.root / "site")
    built.write("mkdocs.yml", settings)
    assert "Second." in built.build("--strict")["."]


def test_a_site_goes_where_it_is_told(built, tmp_path):
    built.build("--site-dir", str(tmp_path / "other"))
    assert "Second." in home(tmp_path / "other")
    assert "First." in home(built.root / "site")


class Killed(Exception):
    pass


@pytest.fixture
def filled(folder):
    for path, text in ((folder.place, "old"), (folder.folder, "new")):
        path.mkdir()
        (path / "index.html").write_text(text)
    return folder


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_swap_that_is_killed_between_its_moves_leaves_a_whole_site(filled, monkeypatch, moves):
    site = filled.place
    rename, renamed = type(site).rename, []

    def killed(*move):
        if len(renamed) == moves:
            raise Killed
        renamed.append(move)
        return rename(*move)

    monkeypatch.setattr(type(site), "rename", killed)
    monkeypatch.setattr("shutil.rmtree", killed)
    with pytest.raises(Killed):
        filled.replace([])
    monkeypatch.undo()
    SiteFolder(site, filled.cache).claim()  # the next build begins
    assert home(site) == ("new" if moves == 2 else "old")
    assert not site.with_name("site.old").exists()


def test_what_is_hidden_in_the_site_stays(filled):
    (filled.place / ".git").mkdir()
    (filled.place / ".git" / "HEAD").write_text("main")
    filled.replace([])
    assert (filled.place / ".git" / "HEAD").read_text() == "main"
    assert home(filled.place) == "new"


def test_a_mounted_folder_is_built_in(tmp_path, monkeypatch):
    monkeypatch.setattr("os.path.ismount", lambda path: True)
    folder = SiteFolder(tmp_path / "site", tmp_path / "cache")
    folder.place.mkdir()
    assert folder.folder == folder.place
    folder.replace([])
    assert folder.place.exists()
