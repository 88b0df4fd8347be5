"""The doctor as a command, `posenc doctor`, as a fixture of pytest, and in a failed assertion."""

import json
import subprocess
import sys

import pytest

from posenc.__main__ import main
from tests.contract.encoding_inputs import ROOT
from tests.peers import peer

pytest_plugins = ["pytester"]

INVERTED = "tests.doctor.table.patients:inverted_sinusoids"
SOUND = "tests.doctor.blocks:sinusoids"


@pytest.fixture
def command(capsys, monkeypatch):
    """Return what runs `posenc doctor` and gives the exit status and both outputs."""
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*arguments):
        code = main(["doctor", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_faulty_code_exits_with_1(command):
    code, out, err = command(INVERTED)
    assert (code, err) == (1, "")
    assert out.startswith("inverted_sinusoids, examined as a table (64 channels, interleaved)")
    assert "exponent-inverted: https://" in out


def test_sound_code_exits_with_0(command):
    code, out, err = command(SOUND)
    assert (code, err) == (0, "")
    assert out.startswith("sinusoids, examined as a table (64 channels, interleaved, base 10,000)")


def test_settings_are_handed_on(command):
    name = "tests.doctor.table.patients:AlongBatch"
    code, out, _ = command(name, "--order", "tbd", "--kind", "table", "--dim", "32", "--heads", "2")
    assert code == 0
    assert "32 channels" in out


def test_the_report_as_json(command):
    code, out, _ = command(INVERTED, "--json")
    data = json.loads(out)
    assert code == 1
    assert (data["kind"], data["healthy"]) == ("table", False)
    assert data["findings"][0]["id"] == "exponent-inverted"
    assert data["findings"][0]["page"].startswith("https://")
    assert data["checks"]["wrong"] == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("table", "doctor: function must be module:function, got table"),
        ("tests.doctor.blocks:", "doctor: function must be module:function, got tests.doctor.blocks:"),
        (":table", "doctor: function must be module:function, got :table"),
        ("no.such.module:f", "doctor: function must be module:function, got no.such.module:f"),
        ("tests.doctor.blocks:nobody", "nobody"),
        ("tests.doctor.call.patients:SIZES", "doctor: function must be something to call"),
        ("posenc.add.learned:resize_grid", "got weight"),
    ],
)
def test_a_bad_name_gives_one_line(command, name, expected):
    code, out, err = command(name)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert expected in err


@pytest.mark.parametrize("name", ["transformers:", "transformers:NoSuchAttention"])
def test_a_name_that_transformers_does_not_know(command, name):
    peer("transformers")
    code, _, err = command(name)
    assert code == 2
    assert f"doctor: function must be module:function, got {name}" in err


def test_the_command_from_a_shell():
    line = [sys.executable, "-m", "posenc", "doctor", "tests.doctor.bias.test_slopes:slopes_from_one"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "slopes-wrong: https://" in done.stdout


# In tests of others


def test_a_failed_assertion_in_pytest_says_what_is_wrong(pytester):
    pytester.makepyfile(
        """
        import posenc

        def test_slopes():
            assert posenc.diagnose(lambda heads: [2 ** (-8 * head / heads) for head in range(heads)]).healthy
        """
    )
    printed = pytester.runpytest_inprocess("-p", "no:cacheprovider").stdout.str()
    assert "examined as a bias: 1 thing is wrong | slopes: " in printed
    assert ">.healthy" in printed


@pytest.mark.filterwarnings("ignore:Module already imported")
def test_the_fixture_fails_with_the_report(pytester, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    pytester.makeconftest('pytest_plugins = ["posenc.pytest_fixture"]')
    pytester.makepyfile(
        """
        from posenc import RoPE

        def test_slopes(doctor):
            doctor(lambda heads: [2 ** (-8 * head / heads) for head in range(heads)])

        def test_sound(doctor):
            assert doctor(RoPE(64)).kind == "rotation"
        """
    )
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(passed=1, failed=1)
    assert "WRONG        slopes: " in ran.stdout.str()
    assert "slopes-wrong: https://" in ran.stdout.str()
