"""How the doctor calls code that it has never seen: parameters are known by their names, each way to spell one.

    x, q k v (x, y)              content: (b, h, t, d) for a rotation or an attention, (b, t, d) for a table
    positions, key_positions     of queries and keys, tensors of integers: (t,), else (1, t) or (b, t), or one an axis
    offset                       the position of the first token, a number
    length, key_length           how many queries and keys
    cos and sin, angles, tables  what a rotation rotates by, made by the doctor
    dim, heads, causal, mask, dtype, cache

A result that is no tensor (an array, a list) becomes one.
"""

import copy
import inspect
import math
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from posenc.doctor.call import angle_tables
from posenc.doctor.call.axes import ONE_TEXT, from_order, text_by_text, to_order
from posenc.doctor.call.parameters import DEFAULTS, construct, roles
from posenc.doctor.safe_call import attempt

# Forms of positions with a number for each axis of a picture or video, and how many axes that are.
POSITION_AXES = {"3bt": 3, "t2": 2, "bt2": 2, "t3": 3, "bt3": 3}
USUAL_ORDERS = {2: "bt", 3: "btd", 4: "bhtd"}  # of axes, by how many there are
# How a mask is made of the keys that each query sees, (t, s).
MASK_FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "hidden": lambda visible: ~visible,
    "seen": lambda visible: visible,
    "added": lambda visible: torch.where(visible, 0.0, -1e9),
    "seen by all": lambda visible: visible[None, None],
    "seen, heads last": lambda visible: visible[:, :, None],
    "seen keys": lambda visible: visible[-1:],
}


class CallForm(NamedTuple):
    """How code is called: the order of its axes (None: the usual), the form of its positions and of its tables."""

    order: str | None = None
    positions_form: str = "t"
    table_form: angle_tables.TableForm | None = None
    table_width: int | None = None  # where it is not the width of the content
    mask_form: str = ""  # of a mask that cannot be left out, "" for None
    tokens: int = 0  # how many it takes, where it takes no other number


