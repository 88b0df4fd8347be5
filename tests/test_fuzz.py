"""Junk in every argument of every public class, call and function: a clear refusal or a result, never anything else.

A refusal is a ValueError or a TypeError whose message names the argument, or another of the call that it contradicts
(dim=16 does not fit axes=3), in the words of the house: "grid: dim must be …, got …". How to call a function rightly,
which the junk then spoils one argument at a time, is worked out from the names of its arguments (`SENSIBLE`).
"""

import importlib
import inspect
import re

import numpy as np
import pytest
import torch

from tests import doors, names
from tests.doors import B, D, Encoding, H

JUNK = [
    *(None, True, "junk", "", b"junk", [], {}, (), object(), lambda: None, [None], ["junk"], {"junk": 1}),
    *(-1, 0, 1, 3, 2.5, 1e30, float("nan"), float("inf"), -float("inf"), 1j),
    *(np.array([]), np.zeros((2, 3)), np.array(["junk"]), np.array([None]), np.float64("nan")),
    *(torch.zeros(0), torch.tensor(1.0), torch.zeros(2, 3), torch.ones(3) > 0, torch.zeros(3, dtype=torch.complex64)),
    *(torch.zeros(2, 3, 4, 5, 6), torch.full((3,), float("nan")), torch.tensor([-1, 7])),
]

HOUSE = re.compile(r"\w+: ([\w ]+) must be .+, got .+", re.S)

each = pytest.mark.parametrize("encoding", [v for e in doors.encodings() for v in e.variants()], ids=str)


def refuses_or_works(function, arguments: dict, argument: str) -> None:
    """Call with each piece of junk in `argument`."""
    for junk in JUNK:
        try:
            function(**arguments | {argument: junk})
            continue
        except Exception as error:
            caught = error
        refused = isinstance(caught, ValueError | TypeError)
        if not refused or not names_one(str(caught), argument, arguments_of(function)):
            pytest.fail(f'{argument}={junk!r} gives {caught!r}; raise ValueError("NAME: {argument} must be …, got …")')


def names_one(said: str, argument: str, arguments: list[str]) -> bool:
    house = HOUSE.match(said)
    if house:
        return bool(set(arguments) & set(re.findall(r"\w+", house[1])))
    return argument in re.findall(r"\w+", said.replace("'", " "))


def arguments_of(function) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.name != "self" and p.kind is p.POSITIONAL_OR_KEYWORD]


@each
def test_junk_in_a_setting(encoding: Encoding):
    """__init__ refuses what it cannot use with a ValueError that names the argument: test its type before its value."""
    cls = encoding.classes[0]
    settings = doors._accepted(cls, {"dim": D, "heads": H, **encoding.options})
    for argument in arguments_of(cls.__init__):
        refuses_or_works(cls, settings, argument)


@each
def test_junk_in_a_call(encoding: Encoding):
    """forward, table and score_mod refuse what they cannot use with a ValueError that names the argument."""
    module, tensors = encoding.build(), encoding.plain(6, torch.float32, given=True)
    for method in ("forward", "table", "score_mod", "turn", "values"):
        call = getattr(module, method, None)
        if call is not None:
            sensible = {**tensors, "x": tensors.get("q", tensors.get("x")), "weights": torch.ones(B, H, 6, 6) / 6}
            accepted = doors._accepted(call, sensible)
            for argument in arguments_of(call):
                refuses_or_works(call, accepted, argument)


@each
def test_junk_in_the_numpy_function(encoding: Encoding):
    """The NumPy function refuses what it cannot use with a ValueError that names the argument."""
    learned = {n: p.detach().double().numpy() for n, p in encoding.build().named_parameters()}
    arguments = encoding.arguments(np.arange(6), np.arange(6))
    arguments = {n: a if "positions" in n else a[0] for n, a in arguments.items()}
    arguments["x"] = arguments.get("x", arguments.get("q"))
    sensible = doors._accepted(encoding.function, {"dim": D, "heads": H, **encoding.options, **learned, **arguments})
    for argument in arguments_of(encoding.function):
        refuses_or_works(encoding.function, sensible, argument)


