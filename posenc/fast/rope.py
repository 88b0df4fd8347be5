"""RoPE on a CPU, faster: eager, a block of tokens at a time; compiled, a form that vectorizes.

Paper: Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       https://arxiv.org/abs/2104.09864, eq. 15.

Key:   b batch, h heads, t tokens, d head dim, r rotary dim

Intermediate results of a block stay in the cache of a core, and none is kept for gradients: the
gradient of a rotation is the opposite rotation, -sin for sin. Compiled, all is one pass anyway;
there a roll of halves is a loop over numbers, and a flip of the two one over vectors.
"""

from typing import Any

import torch
from torch import Tensor

from posenc.rotate import rope

BLOCK = 2**17  # elements rotated at a time


class RoPE(rope.RoPE):
    """Rotate as `posenc.rotate.rope.RoPE` does, to the last bit.

    Examples:
        >>> q, k = torch.randn(1, 8, 100, 64), torch.randn(1, 2, 100, 64)
        >>> all(map(torch.equal, RoPE(64)(q, k), rope.RoPE(64)(q, k)))
        True
    """

    def turn(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Return `x` (b, h, t, d), each token rotated by its position in a `table`."""
        cos, sin = table
        if torch.compiler.is_compiling():
            whole = cos.shape[-1] == x.shape[-1] and x.is_floating_point()
            if self.layout == "half" and whole:
                self._check(x, cos)
                return _flipped(x, cos, sin)
            return super().turn(x, table)
        small = x.numel() <= BLOCK or x.device.type != "cpu"
        # complex numbers are one pass already
        one_pass = self.layout == "interleaved" and x.dtype == torch.float32
        # blocks give a table no gradient
        if small or one_pass or cos.requires_grad:
            return super().turn(x, table)
        return _Rotated.apply(x, self, cos, sin)


class _Rotated(torch.autograd.Function):
    """A rotation by blocks, whose gradient is one too."""

    @staticmethod
    def forward(x: Tensor, module: RoPE, cos: Tensor, sin: Tensor) -> Tensor:
        size = max(1, BLOCK * x.shape[-2] // x.numel())
        result = torch.empty_like(x)  # (b, h, t, d)
        blocks = [whole.split(size, dim=-2) for whole in (result, x, cos, sin)]
        for of_result, of_x, of_cos, of_sin in zip(*blocks, strict=True):
            of_result.copy_(rope.RoPE.turn(module, of_x, (of_cos, of_sin)))
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.module, ctx.cos, ctx.sin = inputs

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        # the way back
        gradient = _Rotated.apply(grad_outputs[0], ctx.module, ctx.cos, -ctx.sin)
        return gradient, None, None, None


def _flipped(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, cos.dtype))
    other = wide.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
    return torch.addcmul(wide * cos, other, sin).to(x.dtype)
