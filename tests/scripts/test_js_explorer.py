"""The explorer: its numbers against the Python that it hands out and against the package, and its addresses."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from posenc.add.sinusoidal import sinusoidal
from posenc.bias.alibi import alibi, alibi_slopes
from posenc.bias.sandwich import sandwich
from posenc.rotate.frequencies import yarn
from tests.scripts.explorer_cases import (
    CASES,
    DEFAULTS,
    KINDS,
    LABELS,
    MODEL,
    QUERY,
    SEEDS,
    SELF_CHECK,
    SETTINGS,
    SNIPPET,
    case_name,
    computed,
    page_data,
    random_state,
    run_snippet,
    with_defaults,
)
from tests.scripts.javascript import assert_close

UNTRIED = {("learned", "table", "trained")}  # which has a test of its own


def test_every_encoding_and_option_is_among_the_cases():
    """Add what is missing to CASES of explorer_cases.py: the tests of numbers, Python and addresses run over it."""
    choices, kinds = page_data()["choices"], KINDS("KINDS")
    toggles = {name: [False, True] for name in page_data()["toggles"]}
    missing = []
    for encoding in choices["encoding"]:
        cases = [with_defaults(**case) for case in CASES if case["encoding"] == encoding]
        for name in {"encoding", *kinds[encoding]["knobs"]} & {*choices, *toggles}:
            values = [encoding] if name == "encoding" else (choices | toggles)[name]
            # a peak is content of RoPE alone
            values = [value for value in values if value != "peak" or name != "content" or encoding == "rope"]
            tried = [case[name] for case in cases]
            missing += [(encoding, name, value) for value in values if value not in tried]
    assert set(missing) - UNTRIED == set()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_the_python_makes_what_the_panels_show(case, seed, capsys):
    pattern, similarity, state = computed(random_state(case, seed))
    code = SNIPPET("python(state, data)", state=with_defaults(**state))
    scope = run_snippet(code)
    assert_close(pattern, scope["pattern"], err_msg=code)
    assert_close(similarity, scope["similarity"], err_msg=code)
    assert capsys.readouterr().out.strip()
    assert len([line for line in code.splitlines() if line]) <= 20


def test_the_page_has_a_value_for_every_encoding_to_be_compared_with():
    compared = [state for state, *_ in page_data()["golden"]]
    for name in ("encoding", "order", "table", "form", "layout", "scaling"):
        for value in page_data()["choices"][name][name == "scaling" :]:
            assert any(state.get(name) == value for state in compared), f"{name}={value}"


def test_the_comparison_itself():
    golden = [[state, *map(float, numbers)] for state, *numbers in page_data()["golden"]]
    right = SELF_CHECK("agreement(data)", data=page_data() | {"golden": golden})
    assert right["points"] == 2 * len(golden)
    assert right["worst"] < 1e-12
    golden[5][3] += 1e-3
    assert SELF_CHECK("agreement(data)", data=page_data() | {"golden": golden})["worst"] > 1e-4


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "case", [case for case in CASES if case["encoding"] in ("sinusoidal", "rope", "pope")], ids=str
)
def test_the_hands_of_all_pairs_make_the_similarity(case, seed):
    code = """(() => {
      const view = explorer(data)(state)
      const { query, key } = view.state
      return { parts: view.pairs.map((_, i) => share(view, i, query, key)), whole: view.at(query, key),
               inverse: view.pairs.every(([a, b], i) => pairOf(view, a) === i && pairOf(view, b) === i),
               hands: view.theta.length === view.pairs.length }
    })()"""
    result = MODEL(code, state=with_defaults(**random_state(case, seed) | {"softmax": False}))
    assert_close(sum(result["parts"]), result["whole"])
    assert result["inverse"]
    assert result["hands"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_curve_without_scaling_is_that_of_the_encoding_without_scaling(seed):
    state = random_state({"encoding": "rope", "scaling": "ntk", "content": "random"}, seed)
    state |= {"softmax": False, "share": 1}
    stretched, usually = (
        MODEL("explorer(data)(state)", state=with_defaults(**state | {"scaling": name})) for name in ("ntk", "none")
    )
    assert stretched["plain"] == usually["band"] != stretched["band"]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_attention_of_equal_tokens(seed, causal):
    for case in ({"encoding": "alibi"}, {"encoding": "fire"}, {"encoding": "none", "content": "tokens"}):
        state = random_state(case, seed) | {"causal": causal, "softmax": False}
        _, similarity, settled = computed(state)
        m, scale = settled["query"], settled["width"] ** -0.5 if case["encoding"] == "none" else 1
        ours = MODEL("explorer(data)(state).weights(m)", state=with_defaults(**state), m=m)
        row = torch.tensor(np.nan_to_num(similarity[m] * scale, nan=-np.inf))
        np.testing.assert_allclose(ours, row.softmax(0), rtol=1e-9, atol=1e-12)


def test_the_page_and_the_script_know_the_same_encodings():
    kinds = KINDS("Object.keys(KINDS)")
    assert sorted(kinds) == sorted(page_data()["choices"]["encoding"])
    knobs = set(SETTINGS("KNOBS.map(({ name }) => name)"))
    assert set().union(*KINDS("Object.values(KINDS).map(({ knobs }) => knobs)")) <= knobs
    assert (
        knobs - {"words"} == page_data()["knobs"].keys() | page_data()["choices"].keys() | page_data()["toggles"].keys()
    )


FAR = {
    "sinusoidal": lambda s, d: sinusoidal([0], 32)[0] @ sinusoidal([d], 32)[0],
    "rope": lambda s, d: np.cos(d * yarn(32, 4, 64)[0]).sum() * yarn(32, 4, 64)[1] ** 2,
    "alibi": lambda s, d: alibi([d], [0], 8)[2, 0, 0],
    "sandwich": lambda s, d: sandwich([d], [0], 8, dim=32)[2, 0, 0],
    "none": lambda s, d: 32.0,
}


@pytest.mark.parametrize("encoding", FAR)
def test_far_distances_are_those_of_the_package(encoding):
    state = with_defaults(encoding=encoding, width=32, far=True, scaling="yarn")
    code = "(({ curve }) => Array.from(farDistances(data.far), curve))(explorer(data)(state))"
    values = MODEL(code, state=state)
    distances = MODEL("farDistances(data.far)")
    assert distances[0] == 1
    assert distances[-1] == page_data()["far"]
    for i in (0, 10, 300, -1):
        expected = FAR[encoding](state, distances[i])
        assert values[i] == pytest.approx(expected, rel=1e-9, abs=1e-9), distances[i]


def test_a_picture_of_many_positions_is_thinned_and_its_numbers_are_not():
    state = with_defaults(encoding="rope", content="tokens", length=512, width=8)
    code = "(({ side, values, at }) => [side, values[3 * side + 5], at(6, 10), at(7, 11)])(explorer(data)(state))"
    side, value_drawn, value, between = MODEL(code, state=state)
    assert side == 256
    assert value_drawn == pytest.approx(value, rel=1e-12)
    assert between != value


@pytest.mark.parametrize(
    "case", [{"encoding": "fire"}, {"encoding": "rope", "content": "tokens"}, {"encoding": "cope"}], ids=str
)
def test_no_picture_is_finer_than_can_be_seen(case):
    view = MODEL("explorer(data)(state)", state=with_defaults(**case, length=512, width=8))
    assert len(view["values"]) == view["side"] ** 2 == 256**2


def test_the_trained_table_is_trained_by_its_python():
    """The slowest snippet: it trains, and must arrive at the table that the page has handed over, to its last digit."""
    state = {"encoding": "learned", "table": "trained", "length": 64, "width": 64}
    pattern, similarity, _ = computed(state)
    scope = run_snippet(SNIPPET("python(state, data)", state=with_defaults(**state)))
    np.testing.assert_allclose(pattern, scope["pattern"], atol=1.5 * 10 ** -page_data()["trained"]["digits"])
    assert_close(similarity, pattern @ pattern.T)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_an_address_brings_its_view_back(case, seed):
    view = DEFAULTS("settle(state, data)", state=with_defaults(**random_state(case, seed)))
    query = QUERY("toQuery(state, data)", state=view)
    again = QUERY("fromQuery(query, data)", query=query)
    applies = SETTINGS("KNOBS.filter(({ when }) => when(state)).map(({ name }) => name)", state=view)
    assert {name: again[name] for name in applies} == {name: view[name] for name in applies}
    assert " " not in query


def test_an_address_without_a_query_shows_what_the_page_begins_with():
    first = QUERY("fromQuery('', data)")
    start = page_data()["start"]
    assert start["encoding"] == "rope"
    assert {name: first[name] for name in start} == start
    assert QUERY("fromQuery(toQuery(fromQuery('', data), data), data)") == first


def test_each_encoding_is_said_in_the_address():
    sentence = QUERY("fromQuery('?encoding=sinusoidal', data)")
    assert sentence["words"] == page_data()["words"]
    assert sentence["length"] == len(sentence["words"].split())
    assert QUERY("toQuery(state, data)", state=sentence) == "?encoding=sinusoidal"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES[::3], ids=case_name)
def test_an_address_brings_two_views_back(case, seed):
    a, b = (
        with_defaults(**random_state(settings, seed)) for settings in ({"encoding": "rope", "scaling": "yarn"}, case)
    )
    a = DEFAULTS("settle(state, data)", state=a)
    b = DEFAULTS("settle(state, data)", state=b | QUERY("shared(a)", a=a))
    query = QUERY("toQuery(a, data, b)", a=a, b=b)
    again = QUERY("otherFromQuery(query, fromQuery(query, data), data)", query=query)
    applies = SETTINGS("KNOBS.filter(({ when }) => when(state)).map(({ name }) => name)", state=b)
    assert {name: again[name] for name in applies} == {name: b[name] for name in applies}
    assert QUERY("fromQuery(query, data)", query=query)["factor"] == a["factor"]
    assert QUERY("otherFromQuery(query, fromQuery(query, data), data)", query="?length=9") is None


@pytest.mark.parametrize(
    ("query", "length"),
    [
        ("?query=100", 128),
        ("?length=9", 9),
        ("?far=true", 128),
        ("?base=20", 5),
        ("?words=a+b", 2),
        ("?words=a+b&far=true", 2),
        ("?words=", 128),
    ],
)
def test_an_address_means_a_sentence_or_numbers(query, length):
    state = QUERY("fromQuery(query, data)", query=query)
    assert state["length"] == length
    assert state["far"] == (query == "?far=true")


def test_a_sentence_is_words_with_a_space_between():
    assert DEFAULTS("sentence(text)", text="  the \t dog\nbit ") == "the dog bit"
    assert DEFAULTS("sentence(text).split(' ').length", text="a " * 40) == 24


@pytest.mark.parametrize("name", ["encoding", "b.encoding"])
def test_encodings_that_are_none_are_named(name):
    assert QUERY("unknown(query)", query=f"?{name}=xyz&length=9") == ["xyz"]
    assert QUERY("unknown(query)", query=f"?{name}=constructor") == ["constructor"]
    assert QUERY("unknown(query)", query=f"?{name}=rope") == []


@pytest.mark.parametrize(
    "text", ["", "?", "?encoding", "?length=&width=x&%E0%A4%A&base=-1e400", "?heads=1e9&head=99", "&&=&=1"]
)
def test_no_address_breaks_it(text):
    state = QUERY("fromQuery(text, data)", text=text)
    for name, bounds in page_data()["knobs"].items():
        if name == "length" and state["words"]:
            continue
        assert bounds["min"] <= state[name] <= bounds["max"], name
    assert state["head"] < state["heads"]
    assert max(state["query"], state["key"]) < state["length"]


@pytest.mark.parametrize(("heads", "head", "slope"), [(8, 0, "1/2"), (8, 2, "1/8"), (16, 0, "0.707"), (12, 8, "0.707")])
def test_the_slope_of_a_head_is_said(heads, head, slope):
    assert LABELS("slopeOf({ heads, head })", heads=heads, head=head) == slope
    assert float(Fraction(slope)) == pytest.approx(alibi_slopes(heads)[head].item(), abs=5e-4)


def test_columns_and_biases():
    assert DEFAULTS("columnsOf({ encoding: 'pope', width: 6 })") == 2 * DEFAULTS(
        "columnsOf({ encoding: 'rope', width: 6 })"
    )
    assert [KINDS("biased({ encoding })", encoding=name) for name in ("t5", "rope")] == [True, False]
