"""The doctor: examine a rotation, a position table, a bias or an attention of your own, and say what is wrong in words.

    print(posenc.doctor(apply_rotary))        or    python -m posenc doctor mypackage.model:apply_rotary

Nothing is compared with a reference implementation: each check is a property that code of its kind must have.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch

from posenc.checkup import attention as _attention
from posenc.checkup import bias as _bias
from posenc.checkup import rotation as _rotation
from posenc.checkup import table as _table
from posenc.checkup.patient import UNDERSTOOD, Patient, attempt, said
from posenc.checkup.report import Finding, Report

__all__ = ["Finding", "Report", "doctor"]

KINDS = {"rotation": _rotation, "table": _table, "bias": _bias, "attention": _attention}
ORDERS = (None, "bhtd", "bthd", "btd", "tbd")
WIDTHS = (64, 32, 128, 16, 8, 256, 512, 768)
HEADS = (4, 8, 2, 1, 12, 16)


def doctor(
    function: Callable[..., Any],
    kind: str | None = None,
    dim: int | None = None,
    heads: int | None = None,
    order: str | None = None,
) -> Report:
    """Examine `function` and report, check by check, what is wrong with it, why that matters and what to do.

    Args:
        function: A function, a torch module, a bound method, or a class, which is built. Its parameters are known by
            their names: x or q, k, v; positions, key_positions, offset or length; dim, heads; causal, mask, cache.
        kind: "rotation", "table", "bias" or "attention"; by default told from the parameters and a first call.
        dim: Width of a head (of an embedding, for a table); by default what fits, 64 first.
        heads: How many heads; by default what fits, 4 first.
        order: Of the axes: "bhtd" (the default) or "bthd" for heads, "btd" (the default) or "tbd" for embeddings.

    Returns:
        The report: print it, or read `healthy` and `findings`.

    Raises:
        ValueError: If `function` cannot be called; the message says which signatures are understood.

    Examples:
        >>> import torch
        >>> def slopes(heads):
        ...     return [2 ** (-8 * head / heads) for head in range(heads)]
        >>> print(doctor(slopes).told("slopes").words.split(":")[0])
        with 4 heads the slopes start at 1 where ALiBi's start at 0.25
    """
    _check(function, kind, dim, heads, order)
    with warnings.catch_warnings(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        found, patient, sizes = _admit(function, kind, dim, heads, order)
        findings = KINDS[found].examine(patient, **sizes)
        if patient.order and not order:
            findings.insert(
                0, Finding("axes", "note", "taken as (b, t, h, d), heads third; order='bhtd' if that is wrong")
            )
        return Report(said(function), found, tuple(findings))


def _check(function: Any, kind: Any, dim: Any, heads: Any, order: Any) -> None:
    if not callable(function):
        raise ValueError(f"doctor: function must be something to call, got {function!r}; {UNDERSTOOD}")
    if kind is not None and (not isinstance(kind, str) or kind not in KINDS):
        raise ValueError(f"doctor: kind must be one of {', '.join(KINDS)}, got {kind!r}; None finds it out")
    for name, given in (("dim", dim), ("heads", heads)):
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
            raise ValueError(f"doctor: {name} must be a positive integer, got {given!r}; None finds it out")
    if order is not None and (not isinstance(order, str) or order not in ORDERS):
        raise ValueError(f"doctor: order must be one of {', '.join(filter(None, ORDERS))}, got {order!r}")


def _admit(function: Any, kind: Any, dim: Any, heads: Any, order: Any) -> tuple[str, Patient, dict[str, int]]:
    """Return the kind, the patient and sizes with which a first call works."""
    own = getattr(function, "__self__", function)
    widths = (dim,) if dim else tuple(dict.fromkeys((*_told(own, "dim d_model head_dim embed_dim"), *WIDTHS)))
    counts = (heads,) if heads else tuple(dict.fromkeys((*_told(own, "heads n_heads num_heads"), *HEADS)))
    first = ""
    for size in [(d, counts[0]) for d in widths] + [(widths[0], h) for h in counts[1:]]:
        sizes = {"dim": size[0], "heads": size[1]}
        for axes in (order,) if order else (None, "bthd"):
            patient, failed = attempt(Patient, function, sizes, axes)
            if failed.startswith("ValueError: doctor: "):
                raise ValueError(f"doctor: function must be {failed.partition(' must be ')[2]}")
            for candidate in ((kind,) if kind else _candidates(patient)) if patient else ():
                works, failed = attempt(KINDS[candidate].accepts, patient.fresh(), **sizes)
                if works:
                    return candidate, patient, sizes
                first = first or failed or " "
            first = first or failed
    why = f"that answers {first}" if first.strip() else "whose answers fit none; wrap it in a function that does"
    raise ValueError(f"doctor: function must be one of {UNDERSTOOD}, got {said(function)} {why}")


def _told(own: Any, names: str) -> tuple[int, ...]:
    return tuple(v for name in names.split() if isinstance(v := getattr(own, name, None), int) and v > 0)


def _candidates(patient: Patient) -> tuple[str, ...]:
    """Return the kinds that the parameters allow, likeliest first."""
    if patient.takes("v"):
        return ("attention",)
    if patient.takes("q", "k"):
        return ("rotation",)
    if patient.takes("x"):
        return ("rotation", "attention", "table")
    if patient.takes("score") or patient.takes("heads") or patient.takes("key_positions"):
        return ("bias",)
    return ("table", "bias") if patient.takes("dim") else ("bias", "table")
