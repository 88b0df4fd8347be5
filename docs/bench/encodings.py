"""Time the encodings beside other libraries, as multiples of a limit: the least that any code for the task can take.

    python docs/bench/encodings.py [--quick] [--sections rope bias attention import] [--json docs/assets/data/speed.json]

One process. Each contestant is first compared with the package's NumPy function in float64, its gradients too; a wrong
one ends the run. Then all take turns, in a new order each round, and medians over the rounds are divided by the
limit's. What a library lets its user make once, such as a table, is made outside the timed region. A peer that is not
installed is left out, and named. Where a GPU is at hand, the same cases run there too.
"""

import argparse
import gc
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from posenc.attention import attention
from posenc.bias.alibi import ALiBi, alibi, alibi_slopes
from posenc.bias.t5 import T5, t5
from posenc.rotate.rope import RoPE, rope

FORWARD, BOTH = "forward", "forward and backward"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TOLERANCE = {"float32": 1e-3, "bfloat16": 3e-2}  # of the largest number; peers compute angles in float32
ROTATED = {"prefill": (1, 32, 4096, 128), "batch": (8, 16, 512, 64), "decode": (1, 32, 1, 128)}
LAST = 4000  # the position of the token that is decoded
BIASED = (16, 2048)  # heads, length
ATTENDED = (1, 16, 1024, 64)
PEERS = ("transformers", "rotary-embedding-torch", "x-transformers")
IMPORTS = {
    "import torch": "torch",
    "posenc": "posenc",
    "posenc, RoPE": "posenc.rotate.rope",
    "posenc, attention": "posenc.attention",
    "rotary-embedding-torch": "rotary_embedding_torch",
    "x-transformers": "x_transformers",
    "transformers, Llama": "transformers.models.llama.modeling_llama",
}


class Contestant(NamedTuple):
    """A call, and what it must return, as the float64 tensors that `wanted` makes."""

    call: Callable[[], Any]
    wanted: Callable[[], list[Tensor]] | None = None  # None for a limit, which does less than the task


class Case(NamedTuple):
    """Contestants that do the same work, one of them the limit."""

    section: str
    name: str
    dtype: str
    direction: str
    device: str
    limit: str
    contestants: dict[str, Contestant]
    left_out: dict[str, str]


# Checking, timing and comparing


def error(given: Any, wanted: list[Tensor]) -> float:
    """Return the largest error of `given`, one tensor or several, over the largest number wanted."""
    found = [0.0]
    for got, want in zip([given] if isinstance(given, Tensor) else given, wanted, strict=True):
        if got.shape != want.shape:
            raise ValueError(f"encodings: shape must be {tuple(want.shape)}, got {tuple(got.shape)}")
        off = (got.detach().cpu().double() - want).abs().max() / want.abs().max()
        found.append(off.item() if math.isfinite(off) else math.inf)
    return max(found)


def check(case: Case) -> dict[str, float]:
    """Return the errors of the contestants, leaving out those that do not run; raise ValueError if one is wrong."""
    errors = {}
    for name, (call, wanted) in list(case.contestants.items()):
        try:
            given = call()
        except Exception as reason:  # no compiler, or no such kernel on this device
            del case.contestants[name]
            case.left_out[name] = f"{type(reason).__name__}: {str(reason).strip().splitlines()[0][:120]}"
            continue
        if wanted is not None:
            errors[name] = error(given, wanted())
            if errors[name] > TOLERANCE[case.dtype]:
                where = f"{case.section} {case.name}, {case.dtype}, {case.direction}"
                raise ValueError(f"encodings: {name} must be right in {where}, got an error of {errors[name]:.2g}")
    return errors


def seconds(call: Callable[[], Any], count: int, device: str) -> float:
    """Return the seconds of one call, the mean of `count` in a row."""
    gc.disable()
    try:
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(count):
                call()
            end.record()
            torch.cuda.synchronize()
            return begin.elapsed_time(end) / 1000 / count
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count
    finally:
        gc.enable()


