"""Examine a whole model: token ids come in, logits for each token come out.

What must hold there needs no weights: a token does not see those ahead, a text does not depend on the other texts of
the batch, decoding with the cache gives what prefill gives, hidden padding changes nothing.
"""

from typing import Any

from torch import nn

from posenc.doctor.model import checks
from posenc.doctor.model.measure import MIDDLE, SAME, measure_model, parameter_names
from posenc.doctor.numerics import worst
from posenc.doctor.report import Finding, run_checks, stopped
from posenc.doctor.safe_call import attempt


def is_meant(function: Any, kind: str | None) -> bool:
    """Return whether it is to be examined as a whole model, by default what embeds token ids and lets them meet."""
    if kind is not None or not isinstance(function, nn.Module) or isinstance(function, nn.Embedding):
        return kind == "model"  # a table of positions may ask for ids, too, to count them
    embeds = any(isinstance(part, nn.Embedding) for part in function.modules())
    if not embeds or "ids" not in parameter_names(function):
        return False
    record, failed = attempt(measure_model, function)
    # A failed call of what embeds ids is one of a model: `examine` reports its error.
    if failed or record.logits.shape[-1] == record.model.vocabulary:
        return True
    # Embeddings of words alone may be a table; where one token changes another, they have met in an attention.
    return not worst(record.changes(MIDDLE)) < SAME


def examine(function: Any) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a model, and what was examined.

    Raises:
        ValueError: If a call with token ids gives no logits.
    """
    record, failed = attempt(measure_model, function)
    if failed:
        must_be = "a model that gives logits (b, t, vocabulary) for ids (b, t)"
        raise ValueError(f"doctor: function must be {must_be}, got {failed}")
    model = record.model
    parameters = [model.names[role] for role in ("mask", "positions", "cache") if model.takes(role)]
    rows = model.table_rows
    examined = {
        "sizes": f"a vocabulary of {model.vocabulary:,}",
        "takes": f"takes {', '.join(parameters)}" if parameters else "takes ids alone",
        "positions": f"a table of {rows:,} positions" if rows else "no learned table of positions",
    }
    # What is not finite makes every comparison fail, so that nothing else is checked.
    findings = run_checks((checks.finite,), record)
    if findings:
        return stopped(findings), examined
    return run_checks(checks.CHECKS, record), examined
