"""The mathematics of the live figures, function by function, against the package at random parameters."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc.add.sinusoidal import kernel, sinusoidal, wavelengths
from posenc.attention import attention
from posenc.bias.alibi import alibi, alibi_slopes
from posenc.bias.fire import fire
from posenc.bias.kerple import kerple
from posenc.bias.t5 import t5, t5_bucket
from posenc.rotate import frequencies
from posenc.rotate.pope import pope
from posenc.rotate.rope import rope
from tests.scripts.javascript import SCRIPTS, Script, exports

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
DRAWS = range(8)
WAVES, ROPE, SCALING = (Script(f"math/{name}.js") for name in ("waves", "rope", "scaling"))
POPE, BIASES, ATTENTION, RANDOM = (Script(f"math/{name}.js") for name in ("pope", "biases", "attention", "random"))
CLOCKS = Script("math/clocks.js")


def settings(seed):
    """A width and a base, drawn as a reader's hand may set them."""
    draw = np.random.default_rng(seed)
    return draw, int(draw.integers(2, 129)) * 2, float(np.exp(draw.uniform(np.log(2), np.log(1e6))))


@pytest.mark.parametrize("order", ["interleaved", "split", "tensor2tensor"])
@pytest.mark.parametrize("seed", DRAWS)
def test_sinusoids(seed, order):
    draw, dim, base = settings(seed)
    given = {"dim": dim, "base": base, "order": order, "start": int(draw.integers(0, 1000))}
    theta = np.array(WAVES("frequencies(dim, base, order)", **given))
    np.testing.assert_allclose(2 * np.pi / theta, wavelengths(dim, base, order), **CLOSE)
    table = WAVES("sinusoidal(9, dim, frequencies(dim, base, order), order, start)", **given)
    expected = sinusoidal(given["start"] + np.arange(9), dim, base, order)
    np.testing.assert_allclose(np.reshape(table, (9, dim)), expected, **CLOSE)
    distances = draw.uniform(-600, 600, 5).tolist()
    ours = WAVES("d.map((x) => kernel(x, frequencies(dim, base, order)))", d=distances, **given)
    np.testing.assert_allclose(ours, kernel(distances, dim, base, order), **CLOSE)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("seed", DRAWS)
def test_rope_turns_and_scores(seed, layout):
    draw, dim, base = settings(seed)
    q, k = draw.normal(size=(2, 1, dim))
    m, n = draw.integers(0, 600, 2).tolist()
    attention_factor = float(draw.uniform(0.5, 1.5))
    theta = frequencies.rope_frequencies(dim, base)[0]
    given = {"q": q[0].tolist(), "k": k[0].tolist(), "theta": theta.tolist(), "layout": layout, "a": attention_factor}
    turned = ROPE("rope(q, m, theta, layout, a)", m=m, **given)
    options = {"base": base, "layout": layout, "attention_factor": attention_factor}
    q_turned, k_turned = rope(q, np.array([m]), **options), rope(k, np.array([n]), **options)
    np.testing.assert_allclose(turned, q_turned[0], **CLOSE)
    score = ROPE("scorer(q, k, theta, layout, a)(offset)", offset=m - n, **given)
    np.testing.assert_allclose(score, (q_turned @ k_turned.T)[0, 0], **CLOSE)


