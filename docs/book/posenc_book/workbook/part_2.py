"""Exercises of Part 2: learned tables, and learned offsets."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from posenc.add.learned import resize
from posenc.bias.alibi import alibi_slopes
from posenc.bias.t5 import t5, t5_bucket
from posenc.score.shaw import shaw
from posenc_book.workbook.functions import Function
from posenc_book.workbook.kinds import Array, Choice, Exercise, Number

ROWS, PAD = 514, 1  # RoBERTa: max_position_embeddings and pad_token_id
LENGTHS, PLACES = np.array([3, 5, 2, 5]), np.arange(6)
FOUR = torch.tensor([[0.0], [3.0], [6.0], [12.0]], dtype=torch.float64)
BACK = np.array([0, 3, 4, 7, 8, 31, 32, 100])
NEXT = t5_bucket(-BACK, 8, 64, False)
PAST = t5_bucket(-np.arange(1000))
ALONE = int(np.flatnonzero(np.bincount(PAST)[PAST] == 1).max())  # the largest distance with a bucket of its own
WALK = 6 / (np.pi * np.arange(1, 100_000)) ** 2  # each component's share of the variance of a long walk
SIZES = (2, 2, 7), (1, 1, 6), (3, 4, 3)  # queries, clip, keys


def _noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[0]).standard_normal(shape)


BIAS = _noise(8, 2)


def _weights(table: np.ndarray) -> np.ndarray:
    """Return the attention weights (h, t, s) of a T5 decoder's table on 40 tokens, with random content."""
    future = -1e9 * np.triu(np.ones((40, 40)), 1)
    logits = _noise(2, 40, 40) + t5(np.arange(40), np.arange(40), table, 64, False) + future
    return torch.tensor(logits).softmax(dim=-1).numpy()


CHANGES = {"a": 2 * BIAS, "b": BIAS + 5 * np.eye(8, 1), "c": BIAS + np.array([5, 0]), "d": BIAS[::-1]}


def _row(offset: np.ndarray, c: int) -> np.ndarray:
    return offset.clip(-c, c) + c


