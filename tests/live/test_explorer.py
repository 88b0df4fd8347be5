"""The explorer: its numbers against the Python that it hands out, and its state against its addresses."""

import base64
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from galley.book import Book
from posenc.rotate.rope import rope
from tests.live.javascript import Script

ROOT = Path(__file__).parents[2]
MODEL, SPEC, SNIPPET, JUDGE = (Script(f"explorer/{name}.js") for name in ("model", "spec", "snippet", "judge"))
PRODUCTS, TABLES = (Script(f"math/{name}.js") for name in ("products", "tables"))
SEEDS = range(4)
VECTORS = [{"content": content} for content in ("constant", "random", "tokens", "peak")]
SCALINGS = ["linear", "ntk", "dynamic_ntk", "by_parts", "yarn", "llama3", "longrope", "proportional"]
CASES = [
    *({"encoding": "sinusoidal", "order": order} for order in ("interleaved", "split", "tensor2tensor")),
    {"encoding": "learned", "table": "random"},
    *({"encoding": "rope", "layout": layout} | each for layout in ("half", "interleaved") for each in VECTORS),
    *({"encoding": "rope", "scaling": name} | VECTORS[i % 4] for i, name in enumerate(SCALINGS)),
    *({"encoding": "pope", "phase": phase} | each for phase in ("zero", "uniform", "peak") for each in VECTORS[:3]),
    {"encoding": "alibi"},
    *({"encoding": "t5", "bidirectional": both} for both in (True, False)),
    *({"encoding": "kerple", "form": form} for form in ("log", "power")),
    {"encoding": "fire"},
    *({"encoding": "none"} | each for each in VECTORS[:3]),
]


@cache
def given():
    """What the page passes to the explorer, as the page computes it."""
    page = "docs/explorer.md"
    book = Book(ROOT)
    result = book.run({page: book.pages()[page]})[page]
    data = next(json.loads(step["data"]) for step in result.steps if step.get("data"))
    table = np.frombuffer(base64.b64decode(data["trained"]["table"]), "<i2") / 10 ** data["trained"]["digits"]
    return data | {"trained": data["trained"] | {"table": table.tolist()}}


def drawn(case, seed):
    """A state as a reader may leave it, small enough for a test."""
    draw = np.random.default_rng([seed, *map(ord, json.dumps(case))])
    knobs, state = given()["knobs"], dict(case)
    for name, bounds in knobs.items():
        low, high = bounds["min"], bounds["max"]
        step = np.exp(draw.uniform(np.log(low), np.log(high))) if low > 0 else draw.uniform(low, high)
        state[name] = float(f"{step:.3g}")
    whole = {"seed", "first", "peak", "query", "key", "channel", "head", "heads", "max_distance", "original_length"}
    state |= {name: int(state[name]) for name in whole | {"threshold"}}
    state |= {"length": int(draw.integers(8, 41)), "width": 2 * int(draw.integers(3, 17))}
    state |= {
        "buckets": 4 * int(draw.integers(1, 9)),
        "causal": bool(draw.integers(2)),
        "first": int(draw.integers(2000)),
    }
    return state


def ran(code):
    """Run a snippet as the reader does who pastes it."""
    scope = {}
    exec(compile(code, "snippet", "exec"), scope)
    return scope


