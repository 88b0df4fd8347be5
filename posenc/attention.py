"""Scaled dot-product attention, the place where position enters or does not.

Paper: Vaswani et al., 2017, "Attention Is All You Need", https://arxiv.org/abs/1706.03762, eq. 1.

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, n coordinates

    attention(q, k, v) = softmax(q k^T / sqrt(d) + position) v

so permuting the tokens permutes the outputs and changes nothing else, unless a mask or a position breaks the symmetry.
An encoding is known by its call: (positions, ...) returns a bias, (q, k, ...) rotated q and k, or scores. d is the
width before a rotation. Keys stand at 0 .. s-1 and queries at the last t of them by default, so one new query after a
cache of keys is right without being told; `F.scaled_dot_product_attention(is_causal=True)` aligns queries with the
first keys instead. Where queries alone are told their positions, as many keys share them. How all this is computed is
in `posenc/_fused.py`.
"""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from posenc import _fused
from posenc._fused import Sight

OWN = ("positions", "key_positions", "causal", "mask", "documents", "flex", "block", "scale")


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Any = None,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    documents: Tensor | None = None,
    flex: bool = False,
    block: int | None = None,
    scale: float | None = None,
    **extra: Any,
) -> Tensor:
    """Return the attention output (b, h, t, d) of `q` (b, h, t, d) over `k` and `v` (b, g, s, d), h a multiple of g.

    No tensor (h, t, s) is stored without an encoding, for a rotation and, if `causal`, for a bias with `channels` such
    as ALiBi's; for others take `flex` or `block`. To cache rotated keys, rotate with `q, k = rope(q, k, positions,
    positions)` and attend to the cache without an encoding.

    Args:
        q: Queries (b, h, t, d).
        k: Keys (b, g, s, d).
        v: Values (b, g, s, d), of any width.
        encoding: A rotation, a bias or a score; what its method `values`, if any, makes of the weights is added.
        positions: Of the queries, (t,), (1, t) or (b, t), by default the last t of the keys; of a grid (..., t, n).
        key_positions: Of the keys, likewise; by default those of as many queries, or 0 .. s-1.
        causal: Let a query see the keys at its own position and before; with coordinates, up to its place in order.
        mask: Boolean, true where a query may look, broadcastable to (b, h, t, s).
        documents: Of the tokens, (s,) or (b, s): a query, one of the last t, sees keys of its own document only.
        flex: Compile FlexAttention with the encoding's `score_mod`: once for each kind of call, and on a CPU, where it
            has no gradients, for each shape; `torch._dynamo.config.recompile_limit` bounds their number.
        block: Take so many queries at a time, and again for gradients: stores (h, block, s) in place of (h, t, s).
        scale: Multiplies q k^T, not what is added; by default 1/sqrt(d). T5 has 1, DeepSeek's YaRN `softmax_scale`.
        extra: What else the encoding takes, such as `table` or `gates`.

    Raises:
        ValueError: If an argument does not fit; the message says what to pass instead.

    Examples:
        >>> from posenc.bias.alibi import ALiBi
        >>> q, v = torch.zeros(1, 1, 3, 8), torch.eye(3)[None, None]  # equal logits; v shows the weights
        >>> attention(q, q, v, ALiBi(1, slopes=[math.log(2)]), causal=True)[0, 0] * 7  # half at each step back
        tensor([[7.0000, 0.0000, 0.0000],
                [2.3333, 4.6667, 0.0000],
                [1.0000, 2.0000, 4.0000]])
    """
    sight = _sight(q, k, encoding, positions, key_positions, causal, mask, documents)
    _check(q, k, encoding, sight, scale, extra)
    _check_ways(q, k, v, encoding, flex, block, extra)
    factor: float = q.shape[-1] ** -0.5 if scale is None else scale
    if block is not None:
        return _fused.in_blocks(partial(attention, scale=factor), q, k, v, encoding, sight, block)  # (b, h, t, d)
    return _attend(q, k, v, encoding, sight, flex and q.shape[-2] > 1, factor, extra)  # (b, h, t, d)


