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
    for name in ("positions", "key_positions"):
        assert torch.equal(module(q, k, **{name: one}), module(q, k, **{name: one[0]}))
    for wrong in (one[:, 1:], one.mT, one[None], torch.cat([one] * 3)):
        with pytest.raises((ValueError, RuntimeError)):
            module(q, k, wrong)


def assert_the_score_mod_keeps_no_strided_positions(module, q, k):
    """Positions that are strided, which kernels of a CPU cannot read, are not among what it captures."""
    rows = torch.arange(24).view(2, 12)[:, ::2]
    for places in (rows, rows[0], rows[:1], rows[:1].expand(2, 6)):
        for modify in (module.score_mod(q, k, places), module.score_mod(q, k, None, places)):
            kept = tree_leaves([cell.cell_contents for cell in modify.__closure__])
            positions = [value for value in kept if isinstance(value, torch.Tensor) and not value.is_floating_point()]
            assert len(positions) > 1
            assert all(value.is_contiguous() for value in positions)


def assert_refused_with_numbers(module, q, k, wanted, others):
    """`q` and `k` are of 6 tokens; `wanted` is what the message wants of positions, `others` what they must not be."""
    name = type(module).__module__.rpartition(".")[2]
    calls = [module, *([module.score_mod] if hasattr(module, "score_mod") else [])]
    for call in calls:
        with pytest.raises(ValueError, match=rf"{name}: positions must be given .*6 .*3 keys, got None"):
            call(q, k[:, :, :3])
        for other, got in others:
            for where in ({"positions": other}, {"key_positions": other}, {"positions": other, "key_positions": other}):
                with pytest.raises(ValueError, match=re.escape(f"{name}: positions must be {wanted}, got {got}")):
                    call(q, k, **where)


def assert_numpy_wants_one_position_a_token(twin, *learned, **named):
    """The function takes (3,), not one for all, nor a row too long."""
    x = np.ones((2, 3, 4))
    for wrong in ([0], [0, 1], range(4), [[0, 1, 2]] * 2, 0):
        for m, n in ((wrong, range(3)), (range(3), wrong)):
            with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
                twin(x, x, m, n, *learned, **named)


# OLD


def assert_one_row_is_a_row_in_numpy(twin, *learned, **named):
    """The NumPy function takes a row (1, 3) as (3,), and no two rows."""
    x, one = np.ones((2, 3, 4)), [[4, 0, 2]]
    expected = twin(x, x, one[0], one[0], *learned, **named)
    for m, n in ((one, one), (one, one[0]), (one[0], one)):
        np.testing.assert_array_equal(twin(x, x, m, n, *learned, **named), expected)
    with pytest.raises(ValueError, match=f"{twin.__name__}: positions must be "):
        twin(x, x, one * 2, one, *learned, **named)


def assert_arrays_are_refused_where_tensors_are_meant(encoding, heads):
    """`heads` is what the message calls the heads of queries of width 8."""
    name, x = file_of(encoding), torch.zeros(1, 4, 3, 8)
    with pytest.raises(
        ValueError, match=rf"{name}: q must be a floating point tensor \(b, {heads}, t, 8\), got numpy array float64"
    ):
        encoding(x.double().numpy(), x.numpy())
    with pytest.raises(
        ValueError, match=rf"{name}: k must be a floating point tensor \(b, g, s, 8\), got numpy array float32"
    ):
        encoding(x, x.numpy())
    with pytest.raises(
        ValueError, match=rf"{name}: positions must be an integer tensor \(3,\) or \(1, 3\), got numpy array"
    ):
        encoding(x, x, np.arange(3))
    said = r"key_positions must be .*, got numpy array int64 \(3,\); take torch.as_tensor of it"
    with pytest.raises(ValueError, match=said):
        encoding(x, x, None, np.arange(3))
    with pytest.raises(ValueError, match=r"positions must be .*, got list of length 3; take torch.as_tensor of it"):
        encoding(x, x, [0, 1, 2])
    with pytest.raises(ValueError, match=r"positions must be .*, got torch.float32 \(3,\)$"):
        encoding(x, x, torch.zeros(3))


def file_of(module):
    """Return the name of the encoding's file, with which its messages begin."""
    return type(module).__module__.rpartition(".")[2]
