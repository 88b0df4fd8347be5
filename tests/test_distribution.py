"""The wheel and the sdist hold the package alone, and install where nothing of the checkout is."""

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
SOURCES = {path.relative_to(ROOT).as_posix() for path in (ROOT / "posenc").rglob("*.py*") if path.suffix != ".pyc"}
TRY = """
import posenc, torch
from posenc import ALiBi, RoPE, attention, yarn
q = torch.randn(1, 2, 5, 8)
rotated, _ = RoPE(8)(q, q)
assert torch.allclose(rotated.norm(dim=-1), q.norm(dim=-1), atol=1e-5)
assert attention.attention(q, q, q, ALiBi(2), causal=True).shape == q.shape
print(posenc.__file__)
print(len(posenc.encodings()))
"""


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
    assert {file for file in files if ".dist-info/" not in file} == SOURCES | {"posenc/py.typed"}
    assert any(file.endswith(".dist-info/licenses/LICENSE") for file in files)


def test_the_sdist_holds_the_package_and_its_papers(built):
    with tarfile.open(built[".gz"]) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    papers = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert files == SOURCES | {"posenc/py.typed"} | papers


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