def attention_weights(
    q: Tensor,
    k: Tensor,
    encoding: Any = None,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    documents: Tensor | None = None,
    scale: float | None = None,
    **extra: Any,
) -> Tensor:
    """Return the softmax weights (b, h, t, s) of `attention`: for looking, not for speed.

    Examples:
        >>> attention_weights(torch.zeros(1, 1, 2, 8), torch.zeros(1, 1, 4, 8), causal=True)[0, 0]
        tensor([[0.3333, 0.3333, 0.3333, 0.0000],
                [0.2500, 0.2500, 0.2500, 0.2500]])
    """
    sight = _sight(q, k, encoding, positions, key_positions, causal, mask, documents)
    _check(q, k, encoding, sight, scale, extra)
    factor: float = q.shape[-1] ** -0.5 if scale is None else scale
    return _fused.weights(*_encode(q, k, encoding, sight, extra), sight, factor)  # (b, h, t, s)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, encoding: Any, sight: Sight, flex: bool, scale: float, extra: dict
) -> Tensor:
    if _adds_values(encoding):
        weights = attention_weights(q, k, encoding, *sight[:5], scale=scale, **extra)
        each = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)  # (b, h, s, d)
        return weights @ each + encoding.values(weights, *sight.places(q, k))  # (b, h, t, d)
    if hasattr(encoding, "channels") and not flex and _fused.takes_channels(q, k, sight):
        of_queries, of_keys = encoding.channels(*sight.places(q, k))
        q, k = _fused.with_channels(q, k, _for_heads(of_queries, q, encoding), of_keys, scale)
        encoding = None
    q, k, added = _encode(q, k, encoding, sight, extra, flex)
    return (_fused.in_flex if flex else _fused.scaled_dot_product)(q, k, v, added, sight, scale)  # (b, h, t, d)


def _encode(q: Tensor, k: Tensor, encoding: Any, sight: Sight, extra: dict, flex: bool = False) -> tuple[Any, Any, Any]:
    """Return q and k, rotated or not, and what is added to the logits: (b or 1, h, t, s), a score_mod, or None."""
    if encoding is None:
        return q, k, None
    takes = _fused.takes(encoding)
    content = (q, k) if takes[0] == "q" else ()
    if content and "mask" in takes:
        extra = {"mask": sight._replace(causal=False).dense(q, k)} | extra  # tokens ahead count for none of them
    if flex and hasattr(encoding, "score_mod"):
        return q, k, encoding.score_mod(*content, *sight.places(q, k), **extra)
    if content:
        made = encoding(q, k, sight.positions, sight.key_positions, **extra)
    elif hasattr(encoding, "toeplitz") and sight.positions is sight.key_positions is None and q.shape[-2] > 1:
        made = encoding.toeplitz(q.shape[-2], k.shape[-2])
    else:
        made = encoding(*sight.places(q, k), **extra)
    if isinstance(made, tuple):
        return (*made, None)
    if flex:
        raise ValueError(f"attention: flex must be False without a score_mod, got True for {_said(encoding)}")
    return q, k, _for_heads(made, q, encoding)[(None,) * (4 - made.ndim)]


def _for_heads(made: Tensor, q: Tensor, encoding: Any) -> Tensor:
    if made.ndim not in (3, 4) or (made.shape[-3] != 1 and made.shape[-3] != q.shape[1]):
        got = f"{_said(encoding)} {tuple(made.shape)}"
        raise ValueError(f"attention: encoding must be for {q.shape[1]} heads, got {got}")
    return made


def _check(q: Any, k: Any, encoding: Any, sight: Any, scale: Any, extra: dict) -> None:
    paired = all(isinstance(x, Tensor) and x.is_floating_point() and x.ndim == 4 for x in (q, k))
    paired = paired and q.shape[0] == k.shape[0] and q.shape[-1] == k.shape[-1] > 0 and _alike(q, k)
    if not paired or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        form = "(b, h, t, d) and (b, g, s, d) with h a multiple of g, floats of one dtype"
        got = f"{_said(q)} and {_said(k)}; split the width into heads first"
        raise ValueError(f"attention: q and k must be {form}, got {got}")
    takes = _fused.takes(encoding)
    if encoding is not None and (takes[0] not in ("positions", "q") or isinstance(encoding, type)):
        got = f"{_said(encoding)}; " + ("add it to the embeddings" if takes[0] == "x" else "build the module first")
        raise ValueError(f"attention: encoding must be called with positions, or with q and k, got {got}")
    for name in extra:
        if encoding is None or name not in takes:
            got = f"it for {_said(encoding)}; attention itself takes {', '.join(OWN)}"
            raise ValueError(f"attention: {name} must be an argument of the encoding, got {got}")
    if scale is not None and (scale is True or not isinstance(scale, int | float) or not 0 < scale < math.inf):
        raise ValueError(f"attention: scale must be positive and finite, or None for 1/sqrt(d), got {scale!r}")
    _check_places(q, k, encoding, sight)
    _check_sight(sight, q, k)


