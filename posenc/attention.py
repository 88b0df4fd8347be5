"""Scaled dot-product attention with any rotation or bias by position, or with none.

Paper: Vaswani et al., 2017, "Attention Is All You Need", https://arxiv.org/abs/1706.03762, eq. 1.

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, e width of values,
       w width of encoded q and k, n coordinates

    attention(q, k, v) = softmax(q k^T / sqrt(d) + position) v

so permuting the tokens permutes the outputs and changes nothing else, unless a mask or a position
breaks the symmetry. An encoding is a rotation (q, k, positions, key_positions) -> (q, k), a score,
which is a bias by content too, of the same arguments -> (b, h, t, s), or a bias (positions,
key_positions) -> (h, t, s), whatever its arguments are named: see `takes_content`.

By default keys have positions 0 .. s-1, but those of the queries if positions are given and t = s;
queries have the positions of the last t keys. So one new query after a cache of keys is right
without positions; `F.scaled_dot_product_attention(is_causal=True)` aligns queries with the first
keys instead. An encoding called alone has a default only for t = s > 1.

A rotation stays on torch's fused kernels; a bias or score is a tensor (h, t, s) for them. Other
ways to compute the same are in `posenc.fast`: FlexAttention, blocks of queries, ALiBi as channels.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# the folders of encodings, by where position enters: the kinds, called doors in the code
DOORS = ("add", "rotate", "bias", "score")


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Callable[..., Any] | None = None,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    scale: float | None = None,
    **extra: Any,
) -> Tensor:
    """Return the attention output (b, h, t, e) of `q` (b, h, t, d) over `k` and `v`.

    To cache rotated keys, rotate with `q, k = rope(q, k, positions)` and attend to the cache
    without an encoding.

    Args:
        q: Queries (b, h, t, d), h a multiple of g.
        k: Keys (b, g, s, d).
        v: Values (b, g, s, e); e may differ from d, and is the width of the output.
        encoding: A rotation, a bias or a score; any function that is called like one.
        positions: Of the queries, (t,), (1, t) or (b, t); of a grid (..., t, n).
        key_positions: Of the keys, likewise.
        causal: Let a query attend to its own position and those before; with coordinates, to keys
            up to its index in the sequence, of which the queries are the last t tokens.
        mask: Boolean, true where a query may attend, broadcastable to (b, h, t, s).
        scale: Multiplies q k^T, not what is added; by default 1/sqrt(d). T5 has 1.
        extra: What else the encoding takes, such as `gates` or `phases`.

    Raises:
        ValueError: If more queries than keys have no positions, as in cross-attention.
        ValueError: If `encoding` is no rotation, bias or score, or `mask` is not boolean.

    Examples:
        >>> import math
        >>> from posenc.bias.alibi import ALiBi
        >>> q, v = torch.zeros(1, 1, 3, 8), torch.eye(3)[None, None]  # so weights come out
        >>> bias = ALiBi(1, slopes=[math.log(2)])  # each position back halves the weight
        >>> attention(q, q, v, bias, causal=True)[0, 0] * 7
        tensor([[7.0000, 0.0000, 0.0000],
                [2.3333, 4.6667, 0.0000],
                [1.0000, 2.0000, 4.0000]])
    """
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    module = _unwrapped(encoding)
    if hasattr(module, "values") and getattr(module, "on_values", True):
        # what an encoding adds to the values depends on the weights, which no kernel returns
        settings = (positions, key_positions, causal, mask, factor)
        weights = attention_weights(q, k, encoding, *settings, **extra)
        return _with_values(weights, v, module, *default_positions(q, k, positions, key_positions))
    encoded_q, encoded_k, added = encoded(q, k, encoding, positions, key_positions, mask, **extra)
    positions_given = positions is not None or key_positions is not None
    aligned = q.shape[2] == k.shape[2] and not positions_given
    if causal and aligned and mask is None and added is None:
        # kernels hide what lies ahead by themselves, without a tensor
        return _fused_attention(encoded_q, encoded_k, v, factor, is_causal=True)
    visible = _visible(q, k, encoding, positions, key_positions, causal, mask)
    if added is None:
        return _fused_attention(encoded_q, encoded_k, v, factor, attn_mask=visible)
    if visible is not None:
        added = added.masked_fill(~visible, float("-inf"))
    return _fused_attention(encoded_q, encoded_k, v, factor, attn_mask=added.to(q.dtype))


def attention_weights(
    q: Tensor,
    k: Tensor,
    encoding: Callable[..., Any] | None = None,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    scale: float | None = None,
    **extra: Any,
) -> Tensor:
    """Return the softmax weights (b, h, t, s) of `attention`: to inspect them; slower than it.

    Examples:
        >>> attention_weights(torch.zeros(1, 1, 2, 8), torch.zeros(1, 1, 4, 8), causal=True)[0, 0]
        tensor([[0.3333, 0.3333, 0.3333, 0.0000],
                [0.2500, 0.2500, 0.2500, 0.2500]])
    """
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    # a softmax in half precision would lose digits
    dtype = torch.promote_types(q.dtype, torch.float32)
    visible = _visible(q, k, encoding, positions, key_positions, causal, mask)
    encoded_q, encoded_k, added = encoded(q, k, encoding, positions, key_positions, mask, **extra)
    keys = encoded_k.to(dtype).repeat_interleave(q.shape[1] // k.shape[1], dim=1)  # (b, h, s, w)
    logits = encoded_q.to(dtype) @ keys.mT * factor  # (b, h, t, s)
    if added is not None:
        logits = logits + added  # (b, h, t, s)
    if visible is not None:
        logits = logits.masked_fill(~visible, float("-inf"))  # (b, h, t, s)
    # a softmax over nothing is NaN; a query that sees no key has weights of 0
    fully_masked = logits.isneginf().all(dim=-1, keepdim=True)  # (b, h, t, 1)
    weights = logits.masked_fill(fully_masked, 0).softmax(dim=-1)  # (b, h, t, s)
    return weights.masked_fill(fully_masked, 0).to(q.dtype)


def _with_values(
    weights: Tensor, v: Tensor, module: Any, positions: Tensor, key_positions: Tensor
) -> Tensor:
    """Return the weighted sum of the values, and what the encoding adds to it."""
    v = v.repeat_interleave(weights.shape[1] // v.shape[1], dim=1)  # (b, h, s, e)
    return weights @ v + module.values(weights, positions, key_positions)  # (b, h, t, e)


def _fused_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, **options: Any) -> Tensor:
    """Return torch's scaled dot-product attention, of values that may be narrower than keys."""
    width = v.shape[-1]
    if q.shape[2] > 1 and width < q.shape[-1]:
        # kernels want equal widths; one query needs no kernel
        v = F.pad(v, (0, q.shape[-1] - width))
    if k.shape[1] != q.shape[1]:
        options["enable_gqa"] = True
    return F.scaled_dot_product_attention(q, k, v, scale=scale, **options)[..., :width]


