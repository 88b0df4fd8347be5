"""Read what was handed in as numbers, say in words how it differs from what was asked, and show values in words."""

import math
import re
from typing import Any

import numpy as np
import torch

SCALES = (
    (-1.0, "the size is right and the sign is not"),
    (180 / math.pi, "this is in degrees, and radians are asked for"),
    (math.pi / 180, "this is in radians, and degrees are asked for"),
    (2 * math.pi, "this is 2π times too large: turns and radians are mixed up"),
    (1 / (2 * math.pi), "this is 2π times too small: turns and radians are mixed up"),
    (100.0, "this is 100 times too large: a percentage where a share is asked for"),
    (0.01, "this is 100 times too small: a share where a percentage is asked for"),
    (2.0, "this is twice as large as it should be"),
    (0.5, "this is half as large as it should be"),
)
SHOWN = 72  # characters of a value or an error in a sentence
ROUNDING = 1e-6  # how far a whole number may be off and still be met
THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d*)?")


def numbers(answer: Any) -> tuple[np.ndarray, str]:
    """Return an answer as float64 numbers; where it is none, an empty array and what it is, in words."""
    nothing = np.zeros(0)
    if answer is None:
        return nothing, "None came in; is a return missing?"
    if isinstance(answer, dict | set | frozenset):
        return nothing, f"a {type(answer).__name__} came in, which has no order; hand in a list"
    if callable(answer) and not isinstance(answer, torch.Tensor):
        return nothing, "a function came in; hand in what it returns"
    try:
        found = _array(answer)
    except Exception:  # whatever a strange object raises, it is no number
        hint = "; leave out quotes and units" if isinstance(answer, str) else ""
        return nothing, f"{shown(answer)} cannot be read as numbers{hint}"
    if found.dtype.kind == "b" and not found.ndim:
        return nothing, f"{bool(found)} came in, and a number is asked for"
    if found.dtype.kind not in "biuf":
        return nothing, f"{shown(answer)} cannot be read as real numbers"
    return found, ""


def _array(answer: Any) -> np.ndarray:
    if isinstance(answer, str):
        return _typed(answer)
    if isinstance(answer, torch.Tensor):
        whole = not (answer.is_floating_point() or answer.is_complex())
        answer = answer.detach().cpu()
        return (answer if whole or answer.is_complex() else answer.double()).numpy()
    if isinstance(answer, list | tuple) and any(isinstance(part, torch.Tensor) for part in answer):
        return np.asarray([_array(part) for part in answer])
    found = np.asarray(answer)
    return found.astype(np.float64) if found.dtype.kind in "OU" else found


def _typed(text: str) -> np.ndarray:
    """Return the number in a text, or the numbers of a list; the comma of 1,000 parts nothing."""
    text = text.replace("−", "-").strip(" ()[]")
    words = [text.replace(",", "")] if THOUSANDS.fullmatch(text) else re.split(r"[\s,;]+", text)
    found = np.asarray([float(word) for word in words])
    return found.reshape(()) if len(words) == 1 else found


def same(given: np.ndarray, right: np.ndarray, rtol: float, atol: float) -> bool:
    """Return whether two arrays have one shape and equal numbers, within rtol of each or atol.

    Whole numbers on the right have to be met, whatever the tolerance: 1,003 is within a thousandth of 1,002.
    """
    if right.dtype.kind in "biu":
        rtol, atol = 0.0, ROUNDING
    return given.shape == right.shape and bool(np.allclose(_float(given), _float(right), rtol, atol))


def difference(given: np.ndarray, right: np.ndarray, rtol: float, atol: float) -> str:
    """Return in words how `given` differs from `right`, without telling what is right; nothing where it does not."""
    if given.shape != right.shape:
        return _misshapen(given, right, rtol, atol)
    if same(given, right, rtol, atol):
        return ""
    integers, whole = given.dtype.kind in "iu", right.dtype.kind in "biu"
    rtol, atol = (0.0, ROUNDING) if whole else (rtol, atol)
    given, right = _float(given), _float(right)
    finite = np.isfinite(right)  # a bias may be minus infinity where a mask hides
    if np.isnan(given).any() or not np.isfinite(given[finite]).all():
        return f"{'it is' if not given.ndim else 'it holds'} {'nan' if np.isnan(given).any() else 'infinity'}"
    if integers and given.ndim and np.array_equal(given, np.trunc(right.round(9))):
        return "these are whole numbers, and the answer has fractions; an integer array cuts them off"
    for scale, words in SCALES:
        if np.any(right) and np.allclose(given, scale * right, rtol, atol):
            return words
    return _entries(given, right, rtol, atol, whole) if given.ndim else _one_number(given, right, whole)


