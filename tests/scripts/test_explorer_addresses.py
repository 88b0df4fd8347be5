"""The explorer's state against its addresses."""

import pytest

from tests.scripts.exploring import CASES, DEFAULTS, QUERY, SEEDS, SETTINGS, drawn, given, named, usual


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=named)
def test_an_address_brings_its_view_back(case, seed):
    view = DEFAULTS("settle(state, given)", state=usual(**drawn(case, seed)))
    query = QUERY("toQuery(state, given)", state=view)
    again = QUERY("fromQuery(query, given)", query=query)
    applies = SETTINGS("KNOBS.filter(({ when }) => when(state)).map(({ name }) => name)", state=view)
    assert {name: again[name] for name in applies} == {name: view[name] for name in applies}
    assert " " not in query


def test_the_first_view_has_no_address_and_no_number():
    assert QUERY("toQuery(fromQuery('', given), given)") == ""
    first = QUERY("fromQuery('', given)")
    assert first["words"] == given()["words"]
    assert first["length"] == len(first["words"].split())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES[::3], ids=named)
def test_an_address_brings_two_views_back(case, seed):
    a, b = (usual(**drawn(each, seed)) for each in ({"encoding": "rope", "scaling": "yarn"}, case))
    a = DEFAULTS("settle(state, given)", state=a)
    b = DEFAULTS("settle(state, given)", state=b | QUERY("shared(a)", a=a))
    query = QUERY("toQuery(a, given, b)", a=a, b=b)
    again = QUERY("otherFromQuery(query, fromQuery(query, given), given)", query=query)
    applies = SETTINGS("KNOBS.filter(({ when }) => when(state)).map(({ name }) => name)", state=b)
    assert {name: again[name] for name in applies} == {name: b[name] for name in applies}
    assert QUERY("fromQuery(query, given)", query=query)["factor"] == a["factor"]
    assert QUERY("otherFromQuery(query, fromQuery(query, given), given)", query="?length=9") is None


@pytest.mark.parametrize(
    ("query", "length"), [("?query=100", 128), ("?length=9", 9), ("?base=20", 5), ("?words=a+b", 2), ("?words=", 128)]
)
def test_an_address_means_a_sentence_or_numbers(query, length):
    assert QUERY("fromQuery(query, given)", query=query)["length"] == length


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
    state = QUERY("fromQuery(text, given)", text=text)
    for name, bounds in given()["knobs"].items():
        if name == "length" and state["words"]:
            continue
        assert bounds["min"] <= state[name] <= bounds["max"], name
    assert state["head"] < state["heads"]
    assert max(state["query"], state["key"]) < state["length"]
