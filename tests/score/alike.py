"""What the tests of several score encodings assert alike: which positions they take, and refuse."""

import re

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves


def assert_one_row_serves_a_batch(module, q, k, logits):
    """A row (1, 6) of positions is that of both sequences, in the call and in what `score_mod` makes of `logits`."""
    one, rows = torch.tensor([[3, 0, 9, 7, 7, 1]]), torch.tensor([[5, 0, 1, 2, 9, 3], [4, 4, 0, 8, 1, 2]])
    for m, n in ((one, one), (one, rows), (rows, one), (one, one[0]), (one[0], one)):
        expected = module(q, k, m.expand(2, 6), n.expand(2, 6))
        assert torch.equal(module(q, k, m, n), expected)
        pairs = torch.meshgrid([torch.arange(size) for size in expected.shape], indexing="ij")
        modify = module.score_mod(q, k, m, n)
        torch.testing.assert_close(modify(logits, *pairs), (logits + expected).to(logits.dtype))
    assert torch.equal(module(q, k, one), module(q, k, one[0]))
    assert torch.equal(module(q, k, one[0], one), module(q, k, one[0], one[0]))
    for wrong in (one[:, 1:], one.mT, one[None], torch.cat([one] * 3)):
        with pytest.raises((ValueError, RuntimeError)):
            module(q, k, wrong)


def assert_the_score_mod_keeps_no_strided_positions(module, q, k):
    """Positions that are strided, which kernels of a CPU cannot read, are not among what it captures."""
    rows = torch.arange(24).view(2, 12)[:, ::2]
    for places in (rows, rows[0], rows[:1], rows[:1].expand(2, 6)):
        for modify in (module.score_mod(q, k, places), module.score_mod(q, k, torch.arange(6), places)):
            kept = tree_leaves([cell.cell_contents for cell in modify.__closure__])
            positions = [value for value in kept if isinstance(value, torch.Tensor) and not value.is_floating_point()]
            assert len(positions) > 1
            assert all(value.is_contiguous() for value in positions)


def assert_refused_with_numbers(module, q, k, wanted, others):
    """`q` and `k` are of 6 tokens; `wanted` is what the message wants of positions, `others` what they must not be."""
    name, right = type(module).__module__.rpartition(".")[2], torch.arange(6)
    calls = [module, *([module.score_mod] if hasattr(module, "score_mod") else [])]
    for call in calls:
        for t, s in ((6, 3), (1, 1)):
            with pytest.raises(ValueError, match=f"{name}: positions must be given for {t} queries and {s} keys, got"):
                call(q[:, :, :t], k[:, :, :s])
        with pytest.raises(ValueError, match=f"{name}: key_positions must be "):
            call(q[:, :, :1], k, torch.tensor([5]))
        for other, got in others:
            with pytest.raises(ValueError, match=re.escape(f"{name}: key_positions must be {wanted}, got {got}")):
                call(q, k, right, other)
            for key_positions in (None, right, other):
                with pytest.raises(ValueError, match=re.escape(f"{name}: positions must be {wanted}, got {got}")):
                    call(q, k, other, key_positions)


def assert_numpy_wants_one_position_a_token(twin, *learned, **named):
    """The function takes (3,), not one for all, nor a row too long."""
    x = np.ones((2, 3, 4))
    for wrong in ([0], [0, 1], range(4), [[0, 1, 2]] * 2, 0):
        for m, n in ((wrong, range(3)), (range(3), wrong)):
            with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
                twin(x, x, m, n, *learned, **named)
