"""How the contract reaches an encoding: the inputs of its door, its torch class, its NumPy twin.

The door is the folder; it fixes the call (`CALLS`) and, by the name of each argument, its shape (`Encoding.arguments`).
Whatever else the contract has to know, an encoding tells it in its own test file, tests/<door>/test_<name>.py:

    OPTIONS = [{}, {"order": "split"}]   every contract test holds for each of these settings of class and twin
    LEARNED = {"weight"}                 its parameters; the twin takes each of them under the same name
    REFUSED = {"far", "fractional"}      the POSITIONS that it refuses with a ValueError
    AXES = 2                             a position is a row of so many coordinates: (t, n) or (b, t, n)
    TEXT = False                         it refuses text, positions (t,) or none: a position is a row of coordinates
    NEIGHBORS = True                     what it adds to a token depends on those beside it, so that none can come alone
    def oracle(...)                      the twin again, with the arguments of the twin, in mpmath
    def exercise(module)                 calls what the contract does not, so that every shape comment is reached

Where one of these differs between settings it is a function of them: def LEARNED(options). A file without a class of
its name, rotate/frequencies, is no encoding: test_files.py reads it, and its own tests try it.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import posenc

ROOT = Path(__file__).parents[2]
B, H, G, D = 3, 4, 2, 16  # batch, heads, key/value heads, width

CALLS = {
    "add": ("x", "positions"),
    "rotate": ("q", "k", "positions", "key_positions"),
    "bias": ("positions", "key_positions"),
    "score": ("q", "k", "positions", "key_positions"),
}

POSITIONS = {
    "start": np.arange(6),
    "single": np.array([70]),
    "unsorted": np.array([3, 0, 70, 7, 7, 1]),
    "batched": np.array([[0, 1, 2, 3, 4, 5], [70, 69, 3, 0, 1, 1000], [9, 9, 9, 2, 1, 0]]),
    "fractional": np.array([0.5, 2.25, 1.125, 70.75]),
    "negative": np.array([-1, -70, 3, -1000]),
    "far": np.array([1_000_000, 999_983, 1_234_567, 9_999_999, 10_000_000, 2**24 + 1]),  # the last is no float32
}

Arguments = dict[str, np.ndarray]


@dataclass(frozen=True)
class Encoding:
    """One encoding under one setting of its options."""

    key: str
    module: ModuleType
    own: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.key, *(f"{name}={value}" for name, value in self.options.items())])

    @property
    def door(self) -> str:
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]

    @property
    def path(self) -> Path:
        return Path(self.module.__file__ or "")

    @property
    def function(self) -> Callable[..., np.ndarray]:
        return getattr(self.module, self.name)

    @property
    def classes(self) -> list[type[nn.Module]]:
        public = [value for name, value in vars(self.module).items() if not name.startswith("_")]
        here = [value for value in public if inspect.isclass(value) and value.__module__ == self.module.__name__]
        return [cls for cls in here if issubclass(cls, nn.Module)]

    def declared(self, name: str, default: Any) -> Any:
        """Return what the encoding's own test file declares under `name`, for these options where that matters."""
        value = getattr(self.own, name, default)
        if name in ("LEARNED", "REFUSED", "AXES", "TEXT") and callable(value):
            return value(self.options)
        return value

    def variants(self) -> list["Encoding"]:
        return [replace(self, options=options) for options in self.declared("OPTIONS", [{}])]

    @property
    def takes_text(self) -> bool:
        """Tell whether a token may be without coordinates of its own, at its place in a text."""
        return self.declared("TEXT", True)

    def furthest(self) -> str:
        """Return the kind of POSITIONS that shows coarse angles best, of those that the encoding takes."""
        return "start" if "far" in self.declared("REFUSED", ()) else "far"

    # The torch class

    def build(self, **changes: Any) -> nn.Module:
        """Build the class, learned parameters moved away from a start such as zero, where every error is invisible."""
        cls = self.classes[0]
        torch.manual_seed(0)
        module = cls(**self._needed(cls, {"dim": D, "heads": H, **self.options, **changes})).eval()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.rand_like(parameter) * (1 + parameter))
        return module

    def arguments(self, positions: np.ndarray, key_positions: np.ndarray | None = None) -> Arguments:
        """Return every argument of the call: content between -1 and 1, and one key more than there are queries."""
        if key_positions is None:
            key_positions = np.concatenate([positions, positions[..., :1] + 3], axis=-1)
        t, s = positions.shape[-1], key_positions.shape[-1]
        rng = np.random.default_rng(0)
        shapes = {"x": (B, t, self.width), "q": (B, H, t, self.width), "k": (B, G, s, self.width)}
        content = {name: rng.uniform(-1, 1, shape) for name, shape in shapes.items()}
        places = {"positions": self.spread(positions), "key_positions": self.spread(key_positions)}
        return {name: (content | places)[name] for name in self.call}

    def spread(self, positions: np.ndarray) -> np.ndarray:
        """Give each position its coordinates: equal ones where positions count 0, 1, 2 as in text, else others."""
        axes = self.declared("AXES", 0)
        if not axes:
            return positions
        is_text = self.takes_text and (np.diff(positions) == 1).all()
        columns = [positions if is_text else np.roll(positions, axis, axis=-1) for axis in range(axes)]
        return np.stack(columns, axis=-1)

    @property
    def call(self) -> tuple[str, ...]:
        return CALLS[self.door]

    @property
    def width(self) -> int:
        return self.options.get("dim", D)

    def tensors(self, arguments: Arguments, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
        """Return the arguments as tensors, the content (not the positions) in `dtype`."""
        tensors = {name: torch.tensor(value) for name, value in arguments.items()}
        return {name: value if "positions" in name else value.to(dtype) for name, value in tensors.items()}

    def plain(self, length: int, dtype: torch.dtype = torch.float64, with_positions: bool = False) -> dict[str, Tensor]:
        """Return the tensors of `length` tokens that attend to themselves; positions only on request or if required."""
        tensors = self.tensors(self.arguments(np.arange(length), np.arange(length)), dtype)
        if with_positions or self.door == "bias" or not self.takes_text:
            return tensors
        return {name: value for name, value in tensors.items() if "positions" not in name}

    def results(self, module: nn.Module, tensors: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """Call the module; return its tensors, one or two."""
        result = module(**tensors)
        return result if isinstance(result, tuple) else (result,)

    def comparable(self, results: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return results as `expected` gives them: the q k^T of a rotation whose twin takes q and k."""
        if self.door == "rotate" and "x" not in inspect.signature(self.function).parameters:
            q, k = (result.detach().double() for result in results)
            return (q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).transpose(-1, -2),)
        return tuple(result.detach() for result in results)

    # The NumPy twin

    def expected(self, arguments: Arguments, module: nn.Module | None = None, twin: Callable | None = None) -> tuple:
        """Return what the twin says the class must return, row by row of the batch, whole arrays in float64."""
        twin = twin or self.function
        learned = {} if module is None else {n: p.detach().double().numpy() for n, p in module.named_parameters()}
        settings = {"dim": D, "heads": H, **self.options, **learned}
        rows = [self._row(twin, row, settings) for row in self._rows(arguments)]
        if self.door == "bias" and not any(self._has_batch(name, value) for name, value in arguments.items()):
            return rows[0]
        return tuple(np.stack(results) for results in zip(*rows, strict=True))

    def _row(self, twin: Callable, row: Arguments, settings: dict[str, Any]) -> tuple[np.ndarray, ...]:
        known = settings | row
        if self.door == "add":
            return (row["x"] + twin(**self._needed(twin, known)),)
        if self.door == "rotate" and "x" in inspect.signature(twin).parameters:
            inputs = ({"x": row["q"]}, {"x": row["k"], "positions": row["key_positions"]})
            return tuple(twin(**self._needed(twin, known | content)) for content in inputs)
        return (twin(**self._needed(twin, known)),)

    def _needed(self, function: Callable, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values that a function takes, or raise where they lack one without a default."""
        own = own_tests_path(self.key).relative_to(ROOT)
        for name, parameter in inspect.signature(function).parameters.items():
            required = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
            if required and name not in values:
                raise AssertionError(f"{function.__name__} needs {name}: give it in OPTIONS of {own}, or a default")
        return _accepted(function, values)

    def _rows(self, arguments: Arguments) -> Iterator[Arguments]:
        """Split a batch into calls without one; read-only, so that a twin that writes to its inputs fails."""
        for row in range(B):
            here = {n: array[row] if self._has_batch(n, array) else array.view() for n, array in arguments.items()}
            for array in here.values():
                array.flags.writeable = False
            yield here

    def axes_after_length(self, name: str) -> int:
        """Return where the axis of the tokens stands in an argument, counted from its end."""
        return 2 if "positions" not in name or self.declared("AXES", 0) else 1

    def _has_batch(self, name: str, array: np.ndarray) -> bool:
        return "positions" not in name or array.ndim > self.axes_after_length(name)


def _accepted(function: Callable, values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in inspect.signature(function).parameters if name in values}


def encodings() -> list[Encoding]:
    """Return every encoding of the package, each with its own test file where there is one."""
    return [Encoding(key, encoding.module, _own_tests(key)) for key, encoding in posenc.encodings().items()]


def own_tests_path(key: str) -> Path:
    door, _, name = key.partition("/")
    return ROOT / "tests" / door / f"test_{name}.py"


def _own_tests(key: str) -> ModuleType | None:
    door, _, name = key.partition("/")
    return import_module(f"tests.{door}.test_{name}") if own_tests_path(key).exists() else None


def load(path: Path, name: str) -> ModuleType:
    """Import the file at `path`, wherever it lies."""
    spec = util.spec_from_file_location(name, path)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
