"""How the doctor calls code that it has never seen: parameters are known by their names, each way to spell one.

    x, q k v (x, y)              content: (b, h, t, d) for a rotation or an attention, (b, t, d) for a table
    positions, key_positions     of queries and keys, tensors of integers: (t,), else (1, t) or (b, t), or one an axis
    offset                       the position of the first token, a number
    length, key_length           how many queries and keys
    cos and sin, angles, tables  what a rotation turns by, made by the doctor
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

from posenc.doctor.attempt import attempt
from posenc.doctor.call import angle_tables
from posenc.doctor.call.axes import ONE_TEXT, back, by_text, there
from posenc.doctor.call.parameters import FIXED, built, roles

AXES = {"3bt": 3, "t2": 2, "bt2": 2, "t3": 3, "bt3": 3}  # forms of positions with a number for each axis
USUAL = {len(order): order for order in ("bt", "btd", "bhtd")}  # orders of axes, by how many there are
MASKS: dict[str, Callable[[Tensor], Tensor]] = {  # of what is seen (t, s)
    "hidden": lambda seen: ~seen,
    "seen": lambda seen: seen,
    "added": lambda seen: torch.where(seen, 0.0, -1e9),
    "seen by all": lambda seen: seen[None, None],
    "seen, heads last": lambda seen: seen[:, :, None],
    "seen keys": lambda seen: seen[-1:],
}


class CallForm(NamedTuple):
    """How code is called: the order of its axes (None: the usual), the form of its positions and of its tables."""

    order: str | None = None
    positions_form: str = "t"
    table_form: angle_tables.TableForm | None = None
    table_width: int | None = None  # of the table, where it is not that of the content
    mask_form: str = ""  # how a mask is told that cannot be left out, "" for None
    tokens: int = 0  # how many tokens it takes, where it takes no other number


class Code:
    """Somebody's code with its parameters by role; `sizes` (dim, heads) fill in what it asks for."""

    def __init__(self, function: Any, sizes: dict[str, int], call: CallForm = CallForm()) -> None:  # noqa: B008
        self.source, self.sizes, self.call = function, sizes, call
        self.function = built(function, sizes) if inspect.isclass(function) else _copied(function)
        self.returns_numpy = self.heads_requested = False
        self.axis: int | None = None
        self.fixed_arguments: dict[str, Any] = {}  # arguments by role that are given in every call
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
        if isinstance(owner, nn.Module):
            return owner
        return getattr(self.function, "captured", None)

    @property
    def parts(self) -> list[nn.Module]:
        """The torch module and all that it is made of, if it is one."""
        return [] if self.module is None else [*self.module.modules()]

    @property
    def learned_parameters(self) -> dict[str, nn.Parameter]:
        """What a module learns, by name."""
        with_check_name = () if self.module is None else self.module.named_parameters()
        return {name: parameter for name, parameter in with_check_name if parameter.requires_grad}

    def takes(self, *wanted: str) -> bool:
        """Tell whether there is a parameter for each role; tables carry positions."""
        return {*wanted} <= {*self.roles, *(("positions",) if self.call.table_form else ())}

    def needs(self, role: str) -> bool:
        """Tell whether there is a parameter for the role, without a default."""
        return role in self.roles and self.parameters[self.roles[role]].default is inspect.Parameter.empty

    def fresh(self, **sizes: int) -> "Code":
        """Return a copy that shares no memory, as far as that can be; with other sizes, a class is built anew."""
        other = Code(self.source if sizes else self.function, self.sizes | sizes, self.call)
        other.axis, other.fixed_arguments = self.axis, dict(self.fixed_arguments)
        return other

    def cast(self, dtype: torch.dtype) -> "Code":
        """Return a copy of a module with parameters and buffers in another dtype."""
        other = self.fresh()
        if other.module is not None:
            other.module.to(dtype)
        return other

    def apply(self, usual: str = "bhtd", heads: int = 0, **given: Any) -> Any:
        """Call with contents (b, h, t, d) in the order of axes that the code takes; the result is (b, h, t, d)."""
        order, heads = self.call.order or usual, heads or self.heads
        contents = {role: given.pop(role) for role in ("x", "q", "k", "v") if role in given}
        if order in ONE_TEXT:
            return by_text(lambda rows, **rest: self._apply(order, heads, rows, rest), contents, **given)
        return self._apply(order, heads, contents, given)

    def _apply(self, order: str, heads: int, contents: dict[str, Tensor], given: dict[str, Any]) -> Any:
        first = next(iter(contents.values()))
        given = {"positions": torch.arange(first.shape[2]), "texts": len(first)} | given if self.call.table_form else given
        given |= {"kv_heads": contents["k"].shape[1]} if "k" in contents else {}
        made = self(**{role: there(x, order) for role, x in contents.items()}, **given)
        if isinstance(made, tuple):
            return tuple(back(part, order, heads) for part in made)
        return back(made, order, heads)

    def __call__(self, **given: Any) -> Any:
        """Call with arguments by role; those without a parameter are left out, the sizes asked for are added."""
        fixed = {role: value for role, value in FIXED.items() if self.needs(role)}
        fixed |= {role: None for role in ("mask", "cache", "lengths") if self.needs(role)}
        fixed |= {"keeps": True} if "cache" in given else {}
        if axes := self._axes(given):
            t = math.prod(n for axis, n in axes.items() if axis in "trc")
            fixed |= {"length": t} if self.needs("length") else {}
            fixed |= {"mask": MASKS[self.call.mask_form](torch.ones(t, t, dtype=torch.bool).tril())} if self.call.mask_form else {}
        given = fixed | self.fixed_arguments | self.sizes | self._formed(given)
        arguments, with_check_name = [], {}
        for role, name in self.roles.items():
            if role not in given:
                continue
            if self.parameters[name].kind is inspect.Parameter.POSITIONAL_ONLY:
                arguments.append(given[role])
            else:
                with_check_name[name] = given[role]
        result = self.function(*arguments, **with_check_name)
        self.returns_numpy = isinstance(result, np.ndarray)
        return as_tensors(result)

    def _axes(self, given: dict[str, Any]) -> dict[str, int]:
        """Return the length of each axis of the content."""
        content = given.get("x", given.get("q"))
        shape = () if content is None else content.shape
        return dict(zip(self.call.order or USUAL.get(len(shape), ""), shape, strict=False))

    def _formed(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with positions (t,) in the form that the code takes, and tables made of them."""
        rows = given.pop("texts", self._axes(given).get("b", 1))
        places = {role: given[role] for role in ("positions", "key_positions") if role in given}
        if self.call.table_form is not None and "positions" in places:
            at = places["positions"]
            indexed = self.needs("positions")
            made = angle_tables.arguments(self.call.table_form, self.roles, at, self.call.table_width or self.dim, indexed)
            given = given | made
            if not indexed:
                return {role: value for role, value in given.items() if role not in places}
        if self.call.positions_form == "b" and "offset" in given:
            given = given | {"offset": torch.full((rows,), given["offset"])}
        return given | {role: positions_in_form(p, self.call.positions_form, rows, self.axis) for role, p in places.items()}


def positions_in_form(positions: Tensor, form: str, rows: int, axis: int | None) -> Tensor:
    """Return positions (t,) in another form; along one of several axes only, or along all of them alike.

    Positions (b, t) have their rows already.
    """
    if form in AXES:
        each = torch.stack([positions * (axis in (None, one)) for one in range(AXES[form])])  # an axis more in front
        each = each if positions.ndim == 2 or "b" not in form else each[:, None].repeat_interleave(rows, 1)
        return each if form == "3bt" else each.movedim(0, -1)
    if positions.ndim == 2 or form not in ("1t", "bt"):
        return positions
    return positions[None].repeat_interleave(rows, 0) if form == "bt" else positions[None]


def _copied(function: Any) -> Any:
    if isinstance(function, types.FunctionType):
        return _with_its_modules(function)
    made, failed = attempt(copy.deepcopy, function)
    if failed:
        owner = getattr(function, "__self__", function)
        parts = owner.modules() if isinstance(owner, nn.Module) else ()
        held = [value for part in parts for name, value in vars(part).items() if name[0] != "_"]
        shared = {id(value): value for value in held if attempt(copy.deepcopy, value)[1]}
        made, failed = attempt(copy.deepcopy, function, shared)
    return function if failed else made  # an object that does not copy is examined itself


def _with_its_modules(function: types.FunctionType) -> types.FunctionType:
    """Return a copy of a function with copies of the torch modules that it uses, which are `captured`."""
    cells = function.__closure__ or ()
    used = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    inside = [attempt(getattr, cell, "cell_contents")[0] for cell in cells]  # None in a cell that is not filled yet
    modules = [value for value in (*used.values(), *inside) if isinstance(value, nn.Module)]
    others = [value for value in inside if isinstance(value, types.FunctionType) and value is not function]
    decorated = {id(value): _with_its_modules(value) for value in others}
    held = [module for one in decorated.values() for module in getattr(one, "captured", ())]
    if not modules + held:
        return function
    new = dict(zip(map(id, modules), copies := copy.deepcopy(modules), strict=True)) | decorated
    swapped = {name: new[id(value)] for name, value in used.items() if id(value) in new}
    filled = zip(cells, map(id, inside), strict=True)
    closure = tuple(types.CellType(new[value]) if value in new else cell for cell, value in filled)
    known = function.__globals__ | swapped
    made = types.FunctionType(function.__code__, known, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    made.__dict__ |= function.__dict__ | {"captured": nn.ModuleList(dict.fromkeys([*copies, *held])).eval()}
    return made


def first_result(made: Any) -> Any:
    """Return the result itself, where more comes with it."""
    if isinstance(made, tuple):
        made, *_ = made
    return made


def as_tensors(result: Any) -> Any:
    """Return tensors for arrays and lists of numbers; the parts of a tuple or list of tensors stay apart."""
    if isinstance(result, tuple | list) and any(not isinstance(part, int | float) for part in result):
        return tuple(as_tensors(part) for part in result)
    made, failed = attempt(torch.as_tensor, result)
    return result if failed else made  # nothing, or an object of their own