def _spread(rule: Callable[[np.ndarray, int], np.ndarray], cached: bool = True) -> Callable[..., np.ndarray]:
    def spread(x: np.ndarray, keys: int) -> np.ndarray:
        offset = np.arange(keys) - np.arange(len(x))[:, None] - (keys - len(x)) * cached
        return np.take_along_axis(x, rule(offset, x.shape[1] // 2), axis=1)

    return spread


def _shaw(x: np.ndarray, keys: int) -> np.ndarray:
    places, (t, width) = np.arange(keys), x.shape
    return shaw(x[None], np.zeros((1, keys, width)), places[keys - t :], places, np.eye(width))[0] * width**0.5


def _added(g: np.ndarray, positions: np.ndarray, rows: int) -> np.ndarray:
    return np.tensordot(np.eye(rows)[positions], g, axes=((0, 1), (0, 1)))


def _once(g: np.ndarray, positions: np.ndarray, rows: int) -> np.ndarray:
    table = np.zeros((rows, g.shape[-1]))
    table[positions] += g
    return table


def _travel(every: int, b2: float = 0.999, visits: int = 100) -> float:
    """Return how many learning rates Adam moves a row from one visit to the next, after many equal visits."""
    m, v, moved = 0.0, 0.0, [0.0] * visits
    for step in range(every * visits):
        g = float(step % every == 0)
        m, v = 0.9 * m + 0.1 * g, b2 * v + (1 - b2) * g
        moved[step // every] += m / math.sqrt(v)
    return moved[-1]


def _matrix(old: int, new: int) -> np.ndarray:
    return resize(torch.eye(old, dtype=torch.float64), new).numpy()


def _centers(old: int, new: int) -> np.ndarray:
    return F.interpolate(torch.eye(old, dtype=torch.float64)[None], new, mode="linear")[0].T.numpy()


def _undone(new: np.ndarray, length: int, matrix: Callable[[int, int], np.ndarray] = _matrix) -> np.ndarray:
    return np.linalg.lstsq(matrix(length, len(new)), new, rcond=None)[0]


RARE = _travel(100)

EXERCISES: list[Exercise] = [
    Number(
        "2.1 The longest text · easy",
        right=ROWS - (PAD + 1),
        why=f"rows 0 to {PAD} come before the first token's, and {ROWS} − {PAD + 1} are left",
        wrong=[
            (ROWS, "that is how many rows there are; the first of them belong to no token"),
            (ROWS - PAD, "row 1 is the padding's own; the first token's row comes after it"),
            (ROWS - PAD - 2, "rows count from 0, so the last row is used too: count the rows, not the last index"),
        ],
    ),
    Array(
        "2.2 Which rows learn · easy",
        right=(LENGTHS[:, None] > PLACES).sum(axis=0),
        why="row p is visited by each text longer than p, so no row is visited more often than an earlier one",
        wrong=[
            ((LENGTHS[:, None] > PLACES).any(axis=0).astype(int), "that is whether a row learns; how often is asked"),
            ((LENGTHS[:, None] >= PLACES).sum(axis=0), "positions count from 0: a text of 3 tokens ends at position 2"),
            (4 * (PLACES < 5), "this counts the padding too, and padding is masked: it gives no gradient"),
            (np.bincount(LENGTHS - 1, minlength=6), "that is where each text ends; it visits the rows before, too"),
        ],
    ),
    Array(
        "2.3 Ten rows from four · easy",
        right=resize(FOUR, 10)[:, 0].numpy(),
        why="the new rows are a third of an old step apart, so the tenth row is the last old one",
        wrong=[
            (_centers(4, 10) @ FOUR.numpy()[:, 0], "this lines up the centers of cells; here ends meet ends"),
            (FOUR.numpy()[np.arange(10) * 4 // 10, 0], "this repeats old rows; the new ones lie between two"),
            (FOUR.numpy()[np.arange(10) % 4, 0], "this is the table tiled: the copy starts again at the top"),
            (FOUR.numpy()[np.minimum(np.arange(10), 3), 0], "this repeats the last row, and interpolates nothing"),
            (np.linspace(0, 12, 10), "this is one line from the first row to the last; the rows between bend it"),
        ],
    ),
    Array(
        "2.4 Eight buckets of T5 by hand · easy",
        right=NEXT,
        why="distances 0 to 3 are alone, and buckets 4 to 7 begin at 4, 8, 16 and 32: a doubling each",
        wrong=[
            (t5_bucket(BACK, 8, 64, False), "T5 counts key − query; this took the past for the future"),
            (np.minimum(BACK, 7), "from distance 4 on, a bucket holds several distances"),
            (t5_bucket(-BACK, 8, 64), "that is an encoder's: half of its buckets are for what comes ahead"),
            (NEXT - 4 * (BACK > 3), "the buckets after the single ones go on counting from 4"),
            (np.minimum(BACK, 4 + (BACK - 4) // 15), "wide buckets are not of one width: they grow with distance"),
        ],
    ),
    Choice(
        "2.5 A change that no weight shows · easy",
        right=next(letter for letter, table in CHANGES.items() if np.allclose(_weights(table), _weights(BIAS))),
        why="a softmax depends on differences only, and a constant is added to every logit of that head alike",
        wrong=[
            ("a", "the differences between the buckets are doubled too, and these change the softmax"),
            ("b", "the bucket gains on the others, so its keys get more weight"),
            ("d", "near and far buckets are exchanged"),
        ],
    ),
    Number(
        "2.6 A straight line in a table as ALiBi · medium",
        right=float(alibi_slopes(8)[0]) * 64**0.5 / 0.1,
        why="a step along the line is worth 0.1 · g / √64 in the logit, and what all keys share drops out",
        wrong=[
            (0.5 / 0.1, "a logit is divided by √d, so the query has to be longer"),
            (0.5 * 64 / 0.1, "the logit is divided by √d, and d came in"),
            (0.5 * 8, "the rows are a tenth apart, so a unit query gets a tenth per step"),
            (0.5 * 8 * 0.1, "the shorter the steps, the longer the query has to be: divide by the step"),
            (-0.5 * 8 / 0.1, "this one prefers the far past: along v the later keys, the near ones, get larger logits"),
        ],
    ),
    Function(
        "2.7 The gradient of a table · medium",
        right=_added,
        why="a row's gradient is the sum over all its visits, in every text, and zero without one",
        call="gradient(g, positions, rows)",
        cases=[
            (np.array([[[1.0], [2.0], [4.0]]]), np.array([[0, 1, 1]]), 4),
            (_noise(2, 4, 3), np.array([[0, 0, 1, 2], [0, 1, 2, 5]]), 6),
        ],
        wrong=[
            (_once, "NumPy's += with a list of rows adds to each row once, so all but one of its visits are lost"),
            (lambda g, p, n: _added(g, p, n) / _added(0 * g + 1, p, n).clip(1), "that is a mean; visits add up"),
            (lambda g, p, rows: _added(g, p, rows) / len(g), "g has the number of texts in it already"),
            (
                lambda g, p, n: _added(g, 0 * p + np.arange(p.shape[1]), n),
                "rows come from `positions`, not from the index",
            ),
        ],
    ),
    Function(
        "2.8 Shaw's logits by offset · medium",
        right=_shaw,
        why="the vector of an offset meets a query once, and the product is then used for every key at that offset",
        call="spread(x, keys)",
        cases=[(np.arange(9.0).reshape(3, 3), 3), *((_noise(t, 2 * c + 1), s) for t, c, s in SIZES)],
        wrong=[
            (_spread(_row, False), "right where queries and keys are as many; with a cache, the queries come last"),
            (_spread(lambda o, c: _row(-o, c)), "this counts query − key, and row 0 of the table is the far past"),
            (_spread(lambda o, c: (o + c) % (2 * c + 1)), "this wraps around; a far key gets the row at its end"),
            (_spread(lambda o, c: o.clip(-c, c)), "offset 0 belongs to the middle row, and −1 to the one before"),
        ],
    ),
    Number(
        "2.9 Twelve layers of buckets · medium",
        right=12 * ALONE,
        why=f"{ALONE} is the largest distance that is alone in its bucket, and the layers add up",
        wrong=[
            (12 * 15, "that is a decoder's; an encoder spends half of its buckets on what comes ahead"),
            (12 * (ALONE + 1), "8 shares its bucket with 9, 10 and 11"),
            (12 * 128, "from 128 on all distances share a bucket, and long before that several do"),
            (ALONE, "that is one layer; twelve of them add up"),
        ],
    ),
    Number(
        "2.10 Adam and a row that is rarely used · hard",
        right=RARE,
        why=f"m shrinks with the rate of visits, √v only with its root: {RARE / 100:.1%} of full speed is left",
        wrong=[
            (100.0, "that is a row visited at every step; a rare one moves less in the same time"),
            (1.0, "that is plain gradient descent: Adam goes on moving after the visit"),
            (10.0, "√100 is the rule, and β₁ makes it a little less: give two decimals"),
            (0.1 / (0.001**0.5 * (1 - 0.9 / 0.999**0.5)), "that is a lone visit: after 100 steps v remembers the last"),
            (_travel(100, 0.98), "that is with β₂ = 0.98, as in the chapter; here it is 0.999"),
            (RARE / 100, "that is a step; from one visit to the next is asked for"),
        ],
    ),
    Number(
        "2.11 Principal components of a random walk · hard",
        right=int((WALK.cumsum() >= 0.95).argmax()) + 1,
        why="the shares fall as 1/k², so the tail after k of them is about 6/(π²k)",
        wrong=[
            (int((WALK.cumsum() >= 0.9).argmax()) + 1, "that many hold 90%"),
            (math.ceil(0.95 * 511), "that is noise, all of whose directions are alike; neighbors in a walk are not"),
            (2, f"two hold {WALK[:2].sum():.0%}, so that what is left is still large"),
            (20, "the share falls as 1/k², but its sum is π²/6, not 1: take the 6/π² along"),
        ],
    ),
    Function(
        "2.12 Undo an interpolation · hard",
        right=_undone,
        why="interpolation is a matrix with independent columns, so a longer table holds the shorter one whole",
        call="undo(new, length)",
        cases=[
            (np.array([[0.0], [1.0], [2.0], [1.0], [0.0]]), 3),
            *((_matrix(n, o) @ _noise(n, 3), n) for n, o in ((4, 6), (7, 12), (5, 5))),
        ],
        wrong=[
            (lambda new, length: _matrix(len(new), length) @ new, "shrinking averages: that is no way back"),
            (
                lambda new, n: new[np.linspace(0, len(new) - 1, n).astype(int)],
                "old rows need not be among the new ones",
            ),
            (lambda new, length: new[:length], "the first rows of the new table are the beginning of the old one"),
            (lambda new, n: _undone(new, n, _centers), "that is for cell centers; here first and last rows stay"),
        ],
    ),
]
