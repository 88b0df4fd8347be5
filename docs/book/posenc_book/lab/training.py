"""Train a small model on a task, and ask it at lengths that it has not seen.

Key:   b batch, t tokens
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_book.lab.tasks import UNASKED, Task


def train(
    model: nn.Module,
    task: Task,
    steps: int = 500,
    length: int = 32,
    batch: int = 32,
    seed: int = 0,
    rate: float = 3e-3,
    faster: float = 10.0,
) -> list[float]:
    """Train `model` in place and return the loss at each step, in nats.

    AdamW with betas 0.9 and 0.98, no weight decay, a rate that falls in a line to 2%, gradients clipped at 1.

    Args:
        model: Called as `model(ids)`; returns logits (b, t, answers).
        task: Called as `task(batch, length, generator)`; returns ids and answers, (b, t) each.
        steps: How many batches.
        length: Tokens of a text.
        batch: Texts of a batch.
        seed: Of the batches; the weights are drawn where the model is made.
        rate: Of learning, at the start.
        faster: Multiplies the rate of what `model.encoding` and `model.add` learn, of which a text uses little.

    Examples:
        >>> from posenc_book.lab import Model, first_token
        >>> losses = train(Model(tokens=16), first_token(), steps=20)
        >>> losses[-1] < losses[0]
        True
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = _optimizer(model, rate, faster)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, steps)
    model.train()
    losses = []
    for _ in range(steps):
        loss = _loss(model, *task(batch, length, generator))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    return losses


def _loss(model: nn.Module, ids: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(model(ids).flatten(0, 1), target.flatten(), ignore_index=UNASKED)


def _optimizer(model: nn.Module, rate: float, faster: float) -> torch.optim.Optimizer:
    encoding = [p for name, p in model.named_parameters() if name.startswith(("add", "encoding"))]
    rest = [p for name, p in model.named_parameters() if not name.startswith(("add", "encoding"))]
    groups = [{"params": rest}, {"params": encoding, "lr": rate * faster}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), weight_decay=0.0)


@torch.no_grad()
def accuracy(
    model: Callable[[Tensor], Tensor], task: Task, length: int = 32, start: int = 0, batch: int = 256, seed: int = 1
) -> float:
    """Return the share of right answers to the questions at the tokens `start` and later of fresh texts.

    To tell a model other positions, pass `lambda ids: model(ids, positions)`.

    Examples:
        >>> from posenc_book.lab import Model, first_token
        >>> blind = Model(tokens=16)
        >>> accuracy(blind, first_token()) < 0.3  # not trained, so it guesses
        True
    """
    ids, target = task(batch, length, torch.Generator().manual_seed(seed))
    asked = target != UNASKED  # (b, t)
    asked[:, :start] = False
    return _right(model, ids, target)[asked].double().mean().item()


def _right(model: Callable[[Tensor], Tensor], ids: Tensor, target: Tensor) -> Tensor:
    """Return where the model's first choice is the answer, (b, t), a few texts at a time."""
    parts = zip(ids.split(32), target.split(32), strict=True)
    return torch.cat([model(few).argmax(-1) == answers for few, answers in parts])  # (b, t)