def _float(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64)


def _misshapen(given: np.ndarray, right: np.ndarray, rtol: float, atol: float) -> str:
    came = f"the shape is {given.shape}" if given.ndim else "one number came in"
    said = f"{came}, and {right.shape} is asked for"
    if given.size == right.size and same(given.ravel(), right.ravel(), rtol, atol):
        single = f"the number is right; take it out of its array of shape {given.shape}"
        return f"the numbers are right; {said}" if right.ndim else single
    if given.ndim == 2 and same(given.T, right, rtol, atol):
        return f"rows and columns are swapped: {said}"
    if not right.ndim:
        return f"{given.size} numbers came in, and one is asked for"
    return said


def _one_number(given: np.ndarray, right: np.ndarray, whole: bool) -> str:
    one, other = float(given), float(right)
    if whole and abs(one - other) == 1:
        return "one off: count the ends again"
    if other and math.isclose(one * other, 1, rel_tol=1e-3):
        return "this is one divided by the answer"
    if other > 0 and math.isclose(one, other**2, rel_tol=1e-3):
        return "this is the square of the answer"
    if other > 0 and one > 0 and math.isclose(one**2, other, rel_tol=1e-3):
        return "this is the square root of the answer"
    if whole and one % 1:
        return f"{one:,.9g} is no whole number, and one is asked for"
    if math.isclose(one, other, rel_tol=0.02) and not whole:
        return "very close: give more digits, or look for a small slip"
    return f"{shown(one)} is too {'large' if one > other else 'small'}"


def _entries(given: np.ndarray, right: np.ndarray, rtol: float, atol: float, whole: bool) -> str:
    square = given.ndim > 1 and given.shape[-1] == given.shape[-2]
    if square and np.allclose(np.swapaxes(given, -1, -2), right, rtol, atol):
        return "rows and columns are swapped: this is the transpose"
    if np.allclose(np.flip(given, -1), right, rtol, atol):
        return "the right numbers, from the wrong end"
    if np.allclose(np.sort(given, axis=None), np.sort(right, axis=None), rtol, atol):
        return "the right numbers, in another order"
    if not whole and given.any() and any(np.allclose(given, right.round(n), 0, 1e-9) for n in (1, 2, 3)):
        return "right as far as they go; give more decimals"
    good = np.isclose(given, right, rtol, atol)
    place = tuple(int(i) for i in np.argwhere(~good)[0])
    fraction = whole and given[place] % 1
    one = f"{given[place]:.9g}" if fraction else shown(given[place])
    side = "no whole number" if fraction else f"too {'large' if given[place] > right[place] else 'small'}"
    first = f"the first that is not stands at [{', '.join(map(str, place))}], where {one} is {side}"
    return f"{int(good.sum())} of {good.size} numbers are right; {first}"


def shown(thing: Any) -> str:
    """Return a value as it may stand in a sentence: short numbers, arrays by their shapes, a few words of the rest."""
    try:
        return short(_shown(thing))
    except Exception:  # a strange object may not even be printed
        return f"a {type(thing).__name__}"


def _shown(thing: Any) -> str:
    if isinstance(thing, torch.Tensor):
        thing = _array(thing)
    if isinstance(thing, np.ndarray) and thing.size > 8:
        return f"array{thing.shape}"
    if isinstance(thing, np.ndarray | np.generic):
        thing = thing.tolist()
    if isinstance(thing, float):
        return f"{thing:,.4g}" if abs(thing) < 1000 else f"{thing:,.1f}".removesuffix(".0")
    if callable(thing) and hasattr(thing, "__name__"):
        return f"the {'class' if isinstance(thing, type) else 'function'} {thing.__name__}"
    if isinstance(thing, list | tuple):
        return f"[{', '.join(_shown(part) for part in thing)}]"
    return repr(thing)


def short(text: str) -> str:
    """Return a text on one line, cut where it is too long for a sentence."""
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
