"""What real tables of positions hold: circles in MiniLM's and Whisper's rows, and how little of order an encoder needs.

Key:   n rows, c width of a row, f frequencies in cycles over the table
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_book.real.encoder import Encoder
from posenc_book.real.packages import MINILM, WHISPER, path_of
from posenc_book.real.texts import prose
from posenc_book.real.whisper import whisper_tables

MINILM_BANDS = [(1, 2), (2, 5), (7, 13), (24, 33), (70, 95)]  # cycles over the rows, from and to
CLS, SEP = 101, 102  # the tokens that open and close a text
WHISPER_BANDS = [(1, 2), (5, 8), (9, 13), (19, 25), (33, 39)]


@cache
def encoder() -> Encoder:
    """Return MiniLM."""
    return Encoder(path_of(MINILM))


TABLES: dict[str, Callable[[], tuple[np.ndarray, list[tuple[int, int]]]]] = {
    # row 0 is that of [CLS], and the last was hardly trained
    "MiniLM": lambda: (encoder().positions.weight.detach().double().numpy()[1:511], MINILM_BANDS),
    "Whisper's decoder": lambda: (whisper_tables(path_of(WHISPER))["decoder"][4:224], WHISPER_BANDS),
    "random walk": lambda: (np.random.default_rng(0).normal(size=(510, 384)).cumsum(axis=0), MINILM_BANDS),
    "random walk without its jump": lambda: (_closed(TABLES["random walk"]()[0]), MINILM_BANDS),
    "white noise": lambda: (np.random.default_rng(0).normal(size=(510, 384)), MINILM_BANDS),
}


def _closed(rows: np.ndarray) -> np.ndarray:
    """Return rows (n, c) less the straight line from the first to the last."""
    return rows - np.linspace(0, 1, len(rows))[:, None] * (rows[-1] - rows[0])


def table(name: str) -> dict[str, Any]:
    """Return what a table, or one made at random, holds in each band, and how well its rows can be read linearly."""
    rows, bands = TABLES[name]()
    spectrum = np.abs(np.fft.rfft(rows - rows.mean(axis=0), axis=0)) ** 2
    similar = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = {str(n): (similar[:-n] * similar[n:]).sum(axis=1).mean() for n in (1, 2, 4, 8, 16, 32, 64)}
    return {
        "bands": [{"from": low, "to": high, **circle(rows, low, high)} for low, high in bands],
        "power": (spectrum.sum(axis=1) / spectrum.sum()).tolist(),
        "cosine": cosines,
        "reading error": reading_error(rows),
    }


def circle(rows: np.ndarray, low: int, high: int) -> dict[str, Any]:
    """Return what frequencies `low` to `high` hold of the `rows` (n, c), and the plane in which they turn.

    Returns:
        energy: share of the band in that of all rows, less their mean.
        two: share of the two largest components in the band: near 1 for a circle.
        spread: deviation of the radius in their plane, over its mean: 0 for a circle.
        turns: how often the point goes round from the first row to the last.
        point: the rows in that plane, (n, 2), in units of the mean radius.
    """
    centered = rows - rows.mean(axis=0)
    spectrum = np.fft.rfft(centered, axis=0)  # (f, c)
    spectrum[:low], spectrum[high + 1 :] = 0, 0
    band = np.fft.irfft(spectrum, n=len(rows), axis=0)  # (n, c)
    # The two strongest directions of the band span the plane in which a circle would lie.
    components, sizes, _ = np.linalg.svd(band, full_matrices=False)
    point = components[:, :2] * sizes[:2]  # (n, 2)
    radius = np.hypot(point[:, 0], point[:, 1])
    angle = np.unwrap(np.arctan2(point[:, 1], point[:, 0]))
    return {
        "energy": (band**2).sum() / (centered**2).sum(),
        "two": (sizes[:2] ** 2).sum() / (sizes**2).sum(),
        "spread": radius.std() / radius.mean(),
        "turns": abs(angle[-1] - angle[0]) / (2 * np.pi),
        "point": (point / radius.mean()).round(2).tolist(),
    }


def reading_error(rows: np.ndarray, folds: int = 10, penalty: float = 1e-3) -> float:
    """Return by how many rows ridge regression misses a row's number, on the rows that it was not fitted to."""
    # Scaled, so that one penalty suits all tables; the ones fit the mean.
    x = np.hstack([rows / rows.std(), np.ones((len(rows), 1))])
    number = np.arange(len(rows), dtype=float)
    fold = np.random.default_rng(0).permutation(len(rows)) % folds
    errors = []
    for held in range(folds):
        fit, ask = x[fold != held], x[fold == held]
        weight = np.linalg.solve(fit.T @ fit + penalty * len(fit) * np.eye(x.shape[1]), fit.T @ number[fold != held])
        errors.append(np.abs(ask @ weight - number[fold == held]))
    return float(np.concatenate(errors).mean())


