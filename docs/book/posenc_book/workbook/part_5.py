"""Exercises of Part 5: what and where, PoPE's lengths and phases, and positions that content makes."""

import math

import numpy as np

from posenc.rotate.pope import pope
from posenc.score.cope import cope
from posenc.score.forget import forget
from posenc_book.workbook.functions import Function
from posenc_book.workbook.kinds import Array, Choice, Exercise, Number

TURN = 2 * np.pi
LOG2 = math.log(2) ** 2
GATES = np.array([1 / 2, 1 / 4, 1 / 2, 1 / 2, 1 / 4])
THETA = 10_000.0 ** (-np.arange(8) / 8)
KEYS = np.random.default_rng(5).normal(size=(4, 8))
WIDTH, TURNING = 64, 36


def _two(delta: tuple[float, float]) -> float:
    """Return PoPE's score of two channels, from 7 to 5."""
    q, k = np.log([[[1.0, 3.0]]]), np.log([[[7.0, 3.0]]])
    theta, phase = [np.pi / 2, np.pi / 6], np.array([delta])
    return float(pope(q, k, np.array([7]), np.array([5]), theta=theta, phase=phase)[0, 0, 0])


def _share(factors: np.ndarray) -> np.ndarray:
    return factors / factors.sum()


def _faded(gates: np.ndarray) -> np.ndarray:
    """Return the last query's weights after the forget gates, where all scores are equal."""
    same, places, logits = np.zeros((1, 5, 1)), np.arange(5), np.log(gates / (1 - gates))[None]
    return _share(np.exp(forget(same[:, :1], same, places[-1:], places, gates=logits)[0, 0]))


def _counts(gates: np.ndarray) -> np.ndarray:
    """Return CoPE's count from each key up to its query."""
    return np.tril(gates)[:, ::-1].cumsum(axis=1)[:, ::-1]


def _aim(r: float, theta: np.ndarray) -> np.ndarray:
    return np.mod(r * theta, -TURN)


def _moved() -> dict[str, bool]:
    """Return for each letter whether that change moves a key's best distance from 3."""
    back, random = np.arange(20), np.random.default_rng(0)
    q, k, other = random.normal(size=(3, 1, 1, 8))
    pairs = random.normal(size=4) + 1j * random.normal(size=4)
    tuned = pairs * np.exp(3j * THETA[::2])

    def by_rope(x: np.ndarray) -> int:
        return int((pairs * x.conj() * np.exp(1j * THETA[::2] * back[:, None])).real.sum(axis=1).argmax())

    def by_pope(x: np.ndarray) -> int:
        keys, phase = np.tile(x, (1, 20, 1)), 3 * THETA[None]
        return int(pope(q, keys, np.zeros(1), -back, phase=phase, bound="free").argmax())

    found = {"a": by_pope(-k), "b": by_rope(2 * tuned), "c": by_rope(-tuned), "d": by_pope(other)}
    return {letter: place != 3 for letter, place in found.items()}


def _tickets(encodings: int, luck: float = 0.05, sides: int = 1) -> int:
    """Return how many seeds each until chance hardly lets any encoding win them all."""
    return next(n for n in range(1, 99) if 1 - (1 - sides * 0.5**n) ** encodings < luck)


def _kept(gates: np.ndarray) -> np.ndarray:
    """Return the factor of each key for each query, where gates may be 0."""
    kept = np.eye(len(gates))
    for m in range(1, len(gates)):
        kept[m, :m] = gates[m] * kept[m - 1, :m]
    return kept


def _counted(spacing: int, headings: int = 3) -> float:
    """Return CoPE's count of headings, one every so many tokens, with gates of ±4."""
    logits = np.where(np.arange(headings * spacing) % spacing, -4.0, 4.0)
    places, table = np.arange(len(logits)), np.arange(99.0)[:, None]
    return float(cope(np.ones((1, 1, 1)), logits[None, :, None], places[-1:], places, table)[0, 0, 0])


def _largest(headings: int, off: float = 0.5) -> int:
    return max(k for k in range(2, 40) if abs(_counted(k, headings) - headings) < off)


def _cached(keys: np.ndarray, places: np.ndarray, theta: np.ndarray) -> np.ndarray:
    angle = places[:, None] * theta
    return np.logaddexp(0, np.tile(keys, 2)) * np.concatenate([np.cos(angle), np.sin(angle)], axis=1)


