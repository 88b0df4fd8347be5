"""The live figures of Part 6 and of the labs: choosing an encoding, caches, precision, packing, ranks, bugs, models."""

import json
import re

import numpy as np
import pytest
import torch

from posenc.attention import attention_weights
from posenc.models.from_config import from_config
from posenc.positions import packed_documents, packed_positions, padded_positions
from posenc.rotate.frequencies import ntk, proportional, rope_frequencies
from posenc.rotate.query_scale import position_scale
from posenc.rotate.rope import RoPE
from tests.browser.live_figures import numbers, pick, predict, press, select, slide
from tests.conftest import ROOT
from tests.scripts.javascript import Script

pytestmark = pytest.mark.full

PART = "chapters/6-guide/"
DATA = ROOT / "docs/assets/data"
LABS = json.loads((DATA / "labs.json").read_text(encoding="utf-8"))["capability"]
MODELS = json.loads((DATA / "models.json").read_text(encoding="utf-8"))["models"]
CACHE, PATIENTS, RING, ROUNDING, SITES = (
    Script(f"math/{name}.js") for name in ("cache", "patients", "ring", "rounding", "sites")
)


def test_capability_matrix(open_figure):
    figure, _, readout = open_figure("labs/", "capability-matrix")
    canvas = figure.locator("canvas")
    pick(figure, "latest")
    select(figure, "T5")
    canvas.press("ArrowDown")  # the next row
    pick(figure, "256")
    assert "closed" in readout()
    assert "KERPLE" in readout()
    assert canvas.get_attribute("aria-label").count("closed") == 3
    figure.get_by_role("button", name="Bet on KERPLE").press("Enter")
    shares = {name: np.mean(rights["latest"]["256"]) for name, rights in LABS.items()}
    seeds = LABS["KERPLE"]["latest"]["256"]
    assert re.findall(r"\d+%", readout())[:4] == [f"{share:.0%}" for share in (shares["KERPLE"], *seeds)]
    assert ("No other does better" in readout()) == (max(shares, key=shares.get) == "KERPLE")
    assert "You bet on KERPLE: well bet" in readout()
    figure.get_by_role("checkbox").check()
    second = sorted(shares, key=shares.get)[-2]
    canvas.press("ArrowDown")
    assert re.match(rf"{second} \([\w ]+\) answers {shares[second]:.0%}", readout())


QUESTIONS = [*LABS["NoPE"]]
NOTHING_PER_PAIR = ["NoPE", "sinusoidal", "learned", "RoPE", "RoPE, 2 of 8 pairs", "ALiBi", "PoPE"]


def least_regret(questions, length, among=None):
    """Return who is least behind the best in the worst case, how the figure says so, and how many are 0.1 behind."""
    names = [*LABS]
    rows = [names.index(name) for name in among or names]
    shares = np.array([[np.mean(LABS[name][question][str(length)]) for question in questions] for name in names])
    regrets = (shares.max(axis=0) - shares)[rows]
    best = regrets.max(axis=1).argmin()
    near = (regrets.max(axis=1) <= 0.1).sum()
    name, question = names[rows[best]], questions[regrets[best].argmax()]
    return name, f"{name} has the least regret {regrets[best].max():.2f} at “{question}”.", near or "none"


def test_regret_chooser(open_figure):
    figure, _, readout = open_figure(f"{PART}which-encoding/", "regret-chooser")
    _, line, near = least_regret(QUESTIONS, 256)
    assert readout() == f"At 256 tokens over 5 tasks: {line} Never more than 0.1 behind: {near} of the 14."
    assert predict(figure, "look up").startswith("No: without “look up”")
    assert least_regret([question for question in QUESTIONS if question != "look up"], 256)[1] in readout()
    assert predict(figure, "first token").startswith("Yes: without “first token” Transformer-XL")
    _, line, near = least_regret(QUESTIONS[:-1], 256)
    assert f"over 4 tasks: {line}" in readout()
    assert readout().endswith(f"behind: {near} of the 14.")
    figure.get_by_role("checkbox", name="write nothing").check()
    _, line, near = least_regret(QUESTIONS[:-1], 256, NOTHING_PER_PAIR)
    assert line in readout()
    assert readout().endswith(f"behind: {near} of the 7 that write nothing per pair of tokens.")
    pick(figure, "32")
    figure.get_by_role("checkbox", name="first token").check()
    name, line, _ = least_regret(QUESTIONS, 32, NOTHING_PER_PAIR)
    assert f"At 32 tokens over 5 tasks: {line}" in readout()
    assert name == "RoPE"
    for question in QUESTIONS[:-1]:
        figure.get_by_role("checkbox", name=question).uncheck()
    assert "over “first token” alone" in readout()
    figure.get_by_role("checkbox", name="first token").uncheck()
    assert readout().startswith("No task is chosen")


