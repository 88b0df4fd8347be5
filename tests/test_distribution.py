"""The wheel and the sdist hold the package alone, and install where nothing of the checkout is."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import posenc

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "docs" / "book"
TRY = """
import posenc, torch
from posenc import ALiBi, RoPE
from posenc.attention import attention
q = torch.randn(1, 2, 5, 8)
rotated, _ = RoPE(8)(q, q)
assert torch.allclose(rotated.norm(dim=-1), q.norm(dim=-1), atol=1e-5)
assert attention(q, q, q, ALiBi(2), causal=True).shape == q.shape
print(posenc.__file__)
print(len(posenc.encodings()))
"""


def sources(package: Path) -> set[str]:
    found = {path for path in package.rglob("*.py*") if path.suffix != ".pyc"} | {package / "py.typed"}
    found |= {*package.rglob("*.json"), *package.rglob("*.txt")}
    return {path.relative_to(package.parent).as_posix() for path in found}


SOURCES = sources(ROOT / "posenc")


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return {path.suffix: path for path in folder.iterdir()}


def test_the_wheel_holds_every_file_of_the_package_and_no_other(built):
    files = set(zipfile.ZipFile(built[".whl"]).namelist())
    assert {file for file in files if ".dist-info/" not in file} == SOURCES
    assert not [file for file in files if "part_" in file or "/lab/" in file], "answers and labs are the book's"
    assert any(file.endswith(".dist-info/licenses/LICENSE") for file in files)


def test_the_sdist_holds_the_package_and_its_papers(built):
    with tarfile.open(built[".gz"]) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    papers = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert files == SOURCES | papers


def test_the_readers_package_has_a_wheel_of_its_own(built, tmp_path):
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=BOOK)
    (wheel,) = tmp_path.glob("posenc_book-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
    assert files == sources(BOOK / "posenc_book")
    needs = built[".whl"].name.split("-")[1]
    assert f"Requires-Dist: posenc=={needs}\n" in metadata, "its version, and the posenc it needs, are those of posenc"
    assert f"Version: {needs}\n" in metadata
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (wheel, built[".whl"], sysconfig.get_path("purelib"))))}
    assert run(sys.executable, "-m", "posenc_book", "check", "1.2", "16", cwd=tmp_path, env=paths).startswith("Right")


@pytest.mark.parametrize("kind", [".whl", ".gz"])
def test_it_installs_and_runs_in_a_clean_environment(built, kind, tmp_path):
    wheel = built[".whl"]
    if kind == ".gz":  # build the wheel from the sdist, as pip does
        with tarfile.open(built[kind]) as archive:
            archive.extractall(tmp_path / "source", filter="data")
        source = next((tmp_path / "source").iterdir())
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=source)
        wheel = next(tmp_path.glob("*.whl"))
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / Path(sys.executable).relative_to(sys.prefix)
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    libraries = {"PYTHONPATH": sysconfig.get_path("purelib")}  # torch and numpy; the checkout is not on this path
    where, count = run(python, "-c", TRY, cwd=tmp_path, env=libraries).split()
    assert Path(where).is_relative_to(tmp_path)
    assert int(count) == len(posenc.encodings())
