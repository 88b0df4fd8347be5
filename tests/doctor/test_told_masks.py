"""Patients of the doctor that take a mask in one form only, or lengths: each with one fault, beside the sound."""

import pytest
import torch

from posenc.doctor import diagnose
from tests.doctor.cases import ids, rotation

SHAPES = {
    "b11s": lambda mask, t: mask.ndim == 4 and mask.shape[1:3] == (1, 1),
    "b1ts": lambda mask, t: mask.ndim == 4 and mask.shape[1:3] == (1, t),
    "bs": lambda mask, t: mask.ndim == 2,
    "b1s": lambda mask, t: mask.ndim == 3 and mask.shape[1] == 1,
}
SPREAD = {"b11s": ..., "b1ts": ..., "bs": (slice(None), None, None), "b1s": (slice(None), None)}
MEANS = {
    "bool": lambda mask: mask.dtype == torch.bool,
    "whole": lambda mask: not mask.dtype.is_floating_point and mask.dtype != torch.bool,
    "added": lambda mask: mask.dtype.is_floating_point,
}


def hides(mask, means):
    return mask < 0 if means == "added" else mask == 0


def only(shape, means, hidden=hides, places=None):
    """Return an attention that takes one form of masks, and calls nothing hidden that `hidden` does not."""

    def fn(q, k, v, mask=None):
        t = torch.arange(k.shape[2])
        seen = torch.ones(len(q), 1, 1, len(t)).bool()
        if mask is not None:
            assert MEANS[means](mask), "another dtype"
            assert SHAPES[shape](mask, q.shape[2]), "another shape"
            assert len(mask) == len(q), "another number of texts"
            seen = ~hidden(mask, means)[SPREAD[shape]]
        if places:
            t = places(seen[:, :, -1].long())
        q, k = rotation(q, t[..., -q.shape[2] :]), rotation(k, t)
        logits = q @ k.mT / q.shape[3] ** 0.5
        return logits.masked_fill(~seen, -1e9).softmax(-1) @ v

    return fn


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_form_of_masks_is_enough(shape, means):
    report = diagnose(only(shape, means), dim=16, heads=3)
    assert report.finding("padding").verdict == "ok", str(report)
    assert report.healthy


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_mask_that_hides_what_is_seen(shape, means):
    report = diagnose(only(shape, means, lambda mask, means: ~hides(mask, means)), dim=16, heads=3)
    assert report.finding("padding").verdict in ("wrong", "note"), str(report)


def nothing(mask, means):
    return torch.zeros_like(mask).bool()


def but_the_last(mask, means):
    """Padding is taken to stand on the right."""
    return hides(mask, means).flip(-1)


def but_one(mask, means):
    """The first real token is hidden too."""
    return hides(mask, means) | hides(mask, means).roll(1, -1)


@pytest.mark.parametrize("hidden", [nothing, but_the_last, but_one])
def test_a_mask_that_hides_too_little_or_too_much(hidden):
    report = diagnose(only("bs", "bool", hidden), dim=16, heads=3)
    assert report.finding("padding").verdict in ("wrong", "note"), str(report)


def of_texts(in_turn=False, more=0, less=0):
    """Return an attention that takes the lengths of texts."""

    def fn(q, k, v, lengths=None):
        logits = q @ k.mT / q.shape[3] ** 0.5
        if lengths is not None:
            lengths = lengths + more - less
            each = lengths.repeat(q.shape[1]) if in_turn else lengths.repeat_interleave(q.shape[1])
            beyond = torch.arange(k.shape[2]) >= each.view(len(q), q.shape[1], 1, 1)
            logits = logits.masked_fill(beyond, -1e9)
        return logits.softmax(-1) @ v

    return fn


@pytest.mark.parametrize(
    ("given", "causes"),
    [
        ({}, set()),
        ({"in_turn": True}, {"rows-mixed"}),
        ({"more": 1}, {"rows-mixed"}),
        ({"more": 5}, {"mask-ignored"}),
        ({"less": 1}, set()),
    ],
)
def test_lengths_of_texts(given, causes):
    assert ids(diagnose(of_texts(**given), dim=16, heads=3)) == causes
