"""Exercises of Part 1: the position problem and the sinusoidal encoding."""

import math

import numpy as np
import torch

from posenc.add.sinusoidal import kernel, shift_matrix, sinusoidal, wavelengths
from posenc.attention import attention
from posenc.positions import padded_positions
from posenc_book.workbook.functions import Function
from posenc_book.workbook.kinds import Array, Choice, Exercise, Number


def _row(position: float, dim: int, base: float = 10_000.0, order: str = "interleaved") -> np.ndarray:
    return sinusoidal(np.asarray(position), dim, base, order)


def _product(distance: float, dim: int) -> float:
    return float(kernel(np.asarray(distance), dim))


TURN = wavelengths(64)
TWINS, SLOW_TWINS = (int(kernel(np.arange(1, 201), 4, base).argmax()) + 1 for base in (100.0, 10_000.0))
STEP = shift_matrix(1, 6, base=1000.0)
PAIRS = {"a": ("ABC", "BAC"), "b": ("ABC", "ACB"), "c": ("AAB", "AB"), "d": ("AAA", "AA")}


def _last(text: str, layers: int) -> np.ndarray:
    """Return the last token's vector after causal layers without positions."""
    words = torch.randn(3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = words[["ABC".index(letter) for letter in text]][None, None]
    for _ in range(layers):
        x = x + attention(x, x, x, causal=True)
    return x[0, 0, -1].numpy()


def _apart(pair: tuple[str, str], layers: int) -> bool:
    return not np.allclose(_last(pair[0], layers), _last(pair[1], layers))


def _joined(a: np.ndarray, b: np.ndarray, sign: int) -> np.ndarray:
    """Return the row whose angles are those of a plus (sign 1) or minus (sign -1) those of b."""
    joined = (a[1::2] + 1j * a[0::2]) * (b[1::2] + sign * 1j * b[0::2])
    return np.stack([joined.imag, joined.real], axis=-1).ravel()


def _rows(m: float, n: float, dim: int) -> tuple[np.ndarray, np.ndarray]:
    return _row(m, dim), _row(n, dim)


EXERCISES: list[Exercise] = [
    Array(
        "1.1 Six numbers, three clocks · easy",
        right=_row(2, 6, base=1000.0),
        why="the three pairs have the angles 2, 0.2 and 0.02, and each has its sine, then its cosine",
        wrong=[
            (_row(2, 6), "this is base 10,000, and the exercise has base 1,000"),
            (_row(1, 6, base=1000.0), "this is PE(1); positions count from 0, so PE(2) is the third row"),
            (_row(2, 6, base=1e6), "the channel index went into the exponent; the formula wants the pair"),
            (_row(2, 6, base=1000**0.5), "the exponent is 2i/d, and a 2 got lost"),
            (_row(2, 6, 1000.0, "split"), "right numbers, all sines first; here each has its cosine beside it"),
            (_row(2, 6, base=1000.0)[[1, 0, 3, 2, 5, 4]], "sine and cosine are swapped: channel 2i is the sine"),
            (_row(math.radians(2), 6, base=1000.0), "the angles are radians; a calculator in degrees gives this"),
        ],
    ),
    Number(
        "1.2 The first negative cosine · easy",
        right=next(p for p in range(100) if _row(p, 64)[17] < 0),
        why=f"pair 8 has the frequency 0.1, and a quarter of its period is {TURN[8] / 4:.1f} positions",
        wrong=[
            (math.floor(TURN[8] / 4), "there the cosine is still above zero, by a hair: round up"),
            (math.ceil(TURN[8] / 2), "that is half a period, where the cosine is lowest; it crosses zero at a quarter"),
            (math.ceil(TURN[4] / 4), "that is pair 4; pair 8 is channels 16 and 17"),
            (math.ceil(TURN[16] / 4), "that is pair 16; channel 17 is half of pair 8"),
            (math.ceil(90 / 0.1), "a quarter period is π/2 here: the frequency is in radians, not degrees"),
        ],
    ),
    Array(
        "1.3 Three more tokens · easy",
        right=np.arange(37, 37 + 3),
        why="37 tokens have the positions 0 to 36, so the next have 37, 38 and 39",
        wrong=[
            ([0, 1, 2], "these count from the start of the chunk: to the model the text would begin again"),
            ([38, 39, 40], "one too far: the first token has position 0, so 37 tokens end at 36"),
            ([36, 37, 38], "one too early: position 36 is taken by the last token of the cache"),
            ([34, 35, 36], "these positions are taken; the three tokens come after the cache"),
            (37, "that is the position of the first of them; hand in a list of three"),
        ],
    ),
    Number(
        "1.4 Position against token: a ratio of lengths · easy",
        right=0.5**0.5 / (0.02 * 512**0.5),
        why="a channel of PE has the root mean square √½, a scaled embedding 0.02 · √512; the position is longer",
        wrong=[
            (0.5**0.5 / 0.02, "that is without the factor √512"),
            (0.02 * 512**0.5 / 0.5**0.5, "that is token by position; position by token is asked for"),
            (1 / (0.02 * 512**0.5), "a sine and its cosine have the mean square ½, not 1"),
            (0.5 / (0.02 * 512**0.5), "½ is the mean square of a channel; lengths want its root"),
            (0.5**0.5 / (0.02 * 512), "the factor is √d, and d came in"),
        ],
    ),
    Number(
        "1.5 From product to distance · easy",
        right=float(np.linalg.norm(_row(7, 32) - _row(10, 32))),
        why="|a − b|² = |a|² + |b|² − 2 a·b = d − 2K(3), the same at all positions with this offset",
        wrong=[
            (32 - 2 * _product(3, 32), "that is the square of the distance; take the root"),
            (_product(3, 32), "that is the dot product K(3) itself"),
            (_product(3, 32) / 16, "that is the cosine of the angle between the rows"),
            (math.acos(_product(3, 32) / 16), "that is the angle between the rows, in radians"),
            ((2 * 32 - 2 * _product(3, 32)) ** 0.5, "a row has the squared length d/2, not d"),
            ((32 - _product(3, 32)) ** 0.5, "the product counts twice: |a − b|² = |a|² + |b|² − 2 a·b"),
        ],
    ),
    Choice(
        "1.6 What a second layer tells apart · medium",
        right=next(letter for letter, pair in PAIRS.items() if _apart(pair, 2) and not _apart(pair, 1)),
        why="in one layer C has the same bag twice; in the second, only the later of A and B has attended to the other",
        wrong=[
            ("b", "these texts end in different tokens, so one layer tells them apart"),
            ("c", "two A's weigh more in the softmax than one, so one layer tells these apart"),
            ("d", "equal tokens average to themselves at every depth, so no number of layers tells these apart"),
        ],
    ),
    Function(
        "1.7 Shift an encoding · medium",
        right=lambda row, k: shift_matrix(k, len(row)) @ row,
        why="each pair rotated by k·θ, and the position was never needed",
        call="shift(row, k)",
        cases=[(_row(4, 4), 3), (_row(100, 8), -7), (_row(5.5, 64), 2.25)],
        wrong=[
            (lambda row, k: shift_matrix(-k, len(row)) @ row, "it rotates back: the minus sign is at the other sine"),
            (lambda row, k: row + _row(k, len(row)), "adding PE(k) is no shift: angles add up, sines do not"),
            (
                lambda row, k: shift_matrix(k, len(row), order="split") @ row,
                "it pairs channel i with i + d/2; here a sine and its cosine are neighbors",
            ),
            (
                lambda row, k: shift_matrix(k, len(row), base=1e8) @ row,
                "the channel index went into the exponent; the formula wants the pair",
            ),
            (lambda row, k: _row(k, len(row)), "this is PE(k), and forgets where the row was"),
        ],
    ),
    Number(
        "1.8 Sign and size of an offset from one pair · medium",
        right=next(i for i in range(32) if TURN[i] / 4 >= 20),
        why=f"a quarter of the wavelength is {TURN[9] / 4:.1f} for pair 9 and {TURN[8] / 4:.1f} for pair 8: too little",
        wrong=[
            (next(i for i in range(32) if TURN[i] / 2 >= 20), "within half a rotation the sine has fallen again"),
            (next(i for i in range(32) if TURN[i] >= 20), "within a full rotation the sine has even changed its sign"),
            (8, f"pair 8 reaches the top of its sine at {TURN[8] / 4:.1f}, before 20"),
            (18, "that is a channel, and a pair is asked for: each has two channels"),
            (10, "pairs count from 0, and there is one of higher frequency"),
        ],
    ),
    Number(
        "1.9 The most similar position · medium",
        right=TWINS,
        why=f"ten rotations of the fast pair and one of the slow take {20 * math.pi:.2f} positions",
        wrong=[
            (44, "at 44 the fast pair has completed seven rotations, and the slow one none: look at both"),
            (1, "from a neighbor the fast pair differs by a full radian; there is a more similar row"),
            (math.floor(20 * math.pi), "the right moment, and it lies between two positions: take the nearer of them"),
            (126, "after two rotations the misses have doubled; one rotation is closer"),
            (SLOW_TWINS, "this is base 10,000, and the exercise has base 100"),
        ],
    ),
    Function(
        "1.10 Position ids with left padding · medium",
        right=lambda mask: padded_positions(torch.tensor(mask)).numpy(),
        why="every text starts at 0, however much padding is before it",
        call="position_ids(mask)",
        cases=[(np.array([[0, 0, 1, 1, 1]]),), (np.array([[1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]]),)],
        wrong=[
            (lambda mask: np.cumsum(mask, -1), "it counts from 1: the first real token has position 0"),
            (
                lambda mask: np.cumsum(mask, -1) - 1,
                "right for the tokens, and padding gets −1, which in a table is the last row; give it 0",
            ),
            (
                lambda mask: np.arange(mask.shape[1]) + 0 * mask,
                "it counts the padding too: a text would move with its neighbors in the batch",
            ),
            (lambda mask: np.arange(mask.shape[1]) * mask, "padding gets 0, and the texts still start late"),
        ],
    ),
    Array(
        "1.11 Both neighbors at once · hard",
        right=np.diag(STEP + STEP.T),
        why="M₁ + M₋₁ keeps 2 cos θ of each pair; and the largest logit is still the token's own",
        wrong=[
            (np.diag(STEP), "that is one of the two matrices; their sum has twice this"),
            (np.diag(STEP @ STEP), "that is M₂, two steps one after the other; here two logits are added"),
            (np.ones(6), "that attends to the token itself: PE(m) · PE(n) = K(m − n)"),
            (np.diag(shift_matrix(1, 6) * 2), "this is base 10,000, and the exercise has base 1,000"),
            (2 * _row(1, 6, base=1000.0)[0::2].repeat(2), "the sines cancel in M₁ + M₋₁; the cosines stay"),
            (STEP + STEP.T, "that is the matrix; hand in its diagonal, six numbers"),
            ((2 * np.diag(STEP))[0::2], "one number for each channel: a pair has two, and they are equal"),
        ],
    ),
    Function(
        "1.12 The encoding of an offset · hard",
        right=lambda a, b: _joined(a, b, -1),
        why="a sine and a cosine are one complex number, and a · conj(b) has the difference of the angles",
        call="between(a, b)",
        cases=[_rows(5, 3, 4), _rows(3, 5, 4), _rows(1000, 7.5, 64), _rows(-20, 300, 10)],
        wrong=[
            (lambda a, b: _joined(b, a, -1), "this is PE(n − m): the sines have the other sign"),
            (lambda a, b: _joined(a, b, 1), "this is PE(m + n): the angles were added"),
            (lambda a, b: a - b, "subtracting the rows subtracts sines; the angles have to be subtracted"),
            (lambda a, b: a * b, "the products are the right parts; combine them as the addition theorems do"),
            (lambda a, b: _joined(a, b, -1).reshape(-1, 2)[:, ::-1].ravel(), "sine and cosine are swapped"),
            (
                lambda a, b: _joined(a, b, -1).reshape(-1, 2).T.ravel(),
                "right numbers, all sines first; let them alternate",
            ),
        ],
    ),
    Number(
        "1.13 Similarity of neighbors at large width · hard",
        right=_product(1, 2**20) / 2**19,
        rtol=1e-4,
        why="the sum over pairs becomes an integral over the exponent, which no width can lift to 1",
        wrong=[
            (1.0, "the new frequencies of a wider row are spread over the same range, high ones among them"),
            (_product(1, 64) / 32, "that is d = 64; the limit is asked for"),
            (_product(1, 512) / 256, "that is d = 512, and still 0.001 short of the limit"),
            (math.cos(1), "that is the highest frequency alone"),
            (_product(1, 2**20) / 2**20, "divide by the squared length of a row, d/2"),
        ],
    ),
]
