"""Scripts that repeat a function of the package: a table of what both compute, at arguments drawn at random."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from posenc.add.sinusoidal import kernel, sinusoidal, wavelengths
from posenc.attention import attention
from posenc.bias.alibi import alibi, alibi_slopes
from posenc.bias.fire import fire
from posenc.bias.kerple import kerple
from posenc.bias.sandwich import sandwich
from posenc.bias.t5 import t5, t5_bucket
from posenc.rotate import frequencies
from posenc.rotate.pope import pope
from posenc.rotate.query_scale import KINDS, position_scale
from posenc.rotate.rope import rope
from posenc.score.profiles import profiles
from tests.scripts.javascript import Script, assert_close

SEEDS = range(24)  # a multiple of the number of each option: all are drawn equally often
ORDERS, LAYOUTS, FORMS = ("interleaved", "split", "tensor2tensor"), ("half", "interleaved"), ("log", "power")
SCALES = [kind for kind in KINDS if kind != "head"]  # whose numbers are learned
ALL_TOKENS = np.array([1, 2, 63, 64, 65, 127, 128, 513, 65_536])


def arguments(seed: int) -> SimpleNamespace:
    """Return what the functions are called with, under the names that both languages use in the table."""
    draw = np.random.default_rng(seed)
    a = SimpleNamespace(order=ORDERS[seed % 3], layout=LAYOUTS[seed % 2], form=FORMS[seed % 2])
    a.both, a.causal, a.kind = seed % 2 == 0, seed % 2 == 0, SCALES[seed % len(SCALES)]
    a.dim, a.base = int(draw.integers(2, 129)) * 2, float(np.exp(draw.uniform(np.log(2), np.log(1e6))))
    a.m, a.n = draw.integers(0, 600, 2).tolist()
    a.q, a.k = draw.normal(size=(2, a.dim)) * 3
    a.start, a.distances = int(draw.integers(0, 1000)), draw.uniform(-600, 600, 5)
    a.theta, a.attention = frequencies.rope_frequencies(a.dim, a.base)[0], float(draw.uniform(0.5, 1.5))
    a.phase = draw.uniform(-2 * np.pi, 0, a.dim)
    # recipes for longer texts: some divide by the pairs beyond the first, or by the logarithm of the base
    a.wide, a.large, a.stretch = a.dim + 2, max(a.base, 50.0), float(draw.uniform(1, 40))
    a.original, a.length = int(draw.integers(64, 200_000)), int(draw.integers(64, 900_000))
    a.slow, a.fast = sorted(draw.uniform(0.5, 40, 2).tolist())
    a.divisors, a.part, a.truncate = draw.uniform(1, 60, a.wide // 2), float(draw.uniform(0.1, 1)), seed % 3 > 0
    # biases
    a.heads, a.offsets = int(draw.integers(1, 21)), draw.integers(-1500, 1500, 60)
    a.buckets = int(draw.integers(2, 40)) * 2
    a.most, a.weight = int(draw.integers(a.buckets, 1200)), draw.normal(size=(a.buckets, 1))
    a.r1, a.r2 = draw.uniform(0.01, 2, 2).tolist()
    a.c, a.multiplier, a.threshold = draw.uniform(-1, 1), draw.uniform(-2, 2), draw.uniform(1, 300)
    a.hidden, a.bias, a.out = draw.normal(size=(3, 16))
    a.scores, a.tokens = draw.normal(size=(7, 7)) * 4, ALL_TOKENS
    a.states, a.bank = draw.normal(size=3), draw.normal(size=(3, 7))
    return a


def turned(a: SimpleNamespace, x: np.ndarray, position: int) -> np.ndarray:
    return rope(x[None], [position], base=a.base, layout=a.layout, attention_factor=a.attention)[0]


def attended(a: SimpleNamespace) -> torch.Tensor:
    """Return the weights of attention, which are its outputs if the values are the rows of an identity."""
    eye = torch.eye(7, dtype=torch.float64)[None, None]
    return attention(torch.from_numpy(a.scores * 7**0.5)[None, None], eye, eye, causal=a.causal)[0, 0]


def fire_of(a: SimpleNamespace) -> np.ndarray:
    network = {"hidden_weight": a.hidden[:, None], "hidden_bias": a.bias, "out_weight": a.out[None]}
    sizes = {"c": a.c, "multiplier": a.multiplier, "threshold": a.threshold}
    return fire([a.m], [a.n], **network, **sizes, out_bias=np.array([0.3]))


def mixed(a: SimpleNamespace) -> np.ndarray:
    keys = np.arange(7)[::-1]
    return profiles(np.zeros((1, 1, 1)), np.zeros((1, 7, 1)), [6], keys, bank=a.bank, states=[[a.states]])


def recipe(formula: Callable, *names: str, **options: str) -> Callable[[SimpleNamespace], np.ndarray]:
    """Return what gives theta and, behind it, the attention factor; names are those of arguments."""

    def stretched(a: SimpleNamespace) -> np.ndarray:
        keywords = {option: getattr(a, name) for option, name in options.items()}
        return np.append(*formula(a.wide, *(getattr(a, name) for name in names), base=a.large, **keywords))

    return stretched


FREQUENCIES = "frequencies(dim, base, order)"
BUCKET = "t5Bucket(o, t5Starts(buckets, most, both), both)"
HEAD = "{ c, multiplier, threshold, eps: 1e-6, hidden, hiddenBias: bias, out, outBias: 0.3 }"
RAMP = {"beta_fast": "fast", "beta_slow": "slow", "truncate": "truncate"}
LONGROPE = {"short_factor": "divisors", "long_factor": "divisors", "length": "m", "original_length": "original"}
RECIPES = {
    "linear(wide, stretch, large)": recipe(frequencies.linear, "stretch"),
    "ntk(wide, stretch, large)": recipe(frequencies.ntk, "stretch"),
    "dynamicNtk(wide, stretch, length, original, large)": recipe(
        frequencies.dynamic_ntk, "stretch", "length", "original"
    ),
    "yarn(wide, stretch, original, large, { fast, slow, truncate })": recipe(
        frequencies.yarn, "stretch", "original", **RAMP
    ),
    "byParts(wide, stretch, original, large, { fast, slow, truncate })": recipe(
        frequencies.by_parts, "stretch", "original", **RAMP
    ),
    "llama3(wide, stretch, original, large, { low: slow, high: fast })": recipe(
        frequencies.llama3, "stretch", "slow", "fast", "original"
    ),
    "longrope(wide, divisors, stretch, original, large)": recipe(frequencies.longrope, factor="stretch", **LONGROPE),
    "proportional(wide, part, large)": recipe(frequencies.proportional, "part"),
}
# of each script expressions with what it exports, and what they repeat
TWINS: dict[str, dict[str, Callable[[SimpleNamespace], object]]] = {
    "waves": {
        FREQUENCIES: lambda a: 2 * np.pi / wavelengths(a.dim, a.base, a.order),
        f"sinusoidal(9, dim, {FREQUENCIES}, order, start)": lambda a: sinusoidal(
            a.start + np.arange(9), a.dim, a.base, a.order
        ),
        f"distances.map((x) => kernel(x, {FREQUENCIES}))": lambda a: kernel(a.distances, a.dim, a.base, a.order),
    },
    "rope": {
        "rope(q, m, theta, layout, attention)": lambda a: turned(a, a.q, a.m),
        "scorer(q, k, theta, layout, attention)(m - n)": lambda a: turned(a, a.q, a.m) @ turned(a, a.k, a.n),
    },
    "pope": {
        "scorer(q, k, frequencies(dim, base), phase)(m - n)": lambda a: pope(
            a.q[None, None], a.k[None, None], [a.m], [a.n], base=a.base, phase=a.phase[None]
        ),
        "[-800, 0, 800].map((x) => softplus(x))": lambda _: [0, np.log(2), 800],
    },
    "scaling": {f"(({{ theta, attention }}) => [...theta, attention])({ours})": RECIPES[ours] for ours in RECIPES},
    "biases": {
        "alibiSlopes(heads)": lambda a: alibi_slopes(a.heads),
        "offsets.map((o) => alibi(o, alibiSlopes(heads).at(-1)))": lambda a: alibi([0], a.offsets, a.heads)[-1],
        f"offsets.map((o) => {BUCKET})": lambda a: t5_bucket(a.offsets, a.buckets, a.most, a.both),
        f"offsets.map((o) => weight[{BUCKET}])": lambda a: t5([0], a.offsets, a.weight, a.most, a.both),
        "kerple(n - m, r1, r2, form)": lambda a: kerple([a.m], [a.n], [a.r1], [a.r2], a.form),
        f"fire(m, n, {HEAD})": fire_of,
        f"fireCurve(fireShare(m, n, {HEAD}), {HEAD})": fire_of,
        "sandwich(m - n, dim, base) / 8": lambda a: sandwich([a.m], [a.n], 1, dim=a.dim, base=a.base),
    },
    "share": {
        "tokens.map((t) => factor(kind, t, 64, 0.3))": lambda a: position_scale(a.tokens - 1, a.kind, 64, 0.3),
    },
    "attention": {"attend(scores.flat(), 7, causal)": attended},
    "profiles": {"mix(states, bank)": mixed},
}


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_script_computes_what_the_package_does(name, seed):
    script, values = Script(f"math/{name}.js"), arguments(seed)
    for expression, twin in TWINS[name].items():
        assert_close(script(expression, **vars(values)), twin(values), err_msg=expression)
