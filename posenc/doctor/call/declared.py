"""What code declares: the base that it names, how many channels it rotates, and the same code with another base."""

import inspect
from types import SimpleNamespace
from typing import Any, TypeGuard

from posenc.doctor.call.code import Code
from posenc.doctor.call.parameters import BASES, DEFAULTS, FACTORS, construct
from posenc.doctor.safe_call import attempt

ROTARY_WIDTHS = ("rotary_dim", "rot_dim", "rotary_ndims", "rope_dim", "d_rope", "rotary_n_dims")
ROLE_NAMES = {"base": BASES, "factor": FACTORS}


def declared_base(code: Code) -> float | None:
    """Return the base that the code names: an attribute, or the default of a parameter."""
    return declared_number(code, BASES)


def declared_bases_of_axes(code: Code) -> dict[str, float]:
    """Return bases that a module names for one axis each, such as temperature_height, by name."""
    attributes = {} if code.module is None else vars(code.module)
    return {
        name: float(value)
        for name, value in attributes.items()
        if name.rpartition("_")[0] in BASES and _is_above_one(value)
    }


def declared_number(code: Code, names: tuple[str, ...]) -> float | None:
    """Return the first number above 1 that an attribute of one of these names has, or a parameter by default."""
    parameters = _parameters_of_class(code.source) | code.parameters
    # What an object holds comes before the defaults of parameters: it may have been built with another number.
    owners = (
        code.function,
        getattr(code.function, "__self__", None),
        getattr(code.function, "module", None),  # whose tables a rotation by tables has
        *getattr(code.function, "captured", ()),
        SimpleNamespace(**{name: parameter.default for name, parameter in parameters.items()}),
    )
    for name in names:
        for owner in owners:
            value = getattr(owner, name, None)
            if _is_above_one(value):
                return float(value)
    return None


def _is_above_one(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and value > 1


def declared_flag(code: Code, names: tuple[str, ...]) -> bool | None:
    """Return the first bool that the code has under one of these names: an attribute, or what a call passes."""
    owner = getattr(code.function, "__self__", code.function)
    for name in names:
        for part in (owner, *code.modules):
            value = getattr(part, name, None)
            if isinstance(value, bool):
                return value
        if name in code.parameters:
            default = code.parameters[name].default
            return DEFAULTS["flag"] if default is inspect.Parameter.empty else bool(default)
    return None


def _parameters_of_class(source: object) -> dict[str, inspect.Parameter]:
    """Return the parameters that a class is built with; none for what is no class."""
    signature, _ = attempt(inspect.signature, source) if inspect.isclass(source) else (None, "")
    return dict(signature.parameters) if signature else {}


def rebuilt_with(code: Code, role: str, number: float) -> Code | None:
    """Return the same code with another base or factor, built anew or called with it; None where neither works."""
    # A rotation by the tables of other code: that is what has a base.
    if isinstance(inner := getattr(code.function, "code", None), Code):
        rebuilt = rebuilt_with(Code(inner.source, code.sizes, inner.call), role, number)
        return None if rebuilt is None else Code(code.function.of(rebuilt), code.sizes, code.call)
    if role in code.roles and _takes_number(code.parameters[code.roles[role]]):
        rebuilt = code.fresh()
        rebuilt.fixed_arguments[role] = number
        return rebuilt
    # An object is built anew from its class, for its frequencies were made when it was built.
    owner = getattr(code.source, "__self__", code.source)
    source: Any = owner if inspect.isclass(owner) else type(owner)
    parameters = _parameters_of_class(source)
    name = next((name for name in ROLE_NAMES[role] if name in parameters and _takes_number(parameters[name])), None)
    # The sides of a grid, which the new object would need too, may be asked for in any form.
    if name is None or code.call.tokens:
        return None
    instance, _ = attempt(construct, source, code.sizes, **{name: number})
    if inspect.ismethod(code.source):
        instance = getattr(instance, code.source.__name__, None)
    return None if instance is None else Code(instance, code.sizes, code.call)


def _takes_number(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty or isinstance(parameter.default, int | float | None)
