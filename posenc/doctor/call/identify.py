"""Find out what unknown code is and how to call it: its kind, sizes, order of axes, form of positions and tables."""

import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

from posenc.doctor import attention, bias, table
from posenc.doctor import rotation as rotation_kind
from posenc.doctor.attempt import attempt
from posenc.doctor.attention.projections import projects
from posenc.doctor.call import angle_tables
from posenc.doctor.call.axes import FOR_EMBEDDINGS, SHOWN
from posenc.doctor.call.code import AXES, MASKS, CallForm, Code
from posenc.doctor.call.parameters import ROWS, SCORES, UNDERSTOOD, name_of
from posenc.doctor.call.rotation_by_tables import returns_tables_only, rotation_by_tables
from posenc.doctor.report import with_article

KINDS: dict[str, Any] = {"rotation": rotation_kind, "table": table, "bias": bias, "attention": attention}
SECONDS = 2  # for the ways of one size, and to begin with one more
WIDTHS = (64, 32, 128, 16, 8, 256, 512, 768)
HEADS = (4, 8, 2, 1, 12, 16)
OWN_WIDTHS = "dim d_model head_dim embed_dim hidden_size n_embd embedding_dim channels d_k dim_head head_size"
OWN_HEADS = "heads n_heads num_heads n_head nhead num_attention_heads"
PLAIN = ("t", "1t", "bt", "b")
JOINED = ("btd", "tbd")
OUT = [order for order in SHOWN if order not in FOR_EMBEDDINGS]
USUAL, OTHERS = (None, "bthd"), ("tbhd", "btd", "tbd", "thd", "htd", *FOR_EMBEDDINGS)
WRAP = "; if it is one of these, wrap it in a function that is called as below"


def identify(
    function: Any, kind: str | None, dim: int | None, heads: int | None, order: str | None
) -> tuple[str, Code]:
    """Return the kind, and the code with the sizes, the order of axes and the form of positions that work.

    Raises:
        ValueError: If no call works; the message says what the calls raised, then which signatures are understood.
    """
    owner = getattr(function, "__self__", function)
    failures: dict[str, str] = {}  # the first of each kind; "" where not even a call could be tried
    for orders in ((order,),) if order else (USUAL, OTHERS):
        for sizes in _in_time(_sizes(owner, dim, heads)):
            code, failed = attempt(Code, function, sizes)
            if failed.startswith("ValueError: doctor: "):  # the parameters are not known, whatever the sizes
                rule, _, got = failed.partition(" must be ")[2].partition(", got ")
                raise ValueError(f"doctor: function must be {rule}, got {got}")
            if failed:
                failures.setdefault("", failed)
                continue
            if found := _fitting(code, _ways(code, kind, orders), failures):
                angles_alone = kind is None and "table" in found and returns_tables_only(code)
                return (angles_alone and _rotation_by_tables(function, owner, dim, heads)) or found
        turns = kind in (None, "rotation") and orders is not OTHERS  # tried once: what it makes has no order of axes
        if turns and (made := _rotation_by_tables(function, owner, dim, heads)):
            return made
    why = f"{name_of(function)}, {_why(failures)}{WRAP}. Understood are {UNDERSTOOD}"
    raise ValueError(f"doctor: function must be a rotation, a table, a bias or an attention, got {why}")


def _fitting(code: Code, ways: list[tuple[str, CallForm]], failures: dict[str, str]) -> tuple[str, Code] | None:
    """Return the first kind and way that fit; among ways with tables, the first under which the code is sound."""
    second = alike = None
    for kind, way in _in_time(ways):
        if second and (kind, way.order) != alike:
            continue
        code.call = way
        tried, failed = (code, "") if kind == "attention" else attempt(code.fresh)
        fits, raised = attempt(KINDS[kind].accepts, tried)
        if not fits:
            failures.setdefault(kind, failed or raised)
            continue
        found = kind, Code(code.source, tried.sizes, tried.call)
        is_sound, _ = attempt(getattr(KINDS[kind], "sound", lambda _: True), tried)
        if is_sound:
            return found
        second, alike = second or found, (kind, way.order)
    return second


