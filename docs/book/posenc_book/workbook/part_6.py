"""Exercises of Part 6: caches, precision, padding and packing, several GPUs, real configurations."""

from collections.abc import Callable

import numpy as np
import torch

from posenc.add.sinusoidal import wavelengths
from posenc.bias.t5 import t5_bucket
from posenc.positions import packed_documents, packed_positions, padded_positions, shard_positions
from posenc_book.workbook.functions import Function
from posenc_book.workbook.kinds import Array, Choice, Exercise, Number

SEEN_SO_FAR, KEPT, DRAFT, ACCEPTED = 1000, 4 + 60, 5, 2
STORED = torch.arange(4096)
LAYERS, LENGTH = 48, 131_072
A_TOKEN = 2 * 2 * 8 * 256  # bytes a layer: key and value, two bytes, heads, width
HOLDER, SLOT = next((r, p.index(77)) for r in range(4) if 77 in (p := shard_positions(96, r, 4, "zigzag").tolist()))
WEIGHTS = np.array([0.6, 0.2, 0.1, 0.05, 0.05])  # four sinks, then the window
DROPPED = np.array([[1, 0, 0, 0, 0], [1, 1, 1, 1, 0], [0, 1, 1, 1, 0]])
BASES, PAIR = np.arange(2, 70_000), np.arange(16)
SPEEDS = torch.tensor(BASES[:, None] ** (-PAIR / 16))
ROUNDED = (SPEEDS.bfloat16().double() / SPEEDS - 1).abs().amax(dim=1).numpy()  # the worst pair of each base
TREE = np.array([4, 0, 5, -1, -1, 0, 2, 3])  # parents that stand after their children
TWO_KEYS = np.array([[2.0]]), np.log([4.0]), np.array([[1.0]]), np.log([3.0])
DICE = np.random.default_rng(0)

SEEN, SERVED = np.arange(2048), np.arange(16_384)
SLOW = int((wavelengths(128) > len(SEEN)).sum())  # pairs that never finished a turn in training
AWAY = len(SERVED) - len(SEEN)
NEW_PAIRS = AWAY * (AWAY + 1) / (len(SERVED) * (len(SERVED) + 1))  # causal pairs at an offset never seen
LAST = int((t5_bucket(-SEEN, bidirectional=False) < 31).sum())  # where the last bucket begins
FRESH = len(set(t5_bucket(-SERVED, bidirectional=False)) - set(t5_bucket(-SEEN, bidirectional=False)))
NEW = {"a": AWAY, "b": SLOW, "c": SLOW, "d": FRESH}  # what never occurred at 2,048 and is met at 16,384


def _gib(windowed: int, window: int = 1024) -> float:
    return ((LAYERS - windowed) * LENGTH + windowed * window) * A_TOKEN / 2**30


def _onward(start: Callable[[np.ndarray], np.ndarray], step: int = 1) -> Callable[..., np.ndarray]:
    return lambda mask, steps: start(mask)[:, None] + step * np.arange(steps)


def _visible(d: np.ndarray, prefix: np.ndarray | list, own: bool = True, by_column: bool = False) -> np.ndarray:
    column, same = np.arange(len(d)), d[:, None] == d
    place = column if by_column else packed_positions(torch.tensor([0, *np.bincount(d).cumsum()])).numpy()
    return same & (column[:, None] >= column) | (place < np.asarray(prefix)[d]) & (same | (not own))


def _work(order: str, ends: tuple[int, ...] = (0, 24, 64), ahead: int = 0) -> np.ndarray:
    """Return how many pairs each of four ranks computes; a query sees keys up to `ahead` places ahead."""
    text, place = packed_documents(torch.tensor(ends)), torch.arange(64)
    pairs = (text[:, None] == text) & (place[:, None] + ahead >= place)
    return np.array([int(pairs[shard_positions(64, rank, 4, order)].sum()) for rank in range(4)])