WAYS = "true positions", "positions in the cache", "keys counted"


def looks(data, question, length, capacity, sinks):
    """Return how much of its weight the layer gives to the token asked for, by the kind of positions."""
    arguments = {"products": data["products"][question], "theta": data["theta"], "t": length - 1, "capacity": capacity}
    target = length - 5 if question == 0 else 0
    tokens = CACHE("cachedTokens(t, capacity, sinks)", sinks=sinks, **arguments)
    heads = "products.map((head) => head.map((pairs) => curve(pairs, theta, t)))"
    shares = {}
    for way in WAYS:
        weights = CACHE(
            f"attentionWeights({heads}, tokens, cachedPositions(tokens, capacity, way))",
            tokens=tokens,
            way=way,
            **arguments,
        )
        shares[way] = dict(zip(tokens, weights, strict=True)).get(target, 0)
    return shares


def look_line(shares):
    line = " ".join(f"{100 * share:.0f}% with {name}" for name, share in shares.items())
    return line.replace("% with true", "% of its weight with true")


def test_cache_clock(open_figure):
    figure, data, readout = open_figure(f"{PART}kv-cache/", "cache-clock")
    length = data["seen"]
    assert readout().startswith("28 tokens seen none is evicted yet.")
    slide(figure, tokens_seen=length)
    usual = looks(data, 0, length, 28, 4)
    assert readout() == (
        f"{length} tokens seen {length - 28} are evicted. "
        f"With true positions the first token is at offset {length - 1}; training had at most 31. "
        f"Asked for the letter at offset 4 the layer gives the right token {look_line(usual)}."
    )
    slide(figure, tokens_seen=20)
    assert readout().endswith(
        f"yet. Asked for the letter at offset 4 the layer gives the right token {look_line(looks(data, 0, 20, 28, 4))}."
    )
    slide(figure, tokens_seen=370, cache_size=12, sinks_that_stay=1)
    assert look_line(looks(data, 0, 370, 12, 1)) in readout()
    pick(figure, "the first letter")
    assert (
        f"Asked for the first letter the layer gives the right token {look_line(looks(data, 1, 370, 12, 1))}."
        in readout()
    )
    slide(figure, sinks_that_stay=0)
    assert readout().endswith("0% with keys counted. It is no longer in the cache: no position can help.")
    reply = predict(figure, "to the first tokens")
    assert reply.startswith("Yes: the first 4 get ")
    assert f"the token at offset 4 {100 * usual['true positions']:.0f}%." in reply
    assert look_line(usual) in readout()


class Rounded(RoPE):
    """RoPE with positions, frequencies and angles in half precision."""

    def table(self, positions, dtype=torch.float32):
        theta = torch.tensor(self.theta, dtype=torch.float16)
        angle = (positions.half()[:, None] * theta).double()
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([cos, cos], dim=-1).to(dtype), torch.cat([-sin, sin], dim=-1).to(dtype)


def test_rounding_ruler(open_figure):
    # the address opens the section
    figure, data, readout = open_figure(f"{PART}precision/#the-same-layer-in-bfloat16", "rounding-ruler")
    pick(figure, "float16")
    figure.locator("canvas").first.press("ArrowRight")
    start = 4096 + (600 - 512) + 1  # 600 in boxes of four, one step on
    length, back = data["length"], data["back"]
    positions = torch.arange(start, start + length)
    count = len(positions.half().unique())
    assert readout().startswith(f"From {start} on float16 has {count} numbers for {length} positions. ")
    texts = torch.tensor(data["texts"])
    q, k = (torch.tensor(data[name])[texts][:, None] for name in ("query", "key"))  # (b, 1, t, d)
    options = {"positions": positions, "key_positions": positions, "causal": True}
    weights = [attention_weights(q, k, encoding, **options) for encoding in (Rounded(16), RoPE(16))]
    on_target = [table.diagonal(-back, dim1=2, dim2=3).mean().item() for table in weights]
    stored = positions.half().tolist()
    right = ROUNDING("rightShare(places, back, tokens)", places=stored, back=back, tokens=data["tokens"])
    shares = re.search(r"Predicted: (\S+) of .* gives (\S+) of .* exact angles it is (\S+)\.$", readout())
    assert numbers(" ".join(shares.groups())) == pytest.approx([right, *on_target], abs=0.006)


