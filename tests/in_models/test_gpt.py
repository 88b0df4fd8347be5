"""Copied files in a GPT of one's own: it trains, decodes from a cache what it computes at once, and stores no table."""

import pytest
import torch
import torch.nn.functional as F

from tests.in_models.gpt import GPT

DIM, HEADS, LENGTH = 64, 4, 12
D = DIM // HEADS


def stretched(copied):
    theta, factor = copied("yarn")(D, 4.0, 128)
    return copied("RoPE")(D, theta=theta, attention_factor=factor)


ENCODINGS = {
    "rope": lambda copied: {"rotate": copied("RoPE")(D)},
    "yarn": lambda copied: {"rotate": stretched(copied)},
    "pope": lambda copied: {"rotate": copied("PoPE")(D, heads=HEADS)},
    "mrope": lambda copied: {"rotate": copied("MRoPE")(D)},
    "axial": lambda copied: {"rotate": copied("Axial")(D)},
    "alibi": lambda copied: {"bias": copied("ALiBi")(HEADS)},
    "t5": lambda copied: {"bias": copied("T5")(HEADS, bidirectional=False)},
    "shaw": lambda copied: {"score": copied("Shaw")(D)},
    "sinusoidal": lambda copied: {"add": copied("Sinusoidal")(DIM)},
    "learned": lambda copied: {"add": copied("Learned")(DIM, length=LENGTH)},
}
LEARNED = {"pope": {"phase"}, "t5": {"weight"}, "shaw": {"key_table"}, "learned": {"weight"}}
over_encodings = pytest.mark.parametrize("name", ENCODINGS)


def places(name):
    """Return positions in a text, or the row and the column of each patch of an image."""
    return torch.cartesian_prod(torch.arange(3), torch.arange(4)) if name == "axial" else torch.arange(LENGTH)


def model(name, copied):
    torch.manual_seed(0)
    return GPT(**ENCODINGS[name](copied))


@over_encodings
def test_it_trains(name, copied):
    gpt, positions = model(name, copied), places(name)
    tokens = torch.randint(11, (4, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=3e-3)
    losses = []
    for _ in range(25):
        loss = F.cross_entropy(gpt(tokens[:, :-1], positions).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3
    trained = [parameter for parameter in gpt.parameters() if parameter.grad is not None]
    assert len(trained) == len(list(gpt.parameters()))


@over_encodings
def test_decoding_from_a_cache_equals_all_at_once(name, copied):
    gpt, positions = model(name, copied), places(name)
    with torch.no_grad():
        for parameter in gpt.parameters():  # what starts at zero would say nothing of positions
            parameter.add_(0.05 * torch.randn_like(parameter) - 0.02)
        tokens, cache = torch.randint(11, (2, LENGTH)), {}
        steps = [gpt(tokens[:, :5], positions[:5], cache)]
        steps += [gpt(tokens[:, p : p + 1], positions[: p + 1], cache) for p in range(5, LENGTH)]
        torch.testing.assert_close(torch.cat(steps, dim=1), gpt(tokens, positions), rtol=0, atol=2e-5)


@over_encodings
def test_the_checkpoint_holds_what_is_learned_alone(name, copied):
    more = model(name, copied).state_dict().keys() - GPT().state_dict().keys()
    assert {key.rpartition(".")[2] for key in more} == LEARNED.get(name, set())