# Positions


def default_positions(
    q: Tensor,
    k: Tensor,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return positions of queries (t,) or (b, t) and keys (s,) or (b, s), by default or as given.

    Raises:
        ValueError: If more queries than keys have no positions, as in cross-attention.

    Examples:
        >>> q, cache = torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 3, 8)
        >>> default_positions(q, cache)
        (tensor([2]), tensor([0, 1, 2]))
    """
    t, s = q.shape[2], k.shape[2]
    if key_positions is None and positions is not None and t == s:
        key_positions = positions
    if key_positions is None:
        key_positions = torch.arange(s, device=k.device)
    if positions is None and t > s:
        raise ValueError(f"attention: positions must be given for {t} queries, {s} keys, got None")
    if positions is None:
        # with t = s the same tensor object: `_result` tests `m is n`, and one table serves both
        positions = key_positions if t == s else key_positions[..., s - t :]
    return positions, key_positions


def is_scalar_per_token(positions: Tensor | None, x: Tensor, encoding: Any = None) -> bool:
    """Return whether positions are one number a token, (t,) or (b, t), for x (b, h, t, d).

    Coordinates (t, n) can look like (b, t): then `axes` of the encoding decides.

    Examples:
        >>> [is_scalar_per_token(torch.zeros(6, n), torch.zeros(6, 1, 6, 8)) for n in (2, 6)]
        [False, True]
    """
    if positions is None or positions.ndim == 1:
        return True
    b, _, t, _ = x.shape
    one_a_token = tuple(positions.shape) in ((1, t), (b, t))
    return one_a_token and getattr(_unwrapped(encoding), "axes", 1) == 1


def _visible(
    q: Tensor,
    k: Tensor,
    encoding: Any,
    positions: Tensor | None,
    key_positions: Tensor | None,
    causal: bool,
    mask: Tensor | None,
) -> Tensor | None:
    """Return true where a query may attend to a key, to broadcast to (b, h, t, s); None if all."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"attention: mask must be boolean, true where seen, got {mask.dtype}")
    if mask is not None:
        mask = torch.atleast_2d(mask)
    t, s = q.shape[2], k.shape[2]
    positions_given = positions is not None or key_positions is not None
    # a lone query behind a cache sees all of it
    if not causal or (t == 1 and not positions_given):
        return mask
    scalar_q = is_scalar_per_token(positions, q, encoding)
    scalar_k = is_scalar_per_token(key_positions, k, encoding)
    if positions_given and scalar_q and scalar_k:
        m, n = default_positions(q, k, positions, key_positions)
        past = m[..., :, None] >= n[..., None, :]  # (..., t, s)
        past = past.reshape(-1, 1, t, s)  # (..., 1, t, s)
    else:
        # coordinates have no order but that of the sequence
        past = torch.ones(t, s, dtype=torch.bool, device=q.device).tril(s - t)  # (t, s)
    return past if mask is None else past & mask


