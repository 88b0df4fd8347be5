"""Each mistake is what its name says, whatever layout the right rotation has."""

import numpy as np
import pytest
import torch

import posenc
from posenc.rotate.rope import RoPE
from posenc_book.real.mistakes import SEAM, base_of, mistakes

BASE = 100_000.0
MISTAKES = mistakes(BASE, 8192)
ROPES = {layout: RoPE(64, base=BASE, layout=layout) for layout in ("half", "interleaved")}


def content(t=8):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, heads, t, 64, generator=generator) for heads in (2, 1, 1)]


def logits(mistake, rope, t=8):
    q, k, v = content(t)
    turned_q, turned_k, _ = mistake(rope, q, k, v)
    return turned_q @ turned_k.mT


def test_there_are_more_than_thirty_and_their_names_differ():
    assert len(MISTAKES) > 40
    assert "base 100,000" not in mistakes(100_000.0, 8192)
    assert "base 10,000" not in mistakes(10_000.0, 8192)


@pytest.mark.parametrize("rope", ROPES.values(), ids=ROPES)
def test_what_is_right_changes_no_logit_and_what_is_wrong_changes_many(rope):
    right = logits(MISTAKES["as it was trained"], rope, 300)
    harmless = {"frequencies cast to bfloat16", "angles in float32, from 1,000,000", "values turned too"}
    for name, mistake in MISTAKES.items():
        change = (logits(mistake, rope, 300) - right).tril().abs().max()
        if mistake.kind == "right":
            assert change < 1e-3, name
        elif name not in harmless:
            assert change > 0.01, name


def test_the_base_of_a_rotation_is_read_from_its_frequencies():
    assert base_of(ROPES["half"]) == pytest.approx(BASE)


@pytest.mark.parametrize("rope", ROPES.values(), ids=ROPES)
def test_pairs_are_those_of_the_name(rope):
    q, k, _ = content()
    as_halves = MISTAKES["interleaved rows turned as halves"]
    as_interleaved = MISTAKES["rows in halves turned as interleaved"]
    # weights that stand in one layout meet code for the other: of the two mistakes one reorders nothing
    other = ROPES["interleaved" if rope.layout == "half" else "half"]
    unordered = as_halves if rope.layout == "interleaved" else as_interleaved
    torch.testing.assert_close(unordered.rotate(rope, q, k, torch.arange(8)), other(q, k))


def test_positions_are_those_of_the_name():
    rope, (q, k, v) = ROPES["half"], content(300)
    at = torch.arange(300)
    late, early = MISTAKES["writing starts one late"], MISTAKES["writing starts one early"]
    torch.testing.assert_close(late(rope, q, k, v)[:2], rope(q, k, at + (at >= SEAM)))
    torch.testing.assert_close(early(rope, q, k, v)[:2], rope(q, k, at - (at >= SEAM).long()))
    ahead, behind = MISTAKES["queries one ahead of their keys"], MISTAKES["queries one behind their keys"]
    torch.testing.assert_close(ahead(rope, q, k, v)[:2], rope(q, k, at + 1, at))
    torch.testing.assert_close(behind(rope, q, k, v)[:2], rope(q, k, at - 1, at))
    torch.testing.assert_close(MISTAKES["written tokens all at 0"](rope, q, k, v)[0][:, :, SEAM:], q[:, :, SEAM:])


def test_frequencies_are_those_of_the_name():
    rope, (q, k, _) = ROPES["half"], content()
    of_head_half = RoPE(64, base=BASE, rotary_dim=32)
    torch.testing.assert_close(
        MISTAKES["half of the head turned"].rotate(rope, q, k, torch.arange(8)), of_head_half(q, k)
    )
    root = RoPE(64, base=BASE**0.5)
    torch.testing.assert_close(MISTAKES["exponent -i/d for -2i/d"].rotate(rope, q, k, torch.arange(8)), root(q, k))
    still = MISTAKES["slow half of the pairs still"].rotate(rope, q, k, torch.arange(8))[0]
    np.testing.assert_array_equal(still[..., 16:32], q[..., 16:32])
    assert not torch.equal(still[..., :16][:, :, 1:], q[..., :16][:, :, 1:])


WITHOUT_A_CONFIGURATION = {
    "rows of queries in halves, of keys interleaved",
    "nothing turned",
    "only queries turned",
    "queries one ahead of their keys",
    "both turned twice",
    "cosines and sines kept in bfloat16",
}
ONLY_WITH_ONE = {"interleaved rows turned as halves", "base 10,000", "half of the head turned"}
CONFIG = {
    "model_type": "llama",
    "hidden_size": 576,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "rope_theta": BASE,
    "max_position_embeddings": 8192,
}


@pytest.mark.parametrize("name", sorted(WITHOUT_A_CONFIGURATION | ONLY_WITH_ONE))
def test_the_doctor_calls_it_wrong(name):
    rope = ROPES["interleaved" if "rows" in name else "half"]

    def turned(q, k, positions):
        return MISTAKES[name].rotate(rope, q, k, positions)

    assert posenc.diagnose(turned, dim=64).healthy == (name in ONLY_WITH_ONE)
    if name in ONLY_WITH_ONE:
        patient = rope if name.startswith("interleaved") else turned
        assert not posenc.diagnose(patient, dim=64, config=CONFIG).healthy
