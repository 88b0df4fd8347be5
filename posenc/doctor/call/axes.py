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
# Orders with the axes that they lack: of heads, which lie side by side in d, or of texts.
COMPLETE = {"btd": "bthd", "tbd": "tbhd", "thd": "bthd", "htd": "bhtd"}
FOR_EMBEDDINGS = ("bdt", "brcd", "bdrc", "bxyrcd")
ONE_TEXT = ("thd", "htd")
GRID_ROWS = 4
# The axes that tokens are split into: rows and columns, x and y for a window of each (MaxViT).
TOKEN_AXES = {"t": (-1,), "rc": (GRID_ROWS, -1), "xyrc": (1, 1, GRID_ROWS, -1)}


def _permuted(x: Tensor, order: str, target: str) -> Tensor:
    return x if order == target else x.permute([order.index(axis) for axis in target])


def to_order(x: Tensor, order: str) -> Tensor:
    """Return content (b, h, t, d) in another order of axes."""
    x = _permuted(x, "bhtd", COMPLETE.get(order, order))
    # All axes are there, and in order: now those that the code does not have are dropped or joined.
    if order in ONE_TEXT:
        return x.squeeze(0)
    return x if "h" in order else x.flatten(-2)


def from_order(y: Any, order: str, heads: int) -> Any:
    """Return a result (b, h, t, d) from another order of axes; what is no such result comes back as it is."""
    # Such as a cache, or a result without an axis of heads: the checks of the kind judge it.
    if not isinstance(y, Tensor) or y.ndim != len(order):
        return y
    if "b" not in order:
        y = y[None]
    if "h" not in order:
        y = y.unflatten(-1, (heads, -1))
    return _permuted(y, COMPLETE.get(order, order), "bhtd")  # (b, h, t, d)


def _token_axes(order: str) -> str:
    return order.translate({ord(axis): "" for axis in "bd"})


def _embeddings_to_order(x: Tensor, order: str) -> Tensor:
    tokens = _token_axes(order)
    return _permuted(x.unflatten(1, TOKEN_AXES[tokens]), f"b{tokens}d", order)


def _embeddings_from_order(y: Tensor, order: str) -> Tensor:
    return _permuted(y, order, f"b{_token_axes(order)}d").flatten(1, -2)  # (b, t, d)


# By order: what turns embeddings (b, t, D) into it, and back.
EMBEDDED: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    order: (partial(_embeddings_to_order, order=order), partial(_embeddings_from_order, order=order))
    for order in ("btd", "tbd", *FOR_EMBEDDINGS)
}


def text_by_text(call: Callable[..., Any], contents: dict[str, Tensor], **arguments: Any) -> Any:
    """Call for each text of a batch alone, with its row of positions, and put the results together."""
    results = []
    for row, texts in enumerate(zip(*(x.split(1) for x in contents.values()), strict=True)):
        # Positions (b, t) have a row for each text; all else holds for each.
        own = {
            role: value[row] if isinstance(value, Tensor) and value.ndim == 2 else value
            for role, value in arguments.items()
        }
        results.append(call(dict(zip(contents, texts, strict=True)), **own))
    return _concatenated(results)


def _concatenated(results: list[Any]) -> Any:
    first = results[0]
    if isinstance(first, tuple):
        return tuple(_concatenated([*parts]) for parts in zip(*results, strict=True))
    return torch.cat(results) if isinstance(first, Tensor) else first
