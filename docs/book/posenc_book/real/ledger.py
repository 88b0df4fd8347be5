"""What each mistake costs: the loss of the same passages, by position, and what the model then writes.

Key:   b batch, t tokens
"""

from typing import Any

from torch import Tensor

from posenc_book.real.language_model import LanguageModel, continuation, losses
from posenc_book.real.mistakes import Mistake, base_of, mistakes
from posenc_book.real.texts import passages

PASSAGES, LENGTH, BIN = 4, 512, 32
PROMPT = "Once upon a time"


def mistakes_of(model: LanguageModel) -> dict[str, Mistake]:
    """Return the mistakes that can be put into a model, by name."""
    return mistakes(base_of(model.layers[-1].encoding), model.trained_length)


def of_mistake(model: LanguageModel, name: str, text: str | None = None) -> dict[str, Any]:
    """Return the loss of each passage, of each 32 tokens of them all, and what is written."""
    attend = model.with_rotation(mistakes_of(model)[name])
    loss = losses(model, passages(model, LENGTH, PASSAGES, text), attend)  # (b, t - 1)
    return {
        "loss": loss.mean(dim=1).tolist(),
        "by position": by_position(loss),
        "writes": continuation(model, PROMPT, attend),
    }


def by_position(loss: Tensor, width: int = BIN) -> list[float]:
    """Return the mean loss of each `width` tokens; of the first bin less its first token, which nothing predicts."""
    bins = loss.mean(dim=0).split([width - 1] + [width] * (loss.shape[1] // width))
    return [part.mean().item() for part in bins]
