"""Find out what unknown code is and how to call it: its kind, sizes, order of axes and form of positions."""

import inspect
import re
from typing import Any

from torch import nn

from posenc.checkup import attention, bias, rotation, table
from posenc.checkup.patient import Patient, attempt
from posenc.checkup.signature import ROWS, UNDERSTOOD, said

KINDS = {"rotation": rotation, "table": table, "bias": bias, "attention": attention}
WIDTHS = (64, 32, 128, 16, 8, 256, 512, 768)
HEADS = (4, 8, 2, 1, 12, 16)
WRAP = "; if it is one of these, wrap it in a function that is called as below"


def admit(function: Any, kind: Any, dim: Any, heads: Any, order: Any) -> tuple[str, Patient, dict[str, int]]:
    """Return the kind, the patient and sizes with which a first call works.

    Raises:
        ValueError: If no call works; the message says what the calls raised, then which signatures are understood.
    """
    own = getattr(function, "__self__", function)
    widths = (dim,) if dim else tuple(dict.fromkeys((*_told(own, "dim d_model head_dim embed_dim"), *WIDTHS)))
    counts = (heads,) if heads else tuple(dict.fromkeys((*_told(own, "heads n_heads num_heads"), *HEADS)))
    failures: dict[str, str] = {}
    for size in [(d, counts[0]) for d in widths] + [(widths[0], h) for h in counts[1:]]:
        sizes = {"dim": size[0], "heads": size[1]}
        patients = [attempt(Patient, function, sizes, axes) for axes in ((order,) if order else (None, "bthd"))]
        for _, failed in patients:
            if failed.startswith("ValueError: doctor: "):
                rule, _, got = failed.partition(" must be ")[2].partition(", got ")
                raise ValueError(f"doctor: function must be {rule}, got {got}")
            if failed:
                failures.setdefault("", failed)
        for candidate, form, patient in _tries([patient for patient, _ in patients if patient], kind):
            trial = patient.fresh()
            patient.form = trial.form = form
            works, failed = attempt(KINDS[candidate].accepts, trial, **sizes)
            if works:
                return candidate, patient, sizes
            failures.setdefault(candidate, failed)
    why = f"{said(function)}, {_why(failures)}{_advice(own) or WRAP}. Understood are {UNDERSTOOD}"
    raise ValueError(f"doctor: function must be a rotation, a table, a bias or an attention, got {why}")


def _told(own: Any, names: str) -> tuple[int, ...]:
    return tuple(v for name in names.split() if isinstance(v := getattr(own, name, None), int) and v > 0)


def _tries(patients: list[Patient], kind: str | None) -> list[tuple[str, str, Patient]]:
    """Return what to try in turn, (kind, form of positions, patient in one order of axes), likeliest first.

    Names that transformers uses mean (b, t) or (1, t), whatever the axes; all others mean (t,), whatever the axes.
    """
    tries = [(c, form, p) for p in patients for c in ((kind,) if kind else _candidates(p)) for form in _forms(p, c)]
    if patients and _named_for_rows(patients[0]):
        return sorted(tries, key=lambda one: one[0] == "table" or one[1] == "t")
    return sorted(tries, key=lambda one: one[1] != "t")


def _forms(patient: Patient, kind: str) -> tuple[str, ...]:
    if not patient.takes("positions") or patient.takes("score"):
        return ("t",)
    if not (patient.takes("x") or patient.takes("q")):
        return ("t", "1t")
    return ("bt", "1t", "t") if _named_for_rows(patient) and kind != "table" else ("t", "1t", "bt")


def _named_for_rows(patient: Patient) -> bool:
    return patient.roles.get("positions", "").lower() in ROWS


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


def _why(failures: dict[str, str]) -> str:
    """Return what the first call of each kind raised, their own errors first."""
    kinds: dict[str, list[str]] = {}
    for kind, failed in failures.items():
        kinds.setdefault(failed, []).append(kind)
    silent = kinds.pop("", [])
    if len(kinds) + bool(silent) == 1:
        return f"which raises {next(iter(kinds))}" if kinds else "which returns what fits none of them"
    told = [f"raises {failed}{_called(names)}" for failed, names in kinds.items()]
    told += [f"returns what does not fit{_called(silent)}"] if silent else []
    return f"which {' and '.join(told)}"


def _called(names: list[str]) -> str:
    known = [f"{'an' if name[0] == 'a' else 'a'} {name}" for name in names if name]
    return f" when called as {' or '.join(known)}" if known else ""


def _advice(own: Any) -> str:
    """Return what to hand in instead of a module that only makes the angles of a rotation."""
    cls = own if isinstance(own, type) else type(own)
    if not issubclass(cls, nn.Module) or not re.search("rot|rope", cls.__name__, re.I):
        return ""
    turns = [name for base in cls.__mro__ for name in vars(base) if name.startswith(("rotate", "apply_rot"))]
    if turns:
        return f". It makes angles and does not turn anything: give its method that does, module.{turns[0]}"
    call = "q, k, position_ids): return apply_rotary_pos_emb(q, k, *module(q, position_ids))"
    if "x" not in inspect.signature(cls.forward).parameters:
        call = "x, positions): return apply_rotary_pos_emb(x, *module(positions))"
    return f". If it makes angles, or their cos and sin, give a function that turns with them: def rotate({call}"