# Encodings


def encoded(
    q: Tensor,
    k: Tensor,
    encoding: Callable[..., Any] | None = None,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    mask: Tensor | None = None,
    **extra: Any,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return q and k, rotated or not, and what is added to their logits (b or 1, h, t, s), or None.

    Examples:
        >>> q = torch.ones(1, 1, 2, 8)
        >>> encoded(q, q, lambda *positions: torch.full((1, 2, 2), 5.0))[2].shape
        torch.Size([1, 1, 2, 2])
    """
    if encoding is None:
        if extra:
            raise ValueError(f"attention: encoding must be given for {[*extra]}, got None")
        return q, k, None
    _check(encoding)
    if _asks_for_mask(encoding):
        extra = {"mask": mask} | extra
    m, n = default_positions(q, k, positions, key_positions)
    result = _result(encoding, q, k, m, n, extra)
    if isinstance(result, Tensor):
        return q, k, result.reshape(-1, *result.shape[-3:])
    rotated_q, rotated_k = result
    return rotated_q, rotated_k, None


def takes_content(encoding: Any) -> bool | None:
    """Return whether an encoding is called with q and k before the positions; None if unclear.

    An encoding of this package says so by its folder. Of any other callable the number of its
    arguments decides, never their names: a bias takes two, rotations and scores take four. What
    takes two as well as four is unclear, such as `lambda *arguments: rope(*arguments)`.

    Examples:
        >>> from posenc.bias.alibi import ALiBi
        >>> takes_content(ALiBi(8)), takes_content(lambda queries, keys, m, n: (queries, keys))
        (False, True)
    """
    door = _door(encoding)
    if door is not None:
        return door != "bias"
    parameters = _parameters(encoding).values()
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    any_number = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    if len(by_place) < 4 and not any_number:
        return False
    required = [p for p in by_place if p.default is p.empty]
    return True if len(required) > 2 else None


def _check(encoding: Any) -> None:
    """Refuse a class, a tensor, and an encoding that is added to embeddings."""
    if isinstance(encoding, type):
        got = f"the class {encoding.__name__}; write {encoding.__name__}(...)"
        raise ValueError(f"attention: encoding must be built, got {got}")
    if not callable(encoding):
        got = f"{type(encoding).__name__}; of a bias, lambda positions, key_positions: bias"
        raise ValueError(f"attention: encoding must be a module or a function, got {got}")
    if _door(encoding) == "add":
        got = f"{type(encoding).__name__}, which is called on embeddings, before q and k are made"
        raise ValueError(f"attention: encoding must be a rotation, bias or score, got {got}")


def _result(
    encoding: Callable[..., Any], q: Tensor, k: Tensor, m: Tensor, n: Tensor, extra: dict[str, Any]
) -> Any:
    """Call the encoding with (q, k, m, n) or (m, n), as `takes_content` says.

    If that is unclear, both are tried, and the first result whose shape fits is taken.
    """
    t, s = q.shape[2], k.shape[2]
    with_content = (q, k, m, n)
    positions_alone = (m, n)
    takes, door = takes_content(encoding), _door(encoding)
    error = None
    if takes and door is not None and m is n:
        # keys have the positions of queries: one table serves both
        result = encoding(q, k, m, **extra)
    elif takes:
        result = encoding(*with_content, **extra)
    elif door is not None:
        result = encoding(*positions_alone, **extra)
    else:
        # what takes two may be meant for q and k, and fail on positions
        calls = (with_content, positions_alone) if takes is None else (positions_alone,)
        result, error = _first_that_fits(encoding, calls, extra, t, s)
    if not _fits(result, t, s):
        got = repr(error) if error else _described(result)
        raise ValueError(
            f"attention: result of encoding must be q and k, or have shape (h, {t}, {s}), "
            f"got {got}; "
            "rotations and scores take (q, k, positions, key_positions), biases the last two"
        ) from error
    return result


def _first_that_fits(
    encoding: Callable[..., Any],
    calls: tuple[tuple[Tensor, ...], ...],
    extra: dict[str, Any],
    t: int,
    s: int,
) -> tuple[Any, Exception | None]:
    """Return the first result that fits, with None.

    If none fits, return the result and the error of the first call.
    """
    outcomes: list[tuple[Any, Exception | None]] = []
    for arguments in calls:
        try:
            outcome = encoding(*arguments, **extra), None
        except Exception as error:  # a bias fails somehow when q and k are its positions
            outcome = None, error
        if _fits(outcome[0], t, s):
            return outcome
        outcomes.append(outcome)
    return outcomes[0]


def _fits(result: Any, t: int, s: int) -> bool:
    """Return whether a result is a rotated q and k, or may be added to logits (b, h, t, s)."""
    if isinstance(result, tuple | list):
        return [getattr(x, "shape", ())[2:3] for x in result] == [(t,), (s,)]
    if not isinstance(result, Tensor) or not 2 <= result.ndim <= 4:
        return False
    return result.shape[-2] in (t, 1) and result.shape[-1] in (s, 1)


def _described(result: Any) -> list[Any]:
    """Return the shapes of a result, or the types of what is no tensor."""
    parts = result if isinstance(result, tuple | list) else [result]
    return [tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__ for x in parts]


def _door(encoding: Any) -> str | None:
    """Return the door of an encoding of this package: the folder of the file of its forward."""
    module = str(getattr(_function(encoding), "__module__", "")).split(".")
    if len(module) == 3 and module[0] == "posenc" and module[1] in DOORS:
        return module[1]
    return None


def _asks_for_mask(encoding: Any) -> bool:
    """Return whether a call takes `mask`, and no partial has bound it."""
    bound = encoding.keywords if isinstance(encoding, partial) else {}
    return "mask" in _parameters(encoding) and "mask" not in bound


def _parameters(encoding: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a call by name, without those that a partial has bound by place."""
    function = _function(encoding)
    if isinstance(encoding, partial):
        function = partial(function, *encoding.args, **encoding.keywords)
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # compiled code may not show any
        return inspect.signature(lambda *_: None).parameters


def _function(encoding: Any) -> Any:
    """Return the function that a call runs, the forward of a module."""
    module = _unwrapped(encoding)
    return getattr(module, "forward", module)


def _unwrapped(encoding: Any) -> Any:
    """Return what functools.partial or torch.compile wrap."""
    if isinstance(encoding, partial):
        encoding = encoding.func
    return getattr(encoding, "_orig_mod", encoding)
