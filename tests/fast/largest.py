"""The largest tensor that a call makes, its gradients included."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    """Note the size of the largest tensor that any operation makes."""

    def __init__(self):
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = result if isinstance(result, tuple | list) else [result]
        self.size = max([self.size, *(x.numel() for x in tensors if isinstance(x, torch.Tensor))])
        return result


def largest(attend, encoding, length, trains=True, **arguments):
    """Return how many numbers it has for 16 heads of width 8 that attend to the past."""
    torch.manual_seed(0)
    q, k, v = (x.requires_grad_(trains) for x in torch.randn(3, 1, 16, length, 8).unbind())
    with Largest() as largest:
        out = attend(q, k, v, encoding, causal=True, **arguments)
        if trains:
            out.sum().backward()
    return largest.size
