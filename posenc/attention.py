"""Scaled dot-product attention, the place where position enters or does not.

Paper: Vaswani et al., 2017, "Attention Is All You Need", https://arxiv.org/abs/1706.03762, eq. 1.

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, w width, n coordinates

    attention(q, k, v) = softmax(q k^T / sqrt(d) + position) v

so permuting the tokens permutes the outputs and changes nothing else, unless a mask or a position
breaks the symmetry. An encoding is a rotation (q, k, positions, key_positions) -> (q, k), a score
of the same arguments -> (b, h, t, s), or a bias (positions, key_positions) -> (h, t, s), whatever
its arguments are named: see `takes_content`. Keys stand at 0 .. s-1, or where as many queries do,
and queries where the last t keys do, so one new query after a cache of keys is right without being
told; `F.scaled_dot_product_attention(is_causal=True)` aligns queries with the first keys instead.
A rotation stays on torch's fused kernels; a bias or score is a tensor (h, t, s) for them. Other
ways to compute the same are in `posenc.fast`: FlexAttention, blocks of queries, ALiBi as channels.
"""

import inspect
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

DOORS = ("add", "rotate", "bias", "score")


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding=None,
    positions=None,
    key_positions=None,
    causal: bool = False,
    mask=None,
    scale=None,
    **extra,
) -> Tensor:
    """Return the attention output (b, h, t, d) of `q` (b, h, t, d) over `k` and `v` (b, g, s, d).

    To cache rotated keys, rotate with `q, k = rope(q, k, positions)` and attend to the cache
    without an encoding.

    Args:
        q: Queries (b, h, t, d), h a multiple of g.
        k: Keys (b, g, s, d).
        v: Values (b, g, s, d), of any width.
        encoding: A rotation, a bias or a score; any function that is called like one.
        positions: Of the queries, (t,), (1, t) or (b, t); of a grid (..., t, n).
        key_positions: Of the keys, likewise.
        causal: Let a query see the keys at its own position and before; on a grid, up to its place.
        mask: Boolean, true where a query may look, broadcastable to (b, h, t, s).
        scale: Multiplies q k^T, not what is added; by default 1/sqrt(d). T5 has 1.
        extra: What else the encoding takes, such as `table` or `gates`.

    Examples:
        >>> import math
        >>> from posenc.bias.alibi import ALiBi
        >>> q, v = torch.zeros(1, 1, 3, 8), torch.eye(3)[None, None]  # so weights come out
        >>> attention(q, q, v, ALiBi(1, slopes=[math.log(2)]), causal=True)[0, 0] * 7  # half a step
        tensor([[7.0000, 0.0000, 0.0000],
                [2.3333, 4.6667, 0.0000],
                [1.0000, 2.0000, 4.0000]])
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    own = _unwrapped(encoding)
    if hasattr(own, "values") and getattr(own, "on_values", True):
        told = (positions, key_positions, causal, mask, scale)
        weights = attention_weights(q, k, encoding, *told, **extra)
        return _valued(weights, v, own, *places(q, k, positions, key_positions))
    of_q, of_k, added = encoded(q, k, encoding, positions, key_positions, mask, **extra)
    in_order = q.shape[2] == k.shape[2] and positions is key_positions is mask is added is None
    if causal and in_order:
        return _product(of_q, of_k, v, scale, is_causal=True)  # kernels need no tensor for it
    seen = _seen(q, k, encoding, positions, key_positions, causal, mask)
    if added is not None:
        added = added if seen is None else added.masked_fill(~seen, float("-inf"))
        seen = added.to(q.dtype)
    return _product(of_q, of_k, v, scale, attn_mask=seen)


def attention_weights(
    q: Tensor,
    k: Tensor,
    encoding=None,
    positions=None,
    key_positions=None,
    causal: bool = False,
    mask=None,
    scale=None,
    **extra,
) -> Tensor:
    """Return the softmax weights (b, h, t, s) of `attention`: for looking, not for speed.

    Examples:
        >>> attention_weights(torch.zeros(1, 1, 2, 8), torch.zeros(1, 1, 4, 8), causal=True)[0, 0]
        tensor([[0.3333, 0.3333, 0.3333, 0.0000],
                [0.2500, 0.2500, 0.2500, 0.2500]])
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    dtype = torch.promote_types(q.dtype, torch.float32)
    seen = _seen(q, k, encoding, positions, key_positions, causal, mask)
    of_q, of_k, added = encoded(q, k, encoding, positions, key_positions, mask, **extra)
    each = of_k.to(dtype).repeat_interleave(q.shape[1] // k.shape[1], dim=1)  # (b, h, s, w)
    logits = of_q.to(dtype) @ each.mT * scale  # (b, h, t, s)
    if added is not None:
        logits = logits + added  # (b, h, t, s)
    if seen is not None:
        logits = logits.masked_fill(~seen, float("-inf"))  # (b, h, t, s)
    blind = logits.isneginf().all(dim=-1, keepdim=True)  # (b, h, t, 1)
    weights = logits.masked_fill(blind, 0).softmax(dim=-1)  # (b, h, t, s)
    return weights.masked_fill(blind, 0).to(q.dtype)  # a query that sees no key weighs none


def _valued(weights, v, encoding, positions, key_positions):
    v = v.repeat_interleave(weights.shape[1] // v.shape[1], dim=1)  # (b, h, s, d)
    return weights @ v + encoding.values(weights, positions, key_positions)  # (b, h, t, d)


def _product(q, k, v, scale, **mask):
    width = v.shape[-1]
    if q.shape[2] > 1 and width < q.shape[-1]:
        v = F.pad(v, (0, q.shape[-1] - width))  # kernels want equal widths; one query needs none
    if k.shape[1] != q.shape[1]:
        mask["enable_gqa"] = True
    return F.scaled_dot_product_attention(q, k, v, scale=scale, **mask)[..., :width]


def places(q: Tensor, k: Tensor, positions=None, key_positions=None) -> tuple[Tensor, Tensor]:
    """Return where queries (t,) or (b, t) and keys (s,) or (b, s) stand, by default or as told.

    More queries than keys have no default, as in cross-attention.

    Examples:
        >>> places(torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 3, 8))  # a query and a cache
        (tensor([2]), tensor([0, 1, 2]))
    """
    t, s = q.shape[2], k.shape[2]
    if key_positions is None:
        key_positions = torch.arange(s, device=k.device)
        if positions is not None and t == s:
            key_positions = positions
    if positions is None:
        if t > s:
            raise ValueError(
                f"attention: positions must be given for {t} queries, {s} keys, got None"
            )
        positions = key_positions[..., s - t :]
    return positions, key_positions


def is_in_line(positions: Tensor | None, x: Tensor, encoding=None) -> bool:
    """Tell whether positions are numbers, (t,) or (b, t) for x (b, h, t, d), and no coordinates.

    Examples:
        >>> [is_in_line(torch.zeros(6, n), torch.zeros(6, 1, 6, 8)) for n in (2, 6)]
        [False, True]
    """
    if positions is None or positions.ndim == 1:
        return True
    b, _, t, _ = x.shape
    one_each = tuple(positions.shape) in ((1, t), (b, t))
    return one_each and getattr(_unwrapped(encoding), "axes", 1) == 1


def takes_content(encoding) -> bool | None:
    """Tell whether an encoding is called with q and k before the positions, None if that is open.

    An encoding of this package says so by its folder. Of any other callable the number of its
    arguments tells, never their names: a bias takes two, rotations and scores take four. It stays
    open for what takes two as well as four, such as `lambda *given: rope(*given)`.

    Examples:
        >>> from posenc.bias.alibi import ALiBi
        >>> takes_content(ALiBi(8)), takes_content(lambda queries, keys, m, n: (queries, keys))
        (False, True)
    """
    door = _folder(encoding)
    if door is not None:
        return door != "bias"
    parameters = _parameters(encoding).values()
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    any_number = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    if len(by_place) < 4 and not any_number:
        return False
    required = [p for p in by_place if p.default is p.empty]
    return True if len(required) > 2 else None


def encoded(
    q: Tensor, k: Tensor, encoding=None, positions=None, key_positions=None, mask=None, **extra
):
    """Return q and k, rotated or not, and what is added to their logits (b or 1, h, t, s), or None.

    Examples:
        >>> q = torch.ones(1, 1, 2, 8)
        >>> encoded(q, q, lambda *given: torch.full((1, 2, 2), 5.0))[2].shape
        torch.Size([1, 1, 2, 2])
    """
    if encoding is None:
        if extra:
            raise ValueError(f"attention: encoding must be given for {[*extra]}, got None")
        return q, k, None
    _check(encoding)
    if _asks_for_mask(encoding):
        extra = {"mask": mask} | extra
    m, n = places(q, k, positions, key_positions)
    with_content = (q, k, positions, n)  # not m: where none are given, one table serves both
    result = _called(encoding, with_content, (m, n), extra)
    if isinstance(result, Tensor):
        return q, k, result.reshape(-1, *result.shape[-3:])
    return *result, None


def _check(encoding):
    if isinstance(encoding, type):
        got = f"the class {encoding.__name__}; write {encoding.__name__}(...)"
        raise ValueError(f"attention: encoding must be built, got {got}")
    if not callable(encoding):
        got = f"{type(encoding).__name__}; of a bias, lambda positions, key_positions: bias"
        raise ValueError(f"attention: encoding must be a module or a function, got {got}")
    if _folder(encoding) == "add":
        got = f"{type(encoding).__name__}, which is called on embeddings, before q and k are made"
        raise ValueError(f"attention: encoding must be a rotation, bias or score, got {got}")


def _called(encoding, with_content, alone, extra) -> Any:
    """Return what an encoding gives, called as its door is; where that is open, what fits one."""
    t, s = with_content[0].shape[2], with_content[1].shape[2]
    takes, refused = takes_content(encoding), None
    if takes or _folder(encoding) is not None:
        result = encoding(*(with_content if takes else alone), **extra)
    else:  # what takes two may be meant for q and k, and fail on positions
        calls = (with_content, alone) if takes is None else (alone,)
        result, refused = _tried(encoding, calls, extra, t, s)
    if not _fits(result, t, s):
        got = repr(refused) if refused else _described(result)
        raise ValueError(
            f"attention: result of encoding must be q and k, or (h, {t}, {s}), got {got}; "
            "rotations and scores take (q, k, positions, key_positions), biases the last two"
        ) from refused
    return result


def _tried(encoding, calls, extra, t, s):
    """Return the result of the first call that fits, or of the first, and what that one raised."""
    outcomes = []
    for arguments in calls:
        try:
            outcome = encoding(*arguments, **extra), None
        except Exception as error:  # a bias fails somehow when q and k are its positions
            outcome = None, error
        if _fits(outcome[0], t, s):
            return outcome
        outcomes.append(outcome)
    return outcomes[0]


def _fits(result, t, s):
    """Tell whether a result is a rotated q and k, or may be added to logits (b, h, t, s)."""
    if isinstance(result, tuple | list):
        return [getattr(x, "shape", ())[2:3] for x in result] == [(t,), (s,)]
    if not isinstance(result, Tensor) or not 2 <= result.ndim <= 4:
        return False
    return result.shape[-2] in (t, 1) and result.shape[-1] in (s, 1)


def _described(result):
    parts = result if isinstance(result, tuple | list) else [result]
    return [tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__ for x in parts]


def _folder(encoding):
    """Return the door of an encoding of this package: the folder of the file of its forward."""
    place = str(getattr(_function(encoding), "__module__", "")).split(".")
    known = len(place) == 3 and place[0] == "posenc" and place[1] in DOORS
    return place[1] if known else None


def _asks_for_mask(encoding):
    bound = encoding.keywords if isinstance(encoding, partial) else {}
    return "mask" in _parameters(encoding) and "mask" not in bound


def _parameters(encoding):
    """Return the parameters of a call by name, without those that a partial has bound by place."""
    function = _function(encoding)
    if isinstance(encoding, partial):
        function = partial(function, *encoding.args, **encoding.keywords)
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # compiled code may not show any
        return inspect.signature(lambda *_: None).parameters


def _function(encoding):
    """Return the function that a call runs, the forward of a module."""
    module = _unwrapped(encoding)
    return getattr(module, "forward", module)


def _unwrapped(encoding):
    """Return what functools.partial or torch.compile wrap."""
    encoding = encoding.func if isinstance(encoding, partial) else encoding
    return getattr(encoding, "_orig_mod", encoding)


def _seen(q, k, encoding, positions, key_positions, causal, mask):
    """Return true where a query sees a key, broadcastable to (b, h, t, s); None if it sees all."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"attention: mask must be boolean, true where seen, got {mask.dtype}")
    mask = None if mask is None else torch.atleast_2d(mask)
    t, s = q.shape[2], k.shape[2]
    given = [p for p in (positions, key_positions) if p is not None]
    if not causal or (t == 1 and not given):
        return mask
    in_line = all(is_in_line(p, x, encoding) for p, x in ((positions, q), (key_positions, k)))
    if not given or not in_line:
        past = torch.ones(t, s, dtype=torch.bool, device=q.device).tril(s - t)  # (t, s)
    else:
        m, n = places(q, k, positions, key_positions)
        past = m[..., :, None] >= n[..., None, :]  # (..., t, s)
        past = past.reshape(-1, 1, t, s)  # (..., 1, t, s)
    return past if mask is None else past & mask
