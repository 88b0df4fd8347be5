"""Where a layer with a bug is right, against places and counts in torch."""

import numpy as np
import pytest
import torch

from tests.scripts.javascript import Script, assert_close

WARD = Script("math/patients.js")
LENGTH = 150
BUGS = {
    "bits": lambda p, size: rounded(p.double(), size),
    "rows": lambda p, size: p.clamp(max=size - 1),
    "chunks": lambda p, size: p % size,
    "writing": lambda p, size: torch.where(size > p, p, 0),
    "pads": lambda p, size: p + 3,
    "twice": lambda p, size: p,
    "base": lambda p, size: p,
}


def rounded(p, bits):
    part, power = torch.frexp(p)
    return torch.ldexp((part * 2.0**bits).round() / 2.0**bits, power)


def expected_places(bug, size, length=LENGTH):
    """Where queries and keys stand, and in what share of texts."""
    p = torch.arange(length)
    queries = BUGS[bug](p, size).double()
    keys = {bug: queries, "pads": p.double(), "twice": 2.0 * p}[bug]
    return queries, keys, 1 / size if bug == "pads" else 1


def chances(bug, size, length, back, window, letters):
    """Property 2, from token `back` on."""
    queries, keys, sick = expected_places(bug, size, length)
    p = torch.arange(length)
    apart = p[:, None] - p
    stands = (queries[:, None] - keys == back) & (apart >= 0) & (apart < window)
    hit = stands[p[back:], p[back:] - back] / stands.sum(dim=1)[back:].clamp(min=1).double()
    return (1 - sick + sick * (hit + (1 - hit) / letters)).numpy()


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.parametrize("size", [3, 4, 6, 7, 8])
def test_places(bug, size):
    actual = WARD("places(bug, size, length)", bug=bug, size=size, length=LENGTH)
    queries, keys, sick = expected_places(bug, size)
    assert actual == {"queries": queries.tolist(), "keys": keys.tolist(), "sick": sick}


def test_eight_bits_are_those_of_bfloat16():
    actual = WARD('places("bits", 8, 2000)', bug="bits")["queries"]
    assert actual == torch.arange(2000).bfloat16().tolist()


@pytest.mark.parametrize("bug", BUGS)
def test_expected_answers(draw, bug):
    size, back, window, letters = (int(draw.integers(*ends)) for ends in ((3, 60), (1, 7), (8, 40), (2, 30)))
    size = min(size, 8) if bug == "bits" else size
    inputs = {"bug": bug, "size": size, "length": LENGTH, "back": back, "window": window, "letters": letters}
    ours = WARD("expected(places(bug, size, length), back, window, letters)", **inputs)
    assert_close(ours, chances(**inputs))
    own_means, other_means = (WARD("means(x, 4)", x=x) for x in (ours, draw.random(LENGTH).tolist()))
    assert_close(own_means, np.reshape(ours[: len(own_means) * 4], (-1, 4)).mean(axis=1))
    gap = np.abs(np.subtract(own_means, other_means[: len(own_means)])).mean()
    assert_close(WARD("apart(a, b)", a=own_means, b=other_means), gap)