def logit_errors(data, kind, place, back, base):
    """Return what each number does to a logit near a place when it is rounded, in the figure's words."""
    column = int(60 * np.log(place) / np.log(data["last"]))
    arguments = {"column": column, "last": data["last"], "back": back, "kind": data["kinds"][kind]}
    arguments["theta"] = rope_frequencies(128, base)[0].tolist()
    misses = "theta.map((t) => miss(m, back === null ? 0 : m - back, t, site, kind))"
    phrases = []
    for site in ("position", "frequency", "angle", "cosine"):
        off = SITES(f"rootMean(placesIn(column, 60, last, 3).flatMap((m) => {misses}))", site=site, **arguments)
        small = "nothing" if off < 1e-9 else "under 0.001" if off < 1e-3 else f"{off:#.2g}"
        phrases.append(f"{site} {'no number' if np.isnan(off) else small}")
    return phrases


def test_rounding_sites(open_figure):
    figure, data, readout = open_figure(f"{PART}precision/", "rounding-sites")
    last = data["last"]
    assert "Near position 10001 with a key at position 0" in readout()
    assert " ".join(logit_errors(data, "bfloat16", 10_001, None, 1e4)) in readout()
    reply = predict(figure, "frequency")
    near = logit_errors(data, "bfloat16", 10_001, 5, 1e4)
    assert " ".join(near) in readout()
    assert reply.startswith("Yes")
    assert near[0].replace("position", "position by") in reply
    assert predict(figure, "angle").startswith("No")
    slide(figure, base=300, position=325)  # steps of 400, on logarithms
    pick(figure, "float32")
    pick(figure, "offset 5,555")
    place = last ** (325 / 400)
    assert f"Near position {place:.0f} with a key at offset 5555" in readout()
    assert " ".join(logit_errors(data, "float32", place, 5555, 1e5)) in readout()
    pick(figure, "float16")
    slide(figure, position=380)
    assert " ".join(logit_errors(data, "float16", last ** (380 / 400), 5555, 1e5)) in readout()
    assert "position no number" in readout()
    slide(figure, position=200)
    assert readout() == "Near position 1024 no key has offset 5555."


def leaks(weights, owner, real):
    """Say how many pairs of texts that should not meet do so, and how much weight that takes."""
    strangers = (owner[:, None] != owner)[real] & (weights[real] > 0)
    ahead = (strangers & torch.ones_like(weights, dtype=torch.bool).triu(1)[real]).sum()
    share = (weights[real] * strangers).sum() / real.sum()
    return f"{strangers.sum()} pairs leak {ahead} of them ahead in the row: {100 * share:.0f}% of all weight"


@pytest.fixture
def packed_row(open_figure):
    """Return the figure, the boundaries of its texts, what reads it, and its weights for some positions."""
    figure, data, readout = open_figure(f"{PART}padding-and-packing/", "packed-row")
    q, k = (torch.tensor(data[name]).double()[None, None] for name in "qk")

    def weights(positions, **mask):
        options = {"positions": positions, "key_positions": positions, "causal": True}
        return attention_weights(q, k, RoPE(16), **options, **mask)[0, 0]

    return figure, [0, *data["cuts"], len(data["letters"])], readout, weights


ALONE = "No pair leaks. Every token attends exactly as it does alone."


def test_packed_row_of_documents(packed_row):
    figure, bounds, readout, weights = packed_row
    bounds = torch.tensor(bounds)
    every = torch.ones(bounds[-1], dtype=torch.bool)
    assert leaks(weights(torch.arange(bounds[-1])), packed_documents(bounds), every) in readout()
    reply = predict(figure, "itself alone")
    restarted = weights(packed_positions(bounds))
    assert leaks(restarted, packed_documents(bounds), every) in readout()
    assert f"It gives {100 * restarted[0, 1:].sum():.0f}% of its weight to letters ahead" in reply
    slide(figure, first_boundary=4)
    slide(figure, second_boundary=9)
    bounds = torch.tensor([0, 4, 9, len(every)])
    assert leaks(weights(packed_positions(bounds)), packed_documents(bounds), every) in readout()
    figure.get_by_role("checkbox", name="mask the others").check()
    assert readout() == ALONE


