"""RePo: places by hand, RoPE at places of one's own, the authors' module from the hidden state, and what it ignores."""

import numpy as np
import pytest
import torch

from posenc.rotate.repo import RePo, repo
from posenc.rotate.rope import RoPE, rope

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

LEARNED = {"gate", "content", "final"}
OPTIONS = [{"heads": 1}, {"heads": 2, "base": 100.0, "width": 3}]


def tokens(t=6, s=6, dim=8, heads=4, groups=2, batch=2):
    draw = torch.Generator().manual_seed(0)
    q = torch.randn(batch, heads, t, dim, dtype=torch.float64, generator=draw)
    return q, torch.randn(batch, groups, s, dim, dtype=torch.float64, generator=draw)


def wide(*arguments, **settings):
    """Return an encoding in float64 whose places lie apart."""
    torch.manual_seed(1)
    encoding = RePo(*arguments, **settings).double().requires_grad_(False)
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding


def close(made, expected, atol=1e-12):
    torch.testing.assert_close(made, expected, rtol=0, atol=atol)


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
    close(encoding.places(x), torch.tensor([[[place]]], dtype=torch.float64), atol=1e-6)
    turned = repo(x[0].numpy(), [[0.0, 1.0]], [[1.0, 1.0]], [[0.5]])
    by_hand = [np.cos(place) - 2 * np.sin(place), 2 * np.cos(place) + np.sin(place)]
    np.testing.assert_allclose(turned, [[by_hand]], rtol=0, atol=1e-15)


def test_it_is_rope_at_the_places_that_it_reads():
    """Read two heads' places, and let RoPE turn each head to its own."""
    (q, k), encoding = tokens(), wide(8, heads=2)
    places = encoding.places(k)
    turned = encoding(q, k)[1]
    for b in range(2):
        for head in range(2):
            expected = rope(k[b, head].numpy(), places[b, head].numpy())
            np.testing.assert_allclose(turned[b, head], expected, rtol=0, atol=1e-12)


def test_without_its_last_matrix_there_are_no_positions():
    """With `final` at zero all tokens share a place: no encoding at all."""
    (q, k), encoding = tokens(), wide(8)
    encoding.final.zero_()
    close(encoding(q, k), (q, k), atol=0)


# The paper's form


def test_the_places_of_the_authors_module():
    """As theirs: places of hidden states, one for each head, the same for the query and the key of a token."""
    (q, k), draw = tokens(groups=4), torch.Generator().manual_seed(2)
    x = torch.randn(2, 6, 32, dtype=torch.float64, generator=draw)
    encoding = wide(32, heads=4, base=500_000.0)
    assert encoding.gate.shape == (4, 32)  # an eighth of the width
    hidden = torch.nn.functional.silu(x @ encoding.gate.T) * (x @ encoding.content.T)
    places = (hidden @ encoding.final.T).mT  # (b, h, t)
    close(encoding.places(x[:, None]), places)
    turned = encoding(q, k, x=x[:, None])
    plain = RoPE(8, base=500_000.0)
    for head in range(4):
        one = slice(head, head + 1)
        close(turned[0][:, one], plain.turn(q[:, one], places[:, head]))
        close(turned[1][:, one], plain.turn(k[:, one], places[:, head]))


def test_a_query_head_stands_where_its_key_head_does():
    (q, k), x = tokens(), torch.randn(2, 1, 6, 32, dtype=torch.float64)
    encoding = wide(32, heads=2)
    places = encoding.places(x).repeat_interleave(2, dim=1)
    close(encoding(q, k, x=x)[0], encoding.turn(q, places), atol=0)


def test_keys_may_have_hidden_states_of_their_own():
    (q, k), x = tokens(t=2), torch.randn(2, 1, 6, 32, dtype=torch.float64)
    encoding = wide(32)
    new = x[:, :, 4:]
    made = encoding(q, k, x=new, key_x=x)
    close(made[1], encoding(k, k, x=x)[1])
    close(made[0], encoding.turn(q, encoding.places(x)[:, :, 4:]))
    with pytest.raises(RuntimeError):
        encoding(q, k, x=new)  # places of two tokens, for six keys


def test_it_starts_with_all_tokens_close_together():
    torch.manual_seed(0)
    places = RePo(64, heads=4).places(torch.randn(1, 1, 100, 64))
    assert 0 < places.abs().max() < 0.05


def test_positions_change_nothing():
    (q, k), encoding = tokens(), wide(8)
    close(encoding(q, k, 7 * torch.arange(6), torch.arange(6)), encoding(q, k), atol=0)


# What is refused


def test_integers_are_refused():
    q, k = (x.long() for x in tokens())
    with pytest.raises(ValueError, match=r"repo: q and k must be floats \(b, h, t, e\), got torch.int64"):
        RePo(8)(q, k)


@pytest.mark.parametrize("shape", [(5,), (1,), (3, 6), (2, 6, 1)], ids=str)
def test_positions_of_another_form_are_refused(shape):
    q, k = tokens()
    for told in ((torch.zeros(shape), torch.arange(6)), (torch.arange(6), torch.zeros(shape))):
        with pytest.raises(ValueError, match=r"repo: positions must be 6 a row, got \("):
            RePo(8)(q, k, *told)
