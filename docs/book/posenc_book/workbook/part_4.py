"""Exercises of Part 4: biases of the distance, and the kernels that carry them."""

import math

import numpy as np

from posenc.bias.alibi import alibi, alibi_slopes
from posenc.bias.fire import fire
from posenc.bias.kerple import kerple
from posenc_book.workbook.functions import Function
from posenc_book.workbook.kinds import Array, Exercise, Number

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]

FALCON = float(alibi_slopes(32)[0]) / 64**0.5
MILLION = np.cumsum(np.exp(kerple(np.arange(1), np.arange(1_000_000), np.ones(1), np.ones(1))[0, 0]))
HALF = int(np.searchsorted(MILLION, MILLION[-1] / 2)) + 1
LINE = alibi(np.arange(101), np.arange(101), 1, slopes=0.5)[0]
SLOPES = (np.arange(200_000) + 0.5) / 10_000


def _own(own: float, other: float, others: int = 15) -> float:
    """Return the weight of a token's own place among others with equal logits."""
    return math.exp(own) / (math.exp(own) + others * math.exp(other))


def _last(t: int, s: int, slopes: np.ndarray) -> np.ndarray:
    """Return ALiBi for the last t of s positions, with 0 where a key lies ahead."""
    places = np.arange(s)
    bias = alibi(places[s - t :], places, len(slopes), slopes=slopes)
    return np.where(places > places[s - t :, None], 0.0, bias)


def _back(t: int, s: int, start: int) -> np.ndarray:
    return start + np.arange(t)[:, None] - np.arange(s)


def _scaled(slopes: np.ndarray, distance: np.ndarray) -> np.ndarray:
    return slopes[:, None, None] * distance


def _plain(bias: np.ndarray) -> np.ndarray:
    """Return the bias with 0 for each query's own key and for the keys ahead."""
    return np.tril(bias - np.diagonal(bias, axis1=1, axis2=2)[..., None])


def _share(query: int) -> np.ndarray:
    """Return FIRE's share for each distance from a query, with c = 1 and a ruler of 63."""
    one, none = np.ones((1, 1)), np.zeros(1)
    return fire(np.array([query]), np.arange(query, -1, -1), 1, 1, one, none, one, none, 63, 1e-12)[0, 0]


def _joined(mu1: np.ndarray, z1: np.ndarray, o1: np.ndarray, mu2: np.ndarray, z2: np.ndarray, o2: np.ndarray) -> Parts:
    """Return the maximum, the sum and the weighted values of two blocks together."""
    mu = np.maximum(mu1, mu2)
    safe = np.where(np.isneginf(mu), 0, mu)
    first, second = np.exp(mu1 - safe), np.exp(mu2 - safe)
    return mu, first * z1 + second * z2, first[:, None] * o1 + second[:, None] * o2


def _divided(*blocks: np.ndarray) -> Parts:
    mu, z, o = _joined(*blocks)
    return mu, z, o / np.maximum(z, 1e-300)[:, None]


def _block(seed: int, empty: tuple[int, ...] = ()) -> Parts:
    """Return the three parts of a block for three queries, some of which see nothing."""
    random = np.random.default_rng(seed)
    seen = ~np.isin(np.arange(3), empty)
    mu = np.where(seen, 3 * random.normal(size=3), -np.inf)
    return mu, seen * random.uniform(1, 4, 3), seen[:, None] * random.normal(size=(3, 2))


def _one(mu: float, z: float, o: float) -> Parts:
    return np.array([mu]), np.array([z]), np.array([[o]])


def _by_lot(shape: int, rate: float) -> tuple[float, float]:
    """Return KERPLE's r1 and r2 from mean and variance of slopes whose density is as s^(shape-1) e^(-rate s)."""
    density = SLOPES ** (shape - 1) * np.exp(-rate * SLOPES)
    density /= density.sum()
    mean = density @ SLOPES
    variance = density @ (SLOPES - mean) ** 2
    return float(mean**2 / variance), float(variance / mean)


EMPTY = (*_block(3, (0,)), *_block(4, (0, 1)))