@pytest.mark.parametrize("seed", DRAWS)
def test_every_scaling(seed):
    draw, dim, base = settings(seed)
    dim, base = dim + 2, max(base, 50.0)
    factor, original = float(draw.uniform(1, 40)), int(draw.integers(64, 200_000))
    given = {"dim": dim, "base": base, "s": factor, "L": original, "length": int(draw.integers(64, 900_000))}
    slow, fast = sorted(draw.uniform(0.5, 40, 2).tolist())
    divisors = draw.uniform(1, 60, dim // 2).tolist()
    truncate = bool(draw.integers(2))
    both = {"slow": slow, "fast": fast, "low": slow, "high": fast, "truncate": truncate}
    given |= {"both": both, "divisors": divisors, "share": float(draw.uniform(0.1, 1))}
    betas = {"beta_fast": fast, "beta_slow": slow, "truncate": truncate}
    longrope = {"short_factor": divisors, "long_factor": divisors, "length": 1, "original_length": original}
    stretched = {
        "linear(dim, s, base)": frequencies.linear(dim, factor, base),
        "ntk(dim, s, base)": frequencies.ntk(dim, factor, base),
        "dynamicNtk(dim, s, length, L, base)": frequencies.dynamic_ntk(dim, factor, given["length"], original, base),
        "yarn(dim, s, L, base, both)": frequencies.yarn(dim, factor, original, base, **betas),
        "byParts(dim, s, L, base, both)": frequencies.by_parts(dim, factor, original, base, **betas),
        "llama3(dim, s, L, base, both)": frequencies.llama3(dim, factor, slow, fast, original, base),
        "longrope(dim, divisors, s, L, base)": frequencies.longrope(dim, factor=factor, base=base, **longrope),
        "proportional(dim, share, base)": frequencies.proportional(dim, given["share"], base=base),
    }
    for ours, theirs in stretched.items():
        got = SCALING(ours, **given)
        np.testing.assert_allclose(got["theta"], theirs[0], err_msg=ours, rtol=1e-9)
        np.testing.assert_allclose(got["attention"], theirs[1], err_msg=ours, rtol=1e-9)


@pytest.mark.parametrize("seed", DRAWS)
def test_pope_scores(seed):
    draw, dim, base = settings(seed)
    q, k = draw.normal(size=(2, 1, 1, dim)) * 3
    phase = draw.uniform(-2 * np.pi, 0, (1, dim))
    m, n = draw.integers(0, 600, 2).tolist()
    given = {"q": q.ravel().tolist(), "k": k.ravel().tolist(), "phase": phase[0].tolist(), "dim": dim, "base": base}
    ours = POPE("scorer(q, k, frequencies(dim, base), phase)(offset)", offset=m - n, **given)
    theirs = pope(q, k, np.array([m]), np.array([n]), base=base, phase=phase)
    np.testing.assert_allclose(ours, theirs.item(), **CLOSE)
    np.testing.assert_allclose(POPE("[-800, 0, 800].map((x) => softplus(x))"), [0, np.log(2), 800], **CLOSE)


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12, 16, 20])
def test_alibi(heads):
    np.testing.assert_allclose(BIASES("alibiSlopes(h)", h=heads), alibi_slopes(heads), **CLOSE)
    offsets = np.arange(-30, 31)
    ours = BIASES("offsets.map((o) => alibi(o, alibiSlopes(h).at(-1)))", offsets=offsets.tolist(), h=heads)
    np.testing.assert_allclose(ours, alibi(np.array([30]), offsets + 30, heads)[-1, 0], **CLOSE)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("seed", DRAWS)
def test_t5_buckets(seed, bidirectional):
    draw = np.random.default_rng(seed)
    buckets, offsets = int(draw.integers(2, 40)) * 2, draw.integers(-1500, 1500, 60)
    most = int(draw.integers(buckets, 1200))
    code = "offsets.map((o) => t5Bucket(o, t5Starts(buckets, most, both), both))"
    ours = BIASES(code, offsets=offsets.tolist(), buckets=buckets, most=most, both=bidirectional)
    assert ours == t5_bucket(offsets, buckets, most, bidirectional).tolist()
    weight = draw.normal(size=(buckets, 1))
    assert weight[ours, 0].tolist() == t5(np.array([0]), offsets, weight, most, bidirectional)[0, 0].tolist()


@pytest.mark.parametrize("form", ["log", "power"])
@pytest.mark.parametrize("seed", DRAWS)
def test_kerple(seed, form):
    draw = np.random.default_rng(seed)
    r1, r2 = draw.uniform(0.01, 2, 2).tolist()
    offset = int(draw.integers(-900, 900))
    ours = BIASES("kerple(offset, r1, r2, form)", offset=offset, r1=r1, r2=r2, form=form)
    theirs = kerple(np.array([0]), np.array([offset]), np.array([r1]), np.array([r2]), form)
    np.testing.assert_allclose(ours, theirs.item(), **CLOSE)