def _length(cached: np.ndarray) -> np.ndarray:
    return np.hypot(*np.split(cached, 2, axis=1))


def _content(cached: np.ndarray) -> np.ndarray:
    """Return the keys as they were before softplus and turn."""
    length = _length(cached)
    return length + np.log(-np.expm1(-length))


SMALL = _cached(np.log([[1.0, 3.0]]), np.array([2]), np.array([1.0, 0.01]))
EXTREME = _cached(np.array([[-34.0, 600.0, 0.0, 3.0]]), np.array([5]), THETA[:4])
MEAN, MEDIAN = 0.625**20, 0.25**10

EXERCISES: list[Exercise] = [
    Number(
        "5.1 The offset at which a pair is largest · easy",
        right=int(np.cos(np.pi / 12 * np.arange(24) + np.pi / 6 - np.pi / 2).argmax()),
        why="the phase difference of −π/3 is canceled by four steps of π/12",
        wrong=[
            (20, "that cancels a phase difference of +π/3: it is the query's minus the key's"),
            (8, "that is the sum of the two angles; it is their difference that counts"),
            (6, "that is the key's phase alone; the query has its own"),
            (10, "there the cosine is 0; it is largest where it is 1"),
        ],
    ),
    Number(
        "5.2 PoPE with two channels by hand · easy",
        right=_two((0, -5 * np.pi / 3)),
        why="lengths give 3 and 4 times (ln 2)², the cosines are −1 and 1, and 4 − 3 is left",
        wrong=[
            (_two((0, 0)), "the phase of the second channel is missing"),
            (7 * LOG2, "these are the lengths alone; distance multiplies each by a cosine"),
            (-5 * LOG2, "the phase is subtracted from θΔ, and it was added here"),
            (math.log(3) ** 2, "this takes q and k as they are; PoPE takes their softplus"),
        ],
    ),
    Number(
        "5.3 The softmax scale of PoPE in a kernel · easy",
        right=((WIDTH + TURNING) / WIDTH) ** 0.5,
        why="the kernel divides by √100, and √64 is wanted",
        wrong=[
            (2**0.5, "that is for 64 rotated channels; here 36 are, and the other 28 stay single"),
            ((72 / 64) ** 0.5, "the channels that do not rotate are in the vectors too"),
            (0.8, "this makes the logits smaller still; the kernel divides by too much"),
            (1.0, "then the kernel divides by the root of the new width, and attention is too flat"),
        ],
    ),
    Array(
        "5.4 Attention weights under forget gates · easy",
        right=_faded(GATES),
        why="each key has the factor of the gates after it, and the query's own token has none",
        wrong=[
            (_share(_kept(GATES)[-1] * GATES), "the key's own gate came in; gates count from the next token on"),
            (_kept(GATES)[-1], "these are the factors; a softmax makes their sum 1"),
            (_share(np.append(_kept(GATES[:-1])[-1], 1.0)), "the query's gate is missing; it acts on what came before"),
            (_share(GATES), "these are single gates; a key passes all the gates after it"),
        ],
    ),
    Function(
        "5.5 CoPE's counts · easy",
        right=_counts,
        why="the count runs from the key to the query, both included",
        call="count(gates)",
        cases=[(np.ones((3, 3)),), (np.random.default_rng(1).uniform(size=(5, 5)),)],
        wrong=[
            (lambda g: np.tril(np.tril(g).cumsum(1)), "this counts from the start of the text to the key"),
            (lambda g: _counts(g) - np.tril(g), "the key's own gate counts too"),
            (lambda g: _counts(g) - np.tril(np.ones_like(g)) * np.diag(g)[:, None], "the query's own gate counts too"),
            (lambda g: np.tril(g[:, ::-1].cumsum(1)[:, ::-1]), "gates ahead of the query are in these counts"),
            (lambda g: np.tril(g)[::-1].cumsum(0)[::-1], "this adds up a column; the gates of one query are a row"),
        ],
    ),
    Function(
        "5.6 Phases for an offset · medium",
        right=_aim,
        why="with r·θ a channel peaks at r, and full rotations bring it into the range without moving the peak",
        call="aim(r, theta)",
        cases=[(2, np.array([1.0, 0.1, 0.01])), (30, THETA), (-3, THETA), (4.5, THETA)],
        wrong=[
            (lambda r, theta: np.clip(r * theta, -TURN, 0), "clipping moves the peak; subtract full rotations"),
            (lambda r, theta: r * theta, "the peak is right, and the range is not kept"),
            (lambda r, theta: _aim(-r, theta), "this one peaks r ahead"),
            (lambda r, theta: np.mod(r * theta, TURN), "this is the range from 0 to 2π; the other side of 0 is asked"),
        ],
    ),
    Choice(
        "5.7 Which content moves the peak · medium",
        right=next(letter for letter, moves in _moved().items() if moves),
        why="a minus sign rotates every pair by π, and in RoPE a phase of content acts like an offset",
        wrong=[
            ("a", "softplus makes a length of −k as well, and lengths do not move a cosine"),
            ("b", "twice the key makes all lengths twice as long, and the angles stay"),
            ("d", "any other key has other lengths, and all cosines still peak at one distance"),
        ],
    ),
    Number(
        "5.8 Twenty encodings compared by chance · medium",
        right=_tickets(20),
        why=f"the chance that any of 20 coins falls on one side {_tickets(20)} times is about 20 · 2^−{_tickets(20)}",
        wrong=[
            (_tickets(1), "that is enough for one encoding; here twenty are tried"),
            (_tickets(1, sides=2), "that is one encoding, with losing all counted as well"),
            (_tickets(20) - 1, "that leaves a chance just above 5%"),
            (_tickets(20, sides=2), "only winning all counts here, not losing all"),
        ],
    ),
    Function(
        "5.9 Forget gates that are exactly 0 · medium",
        right=_kept,
        why="each row is the row before times one more gate; and a gate of 0 masks all that came before it",
        call="kept(gates)",
        cases=[(np.array([1.0, 0.5, 0.5]),), (np.array([0.9, 0.4, 0.0, 0.8, 0.7, 0.0, 0.6]),)],
        wrong=[
            (lambda f: _kept(f) * f, "the key's own gate came in; gates count from the next token on"),
            (lambda f: _kept(f).T, "rows are queries here; this has them in columns"),
            (lambda f: np.tril(np.cumprod(f)[:, None] + 0 * f), "this multiplies from the start of the text"),
            (lambda f: np.tril(f[:, None] + 0 * f), "this has the query's gate alone; those between act too"),
            (lambda f: _kept(f) - np.eye(len(f)), "a query keeps its own token whole: the diagonal is 1"),
        ],
    ),
    Number(
        "5.10 Mean and median of a product of gates · hard",
        right=MEAN / MEDIAN,
        why=f"a mean of products is {MEAN:.1e}, and half of all texts have {MEDIAN:.1e} or less",
        wrong=[
            (1.0, "mean and median part when gates are multiplied: a product is mostly small and rarely large"),
            (0.625 / 0.5, "that is one token; it happens twenty times"),
            (MEAN, "that is the mean itself"),
            (1.25**19, "there are 20 gates between, the query's own among them"),
        ],
    ),
    Number(
        "5.11 CoPE with gates that are never 0 · hard",
        right=_largest(3),
        why="each token adds 0.018 to the count, and each heading lacks as much: only the rest adds up",
        wrong=[
            (_largest(3) - 1, "the headings' own gates lack a little of 1, which leaves room for one token more"),
            (_largest(3) + 1, "there the count is off by more than one half already"),
            (_largest(1), "that is one heading; the errors of three add up"),
        ],
    ),
    Function(
        "5.12 Content from PoPE's cached keys · hard",
        right=_content,
        why="the length of each channel's two numbers is softplus of k, whatever the angle, and softplus can be undone",
        call="content(cached)",
        cases=[(SMALL,), (_cached(3 * KEYS, np.array([0, 7, 4000, -2.5]), THETA),), (EXTREME,)],
        wrong=[
            (_length, "this is the length, softplus of k; undo the softplus too"),
            (lambda c: np.log(np.exp(_length(c)) - 1), "very negative keys are lost: 1 + e^k − 1 keeps few digits"),
            (lambda c: np.log(_length(c)), "softplus is ln(1 + e^k), so a 1 has to come off"),
            (lambda c: np.logaddexp(0, _length(c)), "this is softplus once more; its inverse is wanted"),
            (lambda c: _content(np.hstack([c[:, 0::2], c[:, 1::2]])), "the cosines are all in the first half"),
        ],
    ),
]
