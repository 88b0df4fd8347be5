"""Exercises of Part 3: rotary positions, from one pair to several axes."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from posenc.rotate.frequencies import llama3, rope_frequencies, softmax_scale
from posenc.rotate.rope import rope
from posenc_book.workbook.functions import Function
from posenc_book.workbook.kinds import Array, Choice, Exercise, Number

Turn = Callable[[np.ndarray, float], np.ndarray]
SMALL, HANDS = np.array([[3.0, 4.0, 1.0, 2.0]]), np.array([math.pi / 2, math.pi / 6])
HEAD, PART, LENGTH = 80, 0.4, 131_072  # Phi-2's heads, and how much of them turns; the length of Llama 3.1
OLD, SINKS = np.array([0, 1, 2, 3, 96, 97, 98, 99]), 4
AT, SLOWEST = np.arange(6), (LENGTH / (2 * math.pi)) ** (64 / 63)
LLAMA = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_length": 8192, "base": 500_000.0}


def _noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[-1]).standard_normal(shape)


def _small(positions: float, theta: np.ndarray = HANDS, layout: str = "interleaved") -> np.ndarray:
    return rope(SMALL, np.array([positions]), theta=theta, layout=layout)[0]


def _turner(layout: str, back: bool = False, rotary_dim: int | None = None) -> Turn:
    """Return a black box that turns one vector to a position, named as it is shown in a verdict."""

    def turn(x: np.ndarray, positions: float) -> np.ndarray:
        return rope(x[None], np.array([-positions if back else positions]), layout=layout, rotary_dim=rotary_dim)[0]

    turn.__name__ = layout
    return turn


def _beside(turn: Turn, dim: int, channel: int = 0, largest: Callable[..., np.ndarray] = np.abs) -> int:
    turned = largest(turn(np.eye(dim)[channel], 1.0))
    turned[channel] = -np.inf
    return int(turned.argmax())


def _seen(base: float = 10_000.0, ahead: int = 0, query: int = 1, key: int = 1) -> bool:
    """Return whether scores change when all of a text moves by 100, in a program with these settings."""
    q, k = _noise(6, 8), _noise(6, 9)[:, :8]
    here, there = (rope(q, query * (p + ahead), base) @ rope(k, key * p, base).T for p in (AT, AT + 100))
    return not np.allclose(here, there)


FAULTS = {"a": _seen(base=1000.0), "b": _seen(ahead=1), "c": _seen(query=-1, key=-1), "d": _seen(key=-1)}


def _longer(old: float, new: float, dim: int) -> np.ndarray:
    return rope_frequencies(dim, old)[0] / rope_frequencies(dim, new)[0]


def _kinds(base: float = 500_000.0, original: float = 8192) -> list[int]:
    """Return how many pairs Llama 3.1 keeps, blends and divides by the factor."""
    settings: dict[str, Any] = LLAMA | {"base": base, "original_length": original}
    slower = rope_frequencies(128, base)[0] / llama3(128, **settings)[0]
    kept, divided = np.isclose(slower, 1).sum(), np.isclose(slower, 8).sum()
    return [int(kept), int(64 - kept - divided), int(divided)]


def _merged(keys: int, base: float = 10_000.0) -> np.ndarray:
    """Return the length of each pair in the mean of rotated copies of a key whose pairs have length 1."""
    copies = np.tile(np.repeat([1.0, 0.0], 64), (keys, 1))
    mean = rope(copies, np.arange(keys), base).mean(axis=0)
    return np.hypot(mean[:64], mean[64:])


def _rms(lengths: np.ndarray) -> float:
    return float(np.sqrt((lengths**2).mean()))


SHARE = np.linspace(0, 1, 201)
CORNERS = float(np.minimum(np.outer(SHARE, SHARE), np.outer(1 - SHARE, 1 - SHARE)).max())
PAIRS = _merged(16)


def _rotated(dim: int, position: int) -> tuple[np.ndarray, np.ndarray]:
    """Return content and what becomes of it at a position, in bfloat16."""
    x = _noise(1, dim)
    return x[0], torch.tensor(rope(x, np.array([position]))[0]).bfloat16().double().numpy()


def _clocks(x: np.ndarray, y: np.ndarray, layout: str = "half", sign: int = 1) -> int:
    places = np.arange(1000)
    return int(((rope(np.tile(x, (1000, 1)), sign * places, layout=layout) - y) ** 2).sum(axis=1).argmin())


def _one_clock(x: np.ndarray, y: np.ndarray, pair: int) -> int:
    half, theta = len(x) // 2, rope_frequencies(len(x))[0][pair]
    one, other = complex(x[:half][pair], x[half:][pair]), complex(y[:half][pair], y[half:][pair])
    return round(float(np.angle(other / one)) % (2 * math.pi) / theta)


EXERCISES: list[Exercise] = [
    Array(
        "3.1 Rotate two pairs · easy",
        right=_small(3),
        why="the one pair rotates by three times 90 degrees, the other by three times 30, and lengths stay",
        wrong=[
            (_small(-3), "both pairs rotated backward; a pair rotates from its first channel toward its second"),
            (_small(3, layout="half"), "here channels 0 and 2 were paired; the exercise pairs neighbors"),
            (_small(1), "that is position 1; at 3 each angle is three times as large"),
            (_small(3, HANDS[[0, 0]]), "each pair has its own frequency"),
        ],
    ),
    Number(
        "3.2 The partner of channel 5 · easy",
        right=_beside(_turner("half", rotary_dim=int(PART * HEAD)), HEAD, 5),
        why=f"{int(PART * HEAD)} channels rotate, and a pair is half of them apart",
        wrong=[
            (5 + HEAD // 2, "that is half a head further; but only a part of the head rotates, and pairs lie in it"),
            (4, "neighbors are paired in the interleaved layout; this one is half"),
            (5 + int(PART * HEAD), "that channel does not rotate: it comes after the part that does"),
            (int(PART * HEAD) - 1 - 5, "the second half is not mirrored; its first channel goes with channel 0"),
        ],
    ),
    Array(
        "3.3 Rotate cached keys to new positions · easy",
        right=np.arange(len(OLD)) - OLD,
        why="R at the new position times R at the old one, undone, is R at the difference, and the first four stay",
        wrong=[
            (OLD - np.arange(len(OLD)), "these have the wrong sign: subtract the old positions from the new ones"),
            (np.arange(len(OLD)), "these are the new positions; the keys have been rotated before"),
            (-92 * np.ones(8), "the first four keep their positions"),
            (np.where(OLD < SINKS, 0, -96), "that gives the later four the positions of the first"),
        ],
    ),
    Choice(
        "3.4 What a test of shift invariance finds · easy",
        right=next(letter for letter, seen in FAULTS.items() if seen),
        why="its angles add up instead of canceling, so its logits depend on the sum of two positions",
        wrong=[
            ("a", "with another base the angles are others, and still they cancel when both move"),
            ("b", "each offset is one too large, before the move and after it"),
            ("c", "both rotate backward, so the logit at Δ is that of −Δ, at all positions"),
        ],
    ),
    Function(
        "3.5 The wavelengths of a larger base · easy",
        right=_longer,
        why="pair 0 keeps its wavelength, and the last one grows by almost the ratio of the bases",
        call="longer(old, new, dim)",
        cases=[(100.0, 10_000.0, 4), (10_000.0, 1_000_000.0, 128), (500_000.0, 10_000.0, 10)],
        wrong=[
            (lambda b, c, d: np.full(d // 2, c / b), "no wavelength grows so much, and that of pair 0 not at all"),
            (lambda b, c, d: 1 / _longer(b, c, d), "that is the ratio of frequencies; that of wavelengths is asked"),
            (lambda b, c, d: _longer(b, c, d) ** 2, "the channel index went into the exponent; it wants the pair"),
            (lambda b, c, d: _longer(b, c, d) ** 0.5, "the exponent is 2i/d, and a 2 got lost"),
            (lambda b, c, d: (c / b) ** np.linspace(0, 1, d // 2), "the last pair's exponent is (d − 2)/d, short of 1"),
            (lambda b, c, d: np.repeat(_longer(b, c, d), 2), "one number for each pair, not for each channel"),
        ],
    ),
    Number(
        "3.6 The smallest base for a context length · medium",
        right=SLOWEST,
        rtol=2e-4,
        why="the last pair has the exponent 126/128, so the length over 2π is raised to 64/63",
        wrong=[
            (LENGTH / (2 * math.pi), "almost: the lowest frequency is not 1/b, but a little higher"),
            ((LENGTH / (2 * math.pi)) ** (63 / 64), "that is 64/63 the other way up: the last frequency is above 1/b"),
            (LENGTH ** (64 / 63), "a rotation is 2π radians, so the wavelength in positions is 2π/θ"),
            (500_000, "that is Llama's own; a far smaller base is enough for this"),
        ],
    ),
    Array(
        "3.7 Llama 3.1 keeps, blends and divides frequencies · medium",
        right=_kinds(),
        why=f"the rotations fall by {1 - LLAMA['base'] ** (-1 / 64):.0%} from pair to pair, so few lie between 4 and 1",
        wrong=[
            (_kinds(base=10_000.0), "that is base 10,000, and the file says 500,000"),
            (_kinds(original=LENGTH), "rotations are counted in the original length, 8,192"),
            (_kinds(original=8192 * 2 * math.pi), "a rotation is 2π radians: divide the angle by that"),
        ],
    ),
    Function(
        "3.8 The layout of a black box · medium",
        right=_beside,
        why="channel 0 alone goes in, and what comes out beside it is its partner, whatever layout is inside",
        call="partner(rotate, dim)",
        cases=[
            *((_turner("half"), 8), (_turner("interleaved"), 8), (_turner("half", rotary_dim=4), 16)),
            *((_turner("half", back=True), 8), (_turner("interleaved", back=True), 12)),
        ],
        wrong=[
            (lambda turn, dim: dim // 2, "right for one layout, if the whole head rotates; test the black box"),
            (lambda turn, dim: 1, "right for the interleaved layout; test the black box"),
            (lambda turn, dim: _beside(turn, dim, largest=np.asarray), "a backward rotation makes it negative"),
            (lambda turn, dim: dim // 2 if _beside(turn, dim) > 1 else 1, "perhaps only a part of the head rotates"),
        ],
    ),
    Number(
        "3.9 The softmax scale of DeepSeek-V3 · medium",
        right=softmax_scale(128 + 64, factor=40),
        why="all 192 channels are in the product, and YaRN's factor counts for query and for key",
        wrong=[
            (192**-0.5, "that is without YaRN's factor"),
            (192**-0.5 * (0.1 * math.log(40) + 1), "query and key both carry the factor, so it comes in squared"),
            (softmax_scale(64, factor=40), "that is the rotated part; the product runs over the whole head"),
            (192**-0.5 * (0.1 * math.log10(40) + 1) ** 2, "the logarithm is natural"),
        ],
    ),
    Number(
        "3.10 The mean of sixteen rotated keys · hard",
        right=_rms(PAIRS),
        why="slow pairs hardly rotate in 16 positions, and fast ones average to almost nothing",
        wrong=[
            (float(PAIRS.mean()), "that is the mean of the pairs' lengths; the length of a vector adds up squares"),
            (0.25, "that is the root of 1/16, as for random directions; slow pairs stay together"),
            (_rms(_merged(16, 500_000.0)), "that is base 500,000, and the exercise has 10,000"),
            (_rms(_merged(17)), "that is 17 keys: 16 positions are 15 steps"),
        ],
    ),
    Number(
        "3.11 Two patches on a diagonal under axial RoPE · hard",
        right=CORNERS,
        why="a weight is a row's share times a column's, so two other patches get as much as these two",
        wrong=[
            (0.5, "a head that selects rows 0 and 5 and columns 0 and 5 selects more than two patches"),
            (1.0, "two patches shall have the same weight, and all weights together are 1"),
            (1 / 3, "count again which patches lie in one of the rows and in one of the columns"),
            (1 / 16**2, "that is the even spread; the head can do much better"),
        ],
    ),
    Function(
        "3.12 The position of a rotated vector · hard",
        right=_clocks,
        why="slow pairs give the position roughly, fast ones exactly, and together they average out the rounding",
        call="position(x, y)",
        cases=[_rotated(8, 3), _rotated(16, 417), _rotated(64, 998), _rotated(128, 0), _rotated(12, 701)],
        wrong=[
            (lambda x, y: _one_clock(x, y, -1), "rounding shifts what the slowest pair says by several positions"),
            (lambda x, y: _one_clock(x, y, 0), "the fastest pair alone gives the position up to full rotations"),
            (lambda x, y: _clocks(x, y, "interleaved"), "here neighbors were paired; the layout is half"),
            (lambda x, y: _clocks(x, y, sign=-1), "this rotates backward"),
        ],
    ),
]
