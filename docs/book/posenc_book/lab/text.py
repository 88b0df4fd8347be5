"""A text of this book's own prose, as a task, and how well a model reads it with more context than it has seen.

Key:   b batch, t tokens
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from posenc_book.lab.tasks import Task

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 .,;:?()'\"-%"
PROSE = Path(__file__).with_name("prose.txt")


def corpus() -> tuple[Tensor, str]:
    """Return a frozen text, as ids (n,) with 0 <= id < 48, and its alphabet of 48 letters, digits and signs.

    The text is `prose.txt` beside this file, about 450,000 letters: the sentences of this book's chapters as they stood
    on 2026-11-28, in the book's order and in lower case, without code, formulas, tables and headings. It does not
    follow later changes of the chapters, so what is trained on it stays comparable.

    Examples:
        >>> ids, alphabet = corpus()
        >>> "".join(alphabet[i] for i in ids[:26])
        'how does a model that look'
    """
    number = {letter: n for n, letter in enumerate(ALPHABET)}
    text = " ".join(PROSE.read_text(encoding="utf-8").split())
    return torch.tensor([number[letter] for letter in text]), ALPHABET


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
