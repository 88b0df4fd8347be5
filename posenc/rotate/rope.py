"""RoPE: turn each pair of channels of queries and keys by an angle that grows with position, so logits see offsets.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, eq. 15.
Used:  Llama, Mistral, Qwen, Gemma, DeepSeek; GPT-NeoX and GPT-J turn a part of each head
Cost:  nothing to learn; one table (t, r) for all layers, and about one pass over queries and keys a call

Key:   b batch, h heads, g key heads or rows of theta, t tokens, s keys, d head dim, r rotary dim

    y_first  = x_first cos(p theta_i) - x_second sin(p theta_i),    theta_i = base^(-2i/r),  i = 0 .. r/2-1
    y_second = x_second cos(p theta_i) + x_first sin(p theta_i)

so R_m q . R_n k = q . R_(n-m) k sees the offset alone. Norms stay, and so do the channels after r. Pairs are (i, i+r/2)
in Hugging Face's Llama and GPT-NeoX ("half"), (2i, 2i+1) in the paper, GPT-J and Meta's Llama ("interleaved").
"""

import numpy as np
import torch
from torch import Tensor, nn

LAYOUTS = {"half": ((2, -1), -2), "interleaved": ((-1, 2), -1)}  # how the channels split, and which axis is a pair's
NO_NUMBERS = (torch.bool, torch.complex32, torch.complex64, torch.complex128)
BLOCK = 2**19  # elements that stay in the cache of a core while they turn