def _check_places(q: Tensor, k: Tensor, encoding: Any, sight: Any) -> None:
    for name, given, x in (("positions", sight.positions, q), ("key_positions", sight.key_positions, k)):
        rows = (x.shape[-2:-1], (x.shape[0], x.shape[-2]))
        fits = isinstance(given, Tensor) and given.dtype != torch.bool and not given.is_complex()
        fits = fits and (given.shape in rows or (encoding is not None and given.shape[:-1] in rows))
        if given is not None and not fits:
            form = f"numbers ({x.shape[-2]},) or {tuple(rows[1])}"
            raise ValueError(f"attention: {name} must be {form}, got {_said(given)}; give each token its position")


def _check_sight(sight: Sight, q: Tensor, k: Tensor) -> None:
    (b, h, t, _), s, mask, ids = q.shape, k.shape[-2], sight.mask, sight.documents
    if not isinstance(sight.causal, bool):
        raise ValueError(f"attention: causal must be True or False, got {sight.causal!r}")
    if mask is not None and (not isinstance(mask, Tensor) or mask.dtype != torch.bool):
        kind = getattr(mask, "dtype", type(mask).__name__)
        raise ValueError(f"attention: mask must be boolean, true where a query may look, got {kind}")
    sizes = [] if mask is None else list(zip(reversed(mask.shape), (s, t, h, b), strict=False))
    if mask is not None and (mask.ndim > 4 or any(size not in (1, full) for size, full in sizes)):
        got = f"{_said(mask)}; one of the keys (b, s) is mask[:, None, None]"
        raise ValueError(f"attention: mask must be broadcastable to (b, h, t, s) = {(b, h, t, s)}, got {got}")
    if ids is not None and not (isinstance(ids, Tensor) and ids.shape in ((s,), (b, s)) and t <= s):
        form = f"ids of the tokens ({s},) or {(b, s)}, the last {t} of them queries"
        raise ValueError(f"attention: documents must be {form}, got {_said(ids)}")


def _check_ways(q: Tensor, k: Tensor, v: Any, encoding: Any, flex: bool, block: int | None, extra: dict) -> None:
    if not (isinstance(v, Tensor) and v.ndim == 4 and v.shape[:-1] == k.shape[:-1] and _alike(q, v)):
        form = f"(b, g, s, d) with k's first three axes {tuple(k.shape[:-1])} and q's dtype"
        raise ValueError(f"attention: v must be {form}, got {_said(v)}; give each key one value")
    if block is not None and (not isinstance(block, int) or isinstance(block, bool) or block < 1 or extra):
        form = "a positive number of queries, without more for the encoding"
        raise ValueError(f"attention: block must be {form}, got {block!r} with {list(extra)}")
    learned = [q, k, v, *(encoding.parameters() if isinstance(encoding, nn.Module) else ())] if flex is True else []
    trains = torch.is_grad_enabled() and any(x.requires_grad for x in learned)
    on_cpu = q.device.type == "cpu" and (trains or q.dtype == torch.float64)
    if not isinstance(flex, bool) or (flex and (on_cpu or block is not None or _adds_values(encoding))):
        why = "no gradients or float64 on a CPU, no blocks, no values(): call it under no_grad, or with block="
        raise ValueError(f"attention: flex must be False here, got {flex!r}; {why}")


def _sight(
    q: Any, k: Any, encoding: Any, positions: Any, key_positions: Any, causal: Any, mask: Any, documents: Any
) -> Sight:
    """Return what decides which keys a query sees, nothing of it checked."""
    m, n = _one_row(positions, q), _one_row(key_positions, k)
    if n is None and m is not None and getattr(k, "shape", ())[-2:-1] == getattr(q, "shape", ())[-2:-1]:
        n = m
    rows = encoding is not None and (_are_rows(m, q) or _are_rows(n, k))
    return Sight(m, n, causal, mask, documents, rows or getattr(encoding, "axes", 1) > 1)


def _one_row(positions: Any, x: Any) -> Any:
    """Return a batch of one row, which serves every sequence, as that row."""
    if not (isinstance(positions, Tensor) and isinstance(x, Tensor) and x.ndim == 4 and positions.ndim in (2, 3)):
        return positions
    return positions[0] if positions.shape[:2] == (1, x.shape[-2]) else positions


def _are_rows(positions: Any, x: Any) -> bool:
    """Tell whether positions are rows of coordinates, by their shape."""
    tensors = isinstance(positions, Tensor) and isinstance(x, Tensor)
    return tensors and positions.ndim > 1 and positions.shape != (x.shape[0], x.shape[-2])


def _adds_values(encoding: Any) -> bool:
    return hasattr(encoding, "values") and getattr(encoding, "on_values", True)


def _alike(x: Tensor, y: Tensor) -> bool:
    return x.dtype == y.dtype or (y.is_floating_point() and torch.is_autocast_enabled(x.device.type))


def _said(given: Any) -> str:
    return f"{tuple(given.shape)} {given.dtype}" if isinstance(given, Tensor) else type(given).__name__
