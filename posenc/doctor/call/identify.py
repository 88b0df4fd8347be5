"""Identify unknown code and how to call it: its kind, sizes, order of axes, form of positions and tables."""

import re
import time
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from posenc.doctor import attention, bias, rotation, table
from posenc.doctor.attention.projections import projects
from posenc.doctor.call import angle_tables
from posenc.doctor.call.axes import FOR_EMBEDDINGS, SHOWN
from posenc.doctor.call.code import MASK_FORMS, POSITION_AXES, CallForm, Code
from posenc.doctor.call.parameters import BATCHED_NAMES, SCORE_NAMES, UNDERSTOOD, name_of
from posenc.doctor.call.rotation_by_tables import returns_plain_angles, rotation_by_tables
from posenc.doctor.report import with_article
from posenc.doctor.safe_call import attempt

KINDS: dict[str, ModuleType] = {"rotation": rotation, "table": table, "bias": bias, "attention": attention}
SECONDS = 2  # of processor time for the calls of one size, and to begin with one more
WIDTHS = (64, 32, 128, 16, 8, 256, 512, 768)
HEADS = (4, 8, 2, 1, 12, 16)
WIDTH_ATTRIBUTES = "dim d_model head_dim embed_dim hidden_size n_embd embedding_dim channels d_k dim_head head_size"
HEADS_ATTRIBUTES = "heads n_heads num_heads n_head nhead num_attention_heads"
ROTARY_WIDTH_ATTRIBUTES = "head_dim rotary_ndims rotary_dim dim_head"
PLAIN_FORMS = ("t", "1t", "bt", "b")
HEADS_JOINED = ("btd", "tbd")
FOR_HEADS = [order for order in SHOWN if order not in FOR_EMBEDDINGS]
USUAL_ORDERS, OTHER_ORDERS = (None, "bthd"), ("tbhd", "btd", "tbd", "thd", "htd", *FOR_EMBEDDINGS)
# The kind that a name tells, by the first pattern in it: a bias may be called a relative position embedding.
NAME_HINTS = {
    "bias": r"bias|alibi|slope|bucket|rel(ative)?_?pos",
    "rotation": r"rotar|rope\b|RoPE",
    "attention": "attention|attn",
    "table": r"sinusoid|sincos|position\w*(embed|encod)|embed\w*position|pos_?(emb|enc)",
}
Candidate = tuple[str, CallForm]  # a kind, and how to call it


def identify(
    function: Any, kind: str | None, dim: int | None, heads: int | None, order: str | None
) -> tuple[str, Code]:
    """Return the kind, and the code with the sizes, the order of axes and the form of positions that work.

    Raises:
        ValueError: If no call works; the message says what the calls raised, then which signatures are understood.
    """
    failures: dict[str, str] = {}  # the first of each kind; "" where not even a call could be tried
    sizes = _sizes(function, dim, heads)
    # Rare orders of axes come after all else: code that runs in a wrong order of axes would look faulty.
    for orders in ((order,),) if order else (USUAL_ORDERS, OTHER_ORDERS):
        for size in _in_time(sizes):
            code, failed = attempt(Code, function, size)
            if failed.startswith("ValueError: doctor: "):  # the parameters are not known, whatever the sizes
                condition, _, value = failed.partition(" must be ")[2].partition(", got ")
                raise ValueError(f"doctor: function must be {condition}, got {value}")
            if failed:
                failures.setdefault("", failed)
                continue
            identified = _first_that_fits(code, _candidates(code, kind, orders), failures)
            # Plain angles have a row for each position as a table has, but they grow with the position.
            if identified and kind is None and identified[0] == "table" and returns_plain_angles(code):
                return _by_tables(function, sizes) or identified
            if identified:
                return identified
        # Code that makes cos and sin does not rotate itself; tried once, for its content has no order of axes.
        if kind in (None, "rotation") and orders is not OTHER_ORDERS:
            identified = _by_tables(function, sizes)
            if identified:
                return identified
    wrap = "; if it is one of these, wrap it in a function that is called as below"
    reason = f"{name_of(function)}, {_reason(failures)}{wrap}. Understood are {UNDERSTOOD}"
    raise ValueError(f"doctor: function must be a rotation, a table, a bias or an attention, got {reason}")


