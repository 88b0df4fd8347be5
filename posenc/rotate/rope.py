"""RoPE: turn each pair of channels of queries and keys by an angle that grows with position, so logits see offsets.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, eq. 15.
Used:  Llama, Mistral, Qwen, Gemma, DeepSeek; GPT-NeoX and GPT-J turn a part of each head
Cost:  nothing to learn; one table (t, r) for all layers, and about one pass over queries and keys a call

Key:   b batch, h heads, g key heads or rows of theta, t tokens, s keys, d head dim, r rotary dim

    y_first  = x_first cos(p theta_i) - x_second sin(p theta_i),    theta_i = base^(-2i/r),  i = 0 .. r/2-1
    y_second = x_second cos(p theta_i) + x_first sin(p theta_i)

so R_m q . R_n k = q . R_(n-m) k sees the offset alone. Norms stay, and so do the channels after r. A pair is (i, i+r/2)
in Hugging Face's Llama and in GPT-NeoX ("half"), (2i, 2i+1) in the paper, GPT-J and Meta's Llama ("interleaved"): one
is the other with its channels permuted. YaRN's attention_factor multiplies cosine and sine, so logits by its square.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

LAYOUTS = {"half": ((2, -1), -2), "interleaved": ((-1, 2), -1)}  # how channels split, and which axis is that of pairs
PRECISE = (torch.float32, torch.float64)
NO_NUMBERS = (torch.bool, torch.complex32, torch.complex64, torch.complex128)
BLOCK = 2**18  # elements that stay in the cache of a core while they turn


def rope(
    x: np.ndarray,
    positions: np.ndarray,
    base: Any = 10_000.0,
    layout: str = "half",
    rotary_dim: int | None = None,
    theta: Any = None,
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
    table = float(attention_factor) * np.stack([np.cos(angle), np.sin(angle)])
    cosine, sine = np.repeat(table, h // g, axis=-3)  # (..., h, t, r/2)
    first, second = (x[..., : r // 2], x[..., r // 2 : r]) if layout == "half" else (x[..., :r:2], x[..., 1:r:2])
    turned = np.stack([first * cosine - second * sine, second * cosine + first * sine], axis=LAYOUTS[layout][1])
    return np.concatenate([turned.reshape(*x.shape[:-1], r), x[..., r:]], axis=-1)  # (..., t, d)


class RoPE(nn.Module):
    """Turn queries and keys to their positions, or any one tensor there and back, by angles worked out in float64.

    Args:
        dim: Width d of a head.
        base: Sets the slowest wavelength, 2 pi base^(1 - 2/r) positions; a sequence gives each key head its own.
        layout: "half" pairs the channels (i, i + r/2), "interleaved" (2i, 2i + 1).
        rotary_dim: How many channels r turn, the first ones; all by default.
        theta: Frequencies (r/2,) in place of those of `base`, or (g, r/2), a row for each key head and its queries.
        attention_factor: Multiplies cosine and sine, as YaRN does.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> q, k = RoPE(2)(torch.ones(1, 1, 4, 2), torch.ones(1, 1, 4, 2))
        >>> [round(angle) for angle in (q @ k.mT / 2).acos()[0, 0, 3].tolist()]  # from the last query to each key
        [3, 2, 1, 0]
    """

    def __init__(
        self,
        dim: int,
        base: Any = 10_000.0,
        layout: str = "half",
        rotary_dim: int | None = None,
        theta: Any = None,
        attention_factor: float = 1.0,
    ) -> None:
        super().__init__()
        rows = _theta(dim, base, layout, rotary_dim, theta, attention_factor)
        self.dim, self.layout, self.attention_factor = int(dim), layout, float(attention_factor)
        self.rotary_dim, self.rows, (self.split, self.axis) = 2 * rows.shape[-1], rows.shape[:-1], LAYOUTS[layout]
        self.theta = tuple(tuple(row) if self.rows else row for row in rows.tolist())

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        table: Tensor | tuple[Tensor, Tensor] | None = None,
        out: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned.

        Keys stand at 0 .. s-1 and queries at the last t of these, unless `positions` (t,) or (b, t) and
        `key_positions` (s,) or (b, s) say otherwise. `table`, from `table(key_positions)`, replaces both: its last t
        rows serve the queries; so does a pair of tables. `out` is a pair to write to, where no gradient is needed.
        """
        of_q, of_k = table if isinstance(table, tuple) and len(table) == 2 else (table, table)
        self._check("k", k, "key_positions", key_positions, table is None, of_k)
        self._check("q", q, "positions", positions, table is None, of_q, k.shape[2] if of_q is of_k else 0)
        fits = isinstance(out, tuple) and [getattr(part, "dtype", 0) for part in out] == [q.dtype, k.dtype]
        fits = fits and [part.shape for part in out or ()] == [q.shape, k.shape]
        fits = fits and not (torch.is_grad_enabled() and any(part.requires_grad for part in (q, k, *(out or ()))))
        _require(out is None or fits, "out", "two tensors like q and k, where no gradient is needed", out)
        if table is None:
            of_q, of_k = self._tables(q, k, positions, key_positions)
        by, (to_q, to_k) = self._factors(of_q), out or (None, None)
        return self._turned(q, by, to_q), self._turned(k, by if of_k is of_q else self._factors(of_k), to_k)

    def turn(
        self, x: Tensor, positions: Tensor | None = None, table: Tensor | None = None, inverse: bool = False
    ) -> Tensor:
        """Return `x` (b, h, t, d) turned to `positions` (t,) or (b, t), 0 .. t-1 by default; or back, if `inverse`."""
        self._check("x", x, "positions", positions, table is None, table)
        _require(isinstance(inverse, bool), "inverse", "True or False", inverse)
        by = self._factors(self._tables(x, x, positions, positions)[0] if table is None else table)
        return self._turned(x, [part / self.attention_factor**2 for part in _back(*by)] if inverse else by)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return (cos, sin) of `positions` (..., t) in the channels of each pair: (..., t, r), or (..., g, t, r)."""
        numbers = isinstance(positions, Tensor) and positions.ndim and positions.dtype not in NO_NUMBERS
        _require(numbers, "positions", "a tensor of numbers, (..., t)", positions)
        _require(isinstance(dtype, torch.dtype) and dtype in PRECISE, "dtype", "torch.float32 or torch.float64", dtype)
        where = positions.device if positions.device.type != "mps" else "cpu"  # mps has no float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where).unsqueeze(-2)  # (..., 1, r/2)
        places = positions.to(where, torch.float64)[..., None]  # (..., t, 1)
        angle = (places.unsqueeze(-3) if self.rows else places) * theta  # (..., t, r/2)
        turn = torch.stack((angle.cos(), angle.sin()), self.axis).flatten(-2)  # (..., t, r)
        return (self.attention_factor * turn).to(positions.device, dtype)  # (..., t, r)

    def _tables(self, q: Tensor, k: Tensor, positions: Tensor | None, key_positions: Tensor | None) -> tuple:
        t, s, dtype = q.shape[2], k.shape[2], PRECISE[torch.float64 in (q.dtype, k.dtype)]
        every = torch.arange(min(s - t, 0), s, device=k.device)
        of_k = self.table(every if key_positions is None else key_positions, dtype)
        places = every[every.shape[0] - t :] if positions is None else positions
        return of_k if positions is key_positions else self.table(places, dtype), of_k

    def _factors(self, table: Any) -> list[Tensor]:
        """Return what `_product` takes: the fastest, complex numbers (..., t, r/2), or cosines and signed sines."""
        pairs = (table[:, None] if table.ndim == 3 and not self.rows else table).unflatten(-1, self.split)
        if self.axis == -1 and self.rotary_dim % 32 == 0 and not torch.compiler.is_compiling():
            return [_complex(pairs)]  # in whole vectors torch rounds their sums as it rounds real ones
        cosine, sine = pairs.unbind(self.axis)
        both = (cosine, cosine), (-sine, sine)
        return [torch.cat(two, -1) if self.axis == -2 else torch.stack(two, -1).flatten(-2) for two in both]

    def _turned(self, x: Tensor, by: list[Tensor], out: Tensor | None = None) -> Tensor:
        r, t = self.rotary_dim, x.shape[2]
        eager = not (torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active())
        by = [f if eager and f.shape[-2] == t else f[..., f.shape[-2] - t :, :] for f in by]
        by = [f.repeat_interleave(x.shape[1] // self.rows[0], dim=-3) for f in by] if self.rows else by
        if out is not None and eager:
            _InBlocks.apply(out[..., :r], self.layout, x[..., :r], *by)
            out[..., r:] = x[..., r:]
            return out
        large = eager and x.device.type == "cpu" and x.numel() > BLOCK // 4 and not any(f.requires_grad for f in by)
        turning = _InBlocks.apply if large and (len(by) == 2 or x.dtype not in PRECISE) else _product
        turned = turning(None, self.layout, x if r == self.dim else x[..., :r], *by)
        turned = turned if r == self.dim else torch.cat((turned, x[..., r:]), dim=-1)  # (b, h, t, d)
        return turned if out is None else out.copy_(turned)

    def _check(self, name: str, x: Any, of: str, positions: Any, free: bool, table: Any, s: int = 0) -> None:
        fits = isinstance(x, Tensor) and x.is_floating_point() and x.ndim == 4 and x.shape[3] == self.dim
        fits = fits and x.shape[1] % (self.rows or (1,))[0] == 0
        _require(fits, name, "floating point (b, h, t, d) with d = dim and h a multiple of the rows of theta", x)
        b, _, t, _ = x.shape
        fits = isinstance(positions, Tensor) and positions.shape in ((t,), (b, t)) and positions.dtype not in NO_NUMBERS
        _require(positions is None or fits, of, "a tensor of numbers, (t,) or (b, t)", positions)
        form, dtypes = (*self.rows, max(s, t), self.rotary_dim), PRECISE[x.dtype == torch.float64 :]
        fits = isinstance(table, Tensor) and table.shape in (form, (b, *form)) and table.dtype in dtypes
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
    rows = theta.ndim in (1, 2) and theta.size and theta.shape[-1] == r // 2
    _require(rows, "theta", "rotary_dim / 2 frequencies, or so many for each key head", theta)
    return theta


def _numbers(name: str, value: Any) -> np.ndarray:
    lost = name == "x" and getattr(value, "requires_grad", False)  # a gradient would be
    try:
        array = np.asarray(None if lost else value.tolist() if isinstance(value, Tensor) else value)
    except (TypeError, ValueError):  # a ragged list
        array = np.asarray(None)
    _require(array.dtype.kind in "iuf" and (name == "x" or np.isfinite(array).all()), name, "finite numbers", value)
    return array.astype(np.float64)


def _require(fits: Any, name: str, condition: str, got: Any) -> None:
    if not fits:
        got = f"{got.dtype} {tuple(got.shape)}" if isinstance(got, Tensor | np.ndarray) else repr(got)
        raise ValueError(f"rope: {name} must be {condition}, got {got}")


def _complex(pairs: Tensor) -> Tensor:
    try:
        return torch.view_as_complex(pairs)
    except RuntimeError:  # an odd stride or offset
        return torch.view_as_complex(pairs.clone(memory_format=torch.contiguous_format))


def _back(cosine: Tensor, *sine: Tensor) -> list[Tensor]:
    return [cosine.conj_physical(), *(-part for part in sine)]


def _product(out: Tensor | None, layout: str, x: Tensor, cosine: Tensor, *sine: Tensor) -> Tensor:
    """Return x (..., t, r) turned, in `out` where it has the dtype of the factors, which are one if complex."""
    split, axis = LAYOUTS[layout]
    y = x if x.dtype in PRECISE else x.float()
    if sine:
        roll = layout == "half" and not torch.compiler.is_compiling()  # the same as a flip, faster unless compiled
        swapped = y.roll(y.shape[-1] // 2, -1) if roll else y.unflatten(-1, split).flip(axis).flatten(-2)
        turned = torch.addcmul(torch.mul(y, cosine, out=out), swapped, *sine, out=out)
    else:
        turned = torch.view_as_real(_complex(y.unflatten(-1, split)) * cosine).flatten(-2)
    return turned if turned.dtype == x.dtype else turned.to(x.dtype)


class _InBlocks(torch.autograd.Function):
    """The product of large content on a CPU: a block of tokens at a time, into one output, keeping no content."""

    @staticmethod
    def forward(ctx: Any, out: Tensor | None, layout: str, x: Tensor, *by: Tensor) -> Tensor:
        ctx.layout = layout
        ctx.save_for_backward(*by)
        out = torch.empty_like(x) if out is None else out
        rows = BLOCK * x.shape[-2] // max(1, x.numel()) if x.device.type == "cpu" else x.shape[-2]
        for y, part, *turn in zip(*(whole.split(max(1, rows), -2) for whole in (out, x, *by)), strict=True):
            y.copy_(_product(y if x.dtype == by[0].dtype else None, layout, part, *turn))
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, _InBlocks.apply(None, ctx.layout, *grad_outputs, *_back(*ctx.saved_tensors)), None, None
