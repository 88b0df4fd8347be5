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

from posenc.diagnosis.parameters import built, roles


class Code:
    """Somebody's code with its parameters by role; `sizes` (dim, heads) fill in what it asks for.

    `form` says which positions it takes: "t" for (t,), "1t" for (1, t), "bt" for (b, t).
    """

    def __init__(self, function: Any, sizes: dict[str, int], order: str | None = None, form: str = "t") -> None:
        self.source, self.sizes, self.order, self.form = function, sizes, order, form
        self.function = built(function, sizes) if inspect.isclass(function) else _copied(function)
        self.numpy = self.heads_asked = False
        if self.module is not None:
            self.module.eval()
        self.roles, self.parameters = roles(self.function)

    @property
    def dim(self) -> int:
        """The width of a head, or of embeddings."""
        return self.sizes["dim"]

    @property
    def heads(self) -> int:
        """How many heads."""
        return self.sizes["heads"]

    @property
    def module(self) -> nn.Module | None:
        """The torch module, if it is one or a method of one."""
        owner = getattr(self.function, "__self__", self.function)
        return owner if isinstance(owner, nn.Module) else None

    @property
    def learned(self) -> dict[str, nn.Parameter]:
        """What a module learns, by name."""
        named = () if self.module is None else self.module.named_parameters()
        return {name: parameter for name, parameter in named if parameter.requires_grad}

    def takes(self, *wanted: str) -> bool:
        """Tell whether there is a parameter for each role."""
        return all(role in self.roles for role in wanted)

    def needs(self, role: str) -> bool:
        """Tell whether there is a parameter for the role, without a default."""
        return role in self.roles and self.parameters[self.roles[role]].default is inspect.Parameter.empty

    def fresh(self, **sizes: int) -> "Code":
        """Return a copy that shares no memory, as far as that can be; with other sizes, a class is built anew."""
        source = self.source if sizes and inspect.isclass(self.source) else self.function
        return Code(source, self.sizes | sizes, self.order, self.form)

    def cast(self, dtype: torch.dtype) -> "Code":
        """Return a copy of a module with parameters and buffers in another dtype."""
        other = self.fresh()
        if other.module is not None:
            other.module.to(dtype)
        return other

    def __call__(self, **given: Any) -> Any:
        """Call with arguments by role; those without a parameter are left out, the sizes asked for are added."""
        given = self.sizes | self._formed(given)
        arguments, named = [], {}
        for role, name in self.roles.items():
            if role not in given:
                continue
            if self.parameters[name].kind is inspect.Parameter.POSITIONAL_ONLY:
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
        batch = 1 if self.order == "tbd" else 0
        rows = content.shape[batch] if self.form == "bt" and content is not None else 1
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
