"""RoPE on a CPU: in eager mode a block of tokens at a time, compiled by a swap that vectorizes.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, eq. 15.

Key:   b batch, h heads, t tokens, d head dim, r rotary dim

What a block makes on its way stays in the cache of a core, and nothing of it is kept for gradients:
that of a rotation is the rotation back, by -sin for sin. Compiled, all is one pass anyway; there a
roll of halves is a loop over numbers, and a flip of the two one over vectors.
"""

import torch
from torch import Tensor

from posenc.rotate import rope

BLOCK = 2**17  # elements that turn at a time


class RoPE(rope.RoPE):
    """Turn as `posenc.rotate.rope.RoPE` does, to the last bit.

    Examples:
        >>> q, k = torch.randn(1, 8, 100, 64), torch.randn(1, 2, 100, 64)
        >>> all(map(torch.equal, RoPE(64)(q, k), rope.RoPE(64)(q, k)))
        True
    """

    def _turned(self, x, turns):
        if torch.compiler.is_compiling():
            whole = self.layout == "half" and 2 * len(self.theta) == self.dim
            fits = x.is_floating_point() and tuple(x.shape[3:]) == (self.dim,)
            return _flipped(x, *turns) if whole and fits else super()._turned(x, turns)
        small = x.numel() <= BLOCK or x.device.type != "cpu"
        one_pass = self.layout == "interleaved" and x.dtype == torch.float32  # by complex numbers
        if small or one_pass or _of(turns)[0].requires_grad:  # blocks give a table no gradient
            return super()._turned(x, turns)
        return _Turned.apply(x, self, *_of(turns))


class _Turned(torch.autograd.Function):
    """A rotation by blocks, whose gradient is one too."""

    @staticmethod
    def forward(x: Tensor, module: RoPE, *turns: Tensor) -> Tensor:
        size = max(1, BLOCK * x.shape[module.tokens] // x.numel())
        out = torch.empty_like(x)  # (b, h, t, d)
        parts = [each.split(size, module.tokens) for each in (out, x, *turns)]
        for part, of_x, *by in zip(*parts, strict=True):
            part.copy_(rope.RoPE._turned(module, of_x, by if len(by) == 2 else by[0]))
        return out

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: Tensor) -> None:
        _, ctx.module, *ctx.turns = inputs

    @staticmethod
    def backward(ctx, *grad_outputs: Tensor):
        back = [ctx.turns[0], -ctx.turns[1]] if len(ctx.turns) == 2 else [ctx.turns[0].conj()]
        return _Turned.apply(grad_outputs[0], ctx.module, *back), None, *[None for _ in back]


def _flipped(x, cos, sin):
    y = x.to(torch.promote_types(x.dtype, torch.float32))
    swapped = y.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
    return torch.addcmul(y * cos, swapped, sin).to(x.dtype)


def _of(turns):
    return turns if isinstance(turns, tuple) else (turns,)