def _in_time(items: Iterable[Any]) -> Iterator[Any]:
    """Yield items until SECONDS are spent: code of others may be slow. The first is free, for it may compile."""
    begun = None
    for item in items:
        yield item
        if time.thread_time() - (begun := begun or time.thread_time()) > SECONDS:
            return


def _rotation_by_tables(function: Any, owner: Any, dim: int | None, heads: int | None) -> tuple[str, Code] | None:
    """Return the rotation by what the code makes, where that is cos and sin, complex numbers or angles."""
    for sizes in _sizes(owner, dim, heads):
        code, failed = attempt(Code, function, sizes)
        rotation = None if failed else rotation_by_tables(code)
        if rotation is None:
            continue
        sizes = sizes | {"dim": rotation.dim}
        form = rotation.held.form if rotation.held.form in AXES else "t"
        way = CallForm(form=form)  # the doctor turns, in its own order of axes
        if found := _fitting(Code(rotation, sizes), [("rotation", way)], {}):
            return found
    return None


def _sizes(owner: Any, dim: int | None, heads: int | None) -> list[dict[str, int]]:
    """Return the sizes to try, first those asked for, then those that the code says of itself."""
    dims = (dim,) if dim else (*_attributes(owner, OWN_WIDTHS), *WIDTHS)
    counts = (heads,) if heads else (*_attributes(owner, OWN_HEADS), *HEADS)
    (first_dim, *_), (first_count, *_) = dims, counts
    pairs = *((one, first_count) for one in dims), *((first_dim, one) for one in counts)
    return [{"dim": dim, "heads": heads} for dim, heads in dict.fromkeys(pairs)]


def _attributes(owner: Any, names: str) -> list[int]:
    places = (owner, getattr(owner, "config", None))
    values = [getattr(place, name, None) for name in names.split() for place in places]
    return [value for value in values if type(value) is int and value]


def _ways(code: Code, kind: str | None, orders: tuple[str | None, ...]) -> list[tuple[str, CallForm]]:
    """Return what to try in turn, likeliest first.

    Names that transformers uses mean (b, t) or (1, t), whatever the axes; all others mean (t,), whatever the axes.
    """
    first, *_ = orders
    ways = [
        (one, CallForm(order, form, table, width, mask))
        for order in orders
        for one in _candidates(code, kind)
        for mask in (("", *MASKS) if one == "attention" and _wants_mask(code, orders) else ("",))
        for form in _forms(code, one)
        for table in _tables(code, one, order)
        for width in _table_widths(code, one, table)
        if order in (_orders(code, one) or (first,))
    ]
    if code.roles.get("positions", "").lower() in ROWS:
        return sorted(ways, key=lambda one: "table" in one or one[-1].positions_form == "t")
    return sorted(ways, key=lambda one: (*PLAIN, one[-1].positions_form).index(one[-1].positions_form))


def _orders(code: Code, kind: str) -> tuple[str | None, ...]:
    """Return the orders of axes that there may be; none where content has none."""
    if kind == "attention" and code.takes("v") and projects(code.module):
        return JOINED  # heads lie side by side
    content = kind == "attention" and not code.takes("v")
    return {"table": (None, *JOINED), "bias": ()}.get(kind, (None, *SHOWN) if content else (None, *OUT))


def _wants_mask(code: Code, orders: tuple[str | None, ...]) -> bool:
    """Tell whether to try masks: where one is needed, or where none fits without, after all else."""
    return code.needs("mask") or (code.takes("mask") and orders != USUAL and not _needed(code))


def _needed(code: Code) -> bool:
    return any(code.needs(role) for role in angle_tables.ROLES)


