"""What the first `make` says where it cannot install, with stubs in place of Python and pip, and no network."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.dev.conftest import ROOT

FILES = ("Makefile", "pyproject.toml", "constraints.txt", "docs/engine/dev/install.sh")
NO_NETWORK = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/numpy/"

# Each stands for a command, as a script of the shell.
PYTHON_OF_THE_ENVIRONMENT = """#!/bin/sh
case "$*" in
"-c "*) echo {version} ;;
"-m ensurepip"*) {ensurepip} ;;
esac
"""
PIP = """#!/bin/sh
test "$1" = --version || {{ {install}; }}
"""
PYTHON = """#!/bin/sh
case "$*" in
*ensurepip*) {modules} ;;
"-c "*) echo {version} ;;
"-m venv --clear "*) rm -rf "$4" && mkdir "$4" && cp -r made "$4/bin" ;;
esac
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def stub(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def clone(tmp_path):
    """A clone in which nothing is installed, on a machine with Python 3.12 and a network."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    add_python(tmp_path)
    add_environment(tmp_path / "made")
    add_pip(tmp_path / "made")
    return tmp_path


def add_python(clone: Path, name="python3", version="3.12", modules=":") -> None:
    stub(clone / "bin" / name, PYTHON.format(version=version, modules=modules))


def add_environment(folder: Path, version="3.12", ensurepip="false") -> None:
    stub(folder / "python", PYTHON_OF_THE_ENVIRONMENT.format(version=version, ensurepip=ensurepip))


def add_pip(folder: Path, install='echo "$@" >> installed') -> None:
    stub(folder / "pip", PIP.format(install=install))


def install(clone: Path, *arguments: str, fails: bool = False, folder: str = ".venv") -> str:
    environment = os.environ | {"PATH": f"{clone / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    command = ["make", f"{folder}/ready", *arguments]
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    assert (clone / folder / "ready").exists() != fails
    return " ".join(line for line in done.stderr.splitlines() if not line.startswith("make:"))


def test_it_installs_the_book_and_its_tests_by_the_constraints(clone):
    install(clone)
    assert (clone / "installed").read_text() == "install --quiet -e .[docs,test] -c constraints.txt\n"


def test_another_python_has_an_environment_beside_it(clone):
    add_python(clone, "python3.13", version="3.13")
    install(clone, folder=".venv-3.13")
    assert (clone / "installed").read_text() == "install --quiet -e .[docs,test] -c constraints.txt\n"
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize("version", ["2.7", "3.9", "3.10"])
def test_a_python_that_is_too_old_is_named_beside_what_is_needed(clone, version):
    add_python(clone, "old", version)
    message = install(clone, "PYTHON=old", fails=True)
    assert message.startswith(f"old is Python {version}, and posenc needs 3.11 or later. ")
    assert "make serve PYTHON=python3.1" in message
    assert not (clone / ".venv").exists()


def test_a_python_that_is_not_there_is_named(clone):
    message = install(clone, "PYTHON=python3.77", fails=True)
    assert message.startswith("python3.77 does not start here. ")
    assert "make serve PYTHON=python3.1" in message


def test_a_python_that_cannot_make_environments_names_the_package_of_debian(clone):
    add_python(clone, modules="echo No module named ensurepip >&2; false")
    message = install(clone, fails=True)
    assert message.startswith("This Python cannot make virtual environments. ")
    assert "apt install python3.12-venv" in message
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (NO_NETWORK, "Check the network"),
        ("ERROR: Could not find a version that satisfies hatchling>=1.26 (from versions: none)", "PIP_INDEX_URL"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "Make room"),
        ("ERROR: No matching distribution found for torch==2.13.0", "this is Python 3.12"),
    ],
)
def test_what_pip_says_is_shown_and_then_what_to_do(clone, message, remedy):
    add_pip(clone / "made", f'echo "{message}" >&2; false')
    output = install(clone, fails=True)
    assert output.startswith(message)
    assert remedy in output
    assert "run make again" in output


def test_a_second_try_keeps_what_the_first_has_installed(clone):
    add_pip(clone / "made", f'echo "{NO_NETWORK}" >&2; false')
    install(clone, fails=True)
    (clone / ".venv" / "kept").touch()
    add_pip(clone / ".venv/bin")
    install(clone)
    assert (clone / ".venv" / "kept").exists()


@pytest.mark.parametrize("left", ["nothing", "a Python that does not start", "a Python without pip"])
def test_a_half_made_environment_is_made_anew(clone, left):
    (clone / ".venv" / "bin").mkdir(parents=True)
    if left == "a Python that does not start":
        (clone / ".venv/bin/python").symlink_to("/nowhere/python3")
    if left == "a Python without pip":
        add_environment(clone / ".venv/bin")
    install(clone)
    assert (clone / "installed").exists()


def test_an_environment_without_pip_gets_it_and_keeps_the_rest(clone):
    add_environment(clone / ".venv/bin", ensurepip="cp made/pip .venv/bin")
    (clone / ".venv" / "kept").touch()
    install(clone)
    assert (clone / ".venv" / "kept").exists()


def test_an_environment_of_an_older_python_is_left_to_its_owner(clone):
    add_environment(clone / ".venv/bin", version="3.10")
    add_pip(clone / ".venv/bin")
    message = install(clone, fails=True)
    assert message.startswith(".venv is of Python 3.10, and posenc needs 3.11 or later. ")
    assert "rm -r .venv" in message
