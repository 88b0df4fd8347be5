"""What an encoding takes, what a query may see, and the ways to attend, of which `posenc.attention` chooses one.

Apart from that file because this is how attention is computed, not what it is: kernels, their widths and their dtypes.

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, w width, c channels
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

PARTS = {
    torch.float64: ([torch.float64], [torch.float64]),
    torch.float32: ([torch.bfloat16, torch.float32], [torch.float32]),
    torch.bfloat16: ([torch.bfloat16] * 3, [torch.bfloat16] * 3),
}
"""The dtypes of the parts into which a channel of the queries and one of the keys fall; float16 lacks the range."""


def takes(encoding: Any) -> list[str]:
    """Return the names of the arguments of an encoding's call, [""] if there are none."""
    encoding = getattr(encoding, "_orig_mod", encoding)  # of a compiled module
    try:
        return list(inspect.signature(getattr(encoding, "forward", encoding)).parameters) or [""]
    except (TypeError, ValueError):  # no function, or one that Python knows nothing of
        return [""]


class Sight(NamedTuple):
    """What decides which keys a query sees; see `attention`."""

    positions: Tensor | None = None
    key_positions: Tensor | None = None
    causal: bool = False
    mask: Tensor | None = None
    documents: Tensor | None = None
    axes: bool = False

    def places(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positions of queries and keys; by default keys count from 0, and queries are the last of them."""
        t, s = q.shape[-2], k.shape[-2]
        m = torch.arange(s - t, s, device=q.device) if self.positions is None else self.positions
        n = torch.arange(s, device=k.device) if self.key_positions is None else self.key_positions
        return m, n

    def by_place(self) -> bool:
        """Tell whether order is that of the sequence: positions are left out, or rows of coordinates."""
        given = [p for p in (self.positions, self.key_positions) if p is not None]
        return not given or any(self._has_coordinates(p) for p in given)

    def is_triangle(self, q: Tensor, k: Tensor) -> bool:
        """Tell whether what is hidden is just the upper triangle of a square."""
        free = self.mask is None and self.documents is None
        return self.causal and free and q.shape[-2] == k.shape[-2] and self.by_place()

    def dense(self, q: Tensor, k: Tensor) -> Tensor | None:
        """Return true where a query sees a key, broadcastable to (b, h, t, s), or None where all see everything."""
        t, s = q.shape[-2], k.shape[-2]
        seen = self._within_documents(None if self.mask is None else _four(self.mask), slice(s - t, s), s)
        if self.causal:
            m, n = (Sight() if self.by_place() else self).places(q, k)
            past = _pairs(m[..., :, None] >= n[..., None, :])  # (..., 1, t, s)
            seen = past if seen is None else seen & past
        return seen

    def one_by_one(self, q: Tensor, k: Tensor) -> BlockMask | None:
        """Return the same for FlexAttention."""
        (b, h, t, _), s, ids = q.shape, k.shape[-2], self.documents
        m, n = (Sight() if self.by_place() else self).places(q, k)
        mask = None if self.mask is None else _four(self.mask)
        if mask is None and ids is None and not self.causal:
            return None
        heads = h if mask is not None and mask.shape[1] > 1 else None
        batched = any(x is not None and x.ndim == 2 for x in (m, n, ids)) or (mask is not None and mask.shape[0] > 1)
        mask = None if mask is None else mask.expand(b, h, t, s)  # a view

        def _sees(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            sees = i >= 0
            sees = sees & (_at(m, b, i) >= _at(n, b, j)) if self.causal else sees
            sees = sees if ids is None else sees & (_at(ids, b, i + s - t) == _at(ids, b, j))
            return sees if mask is None else sees & mask[b, h, i, j]

        return create_block_mask(_sees, b if batched else None, heads, t, s, device=q.device)

    def of_rows(self, q: Tensor, k: Tensor, start: int, stop: int) -> tuple["Sight", int]:
        """Return what the queries from `start` to `stop` see, and how many of the first keys they need."""
        t, s = q.shape[-2], k.shape[-2]
        keys = s - t + stop if self.causal and self.by_place() and t <= s else s
        mask, (m, n) = self.mask, self.places(q, k)
        mask = None if mask is None else _four(mask).expand(-1, -1, t, s)[:, :, start:stop, :keys]
        mask = self._within_documents(mask, slice(s - t + start, s - t + stop), keys)
        return self._replace(positions=self._cut(m, start, stop), key_positions=self._cut(n, 0, keys), mask=mask), keys

    def _within_documents(self, mask: Tensor | None, queries: slice, keys: int) -> Tensor | None:
        """Return `mask`, false too where a query and one of the first `keys` are tokens of different documents."""
        if self.documents is None:
            return mask
        own = _pairs(self.documents[..., queries, None] == self.documents[..., None, :keys])  # (..., 1, t, s)
        return own if mask is None else mask & own

    def _has_coordinates(self, positions: Tensor) -> bool:
        return self.axes and positions.ndim > 1

    def _cut(self, positions: Tensor, start: int, stop: int) -> Tensor:
        return positions.narrow(-2 if self._has_coordinates(positions) else -1, start, stop - start)


def weights(q: Tensor, k: Tensor, added: Tensor | None, sight: Sight, scale: float) -> Tensor:
    """Return softmax(scale q k^T + added) over what `sight` shows; a query that sees no key has no weights."""
    dtype, seen = torch.promote_types(q.dtype, torch.float32), sight.dense(q, k)
    each = k.to(dtype).repeat_interleave(q.shape[1] // k.shape[1], dim=1)  # (b, h, s, w)
    logits = q.to(dtype) @ each.mT * scale  # (b, h, t, s)
    logits = logits if added is None else logits + added  # (b, h, t, s)
    logits = logits if seen is None else logits.masked_fill(~seen, float("-inf"))  # (b, h, t, s)
    blind = logits.isneginf().all(dim=-1, keepdim=True)  # (b, h, t, 1)
    return logits.masked_fill(blind, 0).softmax(dim=-1).masked_fill(blind, 0).to(q.dtype)  # (b, h, t, s)


def scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, sight: Sight, scale: float) -> Tensor:
    """Return softmax(scale q k^T + added) v over what `sight` shows, `added` being (b or 1, h or 1, t, s)."""
    width, triangle = v.shape[-1], added is None and sight.is_triangle(q, k)
    ways: dict[str, Any] = {"scale": scale}
    seen = None if triangle else sight.dense(q, k)
    if width != q.shape[-1] and q.shape[-2] > 1:  # kernels want equal widths; one query needs no kernel
        q, k, v = (F.pad(x, (0, max(width, q.shape[-1]) - x.shape[-1])) for x in (q, k, v))
    if added is not None:
        seen = (added if seen is None else added.masked_fill(~seen, float("-inf"))).to(q.dtype)
    if triangle:  # told only where they hold: the kernel takes no symbols, which these are while a compiler traces
        ways["is_causal"] = True
    if k.shape[1] != q.shape[1]:
        ways["enable_gqa"] = True
    out = F.scaled_dot_product_attention(q, k, v, seen, **ways)
    return out[..., :width]


def in_flex(q: Tensor, k: Tensor, v: Tensor, modify: Callable | None, sight: Sight, scale: float) -> Tensor:
    """Return the same with `modify` for `added`; torch keeps what it has compiled for each kind of call."""
    dynamic = False if q.device.type == "cpu" else None  # there, code for sizes that vary may not compile (2.13)
    flex = torch.compile(flex_attention, fullgraph=True, dynamic=dynamic)
    return flex(q, k, v, modify, sight.one_by_one(q, k), scale, k.shape[1] != q.shape[1])


def in_blocks(attend: Callable, q: Tensor, k: Tensor, v: Tensor, encoding: Any, sight: Sight, block: int) -> Tensor:
    """Return what `attend` returns, `block` queries at a time; what it made on the way is made again for gradients."""
    made = []
    for start in range(0, q.shape[-2], block):
        stop = min(start + block, q.shape[-2])
        part, keys = sight.of_rows(q, k, start, stop)
        part = (part.positions, part.key_positions, part.causal, part.mask)
        given = (q[:, :, start:stop], k[:, :, :keys], v[:, :, :keys], encoding, *part)
        made.append(checkpoint(attend, *given, use_reentrant=False) if torch.is_grad_enabled() else attend(*given))
    return torch.cat(made, dim=2) if made else q.new_zeros(*q.shape[:3], v.shape[-1])


def takes_channels(q: Tensor, k: Tensor, sight: Sight) -> bool:
    """Tell whether `with_channels` is right, and pays: while decoding, the bias is smaller than the keys."""
    return sight.causal and q.shape[1] * q.shape[2] > k.shape[1] * k.shape[3] and _working_dtype(q) in PARTS


def with_channels(q: Tensor, k: Tensor, of_queries: Tensor, of_keys: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return `q` and `k` behind channels whose products, times `scale`, are those of the float64 ones given.

    Positions beyond 256 are no bfloat16, nor are most slopes, and in float32 a product of 1,000 swallows digits of the
    logit that is added to it. So factors fall into parts that a dtype holds exactly, and the large products come
    first, next to those that cancel them: kernels add in order.
    """
    dtype = _working_dtype(q)
    first, second = _parts(of_queries / scale, PARTS[dtype][0]), _parts(of_keys, PARTS[dtype][1])
    kept = [(a, b) for a in range(len(first)) for b in range(len(second)) if a + b < len(first)]
    for_q = torch.cat([first[a] for a, _ in kept], dim=-1).to(q.device, dtype)  # (..., h, t, c)
    for_k = torch.cat([second[b] for _, b in kept], dim=-1).to(k.device, dtype)  # (..., 1, s, c)
    q = torch.cat([for_q.expand(*q.shape[:-1], -1), q.to(dtype)], dim=-1)  # (b, h, t, w)
    k = torch.cat([for_k.expand(*k.shape[:-1], -1), k.to(dtype)], dim=-1)  # (b, g, s, w)
    return q, k


def _working_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype that a kernel would compute in, which autocast may set."""
    autocast = torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64
    return torch.get_autocast_dtype(x.device.type) if autocast else x.dtype


def _parts(x: Tensor, dtypes: list[torch.dtype]) -> list[Tensor]:
    parts = []
    for dtype in dtypes:
        parts.append(x.to(dtype).to(x.dtype))
        x = x - parts[-1]
    return parts


def _four(mask: Tensor) -> Tensor:
    return mask[(None,) * (4 - mask.ndim)]


def _pairs(seen: Tensor) -> Tensor:
    return seen[:, None] if seen.ndim == 3 else seen[None, None]


def _at(rows: Tensor, b: Tensor, i: Tensor) -> Tensor:
    return rows[b, i] if rows.ndim == 2 else rows[i]
