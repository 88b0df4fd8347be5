"""What the models read: passages of the book's own prose, or of a reader's text, and a copying task.

Key:   b batch, t tokens
"""

from typing import Any

import torch
from torch import Generator, Tensor

from posenc_book.lab.text import PROSE

ORDINARY = 1000  # tokens below are letters, signs and control tokens of a vocabulary


def prose() -> str:
    """Return the frozen text of the labs: this book's sentences of 2026-11-28, which no model of 2025 has read."""
    return " ".join(PROSE.read_text(encoding="utf-8").split())


def passages(model: Any, length: int, count: int, text: str | None = None) -> Tensor:
    """Return `count` passages (b, t) of `length` tokens, spread evenly over the text, behind the model's first token.

    Raises:
        ValueError: If the text has fewer tokens than one passage.
    """
    ids = model.tokenizer.encode(prose() if text is None else text, add_special_tokens=False).ids
    room = length - len(model.opening)
    if len(ids) < room:
        raise ValueError(
            f"real: text must have at least {room:,} tokens, got {len(ids):,}; give a longer one by --text"
        )
    starts = torch.linspace(0, len(ids) - room, count + 1, device="cpu").long()[:count]
    rows = [[*model.opening, *ids[start : start + room]] for start in starts.tolist()]
    return torch.tensor(rows, device="cpu")


def copying(words: int, gap: int, seed: int, length: int = 32) -> Tensor:
    """Return one text (1, t) of random tokens whose last `length` repeat those that stand `gap` before them."""
    generator = Generator("cpu").manual_seed(seed)
    ids = torch.randint(ORDINARY, words, (1, gap), generator=generator, device="cpu")
    return torch.cat([ids, ids[:, :length]], dim=1)