@pytest.mark.parametrize("seed", DRAWS)
def test_fire(seed):
    draw = np.random.default_rng(seed)
    c, multiplier, threshold = draw.uniform(-1, 1), draw.uniform(-2, 2), draw.uniform(1, 300)
    hidden, hidden_bias, out = draw.normal(size=(3, 16))
    m, n = draw.integers(0, 600, 2).tolist()
    network = {"hidden": hidden.tolist(), "hiddenBias": hidden_bias.tolist(), "out": out.tolist(), "outBias": 0.3}
    head = {"c": c, "multiplier": multiplier, "threshold": threshold, "eps": 1e-6} | network
    theirs = fire(
        np.array([m]), np.array([n]), c, multiplier, hidden[:, None], hidden_bias, out[None], np.array([0.3]), threshold
    )
    for ours in ("fire(m, n, head)", "fireCurve(fireShare(m, n, head), head)"):
        np.testing.assert_allclose(BIASES(ours, m=m, n=n, head=head), theirs.item(), **CLOSE)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("seed", DRAWS)
def test_weights_of_attention(seed, causal):
    scores = np.random.default_rng(seed).normal(size=(7, 7)) * 4
    eye = torch.eye(7, dtype=torch.float64)[None, None]
    q = torch.from_numpy(scores * 7**0.5)[None, None]
    ours = ATTENTION("attend(scores, 7, causal)", scores=scores.ravel().tolist(), causal=causal)
    np.testing.assert_allclose(np.reshape(ours, (7, 7)), attention(q, eye, eye, causal=causal)[0, 0], **CLOSE)


@pytest.mark.parametrize("seed", [0, 1, 17, 4_294_967_295])
def test_random_numbers_are_those_of_numpy(seed):
    for kind, name in (("uniform", "random_sample"), ("normal", "standard_normal")):
        ours = RANDOM("Array.from({ length: 700 }, randomState(seed)[kind])", seed=seed, kind=kind)
        np.testing.assert_allclose(ours, getattr(np.random.RandomState(seed), name)(700), rtol=1e-12)


def test_softmax_leaves_nothing_to_what_is_hidden():
    ours = ATTENTION("softmax([1, 2, -Infinity, 800])")
    np.testing.assert_allclose(ours, torch.tensor([1.0, 2.0, -np.inf, 800.0]).double().softmax(0), **CLOSE)


@pytest.mark.parametrize("seed", DRAWS)
def test_bits_and_hands(seed):
    p, q = np.random.default_rng(seed).integers(0, 1024, 2).tolist()
    assert CLOCKS("Array.from({ length: 10 }, (_, i) => bit(p, 9 - i)).join('')", p=p) == f"{p:010b}"
    assert CLOCKS("flips(p, q)", p=p, q=q) == (p ^ q).bit_count()
    bits = np.array([p, q])[:, None] >> np.arange(10) & 1
    np.testing.assert_allclose(CLOCKS("leap(p, q)", p=p, q=q), np.linalg.norm(bits[1] - bits[0]), **CLOSE)
    theta = 2 * np.pi / wavelengths(16)
    here, there = sinusoidal([p, p + 1], 16)
    np.testing.assert_allclose(CLOCKS("stride(theta)", theta=theta.tolist()), np.linalg.norm(there - here), **CLOSE)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_channels_of_a_pair(layout):
    turned = rope(np.eye(8), np.ones(8), layout=layout)  # row c: where channel c goes
    for i in range(4):
        first, second = ROPE("channels(i, 8, layout)", i=i, layout=layout)
        assert set(np.flatnonzero(turned[first])) == set(np.flatnonzero(turned[second])) == {first, second}


def test_every_function_is_compared():
    """An exported name that no test calls, or reads, has no judge."""
    judged = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    exported = {(path.name, name) for path in (SCRIPTS / "math").glob("*.js") for name in exports(path)}
    assert exported
    assert {(file, name) for file, name in exported if not re.search(rf'\b{name}\(|"{name}"', judged)} == set()
