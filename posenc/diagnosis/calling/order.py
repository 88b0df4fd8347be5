"""The order of axes: content is (b, h, t, d) inside the doctor, and as the code wants it outside.

bhtd, bthd, tbhd     with an axis for each
btd, tbd             heads side by side in one axis, (b, t, h * d)
thd, htd             one text at a time

An attention that projects its input may want that in more forms, with tokens on a grid of 4 rows: EMBEDDED.
"""

from collections.abc import Callable
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
OUT: dict[str, Callable[[Tensor], Tensor]] = {
    "bhtd": lambda x: x,
    "bthd": lambda x: x.transpose(1, 2),
    "tbhd": lambda x: x.permute(2, 0, 1, 3),
    "btd": lambda x: x.transpose(1, 2).flatten(2),
    "tbd": lambda x: x.permute(2, 0, 1, 3).flatten(2),
    "thd": lambda x: x[0].transpose(0, 1),
    "htd": lambda x: x[0],
}
BACK: dict[str, Callable[[Tensor, int], Tensor]] = {
    "bhtd": lambda y, h: y,
    "bthd": lambda y, h: y.transpose(1, 2),
    "tbhd": lambda y, h: y.permute(1, 2, 0, 3),
    "btd": lambda y, h: y.unflatten(-1, (h, -1)).transpose(1, 2),
    "tbd": lambda y, h: y.unflatten(-1, (h, -1)).permute(1, 2, 0, 3),
    "thd": lambda y, h: y.transpose(0, 1)[None],
    "htd": lambda y, h: y[None],
}
ROWS = 4
EMBEDDED: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {  # from (b, t, D), and back
    "btd": (lambda x: x, lambda y: y),
    "tbd": (lambda x: x.transpose(0, 1), lambda y: y.transpose(0, 1)),
    "bdt": (lambda x: x.mT, lambda y: y.mT),
    "brcd": (lambda x: x.unflatten(1, (ROWS, -1)), lambda y: y.flatten(1, 2)),
    "bdrc": (lambda x: x.mT.unflatten(2, (ROWS, -1)), lambda y: y.flatten(2).mT),
    "bxyrcd": (lambda x: x.unflatten(1, (1, 1, ROWS, -1)), lambda y: y.flatten(1, 4)),
}
FOR_EMBEDDINGS = ("bdt", "brcd", "bdrc", "bxyrcd")
ONE_TEXT = ("thd", "htd")


def there(x: Tensor, order: str) -> Tensor:
    """Return content (b, h, t, d) in another order of axes."""
    return OUT[order](x)


def back(y: Any, order: str, heads: int) -> Any:
    """Return a result (b, h, t, d) from another order of axes; what is no such result comes back as it is."""
    if not isinstance(y, Tensor) or y.ndim != len(order):
        return y
    return BACK[order](y, heads)


def by_text(call: Callable[..., Any], contents: dict[str, Tensor], **given: Any) -> Any:
    """Call for each text of a batch alone, with its row of positions, and put the results together."""
    results = []
    for i in range(len(next(iter(contents.values())))):
        rows = {role: x[i : i + 1] for role, x in contents.items()}
        results.append(call(rows, **{role: _row(value, i) for role, value in given.items()}))
    if not isinstance(results[0], tuple):
        return torch.cat(results)
    return tuple(torch.cat(parts) if isinstance(parts[0], Tensor) else parts[0] for parts in zip(*results, strict=True))


def _row(value: Any, i: int) -> Any:
    return value[i] if isinstance(value, Tensor) and value.ndim == 2 else value