def _first_that_fits(code: Code, candidates: list[Candidate], failures: dict[str, str]) -> tuple[str, Code] | None:
    """Return the first kind and call that fit; among forms of tables, the first under which the code is sound."""
    unsound: tuple[str, Code] | None = None
    for kind, call in _in_time(candidates):
        # Code that fits is of this kind and order even if faulty: only another form of tables may still be its own.
        if unsound and (kind, call.order) != (unsound[0], unsound[1].call.order):
            continue
        code.call = call
        # Each try gets its own copy, for a call may fill a cache; an attention, which may be large, copies itself.
        tried = code if kind == "attention" else code.fresh()
        fits, failed = attempt(KINDS[kind].accepts, tried)
        if not fits:
            failures.setdefault(kind, failed)
            continue
        identified = kind, Code(code.source, tried.sizes, tried.call)
        is_sound, _ = attempt(getattr(KINDS[kind], "is_sound", lambda _: True), tried)
        if is_sound:
            return identified
        unsound = unsound or identified
    return unsound


def _in_time(items: Iterable[Any]) -> Iterator[Any]:
    """Yield items until SECONDS are spent: code of others may be slow. The first is free, for it may compile."""
    start = None
    for item in items:
        yield item
        if start is None:
            start = time.thread_time()
        if time.thread_time() - start > SECONDS:
            return


def _by_tables(function: Any, sizes: list[dict[str, int]]) -> tuple[str, Code] | None:
    """Return the rotation by what the code makes, where that is cos and sin, complex numbers or angles."""
    for size in sizes:
        code, failed = attempt(Code, function, size)
        by_tables = None if failed else rotation_by_tables(code)
        if by_tables is None:
            continue
        # The doctor rotates, in its own order of axes; the code itself gets its positions from rotation_by_tables.
        form = by_tables.table_layout.positions_form
        call = CallForm(positions_form=form if form in POSITION_AXES else "t")
        rotation_code = Code(by_tables, size | {"dim": by_tables.dim})
        if identified := _first_that_fits(rotation_code, [("rotation", call)], {}):
            return identified
    return None


def _sizes(function: Any, dim: int | None, heads: int | None) -> list[dict[str, int]]:
    """Return the sizes to try, first those asked for, then those that the code says of itself."""
    owner = getattr(function, "__self__", function)
    widths = (dim,) if dim else (*_attributes(owner, WIDTH_ATTRIBUTES), *WIDTHS)
    counts = (heads,) if heads else (*_attributes(owner, HEADS_ATTRIBUTES), *HEADS)
    # Each width with the likeliest count of heads, and each count with the likeliest width: all pairs are too many.
    pairs = [(width, counts[0]) for width in widths] + [(widths[0], count) for count in counts]
    return [{"dim": width, "heads": count} for width, count in dict.fromkeys(pairs)]


def _attributes(owner: Any, names: str) -> list[int]:
    """Return the positive integers that an object, or its config, has under these names."""
    holders = (owner, getattr(owner, "config", None))
    values = [getattr(holder, name, None) for name in names.split() for holder in holders]
    return [value for value in values if type(value) is int and value]


def _candidates(code: Code, kind: str | None, orders: tuple[str | None, ...]) -> list[Candidate]:
    """Return what to try in turn, likeliest first."""
    candidates: list[Candidate] = []
    for order in orders:
        for candidate in _kinds(code, kind):
            # A bias, which takes no content, is tried once.
            if order in (_orders(code, candidate) or (orders[0],)):
                candidates += [(candidate, call) for call in _calls(code, candidate, order, orders)]
    # By the form of positions first, and then, as sorting keeps what is equal in its order, by the order of axes.
    if code.roles.get("positions", "").lower() in BATCHED_NAMES:
        # Such names mean (b, t) or (1, t); tables are left as they are, for these begin with (t,).
        return sorted(candidates, key=lambda pair: pair[0] == "table" or pair[1].positions_form == "t")
    forms = [*PLAIN_FORMS, *POSITION_AXES]
    return sorted(candidates, key=lambda pair: min(forms.index(pair[1].positions_form), len(PLAIN_FORMS)))


def _calls(code: Code, kind: str, order: str | None, orders: tuple[str | None, ...]) -> Iterator[CallForm]:
    """Yield each way to call a kind in one order of axes."""
    for mask_form in _mask_forms(code, kind, orders):
        for positions_form in _positions_forms(code, kind):
            for table_form in _table_forms(code, kind, order):
                for width in _table_widths(code, kind, table_form):
                    yield CallForm(order, positions_form, table_form, width, mask_form)


def _orders(code: Code, kind: str) -> tuple[str | None, ...]:
    """Return the orders of axes that there may be; none where content has none."""
    if kind == "bias":
        return ()
    if kind == "table":
        return (None, *HEADS_JOINED)
    if kind == "attention" and not code.takes("v"):
        return (None, *SHOWN)
    # A layer such as nn.MultiheadAttention projects q, k and v: it splits the heads itself.
    if kind == "attention" and projects(code.module):
        return HEADS_JOINED
    return (None, *FOR_HEADS)


