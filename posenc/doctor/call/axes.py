"""The order of axes: content is (b, h, t, d) inside the doctor, and as the code wants it outside.

bhtd, bthd, tbhd     with an axis for each
btd, tbd             heads side by side in one axis, (b, t, h * d)
thd, htd             one text at a time

An attention that projects its input may want that in more forms, with tokens on a grid of 4 rows: FOR_EMBEDDINGS.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

SHOWN = {
    "bhtd": "(b, h, t, d)",
    "bthd": "(b, t, h, d)",
    "tbhd": "(t, b, h, d)",
    "btd": "(b, t, h * d)",
    "tbd": "(t, b, h * d)",
    "thd": "(t, h, d)",
    "htd": "(h, t, d)",
    "bdt": "(b, h * d, t)",
    "brcd": "(b, rows, columns, h * d)",
    "bdrc": "(b, h * d, rows, columns)",
    "bxyrcd": "(b, 1, 1, rows, columns, h * d)",
}
WHOLE = {"btd": "bthd", "tbd": "tbhd", "thd": "bthd", "htd": "bhtd"}  # orders with the axes that they do without
FOR_EMBEDDINGS = ("bdt", "brcd", "bdrc", "bxyrcd")
ONE_TEXT = ("thd", "htd")
ROWS = 4
TOKENS = {"t": (-1,), "rc": (ROWS, -1), "xyrc": (1, 1, ROWS, -1)}  # the axes on which tokens lie


def _permuted(x: Tensor, order: str, other: str) -> Tensor:
    return x if order == other else x.permute([order.index(axis) for axis in other])


def there(x: Tensor, order: str) -> Tensor:
    """Return content (b, h, t, d) in another order of axes."""
    x = _permuted(x, "bhtd", WHOLE.get(order, order))
    if order in ONE_TEXT:
        return x.squeeze(0)
    return x if "h" in order else x.flatten(-2)


def back(y: Any, order: str, heads: int) -> Any:
    """Return a result (b, h, t, d) from another order of axes; what is no such result comes back as it is."""
    if not isinstance(y, Tensor) or y.ndim != len(order):
        return y
    y = y if "b" in order else y[None]
    y = y if "h" in order else y.unflatten(-1, (heads, -1))
    return _permuted(y, WHOLE.get(order, order), "bhtd")


def _laid(x: Tensor, order: str) -> Tensor:
    """Return embeddings (b, t, D) in another order of axes."""
    tokens = order.translate({ord(axis): "" for axis in "bd"})
    return _permuted(x.unflatten(1, TOKENS[tokens]), f"b{tokens}d", order)


def _unlaid(y: Tensor, order: str) -> Tensor:
    tokens = order.translate({ord(axis): "" for axis in "bd"})
    return _permuted(y, order, f"b{tokens}d").flatten(1, -2)


EMBEDDED: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {  # from (b, t, D), and back
    order: (partial(_laid, order=order), partial(_unlaid, order=order)) for order in ("btd", "tbd", *FOR_EMBEDDINGS)
}


def by_text(call: Callable[..., Any], contents: dict[str, Tensor], **given: Any) -> Any:
    """Call for each text of a batch alone, with its row of positions, and put the results together."""
    results = []
    for i, texts in enumerate(zip(*(x.split(1) for x in contents.values()), strict=True)):
        rows = dict(zip(contents, texts, strict=True))
        results.append(call(rows, **{role: _row(value, i) for role, value in given.items()}))
    return _together(results)


def _together(results: Any) -> Any:
    one, *_ = results
    if isinstance(one, tuple):
        return tuple(map(_together, zip(*results, strict=True)))
    return torch.cat(results) if isinstance(one, Tensor) else one


def _row(value: Any, i: int) -> Any:
    return value[i] if isinstance(value, Tensor) and value.ndim == 2 else value
