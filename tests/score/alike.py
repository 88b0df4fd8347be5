"""What the tests of several score encodings have in common: random content, and what they assert alike."""

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves

WRONG_CONTENT = [  # what is changed of a call, and what the error says
    ({"k": torch.ones(2, 2, 6, 2)}, r"q and k must be floats of one width, got torch\.float64 of width 3 and 2"),
    ({"q": torch.ones(2, 4, 6, 3).long()}, r"q and k must be floats of one width, got torch\.int64 of width 3 and 3"),
]
FLOAT_POSITIONS = (
    {"positions": torch.arange(6.0)},
    r"positions must have shape \(6,\) or \(b, 6\) and an integer dtype, got torch\.float32 \(6,\)",
)


def content(b=2, h=4, g=2, t=6, s=6, d=3, seed=0):
    """Return random queries (b, h, t, d) and keys (b, g, s, d) in float64."""
    rng = np.random.default_rng(seed)
    q = torch.tensor(rng.normal(size=(b, h, t, d)))
    k = torch.tensor(rng.normal(size=(b, g, s, d)))
    return q, k


def randomized(module, std=1.0):
    """Return the module in float64, its parameters random."""
    torch.manual_seed(0)
    for parameter in module.double().parameters():
        torch.nn.init.normal_(parameter, std=std)
    return module


def causal(scores):
    """Return the scores of the pairs that causal attention keeps, the queries being the last of the keys."""
    t, s = scores.shape[-2:]
    return scores[..., torch.ones(t, s).tril(s - t).bool()]


def assert_the_score_mod_takes_rows_as_they_lie(module, q, k):
    """A row (1, 6) of positions serves a batch; strided rows are copied, since the kernels of a CPU read no strides."""
    shared = torch.tensor([[3, 0, 9, 7, 7, 1]])
    strided = torch.arange(24).view(2, 12)[:, ::2]
    logits = q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT / q.shape[-1] ** 0.5
    pairs = torch.meshgrid([torch.arange(size) for size in logits.shape], indexing="ij")
    for m, n in ((shared, strided), (strided, shared), (strided[0], strided[0])):
        modify = module.score_mod(q, k, m, n)
        torch.testing.assert_close(modify(logits, *pairs), logits + module(q, k, m, n))
        captured = tree_leaves([cell.cell_contents for cell in modify.__closure__])
        assert all(value.is_contiguous() for value in captured if isinstance(value, torch.Tensor))


def assert_numpy_wants_one_position_a_token(twin, *learned, **kwargs):
    """One position for all three tokens would broadcast, and so would a batch of rows."""
    x = np.ones((2, 3, 4))
    for wrong in ([0], range(4), [[0, 1, 2]] * 2):
        for m, n in ((wrong, range(3)), (range(3), wrong)):
            with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
                twin(x, x, m, n, *learned, **kwargs)


def assert_half_precision_is_rounded_once(module, d=3):
    """Scores of float16 are those of the same content in float32, rounded at the end."""
    module = module.float()
    q, k = (x.half() for x in content(d=d))
    assert torch.equal(module(q, k), module(q.float(), k.float()).half())


def assert_positions_are_subtracted_in_64_bits(module, d=3):
    q, k = content(d=d)
    torch.testing.assert_close(module(q, k, 2**40 + torch.arange(6)), module(q, k))


def assert_hidden_tokens_count_for_nothing(module):
    """What `mask` hides acts between other tokens as if it were not there."""
    q, k = content()
    mask = torch.tensor([True, False, True, True, False, True])
    without = module(q[:, :, mask], k[:, :, mask])
    torch.testing.assert_close(module(q, k, mask=mask)[:, :, mask][..., mask], without)