def _mask_forms(code: Code, kind: str, orders: tuple[str | None, ...]) -> tuple[str, ...]:
    """Return the forms of masks to try: where one is needed, or where none fits without, after all else."""
    is_last_resort = code.takes("mask") and orders != USUAL_ORDERS and not _needs_table(code)
    if kind == "attention" and (code.needs("mask") or is_last_resort):
        return ("", *MASK_FORMS)
    return ("",)


def _needs_table(code: Code) -> bool:
    return any(code.needs(role) for role in angle_tables.ROLES)


def _table_forms(code: Code, kind: str, order: str | None) -> Iterator[angle_tables.TableForm | None]:
    if kind in ("rotation", "attention"):
        takes_embeddings = kind == "attention" and not code.takes("v")
        yield from angle_tables.forms(code.roles, order or ("btd" if takes_embeddings else "bhtd"))
    # Without tables, where they have a default.
    if not _needs_table(code):
        yield None


def _table_widths(code: Code, kind: str, table_form: angle_tables.TableForm | None) -> tuple[int | None, ...]:
    """Return how wide tables may be: of a head, or a part of it, for an attention that takes embeddings."""
    if table_form is None or kind != "attention" or code.takes("v"):
        return (None,)
    declared = _attributes(code.module, ROTARY_WIDTH_ATTRIBUTES)
    head_dim = declared[0] if declared else code.dim // code.heads
    # Models with a partial rotation turn a half (GLM) or a quarter (GPT-NeoX) of the channels of a head.
    return head_dim, head_dim // 2, head_dim // 4


def _positions_forms(code: Code, kind: str) -> tuple[str, ...]:
    if "positions" not in code.roles or code.takes("score"):
        return ("t", "b") if kind == "rotation" and code.needs("offset") else ("t",)
    # Without content there is no batch of texts.
    if not (code.takes("x") or code.takes("q")):
        return ("t", "1t")
    is_batched = code.roles["positions"].lower() in BATCHED_NAMES and kind != "table"
    plain = ("bt", "1t", "t") if is_batched else ("t", "1t", "bt")
    return (*plain, *POSITION_AXES) if kind == "rotation" and not _needs_table(code) else plain


def _kinds(code: Code, kind: str | None) -> tuple[str, ...]:
    """Return the kinds that the parameters allow, likeliest first."""
    if kind:
        return (kind,)
    hinted = _kind_by_name(code)
    # Values are taken by attentions alone, but for a rotation that hands them on.
    if code.needs("v") or (code.takes("v") and "rotation" not in hinted):
        return ("attention",)
    if code.takes("q", "k"):
        return ("rotation", "bias")
    if {code.roles.get("x"), *code.roles} & {*SCORE_NAMES.split(), "row_table"}:
        return ("bias",)
    if code.takes("x"):
        # A layer that projects queries, keys and values adds no table to its input.
        is_no_table = "rotation" in hinted or projects(code.module)
        likely = ("rotation", "attention") if is_no_table else ("rotation", "attention", "table")
    # Without content: a table has channels, a bias has heads, or queries and keys.
    elif {*code.roles} & {"score", "heads", "key_positions", "relative", "boxes"}:
        return ("bias", "table") if code.takes("dim") else ("bias",)
    else:
        likely = ("table", "bias") if code.takes("dim") or code.takes("mask") else ("bias", "table")
    return tuple(dict.fromkeys((*hinted, *likely)))


def _kind_by_name(code: Code) -> tuple[str, ...]:
    """Return the kind that the name of the code tells, or of an attention that it is or calls."""
    captured = " ".join(type(part).__name__ for part in getattr(code.function, "captured", ()))
    if projects(code.module) or re.search("attention|attn|mha", captured, re.I):
        return ("attention",)
    owner = type(getattr(code.function, "__self__", None)).__name__
    names = " ".join({name_of(code.source), name_of(code.function), owner})
    for kind, hint in NAME_HINTS.items():
        if re.search(hint, names, re.I):
            return (kind,)
    return ()


def _reason(failures: dict[str, str]) -> str:
    """Return what the first call of each kind raised or returned, its own errors first."""
    kinds: dict[str, list[str]] = {}  # by outcome
    for kind, failed in sorted(failures.items(), key=lambda item: not item[1]):
        kinds.setdefault(f"raises {failed}" if failed else "returns what does not fit", []).append(kind)
    outcomes = [f"{outcome}{_called_as(names)}" for outcome, names in kinds.items()]
    return f"which {' and '.join(outcomes) or 'returns what fits none of them'}"


def _called_as(kinds: list[str]) -> str:
    named = [with_article(kind) for kind in kinds if kind]
    return f" when called as {' or '.join(named)}" if named else ""
