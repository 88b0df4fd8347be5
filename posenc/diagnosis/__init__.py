"""The doctor: examine a rotation, a position table, a bias or an attention of your own, and say what is wrong in words.

    print(posenc.doctor(apply_rotary))        or    python -m posenc doctor mypackage.model:apply_rotary

Nothing is compared with a reference implementation: each check is a property that code of its kind must have.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch

from posenc.diagnosis import planned
from posenc.diagnosis.parameters import UNDERSTOOD, name_of
from posenc.diagnosis.recognize import KINDS, recognize
from posenc.diagnosis.report import Finding, Report

__all__ = ["Finding", "Report", "doctor"]

FORMS = {"1t": "one row for all texts, (1, t)", "bt": "a row for each text, (b, t)"}
ORDERS = ("bhtd", "bthd", "btd", "tbd")


def doctor(
    function: Callable[..., Any],
    kind: str | None = None,
    dim: int | None = None,
    heads: int | None = None,
    order: str | None = None,
    config: Any = None,
    layer: int | None = None,
) -> Report:
    """Examine `function` and report, check by check, what is wrong with it, why that matters and what to do.

    Args:
        function: A function, a torch module, a bound method, or a class, which is built. Its parameters are known by
            their names: x or q, k, v; positions, key_positions, offset or length; dim, heads; causal, mask, cache.
            Whether positions are (t,), (1, t) or (b, t) is found out.
        kind: "rotation", "table", "bias" or "attention"; by default told from the parameters and a first call.
        dim: Width of a head (of an embedding, for a table); by default what fits, 64 first.
        heads: How many heads; by default what fits, 4 first. Slopes are judged for this number where it is given.
        order: Of the axes: "bhtd" (the default) or "bthd" for heads, "btd" (the default) or "tbd" for embeddings.
        config: Of the model that a rotation is for, as `posenc.plan` takes it: the rotation is compared with its
            layers, and a known fault is named, such as "YaRN dropped".
        layer: Which layer of `config` is meant; by default any that rotates.

    Returns:
        The report: print it, read `healthy` and `findings`, or `assert doctor(function).healthy` in a test.

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
    if config is not None and kind not in (None, "rotation"):
        raise ValueError(f"doctor: kind must be 'rotation' with a config, got {kind!r}; or leave config out")
    if config is None and layer is not None:
        raise ValueError(f"doctor: layer must be None without a config, got {layer!r}; pass config as well")
    with warnings.catch_warnings(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        told = []
        if config is None:
            found, code = recognize(function, kind, dim, heads, order)
        else:
            found, (code, told) = "rotation", planned.examine(function, dim, heads, order, config, layer)
        code.heads_asked = heads is not None
        findings = [*told, *KINDS[found].examine(code)]
    if code.form != "t":
        findings.append(Finding("positions", "ok", f"given as {FORMS[code.form]}"))
    if code.order and not order:
        words = "taken as (b, t, h, d), heads third; order='bhtd' if that is wrong"
        findings.insert(0, Finding("axes", "note", words))
    return Report(name_of(function), found, tuple(findings))


def _check(function: Any, kind: Any, dim: Any, heads: Any, order: Any) -> None:
    if not callable(function):
        raise ValueError(f"doctor: function must be something to call, got {function!r}; {UNDERSTOOD}")
    if kind not in (None, *KINDS):
        raise ValueError(f"doctor: kind must be one of {', '.join(KINDS)}, got {kind!r}; None finds it out")
    for name, given in (("dim", dim), ("heads", heads)):
        if given is not None and (type(given) is not int or given < 1):
            raise ValueError(f"doctor: {name} must be a positive integer, got {given!r}; None finds it out")
    if order not in (None, *ORDERS):
        raise ValueError(f"doctor: order must be one of {', '.join(ORDERS)}, got {order!r}")