def sines(exponent: str) -> dict[str, float]:
    """Return by how much Whisper's encoder table differs at most from sines in one half and cosines in the other.

    `exponent` is "d/2 - 1", by which its code divides, or "d/2", as in "Attention Is All You Need".
    """
    encoder_table = whisper_tables(path_of(WHISPER))["encoder"]
    half = encoder_table.shape[1] // 2
    divisor = half - 1 if exponent == "d/2 - 1" else half
    angle = np.outer(np.arange(len(encoder_table)), 10_000.0 ** (-np.arange(half) / divisor))
    return {"difference": float(np.abs(encoder_table - np.hstack([np.sin(angle), np.cos(angle)])).max())}


# Order


SENTENCES = [
    ("dog bites man", "man bites dog"),
    ("the teacher taught the student", "the student taught the teacher"),
    ("Alice paid Bob", "Bob paid Alice"),
    ("a flight from London to Paris", "a flight from Paris to London"),
    ("a red car on a blue road", "a blue car on a red road"),
    ("she only eats fish", "only she eats fish"),
]
SAME_MEANING = [
    ("dog bites man", "a man is bitten by a dog"),
    ("the teacher taught the student", "the student was taught by the teacher"),
    ("Alice paid Bob", "Bob was paid by Alice"),
    ("a flight from London to Paris", "a flight to Paris from London"),
]
WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "as trained": lambda rows: rows,
    "zero": torch.zeros_like,
    "shuffled": lambda rows: rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))],
    "moved by 1": lambda rows: rows.roll(-1, dims=0),
    "moved by 64": lambda rows: rows.roll(-64, dims=0),
    "moved by 256": lambda rows: rows.roll(-256, dims=0),
}


def order(way: str) -> dict[str, Any]:
    """Return the cosine of the two sentences of each pair, and that of each first one with itself as trained.

    For scale, "same meaning" is the cosine of sentences in other words, and "unrelated" that of two first sentences.
    """
    whole = [encoder().sentence(first) for first, _ in SENTENCES]
    with _rows(WAYS[way]):
        both, meant = (
            [(encoder().sentence(first), encoder().sentence(second)) for first, second in pairs]
            for pairs in (SENTENCES, SAME_MEANING)
        )
    return {
        "sentences": SENTENCES,
        "cosine": [float(first @ second) for first, second in both],
        "difference": [float((first - second).abs().max()) for first, second in both],
        "same meaning": [float(first @ second) for first, second in meant],
        "unrelated": [float(one @ other) for (one, _), (other, _) in combinations(both, 2)],
        "with itself": [float(first @ before) for (first, _), before in zip(both, whole, strict=True)],
    }


@contextmanager
def _rows(change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Put other rows into the table for a while."""
    weight = encoder().positions.weight
    before = weight.data
    weight.data = change(before.clone())
    try:
        yield
    finally:
        weight.data = before


# Beyond the table


PAST_THE_END: dict[str, Callable[[Tensor, int], Tensor]] = {
    "interpolated": lambda rows, t: _interpolated(rows, t),
    "interpolated behind row 0": lambda rows, t: torch.cat([rows[:1], _interpolated(rows[1:], t - 1)]),
    "table twice": lambda rows, t: rows.repeat(-(-t // len(rows)), 1)[:t],
    "last row again": lambda rows, t: torch.cat([rows, rows[-1:].expand(t - len(rows), -1)]),
    "random rows": lambda rows, t: torch.cat([rows, _random(rows, t - len(rows))]),
    "zeros": lambda rows, t: torch.cat([rows, rows.new_zeros(t - len(rows), rows.shape[1])]),
}


def _interpolated(rows: Tensor, count: int) -> Tensor:
    return F.interpolate(rows.T[None], count, mode="linear", align_corners=True)[0].T


def _random(rows: Tensor, count: int) -> Tensor:
    noise = torch.randn(count, rows.shape[1], generator=torch.Generator().manual_seed(0))
    return rows[1:].mean(dim=0) + noise * rows[1:].std(dim=0)


def beyond(way: str, count: int = 8, length: int = 1020) -> dict[str, Any]:
    """Return the cosine of passages twice as long as the table with their halves' mean, each half read alone."""
    ids = encoder().tokenizer.encode(prose(), add_special_tokens=False).ids
    starts = np.linspace(0, len(ids) - length, count).astype(int)
    passages = [ids[start : start + length] for start in starts]
    halves = [_vector(passage[: length // 2]) + _vector(passage[length // 2 :]) for passage in passages]
    with _rows(lambda rows: PAST_THE_END[way](rows, length + 2)):
        wholes = [_vector(passage) for passage in passages]
    return {"cosine": [float(F.cosine_similarity(w, h, dim=0)) for w, h in zip(wholes, halves, strict=True)]}


def _vector(ids: list[int]) -> Tensor:
    """Return the unit vector (c,) of tokens between [CLS] and [SEP]."""
    row = torch.tensor([[CLS, *ids, SEP]])
    return F.normalize(encoder().hidden(row)[0].mean(dim=0), dim=0)
