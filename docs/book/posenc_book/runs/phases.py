"""The laboratory of phase biases (chapter 5.3), whose results lie in docs/assets/data/phases.json.

Half an hour on one core. Three sections, each with five ways to hold the phases:

fixed        one attention layer learns to copy the token k back at length 32 and is asked at up to eight times that
named        the same, where each token names its k
language     two layers read a text 64 letters at a time and are scored with up to eight times the context
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.rotate.pope import PoPE
from posenc_book.lab import Model, accuracy, bits, copy_back, named_offset, passages, train
from posenc_book.lab.tasks import Task
from posenc_book.runs.cell import Cell, Study
from posenc_book.runs.labs import CONTEXTS, DIM, HEAD, HEADS, LENGTHS, TRAINED, halves, text_digest

TURN = 2 * torch.pi
VARIANTS: dict[str, dict[str, Any]] = {
    "clamp": {},
    "uniform": {"init": "uniform"},
    "free": {"bound": "free"},
    "wrap": {"bound": "wrap"},
    "none": {},
}
OFFSETS = (1, 2, 3, 4, 6, 12)


def with_phases(variant: str) -> PoPE:
    """Return PoPE with its phases held as `variant` says."""
    encoding = PoPE(HEAD, HEADS, **VARIANTS[variant])
    encoding.phase.requires_grad_(variant != "none")
    return encoding


def outside(encoding: PoPE) -> float:
    """Return the share of phases outside [-2 pi, 0], where a clamp passes no gradient on."""
    phase = encoding.phase.detach()
    return ((phase > 0) | (phase < -TURN)).double().mean().item()


def moved(encoding: PoPE, start: Tensor) -> list[float]:
    """Return how far the phases of each channel have come from where they began, fastest channel first."""
    phase = encoding.phase.detach()
    held = phase.clamp(-TURN, 0) if encoding.bound == "clamp" else phase
    return (held - start).abs().mean(dim=0).tolist()


def answers(variant: str, task: Task, steps: int, seed: int, **size: Any) -> dict[Any, float]:
    """Return {length: accuracy, "outside": share of phases}; beyond 32 only what stands beyond it."""
    torch.manual_seed(seed)
    model = Model(with_phases(variant), dim=DIM, heads=HEADS, **size)
    train(model, task, steps, seed=seed)
    shares: dict = {n: accuracy(model, task, n, start=0 if n == 32 else 32, batch=256) for n in LENGTHS}
    return shares | {"outside": outside(model.encoding)}


def fixed(variant: str, offset: str, seed: int) -> dict[Any, float]:
    """Return what `answers` does, of the task to copy the token `offset` back."""
    return answers(variant, copy_back(int(offset)), 400, seed, tokens=16)


def named(variant: str, seed: int) -> dict[Any, float]:
    """Return what `answers` does, of the task in which each token names its offset."""
    return answers(variant, named_offset(), 500, seed, tokens=128, answers=16)


def language(variant: str, seed: int) -> dict[Any, Any]:
    """Return {context: bits, "loss": at the end of training, "outside": share, "moved": by channel}."""
    learn, held_out, letters = halves()
    torch.manual_seed(seed)
    model = Model(with_phases(variant), tokens=letters, dim=DIM, heads=HEADS, depth=2, hidden=4 * DIM)
    start = model.encoding.phase.detach().clone()
    losses = train(model, passages(learn), 800, length=TRAINED, batch=24, seed=seed)
    by_context: dict[Any, Any] = {context: bits(model, held_out, context) for context in CONTEXTS}
    by_context |= {"loss": sum(losses[-50:]) / 50, "outside": outside(model.encoding)}
    return by_context | {"moved": dict(enumerate(moved(model.encoding, start)))}


def cells() -> list[Cell]:
    """Return every cell once."""
    return [
        *(Cell("fixed", (variant, str(offset))) for variant in VARIANTS for offset in OFFSETS),
        *(Cell("named", (variant,)) for variant in VARIANTS),
        *(Cell("language", (variant,)) for variant in VARIANTS),
    ]


def measure(cell: Cell) -> Any:
    """Return the numbers of a cell."""
    sections: dict[str, Callable[..., Any]] = {"fixed": fixed, "named": named, "language": language}
    return sections[cell.section](*cell.keys, cell.seed)


STUDY = Study(
    name="phases",
    description="Five ways to hold the phases of PoPE: two questions and a text.",
    cells=cells,
    measure=measure,
    provenance=lambda cell: {"text": text_digest()},
    sources=("posenc", "posenc_book.lab", "posenc_book.runs.labs", "posenc_book.runs.phases"),
    seeds=(0, 1, 2),
)
