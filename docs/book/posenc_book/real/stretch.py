"""Read further than a model was trained: the loss by position, with frequencies stretched in each of the known ways.

Key:   b batch, h heads, g key/value heads, t tokens, d head dim, w near tokens, n blocks of w
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.rotate.frequencies import linear, llama3, ntk, yarn
from posenc.rotate.rope import RoPE
from posenc_book.real.decoder import Attend
from posenc_book.real.language_model import LanguageModel, losses
from posenc_book.real.ledger import by_position
from posenc_book.real.mistakes import base_of
from posenc_book.real.texts import passages

BIN = 1024
Frequencies = tuple[np.ndarray, float]
STRETCHES: dict[str, Callable[[int, float, float, int], Frequencies]] = {
    "linear": lambda r, base, factor, length: linear(r, factor, base),
    "NTK": lambda r, base, factor, length: ntk(r, factor, base),
    "YaRN": lambda r, base, factor, length: yarn(r, factor, length, base),
    "Llama 3": lambda r, base, factor, length: llama3(r, factor, original_length=length, base=base),
}
SELF_EXTEND = "Self-Extend"
NEAR = 1024  # tokens back that Self-Extend leaves where they are


def stretched(rope: RoPE, kind: str, factor: float, length: int) -> RoPE:
    """Return `rope` stretched by `factor` over a trained `length`."""
    r = 2 * len(rope.theta)
    theta, attention_factor = STRETCHES[kind](r, base_of(rope), factor, length)
    return RoPE(rope.dim, layout=rope.layout, rotary_dim=r, theta=theta, attention_factor=attention_factor)


def attend_by(model: LanguageModel, kind: str, factor: float) -> Attend | None:
    """Return attention as `kind` stretches it, or None where nothing is stretched."""
    if kind == "none":
        return None
    if kind == SELF_EXTEND:
        # A third more than the factor, since the near tokens take places of their own.
        return self_extend(model, math.ceil(factor * 4 / 3))
    return model.with_rotation(
        lambda rope, q, k, v: (*stretched(rope, kind, factor, model.trained_length)(q, k), v),
    )


def self_extend(model: LanguageModel, group: int, near: int = NEAR) -> Attend:
    """Return attention that counts tokens beyond the `near` last in groups (Jin et al., arXiv 2401.01325, sec. 3.2).

    A key less than `near` back is at its own offset. One further back is at floor(m / group) - floor(n / group) +
    near - near // group, so that offsets go on from there, `group` times slower.
    """

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rope, positions = model.layers[layer].encoding, torch.arange(q.shape[2], device=q.device)
        near_q, near_k = rope(q, k, positions)
        close, weight_of_close = _close(near_q, near_k, v, near)
        if q.shape[2] <= near:
            return close
        far_q, far_k = rope(q, k, positions // group + near - near // group, positions // group)
        # query m sees keys 0 .. m - near: the causal pattern of queries from `near` on
        far, weight_of_far = _fused(far_q[:, :, near:], far_k[:, :, :-near], v[:, :, :-near], is_causal=True)
        # what the far keys of each query from `near` on weigh, of all its keys
        share = torch.sigmoid(weight_of_far - weight_of_close[:, :, near:])[..., None]
        return torch.cat([close[:, :, :near], torch.lerp(close[:, :, near:], far, share)], dim=2)

    return attend


def _close(q: Tensor, k: Tensor, v: Tensor, near: int) -> tuple[Tensor, Tensor]:
    """Return attention over the `near` last keys (1, h, t, d), and the logarithm of its weights' sum (1, h, t)."""
    h, t = q.shape[1:3]
    short = -t % near
    blocks = (t + short) // near
    queries = F.pad(q, (0, 0, 0, short))[0].unflatten(1, (blocks, near)).transpose(0, 1)  # (n, h, w, d)
    # each block sees itself and the one before it
    k, v = (F.pad(x, (0, 0, near, short))[0].unfold(1, 2 * near, near).permute(1, 0, 3, 2) for x in (k, v))
    offset = torch.arange(near)[:, None] + near - torch.arange(2 * near)  # (w, 2*w)
    # A query of a block has its place among the keys of two blocks.
    seen = ((offset >= 0) & (offset < near)).expand(blocks, 1, -1, -1).clone()
    seen[0, ..., :near] = False  # before the text
    mixed, weight = _fused(queries, k, v, attn_mask=torch.where(seen, 0.0, -math.inf).cpu())
    mixed = mixed.transpose(0, 1).reshape(1, h, blocks * near, -1)
    return mixed[:, :, :t], weight.transpose(0, 1).reshape(1, h, -1)[..., :t]


def _fused(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """Return torch's attention and the logarithm of the sum of its weights, which alone lets two parts be joined."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    # only the kernel for the CPU gives both for a mask
    mixed, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q.cpu(), k.cpu(), v.cpu(), **options)
    return mixed.to(q.device), weight.to(q.device)


def read(
    model: LanguageModel, kind: str, factor: float, times: float, number: int = 0, text: str | None = None
) -> dict[str, Any]:
    """Return the loss of each 1,024 tokens of one of two passages, `times` as long as the trained length."""
    ids = passages(model, int(times * model.trained_length), 2, text)[number : number + 1]
    return {"loss": by_position(losses(model, ids, attend_by(model, kind, factor)), BIN)}


def read_after_little(
    model: LanguageModel, times: float, bins: Sequence[int], number: int = 0, text: str | None = None
) -> dict[str, Any]:
    """Return the loss of the same tokens, of some bins of 1,024, each with only the 1,024 tokens before it."""
    ids = passages(model, int(times * model.trained_length), 2, text)[number]
    rows = torch.stack([ids[(n - 1) * BIN : (n + 1) * BIN] for n in bins])
    return {"bins": list(bins), "loss": losses(model, rows)[:, BIN - 1 :].mean(dim=1).tolist()}
