"""How the doctor calls code that it has never seen: parameters are known by their names, each way to spell one.

    x, q k v                     content: (b, h, t, d) for a rotation or an attention, (b, t, d) for a table
    positions, key_positions     of queries and keys, tensors of integers: (t,), else (1, t) or (b, t)
    offset                       the position of the first token, a number
    length, key_length           how many queries and keys
    dim, heads, causal, mask, dtype, cache

A result that is no tensor (an array, a list) becomes one.
"""

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posenc.checkup.signature import built, roles


class Patient:
    """Somebody's code with its parameters by role; `settings` (dim, heads) fill in what it asks for.

    `form` says which positions it takes: "t" for (t,), "1t" for (1, t), "bt" for (b, t).
    """

    def __init__(self, function: Any, settings: dict[str, Any], order: str | None = None, form: str = "t") -> None:
        self.source, self.settings, self.order, self.form = function, settings, order, form
        self.function = built(function, settings) if inspect.isclass(function) else _copied(function)
        self.numpy = self.heads_asked = False
        if self.module is not None:
            self.module.eval()
        self.roles, self.parameters = roles(self.function)

    @property
    def module(self) -> nn.Module | None:
        """The torch module, if it is one or a method of one."""
        owner = getattr(self.function, "__self__", self.function)
        return owner if isinstance(owner, nn.Module) else None

    def takes(self, *wanted: str) -> bool:
        """Tell whether there is a parameter for each role."""
        return all(role in self.roles for role in wanted)

    def needs(self, role: str) -> bool:
        """Tell whether there is a parameter for the role, without a default."""
        return role in self.roles and self.parameters[self.roles[role]].default is inspect.Parameter.empty

    def fresh(self, settings: dict[str, Any] | None = None) -> "Patient":
        """Return a copy that shares no memory, as far as that can be; with other settings, a class is built anew."""
        if settings is not None and inspect.isclass(self.source):
            return Patient(self.source, self.settings | settings, self.order, self.form)
        return Patient(self.function, self.settings | (settings or {}), self.order, self.form)

    def cast(self, dtype: torch.dtype) -> "Patient":
        """Return a copy of a module with parameters and buffers in another dtype."""
        other = self.fresh()
        if other.module is not None:
            other.module.to(dtype)
        return other

    def learned(self) -> list[str]:
        """Return the names of what a module learns."""
        return [] if self.module is None else [n for n, p in self.module.named_parameters() if p.requires_grad]

    @torch.no_grad()
    def with_negated(self, name: str) -> "Patient":
        """Return a copy in which the parameter `name` has the other sign."""
        other = self.fresh()
        if other.module is not None:
            other.module.get_parameter(name).neg_()
        return other

    def __call__(self, **given: Any) -> Any:
        """Call with arguments by role; those without a parameter are left out, the settings asked for are added."""
        arguments, named = [], {}
        given = {role: self.settings[role] for role in ("dim", "heads") if role in self.roles} | self._formed(given)
        for role, name in self.roles.items():
            parameter = self.parameters[name]
            if role not in given:
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY:
                arguments.append(given[role])
            else:
                named[name] = given[role]
        result = self.function(*arguments, **named)
        self.numpy = isinstance(result, np.ndarray)
        return as_tensors(result)

    def _formed(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with positions (t,) in the form that the code takes."""
        if self.form == "t":
            return given
        content = given.get("x", given.get("q"))
        rows = content.shape[self.order == "tbd"] if self.form == "bt" and content is not None else 1
        places = {role: given[role] for role in ("positions", "key_positions") if role in given}
        return given | {role: p.repeat(rows, 1) if p.ndim == 1 else p for role, p in places.items()}


def _copied(function: Any) -> Any:
    try:
        return copy.deepcopy(function)
    except Exception:  # an object that does not copy is examined itself
        return function


def as_tensors(result: Any) -> Any:
    """Return tensors for arrays and lists of numbers; the parts of a tuple or list of tensors stay apart."""
    if isinstance(result, Tensor) or result is None:
        return result
    if isinstance(result, tuple | list) and any(not isinstance(part, int | float) for part in result):
        return tuple(as_tensors(part) for part in result)
    try:
        return torch.as_tensor(result)
    except Exception:  # an object of their own
        return result


def attempt(call: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[Any, str]:
    """Return the result and "", or None and the error in one line: their code may raise anything."""
    try:
        return call(*arguments, **named), ""
    except Exception as error:
        line = (str(error).strip().splitlines() or [""])[0]
        return None, f"{type(error).__name__}: {line if line.startswith('doctor: ') else line[:120]}"


def unlike(tokens: int, heads: int) -> int:
    """Return a number of tokens at which positions that broadcast against heads by mistake do not fit."""
    return tokens + (tokens == heads)


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return normal random numbers, the same in each run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def far(one: Any, other: Any) -> float:
    """Return the largest difference, relative to the largest number of `other`; inf if shapes or NaNs differ."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor) or one.shape != other.shape:
        return float("inf")
    one, other = one.detach().double(), other.detach().double()
    if not torch.equal(one.isfinite(), other.isfinite()):
        return float("inf")
    one, other = one[one.isfinite()], other[other.isfinite()]
    return float((one - other).abs().max() / other.abs().max().clamp(min=1e-30)) if one.numel() else 0.0
