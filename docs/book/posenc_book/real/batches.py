"""Padding and packing: what positions and masks of a batch cost, on documents that are scored each by itself.

Key:   b batch, t tokens
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.attention import attention
from posenc_book.real.decoder import Attend
from posenc_book.real.language_model import LanguageModel, losses
from posenc_book.real.texts import passages

ROWS, DOCUMENTS, LENGTH = 4, 4, 128


def _attend(model: LanguageModel, positions: Tensor, visible: Tensor | None) -> Attend:
    """Return attention at `positions` (t,) or (b, t) that sees what is `visible` (b or 1, 1, t, t), causal by order."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        turned_q, turned_k = model.layers[layer].encoding(q, k, positions)
        return attention(turned_q, turned_k, v, causal=True, mask=visible)

    return attend


def _packed(model: LanguageModel, text: str | None, restart: bool, blocks: bool) -> Tensor:
    """Return the loss (b, documents, t - 1) of documents that stand one behind the other in rows."""
    documents = passages(model, LENGTH, ROWS * DOCUMENTS, text)
    positions = torch.arange(DOCUMENTS * LENGTH)
    number = positions // LENGTH  # of the document that a token belongs to
    visible = (number[:, None] == number)[None, None] if blocks else None
    attend = _attend(model, positions % LENGTH if restart else positions, visible)
    loss = losses(model, documents.reshape(ROWS, -1), attend)
    # the first token of a document is not scored: nothing before it belongs to it
    return F.pad(loss, (1, 0)).unflatten(1, (DOCUMENTS, LENGTH))[:, :, 1:]


def _padded(model: LanguageModel, text: str | None, counted: bool, hidden: bool) -> Tensor:
    """Return the loss (b, documents, t - 1) of documents in rows of their own, behind as many pads on the left."""
    documents = passages(model, LENGTH, ROWS * DOCUMENTS, text)
    pads = torch.full_like(documents, model.pad)
    positions = torch.arange(2 * LENGTH) if counted else torch.arange(2 * LENGTH).sub(LENGTH).clamp(min=0)
    seen = torch.arange(2 * LENGTH) >= (LENGTH if hidden else 0)
    # a pad sees itself, so that no query sees nothing
    visible = (seen | torch.eye(2 * LENGTH, dtype=torch.bool))[None, None]
    loss = losses(model, torch.cat([pads, documents], dim=1), _attend(model, positions, visible))
    # The last pad predicts a first token, which is not scored in a packed row either.
    return loss[:, LENGTH:].unflatten(0, (ROWS, DOCUMENTS))


CASES: dict[str, tuple[Callable[..., Tensor], dict[str, bool]]] = {
    "packed, blocks hidden from each other, positions run on": (_packed, {"restart": False, "blocks": True}),
    "packed, blocks hidden from each other, positions restart": (_packed, {"restart": True, "blocks": True}),
    "packed, nothing hidden, positions run on": (_packed, {"restart": False, "blocks": False}),
    "packed, nothing hidden, positions restart": (_packed, {"restart": True, "blocks": False}),
    "left padding hidden, positions count it": (_padded, {"counted": True, "hidden": True}),
    "left padding hidden, positions do not count it": (_padded, {"counted": False, "hidden": True}),
    "left padding seen, positions count it": (_padded, {"counted": True, "hidden": False}),
}


def of_case(model: LanguageModel, name: str, text: str | None = None) -> dict[str, Any]:
    """Return the mean loss in nats of the documents that stand first in a row, second, and so on."""
    measure, settings = CASES[name]
    return {"loss": measure(model, text, **settings).mean(dim=(0, 2)).tolist()}
