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
from tests.engine.conftest import NOT_ALL_HOLDS, left

pytestmark = pytest.mark.full

PAGE = "# Page\n\nFirst.\n"
HELD = """\
import time
from pathlib import Path


def on_post_page(output, page, config):
    Path("built").touch()
    time.sleep(60)
"""


ENVIRONMENT = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
QUICK = f"# Page\n\n```python\nx = 1  # {'the longest page runs first ' * 10}\n```\n"
SLOW = "# Page\n\n```python\nimport time\n\ntime.sleep(19)\n```\n"


def mkdocs(project, *arguments, **options):
    command = [sys.executable, "-m", "mkdocs", *arguments]
    return subprocess.run(
        command, cwd=project.root, env=ENVIRONMENT, capture_output=True, text=True, check=False, **options
    )


def shown(site):
    return (site / "index.html").read_text()


@pytest.fixture
def built(project):
    project.take_theme()
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


@pytest.mark.parametrize("wrong", ["[nowhere](nowhere.md)", "```python\n1 / 0\n```"], ids=["a link", "a page"])
def test_a_build_that_is_not_strict_shows_what_it_has(built, wrong):
    built.page("index.md", f"# Page\n\nSecond.\n\n{wrong}\n")
    done = mkdocs(built, "build")
    assert done.returncode == 0
    assert "WARNING -  docs/index.md:" in done.stderr
    assert "Second." in shown(built.root / "site")
    assert NOT_ALL_HOLDS in shown(built.root / "site")


def alone(root):
    """Whether nothing of a build lies beside the site."""
    return [path.name for path in root.glob("site*")] == ["site"]


def test_builds_at_once_give_a_whole_site_or_say_that_another_runs(built):
    for n in range(20):
        built.page(f"page{n}.md", f"# Page {n}\n")
    command = [sys.executable, "-m", "mkdocs", "build"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    builds = [subprocess.Popen(command, cwd=built.root, env=ENVIRONMENT, **pipes) for _ in range(4)]
    outputs = [build.communicate(timeout=120)[1] for build in builds]
    statuses = [build.returncode for build in builds]
    assert 0 in statuses, outputs
    for status, errors in zip(statuses, outputs, strict=True):
        assert "Traceback" not in errors
        assert status == 0 or (status == 1 and "build: another build of this site is under way; " in errors), errors
    assert len(list((built.root / "site").glob("**/index.html"))) == 21
    assert alone(built.root)


def test_a_site_that_lacks_a_page_does_not_replace_one(built):
    (built.root / "lost.py").write_text(
        'def on_post_page(output, page, config):\n    return "" if page.url else output\n'
    )
    settings = built.root / "mkdocs.yml"
    settings.write_text(settings.read_text().replace("hook.py]", "hook.py, lost.py]"))
    built.page("index.md", PAGE.replace("First", "Second"))
    built.page("more.md", "# More\n")
    done = mkdocs(built, "build")
    assert done.returncode == 1
    assert "build: 1 of 2 pages are not in the new site, such as more/index.html; the site in" in done.stderr
    assert "Traceback" not in done.stderr
    assert "First." in shown(built.root / "site")
    assert alone(built.root)


@pytest.mark.parametrize("most", [2_000_000, 100_000], ids=["while it is written", "from the beginning"])
def test_a_full_disk_ends_a_build_in_one_sentence(built, most):
    """A limit on the size of files stands for the end of a disk."""
    built.page("index.md", PAGE.replace("First", "Second"))
    (built.docs / "large.txt").write_bytes(bytes(3_000_000))
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))}
    done = mkdocs(built, "build", **limit)
    assert done.returncode == 1
    assert "ERROR   -  build: File too large" in done.stderr
    assert f"; the site in {built.root / 'site'} stays as it was" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert "First." in shown(built.root / "site")
    assert alone(built.root)


@pytest.fixture
def folder(tmp_path):
    return SiteFolder(tmp_path / "site", tmp_path / "cache")


def test_a_full_folder_is_named_before_the_build_and_where_pages_fail(folder, monkeypatch):
    def full(dir):  # as tempfile has it
        raise OSError(errno.ENOSPC, "No space left on device")

    folder.claim()
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(OSError, match="No space left") as found:
        folder.check_room()
    assert folder.reason(found.value) == (
        f"build: No space left on device: {folder.place.parent}; the site in {folder.place} stays as it was"
    )
    folder.close()
    with pytest.raises(OSError, match="No space left"):
        folder.claim()


def test_of_a_copy_the_place_is_named_where_it_was_to_go(folder):
    error = OSError(errno.ENOSPC, "No space left on device", "read", None, "written")
    assert folder.reason(error).startswith("build: No space left on device: written; ")


def test_an_error_of_a_program_is_no_sentence(folder):
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
    command, environment = [sys.executable, "-m", "mkdocs", "build"], ENVIRONMENT | {"SERVED": str(built.root)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    build = subprocess.Popen(command, cwd=built.root, env=environment, start_new_session=True, **pipes)
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
    assert "First." in shown(built.root / "site")
    assert alone(built.root)
    end = time.monotonic() + 60  # a fork server that was just begun loads torch before it looks around
    while left(built.root) and time.monotonic() < end:
        time.sleep(0.1)
    assert left(built.root) == []


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
def filled(folder):
    for path, text in ((folder.place, "old"), (folder.folder, "new")):
        path.mkdir()
        (path / "index.html").write_text(text)
    return folder


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_swap_that_is_killed_between_its_moves_leaves_a_whole_site(filled, monkeypatch, moves):
    site = filled.place
    rename, done = type(site).rename, []

    def killed(*move):
        if len(done) == moves:
            raise Killed
        done.append(move)
        return rename(*move)

    monkeypatch.setattr(type(site), "rename", killed)
    monkeypatch.setattr("shutil.rmtree", killed)
    with pytest.raises(Killed):
        filled.replace([])
    monkeypatch.undo()
    SiteFolder(site, filled.cache).claim()  # the next build begins
    assert shown(site) == ("new" if moves == 2 else "old")
    assert not site.with_name("site.old").exists()


def test_what_is_hidden_in_the_site_stays(filled):
    (filled.place / ".git").mkdir()
    (filled.place / ".git" / "HEAD").write_text("main")
    filled.replace([])
    assert (filled.place / ".git" / "HEAD").read_text() == "main"
    assert shown(filled.place) == "new"


def test_a_mounted_folder_is_built_in(tmp_path, monkeypatch):
    monkeypatch.setattr("os.path.ismount", lambda path: True)
    folder = SiteFolder(tmp_path / "site", tmp_path / "cache")
    folder.place.mkdir()
    assert folder.folder == folder.place
    folder.replace([])
    assert folder.place.exists()
