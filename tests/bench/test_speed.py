"""The benchmark's pieces: it sees who is wrong, divides medians, writes what the page reads. No time is asserted."""

import importlib
import json
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.peers import peer

ROOT = Path(__file__).parents[2]
ROPE = {"prompt": (1, 2, 24, 32), "token": (1, 2, 1, 32)}


@pytest.fixture(scope="module", autouse=True)
def folder():
    """Make the benchmark's files importable by each other, as they are when one is run."""
    path = str(ROOT / "docs" / "bench")
    sys.path.insert(0, path)
    yield
    sys.path.remove(path)
    for name in ("speed", "timing"):
        sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def one_seed():
    torch.manual_seed(0)


@pytest.fixture
def timing():
    return importlib.import_module("timing")


@pytest.fixture
def speed(monkeypatch):
    """The cases, without a compiler: what is compiled is right if the rest is, and compiling takes its time."""
    found = importlib.import_module("speed")
    monkeypatch.setattr(found, "with_compiled", lambda name, call, also=True: [(name, call)])
    return found


def case_of(timing, **contestants):
    return timing.Case("rope", "prompt", "float32", timing.FORWARD, "cpu", "limit", contestants, {})


# Who is wrong


def test_a_right_contestant_is_given_its_error(timing):
    wanted = torch.tensor([1.0, -2.0], dtype=torch.float64)
    right = timing.Contestant(lambda: (wanted + 1e-6).float(), lambda: [wanted])
    assert timing.check(case_of(timing, right=right))["right"] == pytest.approx(5e-7, rel=0.1)


@pytest.mark.parametrize(
    "given",
    [torch.tensor([1.0, 2.0]), torch.tensor([1.0, float("nan")]), torch.tensor([[1.0, -2.0]]), torch.tensor([1.0])],
    ids=["a sign", "not a number", "another shape", "a part"],
)
def test_a_wrong_contestant_ends_the_run(timing, given):
    wanted = torch.tensor([1.0, -2.0], dtype=torch.float64)
    wrong = timing.Contestant(lambda: given, lambda: [wanted])
    with pytest.raises(ValueError, match=r"timing: bad must be right, got an error of .* in rope, prompt, float32"):
        timing.check(case_of(timing, bad=wrong))


def test_a_result_that_would_broadcast_ends_the_run(timing):
    part = timing.Contestant(lambda: torch.ones(1), lambda: [torch.ones(2, dtype=torch.float64)])
    with pytest.raises(ValueError, match="bad must be right, got an error of inf"):
        timing.check(case_of(timing, bad=part))


def test_a_missing_result_ends_the_run(timing):
    wanted = torch.ones(2, dtype=torch.float64)
    with pytest.raises(ValueError, match="zip"):
        timing.check(case_of(timing, bad=timing.Contestant(lambda: (wanted,), lambda: [wanted, wanted])))


def test_a_contestant_that_does_not_run_is_left_out_with_its_reason(timing):
    def fail():
        raise NotImplementedError("no such kernel\nand more")

    case = case_of(timing, limit=timing.Contestant(lambda: 0), absent=timing.Contestant(fail, list))
    assert timing.check(case) == {}
    assert list(case.contestants) == ["limit"]
    assert case.left_out == {"absent": "NotImplementedError: no such kernel"}


def test_a_library_that_is_not_installed_is_left_out_and_named(timing):
    def absent():
        import no_such_library

        yield "never", no_such_library

    found, left_out = timing.gather({"here": lambda: iter([("a", 1), ("b", 2)]), "peer": absent})
    assert found == {"a": 1, "b": 2}
    assert left_out == {"peer": "no_such_library is not installed"}


@pytest.mark.parametrize("fault", ["layout", "place", "gradient"])
def test_rotations_that_are_wrong_are_seen(speed, timing, fault):
    """The other layout, one place further, and a gradient that turns the wrong way."""
    q, k, *given = torch.randn(4, 1, 2, 24, 32)
    places = torch.arange(24)
    turn = dict(speed.rope_of_posenc("interleaved", places + (fault == "place"), q))["posenc, interleaved"].turn
    if fault == "gradient":
        turn = partial(_with_wrong_gradient, turn)
    rotations = {"bad": speed.Rotation(turn, "half" if fault == "layout" else "interleaved")}
    both = speed.rope_forward_and_backward(rotations, places, [q, k], given)
    forward = speed.rope_forward(rotations, places, q, k)
    with pytest.raises(ValueError, match="bad must be right"):
        timing.check(case_of(timing, **both))
    if fault == "gradient":
        assert timing.check(case_of(timing, **forward))["bad"] < 1e-6
    else:
        with pytest.raises(ValueError, match="bad must be right"):
            timing.check(case_of(timing, **forward))


def _with_wrong_gradient(turn, q, k):
    return tuple(x.detach() + (y - y.detach()) for x, y in zip(turn(q, k), (q, k), strict=True))


# Every case