def _tables(code: Code, kind: str, order: str | None) -> Iterator[angle_tables.TableForm | None]:
    if kind in ("rotation", "attention"):
        yield from angle_tables.forms(code.roles, order or ("btd" if kind == "attention" and not code.takes("v") else "bhtd"))
    if not _needed(code):
        yield None


def _table_widths(code: Code, kind: str, table: angle_tables.TableForm | None) -> tuple[int | None, ...]:
    """Return how wide tables may be: of a head, or a part of it, for an attention that takes embeddings."""
    if table is None or kind != "attention" or code.takes("v"):
        return (None,)
    head, *_ = *_attributes(code.module, "head_dim rotary_ndims rotary_dim dim_head"), code.dim // code.heads
    return head, head // 2, head // 4


def _forms(code: Code, kind: str) -> tuple[str, ...]:
    if "positions" not in code.roles or code.takes("score"):
        return ("t", "b") if kind == "rotation" and code.needs("offset") else ("t",)
    if not (code.takes("x") or code.takes("q")):
        return ("t", "1t")
    rows = code.roles["positions"].lower() in ROWS and kind != "table"
    more = ("3bt", "t2", "bt2", "t3", "bt3") if kind == "rotation" and not _needed(code) else ()
    return (*(("bt", "1t", "t") if rows else ("t", "1t", "bt")), *more)


def _candidates(code: Code, kind: str | None) -> tuple[str, ...]:
    """Return the kinds that the parameters allow, likeliest first."""
    if kind:
        return (kind,)
    hinted = _hinted(code)
    if code.needs("v") or (code.takes("v") and "rotation" not in hinted):
        return ("attention",)
    if code.takes("q", "k"):
        return ("rotation", "bias")
    if {code.roles.get("x"), *code.roles} & {*SCORES, "row_table"}:
        return ("bias",)
    if code.takes("x"):
        table = () if "rotation" in hinted or projects(code.module) else ("table",)
        return tuple(dict.fromkeys((*hinted, "rotation", "attention", *table)))
    if {*code.roles} & {"score", "heads", "key_positions", "relative", "boxes"}:
        return ("bias", "table") if code.takes("dim") else ("bias",)
    plain = ("table", "bias") if code.takes("dim") or code.takes("mask") else ("bias", "table")
    return tuple(dict.fromkeys((*hinted, *plain)))


def _hinted(code: Code) -> tuple[str, ...]:
    """Return the kind that the name of the code tells, or of an attention that it is or calls."""
    used = " ".join(type(part).__name__ for part in getattr(code.function, "captured", ()))
    if projects(code.module) or re.search("attention|attn|mha", used, re.I):
        return ("attention",)
    names = {name_of(code.source), name_of(code.function), type(getattr(code.function, "__self__", None)).__name__}
    name = " ".join(names)
    hints = {
        "bias": r"bias|alibi|slope|bucket|rel(ative)?_?pos",
        "rotation": r"rotar|rope\b|RoPE",
        "attention": "attention|attn",
        "table": r"sinusoid|sincos|position\w*(embed|encod)|embed\w*position|pos_?(emb|enc)",
    }
    hinted = next((kind for kind, hint in hints.items() if re.search(hint, name, re.I)), None)
    return () if hinted is None else (hinted,)


def _why(failures: dict[str, str]) -> str:
    """Return what the first call of each kind raised, their own errors first."""
    kinds: dict[str, list[str]] = {}
    for kind, failed in failures.items():
        kinds.setdefault(failed, []).append(kind)
    unfit = kinds.pop("", [])
    if not kinds:
        return "which returns what fits none of them"
    said = [f"raises {failed}{_called_as(names)}" for failed, names in kinds.items()]
    said += [f"returns what does not fit{_called_as(unfit)}"] if unfit else []
    return f"which {' and '.join(said)}"


def _called_as(names: list[str]) -> str:
    known = [with_article(name) for name in names if name]
    return f" when called as {' or '.join(known)}" if known else ""