def rope(x, positions, base=10_000.0, layout="half", rotary_dim=None, theta=None, attention_factor=1.0) -> np.ndarray:
    """Return `x` (..., h, t, d) or (t, d) in float64, turned to `positions` (t,), or (b, t) for `x` (b, h, t, d)."""
    x, positions = _numbers("x", x), _numbers("positions", positions)
    theta = np.atleast_2d(_theta((0, *x.shape)[-1], base, layout, rotary_dim, theta, attention_factor))  # (g, r/2)
    g, r, (h, t) = len(theta), 2 * theta.shape[-1], (1, 1, *x.shape)[-3:-1]
    _require(x.ndim > 1 and h % g == 0, "x", "(..., h, t, d), h a multiple of the rows of theta", x)
    _require(positions.shape in ((t,), (len(x) if x.ndim == 4 else -1, t)), "positions", "(t,) or (b, t)", positions)
    angle = positions[..., None, :, None] * theta[:, None]  # (..., g, t, r/2)
    table = attention_factor * np.repeat([np.cos(angle), np.sin(angle)], h // g, axis=-3)  # (2, ..., h, t, r/2)
    (cosine, sine), (split, axis) = table, LAYOUTS[layout]
    first, second = np.moveaxis(x[..., :r].reshape(*x.shape[:-1], *split), axis, 0)  # (..., t, r/2)
    turned = np.stack([first * cosine - second * sine, second * cosine + first * sine], axis).reshape(*x.shape[:-1], r)
    return np.concatenate([turned, x[..., r:]], axis=-1)  # (..., t, d)


class RoPE(nn.Module):
    """Turn queries and keys to their positions, or any one tensor there and back, in float32 or finer, rounded once.

    Args:
        dim: Width d of a head.
        base: Sets the slowest wavelength, 2 pi base^(1 - 2/r) positions; a sequence gives each key head its own.
        layout: "half" pairs the channels (i, i + r/2), "interleaved" (2i, 2i + 1).
        rotary_dim: How many channels r turn, the first ones; all by default.
        theta: Frequencies (r/2,) in place of those of `base`, or (g, r/2), a row for each key head and its queries.
        attention_factor: Multiplies cosine and sine, as YaRN does.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Example:
        >>> import torch
        >>> q, k = RoPE(2)(torch.ones(1, 1, 4, 2), torch.ones(1, 1, 4, 2))
        >>> [round(angle) for angle in (q @ k.mT / 2).acos()[0, 0, 3].tolist()]  # from the last query to each key
        [3, 2, 1, 0]
    """

    def __init__(self, dim, base=10_000.0, layout="half", rotary_dim=None, theta=None, attention_factor=1.0) -> None:
        super().__init__()
        rows = _theta(dim, base, layout, rotary_dim, theta, attention_factor)
        self.dim, self.layout, self.attention_factor = int(dim), layout, float(attention_factor)
        self.rotary_dim, self.rows, (self.split, self.axis) = 2 * rows.shape[-1], rows.shape[:-1], LAYOUTS[layout]
        self.theta = tuple(tuple(row) if self.rows else row for row in rows.tolist())

    def forward(self, q, k, positions=None, key_positions=None, table=None, out=None) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned.

        Keys stand at 0 .. s-1 and queries at the last t of these, unless positions (t,) or (b, t) say otherwise, or
        `table(key_positions)`, whose last t rows serve the queries, or a pair of tables. `out` is a pair to write to.
        """
        of_q, of_k = table if isinstance(table, tuple) and len(table) == 2 else (table, table)
        self._check("k", k, "key_positions", key_positions, table is None, of_k)
        self._check("q", q, "positions", positions, table is None, of_q, k.shape[2] if of_q is of_k else 0)
        fits = isinstance(out, tuple) and [getattr(part, "dtype", 0) for part in out] == [q.dtype, k.dtype]
        fits = fits and [part.shape for part in out or ()] == [q.shape, k.shape]
        fits = fits and not (torch.is_grad_enabled() and any(part.requires_grad for part in (q, k, *(out or ()))))
        _require(out is None or fits, "out", "two tensors like q and k, where no gradient is needed", out)
        if table is None:
            work = torch.float64 if torch.float64 in (q.dtype, k.dtype) else torch.float32
            every = torch.arange(min(k.shape[2] - q.shape[2], 0), k.shape[2], device=k.device)
            of_k = self.table(every if key_positions is None else key_positions, work)
            of_q = every[every.shape[0] - q.shape[2] :] if positions is None else positions
            of_q = of_k if positions is key_positions else self.table(of_q, work)
        by, (to_q, to_k) = self._factors(of_q), out or (None, None)
        return self._turned(q, by, to_q), self._turned(k, by if of_k is of_q else self._factors(of_k), to_k)

    def turn(self, x, positions=None, table=None, inverse=False) -> Tensor:
        """Return `x` (b, h, t, d) turned to `positions` (t,) or (b, t), 0 .. t-1 by default; or back, if `inverse`."""
        self._check("x", x, "positions", positions, table is None, table)
        places = torch.arange(x.shape[2], device=x.device) if positions is None else positions
        by = self._factors(self.table(places, torch.promote_types(x.dtype, torch.float32)) if table is None else table)
        return self._turned(x, [part / self.attention_factor**2 for part in _back(*by)] if inverse else by)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return (cos, sin) of `positions` (..., t) in the channels of each pair: (..., t, r), or (..., g, t, r)."""
        fits = isinstance(positions, Tensor) and positions.ndim and positions.dtype not in NO_NUMBERS
        _require(fits, "positions", "a tensor of numbers, (..., t)", positions)
        _require(dtype in (torch.float32, torch.float64), "dtype", "torch.float32 or torch.float64", dtype)
        where = positions.device if positions.device.type != "mps" else "cpu"  # mps has no float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where).unsqueeze(-2)  # (..., 1, r/2)
        angle = positions.to(where, torch.float64).unflatten(-1, (*(1 for _ in self.rows), -1, 1)) * theta
        turn = torch.stack((angle.cos(), angle.sin()), self.axis).flatten(-2)  # (..., t, r)
        return (self.attention_factor * turn).to(positions.device, dtype)  # (..., t, r)

    def _factors(self, table) -> list[Tensor]:
        pairs = (table[:, None] if table.ndim == 3 and not self.rows else table).unflatten(-1, self.split)
        if self.axis == -1 and self.rotary_dim % 32 == 0 and not torch.compiler.is_compiling():
            return [torch.view_as_complex(pairs.contiguous())]  # the fastest; in whole vectors it rounds as reals do
        cosine, sine = pairs.unbind(self.axis)
        return [torch.stack(two, self.axis).flatten(-2) for two in ((cosine, cosine), (-sine, sine))]

    def _turned(self, x: Tensor, by: list[Tensor], out: Tensor | None = None) -> Tensor:
        r, t, eager = self.rotary_dim, x.shape[2], not torch.compiler.is_compiling()
        by = [part if part.shape[-2] == t else part[..., part.shape[-2] - t :, :] for part in by]
        by = [part.repeat_interleave(x.shape[1] // self.rows[0], dim=-3) for part in by] if self.rows else by
        if out is not None and eager:
            _Blocks.apply(out[..., :r], self.layout, x[..., :r], *by)
            out[..., r:] = x[..., r:]
            return out
        large = eager and x.device.type == "cpu" and x.numel() > BLOCK // 8 and (len(by) == 2 or x.element_size() == 2)
        large = large and not (any(part.requires_grad for part in by) or torch._C._are_functorch_transforms_active())
        turned = (_Blocks.apply if large else _product)(None, self.layout, x if r == self.dim else x[..., :r], *by)
        turned = turned if r == self.dim else torch.cat((turned, x[..., r:]), dim=-1)
        return turned if out is None else out.copy_(turned)

    def _check(self, name: str, x, of: str, positions, free: bool, table, s: int = 0) -> None:
        fits = isinstance(x, Tensor) and x.is_floating_point() and x.ndim == 4 and x.shape[3] == self.dim
        fits = fits and x.shape[1] % (self.rows or (1,))[0] == 0
        _require(fits, name, "floating point (b, h, t, d) with d = dim and h a multiple of the rows of theta", x)
        b, _, t, _ = x.shape
        fits = isinstance(positions, Tensor) and positions.shape in ((t,), (b, t)) and positions.dtype not in NO_NUMBERS
        _require(positions is None or fits, of, "a tensor of numbers, (t,) or (b, t)", positions)
        form, fine = (*self.rows, max(s, t), self.rotary_dim), torch.promote_types(x.dtype, torch.float32)
        fits = isinstance(table, Tensor) and table.shape in (form, (b, *form)) and table.dtype in (fine, torch.float64)
        _require(free or fits, "table", "table(positions) of the length and precision of the content, or two", table)


def _theta(dim, base, layout, rotary_dim, theta, attention_factor) -> np.ndarray:
    _require(isinstance(dim, int | np.integer) and dim > 1 and dim % 2 == 0, "dim", "even and at least 2", dim)
    r = dim if rotary_dim is None else rotary_dim
    _require(isinstance(r, int | np.integer) and r in range(2, dim + 1, 2), "rotary_dim", "even, from 2 to dim", r)
    _require(layout in tuple(LAYOUTS), "layout", f"one of {', '.join(LAYOUTS)}", layout)
    factor, bases = _numbers("attention_factor", attention_factor), _numbers("base", base)
    _require(factor.ndim == 0 and 0 < factor < np.inf, "attention_factor", "positive and finite", attention_factor)
    _require(bases.ndim < 2 and bases.size and 0 < bases.min() <= bases.max() < np.inf, "base", "positive (finite)", base)
    theta = bases[..., None] ** (-2 * np.arange(r // 2) / r) if theta is None else _numbers("theta", theta)
    fits = theta.ndim in (1, 2) and theta.size and theta.shape[-1] == r // 2 and np.isfinite(theta).all()
    _require(fits, "theta", "rotary_dim / 2 finite frequencies, or so many for each key head", theta)
    return theta


def _numbers(name: str, value) -> np.ndarray:
    try:
        array = np.asarray(value.tolist() if isinstance(value, Tensor) else value)
    except (TypeError, ValueError):  # a ragged list
        array = np.asarray(None)
    _require(array.dtype.kind in "iuf", name, "numbers", value)
    return array.astype(np.float64)


def _require(fits, name: str, condition: str, got) -> None:
    if not fits:
        got = f"{got.dtype} {tuple(got.shape)}" if isinstance(got, Tensor | np.ndarray) else repr(got)
        raise ValueError(f"rope: {name} must be {condition}, got {got}")


def _back(cosine: Tensor, *sine: Tensor) -> list[Tensor]:
    return [cosine.conj_physical(), *(-part for part in sine)]


def _product(out: Tensor | None, layout: str, x: Tensor, cosine: Tensor, *sine: Tensor) -> Tensor:
    split, axis = LAYOUTS[layout]
    y = x.float() if x.element_size() == 2 else x
    if sine:
        roll = axis == -2 and not torch.compiler.is_compiling()  # slow when compiled, as flip is when not
        swapped = y.roll(y.shape[-1] // 2, -1) if roll else y.unflatten(-1, split).flip(axis).flatten(-2)
        return torch.addcmul(torch.mul(y, cosine, out=out), swapped, *sine, out=out).to(x.dtype)
    odd = y.stride(-1) != 1 or any(step % 2 for step in (y.storage_offset(), *y.stride()[:-1]))
    pairs = (y.clone(memory_format=torch.contiguous_format) if odd else y).unflatten(-1, split)
    return torch.view_as_real(torch.view_as_complex(pairs) * cosine).flatten(-2).to(x.dtype)


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, out, layout, x, *by):
        ctx.layout = layout
        ctx.save_for_backward(*by)
        out = torch.empty_like(x) if out is None else out
        rows = max(1, BLOCK * x.shape[-2] // max(1, x.numel()))
        for y, part, *turn in zip(*(whole.split(rows, -2) for whole in (out, x, *by)), strict=True):
            y.copy_(_product(y if x.dtype == by[0].dtype else None, layout, part, *turn))
        return out

    @staticmethod
    def backward(ctx, *grad_outputs):
        return None, None, _Blocks.apply(None, ctx.layout, *grad_outputs, *_back(*ctx.saved_tensors)), None, None
