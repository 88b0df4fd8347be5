"""A text that comes with Python, as a task, and how well a model reads it with more context than it has seen.

Key:   b batch, t tokens
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from posenc_book.lab.tasks import Task


def corpus() -> tuple[Tensor, str]:
    """Return the help pages of Python, as ids (n,), and the alphabet: letters, digits, spaces and common signs.

    It is the text behind `help("for")`, about 400,000 letters, which other versions of Python word a bit differently.

    Examples:
        >>> ids, alphabet = corpus()
        >>> "".join(alphabet[i] for i in ids[:24])
        'the "assert" statement *'
    """
    from pydoc_data.topics import topics

    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789 .,;:()[]'\"=_-*"
    code = {letter: number for number, letter in enumerate(alphabet)}
    words = " ".join(topics[name] for name in sorted(topics)).lower().split()
    text = "".join(letter for letter in " ".join(words) if letter in code)
    return torch.tensor([code[letter] for letter in text]), alphabet


def passages(ids: Tensor) -> Task:
    """Return the task "which letter comes next?" in passages of `ids` (n,).

    Examples:
        >>> ids, target = passages(torch.arange(100))(1, 3, Generator())
        >>> target - ids
        tensor([[1, 1, 1]])
    """

    def task(batch: int, length: int, generator: Generator) -> tuple[Tensor, Tensor]:
        start = torch.randint(len(ids) - length, (batch, 1), generator=generator)  # (b, 1)
        drawn = ids[start + torch.arange(length + 1)]
        return drawn[:, :-1], drawn[:, 1:]

    return task


@torch.no_grad()
def bits(model: nn.Module, ids: Tensor, context: int, scored: int = 32, texts: int = 96, room: int = 512) -> float:
    """Return the bits that `model` needs for each of the same `scored` letters, given `context` letters in all.

    The letters scored do not change with `context`: only how much stands before them. `room` is the largest context
    that is to be compared.

    Raises:
        ValueError: If `context` is larger than `room`, or holds fewer letters than are scored.

    Examples:
        >>> round(bits(lambda ids: torch.zeros(*ids.shape, 8), torch.arange(1000) % 8, context=32), 6)  # a guess of 8
        3.0
    """
    if not scored <= context <= room:
        raise ValueError(
            f"text: context must be from {scored} to {room}, got {context}; room= and scored= change these"
        )
    ends = torch.linspace(room, len(ids) - 2, texts).long()  # (b,)
    drawn = ids[ends[:, None] + torch.arange(1 - context, 2)]  # (b, t + 1)
    losses = []
    for few in drawn.split(16):
        logits = model(few[:, :-1])[:, -scored:]
        losses.append(F.cross_entropy(logits.flatten(0, 1), few[:, -scored:].flatten(), reduction="none"))
    return (torch.cat(losses).mean() / torch.log(torch.tensor(2.0))).item()
