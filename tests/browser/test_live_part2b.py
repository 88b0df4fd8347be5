"""The live figures of the chapter on relative encodings show the package's numbers."""

import re
from fractions import Fraction
from math import factorial

import numpy as np
import pytest
import torch

from posenc.add.sinusoidal import sinusoidal
from posenc.bias.t5 import T5, t5_bucket
from posenc.rotate.rope import RoPE
from posenc.score.deberta import DeBERTa
from posenc.score.shaw import Shaw
from posenc.score.transformer_xl import TransformerXL
from tests.browser.live import awake, said

pytestmark = pytest.mark.full

PAGE = "chapters/2-learned/from-absolute-to-relative/"


def _best(n, tokens=16):
    """Return the expected share of the commonest of n random tokens, in whole numbers."""

    def ways(most):
        bags = [Fraction(1)] + n * [Fraction(0)]
        for _ in range(tokens):
            bags = [sum(bags[i - j] / factorial(j) for j in range(min(i, most) + 1)) for i in range(n + 1)]
        return bags[n] * factorial(n) / tokens**n

    return float(sum(1 - ways(most) for most in range(n)) / n)


def _expected(offsets, back, **setting):
    """Return the bucket, the range and the best accuracy of a figure that shows `offsets`, query minus key."""
    row = t5_bucket(-offsets, **setting)
    shared = offsets[row == t5_bucket([-back], **setting)]
    return (
        str(t5_bucket([-back], **setting)[0]),
        {str(abs(shared[0])), str(abs(shared[-1]))},
        f"{_best(len(shared)):.2f}",
    )


def _read(line):
    bucket, first, last, best = re.search(r"bucket (\d+), .* of (\d+) to (\d+) .* in (\d\.\d\d) of", line).groups()
    return bucket, {first, last}, best


def test_the_staircase_tells_the_bucket_and_its_price(site, visit):
    figure = awake(visit(site + PAGE).page, "t5-staircase")
    assert "bucket 15 to itself" in said(figure)
    offset, buckets = figure.get_by_role("slider", name="offset Δ"), figure.get_by_role("slider", name="buckets")
    offset.press("ArrowRight")
    back = np.arange(160)
    assert _read(said(figure)) == _expected(back, 16, bidirectional=False)
    figure.get_by_role("button", name="the small T5").click()
    assert _read(said(figure)) == _expected(back, 12, buckets=16, max_distance=64, bidirectional=False)
    offset.press("End")
    farthest = np.flatnonzero(t5_bucket(-back, 16, 64, bidirectional=False) == 15)
    assert f"all of {farthest[0]} and more back: a bag of {len(farthest)} letters if the text" in said(figure)
    for _ in range(4):
        buckets.press("ArrowRight")
    figure.get_by_label("both ways").press("Space")
    said(figure)  # the slider has its new end
    offset.press("Home")
    for _ in range(140):
        offset.press("ArrowRight")
    assert _read(said(figure)) == _expected(np.arange(-159, 160), -19, buckets=24, max_distance=64)


def _logits(name, module, q, k, p, w_q, w_k):
    """Return the logits of one method, as the chapter adds them up."""
    if name == "added":
        seat = torch.from_numpy(sinusoidal(p.numpy(), 16))
        q, k, score = q + seat @ w_q, k + seat @ w_k, 0
    elif name == "RoPE":
        (q, k), score = module(q, k, p), 0
    else:
        score = module(p) if name == "T5" else module(q, k, p)
    return q @ k.mT / 4 + score


@torch.no_grad()
def _changed(start, step):
    """Return how many of each method's four maps change from places 0, 1, … to these."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 2, 16, dtype=torch.float64)[..., [0] * 6 + [1] * 6, :]
    w_q, w_k = torch.randn(2, 16, 16, dtype=torch.float64)
    methods = {
        "added": None,
        "Shaw": Shaw(16, clip=5),
        "Transformer-XL": TransformerXL(16, heads=1),
        "DeBERTa": DeBERTa(16, heads=1, buckets=8, max_distance=16),
        "T5": T5(heads=1, buckets=16, max_distance=12),
        "RoPE": RoPE(16),
    }
    found = {}
    for name, module in methods.items():
        for parameter in module.parameters() if module else ():
            torch.nn.init.normal_(parameter)
        parts = []
        for p in (torch.arange(12), start + step * torch.arange(12)):
            mute = torch.zeros_like(q)
            contents = (q, k), (q, mute), (mute, k), (mute, mute)
            whole, asked, offered, places = (_logits(name, module, *pair, p, w_q, w_k) for pair in contents)
            parts.append([whole - asked - offered + places, asked - places, offered - places, places])
        changed = sum((one - other).abs().max().item() > 1e-4 for one, other in zip(*parts, strict=True))
        found |= {name: changed} if changed else {}
    return found


@pytest.mark.parametrize(("slider", "start", "step"), [("first place", 100, 1), ("neighbors apart", 0, 3)])
def test_the_maps_that_move_are_those_that_hear_a_place(site, visit, slider, start, step):
    figure = awake(visit(site + PAGE).page, "four-terms")
    assert said(figure).endswith("…: none yet.")
    figure.get_by_label(slider).press("End")
    told = re.findall(r"(\d) of ([\w-]+)", said(figure))
    assert {name: int(count) for count, name in told} == _changed(start, step)
