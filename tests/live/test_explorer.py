"""The explorer: its numbers against the Python that it hands out, and its state against its addresses."""

import base64
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import posenc
from galley.book import Book
from posenc.add.sinusoidal import sinusoidal
from posenc.bias.alibi import alibi
from posenc.bias.sandwich import sandwich
from posenc.rotate.frequencies import yarn
from posenc.rotate.rope import rope
from tests.live.javascript import Script

ROOT = Path(__file__).parents[2]


class Knowing(Script):
    """A script that knows what the page passes: it is told once."""

    told = False

    def __call__(self, expression, **known):
        if not self.told:
            self.context.eval(f"globalThis.given = {json.dumps(given())}")
            self.told = True
        return super().__call__(expression, **known)


MODEL, SPEC, SNIPPET, JUDGE = (Knowing(f"explorer/{name}.js") for name in ("model", "spec", "snippet", "judge"))
QUERY, SETTINGS, KINDS = (Knowing(f"explorer/{name}.js") for name in ("query", "settings", "kinds"))
PRODUCTS, TABLES = (Script(f"math/{name}.js") for name in ("products", "tables"))
SEEDS = range(4)
VECTORS = [{"content": content} for content in ("constant", "random", "tokens", "peak")]
LAYOUTS = ("half", "interleaved")
SCORES = ["shaw", "music", "transformer_xl", "deberta", "decomposed", "profiles", "gated", "cope", "forget", "path"]
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
    {"encoding": "rope", "share": 0.5, "content": "tokens", "words": "the dog bit the man"},
    *({"encoding": "rope", "share": 0.5, "layout": layout} | each for layout in LAYOUTS for each in VECTORS),
    *({"encoding": "xpos"} | each for each in VECTORS[:3]),
    *({"encoding": "latent", "layout": layout} | each for layout in LAYOUTS for each in VECTORS[:3]),
    *({"encoding": "axial", "layout": layout} | each for layout in LAYOUTS for each in VECTORS[:3]),
    *({"encoding": "mrope", "interleaved": each} | VECTORS[2] for each in (True, False)),
    *({"encoding": "liere", "block": block} | VECTORS[i] for i, block in enumerate(("2", "4", "8"))),
    *({"encoding": name} | each for name in ("fope", "lerope", "selective", "repo") for each in VECTORS[:3]),
    *({"encoding": "fourier", "features": name} for name in ("powers", "bands", "gaussian")),
    *({"encoding": "grid", "axes_order": name} for name in ("mae", "timm", "timm-axes", "detr")),
    *({"encoding": name} | each for name in ("convolution", "conditional") for each in VECTORS[:3]),
    {"encoding": "sandwich"},
    {"encoding": "window"},
    *({"encoding": name} | each for name in SCORES for each in VECTORS[:3]),
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
    state |= {name: int(state[name]) for name in whole | {"threshold"} if name in state}
    state |= {"length": int(draw.integers(8, 41)), "width": 2 * int(draw.integers(3, 17))}
    state |= {
        "buckets": 4 * int(draw.integers(1, 9)),
        "causal": bool(draw.integers(2)),
        "first": int(draw.integers(2000)),
        "softmax": bool(draw.integers(2)),
        "far": False,
    }
    whole = {"side": (2, 7), "before": (1, 8), "window": (2, 7), "clip": (2, 20), "rank": (1, 6), "extent": (4, 50)}
    whole |= {"taps": (2, 12)}
    state |= {name: int(draw.integers(*ends)) for name, ends in whole.items()}
    state |= {name: round(float(draw.uniform(0.1, 1)), 2) for name in ("gain", "spread", "strength")}
    state |= {"scale_base": int(draw.integers(64, 500)), "original_length": int(draw.integers(16, 5000))}
    return {"words": ""} | state


def ran(code):
    """Run a snippet as the reader does who pastes it."""
    scope = {}
    exec(compile(code, "snippet", "exec"), scope)
    return scope


def usual(**state):
    """The defaults of an encoding over numbered positions, with what is set beside."""
    encoding = state.get("encoding", "sinusoidal")
    return SPEC("defaults(given, encoding, true)", encoding=encoding) | state


