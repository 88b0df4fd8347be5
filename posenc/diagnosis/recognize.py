"""Find out what unknown code is and how to call it: its kind, sizes, order of axes and form of positions."""

import inspect
import re
from typing import Any

from torch import nn

from posenc.diagnosis import attention, bias, rotation, table
from posenc.diagnosis.call import Code, attempt
from posenc.diagnosis.parameters import ROWS, UNDERSTOOD, name_of

KINDS = {"rotation": rotation, "table": table, "bias": bias, "attention": attention}
WIDTHS = (64, 32, 128, 16, 8, 256, 512, 768)
HEADS = (4, 8, 2, 1, 12, 16)
WRAP = "; if it is one of these, wrap it in a function that is called as below"


def recognize(
    function: Any, kind: str | None, dim: int | None, heads: int | None, order: str | None
) -> tuple[str, Code]:
    """Return the kind, and the code with the sizes, the order of axes and the form of positions that work.

    Raises:
        ValueError: If no call works; the message says what the calls raised, then which signatures are understood.
    """
    owner = getattr(function, "__self__", function)
    failures: dict[str, str] = {}  # the first of each kind; "" where not even a call could be tried
    for sizes in _sizes(owner, dim, heads):
        tried = [attempt(Code, function, sizes, axes) for axes in ((order,) if order else (None, "bthd"))]
        for _, failed in tried:
            if failed.startswith("ValueError: doctor: "):  # the parameters are not known, whatever the sizes
                rule, _, got = failed.partition(" must be ")[2].partition(", got ")
                raise ValueError(f"doctor: function must be {rule}, got {got}")
            if failed:
                failures.setdefault("", failed)
        for candidate, form, code in _ways([code for code, _ in tried if code], kind):
            code.form = form
            fits, failed = attempt(KINDS[candidate].accepts, code.fresh())
            if fits:
                return candidate, code
            failures.setdefault(candidate, failed)
    why = f"{name_of(function)}, {_why(failures)}{_advice(owner) or WRAP}. Understood are {UNDERSTOOD}"
    raise ValueError(f"doctor: function must be a rotation, a table, a bias or an attention, got {why}")


def _sizes(owner: Any, dim: int | None, heads: int | None) -> list[dict[str, int]]:
    """Return the sizes to try, first those asked for, then those that the code says of itself."""
    dims = (dim,) if dim else (*_attributes(owner, "dim d_model head_dim embed_dim"), *WIDTHS)
    counts = (heads,) if heads else (*_attributes(owner, "heads n_heads num_heads"), *HEADS)
    pairs = [(one, counts[0]) for one in dims] + [(dims[0], one) for one in counts]
    return [{"dim": dim, "heads": heads} for dim, heads in dict.fromkeys(pairs)]


def _attributes(owner: Any, names: str) -> list[int]:
    values = [getattr(owner, name, None) for name in names.split()]
    return [value for value in values if isinstance(value, int) and value > 0]


def _ways(codes: list[Code], kind: str | None) -> list[tuple[str, str, Code]]:
    """Return what to try in turn, (kind, form of positions, code in one order of axes), likeliest first.

    Names that transformers uses mean (b, t) or (1, t), whatever the axes; all others mean (t,), whatever the axes.
    """
    ways = [(c, form, code) for code in codes for c in _candidates(code, kind) for form in _forms(code, c)]
    if codes and _named_for_rows(codes[0]):
        return sorted(ways, key=lambda way: way[0] == "table" or way[1] == "t")
    return sorted(ways, key=lambda way: way[1] != "t")


def _forms(code: Code, kind: str) -> tuple[str, ...]:
    if not code.takes("positions") or code.takes("score"):
        return ("t",)
    if not (code.takes("x") or code.takes("q")):
        return ("t", "1t")
    return ("bt", "1t", "t") if _named_for_rows(code) and kind != "table" else ("t", "1t", "bt")


def _named_for_rows(code: Code) -> bool:
    return code.roles.get("positions", "").lower() in ROWS


def _candidates(code: Code, kind: str | None) -> tuple[str, ...]:
    """Return the kinds that the parameters allow, likeliest first."""
    if kind:
        return (kind,)
    if code.takes("v"):
        return ("attention",)
    if code.takes("q", "k"):
        return ("rotation",)
    if code.takes("x"):
        return ("rotation", "attention", "table")
    if any(code.takes(role) for role in ("score", "heads", "key_positions")):
        return ("bias",)
    return ("table", "bias") if code.takes("dim") else ("bias", "table")


def _why(failures: dict[str, str]) -> str:
    """Return what the first call of each kind raised, their own errors first."""
    kinds: dict[str, list[str]] = {}
    for kind, failed in failures.items():
        kinds.setdefault(failed, []).append(kind)
    unfit = kinds.pop("", [])
    if not kinds:
        return "which returns what fits none of them"
    if len(kinds) == 1 and not unfit:
        return f"which raises {next(iter(kinds))}"
    said = [f"raises {failed}{_called_as(names)}" for failed, names in kinds.items()]
    said += [f"returns what does not fit{_called_as(unfit)}"] if unfit else []
    return f"which {' and '.join(said)}"


def _called_as(names: list[str]) -> str:
    known = [f"{'an' if name[0] == 'a' else 'a'} {name}" for name in names if name]
    return f" when called as {' or '.join(known)}" if known else ""


def _advice(owner: Any) -> str:
    """Return what to hand in instead of a module that only makes the angles of a rotation."""
    cls = owner if isinstance(owner, type) else type(owner)
    if not issubclass(cls, nn.Module) or not re.search("rot|rope", cls.__name__, re.I):
        return ""
    turns = [name for base in cls.__mro__ for name in vars(base) if name.startswith(("rotate", "apply_rot"))]
    if turns:
        return f". It makes angles and does not turn anything: give its method that does, module.{turns[0]}"
    call = "q, k, position_ids): return apply_rotary_pos_emb(q, k, *module(q, position_ids))"
    if "x" not in inspect.signature(cls.forward).parameters:
        call = "x, positions): return apply_rotary_pos_emb(x, *module(positions))"
    return f". If it makes angles, or their cos and sin, give a function that turns with them: def rotate({call}"
