"""python -m posenc: what it lists, shows, copies and refuses; and every file runs where it was copied to."""

import importlib.metadata
import subprocess
import sys

import pytest

import posenc
from posenc.__main__ import find, main
from tests.doors import ROOT

FILES = sorted(path.stem for path in posenc._files() if path.parent.name in posenc.DOORS)


def said(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 1
    shown = capsys.readouterr()
    assert not shown.out
    return shown.err


def test_list_has_a_line_for_each_encoding(capsys):
    lines = said(capsys, "list").splitlines()
    assert len(lines) == len(posenc.encodings())
    sinusoidal = next(line for line in lines if " sinusoidal " in line)
    assert sinusoidal.split()[:4] == ["add", "sinusoidal", "Sinusoidal", "2017"]
    assert sinusoidal.endswith("Attention Is All You Need")


def test_show_gives_the_head_of_the_file_and_what_it_offers(capsys):
    shown = said(capsys, "show", "rope")
    assert "theta_i" in shown
    assert "class RoPE(dim" in shown
    assert "rope(x" in shown
    assert shown == said(capsys, "show", "RoPE")


def test_show_source_gives_the_file(capsys):
    assert said(capsys, "show", "yarn", "--source") == (ROOT / "posenc/rotate/frequencies.py").read_text()


def test_copy_writes_the_file_under_a_header(capsys, tmp_path):
    target = tmp_path / "mymodel" / "rope.py"
    assert said(capsys, "copy", "rope", "-o", str(target.parent)).strip() == str(target)
    header, source = target.read_text().split('"""', 1)
    assert f"posenc {importlib.metadata.version('posenc')}, posenc/rotate/rope.py" in header
    assert "https://github.com/posenc/posenc" in header
    assert "MIT" in header
    assert '"""' + source == (ROOT / "posenc/rotate/rope.py").read_text()


def test_copy_takes_many_names_and_each_file_once(capsys, tmp_path):
    written = said(capsys, "copy", "rope", "yarn", "longrope", "alibi_slopes", "-o", str(tmp_path)).split()
    assert [name.rpartition("/")[2] for name in written] == ["rope.py", "frequencies.py", "alibi.py"]


def test_copy_overwrites_only_when_told(capsys, tmp_path):
    taken = tmp_path / "rope.py"
    taken.write_text("mine")
    assert "--force" in refused(capsys, "copy", "t5", "rope", "-o", str(tmp_path))
    assert taken.read_text() == "mine"
    assert not (tmp_path / "t5.py").exists(), "all or nothing"
    said(capsys, "copy", "rope", "-o", str(tmp_path), "--force")
    assert "class RoPE" in taken.read_text()


@pytest.mark.parametrize("command", ["show", "copy"])
def test_an_unknown_name_is_refused_with_those_that_there_are(capsys, command):
    complaint = refused(capsys, command, "ropee")
    assert "got 'ropee'" in complaint
    assert "rope" in complaint


def test_every_public_name_is_found():
    for name, module in posenc._names():
        assert find(name) == ROOT.joinpath(*module.split(".")).with_suffix(".py")


ALONE = """
import doctest, importlib, sys
sys.modules.update(posenc=None, tests=None)  # importing them fails
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert not failed, name
    print(name, tried)
"""


def test_every_copied_file_runs_its_examples_in_a_folder_without_the_package(capsys, tmp_path):
    said(capsys, "copy", *FILES, "-o", str(tmp_path))
    command = [sys.executable, "-I", "-c", ALONE, str(tmp_path), *FILES]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = dict(line.split() for line in done.stdout.splitlines())
    assert list(tried) == FILES
    assert not [name for name in FILES if tried[name] == "0"], "a file without an example"


def test_the_command_itself_runs():
    done = subprocess.run(
        [sys.executable, "-m", "posenc", "list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "RoFormer" in done.stdout