def _taken(o: np.ndarray, total: np.ndarray, o_a: np.ndarray, total_a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    gone = np.exp(total_a - total)[:, None]
    return (o - gone * o_a) / (1 - gone), total + np.log(1 - gone[:, 0])


def _parts(t: int, width: int, high: float) -> tuple[np.ndarray, ...]:
    """Return outputs and log-sum-exps over all of seven keys, then over the first three."""
    logits, v = high + DICE.standard_normal((t, 7)), DICE.standard_normal((7, width))
    weights = [np.exp(logits[:, :n] - high) for n in (7, 3)]
    outputs = [(w @ v[: w.shape[1]] / w.sum(axis=1, keepdims=True), high + np.log(w.sum(axis=1))) for w in weights]
    return outputs[0] + outputs[1]


def _ancestors(parents: np.ndarray) -> np.ndarray:
    step = (parents[:, None] == np.arange(len(parents))).astype(float)
    return np.linalg.inv(np.eye(len(parents)) - step).round()  # 1 + step + step² + …: all ways up


def _tree(parents: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
    sees = _ancestors(parents)
    return start + sees.sum(axis=1) - 1, sees


def _in_order(parents: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
    sees = np.eye(len(parents))
    for node, parent in enumerate(parents):
        sees[node] += sees[parent] * (parent >= 0)
    return start + sees.sum(axis=1) - 1, sees.clip(0, 1)


EXERCISES: list[Exercise] = [
    Array(
        "6.1 A draft that is half rejected · easy",
        right=[SEEN_SO_FAR + ACCEPTED, KEPT + ACCEPTED + 1],
        why="the position counts tokens seen, the cache holds keys kept, and a rejected draft is subtracted from both",
        wrong=[
            ([KEPT + ACCEPTED, KEPT + ACCEPTED + 1], "that position counts the keys that are left; count tokens seen"),
            ([SEEN_SO_FAR + DRAFT, KEPT + DRAFT + 1], "the rejected tokens are still counted and still in the cache"),
            ([SEEN_SO_FAR + ACCEPTED, KEPT + DRAFT + 1], "the count went back, and the rejected keys were left"),
            ([SEEN_SO_FAR + DRAFT, KEPT + ACCEPTED + 1], "the rejected keys were cut off, and the count went on"),
            ([SEEN_SO_FAR + ACCEPTED, KEPT + ACCEPTED], "the token attends to itself as well"),
            ([SEEN_SO_FAR + ACCEPTED + 1, KEPT + ACCEPTED + 1], "positions count from 0: the first draft was at 1,000"),
        ],
    ),
    Number(
        "6.2 Positions that bfloat16 keeps apart · easy",
        right=len(STORED.bfloat16().unique()),
        why="0 to 255 survive, then 128 numbers in each doubling, and 4,096, to which the last ones are rounded up",
        wrong=[
            (256 + 4 * 128, "the last whole numbers are nearer to 4,096 than to the number before it"),
            (257, "beyond 256 there are more, and farther apart"),
            (len(STORED) // 16, "neighbors are 16 apart in the last doubling alone"),
            (len(STORED.half().unique()), "that is float16, which has three bits more"),
            (len(STORED), "from 256 on, neighbors merge"),
        ],
    ),
    Number(
        "6.3 The KV cache of sliding windows · easy",
        right=_gib(LAYERS * 5 // 6),
        why=f"40 of 48 layers take {1 - _gib(40, 0) / _gib(40):.0%} of it: a short window costs next to nothing",
        wrong=[
            (_gib(0), "that is with all tokens kept in all layers"),
            (_gib(40, 0), "the layers with a window keep something, too"),
            (_gib(8), "five of six have the window; one of six attends to all"),
            (_gib(40) * 2**30 / 1e9, "a GiB is 2³⁰ bytes; this divides by 10⁹"),
        ],
    ),
    Function(
        "6.4 Position ids of the next tokens · easy",
        right=_onward(lambda mask: padded_positions(torch.tensor(mask)).numpy().max(axis=1) + 1),
        why="the next position is the number of real tokens, in whatever column the token is",
        call="position_ids(mask, steps)",
        cases=[(np.array([[0, 0, 1, 1, 1]]), 2), (np.array([[1, 1, 1, 1], [0, 1, 1, 1], [0, 1, 1, 0]]), 3)],
        wrong=[
            (_onward(lambda mask: 0 * mask[:, 0] + mask.shape[1]), "this goes on along the row, padding and all"),
            (_onward(lambda mask: mask.sum(axis=1) - 1), "that is the position of the last token of the prompt"),
            (_onward(lambda mask: 0 * mask.sum(axis=1)), "each text begins again at 0; it has to continue"),
            (_onward(lambda mask: mask.sum(axis=1), 0), "all new tokens of a text get one position"),
            (
                _onward(lambda m: np.maximum((m.cumsum(1) * m)[:, -1], 1)),
                "the last column may be padding; look elsewhere",
            ),
        ],
    ),
    Array(
        "6.5 Who holds token 77? · easy",
        right=[HOLDER, SLOT],
        why="chunks are 12 long, 77 is in chunk 6, and chunk 6 is the second of the two on its rank",
        wrong=[
            ([77 // 24, 77 % 24], "that is a contiguous cut; zig-zag gives each rank two chunks of 12"),
            ([HOLDER, 77 % 12], "that is the index in its chunk; another chunk comes before it in memory"),
            ([77 // 12, 77 % 12], "that is the chunk and the index in it; a rank has two chunks"),
            ([77 % 4, 77 // 4], "that is a striped cut, token by token; zig-zag deals out chunks"),
            ([77 // 12 % 4, SLOT], "the second half is dealt out backward: the last chunk goes to rank 0"),
        ],
    ),
    Array(
        "6.6 Output length without attention sinks · medium",
        right=1 / (1 - DROPPED @ WEIGHTS),
        why="a softmax gives the weight of dropped keys to the rest, and zero values no longer dilute it",
        wrong=[
            (np.ones(3), "the values of sinks are zero, and still their weights go to the keys that are left"),
            (1 - DROPPED @ WEIGHTS, "that is the weight that is left; the rest grows until it fills 1 again"),
            (1 + DROPPED @ WEIGHTS, "weights grow in proportion: divide by what is left"),
            (1 / (DROPPED @ WEIGHTS), "that divides by what was dropped; divide by what is left"),
        ],
    ),
    Function(
        "6.7 A prefix mask for packed documents · medium",
        right=_visible,
        why="two conditions joined by or, within a document, and positions that count from its own first token",
        call="prefix_mask(document, prefix)",
        cases=[(np.array([0, 0, 0]), [2]), (np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2]), [2, 0, 4])],
        wrong=[
            (lambda d, p: _visible(d, p, own=False), "a prefix is open to its own document, and here all attend to it"),
            (lambda d, p: _visible(d, p, by_column=True), "this counts along the row; a prefix is counted in its text"),
            (lambda d, p: _visible(d, 0 * np.asarray(p)), "this is causal: within the prefix, tokens attend ahead"),
            (lambda d, p: _visible(d, np.asarray(p)[:1].repeat(len(p))), "each document has a prefix of its own"),
            (lambda d, p: _visible(d, np.asarray(p) + 1), "a prefix of 2 is the positions 0 and 1"),
            (lambda d, p: _visible(0 * d, p[:1]), "this is for one text; documents must not attend to one another"),
        ],
    ),
    Array(
        "6.8 Load balance of zig-zag with packing · medium",
        right=_work("zigzag"),
        why="a chunk's work grows with its position in its document, and rank 3 has the start of the second one",
        wrong=[
            (_work("zigzag", (0, 64)), "that is one long text; documents do not attend to one another"),
            (_work("contiguous"), "that is the contiguous cut; zig-zag gives rank r chunks r and 7 − r"),
            (_work("zigzag", ahead=-1), "a query attends to itself as well"),
            (_work("zigzag", ahead=64), "that is without the causal mask"),
            (np.full(4, _work("zigzag").mean()), "that is an equal share, which this cut does not give"),
        ],
    ),
    Function(
        "6.9 Remove keys from a softmax · medium",
        right=_taken,
        why="a sum lost a part, and a mean was weighted: both can be inverted without a single key",
        call="without(o, l, o_a, l_a)",
        cases=[TWO_KEYS, _parts(3, 4, 0.0), _parts(5, 2, 1000.0)],
        wrong=[
            (lambda o, t, a, u: (o - a, t - u), "outputs are means with weights, and log-sum-exps logarithms of sums"),
            (lambda o, t, a, u: (_taken(o, t, a, u)[0], t - u), "the output is right; subtract sums, not logarithms"),
            (
                lambda o, t, a, u: (o - np.exp(u - t)[:, None] * a, _taken(o, t, a, u)[1]),
                "the weights that are left do not add up to 1 yet",
            ),
            (lambda o, t, a, u: _taken(o, 0 * t, a, u - t), "the output is right; add l to its log-sum-exp"),
        ],
    ),
    Number(
        "6.10 A base whose frequencies bfloat16 keeps · hard",
        right=int(BASES[ROUNDED < 1e-12][0]),
        why="frequencies become powers of two, which every binary type holds exactly",
        wrong=[
            (2, "then only a pair 16 would be a power of two, and the last pair is 15"),
            (256, "every second pair is exact with it; the others contain a √2"),
            (2**15, "the exponent of pair 1 is 1/16, not 1/15"),
            (2**32, "it is exact as well: pair 1 has a quarter of the frequency of pair 0; there is a smaller base"),
            (10_000, "that is the usual base, and 15 of its 16 frequencies are rounded"),
        ],
    ),
    Function(
        "6.11 Positions and mask of a tree of drafts · hard",
        right=_tree,
        why="a position is a depth, and a token attends to its ancestors, wherever they are written",
        call="tree(parents, start)",
        cases=[(np.array([-1, 0, 0, 2]), 10), (np.array([-1, 0, 1, 2, 3]), 7), (TREE, 5)],
        wrong=[
            (lambda p, s: (s + np.arange(len(p)), _ancestors(p)), "candidates share a position: it is a depth"),
            (lambda p, s: ((d := _tree(p, s)[0]), d[:, None] >= d), "by positions alone, siblings see one another"),
            (_in_order, "this takes for granted that a parent is written before its child"),
            (lambda p, s: _tree(p, 0), "the mask is right, and positions go on from those of the context"),
            (lambda p, s: (_tree(p, s)[0], _tree(p, s)[1] - np.eye(len(p))), "each token attends to itself as well"),
            (lambda p, s: _tree(p, s - 1), "the context ends at start − 1, and a child of it is one further"),
        ],
    ),
    Choice(
        "6.12 Train at 2,048, serve at 16,384 · hard",
        right=next(letter for letter, new in NEW.items() if not new),
        why=f"every offset from {LAST} on falls into the last bucket, which training had; now measure at 16,384",
        wrong=[
            ("a", f"{AWAY:,} rows of the table would never have been trained"),
            ("b", f"an offset of 5,000 is as new as a position of 5,000: {NEW_PAIRS:.1%} of the pairs are new"),
            ("c", f"the formula has no end, and training has: {SLOW} of 64 pairs get angles out of distribution"),
        ],
    ),
]