EXERCISES: list[Exercise] = [
    Number(
        "4.1 The slope of the fortieth head · easy",
        right=float(alibi_slopes(40)[39]),
        why="it is the eighth of the slopes that 64 heads have and 32 do not, and these begin with the largest",
        wrong=[
            (2.0**-8, "40 is no power of two, so the formula with H = 40 does not hold"),
            (2.0**-10, "this goes on with the 32 slopes; the rest come from the slopes of 64 heads"),
            (float(alibi_slopes(64)[7]), "every other slope of 64 heads is taken; the ones between are there already"),
            (float(alibi_slopes(64)[15]), "this slope is among the 32 already; the new ones lie between"),
        ],
    ),
    Number(
        "4.2 A slope from two weights · easy",
        right=math.log(0.12 / 0.03) / (10 - 2),
        why="eight positions more divide a weight by 4, so that one divides it by e^s with 8s = ln 4",
        wrong=[
            (math.log(4) / 10, "the distances are 2 and 10, and these are 8 apart"),
            ((0.12 - 0.03) / 8, "a logit falls along a line, and its weight along an exponential"),
            (math.log2(4) / 8, "this is in halvings a token; a slope goes into e to the power"),
            (math.log10(4) / 8, "weights are powers of e, so take the natural logarithm"),
            (1 - 4 ** (-1 / 8), "that is the share lost at each step, 1 − r; the slope is −ln r"),
        ],
    ),
    Number(
        "4.3 A bias that is divided by √d · easy",
        right=math.log(2) / FALCON,
        why=f"divided by √64 with q·k, a slope of {8 * FALCON:.3f} acts as one of {FALCON:.3f}",
        wrong=[
            (math.log(2) / (8 * FALCON), "the bias is added before the division, so √d divides it as well"),
            (math.log(2) / (FALCON / 8), "divide by √d, and by the scale only once; d came in"),
            (1 / FALCON, "there the weight has fallen by a factor of e; a half is asked for"),
            (math.log(2) * 2048**0.5 / (8 * FALCON), "the width of a head is 2048 / 32"),
            (math.log(2) * 16, "the largest of 32 slopes is 2^(−8/32); that of 8 heads is 1/2"),
        ],
    ),
    Function(
        "4.4 ALiBi's bias with a KV cache · easy",
        right=_last,
        why="distances count from the position of each query, and with a cache that is the end of the keys",
        call="bias(t, s, slopes)",
        cases=[(3, 3, np.array([0.5])), (1, 5, np.array([0.5, 0.25])), (2, 7, np.array([0.3, 0.1, 0.01]))],
        wrong=[
            (lambda t, s, slopes: -_last(t, s, slopes), "the sign is wrong: the oldest key would get most weight"),
            (
                lambda t, s, slopes: -_scaled(slopes, np.maximum(_back(t, s, 0), 0)),
                "right where queries and keys are as many; with a cache, the queries come last",
            ),
            (lambda t, s, slopes: -_scaled(slopes, _back(t, s, s - t)), "keys ahead get a bonus; they are to get 0"),
            (lambda t, s, slopes: -_scaled(slopes, abs(_back(t, s, s - t))), "keys ahead get 0 here, no negative bias"),
            (
                lambda t, s, slopes: _scaled(slopes, 0 * _back(t, s, 0) + np.arange(s)),
                "the softmax is the same, but this is slope times key; the distance is asked for",
            ),
        ],
    ),
    Function(
        "4.5 Compare two biases with equal weights · easy",
        right=_plain,
        why="each row lost what does not change its softmax, so two biases with equal weights are now equal",
        call="plain(bias)",
        cases=[(np.tile(0.5 * np.arange(3.0), (1, 3, 1)),), (np.random.default_rng(4).normal(size=(2, 5, 5)),)],
        wrong=[
            (lambda b: b - np.diagonal(b, axis1=1, axis2=2)[..., None], "the keys ahead are still there; they get 0"),
            (lambda b: np.tril(b - b[..., :1]), "this makes the oldest key 0; the query's own is asked for"),
            (lambda b: np.tril(b - b.max(axis=-1, keepdims=True)), "the largest of a row need not be its own key"),
            (lambda b: np.tril(b - np.diagonal(b, axis1=1, axis2=2)[:, None]), "a softmax runs over a row; so do this"),
            (lambda b: np.tril(b - b[:, :1, :1]), "one number from all rows is too little; each row has its own"),
        ],
    ),
    Array(
        "4.6 Keys that cancel ALiBi · medium",
        right=alibi(np.arange(5), np.arange(1), 1, slopes=0.5)[0, :, 0],
        why="−(m − n)/2 + a_n has to be the same for all n, and m drops out, so one list serves every query",
        wrong=[
            (np.arange(5) / 2, "this doubles the preference for near keys; check a late query"),
            ((4 - np.arange(5)) / 2, "right but for a constant, and the question fixes it: the first is to be 0"),
            (np.zeros(5), "without content ALiBi acts alone, and near keys get more weight"),
            (np.exp(-np.arange(5) / 2), "these are factors of the weights; logits are asked for"),
            (-np.arange(5), "this is for slope 1, and reverses the recency: now old keys get more weight"),
        ],
    ),
    Number(
        "4.7 A head that sees itself · medium",
        right=_own(4 - 1, -4 + 1),
        why="the own logit is at least 3 and the 15 others are at most −3, so little is left for all of them together",
        wrong=[
            (_own(4, -4), "content counts too: at worst it takes 1 from the own token and gives 1 to the others"),
            (_own(4 + 1, -4 - 1), "that is the best case; the least weight is asked for"),
            (_own(4 - 1, -4 + 1, 16), "16 keys are 15 others and the token itself"),
            (_own(4 - 1, 1), "the others get the bias −4 as well"),
            (_own(4 - 1, -4 + 1, 1), "that is against one other; there are 15"),
        ],
    ),
    Number(
        "4.8 FIRE's peak at a later position · medium",
        right=int(abs(_share(4095) - _share(63)[3]).argmin()),
        why="the divisor has doubled, ln 4096 = 2 ln 64, so 1 + Δ is squared",
        wrong=[
            (3, "that holds as long as m is at most T; this query is far beyond"),
            (3 * 4095 // 63, "shares are of logarithms here, not of distances"),
            (7, "the logarithm doubles, and then 1 + Δ is squared, not doubled"),
            (16, "that is 1 + Δ: take the 1 off"),
            (9, "1 + Δ is squared, not Δ"),
        ],
    ),
    Function(
        "4.9 Merge the softmax of two blocks · medium",
        right=_joined,
        why="both sums were brought to one maximum before they were added, and an empty block adds nothing",
        call="merge(mu1, z1, o1, mu2, z2, o2)",
        cases=[(*_one(0.0, 1.5, 2.5), *_one(math.log(2), 1.25, 3.0)), (*_block(1), *_block(2)), EMPTY],
        wrong=[
            (lambda a, z, o, b, y, p: (np.maximum(a, b), z + y, o + p), "bring both sums to the larger maximum first"),
            (lambda *b: (*_joined(*b)[:2], b[2] + b[5]), "z is shrunk and o is not; both are in units of e^μ"),
            (lambda *b: (*_joined(*b)[:2], _joined(*b)[2] / 2), "o is a sum over keys, not a mean of two blocks"),
            (_divided, "o is divided by z already; that comes after the last block"),
        ],
    ),
    Number(
        "4.10 Half of the weight in a million tokens · hard",
        right=HALF,
        why=f"1 + 1/2 + … + 1/n grows as ln n, so half of it is at a root: {HALF / 1000:.2f} of √1,000,000",
        wrong=[
            (500_000, "the near half of the tokens holds far more than half of the weight"),
            (1000, "ln n halves at the square root, but the sum is ln n + 0.577: add it up"),
            (round(math.exp(MILLION[-1] / 2)), "the sum is not ln n but ln n + 0.577, on both sides"),
            (1, "that is r₁ = 2, where the weights have a finite sum"),
        ],
    ),
    Number(
        "4.11 ALiBi as inner products of positions · hard",
        right=float(-1 / np.linalg.solve(LINE, np.ones(101)).sum()),
        rtol=2e-4,
        why="half of the largest entry: any less, and some mix of positions has a negative squared length",
        wrong=[
            (0.5 * 100, "with this no entry is negative; the eigenvalues ask for less"),
            (0.5 * 101 / 2, "101 positions have 100 steps between them"),
            (float(-LINE.mean()), "that brings the mean to 0; the matrix still has a negative eigenvalue"),
            (float(-np.linalg.eigvalsh(LINE)[0]), "that is added to the diagonal only; here every entry gets c"),
        ],
    ),
    Array(
        "4.12 The average over random slopes · hard",
        right=_by_lot(3, 4),
        why="the mean of e^(−sΔ) over these slopes is (1 + Δ/4)^(−3): a power law is a mixture of exponentials",
        wrong=[
            ((3, 4), "the slopes shrink as e^(−4s), and that 4 divides the distance"),
            (_by_lot(2, 4), "after integrating, the exponent is one more than that of s"),
            (_by_lot(1, 4), "that is without the factor s²"),
            ((1, 0.75), "r₁r₂ is the mean slope, and that fits; the curve bends as the spread says"),
        ],
    ),
]
