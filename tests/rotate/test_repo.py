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
    # of x = (1, 2): gate 2 and content 3 make silu(2) * 3 = 5.2848, of which the place is 0.3
    x = torch.tensor([[[[1.0, 2.0]]]])
    encoding = RePo(2)
    encoding.gate.data = torch.tensor([[0.0, 1.0]])
    encoding.content.data = torch.tensor([[1.0, 1.0]])
    encoding.final.data.fill_(0.3)
    place = 0.3 * 3 * 2 / (1 + np.exp(-2))
    assert_close(encoding.places(x), torch.tensor([[[place]]], dtype=torch.float64), atol=1e-6)
    turned = repo(x[0], [[0.0, 1.0]], [[1.0, 1.0]], [[0.3]])
    by_hand = [np.cos(place) - 2 * np.sin(place), 2 * np.cos(place) + np.sin(place)]
    np.testing.assert_allclose(turned, [[by_hand]], rtol=0, atol=1e-15)


@pytest.mark.parametrize("base", [10_000.0, 1.0])
def test_it_is_rope_at_the_places_that_it_reads(base):
    q, k = content()
    encoding = spread_out(8, heads=2, base=base)
    places = encoding.places(k)
    _, turned_k = encoding(q, k)
    for b in range(2):
        for head in range(2):
            expected = rope(k[b, head], places[b, head], base)
            np.testing.assert_allclose(turned_k[b, head], expected, rtol=0, atol=1e-12)


def test_without_its_last_matrix_there_are_no_positions():
    q, k = content()
    encoding = spread_out(8)
    encoding.final.zero_()
    assert_close(encoding(q, k), (q, k), atol=0)


# The paper's form


def test_the_places_of_the_authors_module():
    # places of hidden states, a place for each head, the same for the query and the key of a token
    q, k = content(groups=4)
    x = hidden_states()
    encoding = spread_out(32, heads=4, base=500_000.0)
    assert encoding.gate.shape == (4, 32)  # an eighth of the width
    hidden = torch.nn.functional.silu(x @ encoding.gate.T) * (x @ encoding.content.T)
    places = (hidden @ encoding.final.T).mT[:, 0]  # (b, h, t)
    assert_close(encoding.places(x), places)
    turned_q, turned_k = encoding(q, k, x=x)
    for head in range(4):
        expected_q, expected_k = RoPE(8, base=500_000.0)(q, k, places[:, head])
        assert_close(turned_q[:, head], expected_q[:, head])
        assert_close(turned_k[:, head], expected_k[:, head])


def test_a_query_head_stands_where_its_key_head_does():
    q, k = content(heads=4, groups=2)
    x = hidden_states()
    encoding = spread_out(32, heads=2)
    turned_q, _ = encoding(q, k, x=x)
    places = encoding.places(x).repeat_interleave(2, dim=1)
    assert_close(turned_q, encoding.turn(q, places), atol=0)


def test_keys_may_have_hidden_states_of_their_own():
    q, k = content(t=2, s=6)
    x = hidden_states()
    encoding = spread_out(32)
    m, n = torch.arange(4, 6), torch.arange(6)
    turned_q, turned_k = encoding(q, k, m, n, x=x[:, :, 4:], key_x=x)
    assert_close(turned_q, encoding.turn(q, encoding.places(x)[:, :, 4:]))
    assert_close(turned_k, encoding.turn(k, encoding.places(x)))
    with pytest.raises(RuntimeError, match="must match"):
        encoding(q, k, m, n, x=x[:, :, 4:])  # places of two tokens, for six keys


def test_it_starts_with_all_tokens_close_together():
    torch.manual_seed(0)
    places = RePo(64, heads=4).places(torch.randn(1, 1, 100, 64))
    assert 0 < places.abs().max() < 0.05


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_rounded_once(dtype):
    q = content()[0].to(dtype)
    encoding = spread_out(8)
    assert torch.equal(encoding.turn(q, encoding.places(q)), encoding.turn(q.float(), encoding.places(q)).to(dtype))


# What is refused


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("q", torch.ones(2, 4, 6, 8).long(), "q and k must be floating point, got torch.int64"),
        ("positions", torch.zeros(5), r"positions or key_positions must have shape \(6,\) or \(2, 6\), got \(5,\)"),
        (
            "positions",
            torch.zeros(3, 6),
            r"positions or key_positions must have shape \(6,\) or \(2, 6\), got \(3, 6\)",
        ),
        ("key_positions", torch.zeros(1), r"positions or key_positions must have shape \(6,\) or \(2, 6\), got \(1,\)"),
    ],
)
def test_what_would_be_wrong_without_an_error_is_refused(name, value, message):
    q, k = content()
    with pytest.raises(ValueError, match=f"repo: {message}"):
        RePo(8)(**{"q": q, "k": k, "positions": torch.arange(6)} | {name: value})
