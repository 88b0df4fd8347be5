"""Compare contestants that do the same work: check them, let them take turns, and divide medians by that of a limit."""

import gc
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor

FORWARD, BOTH = "forward", "forward and backward"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TOLERANCE = {"float32": 1e-3, "bfloat16": 3e-2}  # of the largest number: some peers compute angles in float32
PEERS = ("transformers", "rotary-embedding-torch", "x-transformers")


class Contestant(NamedTuple):
    """A call, and what makes the float64 tensors that it must return."""

    call: Callable[[], Any]
    wanted: Callable[[], list[Tensor]] | None = None  # None for a limit, which does less than the task


class Case(NamedTuple):
    """Contestants that do the same work, one of them the limit, and who was left out for what reason."""

    section: str
    name: str
    dtype: str
    direction: str
    device: str
    limit: str
    contestants: dict[str, Contestant]
    left_out: dict[str, str]


def run(case: Case, rounds: int) -> dict[str, Any]:
    """Check and time a case; return it as JSON holds it."""
    with torch.set_grad_enabled(case.direction == BOTH):
        errors = check(case)
        times = measure({name: each.call for name, each in case.contestants.items()}, rounds, case.device)
    return record(case, compare(times, case.limit, errors))


def record(case: Case, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a case with its rows."""
    kept = {name: value for name, value in case._asdict().items() if name != "contestants"}
    return kept | {"rows": rows}


def check(case: Case) -> dict[str, float]:
    """Return the errors of the contestants, leaving out those that do not run; raise ValueError if one is wrong."""
    errors = {}
    for name, (call, wanted) in list(case.contestants.items()):
        try:
            given = call()
        except Exception as reason:  # no compiler here, or no such kernel for the device
            del case.contestants[name]
            case.left_out[name] = f"{type(reason).__name__}: {str(reason).strip().partition(chr(10))[0][:100]}"
            continue
        if wanted is not None:
            errors[name] = error(given, wanted())
            if errors[name] > TOLERANCE[case.dtype]:
                where = f"{case.section}, {case.name}, {case.dtype}, {case.direction}"
                raise ValueError(f"timing: {name} must be right, got an error of {errors[name]:.2g} in {where}")
    return errors


def error(given: Any, wanted: list[Tensor]) -> float:
    """Return the largest error of `given`, one tensor or several, over the largest number that is wanted of each."""
    found = [0.0]
    for got, want in zip([given] if isinstance(given, Tensor) else given, wanted, strict=True):
        if got.shape != want.shape:
            return math.inf
        off = ((got.detach().cpu().double() - want).abs().max() / want.abs().max()).item()
        found.append(off if math.isfinite(off) else math.inf)
    return max(found)


def measure(calls: dict[str, Callable[[], Any]], rounds: int, device: str, aim: float = 0.05) -> dict[str, list[float]]:
    """Return the seconds of each call in each round, where it runs for about `aim` seconds, or once."""
    counts = {}
    for name, call in calls.items():
        seconds(call, 2, device)
        counts[name] = max(1, min(2000, round(aim / max(1e-7, seconds(call, 1, device)))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, shuffler = list(calls), random.Random(0)
    for _ in range(rounds):
        shuffler.shuffle(order)
        for name in order:
            times[name].append(seconds(calls[name], counts[name], device))
    return times


def seconds(call: Callable[[], Any], count: int, device: str) -> float:
    """Return the seconds of one call, the mean of `count` in a row."""
    gc.disable()
    if device == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            call()
        end.record()
        torch.cuda.synchronize()
        total = begin.elapsed_time(end) / 1000
    else:
        start = time.perf_counter()
        for _ in range(count):
            call()
        total = time.perf_counter() - start
    gc.enable()
    return total / count


def compare(times: dict[str, list[float]], limit: str, errors: dict[str, float]) -> list[dict[str, Any]]:
    """Return a row for each contestant, the fastest first: its median, and how many of the limit's medians that is."""
    median = {name: statistics.median(each) for name, each in times.items()}
    rows = []
    for name in sorted(median, key=lambda name: median[name]):
        each = times[name]
        low, _, high = statistics.quantiles(each, n=4, method="inclusive") if len(each) > 1 else each * 3
        found = {"seconds": median[name], "ratio": median[name] / median[limit], "spread": (high - low) / median[name]}
        found |= {"error": errors[name]} if name in errors else {}
        rows.append({"name": name} | {key: float(f"{value:.4g}") for key, value in found.items()})
    return rows


def with_compiled(name: str, call: Callable[..., Any], also: bool = True) -> list[tuple[str, Callable[..., Any]]]:
    """Return `call` with its name, and the same compiled, with code of its own.

    Contestants that share their code would check each other's guards at every call.
    """

    def own(*given: Any) -> Any:
        return call(*given)

    apart = FunctionType(own.__code__.replace(), own.__globals__, closure=own.__closure__)
    return [(name, call), *([(f"{name}, compiled", torch.compile(apart, fullgraph=True))] if also else [])]


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
    """Return what `call` makes of the inputs and their gradients, if `given` are the gradients of what it makes."""
    made = call(*inputs)
    made = [made] if isinstance(made, Tensor) else list(made)
    return [*made, *torch.autograd.grad(made, inputs, given)]


def imports(modules: dict[str, str], rounds: int) -> dict[str, Any]:
    """Return the seconds that importing each module adds to a process with torch, as multiples of torch's own."""
    missing = {name for name, module in modules.items() if find_spec(module.partition(".")[0]) is None}
    times: dict[str, list[float]] = {name: [] for name in modules if name not in missing}
    for _ in range(rounds):
        for name in times:
            before = "" if name == "torch" else "import torch"
            code = f"import time\n{before}\nstart = time.perf_counter()\nimport {modules[name]}\n"
            command = [sys.executable, "-W", "ignore", "-c", code + "print(time.perf_counter() - start)"]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            times[name].append(float(said.split()[-1]))
    case = Case("import", "import", "", "", "cpu", "torch", {}, dict.fromkeys(missing, "not installed"))
    return record(case, compare(times, "torch", {}))


def setting(threads: int) -> dict[str, Any]:
    """Return what the times depend on: the date, the machine without its name, and the versions of the peers."""
    said = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.partition(":")[2].strip() for line in said.splitlines() if line.startswith("model name")]
    machine = {"cpu": models[0] if models else platform.processor() or platform.machine(), "cores": os.cpu_count()}
    machine |= {"threads": threads, "python": platform.python_version(), "torch": torch.__version__}
    machine |= {"load": round(os.getloadavg()[0], 2)} if hasattr(os, "getloadavg") else {}
    machine |= {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}
    installed = {each.metadata["Name"] for each in metadata.distributions()}
    versions = {name: metadata.version(name) for name in PEERS if name in installed}
    return {"date": date.today().isoformat(), "machine": machine, "peers": versions}


def table(found: dict[str, Any]) -> str:
    """Return a case as text."""
    limit = next(row["seconds"] for row in found["rows"] if row["name"] == found["limit"])
    names = (found[name] for name in ("section", "name", "dtype", "direction", "device"))
    lines = [f"\n{', '.join(name for name in names if name)}; {found['limit']} takes {duration(limit)}"]
    for row in found["rows"]:
        lines.append(
            f"  {row['ratio']:7.2f} x  {duration(row['seconds']):>9}  ±{row['spread'] / 2:4.0%}  {row['name']}"
        )
    return "\n".join(lines + [f"  left out: {name}: {reason}" for name, reason in found["left_out"].items()])


def duration(value: float) -> str:
    """Return seconds in the unit that people would read them in."""
    unit, name = next((unit, name) for unit, name in ((1, "s"), (1e-3, "ms"), (0, "µs")) if value >= unit)
    return f"{value / (unit or 1e-6):.3g} {name}"
