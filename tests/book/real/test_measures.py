"""What the measurements compute, on content whose result is known."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from posenc.rotate.frequencies import yarn
from posenc.rotate.rope import RoPE
from tests.peers import peer


@pytest.fixture(autouse=True)
def packages():
    peer("gguf")
    peer("tokenizers")


def model(rope, layers=1):
    return SimpleNamespace(layers=[SimpleNamespace(encoding=rope, window=None)] * layers, trained_length=8)


@pytest.mark.parametrize("t", [3, 5, 8, 13, 40])
def test_self_extend_is_its_formula(t):
    from posenc_book.real.stretch import self_extend

    near, group = 5, 3
    rope = RoPE(8, layout="interleaved")
    generator = torch.Generator().manual_seed(t)
    q, k, v = (torch.randn(1, heads, t, 8, generator=generator) for heads in (4, 2, 2))
    p = torch.arange(t)
    offset = p[:, None] - p
    twice = lambda x: x.repeat_interleave(2, dim=1)  # noqa: E731
    close_q, close_k = rope(q, k, p)
    far_q, far_k = rope(q, k, p // group + near - near // group, p // group)
    logits = torch.where(offset < near, close_q @ twice(close_k).mT, far_q @ twice(far_k).mT) * 8**-0.5
    expected = logits.masked_fill(offset < 0, -math.inf).softmax(dim=-1) @ twice(v)
    torch.testing.assert_close(self_extend(model(rope), group, near)(0, q, k, v), expected)


def test_a_stretched_rotation_has_the_frequencies_of_its_recipe():
    from posenc_book.real.stretch import stretched

    rope = stretched(RoPE(64, base=100_000.0, layout="interleaved"), "YaRN", 2.0, 8192)
    theta, factor = yarn(64, 2.0, 8192, 100_000.0)
    np.testing.assert_allclose(rope.theta, theta, rtol=1e-9)
    assert (rope.attention_factor, rope.layout) == (factor, "interleaved")


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_removed_pairs_have_no_part_in_a_logit(layout):
    from posenc_book.real.pairs import members, removed

    rope = RoPE(16, layout=layout)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, 5, 16, generator=generator) for _ in range(3))
    kept_q, kept_k, _ = removed(rope, q, k, v, slice(2, 8))
    turned_q, turned_k = rope(q, k)
    of_two = members(rope, turned_q)[..., :2, :].flatten(-2) @ members(rope, turned_k)[..., :2, :].flatten(-2).mT
    torch.testing.assert_close(kept_q @ kept_k.mT, of_two)


def test_needles_stand_where_they_are_said_to_and_are_repeated_at_the_end():
    from posenc_book.real.where import NEEDLE, with_needles

    haystack, starts = torch.arange(400), [30, 90, 150]
    ids, repeated = with_needles(haystack, starts, 50_000, seed=3)
    assert sorted(repeated) == [400 - 3 * NEEDLE, 400 - 2 * NEEDLE, 400 - NEEDLE]
    for start, again in zip(starts, repeated, strict=True):
        assert ids[0, start : start + NEEDLE].equal(ids[0, again : again + NEEDLE])
    assert ids[0, :30].equal(haystack[:30])


def test_copies_stand_a_gap_behind():
    from posenc_book.real.texts import copying

    ids = copying(50_000, gap=64, seed=0, length=32)
    assert ids[0, :32].equal(ids[0, 64:])
    assert ids.shape == (1, 96)


def test_keys_in_few_bits_are_near_and_a_hadamard_matrix_is_orthogonal():
    from posenc_book.real.caches import hadamard, in_bits

    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    errors = [(in_bits(x, bits) - x).abs().max() for bits in (8, 4, 2)]
    assert errors[0] < errors[1] < errors[2] < 2.5
    assert all(len(row.unique()) <= 16 for row in in_bits(x, 4).unflatten(-1, (-1, 32)).flatten(0, 1))
    torch.testing.assert_close(hadamard(64) @ hadamard(64).T, torch.eye(64))


def test_a_circle_in_rows_is_found_and_noise_holds_none():
    peer("safetensors")
    from posenc_book.real.tables import circle, reading_error

    generator = np.random.default_rng(0)
    angle = 2 * np.pi * 10 * np.arange(500) / 500
    plane = np.linalg.qr(generator.normal(size=(32, 2)))[0].T
    rows = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ plane + generator.normal(size=(500, 32)) * 0.01
    found, noise = circle(rows, 7, 13), circle(generator.normal(size=(500, 32)), 7, 13)
    assert found["turns"] == pytest.approx(10, abs=0.05)
    assert min(found["energy"], found["two"]) > 0.95 > 0.6 > noise["two"]
    assert found["spread"] < 0.05 < noise["spread"]
    line = np.outer(np.arange(500), generator.normal(size=32))
    assert reading_error(line) < 1 < 50 < reading_error(generator.normal(size=(500, 32)))


def test_a_window_and_its_first_tokens_are_what_is_seen():
    from posenc_book.real.caches import window_mask

    mask = window_mask(10, reach=3, first=2)
    assert mask[9].nonzero().flatten().tolist() == [0, 1, 7, 8, 9]
    assert mask[1].nonzero().flatten().tolist() == [0, 1]


@pytest.mark.parametrize(("begin", "end"), [(0, 4), (40, 44)])
def test_tokens_computed_anew_replace_what_a_chunk_had_of_them(begin, end):
    from posenc_book.real.caches import CHUNK, CHUNKS, joined

    rows, visible = joined(begin, end)
    cached, anew = CHUNKS * CHUNK, CHUNKS * (end - begin)
    assert rows[cached : cached + anew].tolist() == [n * CHUNK + at for n in range(CHUNKS) for at in range(begin, end)]
    second, last = CHUNK + begin, cached + anew
    assert not visible[second, :CHUNK].any()  # computed alone, it saw its own chunk
    assert visible[cached + end - begin, :begin].all()  # computed anew, it sees the chunk before
    assert not visible[last:, second].any()
    assert visible[last:, cached + end - begin].all()
    assert visible[last:, CHUNK + end].all()


def test_a_walk_without_its_jump_ends_where_it_began():
    peer("safetensors")
    from posenc_book.real.tables import TABLES

    rows, _ = TABLES["random walk without its jump"]()
    np.testing.assert_allclose(rows[0], rows[-1], atol=1e-9)
    assert np.ptp(rows, axis=0).min() > 1