# The other public functions

TABLE = torch.arange(32.0).view(8, 4) / 32

SENSIBLE = {
    "dim": 16,
    "heads": 4,
    "axes": 2,
    "length": 6,
    "new_length": 9,
    "weight": TABLE,
    "size": (2, 4),
    "new_size": (3, 3),
    "distance": np.arange(5.0),
    "k": 3.0,
    "mask": torch.ones(2, 6) > 0,
    "positions": np.arange(6),
    "factor": 2.0,
    "max_length": 1024,
    "original_length": 1024,
    "short_factor": [1.0] * 8,
    "long_factor": [2.0] * 8,
    "fraction": 0.5,
    "to": "half",
    "offset": np.arange(-3, 3),
    "window": (2, 3),
    "cu_seqlens": torch.tensor([0, 2, 6]),
    "longer": 9,
    "largest": 9,
    "trained_length": 4,
    "rank": 1,
    "ranks": 2,
}
"""What an argument of this name is given by default; the file of a function may need something else."""

ALIKE = {
    "detr_coordinates": {"mask": torch.ones(2, 6) > 0},
    "resize_grid": {"prefix": 0},
    "fourier_cycles": {"axes": 2},
    "axial_coordinates": {"convention": "qwen-vl"},
    "longrope": {"length": 2048, "original_length": 1024},
    "from_config": {"config": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.0}},
    "convert_layout": {"weight": torch.rand(32, 3)},
    "convert_checkpoint": {"state": {"layers.0.q_proj.weight": torch.rand(32, 3)}},
    "mrope_positions": {"kinds": [0, 1, 1, 1, 1, 0], "image_grids": [(1, 4, 4)]},
    "rerotate": {"k": torch.rand(1, 2, 6, 16), "new_positions": torch.arange(6) + 3},
    "resize_window": {"weight": torch.rand(9, 2), "window": (2, 2), "new_window": (3, 3)},
    "skew": {"x": torch.rand(1, 2, 3, 5), "keys": 5},
    "shaw_values": {
        "weights": np.ones((2, 3, 3)) / 3,
        "positions": np.arange(3),
        "key_positions": np.arange(3),
        "value_table": np.ones((5, 4)),
    },
    "attention_weights": {"q": torch.rand(1, 2, 3, 4), "k": torch.rand(1, 2, 5, 4)},
    "augmented_positions": {"positions": torch.arange(6)},
    "shard": {"x": torch.rand(8, 4)},
    "shard_positions": {"length": 8},
    "unshard": {"shards": [torch.rand(4, 2), torch.rand(4, 2)]},
}
"""Arguments of single functions, before those of `SENSIBLE`."""

ENCODINGS = {encoding.function for encoding in doors.encodings()}
UNTRIED = {"grid_positions", "attention", "doctor"}  # the first takes any number of sizes, the others have own tests
PUBLIC = {name: getattr(importlib.import_module(module), name) for name, module in names.public()}
FUNCTIONS = {
    name: found
    for name, found in PUBLIC.items()
    if inspect.isfunction(found) and found not in ENCODINGS and name not in UNTRIED
}


def sensible(name: str) -> dict:
    known = SENSIBLE | ALIKE.get(name, {})
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    needed = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return {p.name: known[p.name] for p in needed if p.default is p.empty or p.name in ALIKE.get(name, {})}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_sensible_call_works(name):
    FUNCTIONS[name](**sensible(name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_junk_in_a_function(name):
    """A public function refuses what it cannot use with a ValueError that names the argument."""
    for argument in arguments_of(FUNCTIONS[name]):
        refuses_or_works(FUNCTIONS[name], sensible(name), argument)