def test_packed_row_with_pads(packed_row):
    figure, (*_, length), readout, weights = packed_row
    slide(figure, first_boundary=4)
    slide(figure, second_boundary=9)
    pick(figure, "counted in each text")
    figure.get_by_role("checkbox", name="mask the others").check()
    pick(figure, "a text with pads inside")
    assert readout() == ALONE
    pick(figure, "along the row")
    real = packed_documents(torch.tensor([0, 4, 9, length])) != 1
    far, near = (weights(p, mask=real)[real] for p in (torch.arange(length), padded_positions(real)))
    moved = (far - near).abs().sum() / 2 / real.sum()
    assert f"No pair leaks. Against the text alone {100 * moved:.0f}% of the weight has moved." in readout()
    pick(figure, "pads, then a text")
    assert readout() == ALONE
    pick(figure, "sinusoid")
    assert "No pair leaks. Against the text alone" in readout()


def ring_pairs(order, ranks, window):
    """Return how many pairs each rank computes in each step, (rank, step)."""
    arguments = {"order": order.replace("-", ""), "ranks": ranks, "window": window}
    return np.reshape(RING("pairs(owners(order, 64, ranks), ranks, window)", **arguments), (ranks, ranks))


@pytest.mark.parametrize(("order", "ranks"), [("contiguous", 4), ("zig-zag", 8), ("striped", 2)])
def test_ring_clock(open_figure, order, ranks):
    figure, data, readout = open_figure(f"{PART}scale-out/", "ring-clock")
    assert data["tokens"] == 64
    pick(figure, order)
    pick(figure, str(ranks))
    for window in (64, 11):
        slide(figure, sliding_window=window, step=ranks)
        pairs = ring_pairs(order, ranks, window)
        totals, done = pairs.sum(axis=1), pairs.max(axis=0).sum()
        equal = totals.min() == totals.max()
        load = f"each rank has {totals[0]}" if equal else f"a rank has {totals.min()} to {totals.max()}"
        assert f"Split {order} on {ranks} ranks {load} pairs. All are done after {done} and" in readout()
        waits = 1 - totals.sum() / (ranks * done)
        idle = "nobody waits" if waits < 0.005 else f"{100 * waits:.0f}% of the ranks' time is waiting"
        assert idle in readout()
        slide(figure, step=1)
        assert f"the slowest has {pairs[:, 1].max()} pairs" in readout()


def test_ring_clock_is_predicted(open_figure):
    figure, data, readout = open_figure(f"{PART}scale-out/", "ring-clock")
    reply = predict(figure, "both at once")
    contiguous, zigzag = (ring_pairs(order, 4, data["window"]).max(axis=0).sum() for order in ("contiguous", "zigzag"))
    assert f"No contiguous: after {contiguous} pairs in place of {zigzag}." in reply
    assert f"All are done after {zigzag} and" in readout()


SIZES = {  # of a bug that has one: its slider, and a value far from the truth
    "bits": ("significant bits", 10),
    "rows": ("rows", 150),
    "chunks": ("tokens of a chunk", 150),
    "writing": ("decodes from", 150),
    "pads": ("one text in", 8),
}


def gap_line(case, size, data):
    """Say how far what a bug of some size gives lies from the curve of a case."""
    options = {name: data[name] for name in ("length", "back", "window", "letters", "width")}
    curve = "means(expected(places(bug, size, length), back, window, letters), width)"
    computed = PATIENTS(curve, bug=case["bug"], size=size, **options)
    return f"the dashed line lies {abs(np.array(case['curve']) / 100 - computed).mean():.2f} away"


def test_ward_round(open_figure):
    figure, data, readout = open_figure(f"{PART}debugging/", "ward-round")
    done = figure.get_by_role("button", name="That is it")
    suspect = figure.get_by_role("combobox")
    for number, case in enumerate(data["cases"], 1):
        pick(figure, str(number))
        suspect.select_option("bits" if case["bug"] == "chunks" else "chunks")
        done.click()
        assert readout().startswith("No")
        suspect.select_option(case["bug"])
        assert readout().startswith(f"Case {number} decoding: {np.mean(case['curve']) / 100:.2f} right on average")
        if case["bug"] in SIZES:
            slider, wrong = SIZES[case["bug"]]
            slide(figure, **{slider: wrong})
            assert gap_line(case, wrong, data) in readout()
            done.click()
            assert readout().startswith("The right kind.")
            slide(figure, **{slider: case["size"]})
        assert gap_line(case, case["size"], data) in readout()
        done.click()
        assert readout().startswith("Yes: ")
        assert readout().endswith(f"{number} of 7 solved.")


