"""What code says of itself: the base that it names, how many channels turn, and the same code with another base."""

import inspect
from types import SimpleNamespace
from typing import Any

from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import Code
from posenc.doctor.call.parameters import BASES, FACTORS, FIXED, built

WIDTHS = ("rotary_dim", "rot_dim", "rotary_ndims", "rope_dim", "d_rope", "rotary_n_dims")
NAMES = {"base": BASES, "factor": FACTORS}


def declared_base(code: Code) -> float | None:
    """Return the base that the code names: an attribute, or the default of a parameter."""
    return told(code, BASES)


def declared_bases_of_axes(code: Code) -> dict[str, float]:
    """Return bases that a module names for one axis each, such as temperature_height, by name."""
    with_check_name = {} if code.module is None else vars(code.module)
    return {name: float(value) for name, value in with_check_name.items() if name.rpartition("_")[0] in BASES and _counts(value)}


def told(code: Code, names: tuple[str, ...]) -> float | None:
    """Return the first number above 1 that an attribute of one of these names has, or a parameter by default."""
    parameters = parameters_of(code.source) | code.parameters
    owners = (
        code.function,
        getattr(code.function, "__self__", None),
        getattr(code.function, "module", None),
        *getattr(code.function, "captured", ()),
        SimpleNamespace(**{name: parameter.default for name, parameter in parameters.items()}),
    )
    values = (getattr(owner, name, None) for name in names for owner in owners)
    found = next(filter(_counts, values), None)
    return None if found is None else float(found)


def _counts(value: Any) -> bool:
    return isinstance(value, int | float) and value > 1


def said(code: Code, names: tuple[str, ...]) -> bool | None:
    """Return the first bool that the code says under one of these names: an attribute, or what a call gives."""
    owner = getattr(code.function, "__self__", code.function)
    for name in names:
        for one in (owner, *code.parts):
            if isinstance(value := getattr(one, name, None), bool):
                return value
        if name in code.parameters:
            default = code.parameters[name].default
            return bool(default) if default is not inspect.Parameter.empty else FIXED["flag"]
    return None


def parameters_of(source: object) -> dict[str, inspect.Parameter]:
    """Return the parameters that a class is built with; none for what is no class."""
    found, _ = attempt(inspect.signature, source) if inspect.isclass(source) else (None, "")
    return dict(found.parameters) if found else {}


def rebuilt_with(code: Code, role: str, number: float) -> Code | None:
    """Return the same code with another base or factor, built anew or called with it; None where none can be told."""
    if isinstance(inner := getattr(code.function, "code", None), Code):
        other = rebuilt_with(Code(inner.source, code.sizes, inner.call), role, number)
        return None if other is None else Code(code.function.of(other), code.sizes, code.call)
    if role in code.roles and _is_number(code.parameters[code.roles[role]]):
        other = code.fresh()
        other.fixed_arguments[role] = number
        return other
    owner = getattr(code.source, "__self__", code.source)
    source: Any = owner if inspect.isclass(owner) else type(owner)
    names = parameters_of(source)
    name = next((name for name in NAMES[role] if name in names and _is_number(names[name])), None)
    if name is None or code.call.tokens:  # a grid of its own sides, which the class may be asked for in any form
        return None
    made, _ = attempt(built, source, code.sizes, **{name: number})
    if inspect.ismethod(code.source):
        made = getattr(made, code.source.__name__, None)
    return None if made is None else Code(made, code.sizes, code.call)


def rebuilt_with_base(code: Code, base: float) -> Code | None:
    """Return the same code with another base; None where no base can be told."""
    return rebuilt_with(code, "base", base)


def _is_number(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty or isinstance(parameter.default, int | float | None)
