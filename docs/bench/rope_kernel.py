"""RoPE in Triton, half layout, forward only: each number is read once and written once."""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 32  # tokens of one program


def turn(x: Tensor, table: Tensor) -> Tensor:
    """Return `x` (b, h, t, d), contiguous, turned by a float32 `table` (t, d): cosines, then sines."""
    y, rows = torch.empty_like(x), x.numel() // x.shape[-1]
    _turn[(triton.cdiv(rows, ROWS),)](x, table, y, rows, x.shape[-2], x.shape[-1] // 2, ROWS)
    return y


@triton.jit
def _turn(x, table, y, rows, length, half: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0) * block + tl.arange(0, block)[:, None]
    pair, inside = tl.arange(0, half)[None], row < rows
    at, place = row.to(tl.int64) * 2 * half + pair, (row % length) * 2 * half + pair
    cosine, sine = tl.load(table + place, inside), tl.load(table + place + half, inside)
    first, second = tl.load(x + at, inside).to(tl.float32), tl.load(x + at + half, inside).to(tl.float32)
    tl.store(y + at, first * cosine - second * sine, inside)
    tl.store(y + at + half, second * cosine + first * sine, inside)
