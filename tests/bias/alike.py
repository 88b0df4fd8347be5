"""What the tests of several biases assert alike: which positions they take, and what a kernel asks of a score_mod."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ONE_ROW = torch.tensor([[3, 1, 4, 1]])
TWO_ROWS = torch.tensor([[0, 1, 2], [50, 90, 7]])
SUMS = {"sum", "mean", "dot", "mv", "mm", "bmm", "addmm"}


def assert_one_row_serves_a_batch(module, one=ONE_ROW, two=TWO_ROWS):
    """In `score_mod`, too, a row of positions is that of both sequences; and no queries have no bias."""
    for m, n in ((one, two), (two, one), (one[0], two)):
        bias = module(m, n)
        pairs = torch.meshgrid([torch.arange(size) for size in bias.shape], indexing="ij")
        torch.testing.assert_close(module.score_mod(m, n)(torch.zeros(()), *pairs), bias)
    heads, keys = bias.shape[1], two.shape[1]
    assert module(one[0, :0], two[0]).shape == (heads, 0, keys)


def assert_a_lone_query_needs_keys(*calls):
    """A query alone, of one sequence or of a batch, does not stand for its keys: they are a cache, and are given."""
    for lone in (torch.tensor([5]), torch.tensor([[5], [7]])):
        for call in calls:
            with pytest.raises(ValueError, match=r"\w+: key_positions must be given for a lone query, got None"):
                call(lone)
            call(lone, lone)


def assert_numpy_takes_one_row(twin, **settings):
    """The NumPy function takes rows (t,) and (s,): of a batch NumPy itself says that it has another shape."""
    batch = [[3.0, 1.0, 4.0], [1.0, 5.0, 9.0]]
    for m, n in ((batch, [1, 2]), ([1, 2], batch)):
        with pytest.raises(ValueError, match="cannot reshape"):
            twin(m, n, **settings)


def assert_a_kernel_can_compute(score_mod):
    """The kernels of FlexAttention sum over no axis, and read no tensor that does not lie in order."""

    operations = set()

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            operations.add(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    modify = score_mod(torch.arange(12)[::2])
    zero = torch.zeros((), dtype=torch.long)
    with Record():
        modify(torch.zeros(()), zero, zero, zero, zero)
    assert not SUMS & operations
    closed_over = tree_leaves([cell.cell_contents for cell in modify.__closure__])
    assert all(value.is_contiguous() for value in closed_over if isinstance(value, torch.Tensor))
