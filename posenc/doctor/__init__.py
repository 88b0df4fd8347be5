"""The doctor: examine a rotation, a position table, a bias, an attention or a model, and say what is wrong in words.

    print(posenc.diagnose(apply_rotary))        or    posenc doctor mypackage.model:apply_rotary

Nothing is compared with a reference implementation: each check is a property that code of its kind must have.
"""

import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from posenc.doctor import model
from posenc.doctor.attempt import attempt
from posenc.doctor.call import transformers_layer
from posenc.doctor.call.axes import SHOWN
from posenc.doctor.call.code import Code
from posenc.doctor.call.identify import KINDS, identify
from posenc.doctor.call.parameters import UNDERSTOOD, name_of
from posenc.doctor.call.resolve_name import is_layer_of_transformers
from posenc.doctor.call.resolve_name import thing as named_thing
from posenc.doctor.report import Finding, Report, note, passed, with_article, with_check_name
from posenc.doctor.rotation import against_config

__all__ = ["Finding", "Report", "diagnose"]

FORMS = {
    "b": "an offset for each text, (b,)",
    "1t": "one row for all texts, (1, t)",
    "bt": "a row for each text, (b, t)",
    "3bt": "a row for each axis and text, (3, b, t)",
    "t2": "a pair for each token, (t, 2)",
    "bt2": "a pair for each token, (b, t, 2)",
    "t3": "three for each token, (t, 3)",
    "bt3": "three for each token, (b, t, 3)",
}
ORDERS = tuple(SHOWN)


def _eager() -> AbstractContextManager[Any]:
    """Return where compiled code runs as it is written: compiling takes long, and may keep digits that this drops."""
    loaded = sys.modules.get("torch._dynamo")  # without it nothing is compiled
    return torch.compiler.set_stance("force_eager") if hasattr(loaded, "set_stance") else nullcontext()


def diagnose(
    function: Callable[..., Any] | str,
    kind: str | None = None,
    dim: int | None = None,
    heads: int | None = None,
    order: str | None = None,
    config: Any = None,
    layer: int | None = None,
) -> Report:
    """Examine `function` and report, check by check, what is wrong with it, why that matters and what to do.

    Args:
        function: A function, a torch module, a bound method, a class, which is built, or the name of one, such as
            "mymodel.attention:rotate" or "transformers:LlamaAttention". Its parameters are known by their names: x or
            q, k, v; positions, key_positions, offset or length; cos and sin, or freqs_cis; dim, heads; causal, mask,
            cache. Whether positions are (t,), (1, t) or (b, t) is found out. A module that takes token ids is
            examined as a whole model.
        kind: "rotation", "table", "bias", "attention" or "model"; by default told from the parameters and a first call.
        dim: Width of a head (of an embedding, for a table); by default what fits, 64 first.
        heads: How many heads; by default what fits, 4 first. Slopes are judged for this number where it is given.
        order: Of the axes: "bhtd" (the default), "bthd", "tbhd", "thd" or "htd" for heads, "btd" or "tbd" for
            embeddings.
        config: Of the model that a rotation is for, as `posenc.plan` takes it: the rotation is compared with its
            layers, and a known fault is named, such as "YaRN dropped".
        layer: Which layer of `config` is meant; by default any that rotates.

    Returns:
        The report: print it, read `healthy` and `findings`, or `assert diagnose(function).healthy` in a test.

    Raises:
        ValueError: If `function` cannot be called; the message says which signatures are understood.

    Examples:
        >>> import torch
        >>> def slopes(heads):
        ...     return [2 ** (-8 * head / heads) for head in range(heads)]
        >>> print(diagnose(slopes).finding("slopes").words.split(":")[0])
        with 4 heads the slopes start at 1 where ALiBi's start at 0.25
    """
    function = named_thing(function) if isinstance(function, str) else function
    function = transformers_layer.Layer(function) if is_layer_of_transformers(function) else function
    _check(function, kind, dim, heads, order)
    if config is not None and kind not in (None, "rotation"):
        raise ValueError(f"doctor: kind must be 'rotation' with a config, got {kind!r}; or leave config out")
    if config is None and layer is not None:
        raise ValueError(f"doctor: layer must be None without a config, got {layer!r}; pass config as well")
    with warnings.catch_warnings(), torch.no_grad(), torch.random.fork_rng(devices=[]), _eager():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed=0)
        told = []
        if config is not None:
            found, (code, told) = "rotation", against_config.examine(function, dim, heads, order, config, layer)
        elif model.is_meant(function, kind):
            found_out, about = model.examine(function)
            return Report(name_of(function), "model", tuple(found_out), about)
        else:
            found, code = identify(function, kind, dim, heads, order)
        code.heads_requested = heads is not None
        found_out, about = _examined(function, found, code)
    findings = [*told, *found_out, *_assumed(code, order)]
    return Report(name_of(function), found, tuple(findings), {"sizes": _sizes(code, found), **about})


def _examined(function: Any, kind: str, code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings of a kind, and what was examined; what cannot be read at all is refused."""
    made, failed = attempt(KINDS[kind].examine, code)
    if failed:
        why = f"{name_of(function)}, which raises {failed} examined as {with_article(kind)}; kind=... tells another"
        raise ValueError(f"doctor: function must be something to examine, got {why}")
    return made


def _sizes(code: Code, kind: str) -> str:
    heads = f"{code.heads} head{'s' * (code.heads != 1)}"
    return {"table": f"{code.dim} channels", "bias": heads}.get(kind, f"{heads} of {code.dim} channels")


def _assumed(code: Code, order: str | None) -> list[Finding]:
    """Return what was taken for granted on the way: the order of axes, the form of positions."""
    found = []
    if code.call.order and not order:
        words = f"taken as {SHOWN[code.call.order]}; order='bhtd' if that is wrong"
        found.append(with_check_name(note(words), "axes"))
    if code.call.positions_form != "t":
        found.append(with_check_name(passed(f"given as {FORMS[code.call.positions_form]}"), "positions"))
    return found


def _check(function: Any, kind: Any, dim: Any, heads: Any, order: Any) -> None:
    if not callable(function):
        raise ValueError(f"doctor: function must be something to call, got {function!r}; {UNDERSTOOD}")
    if kind not in (None, *KINDS, "model"):
        raise ValueError(f"doctor: kind must be one of {', '.join(KINDS)}, model, got {kind!r}; None finds it out")
    for name, given in (("dim", dim), ("heads", heads)):
        if given is not None and (type(given) is not int or given < 1):
            raise ValueError(f"doctor: {name} must be a positive integer, got {given!r}; None finds it out")
    if order not in (None, *ORDERS):
        raise ValueError(f"doctor: order must be one of {', '.join(ORDERS)}, got {order!r}")
