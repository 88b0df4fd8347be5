"""RoPE: turn each pair of channels of queries and keys by an angle that grows with position, so logits see offsets.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, eq. 15.
Used:  Llama, Mistral, Qwen, Gemma, DeepSeek; GPT-NeoX and GPT-J turn a part of each head
Cost:  nothing to learn; one table (t, r) for all layers, and about one pass over queries and keys a call

Key:   b batch, h heads, g key heads or rows of theta, t tokens, s keys, d head dim, r rotary dim

    y_first  = x_first cos(p theta_i) - x_second sin(p theta_i),    theta_i = base^(-2i/r),  i = 0 .. r/2-1
    y_second = x_second cos(p theta_i) + x_first sin(p theta_i)

so R_m q . R_n k = q . R_(n-m) k sees the offset alone. Norms stay, and so do the channels after r. A pair is (i, i+r/2)
in Hugging Face's Llama and GPT-NeoX ("half"), (2i, 2i+1) in the paper, GPT-J and Meta's Llama ("interleaved").
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

Places = Tensor | None
LAYOUTS = {"half": ((2, -1), -2), "interleaved": ((-1, 2), -1)}  # how channels split, and which axis is that of pairs
NO_NUMBERS = (torch.bool, torch.complex32, torch.complex64, torch.complex128)
PRECISE, BLOCK = (torch.float32, torch.float64), 2**18  # BLOCK elements stay in the cache of a core while they turn


def rope(
    x: np.ndarray,
    positions: np.ndarray,
    base: ArrayLike = 10_000.0,
    layout: str = "half",
    rotary_dim: int | None = None,
    theta: ArrayLike | None = None,
    attention_factor: float = 1.0,
) -> np.ndarray:
    """Return `x` (..., h, t, d) or (t, d) in float64, turned to `positions` (t,), or (b, t) for `x` (b, h, t, d)."""
    x, positions = _numbers("x", x), _numbers("positions", positions)
    _require(x.ndim > 1 and x.shape[-1] in range(2, 2**31, 2), "x", "(..., h, t, d) or (t, d) with an even d", x)
    theta = np.atleast_2d(_theta(x.shape[-1], base, layout, rotary_dim, theta, attention_factor))  # (g, r/2)
    g, r, (h, t) = len(theta), 2 * theta.shape[-1], (1, *x.shape)[-3:-1]
    _require(h % g == 0, "x", f"(..., h, t, d) with h a multiple of the {g} rows of theta", x)
    _require(positions.shape in ((t,), (len(x) if x.ndim == 4 else -1, t)), "positions", "(t,) or (b, t)", positions)
    angle = positions[..., None, :, None] * theta[:, None]  # (..., g, t, r/2)
    cosine, sine = np.repeat(float(attention_factor) * np.stack([np.cos(angle), np.sin(angle)]), h // g, axis=-3)
    first, second = (x[..., : r // 2], x[..., r // 2 : r]) if layout == "half" else (x[..., :r:2], x[..., 1:r:2])
    turned = np.stack([first * cosine - second * sine, second * cosine + first * sine], axis=LAYOUTS[layout][1])
    return np.concatenate([turned.reshape(*x.shape[:-1], r), x[..., r:]], axis=-1)  # (..., t, d)


class RoPE(nn.Module):
    """Turn queries and keys to their positions, or any one tensor there and back, by angles worked out in float64.

    Args:
        dim: Width d of a head.
        base: Sets the slowest wavelength, 2 pi base^(1 - 2/r) positions; a sequence gives each key head its own.
        layout: "half" pairs the channels (i, i + r/2), "interleaved" (2i, 2i + 1).
        rotary_dim: How many channels r turn, the first ones; all by default. Twice as many as a `theta` has numbers.
        theta: Frequencies (r/2,) in place of those of `base`, or (g, r/2), a row for each key head and its queries.
        attention_factor: Multiplies cosine and sine, as YaRN does.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> RoPE(2).turn(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([torch.pi / 2])).round().tolist()
        [[[[-0.0, 1.0]]]]
    """

    def __init__(
        self,
        dim: int,
        base: ArrayLike = 10_000.0,
        layout: str = "half",
        rotary_dim: int | None = None,
        theta: ArrayLike | None = None,
        attention_factor: float = 1.0,
    ) -> None:
        super().__init__()
        rows = _theta(dim, base, layout, rotary_dim, theta, attention_factor)
        self.dim, self.layout, self.attention_factor = int(dim), layout, float(attention_factor)
        self.base, self.rotary_dim, self.rows = base if theta is None else None, 2 * rows.shape[-1], rows.shape[:-1]
        self.theta = tuple(tuple(row) if self.rows else row for row in rows.tolist())

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Places = None,
        key_positions: Places = None,
        table: Tensor | tuple[Tensor, Tensor] | None = None,
        out: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned: keys to 0 .. s-1, queries to the last t of these.

        `positions` (t,), (1, t) or (b, t), alone those of as many keys too, and `key_positions` say otherwise. One
        `table(key_positions)`, its last t rows for queries, or two replace both. `out`: two to fill, without gradients.
        """
        of_q, of_k = table if isinstance(table, tuple) and len(table) == 2 else (table, table)
        self._check("k", k, "key_positions", key_positions, table is None, of_k)
        self._check("q", q, "positions", positions, table is None, of_q, k.shape[2] if of_q is of_k else 0, k)
        fits = isinstance(out, tuple) and [getattr(y, "dtype", 0) for y in out] == [q.dtype, k.dtype]
        fits = fits and [y.shape for y in out or ()] == [q.shape, k.shape]
        fits = fits and not (torch.is_grad_enabled() and any(y.requires_grad for y in (q, k, *(out or ()))))
        _require(out is None or fits, "out", "two tensors like q and k, where no gradient is needed", out, "or omit it")
        if table is None:
            t, s, dtype = q.shape[2], k.shape[2], PRECISE[torch.float64 in (q.dtype, k.dtype)]
            key_positions = positions if key_positions is None and positions is not None and t == s else key_positions
            every = torch.arange(min(s - t, 0), s, device=k.device)
            of_q = of_k = self.table(every if key_positions is None else key_positions, dtype)
            if positions is not key_positions:
                of_q = self.table(every[every.shape[0] - t :] if positions is None else positions, dtype)
        by, (to_q, to_k) = self._factors(of_q), out or (None, None)
        return self._turned(q, by, to_q), self._turned(k, by if of_k is of_q else self._factors(of_k), to_k)

    def turn(self, x: Tensor, positions: Places = None, table: Tensor | None = None, inverse: bool = False) -> Tensor:
        """Return `x` (b, h, t, d) turned to `positions` (t,) or (b, t), 0 .. t-1 by default; or back, if `inverse`."""
        self._check("x", x, "positions", positions, table is None, table)
        _require(isinstance(inverse, bool), "inverse", "True or False", inverse)
        places = torch.arange(x.shape[2], device=x.device) if positions is None else positions
        table = self.table(places, PRECISE[x.dtype == torch.float64]) if table is None else table
        return self._turned(x, self._factors(table / self.attention_factor**2 if inverse else table), None, inverse)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return one tensor, (..., t, r) or (..., g, t, r): each pair of channels holds cos and sin of its angle."""
        numbers = isinstance(positions, Tensor) and positions.ndim and positions.dtype not in NO_NUMBERS
        _require(numbers, "positions", "a tensor of numbers, (..., t)", positions, "such as torch.arange(t)")
        _require(isinstance(dtype, torch.dtype) and dtype in PRECISE, "dtype", "torch.float32 or torch.float64", dtype)
        where = positions.device if positions.device.type != "mps" else "cpu"  # mps has no float64
        places = positions.to(where, torch.float64)[..., None]  # (..., t, 1)
        angle = (places.unsqueeze(-3) if self.rows else places) * places.new_tensor(self.theta).unsqueeze(-2)
        turn = torch.stack((angle.cos(), angle.sin()), LAYOUTS[self.layout][1]).flatten(-2)  # (..., t, r)
        return (self.attention_factor * turn).to(positions.device, dtype)  # (..., t, r)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return ", ".join(f"{n}={vars(self)[n]!r}" for n in ("dim", "base", "layout", "rotary_dim", "attention_factor"))

    def _factors(self, table: Any) -> tuple[bool, list[Tensor]]:
        table, (split, axis) = table[:, None] if table.ndim == 3 and not self.rows else table, LAYOUTS[self.layout]
        compiled, plain = torch.compiler.is_compiling(), torch._C._are_functorch_transforms_active()
        plain = plain or torch._C._get_tracing_state() is not None or table.requires_grad
        plain = plain or (not compiled and torch.autograd.forward_ad._current_level >= 0)
        pairs = compiled and table.is_cpu and table.dtype == torch.float32 and table.shape[-2] > 1
        pairs = torch.compiler.is_dynamo_compiling() if pairs else self.rotary_dim % 32 == 0 and not compiled
        if axis == -1 and pairs and not plain:
            return False, [table]  # to be read in pairs, by operations that are not to be recorded
        cosine, sine = table.unflatten(-1, split).unbind(axis)
        both = (cosine, cosine), (-sine, sine)
        return plain or compiled, [torch.cat(f, -1) if axis == -2 else torch.stack(f, -1).flatten(-2) for f in both]

    def _turned(self, x: Tensor, factors: tuple, out: Tensor | None = None, back: bool = False) -> Tensor:
        (plain, by), r, t, compiled = factors, self.rotary_dim, x.shape[2], torch.compiler.is_compiling()
        by = [f[..., f.shape[-2] - t :, :] for f in by] if compiled or by[0].shape[-2] != t else by
        by = [f.repeat_interleave(x.shape[1] // self.rows[0], dim=-3) for f in by] if self.rows else by
        apart = not plain and ((x.requires_grad and torch.is_grad_enabled()) or (not compiled and x.numel() > BLOCK))
        given = self.layout, back, x if r == self.dim else x[..., :r], *by
        turned = _Apart.apply(out if r == self.dim else None, *given) if apart else _product(None, *given)
        turned = turned if r == self.dim else torch.cat((turned, x[..., r:]), dim=-1)  # (b, h, t, d)
        return turned if out is None else out.copy_(turned)

    def _check(self, name: str, x: Any, of: str, place: Any, free: bool, table: Any, s: int = 0, k: Any = None) -> None:
        fits = isinstance(x, Tensor) and x.is_floating_point() and x.ndim == 4 and x.shape[3] == self.dim
        form = "floating point (b, h, t, d) with d = dim and h a multiple of the rows of theta"
        _require(fits and x.shape[1] % (self.rows or (1,))[0] == 0, name, form, x, "split heads off first")
        (b, _, t, _), fits = x.shape, isinstance(place, Tensor) and place.dtype not in NO_NUMBERS
        _require(k is None or k.shape[0] == b, name, "as many sequences as k", x, "expand the one that others share")
        fits = place is None or (fits and place.shape in ((t,), (1, t), (b, t)))
        _require(fits, of, "a tensor of numbers, (t,) or (b, t)", place, "one a token of ", x.shape)
        form, dtypes = (*self.rows, max(s, t), self.rotary_dim), PRECISE[x.dtype == torch.float64 :]
        fits = isinstance(table, Tensor) and table.shape in (form, (1, *form), (b, *form)) and table.dtype in dtypes
        _require(free or fits, "table", "table(positions) of the length and precision of the content, or two", table)


def _theta(dim: Any, base: Any, layout: Any, rotary_dim: Any, theta: Any, attention_factor: Any) -> np.ndarray:
    _require(isinstance(dim, int | np.integer) and dim > 1 and dim % 2 == 0, "dim", "even and at least 2", dim)
    r = dim if rotary_dim is None else rotary_dim
    _require(isinstance(r, int | np.integer) and r in range(2, dim + 1, 2), "rotary_dim", "even, from 2 to dim", r)
    _require(isinstance(layout, str) and layout in LAYOUTS, "layout", f"one of {', '.join(LAYOUTS)}", layout)
    factor, base = _numbers("attention_factor", attention_factor), _numbers("base", base)
    _require(factor.ndim == 0 and factor > 0, "attention_factor", "positive and finite", attention_factor)
    _require(base.ndim < 2 and base.size and base.min() > 0, "base", "positive, or so for each key head", base.tolist())
    theta = base[..., None] ** (-2 * np.arange(r // 2) / r) if theta is None else _numbers("theta", theta)
    _require(theta.shape[-1:] == (r // 2,) and theta.size and theta.ndim < 3, "theta", f"r/2 or (g, r/2), {r=}", theta)
    return theta


def _numbers(name: str, value: Any) -> np.ndarray:
    lost = " without a gradient, which RoPE keeps" * (name == "x" and getattr(value, "requires_grad", False))
    try:
        got = np.asarray(None if lost else value.tolist() if isinstance(value, Tensor) else value)
    except (TypeError, ValueError):  # a ragged list
        got = np.asarray(None)
    _require(got.dtype.kind in "iuf" and (name == "x" or np.isfinite(got).all()), name, "finite numbers" + lost, value)
    return got.astype(np.float64)


def _require(fits: Any, name: str, condition: str, got: Any, remedy: str = "", of: Any = ()) -> None:
    if not fits:
        got = f"{got.dtype} {tuple(got.shape)}" if isinstance(got, Tensor | np.ndarray) else f"{got!r:.90}"
        raise ValueError(f"rope: {name} must be {condition}, got {got}{remedy and '; '}{remedy}{tuple(of) or ''}")


def _product(out: Tensor | None, layout: str, back: bool, x: Tensor, *by: Tensor) -> Tensor:
    """Return x (..., t, r) turned, by cosines and signed sines or, where pairs are neighbors, by one table."""
    (split, axis), y = LAYOUTS[layout], x if x.dtype == by[0].dtype else x.to(by[0].dtype)
    if len(by) == 2:
        scaled, roll = y * by[0], layout == "half" and not torch.compiler.is_compiling()  # a flip, but faster so
        swapped = y.roll(y.shape[-1] // 2, -1) if roll else y.unflatten(-1, split).flip(axis).flatten(-2)
        return torch.addcmul(scaled, swapped, by[1], value=-1 if back else 1, out=out).to(x.dtype)
    if torch.compiler.is_compiling():
        return _in_integers(back, x, *by)
    try:
        pairs, turn = (part.view(part.dtype.to_complex()) for part in (y, *by))
    except RuntimeError:  # an odd stride or offset
        return _product(out, layout, back, *(f.clone(memory_format=torch.contiguous_format) for f in (x, *by)))
    turned = (pairs * (turn.conj() if back else turn)).view(y.dtype)
    return turned if y is x else turned.to(x.dtype)


def _in_integers(back: bool, x: Tensor, table: Tensor) -> Tensor:
    """Return x (..., t, r) turned, a pair read as one integer: what the compiler makes of these loops in vectors."""
    x = x if x.stride(-1) == 1 and not any(n % 2 for n in x.stride()[:-1]) else x.contiguous()
    y, bits, pair = (x, 16, torch.int32) if x.dtype == torch.bfloat16 else (x.float(), 32, torch.int64)
    first, second = ((y.view(pair) >> n << 32 - bits).to(torch.int32).view(torch.float32) for n in (0, bits))
    cosine, sine = ((table.contiguous().view(torch.int64) >> n).to(torch.int32).view(torch.float32) for n in (0, 32))
    low = torch.addcmul(first * cosine, second, sine, value=1 if back else -1).view(torch.int32)
    high = torch.addcmul(second * cosine, first, sine, value=-1 if back else 1).view(torch.int32)
    if bits == 16:  # round to nearest, ties to even
        low, high = (part + 0x7FFF + (part >> 16 & 1) for part in (low, high))
    return ((low >> 32 - bits).to(pair) & 2**bits - 1 | (high >> 32 - bits).to(pair) << bits).view(y.dtype).to(x.dtype)


class _Apart(torch.autograd.Function):  # its gradient is the turn back; on a CPU it goes by blocks that fit the cache
    @staticmethod
    def forward(ctx: Any, out: Tensor | None, layout: str, back: bool, x: Tensor, *by: Tensor) -> Tensor:
        whole = torch.compiler.is_compiling() or not x.is_cpu or x.numel() <= BLOCK
        if whole or (out is None and len(by) == 1 and x.dtype in PRECISE):
            out = _product(None, layout, back, x, *by)
        else:
            axis = max([i for i in range(3) if x.numel() <= 2 * BLOCK * x.shape[i]] or [2], key=lambda i: x.stride(i))
            out, size = torch.empty_like(x) if out is None else out, max(1, BLOCK * x.shape[axis] // x.numel())
            parts = [whole.split(size, axis) for whole in (out, x, *(f.expand(*x.shape[:3], -1) for f in by))]
            for y, *rest in zip(*parts, strict=True):
                y.copy_(_product(y if x.dtype == by[0].dtype else None, layout, back, *rest))
        ctx.layout, ctx.back = layout, back
        ctx.save_for_backward(*by)
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        y = grad_outputs[0].contiguous() if torch.compiler.is_compiling() else grad_outputs[0]
        return None, None, None, _Apart.apply(None, ctx.layout, not ctx.back, y, *ctx.saved_tensors), None, None