class Code:
    """Somebody's code with its parameters by role; `sizes` (dim, heads) are passed where it asks for them."""

    def __init__(self, function: Any, sizes: dict[str, int], call: CallForm = CallForm()) -> None:  # noqa: B008
        self.source, self.sizes, self.call = function, sizes, call
        # The user's own object is never called: a call may fill a cache, and checks change weights.
        self.function = construct(function, sizes) if inspect.isclass(function) else _copy(function)
        self.returns_numpy = False
        self.heads_requested = False
        self.axis: int | None = None  # the only axis along which positions move, where there are several
        self.fixed_arguments: dict[str, Any] = {}  # by role, passed in every call
        if self.module is not None:
            self.module.eval()  # dropout would make each call differ
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
        if isinstance(owner, nn.Module):
            return owner
        return getattr(self.function, "captured", None)

    @property
    def modules(self) -> list[nn.Module]:
        """The torch module and all that it is made of, if it is one."""
        return [] if self.module is None else [*self.module.modules()]

    @property
    def learned_parameters(self) -> dict[str, nn.Parameter]:
        """What a module learns, by name."""
        parameters = () if self.module is None else self.module.named_parameters()
        return {name: parameter for name, parameter in parameters if parameter.requires_grad}

    def takes(self, *wanted: str) -> bool:
        """Return whether there is a parameter for each role; tables carry positions."""
        available = {*self.roles}
        if self.call.table_form:
            available.add("positions")
        return {*wanted} <= available

    def needs(self, role: str) -> bool:
        """Return whether there is a parameter for the role, without a default."""
        return role in self.roles and self.parameters[self.roles[role]].default is inspect.Parameter.empty

    def fresh(self, **sizes: int) -> "Code":
        """Return a copy that shares no memory, as far as that can be; with other sizes, a class is built anew."""
        copied = Code(self.source if sizes else self.function, self.sizes | sizes, self.call)
        copied.axis = self.axis
        copied.fixed_arguments = dict(self.fixed_arguments)
        return copied

    def cast(self, dtype: torch.dtype) -> "Code":
        """Return a copy of a module with parameters and buffers in another dtype."""
        copied = self.fresh()
        if copied.module is not None:
            copied.module.to(dtype)
        return copied

    def apply(self, usual: str = "bhtd", heads: int = 0, **arguments: Any) -> Any:
        """Call with contents (b, h, t, d) in the order of axes that the code takes; the result is (b, h, t, d)."""
        order, heads = self.call.order or usual, heads or self.heads
        contents = {role: arguments.pop(role) for role in ("x", "q", "k", "v") if role in arguments}
        if order in ONE_TEXT:
            return text_by_text(lambda rows, **rest: self._apply(order, heads, rows, rest), contents, **arguments)
        return self._apply(order, heads, contents, arguments)

    def _apply(self, order: str, heads: int, contents: dict[str, Tensor], arguments: dict[str, Any]) -> Any:
        first = next(iter(contents.values()))  # (b, h, t, d)
        # A rotation by tables has its positions in them: without any passed, those from 0 on.
        if self.call.table_form:
            arguments = {"positions": torch.arange(first.shape[2]), "texts": len(first)} | arguments
        # Grouped heads: there may be fewer of keys than of queries.
        if "k" in contents:
            arguments["kv_heads"] = contents["k"].shape[1]
        result = self(**{role: to_order(x, order) for role, x in contents.items()}, **arguments)
        if isinstance(result, tuple):
            return tuple(from_order(part, order, heads) for part in result)
        return from_order(result, order, heads)

    def __call__(self, **arguments: Any) -> Any:
        """Call with arguments by role; those without a parameter are left out, the sizes asked for are added."""
        # Each of these overrides those before it: what the call passes holds.
        by_role = self._defaults(arguments) | self.fixed_arguments | self.sizes | self._with_positions(arguments)
        by_name = {name: by_role[role] for role, name in self.roles.items() if role in by_role}
        positional_only = [n for n in by_name if self.parameters[n].kind is inspect.Parameter.POSITIONAL_ONLY]
        positional = [by_name.pop(name) for name in positional_only]
        result = self.function(*positional, **by_name)
        self.returns_numpy = isinstance(result, np.ndarray)
        return as_tensors(result)

    def _defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return what stands for parameters that cannot be left out, by role."""
        defaults = {role: value for role, value in DEFAULTS.items() if self.needs(role)}
        defaults |= {role: None for role in ("mask", "cache", "lengths") if self.needs(role)}
        if "cache" in arguments:
            defaults["returns_cache"] = True
        if axes := self._axes(arguments):
            t = math.prod(n for axis, n in axes.items() if axis in "trc")  # tokens, in a row or on a grid
            if self.needs("length"):
                defaults["length"] = t
            if self.call.mask_form:
                defaults["mask"] = MASK_FORMS[self.call.mask_form](torch.ones(t, t, dtype=torch.bool).tril())
        return defaults

    def _axes(self, arguments: dict[str, Any]) -> dict[str, int]:
        content = arguments.get("x", arguments.get("q"))
        shape = () if content is None else content.shape
        return dict(zip(self.call.order or USUAL_ORDERS.get(len(shape), ""), shape, strict=False))

    def _with_positions(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with positions (t,) in the form that the code takes, and tables made of them."""
        rows = arguments.pop("texts", self._axes(arguments).get("b", 1))
        positions = {role: arguments[role] for role in ("positions", "key_positions") if role in arguments}
        form = self.call.positions_form
        if self.call.table_form is not None and "positions" in positions:
            # Code that takes tables and positions gets the rows of all positions, and picks its own.
            is_indexed = self.needs("positions")
            width = self.call.table_width or self.dim
            table = angle_tables.arguments(self.call.table_form, self.roles, positions["positions"], width, is_indexed)
            arguments = arguments | table
            if not is_indexed:
                return {role: value for role, value in arguments.items() if role not in positions}
        if form == "b" and "offset" in arguments:
            arguments = arguments | {"offset": torch.full((rows,), arguments["offset"])}
        return arguments | {role: positions_in_form(p, form, rows, self.axis) for role, p in positions.items()}


