"""Copied files in code that keeps heads behind tokens, (b, t, h, d), as torchtune, Meta and FlashAttention do."""

import pytest
import torch
import torch.nn.functional as F

LENGTH, HEADS, GROUPS, D = 6, 8, 2, 16


def content(batch=2):
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(batch, LENGTH, heads, D, generator=generator) for heads in (HEADS, GROUPS, GROUPS))


def attend(q, k, v, bias=None, scale=D**-0.5):
    """Attend as flash_attn_func(causal=True) does: heads behind tokens, few heads of keys serve many of queries."""
    mask = torch.full((q.shape[1], k.shape[1]), float("-inf")).triu(k.shape[1] - q.shape[1] + 1)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    mask = mask if bias is None else mask + bias
    return F.scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=True).transpose(1, 2)


def rotated_as_meta_does(x, positions):
    """Turn neighbors by complex numbers, as the code that came with the weights of Llama does."""
    angle = positions[:, None] * 10_000.0 ** (-torch.arange(0, D, 2) / D)
    turns = torch.polar(torch.ones_like(angle), angle)[:, None]
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turns).flatten(-2)


def test_rope_turns_heads_behind_tokens_as_meta_does(copied):
    rope, (q, k, _) = copied("RoPE")(D, layout="interleaved"), content()
    positions = torch.arange(LENGTH) + 3
    rotated = rope(q.transpose(1, 2), k.transpose(1, 2), positions)
    for result, x in zip(rotated, (q, k), strict=True):
        expected = rotated_as_meta_does(x, positions)
        torch.testing.assert_close(result.transpose(1, 2), expected, rtol=0, atol=2e-6)


def test_rope_decodes_with_heads_behind_tokens(copied):
    rope, (q, k, v) = copied("RoPE")(D), content()
    heads_first = lambda q, k: (q.transpose(1, 2), k.transpose(1, 2))  # noqa: E731
    whole, cache = attend(*heads_first(*rope(*heads_first(q, k))), v), []
    for p in range(LENGTH):
        new = heads_first(q[:, p : p + 1], k[:, p : p + 1])
        new_q, new_k = heads_first(*rope(*new, torch.tensor([p])))
        cache.append(new_k)
        step = attend(new_q, torch.cat(cache, dim=1), v[:, : p + 1])
        torch.testing.assert_close(step, whole[:, p : p + 1], rtol=0, atol=2e-6)


# Without the remedy there is an error that names it, and with it attention is what NumPy says

OTHERS = {
    "PoPE": lambda copied: copied("PoPE")(D, heads=HEADS),
    "MRoPE": lambda copied: copied("MRoPE")(D),
    "Axial": lambda copied: copied("Axial")(D),
    "Shaw": lambda copied: copied("Shaw")(D),
}


def places(name):
    row = torch.arange(LENGTH)
    of_image = {"Axial": torch.stack([row // 3, row % 3], dim=1), "MRoPE": torch.stack([row, row // 3, row % 3], dim=1)}
    return of_image.get(name, row)


@pytest.mark.parametrize("name", ["RoPE", "PoPE", "MRoPE", "Shaw"])
def test_tokens_before_heads_are_refused_with_the_remedy(name, copied):
    module = copied("RoPE")(D) if name == "RoPE" else OTHERS[name](copied)
    q, k, _ = content()
    with pytest.raises(ValueError, match=r"transpose\(1, 2\)"):
        module(q, k)


@pytest.mark.parametrize("name", ["RoPE", *OTHERS])
def test_tokens_before_heads_are_refused_by_the_number_of_positions(name, copied):
    module = copied("RoPE")(D) if name == "RoPE" else OTHERS[name](copied)
    q, k, _ = content()
    with pytest.raises(ValueError, match=rf"{name.lower()}: .*\b({LENGTH}|{HEADS})\b"):
        module(q, k, *[places(name)] * 2)


@pytest.mark.parametrize("name", OTHERS)
def test_with_the_remedy_attention_is_what_numpy_says(name, copied):
    module, (q, k, v), at = OTHERS[name](copied).requires_grad_(False), content(), places(name)
    for parameter in module.parameters():  # as if trained
        parameter.uniform_(-1, 0)
    heads_first = [x.transpose(1, 2) for x in (q, k)]
    if name == "Shaw":
        y = attend(q, k, v, bias=module(*heads_first, at, at))
    else:
        turned_q, turned_k = module(*heads_first, at, at)
        y = attend(turned_q.transpose(1, 2), turned_k.transpose(1, 2), v)
    for row in range(len(q)):
        logits = logits_of(copied(name.lower()), *(x[row].double().numpy() for x in heads_first), at.numpy(), module)
        weights = torch.from_numpy(logits).masked_fill(torch.ones(LENGTH, LENGTH).triu(1).bool(), float("-inf"))
        of_heads = v[row].double().repeat_interleave(HEADS // GROUPS, dim=1)
        expected = torch.einsum("hts,shd->thd", weights.softmax(dim=-1), of_heads)
        torch.testing.assert_close(y[row].double(), expected, rtol=0, atol=2e-6)


def logits_of(twin, q, k, at, module):
    """Return the logits (h, t, s) by the NumPy function of a file."""
    if twin.__name__ == "pope":
        return twin(q, k, at, at, phase=module.phase.numpy()) * D**-0.5
    more = k.repeat(HEADS // GROUPS, axis=0)
    if twin.__name__ == "shaw":
        return q @ more.swapaxes(1, 2) * D**-0.5 + twin(q, k, at, at, module.key_table.numpy())
    return twin(q, at) @ twin(more, at).swapaxes(1, 2) * D**-0.5


# What adds to embeddings or to logits does not see the order


def test_alibi_is_the_bias_that_flash_attention_makes_of_the_slopes(copied):
    q, k, v = content()
    slopes = torch.from_numpy(copied("alibi_slopes")(HEADS)).float()
    positions = torch.arange(LENGTH)
    theirs = -slopes[:, None, None] * (positions[:, None] - positions).abs()  # what its alibi_slopes= documents
    ours = copied("ALiBi")(HEADS)(positions)
    torch.testing.assert_close(attend(q, k, v, ours), attend(q, k, v, theirs), rtol=0, atol=1e-6)