@pytest.mark.parametrize(("bug", "other"), [("rows", "writing"), ("writing", "rows")])
def test_ward_round_tells_two_cliffs_apart_by_reading(open_figure, bug, other):
    figure, data, readout = open_figure(f"{PART}debugging/", "ward-round")
    number = [case["bug"] for case in data["cases"]].index(bug)
    pick(figure, str(number + 1))
    figure.get_by_role("combobox").select_option(other)
    figure.get_by_role("button", name="That is it").click()
    assert readout().startswith("No. Both have a cliff.")
    written = np.mean(data["cases"][number]["curve"]) / 100
    assert f"decoding: {written:.2f} right on average" in readout()
    pick(figure, "prefill")
    assert f"prefill: {written if bug == 'rows' else 1:.2f} right on average" in readout()


def unturned(theta, length):
    """Say how many pairs complete no rotation on a length."""
    late = (theta * length < 2 * np.pi).sum()
    return f"Here {late} of {len(theta)} pairs never complete a rotation {100 * late / len(theta):.0f}%."


CONFIGURED = {
    "GPT-NeoX-20B",
    "Gemma 3 4B, local",
    "DeepSeek-V3",
    "SmolLM3 3B",
    "Kimi K2.5",
    "Ministral 3 8B",
    "Muse Spark",
}


def assert_models(figure, readout):
    models = [model for model in MODELS if model["name"] in CONFIGURED]
    assert len(models) == len(CONFIGURED)
    for model in models:
        select(figure, model["name"])
        config = {key: value for key, value in model["config"].items() if key != "rope_scaling"}
        theta = from_config(config, config.get("qk_rope_head_dim", model["head"]))[0]
        assert unturned(theta, min(model.get("trained", np.inf), model.get("window", np.inf))) in readout()
        assert f"The longest wavelength is {2 * np.pi / theta[-1]:.0f} tokens." in readout()


def assert_own_model(figure, readout):
    theta = rope_frequencies(256, 500_000.0)[0]
    assert f"No it stays: {(theta * 8192 < 2 * np.pi).sum()} of 128 " in predict(figure, "it halves")
    slide(figure, rotated_channels=64)
    assert unturned(rope_frequencies(64, 500_000.0)[0], 8192) in readout()
    figure.get_by_role("checkbox").check()
    slowest = proportional(256, 0.25, base=500_000.0)[0][31]
    assert "the slow pairs have frequency 0" in readout()
    assert f"The longest wavelength is {2 * np.pi / slowest:.0f} tokens" in readout()


def assert_raised_base(figure, readout):
    select(figure, "LLaMA 7B")
    press(figure, "longest distance", "End")
    part = np.log(2048 / (2 * np.pi)) / np.log(10_000)  # of the pairs complete a turn on 2048 tokens
    base = (2**17 / (2 * np.pi)) ** (1 / part)
    for button, theta, length in (
        ("base by the NTK rule", ntk(128, 64, 10_000.0)[0], 2**17),
        ("base that keeps the share", rope_frequencies(128, base)[0], 2**17),
        ("as published", rope_frequencies(128, 10_000.0)[0], 2048),
    ):
        figure.get_by_role("button", name=button).click()
        assert unturned(theta, length) in readout()


def test_zoo_strip(open_figure):
    figure, _, readout = open_figure(f"{PART}model-zoo/", "zoo-strip")
    assert_own_model(figure, readout)
    assert_models(figure, readout)
    assert_raised_base(figure, readout)


def share(lead, tokens):
    return 1 / (1 + (tokens - 1) * np.exp(-lead))


def test_query_scale(open_figure):
    figure, data, readout = open_figure(f"{PART}query-scale/", "query-scale")
    tokens = data["asked"]
    plain = share(data["lead"], tokens)
    before = f"Among {tokens} tokens the key has a weight of {plain:.2f}"
    for kind in data["kinds"]:
        select(figure, kind)
        c = position_scale(tokens - 1, kind, data["trained"], data["strength"])
        scaled = f"{share(c * data['lead'], tokens):.2f} with {kind} which multiplies the query by {c:.2f}."
        assert f"{before} with the query unscaled and {scaled}" in readout()
    select(figure, "inkling")
    slide(figure, lead_in_logits=4.5, strength=0.22)
    c = position_scale(tokens - 1, "inkling", data["trained"], 0.22)
    assert f"and {share(4.5 * c, tokens):.2f} with inkling which multiplies the query by {c:.2f}." in readout()
    select(figure, "logn")
    figure.get_by_role("slider", name="strength").wait_for(state="hidden")  # at the next frame
    predict(figure, f"{plain:.2f}")
    assert readout() == f"{before}."
