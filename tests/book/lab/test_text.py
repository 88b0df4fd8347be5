"""The text is frozen; passages ask for the next letter; bits are scored on the same letters."""

import hashlib
import math

import pytest
import torch
from torch import nn

from posenc_book.lab import bits, corpus, passages


def exercise(module):
    ids, alphabet = module.corpus()
    module.passages(ids)(2, 8, torch.Generator().manual_seed(0))
    module.bits(Counter(len(alphabet)), ids, 32)


class Counter(nn.Module):
    """Gives every letter the same chance and remembers what it was shown."""

    def __init__(self, letters):
        super().__init__()
        self.letters, self.shown = letters, []

    def forward(self, ids):
        self.shown.append(ids)
        return torch.zeros(*ids.shape, self.letters)


def test_the_corpus_is_text():
    ids, alphabet = corpus()
    assert len(ids) > 300_000
    assert len(set(alphabet)) == len(alphabet)
    assert ids.unique().tolist() == list(range(len(alphabet)))
    text = "".join(alphabet[letter] for letter in ids.tolist())
    assert text.count(" the ") > 1000


def test_the_corpus_is_frozen():
    """What is trained on it stays comparable: whoever changes it trains all labs anew."""
    ids, _ = corpus()
    assert hashlib.sha256(bytes(ids.tolist())).hexdigest()[:16] == "22f6bcd862ff69e2"


def test_passages_ask_for_the_next_letter():
    ids = torch.arange(1000)
    shown, wanted = passages(ids)(50, 20, torch.Generator().manual_seed(0))
    assert shown.shape == wanted.shape == (50, 20)
    assert torch.equal(wanted, shown + 1)
    assert shown[:, 0].unique().numel() > 40


def test_bits_score_the_same_letters_whatever_stands_before_them():
    ids, model = torch.arange(4000) % 51, Counter(51)
    assert bits(model, ids, 64) == pytest.approx(math.log2(51), rel=1e-5)
    assert bits(model, ids, 512) == pytest.approx(math.log2(51), rel=1e-5)
    short, long = (torch.cat([part for part in model.shown if part.shape[1] == n]) for n in (64, 512))
    assert torch.equal(short, long[:, -64:])
    with pytest.raises(ValueError, match="text: context must be from 32 to 512, got 513"):
        bits(model, ids, 513)


def test_bits_are_low_where_the_next_letter_is_known():
    class Knows(nn.Module):
        def forward(self, ids):
            return 100 * nn.functional.one_hot((ids + 1) % 51, 51).double()

    ids = torch.arange(4000) % 51
    assert bits(Knows(), ids, 64) < 1e-6
    assert bits(Knows(), (7 * ids) % 51, 64) > 50