def measure(calls: dict[str, Callable[[], Any]], rounds: int, device: str, aim: float = 0.05) -> dict[str, list[float]]:
    """Return the seconds of each call in each round, in which it runs for about `aim` seconds, or once."""
    for call in calls.values():
        seconds(call, 2, device)
    counts = {name: round(aim / max(1e-7, seconds(call, 1, device))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, shuffler = list(calls), random.Random(0)
    for _ in range(rounds):
        shuffler.shuffle(order)
        for name in order:
            times[name].append(seconds(calls[name], min(2000, max(1, counts[name])), device))
    return times


def compare(times: dict[str, list[float]], limit: str, errors: dict[str, float]) -> list[dict[str, Any]]:
    """Return a row for each contestant, the fastest first: its median, and how many of the limit's medians that is."""
    median = {name: statistics.median(each) for name, each in times.items()}
    rows = []
    for name in sorted(median, key=lambda name: median[name]):
        low, _, high = statistics.quantiles(times[name], n=4) if len(times[name]) > 1 else times[name] * 3
        row = {"name": name, "seconds": median[name], "ratio": median[name] / median[limit]}
        row |= {"spread": (high - low) / median[name]} | ({"error": errors[name]} if name in errors else {})
        rows.append({key: value if key == "name" else float(f"{value:.4g}") for key, value in row.items()})
    return rows


def run(case: Case, rounds: int) -> dict[str, Any]:
    """Check and time a case; return it as it is written to JSON."""
    with torch.set_grad_enabled(case.direction == BOTH):
        errors = check(case)
        times = measure({name: each.call for name, each in case.contestants.items()}, rounds, case.device)
    kept = {name: getattr(case, name) for name in ("section", "name", "dtype", "direction", "device", "limit")}
    return kept | {"rows": compare(times, case.limit, errors), "left_out": case.left_out}


def compiled(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return `call` compiled by itself: those that share their code would check each other's guards at every call."""
    own = FunctionType(call.__code__.replace(), call.__globals__, closure=call.__closure__)
    return torch.compile(own, fullgraph=True)


def gather(makers: dict[str, Callable[..., Iterator[tuple[str, Any]]]], *given: Any) -> tuple[dict, dict[str, str]]:
    """Return what the makers yield, and which of them need a library that is not installed."""
    found, left_out = {}, {}
    for name, maker in makers.items():
        try:
            found |= dict(maker(*given))
        except ImportError as reason:
            left_out[name] = f"{reason.name} is not installed"
    return found, left_out


def with_gradients(call: Callable[..., Any], inputs: list[Tensor], given: list[Tensor]) -> list[Tensor]:
    """Return what `call` makes of the inputs, and the gradients for them where `given` are those of what it makes."""
    made = call(*inputs)
    made = [made] if isinstance(made, Tensor) else list(made)
    return [*made, *torch.autograd.grad(made, inputs, given)]


# RoPE: what turns q and k, and its layout


class Rotation(NamedTuple):
    """A call (q, k) -> (q, k), the layout of its pairs, and whether it has gradients."""

    turn: Callable[[Tensor, Tensor], Any]
    layout: str
    trains: bool = True


def of_posenc(layout: str, places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """The package's, with its table made once: as it is, compiled, and into tensors that the caller owns."""
    module, owned = RoPE(q.shape[-1], layout=layout), (torch.empty_like(q), torch.empty_like(q))
    table = module.table(places)

    def turn(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return module(q, k, table=table)

    yield f"posenc, {layout}", Rotation(turn, layout)
    yield f"posenc, {layout}, compiled", Rotation(compiled(turn), layout)
    yield f"posenc, {layout}, out=", Rotation(partial(module, table=table, out=owned), layout, trains=False)


def of_transformers(places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """Llama's function, with the cosines and sines of Llama's module."""
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    cosine, sine = LlamaRotaryEmbedding(LlamaConfig(head_dim=q.shape[-1])).to(q.device)(q, places[None])

    def turn(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return apply_rotary_pos_emb(q, k, cosine, sine)

    yield "transformers", Rotation(turn, "half")
    yield "transformers, compiled", Rotation(compiled(turn), "half")


def of_rotary_embedding_torch(places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """Its module, with the angles in its cache; cosine and sine are taken at each call."""
    from rotary_embedding_torch import RotaryEmbedding

    module, start = RotaryEmbedding(q.shape[-1]).to(q.device), int(places[0])
    module.rotate_queries_or_keys(torch.zeros(1, 1, start + len(places), q.shape[-1], device=q.device))
    turn = partial(module.rotate_queries_or_keys, offset=start)
    yield "rotary-embedding-torch", Rotation(lambda q, k: (turn(q), turn(k)), "interleaved")


def of_x_transformers(places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """Its function, with the angles of its module; cosine and sine are taken at each call."""
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    angles, _ = RotaryEmbedding(q.shape[-1]).to(q.device)(places)
    turn = partial(apply_rotary_pos_emb, freqs=angles)
    yield "x-transformers", Rotation(lambda q, k: (turn(q), turn(k)), "interleaved")


def of_complex(places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """The idiom of Meta's Llama: pairs as complex numbers, multiplied in float32."""
    theta = 10_000.0 ** (-torch.arange(0, q.shape[-1], 2, dtype=torch.float64, device=q.device) / q.shape[-1])
    angle = places[:, None] * theta
    by = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)

    def turn(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * by).flatten(-2).type_as(x)

    yield "complex product", Rotation(lambda q, k: (turn(q), turn(k)), "interleaved")


def of_triton(places: Tensor, q: Tensor) -> Iterator[tuple[str, Rotation]]:
    """A kernel of one pass in Triton, forward only: what is left to gain on a GPU."""
    if q.device.type != "cuda":
        return
    from rope_kernel import turn

    table = RoPE(q.shape[-1]).table(places)
    yield "Triton kernel", Rotation(lambda q, k: (turn(q, table), turn(k, table)), "half", trains=False)


ROTATIONS = {
    "posenc, half": partial(of_posenc, "half"),
    "posenc, interleaved": partial(of_posenc, "interleaved"),
    "transformers": of_transformers,
    "rotary-embedding-torch": of_rotary_embedding_torch,
    "x-transformers": of_x_transformers,
    "complex product": of_complex,
    "Triton kernel": of_triton,
}


def turned(layout: str, places: Tensor, *tensors: Tensor) -> list[Tensor]:
    """Return the tensors turned to their places by the NumPy function, in float64."""
    return [torch.from_numpy(rope(x.double().cpu(), places.cpu(), layout=layout)) for x in tensors]


def rope_cases(device: str, shapes: dict[str, tuple[int, ...]] = ROTATED) -> Iterator[Case]:
    """Yield the cases of a rotation of queries and keys."""
    for dtype in DTYPES:
        for name, shape in shapes.items():
            torch._dynamo.reset()
            q, k, *given = (torch.randn(shape).to(device, DTYPES[dtype]) for _ in range(4))
            places = torch.arange(shape[2], device=device) + (LAST if shape[2] == 1 else 0)
            rotations, left_out = gather(ROTATIONS, places, q)
            case = ("rope", name, dtype)
            yield Case(*case, FORWARD, device, "clone", forward(rotations, places, q, k), dict(left_out))
            if shape[2] > 1:
                both = forward_and_backward(rotations, places, [q, k], given)
                yield Case(*case, BOTH, device, "clone", both, dict(left_out))


def forward(rotations: dict[str, Rotation], places: Tensor, q: Tensor, k: Tensor) -> dict[str, Contestant]:
    """Return the rotations of q and k, and the two limits: a copy to new tensors, and one to tensors at hand."""
    owned = torch.empty_like(q), torch.empty_like(k)
    found = {"clone": Contestant(lambda: (q.clone(), k.clone()))}
    found["copy to owned tensors"] = Contestant(lambda: (owned[0].copy_(q), owned[1].copy_(k)))
    for name, (turn, layout, _) in rotations.items():
        found[name] = Contestant(partial(turn, q, k), partial(turned, layout, places, q, k))
    return found


def forward_and_backward(
    rotations: dict[str, Rotation], places: Tensor, inputs: list[Tensor], given: list[Tensor]
) -> dict[str, Contestant]:
    """Return the rotations with their gradients, and the limit: a copy of q and k, and of the gradients."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    found = {"clone": Contestant(lambda: [x.clone() for x in (*inputs, *given)])}
    for name, (turn, layout, trains) in rotations.items():
        if trains:
            wanted = partial(_turned_and_back, layout, places, inputs, given)
            found[name] = Contestant(partial(with_gradients, turn, leaves, given), wanted)
    return found


def _turned_and_back(layout: str, places: Tensor, inputs: list[Tensor], given: list[Tensor]) -> list[Tensor]:
    return [*turned(layout, places, *inputs), *turned(layout, -places, *given)]
