"""What README shows: the lines to copy run, the commands are there, and every encoding has its row."""

import re
from pathlib import Path

import posenc
from dev import readme
from posenc.__main__ import main

TEXT = readme.PATH.read_text(encoding="utf-8")


def test_the_lines_to_copy_run():
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    exec(code, {})


def test_the_commands_do_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^posenc (.*?)\s+#", TEXT, re.M)
    assert [command.split()[0] for command in commands] == ["list", "show", "copy", "read", "vectors", "doctor"]
    Path("config.json").write_text('{"model_type": "llama", "rope_theta": 5e5}', encoding="utf-8")
    for command in commands[:-1]:
        assert main(command.split()) == 0, command
    assert len(list((tmp_path / "mymodel").iterdir())) == 2
    assert main(["doctor", "posenc.rotate.rope:rope"]) == 0, capsys.readouterr()


def test_every_encoding_has_its_row():
    """Write it with `make update`."""
    missing = [encoding.name for encoding in posenc.encodings().values() if readme.row(encoding) not in TEXT]
    assert not missing, f"README.md has no row, or an old one, of {' and '.join(missing)}"


def test_the_table_is_what_make_update_writes():
    assert readme.TABLE.findall(TEXT) == [readme.table()], "make update"


def test_what_leads_to_contributing_leads_to_its_headings():
    guide = (readme.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in re.findall(r"^## (.+)$", guide, re.M)
    }
    assert not set(re.findall(r"\]\(#([^)]+)\)", guide)) - headings


def test_readme_stays_short():
    """Move to CONTRIBUTING.md what only serves those who work on the project."""
    assert len(TEXT.splitlines()) <= 77 + len(posenc.encodings()), f"README.md has {len(TEXT.splitlines())} lines"


def test_ci_begins_with_the_two_commands_of_readme_and_installs_nothing_before_them():
    (block,) = re.findall(r"## Read it on your own machine\n.*?```sh\n(.*?)```", TEXT, re.S)
    commands = re.findall(r"^(make \w+)", block, re.M)
    ci = (readme.ROOT / ".ci/run").read_text(encoding="utf-8")
    assert commands == ["make serve", "make test"]
    assert re.findall(r"make [\w-]+", ci.partition("set -euo")[2])[:2] == commands
    assert not re.search(r"apt-get|pip install|REQUIRE|SITE", ci[: ci.index("step make test")])


def test_what_is_made_can_be_made():
    targets = re.findall(r"^([\w-]+):", (readme.ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        ".ci/run",
        ".github/workflows/site.yml",
        ".github/workflows/nightly.yml",
    ):
        text = (readme.ROOT / name).read_text(encoding="utf-8")
        commands = re.findall(r"(?:`|run: |step |^)make ([a-z][\w-]*)", text, re.M)
        assert not {*commands} - {*targets}, name
