"""Rows that are packed or padded, against the package's positions and attention, and each text read alone."""

import numpy as np
import pytest
import torch

from posenc.add.sinusoidal import sinusoidal
from posenc.attention import attention_weights
from posenc.positions import document_mask, packed_documents, packed_positions, padded_positions
from posenc.rotate.rope import RoPE
from tests.scripts.javascript import Script

ROWS = Script("math/rows.js")


@pytest.mark.parametrize("encoding", ["rope", "sinusoid"])
@pytest.mark.parametrize("kind", ["packed", "before", "inside"])
@pytest.mark.parametrize("seed", range(3))
def test_rows(seed, kind, encoding):
    draw = np.random.default_rng(seed)
    length = int(draw.integers(5, 11))
    cuts = sorted(draw.choice(np.arange(1, length), 2, replace=False).tolist())
    q, k = torch.tensor(draw.normal(size=(2, length, 8)))
    whose = packed_documents(torch.tensor([0, *cuts, length]))
    real = torch.ones(length, dtype=torch.bool) if kind == "packed" else whose != int(kind == "inside")
    owner = whose if kind == "packed" else torch.where(real, 0, ROWS("PAD"))
    restart = packed_positions(torch.tensor([0, *cuts, length])) if kind == "packed" else padded_positions(real)
    given = {"length": length, "cuts": cuts, "kind": kind}
    assert ROWS("owners(length, cuts, kind)", **given) == owner.tolist()
    assert ROWS("counted(owners(length, cuts, kind))", **given) == restart.tolist()
    for places in (restart, torch.arange(length)):
        for masked in (False, True):
            options = {"mask": document_mask(whose) if kind == "packed" else real}
            expected = weights(q, k, places, encoding, **options if masked else {})
            given = {"q": q.tolist(), "k": k.tolist(), "places": places.tolist(), "owner": owner.tolist()}
            given |= {"masked": masked, "encoding": encoding}
            ours = np.array(ROWS("weights(q, k, places, owner, masked, encoding)", **given))
            assert ours == pytest.approx(expected, abs=1e-9)
            moved = ROWS("changes(q, k, places, owner, masked, encoding)", **given)
            for own in set(owner[real].tolist()):
                mine = (owner == own).numpy()
                alone = weights(q[mine], k[mine], torch.arange(int(mine.sum())), encoding)
                rows = expected[mine]
                leak = rows[:, ~mine].sum(axis=1)
                far = (abs(rows[:, mine] - alone).sum(axis=1) + leak) / 2
                found = [change for change, of in zip(moved, mine, strict=True) if of]
                assert [change["leak"] for change in found] == pytest.approx(leak, abs=1e-9)
                assert [change["moved"] for change in found] == pytest.approx(far, abs=1e-9)


def weights(q, k, places, encoding, **sees):
    """Return causal weights (t, s) of the package, with RoPE or with sinusoids added."""
    told = {"positions": places, "key_positions": places, "causal": True, **sees}
    if encoding == "rope":
        return attention_weights(q[None, None], k[None, None], RoPE(8), **told)[0, 0].numpy()
    table = torch.tensor(sinusoidal(places.numpy(), 8))
    q, k = ((x + table)[None, None] for x in (q, k))
    return attention_weights(q, k, RoPE(8, theta=np.zeros(4)), **told)[0, 0].numpy()