def test_every_rotation_is_right_forward_and_backward(speed, timing):
    peer("transformers"), peer("rotary_embedding_torch"), peer("x_transformers")
    seen = 0
    for case in speed.rope_cases("cpu", ROPE):
        with torch.set_grad_enabled(case.direction == timing.BOTH):
            errors = timing.check(case)
        assert case.left_out == {}
        others = {"transformers", "rotary-embedding-torch", "x-transformers", "complex product"}
        assert errors.keys() >= {"posenc, half", "posenc, interleaved"} | others
        first = [case.contestants[name].call()[0][0, 0, 0] for name in ("clone", "posenc, half")]
        assert torch.equal(*first) == (case.name == "prompt")  # at position 0 nothing turns
        assert ("posenc, half, out=" in errors) == (case.direction == timing.FORWARD)
        assert case.dtype == "bfloat16" or max(errors[name] for name in errors if "posenc" in name) < 1e-6
        seen += 1
    assert seen == 2 * 3  # a token that is decoded has no backward


def test_every_bias_is_right(speed, timing):
    peer("transformers"), peer("x_transformers")
    with torch.no_grad():
        errors = {case.name: timing.check(case) for case in speed.bias_cases("cpu", 4, 200)}
    assert errors["ALiBi"].keys() == {"posenc", "x-transformers"}
    assert errors["T5"].keys() == {"posenc", "transformers", "x-transformers"}
    assert max(errors["ALiBi"]["posenc"], *errors["T5"].values()) < 1e-6


@pytest.mark.filterwarnings("ignore")  # FlexAttention asks to be compiled
def test_every_way_to_attend_is_right(speed, timing, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda call, **_: call)
    always = {"posenc", "SDPA, mask at hand", "SDPA, mask built anew"}
    for case in speed.attention_cases("cpu", (1, 4, 40, 16)):
        with torch.set_grad_enabled(case.direction == timing.BOTH):
            errors = timing.check(case)
        assert case.limit in case.contestants
        assert errors.keys() >= (always if case.direction == timing.BOTH else always | FLEX)
        assert errors.keys() | case.left_out.keys() == always | FLEX


FLEX = {"posenc, flex=True", "FlexAttention, compiled"}


# Ratios and records


def test_ratios_are_of_medians_and_the_fastest_comes_first(timing):
    times = {"limit": [2.0, 1.0, 90.0], "twice": [4.0, 4.0, 0.1], "half": [1.0, 0.5, 7.0]}
    rows = timing.compare(times, "limit", {"twice": 1e-7})
    assert [(row["name"], row["ratio"]) for row in rows] == [("half", 0.5), ("limit", 1.0), ("twice", 2.0)]
    assert rows[2] == {"name": "twice", "seconds": 4.0, "ratio": 2.0, "spread": 0.4875, "error": 1e-7}
    assert timing.compare({"limit": [3.0]}, "limit", {})[0]["spread"] == 0


def test_contestants_take_turns_in_a_new_order_each_round(timing, monkeypatch):
    order = []
    monkeypatch.setattr(timing, "seconds", lambda call, count, device: order.append(call) or 1.0)
    times = timing.measure({name: name for name in "abcd"}, 6, "cpu")
    assert times == {name: [1.0] * 6 for name in "abcd"}
    rounds = ["".join(order[n : n + 4]) for n in range(len(order) - 24, len(order), 4)]
    assert all(sorted(each) == list("abcd") for each in rounds)
    assert len(set(rounds)) > 1


def test_the_file_holds_what_the_page_reads_and_nothing_of_the_machine_but_its_kind(timing):
    case = case_of(timing, limit=timing.Contestant(lambda: 0), other=timing.Contestant(lambda: 1))
    written = json.loads(json.dumps(timing.setting(1) | {"rounds": 2, "cases": [timing.run(case, 2)]}))
    assert written.keys() == KEYS
    assert written["machine"].keys() <= {"cpu", "cores", "threads", "python", "torch", "load", "gpu"}
    (found,) = written["cases"]
    assert found.keys() == {"section", "name", "dtype", "direction", "device", "limit", "rows", "left_out"}
    assert {row["name"] for row in found["rows"]} == {"limit", "other"}
    assert "1.00 x" in timing.table(found)


KEYS = {"date", "machine", "peers", "rounds", "cases"}


def test_the_file_in_the_book_is_whole(speed):
    """All sections were measured, in every dtype and direction."""
    text = (ROOT / "docs" / "assets" / "data" / "speed.json").read_text(encoding="utf-8")
    found = json.loads(text)
    assert found.keys() == KEYS
    assert str(Path.home()) not in text
    cases = [(c["section"], c["name"], c["dtype"], c["direction"]) for c in found["cases"] if c["device"] == "cpu"]
    rope = 2 * sum(1 + (shape[2] > 1) for shape in speed.ROTATED.values())
    assert len(set(cases)) == len(cases) == rope + 2 + 4 + 1
    for case in found["cases"]:
        assert next(row["ratio"] for row in case["rows"] if row["name"] == case["limit"]) == 1


def test_an_import_is_timed_in_a_process_of_its_own(timing):
    found = timing.imports({"torch": "torch", "json": "json", "nothing": "no_such_module"}, 1)
    assert {row["name"] for row in found["rows"]} == {"torch", "json"}
    assert found["left_out"] == {"nothing": "not installed"}


@pytest.mark.parametrize(("seconds", "said"), [(2.5, "2.5 s"), (0.0456, "45.6 ms"), (3.2e-6, "3.2 µs"), (0.0, "0 µs")])
def test_durations_are_said_in_the_unit_that_fits(timing, seconds, said):
    assert timing.duration(seconds) == said
