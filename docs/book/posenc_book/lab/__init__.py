"""A small Transformer, questions that need positions, and a text: what the book trains on its pages and in its labs.

Build a model with any encoding of this package, or with your own, and see what it can and cannot learn:

    from posenc.bias.alibi import ALiBi
    from posenc_book.lab import Model, accuracy, copy_back, train

    model = Model(ALiBi(heads=4), tokens=16)
    train(model, copy_back(4))
    accuracy(model, copy_back(4), length=64)

All is small enough for one core of a laptop: a run of one layer takes a few seconds.
"""

from posenc_book.lab.model import Model
from posenc_book.lab.tasks import copy_back, first_token, latest, look_up, named_offset
from posenc_book.lab.text import bits, corpus, passages
from posenc_book.lab.training import accuracy, train

__all__ = [
    "Model",
    "accuracy",
    "bits",
    "copy_back",
    "corpus",
    "first_token",
    "latest",
    "look_up",
    "named_offset",
    "passages",
    "train",
]
