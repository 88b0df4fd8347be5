"""RePo: places by hand, RoPE at places of one's own, the authors' module from the hidden state, and what it ignores."""

import numpy as np
import pytest
import torch

from posenc.rotate.repo import RePo, repo
from posenc.rotate.rope import RoPE, rope

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

LEARNED = {"gate", "content", "final"}
OPTIONS = [{"heads": 1}, {"heads": 2, "base": 100.0, "width": 3}]


def content(t=6, s=6, dim=8, heads=4, groups=2, batch=2):
    """Return random q (b, h, t, d) and k (b, g, s, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(batch, heads, t, dim, dtype=torch.float64, generator=generator)
    return q, torch.randn(batch, groups, s, dim, dtype=torch.float64, generator=generator)


def hidden_states(t=6, dim=32, batch=2):
    """Return random x (b, 1, t, d), what a place may be read from."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, 1, t, dim, dtype=torch.float64, generator=generator)


def spread_out(*arguments, **options):
    """Return an encoding in float64 whose places lie apart."""
    torch.manual_seed(1)
    encoding = RePo(*arguments, **options).double().requires_grad_(False)
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding


def assert_close(actual, expected, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


# Values worked by hand


def test_the_place_of_a_token_by_hand():
    """Of x = (1, 2): gate 2 and content 3 make silu(2) * 3 = 5.2848, half of which is the place."""
    x = torch.tensor([[[[1.0, 2.0]]]])
    encoding = RePo(2)
    with torch.no_grad():
        encoding.gate.copy_(torch.tensor([[0.0, 1.0]]))
        encoding.content.copy_(torch.tensor([[1.0, 1.0]]))
        encoding.final.fill_(0.5)
    place = 1.5 * 2 / (1 + np.exp(-2))
    assert_close(encoding.places(x), torch.tensor([[[place]]], dtype=torch.float64), atol=1e-6)
    rotated = repo(x[0], [[0.0, 1.0]], [[1.0, 1.0]], [[0.5]])
    by_hand = [np.cos(place) - 2 * np.sin(place), 2 * np.cos(place) + np.sin(place)]
    np.testing.assert_allclose(rotated, [[by_hand]], rtol=0, atol=1e-15)


def test_it_is_rope_at_the_places_that_it_reads():
    """Read two heads' places, and let RoPE turn each head to its own."""
    q, k = content()
    encoding = spread_out(8, heads=2)
    places = encoding.places(k)
    _, rotated_k = encoding(q, k)
    for b in range(2):
        for head in range(2):
            expected = rope(k[b, head], places[b, head])
            np.testing.assert_allclose(rotated_k[b, head], expected, rtol=0, atol=1e-12)


def test_without_its_last_matrix_there_are_no_positions():
    """With `final` at zero all tokens share a place: no encoding at all."""
    q, k = content()
    encoding = spread_out(8)
    encoding.final.zero_()
    assert_close(encoding(q, k), (q, k), atol=0)


# The paper's form


def test_the_places_of_the_authors_module():
    """As theirs: places of hidden states, one for each head, the same for the query and the key of a token."""
    q, k = content(groups=4)
    x = hidden_states()
    encoding = spread_out(32, heads=4, base=500_000.0)
    assert encoding.gate.shape == (4, 32)  # an eighth of the width
    hidden = torch.nn.functional.silu(x @ encoding.gate.T) * (x @ encoding.content.T)
    places = (hidden @ encoding.final.T).mT[:, 0]  # (b, h, t)
    assert_close(encoding.places(x), places)
    rotated_q, rotated_k = encoding(q, k, x=x)
    for head in range(4):
        expected_q, expected_k = RoPE(8, base=500_000.0)(q, k, places[:, head])
        assert_close(rotated_q[:, head], expected_q[:, head])
        assert_close(rotated_k[:, head], expected_k[:, head])


def test_a_query_head_stands_where_its_key_head_does():
    q, k = content(heads=4, groups=2)
    x = hidden_states()
    encoding = spread_out(32, heads=2)
    rotated_q, _ = encoding(q, k, x=x)
    places = encoding.places(x).repeat_interleave(2, dim=1)
    assert_close(rotated_q, encoding.turn(q, places), atol=0)


def test_keys_may_have_hidden_states_of_their_own():
    q, k = content(t=2, s=6)
    x = hidden_states()
    encoding = spread_out(32)
    m, n = torch.arange(4, 6), torch.arange(6)
    rotated_q, rotated_k = encoding(q, k, m, n, x=x[:, :, 4:], key_x=x)
    assert_close(rotated_q, encoding.turn(q, encoding.places(x)[:, :, 4:]))
    assert_close(rotated_k, encoding.turn(k, encoding.places(x)))
    with pytest.raises(RuntimeError, match="must match"):
        encoding(q, k, m, n, x=x[:, :, 4:])  # places of two tokens, for six keys


def test_it_starts_with_all_tokens_close_together():
    torch.manual_seed(0)
    places = RePo(64, heads=4).places(torch.randn(1, 1, 100, 64))
    assert 0 < places.abs().max() < 0.05


def test_positions_change_nothing():
    q, k = content()
    encoding = spread_out(8)
    assert_close(encoding(q, k, 7 * torch.arange(6), torch.arange(6)), encoding(q, k), atol=0)


# What is refused


def test_integers_are_refused():
    q, k = content()
    with pytest.raises(ValueError, match=r"repo: q and k must be floats \(b, h, t, e\), got torch.int64"):
        RePo(8)(q.long(), k.long())


@pytest.mark.parametrize("shape", [(5,), (1,), (3, 6), (2, 6, 1)], ids=str)
def test_positions_of_another_form_are_refused(shape):
    q, k = content()
    wrong, right = torch.zeros(shape), torch.arange(6)
    for positions, key_positions in ((wrong, right), (right, wrong), (wrong, None)):
        with pytest.raises(ValueError, match=r"repo: positions or key_positions must be 6 a row, got \("):
            RePo(8)(q, k, positions, key_positions)
