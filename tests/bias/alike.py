"""What the tests of several biases assert alike: which positions they take, and refuse."""

import numpy as np
import pytest
import torch

ROWS = torch.tensor([[0, 1, 2], [50, 90, 7]])


def assert_one_row_serves_a_batch(module):
    """A row (4,) or (1, 4) of positions is that of both sequences, in the call and in its `score_mod`."""
    row, one = torch.tensor([3, 1, 4, 1]), torch.tensor([[3, 1, 4, 1]])
    torch.testing.assert_close(module(row, ROWS), torch.stack([module(row, other) for other in ROWS]))
    torch.testing.assert_close(module(ROWS, row), torch.stack([module(other, row) for other in ROWS]))
    assert torch.equal(module(one), module(row)[None])
    for m, n in ((one, ROWS), (ROWS, one), (one, one), (one, row)):
        bias = module(m, n)
        assert torch.equal(bias, module(*(p.expand(len(bias), -1) for p in (m, n))))
        pairs = torch.meshgrid([torch.arange(size) for size in (2, *bias.shape[1:])], indexing="ij")
        torch.testing.assert_close(module.score_mod(m, n)(torch.zeros(()), *pairs), bias.expand(2, -1, -1, -1))


def assert_a_lone_query_needs_keys(*calls):
    """A query alone, of one sequence or of a batch, does not stand for its keys: they are a cache, and are given."""
    for lone in (torch.tensor([5]), torch.tensor([[5], [7]])):
        for call in calls:
            with pytest.raises(ValueError, match=r"\w+: key_positions must be given for a lone query, got None"):
                call(lone)
            call(lone, lone)


def assert_numpy_takes_one_row(twin, **named):
    """The NumPy function takes rows (t,) and (s,): of a batch NumPy itself says that it has another shape."""
    for wrong in ([[3.0, 1.0, 4.0]], np.zeros((2, 3))):
        for m, n in ((wrong, [1, 2]), ([1, 2], wrong)):
            with pytest.raises(ValueError, match="cannot reshape"):
                twin(m, n, **named)


def assert_unsigned_positions_do_not_wrap_around(module):
    """Bytes, whose difference cannot be negative, are subtracted as the numbers that they are."""
    small, zero = torch.arange(5, dtype=torch.uint8), torch.zeros((), dtype=torch.long)
    expected = module(torch.arange(5))
    torch.testing.assert_close(module(small), expected)
    modify = module.score_mod(small)
    torch.testing.assert_close(modify(torch.zeros(()), zero, zero, zero, zero + 4), expected[0, 0, 4])
    torch.testing.assert_close(modify(torch.zeros(()), zero, zero, zero + 4, zero), expected[0, 4, 0])