def positions_in_form(positions: Tensor, form: str, rows: int, axis: int | None) -> Tensor:
    """Return positions (t,) in another form; along one of several axes only, or along all of them alike.

    Positions (b, t) have their rows already.
    """
    if form in POSITION_AXES:
        # With one axis moved at a time, a check sees whether each is used.
        moving = [positions if axis in (None, number) else positions * 0 for number in range(POSITION_AXES[form])]
        stacked = torch.stack(moving)  # (..., t)
        if "b" in form and positions.ndim == 1:
            stacked = stacked[:, None].repeat(1, rows, 1)  # (n, b, t)
        return stacked if form == "3bt" else stacked.movedim(0, -1)
    if positions.ndim == 2 or form not in ("1t", "bt"):
        return positions
    return positions.repeat(rows if form == "bt" else 1, 1)  # (b, t)


def _copy(function: Any) -> Any:
    """Return a deep copy; an object that does not copy is examined itself."""
    if isinstance(function, types.FunctionType):
        return _with_copied_modules(function)
    copied, failed = attempt(copy.deepcopy, function)
    if not failed:
        return copied
    # What a module holds and cannot be copied, such as a lock or a process group, is shared between the copies.
    owner = getattr(function, "__self__", function)
    modules = owner.modules() if isinstance(owner, nn.Module) else ()
    held = [value for module in modules for name, value in vars(module).items() if name[0] != "_"]
    shared = {id(value): value for value in held if attempt(copy.deepcopy, value)[1]}
    copied, failed = attempt(copy.deepcopy, function, shared)
    return function if failed else copied


def _with_copied_modules(function: types.FunctionType) -> types.FunctionType:
    """Return a copy of a function with copies of the torch modules that it uses, which are `captured`."""
    cells = function.__closure__ or ()
    contents = [attempt(getattr, cell, "cell_contents")[0] for cell in cells]  # None in a cell that is not filled yet
    used = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    modules = [value for value in (*used.values(), *contents) if isinstance(value, nn.Module)]
    # A decorated function holds the one that it decorates, which may use modules itself.
    decorated = {
        id(value): _with_copied_modules(value)
        for value in contents
        if isinstance(value, types.FunctionType) and value is not function
    }
    inner = [module for wrapped in decorated.values() for module in getattr(wrapped, "captured", ())]
    if not modules + inner:
        return function
    copies = copy.deepcopy(modules)
    # By the id of each original: its copy takes its place, in the globals of the new function and in its closure.
    replaced: dict[int, Any] = dict(zip(map(id, modules), copies, strict=True)) | decorated
    new_globals = function.__globals__ | {name: replaced[id(v)] for name, v in used.items() if id(v) in replaced}
    closure = tuple(
        types.CellType(replaced[id(value)]) if id(value) in replaced else cell
        for cell, value in zip(cells, contents, strict=True)
    )
    copied = types.FunctionType(function.__code__, new_globals, function.__name__, function.__defaults__, closure)
    copied.__kwdefaults__, copied.__qualname__ = function.__kwdefaults__, function.__qualname__
    copied.__dict__ |= function.__dict__ | {"captured": nn.ModuleList(dict.fromkeys([*copies, *inner])).eval()}
    return copied


def first_result(result: Any) -> Any:
    """Return the result itself, where more comes with it."""
    return result[0] if isinstance(result, tuple) else result


def as_tensors(result: Any) -> Any:
    """Return tensors for arrays and lists of numbers; the parts of a tuple or list of tensors stay apart."""
    if isinstance(result, tuple | list) and any(not isinstance(part, int | float) for part in result):
        return tuple(as_tensors(part) for part in result)
    tensor, failed = attempt(torch.as_tensor, result)
    return result if failed else tensor  # nothing, or an object of their own