def shown(state):
    """What the explorer computes: pattern and similarity, as arrays with nothing where keys are hidden."""
    code = """(() => {
      const view = explorer(given)(state)
      const { rows, columns } = view.pattern
      return { pattern: view.pattern.values, rows, columns, state: view.state,
               similarity: Array.from({ length: view.state.length }, (_, m) => view.row(m)) }
    })()"""
    found = MODEL(code, state=usual(**state))
    similarity = np.array(found["similarity"], float)
    if found["state"]["causal"]:
        similarity[np.triu_indices(len(similarity), 1)] = np.nan
    return np.reshape(found["pattern"], (found["rows"], found["columns"])), similarity, found["state"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_the_python_makes_what_the_panels_show(case, seed, capsys):
    pattern, similarity, state = shown(drawn(case, seed))
    code = SNIPPET("python(state, given)", state=usual(**state))
    scope = ran(code)
    np.testing.assert_allclose(pattern, scope["pattern"], rtol=1e-9, atol=1e-9, err_msg=code)
    np.testing.assert_allclose(similarity, scope["similarity"], rtol=1e-9, atol=1e-9, err_msg=code)
    assert capsys.readouterr().out.strip()
    assert len([line for line in code.splitlines() if line]) <= 20


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
      const view = explorer(given)(state)
      const { query, key } = view.state
      return { parts: view.pairs.map((_, i) => share(view, i, query, key)), whole: view.at(query, key),
               found: view.pairs.every(([a, b], i) => pairOf(view, a) === i && pairOf(view, b) === i),
               hands: view.theta.length === view.pairs.length }
    })()"""
    found = MODEL(code, state=usual(**drawn(case, seed) | {"softmax": False}))
    np.testing.assert_allclose(sum(found["parts"]), found["whole"], rtol=1e-9, atol=1e-9)
    assert found["found"]
    assert found["hands"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_curve_without_scaling_is_that_of_the_encoding_without_scaling(seed):
    state = drawn({"encoding": "rope", "scaling": "ntk", "content": "random"}, seed)
    state |= {"softmax": False, "share": 1}
    stretched, usually = (
        MODEL("explorer(given)(state)", state=usual(**state | {"scaling": name})) for name in ("ntk", "none")
    )
    assert stretched["plain"] == usually["band"] != stretched["band"]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_attention_of_equal_tokens(seed, causal):
    for case in ({"encoding": "alibi"}, {"encoding": "fire"}, {"encoding": "none", "content": "tokens"}):
        state = drawn(case, seed) | {"causal": causal, "softmax": False}
        _, similarity, settled = shown(state)
        m, scale = settled["query"], settled["width"] ** -0.5 if case["encoding"] == "none" else 1
        ours = MODEL("explorer(given)(state).weights(m)", state=usual(**state), m=m)
        row = torch.tensor(np.nan_to_num(similarity[m] * scale, nan=-np.inf))
        np.testing.assert_allclose(ours, row.softmax(0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_an_address_brings_its_view_back(case, seed):
    view = SPEC("settle(state, given)", state=usual(**drawn(case, seed)))
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
@pytest.mark.parametrize("case", CASES[::3], ids=lambda case: "-".join(map(str, case.values())))
def test_an_address_brings_two_views_back(case, seed):
    a, b = (usual(**drawn(each, seed)) for each in ({"encoding": "rope", "scaling": "yarn"}, case))
    a = SPEC("settle(state, given)", state=a)
    b = SPEC("settle(state, given)", state=b | QUERY("shared(a)", a=a))
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
    assert SPEC("sentence(text)", text="  the \t dog\nbit ") == "the dog bit"
    assert SPEC("sentence(text).split(' ').length", text="a " * 40) == 24


@pytest.mark.parametrize("name", ["encoding", "b.encoding"])
def test_encodings_that_are_none_are_named(name):
    assert QUERY("unknown(query)", query=f"?{name}=xyz&length=9") == ["xyz"]
    assert QUERY("unknown(query)", query=f"?{name}=constructor") == ["constructor"]
    assert QUERY("unknown(query)", query=f"?{name}=rope") == []


def test_the_page_and_the_script_know_the_same_encodings():
    kinds = KINDS("Object.keys(KINDS)")
    assert sorted(kinds) == sorted(given()["choices"]["encoding"])
    knobs = set(SETTINGS("KNOBS.map(({ name }) => name)"))
    assert set().union(*KINDS("Object.values(KINDS).map(({ knobs }) => knobs)")) <= knobs
    assert knobs - {"words"} == given()["knobs"].keys() | given()["choices"].keys() | given()["toggles"].keys()


def test_all_encodings_of_the_package_are_drawn_or_named_on_the_page():
    page = (ROOT / "docs/explorer.md").read_text(encoding="utf-8")
    beside = {"query_scale", "swin"}
    own = {key.partition("/")[2] for key in posenc.encodings()}
    assert own - beside <= set(KINDS("Object.keys(KINDS)"))
    assert all(f"posenc.{door}.{name}" in page for door, name in (("rotate", "query_scale"), ("bias", "swin")))


FAR = {
    "sinusoidal": lambda s, d: sinusoidal([0], 32)[0] @ sinusoidal([d], 32)[0],
    "rope": lambda s, d: np.cos(d * yarn(32, 4, 64)[0]).sum() * yarn(32, 4, 64)[1] ** 2,
    "alibi": lambda s, d: alibi([d], [0], 8)[2, 0, 0],
    "sandwich": lambda s, d: sandwich([d], [0], 8, dim=32)[2, 0, 0],
    "none": lambda s, d: 32.0,
}


@pytest.mark.parametrize("encoding", FAR)
def test_far_distances_are_those_of_the_package(encoding):
    state = usual(encoding=encoding, width=32, far=True, scaling="yarn")
    code = "(({ curve }) => Array.from(farDistances(given.far), curve))(explorer(given)(state))"
    values = MODEL(code, state=state)
    distances = MODEL("farDistances(given.far)")
    assert distances[0] == 1
    assert distances[-1] == given()["far"]
    for i in (0, 10, 300, -1):
        expected = FAR[encoding](state, distances[i])
        assert values[i] == pytest.approx(expected, rel=1e-9, abs=1e-9), distances[i]


def test_a_picture_of_many_positions_is_thinned_and_its_numbers_are_not():
    state = usual(encoding="rope", content="tokens", length=512, width=8)
    code = "(({ side, values, at }) => [side, values[3 * side + 5], at(6, 10), at(7, 11)])(explorer(given)(state))"
    side, drawn_there, there, between = MODEL(code, state=state)
    assert side == 256
    assert drawn_there == pytest.approx(there, rel=1e-12)
    assert between != there


@pytest.mark.parametrize(
    "case", [{"encoding": "fire"}, {"encoding": "rope", "content": "tokens"}, {"encoding": "cope"}], ids=str
)
def test_no_picture_is_finer_than_can_be_seen(case):
    view = MODEL("explorer(given)(state)", state=usual(**case, length=512, width=8))
    assert len(view["values"]) == view["side"] ** 2 == 256**2


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


def test_columns_and_biases():
    assert SPEC("columnsOf({ encoding: 'pope', width: 6 })") == 2 * SPEC("columnsOf({ encoding: 'rope', width: 6 })")
    assert [KINDS("biased({ encoding })", encoding=name) for name in ("t5", "rope")] == [True, False]


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
    options = {"first": first, "attention": factor}
    for x in (draw.normal(size=(5, 8)), draw.normal(size=(1, 8))):
        pairs = [[i, i + 4] if layout == "half" else [2 * i, 2 * i + 1] for i in range(4)]
        code = """turnedBy(new Float64Array(x), 5, 8, pairs,
          wheelOf(5, 4, (p, i) => (p + options.first) * theta[i], () => options.attention))"""
        ours = TABLES(code, x=x.ravel().tolist(), theta=theta.tolist(), options=options, pairs=pairs)
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
    scope = ran(SNIPPET("python(state, given)", state=usual(**state)))
    np.testing.assert_allclose(pattern, scope["pattern"], atol=1.5 * 10 ** -given()["trained"]["digits"])
    np.testing.assert_allclose(similarity, pattern @ pattern.T, rtol=1e-9, atol=1e-9)
