"""Train the models of the phase-bias laboratory (chapter 5.3), and write docs/assets/data/phases.json.

    python docs/bench/phases.py [--sections fixed named language] [--seeds 0 1 2]

About half an hour on one core. Three labs, each with five ways to hold the phases, and every seed:

fixed        one attention layer learns to copy the token k back at length 32 and is asked at up to eight times that
named        the same, where each token names its k
language     two layers read a text 64 letters at a time and are scored with up to eight times the context

The file keeps every number of every seed, and what it was measured with.
"""

from pathlib import Path
from typing import Any

import torch
from record import main

from posenc.rotate.pope import PoPE
from posenc_book.lab import Model, accuracy, bits, copy_back, corpus, named_offset, passages, train

FILE = Path(__file__).parents[1] / "assets/data/phases.json"
DIM, HEADS, HEAD = 64, 4, 16
TURN = 2 * torch.pi
VARIANTS: dict[str, dict[str, Any]] = {
    "clamp": {},
    "uniform": {"init": "uniform"},
    "free": {"bound": "free"},
    "wrap": {"bound": "wrap"},
    "none": {},
}
OFFSETS = (1, 2, 3, 4, 6, 12)
LENGTHS = (32, 64, 128, 256)
CONTEXTS = (64, 96, 128, 256, 512)


def phases(variant: str) -> PoPE:
    """Return PoPE with its phases held as `variant` says."""
    encoding = PoPE(HEAD, HEADS, **VARIANTS[variant])
    encoding.phase.requires_grad_(variant != "none")
    return encoding


def outside(encoding: PoPE) -> float:
    """Return the share of phases outside [-2 pi, 0], where a clamp passes no gradient on."""
    phase = encoding.phase.detach()
    return ((phase > 0) | (phase < -TURN)).double().mean().item()


def moved(encoding: PoPE, start: torch.Tensor) -> list[float]:
    """Return how far the phases of each channel have come from where they began, fastest channel first."""
    phase = encoding.phase.detach()
    held = phase.clamp(-TURN, 0) if encoding.bound == "clamp" else phase
    return (held - start).abs().mean(dim=0).tolist()


def fixed(seed: int) -> dict:
    """Return {variant: {k: {length: accuracy, "outside": share of phases}}}; beyond 32 only what stands beyond it."""
    found: dict = {}
    for name in VARIANTS:
        for offset in OFFSETS:
            found.setdefault(name, {})[offset] = learned(name, copy_back(offset), 400, seed, tokens=16)
        print("fixed", seed, name, {k: [round(v, 2) for v in s.values()] for k, s in found[name].items()}, flush=True)
    return found


def named(seed: int) -> dict:
    """Return {variant: {length: accuracy, "outside": share of phases}}."""
    found = {}
    for name in VARIANTS:
        found[name] = learned(name, named_offset(), 500, seed, tokens=128, answers=16)
        print("named", seed, name, {n: round(share, 2) for n, share in found[name].items()}, flush=True)
    return found


def learned(variant: str, task: Any, steps: int, seed: int, **size: int) -> dict:
    """Return the shares of right answers by length, and the share of phases outside."""
    torch.manual_seed(seed)
    model = Model(phases(variant), dim=DIM, heads=HEADS, **size)
    train(model, task, steps, seed=seed)
    shares: dict = {n: accuracy(model, task, n, start=0 if n == 32 else 32, batch=256) for n in LENGTHS}
    return shares | {"outside": outside(model.encoding)}


def language(seed: int) -> dict:
    """Return {variant: {context: bits, "loss": at the end of training, "outside": share, "moved": by channel}}."""
    ids, alphabet = corpus()
    cut, found = int(0.9 * len(ids)), {}
    for name in VARIANTS:
        torch.manual_seed(seed)
        model = Model(phases(name), tokens=len(alphabet), dim=DIM, heads=HEADS, depth=2, hidden=4 * DIM)
        start = model.encoding.phase.detach().clone()
        losses = train(model, passages(ids[:cut]), 800, length=64, batch=24, seed=seed)
        scores: dict = {context: bits(model, ids[cut:], context) for context in CONTEXTS}
        found[name] = scores | {"loss": sum(losses[-50:]) / 50, "outside": outside(model.encoding)}
        found[name]["moved"] = dict(enumerate(moved(model.encoding, start)))
        print("language", seed, name, {c: round(b, 2) for c, b in scores.items()}, flush=True)
    return found


if __name__ == "__main__":
    main(__doc__, {"fixed": fixed, "named": named, "language": language}, FILE, "docs/bench/phases.py")