def shown(state):
    """What the explorer computes: pattern and similarity, as arrays with nothing where keys are hidden."""
    code = """(() => {
      const view = explorer(given)({ ...defaults, ...state })
      const { rows, columns } = view.pattern
      return { pattern: view.pattern.values, rows, columns, state: view.state,
               similarity: Array.from({ length: view.state.length }, (_, m) => view.row(m)) }
    })()"""
    found = MODEL(code, given=given(), state=state, defaults=SPEC("defaults(given)", given=given()))
    similarity = np.array(found["similarity"], float)
    if found["state"]["causal"]:
        similarity[np.triu_indices(len(similarity), 1)] = np.nan
    return np.reshape(found["pattern"], (found["rows"], found["columns"])), similarity, found["state"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_the_python_makes_what_the_panels_show(case, seed, capsys):
    pattern, similarity, state = shown(drawn(case, seed))
    code = SNIPPET("python(state, given)", state=state, given=given())
    scope = ran(code)
    np.testing.assert_allclose(pattern, scope["pattern"], rtol=1e-9, atol=1e-9, err_msg=code)
    np.testing.assert_allclose(similarity, scope["similarity"], rtol=1e-9, atol=1e-9, err_msg=code)
    assert capsys.readouterr().out.strip()
    assert len([line for line in code.splitlines() if line]) <= 13


def test_the_page_has_a_value_for_every_encoding_to_be_compared_with():
    compared = [state for state, *_ in given()["golden"]]
    for name in ("encoding", "order", "table", "form", "layout", "scaling"):
        for value in given()["choices"][name][name == "scaling" :]:
            assert any(state.get(name) == value for state in compared), f"{name}={value}"


def test_the_comparison_itself():
    golden = [[state, *map(float, numbers)] for state, *numbers in given()["golden"]]
    right = JUDGE("agreement(given)", given=given() | {"golden": golden})
    assert right["points"] == 2 * len(golden)
    assert right["worst"] < 1e-12
    golden[5][3] += 1e-3
    assert JUDGE("agreement(given)", given=given() | {"golden": golden})["worst"] > 1e-4


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "case", [case for case in CASES if case["encoding"] in ("sinusoidal", "rope", "pope")], ids=str
)
def test_the_hands_of_all_pairs_make_the_similarity(case, seed):
    code = """(() => {
      const view = explorer(given)({ ...defaults, ...state })
      const { query, key } = view.state
      return { parts: view.pairs.map((_, i) => share(view, i, query, key)), whole: view.at(query, key),
               found: view.pairs.every(([a, b], i) => pairOf(view, a) === i && pairOf(view, b) === i),
               hands: view.theta.length === view.pairs.length }
    })()"""
    found = MODEL(code, given=given(), state=drawn(case, seed), defaults=SPEC("defaults(given)", given=given()))
    np.testing.assert_allclose(sum(found["parts"]), found["whole"], rtol=1e-9, atol=1e-9)
    assert found["found"]
    assert found["hands"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_curve_without_scaling_is_that_of_the_encoding_without_scaling(seed):
    state = drawn({"encoding": "rope", "scaling": "ntk", "content": "random"}, seed)
    code = "explorer(given)({ ...defaults, ...state })"
    known = {"given": given(), "defaults": SPEC("defaults(given)", given=given())}
    stretched = MODEL(code, state=state, **known)
    usual = MODEL(code, state=state | {"scaling": "none"}, **known)
    assert stretched["plain"] == usual["band"] != stretched["band"]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_attention_of_equal_tokens(seed, causal):
    for case in ({"encoding": "alibi"}, {"encoding": "fire"}, {"encoding": "none", "content": "tokens"}):
        state = drawn(case, seed) | {"causal": causal}
        _, similarity, settled = shown(state)
        code = "explorer(given)({ ...defaults, ...state }).weights(m)"
        m, scale = settled["query"], settled["width"] ** -0.5 if case["encoding"] == "none" else 1
        defaults = SPEC("defaults(given)", given=given())
        ours = MODEL(code, given=given(), state=state, defaults=defaults, m=m)
        row = torch.tensor(np.nan_to_num(similarity[m] * scale, nan=-np.inf))
        np.testing.assert_allclose(ours, row.softmax(0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_an_address_brings_its_view_back(case, seed):
    code = """(() => {
      const settled = settle({ ...defaults(given), ...state }, given)
      for (const knob of KNOBS) if (typeof settled[knob.name] === "number")
        settled[knob.name] = rounded(knob, settled[knob.name], given.knobs[knob.name])
      const first = settle(settled, given)
      const query = toQuery(first, given)
      const again = fromQuery(query, given)
      const applies = KNOBS.filter(({ when }) => when(first)).map(({ name }) => name)
      return { query, same: applies.filter((name) => first[name] !== again[name]) }
    })()"""
    found = SPEC(code, given=given(), state=drawn(case, seed))
    assert found["same"] == []
    assert " " not in found["query"]
    assert SPEC("toQuery(defaults(given), given)", given=given()) == ""


@pytest.mark.parametrize(
    "text", ["", "?", "?encoding", "?length=&width=x&%E0%A4%A&base=-1e400", "?heads=1e9&head=99", "&&=&=1"]
)
def test_no_address_breaks_it(text):
    state = SPEC("fromQuery(text, given)", text=text, given=given())
    for name, bounds in given()["knobs"].items():
        assert bounds["min"] <= state[name] <= bounds["max"], name
    assert state["head"] < state["heads"]
    assert max(state["query"], state["key"]) < state["length"]


def test_columns_and_biases():
    assert SPEC("columnsOf({ encoding: 'pope', width: 6 })") == 2 * SPEC("columnsOf({ encoding: 'rope', width: 6 })")
    assert [SPEC("biased({ encoding })", encoding=name) for name in ("t5", "rope")] == [True, False]


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_products_of_two_tables(seed, rows):
    draw = np.random.default_rng(seed)
    a, b = draw.normal(size=(rows, 6)), draw.normal(size=(7, 6))
    known = {name: table.ravel().tolist() for name, table in (("a", a), ("b", b))}
    ours = PRODUCTS("products(new Float64Array(a), new Float64Array(b), 6)", **known)
    np.testing.assert_allclose(np.reshape(ours, (rows, 7)), a @ b.T, rtol=1e-9, atol=1e-12)
    ours = PRODUCTS("((table) => products(table, table, 6))(new Float64Array(a))", **known)
    np.testing.assert_allclose(np.reshape(ours, (rows, rows)), a @ a.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_turned_to_their_positions(seed, layout):
    draw = np.random.default_rng(seed)
    theta, first, factor = draw.uniform(0, 1, 4), int(draw.integers(1000)), float(draw.uniform(1, 2))
    options = {"layout": layout, "first": first, "attention": factor}
    for x in (draw.normal(size=(5, 8)), draw.normal(size=(1, 8))):
        code = "turnedRows(new Float64Array(x), 5, new Float64Array(theta), 8, options)"
        ours = TABLES(code, x=x.ravel().tolist(), theta=theta.tolist(), options=options)
        rows = np.broadcast_to(x, (5, 8))
        theirs = rope(rows, first + np.arange(5), theta=theta, layout=layout, attention_factor=factor)
        np.testing.assert_allclose(np.reshape(ours, (5, 8)), theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 5, 48, 90])
def test_a_list_resampled(count):
    known = np.random.default_rng(count).uniform(1, 60, 48)
    ours = TABLES("resample(list, count)", list=known.tolist(), count=count)
    np.testing.assert_allclose(ours, np.interp(np.linspace(0, 47, count), np.arange(48), known), rtol=1e-9)


def test_the_trained_table_is_trained_by_its_python():
    """The slowest snippet: it trains, and must arrive at the table that the page has handed over, to its last digit."""
    state = {"encoding": "learned", "table": "trained", "length": 64, "width": 64}
    pattern, similarity, _ = shown(state)
    scope = ran(SNIPPET("python(state, given)", state=SPEC("defaults(given)", given=given()) | state, given=given()))
    np.testing.assert_allclose(pattern, scope["pattern"], atol=1.5 * 10 ** -given()["trained"]["digits"])
    np.testing.assert_allclose(similarity, pattern @ pattern.T, rtol=1e-9, atol=1e-9)
