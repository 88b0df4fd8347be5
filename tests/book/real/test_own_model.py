"""The command for a reader's own model measures both formats alike, and says in a line what it cannot do."""

import json

import pytest

from posenc_book.__main__ import main


@pytest.mark.full
def test_both_formats_give_the_same_numbers_and_a_page(tiny_files, capsys):
    reports = {}
    for name in ("tiny.gguf", "hf"):
        assert (
            main(
                ["real", str(tiny_files / name), "--only", "ledger,pairs", "--out", str(tiny_files / f"of-{name[:2]}")]
            )
            == 0
        )
        reports[name] = json.loads((tiny_files / f"of-{name[:2]}.json").read_text())
    for row in ("as it was trained", "nothing turned", "queries one ahead of their keys"):
        of_file, of_folder = (reports[name]["ledger"][row]["loss"] for name in reports)
        assert of_file == pytest.approx(of_folder, abs=2e-3)
    page = (tiny_files / "of-ti.html").read_text()
    assert "interleaved rows turned as halves" in page
    assert page.count("<svg") == 2
    assert "wrote" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "real: path must be a GGUF or a folder of transformers, got nowhere, which does not exist"),
        (["{files}/tiny.gguf", "--only", "ledgers"], "real: only must be among ledger, pairs, stretch, got ledgers"),
        (["{files}/tiny.gguf", "--text", "{files}/hf/config.json"], "real: text must have at least 512 tokens, got"),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_line(tiny_files, capsys, arguments, message):
    assert main(["real", *(argument.format(files=tiny_files) for argument in arguments)]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in error
