"""The doctor: examine a rotation, a position table, a bias, an attention or a model, and say what is wrong.

    print(posenc.diagnose(apply_rotary))        or    posenc doctor mypackage.model:apply_rotary

Nothing is compared with a reference implementation: each check is a property that code of its kind must have.

Key: b texts of a batch, h heads, g heads of keys, t tokens or queries, s keys, d width of a head or of an embedding,
     r channels that rotate, n pairs or what else is counted, m measured positions, w width of a table of cos and sin,
     v vocabulary
"""

import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from posenc.doctor import model
from posenc.doctor.call.axes import SHOWN
from posenc.doctor.call.code import Code
from posenc.doctor.call.identify import KINDS, identify
from posenc.doctor.call.parameters import UNDERSTOOD, name_of
from posenc.doctor.call.transformers_layer import Layer, code_by_name, is_layer_of_transformers
from posenc.doctor.report import Finding, Report, note, passed, with_article, with_check_name
from posenc.doctor.rotation import against_config
from posenc.doctor.safe_call import attempt

__all__ = ["Finding", "Report", "diagnose"]

# What the report says of each form but the usual, (t,).
POSITIONS_FORMS = {
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
        kind: "rotation", "table", "bias", "attention" or "model"; by default found out from a first call.
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
    function = code_by_name(function) if isinstance(function, str) else function
    # A layer cannot be called without what its model passes: it is wrapped in something that makes that.
    function = Layer(function) if is_layer_of_transformers(function) else function
    _check_arguments(function, kind, dim, heads, order)
    _check_config(kind, config, layer)
    # Nothing of the caller changes: neither its random numbers, nor the warnings that it has seen.
    with warnings.catch_warnings(), torch.no_grad(), torch.random.fork_rng(devices=[]), _eager():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed=0)
        # A model that embeds token ids fits no other kind; it is called with its own parameters, not as Code.
        if config is None and model.is_meant(function, kind):
            findings, examined = model.examine(function)
            return Report(name_of(function), "model", tuple(findings), examined)
        if config is not None:
            kind = "rotation"
            code, against = against_config.examine(function, dim, heads, order, config, layer)
        else:
            kind, code = identify(function, kind, dim, heads, order)
            against = []
        code.heads_requested = heads is not None
        findings, examined = _examine(function, kind, code)
    findings = [*against, *findings, *_assumptions(code, order)]
    return Report(name_of(function), kind, tuple(findings), {"sizes": _sizes(code, kind), **examined})


def _examine(function: Any, kind: str, code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings of a kind, and what was measured; what cannot be measured at all is refused."""
    result, failed = attempt(KINDS[kind].examine, code)
    if failed:
        reason = f"{name_of(function)}, which raises {failed} examined as {with_article(kind)}; kind=... sets another"
        raise ValueError(f"doctor: function must be something to examine, got {reason}")
    return result


def _sizes(code: Code, kind: str) -> str:
    # A table has no heads, and a bias no channels.
    heads = "1 head" if code.heads == 1 else f"{code.heads} heads"
    if kind == "table":
        return f"{code.dim} channels"
    return heads if kind == "bias" else f"{heads} of {code.dim} channels"


def _assumptions(code: Code, order: str | None) -> list[Finding]:
    """Return what was assumed of the call: the order of axes, the form of positions."""
    findings = []
    # Code may run in a wrong order of axes, and looks faulty then: the user has to know which was taken.
    if code.call.order and not order:
        sentence = f"taken as {SHOWN[code.call.order]}; order='bhtd' if that is wrong"
        findings.append(with_check_name(note(sentence), "axes"))
    if code.call.positions_form != "t":
        sentence = f"passed as {POSITIONS_FORMS[code.call.positions_form]}"
        findings.append(with_check_name(passed(sentence), "positions"))
    return findings


def _check_arguments(function: Any, kind: Any, dim: Any, heads: Any, order: Any) -> None:
    if not callable(function):
        raise ValueError(f"doctor: function must be something to call, got {function!r}; {UNDERSTOOD}")
    if kind not in (None, *KINDS, "model"):
        raise ValueError(f"doctor: kind must be one of {', '.join(KINDS)}, model, got {kind!r}; None finds it out")
    for name, size in (("dim", dim), ("heads", heads)):
        # A bool is an int for isinstance(), and no size.
        if size is not None and (type(size) is not int or size < 1):
            raise ValueError(f"doctor: {name} must be a positive integer, got {size!r}; None finds it out")
    if order not in (None, *ORDERS):
        raise ValueError(f"doctor: order must be one of {', '.join(ORDERS)}, got {order!r}")


def _check_config(kind: Any, config: Any, layer: Any) -> None:
    if config is not None and kind not in (None, "rotation"):
        raise ValueError(f"doctor: kind must be 'rotation' with a config, got {kind!r}; or leave config out")
    if config is None and layer is not None:
        raise ValueError(f"doctor: layer must be None without a config, got {layer!r}; pass config as well")
