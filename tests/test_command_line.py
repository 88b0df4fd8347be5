"""python -m posenc: what it lists, shows, copies and refuses; and every file runs where it was copied to."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import posenc
from posenc import _index
from posenc.__main__ import find, main
from posenc.attention import attention
from tests.contract.encoding_inputs import ROOT

FILES = sorted(module.partition(".")[2].replace(".", "/") for module in _index.modules() if module.count(".") == 2)


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


@pytest.mark.parametrize(
    ("name", "file", "offered"),
    [
        ("doctor", "posenc/doctor/__init__.py", "diagnose(function: Callable[..., Any]"),
        ("attention", "posenc/attention.py", "attention(q: Tensor, k: Tensor, v: Tensor"),
        ("positions", "posenc/positions.py", "packed_positions("),
    ],
)
def test_show_knows_what_is_no_encoding(capsys, name, file, offered):
    shown = said(capsys, "show", name)
    assert shown.startswith(f"{ROOT / file}\n")
    assert offered in shown
    use = "Use it: from posenc import diagnose" if name == "doctor" else f"posenc copy {name} -o"
    assert use in shown.splitlines()[-1]
    assert said(capsys, "show", name, "--source") == (ROOT / file).read_text()


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
    written = said(capsys, "copy", "rope", "yarn", "longrope", "alibi_slopes", "-o", str(tmp_path)).splitlines()
    assert [name.rpartition("/")[2] for name in written] == ["rope.py", "frequencies.py", "alibi.py"]


def test_copy_overwrites_only_when_told(capsys, tmp_path):
    taken = tmp_path / "rope.py"
    taken.write_text("mine")
    assert "--force" in refused(capsys, "copy", "t5", "rope", "-o", str(tmp_path))
    assert taken.read_text() == "mine"
    assert not (tmp_path / "t5.py").exists(), "all or nothing"
    said(capsys, "copy", "rope", "-o", str(tmp_path), "--force")
    assert "class RoPE" in taken.read_text()


def test_copy_of_attention_writes_both_its_halves_and_they_run_without_the_package(capsys, tmp_path):
    written = said(capsys, "copy", "attention", "rope", "attention_weights", "-o", str(tmp_path / "mine")).splitlines()
    assert [name.rpartition("/")[2] for name in written] == ["attention.py", "rope.py"]
    script = """
import sys, torch
sys.modules.update(posenc=None, tests=None)
sys.path.insert(0, sys.argv[1])
from mine.attention import attention
from mine.rope import RoPE
q = torch.arange(24.0).view(1, 2, 3, 4).sin()
print(attention(q, q, q, RoPE(4), causal=True).flatten().tolist())
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    q = torch.arange(24.0).view(1, 2, 3, 4).sin()
    expected = attention(q, q, q, posenc.RoPE(4), causal=True)
    assert done.stdout.strip() == str(expected.flatten().tolist())


def test_copy_of_positions_is_one_file_as_it_stands(capsys, tmp_path):
    assert said(capsys, "copy", "positions", "-o", str(tmp_path)).splitlines() == [str(tmp_path / "positions.py")]
    assert (tmp_path / "positions.py").read_text().endswith((ROOT / "posenc/positions.py").read_text())


def test_copy_of_the_doctor_says_why_not(capsys, tmp_path):
    complaint = refused(capsys, "copy", "rope", "doctor", "-o", str(tmp_path))
    assert complaint.startswith("copy: name must be of a file to copy, got doctor; it is a folder")
    assert "install posenc where you check your code" in complaint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["show", "copy"])
def test_an_unknown_name_is_refused_with_those_that_there_are(capsys, command):
    complaint = refused(capsys, command, "ropee")
    assert "got 'ropee'" in complaint
    assert "rope" in complaint


def test_names_like_an_unknown_one_are_suggested_once(capsys):
    complaint = refused(capsys, "copy", "rpoe")
    near = complaint.partition("such as ")[2].partition(", got")[0].split(", ")
    assert near[0] == "rope"
    assert len(near) == len(set(near)) > 1


@pytest.mark.parametrize("command", [["show", "rope", "--source"], ["list"]], ids=" ".join)
def test_a_reader_that_has_read_enough_ends_it_quietly(command):
    # what is longer than a buffer breaks while it is written, what is shorter at the last flush
    reader, pipe = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "posenc", *command]
    done = subprocess.run(command, cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    os.close(pipe)
    assert (done.returncode, done.stderr) == (1, "")


def test_every_public_name_is_found():
    for name, module in [*_index.definitions(), *posenc.FUNCTIONS.items()]:
        assert find(name) == module


@pytest.mark.full
def test_a_type_checker_knows_what_is_imported(tmp_path):
    user = tmp_path / "user.py"
    user.write_text(
        "from posenc import RoPE, attention, diagnose, encodings\nfrom posenc.attention import attention as attend\n"
        "import posenc.attention as module\n"
        "reveal_type(RoPE(64))\nreveal_type(diagnose)\nreveal_type(attend)\nfrom posenc import yarn\n"
        "reveal_type(attention)\nreveal_type(module)\n"
    )
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(user)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert 'Type of "RoPE(64)" is "RoPE"' in done
    assert "-> Report" in done
    assert "(q: Tensor, k: Tensor, v: Tensor" in done
    assert done.count('is "Module("posenc.attention")"') == 2
    assert '"yarn" is unknown import symbol' in done
    assert "1 error," in done


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
    written = said(capsys, "copy", *FILES, "-o", str(tmp_path)).splitlines()
    names = [Path(path).stem for path in written]
    assert len(set(names)) == len(FILES)
    command = [sys.executable, "-I", "-c", ALONE, str(tmp_path), *names]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = dict(line.split() for line in done.stdout.splitlines())
    assert list(tried) == names
    assert not [name for name in names if tried[name] == "0"], "a file without an example"


def test_the_command_itself_runs():
    done = subprocess.run(
        [sys.executable, "-m", "posenc", "list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "RoFormer" in done.stdout
